"""The views of `read`: what a session shows or printed, cut to the size that was asked for."""

from __future__ import annotations

import base64
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio

from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import joined_notes
from tmuxmcp.contract.value import replace, value
from tmuxmcp.readiness.judge import FULL_SCREEN_MODES
from tmuxmcp.record.excerpt import Excerpt, LogReader
from tmuxmcp.sessions.screens import replayed, shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.emulator.capture import ShownScreen
from tmuxmcp.terminal.emulator.redraw import ansi_row, byte_length, numbered, shortened
from tmuxmcp.terminal.text.plain import begun_full_screen, unfinished_character
from tmuxmcp.terminal.widths import sanitize

MOST_HIGHLIGHTS = 50

SCATTERED = "This was drawn at several places of the screen: view=screen shows all of it."
DREW_ABOVE = "Something was drawn above the row where this output begins, which is left out: view=screen shows it."


def screen(shown: ShownScreen, format: str, limit: int, end: int) -> Excerpt:
    """The visible rows, without the blank ones at the end."""
    rows = _rows(shown, format)
    while rows and not rows[-1]:
        rows.pop()
    return _around_cursor(rows, range(len(rows)), shown, limit, end)


def content(found: Excerpt) -> dict[str, Any]:
    """What a result has of its text."""
    is_raw, lines = found.view == "raw", found.all_lines
    if lines is None and not is_raw:
        lines = len(found.text.splitlines())
    reversed = found.shown.capture.reversed[:MOST_HIGHLIGHTS] if found.shown else []
    return {
        "view": found.view,
        "has_new_content": found.is_new,
        "truncated": found.omitted_bytes > 0,
        "omitted_bytes": found.omitted_bytes,
        "next_offset": found.next_offset,
        "lines": lines,
        "changed_rows": found.changed_rows,
        "encoding": "base64" if is_raw else None,
        "sanitized": found.sanitized,
        "approximate": found.approximate,
        "highlights": [r.Highlight(row=each.row, col=each.col, text=each.text) for each in reversed],
        "content": found.text,
    }


def title(told: str) -> str:
    """A title that a program has set, safe to show; until then tmux calls a pane after the machine."""
    return "" if told == platform.node() else sanitize(told)[0]


def diff(shown: ShownScreen, changed: list[int], format: str, limit: int, end: int) -> Excerpt:
    """The changed rows, each with its number."""
    found = _around_cursor(numbered(_rows(shown, format), changed), changed, shown, limit, end)
    return replace(found, view="diff", changed_rows=changed, is_new=bool(changed))


def _rows(shown: ShownScreen, format: str) -> list[str]:
    if format == "plain":
        return list(shown.capture.rows)
    return [ansi_row(row) for row in shown.styled]


def _around_cursor(rows: list[str], numbers: Sequence[int], shown: ShownScreen, limit: int, end: int) -> Excerpt:
    """The rows as one text; of more than fit those around the cursor, where a program is at work.

    Args:
        numbers: which row of the screen each is.
    """
    text = "\n".join(rows)
    whole = Excerpt(text, end, sanitized=shown.capture.sanitized, view="screen", start=end, shown=shown)
    size = byte_length(text)
    if size <= limit:
        return whole
    sizes = [byte_length(row) + 1 for row in rows]
    nearest = min(range(len(rows)), key=lambda at: abs(numbers[at] - shown.cursor[0]))
    first, stop = _window(sizes, nearest, limit + 1)
    text = shortened("\n".join(rows[first:stop]), limit)
    what = f"row {numbers[first]}" if stop == first + 1 else f"rows {numbers[first]} to {numbers[stop - 1]}"
    note = f"The screen is larger than max_bytes: this is {what} of {shown.rows}, around the cursor."
    return replace(whole, text=text, omitted_bytes=size - byte_length(text), note=note)


def _window(sizes: list[int], middle: int, limit: int) -> tuple[int, int]:
    """Where the widest stretch around an entry begins and ends that is not larger; at least that entry."""
    first, stop, size = middle, middle + 1, sizes[middle]
    grown = True
    while grown:
        grown = False
        for at in (first - 1, stop):
            if 0 <= at < len(sizes) and size + sizes[at] <= limit:
                first, stop, size, grown = min(first, at), max(stop, at + 1), size + sizes[at], True
    return first, stop


