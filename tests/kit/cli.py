"""The command line as a person has it: with a home and a state directory of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import TMUX, end_server, no_first_run
from tests.kit import forks
from tests.kit.agent import eventually
from tests.kit.terminal import SOON_S, Terminal

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tmuxmcp"]


class CommandLine:
    """`tmuxmcp` on a state directory and a home of its own."""

    def __init__(self, home: Path):
        self.home, self.state = home, home / "s"
        self.work = home / "work"
        self.work.mkdir()
        no_first_run(home)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "TMUXMCP_STATE_DIR": str(self.state),
            "TMUXMCP_PROGRAM": shutil.which("bash"),
        }

    def __call__(self, *words, status=0, **kwargs):
        kwargs = {"env": self.env, "cwd": self.work, "timeout": SOON_S} | kwargs
        if "stdin" in kwargs:
            done = subprocess.run([*COMMAND, *words], capture_output=True, check=False, **kwargs)
        else:
            done = forks.run(words, **kwargs)
        assert done.returncode == status, (words, done)
        return done

    def out(self, *words, **kwargs):
        return self(*words, **kwargs).stdout.decode()

    def json(self, verb, *words, **kwargs):
        return json.loads(self.out(verb, "--json", *words, **kwargs))

    def start(self, *words, stdin=False):
        return forks.PipedFork(words, self.env, self.work, stdin=stdin)

    def tmux(self, *words):
        return subprocess.run([TMUX, "-S", str(self.state / "tmux.sock"), *words], capture_output=True, check=False)

    def eventually(self, probe, what):
        return eventually(probe, 20, what)

    def error(self, *words, status):
        """What the only line on stderr says, after the command's name."""
        done = self(*words, status=status)
        line = done.stderr.decode()
        assert line.startswith("tmuxmcp: ")
        assert line.count("\n") == 1, line
        return line.removeprefix("tmuxmcp: ")


@contextmanager
def a_command_line() -> Iterator[CommandLine]:
    """A command line of the test's own; nothing of its tmux server is left."""
    with tempfile.TemporaryDirectory(prefix="tm-", ignore_cleanup_errors=True) as home:  # short: socket paths are
        command_line = CommandLine(Path(home))
        try:
            yield command_line
        finally:
            end_server(command_line.state)


class CommandTerminal(Terminal):
    """A command line on a terminal of its own."""

    def __init__(
        self,
        cli: CommandLine,
        *words: str,
        size: tuple[int, int] = (80, 24),
        command: Sequence[str] = COMMAND,
        term: str = "xterm-256color",
    ):
        env = cli.env | {"TERM": term, "TMUX": "/tmp/none,1,0"}

        def start(inner: int) -> forks.Fork | subprocess.Popen:
            if command is COMMAND and forks.can_be(env):
                return forks.Fork(words, env, cli.work, [inner] * 3, terminal=True)
            files = {"stdin": inner, "stdout": inner, "stderr": inner}
            return subprocess.Popen([*command, *words], env=env, cwd=cli.work, start_new_session=True, **files)

        super().__init__(start, size)
