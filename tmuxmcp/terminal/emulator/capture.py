"""Rows as `capture-pane -e` prints them -> rows of one style each, plain rows, reverse video. Pure.

tmux prints a row's text with SGR sequences, and SO/SI around line-drawing cells, which stand there as letters.
Attributes carry over from row to row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import groupby
from typing import Any, NamedTuple

from tmuxmcp.contract.value import field, value
from tmuxmcp.terminal.emulator.grid import restyled
from tmuxmcp.terminal.emulator.sheet import LINE_DRAWING
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Style
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion, char_width, sanitize, text_width

_TOKEN = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|([\x0e\x0f])|\x1b.|([^\x1b\x0e\x0f]+)", re.S)

Styled = tuple[tuple[Style, str], ...]
"""A row: stretches of text of one style, without the blanks at the end; equal for rows that look the same."""

OVERLINE = re.compile(r"(?<![0-9:])5:3(?![0-9:])")
"""As tmux 3.3a writes it: as it writes kinds of underlines."""


@value
class Reverse:
    """A stretch of reverse video in one row."""

    row: int
    col: int
    text: str


@value
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


@value
class ShownScreen:
    """What a terminal shows at one moment."""

    cols: int
    rows: int
    lines: Sequence[str]
    """As `capture-pane -e` printed them."""
    cursor: tuple[int, int, bool]
    """Row, column, and whether it can be seen."""
    known: KnownRows = field(default_factory=KnownRows, compare=False, repr=False)
    """Rows of its session that were read before."""

    @cached_property
    def id(self) -> str:
        """Its screen id: two screens with the same id look the same, cursor and all."""
        what = f"{self.cols}x{self.rows} {self.cursor}\n" + "\n".join(self.lines)
        return blake2b(what.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()

    @property
    def version(self) -> TmuxVersion:
        """Of the tmux that counts its columns."""
        return self.known.version

    @cached_property
    def capture(self) -> Capture:
        """Its rows as text."""
        return self.known.capture(self.lines)

    @property
    def styled(self) -> list[Styled]:
        """Its rows with their looks: a line for each row of the screen."""
        lines = list(self.lines[: self.rows])
        return self.known.styled(lines + [""] * (self.rows - len(lines)))

    @property
    def texts(self) -> list[str]:
        """The text of each row, as the program wrote it: nothing made visible."""
        return ["".join([text for _, text in row]) for row in self.styled]

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, about."""
        return 500 + sum(160 + 2 * len(line) for line in self.lines)


NOTHING_SHOWN = ShownScreen(0, 0, (), (0, 0, False))
"""What a lost session shows."""


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


# ---- Addresses behind text (OSC 8) in rows as `capture-pane -e` prints them ------------------------------------------
#
# Which tmux 3.4 and newer do. Pure.
#
# A program may put any address behind any text. Only what a browser may be asked to open counts: http and https, in
# plain letters, so that what is shown of it is what is opened.

LINK_INTRODUCER = "\x1b]8;"
_LINK_COMMAND = re.compile(r"\x1b\]8;[^;\x07\x1b]*;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_COMMAND_BODY = re.compile(r"0*8;[^;]*;(.*)\Z", re.DOTALL)
_ADDRESS = re.compile(r"https?://[!#-;=?-Z\[\]_a-z~%]+\Z", re.IGNORECASE)
MOST_CHARS = 2048
ADDRESS_CHARS = 512
"""Characters of an address that a screen of ours keeps: each of its cells may have another one."""

LinkedText = tuple[str, str]
"""A stretch of a row, and the address behind it; empty: none."""


def pieces(line: str) -> list[LinkedText]:
    """A row cut where the address behind its text changes; without the sequences that say so."""
    found, address, at = [], "", 0
    for sets in _LINK_COMMAND.finditer(line):
        found.append((line[at : sets.start()], address))
        address, at = openable(sets[1]), sets.end()
    return [*found, (line[at:], address)]


def address_of_command(command: str) -> str | None:
    """The address behind the text after an operating system command; empty: none; None: the command is about others."""
    sets = _COMMAND_BODY.match(command)
    if sets is None:
        return None
    return openable(sets[1]) if len(sets[1]) <= ADDRESS_CHARS else ""


def openable(address: str) -> str:
    """An address that a person may be asked to open; empty: it is none."""
    return address if len(address) <= MOST_CHARS and _ADDRESS.match(address) else ""


# ---- What to ask tmux of a pane's screens ----------------------------------------------------------------------------
#
# And its answer as plain data: `seed.py` makes a Snapshot of it. Pure.
#
# Asked are `SCREEN_STATE_FORMAT`, `capture-pane -p -e -N`, and while the alternate screen is on also `capture-pane -a`
# with the same options; all in one command list, so that nothing is printed in between.

NUMBER_FIELDS = (
    *("pane_width", "pane_height", "cursor_x", "cursor_y", "scroll_region_upper", "scroll_region_lower"),
    *("alternate_on", "alternate_saved_x", "alternate_saved_y"),
)
MODE_FIELDS = {
    "cursor_flag": 25 << 5,
    "insert_flag": 4,
    "wrap_flag": 7 << 5,
    "origin_flag": 6 << 5,
    "keypad_cursor_flag": 1 << 5,
    "mouse_standard_flag": 1000 << 5,
    "mouse_button_flag": 1002 << 5,
    "mouse_all_flag": 1003 << 5,
    "mouse_utf8_flag": 1005 << 5,
    "mouse_sgr_flag": 1006 << 5,
}
"""The modes that tmux tells of, as a screen has them."""
CURSOR_NOT_SAVED = 2**32 - 1
"""What tmux says of a cursor that was not saved."""

SCREEN_STATE_FORMAT = " ".join(f"#{{{name}}}" for name in (*NUMBER_FIELDS, *MODE_FIELDS, "pane_tabs", "pane_title"))
"""What to ask `display-message -p` for."""


def looked(printed: Sequence[str]) -> dict[str, Any]:
    """Take apart the answers to `SCREEN_STATE_FORMAT` and to `capture-pane` of the screen and of the one under it.

    Raises:
        ValueError: that is not what tmux was asked for.
    """
    numbers = dict(zip(NUMBER_FIELDS, printed[0].split(" ") if printed else (), strict=False))
    try:
        cols, rows = int(numbers["pane_width"]), int(numbers["pane_height"])
    except (KeyError, ValueError):
        raise ValueError(f"not what tmux was asked for: {printed[:1]!r}") from None
    screen, under = list(printed[1 : rows + 1]), list(printed[rows + 1 :])
    return {"cols": cols, "rows": rows, "facts": printed[0], "screen": screen, "under": under}
