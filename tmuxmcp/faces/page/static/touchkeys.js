// A small bar with the keys that a phone's keyboard lacks.

import { make } from "./screen.js";

const KEYS = [["Esc", "Escape"], ["Tab", "Tab"], ["←", "Left"], ["↓", "Down"], ["↑", "Up"], ["→", "Right"]];
const SPOKEN = { "←": "Left", "↓": "Down", "↑": "Up", "→": "Right" };
const REPEATS = ["Left", "Down", "Up", "Right"];
const BEFORE_MS = 400;
const EVERY_MS = 70;

export class TouchKeys {
  /** `press(key)` and `paste(text)` type; `say(text)` tells why that cannot be. */
  constructor({ press, paste, say }) {
    this.element = make("div", "touch-keys");
    this.element.setAttribute("role", "toolbar");
    this.element.setAttribute("aria-label", "Keys");
    const keys = KEYS.map(([text, name]) => this.button(text, () => press(name), REPEATS.includes(name)));
    this.ctrl = this.button("Ctrl", () => this.arm(!this.armed));
    this.arm(false);
    const pasted = this.button("Paste", async () => {
      try {
        paste(await navigator.clipboard.readText());
      } catch {
        say("The browser does not let the page read what was copied.");
      }
    });
    this.element.append(...keys.slice(0, 2), this.ctrl, ...keys.slice(2), pasted);
  }

  button(text, act, repeats = false) {
    const element = make("button", "", text);
    if (SPOKEN[text]) element.setAttribute("aria-label", SPOKEN[text]);
    let timer;
    element.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the keyboard stays where it is
      if (!repeats) return;
      act();
      timer = setTimeout(() => (timer = setInterval(act, EVERY_MS)), BEFORE_MS);
    });
    for (const name of ["pointerup", "pointerleave", "pointercancel"]) element.addEventListener(name, () => clearInterval(timer));
    element.addEventListener("contextmenu", (event) => event.preventDefault()); // a long press repeats
    element.addEventListener("click", (event) => (repeats && event.detail ? undefined : act()));
    return element;
  }

  arm(armed) {
    this.armed = armed;
    this.ctrl.setAttribute("aria-pressed", String(armed));
  }

  /** The key that a character or a key is while Ctrl is held here; empty: it is not. */
  modified(key) {
    if (!this.armed) return "";
    this.arm(false);
    return /^([ -~]|Up|Down|Left|Right)$/.test(key) ? `C-${key === " " ? "Space" : key.toLowerCase().replace(/^(up|down|left|right)$/, key)}` : "";
  }
}
