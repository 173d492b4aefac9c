"""An agent asks a person to type something, and the person does it, at a terminal of their own."""

from __future__ import annotations

import subprocess
import termios
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conftest import SLOW
from tests.kit import forks
from tests.kit.agent import Agent, command_line, eventually, run_command_line
from tests.kit.service import Service
from tests.kit.terminal import Terminal


class Asked:
    """A request under way, and its id."""

    def __init__(
        self, asker: Agent | Service, threads: ThreadPoolExecutor, message: str = "Type it.", **arguments: Any
    ) -> None:
        directory = asker.state_dir / "sessions/a/requests"
        before = set(directory.glob("*.json"))
        call = asker.call if isinstance(asker, Agent) else asker.result
        told = {"session_id": "a", "message": message, **arguments}
        self._answer: Future[dict[str, Any]] = threads.submit(call, "request_user_input", **told)
        eventually(lambda: set(directory.glob("*.json")) - before)
        [self.file] = set(directory.glob("*.json")) - before
        self.id = self.file.stem
        self.named = {"session": "a", "request": self.id}
        """As a page names it."""

    def result(self) -> dict[str, Any]:
        return self._answer.result(20 * SLOW)

    @property
    def waits(self) -> bool:
        return not self._answer.done()


def run(agent: Agent, *words: str, stdin: str = "", status: int = 0) -> str:
    """What `tmuxmcp answer` says."""
    done = run_command_line(agent.state_dir, "answer", *words, stdin=stdin, status=status)
    return done.stdout + done.stderr


class Person(Terminal):
    """Somebody at a terminal of their own, who answers by `tmuxmcp answer`, or runs what `argv` says."""

    def __init__(self, agent: Agent, *words: str, argv: Sequence[str] = (), **variables: str) -> None:
        ours, env = command_line(agent.state_dir, "answer", *words)

        def start(inner: int) -> forks.Fork | subprocess.Popen[bytes]:
            if not argv:
                return forks.Fork(ours[3:], env | variables, Path.cwd(), [inner] * 3, terminal=True)
            return subprocess.Popen(
                argv, env=env | variables, stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
                preexec_fn=lambda: __import__("fcntl").ioctl(0, termios.TIOCSCTTY, 0),
            )  # fmt: skip

        super().__init__(start)


def read_line(agent: Agent, command: str) -> None:
    """Have the session's shell ask, and wait until it does."""
    agent.call("send", session_id="a", text=command, enter=True, read="none")
    eventually(lambda: agent.call("get_session", session_id="a")["mode"] in ("line_input", "password"))
