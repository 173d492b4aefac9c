"""The core: all sessions of one state directory, and the operations on them.

A broker keeps no state that it cannot rebuild: what a session is lies in tmux, what it printed in its log. Several
brokers work on one state directory at once, and any of them may go away at any moment.
"""

from __future__ import annotations

import logging
import os
import shlex
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Literal

import anyio

from tmuxmcp.broker import facts, health, mouse, run, sending
from tmuxmcp.broker.admission import Admission
from tmuxmcp.broker.gate import Gate
from tmuxmcp.broker.machine import Machine
from tmuxmcp.broker.reading import Asked, Reading, clamp, notes
from tmuxmcp.broker.sending import check_size, typing
from tmuxmcp.broker.wait import Answer, Wait, wait_for
from tmuxmcp.broker.watch import Watch
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.limits import Limits, Wish
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.errors import (
    InvalidArgument,
    TmuxMcpError,
    Unauthorized,
    Unsupported,
)
from tmuxmcp.host import cgroup
from tmuxmcp.record import search
from tmuxmcp.record.log import LogWatcher
from tmuxmcp.sessions import identity, reap
from tmuxmcp.sessions.creation import Creation
from tmuxmcp.sessions.end import end_processes, process_tree, signal_group, signal_session
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.repair import Repair
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.modes import SHELLS
from tmuxmcp.terminal.patterns import compile_pattern
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.control import command as tmux_command
from tmuxmcp.tmux.server import Tmux

log = logging.getLogger(__name__)

DRAIN_S = 12
"""How long the launcher may need until the log holds everything: it gives up after 10 s."""

REAP_GRACE_MS = 1000
"""Time to end of a session whose time is up: it is over within 2 s of its limit, whatever it ignores."""

_CALL = Call()


