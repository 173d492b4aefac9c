"""The operations, each a request to a result. Who may do it, and which session is meant, is settled before."""

from __future__ import annotations

import os
import shlex
import time
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from tmuxmcp.broker import admission, again, hands, past, restoring, sending, sight, userinput
from tmuxmcp.broker.reading import Reading, clamp, has_read, note_match, notes
from tmuxmcp.broker.restoring import Restoring
from tmuxmcp.broker.sight import SessionListing, recording_of
from tmuxmcp.broker.views import OpenPages, output_of
from tmuxmcp.broker.waiting import SessionWaits, ToldEnds
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, begin, ms_since
from tmuxmcp.contract.errors import InvalidArgument, SessionBusy, SessionExited, SessionTaken, TmuxMcpError, Unsupported
from tmuxmcp.contract.request import ACTS_BESIDE_SESSIONS, Request
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import fields, replace
from tmuxmcp.contract.words import Adopt
from tmuxmcp.gate.target import Target, Targets
from tmuxmcp.machine.launch import launch
from tmuxmcp.machine.processes import Counting
from tmuxmcp.machine.searching import Searching
from tmuxmcp.readiness import finding
from tmuxmcp.readiness.finding import certain
from tmuxmcp.record import search
from tmuxmcp.record.notedcalls import NotedCall
from tmuxmcp.sessions import commandresults, lease
from tmuxmcp.sessions.bounds import Boundary
from tmuxmcp.sessions.creation import Creation
from tmuxmcp.sessions.end import drained, end_processes, signal_group, signal_session
from tmuxmcp.sessions.life import EndCause, State
from tmuxmcp.sessions.noting import IdempotentCall
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.retention import NotRestored, Restoration
from tmuxmcp.sessions.screens import resize
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import adopting, run
from tmuxmcp.shell.adopting import arrive
from tmuxmcp.shell.startup import first_look, first_note, refuse_first_input, start_up
from tmuxmcp.shell.typed import RunOutcome, joined_notes
from tmuxmcp.terminal.modes import PROMPT_SHELLS
from tmuxmcp.tmux import panes, viewers
from tmuxmcp.tmux.panes import PaneChanged

if TYPE_CHECKING:
    from tmuxmcp.broker.programs.gdb import Debuggers
    from tmuxmcp.broker.programs.machine import MachineWork
    from tmuxmcp.broker.recorder import Recorder

LAUNCHER_DRAIN_S = 12
"""How long the launcher may need until the log holds everything: it gives up after 10 s."""

HELD_OFF = (q.Run, q.Send, q.Signal, q.Resize, q.Mouse, q.EditorAction, q.PagerAction)
"""Requests that nobody but the person may make while a person holds the session."""

BEGINS_LATER = (q.Run, q.Send, q.CreateSession, q.DestroySession, q.Signal, q.Mouse, q.RunProcess)
"""Requests that say themselves when they change something: they may wait before."""

RECORDED_S = 20
"""How long `destroy_session` waits until the file of the session's recording is made."""


