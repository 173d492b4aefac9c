"""One look at a session: the value from which everything about it is judged.

A session moves while it is looked at, and two reads of something that moves contradict each other. So all that a
judgement needs is read in one go, in the order in which each part covers the one before: what tmux last told of the
pane, then the kernel's word on the terminal, then the log to its end with every mark in it. What the kernel saw
waiting had been printed before; what had ended has no more to print.

This module alone asks `TtyWitness`. It types nothing, and asks tmux nothing.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import anyio
import psutil

from tmuxmcp.contract.results import Foreground, Mode
from tmuxmcp.readiness.kernel import MANY_IN_ONE, KernelFacts, TtyWitness, Verdict, Waiting, judge
from tmuxmcp.record.log import RawLog
from tmuxmcp.sessions.life import OVER, State
from tmuxmcp.terminal.marks import Finished, ShellState, ShellTrack
from tmuxmcp.terminal.modes import ModeFacts, mode_of
from tmuxmcp.terminal.plain import plain
from tmuxmcp.tmux.panes import Pane

LAST_TEXT_BYTES = 2048
"""Raw bytes at the log's end that hold its last line: a prompt with all its colours."""


@dataclass(frozen=True)
class Scan:
    """What tmux last told of a session's pane, then its log to the end, with every mark in it."""

    pane: Pane | None
    """As tmux last told; None: tmux no longer knows it."""
    state: State
    """Where in its life it was then."""
    launcher_alive: bool
    """False: the launcher has gone, which it does when the log holds everything."""
    exit_status: tuple[int | None, str | None]
    """Exit code and signal name of the ended program; at most one of them is known."""
    log: RawLog
    size: int
    """Of the log; everything up to here was read, and nothing behind it."""
    cols: int
    rows: int
    program: str
    """Name of the session's own program, without its directory."""
    marks: bool
    """Its shell sends marks."""
    shell: ShellTrack
    """What the marks say."""
    commands: tuple[Finished, ...]
    """What the shell finished lately, newest last."""

    @property
    def exited(self) -> bool:
        """Nothing runs in it any more."""
        return self.state in OVER

    @property
    def replaced(self) -> bool:
        """A script has put another program into its pane."""
        return self.state is State.REPLACED

    @property
    def alternate_screen(self) -> bool:
        """Its program draws on the alternate screen."""
        return self.pane is not None and self.pane.alternate_screen

    @property
    def at_prompt(self) -> bool:
        """The marks say that its shell waits at a prompt."""
        return self.marks and self.shell.state in (ShellState.PROMPT, ShellState.CONTINUATION)

    @cached_property
    def last_text(self) -> str:
        """The end of what it printed, as clean text."""
        start = max(self.size - LAST_TEXT_BYTES, 0)
        return plain(self.log.read(start, self.size - start), self.cols, self.rows).text


