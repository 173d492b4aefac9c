"""A child process that is spoken with in frames, and started again when it has ended."""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

log = logging.getLogger(__name__)

CHILD_AGAIN_S = 1.0
"""Time before a child that has ended is started again."""


class Child:
    """One kind of child. What it says goes to `heard`, what it says of no use to anybody into the log."""

    def __init__(self, module: str, address: str, env: Mapping[str, str]) -> None:
        self._argv = [sys.executable, "-P", "-m", module, address]
        self._env = env
        self._process: anyio.abc.Process | None = None
        self._said = ""
        """The last line that it wrote to stderr."""

    def heard(self, head: Head, body: bytes) -> None:
        """Take a frame."""
        raise NotImplementedError

    def ended(self, why: str) -> None:
        """Take note that it has ended, whatever it was asked."""
        raise NotImplementedError

    async def run(self) -> None:
        """Keep one running until cancelled."""
        while True:
            async with await anyio.open_process(
                self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self._env
            ) as process:
                self._process = process
                try:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(self._log, process)
                        await self._read(process)
                        tasks.cancel_scope.cancel()
                finally:
                    self._process = None
                    with suppress(ProcessLookupError):
                        process.kill()
            why = self._said or f"status {process.returncode}"
            log.warning("%s has ended: %s", self._argv[3].rpartition(".")[2], why)  # Ray's words are for the log
            self.ended("its client process has ended, and is started again; the log has why")
            await anyio.sleep(CHILD_AGAIN_S)

    @property
    def runs(self) -> bool:
        """Whether it can be written to."""
        return self._process is not None

    def restart(self) -> None:
        """Have another one in its place."""
        if self._process:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def say(self, data: bytes) -> None:
        """Write to it.

        Raises:
            OSError, anyio.BrokenResourceError: it is not there; perhaps a part was written.
        """
        if self._process is None or self._process.stdin is None:
            raise BrokenPipeError("the child is not running")
        await self._process.stdin.send(data)

    async def _read(self, process: anyio.abc.Process) -> None:
        assert process.stdout
        stream = BufferedByteReceiveStream(process.stdout)
        with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            while True:
                head = head_of(await stream.receive_until(b"\n", MOST_HEAD))
                self.heard(head, await stream.receive_exactly(head["bytes"]) if head["bytes"] else b"")

    async def _log(self, process: anyio.abc.Process) -> None:
        assert process.stderr
        with suppress(anyio.BrokenResourceError):
            async for data in process.stderr:
                for line in data.decode(errors="replace").splitlines():
                    if line.strip():
                        self._said = line.strip()[:500]
                        log.debug("%s: %s", self._argv[3].rpartition(".")[2], self._said)


class BridgeCall:
    """What a child was asked, until it answers."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.head: Head = {}
        self.body = b""
        self.sent = False
        """A byte of it may have left."""


class BridgeChild(Child):
    """The child that calls doors."""

    def __init__(self, address: str, env: Mapping[str, str]) -> None:
        super().__init__("tmuxmcp.nodes.ray.bridge", address, env)
        self.ready = anyio.Event()
        self.why = ""
        """Why the last one has ended."""
        self._waiting: dict[int, BridgeCall] = {}
        self._last = 0
        self._todo, self._done = anyio.create_memory_object_stream[tuple[BridgeCall | None, bytes]](math.inf)

    async def write(self) -> None:
        """Write what is asked, one frame after the other, until cancelled."""
        with self._todo, self._done:
            async for asked, data in self._done:
                if asked is not None:
                    asked.sent = self.runs
                try:
                    await self.say(data)
                except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    if asked is not None:
                        self._answer(asked, {"fault": "the bridge has ended", "sent": asked.sent})

    async def call(self, make: Any, body: bytes = b"") -> tuple[Head, bytes]:
        """What it answers; a call that is cancelled here is cancelled there.

        Args:
            make: the head of the frame, without `id`.
        """
        self._last += 1
        number, asked = self._last, BridgeCall()
        self._waiting[number] = asked
        try:
            self._todo.send_nowait((asked, frame({**make, "id": number}, body)))
            await asked.answered.wait()
        except BaseException:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._todo.send_nowait((None, frame({"id": number, "do": "cancel"})))
            raise
        finally:
            del self._waiting[number]
        return asked.head, asked.body

    def heard(self, head: Head, body: bytes) -> None:
        """Take an answer."""
        if head["id"] == 0:
            self.why = ""
            self.ready.set()
        elif asked := self._waiting.get(head["id"]):
            self._answer(asked, head, body)

    def ended(self, why: str) -> None:
        """All that it was asked has no answer."""
        self.why, self.ready = why, anyio.Event()
        for asked in self._waiting.values():
            self._answer(asked, {"fault": why, "sent": asked.sent})

    def _answer(self, asked: BridgeCall, head: Head, body: bytes = b"") -> None:
        asked.head, asked.body = head, body
        asked.answered.set()


class WatcherChild(Child):
    """The child that watches the machines."""

    def __init__(self, address: str, env: Mapping[str, str]) -> None:
        super().__init__("tmuxmcp.nodes.ray.watcher", address, env)
        self.told: Head | None = None
        """What it said last; None: nothing yet."""
        self.why = ""
        self._news = anyio.Event()

    async def refresh(self) -> None:
        """Have it look, and wait for what it says.

        Raises:
            OSError, anyio.BrokenResourceError: it is not there.
        """
        news = self._news
        await self.say(b"?")
        await news.wait()

    async def wait_for_report(self) -> None:
        """Wait until it has said something."""
        while self.told is None:
            await self._news.wait()

    def heard(self, head: Head, body: bytes) -> None:
        """Take what it says."""
        self.told, self.why = head, ""
        news, self._news = self._news, anyio.Event()
        news.set()

    def ended(self, why: str) -> None:
        """What it said last is all that is known."""
        self.why = why


# ---- How we speak with a child process: a line of JSON, then as many bytes as it says. Pure --------------------------
#
# {"id": 7, "do": "call", "node": "n1", "bytes": 120}\n<120 bytes>

Head = dict[str, Any]

MOST_HEAD = 1 << 20
"""Bytes of a head: a watcher's tells of every machine."""

FRAME_BODY_BYTES = 64 << 20
"""Bytes of a body: the largest result is 16 MiB, which as base64 in JSON is 22."""


def frame(head: Head, body: bytes = b"") -> bytes:
    """A frame as it is sent."""
    return json.dumps(head | {"bytes": len(body)}).encode() + b"\n" + body


def take_stdout() -> int:
    """Our standard output, for frames alone: what Ray prints goes to standard error from now on."""
    out = os.dup(1)
    os.dup2(2, 1)
    return out


def write_frame(out: int, head: Head, body: bytes = b"") -> None:
    """Write a frame. A reader that is slow holds up all, and nothing is kept for it here."""
    rest = memoryview(frame(head, body))
    while rest:
        rest = rest[os.write(out, rest) :]


def head_of(line: bytes) -> Head:
    """The head of a frame; its body has `bytes` bytes.

    Raises:
        ValueError: it is none, or the body is too long.
    """
    head = json.loads(line)
    if not isinstance(head, dict) or not 0 <= head.get("bytes", -1) <= FRAME_BODY_BYTES:
        raise ValueError("not a frame")
    return head
