"""One look at a session: the value from which everything about it is judged.

A session moves while it is looked at, and two reads of something that moves contradict each other. So all that a
judgement needs is read in one go, in the order in which each part covers the one before: what tmux last told of the
pane, then the kernel's word on the terminal, then the log to its end with every mark in it. What the kernel saw
waiting had been printed before; what had ended has no more to print.

What few judgements ask for is found out when the first of them does, and stands from then on as all the rest.

This module alone asks `DeepWitness`. It types nothing, and asks our tmux nothing.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import anyio
import psutil

from tmuxmcp.contract.results import Foreground, Mode
from tmuxmcp.contract.value import value
from tmuxmcp.machine import proc
from tmuxmcp.machine.launch.shells.record import Shell
from tmuxmcp.machine.witness import tty
from tmuxmcp.machine.witness.kernel import MANY_IN_ONE, POLL_WAIT_CHANNELS, EnteredLine, InputWait, KernelFacts, Verdict
from tmuxmcp.machine.witness.relays import MOST_RELAYS, DeepWitness, TerminalFacts
from tmuxmcp.record.levels import Level
from tmuxmcp.record.log import RawLog, ResumePoints
from tmuxmcp.sessions.levels import LevelScan, has_terminal, shell_at
from tmuxmcp.sessions.life import OVER_STATES, State
from tmuxmcp.terminal.marks import Finished, ShellState, ShellTrack
from tmuxmcp.terminal.modes import ModeFacts, asks_secret, may_ask, mode_of, shape
from tmuxmcp.terminal.text.echo import LAST_LINE_BYTES, drawn_to_cursor, with_blanks
from tmuxmcp.terminal.text.plain import plain
from tmuxmcp.tmux.panes import Pane

LAST_TEXT_BYTES = 2048
"""Raw bytes at the log's end that hold its last line: a prompt with all its colours."""

EDITOR_SLEEPS_S = 1.0
"""The longest that a line editor sleeps between two looks for a key."""

MIN_LOOK_INTERVAL_S = 0.05
"""Least time between two looks at what goes on in a session, however much it prints."""


