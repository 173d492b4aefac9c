// Machines that tell nothing, of a page that shows many: their sessions are not shown as if they were there.

import { make } from "./screen.js";

const NODE = /(?:@|_at_)([a-z0-9][a-z0-9-]*)(?:\.\d+)?$/;

/** The machine that an id names; empty: none. */
export function nodeOf(id) {
  return NODE.exec(id)?.[1] || "";
}

export class Missing {
  constructor() {
    this.element = make("section", "missing");
    this.element.setAttribute("role", "status");
    this.element.hidden = true;
    this.machines = [];
  }

  /** Takes which machines are missing, and why. */
  take(machines) {
    this.machines = machines;
    this.element.hidden = !machines.length;
    this.element.replaceChildren(
      ...machines.map(({ node, message, hint }) => {
        const line = make("p", "", node ? `Nothing is shown of ${node}. ` : "");
        line.append(make("span", "why", `${message} ${hint}`));
        return line;
      }),
    );
  }

  /** Why nothing is known of what an id names; nothing: its machine tells. */
  about(id) {
    const node = nodeOf(id);
    return this.machines.find((each) => each.node === node && node) || this.machines.find((each) => !each.node);
  }
}
