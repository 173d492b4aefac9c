"""Text that only moves forward, or back within its line: one expression takes the escape sequences out.

Only lines that go back over themselves (progress bars, typed lines) are replayed, one screen row at a time. Pure.
"""

from __future__ import annotations

import re

from tmuxmcp.terminal.lineedit import LineEditor, decode

# Where tmux lets a sequence end; an unfinished one at the end of the piece goes too. What moves or erases within
# its line is kept for the editor.
IGNORED_SEQUENCE = re.compile(
    rb"""\x1b(?:
        \[[0-9;:]*m
      | \[(?!0*J|[0-9;:]*[@CDGKPXZ`b])[0-?]*[ -/]*[@-~]?
      | \][^\x07\x1b\x18\x1a]*(?:\x07|\x1b\\|[\x18\x1a])?                 # OSC
      | P[^\x1b]*+(?:\x1b[^\\][^\x1b]*+)*+(?:\x1b\\|\x1b\Z)?              # DCS: only ESC \ ends it
      | [X^_k][^\x1b\x18\x1a]*(?:\x1b\\|[\x18\x1a])?                      # SOS, PM, APC, title
      | (?!\[)[ -/]*[0-~]?
    )""",
    re.VERBOSE,
)
DROPPED_BYTES = bytes(code for code in range(0x20) if code not in b"\b\t\n\r\x1b") + b"\x7f"
EDITING_BYTE = re.compile(rb"[\r\x08\x1b]")
_ERASE_RIGHT = re.compile(rb"\x1b\[0*[JK]")
_MOVE_BACK = re.compile(rb"[\r\x08]|\x1b\[[0-9;:]*[DGZ`]")


def forward(data: bytes, cols: int) -> str:
    """Give the text of bytes without vertical moves, in a pane of so many columns."""
    if b"\x1b" in data:
        data = IGNORED_SEQUENCE.sub(b"", data)
    if data.count(b"\r") == data.count(b"\r\n"):
        data = data.translate(None, DROPPED_BYTES + b"\r")  # four times as fast as replacing each line end
    else:
        data = data.translate(None, DROPPED_BYTES).replace(b"\r\n", b"\n")
    data = without_idle_erasing(data)
    if not (b"\r" in data or b"\b" in data or b"\x1b" in data):  # far faster than one search for all of them
        return decode(data)
    return _with_edited_lines(data, cols)


def _with_edited_lines(data: bytes, cols: int) -> str:
    pieces: list[str] = []
    pos = 0
    while hit := EDITING_BYTE.search(data, pos):
        start = data.rfind(b"\n", pos, hit.start()) + 1 or pos
        end = data.find(b"\n", hit.end())
        end = len(data) if end < 0 else end
        pieces += decode(data[pos:start]), _edited_line(data[start:end], cols)
        pos = end
    pieces.append(decode(data[pos:]))
    return "".join(pieces)


def without_idle_erasing(data: bytes) -> bytes:
    """Drop "erase to the right" where nothing moved back: grep and gcc print it at every coloured word."""
    if b"\x1b" in data and not _MOVE_BACK.search(data):
        return _ERASE_RIGHT.sub(b"", data)
    return data


def _edited_line(line: bytes, cols: int) -> str:
    line = without_idle_erasing(line.strip(b"\r"))
    if not EDITING_BYTE.search(line):
        return decode(line)
    text = _overlaid(line, cols)
    if text is None:
        editor = LineEditor(cols)
        editor.feed(line)
        return editor.text()
    return text.rstrip(" ")


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


def column_behind(line: bytes, cols: int) -> int:
    """The cursor's column behind a begun line; `cols` when the row is full."""
    editor = LineEditor(max(cols, 1))
    editor.feed(IGNORED_SEQUENCE.sub(b"", line).translate(None, DROPPED_BYTES))
    return editor.col
