"""A real MCP client as an agent runs one: the server is a process of its own, spoken to over stdio.

Synchronous, so that one server serves a whole module of tests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from anyio import to_thread
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult

from tests.conftest import PATIENCE_S, SLOW, T, a_state_dir, attempts, no_first_run
from tests.kit import forks
from tests.kit.forkedstdio import connected


def eventually(probe: Callable[[], T], timeout: float = PATIENCE_S, otherwise: str = "") -> T:
    """What `tests.conftest.eventually` does, in a test that is not async."""
    for rest_s in attempts(otherwise or probe, timeout):
        with suppress(FileNotFoundError, psutil.NoSuchProcess):
            if found := probe():
                return found
        time.sleep(rest_s)
    raise AssertionError


def command_line(state_dir: Path, verb: str, *words: str) -> tuple[list[str], dict[str, str]]:
    """A command line of the person's: its words, and its environment."""
    argv = [sys.executable, "-m", "tmuxmcp", verb, "--state-dir", str(state_dir), *words]
    home, path = str(state_dir / "home"), os.environ["PATH"]
    return argv, {"HOME": home, "PATH": path, "TERM": "xterm-256color", "LANG": "C.UTF-8"}


def run_command_line(
    state_dir: Path, verb: str, *words: str, stdin: str = "", status: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Have the person's command line do something, without a terminal."""
    argv, env = command_line(state_dir, verb, *words)
    done = forks.run(argv[3:], env | variables, Path.cwd(), 60 * SLOW, stdin.encode())
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == status, err
    return subprocess.CompletedProcess(argv, done.returncode, out, err)


def audit_lines(state_dir: Path) -> list[dict[str, Any]]:
    """What the audit holds so far; a line that is being written is none yet."""
    text = (state_dir / "audit.jsonl").read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


ANEW = ("-m", "tmuxmcp")
"""Python's arguments for a server that starts anew, where a test is about how it starts or what /proc tells of it."""

WAITS = {"send": "timeout_ms", "create_session": "ready_timeout_ms"}
"""Tools that wait for five seconds by default, and the argument that says for how long."""


class ToolFailed(Exception):
    """A tool answered with an error; `code` is its stable code."""

    def __init__(self, error: dict[str, Any], text: str) -> None:
        super().__init__(text)
        self.code: str = error["code"]
        self.error = error


def refused(code: str | tuple[str, ...], call: Callable[..., object], *given: Any, **named: Any) -> ToolFailed:
    """Make a call that is refused with this code, or with one of these; give what it says."""
    with pytest.raises(ToolFailed) as failed:
        call(*given, **named)
    assert failed.value.code in ((code,) if isinstance(code, str) else code), failed.value
    assert str(failed.value).startswith(f"{failed.value.code}: ")
    return failed.value


def refused_for_good(call: Callable[[], object]) -> ToolFailed:
    """Why it is NOT_A_SHELL; SESSION_BUSY as long as what waits for input does something for itself at that moment."""

    def for_good() -> ToolFailed | None:
        failed = refused(("NOT_A_SHELL", "SESSION_BUSY"), call)
        return failed if failed.code == "NOT_A_SHELL" else None

    return eventually(for_good)


@contextmanager
def an_agent(*arguments: str, first: str = "", **options: Any) -> Iterator[Agent]:
    """An agent with a state directory of its own, for the tests of a whole file; nothing of it is left.

    Args:
        arguments, options: as `Agent` takes them.
        first: a command that is run in its default session before anything else.
    """
    with a_state_dir() as directory, Agent(directory, *arguments, **options) as agent:
        if first:
            agent.run(first)
        yield agent


class Agent:
    """One client and its server process."""

    def __init__(
        self,
        state_dir: Path,
        *arguments: str,
        mode: str = "auto",
        person: Callable[[str], str] | None = None,
        errors: Path | None = None,
        start: Sequence[str] = (),
        **variables: str,
    ) -> None:
        """An agent that is to be entered.

        Args:
            start: how Python starts it anew, as ANEW; else it is a fork.
        """
        self.state_dir = state_dir
        home = state_dir / "home"
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        no_first_run(home)
        self._parameters = StdioServerParameters(
            command=sys.executable,
            args=[*(start or ANEW), "serve", "--state-dir", str(state_dir), "--log-level", "warning", *arguments],
            env={"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm", **variables},
            cwd=str(home),
        )
        self._words = None if start or not forks.can_be(self._parameters.env or {}) else self._parameters.args[2:]
        self._mode = mode
        self._person = person
        """Answers what the server asks: accept, decline or cancel. Without one, the client cannot be asked."""
        self.asked: list[Any] = []
        """What they were asked: parameters of elicitations."""
        self._errors = errors
        """Where the server's stderr goes."""
        self._stack = ExitStack()

    def __enter__(self) -> Agent:
        self.portal = self._stack.enter_context(start_blocking_portal())
        errors = self._stack.enter_context(self._errors.open("a")) if self._errors else sys.stderr
        if self._words is None:
            before = {child.pid for child in psutil.Process().children()}
            transport: Any = stdio_client(self._parameters, errlog=errors)
        else:
            transport = connected(self._parameters, self._words, errors.fileno(), self._started)
        client = Client(transport, mode=self._mode, elicitation_callback=self._answer if self._person else None)
        self.client = self._stack.enter_context(self.portal.wrap_async_context_manager(client))
        if self._words is None:
            children = [child for child in psutil.Process().children() if child.pid not in before]
            self.server = next(child for child in children if self._is_server(child))
        return self

    def _started(self, pid: int) -> None:
        self.server = psutil.Process(pid)

    def _is_server(self, child: psutil.Process) -> bool:
        with suppress(psutil.NoSuchProcess):  # of another test, and it has ended
            return str(self.state_dir) in child.cmdline()
        return False

    async def _answer(self, context: Any, params: Any) -> ElicitResult:
        assert self._person
        self.asked.append(params)
        action = await to_thread.run_sync(self._person, params.message)
        return ElicitResult(action=action)  # type: ignore[arg-type]

    def __exit__(self, *exc_info: Any) -> None:
        self._stack.close()

    def kill(self) -> None:
        """Kill the server as nothing can prepare for; the client is of no use afterwards."""
        os.kill(self.server.pid, signal.SIGKILL)
        self.server.wait(5 * SLOW)

    def raw(self, tool: str, **arguments: Any) -> Any:
        """The tool's whole answer. Where nothing else is said, it waits as long as by default, times SLOW."""
        if (name := WAITS.get(tool)) and "steps" not in arguments:
            arguments = {name: int(5000 * SLOW)} | arguments
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

    def in_front(self, session_id: str = "") -> str:
        """The words of a session's foreground program; empty as long as one takes the place of another."""
        return str((self.call("get_session", session_id=session_id)["foreground"] or {}).get("command", ""))

    def run(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Run a command; in the default session unless told otherwise."""
        return self.call("run", command=command, **arguments)
