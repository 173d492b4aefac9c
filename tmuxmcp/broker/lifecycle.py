"""A session's life for its callers: it is made, perhaps from one that is over, resized, signalled, ended, removed."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from copy import copy
from functools import partial
from typing import cast

import anyio

from tmuxmcp.broker.listing import recording_of
from tmuxmcp.broker.reading import clamp, notes
from tmuxmcp.broker.verbs import Services, Work, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import begin, ms_since
from tmuxmcp.contract.errors import (
    InvalidArgument,
    IoError,
    SessionExists,
    SessionNotFound,
    TimedOut,
    TmuxMcpError,
    Unsupported,
)
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import replace, value
from tmuxmcp.gate.audit import Audit, of_removal
from tmuxmcp.machine import locks, ownprocess
from tmuxmcp.machine.environment import session_environment
from tmuxmcp.readiness import finding
from tmuxmcp.readiness.finding import certain
from tmuxmcp.record import meta
from tmuxmcp.record.directory import making_lock
from tmuxmcp.record.notedcalls import NotedCall
from tmuxmcp.sessions import lease, retention
from tmuxmcp.sessions.creation import CREATION_LOCK_S
from tmuxmcp.sessions.end import drained, end_processes, signal_group, signal_session
from tmuxmcp.sessions.life import EndCause, State
from tmuxmcp.sessions.registry import SESSION_ID, Registry
from tmuxmcp.sessions.retention import NotRestored, Removal, Restoration, RetentionWish
from tmuxmcp.sessions.screens import resize as resize_pane
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell.adopting import arrive
from tmuxmcp.shell.startup import first_look, first_note
from tmuxmcp.terminal.modes import PROMPT_SHELLS
from tmuxmcp.tmux import panes

LAUNCHER_DRAIN_S = 12
"""How long the launcher may need until the log holds everything: it gives up after 10 s."""

RECORDED_S = 20
"""How long `destroy_session` waits until the file of the session's recording is made."""


# ---- Made ------------------------------------------------------------------------------------------------------------


@verb(q.CreateSession)
async def create_session(work: Work[q.CreateSession]) -> r.CreateSessionResult:
    """Make a session; one that a call with a `request_id` makes, once or not at all."""
    request, creation, restores = work.request, work.broker.creation, work.restores
    if request.placement:
        hint = "Leave placement out, or ask a server that was started with the setting fleet."
        raise Unsupported("This server makes sessions on its own machine alone.", hint=hint)
    async with creation.lock():
        names = restores.env_names if restores else ()
        owner = _owner(work.broker.registry, restores)
        stamp = ""
        if work.noting:
            request = copy(request)
            vars(request)["name"] = request.name or f"sess_{secrets.token_hex(4)}"
            stamp = await work.noting.makes(request.name)
        try:
            session = await creation.create(request, owner, names, by=work.caller, stamp=stamp)
        except TmuxMcpError:
            if work.noting:  # tmux may have made it though it did not say so in time
                work.noting.made = await _is_there(creation.registry, request.name, stamp)
            raise
    await creation.started(session)
    if work.noting:
        work.noting.made = True
    return await created_result(work, session)


async def created_result(work: Work[q.CreateSession], session: Session) -> r.CreateSessionResult:
    """The result of a session that was made: when it is ready, or when the caller's time to wait is up."""
    request, call, broker, settings = work.request, work.call, work.broker, work.broker.settings
    if session.bounds.limits:
        broker.limited.set()
    # A shell that was given a script or -c shows no prompt.
    shell = session.meta.marks or (os.path.basename(session.meta.program) in PROMPT_SHELLS and not session.meta.args)
    ready, silent, attach_command = False, None, broker.attach_command(session)
    if session.meta.host and request.wait_ready is not False:
        limit, _ = clamp(settings, request.ready_timeout_ms)
        arrived = await arrive(
            broker.registry, session, limit, attach_command, call.progress, adopts=settings.integration
        )
        ready, silent = arrived.ready, arrived.note
    elif request.wait_ready is True or (request.wait_ready == "auto" and shell):
        answer = await broker.targets.wait_ready(session, request.ready_timeout_ms, call)
        ready, silent = answer.outcome == "ready", answer.note
    await session.refresh()
    look = await first_look(session, ready=ready)
    restored = work.restores.note if work.restores else None
    return r.CreateSessionResult(
        session_id=session.id,
        program=session.meta.program,
        args=session.meta.args,
        pid=look.pid or 0,
        created_at=session.meta.created_at,
        cwd=look.cwd or None,
        rows=look.rows,
        cols=look.cols,
        mode=look.mode,
        ready=ready or (certain(session, look) and not session.meta.host),
        attach_command=attach_command,
        note=notes(session, 0, 0, restored, session.bounds.note, silent, await first_note(session, look)),
    )


async def _is_there(registry: Registry, name: str, stamp: str) -> bool:
    with suppress(TmuxMcpError):
        session = await registry.existing(name)
        return session.pane is not None and session.meta.request == stamp
    return False


