"""What an export costs: 10 MB of vim in each format, beside what the screen engine alone takes for them.

Measured on 2 cores, Python 3.11, not quiet, in processor time: the engine 3.9 s; cast and cast2 0.3 s, txt 0.3, ansi
4.6, html 5.2, svg 5.7, gif 7.4, jsonl 4.3.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.common import Row, workshop
from tmuxmcp.record.directory import SessionDirectory, sessions_dir
from tmuxmcp.record.meta import Meta
from tmuxmcp.record.past.exporting import FORMATS, Export, ExportOptions
from tmuxmcp.record.past.recordings import RecordedSession, WantedStretch
from tmuxmcp.record.past.timing import TimingWriter
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream

CORPUS = Path(__file__).parents[1] / "tests" / "corpora" / "vim.raw"

LIMIT_S = 20

STEP_BYTES, STEP_MS = 2000, 20
"""So much is printed at once, and so often: 10 MB take 100 seconds."""


def _session(state: Path, size: int) -> SessionDirectory:
    """A session that ended and printed this many bytes of vim, with their times."""
    directory = SessionDirectory.of(state, "vim")
    sessions_dir(state).mkdir(mode=0o700, parents=True)
    directory.path.mkdir(mode=0o700)
    piece = CORPUS.read_bytes()
    directory.log.write_bytes((piece * (size // len(piece) + 1))[:size])
    Meta("vim", "vim", [], "n", "2026-01-01T00:00:00.000Z", "bench", False, "/", 80, 24, 0).save(directory)
    writer = TimingWriter.take(directory)
    assert writer
    writer.begin(0, 0)
    for number, offset in enumerate(range(STEP_BYTES, size + STEP_BYTES, STEP_BYTES), 1):
        writer.note(min(offset, size), number * STEP_MS, known=True)
        if number % 100 == 0:
            writer.flush()
    writer.close(number * STEP_MS + 1)
    return directory


def _parsed_s(data: bytes) -> float:
    begun = time.process_time()
    stream = Stream(Screen(80, 24))
    for at in range(0, len(data), 1 << 16):
        stream.feed(data[at : at + (1 << 16)])
    return time.process_time() - begun


def exports(quick: bool) -> list[Row]:
    """Each format of `tmuxmcp export`, of 10 MB that vim printed."""
    size, rows = 1_000_000 if quick else 10_000_000, []
    with workshop() as (state, _):
        directory = _session(state, size)
        parsed_s = _parsed_s(directory.log.read_bytes())
        for name in FORMATS:
            begun = time.process_time()
            recorded = RecordedSession(directory)
            export = Export(recorded, recorded.stretch(WantedStretch()), ExportOptions(name))
            written = sum(map(len, export))
            took_s = time.process_time() - begun
            merged = export.exported.merged_ms
            note = f"{written / size:.2f} x its size" + (f", pictures {merged:g} ms apart" if merged else "")
            limit_s = max(LIMIT_S * size / 10_000_000, 5)
            budget = f"<= {limit_s:g} s"
            rows.append(Row(f"export of vim, {name}", took_s, "s", parsed_s, budget, took_s <= limit_s, note))
    return rows
