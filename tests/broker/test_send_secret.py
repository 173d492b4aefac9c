"""`send secret=NAME`: typed where the kernel says that a program asks, for which it is or a person agrees, or not."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW, a_state_dir
from tests.kit import canaries
from tests.kit.agent import Agent, ToolFailed, audit_lines, eventually, run_command_line
from tmuxmcp.broker import send
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.contract.settings import BrokerSettings, Secret
from tmuxmcp.gate.confirmations import Confirmations
from tmuxmcp.machine.witness.tty import foreground_group

VALUE = "Canary-7f3a9 'ü\"$x;"
DIGEST = hashlib.sha256(VALUE.encode()).hexdigest()
READ = 'read -rs x; echo; printf %s "$x" | sha256sum'
GETPASS = "import getpass, hashlib; print(hashlib.sha256(getpass.getpass().encode()).hexdigest())"


class Person:
    """Answers what is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Callable[[], str] = lambda: "accept"

    def __call__(self, message: str) -> str:
        self.asked.append(message)
        return self.answer()


@pytest.fixture(scope="module")
def person() -> Person:
    return Person()


@pytest.fixture(scope="module")
def agent(person: Person) -> Iterator[Agent]:
    with a_state_dir() as directory:
        file = directory / "home" / "keep" / "value"
        file.parent.mkdir(parents=True)
        file.touch(mode=0o600)
        file.write_text(VALUE + "\n")
        bash = shutil.which("bash")
        rows = {
            "shell": {"source": f"file:{file}", "for": [bash], "ask": False},
            "printed": {"source": ["cat", str(file)], "for": [bash]},
            "asked": {"source": f"file:{file}", "for": ["/bin/false"]},
            "elsewhere": {"source": f"file:{file}", "for": [bash], "session": "db-*"},
            "sudo": {"source": f"file:{file}", "for": [shutil.which("sudo") or "/usr/bin/sudo"], "ask": False},
            "broken": {"source": f"file:{file}.none", "for": [bash]},
        }
        with Agent(directory, "--secrets", json.dumps(rows), "bash", person=person) as agent:
            agent.run("true")
            yield agent


@pytest.fixture(autouse=True)
def _at_a_prompt(agent: Agent, person: Person) -> Iterator[None]:
    person.asked.clear()
    person.answer = lambda: "accept"
    yield
    agent.call("send", key="C-c")


def ask(agent: Agent, command: str = READ) -> None:
    """Have a program of the default session ask for a secret."""
    agent.call("send", text=command, enter=True, read="none")
    eventually(lambda: agent.call("get_session")["mode"] == "password")


def refused(agent: Agent, **arguments: Any) -> ToolFailed:
    with pytest.raises(ToolFailed) as failed:
        agent.call("send", **arguments)
    assert VALUE not in json.dumps(failed.value.error)
    return failed.value


@pytest.mark.parametrize("name", ["shell", "printed"])
def test_it_reaches_the_program_that_it_is_for_whole(agent: Agent, person: Person, name: str):
    ask(agent)
    sent = agent.call("send", secret=name)
    assert DIGEST in sent["result"]["content"]
    assert sent["sent_bytes"] == len(VALUE.encode()) + 1
    assert sent["result"]["command"]["exit_code"] == 0
    assert not person.asked
    line = audit_lines(agent.state_dir)[-1]
    assert (line["secret"], line["bytes_in"], line["outcome"]) == (name, 0, "ok")


def test_it_is_typed_by_the_step_behind_the_one_that_asks(agent: Agent):
    sent = agent.call("send", steps=[{"text": READ, "enter": True}, {"secret": "shell"}])
    assert [each["mode"] for each in sent["steps"]] == ["password", "shell_prompt"]
    assert DIGEST in sent["result"]["content"]
    assert VALUE not in json.dumps(sent)


SUDO = """
for file in passwd shadow sudoers; do mount --bind "$1/$file" "/etc/$file" || exit; done
exec setpriv --reuid=4242 --regid=4242 --clear-groups sudo -k id -u
"""
"""Runs sudo as a user with a password, whom only it knows: among mounts of its own."""


@pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("sudo", "unshare", "setpriv", "openssl"))),
    reason="only root can mount, and sudo is needed",
)
def test_sudo_gets_its_password(agent: Agent, person: Person, tmp_path: Path):
    made = subprocess.run(
        ["openssl", "passwd", "-6", "-stdin"], input=VALUE, check=True, capture_output=True, text=True
    )
    files = {
        "passwd": Path("/etc/passwd").read_text() + "guest:x:4242:4242::/:/bin/sh\n",
        "shadow": f"guest:{made.stdout.strip()}:19000:0:99999:7:::\n",
        "sudoers": "Defaults use_pty, !lecture\nguest ALL=(ALL) ALL\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "passwd").chmod(0o644)
    (tmp_path / "sudoers").chmod(0o440)
    (tmp_path / "run").write_text(SUDO)
    ask(agent, f"unshare --mount --propagation private sh {tmp_path}/run {tmp_path}")
    refused(agent, secret="shell")
    answer = agent.call("send", secret="sudo", wait_for="command")["result"]
    assert "0" in answer["content"].splitlines()
    assert answer["command"]["exit_code"] == 0
    assert VALUE not in answer["content"]
    assert not person.asked
    assert VALUE not in json.dumps(audit_lines(agent.state_dir))


def test_a_person_has_it_typed_at_the_command_line(agent: Agent):
    ask(agent)
    session = agent.call("get_session")["session_id"]
    rows = json.dumps({"own": {"source": f"file:{agent.state_dir}/home/keep/value", "ask": True}})
    words = ["-s", session, "--secret", "own", "--json"]
    done = run_command_line(agent.state_dir, "send", *words, TMUXMCP_SECRETS=rows)
    assert DIGEST in json.loads(done.stdout)["result"]["content"]
    assert VALUE not in done.stdout + done.stderr


def test_a_person_agrees_to_session_process_and_words(agent: Agent, person: Person):
    ask(agent, f"python3 -c '{GETPASS}'")
    assert refused(agent, secret="shell").code == "PERMISSION_DENIED"
    assert DIGEST in agent.call("send", secret="asked")["result"]["content"]
    session = agent.call("get_session")["session_id"]
    [question] = person.asked
    assert all(each in question for each in (session, "getpass.getpass()", "asked", "python3"))
    person.answer = lambda: "decline"
    ask(agent, f"python3 -c '{GETPASS}'")
    assert refused(agent, secret="asked").code == "CONFIRMATION_DECLINED"
    assert agent.call("get_session")["mode"] == "password"  # and it still asks


def test_what_asks_by_then_is_another_program(agent: Agent, person: Person):
    def answer() -> str:
        agent.call("send", key="C-c", wait_for="ready")
        ask(agent, f"python3 -c '{GETPASS} # another'")
        return "accept"

    person.answer = answer
    ask(agent, f"python3 -c '{GETPASS}'")
    assert refused(agent, secret="asked").code == "CONFIRMATION_DECLINED"
    assert agent.call("get_session")["mode"] == "password"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"secret": "none"}, "INVALID_ARGUMENT"),
        ({"secret": "shell", "text": "more"}, "INVALID_ARGUMENT"),
        ({"secret": "shell", "keys": ["Enter"]}, "INVALID_ARGUMENT"),
        ({"secret": "elsewhere"}, "PERMISSION_DENIED"),
        ({"secret": "broken"}, "FILE_NOT_FOUND"),
        ({"secret": "shell", "session_id": "nowhere"}, "SESSION_NOT_FOUND"),
    ],
)
def test_nothing_is_typed_where_it_is_refused(agent: Agent, arguments: dict[str, Any], code: str):
    ask(agent)
    error = refused(agent, **arguments)
    assert error.code == code
    if arguments["secret"] == "none":
        assert error.error["details"]["secrets"] == ["asked", "broken", "elsewhere", "printed", "shell", "sudo"]
    assert agent.call("get_session")["mode"] == "password"


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("true", ""),
        ("cat", "cat"),
        ("read -r -p Password: x", ""),
        ("sleep 100", "sleep 100"),
        ("stty -echo; sleep 100", "sleep 100"),
    ],
)
def test_it_is_never_typed_where_it_would_be_shown(agent: Agent, command: str, runs: str):
    agent.call("send", text=command, enter=True, wait_for="idle", idle_ms=100)
    # Between fork and exec a child handles the signal of C-c as its shell does, which drops it.
    eventually(lambda: agent.in_front().endswith(runs))
    for name in ("shell", "asked"):
        assert refused(agent, secret=name).code == "WRONG_MODE"
    agent.call("send", key="C-c")
    agent.run("stty sane")
    assert VALUE not in agent.call("read", view="scrollback")["content"]


def test_it_is_never_typed_into_a_line_editor(agent: Agent):
    agent.call("send", text="python3", enter=True, wait_for="pattern", pattern=">>> $")
    assert refused(agent, secret="shell").code == "WRONG_MODE"
    agent.call("send", text="exit()", enter=True, wait_for="ready")
    assert VALUE not in agent.call("read", view="scrollback")["content"]


def test_a_program_that_prints_it_is_told_of_and_its_words_are_not_in_the_answer(agent: Agent):
    ask(agent, 'read -rs x; echo "I heard $x"')
    sent = agent.call("send", secret="shell")
    assert sent["result"] is None
    assert "change it" in sent["note"]
    assert VALUE not in json.dumps(sent, ensure_ascii=False)


# ---- policy and questions ------------------------------------------------------------------------

RULES = [
    {"secret": "pro*", "action": "deny", "reason": "the person types these"},
    {"tool": "send", "secret": "*", "action": "confirm", "reason": "a secret is typed"},
]


