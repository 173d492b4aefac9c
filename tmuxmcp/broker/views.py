"""The views of `read`: what a session shows or printed, cut to the size that was asked for."""

from __future__ import annotations

import base64
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import anyio

from tmuxmcp.contract import results as r
from tmuxmcp.contract.value import value
from tmuxmcp.readiness.judge import FULL_SCREEN_MODES
from tmuxmcp.record.excerpt import LogReader
from tmuxmcp.sessions.screens import ShownScreen, shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell.typed import RunOutcome
from tmuxmcp.terminal.emulator.redraw import ansi_row, numbered, shortened
from tmuxmcp.terminal.text.plain import begun_full_screen, unfinished_character
from tmuxmcp.terminal.widths import sanitize

MOST_HIGHLIGHTS = 50

SCATTERED = "This was drawn at several places of the screen: view=screen shows all of it."
DREW_ABOVE = "Something was drawn above the row where this output begins, which is left out: view=screen shows it."


@value
class ViewText:
    """The text of a read, and what is to be said of it."""

    text: str
    next_offset: int
    omitted_bytes: int = 0
    sanitized: bool = False
    note: str | None = None
    all_lines: int | None = None
    """Lines that there are, where the text is a part of them."""

    @property
    def truncated(self) -> bool:
        """Something was left out."""
        return self.omitted_bytes > 0


def screen(shown: ShownScreen, format: str, limit: int, end: int) -> ViewText:
    """The visible rows, without the blank ones at the end."""
    rows = _rows(shown, format)
    while rows and not rows[-1]:
        rows.pop()
    return _around_cursor(rows, range(len(rows)), shown, limit, end)


def highlights(shown: ShownScreen | None) -> list[r.Highlight]:
    """What stands in reverse video."""
    stretches = shown.capture.reversed[:MOST_HIGHLIGHTS] if shown else []
    return [r.Highlight(row=each.row, col=each.col, text=each.text) for each in stretches]


def title(told: str) -> str:
    """A title that a program has set, safe to show; until then tmux calls a pane after the machine."""
    return "" if told == platform.node() else sanitize(told)[0]


def diff(shown: ShownScreen, changed: list[int], format: str, limit: int, end: int) -> ViewText:
    """The changed rows, each with its number."""
    return _around_cursor(numbered(_rows(shown, format), changed), changed, shown, limit, end)


def _rows(shown: ShownScreen, format: str) -> list[str]:
    if format == "plain":
        return list(shown.capture.rows)
    return [ansi_row(row) for row in shown.styled]


def _around_cursor(rows: list[str], numbers: Sequence[int], shown: ShownScreen, limit: int, end: int) -> ViewText:
    """The rows as one text; of more than fit those around the cursor, where a program is at work.

    Args:
        numbers: which row of the screen each is.
    """
    text = "\n".join(rows)
    whole = len(text.encode("utf-8", "replace"))
    if whole <= limit:
        return ViewText(text, end, 0, shown.capture.sanitized)
    sizes = [len(row.encode("utf-8", "replace")) + 1 for row in rows]
    nearest = min(range(len(rows)), key=lambda at: abs(numbers[at] - shown.cursor[0]))
    first, stop = _window(sizes, nearest, limit + 1)
    text = shortened("\n".join(rows[first:stop]), limit)
    omitted = whole - len(text.encode("utf-8", "replace"))
    what = f"row {numbers[first]}" if stop == first + 1 else f"rows {numbers[first]} to {numbers[stop - 1]}"
    note = f"The screen is larger than max_bytes: this is {what} of {shown.rows}, around the cursor."
    return ViewText(text, end, omitted, shown.capture.sanitized, note)


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


def scrollback(session: Session, offset: int | None, limit: int, max_bytes: int, end: int, format: str) -> ViewText:
    """The newest lines that were printed, as many as the scrollback keeps; of those, `limit` from line `offset`."""
    lines = _reader(session, format).last_lines(end, session.scrollback_lines)
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
    if chosen and not kept:
        number = first if offset is not None else first + len(chosen) - 1
        return _ends_of_line(lines[number], number, max_bytes, end, len(lines))
    return ViewText("".join(f"{line}\n" for line in shown), end, omitted, note=note, all_lines=len(lines))


