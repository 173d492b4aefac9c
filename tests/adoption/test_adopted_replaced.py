"""What takes the place of a shell that sends marks (exec).

Nothing is typed into it that was meant for that shell; and a shell at its prompt is adopted as a nested one is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from tests.adoption.test_adopted_levels import needs
from tests.conftest import eventually, stop_with_children, until_exists
from tests.kit.adopted import begin, told
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import NotAShell, SessionBusy
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.sessions.levels import is_own_replaced

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


PLACES = [
    pytest.param(outer, inner, name, marks=needs(outer, name))
    for outer, inner, name in (
        ("bash", "bash", "bash"),
        ("bash", "zsh -f", "zsh"),
        ("bash", "dash", "dash"),
        ("zsh", "bash -l", "bash"),
        ("zsh", "zsh", "zsh"),
        ("zsh", "mksh", "mksh"),
        ("fish", "fish", "fish"),
        ("fish", "bash --norc", "bash"),
        ("fish", "ksh", "ksh"),
    )
]


@pytest.mark.parametrize(("outer", "inner", "name"), PLACES)
async def test_a_shell_in_the_own_shell_s_place_runs_commands(broker: Broker, outer: str, inner: str, name: str):
    await broker.create_session(outer, name="a")
    put = await broker.run(f"exec {inner}", "a")
    assert (put.outcome, put.completed, put.exit_code, put.mode) == ("ready", True, None, "shell_prompt")
    assert f"`{name}` has taken the place of `{outer}`" in (put.note or "")
    waited = await broker.read(session_id="a", wait_for="command", timeout_ms=1000)
    assert (waited.outcome, waited.command) == ("immediate", None)
    command = "echo one; sh -c 'exit 3'"
    ran = await broker.run(command, "a")
    assert told(ran) == ("one\n", 3, "ready")
    assert ran.shell
    assert (ran.shell.where, ran.shell.level) == ("own", 1)
    assert [(each.text, each.level, each.exit_code) for each in (await broker.list_commands("a")).commands] == [
        (f"exec {inner}", 0, None),
        (command, 1, 3),
    ]
    assert told(await broker.run("exit 4", "a"))[1:] == (4, "exited")


@pytest.mark.parametrize(("outer", "inner", "name"), PLACES)
async def test_a_shell_that_send_put_there_runs_commands(broker: Broker, outer: str, inner: str, name: str):
    await broker.create_session(outer, name="a")
    await broker.send(f"exec {inner}", session_id="a", enter=True, wait_for="ready")
    assert (await broker.run("echo one", "a")).output == "one\n"


@needs("fish", "zsh", "dash")
@pytest.mark.parametrize(
    ("outer", "inner"), [("bash --norc", "fish"), ("fish --no-config", "dash"), ("dash", "zsh -f")]
)
async def test_a_shell_in_a_nested_shell_s_place_runs_commands(broker: Broker, outer: str, inner: str):
    await begin(broker, outer)
    assert (await broker.run("echo one", "a", adopt="yes")).output == "one\n"
    put = await broker.run(f"exec {inner}", "a")
    assert (put.outcome, put.completed, put.exit_code) == ("ready", True, None)
    assert f"`{inner.split()[0]}` has taken the place of" in (put.note or "")
    two = await broker.run("echo two", "a")
    assert (two.output, two.shell and (two.shell.where, two.shell.level)) == ("two\n", ("nested", 1))
    await broker.send(f"exec {outer}", session_id="a", enter=True, wait_for="ready")
    assert (await broker.run("echo three", "a")).output == "three\n"
    assert told(await broker.run("exit 4", "a"))[1:] == (4, "left")


async def test_a_later_broker_runs_commands_in_what_took_the_own_shell_s_place(broker: Broker, state_dir: Path):
    """Nobody has waited for the prompt of the new shell."""
    await broker.create_session("bash", name="a")
    await broker.send("exec bash --norc", session_id="a", enter=True, read="none")

    async def begun() -> bool:
        facts = await broker.get_session("a")
        return facts.ready and facts.foreground is not None and facts.foreground.command == "bash --norc"

    await eventually(begun)
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as later:
        assert told(await later.run("echo one", "a")) == ("one\n", 0, "ready")


async def test_a_program_in_the_own_shell_s_place_is_named(broker: Broker):
    await broker.create_session("bash", name="a")
    put = await broker.run(f"exec {sys.executable} -q", "a")
    assert (put.outcome, put.completed, put.exit_code) == ("ready", False, None)
    assert "has taken the place of `bash` (exec), and waits for input" in (put.note or "")
    await broker.send("exit(5)", session_id="a", enter=True, read="none")
    ended = await broker.read(session_id="a", wait_for="command")
    assert (ended.outcome, ended.exit_code) == ("exited", 5)


@needs("zsh")
async def test_a_wait_for_what_put_a_shell_into_the_own_one_s_place_ends(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.send("exec zsh -f", session_id="a", enter=True, read="none")
    told = await broker.read(session_id="a", wait_for="command")
    assert told.command
    assert (told.outcome, told.command.text, told.command.exit_code) == ("left", "exec zsh -f", None)


@needs("zsh")
async def test_a_wait_ends_once_the_log_holds_what_the_own_shell_said_last(broker: Broker):
    """The kernel tells sooner that another program has its place than the log that a command began."""
    await broker.create_session("bash", name="a")
    session = broker.registry.sessions["a"]
    writer = stop_with_children(int(session.directory.sink.read_text().split()[0]))
    await broker.send("exec zsh -f", session_id="a", enter=True, read="none")
    await eventually(lambda: is_own_replaced(session.pid or 0))
    ended: list[r.ReadResult] = []

    async def wait() -> None:
        ended.append(await broker.read(session_id="a", wait_for="command"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.sleep(0.3)
        for process in writer:
            process.resume()
    assert (ended[0].outcome, ended[0].command and ended[0].command.text) == ("left", "exec zsh -f")
