"""What Home and End send on a terminal type, as the programs that were started with it expect it (terminfo(5)).

tmux sends what its own types name, whatever TERM the program was given; xterm's types name other sequences.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping

import anyio

from tmuxmcp.machine.proc import environment

TMUX_SENDS = {"Home": b"\x1b[1~", "End": b"\x1b[4~"}

LOOKUP_S = 5
"""Longest time that one type's look-up may take; then tmux's own sequences are sent."""

MOST_TYPES = 64
"""Types that are remembered: a program may give itself any."""

_TERMINAL_TYPE = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_KEY_SEQUENCE = re.compile(rb"\x1b[\x20-\x7e]{1,8}")
# A process of its own: curses reads one type in its life.
_CURSES_CODE = """\
import curses, sys
curses.setupterm(sys.argv[1], 1)
for name in ("khome", "kend"):
    print((curses.tigetstr(name) or b"").hex())
"""
_known: dict[bytes, Mapping[str, bytes]] = {}


def type_of(pid: int) -> bytes:
    """The terminal type that a process was started with; empty where it cannot be told."""
    try:
        variables = environment(pid)
    except OSError:
        return b""
    return next((each[5:] for each in variables if each.startswith(b"TERM=")), b"")


async def home_and_end(term: bytes) -> Mapping[str, bytes]:
    """The sequences of Home and End that differ from what tmux sends, by tmux's names of the keys."""
    if not _TERMINAL_TYPE.fullmatch(term):
        return {}
    if term not in _known:
        found = await _looked_up(term.decode())
        if len(_known) >= MOST_TYPES:
            _known.clear()
        _known[term] = found
    return _known[term]


async def _looked_up(term: str) -> Mapping[str, bytes]:
    words = [sys.executable, "-I", "-c", _CURSES_CODE, term]
    try:
        with anyio.fail_after(LOOKUP_S):
            done = await anyio.run_process(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    except (OSError, TimeoutError):
        return {}
    lines = done.stdout.decode().split("\n")[:2] if done.returncode == 0 else []
    named = dict(zip(TMUX_SENDS, map(bytes.fromhex, lines), strict=False))
    return {key: data for key, data in named.items() if data != TMUX_SENDS[key] and _KEY_SEQUENCE.fullmatch(data)}
