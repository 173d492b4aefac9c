"""`run` in shells that were adopted: exact output and exit codes, whatever shell it is and however it was started."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.kit.adopted import SHELLS, at_prompt, begin, told
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import AdoptionFailed, IncompleteCommand, NotAShell
from tmuxmcp.contract.settings import BrokerSettings


@pytest.mark.parametrize(("command", "kind"), SHELLS)
async def test_run_is_exact_in_an_adopted_shell(broker: Broker, command: str, kind: str):
    await begin(broker, command)
    first = await broker.run("echo one; echo two", "a", adopt="yes")
    assert told(first) == ("one\ntwo\n", 0, "ready")
    assert first.shell == r.ShellInFront(kind=kind, where="nested", level=1, adopted=True, host=None)
    assert first.mode == "shell_prompt"
    assert told(await broker.run("cd /usr; pwd", "a")) == ("/usr\n", 0, "ready")  # no word of it: it is adopted
    last = await broker.run("sh -c 'printf \"no newline\"; exit 3'", "a")
    assert (*told(last), last.cwd) == ("no newline", 3, "ready", "/usr")
    await at_prompt(broker)
    facts = await broker.get_session("a")
    assert [(each.level, each.state) for each in facts.levels] == [(0, "running"), (1, "prompt")]
    left = await broker.run("exit 7", "a")
    assert (left.outcome, left.exit_code, left.completed) == ("left", 7, True)
    after = await broker.run("echo back", "a")
    assert told(after) == ("back\n", 0, "ready")
    assert after.shell == r.ShellInFront(kind="bash", where="own", level=0, adopted=False, host=None)
    ran = (await broker.list_commands("a")).commands
    numbers = [each.number for each in ran]
    assert len(set(numbers)) == len(numbers) == 6
    texts = {each.text: (each.level, each.exit_code) for each in ran}
    assert texts["echo one; echo two"] == (1, 0)
    assert texts["exit 7"] == (1, 7)
    assert texts[command] == (0, 7)
    assert texts["echo back"] == (0, 0)


async def test_undo_takes_the_marks_out_and_adopting_again_goes_on_with_the_numbers(broker: Broker):
    await begin(broker, "dash")
    await broker.run("echo one", "a", adopt="yes")
    undone = await broker.run("", "a", adopt="undo")
    assert (undone.outcome, undone.completed, undone.exit_code) == ("left", True, None)
    with pytest.raises(NotAShell) as refused:
        await broker.run("echo two", "a", adopt="no")
    assert "adopt=yes" in refused.value.hint
    again = await broker.run("echo three", "a", adopt="yes")
    assert told(again) == ("three\n", 0, "ready")
    ran = (await broker.list_commands("a")).commands
    assert [(each.text, each.level) for each in ran] == [("dash", 0), ("echo one", 1), ("echo three", 1)]


async def test_what_is_no_shell_is_never_typed_into(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.send("cat", session_id="a", enter=True, wait_for="ready")
    before = (await broker.read("raw", "a", since=0)).next_offset
    for adopt in ("auto", "yes"):
        with pytest.raises(NotAShell):
            await broker.run("echo two", "a", adopt=adopt)
    assert (await broker.read("raw", "a", since=0)).next_offset == before


async def test_a_question_is_never_typed_into_whoever_says_that_it_is_a_prompt(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.send("dash -c 'read x; echo got; sleep 600'", session_id="a", enter=True, wait_for="ready")
    before = (await broker.read("raw", "a", since=0)).next_offset
    with pytest.raises(NotAShell):
        await broker.run("echo two", "a", adopt="yes")
    assert (await broker.read("raw", "a", since=0)).next_offset == before


async def test_the_own_shell_s_question_is_no_prompt(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.send("read x", session_id="a", enter=True, wait_for="ready")
    before = (await broker.read("raw", "a", since=0)).next_offset
    for adopt in ("auto", "yes"):
        with pytest.raises(NotAShell):
            await broker.run("echo two", "a", adopt=adopt)
    assert (await broker.read("raw", "a", since=0)).next_offset == before


async def test_what_does_not_answer_is_not_adopted(broker: Broker, home: Path):
    """A shell of which it is not known where it waits at its prompt reads the line as an answer, by consent."""
    shutil.copy2("/bin/sh", home / "dash")
    (home / "asks").write_text("read x; echo got; sleep 600\n")
    await broker.create_session("bash", name="a", cwd=str(home))
    await broker.send("ENV=./asks ./dash", session_id="a", enter=True, wait_for="ready")
    with pytest.raises(AdoptionFailed) as failed:
        await broker.run("echo two", "a", adopt="yes")
    assert "got" in failed.value.details["screen"]
    await broker.send(key="C-c", session_id="a", wait_for="ready")
    await broker.send("exit", session_id="a", enter=True, wait_for="ready")
    assert (await broker.run("echo still", "a")).output == "still\n"
    assert [each.level for each in (await broker.get_session("a")).levels] == [0]


async def test_adopting_the_session_s_own_shell_changes_nothing(broker: Broker):
    await broker.create_session("bash", name="a")
    result = await broker.run("echo one", "a", adopt="yes")
    assert result.shell is not None
    assert (result.output, result.shell.adopted) == ("one\n", False)


@pytest.mark.parametrize(("command", "kind"), SHELLS[:4])
async def test_run_adopts_a_shell_that_is_certainly_at_its_prompt(broker: Broker, command: str, kind: str):
    await begin(broker, command)
    result = await broker.run("echo one", "a")
    assert result.shell is not None
    assert (*told(result), result.shell.kind, result.shell.adopted) == ("one\n", 0, "ready", kind, True)


async def test_a_question_is_never_typed_into_unasked(broker: Broker):
    await begin(broker, "dash")
    await broker.send("read x; echo got $x", session_id="a", enter=True, wait_for="ready")
    before = (await broker.read("raw", "a", since=0)).next_offset
    with pytest.raises(NotAShell):
        await broker.run("echo two", "a")
    assert (await broker.read("raw", "a", since=0)).next_offset == before


@pytest.mark.parametrize("command", ["bash --norc", "dash"])
async def test_a_shell_that_run_starts_is_said_to_take_commands(broker: Broker, command: str):
    await broker.create_session("bash", name="a")
    begun = await broker.run(command, "a")
    assert (begun.completed, begun.mode) == (False, "shell_prompt")
    assert "waits at its prompt: run works there" in (begun.note or "")
    assert told(await broker.run("echo one; false", "a")) == ("one\n", 1, "ready")
    asking = await broker.run("read x; echo got $x", "a")
    assert (asking.completed, asking.mode) == (False, "line_input")


async def test_without_integration_nothing_is_adopted_unasked(state_dir: Path, home: Path):
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash", integration=False)) as broker:
        made = await broker.create_session("bash", name="a", ready_timeout_ms=int(10_000 * SLOW))
        assert (made.ready, made.mode) == (True, "line_input")  # not shell_prompt: run does not work there
        with pytest.raises(NotAShell):
            await broker.run("echo one", "a")
        result = await broker.run("echo one", "a", adopt="yes")
        assert result.shell == r.ShellInFront(kind="bash", where="own", level=1, adopted=True, host=None)
        assert told(result) == ("one\n", 0, "ready")


@pytest.mark.parametrize(("command", "kind"), SHELLS)
async def test_an_adopted_shell_is_given_input_and_long_commands(broker: Broker, command: str, kind: str):
    await begin(broker, command)
    fed = await broker.run("cat", "a", adopt="yes", stdin="fed\n")
    assert told(fed) == ("fed\n", 0, "ready")
    long = "x" * 6000
    assert (await broker.run(f"echo '{long}' | wc -c", "a")).output.strip() == "6001"
    several = await broker.run("echo 'a  b'\necho \"ä\" '!'\nfalse", "a")
    assert told(several) == ("a  b\nä !\n", 1, "ready")
    if kind in ("bash", "zsh", "fish"):
        with pytest.raises(IncompleteCommand):
            await broker.run("echo 'open", "a")
    else:  # it has no editor that could tell
        assert (await broker.run("echo 'open", "a")).exit_code
    assert told(await broker.run("echo closed", "a")) == ("closed\n", 0, "ready")


async def test_events_tell_of_adopted_shells(broker: Broker, state_dir: Path):
    await begin(broker, "dash")
    await broker.run("exit 3", "a", adopt="yes")
    lines = [json.loads(line) for line in (state_dir / "sessions/a/events.jsonl").read_text().splitlines()]
    found = [each for each in lines if each["event"] in ("adopted", "left")]
    assert [(each["event"], each["level"]) for each in found] == [("adopted", 1), ("left", 1)]
    assert (found[0]["shell"], found[0]["where"], found[1]["exit_code"]) == ("sh", "nested", 3)
