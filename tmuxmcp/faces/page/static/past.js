// The past of a session: a slider over all it did, with marks where commands ended; it can be played.

import { askJson } from "./access.js";
import { make } from "./screen.js";
import { clock } from "./words.js";

const TICK_MS = 100;
const IDLE_MS = 1500; // with silence skipped, no pause is longer
const SPEEDS = [0.5, 1, 2, 4, 8, 16];

export class Past {
  /** `show(frame)` gets a past screen, null where it is not known; `live()` is called when the present is wanted again. */
  constructor(id, { show, live }) {
    this.id = id;
    this.show = show;
    this.live = live;
    this.at = null; // milliseconds since the session was made; null: now
    this.end = 0;
    this.moments = [];
    this.speed = 2;
    this.element = make("section", "past");
    this.element.setAttribute("aria-label", "The past");
    this.play = button("Play", "Play from here", () => this.toggle());
    this.slider = make("input", "slider");
    this.slider.type = "range";
    this.slider.min = 0;
    this.slider.step = 1;
    this.slider.setAttribute("aria-label", "Time in the session");
    this.slider.addEventListener("input", () => {
      const wanted = Number(this.slider.value); // before the slider is drawn anew
      this.pause();
      this.go({ ms: wanted });
    });
    this.marks = make("div", "marks");
    const track = make("div", "track");
    track.append(this.marks, this.slider);
    this.time = make("span", "time");
    this.now = button("Live", "Back to now", () => this.leave());
    this.rate = make("select", "rate");
    this.rate.setAttribute("aria-label", "Speed");
    for (const speed of SPEEDS) this.rate.append(new Option(`${speed}×`, speed, speed === 2, speed === 2));
    this.rate.addEventListener("change", () => (this.speed = Number(this.rate.value)));
    this.skip = make("input");
    this.skip.type = "checkbox";
    this.skip.checked = true;
    const skip = make("label", "skip");
    skip.append(this.skip, "Skip silence");
    this.failure = button("Next failure", "Go to the next command that failed", () => this.nextFailure());
    this.note = make("span", "note");
    const tools = make("div", "tools");
    tools.append(this.play, this.time, this.now, this.rate, skip, this.failure, this.note);
    this.element.append(track, tools);
    this.element.addEventListener("pointerenter", () => this.refresh());
    this.ticking = setInterval(() => this.tick(), 1000);
    this.render();
  }

  /** Time passes for what still runs. */
  tick() {
    if (this.at !== null || !this.alive || !this.element.isConnected || this.end === 0) return;
    this.end = this.told + (performance.now() - this.toldAt);
    this.render();
    this.placeMarks();
  }

  /** Takes the times of the session anew. */
  async refresh() {
    try {
      const { made_ms, end_ms, moments } = await askJson("/page/activity", { session: this.id });
      this.made = made_ms;
      this.end = this.told = end_ms;
      this.toldAt = performance.now();
      this.moments = moments;
      this.drawMarks();
      this.render();
    } catch (error) {
      this.note.textContent = error.message;
    }
  }

  setCommands(commands) {
    this.commands = commands.filter((each) => each.started_at);
    this.drawMarks();
  }

  drawMarks() {
    if (!this.end || !this.commands) return;
    this.points = this.commands.map((command) => ({
      at: Math.max(Date.parse(command.started_at) - this.made + (command.duration_ms || 0), 0),
      command,
    })).sort((one, other) => one.at - other.at);
    this.marks.replaceChildren(
      ...this.points.map(({ command }) => {
        const mark = make("span", command.exit_code ? "mark failed" : "mark");
        mark.title = `${command.text ?? ""}${command.exit_code ? ` (exit ${command.exit_code})` : ""}`;
        return mark;
      }),
    );
    this.placeMarks();
    this.failure.disabled = !this.points.some(({ command }) => command.exit_code);
  }

  placeMarks() {
    (this.points || []).forEach(({ at }, number) => {
      this.marks.children[number].style.left = `${Math.min((100 * at) / this.end, 100)}%`;
    });
  }

  render() {
    this.slider.max = Math.max(this.end, 1);
    this.slider.value = this.at === null ? this.end : this.at;
    this.slider.setAttribute("aria-valuetext", this.at === null ? "now" : clock(this.at));
    this.time.textContent = `${clock(this.at === null ? this.end : this.at)} / ${clock(this.end)}`;
    this.now.hidden = this.at === null;
    this.play.textContent = this.timer ? "Pause" : "Play";
    this.element.classList.toggle("then", this.at !== null);
  }

  /** Goes to a time or an offset; while a screen is on its way, the last one that was wanted is asked for next. */
  async go(place) {
    if (place.ms !== undefined) this.at = Math.min(Math.max(Math.round(place.ms), 0), Math.floor(this.end));
    else if (this.at === null) this.at = Math.floor(this.end);
    this.render();
    this.wanted = place.ms === undefined ? place : { ms: this.at };
    if (this.asking) return;
    this.asking = true;
    while (this.wanted) {
      const wanted = this.wanted;
      this.wanted = undefined;
      if (this.closed) break;
      try {
        const frame = await askJson("/page/past", { session: this.id, ...wanted });
        if (this.at === null) continue; // the present was wanted meanwhile
        if (wanted.offset !== undefined && frame.ms !== null) this.at = frame.ms;
        this.show(frame);
        this.note.textContent = frame.approximate ? "Not all that made this screen is known." : "";
      } catch (error) {
        if (this.at !== null) this.show(null);
        this.note.textContent = error.code === "NOT_RETAINED" ? "What it showed then is not known." : error.message;
      }
      this.render();
    }
    this.asking = false;
  }

  toggle() {
    if (this.timer) return this.pause();
    if (this.at === null || this.at >= this.end) this.at = 0;
    let before = performance.now();
    this.timer = setInterval(() => {
      const now = performance.now();
      if (!this.asking) this.advance((now - before) * this.speed);
      before = now;
    }, TICK_MS);
    this.go({ ms: this.at });
  }

  /** Lets time pass; where nothing was printed, nothing is asked for. */
  advance(ms) {
    const from = this.at;
    let to = from + ms;
    const next = this.moments.find((each) => each > from);
    if (this.skip.checked && next !== undefined && next - from > IDLE_MS * this.speed) to = Math.max(to, next - 1);
    if (next === undefined && this.skip.checked) to = this.end;
    if (to >= this.end) this.pause();
    if (next !== undefined && next <= to) this.go({ ms: to });
    else {
      this.at = Math.min(to, this.end);
      this.render();
    }
  }

  /** It is shown no more: nothing is asked for from now on. */
  close() {
    this.pause();
    clearInterval(this.ticking);
    this.closed = true;
  }

  pause() {
    clearInterval(this.timer);
    this.timer = undefined;
    this.render();
  }

  leave() {
    this.pause();
    this.at = null;
    this.note.textContent = "";
    this.render();
    this.live();
  }

  nextFailure() {
    const failures = (this.points || []).filter(({ command }) => command.exit_code);
    const found = failures.find(({ at }) => this.at !== null && at > this.at) || failures[0];
    if (found) {
      this.pause();
      this.go({ ms: found.at });
    }
  }
}

function button(text, title, act) {
  const element = make("button", "", text);
  element.title = title;
  element.addEventListener("click", act);
  return element;
}
