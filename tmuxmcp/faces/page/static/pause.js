// Keeps agents from typing: in one session, or in all and those that are made later.

import { askJson } from "./access.js";
import { make } from "./screen.js";
import { groupOf } from "./words.js";

export class Pause {
  /** `session`: its id; empty: all. `say(text)` tells what went wrong. */
  constructor(session, say) {
    this.session = session;
    this.say = say;
    this.button = make("button", "pause", "Pause");
    this.button.hidden = true;
    this.button.addEventListener("click", () => this.act());
    this.badge = make("span", "holder", "");
    this.badge.hidden = true;
  }

  /** Takes how it is paused: `one`, `all`, or not at all. */
  show(paused, live) {
    this.paused = paused;
    const all = !this.session || paused === "all";
    this.button.hidden = !live;
    this.button.textContent = paused ? (all ? "Resume all agents" : "Resume agents") : this.session ? "Pause agents" : "Pause all agents";
    this.button.title = paused ? "Agents may type again" : `Agents do not type ${this.session ? "into it" : "into any session"} until you resume`;
    this.button.classList.toggle("paused", Boolean(paused));
    this.badge.hidden = !paused || !live;
    this.badge.textContent = paused === "all" ? "All agents are paused" : "Agents are paused";
  }

  /** Takes all sessions: they are paused together or not. */
  showAll(rows) {
    const live = [...rows.values()].filter((row) => groupOf(row) !== "over");
    this.show(live.some((row) => row.paused === "all") ? "all" : "", live.length > 0);
  }

  async act() {
    this.button.disabled = true;
    try {
      const session = this.paused === "all" ? "" : this.session;
      await askJson(this.paused ? "/page/resume" : "/page/pause", { session });
      this.say("");
    } catch (error) {
      this.say(`${error.message} ${error.hint || ""}`);
    }
    this.button.disabled = false;
  }
}
