// What waits for the person, and how they settle it here. An agent's words are text below a heading of ours.

import { askJson } from "./access.js";
import { PAGE } from "./number.js";
import { make } from "./screen.js";
import { ago, becameWords, left, PLACES } from "./words.js";

const HEADINGS = {
  secret: "An agent asks you for a secret",
  input: "An agent asks you to type something",
  policy: "An agent asks whether it may do something",
  held: "You hold this session",
  over: "This request is over",
};
const ARM_MS = 700; // a click that was meant for what stood there before agrees to nothing
const STAYS_MS = 8000; // how long it is told what became of something

export class Waits {
  /** `settled()` is told of each that waits no more. */
  constructor(settled) {
    this.settled = settled;
    this.element = make("section", "waits");
    this.element.setAttribute("aria-label", "Waits for you");
    this.cards = new Map();
    this.session = "";
    this.meant = "";
    this.skewMs = 0;
    setInterval(() => this.cards.forEach((card) => card.age(this.nowMs)), 1000);
  }

  get nowMs() {
    return Date.now() + this.skewMs;
  }

  /** How much waits; what the person holds does not. */
  get count() {
    return [...this.cards.values()].filter((card) => card.waits && card.wait.kind !== "held").length;
  }

  /** How much of that is about a session. */
  about(session) {
    return [...this.cards.values()].filter((card) => card.waits && card.wait.kind !== "held" && card.wait.session_id === session).length;
  }

  /** Takes all that waits now, and the server's clock; gives what is new. `missing(id)`: its machine tells nothing. */
  take(waits, nowMs, missing) {
    this.skewMs = nowMs - Date.now();
    const ids = new Set(waits.map((wait) => wait.id));
    const fresh = waits.filter((wait) => !this.cards.has(wait.id)); // one that is told to be over stays so
    for (const wait of fresh) {
      this.put(wait.kind === "held" ? new Held(wait) : wait.kind === "policy" ? new Question(wait) : new Request(wait));
    }
    for (const [id, card] of this.cards) {
      if (ids.has(id) || !card.waits) continue;
      if (missing(card.wait.session_id || id)) this.forget(card); // it may well wait there: nobody knows
      else card.gone();
    }
    this.arrange();
    this.bring();
    return fresh;
  }

  /** The person came for what does not wait, or not yet: tells what became of it. */
  async miss(id) {
    let became = null;
    try {
      ({ became } = await askJson("/page/became", { session: this.soughtIn, request: id }));
    } catch {
      return; // nobody knows of it
    }
    if (!became || this.sought !== id || this.cards.has(id)) return;
    this.sought = "";
    const card = new Request({ id, kind: "over", session_id: this.soughtIn, message: "" });
    this.put(card);
    card.end(becameWords(became));
    this.arrange();
  }

  put(card) {
    card.removed = () => this.forget(card);
    card.settled = this.settled;
    this.cards.set(card.wait.id, card);
    this.element.append(card.element);
    card.age(this.nowMs);
  }

  forget(card) {
    if (this.cards.get(card.wait.id) === card) this.cards.delete(card.wait.id);
    card.element.remove();
    this.arrange();
  }

  /** Takes how the sessions stand. */
  stand(rows) {
    for (const card of this.cards.values()) card.stand(rows.get(card.wait.session_id));
  }

  /** Shows what is about one session; empty: all. */
  show(session) {
    this.session = session;
    this.arrange();
  }

  /** Brings the person to the request for which they came, as soon as it is known; empty: to none. */
  mean(id, session) {
    this.meant = this.sought = id;
    this.soughtIn = session;
    this.arrange();
    if (this.cards.size) this.bring();
  }

  /** Shows a request, whichever session is shown; gives whether it waits. */
  mark(id) {
    const waits = Boolean(this.cards.get(id)?.waits);
    if (waits) this.meant = id;
    this.arrange();
    return waits;
  }

  bring() {
    const id = this.sought;
    if (!id) return;
    if (!this.cards.has(id)) {
      this.miss(id);
      return;
    }
    this.sought = "";
    const { element, field } = this.cards.get(id);
    element.scrollIntoView({ block: "nearest" });
    field?.focus({ preventScroll: true });
  }

