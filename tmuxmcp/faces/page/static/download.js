// Hands a session's recording to the browser's downloads.

import { ask } from "./access.js";
import { make } from "./screen.js";

const FORMATS = [["cast", "Recording (asciicast)", "cast"], ["txt", "Text", "txt"], ["gif", "Moving picture (GIF)", "gif"], ["svg", "Moving picture (SVG)", "svg"], ["html", "Text with colours (HTML)", "html"]];

export function download(id) {
  const element = make("section", "download");
  const choice = make("select");
  choice.setAttribute("aria-label", "Format");
  for (const [format, text] of FORMATS) choice.append(new Option(text, format));
  const button = make("button", "", "Download");
  const note = make("p", "note");
  note.setAttribute("role", "status");
  const line = make("div", "choice");
  line.append(choice, button);
  element.append(make("h2", "", "Take it with you"), line, note);
  button.addEventListener("click", async () => {
    const format = choice.value;
    button.disabled = true;
    note.textContent = "It is being made…";
    try {
      const blob = await (await ask("/page/export", { session: id, format })).blob();
      const link = make("a");
      link.href = URL.createObjectURL(blob);
      link.download = `${id}.${FORMATS.find(([name]) => name === format)[2]}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      note.textContent = "";
    } catch (error) {
      note.textContent = `${error.message} ${error.hint || ""}`;
    }
    button.disabled = false;
  });
  return element;
}
