"""The commands of real shells, as their marks, the log and what was typed tell them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.conftest import SLOW, eventually
from tests.kit.programs import every_shell
from tests.kit.tmux import typed_by_script
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.record.commands import EndedCommand
from tmuxmcp.sessions.commands import MOST_NEW, Command, RunningCommand
from tmuxmcp.sessions.session import Session
from tmuxmcp.sessions.shellview import ShellView


async def known(session: Session) -> list[Command]:
    return session.commands.kept_commands(await session.look())


async def ended(session: Session, count: int) -> list[EndedCommand]:
    """All commands, once so many have ended."""

    async def so_many() -> list[Command]:
        found = await known(session)
        return found if sum(isinstance(each, EndedCommand) for each in found) >= count else []

    found = await eventually(so_many, 10)
    assert len(found) == count
    return [each for each in found if isinstance(each, EndedCommand)]


async def session_of(broker: Broker, shell: str) -> Session:
    await broker.create_session(shell, name="a")
    return broker.registry.sessions["a"]


@every_shell
async def test_a_command_has_text_code_place_and_time(broker: Broker, shell: str, tmp_path: Path) -> None:
    session = await session_of(broker, shell)
    before = time.time()
    await broker.run(f"cd {tmp_path}; echo out; sh -c 'exit 3'", "a")
    (command,) = await ended(session, 1)
    assert (command.text, command.exit_code) == (f"cd {tmp_path}; echo out; sh -c 'exit 3'", 3)
    assert (command.cwd, command.by, command.number) == (str(tmp_path), "agent", 1)
    assert session.log.read(command.start, command.end - command.start).endswith(b"out\r\n")
    assert command.began is not None
    assert command.ended is not None
    assert before - 0.05 <= command.began <= command.ended <= time.time() + 0.05


@every_shell
async def test_a_command_of_several_lines_is_one(broker: Broker, shell: str) -> None:
    session = await session_of(broker, shell)
    text = "echo 'one\ntwo'\necho three"
    await broker.run(text, "a")
    (command,) = await ended(session, 1)
    assert (command.text, command.exit_code) == (text, 0)


@every_shell
async def test_what_runs_nothing_is_no_command(broker: Broker, shell: str, state_dir: Path) -> None:
    session = await session_of(broker, shell)
    await broker.send(enter=True, session_id="a")
    await broker.send("half a command", session_id="a")
    await broker.send(key="C-c", session_id="a")
    await broker.read(session_id="a", wait_for="ready")
    size = session.log.size()
    typed_by_script(state_dir, "Enter", "Enter")
    await eventually(lambda: session.log.read(size, 1 << 20).count(b"\x1b]133;A;") >= 2)  # it has read both
    await broker.run("true", "a")
    (command,) = await ended(session, 1)
    assert command.text == "true"


@every_shell
async def test_who_typed_it_is_told(broker: Broker, shell: str, state_dir: Path) -> None:
    session = await session_of(broker, shell)
    await broker.run("true", "a")
    await broker.send("echo sent", enter=True, session_id="a")
    await ended(session, 2)
    typed_by_script(state_dir, "echo scripted", "Enter")
    await ended(session, 3)
    await broker.send("echo keys", keys=["Space", "x", "BSpace", "Enter"], session_id="a")
    commands = await ended(session, 4)
    assert [each.by for each in commands] == ["agent", "agent", "other", "agent"]
    assert [(each.text or "").strip() for each in commands] == ["true", "echo sent", "echo scripted", "echo keys"]


@every_shell
async def test_what_is_typed_ahead_is_told_by_its_text(broker: Broker, shell: str, state_dir: Path) -> None:
    session = await session_of(broker, shell)
    await broker.send("sleep 1", enter=True, session_id="a", wait_for="none")
    await eventually(lambda: known(session))
    await broker.send("echo ahead", enter=True, session_id="a", wait_for="none")
    typed_by_script(state_dir, "echo scripted", "Enter")
    commands = await ended(session, 3)
    assert [(each.text, each.by) for each in commands] == [
        ("sleep 1", "agent"),
        ("echo ahead", "agent"),
        ("echo scripted", "other"),
    ]


@every_shell
async def test_a_command_that_runs_has_no_end(broker: Broker, shell: str) -> None:
    session = await session_of(broker, shell)
    await broker.run("sleep 600", "a", timeout_ms=int(1000 * SLOW))
    (running,) = await eventually(lambda: known(session))
    assert isinstance(running, RunningCommand)
    assert (running.number, running.text, running.by) == (1, "sleep 600", "agent")
    assert session.commands.count(await session.scan()) == 1
    await broker.send(key="C-c", session_id="a")
    (command,) = await ended(session, 1)
    assert (command.number, command.exit_code) == (1, 130)


async def test_lines_that_bash_asks_for_belong_to_one_command(broker: Broker, state_dir: Path) -> None:
    session = await session_of(broker, "bash")
    for line in ("for i in 1 2; do", "echo $i", "done"):
        typed_by_script(state_dir, line, "Enter")
    (command,) = await ended(session, 1)
    assert (command.text, command.by) == ("for i in 1 2; do\necho $i\ndone", "other")


async def test_a_prompt_of_the_users_own_within_a_command_hides_its_text(broker: Broker, state_dir: Path) -> None:
    session = await session_of(broker, "bash")
    await broker.run("PS2='more: '", "a")
    for line in ("for i in 1 2; do", "echo $i", "done"):
        typed_by_script(state_dir, line, "Enter")
    assert (await ended(session, 2))[-1].text is None


async def test_a_long_command_is_cut(broker: Broker) -> None:
    session = await session_of(broker, "bash")
    text = "echo '" + "word " * 20_000 + "' | wc -c"
    await broker.run(text, "a")
    (command,) = await ended(session, 1)
    assert (command.text, command.by) == (text[:1000] + "…", "agent")


async def test_a_secret_that_is_typed_is_not_written_down(broker: Broker) -> None:
    session = await session_of(broker, "bash")
    await broker.send("read -s x", enter=True, session_id="a")
    await broker.send("hunter2", enter=True, session_id="a")
    await broker.send("echo done", enter=True, session_id="a")
    await ended(session, 2)
    await broker.send("stty -echo; cat >/dev/null", enter=True, session_id="a")
    await broker.send("hunter2", enter=True, session_id="a")
    session.save_checkpoint()
    for path in session.directory.path.glob("commands*"):
        assert "hunter2" not in path.read_text()


# ---- marks that are not the shell's ------------------------------------------------------------------


def forged(session: Session, number: int, *kinds: str) -> str:
    """A command that prints marks like the shell's own."""
    marks = "".join(rf"\033]133;{kind};aid={session.meta.nonce};n={number}\007" for kind in kinds)
    return f"printf '{marks}'"


