"""Text that only moves forward, or back within its line: one expression takes the escape sequences out.

Most output is of this kind, and needs no terminal: on any screen it stands as it was printed. Only the lines that go
back over themselves (progress bars, typed lines) have to be drawn, each by itself. A line feed begins a line, also
where a program left the terminal without returns before them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

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


def forward(data: bytes, cols: int, level: Callable[[bytes], str], drawn: Callable[[bytes], str]) -> list[str]:
    """Give the text of bytes without vertical moves and ignored sequences, in parts.

    Args:
        cols: the pane's width.
        level: the text of bytes that never go back.
        drawn: the text of a line that a terminal has to draw.
    """
    if data.count(b"\r") == data.count(b"\r\n"):
        data = data.translate(None, DROPPED_BYTES + b"\r")  # four times as fast as replacing each line end
    else:
        data = data.translate(None, DROPPED_BYTES).replace(b"\r\n", b"\n")
    data = _without_idle_erasing(data)
    pieces: list[str] = []
    pos = 0
    for start, end in _edited_lines(data) if _goes_back(data) else ():
        pieces += level(data[pos:start]), _edited_line(data[start:end], cols, level, drawn)
        pos = end
    pieces.append(level(data[pos:]))
    return pieces


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


def _edited_line(line: bytes, cols: int, level: Callable[[bytes], str], drawn: Callable[[bytes], str]) -> str:
    line = _without_idle_erasing(_without_outer_returns(line))
    if not _goes_back(line):
        return level(line)
    text = _overlaid(line, cols)
    return drawn(line) if text is None else text.rstrip(" ")


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


def without_styles(data: bytes) -> bytes:
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


def decode(data: bytes) -> str:
    """Bytes as text; what is not UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")
