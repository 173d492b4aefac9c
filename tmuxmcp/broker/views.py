"""The views of `read`: what a session shows or printed, cut to the size that was asked for."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from tmuxmcp.broker.screens import Shown
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.plain import unfinished_character
from tmuxmcp.terminal.render import ansi_row, numbered


@dataclass(frozen=True)
class Piece:
    """The text of a read, and what is to be said of it."""

    text: str
    next_offset: int
    omitted_bytes: int = 0
    sanitized: bool = False
    note: str | None = None

    @property
    def truncated(self) -> bool:
        """Something was left out."""
        return self.omitted_bytes > 0


def screen(shown: Shown, format: str, limit: int, end: int) -> Piece:
    """The visible rows, without the blank ones at the end."""
    rows = _rows(shown, format)
    while rows and not rows[-1]:
        rows.pop()
    return _cut(rows, shown, limit, end)


def diff(shown: Shown, changed: list[int], format: str, limit: int, end: int) -> Piece:
    """The changed rows, each with its number."""
    return _cut(numbered(_rows(shown, format), changed), shown, limit, end)


def _rows(shown: Shown, format: str) -> list[str]:
    if format == "plain":
        return list(shown.capture.rows)
    return [ansi_row(row) for row in shown.styled]


def _cut(rows: list[str], shown: Shown, limit: int, end: int) -> Piece:
    text = "\n".join(rows)
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return Piece(text, end, 0, shown.capture.sanitized)
    cut = data[:limit].decode("utf-8", "ignore")
    return Piece(cut, end, len(data) - limit, shown.capture.sanitized, "The screen is larger than max_bytes.")


def scrollback(session: Session, offset: int | None, limit: int, max_bytes: int, end: int) -> Piece:
    """The newest lines that were printed, as many as the scrollback keeps; of those, `limit` from line `offset`."""
    lines = session.reader.last_lines(end, session.scrollback_lines)
    first = max(len(lines) - limit, 0) if offset is None else offset
    chosen = lines[first : first + limit]
    size, kept = 0, 0
    for line in chosen if offset is not None else reversed(chosen):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > max_bytes:
            break
        kept += 1
    shown = chosen[:kept] if offset is not None else chosen[len(chosen) - kept :]
    omitted = sum(len(line.encode("utf-8", "replace")) + 1 for line in chosen) - sum(
        len(line.encode("utf-8", "replace")) + 1 for line in shown
    )
    place = first if offset is not None else first + len(chosen) - kept
    note = f"Lines {place} to {place + kept} of {len(lines)}."
    return Piece("".join(f"{line}\n" for line in shown), end, omitted, note=note)


def raw(session: Session, start: int, end: int, limit: int) -> Piece:
    """The log's own bytes, as base64."""
    head = min(session.log.head(), end)
    note = f"Offsets before {head} are no longer kept." if start < head else None
    begin = max(start, head)
    data = session.log.read(begin, min(limit, end - begin))
    stop = begin + len(data)
    return Piece(base64.b64encode(data).decode("ascii"), stop, end - stop + begin - start, note=note)


def text(session: Session, start: int, end: int, limit: int, *, contiguous: bool) -> Piece:
    """Clean lines: the first that fit, or both ends of all."""
    reader = session.reader
    if end > start:  # the rest of a character is still to come
        end -= unfinished_character(session.log.read(max(end - 3, start), min(3, end - start)))
    excerpt = reader.from_start(start, end, limit) if contiguous else reader.both_ends(start, end, limit)
    if not excerpt.text and end > start and reader.draws_at(end):
        return Piece("", excerpt.next_offset, note="A full-screen program is drawing: view=screen shows it.")
    note = f"Offsets before {excerpt.lost_before} are no longer kept." if excerpt.lost_before else None
    return Piece(excerpt.text, excerpt.next_offset, excerpt.omitted_bytes, excerpt.sanitized, note)
