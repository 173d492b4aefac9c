"""What a session's shell ran, as callers are told."""

from __future__ import annotations

import base64
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from tests.conftest import SLOW, eventually, stop_with_children, until_exists
from tests.kit.processes import is_in_front
from tests.kit.programs import every_shell, need
from tests.kit.tmux import typed_by_script
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import InvalidArgument, NotRetained
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import asdict
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.machine.witness.relays import TerminalFacts
from tmuxmcp.readiness import finding
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux.panes import Pane

SOON_MS = int(1000 * SLOW)
"""Time in which a shell begins a command."""


async def listed(broker: Broker, count: int, **wanted: int | bool) -> list[r.ListedCommand]:
    """The commands, once there are so many that have ended."""

    async def so_many() -> list[r.ListedCommand]:
        found = (await broker.list_commands("a", **wanted)).commands  # type: ignore[arg-type]
        return found if len(found) == count and found[-1].exit_code is not None else []

    return await eventually(so_many, 10)


async def test_commands_are_listed_newest_last(broker: Broker, state_dir: Path, tmp_path: Path) -> None:
    await broker.create_session("bash", name="a")
    run = await broker.run(f"cd {tmp_path}; sleep 0.2", "a")
    typed_by_script(state_dir, "sh -c 'exit 3'", "Enter")
    first, second = await listed(broker, 2)
    assert (first.number, first.text, first.exit_code) == (1, f"cd {tmp_path}; sleep 0.2", 0)
    assert (first.cwd, first.start_offset, first.end_offset) == (str(tmp_path), run.start_offset, run.end_offset)
    assert (first.by, first.level) == ("agent", 0)
    assert first.duration_ms is not None
    assert first.duration_ms >= 190
    assert first.started_at is not None
    made = (await broker.get_session("a")).created_at
    assert datetime.fromisoformat(made) < datetime.fromisoformat(first.started_at)
    assert (second.number, second.text, second.exit_code, second.by) == (2, "sh -c 'exit 3'", 3, "other")