def one_secret(directory: Path, **row: Any) -> dict[str, Any]:
    """A secret in a file."""
    file = directory / "home" / "value"
    file.parent.mkdir(exist_ok=True, mode=0o700)
    file.touch(mode=0o600)
    file.write_text(VALUE + "\n")
    return {"source": f"file:{file}", **row}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_policy_and_a_secret_ask_one_question(state_dir: Path, mode: str):
    """In both eras of the protocol: before 2026 the server asks, now the result does."""
    asked: list[str] = []

    def person(message: str) -> str:
        asked.append(message)
        return "accept"

    row = one_secret(state_dir)
    named = row | {"for": [shutil.which("bash")]}
    words = ("--secrets", json.dumps({"prod": row, "db": row, "named": named}), "--policy", json.dumps(RULES), "bash")
    with Agent(state_dir, *words, mode=mode, person=person) as agent:
        ask(agent)
        assert refused(agent, secret="prod").code == "POLICY_DENIED"
        assert DIGEST in agent.call("send", secret="db")["result"]["content"]
        ask(agent)
        assert DIGEST in agent.call("send", secret="named")["result"]["content"]
    assert len(asked) == 2
    for question in asked:
        assert "A secret is typed." in question
        assert f'It goes to "{os.path.realpath(shutil.which("bash") or "")}" (process ' in question


def test_an_answer_for_the_session_is_used_up_by_the_call_that_asked(state_dir: Path):
    secrets = {"named": one_secret(state_dir) | {"for": [shutil.which("bash")]}}
    with Agent(state_dir, "--secrets", json.dumps(secrets), "--policy", json.dumps(RULES), "bash") as agent:
        ask(agent)
        asked = refused(agent, secret="named").error["details"]["confirmation"]
        assert Confirmations(state_dir).grant(asked, for_session=True)
        assert DIGEST in agent.call("send", secret="named")["result"]["content"]
        assert not list(Confirmations(state_dir).all())


def test_where_nobody_can_be_asked_the_person_confirms_elsewhere(state_dir: Path):
    with Agent(state_dir, "--secrets", json.dumps({"db": one_secret(state_dir)}), "bash") as agent:
        ask(agent)
        error = refused(agent, secret="db")
        assert error.code == "POLICY_DENIED"
        assert "tmuxmcp policy confirm" in error.error["hint"]
        assert Confirmations(state_dir).grant(error.error["details"]["confirmation"])
        assert DIGEST in agent.call("send", secret="db")["result"]["content"]
        ask(agent)  # the same words, at another moment
        assert refused(agent, secret="db").code == "POLICY_DENIED"


# ---- the last moment -----------------------------------------------------------------------------


@pytest.fixture
async def person_broker(anyio_backend: str, state_dir: Path, home: Path) -> AsyncIterator[Broker]:
    """A broker whose caller is the person, with one secret."""
    secrets = {"db": Secret(**one_secret(state_dir))}
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash", secrets=secrets)) as opened:
        yield opened


async def test_tmux_does_not_type_once_another_program_is_in_front(
    person_broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    """What has ended since the last look does not hand the line on to the shell behind it."""
    broker = person_broker
    await broker.send(f"python3 -c '{GETPASS}'", enter=True, timeout_ms=int(10_000 * SLOW))
    before = await broker.get_session()
    assert (before.mode, before.foreground and before.foreground.pid > 0) == ("password", True)

    def ends(session: Any, look: Any, wait: Any) -> None:
        os.kill(look.verdict.process.pid, 9)
        eventually(lambda: foreground_group(session.pane.leader) != look.facts.foreground)

    monkeypatch.setattr(send, "_note", ends)
    with pytest.raises(TmuxFailed, match="Nothing was typed"):
        await broker.send(secret="db")
    log = (broker.settings.state_dir / "sessions" / before.session_id / "out.raw").read_bytes()
    assert VALUE.encode() not in log


async def test_it_is_not_typed_into_other_panes_as_well(person_broker: Broker):
    """A script may have joined panes, so that what is typed into one goes to all."""
    broker = person_broker
    made = await broker.create_session("bash", name="a")
    await broker.send(READ, enter=True, session_id="a", timeout_ms=int(10_000 * SLOW))
    canaries.tmux(broker.settings.state_dir, "split-window", "-d", "-t", "=a:", "cat")
    canaries.tmux(broker.settings.state_dir, "set-option", "-w", "-t", "=a:", "synchronize-panes", "on")
    with pytest.raises(TmuxFailed, match="Nothing was typed"):
        await broker.send(secret="db", session_id=made.session_id)
    canaries.tmux(broker.settings.state_dir, "set-option", "-w", "-t", "=a:", "synchronize-panes", "off")
    sent = await broker.send(secret="db", session_id=made.session_id, timeout_ms=int(10_000 * SLOW))
    assert sent.result
    assert DIGEST in sent.result.content
