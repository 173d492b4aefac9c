// Rows of a terminal as elements. Whatever a program printed becomes a text node, never markup.

import { glyph } from "./glyphs.js";

const LINES = { single: "solid", double: "double", curly: "wavy", dotted: "dotted", dashed: "dashed" };

/** Fills an element with the stretches of one row. */
export function fill(element, spans) {
  element.replaceChildren(...spans.map(stretch));
}

/** The text of a row. */
export function textOf(spans) {
  return spans.map((span) => span.t).join("");
}

function stretch(span) {
  if (span.w === undefined && span.f === undefined && span.b === undefined && span.a === undefined && span.u === undefined && !span.h) {
    return document.createTextNode(span.t);
  }
  const element = document.createElement("span");
  element.textContent = span.t;
  const style = element.style;
  if (span.f) style.color = span.f;
  if (span.b) {
    style.background = span.b;
    element.classList.add("ground");
  }
  attributes(element, span);
  if (span.h) {
    element.classList.add("linked");
    element.title = span.h; // where it leads, whatever the text says
  }
  if (span.w) {
    element.classList.add("cell");
    if (span.w === 2) element.classList.add("wide");
    glyph(element, span.t);
  }
  return element;
}

function attributes(element, span) {
  const has = span.a || "";
  if (has.includes("b")) element.classList.add("bold");
  if (has.includes("i")) element.classList.add("italic");
  if (has.includes("k")) element.classList.add("blink");
  const lines = [];
  if (span.u) lines.push("underline");
  if (has.includes("s")) lines.push("line-through");
  if (has.includes("o")) lines.push("overline");
  if (lines.length) element.style.textDecoration = [...lines, LINES[span.u] || "solid", span.l || ""].join(" ");
}
