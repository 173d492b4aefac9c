"""A person's terminal while something is shown live in it: drawn in place, keys read at once, left as it was."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import anyio

BEGIN = "\x1b[?1049h\x1b[?7l\x1b[?25l\x1b[2J"
"""The alternate screen, without wrapping and cursor."""

END = "\x1b[0m\x1b[?25h\x1b[?7h\x1b[?1049l"

LEAVE = (b"q", b"Q", b"\x03")
"""Keys that end it; C-c comes as a key, because it may not end us half-way."""


class Stage:
    """Draws rows; `left` is set when the person wants no more."""

    def __init__(self) -> None:
        self.left = anyio.Event()
        self.status = 0
        """Exit status that the person's leaving means."""
        self._news = anyio.Event()
        self._shown: list[str] = []
        self._size = (0, 0)

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[Stage]:
        """Take over stdout, and stdin where it is a terminal, too."""
        stage = cls()
        before = termios.tcgetattr(0) if os.isatty(0) else None
        async with anyio.create_task_group() as task_group:
            try:
                if before:
                    _keys_at_once()
                    task_group.start_soon(stage._read_keys)
                stage._write(BEGIN)
                await task_group.start(stage._listen)
                yield stage
            finally:
                stage._write(END)
                if before:
                    termios.tcsetattr(0, termios.TCSADRAIN, before)
                task_group.cancel_scope.cancel()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal now."""
        size = os.get_terminal_size(1)
        return max(size.columns, 1), max(size.lines, 1)

    def paint(self, rows: Sequence[str], cursor: tuple[int, int] | None = None) -> None:
        """Show rows, each no wider than the terminal; only what has changed is written.

        Args:
            cursor: row and column at which to show it, from 0.
        """
        cols, lines = self.size
        text = []
        if (cols, lines) != self._size:
            self._size, self._shown = (cols, lines), []
            text.append("\x1b[0m\x1b[2J")
        rows = [*rows[:lines], *[""] * (lines - len(rows))]
        for number, row in enumerate(rows):
            if number >= len(self._shown) or self._shown[number] != row:
                # Erased first: behind a full row the cursor still stands on its last column.
                text.append(f"\x1b[{number + 1};1H\x1b[0m\x1b[K{row}\x1b[0m")
        self._shown = rows
        visible = cursor is not None and cursor[0] < lines and cursor[1] < cols
        text.append(f"\x1b[{cursor[0] + 1};{cursor[1] + 1}H\x1b[?25h" if cursor and visible else "\x1b[?25l")
        self._write("".join(text))

    async def wait(self, seconds: float, *others: Callable[[], Awaitable[object]]) -> None:
        """Wait for the time, one of the others, another size or the end, whatever is first."""
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as task_group:

                async def first(wait: Callable[[], Awaitable[object]]) -> None:
                    await wait()
                    task_group.cancel_scope.cancel()

                for wait in (self._news.wait, *others):
                    task_group.start_soon(first, wait)

    def _write(self, text: str) -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()

    def _leave(self, status: int = 0) -> None:
        self.status = status
        self.left.set()
        self._news.set()

    async def _read_keys(self) -> None:
        while True:
            await anyio.wait_readable(0)
            try:
                keys = os.read(0, 1024)
            except OSError:  # the terminal is gone
                keys = b""
            if not keys or any(key in keys for key in LEAVE):
                return self._leave()

    async def _listen(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        with anyio.open_signal_receiver(signal.SIGWINCH, *ends) as signals:
            task_status.started()
            async for number in signals:
                if number in ends:
                    self._leave(0 if number == signal.SIGINT else 128 + number)
                self._news.set()
                self._news = anyio.Event()


def _keys_at_once() -> None:
    modes = termios.tcgetattr(0)
    modes[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
    termios.tcsetattr(0, termios.TCSADRAIN, modes)
