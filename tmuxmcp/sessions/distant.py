"""The far end of a session that ssh leads to: what the kernel there says, in place of the `unknown` of the one here.

A word of the far end counts for the look that asked for it, and for no other: what it said before may be over. Where
it does not answer in time, how the session stands is unknown.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from tmuxmcp.machine.ssh.channel import Channel
from tmuxmcp.machine.ssh.client import SSH_PROGRAM
from tmuxmcp.machine.witness.far import facts_of
from tmuxmcp.machine.witness.kernel import InputWait, KernelFacts, Verdict, judge


class FarEnd:
    """What this broker knows of one session's far end."""

    def __init__(self, control: str) -> None:
        self._channel = Channel(SSH_PROGRAM, Path(control))

    @property
    def open(self) -> bool:
        """A second channel holds the connection open."""
        return self._channel.open

    @property
    def answers(self) -> bool:
        """Its witness has answered before: where it does not, it is only late."""
        return not self._channel.why_not and self._channel.answered_at > 0

    async def look(self, facts: KernelFacts | None, verdict: Verdict) -> tuple[KernelFacts | None, Verdict]:
        """What the far kernel says now, and the verdict on what is typed to: there, or here where ssh itself asks.

        Args:
            facts, verdict: of the terminal here.
        """
        self.close_channel_if_over(facts, verdict)
        if not _leads_there(facts, verdict):
            return None, verdict
        answer = await self._channel.ask()
        if answer is None:
            return None, _unknown(verdict, self._why())
        far = facts_of(answer, self._channel.machine)
        if far is None:
            return None, _unknown(verdict, "the far end does not say what its terminal does")
        judged = judge(far)
        if judged.waiting is InputWait.UNKNOWN:
            judged = replace(judged, why=f"at the far end, {judged.why}", hidden=True)
        return far, judged

    def close_channel_if_over(self, facts: KernelFacts | None, verdict: Verdict) -> None:
        """Close the second channel when ssh has given the terminal back: it would wait for that one for ever."""
        if self._channel.open and facts is not None and facts.canonical:
            self._channel.close()

    def close(self) -> None:
        """Let go of it."""
        self._channel.close()

    def _why(self) -> str:
        if self._channel.why_not:
            return self._channel.why_not
        if not self._channel.answered_at:
            return "the far end has not said yet what its terminal does"
        return f"the far end has not answered for {time.monotonic() - self._channel.answered_at:.1f} s"


def _leads_there(facts: KernelFacts | None, verdict: Verdict) -> bool:
    """Whether ssh has passed its terminal on, and has read all that was typed: before, and after, it keeps lines.

    That it works at this moment says nothing: our own questions go through its hands.
    """
    if facts is None or facts.canonical or facts.unread or facts.writing or facts.changing:
        return False
    works = verdict.waiting is InputWait.BUSY and verdict.process is not None and verdict.process.name == SSH_PROGRAM
    return works or (verdict.waiting is InputWait.UNKNOWN and verdict.hidden)


def _unknown(verdict: Verdict, why: str) -> Verdict:
    return Verdict(InputWait.UNKNOWN, why, verdict.process, hidden=True)
