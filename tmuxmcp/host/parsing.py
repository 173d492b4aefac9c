"""What a shell text or a program with its arguments would run, asked of a process that parses (`parser.py`).

The process starts with the first question and stays. When it dies, takes too long or answers nonsense, the text
counts as not understood, and the next question starts another process.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp.errors import shortage
from tmuxmcp.host.output import PIPE_BYTES
from tmuxmcp.host.shelltext import UNKNOWN, Command

log = logging.getLogger(__name__)

PARSER = Path(__file__).with_name("parser.py")
PACKAGES = ("tmuxmcp", "tree_sitter", "tree_sitter_bash")

LIMIT_S = 5.0
"""For a question and its answer, by the clock: the process may be stopped. It limits its processor time itself."""

START_S = 20.0
"""For a start, which takes 0.1 s on a quiet machine."""

MOST_BYTES = 16 * 1024 * 1024
"""Of a question, and of an answer."""


class Parsing:
    """The process that parses, one question at a time."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._turn = anyio.Lock()

    async def of_text(self, text: str | None, cwd: str | None, home: str) -> list[Command]:
        """Every command that a shell text would run, as far as it tells.

        Args:
            text: None: not known.
            cwd: where it would run; None: not known.
            home: what `~` stands for.
        """
        found = await self._ask({"text": text, "cwd": cwd, "home": home}) if text is not None else None
        return [UNKNOWN] if found is None else found

    async def of_program(self, argv: Sequence[str], cwd: str | None) -> list[Command]:
        """A program with its arguments, and every command that it would run in turn."""
        found = await self._ask({"argv": argv, "cwd": cwd})
        return [Command(tuple(argv), cwds=(cwd,)), UNKNOWN] if found is None else found

    def close(self) -> None:
        """End the process; the next question would start another one."""
        process, self.process = self.process, None
        if process:
            process.kill()
            with process:
                pass  # its pipes are closed, and it is waited for

    async def _ask(self, question: dict[str, Any]) -> list[Command] | None:
        """The answer; None if there is none."""
        data = json.dumps(question).encode()
        if len(data) > MOST_BYTES:
            return None
        async with self._turn:
            stayed = self.process is not None
            try:
                try:
                    return await self._exchange(data)
                except (EOFError, ConnectionError):
                    if not stayed:
                        raise
                    return await self._exchange(data)  # it had died before it was asked
            except (EOFError, OSError, ValueError, TypeError, RecursionError) as error:
                if shortage(error):
                    raise
                log.warning("the parser of shell text gave no answer: %s", str(error) or type(error).__name__)
                return None

    async def _exchange(self, data: bytes) -> list[Command]:
        """Ask, and start the process first if there is none. Where no answer comes of it, it is ended.

        Raises:
            EOFError, ConnectionError: it had died before it was asked.
            TimeoutError, OSError, ValueError, TypeError, RecursionError
        """
        try:
            if self.process is None:
                self.process = _start()
                with anyio.fail_after(START_S):
                    await _read(self.process)
            with anyio.fail_after(LIMIT_S):
                await _write(self.process, data)
                answer = json.loads(await _read(self.process))
            if isinstance(answer, str):
                raise ValueError(answer)
            return [Command(tuple(argv), tuple(files), tuple(cwds), fed) for argv, files, cwds, fed in answer]
        except BaseException:
            self.close()
            raise


def _start() -> subprocess.Popen[bytes]:
    """Start the process, in the thread of the event loop: it ends with the thread that starts it."""
    found = (find_spec(name) for name in PACKAGES)
    directories = dict.fromkeys(str(Path(spec.origin).parents[1]) for spec in found if spec and spec.origin)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(PARSER), *directories],
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
        if size > MOST_BYTES:
            raise ValueError("it is too long")
    return bytes(received[5:])
