"""An agent asks a person to type something, and the person does it, at a terminal of their own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conftest import SLOW
from tests.kit import forks
from tests.kit.agent import Agent, command_line, eventually, run_command_line
from tests.kit.person import press


class Asked:
    """A request under way, and its id."""

    def __init__(self, agent: Agent, threads: ThreadPoolExecutor, message: str = "Type it.", **arguments: Any) -> None:
        before = set(self._files(agent))
        self._answer: Future[dict[str, Any]] = threads.submit(
            agent.call, "request_user_input", session_id="a", message=message, **arguments
        )
        eventually(lambda: set(self._files(agent)) - before)
        [file] = set(self._files(agent)) - before
        self.id = file.stem

    def _files(self, agent: Agent) -> list[Path]:
        return list((agent.state_dir / "sessions/a/requests").glob("*.json"))

    def result(self) -> dict[str, Any]:
        return self._answer.result(20 * SLOW)

    @property
    def waits(self) -> bool:
        return not self._answer.done()


def run(agent: Agent, *words: str, stdin: str = "", status: int = 0) -> str:
    """What `tmuxmcp answer` says."""
    done = run_command_line(agent.state_dir, "answer", *words, stdin=stdin, status=status)
    return done.stdout + done.stderr


class Person:
    """Somebody at a terminal of their own."""

    def __init__(self, agent: Agent, *words: str, argv: Sequence[str] = (), **variables: str) -> None:
        ours, env = command_line(agent.state_dir, "answer", *words)
        self.fd, inner = pty.openpty()
        termios.tcsetwinsize(inner, (24, 80))
        self.process: forks.Fork | subprocess.Popen[bytes]
        if argv:
            self.process = subprocess.Popen(
                argv, env=env | variables, stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
                preexec_fn=lambda: __import__("fcntl").ioctl(0, termios.TIOCSCTTY, 0),
            )  # fmt: skip
        else:
            self.process = forks.Fork(ours[3:], env | variables, Path.cwd(), [inner] * 3, terminal=True)
        os.close(inner)
        self.seen = ""

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.fd >= 0:
            os.close(self.fd)

    def read(self) -> None:
        while select.select([self.fd], [], [], 0)[0]:
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:
                return
            self.seen += data.decode(errors="replace")
            if not data:
                return

    def sees(self, text: str) -> None:
        def probe() -> bool:
            self.read()
            return text in self.seen

        try:
            eventually(probe, 20)
        except AssertionError:
            raise AssertionError(f"{text!r} is not in {self.seen!r}") from None

    def type(self, text: str) -> None:
        press(self.fd, text.encode())

    def ends(self) -> int:
        deadline = time.monotonic() + 20 * SLOW
        while self.process.poll() is None:
            self.read()
            assert time.monotonic() < deadline, self.seen
            time.sleep(0.005)
        self.read()
        return self.process.returncode


def read_line(agent: Agent, command: str) -> None:
    """Have the session's shell ask, and wait until it does."""
    agent.call("send", session_id="a", text=command, enter=True, read="none")
    eventually(lambda: agent.call("get_session", session_id="a")["mode"] in ("line_input", "password"))
