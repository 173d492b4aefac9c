"""Addresses behind text (OSC 8) in rows as `capture-pane -e` prints them, which tmux 3.4 and newer do. Pure.

A program may put any address behind any text. Only what a browser may be asked to open counts: http and https, in
plain letters, so that what is shown of it is what is opened.
"""

from __future__ import annotations

import re

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
