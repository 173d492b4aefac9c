// A person's hands in one session: takes it, types into it, gives it back. What is typed is kept nowhere.

import { askJson } from "./access.js";
import { nameOf, textOf } from "./keys.js";
import { PAGE } from "./number.js";
import { make } from "./screen.js";
import { TouchKeys } from "./touchkeys.js";
import { groupOf, holderWords } from "./words.js";

const MOST_PASTE = 64 * 1024; // bytes
const MOST_ITEMS = 300; // at once
const MOST_LETTERS = 1000; // at once, of at most four bytes each
const MOST_WAITING = 4000; // keys and texts that wait for an answer
const SETTLES_MS = 2000; // so long the list may tell how it was before
const IN_A_FIELD = "input, select, textarea";

export class Hands {
  /** `now()` is called before something is typed: a screen of the past must not be shown then. */
  constructor(id, screen, { now }) {
    this.id = id;
    this.screen = screen;
    this.now = now;
    this.mine = false;
    this.queue = [];
    this.holder = make("span", "holder");
    this.toggle = make("button", "take", "Take");
    this.toggle.addEventListener("click", () => (this.mine ? this.giveBack() : this.take()));
    this.note = make("p", "note hands");
    this.note.setAttribute("role", "status");
    this.note.hidden = true;
    this.keys = new TouchKeys({ press: (key) => this.press(key), paste: (text) => this.paste(text), say: (text) => this.say(text) });
    this.area = this.makeArea();
    screen.element.append(this.area);
    screen.element.addEventListener("click", () => this.mine && getSelection().isCollapsed && this.focus());
    this.show();
  }

  /** What takes the focus, and brings up the keyboard of a phone: it never holds more than what is being composed. */
  makeArea() {
    const area = make("textarea", "typing");
    for (const name of ["autocomplete", "autocorrect", "autocapitalize"]) area.setAttribute(name, "off");
    area.setAttribute("aria-label", `Type into ${this.id}`);
    area.spellcheck = false;
    area.rows = 1;
    area.disabled = true;
    area.addEventListener("keydown", (event) => {
      event.stopPropagation();
      this.keydown(event);
    });
    area.addEventListener("beforeinput", (event) => this.beforeInput(event));
    area.addEventListener("input", (event) => event.isComposing || this.takeText());
    area.addEventListener("compositionstart", () => {
      this.place();
      area.classList.add("composing");
    });
    area.addEventListener("compositionend", () => {
      area.classList.remove("composing");
      this.takeText();
    });
    area.addEventListener("paste", (event) => {
      event.preventDefault();
      this.paste(event.clipboardData.getData("text/plain"));
    });
    for (const name of ["focus", "blur"]) area.addEventListener(name, () => this.show());
    return area;
  }

  /** It is shown no more; what was typed is still sent. */
  close() {
    clearTimeout(this.later);
  }

  // ---- holding -------------------------------------------------------------------------------

  async take() {
    this.busy = this.taking = true; // what is typed meanwhile waits
    this.area.disabled = false;
    this.focus(); // at once: later a phone shows no keyboard
    this.say("");
    try {
      await askJson("/page/take", { session: this.id, page: PAGE });
      this.hold(true);
    } catch (error) {
      this.fail(error);
    }
    this.busy = this.taking = false;
    this.drain();
  }

  async giveBack() {
    await this.drained;
    try {
      await askJson("/page/give-back", { session: this.id, page: PAGE });
      this.hold(false);
      this.say("Given back: agents may type again.");
    } catch (error) {
      this.fail(error);
    }
  }

  /** Takes note that this page holds the session, or does no more. */
  hold(mine) {
    this.changedAt = performance.now();
    this.set(mine);
  }

  set(mine) {
    this.mine = mine;
    if (!mine) this.queue = [];
    this.show();
  }

  /** Takes what the list knows of the session. */
  update(row, away) {
    this.row = row;
    this.away = away;
    const mine = row?.taken_over?.page === PAGE;
    if (mine !== this.mine && !this.taking) {
      const left = SETTLES_MS - (performance.now() - (this.changedAt ?? -SETTLES_MS));
      if (left > 0) {
        clearTimeout(this.later);
        this.later = setTimeout(() => this.update(this.row, this.away), left);
        return;
      }
      if (!mine) this.say(away ? "Its machine does not answer: what you typed last may have arrived or not." : !row ? "The session is gone." : row.taken_over ? "It was taken elsewhere: what you type here goes nowhere." : "It was given back: agents may type again.");
      this.set(mine);
    } else this.show();
  }

  show() {
    const told = this.row?.taken_over;
    const held = told?.page === PAGE ? null : told; // the list may tell how it was before
    const over = !this.row || groupOf(this.row) === "over";
    const active = document.activeElement === this.area;
    this.area.disabled = !(this.mine || this.taking);
    this.screen.element.classList.toggle("mine", this.mine);
    this.holder.hidden = !this.mine && !held;
    this.holder.classList.toggle("mine", this.mine);
    this.holder.textContent = this.mine ? (active ? "You type here" : "Yours: click the screen to type") : holderWords(held);
    this.toggle.hidden = over && !this.mine;
    this.toggle.textContent = this.mine ? "Give back" : held ? "Take it here" : "Take";
    this.toggle.classList.toggle("main", this.mine);
    this.toggle.title = this.mine ? "Agents may type again (Ctrl+Shift+G)" : "Type here yourself; agents wait meanwhile (Ctrl+Shift+G)";
    this.keys.element.hidden = !this.mine;
  }

