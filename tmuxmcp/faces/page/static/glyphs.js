// Lines and blocks drawn to the edges of their cell, so that they meet in every font. The character stays as text.

const U = "var(--line)";
const TABLE = new Map();

// Arms to the left, right, up, down: 1 light, 2 heavy, 3 double.
const ARMS = {
  "─": "1100", "━": "2200", "│": "0011", "┃": "0022", "═": "3300", "║": "0033",
  "┌": "0101", "┐": "1001", "└": "0110", "┘": "1010", "├": "0111", "┤": "1011", "┬": "1101", "┴": "1110", "┼": "1111",
  "┏": "0202", "┓": "2002", "┗": "0220", "┛": "2020", "┣": "0222", "┫": "2022", "┳": "2202", "┻": "2220", "╋": "2222",
  "╔": "0303", "╗": "3003", "╚": "0330", "╝": "3030", "╠": "0333", "╣": "3033", "╦": "3303", "╩": "3330", "╬": "3333",
  "╴": "1000", "╶": "0100", "╵": "0010", "╷": "0001", "╸": "2000", "╺": "0200", "╹": "0020", "╻": "0002",
  "╞": "0311", "╡": "3011", "╟": "0133", "╢": "1033", "╤": "3301", "╧": "3310", "╥": "1103", "╨": "1130", "╪": "3311", "╫": "1133",
};
const CORNERS = { "╭": "dr", "╮": "dl", "╯": "ul", "╰": "ur" };

// Rectangles in eighths of a cell: left, top, width, height.
const BLOCKS = {
  "█": [[0, 0, 8, 8]], "▀": [[0, 0, 8, 4]], "▔": [[0, 0, 8, 1]], "▐": [[4, 0, 4, 8]], "▕": [[7, 0, 1, 8]],
  "▖": [[0, 4, 4, 4]], "▗": [[4, 4, 4, 4]], "▘": [[0, 0, 4, 4]], "▝": [[4, 0, 4, 4]],
  "▙": [[0, 0, 4, 8], [4, 4, 4, 4]], "▚": [[0, 0, 4, 4], [4, 4, 4, 4]], "▛": [[0, 0, 8, 4], [0, 4, 4, 4]],
  "▜": [[0, 0, 8, 4], [4, 4, 4, 4]], "▞": [[4, 0, 4, 4], [0, 4, 4, 4]], "▟": [[4, 0, 4, 8], [0, 4, 4, 4]],
};
[..."▁▂▃▄▅▆▇"].forEach((char, at) => (BLOCKS[char] = [[0, 7 - at, 8, at + 1]]));
[..."▉▊▋▌▍▎▏"].forEach((char, at) => (BLOCKS[char] = [[0, 0, 7 - at, 8]]));
const SHADES = { "░": 25, "▒": 50, "▓": 75 };

const INK = "currentColor";

/** Draws the character of a cell, if it is a line or a block. */
export function glyph(element, char) {
  const code = char.charCodeAt(0);
  if (char.length !== 1 || code < 0x2500 || code > 0x259f) return;
  if (CORNERS[char]) {
    element.classList.add("drawn", "corner", CORNERS[char]);
    return;
  }
  if (!TABLE.has(char)) TABLE.set(char, layers(char));
  const drawing = TABLE.get(char);
  if (!drawing) return;
  element.classList.add("drawn");
  const ground = element.style.backgroundColor;
  element.style.background = drawing;
  if (ground) element.style.backgroundColor = ground;
}

function layers(char) {
  if (SHADES[char]) {
    const ink = `color-mix(in srgb, ${INK} ${SHADES[char]}%, transparent)`;
    return `linear-gradient(${ink}, ${ink})`;
  }
  if (BLOCKS[char]) return BLOCKS[char].map(([x, y, w, h]) => box(eighth(x, "w"), eighth(y, "h"), eighth(w, "w"), eighth(h, "h"))).join(",");
  if (ARMS[char]) return strokes(...[...ARMS[char]].map(Number)).join(",");
  return "";
}

function eighth(count, side) {
  return `calc(var(--c${side}) * ${count} / 8)`;
}

function box(x, y, w, h) {
  return `linear-gradient(${INK}, ${INK}) ${x} ${y} / ${w} ${h} no-repeat`;
}

// Middle of the cell, for a stroke of one width; whole pixels by the custom properties.
const X = "var(--mx)";
const Y = "var(--my)";

function strokes(left, right, up, down) {
  const made = [];
  const heavy = left === 2 || right === 2 || up === 2 || down === 2;
  const tall = up === 3 || down === 3;
  const broad = left === 3 || right === 3;
  const horizontal = (y, from, to, h) => made.push(box(from, y, `calc(${to} - ${from})`, h));
  const vertical = (x, from, to, w) => made.push(box(x, from, w, `calc(${to} - ${from})`));
  const plus = (place, count) => `calc(${place} + ${U} * ${count})`;
  const thick = (arm) => (arm === 2 ? `calc(${U} * 2)` : U);
  const reach = tall ? 2 : heavy ? 2 : 1;
  // Single strokes go a little beyond the middle, so that corners are filled.
  const begin = (across) => (across ? 0 : 0);
  if (left === 1 || left === 2) horizontal(Y, "0px", plus(X, tall ? (right ? 2 : (up && down ? -1 : 2)) : reach), thick(left));
  if (right === 1 || right === 2) horizontal(Y, plus(X, tall ? (left ? -1 : (up && down ? 1 : -1)) : begin(up || down)), "var(--cw)", thick(right));
  if (up === 1 || up === 2) vertical(X, "0px", plus(Y, broad ? (down ? 2 : (left && right ? -1 : 2)) : reach), thick(up));
  if (down === 1 || down === 2) vertical(X, plus(Y, broad ? (up ? -1 : (left && right ? 1 : -1)) : begin(left || right)), "var(--ch)", thick(down));
  // Of a double one, each stroke ends where it meets the one that goes the other way.
  if (left === 3) {
    horizontal(plus(Y, -1), "0px", plus(X, up === 3 ? 0 : down === 3 ? 2 : right ? 1 : 1), U);
    horizontal(plus(Y, 1), "0px", plus(X, down === 3 ? 0 : up === 3 ? 2 : right ? 1 : 1), U);
  }
  if (right === 3) {
    horizontal(plus(Y, -1), plus(X, up === 3 ? 1 : down === 3 ? -1 : 0), "var(--cw)", U);
    horizontal(plus(Y, 1), plus(X, down === 3 ? 1 : up === 3 ? -1 : 0), "var(--cw)", U);
  }
  if (up === 3) {
    vertical(plus(X, -1), "0px", plus(Y, left === 3 ? 0 : right === 3 ? 2 : down ? 1 : 1), U);
    vertical(plus(X, 1), "0px", plus(Y, right === 3 ? 0 : left === 3 ? 2 : down ? 1 : 1), U);
  }
  if (down === 3) {
    vertical(plus(X, -1), plus(Y, left === 3 ? 1 : right === 3 ? -1 : 0), "var(--ch)", U);
    vertical(plus(X, 1), plus(Y, right === 3 ? 1 : left === 3 ? -1 : 0), "var(--ch)", U);
  }
  return made;
}