class Verbs:
    """What one broker does for its callers."""

    def __init__(
        self,
        registry: Registry,
        creation: Creation,
        targets: Targets,
        searching: Searching,
        settings: BrokerSettings,
        boundary: Boundary,
        restoring: Restoring,
    ) -> None:
        self._registry, self._creation, self._targets, self._settings = registry, creation, targets, settings
        self._searching, self._boundary = searching, boundary
        self._reading = Reading(registry, searching, settings)
        self._ends = ToldEnds(registry)
        self._restoring = restoring
        self._waiting = SessionWaits(registry, searching, settings, self._ends, self._reading.screens)
        self._listing = SessionListing(registry)
        self.counting = Counting(launch.KEY_VARIABLE)
        self._started = time.monotonic()
        self.pages = OpenPages()
        self.page_url = ""
        """Where the page is shown; empty: nowhere."""
        self.tasks: TaskGroup | None = None
        """Where debuggers live; they end with it."""
        self.limited = anyio.Event()
        """Set when there is a new session with limits; whoever looks after them puts a fresh event here."""

    async def act(self, request: Request[Any], call: Call, target: Target) -> r.Result:
        """Do what a request says.

        Raises:
            TmuxMcpError: as the request's docstring has it.
        """
        self._ends.came(call.caller)
        if target.session and target.session.lease:
            await lease.settle(target.session, self._settings.take_timeout_s)
        if target.session and isinstance(request, HELD_OFF):
            lease.refuse(target.session)
        try:
            result = await self._do(request, call, target)
        except PaneChanged:
            return await self.act(request, call, await self._targets.of(request, call))
        except SessionExited as error:
            self._ends.note_ends(call.caller, request, error)
            raise
        self._ends.note_ends(call.caller, request, result)
        return _with_secret_note(await self._with_handed_back(request, result, call), call)

    async def _with_handed_back(self, request: Request[Any], result: r.Result, call: Call) -> r.Result:
        """Add to a result that a person had the session and gave it back, if the caller was not told yet."""
        if "handed_back" not in fields(result) or getattr(request, "generation", None) is not None:
            return result
        session = self._registry.sessions.get(getattr(result, "session_id", None) or "")
        told = await hands.tell(session, call) if session else None
        return replace(result, handed_back=told) if told else result

    async def _do(self, request: Request[Any], call: Call, target: Target) -> r.Result:
        if not request.operation.read_only and not isinstance(request, BEGINS_LATER):
            begin()
        match request:
            case q.CreateSession():
                return await self._create_session(request, call, target.restores, target.noting)
            case q.DestroySession():
                return await self._destroy_session(request, call, target)
            case q.ListSessions():
                return await self._listing.page(request, call.caller)
            case q.GetSession():
                return await self._get_session(await self._session_of(target, call))
            case q.Run():
                return await self._run(request, call, target)
            case q.Send():
                return await self._send(request, call, target)
            case q.Read():
                return await self._read(request, call, target)
            case q.ListCommands():
                session = await self._session_of(target, call)
                look = await finding.at_rest(session)
                await commandresults.settle(session, look)
                return commandresults.listed(request, session, look)
            case q.Wait():
                return await self._waiting.wait(request, call)
            case q.Search():
                return await self._search(request, call, target)
            case q.Resize():
                return await self._resize(request, call, target)
            case q.Signal():
                session = await self._targets.session(target, call)
                await session.refresh()
                lease.refuse(session)  # nothing is waited for from here to the signal
                begin()
                return _signal(request, session)
            case q.Screenshot():
                return await self._screenshot(request, call, target)
            case q.Mouse():
                return await _mouse(request, await self._targets.session(target, call))
            case q.EditorAction():
                from tmuxmcp.broker import helpers  # late: few callers use them

                return await helpers.edit(self._reading, await self._session_of(target, call), request, call)
            case q.PagerAction():
                from tmuxmcp.broker import helpers  # late

                return await helpers.page(self._reading, await self._session_of(target, call), request, call)
            case q.RequestUserInput():
                return await self._request_user_input(request, call, target)
            case q.StartRecording():
                session = await self._session_of(target, call)
                return await self.recorder.start(session, request, call)
            case q.StopRecording():
                return await self.recorder.stop(await self._session_of(target, call), call)
            case q.ExportRecording():
                from tmuxmcp.broker.recorder import export

                return await export(await self._session_of(target, call), request, self._machine, call)
            case q.GdbOpen() | q.GdbCmd() | q.GdbClose():
                return await self._debuggers.act(request, call)
            case _ if request.operation.acts in ACTS_BESIDE_SESSIONS:
                return await self._machine.act(request, call)
            case q.Health():
                uptime_s = time.monotonic() - self._started
                return await admission.check_health(self._registry, self._settings, uptime_s=uptime_s)
            case _:
                raise NotImplementedError(request.operation.name)

    @cached_property
    def _machine(self) -> MachineWork:
        from tmuxmcp.broker.programs.machine import MachineWork  # late: whoever only looks at sessions needs none of it

        return MachineWork(self._settings, self._boundary, self.tasks)

    @cached_property
    def recorder(self) -> Recorder:
        """The recordings that run."""
        from tmuxmcp.broker.recorder import Recorder  # late: it brings the emulator

        return Recorder(self._machine)

    async def close(self) -> None:
        """End what callers have left open beside sessions."""
        if "_machine" in vars(self):
            await self._machine.close()

    @cached_property
    def _debuggers(self) -> Debuggers:
        from tmuxmcp.broker.programs.gdb import Debuggers  # late: few callers use them

        assert self.tasks

        async def terminal(request: q.CreateSession, call: Call) -> Session:
            made = await self._create_session(request, call, None)
            return self._registry.sessions[made.session_id]

        async def end(session: Session) -> None:
            with suppress(TmuxMcpError):
                await self.end(session, EndCause.DESTROYED, "KILL", 0)

        return Debuggers(
            self._settings, self._machine, self._boundary, self.tasks, self._registry.directory, terminal, end
        )

    async def finish_recording(self, session: Session) -> None:
        """Bring the recording of a session that is over to its end.

        Raises:
            TmuxMcpError: its file cannot be made.
        """
        await self.recorder.finish(session)

    async def _session_of(self, target: Target, call: Call) -> Session:
        """The session of a target; what a killed broker began to type into it is finished."""
        session = await self._targets.session(target, call)
        with suppress(SessionBusy, SessionTaken):
            await adopting.settle(session)
        return session

    def attach_command(self, session: Session) -> str:
        """How a person watches: by the tmux session's name, which a script may have changed."""
        target = session.pane.attach_target if session.pane else f"={session.id}"
        # A target holds nothing that quotes do not keep; without them zsh takes =word for the path of a command.
        return f"tmux -S {shlex.quote(str(self._registry.tmux.socket))} attach -r -t '{target}'"

    # ---- making and ending ---------------------------------------------------------------------

    async def _create_session(
        self,
        request: q.CreateSession,
        call: Call,
        restores: Restoration | NotRestored | None,
        noting: IdempotentCall | None = None,
    ) -> r.CreateSessionResult:
        if request.placement:
            hint = "Leave placement out, or ask a server that was started with the setting fleet."
            raise Unsupported("This server makes sessions on its own machine alone.", hint=hint)
        async with self._creation.lock():
            names = restores.env_names if restores else ()
            owner = self._restoring.owner(restores)
            if noting:
                session = await restoring.create(self._creation, request, owner, names, call, noting)
            else:
                session = await self._creation.create(request, owner, names, by=call.caller)
        await self._creation.started(session)
        if noting:
            noting.made = True
        return await self._created_result(session, request, call, restores)

    async def _created_result(
        self, session: Session, request: q.CreateSession, call: Call, restores: Restoration | NotRestored | None = None
    ) -> r.CreateSessionResult:
        """The result of a session that was made: when it is ready, or when the caller's time to wait is up."""
        if session.bounds.limits:
            self.limited.set()
        # A shell that was given a script or -c shows no prompt.
        shell = session.meta.marks or (
            os.path.basename(session.meta.program) in PROMPT_SHELLS and not session.meta.args
        )
        ready, silent = False, None
        if session.meta.host and request.wait_ready is not False:
            limit, _ = clamp(self._settings, request.ready_timeout_ms)
            arrived = await arrive(
                self._registry,
                session,
                limit,
                self.attach_command(session),
                call.progress,
                adopts=self._settings.integration,
            )
            ready, silent = arrived.ready, arrived.note
        elif request.wait_ready is True or (request.wait_ready == "auto" and shell):
            answer = await self._targets.wait_ready(session, request.ready_timeout_ms, call)
            ready, silent = answer.outcome == "ready", answer.note
        await session.refresh()
        look = await first_look(session, ready=ready)
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
            attach_command=self.attach_command(session),
            note=notes(
                session,
                0,
                0,
                restores.note if restores else None,
                session.bounds.note,
                silent,
                await first_note(session, look),
            ),
        )

    async def _destroy_session(self, request: q.DestroySession, call: Call, target: Target) -> r.DestroySessionResult:
        session = await self._targets.session(target, call)
        if session.life.state is State.DESTROYED:
            return replace(_gone(session, 0, []), note=f"Nothing was done. {session.how_it_ended}")
        await session.refresh()
        if not request.force:
            lease.refuse(session)
        note = f"Nothing ran in it any more. {session.how_it_ended}" if session.exited else None
        signal, grace_ms = ("KILL", 0) if request.force else (request.signal, request.grace_ms)
        begin()
        gone = await self.end(session, EndCause.DESTROYED, signal, grace_ms, by=call.caller)
        return replace(gone, note=note)

    async def end(
        self, session: Session, reason: EndCause, signal: str, grace_ms: int, by: str = "", why: str = ""
    ) -> r.DestroySessionResult:
        """End a session and every process in it, for a reason.

        Args:
            by: the caller who wants it, if one does.
            why: the setting or the limit that wants it.
        """
        begun = time.monotonic()
        session.will_end(reason, by, why)
        try:
            survivors = await end_processes(session, self.counting, signal, grace_ms)
            with anyio.move_on_after(LAUNCHER_DRAIN_S):
                await (session.refresh() if survivors else drained(session))
        except BaseException:  # most likely cancelled
            session.lives_on()
            raise
        gone = _gone(session, ms_since(begun), survivors)
        await self._registry.forget(session)
        return replace(gone, recording=await self._recorded(session))

    async def _recorded(self, session: Session) -> r.RecordingFacts | None:
        """Make the file of a destroyed session's recording; one that takes long is made later."""
        note = session.recording
        over = self._registry.over_in(session.directory) if note and note.is_open else None
        if over is None:
            return None
        with anyio.move_on_after(RECORDED_S), suppress(TmuxMcpError, OSError):
            await self.recorder.finish(over)
        return recording_of(over)

    # ---- what became of an earlier call ----------------------------------------------------------

    async def became(self, request: Request[Any], call: Call, noted: NotedCall, *, alone: bool) -> r.Result | None:
        """What became of an earlier call with the same id; None: it has not acted, and never will.

        Args:
            alone: nobody else carries it out; else None means that it has no result yet.

        Raises:
            OutcomeUnknown: nobody can tell; nothing is typed.
            TmuxMcpError: as the operation.
        """
        match request:
            case q.Run():
                return await self._run_became(request, call, noted, alone=alone)
            case q.CreateSession():
                return await self._creation_became(request, call, noted, alone=alone)
            case q.Send():
                return await self._send_became(request, call, noted, alone=alone)
            case _:
                raise NotImplementedError(request.operation.name)

    async def _run_became(self, request: q.Run, call: Call, noted: NotedCall, *, alone: bool) -> r.RunResult | None:
        limit, effective = clamp(self._settings, request.timeout_ms)
        if noted.result is not None:
            return await again.run(self._registry, noted, request, call)
        session = await run.session_of(self._registry, noted)
        if alone:
            until = await self._until(request, limit, call)
            ran = await run.finish(session, noted, request.command, until, call.progress)
        else:
            ran = run.under_way(session, await session.look(), noted, request.command)
        if ran is None:
            return None
        return replace(await self._ran(session, ran, request, call, effective), replayed=True)

    async def _creation_became(
        self, request: q.CreateSession, call: Call, noted: NotedCall, *, alone: bool
    ) -> r.CreateSessionResult | None:
        if noted.result is not None:
            return again.result(r.CreateSessionResult, noted)
        if not alone:
            return None
        async with self._creation.lock():
            session = await restoring.session_of_call(self._registry, noted)
        if session is None:
            return None
        if not session.exited:
            await self._creation.started(session)
        return replace(await self._created_result(session, request, call), replayed=True)

    async def _send_became(self, request: q.Send, call: Call, noted: NotedCall, *, alone: bool) -> r.SendResult | None:
        if noted.result is not None:
            return again.result(r.SendResult, noted)
        if not alone:
            return None
        session = await run.session_of(self._registry, noted)
        typed = await run.was_typed(session, noted) if run.is_open(noted) else False
        if typed is None:
            typed = run.is_written_down(session, noted)
        if typed is None:
            raise run.unknown(noted, "tmux does not tell any more")
        if request.steps:
            return again.steps(session, request, noted, typed=typed)
        if not typed:
            return None
        return await again.sent(self._reading, session, request, call, noted)

    # ---- looking -------------------------------------------------------------------------------

    async def _get_session(self, session: Session) -> r.SessionFacts:
        look = await finding.at_rest(session)
        watched = await viewers.of_pane(session.tmux, session.pane) if session.pane else []
        shown = self.pages.of(session.id)
        found = sight.of(session, look, self.attach_command(session), watched, shown, self.page_url)
        starting = await start_up(session, look)
        return replace(found, note=joined_notes(found.note, starting.note)) if starting else found

    # ---- commands, keys, reading ---------------------------------------------------------------

    async def _run(self, request: q.Run, call: Call, target: Target) -> r.RunResult:
        sending.check_size(self._settings, request.command)
        stdin = None if request.stdin is None else request.stdin.encode("utf-8", "surrogateescape")
        sending.check_size(self._settings, request.stdin or "")
        limit, effective = clamp(self._settings, request.timeout_ms)
        session = await self._targets.session(target, call)
        until = await self._until(request, limit, call)
        if request.adopt == "undo":
            if request.command.strip() or stdin is not None:
                raise InvalidArgument("adopt=undo runs no command.", hint="Give an empty one.")
            if target.noting:
                raise InvalidArgument("request_id does not go with adopt=undo.", hint="It can be asked for twice.")
            ran = await run.undo(session, until)
        else:
            ran = await run.run(
                session, request.command, until, call.progress, stdin, target.noting, as_known=target.as_known
            )
        return await self._ran(session, ran, request, call, effective)

    async def _ran(
        self, session: Session, ran: RunOutcome, request: q.Run, call: Call, effective: int | None
    ) -> r.RunResult:
        """The result of a command, which then counts as told to the caller."""
        session.shown.write_shown(session.cols, session.rows)
        await call.room(min(request.max_bytes, ran.end - ran.start))
        output = await output_of(session, ran, request.max_bytes)
        if output.shown:
            self._reading.screens.showed(session.id, call.caller, output.shown)
        if session.cursor_of(call.caller) < ran.end:
            has_read(session, call, ran.end)
        if ran.completed and ran.number is not None:
            commandresults.tell(session, call, ran.number)
        note_match(session, ran.outcome, ran.match, call)
        also_ended, stopped = await self._told_with(session, ran, call)
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
            truncated=output.truncated,
            output_bytes=ran.end - ran.start,
            omitted_bytes=output.omitted_bytes,
            start_offset=ran.start,
            end_offset=ran.end,
            command_number=ran.number,
            shell=sight.shell_of(ran.level, session.program) if ran.level else None,
            matched=ran.match.text if ran.match else None,
            also_ended=also_ended,
            effective_timeout_ms=effective,
            sanitized=output.sanitized,
            note=notes(session, ran.start, ran.end, output.note, ran.note, stopped),
            output=output.text,
        )

    async def _told_with(self, session: Session, ran: RunOutcome, call: Call) -> tuple[list[r.AlsoEnded], str | None]:
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

    async def _until(self, request: q.Run, limit_ms: int, call: Call) -> run.ReturnWhen:
        """When the call of a command comes back.

        Raises:
            InvalidPattern
        """
        asker = f"{call.caller} {request.session_id}"
        pattern = await self._searching.pattern(request.pattern, asker) if request.pattern else None
        asks = request.wait_for == "auto"
        return run.ReturnWhen(limit_ms, request.idle_ms, asks, self._adopt(request), call.caller, pattern)

    def _adopt(self, request: q.Run) -> Adopt:
        """Without integration nothing is adopted unless that is asked for."""
        return "no" if request.adopt == "auto" and not self._settings.integration else request.adopt

    async def _send(self, request: q.Send, call: Call, target: Target) -> r.SendResult:
        if request.secret:
            return await self._send_secret(request, call, target)
        what = sending.typing(self._settings, request)
        wait = await self._reading.wait(request, call)
        session = await self._targets.session(target, call)
        if session.made_for == call.call_id:
            await refuse_first_input(session)
        return await sending.send(self._reading, session, what, request, wait, call, target.noting)

    async def check_send(self, request: q.Send, call: Call) -> None:
        """Refuse what could not be typed or waited for, before anything is typed.

        Raises:
            NoInput, InvalidKey, InvalidPattern, InvalidArgument, ResourceLimit
        """
        if request.secret:
            from tmuxmcp.shell import secretreader  # late: few callers have secrets

            secretreader.secret_named(self._settings, request)
        else:
            sending.typing(self._settings, request)
        await self._reading.wait(request, call)

    async def _send_secret(self, request: q.Send, call: Call, target: Target) -> r.SendResult:
        from tmuxmcp.broker import secretuse  # late: few callers have secrets
        from tmuxmcp.shell import secretreader

        secretreader.secret_named(self._settings, request)
        wait = await self._reading.wait(request, call)
        session = await self._targets.session(target, call)
        env = self._machine.environment({})
        return await secretuse.send(self._reading, session, request, wait, call, target.agreed, env, target.noting)

    async def _read(self, request: q.Read, call: Call, target: Target) -> r.ReadResult:
        wait = await self._reading.wait(request, call)
        session = await self._session_of(target, call)
        result = await self._reading.read(session, request, wait, call)
        if target.as_known and session.exited:
            raise PaneChanged
        return result

    async def _search(self, request: q.Search, call: Call, target: Target) -> r.SearchResult:
        session = await self._targets.session(target, call)
        pattern = await self._searching.pattern(request.pattern, f"{call.caller} {session.id}")
        size = (session.cols, session.rows)
        found = await search.search(session.log, *size, session.id, pattern, request.limit, request.context)
        typed = commandresults.seem_typed(session, await session.look(), found) if found.matches else None
        return replace(found, note=" ".join(filter(None, (found.note, typed)))) if typed else found

    # ---- the terminal --------------------------------------------------------------------------

    async def _resize(self, request: q.Resize, call: Call, target: Target) -> r.ResizeResult:
        rows, cols, lines = request.rows, request.cols, request.scrollback_lines
        if rows is None and cols is None and lines is None:
            raise InvalidArgument("There is nothing to change.", hint="Give rows, cols or scrollback_lines.")
        session = await self._targets.session(target, call)
        pane, tmux = session.live(), self._registry.tmux
        if rows is not None or cols is not None:
            rows, cols = rows or session.rows, cols or session.cols
            if not await resize(session, pane, cols, rows):
                await session.alive()
                lease.refuse(session)
        if lines is not None:
            await panes.set_option(tmux, pane, "scrollback", str(lines))
        await session.refresh()
        return r.ResizeResult(
            session_id=session.id, rows=session.rows, cols=session.cols, scrollback_lines=session.scrollback_lines
        )

    async def _screenshot(self, request: q.Screenshot, call: Call, target: Target) -> r.ScreenshotResult:
        from tmuxmcp.broker import screenshot  # late: few callers draw

        session = await self._targets.session(target, call)
        if request.at_ms is not None:
            moment = await past.moment_at(session, request.at_ms)
            return await screenshot.of_past(session, moment, request.format)
        return (await screenshot.take(session, request.format)).result(session.id)

    async def _request_user_input(
        self, request: q.RequestUserInput, call: Call, target: Target
    ) -> r.RequestUserInputResult:
        waited = userinput.taken_up(self._registry, request, call)
        if waited is None:
            waited = await userinput.request_input(await self._targets.session(target, call), request, call)
            await userinput.reach(waited, self._settings)
        answer, effective = await userinput.wait(waited, self._settings, call, self.page_url)
        return await userinput.result(waited, answer, effective, self.attach_command(waited.session))