def _ends_of_line(line: str, number: int, max_bytes: int, end: int, all_lines: int) -> ViewText:
    """Both ends of a line of scrollback that is longer than the text may be."""
    data = line.encode("utf-8", "replace")
    room = max(max_bytes - min(160, max_bytes // 4), 0)
    head, tail = data[: room // 2].decode("utf-8", "ignore"), data[len(data) - room // 2 :].decode("utf-8", "ignore")
    omitted = len(data) - len(head.encode()) - len(tail.encode())
    more = f"view=scrollback offset={number} limit=1 max_bytes={len(data) + 1} gives it whole"
    text = f"{head}\n[... {omitted:,} bytes left out; {more} ...]\n{tail}\n"
    note = f"The two ends of line {number} of {all_lines}, which is longer than max_bytes."
    return ViewText(text, end, omitted, note=note, all_lines=all_lines)


def raw(session: Session, start: int, end: int, limit: int) -> ViewText:
    """The log's own bytes, as base64."""
    head = min(session.log.head(), end)
    note = f"Offsets before {head} are no longer kept." if start < head else None
    begin = max(start, head)
    data = session.log.read(begin, min(limit, end - begin))
    stop = begin + len(data)
    return ViewText(base64.b64encode(data).decode("ascii"), stop, end - stop + begin - start, note=note)


def _reader(session: Session, format: str) -> LogReader:
    return session.reader if format == "plain" else session.reader.coloured()


def text(
    session: Session, start: int, end: int, limit: int, format: str, *, contiguous: bool = False, command: bool = False
) -> ViewText:
    """Clean lines: the first that fit, or both ends of all; `command`: they are all of a command's output."""
    reader = _reader(session, format)
    if end > start:  # the rest of a character is still to come
        end -= unfinished_character(session.log.read(max(end - 3, start), min(3, end - start)))
    make = reader.from_start if contiguous else reader.of_command if command else reader.both_ends
    excerpt = make(start, end, limit)
    if not excerpt.text and end > start and reader.draws_at(end):
        return ViewText("", excerpt.next_offset, note="A full-screen program is drawing: view=screen shows it.")
    lost = f"Offsets before {excerpt.lost_before} are no longer kept." if excerpt.lost_before else None
    drawn = DREW_ABOVE if excerpt.drew_above else SCATTERED if excerpt.scattered else None
    note = " ".join(filter(None, (lost, drawn))) or None
    return ViewText(excerpt.text, excerpt.next_offset, excerpt.omitted_bytes, excerpt.sanitized, note)


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


@value
class CommandOutput:
    """The output of a command."""

    text: str
    omitted_bytes: int
    sanitized: bool
    note: str | None = None
    shown: ShownScreen | None = None
    """The screen in it, if that is the session's of now."""

    @property
    def truncated(self) -> bool:
        """Something was left out."""
        return self.omitted_bytes > 0


async def output_of(session: Session, ran: RunOutcome, max_bytes: int) -> CommandOutput:
    """What a command printed and shows, at most so many bytes of text."""
    if not ran.completed and ran.evidence is not None:
        shown = await _drawn_now(session)
        if shown:
            piece = screen(shown, "plain", max_bytes, ran.end)
            begun = _drawing_begin(session, ran)
            return _below(session, ran, begun or ran.start, piece, max_bytes, IS_SHOWN, shown)
    if ran.end == ran.start:
        return CommandOutput("", 0, sanitized=False)
    if session.reader.draws_at(ran.end):
        begun = _drawing_begin(session, ran)
        if begun is not None:
            return await anyio.to_thread.run_sync(_after_drawing, session, ran, begun, max_bytes)
    found = session.reader.of_command(ran.start, ran.end, max_bytes)
    return CommandOutput(found.text, found.omitted_bytes, found.sanitized, DREW_ABOVE if found.drew_above else None)


async def _drawn_now(session: Session) -> ShownScreen | None:
    """The screen, if a program draws the whole of it."""
    look = await session.look()
    if not (look.alternate_screen or look.mode in FULL_SCREEN_MODES or session.reader.draws_at(look.size)):
        return None
    shown = await shown_by(session)
    drawn = look.mode in FULL_SCREEN_MODES or (session.pane and session.pane.alternate_screen)
    return shown if drawn else None


def _drawing_begin(session: Session, ran: RunOutcome) -> int | None:
    """Where in its output a command began to draw the screen that it has not left; None: not in what is looked at."""
    start = max(ran.start, ran.end - DRAWN_ANEW_BYTES, session.log.head())
    data = session.log.read(start, max(ran.end - start, 0))
    begun = begun_full_screen(data)
    return start + begun if begun < len(data) else None


def _after_drawing(session: Session, ran: RunOutcome, begun: int, max_bytes: int) -> CommandOutput:
    from tmuxmcp.terminal.emulator.replay import Replay, SizeChange, blank  # late: it brings the emulator

    resizes = [SizeChange(each.offset, each.cols, each.rows) for each in session.events.resizes()]
    replay = Replay(blank(session.cols, session.rows, begun, session.screen_rows.version), resizes)
    for data in session.log.pieces(begun, ran.end):
        replay.feed(data)
    rows = [row.rstrip() for row in replay.snapshot().text_rows()]
    while rows and not rows[-1]:
        rows.pop()
    text, sanitized = sanitize("\n".join(rows))
    kept = text.encode("utf-8", "replace")[-max_bytes:].decode("utf-8", "ignore")
    omitted = len(text.encode("utf-8", "replace")) - len(kept.encode("utf-8", "replace"))
    return _below(session, ran, begun, ViewText(kept, ran.end, omitted, sanitized), max_bytes, WAS_SHOWN, None)


def _below(
    session: Session,
    ran: RunOutcome,
    begun: int,
    screen: ViewText,
    max_bytes: int,
    note: str,
    shown: ShownScreen | None,
) -> CommandOutput:
    """A screen, below what the command printed before it began to draw."""
    room = max_bytes - len(screen.text.encode("utf-8", "replace")) - 1
    if begun <= ran.start:
        return CommandOutput(screen.text, screen.omitted_bytes, screen.sanitized, note, shown)
    if room < LEAST_BEFORE:
        return CommandOutput(screen.text, screen.omitted_bytes + begun - ran.start, screen.sanitized, note, shown)
    before = session.reader.of_command(ran.start, begun, room)
    text = before.text + ("" if not before.text or before.text.endswith("\n") else "\n") + screen.text
    sanitized = before.sanitized or screen.sanitized
    return CommandOutput(text, before.omitted_bytes + screen.omitted_bytes, sanitized, note, shown)
