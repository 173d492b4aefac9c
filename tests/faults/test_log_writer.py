"""The log's writer is late, or killed, around commands: what `run` says is what the commands did.

Each command leaves its number in a file, so that what it did is known whatever the log says.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import SLOW, eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.shell import typing

MANY = bool(os.environ.get("TMUXMCP_TEST_MANY"))
STALLS = 1500 if MANY else 16
KILLS = 60 if MANY else 3
LONG_MS = int(15_000 * SLOW)
SOON_S = 8 * SLOW
"""In less than that it is said that something was not recorded."""


def writer_of(broker: Broker, session_id: str) -> list[psutil.Process]:
    """The processes that write a session's log: the sink, and its dd."""
    directory = broker.settings.state_dir / "sessions" / session_id
    with suppress(OSError, ValueError, IndexError, psutil.Error):
        sink = psutil.Process(int((directory / "sink.pid").read_text().split()[0]))
        return [sink, *sink.children(recursive=True)]
    return []


def signal_all(processes: list[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)


async def stall(processes: list[psutil.Process], before_s: float, for_s: float) -> None:
    """Stop these processes for a while."""
    await asyncio.sleep(before_s)
    signal_all(processes, signal.SIGSTOP)
    try:
        await asyncio.sleep(for_s)
    finally:
        signal_all(processes, signal.SIGCONT)


def wrong(ran: r.RunResult, output: str, status: int) -> str:
    """What is not so in an answer about a command that ran, of which not all may have been recorded."""
    note = ran.note or ""
    if any(said in note for said in ("refused", "not begun", "othing was run")):
        return "it ran"
    if "omebody else typed" in note:
        return "nobody did"
    if not ran.completed or ran.exit_code not in (status, None):
        return "it ended"
    if ran.exit_code is not None and ran.output == output:
        return ""
    return "" if "not recorded" in note or "lost" in note else "something is missing"


@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
async def test_a_late_writer_changes_no_answer(broker: Broker, tmp_path: Path, program: str) -> None:
    """The writer stands still for 60 to 140 ms at a random moment of each command."""
    rng = random.Random(f"late {program}")
    did = tmp_path / "did"
    await broker.create_session(program, name="a")
    await broker.run("true", session_id="a")
    found = []
    for number in range(STALLS):
        status = number % 100
        stalled = asyncio.ensure_future(stall(writer_of(broker, "a"), rng.uniform(0, 0.01), rng.uniform(0.06, 0.14)))
        command = f"echo {number} >>{did}; echo c{number}; sh -c 'exit {status}'"
        ran = await broker.run(command, session_id="a", timeout_ms=LONG_MS)
        await stalled
        begun = str(number) in did.read_text().split()
        if not (ran.completed and begun) or (ran.output, ran.exit_code) != (f"c{number}\n", status):
            found.append((number, begun, ran))
    assert found == [], "\n".join(map(str, found))
    assert did.read_text().split() == [str(number) for number in range(STALLS)]


async def test_ready_is_not_said_before_a_late_writer_has_written(broker: Broker) -> None:
    """Else an answer that says ready would lack what was printed before."""
    await broker.create_session("python3", name="a", wait_ready=True)
    for number in range(10):
        stalled = asyncio.ensure_future(stall(writer_of(broker, "a"), 0, 0.2))
        await asyncio.sleep(0)  # it stands still now
        sent = await broker.send(f"print({number} * 7, 'printed')", enter=True, session_id="a", timeout_ms=LONG_MS)
        await stalled
        assert sent.result is not None
        assert sent.result.outcome == "ready"
        assert f"{number * 7} printed" in sent.result.content


@pytest.mark.parametrize("seconds", ["0", "0.5"])
@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
async def test_a_killed_writer_is_no_command_that_did_not_run(
    broker: Broker, tmp_path: Path, program: str, seconds: str
) -> None:
    """What was not recorded is not known, and said so soon; nothing is said to have not run."""
    rng = random.Random(f"killed {program} {seconds}")
    found = []
    for number in range(KILLS):
        name, did = f"a{number}", tmp_path / f"did{number}"
        await broker.create_session(program, name=name)
        await broker.run("true", session_id=name)
        writer = writer_of(broker, name)
        victims = rng.choice([writer, writer, writer[:1], writer[1:]])

        async def kill(after_s: float, processes: list[psutil.Process] = victims) -> None:
            await asyncio.sleep(after_s)
            signal_all(processes, signal.SIGKILL)

        killed = asyncio.ensure_future(kill(rng.uniform(0, 0.008)))
        begun = time.monotonic()
        command = f"echo x >>{did}; sleep {seconds}; echo c{number}; sh -c 'exit 6'"
        ran = await broker.run(command, session_id=name, timeout_ms=LONG_MS)
        lasted_s = time.monotonic() - begun
        await killed
        await eventually(did.exists)
        why = wrong(ran, f"c{number}\n", 6)
        if why or lasted_s > SOON_S:
            found.append((number, why, lasted_s, ran))
        after = await broker.run("echo after; sh -c 'exit 3'", session_id=name)
        assert wrong(after, "after\n", 3) == "", after
        if victims != writer[:1]:  # else the dd that it started goes on
            await eventually(lambda name=name: len(writer_of(broker, name)) > 1)  # type: ignore[misc]
        again = await broker.run("echo again; sh -c 'exit 4'", session_id=name)
        assert (again.output, again.exit_code) == ("again\n", 4)
        assert did.read_text() == "x\n"
        await broker.destroy_session(name, force=True)
    assert found == [], "\n".join(map(str, found))


async def test_a_writer_of_which_a_part_is_left_is_replaced_when_its_word_is_needed(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    await broker.run("stty -echo", session_id="a")
    signal_all(writer_of(broker, "a")[:1], signal.SIGKILL)
    ran = await broker.run("echo x; (exit 3)", session_id="a", timeout_ms=LONG_MS)
    assert (ran.output, ran.exit_code, ran.completed) == ("x\n", 3, True), ran
    assert (await broker.get_session("a")).healthy


@pytest.mark.parametrize("program", ["zsh", "fish"])
async def test_a_shell_whose_last_word_is_that_it_listens_is_asked_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """It took the command, ran it and is at its next prompt: what it said of all that was not recorded."""
    await broker.create_session(program, name="a")
    await broker.run("true", session_id="a")
    type_answer = typing.type_answer

    async def unrecorded(*given: Any) -> bool:
        signal_all(writer_of(broker, "a"), signal.SIGKILL)
        return await type_answer(*given)

    monkeypatch.setattr(typing, "type_answer", unrecorded)
    ran = await broker.run("echo once; sh -c 'exit 6'", session_id="a", timeout_ms=LONG_MS)
    assert wrong(ran, "once\n", 6) == "", ran
    monkeypatch.undo()
    assert (await broker.run("echo next", session_id="a")).output == "next\n"
