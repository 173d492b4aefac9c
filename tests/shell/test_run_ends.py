"""Commands during which their shell ends, and whose exit code its code then is."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio

from tests.conftest import until_exists
from tmuxmcp.broker.broker import Broker

HUNG_UP = {
    "bash": ("bash --norc", "trap 'exit 4' HUP", "kill -HUP $$; echo no"),
    "bash, in the command itself": ("bash --norc", "", "trap 'exit 4' HUP; kill -HUP $$; echo no"),
    "bash without promptvars": ("bash --norc", "trap 'exit 4' HUP; shopt -u promptvars", "kill -HUP $$; echo no"),
    "zsh": ("zsh -f", "trap 'exit 4' HUP", "kill -HUP $$; echo no"),
    "zsh, by a function": ("zsh -f", "TRAPTERM() { exit 4; }", "kill -TERM $$; echo no"),
    "fish": ("fish --no-config", "function f --on-signal HUP; exit 4; end", "kill -HUP $fish_pid; sleep 1; echo no"),
    "dash": ("dash", "trap 'exit 4' HUP", "kill -HUP $$; echo no"),
}
"""By shell: the program, what sets the trap, and the command that the shell's end breaks off."""


async def test_a_trap_that_ends_the_shell_gives_its_command_no_exit_code(broker: Broker) -> None:
    for name, (program, sets, command) in HUNG_UP.items():
        word, *args = program.split()
        if not shutil.which(word):
            continue
        session = (await broker.create_session(word, args)).session_id
        if sets:
            await broker.run(sets, session, adopt="yes")
        ran = await broker.run(command, session, adopt="yes")
        assert (name, ran.outcome, ran.completed, ran.exit_code) == (name, "exited", False, None)
        assert (name, "no\n" in ran.output) == (name, False)
        assert ran.note


async def test_exit_is_exact_in_a_shell_with_traps(broker: Broker) -> None:
    await broker.create_session(name="a")
    await broker.run("trap 'exit 4' HUP USR1", "a")
    assert (await broker.run("echo on", "a")).exit_code == 0
    left = await broker.run("exit 3", "a")
    assert (left.outcome, left.completed, left.exit_code) == ("exited", True, 3)


async def test_a_nested_shell_that_its_trap_ends_gives_no_exit_code(broker: Broker) -> None:
    await broker.create_session(name="a")
    await broker.send("bash --norc", enter=True, session_id="a", wait_for="ready")
    await broker.run("trap 'exit 4' HUP", "a", adopt="yes")
    left = await broker.run("kill -HUP $$; echo no", "a", request_id="trapped-1")
    assert (left.outcome, left.completed, left.exit_code) == ("left", False, None)
    again = await broker.run("kill -HUP $$; echo no", "a", request_id="trapped-1")
    assert (again.replayed, again.completed, again.exit_code) == (True, False, None)
    assert [each.exit_code for each in (await broker.list_commands("a")).commands if each.level] == [0, None]
    assert (await broker.run("echo back", "a")).output == "back\n"


async def test_a_command_whose_session_is_destroyed_has_no_exit_code(broker: Broker, tmp_path: Path) -> None:
    await broker.create_session(name="a")
    await broker.run("trap 'exit 4' TERM", "a")
    async with anyio.create_task_group() as calls:

        async def destroy() -> None:
            await broker.read(session_id="a", wait_for="pattern", pattern="begun")
            await broker.destroy_session("a")

        calls.start_soon(destroy)
        ran = await broker.run(f"echo begun; {until_exists(tmp_path / 'never')}; exit 4", "a")
    assert (ran.outcome, ran.completed, ran.exit_code) == ("exited", False, None)
    assert "destroyed" in (ran.note or "")
