"""Raw bytes of a pane in, clean logical lines out: what a command printed, as a person would copy it.

Most output only ever moves forward (`forward.py`), and needs no emulator; what moves up and down is drawn on rows
of text. Raw bytes hold no wrapping newlines, so lines come out whole at any width. Control and invisible characters
never leave here. Pure: bytes in, text out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tmuxmcp.latedataclass import dataclass
from tmuxmcp.terminal.forward import forward
from tmuxmcp.terminal.sanitize import sanitize as sanitize
from tmuxmcp.terminal.textgrid import Unusual
from tmuxmcp.terminal.textrows import TextRows

if TYPE_CHECKING:
    from tmuxmcp.terminal.collector import Collector

MAX_HELD_BYTES = 4 << 20
"""Bytes of a log kept back at most until a line, or what moves up and down, has come to its end."""


@dataclass(frozen=True)
class PlainText:
    """Text that is safe to show."""

    text: str
    sanitized: bool
    """Some character was invisible or could have reordered the text, and stands there as `<U+202E>`."""


@dataclass(frozen=True)
class TextPart:
    """A part of the text, before invisible characters are shown."""

    start: int
    """Offset in the data at which it begins."""
    end: int
    """And behind it."""
    text: str
    drawn: bool = False
    """Its lines were moved about: only its beginning has an offset."""


def plain(data: bytes, cols: int, rows: int = 24, *, col: int = 0, inside: bool | None = None) -> PlainText:
    """Give the text that a command printed, as logical lines joined by newlines.

    Lines that were only printed are kept exactly: trailing spaces, tabs, empty lines, and whether the last one
    ended. Lines that were edited are shown in their last state, without trailing spaces.

    Args:
        cols: the pane's width, which says where a carriage return in a long line leads back to.
        rows: the pane's height, for text that moves up and down.
        col: the cursor's column before it, as `column_behind` gives it.
        inside: a full-screen program was drawing before it, whose line was given with its beginning; None: unknown.
    """
    return PlainText(*sanitize("".join([part.text for part in parts(data, cols, rows, col=col, inside=inside)])))


class Cleaner:
    """Makes the text of each stretch, one after the other, in a pane of so many columns and rows."""

    def __init__(self, cols: int, rows: int) -> None:
        self.cols, self.rows = max(cols, 1), max(rows, 1)

    def indent(self, col: int) -> bytes:
        """Bytes that lead to the column at which the data begin."""
        return b" " * col

    def forward(self, data: bytes) -> str:
        """The text of bytes that only move forward."""
        return forward(data, self.cols)

    def drawn(self, data: bytes, pos: int, limit: int) -> tuple[str, int]:
        """The text from `pos` until plain text goes on below everything, and where that is."""
        try:
            return drawn_by(TextRows(self.cols, self.rows), data, pos, limit, self.rows)
        except Unusual:
            from tmuxmcp.terminal.collector import Collector  # late: most output needs no emulator

            return drawn_by(Collector(self.cols, self.rows), data, pos, limit, self.rows)

    def skip(self, data: bytes, start: int, end: int, inside: bool) -> None:
        """Pass over bytes that are not shown; `inside`: a full-screen program draws at `start`."""


def parts(
    data: bytes, cols: int, rows: int, *, col: int = 0, inside: bool | None = None, cleaner: Cleaner | None = None
) -> Iterator[TextPart]:
    """The text of `plain` in parts, with where they begin; `cleaner`: who makes it, if not one of plain text."""
    cleaner = cleaner or Cleaner(cols, rows)
    indented = cleaner.indent(col) + data if col else data
    if not inside and not needs_grid(indented):
        found: Iterable[TextPart] = [TextPart(0, len(indented), cleaner.forward(indented))]
    else:
        found = _on_lines_of_their_own(_stretches_shown(indented, inside, cleaner))
    return _without_indent(found, col) if col else iter(found)


def _without_indent(found: Iterable[TextPart], col: int) -> Iterator[TextPart]:
    """Take back the blanks that stood for what was there before."""
    for number, part in enumerate(found):
        text = part.text
        if number == 0:
            line = text.partition("\n")[0]
            text = text[min(col, len(line)) :] if not line[:col].strip(" ") else text
        yield replace(part, start=max(part.start - col, 0), end=max(part.end - col, 0), text=text)


def needs_grid(data: bytes) -> bool:
    """Say whether the text moves up or down, so that only a screen can tell what became of it."""
    return _VERTICAL.search(data) is not None


_VERTICAL = re.compile(
    rb"""\x1b(?!\[[0-9;:]*+[Km])(?:    # the most frequent sequences fail fast
        \[[0-9;:]*+[ABEFHLMSTdfgrsu] # cursor up, down, to a line; lines in and out; scrolling; tab stops; saved cursor
      | \[0*[12]J                    # erase in display; without a number it finds nothing below to erase
      | \[(?:[0-9]+;)*4h             # insert mode
      | \[\?(?:[0-9]+;)*(?:47|1047|1049)(?:;[0-9]+)*[hl]
      | [()]0                        # line drawing
      | [78DEHMc]                    # saved cursor, index, next line, tab stop, reverse index, reset
    )""",
    re.VERBOSE,
)
_ALTERNATE = re.compile(rb"\x1b(?:\[\?(?:[0-9]+;)*(?:47|1047|1049)(?:;[0-9]+)*([hl])|c)")


def begun_full_screen(data: bytes) -> int:
    """Offset at which a full-screen program begins that has not ended in `data`; behind its end when there is none."""
    begun = len(data)
    for switch in _ALTERNATE.finditer(data):
        if switch[1] != b"h":
            begun = len(data)
        elif begun == len(data):
            begun = switch.start()
    return begun


def last_switch(data: bytes) -> bool | None:
    """Whether the last switch between the screens in `data` begins a full-screen program; None: there is no switch."""
    found = None
    for switch in _ALTERNATE.finditer(data):
        found = switch[1] == b"h"
    return found


def first_leave(data: bytes) -> int | None:
    """Offset behind the first end of a full-screen program; None: there is none."""
    return next((switch.end() for switch in _ALTERNATE.finditer(data) if switch[1] != b"h"), None)


def ends_full_screen(data: bytes, inside: bool = False) -> bool:
    """Whether a full-screen program draws behind `data`, if one did before it or not."""
    found = last_switch(data)
    return inside if found is None else found


_UNFINISHED_SEQUENCE = re.compile(
    rb"""(?:\x1b(?:
          \[[0-?]*[ -/]*
        | \][^\x07\x1b\x18\x1a]*\x1b?
        | P(?:[^\x1b]|\x1b[^\\])*\x1b?
        | [X^_k][^\x1b\x18\x1a]*\x1b?
        | [ -/]*
        ))\Z""",
    re.VERBOSE,
)


_UNFINISHED_CHARACTER = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")


def unfinished_character(data: bytes) -> int:
    """Bytes at the end of `data` that begin a character and do not end it."""
    found = _UNFINISHED_CHARACTER.search(data)
    return len(data) - found.start() if found else 0


def unfinished(data: bytes) -> int:
    """Bytes at the end of `data` that begin an escape sequence or a character and do not end it."""
    last = data.rfind(b"\x1b")
    for at in (last, data.rfind(b"\x1b", 0, last)) if last >= 0 else ():  # the last one may be half of ESC \\
        if _UNFINISHED_SEQUENCE.match(data, at):
            return len(data) - at
    return unfinished_character(data)


# --- full-screen programs and cleared screens ---------------------------------------------------------

# What was shown before these is scrolled away whole, and what comes after begins on an empty screen.
_CLEARS_SCREEN = re.compile(rb"\x1b\[(?:1?;?1?)?[Hf]\x1b\[[02]?J|\x1b\[2J\x1b\[(?:1?;?1?)?[Hf]|\x1bc")
_CURSOR_ADDRESSED = re.compile(rb"\x1b\[[0-9]+;[0-9]+H")

DRAWING_LEFT_OUT = "[full-screen program: {:,} bytes of screen drawing left out]\n"
"""What stands for the drawing of a full-screen program."""

_LEFT_OUT = re.compile(re.escape(DRAWING_LEFT_OUT).replace(re.escape("{:,}"), "[0-9,]+"))


def without_left_out(text: str) -> str:
    """Clean text without the lines of ours that stand for drawing: no program printed them."""
    return _LEFT_OUT.sub("", text)


def _stretches_shown(data: bytes, inside: bool | None, cleaner: Cleaner) -> Iterator[TextPart | None]:
    """The parts of all stretches; None where a line of its own begins."""
    for at, start, end, full_screen in _stretches(data, inside):
        if not full_screen:
            shown = start
            for begin, stop in _cleared(data, start, end):
                if begin > start:
                    cleaner.skip(data, shown, begin, False)
                    yield None
                yield from _main_screen(data, begin, stop, cleaner)
                shown = stop
            continue
        left = _ALTERNATE.match(data, end)
        cleaner.skip(data, at, left.end() if left else end, at == start)
        if (end > start or end == len(data)) and not (inside and at == 0):
            yield None
            yield TextPart(at, end, DRAWING_LEFT_OUT.format(end - start))


def _on_lines_of_their_own(found: Iterable[TextPart | None]) -> Iterator[TextPart]:
    at, ended = 0, True
    for part in found:
        if part:
            at, ended = part.end, part.text.endswith("\n") if part.text else ended
            yield part
        elif not ended:
            yield TextPart(at, at, "\n", drawn=True)
            ended = True


def _stretches(data: bytes, inside: bool | None) -> Iterator[tuple[int, int, int, bool]]:
    """Cut at each switch between the main and the alternate screen.

    Returns:
        offset of the switch, offset behind it, end, whether it was drawn on the alternate screen.
    """
    at = start = 0
    full_screen = bool(inside)
    for switch in _ALTERNATE.finditer(data):
        enters = switch[1] == b"h"
        if inside is None and start == 0 and switch[1] == b"l" and _CURSOR_ADDRESSED.search(data, 0, switch.start()):
            full_screen = True  # left, but entered before this piece began
        if enters != full_screen:
            yield at, start, switch.start(), full_screen
            at, start, full_screen = switch.start(), switch.end(), enters
    yield at, start, len(data), full_screen


def _cleared(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    for clear in _CLEARS_SCREEN.finditer(data, start, end):
        yield start, clear.start()
        start = clear.end()
    yield start, end


# --- text that moves up and down ----------------------------------------------------------------------


def _main_screen(data: bytes, pos: int, end: int, cleaner: Cleaner) -> Iterator[TextPart]:
    """Draw the stretches around vertical moves on a screen; the rest cannot be reached by them."""
    while move := _VERTICAL.search(data, pos, end):
        start = _lines_back(data, pos, move.start(), cleaner.rows)
        yield TextPart(pos, start, cleaner.forward(data[pos:start]))
        drawn, pos = cleaner.drawn(data, start, end)
        yield TextPart(start, pos, drawn, drawn=True)
    yield TextPart(pos, end, cleaner.forward(data[pos:end]))


def _lines_back(data: bytes, first: int, pos: int, count: int) -> int:
    """Go back from `pos` over `count` newlines, but not before `first`."""
    for _ in range(count):
        pos = data.rfind(b"\n", first, pos)
        if pos < 0:
            return first
    return pos + 1


def drawn_by(collector: TextRows | Collector, data: bytes, pos: int, limit: int, rows: int) -> tuple[str, int]:
    """Draw from `pos` until plain text goes on below everything, and say where that is.

    Raises:
        Unusual: the collector does not draw everything.
    """
    while pos < limit:
        end = _last_move(data, pos, limit, rows)
        collector.feed(data[pos:end])
        pos = end
        for _ in range(rows):
            if pos == limit or collector.settled:
                return collector.text(), pos
            end = data.find(b"\n", pos, limit) + 1 or limit
            collector.feed(data[pos:end])
            pos = end
    return collector.text(), pos


def _last_move(data: bytes, pos: int, limit: int, rows: int) -> int:
    """Where the vertical moves end that come so soon after each other that no screenful lies between them."""
    end = pos
    for move in _VERTICAL.finditer(data, pos, limit):
        if end > pos and data.count(b"\n", end, move.start()) > 2 * rows:
            break
        end = move.end()
    return end if end > pos else limit
