"""A film as one JSON object a line: what was printed and typed, what happened, and the screen as it changed. Pure.

`timestamp` is in seconds since 1970, or since the film's beginning where it is not known when that was. A line has
either a `direction`, `output` or `input`, with its `data`, or an `event`: `start`, `resize`, `command`, `exit`,
`screen`, `end`. What begins a character at the film's end, and does not end it, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tmuxmcp.terminal.film.asciicast import Utf8
from tmuxmcp.terminal.film.film import Film, FilmEvent, FilmExit, FilmInput, FilmMarker, FilmOutput, FilmResize
from tmuxmcp.terminal.film.frames import Projector
from tmuxmcp.terminal.snapshot import Snapshot

SCREEN_MS = 1000
"""Screens are at least so far apart."""


def as_jsonl(film: Film) -> Iterator[bytes]:
    """Give the lines."""
    size = {"cols": film.start.cols, "rows": film.start.rows}
    facts = {"title": film.title, "term": film.term, "times_known": film.times_known}
    yield _line(film, film.begin_ms, {"event": "start", **size, **facts})
    printed, typed, shown = Utf8(), Utf8(), _FilmScreen(film.start)
    yield _line(film, film.begin_ms, shown.screen(film.begin_ms))
    for each in film.moments:
        if shown.is_due(each.ms):
            yield _line(film, shown.changed_ms, shown.screen(each.ms))
        if told := _event_data(each, printed, typed):
            yield _line(film, each.ms, told)
        shown.take(each)
    if shown.changed:
        yield _line(film, shown.changed_ms, shown.screen(film.end_ms))
    yield _line(film, film.end_ms, {"event": "end"})


def _event_data(moment: FilmEvent, printed: Utf8, typed: Utf8) -> dict[str, Any] | None:
    match moment:
        case FilmOutput(_, data):
            text = printed.text(data)
            return {"direction": "output", "data": text} if text else None
        case FilmInput(_, data):
            text = typed.text(data)
            return {"direction": "input", "data": text} if text else None
        case FilmResize(_, cols, rows):
            return {"event": "resize", "cols": cols, "rows": rows}
        case FilmMarker(_, label, exit_code):
            return {"event": "command", "data": label, "exit_code": exit_code}
        case FilmExit(_, exit_code):
            return {"event": "exit", "exit_code": exit_code}


class _FilmScreen:
    """The screen of a film as it goes on."""

    def __init__(self, start: Snapshot) -> None:
        self._projector = Projector(start)
        self._told_ms: int | None = None
        self.changed, self.changed_ms = False, 0

    def take(self, moment: FilmEvent) -> None:
        """Go on by a moment."""
        if isinstance(moment, FilmOutput | FilmResize):
            self._projector.show(moment)
            self.changed, self.changed_ms = True, moment.ms

    def is_due(self, ms: int) -> bool:
        """Whether the screen is to be told before what comes at this time."""
        return self.changed and self._told_ms is not None and ms - self._told_ms >= SCREEN_MS

    def screen(self, ms: int) -> dict[str, Any]:
        """The screen; not again for some time."""
        self.changed, self._told_ms = False, ms
        snapshot = self._projector.snapshot()
        cursor = {"row": snapshot.cursor.row, "col": snapshot.cursor.col, "visible": snapshot.cursor.visible}
        return {"event": "screen", "screen": snapshot.text_rows(), "cursor": cursor}


def _line(film: Film, ms: int, values: dict[str, Any]) -> bytes:
    at = film.created_at + ms / 1000 if film.created_at else (ms - film.begin_ms) / 1000
    return json.dumps({"timestamp": round(at, 3), **values}, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
