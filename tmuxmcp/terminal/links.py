"""Addresses behind text (OSC 8) in rows as `capture-pane -e` prints them, which tmux 3.4 and newer do. Pure.

A program may put any address behind any text. Only what a browser may be asked to open counts: http and https, in
plain letters, so that what is shown of it is what is opened.
"""

from __future__ import annotations

import re

INTRODUCER = "\x1b]8;"
_SETS = re.compile(r"\x1b\]8;[^;\x07\x1b]*;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_ADDRESS = re.compile(r"https?://[!#-;=?-Z\[\]_a-z~%]+\Z", re.IGNORECASE)
MOST_CHARS = 2048

Piece = tuple[str, str]
"""A stretch of a row, and the address behind it; empty: none."""


def pieces(line: str) -> list[Piece]:
    """A row cut where the address behind its text changes; without the sequences that say so."""
    found, address, at = [], "", 0
    for sets in _SETS.finditer(line):
        found.append((line[at : sets.start()], address))
        address, at = openable(sets[1]), sets.end()
    return [*found, (line[at:], address)]


def openable(address: str) -> str:
    """An address that a person may be asked to open; empty: it is none."""
    return address if len(address) <= MOST_CHARS and _ADDRESS.match(address) else ""
