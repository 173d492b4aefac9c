"""`run` with what the command reads instead of the terminal, and when it comes back before the command's end."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from tests.conftest import SLOW
from tests.kit.programs import need
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import IncompleteCommand, IoError, ResourceLimit, SessionBusy
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.machine.sandbox import sandbox
from tmuxmcp.record.commands import LEFT_S, Stdin

LONG_MS = int(20_000 * SLOW)
ALL_BYTES = bytes(range(256)).decode("utf-8", "surrogateescape")


@pytest.fixture(params=["bash", "zsh", "fish"])
async def shell(request: pytest.FixtureRequest, broker: Broker) -> str:
    need(request.param)
    return (await broker.create_session(request.param, name="a")).session_id


def left(broker: Broker) -> list[Path]:
    """Files that were given to commands, and are still there."""
    place = broker.registry.directory("a").stdin
    return [*place.iterdir()] if place.exists() else []


@pytest.mark.parametrize("stdin", ["", "one\ntwo", 'it\'s \\ "quoted" $HOME !x\n', ALL_BYTES * 3000])
async def test_a_command_reads_exactly_what_it_is_given(broker: Broker, shell: str, stdin: str, tmp_path: Path):
    ran = await broker.run(f"cat > {tmp_path}/got; echo done", shell, stdin, timeout_ms=LONG_MS)
    assert (ran.output, ran.exit_code, ran.completed) == ("done\n", 0, True), ran
    assert (tmp_path / "got").read_bytes() == stdin.encode("utf-8", "surrogateescape")
    assert left(broker) == []


async def test_what_it_changes_in_the_shell_stays(broker: Broker, shell: str):
    await broker.run("cd /\nread x # a comment", shell, "word\n")
    assert (await broker.run("pwd; echo $x; false", shell)).output == "/\nword\n"
    assert (await broker.run("false", shell, "x")).exit_code == 1
    assert (await broker.run("# nothing", shell, "x")).exit_code == 0
    answer = await broker.send("cat", enter=True, session_id=shell)  # the terminal is what it was
    assert answer.result
    assert answer.result.mode == "line_input"


async def test_nothing_of_it_is_printed_or_remembered(broker: Broker, shell: str):
    await broker.run("wc -c", shell, "secret of mine\n")
    await broker.run("history; fc -l", shell)
    directory = broker.registry.directory("a")
    told = b"".join(path.read_bytes() for path in directory.path.rglob("*") if path.is_file())
    assert b"secret of mine" not in told


async def test_it_is_listed_as_it_was_asked_for(broker: Broker, shell: str):
    await broker.run("cat", shell, "x")
    await broker.run("cat\nfalse", shell, "x")
    await broker.run("read y\nsleep 60", shell, "x", timeout_ms=int(500 * SLOW))
    told = [(each.text, each.exit_code, each.stdin) for each in (await broker.list_commands(shell)).commands]
    assert told == [("cat", 0, True), ("cat\nfalse", 1, True), ("read y\nsleep 60", None, True)]
    await broker.send(key="C-c", session_id=shell)
    await broker.run("true", shell)
    assert [each.stdin for each in (await broker.list_commands(shell)).commands] == [True, True, True, False]


async def test_its_file_goes_as_soon_as_it_is_opened(broker: Broker, shell: str):
    ran = await broker.run("sleep 60; cat", shell, "x", timeout_ms=int(1000 * SLOW))
    assert (ran.outcome, left(broker)) == ("timeout", [])
    await broker.send(key="C-c", session_id=shell)


async def test_an_incomplete_command_leaves_no_file(broker: Broker):
    await broker.create_session("bash", name="a")
    with pytest.raises(IncompleteCommand):
        await broker.run("echo 'x", "a", "x")
    assert left(broker) == []


async def test_more_than_a_call_may_give_is_refused(state_dir: Path, home: Path):
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash", max_input_bytes=10)) as broker:
        with pytest.raises(ResourceLimit):
            await broker.run("cat", stdin="x" * 11)


async def test_two_brokers_at_one_prompt_leave_each_other_their_files(broker: Broker, shell: str):
    answers = []

    async def run(asked: Broker, word: str) -> None:
        with suppress(SessionBusy):
            answers.append((word, (await asked.run("cat", shell, word, timeout_ms=LONG_MS)).output))

    async with Broker.open(broker.settings, caller="other") as other:
        for number in range(5):
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(run, broker, f"one {number}")
                task_group.start_soon(run, other, f"two {number}")
    assert answers
    assert all(output == word for word, output in answers), answers
    assert left(broker) == []


def left_by_a_killed_broker(broker: Broker, number: int, age_s: float = 0) -> Path:
    path = Stdin(broker.registry.directory("a"), b"secret", number=number, within=False).path
    os.utime(path, (time.time() - age_s,) * 2)
    return path


async def test_what_a_killed_broker_left_goes(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.run("true", "a")
    left_by_a_killed_broker(broker, 1, LEFT_S + 1)
    of_this_prompt = left_by_a_killed_broker(broker, 9, LEFT_S + 1)
    just_made = left_by_a_killed_broker(broker, 1)
    await broker.run("true", "a")
    assert {*left(broker)} == {of_this_prompt, just_made}
    await broker.destroy_session("a")
    assert left(broker) == []


async def test_a_session_that_has_ended_keeps_nothing(broker: Broker):
    await broker.create_session("bash", name="a")
    left_by_a_killed_broker(broker, 1)
    await broker.run("exit", "a")
    assert left(broker) == []


@pytest.mark.skipif(sandbox.best() != "bubblewrap", reason="bubblewrap does not run here")
@pytest.mark.parametrize("entry", ["stdin_within", "given_within"])
async def test_a_link_that_a_sandbox_puts_in_its_place_is_not_followed(broker: Broker, tmp_path: Path, entry: str):
    """Else it could have files written and removed anywhere."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    await broker.create_session("bash", name="a", sandbox="auto")
    place = getattr(broker.registry.directory("a").resolved(), entry)
    await broker.run("cat", "a", "x")
    assert (await broker.run(f"rm -r {place} && ln -s {outside} {place}", "a")).exit_code == 0
    with pytest.raises(IoError):
        await broker.run("cat", "a", "x")
    await broker.destroy_session("a")
    assert [each.name for each in outside.iterdir()] == ["kept"]


