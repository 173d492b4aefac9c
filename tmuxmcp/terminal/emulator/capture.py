"""Rows as `capture-pane -e` prints them -> rows of one style each, plain rows, reverse video. Pure.

tmux prints a row's text with SGR sequences, and SO/SI around line-drawing cells, which stand there as letters.
Attributes carry over from row to row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.terminal.emulator.sgr import restyled
from tmuxmcp.terminal.emulator.sheet import LINE_DRAWING
from tmuxmcp.terminal.sanitize import sanitize
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Style
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion, char_width, text_width

_TOKEN = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|([\x0e\x0f])|\x1b.|([^\x1b\x0e\x0f]+)", re.S)

Styled = tuple[tuple[Style, str], ...]
"""A row: stretches of text of one style, without the blanks at the end; equal for rows that look the same."""

OVERLINE = re.compile(r"(?<![0-9:])5:3(?![0-9:])")
"""As tmux 3.3a writes it: as it writes kinds of underlines."""


@dataclass(frozen=True)
class Reverse:
    """A stretch of reverse video in one row."""

    row: int
    col: int
    text: str


@dataclass(frozen=True)
class Capture:
    """A screen as text."""

    rows: list[str]
    """Trailing blanks cut; as many as the screen has."""
    reversed: list[Reverse]
    sanitized: bool


@lru_cache(maxsize=4096)
def _after(style: Style, params: str) -> Style:
    return restyled(style, OVERLINE.sub("53", params))


class _CapturedRow(NamedTuple):
    """One row that was read."""

    begins: tuple[Style, bool]
    """The style that carries over into it, and whether its letters are line-drawing cells."""
    ends: tuple[Style, bool]
    """The same for the next one."""
    styled: Styled
    text: str
    """Safe to show."""
    sanitized: bool
    reversed: list[tuple[int, str]]
    """Columns and texts of what stands in reverse video."""


class KnownRows:
    """The rows of one capture; those that stand in the next one as well are not read again."""

    def __init__(self, version: TmuxVersion = OLDEST_VERSION) -> None:
        self.version = version
        """Of the tmux that captured them."""
        self._rows: dict[str, _CapturedRow] = {}

    def styled(self, lines: Iterable[str]) -> list[Styled]:
        """Read the rows of one capture."""
        return [row.styled for row in self._read(lines)]

    def capture(self, lines: Iterable[str]) -> Capture:
        """Read the rows of one capture as text, with what stands in reverse video."""
        rows = self._read(lines)
        stretches = [Reverse(number, col, text) for number, row in enumerate(rows) for col, text in row.reversed]
        return Capture([row.text for row in rows], stretches, any(row.sanitized for row in rows))

    def _read(self, lines: Iterable[str]) -> list[_CapturedRow]:
        known: dict[str, _CapturedRow] = {}
        rows = []
        carried = (PLAIN_STYLE, False)
        for line in lines:
            row = known.get(line) or self._rows.get(line)
            if row is None or row.begins != carried:
                row = _read_row(line, carried, self.version)
            known[line] = row
            rows.append(row)
            carried = row.ends
        self._rows = known
        return rows


def _read_row(line: str, begins: tuple[Style, bool], version: TmuxVersion) -> _CapturedRow:
    """Read one row, into which this carries over."""
    style, drawing = begins
    stretches: list[tuple[Style, str]] = []
    if "\x1b" in line or "\x0e" in line or "\x0f" in line:
        for token in _TOKEN.finditer(line):
            params, shift, text = token.groups()
            if params is not None:
                style = _after(style, params)
            elif shift:
                drawing = shift == "\x0e"
            elif text:
                stretches.append((style, text.translate(LINE_DRAWING) if drawing else text))
    elif line:
        stretches = [(style, line.translate(LINE_DRAWING) if drawing else line)]
    styled = _tidy(stretches)
    clean, changed = sanitize("".join([text for _, text in styled]).rstrip())
    return _CapturedRow(begins, (style, drawing), styled, clean, changed, _reversed(styled, version))


def _tidy(stretches: list[tuple[Style, str]]) -> Styled:
    """Join neighbours of one style; drop the blanks at the end that cannot be seen."""
    while stretches and _unseen(stretches[-1][0]):
        style, text = stretches.pop()
        if text := text.rstrip(" "):
            stretches.append((style, text))
            break
    if len(stretches) < 2:
        return tuple(stretches)
    joined = groupby(stretches, key=lambda stretch: stretch[0])
    return tuple((style, "".join([text for _, text in group])) for style, group in joined)


def _unseen(style: Style) -> bool:
    """Whether a blank of this style looks like none."""
    return style.bg is None and not (style.reverse or style.underline or style.strike or style.overline)


def _reversed(row: Styled, version: TmuxVersion) -> list[tuple[int, str]]:
    """Stretches in reverse video, without the blanks around them: a menu's bar is often as wide as the menu."""
    if not any(style.reverse for style, _ in row):
        return []
    found = []
    col = 0
    for reverse, group in groupby(row, key=lambda stretch: stretch[0].reverse):
        text = "".join([text for _, text in group])
        bare = text.strip()
        if reverse and bare:
            before = len(text) - len(text.lstrip())
            found.append((col + text_width(text[:before], version), sanitize(bare)[0]))
        col += text_width(text, version)
    return found


def clip(lines: list[str], cols: int, version: TmuxVersion = OLDEST_VERSION) -> list[str]:
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
                width += char_width(char, version)
                if width <= cols:
                    made.append(char)
        rows.append("".join(made))
    return rows
