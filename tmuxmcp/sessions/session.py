"""One session: its pane, its log, what the marks say, who has read how far. Facts only: it types nothing.

All of it can be rebuilt: from the pane's `@tmuxmcp_*` options, the log, and small files beside it that only save
time (`marks.json`) or hold what nobody else knows (`cursors/`, `events.jsonl`).
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import psutil

from tmuxmcp.contract.results import Usage
from tmuxmcp.errors import SessionExited
from tmuxmcp.readiness import kernel as readiness
from tmuxmcp.record.excerpt import Reader
from tmuxmcp.record.log import PIECE, LogWatcher, RawLog
from tmuxmcp.record.meta import Meta, write_atomically
from tmuxmcp.record.place import Places
from tmuxmcp.sessions.bounds import SessionBounds
from tmuxmcp.sessions.look import Look, Scan, Seen, Terminal, Wakes
from tmuxmcp.terminal.marks import Finished, MarkScanner, ShellTrack
from tmuxmcp.terminal.modes import SHELLS
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

CHECKPOINT_BYTES = 1 << 20
"""How much is scanned between two checkpoints: what a killed broker's successor scans again, at most."""

EVENTS_LIMIT = 1 << 20
"""Bytes of `events.jsonl`; of what comes after that only gaps are written down."""


READY, BEGUN = "ready", "begun"
"""What `error` holds when there is none, of a session in a sandbox (`tmux/step.py`)."""

MOST_COMMANDS = 64
"""Finished commands that are remembered: more than one wait or `run` can miss."""

SMALL_INPUT = 4096
"""Bytes that a terminal takes itself: less is not written down."""


