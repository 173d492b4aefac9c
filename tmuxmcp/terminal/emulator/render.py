"""Screens as text, plain or with colours, and what has changed between two, row by row. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tmuxmcp.terminal.emulator.sgr import MAX_FIELDS, MAX_PARAMS
from tmuxmcp.terminal.sanitize import sanitize
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, UNDERLINES, Colour, Style

_ATTRIBUTES = {"bold": 1, "faint": 2, "italic": 3, "blink": 5, "reverse": 7, "conceal": 8, "strike": 9, "overline": 53}

RESET_STYLE = "\x1b[0m"
"""Back to the terminal's own style."""


def changed_rows(before: Sequence[object], after: Sequence[object]) -> list[int]:
    """Give the rows in which two screens of one size differ; both as one comparable value for each row."""
    return [row for row, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]


def numbered(rows: Sequence[str], chosen: Iterable[int]) -> list[str]:
    """Give some rows with their numbers before them, as ` 3| text`."""
    digits = len(str(len(rows) - 1)) + 1
    return [f"{row:{digits}}| {rows[row]}".rstrip(" ") for row in chosen]


def ansi_row(row: Iterable[tuple[Style, str]]) -> str:
    """Write a row's stretches with SGR sequences: it begins and ends in the terminal's own style."""
    made, before = [], PLAIN_STYLE
    for style, text in row:
        made += [sgr(before, style), sanitize(text)[0]]
        before = style
    return "".join([*made, sgr(before, PLAIN_STYLE)])


def shortened(text: str, limit: int) -> str:
    """Cut a text, with SGR sequences or without, to so many bytes: whole sequences, and at the end none is open."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    kept, ends = _whole_sequences(data[:limit])
    if not ends:
        kept, ends = _whole_sequences(data[: max(limit - len(RESET_STYLE), 0)])
    return kept if ends else kept + RESET_STYLE


def _whole_sequences(data: bytes) -> tuple[str, bool]:
    """The text without a sequence or character that is cut, and whether it ends in the terminal's own style."""
    text = data.decode("utf-8", "ignore")
    last = text.rfind("\x1b")
    if last >= 0 and "m" not in text[last:]:
        text = text[:last]
        last = text.rfind("\x1b")
    return text, last < 0 or text.startswith(RESET_STYLE, last)


@lru_cache(maxsize=4096)
def sgr(before: Style, after: Style) -> str:
    """Give the sequences that change one style to another: what is added, or a reset and all of it. Not the link."""
    before, after = before._replace(link=""), after._replace(link="")
    if before == after:
        return ""
    if after == PLAIN_STYLE:
        return RESET_STYLE
    lost = any(old != none and new == none for old, new, none in zip(before, after, PLAIN_STYLE, strict=True))
    first = ["0"] if lost else []
    before = PLAIN_STYLE if lost else before
    first += [str(code) for name, code in _ATTRIBUTES.items() if getattr(after, name) and not getattr(before, name)]
    if after.underline != before.underline:
        kind = UNDERLINES.index(after.underline)
        first.append("4" if kind == 1 else f"4:{kind}")
    first += _colour(after.fg, 30, 38) if after.fg != before.fg else []
    second = _colour(after.bg, 40, 48) if after.bg != before.bg else []
    if after.underline_colour != before.underline_colour:
        second += _colour(after.underline_colour, 0, 58)
    if len(";".join([*first, *second])) <= MAX_PARAMS and len(first) + len(second) <= MAX_FIELDS:
        return f"\x1b[{';'.join([*first, *second])}m"
    return f"\x1b[{';'.join(first)}m\x1b[{';'.join(second)}m"


def _colour(colour: Colour, low: int, extended: int) -> list[str]:
    match colour:
        case None:
            return []
        case (red, green, blue):
            return [f"{extended};2;{red};{green};{blue}"]
        case int() if low and colour < 8:
            return [str(low + colour)]
        case int() if low and colour < 16:
            return [str(low + 60 + colour - 8)]
    return [f"{extended};5;{colour}"]
