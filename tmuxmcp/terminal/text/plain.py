"""Raw bytes of a pane in, clean logical lines out: what a command printed, as a person would copy it.

Four engines make the text of a piece, each slower and more able than the one before, and each only where the one
before cannot know the answer:

1. Bytes that only move forward: one expression drops the escape sequences, and the rest is the text (`forward`).
2. A line that goes back over itself with returns alone, as simple progress bars do: its states are laid over each
   other (`_overlaid`).
3. Any other line that goes back within itself: a screen draws that line alone (`Cleaner.redrawn`).
4. A stretch around vertical moves: a screen of the pane's size draws it, from a screenful before the first move until
   plain text goes on below everything (`Cleaner.drawn`). The screen is `textscreen.py`: the terminal of `emulator/`,
   with strings in place of cells.

What a full-screen program draws is no text: one line says how much that was. With a style given, the same engines keep
the styles, as letters beside the text (`styledtext.py`), and the text has `CSI m` where the style changes.

Raw bytes hold no wrapping newlines, so lines come out whole at any width. Control and invisible characters never leave
here. Pure: bytes in, text out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tmuxmcp.contract.value import replace, value
from tmuxmcp.terminal.emulator.grid import SGR, restyled
from tmuxmcp.terminal.emulator.redraw import sgr
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Style
from tmuxmcp.terminal.text.styledtext import UNSTYLED, StyledText, StyleLetters, joined, sanitized
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion
from tmuxmcp.terminal.widths import sanitize as sanitize

if TYPE_CHECKING:
    from tmuxmcp.terminal.snapshot import SavedCursor
    from tmuxmcp.terminal.text.textscreen import TextScreen

MAX_HELD_BYTES = 4 << 20
"""Bytes of a log kept back at most until a line, or what moves up and down, has come to its end."""


@value
class PlainText:
    """Text that is safe to show."""

    text: str
    sanitized: bool
    """Some character was invisible or could have reordered the text, and stands there as `<U+202E>`."""
    drew_above: bool = False
    """Something was printed above the row in which the text begins: it is none of the text."""
    scattered: bool = False
    """It was drawn here and there on a screen: no blank rows are around it."""


@value
class TextPart:
    """A part of the text, before invisible characters are shown."""

    start: int
    """Offset in the data at which it begins."""
    end: int
    """And behind it."""
    text: str
    drawn: bool = False
    """Its lines were moved about: only its beginning has an offset."""


def plain(
    data: bytes,
    cols: int,
    rows: int = 24,
    *,
    col: int = 0,
    row: int = 0,
    inside: bool | None = None,
    style: Style | None = None,
    version: TmuxVersion = OLDEST_VERSION,
) -> PlainText:
    """Give the text that a command printed, as logical lines joined by newlines.

    It is what a capture of tmux has of the rows from the one in which the data begin. Lines that were only printed are
    kept exactly: trailing spaces, tabs, empty lines, and whether the last one ended. Lines that were edited are shown
    in their last state, without trailing spaces.

    Args:
        cols: the pane's width, which says where a carriage return in a long line leads back to.
        rows: the pane's height, for text that moves up and down.
        col: the cursor's column before it, as `column_behind` gives it.
        row: the cursor's row before it: what is drawn above that is not shown.
        inside: a full-screen program was drawing before it, whose line was given with its beginning; None: unknown.
        style: the style before it, as `style_behind` gives it, of text that keeps its styles: with `CSI m` where they
            change, and with no other sequence. Each line begins and ends in the terminal's own style, so that a text
            can be cut at any line's end. None: the text has no styles.
        version: of the tmux that counts its columns.
    """
    cleaner = Cleaner(cols, rows, row, version, style)
    text = joined([part.text for part in parts(data, cols, rows, col=col, inside=inside, cleaner=cleaner)])
    text, shown = sanitized(text)
    return PlainText(cleaner.palette.drawn(text) if cleaner.palette else text, shown, cleaner.drew_above)


class Cleaner:
    """Makes the text of each stretch, one after the other, in a pane of so many columns and rows."""

    def __init__(
        self,
        cols: int,
        rows: int,
        row: int = 0,
        version: TmuxVersion = OLDEST_VERSION,
        style: Style | None = None,
    ) -> None:
        """Begin in a row, in a style.

        Args:
            version: of the tmux that counts its columns.
            style: the text gets styles, and begins in this one; None: it gets none.
        """
        self.cols, self.rows = max(cols, 1), max(rows, 1)
        self._version = version
        self.drew_above = False
        self._row = row
        self._saved: SavedCursor | None = None
        """The cursor that `ESC 8` restores."""
        self.palette: StyleLetters | None = None
        self._style, self._letter = b"", UNSTYLED
        """What begins the style of the text; the style of what is printed next."""
        if style is not None:
            self.palette = StyleLetters()
            self._style, self._letter = sgr(PLAIN_STYLE, style).encode(), self.palette.letter(style)

    def beginning(self, col: int) -> bytes:
        """Bytes that lead to the column at which the data begin, in no style, and to the style there."""
        return b"\x1b[m" + b" " * col + (self._style or b"\x1b[m") if col else b""

    def forward(self, data: bytes) -> str:
        """The text of bytes that only move forward, or back within their line."""
        data = self._without_sequences(data)
        if data.count(b"\r") == data.count(b"\r\n"):
            data = data.translate(None, DROPPED_BYTES + b"\r")  # four times as fast as replacing each line end
        else:
            data = data.translate(None, DROPPED_BYTES).replace(b"\r\n", b"\n")
        data = _without_idle_erasing(data)
        pieces: list[str] = []
        pos = 0
        for start, end in _edited_lines(data) if _goes_back(data) else ():
            pieces += self._level(data[pos:start]), self._edited_line(data[start:end])
            pos = end
        pieces.append(self._level(data[pos:]))
        return joined(pieces)

    def drawn(self, data: bytes, pos: int, limit: int) -> tuple[str, int]:
        """The text from `pos` until plain text goes on below everything, and where that is."""
        screen = self._screen(self.rows, 0 if pos else self._row)
        screen.saved = self._saved
        end = _drawn_by(screen, data, pos, limit, self.rows)
        if end == len(data):
            screen.end()
        self._saved = screen.saved
        self.drew_above |= screen.drew_above
        return self._text_of(screen), end

    def redrawn(self, line: bytes) -> str:
        """The text of a line that goes back over itself."""
        screen = self._screen(self.rows + 1, 1)  # never in the top row: an erasing there clears the screen
        screen.feed(line)
        screen.end()
        return self._text_of(screen)

    def skip(self, data: bytes, start: int, end: int, inside: bool) -> None:
        """Pass over bytes that are not shown; `inside`: a full-screen program draws at `start`."""
        if self.palette:
            before = self.palette.style(self._letter)
            self._letter = self.palette.letter(style_behind(data[start:end], before, inside=inside))

    def _without_sequences(self, data: bytes) -> bytes:
        if b"\x1b" not in data:
            return data
        if self.palette is None and data.isascii():
            return IGNORED_SEQUENCE.sub(b"", data)
        data = OTHER_THAN_STYLES.sub(b"", data)
        if self.palette is None:
            return data if CUT_CHARACTER.search(data) else _without_styles(data)
        return _STYLED_LINE_END.sub(b"", data) if b"\r\x1b" in data else data

    def _level(self, data: bytes) -> str:
        """The text of bytes that never go back."""
        if self.palette is None:
            return _decode(_without_styles(data))
        text = _decode(data)
        if self._letter == UNSTYLED and b"\x1b" not in data:
            return text
        first, *parts = SGR.split(text)
        letters = [self._letter, *self.palette.after(self._letter, parts[::2])]
        self._letter = letters[-1]
        return StyledText.of_runs(letters, [first, *parts[1::2]])

    def _edited_line(self, line: bytes) -> str:
        line = _without_idle_erasing(_without_outer_returns(line))
        if not _goes_back(line):
            return self._level(line)
        text = _overlaid(line, self.cols)
        return self.redrawn(line) if text is None else text.rstrip(" ")

    def _screen(self, rows: int, row: int) -> TextScreen:
        from tmuxmcp.terminal.text.textscreen import TextScreen  # late: most output needs none

        screen = TextScreen(self.cols, rows, row, self.palette, self._version)
        if self.palette:
            screen.pen = screen.pens.get(self.palette.style(self._letter))
        return screen

    def _text_of(self, screen: TextScreen) -> str:
        if self.palette:
            self._letter = self.palette.letter(screen.pen.style)
        return screen.text()


def parts(
    data: bytes, cols: int, rows: int, *, col: int = 0, inside: bool | None = None, cleaner: Cleaner | None = None
) -> Iterator[TextPart]:
    """The text of `plain` in parts, with where they begin; `cleaner`: who makes it, if not one of plain text."""
    cleaner = cleaner or Cleaner(cols, rows)
    before = cleaner.beginning(col)
    whole = before + data if before else data
    if not inside and not needs_grid(whole):
        found: Iterable[TextPart] = [TextPart(0, len(whole), cleaner.forward(whole))]
    else:
        found = _on_lines_of_their_own(_stretches_shown(whole, len(before), inside, cleaner))
    return _without_beginning(found, col, len(before)) if before else iter(found)


def _without_beginning(found: Iterable[TextPart], col: int, size: int) -> Iterator[TextPart]:
    """Take back the blanks that stood for what was there before."""
    for number, part in enumerate(found):
        text = part.text
        if number == 0:
            line = text.partition("\n")[0]
            text = text[min(col, len(line)) :] if not line[:col].strip(" ") else text
        yield replace(part, start=max(part.start - size, 0), end=max(part.end - size, 0), text=text)


def needs_grid(data: bytes) -> bool:
    """Say whether the text moves up or down, so that only a screen can tell what became of it."""
    return (b"\x1b" in data and _VERTICAL.search(data) is not None) or _feeds_lines(data)


def _feeds_lines(data: bytes) -> bool:
    """Vertical tabs and form feeds: they go down and stay in their column."""
    return b"\x0b" in data or b"\x0c" in data


_VERTICAL = re.compile(
    rb"""\x1b(?!\[[0-9;:]*+[Km])(?:    # the most frequent sequences fail fast
        \[(?:[01]?;?[01]?)[Hf]\x1b\[0*J  # all of the screen cleared
      | \[[0-9;:]*+[ABEFHLMSTdfgrsu] # cursor up, down, to a line; lines in and out; scrolling; tab stops; saved cursor
      | \[[0-9;:]*+b                # repetition of what was printed just before, with nothing in between
      | \[0*[12]J                    # erase in display; without a number it finds nothing below to erase
      | \[(?:[0-9]*;)*0*4(?:;[0-9]*)*h                           # insert mode
      | \[\?(?:[0-9]*;)*0*(?:3|6|7|47|1047|1049)(?:;[0-9]*)*[hl]  # columns, origin mode, wrapping, alternate screen
      | \[[ -?]*[\x00-\x17\x19\x1c-\x1f] | [ -/]*[\x00-\x17\x19\x1c-\x1f]  # a control within a sequence
      | [()]0                        # line drawing
      | [78DEHMc] | \#8              # saved cursor, index, next line, tab stop, reverse index, reset, filling
    )""",
    re.VERBOSE,
)
_VERTICAL_OR_LINE_FEED = re.compile(rb"[\x0b\x0c]|" + _VERTICAL.pattern, re.VERBOSE)

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
_CLEARS_SCREEN = re.compile(rb"\x1b\[(?:[01]?;?[01]?)[Hf]\x1b\[0*2?J|\x1b\[2J\x1b\[(?:[01]?;?[01]?)[Hf]|\x1bc")
_CURSOR_ADDRESSED = re.compile(rb"\x1b\[[0-9]+;[0-9]+H")

DRAWING_LEFT_OUT = "[full-screen program: {:,} bytes of screen drawing left out]\n"
"""What stands for the drawing of a full-screen program."""

_LEFT_OUT = re.compile(re.escape(DRAWING_LEFT_OUT).replace(re.escape("{:,}"), "[0-9,]+"))


def without_left_out(text: str) -> str:
    """Clean text without the lines of ours that stand for drawing: no program printed them."""
    return _LEFT_OUT.sub("", text)


def _stretches_shown(data: bytes, begin: int, inside: bool | None, cleaner: Cleaner) -> Iterator[TextPart | None]:
    """The parts of all stretches; None where a line of its own begins. Before `begin`, nothing was printed."""
    for at, start, end, full_screen in _stretches(data, inside):
        if not full_screen:
            yield from _main_screen(data, start, end, cleaner)
            continue
        left = _ALTERNATE.match(data, end)
        cleaner.skip(data, at, left.end() if left else end, at == start)
        if (end > start or end == len(data)) and not (inside and at == 0):
            yield None
            yield TextPart(at, end, DRAWING_LEFT_OUT.format(end - max(start, begin)))


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


# --- text that moves up and down ----------------------------------------------------------------------


def _main_screen(data: bytes, pos: int, end: int, cleaner: Cleaner) -> Iterator[TextPart | None]:
    """Draw the stretches around vertical moves on a screen; the rest cannot be reached by them."""
    vertical = _VERTICAL_OR_LINE_FEED if _feeds_lines(data) else _VERTICAL
    while move := vertical.search(data, pos, end):
        if clear := _CLEARS_SCREEN.match(data, move.start(), end):
            yield TextPart(pos, clear.start(), cleaner.forward(data[pos : clear.start()]))
            cleaner.skip(data, *clear.span(), inside=False)
            yield None
            pos = clear.end()
            continue
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


_ERASES_BELOW = re.compile(rb"\x1b\[0*J")
"""In the top row it scrolls away what was shown."""


def _drawn_by(screen: TextScreen, data: bytes, pos: int, limit: int, rows: int) -> int:
    """Draw from `pos` until plain text goes on below everything, and say where that is."""
    vertical = _VERTICAL_OR_LINE_FEED if _feeds_lines(data) else _VERTICAL
    while pos < limit:
        end = _last_move(vertical, data, pos, limit, rows)
        screen.feed(data[pos:end])
        pos = end
        for _ in range(rows):
            end = data.find(b"\n", pos, limit) + 1 or limit
            if pos == limit or (screen.settled and (screen.cursor.y or not _ERASES_BELOW.search(data, pos, end))):
                return pos
            screen.feed(data[pos:end])
            pos = end
    return pos


def _last_move(vertical: re.Pattern[bytes], data: bytes, pos: int, limit: int, rows: int) -> int:
    """Where the vertical moves end that come so soon after each other that no screenful lies between them."""
    end = pos
    for move in vertical.finditer(data, pos, limit):
        if end > pos and data.count(b"\n", end, move.start()) > 2 * rows:
            break
        end = move.end()
    return end if end > pos else limit


def out_of_reach(data: bytes, end: int, rows: int) -> int:
    """Where the text ends, among the lines before `end`, over which nothing can be drawn any more."""
    cut, moved = _lines_back(data, 0, end, rows + 1), 0
    for move in (_VERTICAL_OR_LINE_FEED if _feeds_lines(data) else _VERTICAL).finditer(data):
        moved = move.end()
    return cut if not moved or data.count(b"\n", moved, cut) > rows else 0


def column_behind(line: bytes, cols: int, version: TmuxVersion = OLDEST_VERSION) -> int:
    """The cursor's column behind a begun line; `cols` when the row is full."""
    rest = IGNORED_SEQUENCE.sub(b"", line).translate(None, DROPPED_BYTES)
    if rest.isascii() and rest.decode().isprintable():
        return (len(rest) - 1) % max(cols, 1) + 1 if rest else 0
    from tmuxmcp.terminal.text.textscreen import TextScreen

    screen = TextScreen(cols, 1, version=version)
    screen.feed(line)
    return screen.cursor.x


def row_behind(data: bytes, cols: int, rows: int, row: int, inside: bool, version: TmuxVersion = OLDEST_VERSION) -> int:
    """The cursor's row behind some bytes, if they began in `row`; `inside`: a full-screen program was drawing."""
    from tmuxmcp.terminal.text.textscreen import TextScreen

    screen = TextScreen(cols, rows, row, version=version)
    screen.feed(b"\x1b[?1049h" * inside + data)
    return screen.cursor.y


# ---- Text that only moves forward, or back within its line: one expression takes the escape sequences out ------------
#
# Most output is of this kind, and needs no terminal: on any screen it stands as it was printed. Only the lines that go
# back over themselves (progress bars, typed lines) have to be drawn, each by itself. A line feed begins a line, also
# where a program left the terminal without returns before them. Pure.

# Where tmux lets a sequence end; an unfinished one at the end of the piece goes too. What moves or erases within
# its line is kept.
IGNORED_SEQUENCE = re.compile(
    rb"""\x1b(?:
        \[[0-9;:]*m
      | \[(?!0*J|[0-9;:]*[@CDGKPXZ`])[0-?]*[ -/]*[@-~]?
      | \][^\x07\x1b\x18\x1a]*(?:\x07|\x1b\\|[\x18\x1a])?                 # OSC
      | P[^\x1b]*+(?:\x1b[^\\][^\x1b]*+)*+(?:\x1b\\|\x1b\Z)?              # DCS: only ESC \ ends it
      | [X^_k][^\x1b\x18\x1a]*(?:\x1b\\|[\x18\x1a])?                      # SOS, PM, APC, title
      | (?!\[)[ -/]*[0-~]?
    )""",
    re.VERBOSE,
)
OTHER_THAN_STYLES = re.compile(rb"\x1b(?!\[[0-9;:]*m)" + IGNORED_SEQUENCE.pattern.removeprefix(rb"\x1b"), re.VERBOSE)
CUT_CHARACTER = re.compile(
    rb"\x1b\[[0-9;:]*m[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]*[\x80-\xbf]|\xe2\x80\x8d[\x00-\x1a\x1c-\x1f\x7f]*\x1b"
)
"""A style within a character, or behind a zero width joiner."""
DROPPED_BYTES = bytes(code for code in range(0x20) if code not in b"\b\t\n\r\x1b") + b"\x7f"
EDITING = re.compile(rb"[\r\x08]|\x1b\[(?:0*J|[0-9;:]*(?:[@CDGKPXZ`]|m[\x80-\xbf]))")
"""What goes back within its line, or may; and a style that cuts a character in two."""

_EDITING_SEQUENCE = re.compile(EDITING.pattern.partition(b"|")[2])
_ERASE_RIGHT = re.compile(rb"\x1b\[0*[JK]")
_MOVE_BACK = re.compile(rb"\x1b\[[0-9;:]*[DGZ`]")
_STYLE = re.compile(rb"\x1b\[[0-9;:]*m")
_STYLES_AND_RETURNS = re.compile(rb"(?:\x1b\[[0-9;:]*m|\r)*")


def _goes_back(data: bytes) -> bool:
    return b"\r" in data or b"\b" in data or (b"\x1b" in data and _EDITING_SEQUENCE.search(data) is not None)


def _edited_lines(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the lines begin and end that may go back over themselves."""
    pos = 0
    while hit := EDITING.search(data, pos):
        start = data.rfind(b"\n", pos, hit.start()) + 1 or pos
        pos = data.find(b"\n", hit.end())
        pos = len(data) if pos < 0 else pos
        yield start, pos


def _without_idle_erasing(data: bytes) -> bytes:
    """Drop "erase to the right" where nothing moved back: grep and gcc print it at every coloured word."""
    if b"\x1b" in data and not (b"\r" in data or b"\b" in data or _MOVE_BACK.search(data)):
        return _ERASE_RIGHT.sub(b"", data)
    return data


def _without_outer_returns(line: bytes) -> bytes:
    """The line without the returns at its beginning and end, between styles, too."""
    line, ending = line.strip(b"\r"), b""
    if b"\x1b" not in line:
        return line
    begun = _STYLES_AND_RETURNS.match(line)
    if begun and begun.end():
        line = begun[0].replace(b"\r", b"") + line[begun.end() :]
    while (style := line.rfind(b"\x1b[")) >= 0 and _STYLE.fullmatch(line, style):
        ending = line[style:] + ending
        line = line[:style].rstrip(b"\r")
    return line + ending


def _without_styles(data: bytes) -> bytes:
    return _STYLE.sub(b"", data) if b"\x1b" in data else data


def _overlaid(line: bytes, cols: int) -> str | None:
    """Lay the states of a simple progress bar over each other; None where that would not do."""
    if not line.isascii() or b"\x1b" in line or b"\b" in line or b"\t" in line:
        return None
    states = line.split(b"\r")
    if max(map(len, states)) > cols:
        return None
    shown = b""
    for state in reversed(states):  # a longer, older one sticks out to the right
        shown += state[len(shown) :]
    return shown.decode()


def _decode(data: bytes) -> str:
    """Bytes as text; what is not UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")


_STYLED_LINE_END = re.compile(rb"\r(?=(?:\r|\x1b\[[0-9;:]*m)*\x1b\[[0-9;:]*m\r*\n)")
"""A return before a line's end, with styles in between."""

# ---- Which style comes of bytes, none of which are shown. Pure -------------------------------------------------------

_RESTYLING_SEQUENCE = re.compile(
    rb"""\x1b(?:
        \[(?P<params>[0-9;:]*)m
      | (?P<string>P[^\x1b]*+(?:\x1b[^\\][^\x1b]*+)*+(?:\x1b\\|\x1b?\Z))   # within it, nothing counts
      | \[\?(?P<modes>(?:[0-9]+;)*(?:47|1047|1049)(?:;[0-9]+)*)(?P<switch>[hl])
      | (?P<save>7|\[0*s) | (?P<restore>8|\[0*u) | (?P<reset>c)
    )""",
    re.VERBOSE,
)


def style_behind(data: bytes, style: Style = PLAIN_STYLE, *, inside: bool = False) -> Style:
    """Give the style of the main screen behind some bytes.

    Args:
        style: the one before them.
        inside: a full-screen program was drawing before them; what it draws changes no style of the main screen.
    """
    saved, under = PLAIN_STYLE, style
    for found in _RESTYLING_SEQUENCE.finditer(data):
        kind = found.lastgroup
        if kind == "params":
            style = restyled(style, found["params"].decode())
        elif kind == "save":
            saved = style
        elif kind == "restore":
            style = saved
        elif kind == "reset":
            style, inside = PLAIN_STYLE, False
        elif kind == "switch" and (found["switch"] == b"h") != inside:
            inside = not inside
            if inside:
                under = style
            elif b"1049" in found["modes"]:
                style = under
    return under if inside else style
