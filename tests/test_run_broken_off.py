"""C-c breaks off a loop of the shell's own: zsh and fish may give it the status 0, and no answer passes that on."""

from __future__ import annotations

import shutil
from functools import partial

import anyio
import pytest

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.results import RunResult

pytestmark = pytest.mark.anyio

LOOPS = {
    "bash": ["echo begun; while :; do :; done; echo over"],
    "zsh": ["f() { while true; do true; done; }; echo begun; f; echo over"] * 4,  # 130 now and then
    "fish": ["echo begun; while true; end; echo over"],
}


@pytest.mark.parametrize("shell", LOOPS)
async def test_what_ctrl_c_broke_off_has_not_succeeded(broker: Broker, shell: str):
    if shutil.which(shell) is None:
        pytest.skip("it is not installed")
    await broker.create_session(shell, name="a")
    log = (await broker.registry.existing("a")).log

    async def begun(since: int) -> bool:
        return b"begun\r\n" in log.read(since, log.size() - since)

    for loop in LOOPS[shell]:
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
