"""A person's terminal while something is shown live in it: drawn in place, keys read at once, left as it was."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio

ENTER_STAGE = "\x1b[?1049h\x1b[?7l\x1b[?25l\x1b[2J"
"""The alternate screen, without wrapping and cursor."""

LEAVE_STAGE = "\x1b[0m\x1b[?25h\x1b[?7h\x1b[?1049l"

LEAVE_KEYS = (b"q", b"Q", b"\x03")
"""Keys that end it; C-c comes as a key, because it may not end us half-way."""

SUSPEND_KEY = b"\x1a"

MOST_KEYS = 256
"""Keys that wait to be asked for."""

KEY_SEQUENCES = {
    **dict.fromkeys((b"\x1b[D", b"\x1bOD"), "left"),
    **dict.fromkeys((b"\x1b[C", b"\x1bOC"), "right"),
    **dict.fromkeys((b"\x1b[H", b"\x1bOH", b"\x1b[1~", b"\x1b[7~"), "home"),
    **dict.fromkeys((b"\x1b[F", b"\x1bOF", b"\x1b[4~", b"\x1b[8~"), "end"),
}
"""What terminals send for keys that have names here; other keys are their own characters."""

_PRESSED_KEY = re.compile(rb"\x1b\[[0-9;]*[ -~]|\x1bO.|[^\x1b]|\x1b(?!\Z|\[[0-9;]*\Z|O\Z)", re.DOTALL)


class Stage:
    """Draws rows; `left` is set when the person wants no more."""

    def __init__(self, keeps_keys: bool) -> None:
        self.left = anyio.Event()
        self.status = 0
        """Exit status that the person's leaving means."""
        self.reads_keys = os.isatty(0)
        self._modes = termios.tcgetattr(0) if self.reads_keys else None
        """Those of the terminal before we took it over."""
        self._ours = False
        self._keeps_keys = keeps_keys
        self._keys: list[str] = []
        self._unread = b""
        self._news = anyio.Event()
        self._shown: list[str] = []
        self._size = (0, 0)

    @classmethod
    @asynccontextmanager
    async def open(cls, keeps_keys: bool = False) -> AsyncIterator[Stage]:
        """Take over stdout, and stdin where it is a terminal, too.

        Args:
            keeps_keys: keys other than those that end it are wanted, too.
        """
        stage = cls(keeps_keys)
        async with anyio.create_task_group() as task_group:
            await task_group.start(stage._listen)  # from here on no signal ends us half-way
            try:
                stage._take()
                if stage.reads_keys:
                    task_group.start_soon(stage._read_keys)
                yield stage
            finally:
                stage._give_back()
                task_group.cancel_scope.cancel()

    def _take(self) -> None:
        """Make the terminal ours, also when it is already."""
        if self._modes:
            with self._leaving_if_gone():
                _keys_at_once(self._modes)
        self._size = (0, 0)
        if not self._ours:
            self._ours = True
            self._write(ENTER_STAGE)

    def _give_back(self) -> None:
        """Leave the terminal as it was; where it is gone, there is nothing to leave."""
        self._ours = False
        with suppress(OSError):
            self._write(LEAVE_STAGE)
        if self._modes:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._modes)

    def _suspend(self, whole_job: bool) -> None:
        """Stop as the shell expects of a job, and go on when it says so."""
        self._give_back()
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(0 if whole_job else os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        self._take()

    def keys(self) -> list[str]:
        """The keys that were pressed since this was last asked: characters, or names of `KEY_SEQUENCES`."""
        keys, self._keys = self._keys, []
        return keys

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal now."""
        cols, lines = self._size
        with self._leaving_if_gone():
            cols, lines = os.get_terminal_size(1)
        return max(cols, 1), max(lines, 1)

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

    def paint_above(self, bar: str, rows: Sequence[str], cursor: tuple[int, int] | None = None) -> None:
        """As `paint`, with a bar in the last line, where there is more than one."""
        cols, lines = self.size
        if lines > 1:
            rows = [*rows, *[""] * (lines - 1 - len(rows)), f"\x1b[7m{bar[:cols].ljust(cols)}"]
        self.paint(rows, cursor)

    async def wait(self, seconds: float, *others: Callable[[], Awaitable[object]]) -> None:
        """Wait for the time, one of the others, a key, another size or the end, whatever is first."""
        if self._keys or self.left.is_set():
            return
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as task_group:

                async def first(wait: Callable[[], Awaitable[object]]) -> None:
                    await wait()
                    task_group.cancel_scope.cancel()

                for wait in (self._news.wait, *others):
                    task_group.start_soon(first, wait)

    def _write(self, text: str) -> None:
        sys.stdout.flush()
        data = memoryview(text.encode("utf-8", "replace"))
        with self._leaving_if_gone():
            while data:
                data = data[os.write(1, data) :]

    @contextmanager
    def _leaving_if_gone(self) -> Iterator[None]:
        """A terminal that is gone ends it: with SIGHUP the kernel sends SIGCONT, and either may come first."""
        try:
            yield
        except (OSError, termios.error) as error:
            if error.args[0] != errno.EIO:
                raise
            self._leave(128 + signal.SIGHUP)

    def _leave(self, status: int = 0) -> None:
        if self.left.is_set():
            return
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
            if not keys:
                return self._leave(128 + signal.SIGHUP)
            if any(key in keys for key in LEAVE_KEYS):
                return self._leave()
            if SUSPEND_KEY in keys:
                self._suspend(whole_job=True)
            if self._keeps_keys:
                self._keys = [*self._keys, *self._parsed(keys.replace(SUSPEND_KEY, b""))][-MOST_KEYS:]
            self._wake()

    def _parsed(self, data: bytes) -> list[str]:
        data = self._unread + data
        found = [*_PRESSED_KEY.finditer(data)]
        self._unread = data[found[-1].end() if found else 0 :][-MOST_KEYS:]
        return [KEY_SEQUENCES.get(each[0]) or each[0].decode("latin-1") for each in found]

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def _listen(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
        others = (signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)
        with anyio.open_signal_receiver(*others, *ends) as signals:
            task_status.started()
            async for number in signals:
                if number in ends:
                    self._leave(0 if number == signal.SIGINT else 128 + number)
                elif number == signal.SIGTSTP:
                    self._suspend(whole_job=False)
                elif number == signal.SIGCONT:  # a shell may have set the terminal up for itself
                    self._take()
                self._wake()


def _keys_at_once(before: list[Any]) -> None:
    modes = [*before[:6], [*before[6]]]
    modes[0] &= ~termios.IXON  # C-s would stop what is drawn, and us with it
    modes[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
    termios.tcsetattr(0, termios.TCSADRAIN, modes)
