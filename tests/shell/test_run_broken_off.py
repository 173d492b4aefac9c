"""Commands that C-c broke off, or that are unfinished: no answer says more of them than the shell shows.

zsh and fish may give a loop of their own that C-c broke off the status 0.
"""

from __future__ import annotations

import os
from functools import partial

import anyio
import pytest

from tests.conftest import eventually, newest_fish
from tests.kit.programs import need
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import IncompleteCommand
from tmuxmcp.contract.results import RunResult

LOOPS = {
    "bash": ["echo begun; while :; do :; done; echo over"],
    "zsh": ["f() { while true; do true; done; }; echo begun; f; echo over"] * 4,  # 130 now and then
    "fish": ["echo begun; while true; end; echo over"],
}


@pytest.mark.parametrize("shell", [*LOOPS, newest_fish])
async def test_what_ctrl_c_broke_off_has_not_succeeded(broker: Broker, shell: str):
    need(shell)
    await broker.create_session(shell, name="a")
    log = (await broker.registry.existing("a")).log

    async def begun(since: int) -> bool:
        return b"begun\r\n" in log.read(since, log.size() - since)

    for loop in LOOPS[os.path.basename(shell)]:
        since, ran = log.size(), list[RunResult]()

        async def run(command: str = loop, ran: list[RunResult] = ran) -> None:
            ran.append(await broker.run(command, "a"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await eventually(partial(begun, since))
            await broker.send(key="C-c", session_id="a", read="none")
        told = (await broker.list_commands("a")).commands[-1]
        assert ran[0].exit_code == told.exit_code
        if ran[0].exit_code is None:
            assert not ran[0].completed
            assert "C-c" in (ran[0].note or "")
        else:
            assert (ran[0].exit_code, ran[0].completed) == (130, True)
    after = await broker.run("echo ok", "a")
    assert (after.output, after.exit_code, after.completed) == ("ok\n", 0, True)


async def test_ctrl_c_at_a_prompt_is_no_command_of_somebody(broker: Broker):
    await broker.create_session("bash", name="a")
    for number in range(25):
        await broker.send(key="C-c", session_id="a", read="none")
        ran = await broker.run(f"echo {number}", "a")
        assert (ran.output, ran.exit_code, ran.note) == (f"{number}\n", 0, None)


async def test_an_open_quote_is_not_hidden_where_the_shell_shows_nothing(broker: Broker):
    await broker.create_session("bash", name="a")
    for elsewhere in ("exec 2>/dev/null", "exec 2>&-", "exec > >(tee /dev/null) 2>&1"):
        await broker.run(elsewhere, "a")
        for unfinished in ("echo 'open", "for i in 1; do", "cat <<END"):
            with pytest.raises(IncompleteCommand):
                await broker.run(unfinished, "a")
        assert (await broker.run("echo ok", "a")).output == "ok\n"
        await broker.run("exec >/dev/tty 2>&1", "a")
