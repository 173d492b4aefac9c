// What the page says of sessions, in words.

const MODES = {
  shell_prompt: "at its prompt",
  running: "running",
  line_input: "waits for a line",
  password: "asks for a secret",
  pager: "in a pager",
  editor: "in an editor",
  fullscreen: "full screen",
  stopped: "stopped",
  exited: "ended",
  lost: "lost",
  unknown: "unknown",
};

const REASONS = {
  exit: "its program ended",
  signal: "a signal ended it",
  memory: "it used too much memory",
  cpu: "it used too much processor time",
  duration: "its time was up",
  idle: "it was idle for too long",
  destroyed: "somebody ended it",
  lost: "its terminal is gone",
};

export const NEED = ["needs", "works", "ready", "over"]; // those that need a person first

/** Which group of the list a session is in. */
export function groupOf(row) {
  if (row.exited || row.mode === "lost" || row.ended) return "over";
  if (row.waiting || row.mode === "password" || !row.healthy) return "needs";
  return row.mode === "running" && !row.ready ? "works" : "ready";
}

export function stateOf(row) {
  const group = groupOf(row);
  if (group === "over") return failed(row) ? "failed" : "over";
  return group;
}

export function stateWords(row) {
  if (groupOf(row) !== "over" && row.waiting) return "asks you";
  if (groupOf(row) !== "over") return row.healthy ? MODES[row.mode] || row.mode : "not recorded";
  if (row.ended && !["exit", "signal"].includes(row.ended.reason)) return REASONS[row.ended.reason];
  if (row.exit_signal) return `ended by ${row.exit_signal}`;
  return row.exit_code === null ? MODES[row.mode] || "ended" : `ended with ${row.exit_code}`;
}

function failed(row) {
  if (row.ended?.reason === "destroyed") return false;
  return row.mode === "lost" || Boolean(row.exit_code) || Boolean(row.exit_signal);
}

export function programOf(row) {
  return [row.program, ...row.args].join(" ");
}

/** A directory, with the part that says least left out. */
export function shortPath(path) {
  const parts = path.split("/");
  return parts.length > 4 ? `…/${parts.slice(-3).join("/")}` : path;
}

export function ago(iso, now = Date.now()) {
  if (!iso) return "";
  const seconds = Math.max(Math.round((now - Date.parse(iso)) / 1000), 0);
  if (seconds < 5) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** How long there still is. */
export function left(ms) {
  const seconds = Math.max(Math.ceil(ms / 1000), 0);
  return seconds < 100 ? `${seconds} s left` : `${Math.round(seconds / 60)} min left`;
}

const BECAME = {
  timeout: "Its time was up.",
  withdrawn: "The agent gave it up.",
  exited: "The session has ended.",
};
const VIA = { answer: " at a terminal", attach: " at a terminal", client: " in the agent's client", page: " in a page" };

/** What became of a request. */
export function becameWords(became) {
  if (!became) return "";
  if (BECAME[became.outcome]) return BECAME[became.outcome];
  const by = became.by ? ` by ${became.by}` : "";
  return `${became.outcome === "declined" ? "Declined" : "Marked as done"}${by}${VIA[became.via] || ""}.`;
}

/** A time of day; with the date, if that is another one. */
export function when(iso) {
  if (!iso) return "";
  const time = new Date(iso);
  const clock = time.toLocaleTimeString();
  return time.toDateString() === new Date().toDateString() ? clock : `${time.toLocaleDateString()} ${clock}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

export function clock(ms) {
  const seconds = Math.max(Math.floor(ms / 1000), 0);
  const two = (number) => String(number).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  return `${hours ? `${hours}:` : ""}${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}

/** Where a person holds a session. */
export const PLACES = { page: "in another page", attach: "at a terminal", cli: "by the command line" };

/** Who holds a session, and where. */
export function holderWords(held) {
  if (!held) return "";
  return `${held.by} holds it ${PLACES[held.via] || ""}`.trim();
}

export const BY = { agent: "agent", person: "you", other: "typed" };
