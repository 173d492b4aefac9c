"""What a line editor showed of a command, compared with what it was given. Pure: bytes and text in, a verdict out."""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import takewhile

ECHO_LIMIT = 64 * 1024
"""Bytes of echo that are compared, at its beginning and at its end."""

TOLD_BY_BEGINNING = 2000
"""Characters: of a longer command, an equal beginning will do."""

COMPARED_END_CHARS = 12
"""Characters at a command's end by which it is told where a terminal shows no more of it."""


class Echo(StrEnum):
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


def compared(typed: str, shown: str, ending: str) -> Echo:
    """What a line editor showed, compared with what it was given.

    Args:
        shown: what it showed, or the beginning of that.
        ending: the same, or its end. An editor that scrolls sideways shows a line's last part behind a `<`.
    """
    wanted, seen, last = (_comparable(text) for text in (typed, shown, ending))
    if not wanted:
        return Echo.OURS if typed.strip() or not seen else Echo.OTHER
    begins = wanted if len(wanted) <= TOLD_BY_BEGINNING else wanted[:200]
    if begins in seen:
        return Echo.OURS if last.endswith(wanted[-200:]) else Echo.WITHIN
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(wanted[::-1], last[::-1], strict=False)))
    if same >= COMPARED_END_CHARS and "<" in last[-same - 1 : len(last) - same + 1]:
        return Echo.OURS
    return Echo.OTHER if shown.strip() else Echo.BLANK


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
