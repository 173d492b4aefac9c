"""Whether a command that runs has come to the point where it wants input: the kernel, its last line, or only silence.

What leaves the machine (ssh, telnet, a container) is judged by its last line alone: a prompt like one that was seen at
rest, a question for a secret, or a new prompt that stands still.
"""

from __future__ import annotations

import time
from typing import Literal

from tmuxmcp.latedataclass import dataclass
from tmuxmcp.readiness import weak
from tmuxmcp.readiness.kernel import Waiting
from tmuxmcp.sessions.logged import all_logged
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session
from tmuxmcp.waiting.adoptable import note_prompt
from tmuxmcp.waiting.matching import draws, line_of_cursor, takes_pastes
from tmuxmcp.waiting.wait import doubt, drawn, edits, stands_again

ASKS_S = 0.05
"""A command that waits so long for a line, without printing, asks for it."""

LISTENS_FOR_KEYS_S = 0.25
"""The same for keys: some programs ask the terminal what it is, and listen for its answer for a moment."""

NEW_PROMPT_S = 0.3
"""A prompt that is seen for the first time, behind what hides its program, stands for so long."""


@dataclass(frozen=True)
class Asked:
    """How a command came to ask."""

    look: Look
    """The last one, at which all that was printed before is in the log."""
    outcome: Literal["ready", "idle"]
    evidence: Literal["kernel", "prompt", "quiet"]
    doubt: str = ""
    """Why it may be at work all the same."""


class Asking:
    """Watches one command by looks at its session."""

    def __init__(self) -> None:
        self._size = -1
        self._printed = 0.0
        self._name = ""
        self._since = 0.0

    async def settled(self, session: Session, look: Look) -> Asked | None:
        """A last look, once what tells that it asks has stood for a while."""
        now = time.monotonic()
        if look.size != self._size:
            self._size, self._printed, self._name = look.size, now, ""
        found = self._far(session, look, now) if look.verdict.hidden else self._near(session, look, now)
        if found is None or not await all_logged(session, look.size):
            return None
        last = await session.look()
        if last.size != look.size or last.verdict.hidden != look.verdict.hidden:
            return None
        if not look.verdict.hidden:
            again = self._near(session, last, now)  # it may have just begun to listen for a time only
            if again is None or again.outcome != found.outcome:
                return None
        return Asked(await note_prompt(session, last), found.outcome, found.evidence, found.doubt)

    def _near(self, session: Session, look: Look, now: float) -> Asked | None:
        """Of a program that the kernel sees waiting."""
        process = look.verdict.process
        if process is None or not look.ready:
            if not self._listened(look):
                self._name = ""
            return None
        if process.name != self._name:
            self._name, self._since = process.name, now
        asks_s = LISTENS_FOR_KEYS_S if look.waiting is Waiting.EDITOR else ASKS_S
        if now - max(self._since, self._printed) < asks_s:
            return None
        why = doubt(session, look)
        still_s = now - self._printed
        if not why or weak.told(line_of_cursor(look), process, still_s, drawn(look)) or edits(session, look):
            return Asked(look, "ready", "kernel")
        return Asked(look, "idle", "quiet", why) if still_s >= weak.NEW_LINE_S else None

    def _listened(self, look: Look) -> bool:
        """Whether it has only woken for a moment, as a program with a timer does."""
        process = look.verdict.process
        return process is not None and process.name == self._name and process.state == "R"

    def _far(self, session: Session, look: Look, now: float) -> Asked | None:
        """Of a program that is hidden by another."""
        process, line, still_s = look.verdict.process, line_of_cursor(look), now - self._printed
        if process is None or draws(session, look) or not line.strip():
            return None
        if stands_again(session, process, look, line, still_s):
            return Asked(look, "ready", "prompt")
        if still_s < NEW_PROMPT_S or not weak.may_ask(line):
            return None
        session.prompts.learn(process.pid, line, takes_pastes(look))
        return Asked(look, "idle", "prompt")
