// Asks before an address that a program printed is opened.

import { make } from "./screen.js";

export function confirmLink(url) {
  const dialog = make("dialog", "ask");
  const heading = make("h2", "", "Open this address?");
  const text = make("p", "url", url);
  const why = make("p", "note", "A program printed it. It opens in a new tab, which is not told where it came from.");
  const open = make("button", "main", "Open");
  const cancel = make("button", "", "Cancel");
  const buttons = make("div", "buttons");
  buttons.append(cancel, open);
  dialog.append(heading, text, why, buttons);
  open.addEventListener("click", () => {
    window.open(url, "_blank", "noopener,noreferrer");
    dialog.close();
  });
  cancel.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  cancel.focus();
}
