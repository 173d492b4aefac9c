// Finds a pattern in all that a session printed.

import { askJson } from "./access.js";
import { make } from "./screen.js";

export class Search {
  /** `go(offset)` shows the screen at the place of a match. */
  constructor(id, go) {
    this.go = go;
    this.element = make("section", "search");
    const form = make("form", "ask-for");
    form.setAttribute("role", "search");
    this.input = make("input");
    this.input.type = "search";
    this.input.placeholder = "Search the output (regex)";
    this.input.setAttribute("aria-label", "Search the output");
    form.append(this.input);
    this.note = make("p", "note");
    this.found = make("ol", "found");
    this.element.append(form, this.note, this.found);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.search(id, this.input.value);
    });
    this.input.addEventListener("search", () => !this.input.value && this.show([], ""));
  }

  async search(id, pattern) {
    if (!pattern) return this.show([], "");
    this.note.textContent = "Searching…";
    try {
      const { matches, total } = await askJson("/page/search", { session: id, pattern });
      const shown = matches.length < total ? `, the first ${matches.length} of them here` : "";
      this.show(matches, total ? `${total} ${total === 1 ? "line" : "lines"}${shown}` : "Nothing found.");
    } catch (error) {
      this.show([], `${error.message} ${error.hint || ""}`);
    }
  }

  show(matches, note) {
    this.note.textContent = note;
    this.found.replaceChildren(
      ...matches.map((match) => {
        const item = make("li");
        const button = make("button", "match", match.text);
        button.title = "Show the screen of then";
        button.addEventListener("click", () => this.go(match.offset));
        item.append(button);
        return item;
      }),
    );
  }
}