@dataclass(frozen=True)
class Look(Scan):
    """A scan, and what the kernel said just before it."""

    facts: KernelFacts | None
    """None: they cannot be had, or the program has ended."""
    verdict: Verdict
    pid: int | None
    """Process id of the session's own program."""
    started_in: str
    """The directory that the session was made in."""

    @property
    def waiting(self) -> Waiting:
        """What its foreground program does."""
        return self.verdict.waiting

    @property
    def ready(self) -> bool:
        """Its foreground program waits for input."""
        return self.verdict.ready

    @property
    def secret(self) -> bool:
        """Its foreground program waits for a line that is not shown."""
        return self.waiting is Waiting.SECRET

    @property
    def own_shell_in_front(self) -> bool:
        """The session's own program has the terminal, as far as the kernel tells."""
        return self.facts is None or self.facts.foreground == self.pid

    @property
    def at_editor(self) -> bool:
        """The session's own shell certainly waits for keys, and has read all that was typed."""
        return self.facts is not None and self.own_shell_in_front and self.waiting is Waiting.EDITOR

    @property
    def unreported(self) -> bool:
        """Its shell waits at its prompt, and did not tell that the last command ended: its hooks are gone."""
        return self.shell.prompted is not None and self.at_editor

    @property
    def takes_commands(self) -> bool:
        """Its shell waits at its prompt in its line editor, as far as marks and kernel tell."""
        # One that reads a whole line has switched its line editor off.
        edits = self.own_shell_in_front and self.waiting is not Waiting.LINE
        return (self.at_prompt and edits) or self.unreported

    @property
    def mode(self) -> Mode:
        """What its terminal does."""
        process = self.verdict.process
        return mode_of(
            ModeFacts(
                lost=self.state is State.LOST,
                exited=self.exited,
                at_prompt=self.takes_commands,
                waiting=self.waiting.value,
                alternate_screen=self.alternate_screen,
                command=process.name if process else "",
                hidden_line=self.last_text.rsplit("\n", 1)[-1] if self.verdict.hidden else "",
            )
        )

    @cached_property
    def foreground(self) -> Foreground | None:
        """The program that input goes to, with its words as they are when first asked for."""
        group = self.facts.foreground if self.facts else None
        if group is None:
            return None
        try:
            words = psutil.Process(group).cmdline() or [psutil.Process(group).name()]
        except psutil.Error:
            return None
        applet = len(words) > 1 and os.path.basename(words[0]) in MANY_IN_ONE
        # A program that renames itself fills what is left of its old words with blanks.
        return Foreground(pid=group, command=printable(" ".join(words[applet:]).strip())[:200])

    @cached_property
    def cwd(self) -> str:
        """The working directory of its own program; of one that has ended, the last that is known."""
        if not self.exited and self.pid:
            with suppress(OSError):
                return printable(os.readlink(f"/proc/{self.pid}/cwd"))
        return self.shell.cwd or self.started_in


class Terminal:
    """Asks the kernel about one session's terminal, which it keeps open from one look to the next."""

    def __init__(self) -> None:
        self._witness: TtyWitness | None = None

    def see(self, pane: Pane) -> None:
        """From now on look at the terminal of this pane."""
        if self._witness is None or self._witness.tty != pane.tty:
            self.close()
            self._witness = TtyWitness(pane.tty)

    def look(self, pane: Pane | None) -> tuple[KernelFacts | None, Verdict]:
        """What the kernel says now, and what that means."""
        if pane is None or pane.dead or self._witness is None:
            return None, Verdict(Waiting.UNKNOWN, "it has ended")
        facts = self._witness.look(pane.leader)
        return facts, judge(facts)

    def size(self) -> tuple[int, int] | None:
        """Columns and rows as its program sees them; None where they cannot be had."""
        return self._witness.size() if self._witness else None

    def close(self) -> None:
        """Let go of it."""
        if self._witness:
            self._witness.close()
            self._witness = None


Seen = TypeVar("Seen", bound=Scan)


class Wakes(Generic[Seen]):
    """Iterates over looks at a session: one now, one after each growth of its log or each step, until the deadline.

    The event of the next growth is taken before each look, so that no growth is missed. Growth is told only within
    `LogWatcher.waiting`; without that, the session is looked at after each step.
    """

    def __init__(
        self,
        next_change: Callable[[], anyio.Event],
        see: Callable[[], Awaitable[Seen]],
        step_s: float | Callable[[], float],
        deadline: float = math.inf,
    ) -> None:
        """`step_s`: longest time between two looks, or what gives it; `deadline`: of `time.monotonic()`."""
        self._next_change = next_change
        self._see = see
        self._step_s = step_s
        self._deadline = deadline
        self._change: anyio.Event | None = None

    def __aiter__(self) -> Wakes[Seen]:
        return self

    async def __anext__(self) -> Seen:
        if self._change:
            left_s = self._deadline - time.monotonic()
            if left_s <= 0:
                raise StopAsyncIteration
            step_s = self._step_s if isinstance(self._step_s, (int, float)) else self._step_s()
            with anyio.move_on_after(min(step_s, left_s)):
                await self._change.wait()
        self._change = self._next_change()
        return await self._see()


def printable(text: str) -> str:
    """Text from the system, safe for JSON: undecodable bytes replaced."""
    return os.fsencode(text).decode("utf-8", "replace")
