"""Text reaches a program as a person's terminal sends it: its last newline is the key Enter, its other ones are CR."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, an_agent, eventually, run_command_line
from tests.kit.fixtures import of_file
from tmuxmcp.broker import sending
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import SessionTaken

LONG_MS = int(10_000 * SLOW)

READER = """import os, sys, tty
tty.setraw(0)
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(1, sys.argv[2].encode().decode("unicode_escape").encode() + b"here")
while data := os.read(0, 4096):
    os.write(out, data)
    if data.endswith(b"#"):
        os.write(1, b" all")"""
"""Writes down all that it reads, in raw mode; it prints its second argument first."""

FORM = """import os, tty
tty.setraw(0)
field = b""
os.write(1, b"name?")
while data := os.read(0, 4096):
    if data == b"\\r":
        os.write(1, b" GOT<" + field + b">")
        field = b""
    else:
        field += data.replace(b"\\r", b"|")"""
"""A form whose field takes all that comes in one read, as terminal interfaces made of components do."""


agent = of_file(an_agent, "bash", "--tools", "core,process,human,helpers", first="PS1='$ '; true")


def session_of(agent: Agent, program: str, *args: str) -> str:
    made = agent.call("create_session", program=program, args=list(args), wait_ready=True, ready_timeout_ms=LONG_MS)
    return made["session_id"]


def send(agent: Agent, session: str, **asked: Any) -> dict[str, Any]:
    return agent.call("send", session_id=session, **{"timeout_ms": LONG_MS} | asked)


def new_text(agent: Agent, session: str, **asked: Any) -> str:
    """What was printed since the last read."""
    return send(agent, session, **asked)["result"]["content"]


@pytest.mark.parametrize("asks", ["", r"\x1b[?2004h"], ids=["plain", "takes pastes"])
@pytest.mark.parametrize(
    ("asked", "plain", "paste"),
    [
        ({"text": "a\n"}, b"a\r", None),
        ({"text": "a\r\n"}, b"a\r", None),
        ({"text": "\n\n"}, b"\r\r", None),
        ({"text": "a\n\n"}, b"a\r\r", None),
        ({"text": "a\nb\r\n\n  c\n"}, b"a\rb\r\r  c\r", b"\x1b[200~a\rb\r\r  c\x1b[201~\r"),
        ({"text": "a\nb"}, b"a\rb", b"\x1b[200~a\rb\x1b[201~"),
        ({"text": "a\nb\n", "bracketed_paste": "never"}, b"a\rb\r", None),
        ({"text": "a\nb\n", "bracketed_paste": "always"}, b"\x1b[200~a\rb\x1b[201~\r", None),
        ({"text": "a\n", "bracketed_paste": "always"}, b"\x1b[200~a\x1b[201~\r", None),
        ({"text": "a\n", "enter": True}, b"a\r", None),
        ({"text": "a\n", "keys": ["Enter"]}, b"a\r\r", None),
        ({"keys": [{"text": "a\r\nb\n"}, "Tab", {"text": "c\n"}], "enter": True}, b"a\rb\r\tc\r", None),
        ({"text": "a\n", "key": "Tab", "enter": True}, b"a\r\t\r", None),
        ({"data_base64": base64.b64encode(b"a\nb\r\nc\n").decode()}, b"a\nb\r\nc\n", None),
        ({"data_base64": base64.b64encode(b"a\n").decode(), "enter": True}, b"a\n\r", None),
    ],
    ids=repr,
)
def test_newlines(agent: Agent, tmp_path: Path, asks: str, asked: dict[str, Any], plain: bytes, paste: bytes | None):
    got = tmp_path / "got"
    session = session_of(agent, sys.executable, "-IS", "-c", READER, str(got), asks)
    send(agent, session, read="none", **asked)
    send(agent, session, text="#", wait_for="pattern", pattern=" all")
    assert got.read_bytes() == (paste if paste and asks else plain) + b"#"
    agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"text": "a\n", "enter": True}, True),
        ({"text": "x", "keys": [{"text": "a\r\n"}], "enter": True}, True),
        ({"steps": [{"text": "a\n", "enter": True}]}, True),
        ({"text": "a", "enter": True}, False),
        ({"text": "a\n"}, False),
    ],
    ids=repr,
)
@pytest.mark.parametrize("read", ["none", "new"])
def test_an_enter_that_is_not_pressed_twice_is_told(agent: Agent, asked: dict[str, Any], read: str, said: bool):
    session = session_of(agent, "cat")
    asked = asked if "steps" in asked else asked | {"read": read}
    note = agent.call("send", session_id=session, **asked)["note"]
    assert ("Enter was pressed once" in (note or "")) is said
    agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.parametrize(
    "asked",
    [
        {"text": "Ann\n"},
        {"text": "Ann", "enter": True},
        {"text": "Ann", "key": "Enter"},
        {"keys": [{"text": "Ann\n"}]},
        {"keys": ["A", "n", {"text": "n"}, "Enter"]},
        {"steps": [{"text": "An"}, {"text": "n\n"}]},
    ],
    ids=repr,
)
def test_enter_is_a_key_of_its_own_to_what_reads_keys(agent: Agent, asked: dict[str, Any]):
    session = session_of(agent, sys.executable, "-IS", "-c", FORM)
    agent.call("send", session_id=session, **asked)
    assert "GOT<Ann>" in agent.call("read", session_id=session, view="screen")["content"]
    send(agent, session, text="one\ntwo\n", wait_for="pattern", pattern="two>")
    assert "GOT<one|two>" in agent.call("read", session_id=session, view="screen")["content"]
    agent.call("destroy_session", session_id=session, force=True)


KEY = "stty raw -echo; echo 'sure?'; head -c 1 >/dev/null; exit 5"


@pytest.mark.parametrize("read", ["none", "new"])
def test_a_program_that_ends_at_the_first_key_is_told_as_ended(agent: Agent, read: str):
    session = session_of(agent, "sh", "-c", KEY)
    sent = send(agent, session, text="y\n", read=read)
    if read == "new":
        assert (sent["result"]["exited"], sent["result"]["exit_code"]) == (True, 5)
    eventually(lambda: agent.call("get_session", session_id=session)["exited"])


TAKEN = """import os, subprocess, sys, time, tty
tty.setraw(0)
os.write(1, b"here")
while os.read(0, 1) != b"x":
    pass