def _with_secret_note(result: r.Result, call: Call) -> r.Result:
    """Add to an answer at whose end a secret is asked for how a person types it."""
    told = r.CreateSessionResult | r.SendResult | r.WaitResult | r.RunResult | r.ReadResult
    if not isinstance(result, told):
        return result
    if isinstance(result, r.WaitResult):
        mode = next((each.mode for each in result.sessions if each.session_id == result.session_id), None)
    elif isinstance(result, r.SendResult):
        mode = result.result.mode if result.result else None
        if result.result and call.goes_on and call.goes_on(result.result):
            return result
    else:
        mode = result.mode
    if mode != "password":
        return result
    attach = f"`tmuxmcp attach --take {result.session_id}`"
    if call.asks_person:
        how = f"Have the person type the secret: call request_user_input with secret=true, or name them {attach}."
    else:
        how = f"{'Type' if call.person else 'Have the person type'} the secret with {attach}."
    return replace(result, note=joined_notes(result.note, how))


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


def _signal(request: q.Signal, session: Session) -> r.SignalResult:
    pane = session.live()
    if request.target == "foreground":
        pids = signal_group(pane.leader, request.signal)
    else:
        pids = signal_session(session, request.signal)
    return r.SignalResult(session_id=session.id, delivered=bool(pids), pids=pids)


async def _mouse(request: q.Mouse, session: Session) -> r.MouseResult:
    row, col = await sending.act(session, request)
    return r.MouseResult(session_id=session.id, sent=True, row=row, col=col)
