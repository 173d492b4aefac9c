// A terminal's screen: rows of elements, of which only those that change are made anew.

import { fill, textOf } from "./cells.js";

const SMALLEST = 6;
const LARGEST = 20;
const URL_IN_TEXT = /https?:\/\/[^\s<>"'`]+/g;

export class Screen {
  /** `onLink(url)` is called when an address in the text is clicked. */
  constructor({ onLink, label }) {
    this.element = make("div", "screen");
    this.element.setAttribute("role", "region");
    this.element.setAttribute("aria-label", label);
    this.element.tabIndex = 0;
    this.grid = make("div", "grid");
    this.cursor = make("div", "cursor");
    this.cursor.setAttribute("aria-hidden", "true");
    this.element.append(this.grid);
    this.size = [0, 0];
    this.zoom = "fit";
    this.spans = [];
    this.grid.addEventListener("click", (event) => {
      const url = getSelection().isCollapsed && this.urlAt(event);
      if (url) onLink(url);
    });
    new ResizeObserver(() => this.fit()).observe(this.element);
  }

  /** Takes a frame: `size`, `facts` (row, column, whether the cursor is seen, title, shape of the cursor) and the rows that changed. */
  show({ size, facts, lines }) {
    if (size[0] !== this.size[0] || size[1] !== this.size[1]) {
      this.size = size;
      this.spans = Array.from({ length: size[1] }, () => []);
      this.rows = this.spans.map(() => make("div", "row"));
      this.grid.replaceChildren(...this.rows, this.cursor);
      this.fit();
    }
    for (const [number, spans] of Object.entries(lines)) {
      this.spans[number] = spans;
      fill(this.rows[number], spans);
    }
    const [row, col, seen, , shape] = facts;
    this.cursor.dataset.shape = shape;
    this.cursor.hidden = !seen;
    this.cursor.style.transform = `translate(calc(var(--cw) * ${col}), calc(var(--ch) * ${row}))`;
  }

  get text() {
    return this.spans.map((spans) => textOf(spans).trimEnd()).join("\n");
  }

  setZoom(zoom) {
    this.zoom = zoom;
    this.fit();
  }

  /** Gives the letters the size with which all columns fit, and cells whole pixels. */
  fit() {
    const [cols] = this.size;
    if (!cols || !this.element.isConnected) return;
    const style = getComputedStyle(this.element);
    const inner = this.element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const perPixel = advance(style.fontFamily, 100) / 100;
    const wanted = this.zoom === "fit" ? inner / cols / perPixel : this.zoom;
    const font = Math.min(Math.max(Math.floor(wanted * 4) / 4, SMALLEST), this.zoom === "fit" ? LARGEST : 40);
    const dots = window.devicePixelRatio || 1;
    const whole = (length) => Math.max(Math.round(length * dots), 1) / dots;
    let width = whole(font * perPixel);
    if (this.zoom === "fit" && width * cols > inner && font > SMALLEST) width = Math.floor((inner / cols) * dots) / dots;
    const height = whole(font * 1.25);
    const line = whole(font / 14);
    const set = (name, value) => this.grid.style.setProperty(name, `${value}px`);
    set("--cw", width);
    set("--ch", height);
    set("--line", line);
    set("--mx", Math.floor(((width - line) / 2) * dots) / dots);
    set("--my", Math.floor(((height - line) / 2) * dots) / dots);
    set("letter-spacing", width - font * perPixel);
    set("font-size", font);
    this.grid.style.width = `${width * cols}px`;
  }

  urlAt(event) {
    const row = event.target.closest(".row");
    const number = this.rows ? this.rows.indexOf(row) : -1;
    if (number < 0) return "";
    const at = Math.floor((event.clientX - row.getBoundingClientRect().left) / parseFloat(this.grid.style.getPropertyValue("--cw")));
    const behind = this.spans[number].flatMap((span) => Array(span.w || span.t.length).fill(span.h))[at];
    if (behind) return behind;
    const cells = columns(this.spans[number]);
    const text = cells.join("\u0000").replaceAll("\u0000", "");
    const before = cells.slice(0, at + 1).join("").length;
    for (const found of text.matchAll(URL_IN_TEXT)) {
      if (found.index < before && before <= found.index + found[0].length) return found[0].replace(/[.,;:!?)\]}]+$/, "");
    }
    return "";
  }
}

/** The text of each column; a wide character leaves its second one empty. */
function columns(spans) {
  return spans.flatMap((span) => (span.w ? [span.t, ...Array(span.w - 1).fill("")] : [...span.t]));
}

const canvas = document.createElement("canvas").getContext("2d");

function advance(family, size) {
  canvas.font = `${size}px ${family}`;
  return canvas.measureText("M".repeat(10)).width / 10;
}

export function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}
