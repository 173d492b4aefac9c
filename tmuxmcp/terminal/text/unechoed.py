"""What was printed since something was typed, as clean text without the echo of that. Pure.

Blanks at the end of the line that the cursor is in count: a prompt mostly ends with one.
"""

from __future__ import annotations

import re

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.terminal.text.plain import column_behind, needs_grid, plain, without_left_out
from tmuxmcp.terminal.widths import text_width

LAST_LINE_BYTES = 4096
"""Raw bytes at the log's end that hold the line that the cursor is in."""

_LINE_EDITOR_STRETCH = re.compile(rb"\x1b\[\?2004h.*?(?:\x1b\[\?2004l|\Z)", re.DOTALL)
"""From where a line editor begins to read a line to where it has read it."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


def padded(text: str, width: int, col: int) -> str:
    """With blanks up to a column; `width`: of its last line."""
    return text + " " * (col - width)
