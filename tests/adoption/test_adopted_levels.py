"""Shells in front of each other: which one is in front, and how each of them ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tests.kit.adopted import at_prompt, begin, enter, told
from tests.kit.agent import eventually as soon
from tests.kit.programs import need
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import NotAShell, SessionBusy
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import replace
from tmuxmcp.sessions import session
from tmuxmcp.shell.adopting import leads_to_one_shell


def levels(facts: r.SessionFacts) -> list[tuple[int, str, str]]:
    return [(each.level, each.kind, each.state) for each in facts.levels]


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [each for each in programs if shutil.which(each) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


@needs("dash", "zsh")
async def test_each_shell_has_its_level_and_each_end_its_exit_code(broker: Broker):
    await begin(broker, "dash")
    assert (await broker.run("echo 1", "a", adopt="yes")).output == "1\n"
    await enter(broker, "zsh -f")
    two = await broker.run("echo 2", "a", adopt="yes")
    assert (two.output, two.shell and two.shell.level) == ("2\n", 2)
    await at_prompt(broker)
    facts = await broker.get_session("a")
    assert levels(facts) == [(0, "bash", "running"), (1, "sh", "running"), (2, "zsh", "prompt")]
    assert facts.shell is not None
    assert facts.shell.level == 2
    listed = (await broker.list_commands("a")).commands
    assert [(each.text, each.level, each.exit_code) for each in listed] == [
        ("dash", 0, None),
        ("echo 1", 1, 0),
        ("zsh -f", 1, None),
        ("echo 2", 2, 0),
    ]
    assert told(await broker.run("exit 5", "a")) == ("", 5, "left")
    assert told(await broker.run("echo $?", "a")) == ("5\n", 0, "ready")
    assert told(await broker.run("exit 6", "a")) == ("", 6, "left")
    assert told(await broker.run("echo $?", "a")) == ("6\n", 0, "ready")


async def test_a_shell_that_run_started_gives_back_the_one_below_it(broker: Broker):
    """That one's proof is older than those of the commands in front of it, and none of these stands in for it."""
    await broker.create_session("bash", name="a")
    assert told(await broker.run("bash --norc", "a"))[1:] == (None, "ready")
    assert told(await broker.run("true", "a")) == ("", 0, "ready")
    session = broker.registry.sessions["a"]
    used = re.findall(rb"133;D;[^\a]*", session.log.read(0, session.log.size()))[-1]
    job, proof = re.findall(rb";(job=[^;]*|p=[^;]*)", used)
    outer = f"aid={session.meta.nonce};n=1;{job.decode()}"
    forged = rf"printf '\033]133;C;{outer}\a\033]133;D;0;{outer};{proof.decode()}\a'"
    assert told(await broker.run(forged, "a")) == ("", 0, "ready")
    assert (await broker.run("true", "a")).shell == (await broker.get_session("a")).shell
    assert told(await broker.run("exit 4", "a")) == ("exit\n", 4, "left")
    assert told(await broker.run("echo $?", "a")) == ("4\n", 0, "ready")
    assert [each.exit_code for each in (await broker.list_commands("a")).commands if each.text == "bash --norc"] == [4]


async def test_a_shell_that_works_before_it_tells_of_an_end_is_waited_for(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session, "LEAVES_BUSY_S", 60.0)
    await begin(broker, "dash")
    await broker.run("true", "a", adopt="yes")
    await enter(broker, "bash --norc")
    await broker.run("trap 'end=$((SECONDS + 2)); while ((SECONDS < end)); do :; done' CHLD", "a", adopt="yes")
    await enter(broker, "dash")
    assert told(await broker.run("exit 4", "a", adopt="yes")) == ("", 4, "left")


