"""`tmuxmcp record`: begin a recording of a session, and end it."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.words import FilmFormat, RecordedAs
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.calling import kept_session, telling, with_broker
from tmuxmcp.machine.files import Files
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.past.exporting import FORMATS, Export, Exported, ExportOptions, free_path, percent
from tmuxmcp.record.past.recordings import RecordedSession, WantedStretch
from tmuxmcp.sessions import registry

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker


def record(options: argparse.Namespace) -> int:
    """`tmuxmcp record`: a person writes where they like."""
    options.path = os.path.abspath(options.path) if options.path else ""
    return with_broker(options, _stop if options.stop else _start, files_root="", sandbox="none")


async def _start(broker: Broker, options: argparse.Namespace) -> int:
    by_ending: RecordedAs = "jsonl" if options.path.endswith(".jsonl") else "cast"
    idle_limit_s = None if options.idle_limit is None else options.idle_limit / 1000
    begun = await broker.start_recording(
        session_id(options), options.path, options.format or by_ending, options.input, idle_limit_s
    )
    if options.json:
        output.write_result(begun)
        return 0
    output.write(f"{begun.path}\n")
    output.note(f"its file is empty until you run: tmuxmcp record {begun.session_id} --stop")
    output.note(begun.note)
    return 0


async def _stop(broker: Broker, options: argparse.Namespace) -> int:
    if options.path or options.format or options.input or options.idle_limit is not None:
        raise InvalidArgument("--stop goes alone.", hint="What is recorded and where was said at its beginning.")
    with telling(broker) as operations:
        made = await operations.stop_recording(session_id(options))
    if options.json:
        output.write_result(made)
        return 0
    output.write(f"{made.path}: {made.bytes:,} bytes, {made.duration_s:.1f} s\n")
    output.note(made.note)
    return 0


# ---- `tmuxmcp export`: what a session did as a file, from what is kept of it; no server is needed --------------------

BAR_COLUMNS = 30
"""Columns of the bar."""

NO_BAR_S = 0.5
"""What is done by then needs no bar."""


def export(options: argparse.Namespace) -> int:
    """`tmuxmcp export`."""
    if options.path == "-" and options.json:
        raise InvalidArgument("--json and --path - both want stdout.", hint="Leave one of them out.")
    session = kept_session(options)
    directory = session.directory
    wanted = WantedStretch(options.begin, options.until, options.command)
    bar = Bar()
    recorded = RecordedSession(directory, end_ms=None if registry.seems_running(session) else session.end_ms())
    try:
        stretch = recorded.stretch(wanted)
        made = Export(recorded, stretch, _options(options), bar.show)
        path = _write(made, options, directory)
    finally:
        bar.erase()
    if wanted == WantedStretch(None, wanted.to_ms, None) and stretch.begin:
        output.note(f"offsets before {stretch.begin} are no longer kept: it begins there")
    output.note_gaps(session.events.gaps(stretch.begin, stretch.end))
    _tell(made.exported, path, options)
    return 0


def _options(options: argparse.Namespace) -> ExportOptions:
    ending = os.path.splitext(options.path or "")[1]
    by_ending: FilmFormat = next((name for name, each in FORMATS.items() if each.ending == ending), "cast")
    return ExportOptions(options.format or by_ending, options.speed or 1.0, options.idle_limit)


def _write(made: Export, options: argparse.Namespace, directory: SessionDirectory) -> str:
    """Write the file; its path."""
    if options.path == "-":
        for piece in made:
            output.write(piece)
        return "-"
    path = options.path or str(free_path(directory, FORMATS[_options(options).format]))
    Files("", os.getcwd()).create(path, made)
    return path


def _tell(exported: Exported, path: str, options: argparse.Namespace) -> None:
    if not exported.times_known:
        output.note(
            "nobody noted exactly when some of this was printed (no server ran then, or it was held up): in the file "
            "that comes late, at a time by which it had been printed"
        )
    if exported.approximate:
        output.note("the screen at its beginning may lack something: not all that made it is known")
    output.note(exported.merged_note)
    if options.json:
        duration_s = exported.duration_ms / 1000
        facts: dict[str, object] = {"path": os.path.abspath(path), "bytes": exported.bytes, "duration_s": duration_s}
        facts |= {"times_known": exported.times_known, "merged": exported.merged_ms is not None}
        output.write_json(facts)
    elif path != "-":
        output.write(f"{path}: {exported.bytes:,} bytes, {exported.duration_ms / 1000:.1f} s\n")


class Bar(output.StatusLine):
    """How far an export is."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = time.monotonic()

    def show(self, done: int, whole: int) -> None:
        """Show how much of it is done."""
        if time.monotonic() - self._begun >= NO_BAR_S:
            bar = ("#" * (percent(done, whole) * BAR_COLUMNS // 100)).ljust(BAR_COLUMNS)
            self.show_text(f"[{bar}] {percent(done, whole):3} %  {done >> 20} of {whole >> 20} MiB")
