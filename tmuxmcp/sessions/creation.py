"""Making sessions: what runs in them, where their files lie, how many there may be."""

from __future__ import annotations

import logging
import os
import resource
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.contract.call import begin, iso
from tmuxmcp.contract.errors import (
    CwdNotFound,
    InvalidArgument,
    MaxSessions,
    PolicyDenied,
    ProgramNotFound,
    SessionExists,
    TimedOut,
    TmuxFailed,
    Unsupported,
)
from tmuxmcp.contract.requests import CreateSession
from tmuxmcp.contract.settings import WRAPPER_LEVELS, BrokerSettings, Limits, SandboxLevel
from tmuxmcp.machine import cgroup, locks, ownprocess, proc
from tmuxmcp.machine.environment import find_cwd, find_program, session_environment, user_shell
from tmuxmcp.machine.launch import launch, shells
from tmuxmcp.machine.launch.shells.record import Integration
from tmuxmcp.machine.sandbox import sandbox
from tmuxmcp.machine.sandbox.project import Identity
from tmuxmcp.machine.sandbox.sandbox import Sandbox, SandboxScope
from tmuxmcp.machine.ssh import client as ssh
from tmuxmcp.machine.ssh.client import THIS_MACHINE, Destination, parse
from tmuxmcp.record.directory import SessionDirectory, make_directory, making_lock, sessions_dir
from tmuxmcp.record.events import Booted
from tmuxmcp.record.log import RawLog
from tmuxmcp.record.meta import Keep, Meta, begin_recording, generation_of
from tmuxmcp.sessions.bounds import BY_BROKER, Boundary, allows, bind
from tmuxmcp.sessions.registry import SESSION_ID, Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import NewPane, PaneChanged

if TYPE_CHECKING:
    from tmuxmcp.sessions.spare import Spare

log = logging.getLogger(__name__)

CREATION_LOCK_S = 10
"""How long another broker may take to make a session."""


NONE_OF_YOURS = (
    "None of them is yours. Wait, or have the person end some (tmuxmcp list, tmuxmcp kill ID) or raise the limit."
)

SPARE_DESCRIPTORS = 64
"""What tmux server and broker need beside those of their sessions."""

START_ERRORS = {"PROGRAM_NOT_FOUND": ProgramNotFound, "CWD_NOT_FOUND": CwdNotFound, "UNSUPPORTED": Unsupported}
"""What the launcher's step says when it cannot start the program."""


STARTED_LOOK_S, LOOK_SHARE = 0.001, 0.1
"""How often it is looked whether a program has started; later, after such a share of the time that it took so far."""

PROGRAM_START_S = 10
"""How long a launcher may take to become the program."""