async def test_an_end_that_is_told_during_the_look_is_not_missed(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    """The shell tells of it behind the scan of the log, and rests when it is looked at."""
    ask = session.Session._may_yet_tell
    asked = []

    def late(own: session.Session, *arguments: Any) -> bool:
        def is_told() -> bool:
            return b"133;D;4;" in own.log.read(0, own.log.size()) and own.sink_rests()

        if not asked:
            soon(is_told)
        asked.append(own)
        return ask(own, *arguments)

    await begin(broker, "bash --norc")
    await broker.run("trap 'end=$((SECONDS + 2)); while ((SECONDS < end)); do :; done' CHLD", "a", adopt="yes")
    await enter(broker, "dash")
    await broker.run("true", "a", adopt="yes")
    monkeypatch.setattr(session.Session, "_may_yet_tell", late)
    assert told(await broker.run("exit 4", "a")) == ("", 4, "left")
    assert asked


async def test_a_shell_that_is_killed_has_left(broker: Broker):
    await begin(broker, "dash")
    left = await broker.run("kill -9 $$", "a", adopt="yes", request_id="killed-01")
    assert (told(left)[1:], left.completed) == ((137, "left"), False)
    assert "SIGKILL" in (left.note or "")
    assert await broker.run("kill -9 $$", "a", adopt="yes", request_id="killed-01") == replace(left, replayed=True)
    assert told(await broker.run("echo back", "a")) == ("back\n", 0, "ready")


@needs("zsh", "fish")
@pytest.mark.parametrize(("program", "pid"), [("zsh -f", "$$"), ("fish --no-config", "$fish_pid")])
async def test_a_signal_that_ends_a_shell_gives_its_command_no_exit_code(broker: Broker, program: str, pid: str):
    await begin(broker, program)
    left = await broker.run(f"kill -HUP {pid}; sleep 60", "a", adopt="yes", request_id="hung-up-1")
    assert (left.outcome, left.completed, left.exit_code) == ("left", False, None)
    again = await broker.run(f"kill -HUP {pid}; sleep 60", "a", adopt="yes", request_id="hung-up-1")
    assert (again.replayed, again.outcome, again.completed, again.exit_code) == (True, "left", False, None)
    assert [each.exit_code for each in (await broker.list_commands("a")).commands if each.level] == [None]
    assert told(await broker.run("echo back", "a")) == ("back\n", 0, "ready")


@needs("dash")
async def test_two_shells_that_end_at_once_show_no_prompt_in_the_output(broker: Broker):
    await begin(broker, "dash")
    await broker.run("true", "a", adopt="yes")
    await enter(broker, "bash --norc")
    assert (await broker.run("echo in", "a", adopt="yes")).output == "in\n"
    left = await broker.run("echo out; kill -9 $PPID $$", "a")
    assert (left.outcome, left.exit_code) == ("left", None)
    lines = left.output.splitlines()
    assert lines[0] == "out"
    assert set(lines[1:]) <= {"Killed"}  # what the session's own shell says of it, and no prompt
    assert told(await broker.run("echo back", "a")) == ("back\n", 0, "ready")


async def test_a_shell_without_marks_in_between_does_not_hide_the_end(broker: Broker):
    await begin(broker, "dash")
    await enter(broker, "bash --norc")
    assert (await broker.run("echo in", "a", adopt="yes")).output == "in\n"
    left = await broker.run("exit 4", "a")
    assert (left.outcome, left.exit_code) == ("left", None)  # dash, which was not adopted, knows it
    facts = await broker.get_session("a")
    assert levels(facts) == [(0, "bash", "running")]
    assert facts.mode != "shell_prompt"
    assert told(await broker.run("echo $?", "a", adopt="yes")) == ("4\n", 0, "ready")


async def test_a_program_that_takes_a_shell_s_place_is_not_said_to_be_over(broker: Broker):
    await begin(broker, "bash --norc")
    result = await broker.run("echo one; exec cat", "a", adopt="yes")
    assert (result.outcome, result.completed, result.exit_code) == ("left", False, None)
    assert result.output == "one\n"
    assert "exec" in (result.note or "")
    assert "cat" in (result.note or "")
    await broker.send("two", session_id="a", enter=True, wait_for="ready")
    await broker.send(key="C-d", session_id="a", wait_for="command")
    assert told(await broker.run("echo back", "a")) == ("back\n", 0, "ready")


@needs("sqlite3")
async def test_the_program_behind_a_shell_that_has_ended_is_named(broker: Broker):
    await begin(broker, "sqlite3")
    await broker.send(".shell bash --norc", session_id="a", enter=True, wait_for="ready")
    assert (await broker.run("echo in", "a", adopt="yes")).output == "in\n"
    left = await broker.run("exit 4", "a")
    assert left.outcome == "left"
    assert "`sqlite3`" in (left.note or "")


@pytest.mark.parametrize("program", ["dash", "mksh", "ksh93"])
async def test_what_ends_an_adopted_shell_and_its_session_shows_its_output(broker: Broker, program: str):
    name, *words = program.split()
    need(name)
    await broker.create_session(name, words, name="a")
    assert (await broker.run("echo one", "a", adopt="yes")).output == "one\n"
    ended = await broker.run("echo two; exit 3", "a")
    assert (ended.outcome, ended.completed, ended.exit_code, ended.evidence) == ("exited", True, 3, "marks")
    assert ended.output.splitlines()[0] == "two"
    assert ended.command_number == 2


async def test_the_exit_code_of_a_session_is_not_that_of_a_shell_in_it(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.send("bash --norc; exit 9", session_id="a", enter=True, wait_for="ready")
    await broker.run("true", "a", adopt="yes")
    ended = await broker.run("exit 3", "a", request_id="inner-001")
    assert (ended.outcome, ended.completed, ended.exit_code) == ("exited", False, None)
    assert "exit code 9" in (ended.note or "")
    again = await broker.run("exit 3", "a", request_id="inner-001")
    assert (again.completed, again.exit_code) == (False, None)
    assert (await broker.read(session_id="a", wait_for="command")).exit_code == 9


async def test_the_own_shell_at_a_question_is_no_other_program(broker: Broker):
    await broker.create_session("bash", name="b")
    assert (await broker.run("read -e x", "b")).outcome == "ready"
    with pytest.raises(NotAShell, match="not over"):
        await broker.run("echo one", "b", adopt="yes")


async def test_a_suspended_shell_is_adopted_anew(broker: Broker):
    await begin(broker, "bash --norc")
    await broker.run("echo one", "a", adopt="yes")
    left = await broker.run("suspend", "a")
    assert left.outcome == "left"
    assert told(await broker.run("echo outside", "a")) == ("outside\n", 0, "ready")
    await broker.send("fg", session_id="a", enter=True, wait_for="ready")
    again = await broker.run("echo inside", "a", adopt="yes")
    assert (told(again), again.shell and again.shell.level) == (("inside\n", 0, "ready"), 1)
    assert told(await broker.run("exit 2", "a")) == ("exit\n", 2, "left")


async def test_marks_of_the_outer_shell_that_somebody_prints_end_nothing(broker: Broker, state_dir: Path):
    await begin(broker, "dash")
    await broker.run("echo one", "a", adopt="yes")
    nonce = broker.registry.sessions["a"].meta.nonce
    forged = "".join(f"\\033]133;{kind};aid={nonce};n={n}\\007" for kind, n in (("D;0", 1), ("A", 2), ("B", 2)))
    result = await broker.run(f"printf '{forged}'; echo two", "a")
    assert (result.outcome, result.shell and result.shell.level) == ("ready", 1)
    facts = await broker.get_session("a")
    assert facts.shell is not None
    assert facts.shell.level == 1
    listed = (await broker.list_commands("a")).commands
    assert (listed[0].text, listed[0].exit_code) == ("dash", None)


async def test_a_later_broker_goes_on_with_all_levels(broker: Broker, state_dir: Path):
    await begin(broker, "dash")
    await broker.run("echo one", "a", adopt="yes")
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as later:
        result = await later.run("echo two", "a")
        assert (told(result), result.shell and result.shell.level) == (("two\n", 0, "ready"), 1)
        assert told(await later.run("exit 9", "a")) == ("", 9, "left")
    assert told(await broker.run("echo $?", "a")) == ("9\n", 0, "ready")
    ran = [(each.text, each.level, each.exit_code) for each in (await broker.list_commands("a")).commands]
    assert ran == [("dash", 0, 9), ("echo one", 1, 0), ("echo two", 1, 0), ("exit 9", 1, 9), ("echo $?", 0, 0)]


async def test_wait_for_command_tells_of_the_inner_and_of_the_outer_ones(broker: Broker):
    await begin(broker, "dash")
    await broker.run("echo one", "a", adopt="yes")
    await broker.send("exit 3", session_id="a", enter=True, read="none")
    told = await broker.read(session_id="a", wait_for="command")
    assert told.command
    assert (told.outcome, told.command.text, told.command.exit_code) == ("left", "exit 3", 3)
    assert told.also_ended == [r.AlsoEnded(number=1, exit_code=3)]


async def test_a_session_that_ends_with_its_shells(broker: Broker):
    await begin(broker, "dash")
    await broker.run("echo one", "a", adopt="yes")
    facts = await broker.get_session("a")
    assert facts.pid
    os.kill(facts.pid, signal.SIGKILL)

    async def ended() -> bool:
        return (await broker.get_session("a")).exited

    await eventually(ended)
    assert (await broker.get_session("a")).levels == []


@needs("su")
@pytest.mark.skipif(os.geteuid() != 0, reason="su asks for a password")
async def test_a_shell_that_has_no_job_control_is_adopted_or_refused_with_a_word(broker: Broker):
    """su -c runs it in a session of its own, outside of the foreground group."""
    await broker.create_session("bash", name="a")
    await broker.send("su -s /bin/bash nobody -c 'exec bash --norc'", session_id="a", enter=True, read="none")
    await broker.read(session_id="a", wait_for="pattern", pattern="bash-.*[$] $")
    with suppress(NotAShell, SessionBusy):
        assert told(await broker.run("id -un", "a", adopt="yes")) == ("nobody\n", 0, "ready")


@needs("dash", "zsh")
@pytest.mark.parametrize(
    "command",
    ["zsh -f; false", "dash -c 'zsh -f; exit 3'", pytest.param("script -qc 'zsh -f' /dev/null", marks=needs("script"))],
)
async def test_an_exit_code_that_may_be_another_s_is_not_told(broker: Broker, command: str):
    await broker.create_session("bash", name="a")
    await broker.send(command, session_id="a", enter=True, read="none")

    async def rests() -> bool:
        facts = await broker.get_session("a")
        return (
            facts.ready and facts.foreground is not None and not facts.foreground.command.startswith(("bash", "dash"))
        )

    await eventually(rests)
    await broker.run("echo one", "a", adopt="yes")
    left = await broker.run("exit 7", "a")
    assert (left.outcome, left.exit_code) == ("left", None)


@pytest.mark.parametrize(
    ("text", "leads"),
    [
        ("zsh -f", True),
        ("/bin/bash --norc -i", True),
        ("busybox ash", True),
        ("ssh -p 22 -i key user@box", True),
        ("sudo -i", True),
        ("su - bob", True),
        ("fg", True),
        ("ssh box uptime", False),
        ("bash -c zsh", False),
        ("bash script", False),
        ("zsh; false", False),
        ("su -c zsh", False),
        ("script", False),
        ("", False),
        (None, False),
    ],
)
def test_a_command_leads_to_one_shell(text: str | None, leads: bool):
    assert leads_to_one_shell(text) is leads
