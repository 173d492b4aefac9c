"""What a judgement needs to know of a session, found out: some with each look, the rest when it is asked for."""

from __future__ import annotations

import time
from dataclasses import field, replace

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.readiness.facts import Conclusion, Facts, Judge, LastLine, Logged, Marks, Need, NewLine
from tmuxmcp.readiness.facts import certain as is_certain
from tmuxmcp.readiness.matching import Prompt, draws, line_of_cursor, line_since, puts_cursor, takes_pastes
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.screens import all_logged
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import ShellState


@dataclass
class Finding:
    """Finds out what is asked of one session, from one look after the other."""

    session: Session
    prompt: Prompt = field(default_factory=Prompt)
    """The described one."""
    sent_at: int | None = None
    """Size of the log when something was typed, if it was."""
    typed: str = ""
    """What was typed: its echo is no new line."""
    entered: bool = False
    """It ended with Enter."""
    _new: tuple[int, str] = (-1, "")
    """The new line, and the size of the log for which it was made."""

    async def judged(self, judge: Judge, look: Look, now: float) -> tuple[Conclusion, Look] | float:
        """Have one look judged, at its time.

        Returns:
            The answer, with the look that it is about; or when the same facts would give one.
        """
        process, facts, confirms = look.verdict.process, facts_of(self.session, look), False
        said = judge.feed(facts, look.size, now)
        while isinstance(said, Need):
            if said is Need.LAST_LOOK:
                look, confirms = await self.session.look(), True
                facts = facts_of(self.session, look)
            else:
                facts = await self._with(said, facts, look)
            said = judge.confirm(facts, look.size) if confirms else judge.feed(facts, look.size, now)
        if not isinstance(said, Conclusion):
            return said
        if said.prompt and process:
            self.session.prompts.learn(process.pid, said.prompt, takes_pastes(look))
        return said, look

    async def _with(self, need: Need, facts: Facts, look: Look) -> Facts:
        """The facts of a look with one more."""
        match need:
            case Need.LINE:
                return replace(facts, line=last_line_of(self.session, look))
            case Need.NEW_LINE:
                return replace(facts, new_line=self._new_line(look))
            case Need.PROMPT:
                return replace(facts, shows_prompt=await self.prompt.shown(self.session, look))
            case _:
                return replace(facts, logged=await _logged(self.session, look.size))

    def _new_line(self, look: Look) -> NewLine:
        if self._new[0] != look.size:
            self._new = look.size, self._newer(look)
        process, line = look.verdict.process, self._new[1]
        return NewLine(line, process is not None and self.session.prompts.knows(process.pid, line, takes_pastes(look)))

    def _newer(self, look: Look) -> str:
        if look.size <= self.session.typed_at:
            return ""
        if self.sent_at is None or not self.entered:
            return line_of_cursor(look)
        return line_since(look, self.sent_at, self.typed)


def facts_of(session: Session, look: Look) -> Facts:
    """What one look tells without being asked for more."""
    if not look.ready and look.waiting is not InputWait.UNKNOWN:
        # Nobody is seen waiting for input: the rest would tell nothing.
        return Facts(look.verdict, marks=Marks(between_keys=look.between_keys), exited=look.exited)
    return Facts(
        verdict=look.verdict,
        kernel=look.judged,
        relays=len(look.relays),
        marks=marks_of(look),
        exited=look.exited,
        draws=draws(session, look),
        mode=look.mode,
        entered=session.entered,
    )


def marks_of(look: Look) -> Marks:
    """What the marks say in one look, as far as they count."""
    if not look.marks:
        return Marks()
    shell, in_front = look.shell, look.own_shell_in_front
    shown = shell.state is ShellState.PROMPT
    unconfirmed = look.facts is None or (look.level.where == "remote" and in_front)
    # Where the kernel does not tell what a shell has read, the prompt may be older than what was typed at it.
    newer = look.facts is not None or shell.prompt_end > look.typed_at
    return Marks(
        at_prompt=look.at_prompt and in_front,
        drawn_to=shell.prompt_end if shown and in_front and not look.knows.draws_after_mark else -1,
        late=look.at_editor and not look.at_prompt,
        alone=shown and unconfirmed and newer and not look.unanswered,
    )


def last_line_of(session: Session, look: Look) -> LastLine:
    """The line that the cursor is in, with what is known of it."""
    process, text, pastes = look.verdict.process, line_of_cursor(look), takes_pastes(look)
    editor, prompts = look.waiting is InputWait.EDITOR, session.prompts
    return LastLine(
        text,
        pastes,
        drawn=editor and puts_cursor(look),
        edited=editor and process is not None and prompts.begins(process.pid, text),
        known=process is not None and prompts.knows(process.pid, text, pastes),
    )


async def _logged(session: Session, size: int) -> Logged:
    asked = time.monotonic()
    complete = await all_logged(session, size)
    return Logged(complete, (time.monotonic() - asked) / 2)


def certain(session: Session, look: Look) -> bool:
    """Whether a look finds its program waiting for input, and nothing tells that it may be at work.

    A single look: it may print at this moment.
    """
    if not look.ready:
        return look.between_keys
    line = last_line_of(session, look)
    return is_certain(replace(facts_of(session, look), line=line), line)