@pytest.mark.skipif(sandbox.best() in ("none", "limits"), reason="no sandbox keeps files apart here")
async def test_in_a_sandbox(broker: Broker):
    await broker.create_session("bash", name="a", sandbox="auto")
    assert (await broker.run("tr a-z A-Z", "a", "shout\n")).output == "SHOUT\n"


# ---- before its end --------------------------------------------------------------------------------


async def test_silence_brings_it_back(broker: Broker, shell: str):
    idle_ms = int(500 * SLOW)
    ran = await broker.run("echo begun; sleep 60", shell, idle_ms=idle_ms, timeout_ms=LONG_MS)
    assert (ran.outcome, ran.evidence, ran.completed, ran.output) == ("idle", "quiet", False, "begun\n")
    assert f"Nothing was printed for {idle_ms} ms; it goes on." in (ran.note or "")
    await broker.send(key="C-c", session_id=shell)
    assert (await broker.run("echo over", shell, idle_ms=20_000)).completed


async def test_a_question_brings_it_back_unless_its_end_is_wanted(broker: Broker):
    await broker.create_session("bash", name="a")
    asked = await broker.run("read x; echo got $x", "a", timeout_ms=LONG_MS)
    assert (asked.outcome, asked.completed) == ("ready", False)
    await broker.send("this", enter=True, session_id="a")
    waited = await broker.run("read x; echo got $x", "a", wait_for="command", timeout_ms=int(1500 * SLOW))
    assert (waited.outcome, waited.completed) == ("timeout", False)
    answered = await broker.send("that", enter=True, session_id="a")
    assert answered.result
    assert "got that" in answered.result.content
