// The sessions that had one name after another, of which something is kept: each is a link.

import { askJson } from "./access.js";
import { make } from "./screen.js";
import { when } from "./words.js";

/** `ID.N` in the address is an earlier session of the name ID, its generation N. */
export function namedBy(id) {
  const [name, generation] = id.split(".");
  return { name, generation: generation === undefined ? null : Number(generation) };
}

export class Generations {
  /** `shown`: the generation that is looked at; null: the newest. */
  constructor(name, shown) {
    this.name = name;
    this.shown = shown;
    this.element = make("section", "generations");
    this.element.hidden = true;
    this.links = make("ol", "links");
    this.element.append(make("h2", "", "Sessions of this name"), this.links);
    this.refresh();
  }

  async refresh() {
    const found = await askJson("/page/generations", { session: this.name }).catch(() => []);
    const newest = Math.max(...found.map((each) => each.generation));
    this.element.hidden = found.length < 2;
    this.links.replaceChildren(
      ...found.reverse().map(({ generation, created_at: made }) => {
        const item = make("li");
        const link = make("a", "generation");
        const last = generation === newest;
        link.href = `#session=${last ? this.name : `${this.name}.${generation}`}`;
        link.append(make("span", "", last ? "The newest" : `Number ${generation}`), make("span", "when", `made ${when(made)}`));
        if (generation === (this.shown ?? newest)) link.setAttribute("aria-current", "page");
        item.append(link);
        return item;
      }),
    );
  }
}
