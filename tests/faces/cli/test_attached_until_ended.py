"""Which command it is whose end `tmuxmcp run` waits for."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import SLOW, until_exists
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.value import replace
from tmuxmcp.faces.cli.attached import until_ended

LONG_MS = int(20_000 * SLOW)


async def test_the_end_of_another_command_is_not_taken_for_ours(broker: Broker, tmp_path: Path) -> None:
    await broker.create_session(name="a")
    ours = await broker.run(f"{until_exists(tmp_path / 'go')}; (exit 6)", "a", timeout_ms=200)
    assert ours.outcome == "timeout"
    assert (await until_ended(broker, ours, 200)).command is None
    (tmp_path / "go").touch()
    await broker.read("new", "a", wait_for="command")  # as another command line does, which is the same caller
    await broker.send("(exit 5)", enter=True, session_id="a", wait_for="command")
    await broker.send("sleep 600", enter=True, session_id="a", read="none")
    seen = await until_ended(broker, ours, LONG_MS)
    assert seen.command
    assert (seen.command.number, seen.command.exit_code) == (ours.command_number, 6)
    unnumbered = replace(ours, command_number=None)
    assert (await until_ended(broker, unnumbered, 200)).command is None


async def test_a_command_in_a_shell_in_front_is_not_ours(broker: Broker) -> None:
    await broker.create_session(name="a")
    ours = await broker.run("bash --norc", "a")
    assert ours.command_number
    await broker.run("true", "a", adopt="yes")
    await broker.send("(exit 5)", enter=True, session_id="a", read="none")
    seen = await until_ended(broker, ours, 500)
    assert (seen.outcome, seen.command) == ("timeout", None)
    await broker.send("exit 4", enter=True, session_id="a", read="none")
    seen = await until_ended(broker, ours, LONG_MS)
    assert seen.command
    assert (seen.command.number, seen.command.exit_code) == (ours.command_number, 4)
