"""Recordings that run: begun and stopped by callers, brought to their end where a session has ended.

While one runs there is only its note (`record/meta.py`). Its file is made of the log afterwards, by
whatever broker is there then (`sessions/background.py`).
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from tmuxmcp.broker.programs.inside import home
from tmuxmcp.broker.programs.machine import MOST_INSIDE, MachineWork
from tmuxmcp.broker.reading import lost_note
from tmuxmcp.broker.verbs import Services, Work, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, Progress, iso, joined_notes, no_progress
from tmuxmcp.contract.errors import IoError, RecordingState, ResourceLimit, TimedOut, TmuxMcpError
from tmuxmcp.contract.value import replace
from tmuxmcp.contract.words import Cast
from tmuxmcp.machine import locks, process
from tmuxmcp.readiness import finding
from tmuxmcp.record.commands import EndedCommand
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import EVENTS_FILE_BYTES, RecordingEvent
from tmuxmcp.record.meta import FILM_ENDINGS, RecordingNote, begin_recording, reserve_beside
from tmuxmcp.record.past import exporting
from tmuxmcp.record.past.exporting import Exported, ExportOptions
from tmuxmcp.record.past.recordings import RecordedSession, Stretch, WantedStretch
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.life import State
from tmuxmcp.sessions.retention import ran_a_command
from tmuxmcp.sessions.screens import screen_at
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.modes import PROMPT_SHELLS
from tmuxmcp.terminal.snapshot import Snapshot

NOTE_LOCK_S = 10.0
"""How long another broker may take to write the note, or to make the file."""

INDEXED_S = 0.6
"""How long the broker that writes the times may take to write down the last ones: it does so every 0.25 s."""

FILE_MOST_TRIES = 3
"""So often a file is tried to be made that nobody waits for."""

COARSE_TIMES_NOTE = "No server that stays writes down when what is printed: times are those of commands and of input."


@verb(q.StartRecording, inside=True)
async def start_recording(work: Work[q.StartRecording]) -> r.StartRecordingResult:
    """Begin a recording, here and now.

    Raises:
        SessionExited
        RecordingState: one runs.
        TmuxMcpError: its file cannot be made there.
    """
    session, asked, machine = await work.settled_session(), work.request, work.broker.part(MachineWork)
    await session.alive()
    async with _alone(session.directory):
        before = RecordingNote.load(session.directory)
        if before and before.is_open:
            raise _runs(session, before)
        path, place = "", None
        if asked.path:
            path, place = machine.absolute(asked.path), await machine.on_files("reserve", asked.path)
        try:
            note = begin_recording(
                session.directory,
                asked.format,
                begin=session.log.size(),
                begin_ms=session.now_ms(),
                path=path,
                place=place,
                input=asked.input,
                idle_limit_ms=None if asked.idle_limit_s is None else round(asked.idle_limit_s * 1000),
                by=work.caller,
            )
        except IoError:
            if place:
                with suppress(TmuxMcpError):
                    await machine.on_files("release", asked.path, place)
            raise
    _tell(session, note)
    return r.StartRecordingResult(
        session_id=session.id,
        path=str(note.file(session.directory)),
        format=note.film,
        bytes=0,
        duration_s=0.0,
        events=0,
        note=None if _is_timed(session.directory) else COARSE_TIMES_NOTE,
    )


@verb(q.StopRecording, inside=True)
async def stop_recording(work: Work[q.StopRecording]) -> r.StopRecordingResult:
    """End the recording that runs, and make its file; of a session that has ended, also what was made then.

    Raises:
        RecordingState: none runs.
        TmuxMcpError: its file cannot be made; it can be stopped again.
    """
    session = await work.settled_session()
    await finding.at_rest(session)
    session.save_checkpoint()
    session.shown.write_shown(session.cols, session.rows)
    async with _alone(session.directory):
        note = RecordingNote.load(session.directory)
        if note and note.state == "saved" and note.with_session:
            return _stopped(session, note)
        if note is None or not (note.is_open or note.state == "failed"):
            raise _none_runs(session, note)
        if note.state == "running":
            over = session.exited and session.life.state is not State.LOST
            end = (None, None) if over else (session.log.size(), session.now_ms())
            note = replace(note, state="stopped", end=end[0], end_ms=end[1], with_session=over)
            note.save(session.directory)
            await _indexed(session)
        return _stopped(session, await work.broker.part(Recorder).save(session, note, work.call.progress))


class Recorder:
    """The recordings of one broker's sessions."""

    def __init__(self, broker: Services) -> None:
        self._machine = broker.part(MachineWork)
        self.most_bytes = exporting.EXPORT_BYTES
        """Of a recording's file."""

    async def finish(self, session: Session) -> RecordingNote | None:
        """Bring the recording of a session that is over to its end, if that is still to be done; what became of it.

        Raises:
            TmuxMcpError: its file cannot be made.
        """
        async with _alone(session.directory):
            note = RecordingNote.load(session.directory)
            if note is None or not note.is_open:
                return note
            session.shown.write_shown(session.cols, session.rows)
            if note.state == "running":
                note = replace(note, state="stopped", with_session=True)
                note.save(session.directory)
            if note.keep == "on_failure" and note.with_session and not await has_failed(session):
                return await self._discard(session, note)
            return await self.save(session, note, no_progress)

    # ---- the file ------------------------------------------------------------------------------

    async def save(self, session: Session, note: RecordingNote, progress: Progress) -> RecordingNote:
        """Make the file of a recording that was stopped.

        Raises:
            TmuxMcpError: it cannot be made.
        """
        try:
            saved = await self._make_file(session, note, progress)
        except TmuxMcpError as error:
            tries = note.tries + 1
            failed = replace(
                note, tries=tries, state="failed" if tries >= FILE_MOST_TRIES else "stopped", note=error.message
            )
            failed.save(session.directory)
            if failed.state == "failed":
                _tell(session, failed)
            raise
        saved.save(session.directory)
        _tell(session, saved)
        return saved

    async def _make_file(self, session: Session, note: RecordingNote, progress: Progress) -> RecordingNote:
        directory, remarks = session.directory, []
        begin = max(note.begin, session.log.head())
        stretch = Stretch(
            begin=begin,
            end=max(session.log.size() if note.end is None else note.end, begin),
            begin_ms=note.begin_ms if begin == note.begin else session.times.ms_at(begin) or note.begin_ms,
            end_ms=note.end_ms,
        )
        if begin > note.begin:
            lost = begin - note.begin
            remarks.append(f"Its first {lost:,} bytes of output are no longer kept (log_max_bytes); it begins behind.")
        full_at = min(self.most_bytes, MOST_INSIDE) if note.path and self._machine.is_inside else self.most_bytes
        options = ExportOptions(note.film, idle_limit_ms=note.idle_limit_ms, typed=note.input, full_at=full_at)
        start = None
        if begin:
            with suppress(TmuxMcpError):  # it is then drawn as well as can be, and said to be approximate
                start = await screen_at(session, begin)
        with exporting.staged(directory, f".{secrets.token_hex(8)}.new") as made:
            exported = await make_film(session, stretch, options, made, start, progress)
            note, remark = await self._placed(session, note, made)
        if exported.truncated:
            remarks.append(f"Its file was full ({full_at:,} bytes): it ends {exported.duration_ms / 1000:g} s in.")
        if not exported.times_known:
            remarks.append(
                "Nobody noted exactly when some of it was printed (no server ran then, or it was held up): that comes "
                "late, at a time by which it had been printed."
            )
        if note.input and _events_full(directory):
            remarks.append("What was typed last is not in it: the session has written down too much already.")
        return replace(
            note,
            state="saved",
            bytes=exported.bytes,
            duration_ms=exported.duration_ms,
            events=exported.events,
            times_known=exported.times_known,
            approximate=exported.approximate or begin > note.begin,
            truncated=exported.truncated,
            note=" ".join([remark, *remarks] if remark else remarks),
        )

    async def _placed(self, session: Session, note: RecordingNote, made: Path) -> tuple[RecordingNote, str]:
        """Put the file where it belongs, else beside the log: it is kept in any case. What is to be said of that."""
        directory = session.directory
        if note.path:
            try:
                return replace(note, saved=await self._machine.move_in(note.path, made, note.place)), ""
            except TmuxMcpError as error:
                name = reserve_beside(directory, FILM_ENDINGS[note.film])
                remark = f"It could not be put at {note.path}: {error.message} It is beside the log."
                note = replace(note, path="", name=name)
        else:
            remark = ""
        try:
            os.replace(made, directory.recordings / note.name)
        except OSError as error:
            raise IoError(f"{directory.recordings / note.name} cannot be written: {error.strerror}.") from error
        return note, remark

    async def _discard(self, session: Session, note: RecordingNote) -> RecordingNote:
        """Give the place back of a recording that nobody wants, as nothing failed."""
        if note.path and note.place:
            with suppress(TmuxMcpError):
                await self._machine.on_files("release", note.path, note.place)
        elif note.name:
            (session.directory.recordings / note.name).unlink(missing_ok=True)
        note = replace(note, state="discarded", note="Nothing failed, so it was not kept.")
        note.save(session.directory)
        _tell(session, note)
        return note