  arrange() {
    for (const card of this.cards.values()) {
      const { id, session_id, kind } = card.wait;
      card.element.hidden = Boolean(this.session) && id !== this.meant && (session_id !== this.session || kind === "held");
      card.element.classList.toggle("meant", id === this.meant);
      card.arm();
    }
    this.element.hidden = ![...this.cards.values()].some((card) => !card.element.hidden);
  }
}

/** Something that waits. */
class Wait {
  constructor(wait) {
    this.wait = wait;
    this.waits = true;
    this.element = make("article", `wait about-${wait.kind}`);
    const head = make("div", "head");
    this.left = make("span", "left");
    head.append(make("h3", "", HEADINGS[wait.kind]));
    if (wait.session_id) {
      const link = make("a", "where", wait.session_id);
      link.href = `#session=${encodeURIComponent(wait.session_id)}`;
      head.append(link);
    }
    head.append(this.left);
    this.element.append(head);
  }

  age(nowMs) {
    if (this.waits && this.wait.until_ms) this.left.textContent = left(this.wait.until_ms - nowMs);
  }

  arm() {}

  stand() {}

  gone() {
    this.waits = false;
    this.removed();
  }
}

class Held extends Wait {
  constructor(wait) {
    super(wait);
    this.note = make("p", "note");
    this.note.setAttribute("role", "status");
    this.button = make("button", "", "Give back");
    this.button.setAttribute("aria-label", `Give back ${wait.session_id}`);
    this.button.title = "Agents may type again";
    this.button.addEventListener("click", () => this.giveBack());
    const tools = make("div", "answer");
    tools.append(this.button);
    this.element.append(this.note, tools);
    this.stand();
  }

  stand(row) {
    this.held = row?.taken_over;
    if (this.failed) return;
    const where = this.held && this.held.page !== PAGE ? PLACES[this.held.via] : "";
    this.note.textContent = `${where ? `You hold it ${where}. ` : ""}Agents only look at it until you give it back.`;
  }

  /** What this page does not hold it takes first: a page gives back only what it holds. */
  async giveBack() {
    const asked = { session: this.wait.session_id, page: PAGE };
    this.button.disabled = this.failed = true;
    try {
      if (this.held?.page !== PAGE) await askJson("/page/take", asked);
      await askJson("/page/give-back", asked);
      this.failed = false;
    } catch (error) {
      this.note.textContent = `${error.message} ${error.hint || ""}`;
    }
    this.button.disabled = false;
  }

  age(nowMs) {
    if (this.wait.asked_ms) this.left.textContent = ago(new Date(this.wait.asked_ms).toISOString(), nowMs);
  }
}

/** Something that an agent asks, with its words. */
class Asking extends Wait {
  constructor(wait) {
    super(wait);
    this.tools = make("div", "answer");
    this.note = make("p", "note");
    this.note.setAttribute("role", "status");
    this.element.append(...(wait.message ? [make("p", "said", wait.message)] : []), this.tools, this.note);
  }

  button(text, kind, press) {
    const button = make("button", kind, text);
    button.type = "button";
    button.addEventListener("click", press);
    this.tools.append(button);
    return button;
  }

  /** Asks the server to settle it; gives whether it was settled, by whomever. */
  async settle(path, asked, done) {
    if (this.busy) return true;
    this.busy = true;
    this.tools.inert = true;
    let over = true;
    try {
      const told = await askJson(path, asked);
      if (told.first) this.end(done);
      else if (told.typed) this.end(`It was typed, but the request was over by then. ${becameWords(told.became)}`);
      else this.end(`Somebody was first. ${becameWords(told.became)}`);
    } catch (error) {
      over = false;
      this.say(`${error.message} ${error.hint || ""}`, true);
    }
    this.tools.inert = this.busy = false;
    if (this.waits && this.passed) this.gone(); // somebody else has settled it meanwhile
    return over;
  }

  say(text, warns = false) {
    this.note.textContent = text;
    this.note.classList.toggle("warns", warns);
  }

