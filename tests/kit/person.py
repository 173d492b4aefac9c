"""A person at a terminal of their own, attached to a session by `tmuxmcp attach`, in a pty."""

from __future__ import annotations

import os
import pty
import termios
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

from tests.kit import forks
from tests.kit.agent import eventually
from tests.kit.tmux import plain_tmux

PREFIX = b"\x02"
"""C-b."""

BETWEEN_KEYS_S = 0.005
"""Time before a press of tmux's own keys: what follows within 1 ms it takes for pasted text (`assume-paste-time`)."""


def press(terminal: int, keys: bytes) -> None:
    """Press keys at a terminal; of tmux's own keys none right behind another, or behind its beginning."""
    if keys.startswith(PREFIX):
        time.sleep(BETWEEN_KEYS_S)
    os.write(terminal, keys)


class Person:
    """Who has a session before them and types."""

    def __init__(self, state_dir: Path, *words: str) -> None:
        """Attach: `words` are those of `tmuxmcp attach`."""
        self._state_dir = state_dir
        self.shown = b""
        """All that their terminal got."""
        home = {"HOME": str(state_dir / "home"), "PATH": "/usr/bin:/bin", "TERM": "xterm", "LANG": "C.UTF-8"}
        self._terminal, inner = pty.openpty()
        termios.tcsetwinsize(inner, (30, 100))
        words = ("attach", "--state-dir", str(state_dir), *words)
        self._process = forks.Fork(words, home, Path.cwd(), [inner] * 3, terminal=True)
        os.close(inner)
        self.pid = self._process.pid
        Thread(target=self._read, daemon=True).start()
        eventually(lambda: str(self.pid) in self._clients("#{client_pid}"))

    def _clients(self, form: str) -> list[str]:
        return plain_tmux(self._state_dir, "list-clients", "-F", form).splitlines()

    def _read(self) -> None:
        with suppress(OSError):  # the terminal is gone
            while data := os.read(self._terminal, 65536):
                self.shown += data

    def type(self, keys: bytes) -> None:
        """Press keys."""
        press(self._terminal, keys)

    @property
    def attached(self) -> bool:
        return str(self.pid) in self._clients("#{client_pid}")

    @property
    def may_type(self) -> bool:
        return f"{self.pid} 0" in self._clients("#{client_pid} #{client_readonly}")

    def hang_up(self) -> None:
        """Close the terminal's window."""
        os.close(self._terminal)
        self._process.wait()

    def kill(self) -> None:
        """End the terminal client as nothing can prepare for."""
        self._process.kill()
        self._process.wait()

    def leave(self) -> None:
        """Leave in good order, if still there."""
        self._process.terminate()
        self._process.wait()
        with suppress(OSError):
            os.close(self._terminal)
