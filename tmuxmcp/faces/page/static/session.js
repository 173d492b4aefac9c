// One session: its screen as it is now, what it ran, what it showed before.

import { askJson } from "./access.js";
import { Commands } from "./commands.js";
import { confirmLink } from "./dialog.js";
import { download } from "./download.js";
import { Hands } from "./hands.js";
import { Past } from "./past.js";
import { Pause } from "./pause.js";
import { Screen, make } from "./screen.js";
import { Search } from "./search.js";
import { Generations, namedBy } from "./generations.js";
import { groupOf, stateOf, stateWords } from "./words.js";

export class Session {
  constructor(id) {
    this.id = id;
    this.element = make("main", "session");
    this.screen = new Screen({ label: `Screen of ${id}`, onLink: confirmLink });
    this.notice = make("p", "over");
    this.notice.hidden = true;
    const stage = make("div", "stage");
    this.past = new Past(id, { show: (frame) => this.then(frame), live: () => this.back() });
    this.hands = new Hands(id, this.screen, { now: () => this.past.at !== null && this.past.leave() });
    this.pause = new Pause(id, (text) => this.hands.say(text));
    stage.append(this.bar(), this.screen.element, this.hands.keys.element, this.hands.note, this.notice, this.past.element);
    this.commands = new Commands(id, (commands) => {
      this.past.setCommands(commands);
      this.past.refresh();
    });
    const aside = make("aside", "aside");
    aside.append(this.commands.element, new Search(id, (offset) => this.past.go({ offset })).element);
    this.element.append(stage, aside);
    const { name, generation } = namedBy(id);
    this.earlier = generation !== null;
    aside.append(download(id), new Generations(name, generation).element);
    if (this.earlier) this.begin();
  }

  /** An earlier session of a name: of that no list and no stream tells. */
  begin() {
    this.commands.refresh();
    this.ended();
  }

  /** What stands above the screen. */
  bar() {
    const bar = make("div", "bar");
    this.dot = make("span", "dot");
    this.state = make("span", "state");
    this.title = make("span", "title");
    this.size = make("span", "size");
    const zoom = make("select", "zoom");
    zoom.setAttribute("aria-label", "Size of the letters");
    for (const [value, text] of [["fit", "Fit"], ["12", "12"], ["14", "14"], ["16", "16"], ["20", "20"], ["26", "26"]]) {
      zoom.append(new Option(text, value));
    }
    zoom.addEventListener("change", () => this.screen.setZoom(zoom.value === "fit" ? "fit" : Number(zoom.value)));
    const copy = make("button", "", "Copy");
    copy.title = "Copy the text of the screen";
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(this.screen.text);
        copy.textContent = "Copied";
      } catch {
        copy.textContent = "Refused"; // by the browser: it has a clipboard only behind TLS and on loopback
      }
      setTimeout(() => (copy.textContent = "Copy"), 1200);
    });
    bar.append(this.dot, this.state, this.hands.holder, this.pause.badge, this.title, this.size, zoom, copy, this.pause.button, this.hands.toggle);
    return bar;
  }

  /** It is shown no more. */
  close() {
    this.past.close();
    this.hands.close();
  }

  /** Takes what is known of it from the list; `away`: why its machine tells nothing. */
  update(row, away) {
    const before = this.row;
    const command = before?.command;
    this.row = row;
    if (!row) {
      if (away) this.vanished("its machine does not answer", away);
      else if (before) this.vanished("not kept any more");
      return;
    }
    this.element.dataset.state = stateOf(row);
    this.state.textContent = stateWords(row);
    this.size.textContent = `${row.cols}×${row.rows}`;
    this.past.alive = groupOf(row) !== "over";
    this.hands.update(row);
    this.pause.show(row.paused, this.past.alive);
    if (JSON.stringify(command) !== JSON.stringify(row.command) || !this.asked) {
      this.asked = true;
      this.commands.refresh();
    }
  }

  /** Nothing is known of it any more. */
  vanished(why, away) {
    this.element.dataset.state = "over";
    this.state.textContent = why;
    this.past.alive = false;
    this.hands.update(undefined, away);
    this.pause.show("", false);
  }

  take(message) {
    this.away = Boolean(message.away);
    if (this.past.at === null) this.screen.element.classList.toggle("unknown", this.away);
    if (message.error) return this.say(`${message.error.message} ${message.error.hint || ""}`);
    if (message.over) return this.ended();
    this.notice.hidden = true;
    this.keep(message);
    if (this.past.at === null) this.screen.show(message);
    if (this.hands.mine) this.hands.place();
    this.title.textContent = message.facts[3];
  }

  /** Keeps the screen of now, also while that of then is shown. */
  keep({ size, facts, lines }) {
    const same = this.now && this.now.size[0] === size[0] && this.now.size[1] === size[1];
    this.now = { size, facts, lines: { ...(same ? this.now.lines : {}), ...lines } };
  }

  /** Shows a screen of the past; one that is not known is empty, and does not look like one. */
  then(frame) {
    this.screen.element.classList.toggle("unknown", frame === null);
    this.screen.show(frame ?? emptied(this.screen.size));
  }

  back() {
    this.screen.element.classList.toggle("unknown", Boolean(this.away));
    if (this.now) this.screen.show(this.now);
  }

  async ended() {
    if (this.now) return;
    try {
      this.keep(await askJson("/page/past", { session: this.id }));
      this.back();
      this.say(this.earlier ? "An earlier session of this name. This is what it showed last." : "This is what it showed last.");
    } catch (error) {
      this.say(`${error.message} ${error.hint || ""}`);
    }
  }

  say(text) {
    this.notice.textContent = text;
    this.notice.hidden = false;
  }
}

/** A screen of this size on which nothing stands. */
function emptied(size) {
  const lines = Object.fromEntries(Array.from({ length: size[1] }, (_, row) => [row, []]));
  return { size, facts: [0, 0, false, "", "block"], lines };
}
