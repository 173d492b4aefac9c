"""Recordings for callers: an export is made by a process of its own, then put where the file tools may write."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import anyio

from tmuxmcp.broker import commands, run
from tmuxmcp.broker.inside import home
from tmuxmcp.broker.machine import Machine
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.errors import TimedOut
from tmuxmcp.host import process
from tmuxmcp.record import exporting
from tmuxmcp.record.exporting import Exported, Options
from tmuxmcp.record.recordings import Recorded, Stretch, Wanted
from tmuxmcp.sessions.past import screen_at
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.snapshot import Snapshot

LONGEST_S = 600.0
"""How long one export may take."""

MOST_SAID = 1 << 16
"""Bytes that are kept of what the process says."""

MAIN = "import sys; sys.path[:] = sys.argv[1:]; from tmuxmcp.record import exporting; exporting.main()"


async def export(session: Session, asked: q.ExportRecording, machine: Machine, call: Call) -> r.ExportRecordingResult:
    """Write a stretch of a session to a file.

    Raises:
        TmuxMcpError: as the request's docstring has it.
    """
    if asked.path:
        await machine.check_new(asked.path)
    stretch, note = await _stretch(session, asked)
    start = await screen_at(session, stretch.begin) if stretch.begin else None
    idle_limit_ms = None if asked.idle_limit_s is None else round(asked.idle_limit_s * 1000)
    options = Options(asked.format, asked.speed, idle_limit_ms)
    with exporting.staged(session.directory, f".{secrets.token_hex(8)}.new") as made:
        exported = await _made(session, stretch, options, made, start, call)
        if asked.path:
            path = await machine.place(asked.path, made)
        else:
            path = str(exporting.free_path(session.directory, exporting.FORMATS[asked.format]))
            os.link(made, path)
    return _result(session, asked, exported, path, note)


async def _stretch(session: Session, asked: q.ExportRecording) -> tuple[Stretch, str | None]:
    """What is meant, and what is to be said of it; the commands that ended are written down."""
    look = await run.at_rest(session)
    session.save_checkpoint()
    recorded = Recorded(session.directory, session.times)
    wanted = Wanted(asked.from_ms, asked.to_ms, asked.command)
    if asked.command is None or asked.from_ms is not None or asked.to_ms is not None:
        return await anyio.to_thread.run_sync(recorded.stretch, wanted), None
    start, end, note = commands.output_of(session, look, asked.command)
    return await anyio.to_thread.run_sync(recorded.of_output, start, end), note


async def _made(
    session: Session, stretch: Stretch, options: Options, to: Path, start: Snapshot | None, call: Call
) -> Exported:
    """Have the file made; cancelled, the process is ended.

    Raises:
        TimedOut, TmuxMcpError
    """
    argv = [sys.executable, "-I", "-S", "-c", MAIN, *filter(None, sys.path)]
    ended = await process.run(
        process.Program(sys.executable, argv, home(), "/"),
        stdin=exporting.request(session.directory, stretch, options, to, start),
        timeout_s=LONGEST_S,
        max_output_bytes=MOST_SAID,
        progress=call.progress,
    )
    if ended.timed_out:
        raise TimedOut(f"The file was not made within {LONGEST_S:g} s.", hint="Export a shorter stretch.")
    return exporting.answered(b"".join(ended.stdout.pieces(MOST_SAID)))


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
        note=note,
    )