lease = f"{round(time.time() * 1000)}-cli-0-somebody"
subprocess.run(["tmux", "-S", sys.argv[1], "set-option", "-p", "-t", "=held:", "@tmuxmcp_taken", lease])
while True:
    os.write(1, os.read(0, 1).hex().encode())"""
"""Has a person take the session once it has read an x."""


async def test_what_could_not_be_typed_any_more_is_told(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sending, "DEALT_WITH_S", 10 * SLOW)
    arguments = ["-IS", "-c", TAKEN, str(broker.tmux.socket)]
    await broker.create_session(sys.executable, arguments, name="held", wait_ready=True, ready_timeout_ms=LONG_MS)
    sent = await broker.send("x\n", keys=["Tab"], session_id="held")
    assert sent.note == "What comes before Enter was typed; Enter and what follows it was not (SESSION_TAKEN)."
    assert sent.sent_bytes == 1
    with pytest.raises(SessionTaken):
        await broker.send("x\n", session_id="held")


def test_the_command_line_types_so_as_well(agent: Agent):
    session = session_of(agent, sys.executable, "-IS", "-c", FORM)
    done = run_command_line(agent.state_dir, "send", "-s", session, "Ann\n", "--enter", "--pattern", "GOT")
    assert "GOT<Ann>" in done.stdout
    assert "Enter was pressed once" in done.stderr
    agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.parametrize(
    ("program", "text", "shown"),
    [
        (["sqlite3"], ".mode csv\n.headers on\nselect 1 as a, 2 as b;\n", "a,b\n1,2\n"),
        (["sqlite3"], "select\n\t1,\n\t2;\n", "1|2\n"),
        (["gdb", "-q"], "print 1+1\nprint 20+2\n", "$2 = 22\n"),
        (["python3", "-q"], "def f(x):\n    return x + 1\n\nf(41)\n", "42\n"),
        (["bash"], "cat <<E\none\n  two\nE\n", "E\none\n  two\n"),
        (["zsh", "-f"], "cat <<E\none\n  two\nE\n", "E\none\n  two\n"),
        (["fish"], "begin\necho one\necho two\nend\n", "one\ntwo\n"),
        (["dash"], "cat <<E\none\n  two\nE\n", "one\n  two\n"),
        (["mksh"], "cat <<E\none\n  two\nE\n", "one\n  two\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_several_lines_are_what_they_are_at_each_prompt(agent: Agent, program: list[str], text: str, shown: str):
    session = session_of(agent, *program)
    assert shown in new_text(agent, session, text=text)
    agent.call("destroy_session", session_id=session, force=True)


def test_a_line_for_a_program_that_reads_lines(agent: Agent):
    """Also where nothing is shown of what is typed."""
    session = session_of(agent, "bash")
    for asks in ("read -r x", "read -rs x", "x=$(python3 -c 'import getpass; print(getpass.getpass())')"):
        send(agent, session, text=f'{asks}; echo "<$x>"\n')
        assert "<a b>\n" in new_text(agent, session, text="a b\r\n")
    send(agent, session, text="cat\n", wait_for="changed")
    assert "1\n2\n3\n1\n2\n3\n" in new_text(agent, session, text="1\n2\n3\n", key="C-d")


def test_lines_for_an_editor(agent: Agent, tmp_path: Path):
    text = "first line here\nsecond line here\r\n\n  new para\nlast"
    lines = text.replace("\r\n", "\n") + "\n"
    for program, keys in {
        ("nano",): ["C-o", "Enter", "C-x"],
        ("vim", "-Nu", "NONE"): ["Escape", {"text": ":wq\n"}],
    }.items():
        file = tmp_path / program[0]
        session = session_of(agent, *program, str(file))
        send(agent, session, text=f"i{text}" if program[0] == "vim" else text)
        send(agent, session, keys=keys, wait_for="exit")
        assert file.read_text() == lines
        file.unlink()
        session = session_of(agent, *program, str(file))
        agent.call("editor_action", session_id=session, action="insert", text=text)
        agent.call("editor_action", session_id=session, action="save_quit")
        assert eventually(file.exists)
        assert file.read_text() == lines


def test_a_line_for_a_menu(agent: Agent):
    session = session_of(agent, "bash")
    send(agent, session, text="printf '%s\\n' one two three | fzf\n", wait_for="pattern", pattern="3/3")
    assert "two" in new_text(agent, session, text="two\n", read="new")
    assert agent.run("true", session_id=session)["exit_code"] == 0