async def test_a_part_of_the_commands_can_be_asked_for(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    for number in range(1, 7):
        await broker.run(f"sh -c 'exit {number % 2}'", "a")

    async def numbers(**wanted: int | bool) -> list[int]:
        found = await broker.list_commands("a", **wanted)  # type: ignore[arg-type]
        assert found.count == len(found.commands)
        return [each.number for each in found.commands]

    await listed(broker, 6)
    assert await numbers(limit=2) == [5, 6]
    assert await numbers(limit=2, before=5) == [3, 4]
    assert await numbers(before=1) == []
    assert await numbers(failed_only=True) == [1, 3, 5]
    assert await numbers(failed_only=True, limit=1, before=5) == [3]


async def test_the_command_that_runs_is_the_last_and_has_no_end(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    await broker.run("sleep 600", "a", timeout_ms=SOON_MS)
    (command,) = (await broker.list_commands("a")).commands
    assert (command.text, command.exit_code, command.duration_ms, command.end_offset) == ("sleep 600", None, None, None)
    assert (await broker.list_commands("a", failed_only=True)).commands == []


async def test_a_command_whose_shell_still_comes_to_its_prompt_is_over(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "UNMARKED_S", 60.0)  # it takes a while on a busy machine
    await broker.create_session("bash", name="a")
    await broker.run("PROMPT_COMMAND+=('sleep 0.1')", "a")
    assert (await broker.run("echo one; false", "a")).exit_code == 1
    assert (await broker.list_commands("a", limit=1)).commands[0].exit_code == 1
    assert (await broker.run("echo two", "a")).exit_code == 0
    read = await broker.read(session_id="a", command=-1)
    assert (read.content, read.note) == ("two\n", None)


async def test_a_program_that_is_no_shell_tells_of_none(broker: Broker) -> None:
    await broker.create_session("cat", name="a")
    found = await broker.list_commands("a")
    assert (found.count, found.commands) == (0, [])
    assert "tells of no commands" in (found.note or "")


# ---- what a caller is told ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["echo out; exit 7", "echo out; kill -KILL $$"])
async def test_what_ran_when_its_session_ended_is_over(broker: Broker, command: str) -> None:
    await broker.create_session("bash", name="a")
    ran = await broker.run(command, "a")
    assert ran.outcome == "exited"
    (told,) = (await broker.list_commands("a")).commands
    assert (told.text, told.exit_code, told.start_offset, told.end_offset) == (
        command,
        None,
        ran.start_offset,
        ran.end_offset,
    )


async def test_read_tells_the_last_command_that_ended_once(broker: Broker, state_dir: Path) -> None:
    await broker.create_session("bash", name="a")
    assert (await broker.read(session_id="a")).command is None
    typed_by_script(state_dir, "sh -c 'exit 3'", "Enter", "sh -c 'exit 4'", "Enter")
    second = (await listed(broker, 2))[-1]
    seen = await broker.read(session_id="a", view="screen")
    command = seen.command
    assert command is not None
    assert asdict(second) == asdict(command) | {"by": second.by, "level": second.level, "stdin": second.stdin}
    assert [each.number for each in seen.also_ended] == [1]
    assert (command.number, command.exit_code) == (2, 4)
    assert (await broker.read(session_id="a")).command is None
    other = await broker.by("other").read(session_id="a")
    assert other.command is not None
    assert other.command.number == 2


async def test_what_run_answered_is_told(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    assert (await broker.run("true", "a")).command_number == 1
    assert (await broker.read(session_id="a")).command is None
    assert (await broker.run("# nothing", "a")).command_number is None


async def test_a_command_that_ends_between_two_runs_is_told(broker: Broker, tmp_path: Path) -> None:
    await broker.create_session("bash", name="a")
    started = await broker.run(f"{until_exists(tmp_path / 'go')}; sh -c 'exit 3'", "a", timeout_ms=SOON_MS)
    assert (started.completed, started.command_number) == (False, 1)
    (tmp_path / "go").touch()
    await listed(broker, 1)
    second = await broker.run("true", "a")
    assert second.command_number == 2
    assert second.also_ended == [r.AlsoEnded(number=1, exit_code=3)]
    read = await broker.read(session_id="a")
    assert (read.command, read.also_ended) == (None, [])


async def test_send_tells_what_it_ran(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    sent = await broker.send("sh -c 'exit 5'", enter=True, session_id="a")
    assert sent.result is not None
    assert sent.result.command is not None
    assert (sent.result.command.text, sent.result.command.exit_code) == ("sh -c 'exit 5'", 5)
    assert (await broker.send("x", session_id="a", read="none")).result is None


async def test_reading_from_an_offset_tells_it_again(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    await broker.send("false", enter=True, session_id="a", read="none")
    await listed(broker, 1)
    for _ in range(2):
        command = (await broker.read(session_id="a", since=0)).command
        assert command is not None
        assert command.exit_code == 1


async def test_what_was_told_outlives_the_broker(broker: Broker, state_dir: Path) -> None:
    await broker.create_session("bash", name="a")
    for code in (3, 4):
        await broker.send(f"sh -c 'exit {code}'", enter=True, session_id="a")
    await broker.run("true", "a")
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as later:
        assert (await later.read(session_id="a")).command is None
        other = (await later.by("other").read(session_id="a")).command
        assert other is not None
        assert other.number == 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("how", ["text", "keys", "two calls"])
async def test_lines_that_were_typed_ahead_are_the_caller_s(
    broker: Broker, state_dir: Path, shell: str, how: str
) -> None:
    need(shell)
    await broker.create_session(shell, name="a")
    lines = ["sleep 0.5", "sh -c 'exit 4'"]
    if how == "text":
        await broker.send("\n".join(lines), enter=True, bracketed_paste="never", session_id="a", read="none")
    elif how == "keys":
        keys = [each for line in lines for each in ({"text": line}, "Enter")]
        await broker.send(keys=keys, session_id="a", read="none")
    else:
        for line in lines:
            await broker.send(line, enter=True, session_id="a", read="none")
    assert [each.by for each in await listed(broker, 2)] == ["agent", "agent"]
    typed_by_script(state_dir, lines[1], "Enter")
    assert [(each.by, each.exit_code) for each in await listed(broker, 3)][2] == ("other", 4)


# ---- waiting for a command ---------------------------------------------------------------------------

LONG_MS = 30_000


async def waited(broker: Broker, timeout_ms: int = LONG_MS) -> tuple[str, int | None, int | None]:
    """Outcome, number and exit code of a wait for a command."""
    result = await broker.read(session_id="a", wait_for="command", timeout_ms=timeout_ms)
    assert (result.command is not None) == (result.outcome in ("command", "exited"))
    return (result.outcome, *((result.command.number, result.command.exit_code) if result.command else (None, None)))


@every_shell
async def test_a_run_that_timed_out_gives_its_exit_code_to_one_wait(broker: Broker, shell: str, tmp_path: Path) -> None:
    await broker.create_session(shell, name="a")
    command = f"sleep 1; {until_exists(tmp_path / 'go')}; echo late; sh -c 'exit 3'"
    result = await broker.run(command, "a", timeout_ms=SOON_MS)
    (tmp_path / "go").touch()
    assert (result.outcome, result.exit_code) == ("timeout", None)
    assert "read wait_for=command gives its exit code" in (result.note or "")
    after = await broker.read(session_id="a", wait_for="command", timeout_ms=LONG_MS)
    assert (after.outcome, after.evidence, after.content.partition("\n")[0]) == ("command", "marks", "late")
    assert after.command is not None
    assert (after.command.number, after.command.exit_code) == (result.command_number, 3)
    assert after.command.duration_ms is not None
    assert after.command.duration_ms >= 900


@every_shell
async def test_of_several_ends_the_newest_is_told_and_the_others_beside_it(broker: Broker, shell: str) -> None:
    await broker.create_session(shell, name="a")
    for code in range(3, 10):
        await broker.send(f"sh -c 'exit {code}'", enter=True, session_id="a", read="none")
        await listed(broker, code - 2)
    told = await broker.read(session_id="a", wait_for="command", timeout_ms=LONG_MS)
    assert told.command
    assert (told.outcome, told.command.number, told.command.exit_code) == ("command", 7, 9)
    assert [(each.number, each.exit_code) for each in told.also_ended] == [(6, 8), (5, 7), (4, 6), (3, 5), (2, 4)]
    assert await waited(broker) == ("immediate", None, None)
    again = await broker.read(session_id="a", wait_for="command", command=3)
    assert again.command
    assert (again.outcome, again.command.number, again.command.exit_code, again.also_ended) == ("command", 3, 5, [])


@every_shell
async def test_a_wait_for_a_command_with_none_comes_back_at_once(broker: Broker, shell: str) -> None:
    await broker.create_session(shell, name="a")
    assert await waited(broker) == ("immediate", None, None)
    await broker.run("true", "a")
    assert await waited(broker) == ("immediate", None, None)
    sent = await broker.send("half a line", session_id="a", wait_for="command", timeout_ms=LONG_MS)
    assert sent.result is not None
    assert (sent.result.outcome, sent.result.command) == ("immediate", None)


async def test_a_program_without_marks_has_no_command_to_wait_for(broker: Broker) -> None:
    await broker.create_session("cat", name="a")
    assert await waited(broker) == ("immediate", None, None)


@every_shell
async def test_send_waits_for_the_end_of_what_it_types(broker: Broker, shell: str) -> None:
    await broker.create_session(shell, name="a")
    sent = await broker.send(
        "sleep 0.7; sh -c 'exit 6'", enter=True, session_id="a", wait_for="command", timeout_ms=LONG_MS
    )
    assert sent.result is not None
    assert sent.result.command is not None
    assert (sent.result.outcome, sent.result.command.exit_code) == ("command", 6)


async def test_a_command_that_does_not_end_in_time_is_told_later(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    await broker.run("read x; sh -c 'exit 9'", "a")
    assert await waited(broker, 200) == ("timeout", None, None)
    await broker.send(enter=True, session_id="a", read="none")
    assert await waited(broker) == ("command", 1, 9)


async def test_an_interrupted_command_ends(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    await broker.run("sleep 600", "a", timeout_ms=SOON_MS)
    # Between fork and exec a child handles the signal as its shell does, which drops it.
    await eventually(lambda: is_in_front(broker, "sleep 600"))
    await broker.send(key="C-c", session_id="a", read="none")
    assert await waited(broker) == ("command", 1, 130)


async def test_a_shell_that_exits_ends_the_wait(broker: Broker, tmp_path: Path) -> None:
    await broker.create_session("bash", name="a")
    await broker.run(f"{until_exists(tmp_path / 'go')}; exit 3", "a", timeout_ms=SOON_MS)
    (tmp_path / "go").touch()
    assert await waited(broker) == ("exited", 1, 3)
    assert await waited(broker) == ("exited", 1, 3)


async def test_a_mark_that_a_program_prints_ends_no_wait(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    session = broker.registry.sessions["a"]
    await broker.send(forges(session, "sleep 1"), enter=True, session_id="a", read="none")
    assert await waited(broker) == ("command", 1, 7)


def forges(session: Session, then: str) -> str:
    """A command that prints the marks of its own end, goes on and exits with 7."""
    forged = "".join(rf"\033]133;{kind};aid={session.meta.nonce};n=1\007" for kind in ("D;0", "A", "B"))
    return f"sh -c \"printf '{forged}'; {then}; exit 7\""


async def is_printed(session: Session) -> bool:
    return b";n=1\x07" in session.log.read(session.typed_at, 4096).rpartition(b"133;B;")[2]


async def test_a_printed_mark_ends_no_command_whose_own_is_on_its_way_to_the_log(
    broker: Broker, tmp_path: Path
) -> None:
    await broker.create_session("bash", name="a")
    session = broker.registry.sessions["a"]
    text = forges(session, f"until test -e {tmp_path}/go; do sleep 0.05; done")
    await broker.send(text, enter=True, session_id="a", read="none")
    await eventually(lambda: is_printed(session))
    sink = stop_with_children(int(session.directory.sink.read_text().split()[0]))
    try:
        (tmp_path / "go").touch()
        await eventually(lambda: waits_for_keys(session))
        assert await waited(broker, 300) == ("timeout", None, None)
    finally:
        for process in sink:
            process.resume()
    assert await waited(broker) == ("command", 1, 7)


async def waits_for_keys(session: Session) -> bool:
    look = await session.look()
    return look.waiting is InputWait.EDITOR and look.own_shell_in_front


async def test_a_mark_that_is_printed_behind_the_kernels_word_ends_no_command(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell waited for keys when the kernel was asked; when the log is read it runs the command."""
    await broker.create_session("bash", name="a")
    session = broker.registry.sessions["a"]
    look = session._terminal.look

    async def then_held_up(pane: Pane | None) -> TerminalFacts:
        sight = await look(pane)
        patched.undo()
        await broker.send(forges(session, "sleep 600"), enter=True, session_id="a", read="none")
        await eventually(lambda: is_printed(session))
        return sight

    with monkeypatch.context() as patched:
        patched.setattr(session._terminal, "look", then_held_up)
        (command,) = (await broker.list_commands("a")).commands
    assert command.exit_code is None


def begun_by_a_broker_that_is_killed(state_dir: Path) -> None:
    """Have a broker run a command that waits for Enter, and kill the broker."""
    program = f"""
import anyio, pathlib
from tmuxmcp.shell import run
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.errors import InvalidArgument, NotRetained
async def main():
    async with Broker.open(BrokerSettings(state_dir=pathlib.Path({str(state_dir)!r}), program="bash"), "me") as broker:
        await broker.create_session("bash", name="a")
        await broker.run("true", "a")
        await broker.run("read x; sh -c 'exit 8'", "a")
        print("asks", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"asks\n"
        killed.kill()


async def test_a_wait_takes_up_what_a_killed_broker_began(state_dir: Path, home: Path) -> None:
    begun_by_a_broker_that_is_killed(state_dir)
    typed_by_script(state_dir, "Enter")
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash"), "me") as broker:
        assert await waited(broker) == ("command", 2, 8)
        assert await waited(broker) == ("immediate", None, None)
        assert [(each.text, each.by) for each in await listed(broker, 2)] == [
            ("true", "agent"),
            ("read x; sh -c 'exit 8'", "agent"),
        ]


# ---- what a command printed --------------------------------------------------------------------------


@every_shell
async def test_the_output_of_a_command_can_be_had_again(broker: Broker, shell: str) -> None:
    await broker.create_session(shell, name="a")
    outputs = [(await broker.run(f"echo 'one {number}'; echo two", "a")).output for number in (1, 2, 3)]
    assert outputs[1] == "one 2\ntwo\n"
    session = broker.registry.sessions["a"]
    cursor = session.cursor_of("library")
    for number, expected in ((1, outputs[0]), (2, outputs[1]), (-1, outputs[2])):
        result = await broker.read(session_id="a", command=number)
        assert (result.content, result.has_new_content, result.truncated) == (expected, True, False)
        raw = await broker.read(view="raw", session_id="a", command=number)
        assert base64.b64decode(raw.content).endswith(expected.replace("\n", "\r\n").encode())
    assert session.cursor_of("library") == cursor


async def test_a_long_output_keeps_both_ends(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    run = await broker.run("seq 10000", "a", max_bytes=400)
    result = await broker.read(session_id="a", command=1, max_bytes=400)
    assert (result.content, result.truncated, result.omitted_bytes) == (run.output, True, run.omitted_bytes)


async def test_a_command_that_runs_gives_what_it_printed_so_far(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    run = await broker.run("echo so far; read x; echo later", "a")
    result = await broker.read(session_id="a", command=-1)
    assert (result.content, result.note) == ("so far\n", "The command still runs.")
    await broker.send(enter=True, session_id="a", read="none")
    assert run.command_number is not None
    result = await broker.read(session_id="a", command=run.command_number, wait_for="command", timeout_ms=LONG_MS)
    assert (result.outcome, result.content, result.note) == ("command", "so far\n\nlater\n", None)


async def test_a_number_that_no_command_has_is_refused(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    with pytest.raises(InvalidArgument, match="No command has run"):
        await broker.read(session_id="a", command=-1)
    await broker.run("true", "a")
    await broker.send(enter=True, session_id="a")
    await broker.run("true", "a")
    for number in (0, 2, 4, 99):
        with pytest.raises(InvalidArgument, match="from 1 to 3"):
            await broker.read(session_id="a", command=number)
    for more in ({"since": 0}, {"offset": 1}, {"view": "diff"}, {"view": "scrollback"}, {"screen_id": "x"}):
        with pytest.raises(InvalidArgument, match="does not go with"):
            await broker.read(session_id="a", command=1, **more)  # type: ignore[arg-type]


async def test_output_that_is_gone_is_not_retained(state_dir: Path, home: Path) -> None:
    settings = BrokerSettings(state_dir=state_dir, program="bash", log_max_bytes=1 << 20)
    async with Broker.open(settings) as broker:
        await broker.create_session("bash", name="a")
        session = broker.registry.sessions["a"]
        await broker.run("echo first", "a")
        run = await broker.run("seq 400000", "a")
        await eventually(lambda: session.log.head() > run.start_offset)
        await broker.read(session_id="a", wait_for="ready")  # the sink rests: it gives nothing more back
        with pytest.raises(NotRetained) as refused:
            await broker.read(session_id="a", command=1)
        assert refused.value.details["first_offset"] == session.log.head()
        part = await broker.read(session_id="a", command=2)
        assert part.truncated
        assert part.content.endswith("\n400000\n")
        assert [each.text for each in (await broker.list_commands("a")).commands] == ["echo first", "seq 400000"]


async def test_a_command_that_has_ended_is_told_while_tmux_works_for_others(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_session("bash", name="a")
    monkeypatch.setattr(broker.registry.sessions["a"].commands, "_log_seems_complete", lambda size: False)
    sent = await broker.send("(exit 7)", session_id="a", enter=True)
    assert sent.result
    assert sent.result.outcome == "ready"
    assert sent.result.command
    assert sent.result.command.exit_code == 7
