"""Takes up what an earlier call with the same `request_id` began, whose broker is gone or which was cancelled.

First: did it act at all? tmux says so by the pane's `@tmuxmcp_request`, and for a command the marks in the log as well.
If tmux says that it did not, tmux is told in the same moment that it never will, and the call acts now. If nobody can
tell, that is said, and nothing is typed.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tmuxmcp.contract.call import Progress
from tmuxmcp.contract.errors import OutcomeUnknown, SessionNotFound, TmuxMcpError
from tmuxmcp.record.commands import EndedCommand, GivenCommand
from tmuxmcp.record.events import NotedEvent
from tmuxmcp.record.notedcalls import NotedCall
from tmuxmcp.sessions.levels import is_replaced
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import run, typed
from tmuxmcp.shell.run import ReturnWhen
from tmuxmcp.shell.typed import Job, RunOutcome
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import Stamp

LOOK_WHAT_BECAME = (
    "Look at the session with read or list_commands. If it is to be done again, make the call with another request_id."
)


async def session_of(registry: Registry, noted: NotedCall) -> Session:
    """The session in which a call acted, whatever became of that.

    Raises:
        OutcomeUnknown: nothing is kept of it.
    """
    acts = noted.acts
    with suppress(SessionNotFound):
        session = await registry.known(str(acts["session_id"]), int(acts["generation"]))
        if session.meta.nonce == acts["nonce"]:
            await session.refresh()
            return session
    raise unknown(noted, "nothing is kept of its session any more")


async def was_typed(session: Session, noted: NotedCall) -> bool | None:
    """Whether it was typed, as tmux says; False: then it never will be. None: tmux does not tell.

    Raises:
        OutcomeUnknown: a part of it was.
    """
    stamp = Stamp(str(noted.acts["before"]), str(noted.acts["stamp"]))
    if session.pane is None:
        return None
    if await panes.never_types(session.tmux, session.pane, stamp):
        return False
    said = await panes.stamped(session.tmux, session.pane)
    if said == stamp.of_first_step.after:
        raise unknown(noted, "its text was typed, and the keys behind it probably not")
    return True if said == stamp.after else False if said == stamp.void else None


def is_open(noted: NotedCall) -> bool:
    """Whether it is not known of the last thing that a call with steps was about to type what came of it."""
    return int(noted.acts.get("step", 0)) >= len(noted.steps)


def is_written_down(session: Session, noted: NotedCall) -> bool | None:
    """Whether the session's own events say that it was typed; None: they do not tell."""
    stamp = noted.acts["stamp"]
    return True if any(isinstance(each, NotedEvent) and each.stamp == stamp for each in session.events.read()) else None


async def finish(
    session: Session, noted: NotedCall, text: str, until: ReturnWhen, progress: Progress
) -> RunOutcome | None:
    """What became of a command that an earlier call typed, or was about to type; None: it was not typed.

    Raises:
        OutcomeUnknown
        SessionBusy, IncompleteCommand: it was typed, and was not run.
    """
    told = await was_typed(session, noted)
    job = _job(session, noted, text)
    look = await session.look()
    ran = _ended(session, look, job)
    began = session.track_of(job.level.nonce).job == job.name
    if ran is None and told is False and not began:
        return None
    if ran is None and not (told or began):
        raise unknown(noted, "neither tmux nor the shell's marks tell")
    if ran is None and look.exited and not began:
        raise unknown(noted, "its session has ended, and the log does not tell")
    if ran is None:
        ran = await run.take_up(session, job, until, progress)
        only_waits = ran.outcome == "ready" and ran.evidence == "kernel" and ran.number is None
        if only_waits:
            raise unknown(noted, "it was typed, and the log does not tell what became of it")
    return replace(ran, duration_ms=await _duration_ms(session, job, ran))


def under_way(session: Session, look: Look, noted: NotedCall, text: str) -> RunOutcome | None:
    """What is known of a command that an earlier call waits for; None: it may not be typed yet."""
    job = _job(session, noted, text)
    track = session.track_of(job.level.nonce)
    if look.level.nonce != job.level.nonce or track.job != job.name or track.state is not ShellState.RUNNING:
        return None
    return replace(typed.unfinished(session, look, job, "timeout"), level=job.level)


def unknown(noted: NotedCall, why: str) -> OutcomeUnknown:
    """Nobody can tell whether it was done."""
    acts = noted.acts
    where = f" in session {acts['session_id']}" if acts.get("session_id") else ""
    return OutcomeUnknown(
        f"It cannot be told whether this call was carried out{where}: {why}. Nothing was typed now.",
        hint=LOOK_WHAT_BECAME,
        **{name: acts[name] for name in ("session_id", "generation", "offset") if name in acts},
    )


def _job(session: Session, noted: NotedCall, text: str) -> Job:
    acts = noted.acts
    age_s = max(time.time() - float(acts["at"]), 0.0)
    level = session.level_of(str(acts["level"]))
    if level.nonce != acts["level"]:
        level = replace(level, nonce=str(acts["level"]))  # it is forgotten: none of what stands there is it
    job = Job(text, time.monotonic() - age_s, int(acts["offset"]), str(acts["job"]), level)
    job.number = job.next_number = int(acts["number"])
    job.prompt_end = int(acts["prompt_end"])
    job.proof = "given" if acts["proof"] else ""
    job.given = GivenCommand(Path(str(acts["file"]))) if acts["file"] else None
    return job


def _ended(session: Session, look: Look, job: Job) -> RunOutcome | None:
    """How it ended, if that is known for certain."""
    ran = typed.done(session, look, job)
    if ran:
        return replace(ran, level=job.level)
    command = session.commands.of_job(look, job.name)
    return _of_command(session, look, job, command) if command and not typed.replaced(session, look, job) else None


def _of_command(session: Session, look: Look, job: Job, command: EndedCommand) -> RunOutcome:
    code = command.exit_code
    with_shell = not command.proven and code is None
    outcome = "ready" if not with_shell else "exited" if look.exited else "left"
    track = session.track_of(job.level.nonce)
    last = track.state is ShellState.RUNNING and track.job == job.name
    own = outcome == "exited" and job.level.pid == session.pid
    why = ""
    if last:
        level = session.level_of(job.level.nonce)
        why = (
            typed.why_not_its_code(session, look, level, job.text)
            if own
            else typed.why_in_doubt(level, track, job.text)
        )
    if outcome == "ready" and code is None and not why:
        why = f"{typed.SAYS_ZERO} {typed.LOOK_BEFORE_AGAIN}"
    if own and not why:
        code = look.exit_status[0]
    return RunOutcome(
        outcome=outcome,  # type: ignore[arg-type]  # one of three
        exit_code=code,
        completed=not why and not (outcome == "left" and is_replaced(job.level)),
        evidence="marks",
        start=command.start,
        end=max(command.start, command.end),
        cwd=command.cwd,
        duration_ms=typed.since(job),
        note=why or None,
        number=command.number,
        level=job.level,
    )


async def _duration_ms(session: Session, job: Job, ran: RunOutcome) -> int:
    """How long it took by its shell's clock, where that tells; else how long ago it was typed."""
    if not ran.completed:
        return ran.duration_ms
    with suppress(TmuxMcpError):
        look = await session.look()
        found = session.commands.of_job(look, job.name)
        if found and found.began is not None and found.ended is not None:
            return max(round((found.ended - found.began) * 1000), 0)
    return ran.duration_ms