# ---- what is known of it -----------------------------------------------------------------------------


async def has_failed(session: Session) -> bool:
    """Whether something went wrong in a session that is over; what is not known to have gone well did.

    A session that a caller or a setting has ended is judged by its commands alone.
    """
    why = session.ended
    if why is None or why.reason not in ("exit", "destroyed", "idle"):
        return True
    by_itself = why.reason == "exit"
    if by_itself and session.exit_status[0] != 0:
        return True
    if not by_itself and _runs_unmarked_commands(session):
        return True
    look = await session.look()
    session.save_checkpoint()
    known = session.commands.kept_commands(look)
    if session.commands.count(look) > len(known):  # some are forgotten
        return True
    last = known[-1].number if known and by_itself else None  # what ended the shell: its exit code is the shell's
    return any(
        not isinstance(each, EndedCommand) or each.exit_code != 0
        for each in known
        if not (each.number == last and getattr(each, "exit_code", None) is None)
    )


def _runs_unmarked_commands(session: Session) -> bool:
    """Whether it is a shell at a prompt that does not tell what it runs."""
    meta = session.meta
    shell = os.path.basename(meta.program) in PROMPT_SHELLS and not ran_a_command(meta.program, meta.args)
    return shell and not meta.marks


def _stopped(session: Session, note: RecordingNote) -> r.StopRecordingResult:
    remarks = ["It ended with the session." if note.with_session else "", note.note]
    return r.StopRecordingResult(
        session_id=session.id,
        path=str(note.file(session.directory)),
        format=note.film,
        bytes=note.bytes,
        duration_s=note.duration_ms / 1000,
        events=note.events,
        times_known=note.times_known,
        approximate=note.approximate,
        truncated=note.truncated,
        note=joined_notes(*remarks),
    )