class Creation:
    """Makes sessions; one at a time gets its name, directory and pane, whatever the number of brokers."""

    def __init__(self, registry: Registry, settings: BrokerSettings, boundary: Boundary) -> None:
        """Make sessions as the settings say, those in a sandbox inside of the boundary."""
        self.registry = registry
        self.settings = settings
        self._boundary = boundary
        self._turn = anyio.Lock()
        """In the order in which they came: a file's lock goes to whoever looks at the right moment."""
        self.made: set[str] = set()
        """Ids of the sessions that were made here."""
        self._spare: Spare | None = None
        """What the next default session can be made of."""
        self.end_abandoned: Callable[[], Awaitable[bool]] | None = None
        """Ends a session that nobody misses, so that there is room for another one; False: there is none."""

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """While this is open, nobody else makes a session: two could not share a name or its directory.

        Raises:
            TimedOut: another broker does not come to an end.
        """
        others = locks.lock_within(making_lock(self.registry.state_dir), patience_s=CREATION_LOCK_S)
        async with self._turn, others as held:
            if not held:
                raise TimedOut("Another broker has been making a session for too long.", hint="Try again.")
            yield

    async def sweep(self) -> None:
        """Remove what is left of sessions whose broker was killed before their pane was there: nothing ever ran.

        Raises:
            TimedOut, TmuxFailed: it was not done.
        """
        if not unborn(self.registry.state_dir):
            return
        async with self.lock():  # what somebody is making now has its pane then
            names = (await panes.taken(self.registry.tmux)).names
            for directory in unborn(self.registry.state_dir):
                if not names & {directory.name, panes.SPARE_PREFIX + directory.name}:
                    self.registry.drop(directory.name)
                    shutil.rmtree(directory.path, ignore_errors=True)

    async def make_spare(self, owner: str) -> None:
        """Make a pane ahead for the default session of a caller who has none, if it can be used.

        Raises:
            TmuxMcpError, OSError: there is none.
        """
        from tmuxmcp.sessions import spare

        if not spare.possible(self.settings):
            return
        async with self.lock():
            await self.registry.look_again()
            has_one = any(each.meta.owner == owner and not each.exited for each in self.registry.sessions.values())
            if not has_one and not self._spare:
                request = CreateSession().filled(self.settings)
                self._spare = await spare.make(self.registry.tmux, request, self.settings)

    def drop_spare(self) -> None:
        """Let the spare pane go, if there is one."""
        if self._spare:
            self._spare.close()
            self._spare = None

    async def create_default(self, owner: str) -> Session:
        """Make a caller's default session, of the spare pane if there is one; as `create`."""
        request = CreateSession().filled(self.settings)
        spare, self._spare = self._spare, None
        try:
            if spare and spare.is_for(request):
                return await self.create(request, owner, by=owner, spare=spare)
        except (PaneChanged, FileNotFoundError):  # its directory goes with it
            log.info("the spare pane is gone: another one is made")
        finally:
            if spare:
                spare.close()
        return await self.create(request, owner, by=owner)

    async def create(
        self,
        request: CreateSession,
        owner: str = "",
        env_names: Sequence[str] | None = (),
        by: str = "",
        stamp: str = "",
        spare: Spare | None = None,
    ) -> Session:
        """Make the pane of what a request says, all that the settings say filled in.

        Who calls holds the lock, and lets go of it before `started`: so many programs can start at once.

        Args:
            by: the caller who wants it.
            env_names: of variables that a session was given from which this one is made; None: that is not known.
            stamp: by which it is known that this call made it; empty: its call has no id.
            spare: of which it is made.

        Raises:
            PaneChanged: the spare is gone.
            SessionExists, MaxSessions, ProgramNotFound, CwdNotFound, PolicyDenied, InvalidArgument, Unsupported,
            HostUnreachable, TmuxFailed
        """
        settings, name = self.settings, request.name
        destination = self._destination(request)
        if name and not SESSION_ID.match(name):
            raise InvalidArgument(
                f"{name!r} cannot be a session's name.", hint="Letters, digits, _ and -, at most 64; no leading _ or -."
            )
        program, args = request.program, request.args
        if destination:
            program, args = ssh.SSH_PROGRAM, [str(destination), *([program] if program else []), *args]
        if not program:
            program = settings.program or user_shell()
            args = args or list(settings.program_args)
        session_id = spare.id if spare else name or f"sess_{secrets.token_hex(4)}"
        where, notice = find_cwd("~" if destination else request.cwd or settings.cwd), None
        level: SandboxLevel = "none"
        if not destination and (request.sandbox, settings.sandbox) != ("none", "none"):
            level = await anyio.to_thread.run_sync(self._boundary.level, request.sandbox)
        elif destination and settings.sandbox != "none":
            notice = "It is in no sandbox: it is on another host, which hosts_allow names."
        writable: dict[str, Identity] = {}
        if level != "none":
            place = str(self.registry.directory(session_id).resolved().work_within)
            given = "" if where == place else request.cwd  # made from one that had no other directory
            where, writable, notice = await anyio.to_thread.run_sync(self._boundary.project, given, where, place)
        own = ownprocess.environment()
        environment = session_environment(
            own, allow=settings.env_allow, settings_env=settings.env, env=request.env, term=settings.term
        )
        executable = find_program(program, environment["PATH"], where)
        said: dict[str, str] = {}
        if destination:
            environment |= ssh.passed(own)
            said = await ssh.configuration(executable, destination, environment)
        await self._make_room(session_id, by, spare is not None)
        directory, generation = (spare.directory, 1) if spare else self._make_directory(session_id)
        box = self._sandbox(level, writable, directory)
        nonce = secrets.token_hex(8)
        integration = Integration(list(args), {}, False)
        control = self._control() if destination else None
        if destination and control:
            command = [request.program, *request.args] if request.program else []
            integration = Integration(ssh.terminal_argv(destination, control, said, command)[1:], {}, False)
        elif settings.integration:
            open_to_all = box.level == "none"
            integration = shells.integrate(
                executable,
                args,
                nonce=nonce,
                nonce_file=directory.nonce if open_to_all else directory.nonce_within,
                own_history=directory.history if open_to_all else directory.history_within,
                given=directory.given if open_to_all else directory.given_within,
                history=settings.history,
                history_expansion=settings.history_expansion,
                environment=environment,
            )
        mark = launch.session_mark(directory.path)
        tightest = (request.limits or Limits()).within(settings.limits)
        bounds = bind(tightest, mark["TMUXMCP_KEY"], self.registry.tmux.pid, level)
        booted, created_s = Booted.now()
        meta = Meta(
            session_id=session_id,
            program=program,
            args=list(args),
            created_at=iso(created_s),
            booted=vars(booted),
            owner=owner,
            nonce=nonce,
            marks=integration.marks,
            proofs=integration.marks,
            function_key=integration.marks,
            cwd=where,
            cols=request.cols,
            rows=request.rows,
            scrollback_lines=request.scrollback_lines,
            generation=generation,
            bounds=vars(bounds),
            tmux=self.registry.tmux.version,
            host=str(destination or ""),
            control=str(control or ""),
            env_names=None if env_names is None else sorted({*env_names, *request.env}),
            request=stamp,
            made_by=by,
        )
        environment |= {"TMUXMCP_SESSION": session_id, **mark, **integration.env, **box.env}
        keep = keeps_recording(request.record, settings.record)
        try:
            if keep:
                begin_recording(directory, "cast", begin=0, begin_ms=0, keep=keep, by=by if request.record else "")
            _write_spec(
                directory,
                box,
                bounds.confine,
                mark,
                executable=executable,
                argv=[program, *integration.args],
                env=environment,
                cwd=where,
                umask=_umask(),
            )
            with anyio.CancelScope(shield=True):  # it is there whole, or not at all
                session = await self._start(meta, directory, spare)
        except BaseException:
            if not spare:  # its own step removes it
                shutil.rmtree(directory.path, ignore_errors=True)
            cgroup.remove(bounds.groups)
            if control:
                ssh.remove_control(control)
            raise
        session.tell(notice)
        self.made.add(session.id)
        return session

    def _destination(self, request: CreateSession) -> Destination | None:
        """The far machine that a session is to run on; None: this one.

        Raises:
            InvalidArgument: no host is called so.
            PolicyDenied: the settings do not allow it; the session is to be in a sandbox, and none reaches so far.
            Unsupported: another kind of host; something that ssh does not carry there.
        """
        if request.host in THIS_MACHINE:
            return None
        destination = parse(request.host)
        if request.sandbox != "none":
            raise PolicyDenied(
                f"A session in a sandbox cannot be on another host ({destination}): no sandbox reaches there.",
                hint="Leave sandbox or host out.",
            )
        if not allows(self.settings, destination):
            raise PolicyDenied(
                f"There may be no session on {destination}: hosts_allow does not name it.",
                hint="Leave host out; or the person names it in the setting hosts_allow.",
            )
        near = [name for name, value in (request.limits or Limits()).model_dump(exclude_none=True).items() if value]
        near = [name for name in near if name not in BY_BROKER]
        if near or request.cwd or request.env:
            what = "cwd" if request.cwd else "env" if request.env else f"limits ({', '.join(near)})"
            raise Unsupported(
                f"{what} of a session on another host cannot be carried there: ssh has no word for it.",
                hint="Leave it out, and run cd, export or ulimit there.",
            )
        if any("\0" in word for word in (request.program, *request.args)):
            raise InvalidArgument("An argument cannot hold NUL.", hint="Send such text with send.")
        return destination

    def _control(self) -> Path:
        """Where the control socket of a new session's ssh will be; what ended sessions left there goes."""
        controls = [Path(each.meta.control) for each in self._live() if each.meta.control]
        ssh.sweep_controls(self.settings.state_dir, controls)
        return ssh.make_control(self.settings.state_dir)

    def _make_directory(self, session_id: str) -> tuple[SessionDirectory, int]:
        """Its empty directory, and which session of that name it will be."""
        there = self.registry.directory(session_id)
        before = Meta.load(there)
        directory = make_directory(self.registry.state_dir, session_id, generation_of(there, before) if before else 0)
        return directory, generation_of(directory, None)

    def _sandbox(self, level: SandboxLevel, writable: dict[str, Identity], directory: SessionDirectory) -> Sandbox:
        """What is done for a sandbox; makes the directory that is the session's own in it."""
        if level == "none":
            return Sandbox()
        directory = directory.resolved()
        for path in (directory.within, directory.temporary_within, directory.work_within):
            path.mkdir(mode=0o700)
        around = SandboxScope(
            writable=writable,
            state_dir=os.path.realpath(self.settings.state_dir),
            own=str(directory.within),
            temporary=str(directory.temporary_within),
            code=(str(launch.LAUNCH_ROOM),),
            hidden=self._boundary.hidden(writable),
            network=self.settings.sandbox_network,
            temporary_prefixes=shells.temporary_prefixes(),
        )
        return sandbox.plan(level, around)

    async def _make_room(self, session_id: str, by: str, is_spare: bool) -> None:
        most = min(self.settings.max_sessions, sessions_by_descriptors(self.registry.tmux.pid))
        taken = await panes.taken(self.registry.tmux)
        is_new = session_id not in taken.names | self.registry.sessions.keys()
        is_new = is_new and (is_spare or not self.registry.directory(session_id).path.exists())
        if is_new and taken.alive < most:
            return
        await self.registry.look_again()
        live = self._live()
        own = [session.id for session in live if by and by in (session.meta.owner, session.meta.made_by)]
        if any(session.id == session_id for session in live):
            raise SessionExists(
                f"A session {session_id} is running.",
                hint=f"Use it by its id,{' destroy it first,' if session_id in own else ''} or choose another name.",
                session_id=session_id,
            )
        while len(live) >= most:
            if not (self.end_abandoned and await self.end_abandoned()):
                setting = "max_sessions" if most == self.settings.max_sessions else "the limit of open files"
                raise MaxSessions(
                    f"{len(live)} sessions are open, as many as {setting} allows.",
                    hint=f"Destroy one of yours: {', '.join(own[:10])}." if own else NONE_OF_YOURS,
                    limit=most,
                )
            live = self._live()
        ended = self.registry.sessions.get(session_id)
        if ended:
            if ended.pane:
                await panes.kill_session(self.registry.tmux, ended.pane)
            self.registry.drop(session_id)
        if await panes.has_session(self.registry.tmux, session_id):  # before an older session's files are put aside
            raise SessionExists(
                f"The tmux server has a session named {session_id} that somebody else made or renamed.",
                hint=f"Choose another name, or rename that one: "
                f"tmux -S {shlex.quote(str(self.registry.tmux.socket))} rename-session -t ={session_id} NEW_NAME",
                session_id=session_id,
            )

    def _live(self) -> list[Session]:
        return [session for session in self.registry.sessions.values() if not session.exited]

    async def _start(self, meta: Meta, directory: SessionDirectory, spare: Spare | None) -> Session:
        meta.save(directory)
        raw_log = RawLog(directory)
        if not spare:
            raw_log.create()
        token = secrets.token_hex(8)
        options = panes.options_of(
            session_id=meta.session_id,
            program=meta.program,
            args=meta.args,
            created=meta.created_at,
            owner=meta.owner,
            log=str(raw_log.path),
            scrollback=meta.scrollback_lines,
            nonce=meta.nonce,
        )
        new = NewPane(
            options=options | ({"request": meta.request} if meta.request else {}),
            argv=launch.launcher_argv(directory.path, token),
            pipe=launch.sink_argv(directory.path, self.settings.log_max_bytes),
            cols=meta.cols,
            rows=meta.rows,
            history_limit=max(meta.scrollback_lines, 1),
        )
        tmux = self.registry.tmux
        begin()
        pane = await (spare.take(tmux, new) if spare else panes.new_session(tmux, new))
        session = Session.open(tmux, self.registry.watcher, directory, meta, pane, made=True)
        self.registry.put(session)
        return session

    async def wait_for_program(self, session: Session) -> bool:
        """Wait until the launcher has become the program, or says why it cannot; whether the program has begun."""
        since = time.monotonic()
        with anyio.move_on_after(PROGRAM_START_S):
            while not session.begun and "\n" not in session.start.report and session.leader_alive():
                await anyio.sleep(max(STARTED_LOOK_S, (time.monotonic() - since) * LOOK_SHARE))
        session.start.let_begin()
        if "\n" in session.start.report or not session.begun:
            return False
        session.note_begun()
        return True

    async def started(self, session: Session) -> None:
        """Wait until the program of a session that was just made has begun; who calls does not hold the lock.

        Raises:
            ProgramNotFound, CwdNotFound, TmuxFailed: it could not; nothing is left.
        """
        if await self.wait_for_program(session):
            return
        code, _, reason = session.start.report.partition("\n")
        if not reason:
            said = (await session.scan()).last_text.strip() if session.bounds.sandbox in WRAPPER_LEVELS else ""
            code, reason = "TMUX_ERROR", said or "its launcher did not start the program"
        async with self.lock():
            if session.directory.is_there:  # nobody has given the name to another one
                await self.registry.forget(session)
                shutil.rmtree(session.directory.path, ignore_errors=True)
        raised = START_ERRORS.get(code, TmuxFailed)
        hint = "Check program and cwd."
        if session.bounds.sandbox != "none":
            hint += " In its sandbox, what lies in /tmp or the state directory is not to be seen, but for the cwd."
        raise raised(f"{session.meta.program!r} could not be started: {reason}.", hint=hint)