class Session:
    """One agent session. State changes happen in plain functions, between two awaits."""

    def __init__(self, tmux: Tmux, watcher: LogWatcher, directory: Path, meta: Meta, pane: Pane | None) -> None:
        self.tmux = tmux
        self.watcher = watcher
        self.directory = directory
        self.meta = meta
        self.pane: Pane | None = None
        """As last seen; None: lost, tmux no longer knows it."""
        self.log = RawLog(directory)
        self.growth = watcher.add(self.log.path)
        self._commands: deque[Finished] = deque(maxlen=MOST_COMMANDS)
        """What the shell finished, newest last."""
        self.input_lock = anyio.Lock()
        self.running: str = ""
        """The command that a `run` of this broker waits for."""
        self.notice: str | None = None
        """Something that its owner is told once."""
        self.mended = (0, 0.0)
        """How often its sink was put back, and when last."""
        self._scanner = MarkScanner(meta.nonce)
        self._track = ShellTrack()
        self._scanned = self._checkpoint = 0
        self._load_checkpoint()
        self._places = Places(self.log)
        self._terminal = Terminal()
        self._pid: int | None = None
        self._cursors: dict[str, int] = {}
        self.see(pane)

    # ---- identity ------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its session id."""
        return self.meta.session_id

    @property
    def bounds(self) -> SessionBounds:
        """What it is bound by."""
        return SessionBounds.of(self.meta.bounds)

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
            with suppress(OSError, ValueError):
                self._pid = int((self.directory / "pid").read_text())
        if self._pid is None and self.report in (READY, BEGUN):
            self._pid = self._pid_within()
        return self._pid

    @property
    def report(self) -> str:
        """What the launcher's step says: nothing yet, `READY`, or a code and a reason, on two lines."""
        with suppress(OSError):
            return (self.directory / "error").read_text()
        return ""

    @property
    def begun(self) -> bool:
        """The launcher has become the program, as far as it tells: in a sandbox exactly."""
        return self.pid is not None and (self.bounds.sandbox == "none" or self.report in (READY, BEGUN))

    def let_begin(self) -> None:
        """Let the program begin that waits until its process id is known: in a sandbox of bubblewrap's."""
        if self.pid is not None and self.report == READY:
            (self.directory / "error").write_text(BEGUN)

    @property
    def wrappers(self) -> list[int]:
        """Process ids of what is around the program in a sandbox of bubblewrap's: it ends with the program."""
        with suppress(OSError, ValueError, psutil.Error):
            outer = psutil.Process(int((self.directory / "wrapper").read_text()))
            return [outer.pid, *(child.pid for child in outer.children())]
        return []

    def _pid_within(self) -> int | None:
        """The program, which is the first process below the two of bwrap; written down, as it may lose its parents."""
        with suppress(psutil.Error, IndexError):
            children = psutil.Process(self.wrappers[1]).children()
            pid = min(children, key=lambda child: child.create_time()).pid
            write_atomically(self.directory / "pid", str(pid))
            return pid
        return None

    # ---- the pane ------------------------------------------------------------------------------

    async def refresh(self) -> Pane | None:
        """Ask tmux how the pane is now; None when it is lost."""
        if self.pane:
            self.see(await panes.find_pane(self.tmux, self.pane.pane_id, self.id))
        return self.pane

    def see(self, pane: Pane | None) -> None:
        """Take in what tmux says of its pane."""
        if pane:
            self._terminal.see(pane)
        if pane and pane.respawned:  # by a script: it is not our shell that runs there now
            self.meta.marks = False
            self._pid = pane.leader
        self.pane = pane

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
        if self.pane is None:
            raise SessionExited(
                f"Session {self.id} is lost: its pane is gone.",
                hint="Somebody killed it, or the tmux server. Its log can still be read; make a new session.",
                session_id=self.id,
            )
        if self.pane.dead:
            code, name = self.exit_status
            how = f"was ended by SIG{name}" if name else f"ended with exit code {code}"
            raise SessionExited(
                f"The program of session {self.id} {how}.",
                hint="read still gives its output; make a new session with create_session.",
                session_id=self.id,
                exit_code=code,
                exit_signal=name,
            )
        return self.pane

    @property
    def exited(self) -> bool:
        """Its program has ended, as far as tmux was asked."""
        return self.pane is None or self.pane.dead

    @property
    def exit_status(self) -> tuple[int | None, str | None]:
        """Exit code and signal name of the ended program; one of them is None.

        The launcher's shell cannot tell `exit 130` from death by SIGINT (nor 141 from SIGPIPE): a shell that
        ends like that exited, because shells catch these; any other program was ended by the signal.
        """
        if self.pane is None or not self.pane.dead:
            return None, None
        if self.pane.exit_signal:
            return None, signal_name(self.pane.exit_signal)
        code = self.pane.exit_code
        if code is None or os.path.basename(self.meta.program) in SHELLS:
            return code, None
        # bwrap tells every death by a signal as a shell does.
        ambiguous = {128 + signal.SIGINT, 128 + signal.SIGPIPE}
        if code in ambiguous or (self.bounds.sandbox == "bubblewrap" and 128 < code < 192):
            return None, signal_name(code - 128)
        return code, None

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
        while self._scan_some():
            await anyio.lowlevel.checkpoint()
        size = self._scanned if self.meta.marks else self.log.size()
        return Scan(**told, size=size, shell=self._track, commands=tuple(self._commands))

    def _told(self) -> dict[str, Any]:
        """What a scan says that is not in the log."""
        return {
            "pane": self.pane,
            "launcher_alive": self.leader_alive(),
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

    # ---- the log and the marks -----------------------------------------------------------------

    def _scan_some(self) -> bool:
        """Scan a piece; True while there is more. Not interrupted, so that several callers may scan."""
        if not self.meta.marks:
            return False
        position = self._scanned
        behind = self.log.size() - position
        if behind <= 0:
            return False
        if behind > PIECE * 4 and self.log.head() > position:
            position = self._scanned = self.log.head()  # what lay between is gone
            self._scanner = MarkScanner(self.meta.nonce, position)
        data = self.log.read(position, PIECE * 4)
        if not data and self.log.head() > position:  # cut just now
            self._scanned = self.log.head()
            self._scanner = MarkScanner(self.meta.nonce, self._scanned)
            return True
        for mark in self._scanner.feed(data):
            self._track, finished = self._track.apply(mark)
            if finished:
                self._commands.append(finished)
        self._scanned = position + len(data)
        if self._scanned - self._checkpoint >= CHECKPOINT_BYTES:
            self.save_checkpoint()
        return len(data) == PIECE * 4

    def save_checkpoint(self) -> None:
        """Write down what the marks say, so that a later broker need not scan from the start."""
        if not self.meta.marks or self._checkpoint == self._scanned:
            return
        self._checkpoint = self._scanned
        state = {"nonce": self.meta.nonce, "offset": self._scanner.offset, "track": self._track.as_dict()}
        with suppress(OSError):
            write_atomically(self.directory / "marks.json", json.dumps(state))

    def _load_checkpoint(self) -> None:
        try:
            state = json.loads((self.directory / "marks.json").read_text())
            if state["nonce"] == self.meta.nonce and state["offset"] <= self.log.size():
                self._track = ShellTrack.from_dict(state["track"])
                self._scanned = self._checkpoint = int(state["offset"])
                self._scanner = MarkScanner(self.meta.nonce, self._scanned)
        except (OSError, ValueError, KeyError, TypeError):
            pass  # it only saves time

    # ---- the kernel ----------------------------------------------------------------------------

    def sink_rests(self) -> bool:
        """Whether the sink sleeps, as far as can be told: then it has written all that tmux gave it."""
        try:
            pid = int((self.directory / "sink.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return True
        return readiness.sleeps(pid)

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

    # ---- what is written beside the log --------------------------------------------------------

    @property
    def typed(self) -> int:
        """Bytes typed since its terminal last had room, by whatever broker: at most that many are queued in tmux."""
        with suppress(OSError, ValueError):
            return int((self.directory / "typed").read_text())
        return 0

    @typed.setter
    def typed(self, size: int) -> None:
        path = self.directory / "typed"
        with suppress(OSError):
            if size > SMALL_INPUT or path.exists():
                write_atomically(path, str(size))

    def cursor_of(self, caller: str) -> int:
        """How far this caller has read; 0 for one who never did."""
        offset = self._cursors.get(caller)
        if offset is None:
            offset = 0
            with suppress(OSError, ValueError):
                offset = int((self.directory / "cursors" / caller).read_text())
            self._cursors[caller] = offset
        return min(offset, self.log.size())

    def move_cursor(self, caller: str, offset: int) -> None:
        """Remember how far this caller has read; also after a kill, and without a rename's 0.2 ms."""
        self._cursors[caller] = offset
        path = self.directory / "cursors" / caller
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(fd, b"%020d" % offset, 0)
            finally:
                os.close(fd)

    def write_event(self, kind: str, **values: Any) -> None:
        """Append to `events.jsonl`: what happened at which offset."""
        event = {"time": iso(time.time()), "offset": self.log.size(), "event": kind, **values}
        path = self.directory / "events.jsonl"
        with suppress(OSError):
            fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                if kind == "gap" or os.fstat(fd).st_size < EVENTS_LIMIT:
                    os.write(fd, (json.dumps(event) + "\n").encode())
            finally:
                os.close(fd)

    def gaps(self, start: int, end: int) -> list[int]:
        """Offsets between `start` and `end` at which output was lost."""
        try:
            events = (self.directory / "events.jsonl").read_bytes()
        except OSError:
            return []
        found = []
        if b'"gap"' in events:  # hardly ever: the many others need not be parsed
            for line in events.splitlines():
                with suppress(ValueError, KeyError, TypeError):
                    event = json.loads(line)
                    if event["event"] == "gap" and start <= event["offset"] <= end:
                        found.append(int(event["offset"]))
        return found

    def close(self) -> None:
        """Let go of what is open; the session lives on."""
        self.save_checkpoint()
        self.watcher.remove(self.log.path)
        self._terminal.close()


def signal_name(number: int) -> str:
    """A signal's name without SIG; real-time signals, which Python does not name, as kill(1) does."""
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return f"RTMIN+{number - signal.SIGRTMIN}"


def iso(seconds: float) -> str:
    """A time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
