"""One session: its pane, its log, what the marks say, who has read how far. Facts only: it types nothing.

All of it can be rebuilt: from the pane's `@tmuxmcp_*` options, the log, and small files beside it that only save
time (`marks.json`) or hold what nobody else knows (`cursors/`, `events.jsonl`).
"""

from __future__ import annotations

import math
import os
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import psutil

from tmuxmcp.contract.call import iso, joined_notes, seconds_of
from tmuxmcp.contract.errors import IoError, SessionExited, TmuxMcpError
from tmuxmcp.contract.results import Ended, Usage
from tmuxmcp.contract.value import asdict, replace
from tmuxmcp.machine.locks import if_free
from tmuxmcp.machine.processes import with_descendants
from tmuxmcp.machine.ssh.client import SSH_FAILED, remove_control, was_cut
from tmuxmcp.machine.witness import tty
from tmuxmcp.machine.witness.kernel import EnteredLine, KernelFacts, stopped
from tmuxmcp.machine.witness.relays import TerminalFacts
from tmuxmcp.record.commands import remove_left
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.documents import Cached
from tmuxmcp.record.events import (
    Booted,
    Events,
    GivenBackEvent,
    InputEvent,
    LeftShellEvent,
    ResizedEvent,
    SessionClock,
    SizeUnknownEvent,
)
from tmuxmcp.record.excerpt import LogReader
from tmuxmcp.record.levels import Level
from tmuxmcp.record.log import FLOOD_BYTES, Growth, LogWatcher, RawLog, ResumePoints
from tmuxmcp.record.meta import (
    Cursors,
    Meta,
    QueuedInput,
    RecordingNote,
    ReportedCallers,
    Start,
    WhyEnded,
    generation_of,
    sink_of,
    sink_pid,
)
from tmuxmcp.record.past.replaying import Past
from tmuxmcp.record.past.timing import Times
from tmuxmcp.sessions.bounds import SessionBounds
from tmuxmcp.sessions.commands import Commands, ShownInput
from tmuxmcp.sessions.levels import RemoteEnd, gone, identity, is_own_replaced
from tmuxmcp.sessions.life import (
    DestroyedOnDisk,
    EndCause,
    EndRecord,
    EndRequested,
    Life,
    ProgramStarted,
    SessionStarting,
    State,
    Status,
    ending_of,
    sentence,
    status_of,
    told_by,
    took_too_much_memory,
    why_ended,
)
from tmuxmcp.sessions.look import LAST_TEXT_BYTES, LogView, Look, Looks, Seen, SeenPrompts, Terminal
from tmuxmcp.sessions.shellview import ShellView
from tmuxmcp.terminal.emulator.capture import KnownRows
from tmuxmcp.terminal.marks import Mark, ShellState, ShellTrack
from tmuxmcp.terminal.text.plain import plain
from tmuxmcp.terminal.widths import OLDEST_VERSION, version_of
from tmuxmcp.tmux import leases, panes
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.leaseoptions import Lease, NotedGiveBack
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

SELDOM_S, SHARED_S = 0.2, 0.03
"""Waits whose steps are at least this long look at the same moment, and share a look that is no older than this."""

LEAVES_S, LEAVES_BUSY_S = 0.5, 5.0
"""How long a shell may take to say how the one in front of it ended; the same while it, or what records it, works."""


