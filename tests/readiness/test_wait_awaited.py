"""Which command a wait is about: never an earlier one than the caller means."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from tests.conftest import SLOW, eventually, until_exists
from tests.kit.processes import is_in_front
from tests.kit.programs import every_shell
from tests.kit.tmux import typed_by_script
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.shell.typing import seen_at_prompt

LONG_MS = int(20_000 * SLOW)
SOON_MS = int(300 * SLOW)


async def begin(broker: Broker, command: str) -> None:
    """Run it in session `a` for a caller who has gone before it ends.

    Such a caller waits for no prompt either, which comes a moment after the command before has ended.
    """
    session = broker.registry.sessions["a"]
    await eventually(lambda: seen_at_prompt(session))
    await broker.run(command, "a", timeout_ms=1)


async def read(broker: Broker, **more: object) -> r.ReadResult:
    """What a wait for a command in session `a` answers."""
    given = {"session_id": "a", "wait_for": "command", "timeout_ms": LONG_MS} | more
    return await broker.read(**given)  # type: ignore[arg-type]


async def sent(broker: Broker, text: str = "", **more: object) -> r.ReadResult:
    """What a call answers that types a line into session `a` and waits for the end of that."""
    given = {"enter": bool(text), "session_id": "a", "wait_for": "command", "timeout_ms": LONG_MS} | more
    result = (await broker.send(text, **given)).result  # type: ignore[arg-type]
    assert result
    return result


def told(answer: r.ReadResult | r.WaitResult) -> tuple[str, str | None, int | None]:
    """Outcome, and text and exit code of the command that an answer speaks of."""
    command = answer.command
    return answer.outcome, command.text if command else None, command.exit_code if command else None


async def have_ended(broker: Broker, count: int) -> bool:
    commands = (await broker.list_commands("a")).commands
    return len(commands) == count and all(each.end_offset is not None for each in commands)


async def is_running(broker: Broker, text: str) -> bool:
    commands = (await broker.list_commands("a")).commands
    return bool(commands) and commands[-1].text == text and commands[-1].end_offset is None


# ---- an earlier end is left untold in many ways ------------------------------------------------------


async def by_time_out(broker: Broker) -> None:
    await begin(broker, "sleep 0.2")


async def by_a_line(broker: Broker) -> None:
    await broker.send("true", enter=True, session_id="a", read="none")


async def by_keys(broker: Broker) -> None:
    await broker.send(keys=[{"text": "true"}, "Enter"], session_id="a", read="none")


async def by_interrupt(broker: Broker) -> None:
    await broker.run("sleep 600", "a", timeout_ms=SOON_MS)
    await broker.send(key="C-c", session_id="a", read="none")


async def by_signal(broker: Broker) -> None:
    await broker.run("sleep 600", "a", timeout_ms=SOON_MS)
    await broker.signal("INT", session_id="a")


async def by_leaving_a_program(broker: Broker) -> None:
    await broker.run("cat", "a")
    await broker.send(key="C-d", session_id="a", read="none")


ALL_WAYS = (by_time_out, by_a_line, by_keys, by_interrupt, by_signal, by_leaving_a_program)
WAYS = {each.__name__: each for each in ALL_WAYS}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def untold(request: pytest.FixtureRequest) -> Callable[[Broker], Awaitable[None]]:
    """Has a first command end of which the caller is not told."""
    way: Callable[[Broker], Awaitable[None]] = request.param
    return way


async def test_what_a_run_began_is_waited_for_and_no_earlier_command(
    broker: Broker, untold: Callable[[Broker], Awaitable[None]]
):
    await broker.create_session("bash", name="a")
    await untold(broker)
    await eventually(lambda: have_ended(broker, 1))
    await begin(broker, "sleep 1; (exit 7)")
    answer = await read(broker)
    assert told(answer) == ("command", "sleep 1; (exit 7)", 7)
    assert [each.number for each in answer.also_ended] in ([1], [])
    assert told(await read(broker)) == ("immediate", None, None)


async def test_a_call_that_types_is_not_answered_by_an_earlier_end(
    broker: Broker, untold: Callable[[Broker], Awaitable[None]]
):
    await broker.create_session("bash", name="a")
    await untold(broker)
    await eventually(lambda: have_ended(broker, 1))
    answer = await sent(broker, "sleep 600", timeout_ms=SOON_MS)
    assert told(answer) == ("timeout", None, None)
    assert [each.number for each in answer.also_ended] == [1]
    waited = await broker.wait(["a"], "command", timeout_ms=SOON_MS)
    assert told(waited) == ("timeout", None, None)


async def test_what_is_typed_ahead_is_waited_for(broker: Broker, tmp_path: Path):
    await broker.create_session("bash", name="a")
    await broker.run(f"{until_exists(tmp_path / 'go')}; false", "a", timeout_ms=SOON_MS)
    await broker.send("sleep 0.5; (exit 5)", enter=True, session_id="a", read="none")
    (tmp_path / "go").touch()
    answer = await read(broker)
    assert told(answer) == ("command", "sleep 0.5; (exit 5)", 5)
    assert [(each.number, each.exit_code) for each in answer.also_ended] == [(1, 1)]


async def test_an_end_that_comes_while_a_line_is_typed_ahead_is_no_answer_to_it(broker: Broker, tmp_path: Path):
    await broker.create_session("bash", name="a")
    await begin(broker, "sleep 1; false")
    answer = await sent(broker, "sleep 0.2; (exit 6)")
    assert told(answer) == ("command", "sleep 0.2; (exit 6)", 6)
    assert [each.exit_code for each in answer.also_ended] == [1]


@every_shell
@pytest.mark.parametrize("how", ["text", "keys"])
async def test_of_several_lines_the_last_command_counts(broker: Broker, shell: str, how: str):
    await broker.create_session(shell, name="a")
    lines = ["sleep 0.3", "sh -c 'exit 4'", "sleep 0.3; sh -c 'exit 5'"]
    if how == "text":
        answer = await sent(broker, "\n".join(lines), bracketed_paste="never")
    else:
        answer = await sent(broker, keys=[each for line in lines for each in ({"text": line}, "Enter")])
    assert told(answer) == ("command", lines[2], 5)
    assert [each.exit_code for each in answer.also_ended] == [4, 0]


async def test_of_several_lines_that_were_not_waited_for_the_last_counts(broker: Broker):
    await broker.create_session("bash", name="a")
    lines = "sleep 0.5\n(exit 3)\nsleep 0.5; (exit 4)\n"
    await broker.send(lines, bracketed_paste="never", session_id="a", read="none")
    assert told(await read(broker)) == ("command", "sleep 0.5; (exit 4)", 4)


@pytest.mark.parametrize("line", ["# nothing", "   "])
async def test_a_line_that_begins_nothing_is_said_to(broker: Broker, line: str):
    await broker.create_session("bash", name="a")
    await broker.send("false", enter=True, session_id="a", read="none")
    await eventually(lambda: have_ended(broker, 1))
    answer = await sent(broker, line)
    assert told(answer) == ("immediate", None, None)
    assert "began no command" in (answer.note or "")
    assert [(each.number, each.exit_code) for each in answer.also_ended] == [(1, 1)]
    await broker.send(line, enter=True, session_id="a", read="none")
    later = await read(broker)
    assert told(later) == ("immediate", None, None)
    assert "began no command" in (later.note or "")
    assert (await read(broker)).note is None


async def test_an_open_quote_is_said_to_begin_nothing_yet(broker: Broker):
    await broker.create_session("bash", name="a")
    answer = await sent(broker, "echo 'open")
    assert (answer.outcome, "wants more" in (answer.note or "")) == ("immediate", True)
    assert told(await sent(broker, "'; (exit 3)")) == ("command", "echo 'open\n'; (exit 3)", 3)


# ---- callers -----------------------------------------------------------------------------------------


async def test_each_caller_waits_for_its_own(broker: Broker):
    other = broker.by("other")
    await broker.create_session("bash", name="a")
    await broker.send("sleep 0.5; (exit 3)", enter=True, session_id="a", read="none")
    await other.send("sleep 0.5; (exit 4)", enter=True, session_id="a", read="none")
    mine = await broker.read(session_id="a", wait_for="command", timeout_ms=LONG_MS)
    assert told(mine) == ("command", "sleep 0.5; (exit 3)", 3)
    theirs = await other.read(session_id="a", wait_for="command", timeout_ms=LONG_MS)
    assert told(theirs) == ("command", "sleep 0.5; (exit 4)", 4)
    assert [each.exit_code for each in theirs.also_ended] == [3]


async def test_a_line_is_of_who_pressed_enter(broker: Broker):
    other = broker.by("other")
    await broker.create_session("bash", name="a")
    await other.send("sleep 0.3; (exit 3)", session_id="a")
    assert told(await sent(broker, key="Enter")) == ("command", "sleep 0.3; (exit 3)", 3)
    assert told(await other.read(session_id="a", wait_for="command", timeout_ms=LONG_MS))[0] == "immediate"


async def test_who_has_none_waits_for_the_one_that_runs(broker: Broker, state_dir: Path, tmp_path: Path):
    await broker.create_session("bash", name="a")
    typed_by_script(state_dir, "(exit 2)", "Enter")
    await eventually(lambda: have_ended(broker, 1))
    assert told(await read(broker)) == ("immediate", None, None)
    line = f"{until_exists(tmp_path / 'go')}; (exit 9)"
    typed_by_script(state_dir, line, "Enter")
    await eventually(lambda: is_running(broker, line))
    assert told(await read(broker, timeout_ms=SOON_MS))[0] == "timeout"
    found: list[r.ReadResult] = []

    async def waits() -> None:
        found.append(await read(broker))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waits)
        await anyio.wait_all_tasks_blocked()
        (tmp_path / "go").touch()
    assert told(found[0]) == ("command", line, 9)
    assert told(await read(broker)) == ("immediate", None, None)


# ---- one by its number -------------------------------------------------------------------------------


async def test_a_command_that_is_named_answers_each_time(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.run("(exit 3)", "a")
    await begin(broker, "sleep 0.7; (exit 4)")
    for _ in range(2):
        assert told(await broker.wait(["a"], "command", command=1)) == ("command", "(exit 3)", 3)
        assert told(await read(broker, command=1)) == ("command", "(exit 3)", 3)
    assert told(await read(broker, command=-1)) == ("command", "sleep 0.7; (exit 4)", 4)
    assert told(await broker.wait(["a"], "command", command=2)) == ("command", "sleep 0.7; (exit 4)", 4)
    with pytest.raises(InvalidArgument, match="no command 9"):
        await broker.wait(["a"], "command", command=9)
    with pytest.raises(InvalidArgument, match="of one session"):
        await broker.wait(["a"], "ready", command=1)
    with pytest.raises(InvalidArgument, match="of one session"):
        await broker.wait(wait_for="command", command=1)


async def test_the_output_of_one_that_runs_comes_with_its_own_facts(broker: Broker):
    await broker.create_session("bash", name="a")
    await begin(broker, "sleep 0.1")
    await eventually(lambda: have_ended(broker, 1))
    await broker.run("echo begun; sleep 600", "a", timeout_ms=SOON_MS)
    answer = await read(broker, wait_for="none", command=-1)
    assert told(answer) == ("immediate", "echo begun; sleep 600", None)
    assert answer.content == "begun\n"


# ---- programs and shells in front --------------------------------------------------------------------


async def test_what_is_given_to_a_program_waits_for_its_end(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.run("(exit 3)", "a")
    await broker.run("cat; (exit 6)", "a")
    assert told(await sent(broker, "a line", timeout_ms=SOON_MS)) == ("timeout", None, None)
    assert told(await sent(broker, key="C-d")) == ("command", "cat; (exit 6)", 6)
    assert told(await sent(broker, key="C-c")) == ("immediate", None, None)


async def test_a_shell_that_is_left_ends_the_wait_for_what_ran_in_it(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.send("dash", session_id="a", enter=True, wait_for="ready")
    await broker.run("echo one", "a", adopt="yes")
    answer = await sent(broker, "exit 3")
    assert told(answer) == ("left", "exit 3", 3)
    assert [each.exit_code for each in answer.also_ended] == [3]
    assert told(await read(broker)) == ("immediate", None, None)


async def test_a_command_whose_shell_is_killed_ends_the_wait(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.send("dash", session_id="a", enter=True, wait_for="ready")
    assert (await broker.run("echo one", "a", adopt="yes")).exit_code == 0
    await broker.run("sleep 0.5; kill -9 $$; sleep 1", "a", timeout_ms=SOON_MS)
    answer = await read(broker)
    assert told(answer) == ("left", "sleep 0.5; kill -9 $$; sleep 1", 137)


@every_shell
async def test_a_command_that_was_stopped_is_not_said_to_be_over(broker: Broker, shell: str):
    await broker.create_session(shell, name="a")
    await broker.run("sleep 600", "a", timeout_ms=SOON_MS)
    answer = await sent(broker, key="C-z")
    assert answer.outcome == "command"
    assert answer.command
    assert answer.command.exit_code == (None if shell == "fish" else 148)  # fish has a status of 0
    assert "is stopped" in (answer.note or "")
    await broker.send("fg", session_id="a", enter=True, read="none")
    await eventually(lambda: is_in_front(broker, "sleep 600"))
    assert "stopped" not in ((await sent(broker, key="C-c")).note or "")


# ---- several conditions ------------------------------------------------------------------------------


async def test_the_first_of_several_conditions_ends_the_wait(broker: Broker):
    await broker.create_session("bash", name="a")
    either = {"wait_for": ["pattern", "command"], "pattern": "Listening|Error"}
    assert told(await sent(broker, "sleep 0.2; (exit 4)", **either)) == ("command", "sleep 0.2; (exit 4)", 4)
    both = await sent(broker, "echo Lis''tening", **either)
    assert (both.outcome, both.matched) == ("matched", "Listening")
    silent = await sent(broker, "sleep 600", wait_for=["command", "idle"], idle_ms=200)
    assert silent.outcome == "idle"
    await broker.send(key="C-c", session_id="a")
    ended = await broker.wait(["a"], ["exit", "output"], timeout_ms=SOON_MS)
    assert ended.outcome == "timeout"


@pytest.mark.parametrize("wrong", [[], ["none", "ready"], ["ready", "never"], [1], {"a": 1}, "never"])
async def test_conditions_are_words(broker: Broker, wrong: object):
    with pytest.raises(InvalidArgument, match="or a list of these"):
        await broker.read(session_id="a", wait_for=wrong)  # type: ignore[arg-type]