  say(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  fail(error) {
    this.queue = [];
    if (error.status) {
      if (["SESSION_TAKEN", "PERMISSION_DENIED", "SESSION_EXITED", "SESSION_NOT_FOUND"].includes(error.code)) this.set(false);
      this.say(error.message);
    } else this.say("The server does not answer. Look at the screen before you type on: what you typed last may be missing.");
    this.show();
  }

  // ---- keys ----------------------------------------------------------------------------------

  focus() {
    this.area.focus({ preventScroll: true });
    this.place();
  }

  /** Puts the field where the cursor is: there an input method shows what it makes. */
  place() {
    const cursor = this.screen.cursor.getBoundingClientRect();
    const box = this.screen.element.getBoundingClientRect();
    this.area.style.left = `${cursor.left - box.left + this.screen.element.scrollLeft}px`;
    this.area.style.top = `${cursor.top - box.top + this.screen.element.scrollTop}px`;
    this.area.style.lineHeight = `${cursor.height}px`;
  }

  /** A key that was pressed anywhere in the page; true: nobody else shall have it. */
  pressed(event) {
    if (isToggle(event) && !this.toggle.hidden) {
      event.preventDefault();
      this.toggle.click();
      return true;
    }
    if (!this.mine || event.target.closest?.(IN_A_FIELD)) return false;
    if (event.key === "Tab" || (event.target.closest?.("button, a") && ["Enter", " "].includes(event.key))) return false;
    if (nameOf(event) === "C-c" && !getSelection().isCollapsed) return false; // copies
    if (["Control", "Shift", "Alt", "Meta"].includes(event.key)) return false;
    this.focus();
    this.keydown(event);
    return true;
  }

  keydown(event) {
    if (isToggle(event)) {
      event.preventDefault();
      this.giveBack();
      return;
    }
    const name = nameOf(event);
    const text = name ? "" : textOf(event);
    if (!name && !text) return; // the browser has it, or its text comes by itself
    event.preventDefault();
    if (name) this.press(name);
    else this.text(text);
  }

  /** What keyboards on a screen do without telling a key. */
  beforeInput(event) {
    const key = { deleteContentBackward: "BSpace", insertLineBreak: "Enter", insertParagraph: "Enter" }[event.inputType];
    if (!key || event.isComposing) return;
    event.preventDefault();
    this.press(key);
  }

  takeText() {
    const lines = this.area.value.split("\n");
    this.area.value = "";
    lines.forEach((line, number) => {
      if (number) this.press("Enter");
      if (line) this.text(line);
    });
  }

  text(text) {
    const [first, ...rest] = [...text];
    const name = this.keys.modified(first);
    if (name) this.add({ key: name });
    const letters = name ? rest : [first, ...rest];
    for (let at = 0; at < letters.length; at += MOST_LETTERS) this.add({ text: letters.slice(at, at + MOST_LETTERS).join("") });
  }

  press(name) {
    this.add({ key: this.keys.modified(name) || name });
  }

  paste(text) {
    const size = new TextEncoder().encode(text).length;
    if (size > MOST_PASTE) return this.say(`Nothing was pasted: it has ${size.toLocaleString()} bytes, and a paste may have ${MOST_PASTE.toLocaleString()}.`);
    if (text) this.add({ paste: text });
  }

  // ---- sending -------------------------------------------------------------------------------

  add(item) {
    if (!this.mine && !this.taking) return;
    if (this.queue.length >= MOST_WAITING) return this.say("Too much waits to be typed: some of it was left out.");
    this.now();
    this.queue.push(item);
    this.drain();
  }

  /** Types what waits: one request after the other, so that its order is kept. */
  drain() {
    if (this.busy || !this.queue.length) return;
    this.busy = true;
    this.drained = this.send().catch((error) => this.fail(error)).finally(() => (this.busy = false));
  }

  async send() {
    while (this.queue.length) {
      const asked = { session: this.id, page: PAGE };
      if (this.queue[0].paste === undefined) await askJson("/page/type", { ...asked, items: this.batch() });
      else {
        const { left_out } = await askJson("/page/paste", { ...asked, text: this.queue.shift().paste });
        this.say(left_out ? "Control characters were left out of the paste." : "");
      }
    }
  }

  /** As much of the queue as is typed at once, up to the next paste. */
  batch() {
    const items = [];
    let letters = 0;
    while (this.queue.length && this.queue[0].paste === undefined && items.length < MOST_ITEMS) {
      const length = [...(this.queue[0].text || "")].length;
      if (letters + length > MOST_LETTERS) break;
      letters += length;
      const item = this.queue.shift();
      const last = items.at(-1);
      if (item.text !== undefined && last?.text !== undefined) last.text += item.text;
      else items.push({ ...item });
    }
    return items;
  }
}

/** The key that takes and gives back: no terminal has bytes for it. */
function isToggle(event) {
  return event.ctrlKey && event.shiftKey && !event.altKey && !event.metaKey && event.code === "KeyG";
}