UNPROMPTED = "That was before its first prompt: a start-up file may have done it (`exit`, `set -e`)."
"""What is said of a shell that never came to its prompt."""


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
        self.id = meta.session_id
        """Its session id."""
        self.cols, self.rows = meta.cols, meta.rows
        """As last seen."""
        self.program = os.path.basename(meta.program)
        """Name of its own program, without its directory."""
        self.log = log
        self.growth = growth
        self.life = Life()
        self.pane: Pane | None = None
        """As last seen; None: tmux does not know it."""
        self.start = Start(directory)
        self.events = Events(directory)
        self.times = Times(directory)
        """When what was printed, where that is known."""
        self.now_ms = SessionClock(seconds_of(meta.created_at), Booted.of(meta.booted)).now_ms
        """Milliseconds since it was made, on a clock that never goes back."""
        self.given_back: Callable[[Session, Lease, str], None] = lambda session, lease, reason: None
        """Called when this broker writes down that a person has given the session back; the argument says why."""
        self.shown = ShownInput(log, self.events)
        """What was typed, while a recording wants it."""
        self._recording: Cached[RecordingNote | None] = Cached(
            directory.recording, partial(RecordingNote.load, directory), None
        )
        """Which `recording.json` was read last, and what it says."""
        self.queued = QueuedInput(directory)
        self.cursors = Cursors(directory, directory.cursors)
        """How far each caller has read."""
        self.handed = Cursors(directory, directory.handed)
        """How many of its give-backs each caller was told of."""
        self._screens_seen: dict[str, int] = {}
        """By caller, the size of the log when it last saw the screen."""
        self.told = ReportedCallers(directory)
        self.matched = Cursors(directory, directory.matched)
        """Where the last match ends that each caller was given."""
        self.last_texts: dict[str, tuple[int, str]] = {}
        """By caller, size of the log when it typed last, and the text: what may be shown of it is no output."""
        self.lines_settled: dict[str, int] = {}
        """By caller, size of the log when it entered lines of which it was told that they began no command."""
        self.made_for = ""
        """The call for which this broker made it, as its caller's default session; empty: none."""
        self.seen_alive = False
        """This broker has seen its program run."""
        self.end_told: set[str] = set()
        """Callers who were told that it has ended."""
        self.asks_told: dict[str, set[str]] = {}
        """By caller, the requests for input that it was told of."""
        self.offers = ""
        """The request that this broker last bound the answer key of attached people to; empty: none."""
        self.adopts = True
        """Shells in front of it are adopted without being asked for."""
        self.readonly_prompt = ""
        """A variable of its own shell that is readonly, so that the shell takes no marks; empty: none is known."""
        self.unmarked_prompt: tuple[int, int, int] | None = None
        """Where another shell of this machine was last known to be at its prompt, as `Look` has it."""
        self.screen_rows = KnownRows(version_of(tmux.version) or OLDEST_VERSION)
        """The rows that its screen showed last."""
        self.past = Past()
        """What it showed before; sessions of one broker share it."""
        self.input_lock = anyio.Lock()
        self.running: str = ""
        """The command that a `run` of this broker waits for; set by `runs`."""
        self.entered: EnteredLine | None = None
        """The last line that this broker entered, and the state of the log before it."""
        self.prompts = SeenPrompts()
        self.typed_at = -1
        """Size of the log before this broker last typed something; -1: it has not."""
        self._notice: str | None = None
        self._places = ResumePoints(
            self.log,
            lambda: max((each.offset for each in self.events.resizes()), default=0),
            version_of(meta.tmux or tmux.version) or OLDEST_VERSION,
        )
        self.commands = Commands(
            directory, log, self._places, self.events, lambda: (self.cols, self.rows), self.log_seems_complete
        )
        self._shell = ShellView(log, directory, meta.nonce, seconds_of(meta.created_at) or 0.0, self.commands)
        self._terminal = Terminal()
        self._far = RemoteEnd(meta.control) if meta.control else None
        self._cut: bool | None = None
        self._pid: int | None = None
        self._own_replaced = False
        """Its own shell was seen to have put another program into its place (exec)."""
        self._left = EndRecord(directory)
        self._last_look: tuple[float, Look | None] = (-math.inf, None)
        """The last look that a wait took, and when it began: another wait may share it."""
        self._phase = zlib.crc32(meta.session_id.encode()) % 1000 / 1000
        """At which part of a step this session is looked at, so that sessions are looked at one after the other."""
        self._leaving: tuple[str, float] | None = None
        """The shell that seems to have ended, and since when it seems so."""

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
            session.life.apply(SessionStarting())
        session.see(pane)
        return session

    # ---- identity ------------------------------------------------------------------------------

    @cached_property
    def bounds(self) -> SessionBounds:
        """What it is bound by."""
        return SessionBounds.of(self.meta.bounds)

    @property
    def generation(self) -> int:
        """Which session of its name it is, from 1."""
        return generation_of(self.directory, self.meta)

    @property
    def scrollback_lines(self) -> int:
        """How many lines `view=scrollback` keeps."""
        lines = self.pane.scrollback if self.pane else None
        return self.meta.scrollback_lines if lines is None else lines

    @property
    def reader(self) -> LogReader:
        """Makes clean text of its log."""
        return LogReader(self.log, self.cols, self.rows, self._places)

    @property
    def lease(self) -> Lease | None:
        """Who holds it, as far as tmux was asked; None: nobody does."""
        return self.pane.lease if self.pane and not self.exited else None

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
        """Ask tmux for the pane as it is now; None: the session is lost."""
        if self.pane:
            await self.take_in(await panes.find_pane(self.tmux, self.pane.pane_id, self.id))
        return self.pane

    async def take_in(self, pane: Pane | None) -> None:
        """Take in what tmux says of its pane at this moment, and write down whether a person has given it back."""
        self.see(pane)
        if self.pane and self.pane.given:
            await self._note_given(self.pane)

    async def _note_given(self, pane: Pane) -> None:
        """Write down that a person has given it back, wherever that was done; first, so that no kill loses it."""
        async with self.events.exclusively():  # of several brokers one writes it
            written = {
                (each.by, each.since, each.until) for each in self.events.leases() if isinstance(each, GivenBackEvent)
            }
            for each in NotedGiveBack.parse(pane.given):
                by, since, until = each.lease.by, each.lease.since or "", iso(each.until_s)
                if (by, since, until) not in written:
                    self.events.append(GivenBackEvent(iso(time.time()), self.log.size(), by, since, until, each.reason))
                    self.given_back(self, each.lease, each.reason)
        await leases.forget_given(self.tmux, pane)

    def see(self, pane: Pane | None) -> None:
        """Take in what tmux says of its pane."""
        was_over = self.life.over
        self.life.apply(told_by(pane, self.meta.program, self.bounds.sandbox))
        if self.life.over and not was_over:
            # Its group, which alone tells of this, does not stay.
            if ending_of(self.life, self._left) is None and took_too_much_memory(self.life, self.bounds):
                self._note_ending(EndCause.MEMORY)
            remove_left(self.directory)
            self.growth.wake_all()  # also where its log was closed before
        self.pane = None if self.life.state is State.LOST else pane
        shown = self.pane or self.meta
        self.cols, self.rows = shown.cols, shown.rows
        if self.pane and not self.life.over:
            self.seen_alive = True
            self._terminal.see(self.pane)
        else:
            self._terminal.close()
            self._let_go()
        if self.pane and self.life.state is State.REPLACED:  # it is not our shell that runs there now
            self.meta.marks = False
            self._pid = self.pane.leader

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
                f"{self.how_it_ended} {UNPROMPTED}" if self.ended_unprompted else self.how_it_ended,
                hint="read still gives its output; make a new session with create_session.",
                session_id=self.id,
                exit_code=code,
                exit_signal=name,
                ended=asdict(why) if why else None,
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
        found = why_ended(self.life, self._left, self.bounds)
        return replace(found, reason="lost") if found and self.cut else found

    @property
    def ended_unprompted(self) -> bool:
        """Its own shell, which was to send marks, exited before its first prompt, as a scan of all its log has told."""
        why, track, size = self.ended, self._shell.track_of(self.meta.nonce), self.log.size()
        unprompted = self.meta.marks and track.state is ShellState.STARTING and self._shell.size == size
        exited = why is not None and why.reason == EndCause.EXIT.value
        return unprompted and exited and not self.events.gaps(0, size)

    @property
    def cut(self) -> bool:
        """Its connection to another machine was cut."""
        if not (self.meta.host and self.exited) or self.exit_status == (None, None):
            return False
        if self._cut is None:
            size = self.log.size()
            start = max(size - LAST_TEXT_BYTES, 0)
            said = plain(self.log.read(start, size - start), self.cols, self.rows).text
            self._cut = was_cut(self.exit_status[0], said)
        return self._cut

    @property
    def how_it_ended(self) -> str:
        """Why nothing runs in it, as a sentence; empty while something runs."""
        if self.cut:
            return f"Session {self.id} is lost: its connection to {self.meta.host} has ended (ssh, exit code 255)."
        why, written = self.ended, ending_of(self.life, self._left)
        return sentence(self.id, why, self.exit_status, self.bounds, written.why if written else "") if why else ""

    def close_channel_if_over(self) -> bool:
        """Let go of the second channel to its host when its terminal's part is over: ssh waits for all of them.

        Returns:
            Whether that channel is still open.
        """
        if not self._far or not self._far.open:
            return False
        self._far.close_channel_if_over(self._terminal.glance(self.pane).facts)
        return self._far.open

    def _let_go(self) -> None:
        """Close our part of the connection to the session's host; remove ssh's files once the connection is over."""
        if self._far:
            self._far.close()
            if self.life.over:
                remove_control(Path(self.meta.control))

    # ---- what this broker does with it ---------------------------------------------------------

    def note_begun(self) -> None:
        """Note that its launcher has become the program, if it has not ended yet."""
        if self.life.state is State.STARTING:
            self.life.apply(ProgramStarted())

    def will_end(self, reason: EndCause, by: str = "", why: str = "") -> None:
        """Note why it is about to be ended, which caller wants it, if one does, and by which setting or limit."""
        if not self.life.over:
            self._note_ending(reason, by, why)
        self.life.apply(EndRequested(reason, by))

    def lives_on(self) -> None:
        """Note that whoever was about to end it gave that up: what becomes of it later has another reason."""
        if not self.life.over and self.directory.is_there:
            self.directory.ended.unlink(missing_ok=True)

    def _note_ending(self, reason: EndCause, by: str = "", why: str = "") -> None:
        WhyEnded(reason.value, by, iso(time.time()), why).save(self.directory)

    def mark_destroyed(self) -> None:
        """Write down that it is destroyed, so that no broker takes it for lost."""
        self.life.apply(DestroyedOnDisk())
        remove_left(self.directory)
        with suppress(OSError):
            self.meta.destroy(self.directory)

    def tell(self, notice: str | None) -> None:
        """Add a note for the session's owner, behind the notes that wait already; each is told once."""
        self._notice = joined_notes(self._notice, notice)

    def take_notice(self) -> str | None:
        """Take the notes that the session's owner was not told yet."""
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
        """Wake waits less often while the session prints very much: they need not see each piece at once."""
        self.growth.flood = seen_bytes > FLOOD_BYTES

    # ---- looking at it --------------------------------------------------------------------------

    async def look(self) -> Look:
        """Look at it now: the kernel first, then the log to its end, with all marks."""
        pid, heard = self.pid, self.log.size()
        sight, far = await self._terminal.look(self.pane), None
        self._look_for_exec(pid)
        if self._far:
            far, verdict = await self._far.look(sight.facts, sight.verdict)
            sight = replace(sight, verdict=verdict)
        look = await self._seen(heard, sight, pid, far)
        if self._leave(look):
            look = await self._seen(heard, sight, pid, far)
        if sight.facts and not (look.ready or far) and look.shell_pid and tty.is_stopped(look.shell_pid):
            look = replace(look, verdict=stopped(look.shell_pid, look.knows.name))
        return replace(look, leaving=True) if self._leaving else look

    async def look_at_terminal(self, alone: int = 0) -> Look | None:
        """A look without any process: at the terminal's modes, who is in front of it, and the log.

        Enough where the session's own shell alone is there and its marks say what it does; what a program waits for is
        not known of it. A tenth of the time of `look`. None: another shell is there as well, or it cannot be had.

        Args:
            alone: process id of who has to be alone in front; 0: nobody.
        """
        pid, heard = self.pid, self.log.size()
        sight = None if self.meta.host else self._terminal.modes(self.pane, alone)
        if sight is None or sight.facts is None or sight.facts.foreground is None or pid is None:
            return None
        self._look_for_exec(pid)
        look = await self._seen(heard, sight, pid)
        return None if len(look.levels) > 1 or look.adopting else look

    async def _seen(self, heard: int, sight: TerminalFacts, pid: int | None, far: KernelFacts | None = None) -> Look:
        """What the kernel has said, with the log that is read to its end after that."""
        return Look(
            **await self._scanned(),
            heard=heard,
            facts=sight.facts,
            verdict=sight.verdict,
            judged=far or sight.judged,
            terminal=sight.terminal,
            relays=sight.relays,
            reader=sight.reader,
            far=far,
            far_late=far is None and self._far is not None and self._far.answers,
            pid=pid,
            entered=self.entered,
            started_in=self.meta.cwd,
            unmarked_prompt=self.unmarked_prompt,
        )

    async def look_at_prompt(self) -> Look:
        """A look that serves only for the mode and the commands.

        At a prompt that the session's own shell marks and reads keys at, with nobody else there, the terminal and the
        log say both: what the shell waits for has no say in them. That takes a third of the time of `look`.
        """
        if self.pid is not None:
            look = await self.look_at_terminal(alone=self.pid)
            if look and look.facts and not look.facts.canonical and look.takes_commands and self.commands.sure:
                return look
        return await self.look()

    def _look_for_exec(self, pid: int | None) -> None:
        """Ask the kernel whether its own shell, which has shown a prompt, is another program by now.

        That one has none of our marks. What the shell printed before may still come into the log.
        """
        if pid and self.meta.marks and not self._own_replaced and self.track_of(self.meta.nonce).number:
            self._own_replaced = is_own_replaced(pid)

    async def scan(self) -> LogView:
        """Read the log to its end, with all marks."""
        return LogView(**await self._scanned())

    async def _scanned(self) -> dict[str, Any]:
        """The values of a scan: what tmux last told, then the log to its end."""
        told = {  # first: of a program that has ended, the log then holds everything
            "pane": self.pane,
            "launcher_alive": self.leader_alive(),
            "state": self.life.state,
            "exit_status": self.exit_status,
            "log": self.log,
            "places": self._places,
            "cols": self.cols,
            "rows": self.rows,
            "host": self.meta.host,
            "typed_at": self.typed_at,
            "cut": self.cut,
            "program": self.program,
            "own_marks": self.meta.marks and not self._own_replaced,
        }
        self._shell.see_levels()
        scans = self._scans
        if scans and not self.meta.marks:
            self._shell.begin_at_first()
        while scans and self._shell.scan_some():
            await anyio.lowlevel.checkpoint()
        size = self._shell.size if scans else self.log.size()
        return told | {"size": size, "levels": self._shell.scans(), "adopting": self._shell.pending is not None}

    def _leave(self, look: Look) -> bool:
        """Write down which shells have ended, by the kernel's word and the log's; whether any has."""
        at = gone(look.levels, look.facts, look.pid)
        if at is None:
            self._leaving = None
            return False
        outer, inner = look.levels[at - 1], look.levels[at].level
        since = [each for each in reversed(outer.commands) if each.output_end >= inner.since]
        ended = next((each for each in since if each.proven), since[0] if since else None)
        if ended is None and not self.exited:
            # What the shell behind it says of the end, and what this one printed last, may be on its way.
            nonce, begun = self._leaving or (inner.nonce, time.monotonic())
            self._leaving = (inner.nonce, begun if nonce == inner.nonce else time.monotonic())
            waited_s = time.monotonic() - self._leaving[1]
            if waited_s < LEAVES_S or (waited_s < LEAVES_BUSY_S and self._may_yet_tell(outer.level, look)):
                return False
        self._leaving = None
        code, end = (ended.status, ended.output_end) if ended else (None, None)
        left = [replace(each.level, until=look.size, output_end=end) for each in look.levels[at:]]
        if not inner.passes_on or (inner.where == "remote" and code == SSH_FAILED):
            code = None  # 255 is ssh's, too, when the connection is cut or a signal ended the shell there
        left[0] = replace(left[0], exit_code=code)
        return self.leave(left)

    def _may_yet_tell(self, level: Level, look: Look) -> bool:
        """Whether something that this shell says, or the end of the session with it, may be on its way to the look.

        Asked in the order in which it comes: who rests has passed on all that came from the one before.
        """
        shell = look.pid if level.number == 0 else level.pid
        if shell and not identity(shell):
            return True  # tmux is about to learn of the session's end
        if shell and tty.computes(shell):
            return True
        return not self.log_seems_complete(look.size)

    # ---- has all that was printed arrived? -----------------------------------------------------

    def log_seems_complete(self, size: int) -> bool:
        """The weakest of three answers to `log_complete`, by the kernel alone: tmux and the sink rest."""
        tmux = self.tmux.pid
        return (tmux is None or tty.rests(tmux)) and self.sink_rests() and self.log.size() == size

    async def log_complete(self, size: int) -> bool:
        """Whether the log, of this size, holds everything that was printed until now.

        What a program prints goes through tmux and then the sink. When tmux has answered, it has read what lay there
        for it; its second answer comes after it has passed that on. A sink that sleeps has written all that it was
        given.

        Where tmux cannot be asked, `log_seems_complete` takes its rest for that: what it is about to read is missed.
        Where a missing mark shall say something, `log_surely_complete` wants a sink that lives as well.
        """
        for _ in range(2):
            await self.tmux.query(command("display-message", "-p", ""))
        return self.sink_rests() and self.log.size() == size

    async def log_surely_complete(self, size: int) -> bool:
        """The strongest of the three: the log has a writer too; False as well while tmux does not tell."""
        if not sink_of(self.directory).alive:
            self.watcher.doubt(self.log.path)  # what the sink started may still write, so nobody was told
            return False
        try:
            return await self.log_complete(size)
        except TmuxMcpError:
            return False

    @property
    def adopting(self) -> Level | None:
        """The shell that is being adopted, as far as was seen."""
        self._shell.see_levels()
        return self._shell.pending

    @property
    def highest_number(self) -> int:
        """The highest number that a prompt has had."""
        return self._shell.highest

    def level_of(self, nonce: str) -> Level:
        """One of the shells, also one that has ended; the session's own where it is not known."""
        return self._shell.level_of(nonce)

    def answer(self, nonce: str) -> Mark | None:
        """What a shell answered when it was asked who it is."""
        return self._shell.answers.get(nonce)

    def track_of(self, nonce: str) -> ShellTrack:
        """What the marks of one shell say, as far as the log was scanned."""
        return self._shell.track_of(nonce)

    def track_with_echo(self, level: Level) -> ShellTrack:
        """What one shell did last, also one that has ended: by its marks, else by the echo of a line."""
        return self._shell.track_with_echo(level)

    @contextmanager
    def expecting_answer(self, nonce: str) -> Iterator[int]:
        """While this is open, a shell that is asked is believed at which prompt it is; gives the size of the log."""
        asked_at = self.log.size()
        self._shell.asked[nonce] = asked_at
        try:
            yield asked_at
        finally:
            self._shell.asked.pop(nonce, None)

    def is_asked(self, nonce: str) -> bool:
        """Whether a shell was asked and has not answered."""
        return nonce in self._shell.asked

    def proves(self, level: Level) -> bool:
        """Whether a shell takes a proof with a command: one that an earlier version began does not."""
        return level.proofs if level.number else self.meta.proofs

    def readonly_variable(self, nonce: str) -> str:
        """The variable for which a shell takes no marks; empty: it did not say so."""
        return self._shell.refusals.get(nonce, "")

    def ended_with_its_shell(self, number: int) -> bool:
        """Whether a command ended as its shell did: one that was adopted, or the own one, whose place another took."""
        command = self.commands.ended(number)
        if self._own_replaced and not command.level and number == self.track_of(self.meta.nonce).number:
            return not command.proven
        return any(
            each.number == command.level
            and each.until is not None
            and each.since <= command.start
            and command.end == max(each.until if each.output_end is None else each.output_end, command.start)
            for each in self._shell.file.value
            if command.level and not command.proven
        )

    def end_own_shell(self) -> None:
        """Take note that another shell is at its prompt in the place of its own: what that ran has ended."""
        if self._own_replaced:
            self._shell.end_own()

    def sends_no_more(self, nonce: str) -> bool:
        """Whether a shell has said that its marks were taken out."""
        return nonce in self._shell.undone

    def put_level(self, level: Level) -> None:
        """Write down how a shell stands that is being adopted; who calls holds the lock.

        Raises:
            IoError
        """
        try:
            self._shell.file.put(level)
        except OSError as error:
            raise IoError(f"What is adopted in session {self.id} cannot be written down: {error}") from error
        self._shell.take_levels()

    def forget_level(self, nonce: str) -> None:
        """Forget a shell that was not adopted."""
        self._shell.file.forget(nonce)
        self._shell.take_levels()

    def leave(self, left: list[Level]) -> bool:
        """Write down that shells are no longer there; whether that was done."""
        try:
            with if_free(self.directory.levels_lock) as free:
                if not free or not self._shell.standing[-1].number:
                    return False
                self._shell.file.put(*left)
                self._shell.take_levels()
        except OSError:
            return False
        now = iso(time.time())
        for each in reversed(left):
            self.events.append(LeftShellEvent(now, self.log.size(), each.number, each.exit_code))
        return True

    @property
    def _scans(self) -> bool:
        """There are shells that send marks, or were."""
        return self.meta.marks or self._shell.has_inner

    def running_numbers(self) -> list[int]:
        """Numbers of the commands that run, as the marks of all shells say, as far as the log was scanned."""
        scans = self._shell.scans()
        held = [each.held[0].number for each in scans if each.held]
        return held + [each.shell.number for each in scans if each.shell.state is ShellState.RUNNING and not each.held]

    def looks(
        self, step_s: float | Callable[[], float], deadline: float = math.inf, *, shared: bool = False
    ) -> Looks[Look]:
        """Look at once, whenever its log has grown, and after each step, until the deadline (`time.monotonic()`).

        When its launcher has gone, tmux is asked for its end before the look.

        Args:
            shared: who looks seldom does so together with others, and takes what one of them has just seen.
        """
        if not shared:
            return Looks(self.growth.next_change, partial(self._at_end, self.look), step_s, deadline)
        begun = time.monotonic()

        def step() -> float:
            return self._together(step_s if isinstance(step_s, (int, float)) else step_s())

        see = partial(self._at_end, partial(self._look_since, begun))
        return Looks(self.growth.next_change, see, step, deadline)

    def _together(self, step_s: float) -> float:
        """Seconds until the next moment at which all waits for this session look."""
        if step_s < SELDOM_S:
            return step_s
        whole_s = 2.0 ** math.floor(math.log2(step_s))
        return whole_s - (time.monotonic() + self._phase * whole_s) % whole_s

    async def _look_since(self, begun: float) -> Look:
        """A look; or one that another took a moment ago, after `begun`, if nothing was printed since."""
        at, look = self._last_look
        now = time.monotonic()
        if look and at >= begun and now - at < SHARED_S and look.size == self.log.size() and look.pane is self.pane:
            return look
        look = await self.look()
        self._last_look = (now, look)
        return look

    def scans(self, step_s: float | Callable[[], float], deadline: float = math.inf) -> Looks[LogView]:
        """Scan as `looks` looks: for waits that the log alone decides."""
        return Looks(self.growth.next_change, partial(self._at_end, self.scan), step_s, deadline)

    async def _at_end(self, see: Callable[[], Awaitable[Seen]]) -> Seen:
        if not self.leader_alive():
            await self.refresh()
        return await see()

    def save_checkpoint(self) -> None:
        """Write down what the marks say, so that a later broker need not scan from the start."""
        if self._scans:
            self._shell.save()

    # ---- the kernel ----------------------------------------------------------------------------

    def kernel_size(self) -> tuple[int, int] | None:
        """Columns and rows as its program sees them: another size is seen without asking tmux."""
        return None if self.exited else self._terminal.size()

    def sink_rests(self) -> bool:
        """Whether the sink sleeps, as far as can be told: then it has written all that tmux gave it."""
        pid = sink_pid(self.directory)
        return pid is None or tty.sleeps(pid)

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
            for process in with_descendants(self.pid):
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

    def end_ms(self) -> int:
        """The end of its time: now while it runs; else when it ended or, where nobody wrote that down, printed last."""
        if not self.exited:
            return self.now_ms()
        written, made = ending_of(self.life, self._left), seconds_of(self.meta.created_at)
        at = seconds_of(self._left.exit.time if self._left.exit else written.at if written else "")
        size = self.log.size()
        printed_ms = self.times.ms_at(size) if at else self.time_at(size)
        # Times are cut to the millisecond: a moment later all was there.
        return max(round((at - made) * 1000) if at and made else 0, 0 if printed_ms is None else printed_ms + 1)

    def time_at(self, offset: int) -> int | None:
        """Milliseconds from its making until so much had been printed; None where that is not known.

        What was printed last is all there is now, while it runs; of one that has ended it came with the log's last
        write, if nothing else tells.
        """
        last = offset >= self.log.size()
        if last and not self.exited:
            return self.now_ms()
        known, made = self.times.ms_at(offset), seconds_of(self.meta.created_at)
        if known is not None or made is None or not last:
            return known
        try:
            return max(round((os.stat(self.log.path).st_mtime - made) * 1000), 0)
        except OSError:
            return None

    # ---- what is written beside the log --------------------------------------------------------

    def cursor_of(self, caller: str, size: int | None = None) -> int:
        """How far this caller has read; 0 for one who never did.

        Args:
            size: of the log, by who has just asked for that.
        """
        return min(self.cursors.of(caller), self.log.size() if size is None else size)

    def read_or_seen_to(self, caller: str) -> int:
        """Offset up to which this caller knows the output: it has read it, or has seen the screen at that time."""
        return max(self.cursor_of(caller), self._screens_seen.get(caller, 0))

    def saw_screen(self, caller: str, offset: int) -> None:
        """Remember that this caller has seen the screen, with all that was printed up to there."""
        self._screens_seen[caller] = offset

    def write_input(self, *, bytes: int, keys: int) -> None:
        """Write down that so much was typed, here and now."""
        size = self.log.size()  # before the time: what is printed meanwhile was not there then
        self.events.append(InputEvent(iso(time.time()), size, bytes, keys))

    @property
    def recording(self) -> RecordingNote | None:
        """The recording that is being made, or the last one that was."""
        self._recording.read()
        return self._recording.value

    def write_shown(self, offset: int, text: str | None) -> None:
        """Note what was typed where the terminal shows it; it is written down once it was shown, if that is recorded.

        Args:
            offset: size of the log before.
            text: None: the terminal may not show it.
        """
        note = self.recording
        if text and note and note.state == "running" and note.input:
            self.shown.note_typed(offset, text)

    def write_resize(self, cols: int, rows: int, offset: int | None = None) -> None:
        """Write down that it has another size, from an offset on; else from here on."""
        self.events.append(ResizedEvent(iso(time.time()), self.log.size() if offset is None else offset, cols, rows))

    @property
    def resized_unnoticed(self) -> SizeUnknownEvent | None:
        """That somebody changed the size in tmux itself, since the last change that is written down."""
        changes = self.events.resizes()
        known = (changes[-1].cols, changes[-1].rows) if changes else (self.meta.cols, self.meta.rows)
        if self.pane is None or (self.cols, self.rows) == known:
            return None
        return SizeUnknownEvent(iso(time.time()), changes[-1].offset if changes else 0, self.log.size())

    def close(self) -> None:
        """Let go of what is open; the session lives on."""
        with suppress(OSError):  # somebody has put something else in the place of its files
            self.save_checkpoint()
        self.watcher.remove(self.log.path)
        self._terminal.close()
        self._let_go()
