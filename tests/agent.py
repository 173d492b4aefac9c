"""A real MCP client as an agent runs one: the server is a process of its own, spoken to over stdio.

Synchronous, so that one server serves a whole module of tests.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
from anyio import to_thread
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult


def eventually(probe: Callable[[], object], seconds: float = 10) -> None:
    """Wait until the probe is true; TMUXMCP_TEST_SLOW stretches the deadline on slow machines."""
    deadline = time.monotonic() + seconds * float(os.environ.get("TMUXMCP_TEST_SLOW", "1"))
    while not probe():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.005)


class ToolFailed(Exception):
    """A tool answered with an error; `code` is its stable code."""

    def __init__(self, error: dict[str, Any], text: str) -> None:
        super().__init__(text)
        self.code: str = error["code"]
        self.error = error


class Agent:
    """One client and its server process."""

    def __init__(
        self,
        state_dir: Path,
        *arguments: str,
        mode: str = "auto",
        person: Callable[[str], str] | None = None,
        errors: Path | None = None,
        start: Sequence[str] = ("-m", "tmuxmcp"),
        **variables: str,
    ) -> None:
        self.state_dir = state_dir
        home = state_dir / "home"
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._parameters = StdioServerParameters(
            command=sys.executable,
            args=[*start, "serve", "--state-dir", str(state_dir), "--log-level", "warning", *arguments],
            env={"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm", **variables},
            cwd=str(home),
        )
        self._mode = mode
        self._person = person
        """Answers what the server asks: accept, decline or cancel. Without one, the client cannot be asked."""
        self._errors = errors
        """Where the server's stderr goes."""
        self._stack = ExitStack()

    def __enter__(self) -> Agent:
        before = {child.pid for child in psutil.Process().children()}
        self.portal = self._stack.enter_context(start_blocking_portal())
        transport: Any = self._parameters
        if self._errors:
            transport = stdio_client(self._parameters, errlog=self._stack.enter_context(self._errors.open("a")))
        client = Client(transport, mode=self._mode, elicitation_callback=self._answer if self._person else None)
        self.client = self._stack.enter_context(self.portal.wrap_async_context_manager(client))
        children = [child for child in psutil.Process().children() if child.pid not in before]
        self.server = next(child for child in children if str(self.state_dir) in child.cmdline())
        return self

    async def _answer(self, context: Any, params: Any) -> ElicitResult:
        assert self._person
        action = await to_thread.run_sync(self._person, params.message)
        return ElicitResult(action=action)  # type: ignore[arg-type]

    def __exit__(self, *exc_info: Any) -> None:
        self._stack.close()

    def kill(self) -> None:
        """Kill the server as nothing can prepare for; the client is of no use afterwards."""
        os.kill(self.server.pid, signal.SIGKILL)
        self.server.wait(5)

    def raw(self, tool: str, **arguments: Any) -> Any:
        """The tool's whole answer."""
        return self.portal.call(lambda: self.client.call_tool(tool, arguments))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The tool's structured answer.

        Raises:
            ToolFailed: it answered with an error.
        """
        answer = self.raw(tool, **arguments)
        if answer.is_error:
            raise ToolFailed(answer.meta["tmuxmcp/error"], answer.content[0].text)
        return answer.structured_content

    def run(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Run a command; in the default session unless told otherwise."""
        return self.call("run", command=command, **arguments)
