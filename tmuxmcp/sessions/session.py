"""One session: its pane, its log, what the marks say, who has read how far. Facts only: it types nothing.

All of it can be rebuilt: from the pane's `@tmuxmcp_*` options, the log, and small files beside it that only save
time (`marks.json`) or hold what nobody else knows (`cursors/`, `events.jsonl`).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import anyio
import anyio.lowlevel
import psutil

from tmuxmcp.contract.results import Ended, Usage
from tmuxmcp.contract.times import iso, seconds_of
from tmuxmcp.errors import SessionExited
from tmuxmcp.readiness import kernel as readiness
from tmuxmcp.record.cursors import Cursors
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.ending import WhyEnded
from tmuxmcp.record.events import Events, Input, Resized
from tmuxmcp.record.excerpt import Reader
from tmuxmcp.record.generations import generation_of
from tmuxmcp.record.log import FLOOD_BYTES, Growth, LogWatcher, RawLog
from tmuxmcp.record.meta import Meta
from tmuxmcp.record.place import Places
from tmuxmcp.record.queued import QueuedInput
from tmuxmcp.record.sink import sink_pid
from tmuxmcp.record.start import Start
from tmuxmcp.record.stdin import remove_left
from tmuxmcp.record.told import ToldCallers
from tmuxmcp.sessions.bounds import SessionBounds
from tmuxmcp.sessions.commands import Commands
from tmuxmcp.sessions.ended import Left, Status, ended, ending_of, sentence, status_of, took_too_much_memory
from tmuxmcp.sessions.life import Begun, Destroyed, Ending, Life, Reason, Starts, State, told_by
from tmuxmcp.sessions.look import Look, Scan, Seen, Terminal, Wakes
from tmuxmcp.sessions.shellview import ShellView
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux


class Session:
    """One agent session. State changes happen in plain functions, between two awaits."""

    def __init__(
        self,
        tmux: Tmux,
        watcher: LogWatcher,
        directory: SessionDirectory,
        meta: Meta,
        log: RawLog,
        growth: Growth,
    ) -> None:
        """Use `open`; this one reads nothing."""
        self.tmux = tmux
        self.watcher = watcher
        self.directory = directory
        self.meta = meta
        self.log = log
        self.growth = growth
        self.life = Life()
        self.pane: Pane | None = None
        """As last seen; None: tmux does not know it."""
        self.start = Start(directory)
        self.events = Events(directory)
        self.queued = QueuedInput(directory)
        self._cursors = Cursors(directory)
        self._screens_seen: dict[str, int] = {}
        """By caller, the size of the log when it last saw the screen."""
        self.told = ToldCallers(directory)
        self.seen_alive = False
        """This broker has seen its program run."""
        self.end_told: set[str] = set()
        """Callers who were told that it has ended."""
        self.input_lock = anyio.Lock()
        self.running: str = ""
        """The command that a `run` of this broker waits for; set by `runs`."""
        self._notice: str | None = None
        self._places = Places(self.log)
        self.commands = Commands(directory, log, self._places, self.events.gaps, lambda: (self.cols, self.rows))
        self._shell = ShellView(log, directory, meta.nonce, seconds_of(meta.created_at) or 0.0, self.commands)
        self._terminal = Terminal()
        self._pid: int | None = None
        self._left = Left(directory)

    @classmethod
    def open(
        cls,
        tmux: Tmux,
        watcher: LogWatcher,
        directory: SessionDirectory,
        meta: Meta,
        pane: Pane | None,
        *,
        made: bool = False,
    ) -> Session:
        """Take a session up: watch its log, and go on where its marks were last written down.

        Args:
            pane: as tmux tells; None: it knows none.
            made: this broker has just made it.
        """
        directory = directory.pinned()
        log = RawLog(directory)
        session = cls(tmux, watcher, directory, meta, log, watcher.add(log.path))
        session._shell.go_on()
        if made:
            session.life.apply(Starts())
        session.see(pane)
        return session

    # ---- identity ------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its session id."""
        return self.meta.session_id

    @cached_property
    def bounds(self) -> SessionBounds:
        """What it is bound by."""
        return SessionBounds.of(self.meta.bounds)

    @property
    def generation(self) -> int:
        """Which session of its name it is, from 1."""
        return generation_of(self.directory, self.meta)

    @property
    def cols(self) -> int:
        return self.pane.cols if self.pane else self.meta.cols

    @property
    def rows(self) -> int:
        return self.pane.rows if self.pane else self.meta.rows

    @property
    def scrollback_lines(self) -> int:
        """How many lines `view=scrollback` keeps."""
        lines = self.pane.scrollback if self.pane else None
        return self.meta.scrollback_lines if lines is None else lines

    @property
    def reader(self) -> Reader:
        """Makes clean text of its log."""
        return Reader(self.log, self.cols, self.rows, self._places)

    @property
    def pid(self) -> int | None:
        """Process id of the program; the launcher's step writes it down."""
        if self._pid is None:
            self._pid = self.start.pid
        return self._pid

    @property
    def begun(self) -> bool:
        """The launcher has become the program, as far as it tells: in a sandbox exactly."""
        return self.pid is not None and (self.bounds.sandbox == "none" or self.start.succeeded)

    # ---- the pane ------------------------------------------------------------------------------

    async def refresh(self) -> Pane | None:
        """Ask tmux how the pane is now; None when it is lost."""
        if self.pane:
            self.see(await panes.find_pane(self.tmux, self.pane.pane_id, self.id))
        return self.pane

    def see(self, pane: Pane | None) -> None:
        """Take in what tmux says of its pane."""
        was_over = self.life.over
        self.life.apply(told_by(pane, self.meta.program, self.bounds.sandbox))
        if self.life.over and not was_over:
            self._look_for_cause()
            remove_left(self.directory)
        self.pane = None if self.life.state is State.LOST else pane
        if self.pane and not self.life.over:
            self.seen_alive = True
            self._terminal.see(self.pane)
        else:
            self._terminal.close()
        if self.pane and self.life.state is State.REPLACED:  # it is not our shell that runs there now
            self.meta.marks = False
            self._pid = self.pane.leader

    def _look_for_cause(self) -> None:
        """Write down what can be told of its end at this moment only: its group does not stay."""
        if ending_of(self.life, self._left) is None and took_too_much_memory(self.life, self.bounds):
            self._note_ending(Reason.MEMORY)

    async def alive(self) -> Pane:
        """The pane, with its program running, asked of tmux now.

        Raises:
            SessionExited: the program has ended, or tmux no longer knows the pane.
        """
        await self.refresh()
        return self.live()

    def live(self) -> Pane:
        """The pane, with its program running, as last seen.

        Raises:
            SessionExited: the program has ended, or tmux no longer knows the pane.
        """
        if self.pane is None or self.exited:
            why, (code, name) = self.ended, self.exit_status
            raise SessionExited(
                self.how_it_ended,
                hint="read still gives its output; make a new session with create_session.",
                session_id=self.id,
                exit_code=code,
                exit_signal=name,
                ended=why.model_dump() if why else None,
            )
        return self.pane

    @property
    def exited(self) -> bool:
        """Nothing runs in it any more, as far as tmux was asked."""
        return self.life.over

    @property
    def exit_status(self) -> Status:
        """Exit code and signal name of its program that has ended; at most one of them is known."""
        return status_of(self.life, self._left)

    @property
    def ended(self) -> Ended | None:
        """Why nothing runs in it any more; None: something does."""
        return ended(self.life, self._left, self.bounds)

    @property
    def how_it_ended(self) -> str:
        """The same as a sentence; empty while something runs in it."""
        why, written = self.ended, ending_of(self.life, self._left)
        return sentence(self.id, why, self.exit_status, self.bounds, written.why if written else "") if why else ""

    # ---- what this broker does with it ---------------------------------------------------------

    def note_begun(self) -> None:
        """Note that its launcher has become the program, if it has not ended yet."""
        if self.life.state is State.STARTING:
            self.life.apply(Begun())

    def will_end(self, reason: Reason, by: str = "", why: str = "") -> None:
        """Note why it is about to be ended, which caller wants it, if one does, and by which setting or limit."""
        if not self.life.over:
            self._note_ending(reason, by, why)
        self.life.apply(Ending(reason, by))

    def lives_on(self) -> None:
        """Note that whoever was about to end it gave that up: what becomes of it later has another reason."""
        if not self.life.over and self.directory.is_there:
            self.directory.ended.unlink(missing_ok=True)

    def _note_ending(self, reason: Reason, by: str = "", why: str = "") -> None:
        WhyEnded(reason.value, by, iso(time.time()), why).save(self.directory)

    def mark_destroyed(self) -> None:
        """Write down that it is destroyed, so that no broker takes it for lost."""
        self.life.apply(Destroyed())
        remove_left(self.directory)
        with suppress(OSError):
            self.meta.destroy(self.directory)

    def disown(self) -> None:
        """From now on it is nobody's default session."""
        self.meta.disown(self.directory)

    def tell(self, notice: str | None) -> None:
        """Have its owner told this once, after what is to be told already."""
        self._notice = " ".join(filter(None, (self._notice, notice))) or None

    def take_notice(self) -> str | None:
        """What its owner is to be told; once."""
        notice, self._notice = self._notice, None
        return notice

    @contextmanager
    def runs(self, text: str) -> Iterator[None]:
        """While this is open, a `run` of this broker waits for the command."""
        self.running = text
        try:
            yield
        finally:
            self.running = ""

    def throttle(self, seen_bytes: int) -> None:
        """Wake those who wait less often, once they have seen so much that they need not be told at once."""
        self.growth.flood = seen_bytes > FLOOD_BYTES

    # ---- looking at it --------------------------------------------------------------------------

    async def look(self) -> Look:
        """Look at it now: the kernel first, then the log to its end, with all marks."""
        facts, verdict = self._terminal.look(self.pane)
        pid = self.pid
        scan = await self.scan()
        return Look(**vars(scan), facts=facts, verdict=verdict, pid=pid, started_in=self.meta.cwd)

    async def scan(self) -> Scan:
        """Read the log to its end, with all marks."""
        told = self._told()  # first: of a program that has ended, the log then holds everything
        while self.meta.marks and self._shell.scan_some():
            await anyio.lowlevel.checkpoint()
        size = self._shell.size if self.meta.marks else self.log.size()
        return Scan(**told, size=size, shell=self._shell.track, commands=tuple(self._shell.commands))

    def _told(self) -> dict[str, Any]:
        """What a scan says that is not in the log."""
        return {
            "pane": self.pane,
            "launcher_alive": self.leader_alive(),
            "state": self.life.state,
            "exit_status": self.exit_status,
            "log": self.log,
            "cols": self.cols,
            "rows": self.rows,
            "program": os.path.basename(self.meta.program),
            "marks": self.meta.marks,
        }

    def looks(self, step_s: float | Callable[[], float], deadline: float = math.inf) -> Wakes[Look]:
        """Look at once, whenever its log has grown, and after each step, until the deadline (`time.monotonic()`).

        When its launcher has gone, tmux is asked for its end before the look.
        """
        return Wakes(self.growth.next_change, lambda: self._at_end(self.look), step_s, deadline)

    def scans(self, step_s: float | Callable[[], float], deadline: float = math.inf) -> Wakes[Scan]:
        """The same without the kernel's word: where the log alone decides."""
        return Wakes(self.growth.next_change, lambda: self._at_end(self.scan), step_s, deadline)

    async def _at_end(self, see: Callable[[], Awaitable[Seen]]) -> Seen:
        if not self.leader_alive():
            await self.refresh()
        return await see()

    def save_checkpoint(self) -> None:
        """Write down what the marks say, so that a later broker need not scan from the start."""
        if self.meta.marks:
            self._shell.save()

    # ---- the kernel ----------------------------------------------------------------------------

    def kernel_size(self) -> tuple[int, int] | None:
        """Columns and rows as its program sees them: another size is seen without asking tmux."""
        return None if self.exited else self._terminal.size()

    def sink_rests(self) -> bool:
        """Whether the sink sleeps, as far as can be told: then it has written all that tmux gave it."""
        pid = sink_pid(self.directory)
        return pid is None or readiness.sleeps(pid)

    def leader_alive(self) -> bool:
        """Whether the launcher still runs; when it does not, tmux knows the exit status in a moment."""
        if self.pane is None or self.pane.dead:
            return False
        try:
            os.kill(self.pane.leader, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    def usage(self) -> Usage | None:
        """What its processes use together."""
        if self.exited or not self.pid:
            return None
        cpu_s, rss, count = 0.0, 0, 0
        with suppress(psutil.Error):
            program = psutil.Process(self.pid)
            for process in [program, *program.children(recursive=True)]:
                with suppress(psutil.Error):
                    times = process.cpu_times()
                    cpu_s += times.user + times.system
                    rss += process.memory_info().rss
                    count += 1
        return Usage(cpu_ms=int(cpu_s * 1000), rss_bytes=rss, processes=count)

    def last_activity(self) -> str | None:
        """When it last printed something; ISO 8601, UTC."""
        with suppress(OSError):
            return iso(self.log.path.stat().st_mtime)
        return None

    def time_at(self, offset: int) -> int | None:
        """Milliseconds from its making until so much had been printed; None where that is not known.

        What is behind the log's last write is known: now for one that runs, that write for one that has ended.
        """
        made = seconds_of(self.meta.created_at)
        if made is None or offset < self.log.size():
            return None
        try:
            at = os.stat(self.log.path).st_mtime if self.exited else time.time()
        except OSError:
            return None
        return max(round((at - made) * 1000), 0)

    # ---- what is written beside the log --------------------------------------------------------

    def cursor_of(self, caller: str) -> int:
        """How far this caller has read; 0 for one who never did."""
        return min(self._cursors.of(caller), self.log.size())

    def move_cursor(self, caller: str, offset: int) -> None:
        """Remember how far this caller has read."""
        self._cursors.move(caller, offset)

    def seen_to(self, caller: str) -> int:
        """Up to where what was printed is no news to this caller: it has read it, or seen the screen of then."""
        return max(self.cursor_of(caller), self._screens_seen.get(caller, 0))

    def saw_screen(self, caller: str, offset: int) -> None:
        """Remember that this caller has seen the screen, with all that was printed up to there."""
        self._screens_seen[caller] = offset

    def write_input(self, *, bytes: int, keys: int) -> None:
        """Write down that so much was typed, here and now."""
        self.events.append(Input(iso(time.time()), self.log.size(), bytes, keys))

    def write_resize(self, cols: int, rows: int) -> None:
        """Write down that it has another size, from here on."""
        self.events.append(Resized(iso(time.time()), self.log.size(), cols, rows))

    def gaps(self, start: int, end: int) -> list[int]:
        """Offsets between `start` and `end` at which output was lost."""
        return self.events.gaps(start, end)

    def close(self) -> None:
        """Let go of what is open; the session lives on."""
        self.save_checkpoint()
        self.watcher.remove(self.log.path)
        self._terminal.close()
