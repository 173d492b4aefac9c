"""The words that callers choose from, once for every face. Imports nothing that takes time."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from tmuxmcp.contract.value import value

WaitFor = Literal["none", "ready", "command", "idle", "pattern", "changed", "exit"]
"""What a call waits for."""


def conditions(wait_for: str | Sequence[str]) -> tuple[str, ...]:
    """The conditions of a wait, each once, of which any one ends it."""
    return (wait_for,) if isinstance(wait_for, str) else tuple(dict.fromkeys(wait_for))


WAIT_FOR_WORDS: tuple[str, ...] = get_args(WaitFor)

EVERY_SESSION = 100_000
"""As `limit` of a list: more than any machine has sessions."""

SignalName = Literal["INT", "TERM", "HUP", "KILL", "QUIT", "TSTP", "CONT", "USR1", "USR2"]
"""Signals that a caller may send, without SIG."""

SIGNAL_NAMES: tuple[str, ...] = get_args(SignalName)


def signal_name(given: object) -> object:
    """A signal as we name it, however it was written: `SIGTERM`, `sigterm`, `15`; anything else as it is."""
    word = str(given).strip().upper().removeprefix("SIG") if isinstance(given, str | int) else ""
    if word.isdecimal():
        return next((name for name in SIGNAL_NAMES if getattr(signal, f"SIG{name}") == int(word)), given)
    return word if word in SIGNAL_NAMES else given


Adopt = Literal["auto", "yes", "no", "undo"]
"""Whether `run` may type our marks into a shell."""

View = Literal["new", "screen", "diff", "scrollback", "raw"]
"""What of a session a read gives."""

SCREEN_VIEWS: frozenset[str] = frozenset({"screen", "diff"})
"""Views of what is visible; the others are of what was printed."""

PictureFormat = Literal["png", "svg", "html"]

FilmFormat = Literal["cast", "cast2", "txt", "ansi", "html", "svg", "gif", "jsonl"]
"""As what a stretch of a session can be exported."""

RecordedAs = Literal["cast", "cast2", "jsonl"]
"""As what a session is recorded."""

RecordingStage = Literal["running", "stopped", "saved", "discarded", "failed"]
"""What became of a recording: `stopped` has no file yet, `discarded` was not wanted, as nothing failed."""

FILM_FORMATS: tuple[str, ...] = get_args(FilmFormat)


def fish_quoted(text: str) -> str:
    """A text as one word of fish, which reads backslashes within quotes."""
    text = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


FileKind = Literal["file", "directory", "symlink", "fifo", "socket", "char_device", "block_device", "other"]
"""What a name in a directory is."""

PAUSE_HOLDER = "pause"
"""Who holds what was paused."""

Where = Literal["own", "nested", "remote"]
"""The session's own program; another process of this machine; one that no process here is known to be."""

TRACE_LEVEL = 5
"""The number of the `log_level` trace: each command to tmux and each look of a wait, by name and size alone."""


# ---- The newest part of what a session did, as a value that travels --------------------------------------------------

ASCIICAST_METHOD = "rpc.asciicast"
"""The method of JSON-RPC that gives one: no operation, but what the resource `.../recording` of MCP is made of."""


@value
class Cast:
    """The newest part of what a session did."""

    text: bytes
    """An asciicast of version 3."""
    begin: int
    """Offset of the log at which it begins."""
    end: int
    first: int
    """Offset from which on the log is kept: less than `begin` where the cast was cut."""

    def sent(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"text": self.text.decode(), "begin": self.begin, "end": self.end, "first": self.first}

    @classmethod
    def received(cls, sent: Mapping[str, Any]) -> Cast:
        """The cast that was sent."""
        return cls(str(sent["text"]).encode(), int(sent["begin"]), int(sent["end"]), int(sent["first"]))