def scrollback(session: Session, offset: int | None, limit: int, max_bytes: int, end: int, format: str) -> Excerpt:
    """The newest lines that were printed, as many as the scrollback keeps; of those, `limit` from line `offset`."""
    lines = _reader(session, format).last_lines(end, session.scrollback_lines)
    first = max(len(lines) - limit, 0) if offset is None else offset
    chosen = lines[first : first + limit]
    sizes = [byte_length(line) + 1 for line in chosen]
    room, kept = max_bytes, 0
    for size in sizes if offset is not None else reversed(sizes):
        room -= size
        if room < 0:
            break
        kept += 1
    begin = 0 if offset is not None else len(chosen) - kept
    if chosen and not kept:
        number = first if offset is not None else first + len(chosen) - 1
        return _ends_of_line(lines[number], number, max_bytes, end, len(lines))
    text = "".join(f"{line}\n" for line in chosen[begin : begin + kept])
    note = f"Lines {first + begin} to {first + begin + kept} of {len(lines)}."
    return Excerpt(text, end, sum(sizes) - byte_length(text), note=note, all_lines=len(lines))


def _ends_of_line(line: str, number: int, max_bytes: int, end: int, all_lines: int) -> Excerpt:
    """Both ends of a line of scrollback that is longer than the text may be."""
    data = line.encode("utf-8", "replace")
    room = max(max_bytes - min(160, max_bytes // 4), 0)
    head, tail = data[: room // 2].decode("utf-8", "ignore"), data[len(data) - room // 2 :].decode("utf-8", "ignore")
    omitted = len(data) - len(head.encode()) - len(tail.encode())
    more = f"view=scrollback offset={number} limit=1 max_bytes={len(data) + 1} gives it whole"
    text = f"{head}\n[... {omitted:,} bytes left out; {more} ...]\n{tail}\n"
    note = f"The two ends of line {number} of {all_lines}, which is longer than max_bytes."
    return Excerpt(text, end, omitted, note=note, all_lines=all_lines)


def raw(session: Session, start: int, end: int, limit: int) -> Excerpt:
    """The log's own bytes, as base64."""
    head = min(session.log.head(), end)
    begin = max(start, head)
    data = session.log.read(begin, min(limit, end - begin))
    stop = begin + len(data)
    note = _lost(head) if start < head else None
    return Excerpt(base64.b64encode(data).decode("ascii"), stop, end - stop + begin - start, note=note)


def _lost(head: int) -> str:
    return f"Offsets before {head} are no longer kept."


def _reader(session: Session, format: str) -> LogReader:
    return session.reader if format == "plain" else session.reader.coloured()


def text(
    session: Session, start: int, end: int, limit: int, format: str, *, contiguous: bool = False, command: bool = False
) -> Excerpt:
    """Clean lines: the first that fit, or both ends of all; `command`: they are all of a command's output."""
    reader = _reader(session, format)
    if end > start:  # the rest of a character is still to come
        end -= unfinished_character(session.log.read(max(end - 3, start), min(3, end - start)))
    make = reader.from_start if contiguous else reader.of_command if command else reader.both_ends
    found = make(start, end, limit)
    if not found.text and end > start and reader.draws_at(end):
        return Excerpt("", found.next_offset, note="A full-screen program is drawing: view=screen shows it.")
    lost = _lost(found.lost_before) if found.lost_before else None
    drawn = DREW_ABOVE if found.drew_above else SCATTERED if found.scattered else None
    return replace(found, note=joined_notes(lost, drawn))


# ---- Which pages show which session ----------------------------------------------------------------------------------
#
# Those of this server. Another server of the state directory does not know of them.


@value(eq=False)
class PageViewer:
    """A page that shows a session."""

    session_id: str
    page: int
    """Its number, which its lease has; 0: it has none."""
    since_s: float
    """In seconds since 1970."""


class OpenPages:
    """The pages of one server."""

    def __init__(self) -> None:
        self._open: list[PageViewer] = []

    @contextmanager
    def shown(self, session_id: str, page: int) -> Iterator[None]:
        """Have a page show a session while this is open."""
        viewer = PageViewer(session_id, page, time.time())
        self._open.append(viewer)
        try:
            yield
        finally:
            self._open.remove(viewer)

    def of(self, session_id: str) -> list[PageViewer]:
        """Those that show a session, the first first."""
        return [each for each in self._open if each.session_id == session_id]


# ---- What `run` gives of a command: what it printed, and where it draws the screen, that screen ----------------------
#
# A full-screen program that asks for keys is shown as it stands. One that ended without leaving the alternate screen,
# as a crashed program does, is shown as it left it: its last message is there.

DRAWN_ANEW_BYTES = 1 << 20
"""Raw bytes that a program which did not leave its screen may have drawn, for that to be drawn anew (1 s of work)."""

LEAST_BEFORE = 200
"""Bytes of text: where there is less room above a screen, what was printed before it is left out."""

IS_SHOWN = "Its screen is in output."
WAS_SHOWN = "It ended without leaving its screen, which is in output; `tput rmcup` leaves it."


async def output_of(session: Session, start: int, end: int, max_bytes: int, *, waits: bool) -> Excerpt:
    """What a command printed and shows, at most so many bytes of text.

    Args:
        start, end: where its output lies in the log.
        waits: it has not ended, and waits for input.
    """
    if waits:
        shown = await _drawn_now(session)
        if shown:
            drawn = replace(screen(shown, "plain", max_bytes, end), note=IS_SHOWN)
            return _below(session, start, _drawing_begin(session, start, end) or start, drawn, max_bytes)
    if end == start:
        return Excerpt("", end)
    if session.reader.draws_at(end):
        begun = _drawing_begin(session, start, end)
        if begun is not None:
            return await anyio.to_thread.run_sync(_after_drawing, session, start, begun, end, max_bytes)
    found = session.reader.of_command(start, end, max_bytes)
    return replace(found, note=DREW_ABOVE if found.drew_above else None)


async def _drawn_now(session: Session) -> ShownScreen | None:
    """The screen, if a program draws the whole of it."""
    look = await session.look()
    if not (look.alternate_screen or look.mode in FULL_SCREEN_MODES or session.reader.draws_at(look.size)):
        return None
    shown = await shown_by(session)
    drawn = look.mode in FULL_SCREEN_MODES or (session.pane and session.pane.alternate_screen)
    return shown if drawn else None


def _drawing_begin(session: Session, start: int, end: int) -> int | None:
    """Where in its output a command began to draw the screen that it has not left; None: not in what is looked at."""
    start = max(start, end - DRAWN_ANEW_BYTES, session.log.head())
    data = session.log.read(start, max(end - start, 0))
    begun = begun_full_screen(data)
    return start + begun if begun < len(data) else None


def _after_drawing(session: Session, start: int, begun: int, end: int, max_bytes: int) -> Excerpt:
    from tmuxmcp.terminal.emulator.replay import blank  # late: it brings the emulator

    snapshot = replayed(session, blank(session.cols, session.rows, begun, session.screen_rows.version), end)
    rows = [row.rstrip() for row in snapshot.text_rows()]
    text, sanitized = sanitize("\n".join(rows).rstrip("\n"))
    kept = text.encode("utf-8", "replace")[-max_bytes:].decode("utf-8", "ignore")
    omitted = byte_length(text) - byte_length(kept)
    return _below(session, start, begun, Excerpt(kept, end, omitted, sanitized, WAS_SHOWN), max_bytes)


def _below(session: Session, start: int, begun: int, drawn: Excerpt, max_bytes: int) -> Excerpt:
    """A screen, below what the command printed before it began to draw."""
    room = max_bytes - byte_length(drawn.text) - 1
    if begun <= start:
        return drawn
    if room < LEAST_BEFORE:
        return replace(drawn, omitted_bytes=drawn.omitted_bytes + begun - start)
    before = session.reader.of_command(start, begun, room)
    return replace(
        drawn,
        text=before.text + ("" if not before.text or before.text.endswith("\n") else "\n") + drawn.text,
        omitted_bytes=before.omitted_bytes + drawn.omitted_bytes,
        sanitized=before.sanitized or drawn.sanitized,
    )