  /** It waits no more: tells why, for a while. */
  end(text) {
    this.waits = false;
    this.element.classList.add("settled");
    this.left.textContent = "";
    this.tools.remove();
    this.say(text);
    this.settled();
    setTimeout(() => this.removed(), STAYS_MS);
  }
}

/** A request for input. */
class Request extends Asking {
  constructor(wait) {
    super(wait);
    this.secret = wait.kind === "secret";
    this.asked = { session: wait.session_id, request: wait.id };
    this.field = make("input", "typed");
    this.field.autocomplete = "off";
    this.field.spellcheck = false;
    for (const name of ["autocapitalize", "autocorrect"]) this.field.setAttribute(name, "off");
    for (const name of ["data-1p-ignore", "data-lpignore", "data-bwignore"]) this.field.setAttribute(name, "true");
    this.field.setAttribute("aria-label", this.secret ? "The secret" : "Your answer");
    this.field.placeholder = this.secret ? "The secret" : "Your answer";
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing && this.field.value) this.type();
    });
    this.field.addEventListener("input", () => this.name());
    addEventListener("pagehide", () => this.empty());
    this.tools.append(this.field);
    this.enter = this.button("", "main", () => this.type());
    this.button("Done already", "", () => this.settle("/page/settle", { ...this.asked, outcome: "done" }, "Marked as done."));
    this.button("Decline", "", () => this.settle("/page/settle", { ...this.asked, outcome: "declined" }, "Declined."));
    this.stand();
  }

  name() {
    this.enter.textContent = this.secret || this.field.value ? "Type it" : "Press Enter";
  }

  /** Says what would become of a line. */
  stand(row) {
    if (!this.waits) return;
    const hides = row?.mode === "password";
    this.field.type = this.secret || hides ? "password" : "text";
    this.name();
    if (this.failed && this.mode === row?.mode) return; // what went wrong stays until something changes
    this.failed = false;
    this.mode = row?.mode;
    if (hides) this.say("The program shows nothing of what is typed.");
    else if (this.secret) this.say("The program shows what is typed at this moment: a secret is typed only while it does not.", true);
    else if (row?.mode === "shell_prompt") this.say("The session is at its prompt: a line runs as a command.");
    else this.say("");
  }

  async type() {
    const line = this.field.value;
    if (this.secret && !line) return this.field.focus();
    const shown = this.field.type === "text";
    this.empty(); // before anything else: it is nowhere but on its way
    if (await this.settle("/page/answer", { ...this.asked, line }, "Typed.")) return;
    this.failed = true;
    if (shown) this.field.value = line;
    this.name();
    this.field.focus();
  }

  empty() {
    this.field.value = "";
  }

  end(text) {
    this.empty();
    super.end(text);
  }

  async gone() {
    this.passed = true;
    if (this.busy) return;
    try {
      const { became } = await askJson("/page/became", this.asked);
      if (became && this.waits) this.end(becameWords(became));
    } catch (error) {
      if (this.waits) this.end(error.message);
    }
  }
}

/** A question of the policy. */
class Question extends Asking {
  constructor(wait) {
    super(wait);
    this.allow = [this.button("Allow once", "main", () => this.agree("once", "Allowed once."))];
    if (wait.for_session) {
      this.allow.push(this.button("Allow for this session", "", () => this.agree("session", "Allowed for this session.")));
      this.allow[1].title = "Whatever the same rule asks about, for this agent, until the session ends";
    }
    this.button("Decline", "", () => this.agree("declined", "Declined."));
  }

  agree(answer, done) {
    return this.settle("/page/agree", { question: this.wait.id, answer }, done);
  }

  /** Something moved: for a moment nothing can be agreed to. */
  arm() {
    clearTimeout(this.arming);
    for (const button of this.allow) button.disabled = true;
    this.arming = setTimeout(() => this.allow.forEach((button) => (button.disabled = false)), ARM_MS);
  }

  gone() {
    this.passed = true;
    if (!this.busy) this.end("Somebody answered it, or it was forgotten.");
  }
}