@value
class LogView:
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
    places: ResumePoints
    """Of the log, as other looks have found them."""
    size: int
    """Of the log; everything up to here was read, and nothing behind it."""
    cols: int
    rows: int
    host: str
    """The machine that its ssh leads to; empty: its program runs here."""
    typed_at: int
    """Size of the log before something was last typed; -1: that is not known."""
    cut: bool
    """Its connection to that machine was cut."""
    program: str
    """Name of the session's own program, without its directory."""
    own_marks: bool
    """Its own program is a shell that sends marks."""
    levels: tuple[LevelScan, ...]
    """The shells that are there, as far as was seen: the session's own, and those that were adopted in front of it."""
    adopting: bool
    """One more is being adopted at this moment."""

    @cached_property
    def level(self) -> Level:
        """The shell in front of the others."""
        return self.levels[-1].level

    @cached_property
    def shell(self) -> ShellTrack:
        """What its marks say."""
        return self.levels[-1].shell

    @property
    def commands(self) -> tuple[Finished, ...]:
        """What it finished lately, newest last."""
        return self.levels[-1].commands

    @cached_property
    def marks(self) -> bool:
        """The shell in front of the others sends marks."""
        return self.own_marks or len(self.levels) > 1

    @cached_property
    def knows(self) -> Shell:
        """What we know of the shell in front of the others."""
        return shell_at(self.level, self.program)

    @property
    def leaves_prompt(self) -> bool:
        """Its shell has said that it took no command at its prompt, and is about to draw another."""
        why, _, at = self.shell.refused or ("", "", -1)
        refused = self.shell.state is ShellState.PROMPT and why == "r" and at >= self.shell.prompt_end
        return refused and self.knows.leaves_refused

    @property
    def unanswered(self) -> bool:
        """What was typed may be on its way to the shell, on another machine, whose prompt is shown."""
        return self.typed_at_prompt and self.level.where == "remote"

    @cached_property
    def typed_at_prompt(self) -> bool:
        """Something was typed since the prompt that is shown."""
        return self.shell.state is ShellState.PROMPT and self.shell.prompt_end <= self.typed_at

    def at(self, nonce: str) -> LevelScan | None:
        """What the marks of one shell say; None: it has ended."""
        return next((each for each in self.levels if each.level.nonce == nonce), None)

    @property
    def exited(self) -> bool:
        """Nothing runs in it any more."""
        return self.state in OVER_STATES

    @property
    def replaced(self) -> bool:
        """A script has put another program into its pane."""
        return self.state is State.REPLACED

    @property
    def alternate_screen(self) -> bool:
        """Its program draws on the alternate screen."""
        return self.pane is not None and self.pane.alternate_screen

    @cached_property
    def draws(self) -> bool:
        """A full-screen program draws, as far as tmux was asked or the log tells."""
        return self.alternate_screen or self.places.inside(self.size)

    @cached_property
    def at_prompt(self) -> bool:
        """The marks say that its shell waits at a prompt."""
        return self.marks and self.shell.state in (ShellState.PROMPT, ShellState.CONTINUATION)

    @cached_property
    def last_text(self) -> str:
        """The end of what it printed, as clean text."""
        start = max(self.size - LAST_TEXT_BYTES, 0)
        return plain(self.log.read(start, self.size - start), self.cols, self.rows).text

    @cached_property
    def text_to_cursor(self) -> str:
        """The end of what it printed, up to the line that the cursor is in, with its blanks up to there."""
        data = self.log.read(max(self.size - LAST_LINE_BYTES, 0), min(self.size, LAST_LINE_BYTES))
        drawn = drawn_to_cursor(data, self.cols, self.rows)
        return with_blanks(self.last_text, data, self.cols) if drawn is None else drawn

    @property
    def line_of_cursor(self) -> str:
        """The line that the cursor is in, with its blanks up to there."""
        return self.text_to_cursor.rpartition("\n")[2]


