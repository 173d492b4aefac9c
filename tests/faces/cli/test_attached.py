"""`tmuxmcp attach` in a tmux of the person's own, and inside of a session."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator

import pytest

from tests.conftest import TMUX
from tests.kit.cli import COMMAND, ROOT, CommandLine


class Theirs:
    """A tmux server of the person's own, with a shell in it."""

    def __init__(self, cli: CommandLine) -> None:
        self.socket, self._env = cli.state.parent / "theirs", cli.env | {"PYTHONPATH": str(ROOT), "TERM": "xterm"}
        self("-f", "/dev/null", "new-session", "-d", "-s", "work", "-x", "80", "-y", "24", "bash", "--norc")

    def __call__(self, *words: str) -> str:
        argv = [TMUX, "-S", str(self.socket), *words]
        return subprocess.run(argv, env=self._env, capture_output=True, text=True, check=True, timeout=30).stdout

    def types(self, *words: str) -> None:
        self("send-keys", "-t", "=work:0", "-l", shlex.join(words))
        self("send-keys", "-t", "=work:0", "Enter")

    def shows(self, window: str) -> str:
        return self("capture-pane", "-p", "-t", f"=work:{window}")

    @property
    def windows(self) -> list[str]:
        return self("list-windows", "-t", "=work", "-F", "#{window_name}").split()


@pytest.fixture
def theirs(cli: CommandLine) -> Iterator[Theirs]:
    theirs = Theirs(cli)
    yield theirs
    theirs("kill-server")


def test_in_their_own_tmux_it_opens_a_window(cli: CommandLine, theirs: Theirs):
    cli("new", "--name", "x", "cat")
    cli("send", "x", "from the agent", "--enter", "--wait", "idle")
    theirs.types(*COMMAND, "attach", "--state-dir", str(cli.state), "x")
    cli.eventually(lambda: "x" in theirs.windows, "there is no window")
    cli.eventually(lambda: theirs.shows("x").startswith("from the agent\n"), "it does not attach")
    assert cli.json("view", "x")["rows"] == 24, "their status line takes a row of the window, and none of the session"
    cli.tmux("set-option", "-g", "assume-paste-time", "0")  # a test types faster than people do
    for key in ("n", "o", "C-b", "d"):
        theirs("send-keys", "-t", "=work:x", key)
    cli.eventually(lambda: "x" not in theirs.windows, "the window stays")
    assert "no" not in cli.out("log", "x")
    theirs.types(*COMMAND, "attach", "--state-dir", str(cli.state), "none")
    cli.eventually(lambda: "SESSION_NOT_FOUND" in theirs.shows("0"), "it says nothing")
    assert len(theirs.windows) == 1


def test_a_terminal_that_only_inherits_the_variables_is_attached_itself(cli: CommandLine, theirs: Theirs):
    cli("new", "--name", "x", "cat")
    cli("send", "x", "from the agent", "--enter", "--wait", "idle")
    theirs.types("script", "-qc", shlex.join([*COMMAND, "attach", "--state-dir", str(cli.state), "x"]), "/dev/null")
    cli.eventually(lambda: theirs.shows("0").startswith("from the agent\n"), "it does not attach")
    assert len(theirs.windows) == 1


def test_inside_of_a_session_it_is_refused(cli: CommandLine):
    cli("new", "--name", "x", "cat")
    cli("new", "--name", "y")
    command = shlex.join([*COMMAND, "attach", "--state-dir", str(cli.state), "x"])
    said = cli("run", "y", f"PYTHONPATH={ROOT} {command}", status=4)
    assert b"PERMISSION_DENIED: This terminal is itself in a session" in said.stdout