def _runs(session: Session, note: RecordingNote) -> RecordingState:
    path = str(note.file(session.directory))
    return RecordingState(
        f"Session {session.id} is being recorded, since {note.began_at}, to {path}.",
        hint="stop_recording ends that one.",
        session_id=session.id,
        path=path,
    )


def _none_runs(session: Session, note: RecordingNote | None) -> RecordingState:
    if note and note.state == "discarded":
        text = f"The recording of session {session.id} was not kept, as nothing failed."
    elif note:
        text = f"No recording of session {session.id} runs; the last one is {note.file(session.directory)}."
    else:
        text = f"No recording of session {session.id} runs."
    return RecordingState(
        text,
        hint="Begin one first. What the session did before can be exported to a file all the same.",
        session_id=session.id,
    )


def _tell(session: Session, note: RecordingNote) -> None:
    path = str(note.file(session.directory))
    session.events.append(RecordingEvent(iso(time.time()), session.log.size(), note.state, path))


@asynccontextmanager
async def _alone(directory: SessionDirectory) -> AsyncIterator[None]:
    """While this is open, nobody else changes the note.

    Raises:
        TimedOut: another broker does not come to an end.
    """
    async with locks.lock_within(directory.recording_lock, patience_s=NOTE_LOCK_S) as held:
        if not held:
            raise TimedOut("Another broker is making the file of this recording.", hint="Try again.")
        yield


def _is_timed(directory: SessionDirectory) -> bool:
    """Whether a broker writes down when what is printed."""
    try:
        with locks.if_free(directory.timing_lock) as free:
            return not free
    except OSError:
        return False


async def _indexed(session: Session) -> None:
    """Let the broker that writes the times come to the end of the log, for a moment."""
    end = session.log.size()
    if not end or not _is_timed(session.directory):
        return
    with anyio.move_on_after(INDEXED_S):
        while not any(step.offset >= end for step in session.times.steps(end - 1, end)):
            await anyio.sleep(0.02)


def _events_full(directory: SessionDirectory) -> bool:
    try:
        return os.stat(directory.events).st_size >= EVENTS_FILE_BYTES
    except OSError:
        return False


# ---- Recordings for callers ------------------------------------------------------------------------------------------
#
# An export is made by a process of its own, then put where the file tools may write.

EXPORT_S = 600.0
"""How long one export may take."""

EXPORT_SAID_BYTES = 1 << 16
"""Bytes that are kept of what the process says."""

SHORTER_TRIES = 6
"""How often a recording is made anew that became too long; each time of less than half of the log."""

EXPORT_CODE = "import sys; sys.path[:] = sys.argv[1:]; from tmuxmcp.record.past import exporting; exporting.main()"