@value
class Look(LogView):
    """A scan, and what the kernel said just before it."""

    heard: int
    """Size of the log before the kernel was asked: what is behind it may have been printed after its word."""
    facts: KernelFacts | None
    """Of the pane's own terminal; None: they cannot be had, or the program has ended."""
    verdict: Verdict
    """On the terminal that input comes to: the pane's own, or one behind relays."""
    judged: KernelFacts | None
    """Facts of the terminal that input comes to, also of one at the far end of ssh; None: they cannot be had."""
    terminal: str
    """Path of that terminal."""
    relays: tuple[str, ...]
    """The programs that pass input on to it, the pane's own first."""
    reader: bool
    """Who is judged is outside the foreground group."""
    far: KernelFacts | None
    """The facts of the terminal at the far end of its ssh, as the witness there has just said; None: it has not."""
    far_late: bool
    """The witness at the far end answers, and has not answered this time."""
    pid: int | None
    """Process id of the session's own program."""
    entered: EnteredLine | None
    """The last line that was entered, where that is known."""
    started_in: str
    """The directory that the session was made in."""
    leaving: bool = False
    """Its front shell has ended; how, it cannot be told yet."""
    unmarked_prompt: tuple[int, int, int] | None = None
    """Process id of a shell that was at its prompt, how often it had slept then, and the size of the log."""

    @property
    def waiting(self) -> InputWait:
        """What its foreground program does."""
        return self.verdict.waiting

    @property
    def ready(self) -> bool:
        """Its foreground program waits for input."""
        return self.verdict.ready

    @property
    def secret(self) -> bool:
        """Its foreground program waits for a line that is not shown."""
        return self.waiting is InputWait.SECRET

    @property
    def shell_pid(self) -> int | None:
        """Process id of the shell in front of the others, or of the session's own program; None: it is not known."""
        return self.level.pid if self.level.number else self.pid

    @cached_property
    def own_shell_in_front(self) -> bool:
        """Our shell, or the session's own program, has the terminal, as far as the kernel tells.

        Not where another process of its group waits for input there: one that a key or a prompt began, or that runs
        without job control.
        """
        process = self.verdict.process
        another = self.ready and self.far is None and process is not None and self.shell_pid not in (None, process.pid)
        return has_terminal(self.level, self.facts, self.pid) and not another and not self.leaving

    @property
    def prompt_in_front(self) -> bool:
        """The marks say that its shell waits at a prompt; and it has the terminal, as far as the kernel tells."""
        return self.at_prompt and self.own_shell_in_front

    @property
    def prompt_drawn_to(self) -> int:
        """Size of the log where that prompt ended, of a shell that draws nothing more behind it; else -1."""
        shown = self.prompt_in_front and self.shell.state is ShellState.PROMPT
        return self.shell.prompt_end if shown and not self.knows.draws_after_mark else -1

    @property
    def prompt_late(self) -> bool:
        """Its shell certainly waits for keys, and has not said that it is at its prompt: that is on the way."""
        return self.at_editor and not self.at_prompt

    @property
    def prompt_alone(self) -> bool:
        """The marks show a prompt where the kernel cannot tell, and nothing typed since is on its way."""
        if not self.marks or self.shell.state is not ShellState.PROMPT or self.unanswered:
            return False
        # Where the kernel does not tell what a shell has read, the prompt may be older than what was typed at it.
        if self.facts is None:
            return self.shell.prompt_end > self.typed_at
        return self.level.where == "remote" and self.own_shell_in_front

    @property
    def may_be_asked(self) -> bool:
        """The kernel would tell if another program were in the shell's place (exec): a question reaches nobody else."""
        return self.level.where != "remote"

    @cached_property
    def may_listen(self) -> bool:
        """Our shell reads keys, as far as the kernel tells."""
        facts = self.facts
        if facts is None:
            return True
        # What was typed at this prompt may be on its way to the shell, and make another program of it.
        reads = self.waiting is not InputWait.BUSY or not (facts.unread or self.typed_at_prompt)
        return reads and self.marks and self.own_shell_in_front and (not facts.canonical or self.level.reads_lines)

    @property
    def terminals_in_one(self) -> str:
        """The program in front that shows one of several terminals, among which keys switch (tmux, screen); or ""."""
        process = self.verdict.process
        names = (*self.relays, process.name if process and self.verdict.hidden else "")
        return next((name.partition(":")[0] for name in names if name.startswith(("tmux", "screen"))), "")

    @cached_property
    def at_editor(self) -> bool:
        """Our shell certainly waits for keys, and has read all that was typed."""
        reads = self.waiting is InputWait.EDITOR or (self.level.reads_lines and self.waiting is InputWait.LINE)
        seen = self.level.pid is not None or not (self.relays or self.reader)
        return self.marks and self.facts is not None and self.own_shell_in_front and reads and seen

    @property
    def entered_in_silence(self) -> bool:
        """Something was entered last, and nothing was printed since: what is shown stood there before."""
        return self.entered is not None and self.entered.at == self.typed_at == self.size

    @property
    def may_ask_secret(self) -> bool:
        """Its last line asks for a secret, and nothing tells whether it shows what it reads."""
        seen = self.waiting is InputWait.EDITOR and self.mode == "line_input"
        return (seen or self.verdict.hidden) and asks_secret(self.text_to_cursor)

    @property
    def unread(self) -> bool:
        """Something that was typed has not been read, as far as the kernel tells."""
        return self.judged is not None and self.judged.unread > 0

    @property
    def read_by(self) -> int:
        """Number of the command that waits for input, or hides who does; 0: no command is seen to."""
        reads = self.ready or self.waiting is InputWait.UNKNOWN
        return self.shell.number if self.marks and reads and self.shell.state is ShellState.RUNNING else 0

    @property
    def unreported(self) -> bool:
        """Its shell waits at its prompt, and did not tell that the last command ended: its hooks are gone."""
        return self.shell.prompted is not None and self.at_editor

    @property
    def may_be_untold(self) -> bool:
        """A command seems to run, and its shell waits for keys: a Ctrl-C may have kept it from telling of a prompt."""
        return self.shell.state is ShellState.RUNNING and self.at_editor and self.knows.draws_after_mark

    @property
    def takes_commands(self) -> bool:
        """Its shell waits at its prompt in its line editor, as far as marks and kernel tell."""
        if self.adopting or (self.unanswered and self.waiting is InputWait.UNKNOWN):
            return False
        # One that reads a whole line has switched its line editor off.
        edits = self.own_shell_in_front and (self.waiting is not InputWait.LINE or self.level.reads_lines)
        return (self.at_prompt and edits) or self.unreported

    @cached_property
    def between_keys(self) -> bool:
        """Its shell sleeps at its prompt for a short time, and nothing was typed and nothing else runs there.

        So does one whose line editor is written in its own language, as ble.sh: between two looks for the next key it
        sleeps. What sleeps for long, or until something comes, may be the work of a key.
        """
        facts = self.facts
        if facts is None or self.relays or not self.at_prompt or not self.own_shell_in_front or self.typed_at_prompt:
            return False
        alive = [process for process in facts.processes if process.state not in "ZX"]
        if [process.pid for process in alive] != [self.shell_pid] or alive[0].wait_channel not in POLL_WAIT_CHANNELS:
            return False
        if facts.canonical or facts.echo or facts.unread or facts.writing:
            return False
        with suppress(proc.ThreadRuns):
            time_out_s = tty.of(f"/proc/{self.shell_pid}")
            return time_out_s is not None and time_out_s <= EDITOR_SLEEPS_S
        return False

    @property
    def at_unmarked_prompt(self) -> bool:
        """Another shell of this machine waits at its prompt still, which `run` may adopt."""
        process = self.verdict.process
        now = (process.pid, process.wakes, self.size) if process and self.ready else None
        return now is not None and now == self.unmarked_prompt

    @property
    def _only_listens(self) -> bool:
        """Its program may work, and hears what is typed all the same."""
        process = self.verdict.process
        return process is not None and bool(self.verdict.weak or process.wait_channel in POLL_WAIT_CHANNELS)

    @property
    def mode(self) -> Mode:
        """What its terminal does."""
        process, waiting = self.verdict.process, self.waiting
        if self.adopting and not self.exited:
            return "running"
        if waiting is InputWait.SECRET and self._only_listens and not may_ask(self.line_of_cursor):
            waiting = InputWait.LINE
        return mode_of(
            ModeFacts(
                lost=self.state is State.LOST or self.cut,
                exited=self.exited,
                at_prompt=self.takes_commands or self.at_unmarked_prompt,
                waiting=waiting.value,
                alternate_screen=self.alternate_screen,
                command=process.name if process else "",
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
        """The working directory of its own program; of one that has ended, the last that is known.

        Empty where nothing tells: that of ssh is not the one at its far end.
        """
        if self.host:
            return self.shell.cwd or ""
        pid = self.level.pid if self.level.number else self.pid
        if not self.exited and pid:
            with suppress(OSError):
                return printable(os.readlink(f"/proc/{pid}/cwd"))
        return self.shell.cwd or self.started_in


class Terminal:
    """Asks the kernel about one session's terminal, which it keeps open from one look to the next."""

    def __init__(self) -> None:
        self._witness: DeepWitness | None = None

    def see(self, pane: Pane) -> None:
        """From now on look at the terminal of this pane."""
        if self._witness is None or self._witness.tty != pane.tty:
            self.close()
            self._witness = DeepWitness(pane.tty)

    def glance(self, pane: Pane | None) -> TerminalFacts:
        """What the kernel says now, and what that means."""
        if pane is None or pane.dead or self._witness is None:
            return TerminalFacts(None, Verdict(InputWait.UNKNOWN, "it has ended"))
        return self._witness.look(pane.leader)

    async def look(self, pane: Pane | None) -> TerminalFacts:
        """The same, after a tmux in the session was asked which pane it shows, if there is one."""
        sight = self.glance(pane)
        for _ in range(MOST_RELAYS):
            if sight.asks is None or self._witness is None:
                break
            await self._witness.panes.ask(sight.asks)
            sight = self.glance(pane)
        return sight.as_far_as_known()

    def modes(self, pane: Pane | None, alone: int = 0) -> TerminalFacts | None:
        """As `DeepWitness.look_at_terminal`; None: it cannot be looked at."""
        if pane is None or pane.dead or self._witness is None:
            return None
        return self._witness.look_at_terminal(pane.leader, alone)

    def size(self) -> tuple[int, int] | None:
        """Columns and rows as its program sees them; None where they cannot be had."""
        return self._witness.size() if self._witness else None

    def close(self) -> None:
        """Let go of it."""
        if self._witness:
            self._witness.close()
            self._witness = None


Seen = TypeVar("Seen", bound=LogView)


class Looks(Generic[Seen]):
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
        self.told = -math.inf
        """When growth, or a writer's closing of the log, last woke it."""

    def __aiter__(self) -> Looks[Seen]:
        return self

    async def __anext__(self) -> Seen:
        if self._change:
            left_s = self._deadline - time.monotonic()
            if left_s <= 0:
                raise StopAsyncIteration
            step_s = self._step_s if isinstance(self._step_s, (int, float)) else self._step_s()
            with anyio.move_on_after(min(step_s, left_s)):
                await self._change.wait()
                self.told = time.monotonic()
        self._change = self._next_change()
        return await self._see()


def printable(text: str) -> str:
    """Text from the system, safe for JSON: undecodable bytes replaced."""
    return os.fsencode(text).decode("utf-8", "replace")


# ---- Prompts that were seen at rest ----------------------------------------------------------------------------------
#
# By the program in front: the last line, whose digits, paths and times may change.

MOST_PROGRAMS, REMEMBERED_PROMPTS = 4, 8
"""So many programs, and prompts of each, are remembered: those that were seen last."""


class _SeenPrompt(NamedTuple):
    line: str
    edits: bool


class SeenPrompts:
    """What the prompts of a session's programs look like."""

    def __init__(self) -> None:
        self._seen: dict[int, dict[str, _SeenPrompt]] = {}
        """By process id: shapes, each with the line as it was last seen."""

    def learn(self, pid: int, line: str, edits: bool) -> None:
        """Remember the line at which a program rests, if it may be a prompt: progress and questions are none.

        Args:
            edits: a line editor showed itself with it.
        """
        looks = shape(line)
        if not looks:
            return
        prompts = self._seen.pop(pid, {})
        prompts.pop(looks, None)
        self._seen[pid] = prompts | {looks: _SeenPrompt(line, edits)}
        _keep_last(self._seen, MOST_PROGRAMS)
        _keep_last(self._seen[pid], REMEMBERED_PROMPTS)

    def knows(self, pid: int, line: str, edits: bool) -> bool:
        """Whether this line looks like a prompt of that program; with a line editor, if that showed itself with it."""
        seen = self._seen.get(pid, {}).get(shape(line))
        return seen is not None and (edits or not seen.edits)

    def begins(self, pid: int, line: str) -> bool:
        """Whether a prompt of that program, as it was last seen, begins this line."""
        return any(line.startswith(seen.line) for seen in self._seen.get(pid, {}).values())


def _keep_last(found: dict[int, dict[str, _SeenPrompt]] | dict[str, _SeenPrompt], most: int) -> None:
    while len(found) > most:
        del found[next(iter(found))]  # type: ignore[arg-type]  # a key of its own