async def session_of_call(registry: Registry, noted: NotedCall) -> Session | None:
    """The session that an earlier call with a `request_id` made; None: it made none, and nothing of it is left.

    Its name was written down before, and its pane was born with the call's stamp. Another attempt takes the same name,
    of which tmux has one. Who calls holds the lock of creation.
    """
    name, stamp = str(noted.acts["session_id"]), noted.acts["stamp"]
    await registry.look_again()
    for number in reversed(meta.kept_generations(registry.state_dir, name)):
        with suppress(SessionNotFound):
            session = await registry.known(name, number)
            if session.meta.request != stamp:
                continue
            if session.pane is None and session.life.state is not State.DESTROYED and _never_began(session):
                registry.drop(name)
                shutil.rmtree(session.directory.path, ignore_errors=True)
                return None
            return session
    return None


def _never_began(session: Session) -> bool:
    """Whether of a session that tmux does not know, nothing has ever run: tmux had not made it."""
    return session.pid is None and session.log.size() == 0


# ---- Made again: which session that is over a call means, and what its program will find of its variables ------------


@value
class Restored:
    """What became of one session that was to be restored."""

    session_id: str
    made: r.CreateSessionResult | None = None
    found: Restoration | None = None
    error: TmuxMcpError | None = None
    """Why it was not."""


async def left_by_lost(work: Work[q.CreateSession]) -> Restoration | NotRestored | None:
    """What a new session takes from a lost one whose name it has; None: there is none."""
    request, registry = work.request, work.broker.registry
    if not SESSION_ID.match(request.name) or not registry.directory(request.name).meta.exists():
        return None
    try:
        session = await registry.existing(request.name)
    except TmuxMcpError:  # what makes the session will meet it, too
        return None
    if not retention.was_lost(session) or session.meta.owner not in ("", work.caller):
        return None
    try:
        return await _restoration(work.broker, session, cast("q.CreateSession", work.asked))
    except (InvalidArgument, Unsupported) as error:
        return NotRestored(f"Nothing was taken from the lost session of this name: {error.message}")


async def left_by(broker: Services, session_id: str) -> Restoration:
    """What is made from a session that is over, however it ended.

    Raises:
        SessionNotFound, SessionExists: nothing is kept of it; it runs.
        InvalidArgument: it was a shell that was given a command.
        Unsupported: it was better kept apart than this machine can.
    """
    session = await broker.registry.known(session_id)
    if not session.exited:
        raise SessionExists(
            f"Session {session_id} is running.", hint="There is nothing to restore.", session_id=session_id
        )
    return await _restoration(broker, session, q.CreateSession(name=session_id))


async def lost(registry: Registry) -> list[str]:
    """The ids of all sessions that are lost, the oldest first."""
    await registry.look_again()
    found = [each for each in registry.sessions.values() if retention.was_lost(each)]
    return [each.id for each in sorted(found, key=lambda each: each.meta.created_at)]


async def _restoration(broker: Services, session: Session, request: q.CreateSession) -> Restoration:
    found, settings = retention.restoration(session, await finding.at_rest(session), request), broker.settings
    if not found.request.host:  # nothing that was kept apart is let loose
        before = session.bounds.sandbox
        level = await anyio.to_thread.run_sync(broker.boundary.level, found.request.sandbox)
        if retention.rank(level) < retention.rank(before):
            raise Unsupported(
                f"Session {session.id} ran in a sandbox ({before}) that this machine does not have now ({level}).",
                hint="Choose another name for a session without it.",
                session_id=session.id,
            )
    present = session_environment(
        ownprocess.environment(),
        allow=settings.env_allow,
        settings_env=settings.env,
        env=found.request.env,
        term=settings.term,
    )
    return retention.with_environment(found, present)


def _owner(registry: Registry, found: Restoration | NotRestored | None) -> str:
    """Whose default session it is: nobody's where its caller has another one by now."""
    if found is None or not found.owner:
        return ""
    live = [each for each in registry.sessions.values() if not each.exited]
    return "" if any(each.meta.owner == found.owner for each in live) else found.owner


# ---- Resized and signalled -------------------------------------------------------------------------------------------


@verb(q.Resize)
async def resize(work: Work[q.Resize]) -> r.ResizeResult:
    """Change the size of the terminal, and of what is kept above it."""
    request = work.request
    rows, cols, lines = request.rows, request.cols, request.scrollback_lines
    if rows is None and cols is None and lines is None:
        raise InvalidArgument("There is nothing to change.", hint="Give rows, cols or scrollback_lines.")
    session = await work.session()
    pane = session.live()
    if rows is not None or cols is not None:
        rows, cols = rows or session.rows, cols or session.cols
        if not await resize_pane(session, pane, cols, rows):
            await session.alive()
            lease.refuse(session)
    if lines is not None:
        await panes.set_option(session.tmux, pane, "scrollback", str(lines))
    await session.refresh()
    return r.ResizeResult(
        session_id=session.id, rows=session.rows, cols=session.cols, scrollback_lines=session.scrollback_lines
    )


