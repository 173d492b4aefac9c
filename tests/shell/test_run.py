"""`run` that is cancelled while it types: the shell takes the next command as if nothing had been."""

from __future__ import annotations

import os
import random
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.conftest import SLOW, TMUX, eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import IncompleteCommand, NotAShell, SessionBusy, TimedOut
from tmuxmcp.contract.value import replace
from tmuxmcp.machine.launch.shells import shell_of
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.sessions.session import Session
from tmuxmcp.sessions.shellview import REMEMBERED_COMMANDS
from tmuxmcp.shell import typing
from tmuxmcp.shell.outcomes import Job
from tmuxmcp.shell.promptjudge import AtPrompt, PromptFacts, PromptNeed, PromptStep
from tmuxmcp.shell.typing import interrupt
from tmuxmcp.tmux.panes import Pane, recall


@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
async def test_cancelled_at_any_moment_of_its_typing(broker: Broker, program: str) -> None:
    rng = random.Random(3)
    await broker.create_session(program, name="a")
    await broker.run("true", session_id="a")
    for number in range(60):
        with anyio.move_on_after(rng.uniform(0, 0.012)):
            await broker.run(f"echo cancelled{number}", session_id="a")
        with anyio.fail_after(10 * SLOW):
            while True:
                try:
                    ran = await broker.run(f"echo next{number}", session_id="a")
                    break
                except (SessionBusy, TimedOut):  # the cancelled command still runs
                    await broker.read(session_id="a", wait_for="ready", timeout_ms=1000)
        assert (ran.output, ran.exit_code, ran.note) == (f"next{number}\n", 0, None)


SLOW_TO_ACCEPT = r"""
slow() { until test -e GO; do :; done; }
bind '"\e[7776~": "\e[7774~\e[7773~"'; bind -x '"\e[7774~": slow'; bind '"\e[7773~": accept-line'
"""
"""bash draws its prompt anew before it runs what was given to it; here it works from the one to the other until GO."""


async def test_prompt_drawn_anew_is_not_free(broker: Broker, tmp_path: Path) -> None:
    await broker.create_session("bash", name="a")
    await broker.run(SLOW_TO_ACCEPT.replace("GO", str(tmp_path / "go")), session_id="a")
    await broker.read(session_id="a", wait_for="ready")
    size = broker.registry.sessions["a"].log.size()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: broker.run("read -rs -t 1 -n 1; echo $?", session_id="a"))
            await eventually(lambda: b";B;" in broker.registry.sessions["a"].log.read(size, 4096))
            scope.cancel()
    with pytest.raises(SessionBusy):
        await broker.run("echo too early", session_id="a", timeout_ms=200)
    (tmp_path / "go").touch()
    first = await broker.read(session_id="a", wait_for="command", timeout_ms=20_000)
    assert first.command
    assert (first.command.text, first.command.exit_code) == ("read -rs -t 1 -n 1; echo $?", 0)
    output = await broker.read(session_id="a", command=-1)
    assert output.content == "142\n"  # nobody typed anything into it


@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
async def test_prompt_of_an_incomplete_command_is_free(broker: Broker, program: str) -> None:
    await broker.create_session(program, name="a")
    with pytest.raises(IncompleteCommand):
        await broker.run("echo 'open", session_id="a")
    session = broker.registry.sessions["a"]
    claimed = await recall(broker.tmux, session.live(), "claim")
    look = await session.look()
    assert not claimed.startswith(f"{session.meta.nonce}-{look.shell.number}-")


async def test_claim_of_somebody_gone_ends(broker: Broker) -> None:
    """The shell reads our key as a search's end, and whoever typed it is gone."""
    await broker.create_session("bash", name="a")
    await broker.send(keys=["C-r"], session_id="a")
    with anyio.move_on_after(0.3):
        await broker.run("echo lost", session_id="a")
    await broker.send(keys=["C-g"], session_id="a")
    ran = await broker.run("echo next", session_id="a")
    assert (ran.output, ran.exit_code, ran.note) == ("next\n", 0, None)


