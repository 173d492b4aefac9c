// The commands that a session's shell ran; a click shows what one printed.

import { askJson } from "./access.js";
import { statusOf, statusText } from "./list.js";
import { make } from "./screen.js";
import { BY, duration, when } from "./words.js";

const AT_ONCE = 100;

export class Commands {
  /** `told(commands)` is called with those that are known, whenever they were asked for. */
  constructor(id, told) {
    this.id = id;
    this.told = told;
    this.element = make("section", "commands");
    this.items = make("ol", "items");
    this.note = make("p", "note");
    this.element.append(make("h2", "", "Commands"), this.note, this.items);
    this.open = new Map();
  }

  async refresh() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      this.show(await askJson("/page/commands", { session: this.id, limit: AT_ONCE }));
    } catch (error) {
      this.note.textContent = error.message;
    }
    this.busy = false;
    if (this.again) {
      this.again = false;
      this.refresh();
    }
  }

  show({ commands, note }) {
    this.note.textContent = commands.length ? "" : note || "None yet.";
    this.told(commands);
    const focused = this.items.contains(document.activeElement) && document.activeElement.closest(".item")?.dataset.number;
    this.items.replaceChildren(...[...commands].reverse().map((command) => this.item(command)));
    if (focused) this.items.querySelector(`[data-number="${focused}"] .line`)?.focus({ preventScroll: true });
  }

  item(command) {
    const item = make("li", "item");
    item.dataset.number = command.number;
    const button = make("button", "line");
    button.setAttribute("aria-expanded", "false");
    const facts = [BY[command.by], duration(command.duration_ms), when(command.started_at)].filter(Boolean).join("  ·  ");
    const status = make("span", `status ${statusOf(command)}`, statusText(command));
    status.setAttribute("aria-label", command.exit_code === null ? "still runs, or not known" : `exit code ${command.exit_code}`);
    const words = make("span", "words");
    words.append(make("code", "text", command.text ?? "(not known)"), make("span", "facts", facts));
    button.append(status, words);
    const output = this.open.get(command.number) || make("pre", "output");
    output.hidden = !this.open.has(command.number);
    button.setAttribute("aria-expanded", String(!output.hidden));
    button.addEventListener("click", () => this.toggle(command, button, output));
    item.append(button, output);
    return item;
  }

  async toggle(command, button, output) {
    output.hidden = !output.hidden;
    button.setAttribute("aria-expanded", String(!output.hidden));
    if (output.hidden) {
      this.open.delete(command.number);
      return;
    }
    this.open.set(command.number, output);
    output.textContent = "…";
    try {
      const read = await askJson("/page/output", { session: this.id, command: command.number });
      output.textContent = read.content || "It printed nothing.";
      output.classList.toggle("nothing", !read.content);
    } catch (error) {
      output.textContent = `${error.message} ${error.hint || ""}`;
    }
  }
}
