"""What was printed since something was typed, as clean text without the echo of that. Pure.

Blanks at the end of the line that the cursor is in count: a prompt mostly ends with one.
"""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import takewhile

from tmuxmcp.contract.value import value
from tmuxmcp.terminal.text.plain import column_behind, needs_grid, plain, without_left_out
from tmuxmcp.terminal.widths import text_width

LAST_LINE_BYTES = 4096
"""Raw bytes at the log's end that hold the line that the cursor is in."""

_LINE_EDITOR_STRETCH = re.compile(rb"\x1b\[\?2004h.*?(?:\x1b\[\?2004l|\Z)", re.DOTALL)
"""From where a line editor begins to read a line to where it has read it."""


@value
class Printed:
    """Bytes that were printed since something was typed."""

    data: bytes
    cols: int
    rows: int
    edited: tuple[tuple[int, int], ...] = ()
    """Where in them line editors showed what they read, from behind a prompt to its end."""


def edited_in(data: bytes) -> list[tuple[int, int]]:
    """Where line editors show what they read, by their word on pastes in brackets."""
    return [found.span() for found in _LINE_EDITOR_STRETCH.finditer(data)]


@value
class Echo:
    """What was typed, and what is known of how it is shown."""

    typed: str
    certain: bool = True
    """It is shown; else what goes on right behind the same text, in the same word, is no echo of it."""
    drawn: bool = False
    """No echo is being drawn any more: a beginning of it at the end of all was printed by a program."""


def unechoed(printed: Printed, echo: Echo) -> str:
    """Clean text without the echo of what was typed.

    What is typed while a command runs is echoed twice: by the terminal at once, then by the line editor behind the
    prompt at which it is read.
    """
    data = printed.data
    text = _clean(printed, data)
    before, left = "", ""
    for begin, end in printed.edited if echo.typed else ():
        upto, edited = _clean(printed, data[:begin]), _clean(printed, data[:end])
        if not (text.startswith(edited) and edited.startswith(upto) and upto.startswith(before)):
            break  # what was printed later has changed it
        between, shown = upto.removeprefix(before), edited.removeprefix(upto)
        left += (between if before else without_echo(between, echo)) + without_echo(shown, echo)
        before = edited
    rest = text.removeprefix(before)
    text = left + rest if before else without_echo(text, echo)
    return with_blanks(text, data[-LAST_LINE_BYTES:], printed.cols)


def _clean(printed: Printed, data: bytes) -> str:
    return without_left_out(plain(data, printed.cols, printed.rows).text)


def without_echo(text: str, echo: Echo) -> str:
    """`text` without the echo of what was typed, also while that is still being drawn.

    Blanks and line breaks do not count: a line editor wraps and indents what it echoes.
    """
    wanted = "".join(echo.typed.split())
    if not wanted:
        return text
    places = [at for at, char in enumerate(text) if not char.isspace()]
    seen = "".join(text[at] for at in places)
    begin = seen.find(wanted)
    while begin >= 0:
        end = places[begin + len(wanted) - 1] + 1
        if echo.certain or not text[end : end + 1].strip():
            return text[: places[begin]] + text[end:]
        begin = seen.find(wanted, begin + 1)
    for length in range(0 if echo.drawn else min(len(wanted) - 1, len(seen)), 0, -1):
        if seen.endswith(wanted[:length]):
            return text[: places[len(seen) - length]]
    return text


def with_blanks(text: str, data: bytes, cols: int) -> str:
    """Put back the blanks behind a line that was edited, as far as the cursor is behind them.

    Args:
        data: the end of what the text was made of.
    """
    line = data[data.rfind(b"\n") + 1 :]
    if not line or text.endswith("\n") or needs_grid(line):
        return text
    return padded(text, text_width(text.rpartition("\n")[2]), column_behind(line, cols))