@every_shell
async def test_an_end_that_a_program_prints_is_none(broker: Broker, shell: str, state_dir: Path) -> None:
    session = await session_of(broker, shell)
    print_marks = forged(session, 1, "E", "D;0")
    typed_by_script(state_dir, f'sh -c "{print_marks}; echo later; read x; exit 7"', "Enter")
    await eventually(lambda: b"later" in session.log.read(0, 1 << 20).partition(b"\x1b]133;D;0")[2])
    (running,) = await known(session)
    assert isinstance(running, RunningCommand)
    session.save_checkpoint()
    typed_by_script(state_dir, "Enter")
    (command,) = await ended(session, 1)
    assert command.exit_code == 7
    assert b"later" in session.log.read(command.start, command.end - command.start)


@every_shell
async def test_a_log_that_is_printed_is_no_command(broker: Broker, shell: str) -> None:
    session = await session_of(broker, shell)
    for text in ("true", "false"):
        await broker.run(text, "a")
    await broker.run(f"cat {session.log.path}; sh -c 'exit 4'", "a")
    assert [each.exit_code for each in await ended(session, 3)] == [0, 1, 4]


# ---- several brokers ---------------------------------------------------------------------------------


@every_shell
async def test_another_broker_knows_the_same(broker: Broker, shell: str, state_dir: Path) -> None:
    session = await session_of(broker, shell)
    count = MOST_NEW + 6 if shell == "bash" else 5
    texts = [f"echo {number}; sh -c 'exit {number}'" for number in range(count)]
    for text in texts:
        await broker.run(text, "a")
    first = await ended(session, count)
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as other:
        found = await ended(other.registry.sessions["a"], count)
        assert [(each.text, each.exit_code, each.by) for each in found] == [
            (text, number, "agent") for number, text in enumerate(texts)
        ]
        assert [(each.number, each.start, each.end) for each in found] == [
            (each.number, each.start, each.end) for each in first
        ]
        await other.run("echo of the other", "a")
    assert (await ended(session, count + 1))[-1].text == "echo of the other"
    assert len(session.directory.commands.read_text().splitlines()) < 2 * (count + 2)


async def test_a_command_that_prints_more_than_is_kept_before_it_is_looked_at(
    state_dir: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a busy machine: the mark of its beginning is no longer kept when its turn to be read comes."""
    printed, scan_some = 5_000_000, ShellView.scan_some

    def scans_late(view: ShellView) -> bool:
        log = view._log
        typed = b"head -c" in log.read(view.size, 4096)
        return False if typed and log.size() < printed else scan_some(view)

    monkeypatch.setattr(ShellView, "scan_some", scans_late)
    settings = BrokerSettings(state_dir=state_dir, program="bash", log_max_bytes=1 << 20)
    async with Broker.open(settings) as broker:
        session = await session_of(broker, "bash")
        line = f"head -c {printed} /dev/zero | tr '\\0' x; (exit 3)"
        ran = await broker.run(line, "a", timeout_ms=int(20_000 * SLOW))
        assert (ran.completed, ran.exit_code, ran.note) == (True, 3, None)
        assert ran.output_bytes >= printed
        (command,) = await ended(session, 1)
        assert (command.text, command.exit_code, command.number) == (line, 3, ran.command_number)


async def test_commands_outlive_their_output(state_dir: Path, home: Path) -> None:
    settings = BrokerSettings(state_dir=state_dir, program="bash", log_max_bytes=1 << 20)
    async with Broker.open(settings) as broker:
        session = await session_of(broker, "bash")
        await broker.run("echo first", "a")
        await broker.run("head -c 5000000 /dev/zero | tr '\\0' x", "a")
        await eventually(lambda: session.log.head() > 100_000)
        found = await ended(session, 2)
        assert [each.text for each in found] == ["echo first", "head -c 5000000 /dev/zero | tr '\\0' x"]
        assert found[0].end < session.log.head()
        session.save_checkpoint()
    async with Broker.open(settings) as again:
        found = await ended(again.registry.sessions["a"], 2)
        assert [each.text for each in found] == ["echo first", "head -c 5000000 /dev/zero | tr '\\0' x"]