class Broker:
    """Every public method that takes `call` is an operation: its arguments and its result are the contract's."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.tmux = Tmux(settings.state_dir)
        self.watcher = LogWatcher()
        self.registry = Registry(self.tmux, self.watcher, settings.state_dir, settings.log_max_bytes)
        self.creation = Creation(self.registry, settings)
        self.watch = Watch(self.registry)
        self.reading = Reading(self.registry, settings)
        self.admit = Admission(settings.max_calls).admit
        self.machine = Machine(settings)
        self.gate = Gate(self.registry, settings)
        self._destroyed: dict[str, str] = {}
        """By caller: its default session that was destroyed last; it is told so when it gets another."""
        self._started = time.monotonic()
        self._limited = anyio.Event()
        """Set when there is a new session with limits: whoever looks after them looks again."""

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: BrokerSettings) -> AsyncIterator[Broker]:
        """Find or start the tmux server and every session; on leaving, let go of them.

        Raises:
            TmuxUnavailable, PermissionDenied, InvalidArgument
        """
        broker = cls(settings)
        # tmux.sock first: two brokers that start at once must agree on one server.
        async with anyio.create_task_group() as task_group:
            try:
                await broker.tmux.open(task_group)
                (settings.state_dir / "sessions").mkdir(mode=0o700, exist_ok=True)
                task_group.start_soon(broker.watcher.run)
                task_group.start_soon(Repair(broker.watcher, broker.registry.session_of, settings.log_max_bytes).run)
                await broker.registry.adopt()
                task_group.start_soon(broker._reap)
                yield broker
            finally:
                if settings.on_exit == "destroy":
                    with anyio.move_on_after(2, shield=True):
                        await broker._destroy_own()
                broker._close()
                task_group.cancel_scope.cancel()

    def claim_identity(self, key: str) -> str:
        """A caller's name that its restarts share and no other live process has; see `identity`."""
        return identity.claim(self.settings.state_dir, key)

    async def answers(self, timeout_s: float) -> bool:
        """Whether tmux answers within this time."""
        try:
            await self.tmux.query(tmux_command("display-message", "-p", ""), timeout_s=timeout_s)
        except (TmuxMcpError, TimeoutError):
            return False
        return True

    async def _reap(self) -> None:
        """End what nobody wants any more, now and then."""
        settings = self.settings
        bounds = reap.Bounds(
            settings.idle_timeout_s, settings.max_duration_s, settings.retention_days, settings.state_max_bytes
        )
        while True:
            with suppress(TmuxMcpError, OSError):
                await self.registry.look_again()
                watched = await panes.attached(self.tmux)
                await reap.end_idle(
                    self.registry.sessions.values(),
                    settings.state_dir,
                    bounds,
                    watched,
                    partial(self.destroy_session, grace_ms=REAP_GRACE_MS),
                )
                live = {session.id for session in self.registry.sessions.values() if session.pane}
                removed = await anyio.to_thread.run_sync(reap.remove_old, settings.state_dir, bounds, live)
                await anyio.to_thread.run_sync(lambda: cgroup.sweep(cgroup.places(self.tmux.pid or "self")))
                for session_id in removed:
                    lost = self.registry.sessions.pop(session_id, None)
                    if lost:
                        lost.close()
            with anyio.move_on_after(reap.interval_s(bounds, self.registry.sessions.values())):
                await self._limited.wait()
            self._limited = anyio.Event()

    async def _destroy_own(self) -> None:
        """End the sessions that this broker made."""
        async with anyio.create_task_group() as task_group:
            for session_id in self.creation.made & set(self.registry.sessions):
                task_group.start_soon(self.destroy_session, session_id, True)

    def _close(self) -> None:
        self.gate.close()
        self.registry.close()
        self.tmux.close()
        self.watcher.close()

    # ---- finding sessions ----------------------------------------------------------------------

    async def _find(self, session_id: str, call: Call, fresh: bool = True) -> Session:
        """The session with this id; without one, the caller's default session, made on first use.

        Args:
            fresh: ask tmux for its pane now; not needed where the next step asks anyway.
        """
        if not session_id:
            return await self._default(call)
        known = self.registry.sessions.get(session_id)
        if known and known.pane and not fresh:
            return known
        return await self.registry.existing(session_id)

    async def _default(self, call: Call) -> Session:
        for session in self.registry.sessions.values():
            if session.meta.owner == call.caller and await session.refresh() and not session.exited:
                return session
        async with self.creation.lock():
            ended = None
            await self.registry.look_again()
            for session in self.registry.sessions.values():
                if session.meta.owner == call.caller:
                    if not session.exited:
                        return session
                    ended = session
            made = await self.creation.create(owner=call.caller)
            if ended:
                ended.meta.owner = ""
                ended.meta.save(ended.directory)
            ended_id = self._destroyed.pop(call.caller, ended.id if ended else "")
            if ended_id:
                anew = f"Your default session {ended_id} had ended; this one was made anew."
                made.notice = " ".join(filter(None, (anew, made.notice)))
        await self._wait_ready(made, 5000, call)
        return made

    # ---- operations: making and ending ---------------------------------------------------------

    async def create_session(
        self,
        program: str = "",
        args: Sequence[str] = (),
        name: str = "",
        rows: int | None = None,
        cols: int | None = None,
        env: dict[str, str] | None = None,
        cwd: str = "",
        wait_ready: Literal["auto"] | bool = "auto",
        ready_timeout_ms: int = 5000,
        scrollback_lines: int | None = None,
        limits: Limits | None = None,
        sandbox: Wish = "none",
        record: bool = False,
        host: str = "",
        call: Call = _CALL,
    ) -> r.CreateSessionResult:
        """Start a program in a terminal of its own.

        Raises:
            SessionExists, MaxSessions, ProgramNotFound, CwdNotFound, PolicyDenied, InvalidArgument, Unsupported,
            TmuxFailed
        """
        if record or host:
            what = "be recorded" if record else "run on another host"
            raise Unsupported(f"A session cannot {what} yet.", hint="Leave record and host out; its log is kept.")
        async with self.creation.lock():
            session = await self.creation.create(
                program=program,
                args=args,
                name=name,
                rows=rows,
                cols=cols,
                env=env,
                cwd=cwd,
                scrollback=scrollback_lines,
                limits=limits,
                wish=sandbox,
            )
        if session.bounds.limits:
            self._limited.set()
        # A shell that was given a script or -c shows no prompt.
        shell = session.meta.marks or (os.path.basename(session.meta.program) in SHELLS and not session.meta.args)
        ready = False
        if wait_ready is True or (wait_ready == "auto" and shell):
            answer = await self._wait_ready(session, ready_timeout_ms, call)
            ready = answer.outcome == "ready"
        await session.refresh()
        return r.CreateSessionResult(
            session_id=session.id,
            program=session.meta.program,
            args=session.meta.args,
            pid=session.pid or 0,
            cwd=session.cwd(),
            rows=session.rows,
            cols=session.cols,
            mode=session.mode(),
            ready=ready or session.look()[1].ready,
            attach_command=self.attach_command(session),
            note=notes(session, 0, 0, session.bounds.note),
        )

    async def _wait_ready(self, session: Session, timeout_ms: int, call: Call) -> Answer:
        prompt = compile_pattern(self.settings.prompt_pattern) if self.settings.prompt_pattern else None
        timeout_ms = min(timeout_ms, self.settings.max_wait_ms)
        wait = Wait("ready", timeout_ms, prompt_pattern=prompt, sent_at=0, progress=call.progress)
        return await wait_for(session, wait)

    async def destroy_session(
        self,
        session_id: str,
        force: bool = False,
        signal: str = "TERM",
        grace_ms: int = 2000,
        call: Call = _CALL,
    ) -> r.DestroySessionResult:
        """End a session and every process in it.

        Raises:
            SessionNotFound, Unauthorized
        """
        begun = time.monotonic()
        if not session_id:
            raise InvalidArgument("destroy_session needs a session_id.", hint="list_sessions gives them.")
        session = await self.registry.existing(session_id)
        _may_end(session, call)
        name = "KILL" if force else signal
        survivors = await end_processes(session, process_tree(session), name, 0 if force else grace_ms)
        with anyio.move_on_after(DRAIN_S):
            while (now := await session.refresh()) and not now.dead and not survivors:
                await anyio.sleep(0.005)
        code, name_of = session.exit_status
        await self.registry.forget(session)
        if session.meta.owner:
            self._destroyed[session.meta.owner] = session.id
        return r.DestroySessionResult(
            session_id=session_id,
            destroyed=True,
            exit_code=code,
            exit_signal=name_of,
            duration_ms=_ms_since(begun),
            survivors=survivors,
        )

    # ---- operations: looking -------------------------------------------------------------------

    async def list_sessions(self, include_exited: bool = True, call: Call = _CALL) -> r.ListSessionsResult:
        """All sessions, with what each is doing."""
        await self.registry.look_again()
        found = []
        for session in sorted(self.registry.sessions.values(), key=lambda each: each.meta.created_at):
            if session.exited and not include_exited:
                continue
            await session.scan()
            found.append(facts.summary(session))
        return r.ListSessionsResult(count=len(found), sessions=found)

    async def get_session(self, session_id: str = "", call: Call = _CALL) -> r.SessionFacts:
        """All that is known of one session.

        Raises:
            SessionNotFound
        """
        session = await self._find(session_id, call)
        await run.at_rest(session)
        return facts.of(session, self.attach_command(session))

    def attach_command(self, session: Session) -> str:
        """How a person watches: by the tmux session's name, which a script may have changed."""
        target = session.pane.attach_target if session.pane else f"={session.id}"
        # A target holds nothing that quotes do not keep; without them zsh takes =word for the path of a command.
        return f"tmux -S {shlex.quote(str(self.tmux.socket))} attach -r -t '{target}'"

    # ---- operations: commands and keys ---------------------------------------------------------

    async def run(
        self,
        command: str,
        session_id: str = "",
        timeout_ms: int = 30_000,
        max_bytes: int | None = None,
        call: Call = _CALL,
    ) -> r.RunResult:
        """Run a command in the session's live shell.

        Raises:
            NotAShell, SessionBusy, IncompleteCommand, SessionExited, SessionNotFound, ResourceLimit
        """
        check_size(self.settings, command)
        limit, effective = clamp(self.settings, timeout_ms)
        session = await self._find(session_id, call)
        ran = await run.run(session, command, limit, call.progress)
        excerpt = session.reader.both_ends(ran.start, ran.end, max_bytes or self.settings.max_bytes)
        if session.cursor_of(call.caller) < ran.end:
            session.move_cursor(call.caller, ran.end)
        return r.RunResult(
            session_id=session.id,
            exit_code=ran.exit_code,
            completed=ran.completed,
            outcome=ran.outcome,
            evidence=ran.evidence,
            duration_ms=ran.duration_ms,
            cwd=ran.cwd if ran.cwd is not None else session.cwd(),
            mode="shell_prompt" if ran.completed and ran.outcome == "ready" else session.mode(),
            truncated=excerpt.truncated,
            output_bytes=ran.end - ran.start,
            omitted_bytes=excerpt.omitted_bytes,
            start_offset=ran.start,
            end_offset=ran.end,
            effective_timeout_ms=effective,
            sanitized=excerpt.sanitized,
            note=notes(session, ran.start, ran.end, ran.note),
            output=excerpt.text,
        )

    async def send(
        self,
        text: str = "",
        key: str = "",
        keys: Sequence[str] = (),
        ctrl: bool = False,
        alt: bool = False,
        shift: bool = False,
        enter: bool = False,
        session_id: str = "",
        bracketed_paste: Literal["auto", "always", "never"] = "auto",
        read: Literal["auto", "none", "new", "screen", "diff"] = "auto",
        wait_for: r.WaitFor = "ready",
        timeout_ms: int = 5000,
        format: Literal["plain", "ansi"] = "plain",
        pattern: str = "",
        idle_ms: int = 300,
        prompt_pattern: str = "",
        max_bytes: int | None = None,
        call: Call = _CALL,
    ) -> r.SendResult:
        """Type text and press keys, then wait and read.

        Raises:
            NoInput, InvalidKey, InvalidPattern, InvalidArgument, SessionExited, SessionNotFound, ResourceLimit
        """
        what = typing(self.settings, text, key, keys, (ctrl, alt, shift), enter, bracketed_paste)
        asked = Asked(read, wait_for, timeout_ms, format, pattern, idle_ms, prompt_pattern, max_bytes)
        wait = self.reading.wait(asked, call)
        session = await self._find(session_id, call)
        return await sending.send(self.reading, session, what, asked, wait, call)

    # ---- operations: reading -------------------------------------------------------------------

    async def read(
        self,
        view: Literal["new", "screen", "diff", "scrollback", "raw"] = "new",
        session_id: str = "",
        since: int | None = None,
        offset: int | None = None,
        limit: int = 1000,
        wait_for: r.WaitFor = "none",
        timeout_ms: int = 30_000,
        format: Literal["plain", "ansi"] = "plain",
        pattern: str = "",
        idle_ms: int = 300,
        prompt_pattern: str = "",
        max_bytes: int | None = None,
        screen_id: str = "",
        call: Call = _CALL,
    ) -> r.ReadResult:
        """Read what a session printed or shows, after an optional wait.

        Raises:
            InvalidPattern, InvalidArgument, SessionNotFound
        """
        asked = Asked(
            view,
            wait_for,
            timeout_ms,
            format,
            pattern,
            idle_ms,
            prompt_pattern,
            max_bytes,
            since,
            offset,
            limit,
            screen_id,
        )
        wait = self.reading.wait(asked, call)
        session = await self._find(session_id, call, fresh=view not in ("screen", "diff"))
        return await self.reading.read(session, asked, wait, call)

    async def search(
        self, pattern: str, session_id: str = "", limit: int = 100, context: int = 0, call: Call = _CALL
    ) -> r.SearchResult:
        """Find a regular expression in the clean text of all that a session printed.

        Raises:
            InvalidPattern, SessionNotFound
        """
        session = await self._find(session_id, call)
        return await search.search(session.log, session.cols, session.rows, session.id, pattern, limit, context)

    # ---- operations: the terminal --------------------------------------------------------------

    async def resize(
        self,
        rows: int | None = None,
        cols: int | None = None,
        scrollback_lines: int | None = None,
        session_id: str = "",
        call: Call = _CALL,
    ) -> r.ResizeResult:
        """Set the terminal's size and the length of its scrollback; what is left out stays as it is.

        Raises:
            SessionExited, SessionNotFound, InvalidArgument
        """
        if rows is None and cols is None and scrollback_lines is None:
            raise InvalidArgument("There is nothing to change.", hint="Give rows, cols or scrollback_lines.")
        for name, value in (("rows", rows), ("cols", cols)):
            if value is not None and not 1 <= value <= 500:
                raise InvalidArgument(f"{name} must be 1 to 500, not {value}.", hint="Choose another size.")
        session = await self._find(session_id, call)
        pane = session.live()
        if rows is not None or cols is not None:
            rows, cols = rows or session.rows, cols or session.cols
            if not await panes.resize_window(self.tmux, pane, cols, rows):
                await session.alive()
            session.write_event("resize", cols=cols, rows=rows)
        if scrollback_lines is not None:
            await panes.set_option(self.tmux, pane, "scrollback", str(scrollback_lines))
        await session.refresh()
        return r.ResizeResult(
            session_id=session.id, rows=session.rows, cols=session.cols, scrollback_lines=session.scrollback_lines
        )

    async def signal(
        self,
        signal: str,
        target: Literal["foreground", "session"] = "foreground",
        session_id: str = "",
        call: Call = _CALL,
    ) -> r.SignalResult:
        """Send a signal to the foreground program's process group, or to every process of the session.

        Raises:
            SessionExited, SessionNotFound
        """
        session = await self._find(session_id, call)
        pane = session.live()
        pids = signal_group(pane.leader, signal) if target == "foreground" else signal_session(session, signal)
        return r.SignalResult(session_id=session.id, delivered=bool(pids), pids=pids)

    async def screenshot(
        self,
        format: Literal["png", "svg", "html"] = "png",
        at_ms: int | None = None,
        session_id: str = "",
        call: Call = _CALL,
    ) -> r.ScreenshotResult:
        """Draw what a session shows.

        Raises:
            Unsupported, SessionNotFound
        """
        from tmuxmcp.broker import screenshot  # late: few callers draw

        if at_ms is not None:
            raise Unsupported("Only the screen of now can be drawn.", hint="Leave at_ms out.")
        session = await self._find(session_id, call, fresh=False)
        return (await screenshot.take(session, format)).result(session.id)

    async def mouse(
        self,
        action: Literal["click", "press", "release", "move", "scroll_up", "scroll_down"],
        row: int | None = None,
        col: int | None = None,
        on_text: str = "",
        button: Literal["left", "middle", "right"] | None = None,
        session_id: str = "",
        call: Call = _CALL,
    ) -> r.MouseResult:
        """Hand a mouse event to the program: at a place, or on a text of the screen.

        Raises:
            WrongMode, Unsupported, InvalidArgument, SessionExited, SessionNotFound
        """
        session = await self._find(session_id, call)
        event = mouse.Event(action, row, col, on_text, button or "")
        at_row, at_col = await mouse.act(session, event)
        return r.MouseResult(session_id=session.id, sent=True, row=at_row, col=at_col)

    # ---- operations: the machine ---------------------------------------------------------------

    async def run_process(
        self,
        argv: Sequence[str],
        cwd: str = "",
        env: dict[str, str] | None = None,
        stdin: str = "",
        stdin_base64: str = "",
        timeout_ms: int = 30_000,
        max_output_bytes: int = 65_536,
        limits: Limits | None = None,
        call: Call = _CALL,
    ) -> r.RunProcessResult:
        """Run one program without a terminal until it has ended; it and its descendants end with the time, or the call.

        Raises:
            PolicyDenied, ProgramNotFound, CwdNotFound, InvalidArgument, ResourceLimit, IoError
        """
        return await self.machine.run_process(
            argv,
            cwd=cwd,
            env=env or {},
            stdin=stdin,
            stdin_base64=stdin_base64,
            timeout_ms=timeout_ms,
            max_output_bytes=max_output_bytes,
            limits=limits or Limits(),
            call=call,
        )

    async def read_file(
        self,
        path: str,
        offset: int | None = None,
        max_bytes: int = 65_536,
        start_line: int | None = None,
        end_line: int | None = None,
        call: Call = _CALL,
    ) -> r.ReadFileResult:
        """A piece of a file: bytes from `offset`, or lines from `start_line` to `end_line`.

        Raises:
            PolicyDenied, FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, ResourceLimit, IoError
        """
        return await self.machine.read_file(path, offset, max_bytes, start_line, end_line)

    async def write_file(
        self,
        path: str,
        data: str,
        encoding: Literal["utf-8", "base64"] = "utf-8",
        mode: str | int | None = None,
        create_dirs: bool = False,
        call: Call = _CALL,
    ) -> r.WriteFileResult:
        """Write a whole file; readers see the old one or the new one.

        Raises:
            PolicyDenied, FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, ResourceLimit, IoError
        """
        return await self.machine.write_file(path, data, encoding, mode, create_dirs)

    async def list_directory(self, path: str, limit: int = 1000, call: Call = _CALL) -> r.ListDirectoryResult:
        """What is in a directory, by name; nothing is followed.

        Raises:
            PolicyDenied, FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, IoError
        """
        return await self.machine.list_directory(path, limit)

    # ---- operations: the broker itself ---------------------------------------------------------

    async def health(self, call: Call = _CALL) -> r.HealthResult:
        """Versions, limits and checks of this broker."""
        return await health.look(self.registry, self.settings, uptime_s=time.monotonic() - self._started)


def _may_end(session: Session, call: Call) -> None:
    """Named sessions are everybody's; a client's default session is its own."""
    if "admin" not in call.scopes and session.meta.owner not in ("", call.caller):
        raise Unauthorized(
            f"Session {session.id} is the default session of another client.",
            hint="A token with the scope admin may end it.",
            session_id=session.id,
            scope="admin",
        )


def _ms_since(begun: float) -> int:
    return int((time.monotonic() - begun) * 1000)