def drawn_to_cursor(data: bytes, cols: int, rows: int) -> str | None:
    """The text up to the cursor where that was moved up, or to a place, since the last newline; else None.

    What stands below it, as the toolbar of a line editor does, is none of that text.

    Args:
        data: the end of what was printed.
        cols, rows: size of the terminal.
    """
    if not needs_grid(data[data.rfind(b"\n") + 1 :]):
        return None
    from tmuxmcp.terminal.text.textscreen import TextScreen  # late: few programs move the cursor up

    screen = TextScreen(cols, rows, rows - 1)
    screen.feed(data)
    text = screen.text_to_cursor()
    return padded(text, text_width(text.rpartition("\n")[2]), screen.cursor.x)


def padded(text: str, width: int, col: int) -> str:
    """With blanks up to a column; `width`: of its last line."""
    return text + " " * (col - width)


# ---- What a line editor showed of a command --------------------------------------------------------------------------
#
# Compared with what it was given. Pure: bytes and text in, a verdict out.

ECHO_LIMIT = 64 * 1024
"""Bytes of echo that are compared, at its beginning and at its end."""

TOLD_BY_BEGINNING = 2000
"""Characters: of a longer command, an equal beginning will do."""

COMPARED_END_CHARS = 12
"""Characters at a command's end by which it is told where a terminal shows no more of it."""


class EditorEcho(StrEnum):
    """What the shell showed of the command that it took at a prompt."""

    OURS = "ours"
    WITHIN = "within"
    """Ours and more: most likely drawn around ours, but another command may hold ours as a part."""
    BLANK = "blank"
    """Nothing can be seen there: the terminal does not echo, or somebody pressed Enter alone."""
    OTHER = "other"
    """Something else than ours: somebody's command, or ours in a way that we do not know."""
    LOST = "lost"
    """Not recorded, or no longer kept."""


def compared(typed: str, shown: str, ending: str) -> EditorEcho:
    """What a line editor showed, compared with what it was given.

    Args:
        shown: what it showed, or the beginning of that.
        ending: the same, or its end. An editor that scrolls sideways shows a line's last part behind a `<`.
    """
    wanted, seen, last = (_comparable(text) for text in (typed, shown, ending))
    if not wanted:
        return EditorEcho.OURS if typed.strip() or not seen else EditorEcho.OTHER
    begins = wanted if len(wanted) <= TOLD_BY_BEGINNING else wanted[:200]
    if begins in seen:
        return EditorEcho.OURS if last.endswith(wanted[-200:]) else EditorEcho.WITHIN
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(wanted[::-1], last[::-1], strict=False)))
    if same >= COMPARED_END_CHARS and "<" in last[-same - 1 : len(last) - same + 1]:
        return EditorEcho.OURS
    return EditorEcho.OTHER if shown.strip() else EditorEcho.BLANK


def _comparable(text: str) -> str:
    """Without what a line editor changes in its echo: blanks, wrapping, control characters, `^J` for a newline."""
    return "".join(char for char in text if "!" <= char <= "~").replace("^J", "")


_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


def shows_nothing(data: bytes) -> bool:
    """Whether a line editor showed no character, be it only for a moment: one that fills a row erases the next."""
    return not _SEQUENCE.sub(b"", data).translate(None, bytes(range(0x21)))


def on_one_line(data: bytes) -> bytes:
    """What a line editor showed, without what it goes to the next row with: a blank that it erases.

    For tmux a row that was erased whole does not go on the one above.
    """
    return data.replace(b" \r\x1b[K", b"")


_PASTE_MODE_OFF = re.compile(rb"\x1b\[\?2004l\r(?:\x1b\[[0-9]*B)?(?:\r+\n)?")
"""bash goes to the next line before it, zsh after."""


def behind_echo(data: bytes) -> int:
    """Where the line editor, having taken the line, gives the terminal back; 0: it has not taken it.

    There it ends bracketed paste, if it had begun it; else the line's end tells.
    """
    return behind_paste_mode(data) or data.find(b"\n") + 1


def behind_paste_mode(data: bytes) -> int:
    """Where the line editor ended bracketed paste when it gave the terminal back; 0: it did not."""
    ends = list(_PASTE_MODE_OFF.finditer(data))
    return ends[-1].end() if ends else 0
