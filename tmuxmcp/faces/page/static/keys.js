// The keys of a keyboard by the names that tmuxmcp has for them.

const NAMED = {
  Enter: "Enter", Backspace: "BSpace", Tab: "Tab", Escape: "Escape", Insert: "IC", Delete: "DC",
  ArrowUp: "Up", ArrowDown: "Down", ArrowLeft: "Left", ArrowRight: "Right",
  Home: "Home", End: "End", PageUp: "PPage", PageDown: "NPage",
};
const ALONE = ["Enter", "BSpace", "Escape"]; // terminals have no bytes for these with Ctrl or Shift
const WITH_CTRL = /^[a-z @[\\\]^_?/]$/;
const MAC = /^(Mac|iP)/.test(navigator.platform);

/** The name of the key that was pressed; empty: the browser has it, or what it types comes as text. */
export function nameOf(event) {
  if (event.metaKey || event.isComposing || event.keyCode === 229 || event.getModifierState("AltGraph")) return "";
  const named = NAMED[event.key] || (/^F([1-9]|1[0-2])$/.test(event.key) ? event.key : "");
  if (named) return withModifiers(event, named);
  return [...event.key].length === 1 ? ofCharacter(event) : "";
}

/** The character that a key types; empty: none, or an input method makes it. */
export function textOf(event) {
  const graph = event.getModifierState("AltGraph") || (MAC && event.altKey && !event.ctrlKey);
  if (event.metaKey || event.isComposing || event.keyCode === 229 || (!graph && (event.ctrlKey || event.altKey))) return "";
  return [...event.key].length === 1 ? event.key : "";
}

function withModifiers(event, name) {
  if (name === "IC" && event.shiftKey) return ""; // pastes
  const alone = ALONE.includes(name);
  const prefixes = [event.ctrlKey && !alone && "C-", event.altKey && "M-", event.shiftKey && !alone && "S-"];
  return prefixes.filter(Boolean).join("") + name;
}

function ofCharacter(event) {
  if (event.altKey && MAC && !event.ctrlKey) return ""; // Option types other characters
  if (!event.ctrlKey) return event.altKey ? `M-${event.key}` : "";
  const key = latin(event);
  if (!WITH_CTRL.test(key) || (event.shiftKey && /[a-z]/.test(key))) return "";
  return `C-${event.altKey ? "M-" : ""}${key === " " ? "Space" : key}`;
}

/** The letter on the key, as a keyboard for Latin letters has it: Ctrl goes with no others. */
function latin(event) {
  const letter = /^Key([A-Z])$/.exec(event.code);
  return event.key.charCodeAt(0) > 127 && letter ? letter[1].toLowerCase() : event.key.toLowerCase();
}