@verb(q.ExportRecording, inside=True)
async def export_recording(work: Work[q.ExportRecording]) -> r.ExportRecordingResult:
    """Write a stretch of a session to a file.

    Raises:
        TmuxMcpError: as the request's docstring has it.
    """
    session, asked, machine = await work.settled_session(), work.request, work.broker.part(MachineWork)
    if asked.path:
        await machine.on_files("check_new", asked.path)
    stretch, note = await _stretch(session, asked)
    start = await screen_at(session, stretch.begin) if stretch.begin else None
    idle_limit_ms = None if asked.idle_limit_s is None else round(asked.idle_limit_s * 1000)
    options = ExportOptions(asked.format, asked.speed, idle_limit_ms)
    with exporting.staged(session.directory, f".{secrets.token_hex(8)}.new") as file:
        exported = await make_film(session, stretch, options, file, start, work.call.progress)
        if asked.path:
            path = await machine.move_in(asked.path, file)
        else:
            path = str(exporting.free_path(session.directory, exporting.FORMATS[asked.format]))
            os.link(file, path)
    return _result(session, asked, exported, path, joined_notes(note, _lacks(session, stretch, asked)))


def _lacks(session: Session, stretch: Stretch, asked: q.ExportRecording) -> str | None:
    """What the log of a stretch lacks."""
    cut = stretch.begin and asked.command is None and asked.from_ms is None
    begins = f"Offsets before {stretch.begin} are no longer kept: it begins there." if cut else None
    return joined_notes(begins, lost_note(session, stretch.begin, stretch.end))


async def newest(session: Session, most_bytes: int, call: Call) -> Cast:
    """Make a cast of as much as fits; where it was cut, it begins with the screen of then and a marker that says so.

    Raises:
        ResourceLimit: not even little of it fits.
        NotRetained, TimedOut, IoError
    """
    await finding.at_rest(session)
    session.save_checkpoint()
    end, first = session.log.size(), session.log.head()
    begin, recorded = max(first, end - most_bytes), RecordedSession(session.directory, session.times)
    for _ in range(SHORTER_TRIES):
        mark = f"cut: the {begin:,} bytes of output before this are left out" if begin else ""
        stretch = await anyio.to_thread.run_sync(recorded.of_output, begin, end)
        start = await screen_at(session, begin) if begin else None
        with exporting.staged(session.directory, f".{secrets.token_hex(8)}.new") as file:
            exported = await make_film(session, stretch, ExportOptions("cast", mark=mark), file, start, call.progress)
            if exported.bytes <= most_bytes:
                return Cast(await anyio.to_thread.run_sync(file.read_bytes), begin, end, first)
        begin = end - (end - begin) * min(most_bytes * 4 // 5, exported.bytes // 2) // exported.bytes
    raise ResourceLimit("The recording is too long for a resource.", hint="Export it to a file.")


async def _stretch(session: Session, asked: q.ExportRecording) -> tuple[Stretch, str | None]:
    """What is meant, and what is to be said of it; the commands that ended are written down."""
    look = await finding.at_rest(session)
    session.save_checkpoint()
    recorded = RecordedSession(session.directory, session.times, end_ms=session.end_ms() if session.exited else None)
    wanted = WantedStretch(asked.from_ms, asked.to_ms, asked.command)
    if asked.command is None or asked.from_ms is not None or asked.to_ms is not None:
        return await anyio.to_thread.run_sync(recorded.stretch, wanted), None
    start, end, note = commandresults.output_of(session, look, asked.command)
    return await anyio.to_thread.run_sync(recorded.of_output, start, end), note


async def make_film(
    session: Session, stretch: Stretch, options: ExportOptions, to: Path, start: Snapshot | None, progress: Progress
) -> Exported:
    """Have the file made; cancelled, the process is ended.

    Raises:
        TimedOut, TmuxMcpError
    """
    argv = [sys.executable, "-I", "-S", "-c", EXPORT_CODE, *filter(None, sys.path)]
    ended = await process.run(
        process.Program(sys.executable, argv, home(), "/"),
        stdin=exporting.request(session.directory, stretch, options, to, start),
        timeout_s=EXPORT_S,
        max_output_bytes=EXPORT_SAID_BYTES,
        progress=progress,
    )
    if ended.timed_out:
        raise TimedOut(f"The file was not made within {EXPORT_S:g} s.", hint="Export a shorter stretch.")
    return exporting.read_reply(b"".join(ended.stdout.pieces(EXPORT_SAID_BYTES)))


def _result(
    session: Session, asked: q.ExportRecording, exported: Exported, path: str, note: str | None
) -> r.ExportRecordingResult:
    return r.ExportRecordingResult(
        session_id=session.id,
        path=path,
        format=asked.format,
        bytes=exported.bytes,
        duration_s=exported.duration_ms / 1000,
        times_known=exported.times_known,
        approximate=exported.approximate,
        merged=exported.merged_ms is not None,
        note=joined_notes(note, exported.merged_note),
    )
