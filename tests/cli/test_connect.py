"""Which command it is whose end `tmuxmcp run` has waited for."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import until_exists
from tmuxmcp.broker.broker import Broker
from tmuxmcp.cli.connect import command_ended
from tmuxmcp.contract import results as r


async def wait(broker: Broker) -> r.ReadResult:
    return await broker.read("raw", "a", since=0, wait_for="command", max_bytes=1)


async def test_the_end_of_another_command_is_not_taken_for_ours(broker: Broker, tmp_path: Path) -> None:
    await broker.create_session(name="a")
    ours = await broker.run(f"{until_exists(tmp_path / 'go')}; (exit 6)", "a", timeout_ms=200)
    assert ours.outcome == "timeout"
    (tmp_path / "go").touch()
    first = await wait(broker)  # as another command line does, which is the same caller
    assert (await command_ended(broker, ours, first)) == first.command
    await broker.send("(exit 5)", enter=True, session_id="a", read="none")
    other = await wait(broker)
    assert other.command
    assert other.command.exit_code == 5
    for seen in (other, await wait(broker)):
        found = await command_ended(broker, ours, seen)
        assert found
        assert (found.number, found.exit_code) == (ours.command_number, 6)
    unnumbered = ours.model_copy(update={"command_number": None})
    assert await command_ended(broker, unnumbered, other) is None


async def test_a_command_in_a_shell_in_front_is_not_ours(broker: Broker) -> None:
    await broker.create_session(name="a")
    ours = await broker.run("bash --norc", "a")
    assert ours.command_number
    await broker.run("true", "a", adopt="yes")
    await broker.send("(exit 5)", enter=True, session_id="a", read="none")
    seen = await wait(broker)
    assert seen.command
    assert seen.command.number > ours.command_number
    assert await command_ended(broker, ours, seen) is None
