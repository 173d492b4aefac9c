"""`run` for callers: a command in a session's shell (`shell/run.py`), and what is told of it."""

from __future__ import annotations

from tmuxmcp.broker.reading import Reading, clamp, has_read, note_match, notes, shell_of
from tmuxmcp.broker.verbs import Work, check_size, verb
from tmuxmcp.broker.views import output_of
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.readiness import finding
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import run
from tmuxmcp.shell.outcomes import RunOutcome


@verb(q.Run)
async def run_command(work: Work[q.Run]) -> r.RunResult:
    """Run a command, or take out what was put into a shell that was adopted."""
    request, settings, noting = work.request, work.broker.settings, work.noting
    check_size(settings, request.command)
    stdin = None if request.stdin is None else request.stdin.encode("utf-8", "surrogateescape")
    check_size(settings, request.stdin or "")
    limit, effective = clamp(settings, request.timeout_ms)
    session = await work.session()
    until = await return_when(work, limit)
    if request.adopt == "undo":
        if request.command.strip() or stdin is not None:
            raise InvalidArgument("adopt=undo runs no command.", hint="Give an empty one.")
        if noting:
            raise InvalidArgument("request_id does not go with adopt=undo.", hint="It can be asked for twice.")
        ran = await run.undo(session, until)
    else:
        as_known = work.target.as_known
        ran = await run.run(session, request.command, until, work.call.progress, stdin, noting, as_known=as_known)
    return await ran_result(work, session, ran, effective)


async def return_when(work: Work[q.Run], limit_ms: int) -> run.ReturnWhen:
    """When the call of a command comes back.

    Raises:
        InvalidPattern
    """
    request, broker = work.request, work.broker
    asker = f"{work.caller} {request.session_id}"
    pattern = await broker.searching.pattern(request.pattern, asker) if request.pattern else None
    # Without integration nothing is adopted unless that is asked for.
    adopt = "no" if request.adopt == "auto" and not broker.settings.integration else request.adopt
    return run.ReturnWhen(limit_ms, request.idle_ms, request.wait_for == "auto", adopt, work.caller, pattern)


async def ran_result(work: Work[q.Run], session: Session, ran: RunOutcome, effective: int | None) -> r.RunResult:
    """The result of a command, which then counts as told to the caller."""
    request, call = work.request, work.call
    session.shown.write_shown(session.cols, session.rows)
    await call.room(min(request.max_bytes, ran.end - ran.start))
    waits = not ran.completed and ran.evidence is not None
    output = await output_of(session, ran.start, ran.end, request.max_bytes, waits=waits)
    if output.shown:
        work.broker.part(Reading).screens.showed(session.id, call.caller, output.shown)
    if session.cursor_of(call.caller, ran.end) < ran.end:
        has_read(session, call, ran.end)
    if ran.completed and ran.number is not None:
        commandresults.tell(session, call, ran.number)
    note_match(session, ran.outcome, ran.match, call)
    also_ended, stopped = await _told_with(session, ran, call)
    cwd, mode = await run.place_after(session, ran)
    return r.RunResult(
        session_id=session.id,
        exit_code=ran.exit_code,
        completed=ran.completed,
        outcome=ran.outcome,
        evidence=ran.evidence,
        duration_ms=ran.duration_ms,
        cwd=cwd,
        mode=mode,
        ended=session.ended,
        truncated=output.omitted_bytes > 0,
        output_bytes=ran.end - ran.start,
        omitted_bytes=output.omitted_bytes,
        start_offset=ran.start,
        end_offset=ran.end,
        command_number=ran.number,
        shell=shell_of(ran.level, session.program) if ran.level else None,
        matched=ran.match.text if ran.match else None,
        also_ended=also_ended,
        effective_timeout_ms=effective,
        sanitized=output.sanitized,
        note=notes(session, ran.start, ran.end, output.note, ran.note, stopped),
        output=output.text,
    )


async def _told_with(session: Session, ran: RunOutcome, call: Call) -> tuple[list[r.AlsoEnded], str | None]:
    """The other commands of whose end the answer tells, and that this one is only stopped, if it is.

    Of one that may still run nothing is told: it may end at this moment.
    """
    if not ran.completed:
        return [], None
    told = session.told.of(call.caller)
    others = [each for each in session.commands.said_to_have_ended(told.through) if not told.knows(each)]
    stopped = ran.exit_code == commandresults.STOPPED_CODE
    if not stopped and others in ([], [ran.number]):
        return [], None
    look = await finding.at_rest(session)
    command = commandresults.command_result(session, look, ran.number) if ran.number is not None else None
    also_ended = commandresults.also_ended(session, look, call, command)
    return also_ended, commandresults.why_not_over(session, command) if stopped else None
