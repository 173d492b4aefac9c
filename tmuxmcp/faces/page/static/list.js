// The list of all sessions: those that need a person first.

import { fill } from "./cells.js";
import { make } from "./screen.js";
import { ago, groupOf, NEED, programOf, shortPath, stateOf, stateWords } from "./words.js";

export class List {
  constructor() {
    this.element = make("main", "list");
    this.cards = new Map();
    this.filter = make("input", "filter");
    this.filter.type = "search";
    this.filter.placeholder = "Filter sessions";
    this.filter.setAttribute("aria-label", "Filter sessions");
    this.filter.addEventListener("input", () => this.arrange());
    this.count = make("p", "count");
    this.groups = [group("Live", (card) => card.group !== "over"), group("Ended", (card) => card.group === "over")];
    this.empty = make("div", "empty");
    this.empty.append(make("h2", "", "No sessions yet"), make("p", "", "They appear here as soon as an agent or you make one: "));
    this.empty.lastChild.append(make("code", "", "tmuxmcp new --name build bash"));
    this.element.append(...this.groups.map((each) => each.section), this.empty);
    setInterval(() => this.cards.forEach((card) => card.age()), 5000);
  }

  /** `partial`: there are sessions of which nothing is told. */
  update(rows, partial) {
    this.partial = partial;
    for (const [id, row] of rows) {
      if (!this.cards.has(id)) this.cards.set(id, new Card(id));
      this.cards.get(id).show(row);
    }
    for (const [id, card] of this.cards) {
      if (!rows.has(id)) {
        card.element.remove();
        this.cards.delete(id);
      }
    }
    this.arrange();
  }

  arrange() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = [...this.cards.values()].filter((card) => words.every((word) => card.words.includes(word)));
    shown.sort((one, other) => need(one) - need(other) || newer(one.row, other.row));
    for (const { section, cards, number, takes } of this.groups) {
      const elements = shown.filter(takes).map((card) => card.element);
      if (elements.length !== cards.children.length || elements.some((each, at) => each !== cards.children[at])) {
        const focused = document.activeElement;
        cards.replaceChildren(...elements);
        if (cards.contains(focused)) focused.focus({ preventScroll: true });
      }
      number.textContent = String(elements.length);
      section.hidden = !elements.length;
    }
    this.empty.hidden = this.cards.size > 0 || this.partial;
  }

  /** Moves the focus to the next or the previous card. */
  step(by) {
    const all = [...this.element.querySelectorAll("a.card")];
    const at = all.indexOf(document.activeElement);
    all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)]?.focus();
  }
}

/** The less, the more it needs a person. */
function need(card) {
  if (card.group === "needs") return card.row.waiting ? 0 : 1;
  return card.row.yours && card.group !== "over" ? 2 : 2 + NEED.indexOf(card.group);
}

function newer(one, other) {
  return one.created_at < other.created_at ? 1 : -1;
}

function group(title, takes) {
  const section = make("section", `group ${title.toLowerCase()}`);
  const heading = make("h2", "", title);
  const number = make("span", "number");
  heading.append(" ", number);
  const cards = make("div", "cards");
  section.append(heading, cards);
  return { section, cards, number, takes };
}

class Card {
  constructor(id) {
    this.element = make("a", "card");
    this.element.href = `#session=${encodeURIComponent(id)}`;
    this.dot = make("span", "dot");
    this.state = make("span", "state");
    this.badges = make("span", "badges");
    const head = make("div", "head");
    head.append(this.dot, make("h3", "name", id), this.badges, this.state);
    this.place = make("p", "place");
    this.tail = make("div", "tail");
    this.tail.setAttribute("aria-hidden", "true");
    this.command = make("span", "command");
    this.when = make("span", "when");
    const foot = make("div", "foot");
    foot.append(this.command, this.when);
    this.element.append(head, this.place, this.tail, foot);
  }

  show(row) {
    this.row = row;
    this.group = groupOf(row);
    this.element.dataset.state = stateOf(row);
    this.state.textContent = stateWords(row);
    this.place.textContent = [programOf(row), row.cwd && shortPath(row.cwd)].filter(Boolean).join("  ·  ");
    this.badges.replaceChildren(...badges(row));
    this.tail.replaceChildren(
      ...row.tail.map((spans) => {
        const line = make("div", "row");
        fill(line, spans);
        return line;
      }),
    );
    this.tail.hidden = !row.tail.length;
    this.command.replaceChildren(...commandOf(row.command, this.group === "over"));
    this.words = [row.session_id, programOf(row), row.cwd, row.title, row.mode, stateWords(row), row.command?.text]
      .join(" ").toLowerCase();
    this.age();
  }

  age() {
    this.when.textContent = ago(this.row.ended?.at || this.row.last_activity_at || this.row.created_at);
  }
}

function badges(row) {
  const found = [];
  if (row.taken_over) found.push(make("span", "badge taken", `held by ${row.taken_over.by}`));
  if (row.paused) found.push(make("span", "badge taken", "paused"));
  if (row.watched) found.push(make("span", "badge", "watched"));
  if (row.pinned) found.push(make("span", "badge", "pinned"));
  return found;
}

function commandOf(command, over) {
  if (!command) return [];
  const unknown = over && command.exit_code === null;
  const mark = make("span", `status ${unknown ? "unknown" : statusOf(command)}`, unknown ? "–" : statusText(command));
  return [mark, make("span", "text", command.text ?? "")];
}

export function statusOf(command) {
  if (command.exit_code === null) return command.end_offset === null ? "runs" : "unknown";
  return command.exit_code ? "failed" : "done";
}

export function statusText(command) {
  if (command.exit_code === null) return command.end_offset === null ? "…" : "?";
  return command.exit_code ? String(command.exit_code) : "✓";
}
