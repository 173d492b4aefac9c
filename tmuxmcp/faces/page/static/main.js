// The page begins: a token first, then the connection; the address says what is shown.

import { Waits } from "./answer.js";
import { enter, forget, fragment, leave, Refused } from "./access.js";
import { List } from "./list.js";
import { Missing } from "./missing.js";
import { Pause } from "./pause.js";
import { make } from "./screen.js";
import { Session } from "./session.js";
import { passOn, requestIn, takeIn } from "./tabs.js";
import { Wire } from "./wire.js";
import { groupOf, programOf, stateWords } from "./words.js";

const app = document.getElementById("app");
const rows = new Map();
const list = new List();
const waits = new Waits(stand);
const missing = new Missing();
let session = null;

const header = make("header", "top");
const home = make("a", "home", "Sessions");
home.href = "#";
const crumb = make("h1", "crumb");
const program = make("span", "program");
const link = make("span", "link");
link.setAttribute("role", "status");
const out = make("button", "out", "Sign out");
out.title = "Forget in this tab, and on the server, that you were let in";
out.addEventListener("click", signOut);
const paused = make("p", "paused-not");
paused.setAttribute("role", "status");
paused.hidden = true;
const pauseAll = new Pause("", (text) => {
  paused.textContent = text;
  paused.hidden = !text;
});
header.append(home, crumb, program, list.count, pauseAll.badge, list.filter, pauseAll.button, link, out);
const spoken = make("p", "spoken");
spoken.setAttribute("aria-live", "polite");

const wire = new Wire({ take, tell });

function take(message) {
  if (message.kind === "list") {
    if (message.whole || message.missing) missing.take(message.missing || []);
    const there = new Set(message.rows.map((row) => row.session_id));
    const gone = message.whole ? [...rows.keys()].filter((name) => !there.has(name)) : message.gone;
    for (const name of gone) rows.delete(name);
    for (const row of message.rows) {
      speak(rows.get(row.session_id), row);
      rows.set(row.session_id, row);
    }
    if (message.waits) for (const wait of waits.take(message.waits, message.now_ms, (id) => missing.about(id))) speakOf(wait);
    waits.stand(rows);
    pauseAll.showAll(rows);
    const before = session?.row;
    stand();
    if (before && session.row && before.created_at !== session.row.created_at) show(); // another one of that name
    return;
  }
  if (message.kind === "screen" && session && message.session === session.id) session.take(message);
}

/** Shows how the sessions stand, and which of them ask. */
function stand() {
  for (const [id, row] of rows) row.waiting = waits.about(id);
  list.update(rows, missing.machines.length > 0);
  count();
  if (session) session.update(rows.get(session.id), missing.about(session.id));
  header.dataset.state = session?.element.dataset.state || "";
  if (session) program.textContent = session.row ? programOf(session.row) : "";
}

/** Says how much needs the person. */
function count() {
  const others = [...rows.values()].filter((row) => groupOf(row) === "needs" && !row.waiting).length;
  const number = waits.count + others;
  list.count.textContent = number ? `${number} ${number === 1 ? "needs" : "need"} you` : "";
  document.title = `${number ? `(${number}) ` : ""}${session ? `${session.id} · ` : ""}tmuxmcp`;
}

function speakOf(wait) {
  if (wait.kind !== "held") spoken.textContent = `An agent waits for you${wait.session_id && ` in ${wait.session_id}`}`;
}

/** Tells a person who does not see the page what has changed for them to know. */
function speak(before, row) {
  if (!before || stateWords(before) === stateWords(row)) return;
  if (row.mode === "password" || row.exited || (session && session.id === row.session_id)) {
    spoken.textContent = `${row.session_id}: ${stateWords(row)}`;
  }
}

function tell(state, why) {
  link.dataset.state = state;
  link.textContent = state === "live" ? "Live" : state === "behind" ? "Behind: connecting again" : "Shut";
  link.title = typeof why === "string" ? why : "";
  document.body.classList.toggle("behind", state !== "live");
  if (state === "shut") {
    stop();
    forget();
    gate(why);
  }
}

/** Shows what the address says. */
function show() {
  const id = fragment().get("session") || "";
  session?.close();
  session = id ? new Session(id) : null;
  crumb.textContent = id;
  program.textContent = "";
  header.classList.toggle("one", Boolean(id));
  waits.show(id);
  takeIn((request) => waits.mark(request));
  count();
  app.replaceChildren(header, paused, missing.element, waits.element, session ? session.element : list.element, spoken);
  if (session) session.update(rows.get(id), missing.about(id));
  waits.mean(requestIn(fragment()), id); // once all is at its place: what is moved loses the focus
  wire.connect(session?.earlier ? "" : id);
}

/** Asks for nothing more. */
function stop() {
  wire.close();
  session?.close();
  session = null;
}

async function signOut() {
  stop();
  const error = await leave();
  gate(undefined, error ? "This tab has forgotten that you were let in. The server could not be told." : "You are signed out.");
}

function gate(error, said) {
  const box = make("main", "gate");
  box.append(make("h1", "", said || (error ? "This page is not let in" : "This page is not open yet")));
  if (error instanceof Refused) box.append(make("p", "", error.message));
  const how = make("p", "", "Run this in a terminal; it opens the page for you:");
  box.append(how, make("code", "block", "tmuxmcp page"));
  box.append(make("p", "note", "It makes a code that is good once, for a minute. Nothing else does."));
  const request = requestIn(fragment());
  if (request) {
    const other = make("p", "note");
    other.setAttribute("role", "status");
    box.append(make("p", "", "Or answer there what you were sent for:"), make("code", "block", `tmuxmcp answer ${request}`), other);
    passOn(request, () => (other.textContent = "Another tab of this browser, which is let in, shows it now."));
  }
  app.replaceChildren(box);
}

addEventListener("hashchange", async () => {
  if (fragment().has("code")) await begin();
  else if (app.contains(header)) show();
});

addEventListener("keydown", (event) => {
  if (session && app.contains(session.element) && !document.querySelector("dialog[open]") && session.hands.pressed(event)) return;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape") {
    if (event.target === list.filter && list.filter.value) {
      list.filter.value = "";
      list.arrange();
    } else if (typing) event.target.blur();
    else if (session) location.hash = "";
  } else if (typing) return;
  else if (event.key === "/" && !session) {
    event.preventDefault();
    list.filter.focus();
  } else if (!session && (event.key === "j" || event.key === "k")) list.step(event.key === "j" ? 1 : -1);
});

async function begin() {
  try {
    if (await enter()) show();
    else gate();
  } catch (error) {
    gate(error);
  }
}

await begin();