@verb(q.Signal)
async def send_signal(work: Work[q.Signal]) -> r.SignalResult:
    """Signal the program in front, or all of the session."""
    session, name = await work.session(), work.request.signal
    await session.refresh()
    lease.refuse(session)  # nothing is waited for from here to the signal
    begin()
    pane = session.live()
    in_front = work.request.target == "foreground"
    pids = signal_group(pane.leader, name) if in_front else signal_session(session, name)
    return r.SignalResult(session_id=session.id, delivered=bool(pids), pids=pids)


# ---- Ended -----------------------------------------------------------------------------------------------------------


@verb(q.DestroySession)
async def destroy_session(work: Work[q.DestroySession]) -> r.DestroySessionResult:
    """End a session for a caller."""
    request, session = work.request, await work.session()
    if session.life.state is State.DESTROYED:
        return replace(_gone(session, 0, []), note=f"Nothing was done. {session.how_it_ended}")
    await session.refresh()
    if not request.force:
        lease.refuse(session)
    note = f"Nothing ran in it any more. {session.how_it_ended}" if session.exited else None
    signal, grace_ms = ("KILL", 0) if request.force else (request.signal, request.grace_ms)
    begin()
    gone = await end(work.broker, session, EndCause.DESTROYED, signal, grace_ms, by=work.caller)
    return replace(gone, note=note)


async def end(
    broker: Services, session: Session, reason: EndCause, signal: str, grace_ms: int, by: str = "", why: str = ""
) -> r.DestroySessionResult:
    """End a session and every process in it, for a reason.

    Args:
        by: the caller who wants it, if one does.
        why: the setting or the limit that wants it.
    """
    begun = time.monotonic()
    session.will_end(reason, by, why)
    try:
        survivors = await end_processes(session, broker.counting, signal, grace_ms)
        with anyio.move_on_after(LAUNCHER_DRAIN_S):
            await (session.refresh() if survivors else drained(session))
    except BaseException:  # most likely cancelled
        session.lives_on()
        raise
    gone = _gone(session, ms_since(begun), survivors)
    await broker.registry.forget(session)
    return replace(gone, recording=await _recorded(broker, session))


def _gone(session: Session, duration_ms: int, survivors: list[int]) -> r.DestroySessionResult:
    code, name = session.exit_status
    return r.DestroySessionResult(
        session_id=session.id,
        destroyed=True,
        exit_code=code,
        exit_signal=name,
        duration_ms=duration_ms,
        survivors=survivors,
    )


async def _recorded(broker: Services, session: Session) -> r.RecordingFacts | None:
    """Make the file of a destroyed session's recording; one that takes long is made later."""
    note = session.recording
    over = broker.registry.over_in(session.directory) if note and note.is_open else None
    if over is None:
        return None
    with anyio.move_on_after(RECORDED_S), suppress(TmuxMcpError, OSError):
        await finish_recording(broker, over)
    return recording_of(over)


async def finish_recording(broker: Services, session: Session) -> None:
    """Bring the recording of a session that is over to its end.

    Raises:
        TmuxMcpError: its file cannot be made.
    """
    from tmuxmcp.broker.recorder import Recorder  # late: it brings the emulator

    await broker.part(Recorder).finish(session)


# ---- Removed: the files of sessions that are over; the audit says what went and why ----------------------------------

Live = Callable[[], Awaitable[Collection[str]]]
"""Asks tmux for the ids of all sessions that it knows."""


@value
class Pruned:
    """What came of it."""

    removed: list[Removal]
    """Looked only: what would go."""
    left: list[Removal]
    """What should have gone, and is there still, or partly."""


async def prune(
    settings: BrokerSettings, wish: RetentionWish, live: Live, *, by: str = "", look_only: bool = False
) -> Pruned:
    """Remove what is to go of one state directory.

    Args:
        by: the caller who wants it; empty: the settings do.
        look_only: only tell what would go.

    Raises:
        SessionNotFound, InvalidArgument: what is named is not there, or has to stay.
        TimedOut: another broker has been making a session for too long.
        IoError: the audit is strict and cannot be written.
    """
    known = await live()
    removals = partial(retention.removals, settings.state_dir, wish, known, look_only=look_only)
    found = await anyio.to_thread.run_sync(removals)
    if look_only or not found:
        return Pruned(found, [])
    pruned, audit = Pruned([], []), Audit(settings.state_dir, wish=settings.audit)
    async with locks.lock_within(making_lock(settings.state_dir), patience_s=CREATION_LOCK_S) as held:
        if not held:
            raise TimedOut("Another broker has been making a session for too long.", hint="Try again.")
        known = await live()  # nobody makes one now
        for each in found:
            if each.name not in known:
                gone = await anyio.to_thread.run_sync(_remove, each, audit, by)
                (pruned.removed if gone else pruned.left).append(each)
    return pruned


def _remove(removal: Removal, audit: Audit, by: str) -> bool:
    """Remove the files of one session; whether that was done."""
    entry = of_removal(removal.name, removal.bytes, removal.why, by)
    line = audit.begun(entry, "removed")
    gone = retention.remove(removal)
    audit.ended(line, entry | ({"outcome": "ok"} if gone else {"outcome": "error", "error_code": IoError.code}))
    return gone
