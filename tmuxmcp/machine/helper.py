"""A process of its own for work on foreign text that can hang, grow without end, or crash what does it.

The process starts with the first question and stays. It answers one question at a time. When it dies, takes too long or
answers nonsense, that question has no answer, and the next one starts another process. `serving.py` is its side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp.machine.process import PIPE_BYTES

HELPER_START_S = 20.0
"""For a start, which takes 0.1 s on a quiet machine."""

MESSAGE_BYTES = 16 * 1024 * 1024
"""Of a question, and of an answer."""

NICEST = 19

MOST_ASKERS = 1000
"""Whose time is remembered."""


class AskerTurns:
    """Lets one ask at a time; of those that wait, the one who took the least time so far is next."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()
        """Milliseconds of each who asked."""
        self._waiting: list[tuple[str, anyio.Event]] = []
        self._taken = False

    @asynccontextmanager
    async def of(self, asker: str) -> AsyncIterator[None]:
        """Wait for a turn, and keep it while this is open."""
        await self._take(asker)
        begun = time.monotonic()
        try:
            yield
        finally:
            if len(self._spent) >= MOST_ASKERS:
                self._spent.clear()
            self._spent[asker] += int((time.monotonic() - begun) * 1000)
            self._taken = False
            self._next()

    async def _take(self, asker: str) -> None:
        if not self._taken:
            self._taken = True
            return
        mine = (asker, anyio.Event())
        self._waiting.append(mine)
        try:
            await mine[1].wait()
        except BaseException:  # cancelled, perhaps after it was our turn
            if mine in self._waiting:
                self._waiting.remove(mine)
            else:
                self._taken = False
                self._next()
            raise

    def _next(self) -> None:
        if self._waiting:
            first = min(self._waiting, key=lambda each: self._spent[each[0]])
            self._waiting.remove(first)
            self._taken = True
            first[1].set()


class Helper:
    """The process, and who asks it."""

    limit_s: float = 5.0
    """For a question and its answer, by the clock: the process may be stopped. It limits its processor time itself."""
    idle = False
    """The process takes only the processor time that nobody else wants."""

    def __init__(self, script: Path, packages: Sequence[str]) -> None:
        """
        Args:
            script: what the process runs; it calls `serving.serve`.
            packages: what it imports beside Python's own.
        """
        self.process: subprocess.Popen[bytes] | None = None
        self.started = False
        """The process has said that it listens; from then on it ends with us, also while it is stopped."""
        self.script, self._packages = script, packages
        self._turns = AskerTurns()

    def close(self) -> None:
        """End the process; the next question would start another one."""
        process, self.process, self.started = self.process, None, False
        if process:
            process.kill()
            with process:
                pass  # its pipes are closed, and it is waited for

    async def ask(self, question: Any, asker: str = "", *, whole: bool = False) -> Any:
        """Its answer.

        Args:
            asker: in whose name; who took less time before waits less.
            whole: when cancelled, wait for the answer instead of ending the process.

        Raises:
            EOFError, ConnectionError: it ended before it was asked, or could not start.
            TimeoutError: it gave no answer in time by the clock.
            ValueError, RecursionError: question or answer is too long; the text ended it; it answered nonsense.
            OSError: it could not be started.
        """
        data = json.dumps(question, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if len(data) > MESSAGE_BYTES:
            raise ValueError("the question is too long")
        async with self._turns.of(asker):
            with anyio.CancelScope(shield=whole):
                stayed = self.process is not None
                try:
                    return await self._exchange(data)
                except (EOFError, ConnectionError):
                    if not stayed:
                        raise
                    return await self._exchange(data)  # it had died before it was asked

    async def _exchange(self, data: bytes) -> Any:
        """Ask, and start the process first if there is none. Where no answer comes of it, it is ended."""
        try:
            if self.process is None:
                self.process = _start(self.script, self._packages)
                if self.idle:
                    _stand_back(self.process.pid)
                with anyio.fail_after(HELPER_START_S):
                    await _read(self.process)
                self.started = True
            with anyio.fail_after(self.limit_s):
                await _write(self.process, data)
                return json.loads(await _read(self.process))
        except BaseException:
            self.close()
            raise


def _start(script: Path, packages: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the process, in the thread of the event loop: it ends with the thread that starts it."""
    found = (find_spec(name) for name in packages)
    directories = dict.fromkeys(str(Path(spec.origin).parents[1]) for spec in found if spec and spec.origin)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(script), *directories],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env={},
        cwd="/",
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    os.set_blocking(process.stdin.fileno(), False)
    os.set_blocking(process.stdout.fileno(), False)
    return process


def _stand_back(pid: int) -> None:
    """Have a process take only the processor time that nobody else wants."""
    with suppress(OSError):  # it may have ended
        os.setpriority(os.PRIO_PROCESS, pid, NICEST)
        if hasattr(os, "SCHED_IDLE"):
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


async def _write(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin
    view = memoryview(len(data).to_bytes(4, "big") + data)
    while view:
        try:
            view = view[os.write(process.stdin.fileno(), view) :]
        except BlockingIOError:
            await anyio.wait_writable(process.stdin)


async def _read(process: subprocess.Popen[bytes]) -> bytes:
    """An answer: a byte, its length in four, and so many.

    Raises:
        EOFError: not even the byte came.
        ValueError: it is too long, or not whole.
    """
    assert process.stdout
    received, size = bytearray(), 5
    while len(received) < size:
        try:
            piece = os.read(process.stdout.fileno(), PIPE_BYTES)
        except BlockingIOError:
            await anyio.wait_readable(process.stdout)
            continue
        if not piece:
            raise ValueError("the text ended it") if received else EOFError("it has ended")
        received += piece
        if len(received) >= 5:
            size = 5 + int.from_bytes(received[1:5], "big")
        if size > MESSAGE_BYTES:
            raise ValueError("it is too long")
    return bytes(received[5:])
