// Asks before an address that a program printed is opened.

import { make } from "./screen.js";

export function confirmLink(printed) {
  const url = openable(printed);
  if (!url) return;
  const dialog = make("dialog", "ask");
  const heading = make("h2", "", "Open this address?");
  const text = make("p", "url", url);
  const why = make("p", "note", "A program printed it. It opens in a new tab, which is not told where it came from.");
  const open = make("a", "button main", "Open");
  open.href = url;
  open.target = "_blank";
  open.rel = "noopener noreferrer";
  const cancel = make("button", "", "Cancel");
  const buttons = make("div", "buttons");
  buttons.append(cancel, open);
  dialog.append(heading, text, why, buttons);
  open.addEventListener("click", () => dialog.close());
  cancel.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  cancel.focus();
}

/** The address as the browser would open it; empty: it is none that the page opens. */
function openable(printed) {
  const url = URL.canParse(printed) ? new URL(printed) : null;
  return url && ["http:", "https:"].includes(url.protocol) ? url.href : "";
}