def unborn(state_dir: Path) -> list[SessionDirectory]:
    """The directories of sessions of which nothing ever ran, as it seems, or that are being made."""
    with suppress(FileNotFoundError):
        found = [SessionDirectory(path) for path in sessions_dir(state_dir).iterdir() if SESSION_ID.match(path.name)]
        return [each for each in found if _is_unborn(each)]
    return []


def _is_unborn(directory: SessionDirectory) -> bool:
    if not directory.spec.exists() and directory.meta.exists():  # its launcher has read what to run
        return False
    with suppress(OSError):
        return directory.log.stat().st_size == 0
    return True


def keeps_recording(wish: bool | str, setting: str) -> Keep | None:
    """What is kept of a recording from its start; None: there is none. The more that a caller or the setting wants."""
    if wish is True or setting == "always":
        return "always"
    return "on_failure" if wish or setting == "on_failure" else None


def _write_spec(
    directory: SessionDirectory, box: Sandbox, confine: list[tuple[str, str]], mark: dict[str, str], **program: Any
) -> None:
    if box.wrapper:
        launch.write_wrapped_spec(
            directory.spec,
            directory.spec_within,
            box.wrapper,
            report=directory.report,
            mark=mark,
            confine=confine,
            within=box.confine,
            **program,
        )
        return
    if box.confine:
        confine = [*confine, ("report", str(directory.report)), *box.confine]
    launch.write_spec(directory.spec, confine=confine, **program)


def sessions_by_descriptors(server: int) -> int:
    """How many sessions the descriptors allow: of a session the tmux server has two open, and the broker.

    With none left, tmux clients would hang. The server may have another limit than we: somebody else started it.
    """
    known = [resource.getrlimit(resource.RLIMIT_NOFILE)[0]]
    with suppress(OSError):
        soft = proc.limits(server, ["Max open files"])["Max open files"][0]
        known += [int(soft)] if soft.isdecimal() else []
    counts = [max((limit - SPARE_DESCRIPTORS) // 2, 1) for limit in known if limit != resource.RLIM_INFINITY]
    return min(counts, default=sys.maxsize)


def _umask() -> int:
    """The broker's own umask, which sessions inherit."""
    value = os.umask(0o077)
    os.umask(value)
    return value
