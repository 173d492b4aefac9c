"""Rows as `capture-pane -e` prints them -> plain rows and what stands in reverse video. Pure.

tmux prints a row's text with SGR sequences, and SO/SI around line-drawing cells, which stand there as letters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tmuxmcp.terminal.plain import sanitize
from tmuxmcp.terminal.widths import char_width

_TOKEN = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|([\x0e\x0f])|\x1b.|([^\x1b\x0e\x0f]+)", re.S)
LINE_DRAWING = str.maketrans("`afgijklmnopqrstuvwxyz{|}~+,-.0", "◆▒°±␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·→←↑↓█")


@dataclass(frozen=True)
class Reverse:
    """A stretch of reverse video in one row."""

    row: int
    col: int
    """In characters of the row's text."""
    text: str


@dataclass(frozen=True)
class Capture:
    """A screen as text."""

    rows: list[str]
    """Trailing blanks cut; as many as the screen has."""
    reversed: list[Reverse]
    sanitized: bool


def parse_capture(lines: list[str]) -> Capture:
    """Read the rows of one capture; attributes carry over from row to row, as tmux prints them."""
    rows: list[str] = []
    stretches: list[Reverse] = []
    reverse = drawing = sanitized = False
    for number, line in enumerate(lines):
        text = ""
        begun: int | None = 0 if reverse else None
        for token in _TOKEN.finditer(line):
            if token.group(1) is not None:
                now = _reverse_after(token.group(1), reverse)
                if now and not reverse:
                    begun = len(text)
                elif reverse and not now and begun is not None:
                    stretches.append(Reverse(number, begun, text[begun:]))
                    begun = None
                reverse = now
            elif token.group(2):
                drawing = token.group(2) == "\x0e"
            elif token.group(3):
                text += token.group(3).translate(LINE_DRAWING) if drawing else token.group(3)
        if begun is not None and reverse:
            stretches.append(Reverse(number, begun, text[begun:]))
        clean, changed = sanitize(text.rstrip())
        sanitized |= changed
        rows.append(clean)
    return Capture(rows, [each for each in map(_trimmed, stretches) if each.text], sanitized)


def clip(lines: list[str], cols: int) -> list[str]:
    """Rows of one capture cut to `cols` columns; each with all its attributes, so that it can be drawn alone."""
    rows = []
    style, drawing = "", False
    for line in lines:
        made, width = [style], 0
        for token in _TOKEN.finditer(line):
            if token[1] is not None:
                first = token[1].split(";")[0]
                style = ("" if token[1] in ("", "0") else token[0]) if first in ("", "0") else style + token[0]
                made.append(token[0])
            elif token[2]:
                drawing = token[2] == "\x0e"
            for char in (token[3] or "").translate(LINE_DRAWING if drawing else {}):
                width += char_width(char)
                if width <= cols:
                    made.append(char)
        rows.append("".join(made))
    return rows


def _reverse_after(parameters: str, reverse: bool) -> bool:
    for parameter in parameters.split(";"):
        if parameter in ("", "0", "27"):
            reverse = False
        elif parameter == "7":
            reverse = True
    return reverse


def _trimmed(stretch: Reverse) -> Reverse:
    """Without the blanks around it: a menu's bar is often as wide as the menu."""
    text = stretch.text.strip()
    return Reverse(stretch.row, stretch.col + len(stretch.text) - len(stretch.text.lstrip()), sanitize(text)[0])