async def test_shell_that_works_at_its_prompt_is_given_time(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads our key late; one that waits for keys and says nothing is in another mode."""
    monkeypatch.setattr(typing, "LISTENS_BUSY_S", 60.0)
    await broker.create_session("zsh", name="a")
    spins = "local end=$((SECONDS + 3)); while ((SECONDS < end)); do :; done"
    await broker.run(f"spin() {{ {spins}; }}; zle -N spin; bindkey '^T' spin", session_id="a")
    await broker.send(key="C-t", session_id="a", read="none")
    await eventually(lambda: works(broker.registry.sessions["a"]))
    ran = await broker.run("echo next", session_id="a")
    assert (ran.output, ran.exit_code, ran.note) == ("next\n", 0, None)


async def works(session: Session) -> bool:
    return (await session.look()).waiting is InputWait.BUSY


def judge_as_before_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the way to a prompt be judged by looks that do not show that the shell stands still."""
    feed = AtPrompt.feed

    def unstopped(judge: AtPrompt, facts: PromptFacts, now: float) -> PromptStep | PromptNeed:
        look = facts.look
        if look.waiting is InputWait.STOPPED:
            look = replace(look, verdict=replace(look.verdict, waiting=InputWait.BUSY))
        vars(look)["may_listen"] = True
        return feed(judge, replace(facts, look=look), now)

    monkeypatch.setattr(AtPrompt, "feed", unstopped)


@pytest.mark.parametrize("how", ["run", "send"])
@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
async def test_shell_that_answers_too_late_takes_the_next_line(
    broker: Broker, program: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands still as it is given a command; what comes later is not swallowed by what it then listens for."""
    judge_as_before_it_stopped(monkeypatch)
    await broker.create_session(program, name="a")
    await broker.run("true", session_id="a")
    rests = await broker.read(session_id="a", wait_for="ready", timeout_ms=10_000)
    assert (rests.outcome, rests.mode) == ("ready", "shell_prompt")  # stopped before its prompt, it is given nothing
    session = broker.registry.sessions["a"]
    assert session.pid
    os.kill(session.pid, signal.SIGSTOP)
    try:
        with suppress(SessionBusy):
            late = await broker.run("echo late", session_id="a", timeout_ms=1500)
            assert not late.completed
    finally:
        os.kill(session.pid, signal.SIGCONT)
        monkeypatch.undo()
    await broker.read(session_id="a", wait_for="ready", timeout_ms=5000)
    await eventually(lambda: listens_or_rests(session))
    if how == "run":
        assert (await broker.run("echo next", session_id="a")).output == "next\n"
    else:
        sent = await broker.send("echo next", enter=True, session_id="a")
        assert sent.result
        assert "\nnext\n" in sent.result.content


async def run_behind(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, theirs: str, ours: str, timeout_ms: int = 30_000
) -> r.RunResult:
    """`run` at a moment when the shell has not yet read what somebody typed, which a look just before did not see."""
    judge_as_before_it_stopped(monkeypatch)
    rests = await broker.read(session_id="a", wait_for="ready")
    assert (rests.outcome, rests.mode) == ("ready", "shell_prompt")
    session, ran = broker.registry.sessions["a"], list[r.RunResult]()
    assert session.pid
    shell, typed_at = psutil.Process(session.pid), session.typed_at
    shell.suspend()
    tmux = [TMUX, "-S", str(broker.tmux.socket)]
    await anyio.run_process([*tmux, "send-keys", "-t", "=a:", theirs, "Enter"])

    async def run() -> None:
        ran.append(await broker.run(ours, "a", timeout_ms=timeout_ms))

    async with anyio.create_task_group() as calls:
        calls.start_soon(run)
        await eventually(lambda: session.typed_at > typed_at)
        await eventually(lambda: recall(broker.tmux, session.live(), "claim"))
        shell.resume()
    return ran[0]


@pytest.mark.parametrize("before", ["true", "stty -echo", "shopt -u promptvars", "shopt -u promptvars; stty -echo"])
async def test_a_command_that_the_shell_read_before_ours_is_told(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    await broker.create_session("bash", name="a")
    await broker.run(before, "a")
    ran = await run_behind(broker, monkeypatch, "echo theirs", "echo ours; (exit 5)")
    assert (ran.output, ran.exit_code, ran.completed) == ("ours\n", 5, True)
    assert "Somebody else typed" in (ran.note or "")


async def test_the_same_behind_more_commands_than_are_remembered(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_session("bash", name="a")
    for _ in range(REMEMBERED_COMMANDS):
        await broker.run("true", "a")
    ran = await run_behind(broker, monkeypatch, "echo theirs", "echo ours")
    assert (ran.output, ran.exit_code, ran.completed) == ("ours\n", 0, True)
    assert "Somebody else typed" in (ran.note or "")


async def test_a_command_that_another_program_read_is_not_said_to_wait(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_session("bash", name="a")
    await broker.run("true", "a")
    ran = await run_behind(broker, monkeypatch, "cat", "echo ours", timeout_ms=int(1000 * SLOW))
    assert (ran.exit_code, ran.completed, ran.outcome) == (None, False, "timeout")
    assert "read by it as input" in (ran.note or "")


@pytest.mark.parametrize("program", ["zsh", "fish"])
async def test_a_broker_taken_for_gone_types_nothing_into_what_runs_by_then(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """It stands still between our key and its command; another one runs a command at that prompt meanwhile."""
    await broker.create_session(program, name="a")
    await broker.run("true", session_id="a")
    type_answer, asked, goes_on = typing.type_answer, anyio.Event(), anyio.Event()

    async def late(*given: Any) -> bool:
        if not asked.is_set():
            asked.set()
            await goes_on.wait()
        return await type_answer(*given)

    monkeypatch.setattr(typing, "type_answer", late)
    async with Broker.open(broker.settings, "another") as other, anyio.create_task_group() as calls:
        over = anyio.Event()

        async def slow() -> None:
            with pytest.raises((SessionBusy, NotAShell)):
                await broker.run("echo slow", session_id="a")
            over.set()

        await other.read(session_id="a")  # it is told of the command before, which it would be told of below
        calls.start_soon(slow)
        await asked.wait()
        command = "sh -c 'echo begun; read -r line; echo got $line'"
        reads = await other.run(command, session_id="a", wait_for="auto")
        assert (reads.output, reads.completed) == ("begun\n", False)
        goes_on.set()
        await over.wait()
        answered = await other.send("answer", enter=True, session_id="a", wait_for="command")
        assert answered.result
        assert answered.result.command
        assert answered.result.command.number == reads.command_number
        assert "got answer" in answered.result.content


@pytest.mark.parametrize("program", ["zsh", "fish"])
async def test_an_interrupt_before_a_command_is_typed_leaves_no_part_of_it_to_run(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str
) -> None:
    """The shell listens already. What it does not read as the command would be keys of its line, the newline Enter."""
    await broker.create_session(program, name="a")
    await broker.run("true", session_id="a")
    session, type_answer = broker.registry.sessions["a"], typing.type_answer

    async def interrupted(*given: Any) -> bool:
        await interrupt(session, session.live())
        return await type_answer(*given)

    monkeypatch.setattr(typing, "type_answer", interrupted)
    command = f"true || '\ntouch {tmp_path}/part\n'"
    with suppress(SessionBusy):
        ran = await broker.run(command, session_id="a", timeout_ms=int(1000 * SLOW))
        assert ran.exit_code in (0, None)
    monkeypatch.undo()
    screen = await broker.read(session_id="a", view="screen")
    assert "touch" not in screen.content.splitlines()[-1]
    assert (await broker.run("echo next", session_id="a")).output == "next\n"
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize("how", ["run goes on", "run was cancelled"])
@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("program", ["zsh", "fish"])
async def test_a_shell_that_listens_for_what_an_interrupt_has_taken_away_is_taken_back(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, program: str, kept: int, how: str
) -> None:
    """An interrupt empties the terminal's queue: of the NULs that end the parts of a command, only some arrive."""
    await broker.create_session(program, name="a")
    await broker.run("true", session_id="a")
    typed, type_answer = anyio.Event(), typing.type_answer

    async def halved(session: Session, pane: Pane, job: Job, data: bytes, *given: Any) -> bool:
        typed.set()
        parts = data.split(b"\0")
        return await type_answer(
            session, pane, job, b"\0".join(parts[: kept + 1]) + b"".join(parts[kept + 1 :]), *given
        )

    monkeypatch.setattr(typing, "type_answer", halved)
    if how == "run goes on":
        with pytest.raises(SessionBusy, match="Nothing was run"):
            await broker.run("echo lost", session_id="a", timeout_ms=int(10_000 * SLOW))
    else:
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: broker.run("echo lost", session_id="a"))
            await typed.wait()
            calls.cancel_scope.cancel()
    monkeypatch.undo()
    ran = await broker.run("echo next", session_id="a")
    assert (ran.output, ran.exit_code, ran.note) == ("next\n", 0, None)
    assert "lost\n" not in (await broker.read(session_id="a", view="screen")).content


async def listens_or_rests(session: Session) -> bool:
    """A late answer has come, or bash has read a late command."""
    look = await session.look()
    return look.shell.listening or (shell_of(session.meta.program).reads_files and look.at_editor)


STOPS = {
    "itself": {"fish": "kill -STOP $fish_pid; sh -c 'exit 4'", "": "kill -STOP $$; sh -c 'exit 4'"},
    "by a child": {"": "sh -c 'kill -STOP $PPID; exit 4'"},
    "at its prompt": {"": "sh -c 'exit 4'"},
}


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
async def test_a_stopped_shell_is_said_to_be_and_goes_on_as_the_hint_says(
    broker: Broker, program: str, how: str
) -> None:
    await broker.create_session(program, name="a")
    command = STOPS[how].get(program, STOPS[how][""])
    ran = await broker.run(command, session_id="a", timeout_ms=int(500 * SLOW))
    if how == "at its prompt":
        pid = broker.registry.sessions["a"].pid
        assert pid
        os.kill(pid, signal.SIGSTOP)
        await eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    else:
        assert (ran.completed, ran.mode) == (False, "stopped")
        assert "It is stopped: continue it with signal CONT" in (ran.note or "")
    for _ in range(2):
        with pytest.raises(SessionBusy, match="The shell of session a is stopped") as refused:
            await broker.run("echo one", session_id="a")
    target = "session" if "target session" in refused.value.hint else "foreground"
    await broker.signal("CONT", target=target, session_id="a")
    ran = await broker.run("echo two; sh -c 'exit 3'", session_id="a")
    assert (ran.output, ran.exit_code, ran.note) == ("two\n", 3, None)  # nothing was typed while it was stopped
    told = [(each.text, each.exit_code) for each in (await broker.list_commands("a")).commands]
    assert told == [(command, 4), ("echo two; sh -c 'exit 3'", 3)]


ODD = [
    ("bash", "set -k"),
    ("zsh", "zle -D __tmuxmcp_run"),
    ("fish", "bind --erase --all; bind --erase --all --preset"),
    ("fish", "function fish_title; end; function fish_prompt; end; set -g fish_read_limit 10"),
]


@pytest.mark.parametrize(("program", "setting"), ODD)
async def test_commands_are_exact_under_odd_settings(broker: Broker, program: str, setting: str) -> None:
    await broker.create_session(program, name="a")
    assert (await broker.run(setting, session_id="a")).exit_code == 0
    for number in (3, 4):
        ran = await broker.run(f"echo one; sh -c 'exit {number}'", session_id="a")
        assert (ran.output, ran.exit_code, ran.note) == ("one\n", number, None)


@pytest.mark.parametrize("program", ["bash", "zsh"])
async def test_ends_are_told_where_the_terminal_prints_capitals_alone(broker: Broker, program: str) -> None:
    await broker.create_session(program, name="a")
    ran = await broker.run("stty olcuc; sh -c 'exit 4'", session_id="a")
    assert (ran.completed, ran.exit_code) == (True, 4)
    ran = await broker.run("cd /usr; echo one; sh -c 'exit 3'", session_id="a")
    assert (ran.output, ran.exit_code, ran.cwd, ran.mode) == ("ONE\n", 3, "/usr", "shell_prompt")
    ran = await broker.run("stty -olcuc; echo two", session_id="a")
    assert (ran.output, ran.exit_code) == ("two\n", 0)
    assert [each.text for each in (await broker.list_commands("a")).commands] == [
        "stty olcuc; sh -c 'exit 4'",
        "cd /usr; echo one; sh -c 'exit 3'",
        "stty -olcuc; echo two",
    ]


@pytest.mark.parametrize("mode", ["iuclc", "istrip"])
async def test_no_command_is_given_that_the_terminal_would_alter(broker: Broker, mode: str) -> None:
    await broker.create_session("zsh", name="a")
    await broker.run(f"stty {mode}", session_id="a")
    with pytest.raises(NotAShell, match="makes other characters of what is typed") as refused:
        await broker.run("echo ÄB", session_id="a")
    assert "send `stty -iuclc -istrip` and Enter" in refused.value.hint
    await broker.send("stty -iuclc -istrip", session_id="a", enter=True, wait_for="ready")
    assert (await broker.run("echo ÄB", session_id="a")).output == "ÄB\n"


DEAF = {
    "bash": "unset -f __tmuxmcp_run",
    "zsh": "__tmuxmcp_run() { LBUFFER+='777~'; }",
    "fish": "function __tmuxmcp_asked; commandline -i 34\\;8~; end",
}


@pytest.mark.parametrize("program", DEAF)
async def test_nothing_of_ours_stays_in_the_line_of_a_shell_that_does_not_take_it(broker: Broker, program: str) -> None:
    """What is said to mend that does so."""
    await broker.create_session(program, name="a")
    await broker.run(DEAF[program], session_id="a")
    with pytest.raises(SessionBusy) as refused:
        await broker.run("echo lost", session_id="a")
    assert f"`exec {program}`, sent to it, gives a new shell" in refused.value.hint
    await broker.send("echo kept", session_id="a", enter=True, wait_for="ready")
    assert "\nkept" in (await broker.read("screen", session_id="a")).content
    await broker.send(f"exec {program}", session_id="a", enter=True, wait_for="ready")
    ran = await broker.run("echo next; sh -c 'exit 3'", session_id="a")
    assert (ran.output, ran.exit_code) == ("next\n", 3)


@pytest.mark.parametrize(("program", "files"), [("bash", 4), ("fish", 8)])
async def test_a_shell_that_may_open_too_few_files_is_said_to_be_so(broker: Broker, program: str, files: int) -> None:
    await broker.create_session(program, name="a")
    with suppress(SessionBusy):
        await broker.run(f"ulimit -n {files}", session_id="a")
    with pytest.raises((NotAShell, SessionBusy), match=f"it may open {files} files only"):
        await broker.run("echo one", session_id="a")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize("adopted", [False, True])
async def test_fish_takes_the_key_of_an_earlier_version(broker: Broker, adopted: bool) -> None:
    """One that an earlier version began knows no other; a broker of then sends no other."""
    await broker.create_session("bash" if adopted else "fish", name="a")
    if adopted:
        await broker.send("fish --no-config", session_id="a", enter=True, wait_for="ready")
        await broker.run("true", session_id="a", adopt="yes")
    session = broker.registry.sessions["a"]

    async def knows(function_key: bool) -> None:
        if adopted:
            session.put_level(replace((await session.scan()).level, function_key=function_key))
        else:
            session.meta.function_key = function_key

    await knows(False)
    erase = "for mode in (bind --list-modes); bind -M $mode --erase \\e\\[34\\;8~; end"
    assert (await broker.run(f"{erase}; set __tmuxmcp_keys \\e\\[7777~", session_id="a")).exit_code == 0
    assert (await broker.run("sh -c 'echo here; exit 3'", session_id="a")).exit_code == 3
    await knows(True)
    with pytest.raises(SessionBusy):
        await broker.run("true", session_id="a")
