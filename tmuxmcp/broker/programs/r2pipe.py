"""radare2 or rizin behind its pipes: a command in, its answer out.

The protocol is that of `radare2 -q0`: a line on standard input; on standard output the answer, and NUL behind it. The
library r2pipe speaks it, too, but no bounded child process around it would make its answers exact: it takes NUL
within an answer for its end and gives the rest as the answer to the next command, leaves out bytes that are not UTF-8,
and splits a path at its blanks. Here each command is followed by one that prints a word that nobody can guess.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from typing import Any

import anyio

from tmuxmcp.contract.errors import InvalidArgument, IoError
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine import process
from tmuxmcp.machine.process import PIPE_BYTES, HeadAndTail

ECHO_COMMANDS = {"radare2": "?e", "rizin": "echo"}
"""Names in the order in which they are looked for, and the command of each that prints a word."""

R2_OPTIONS = ("-q0", "-N", "-e", "scr.color=0", "-e", "scr.prompt=false", "-e", "scr.interactive=false")
"""Speak the protocol; read no file of the user's; run no script that lies beside the file (it would ask first)."""

MOST_COMMAND = 4000
"""Bytes of a command: radare2 cuts a line of 4,096."""

R2_SAID_BYTES = 4096
"""Bytes kept of standard error for one command."""

MOST_STALE = 1024 * 1024
"""Bytes of what programs in the background have printed between two commands; they are dropped."""

MAX_JSON_DEPTH = 100
"""Lists and objects within each other."""


@dataclass(frozen=True)
class R2Answer:
    """What came of one command."""

    data: bytes
    """The first bytes of it."""
    size: int
    """How many it were."""
    said: str
    """What came on standard error meanwhile, bounded."""


class Pipe:
    """One that runs. Commands go in one at a time; whoever gives up on one has to end it."""

    def __init__(self, child: process.SupervisorChild, name: str) -> None:
        self._child, self._prints, self.name = child, ECHO_COMMANDS[name], name

    async def run(self, command: str, most: int) -> R2Answer:
        """Have one command done; `most` bytes of its answer are kept.

        Raises:
            IoError: it has ended.
        """
        stale, said = HeadAndTail(0), HeadAndTail(R2_SAID_BYTES)
        for fd in (self._child.stdout, self._child.stderr):
            _take(fd, stale if command else said)
        word = secrets.token_hex(16)
        answer: tuple[bytes, int] | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, said)
            tasks.start_soon(self._write, f"{command}\n{self._prints} {word}\n".encode())
            answer = await self._read(f"\0{word}\n\0".encode(), most)
            tasks.cancel_scope.cancel()
        _take(self._child.stderr, said)
        text = (said.text(cut_off=True) or said.pieces(R2_SAID_BYTES)[0].decode(errors="replace")).strip()
        if answer is None:
            raise IoError(f"{self.name} has ended{f': {said.last_line()}' if text else ''}.", hint="Use r2_open again.")
        return R2Answer(*answer, text)

    async def _read(self, end: bytes, most: int) -> tuple[bytes, int] | None:
        """What comes before the end, at most so many bytes of it, and how many it were; None: it has ended."""
        kept, seen, size = bytearray(), b"", 0
        while True:
            await anyio.wait_readable(self._child.stdout)
            try:
                data = os.read(self._child.stdout, PIPE_BYTES)
            except BlockingIOError:
                continue
            if not data:
                return None
            seen += data
            at = seen.find(end)
            sure = at if at >= 0 else max(0, len(seen) - len(end))
            size += sure
            kept += seen[: min(sure, most - len(kept))]
            seen = seen[sure:]
            if at >= 0:
                return bytes(kept), size

    async def _listen(self, said: HeadAndTail) -> None:
        """Read standard error, so that nobody waits for room in it."""
        while True:
            await anyio.wait_readable(self._child.stderr)
            with suppress(BlockingIOError):
                data = os.read(self._child.stderr, PIPE_BYTES)
                if not data:
                    return
                said.feed(data)

    async def _write(self, data: bytes) -> None:
        assert self._child.process.stdin
        fd = self._child.process.stdin.fileno()
        with suppress(BrokenPipeError):
            while data:
                await anyio.wait_writable(fd)
                with suppress(BlockingIOError):
                    data = data[os.write(fd, data) :]


def _take(fd: int, ends: HeadAndTail) -> None:
    """Read what is there at this moment."""
    with suppress(BlockingIOError):
        while ends.size < MOST_STALE and (data := os.read(fd, PIPE_BYTES)):
            ends.feed(data)


def check_command(command: str) -> None:
    """Refuse what would not be one command.

    Raises:
        InvalidArgument
    """
    if not command.strip():
        raise InvalidArgument("command is empty.", hint="? lists the commands of radare2.")
    if any(each in command for each in "\n\r\0"):
        raise InvalidArgument("command holds a line break or NUL.", hint="Give one command a call; ; separates two.")
    size = len(command.encode("utf-8", "surrogateescape"))
    if size > MOST_COMMAND:
        raise InvalidArgument(f"command has {size:,} bytes; {MOST_COMMAND:,} are the most.", hint="Give several calls.")


def parsed(data: bytes) -> Any:
    """An answer as JSON.

    Raises:
        InvalidArgument: it is none, or not such that it can be passed on.
    """
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        begin = data[:200].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}").strip()
        text = f"The answer is not JSON; it begins with {begin!r}." if begin else "The answer is empty, not JSON."
        raise InvalidArgument(text, hint="Commands that answer in JSON end in j; for others use r2_cmd.") from None
    level, depth = [value], 0
    while level := [each for above in level for each in _within(above)]:
        depth += 1
        if depth > MAX_JSON_DEPTH:
            raise _too_deep()
    return value


def _within(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.values()]
    return value if isinstance(value, list) else []


def _no_number(name: str) -> Any:
    raise ValueError(name)


def _too_deep() -> InvalidArgument:
    return InvalidArgument(f"The answer is JSON of more than {MAX_JSON_DEPTH} levels.", hint="Use r2_cmd.")
