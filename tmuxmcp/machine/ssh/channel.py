"""The second channel of a session's connection: asks the witness at the far end, and never waits for long.

The witness (`witness.sh`) is an argument of `sh` there. Nothing is written before it has said who it is: where the far
end runs something else instead (ForceCommand), that gets no byte of ours, and is not started again.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import anyio

from tmuxmcp.machine.ssh.client import channel_argv

WITNESS_PATH = Path(__file__).with_name("witness.sh")

WITNESS_GREETING = re.compile(rb"(?:\A|\n)tmuxmcp-witness 1 (\S+) (\S+)\n")

CHANNEL_QUESTION_S, MOST_PATIENCE_S = 0.5, 2.0
"""How long a question is waited for: more only where answers have taken long before."""

OPENING_S = 20.0
"""A channel on which the witness has not spoken after so long is given up."""

CHANNEL_AGAIN_S, CHANNEL_MOST_TRIES = 2.0, 5
"""A channel that has ended is opened again after so long; one on which the witness never spoke, so often."""

CHANNEL_ANSWER_BYTES = 256 * 1024
"""Longer is no answer, and no greeting."""


@cache
def script() -> str:
    """The witness without its comments."""
    lines = (line.strip() for line in WITNESS_PATH.read_text().splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


class Channel:
    """One session's second channel. It is opened when it is first asked, and closes with its connection."""

    def __init__(self, executable: str, control: Path) -> None:
        self._argv = channel_argv(executable, control, script())
        self._process: subprocess.Popen[bytes] | None = None
        self._fds: tuple[int, int] | None = None
        """Where is written and read."""
        self._opened_at = 0.0
        self._tries = 0
        self._heard = bytearray()
        self._asked: dict[int, float] = {}
        """Questions without an answer, and when each was put."""
        self._number = 0
        self._took_s = 0.0
        self._turn = anyio.Lock()
        self.machine = ""
        """As uname(1) calls the far one, once the witness has spoken."""
        self.answered_at = 0.0
        """When the last answer came; of `time.monotonic()`."""
        self.why_not = ""
        """Why there is no witness, and will be none."""

    @property
    def open(self) -> bool:
        """There is a process of ours, which holds the connection open."""
        return self._process is not None

    async def ask(self) -> str | None:
        """What the witness says to a question that is put now; None: nothing, in the time that there is for it."""
        if self.why_not:
            return None
        async with self._turn:
            if self._process is None and not self._open():
                return None
            asked = time.monotonic()
            if not self.machine:
                await self._read_until(lambda: bool(self.machine), CHANNEL_QUESTION_S)
                if not self.machine and asked - self._opened_at > OPENING_S:
                    self._give_up("the far end runs no witness")
                if not self.machine:
                    return None
            return await self._question()

    async def _question(self) -> str | None:
        await self._read_until(self._forgotten, 0)
        late = self._asked and time.monotonic() - min(self._asked.values()) > MOST_PATIENCE_S
        if self._fds is None or late or len(self._asked) > 8:
            return None  # nothing is waited for where answers do not come
        self._number += 1
        number, put = self._number, time.monotonic()
        try:
            os.write(self._fds[0], b"%d\n" % number)
        except OSError:
            self.close()
            return None
        self._asked[number] = put
        answers: list[str] = []

        def answered() -> bool:
            while (found := self._next_answer()) is not None:
                if found[0] == number:
                    answers.append(found[1])
            return bool(answers)

        if not await self._read_until(answered, min(max(CHANNEL_QUESTION_S, 4 * self._took_s), MOST_PATIENCE_S)):
            return None
        self._took_s, self.answered_at = time.monotonic() - put, time.monotonic()
        return answers[0]

    def _forgotten(self) -> bool:
        """Drop the answers to earlier questions: what they say was so before."""
        while self._next_answer():
            pass
        return True

    def _next_answer(self) -> tuple[int, str] | None:
        """The oldest answer that has come whole: its number, and its lines."""
        found = re.search(rb"(?:\A|\n)end ([0-9]{1,18})\n", self._heard)
        if not found:
            return None
        text = bytes(self._heard[: found.start()]).decode("utf-8", "replace")
        number = int(found[1])
        del self._heard[: found.end()]
        for each in [each for each in self._asked if each <= number]:
            del self._asked[each]
        return number, text

    async def _read_until(self, done: Callable[[], bool], patience_s: float) -> bool:
        """Take in what comes until something is true, at most so long; once it is all there is, where that is 0."""
        deadline = time.monotonic() + patience_s
        while True:
            came = self._take_in()
            if self._fds is None or done():
                return self._fds is not None
            left_s = deadline - time.monotonic()
            if came:
                continue
            if left_s <= 0:
                return False
            with anyio.move_on_after(left_s), suppress(anyio.ClosedResourceError):
                await anyio.wait_readable(self._fds[1])

    def _take_in(self) -> bool:
        """Read what has come; whether anything has."""
        if self._fds is None:
            return False
        try:
            data = os.read(self._fds[1], 65536)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._heard += data
        if not self.machine and (hello := WITNESS_GREETING.search(self._heard)):
            self._greeted(hello[1].decode("ascii", "replace"), hello[2].decode("ascii", "replace"))
            del self._heard[: hello.end()]
        if len(self._heard) > CHANNEL_ANSWER_BYTES:
            self._give_up("the far end says what is no answer")
        elif not data:
            self._ended()
        return bool(data)

    def _greeted(self, system: str, machine: str) -> None:
        self._tries = 0
        if system == "Linux":
            self.machine = machine
        else:
            self._give_up(f"the far end is {system}")

    def _ended(self) -> None:
        """The channel has ended: with the connection, or as the far end wants none."""
        said, greeted = bytes(self._heard[:200]), bool(self.machine)
        self.close()
        if greeted:
            return
        if said.strip():
            self.why_not = "the far end runs something else in place of the witness"
        elif self._tries >= CHANNEL_MOST_TRIES:
            self.why_not = "the far end takes no second channel"

    # ---- its process ---------------------------------------------------------------------------

    def _open(self) -> bool:
        now = time.monotonic()
        if self._opened_at and now - self._opened_at < CHANNEL_AGAIN_S:
            return False
        self._opened_at, self._tries = now, self._tries + 1
        try:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": "/", "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as error:
            self.why_not = f"ssh cannot be run: {error.strerror}"
            return False
        assert self._process.stdin
        assert self._process.stdout
        self._fds = self._process.stdin.fileno(), self._process.stdout.fileno()
        for fd in self._fds:
            os.set_blocking(fd, False)
        return True

    def _give_up(self, why: str) -> None:
        self.why_not = why
        self.close()

    def close(self) -> None:
        """Let go of it: the connection ends with its terminal. It may be opened again."""
        process, self._process, self._fds = self._process, None, None
        self.machine, self._heard = "", bytearray()
        self._asked.clear()
        if process is None:
            return
        for file in (process.stdin, process.stdout):
            if file:
                with suppress(Exception):  # nobody waits for it, or there is no event loop any more
                    anyio.notify_closing(file.fileno())
                with suppress(OSError):
                    file.close()
        with suppress(OSError):
            process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
