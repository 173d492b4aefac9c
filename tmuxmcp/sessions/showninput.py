"""What was typed into a session, for a recording that wants it: written down once the terminal has shown it.

A secret that is typed while echo is off is never shown, so it is never written down, whatever was thought of the
terminal when it was typed. Until it is shown it is in memory only: a killed broker forgets it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.record.events import Events, ShownEvent
from tmuxmcp.record.log import RawLog
from tmuxmcp.terminal.text.plain import plain
from tmuxmcp.terminal.text.unechoed import ECHO_LIMIT

INPUT_CHARS = 4096
"""Characters of one input that are written down; of a longer one only the size is."""

MOST_WAITING = 64
"""Inputs that the terminal has not shown yet."""

_NAMED_KEY_TEXT = {"Enter": "\r", "KPEnter": "\r", "Tab": "\t", "Escape": "\x1b", "BSpace": "\x7f"}
_CONTROL_KEY_TEXT = {f"C-{chr(ord('a') + at)}": chr(at + 1) for at in range(26)}
KEYS_SEND = _NAMED_KEY_TEXT | _CONTROL_KEY_TEXT
"""Keys that send the same in every terminal mode, and what they send."""


@dataclass(frozen=True)
class _AwaitedEcho:
    at_s: float
    offset: int
    text: str


def one_line(text: str, keys: Iterable[str]) -> str | None:
    """What a text and keys behind it send; None: more than one line, whose rest another program may read.

    Args:
        keys: tmux's names.
    """
    sent = [KEYS_SEND.get(key) for key in keys]
    if None in sent:
        return None
    whole = text.replace("\n", "\r") + "".join(filter(None, sent))
    return None if "\r" in whole[:-1] else whole


class ShownInput:
    """Of one session."""

    def __init__(self, log: RawLog, events: Events) -> None:
        self._log, self._events = log, events
        self._waiting: deque[_AwaitedEcho] = deque(maxlen=MOST_WAITING)

    def note_typed(self, offset: int, text: str) -> None:
        """Take note of what was typed just now, where the terminal shows what is typed.

        Args:
            offset: size of the log before.
        """
        if text and len(text) <= INPUT_CHARS:
            self._waiting.append(_AwaitedEcho(time.time(), offset, text))

    def write_shown(self, cols: int, rows: int) -> None:
        """Write down what the terminal has shown by now; what it does not show is forgotten later."""
        waiting, self._waiting = self._waiting, deque(maxlen=MOST_WAITING)
        for each in waiting:
            data = self._log.read(each.offset, ECHO_LIMIT)
            if is_in(each.text, plain(data, cols, rows).text):
                self._events.append(ShownEvent(iso(each.at_s), each.offset, each.text))
            elif len(data) < ECHO_LIMIT:
                self._waiting.append(each)


def is_in(typed: str, shown: str) -> bool:
    """Whether each line of what was typed was shown, one behind the other."""
    seen, at = _visible(shown), 0
    for line in typed.replace("\r", "\n").split("\n"):
        wanted = _visible(line)
        at = seen.find(wanted, at)
        if at < 0:
            return False
        at += len(wanted)
    return True


def _visible(text: str) -> str:
    """Without what a terminal or a line editor changes: blanks, wrapping, control characters."""
    return "".join(char for char in text if char.isprintable() and not char.isspace())
