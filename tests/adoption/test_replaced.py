"""What takes the place of a shell that sends marks (exec): nothing is typed into it that was meant for the shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.adoption.test_levels import needs
from tests.adoption.test_run import begin, told
from tests.conftest import eventually, until_exists
from tmuxmcp.broker.broker import Broker
from tmuxmcp.errors import NotAShell, SessionBusy

pytestmark = pytest.mark.anyio

READS_KEYS = """
import os, sys, termios, tty
before = termios.tcgetattr(0)
tty.setraw(0)
with open(sys.argv[1], "wb", buffering=0) as read:
    while (data := os.read(0, 100)) != b"q":
        read.write(data)
termios.tcsetattr(0, termios.TCSANOW, before)
"""


@pytest.fixture
def reader(home: Path) -> str:
    """A command that writes all that it reads from its terminal to the file `read`, until it reads `q`."""
    script = home / "reads_keys"
    script.write_text(READS_KEYS)
    return f"{sys.executable} {script} {home / 'read'}"


BINDINGS = {
    "bash": "bind -x '\"\\C-g\": {0}'",
    "zsh": "w() {{ {0} </dev/tty }}; zle -N w; bindkey '^G' w",
    "fish": "bind \\cg '{0}'",
}


async def nothing_is_typed(broker: Broker, home: Path) -> None:
    """`run` refuses, names the program that reads the terminal, and has typed nothing there."""
    await eventually((home / "read").exists)
    for adopt in ("auto", "no", "yes"):
        with pytest.raises((NotAShell, SessionBusy)) as refused:
            await broker.run("echo typed", "a", adopt=adopt)
        assert "python" in str(refused.value)
    assert (home / "read").read_bytes() == b""


@needs("zsh", "fish")
@pytest.mark.parametrize("shell", BINDINGS)
async def test_nothing_is_typed_into_what_took_the_own_shell_s_place(
    broker: Broker, home: Path, reader: str, shell: str
):
    await broker.create_session(shell, name="a")
    await broker.send(f"exec {reader}", session_id="a", enter=True, read="none")
    await nothing_is_typed(broker, home)


@needs("zsh", "fish")
@pytest.mark.parametrize("shell", BINDINGS)
async def test_nothing_is_typed_into_what_took_a_nested_shell_s_place(
    broker: Broker, home: Path, reader: str, shell: str
):
    await begin(broker, {"bash": "bash --norc", "zsh": "zsh -f", "fish": "fish --no-config"}[shell])
    assert (await broker.run("echo one", "a", adopt="yes")).output == "one\n"
    await broker.send(f"exec {reader}", session_id="a", enter=True, read="none")
    await nothing_is_typed(broker, home)


@needs("zsh", "fish")
@pytest.mark.parametrize("how", ["", "exec "])
@pytest.mark.parametrize("shell", BINDINGS)
async def test_nothing_is_typed_into_what_a_key_has_begun_at_the_prompt(
    broker: Broker, home: Path, reader: str, shell: str, how: str
):
    await broker.create_session(shell, name="a")
    assert (await broker.run(BINDINGS[shell].format(how + reader), "a")).exit_code == 0
    await broker.send(key="C-g", session_id="a", read="none")
    await nothing_is_typed(broker, home)
    if not how:
        await broker.send("q", session_id="a", read="none")
        assert told(await broker.run("echo two", "a")) == ("two\n", 0, "ready")


@needs("fish")
async def test_nothing_is_typed_into_what_the_prompt_has_begun(broker: Broker, home: Path, reader: str):
    """fish marks its prompt before it draws it."""
    await broker.create_session("fish", name="a")
    function = f"function fish_prompt; if test -e go; rm go; exec {reader}; end; end"
    assert (await broker.run(f"cd {home}; {function}", "a")).exit_code == 0
    assert told(await broker.run("touch go", "a")) == ("", 0, "ready")
    await nothing_is_typed(broker, home)


@needs("zsh", "fish")
@pytest.mark.parametrize("shell", BINDINGS)
async def test_nothing_is_typed_behind_a_line_that_ends_the_shell(broker: Broker, home: Path, reader: str, shell: str):
    """The shell shows its prompt, and may not have read yet what was typed there."""
    go = home / "go"
    await broker.create_session(shell, name="a")
    await broker.send(f"{until_exists(go)}; exec {reader}", session_id="a", enter=True, read="none")
    with pytest.raises((NotAShell, SessionBusy)):
        await broker.run("echo typed", "a")
    go.touch()
    await nothing_is_typed(broker, home)
