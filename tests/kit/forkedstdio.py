"""An MCP client's way to a server that is a fork: over its standard files."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from mcp import StdioServerParameters
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from tests.conftest import SLOW
from tests.kit import forks

LONGEST_LINE = 1 << 30


def unbuffered(fd: int, mode: str) -> Any:
    return open(fd, mode, 0)


@asynccontextmanager
async def connected(
    server: StdioServerParameters, words: Sequence[str], errors: int, started: Callable[[int], None]
) -> AsyncIterator[Any]:
    """What the SDK's `stdio_client` does: a reading and a writing stream; at their end the server has ended.

    Args:
        words: after `python -m tmuxmcp`.
        errors: where its stderr goes.
        started: is told its process id.
    """
    (its_in, to_it), (from_it, its_out) = os.pipe(), os.pipe()
    env = get_default_environment() | (server.env or {})
    fork = forks.Fork(words, env, Path(server.cwd or "."), [its_in, its_out, errors])
    started(fork.pid)
    for fd in (its_in, its_out):
        os.close(fd)
    lines = asyncio.StreamReader(limit=LONGEST_LINE)
    loop = asyncio.get_running_loop()
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), unbuffered(from_it, "rb"))
    writing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, unbuffered(to_it, "wb"))
    writer = asyncio.StreamWriter(writing, protocol, None, loop)
    tell, told = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    say, said = anyio.create_memory_object_stream[SessionMessage](0)

    async def hear() -> None:
        async with tell:
            with suppress(anyio.BrokenResourceError):  # nobody listens any more
                while line := await lines.readline():
                    await tell.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))
        while await lines.read(1 << 20):
            pass

    async def speak() -> None:
        async with said:
            with suppress(ConnectionError):
                async for each in said:
                    writer.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    await writer.drain()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hear)
        tasks.start_soon(speak)
        try:
            yield told, say
        finally:
            with anyio.CancelScope(shield=True):
                await told.aclose()
                await say.aclose()
                writing.close()
                try:
                    await to_thread.run_sync(fork.wait, 10 * SLOW)
                except subprocess.TimeoutExpired:
                    fork.kill()
            tasks.cancel_scope.cancel()
    reading.close()
