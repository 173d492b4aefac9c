// The page's one connection: lines of JSON, which come while something changes; it is made again when it breaks.

import { ask, doubt, Refused } from "./access.js";
import { PAGE } from "./number.js";

const SILENT_MS = 25_000; // the server says something every ten seconds
const AGAIN_MS = [250, 500, 1000, 2000, 4000];

export class Wire {
  /** `take(message)` gets each message; `tell(state, words)` how the connection stands: live, behind, shut. */
  constructor({ take, tell }) {
    this.take = take;
    this.tell = tell;
    this.session = "";
    this.failures = 0;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && this.waiting) this.connect(this.session);
    });
    addEventListener("online", () => this.abort && this.connect(this.session));
  }

  /** Connects, or does so again, to be shown a session; empty: none. */
  connect(session) {
    this.session = session;
    this.abort?.abort();
    clearTimeout(this.waiting);
    this.waiting = undefined;
    this.abort = new AbortController();
    this.run(this.abort);
  }

  /** Ends the connection for good. */
  close() {
    this.abort?.abort();
    this.abort = undefined;
    clearTimeout(this.waiting);
    this.waiting = undefined;
  }

  async run(abort) {
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => abort.abort(new Error("silence")), SILENT_MS);
    };
    try {
      heard();
      const answer = await ask("/page/stream", { session: this.session, page: PAGE }, abort.signal);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        heard();
        if (abort !== this.abort) return;
        this.failures = 0;
        this.tell("live");
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) this.take(JSON.parse(line));
      }
    } catch (error) {
      if (abort !== this.abort) return;
      if (error instanceof Refused && error.status === 401) return this.tell("shut", error);
      this.reason = error.message;
    } finally {
      clearTimeout(silence);
    }
    if (abort === this.abort) this.again();
  }

  again() {
    doubt();
    const pause = AGAIN_MS[Math.min(this.failures++, AGAIN_MS.length - 1)];
    this.tell("behind", this.reason);
    this.reason = undefined;
    this.waiting = setTimeout(() => this.connect(this.session), pause);
  }
}
