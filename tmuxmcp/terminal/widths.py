"""How many columns tmux gives a character."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

ZERO_WIDTH_JOINER = "\u200d"

MAX_CELL = 32
"""Characters of the longest cluster kept in one cell; the longest emoji family has 11."""

_WIDTH_EXCEPTIONS = {0xAD: 1, 0x3164: 2, 0xFFA0: 1, **dict.fromkeys(range(0x1F1E6, 0x1F200), 1)}
"""Soft hyphen, Hangul fillers, regional indicators."""


def is_dropped(char: str) -> bool:
    """Whether tmux shows nothing of this character: line separators and what is none."""
    code = ord(char)
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF or code in (0x2028, 0x2029)


@lru_cache(maxsize=16384)
def char_width(char: str) -> int:
    """Columns of one character: 0 joins the cell before it, 1, or 2.

    The tables are wcwidth's; the exceptions are what tmux 3.3a was seen to do.
    """
    code = ord(char)
    if code < 0x7F:
        return 1 if code >= 0x20 else 0
    if code in _WIDTH_EXCEPTIONS:
        return _WIDTH_EXCEPTIONS[code]
    if is_dropped(char):
        return 0
    if unicodedata.category(char) == "Mc":  # spacing vowel signs
        return 1
    from wcwidth import wcwidth  # late: its tables are not needed for ASCII

    return max(0, int(wcwidth(char)))


def text_width(text: str) -> int:
    """Columns of a text."""
    return len(text) if text.isascii() else sum(width for _, width in clusters(text))


def clusters(text: str) -> Iterator[tuple[str, int]]:
    """What stands in the cells of a text, each with its columns: a character and all that joins it."""
    cluster, width = "", 0
    for char in text:
        own = char_width(char)
        if cluster and (own == 0 or cluster.endswith(ZERO_WIDTH_JOINER)):
            cluster += char
            continue
        if cluster:
            yield cluster, width
        cluster, width = (char, own) if own else (" " + char, 1)
    if cluster:
        yield cluster, width
