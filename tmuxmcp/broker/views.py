"""The views of `read`: what a session shows or printed, cut to the size that was asked for."""

from __future__ import annotations

import base64
import platform
from collections.abc import Sequence

from tmuxmcp.contract import results as r
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.record.excerpt import LogReader
from tmuxmcp.sessions.screens import ShownScreen
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.emulator.redraw import ansi_row, numbered, shortened
from tmuxmcp.terminal.text.plain import unfinished_character
from tmuxmcp.terminal.widths import sanitize

MOST_HIGHLIGHTS = 50

SCATTERED = "This was drawn at several places of the screen: view=screen shows all of it."
DREW_ABOVE = "Something was drawn above the row where this output begins, which is left out: view=screen shows it."


@dataclass(frozen=True)
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
