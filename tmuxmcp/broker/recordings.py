"""Recordings for callers: an export is made by a process of its own, then put where the file tools may write."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import anyio

from tmuxmcp.broker.programs.inside import home
from tmuxmcp.broker.programs.machine import MachineWork
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, Progress
from tmuxmcp.contract.errors import ResourceLimit, TimedOut
from tmuxmcp.contract.words import Cast
from tmuxmcp.machine import process
from tmuxmcp.readiness import finding as nextprompt
from tmuxmcp.record.past import exporting
from tmuxmcp.record.past.exporting import Exported, ExportOptions
from tmuxmcp.record.past.recordings import RecordedSession, Stretch, WantedStretch
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.screens import screen_at
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.snapshot import Snapshot

EXPORT_S = 600.0
"""How long one export may take."""

EXPORT_SAID_BYTES = 1 << 16
"""Bytes that are kept of what the process says."""

SHORTER_TRIES = 6
"""How often a recording is made anew that became too long; each time of less than half of the log."""

EXPORT_CODE = "import sys; sys.path[:] = sys.argv[1:]; from tmuxmcp.record.past import exporting; exporting.main()"


async def export(
    session: Session, asked: q.ExportRecording, machine: MachineWork, call: Call
) -> r.ExportRecordingResult:
    """Write a stretch of a session to a file.

    Raises:
        TmuxMcpError: as the request's docstring has it.
    """
    if asked.path:
        await machine.check_new(asked.path)
    stretch, note = await _stretch(session, asked)
    start = await screen_at(session, stretch.begin) if stretch.begin else None
    idle_limit_ms = None if asked.idle_limit_s is None else round(asked.idle_limit_s * 1000)
    options = ExportOptions(asked.format, asked.speed, idle_limit_ms)
    with exporting.staged(session.directory, f".{secrets.token_hex(8)}.new") as file:
        exported = await make_film(session, stretch, options, file, start, call.progress)
        if asked.path:
            path = await machine.move_in(asked.path, file)
        else:
            path = str(exporting.free_path(session.directory, exporting.FORMATS[asked.format]))
            os.link(file, path)
    return _result(session, asked, exported, path, " ".join(filter(None, (note, _lacks(session, stretch, asked)))))


def _lacks(session: Session, stretch: Stretch, asked: q.ExportRecording) -> str:
    """What the log of a stretch lacks."""
    found = []
    if stretch.begin and asked.command is None and asked.from_ms is None:
        found.append(f"Offsets before {stretch.begin} are no longer kept: it begins there.")
    if gaps := session.gaps(stretch.begin, stretch.end):
        found.append(f"Output was lost at offset {', '.join(map(str, gaps))}: its recording was interrupted.")
    return " ".join(found)


async def newest(session: Session, most_bytes: int, call: Call) -> Cast:
    """Make a cast of as much as fits; where it was cut, it begins with the screen of then and a marker that says so.

    Raises:
        ResourceLimit: not even little of it fits.
        NotRetained, TimedOut, IoError
    """
    await nextprompt.at_rest(session)
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
    look = await nextprompt.at_rest(session)
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
        note=" ".join(filter(None, (note, exported.merged_note))) or None,
    )
