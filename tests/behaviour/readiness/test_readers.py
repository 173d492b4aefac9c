"""Programs that read a terminal from outside its foreground group."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.behaviour.readiness.test_relays import come
from tests.conftest import SLOW
from tests.kit.agent import Agent, an_agent
from tests.kit.fixtures import of_file
from tests.kit.programs import PATH, need
from tests.kit.steps import Terminal, first, line, over

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this witness")
root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root can")

NOBODY = ("-s", "/bin/sh", "nobody", "-c")


agent = of_file(an_agent, "bash", PATH=PATH)


def test_a_program_of_another_session(agent: Agent):
    """`setsid` waits for it."""
    need("setsid")
    asks = "sleep 0.4; read x; sleep 0.4; echo got $x; stty -echo; read y; stty echo; read z"
    terminal = Terminal(agent, ["sh", "-c", 'setsid -w sh -c "$0"; true', asks])
    try:
        terminal.step(first("line_input"))
        terminal.step(line("bob", "password", "got bob\n"))
        terminal.step(line("hunter2", "line_input"))
        terminal.step(over(text="", enter=True))
    finally:
        terminal.close()


@root
def test_su_with_a_command(agent: Agent):
    """It begins a session of its own, and so do its shell's questions."""
    terminal = Terminal(agent, ["su", *NOBODY, "PS1='in$ ' exec bash --norc --noprofile"])
    try:
        come(agent, terminal, r"in\$")
        for _ in range(2):
            terminal.step(line("sleep 0.4; echo do''ne", "line_input", "done\nin$"))
            terminal.step(line("read x", "line_input"))
            terminal.step(line("bob", "line_input", "in$"))
            terminal.step(line("sh -c 'sleep 0.3; stty -echo; read x; stty echo'", "password"))
            terminal.step(line("hunter2", "line_input", "in$"))
    finally:
        terminal.close()


@root
@pytest.mark.parametrize("command", ["passwd", "su -c true"])
def test_a_password_that_is_asked_in_there(agent: Agent, command: str):
    need(command.split()[0])
    terminal = Terminal(agent, ["su", *NOBODY, command])
    try:
        terminal.step(first("password", "assword:"))
    finally:
        terminal.close()


def test_who_asks_for_gpg(agent: Agent, tmp_path: Path):
    """Its agent, which belongs to no terminal, starts who asks."""
    need("gpg", "gpg-agent", "gpgconf", "pinentry-tty")
    home = tmp_path / "g"
    home.mkdir(mode=0o700)
    (home / "gpg-agent.conf").write_text(f"pinentry-program {shutil.which('pinentry-tty')}\n")
    (tmp_path / "f").write_text("hello")
    command = f'export GPG_TTY=$(tty); gpg -c --batch --yes --no-symkey-cache "{tmp_path}/f"; true'
    terminal = Terminal(agent, ["sh", "-c", command], env={"GNUPGHOME": str(home)})
    try:
        come(agent, terminal, "Passphrase: ?$")
        terminal.step(first("password", "Passphrase:"))
        terminal.step(line("open sesame 1!", "password", "Repeat:"))
        terminal.step(over(text="open sesame 1!", enter=True))
    finally:
        terminal.close()
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)


def test_who_asks_with_stars(agent: Agent):
    need("systemd-ask-password")
    terminal = Terminal(agent, ["systemd-ask-password", "--timeout=60", "who?"])
    try:
        terminal.step(first("password", "who?"))
        terminal.step(over(text="hunter2", enter=True))
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("command", "works"),
    [
        ("setsid sleep 600", "setsid sleeps with it, and does not read"),
        ('t=$(tty); (setsid sh -c "read x <$t" &); sleep 600', "it works for a time of its own"),
        ("stty -echo; tail -f /dev/null", "nobody reads, though what is typed is not shown"),
    ],
)
def test_who_only_works_is_not_ready(agent: Agent, command: str, works: str):
    terminal = Terminal(agent, ["sh", "-c", f"echo begun; {command}; true"])
    try:
        come(agent, terminal, "begun")
        read = {"session_id": terminal.id, "wait_for": "ready", "timeout_ms": int(700 * SLOW)}
        answer = agent.call("read", **read)
        assert (answer["outcome"], answer["mode"]) == ("timeout", "running"), (works, answer)
    finally:
        terminal.close()
