"""su, sudo, ssh: programs of another user or on another machine, which ask before they hide what is behind them."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, an_agent, eventually, refused_for_good
from tests.kit.fixtures import of_file
from tests.kit.programs import PATH, missing, need
from tests.kit.steps import Step, Terminal, first, line, over

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this witness")


agent = of_file(an_agent, "bash", PATH=PATH)


# ---- accounts of the test's own ------------------------------------------------------------------

USER, PASSWORD = "tmuxmcp-test", "hunter2"
HASHED = "$6$abc$DgQcmr5KFqu3fq81mYtIJay1T2LBpa.rQ2RhGMZh1rrZZTaVbmnQH3Ulo10Skn5W2CNkPoN8xS.9uYEnniHHC0"
"""What crypt(3) makes of the password."""


@pytest.fixture
def accounts(tmp_path: Path) -> list[str]:
    """Words before a command that see another /etc: one user more, who may use sudo. The machine's own is untouched."""
    if os.geteuid() != 0 or missing(("unshare", "setpriv", "mount")):
        pytest.skip("mounts files of its own over those in /etc, which only root can")
    etc = tmp_path / "etc"
    etc.mkdir()
    user = f"{USER}:x:65432:65432::/:/bin/sh\n"
    (etc / "passwd").write_text(Path("/etc/passwd").read_text() + user)
    (etc / "shadow").write_text(Path("/etc/shadow").read_text() + f"{USER}:{HASHED}:19000:0:99999:7:::\n")
    (etc / "shadow").chmod(0o600)
    (etc / "sudoers").write_text(f"Defaults !use_pty, !lecture\n{USER} ALL=(ALL) ALL\n")
    (etc / "sudoers").chmod(0o440)
    mounts = [
        f"mount --bind {etc}/{name} /etc/{name}"
        for name in ("passwd", "shadow", "sudoers")
        if Path("/etc", name).exists()
    ]
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", " && ".join([*mounts, 'exec "$@"']), "sh"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("may not mount here")
    return words


def as_user(user: int) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


# ---- su and sudo ---------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root can")
@pytest.mark.parametrize(("program", "asks"), [("su", "Password: "), ("sudo", "password for nobody: ")])
def test_who_becomes_another_user_is_asked_for_a_password(agent: Agent, program: str, asks: str):
    need(program, "setpriv")
    words = [program, "-k", "true"] if program == "sudo" else [program]
    terminal = Terminal(agent, [*as_user(65534), *words])
    try:
        terminal.step(first("password", asks))
    finally:
        terminal.close()


def test_sudo_runs_what_then_asks(agent: Agent, accounts: list[str]):
    """A wrong password is checked for seconds in silence, and that is no question."""
    need("sudo")
    command = ["sh", "-c", "sleep 0.5; printf 'name? '; read -r x; echo hello $x; cat"]
    terminal = Terminal(agent, [*accounts, *as_user(65432), "sudo", "-k", *command])
    try:
        terminal.step(first("password", f"password for {USER}: "))
        terminal.step(line("wrong", "password", f"try again.\n[sudo] password for {USER}: "))
        terminal.step(line(PASSWORD, "line_input", "name? "))
        terminal.step(line("bob", "line_input", "hello bob\n"))
    finally:
        terminal.close()


# ---- ssh -----------------------------------------------------------------------------------------

PATIENT = {"idle_ms": int(1500 * SLOW)}
"""Until the far shell speaks, only silence can be heard: it has to be longer than the way there."""


@contextmanager
def ssh_server(directory: Path, *, before: list[str], passwords: bool) -> Iterator[list[str]]:
    """A server on a port of its own, which `before` starts; gives the client's words, but for the host."""
    need("sshd", "ssh", "ssh-keygen")
    for name, phrase in (("host", ""), ("key", "open sesame")):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", phrase, "-f", directory / name], check=True)
    shutil.copy(directory / "key.pub", directory / "authorized")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    (directory / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nAuthorizedKeysFile {directory}/authorized\n"
        f"StrictModes no\nUsePAM no\nPasswordAuthentication {'yes' if passwords else 'no'}\nPidFile none\n"
        "PrintMotd no\nPermitRootLogin yes\nPrintLastLog no\n"
    )
    words = [*before, shutil.which("sshd", path=PATH) or "", "-D", "-e", "-f", str(directory / "config")]
    server = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: server.poll() is not None or _listens(port))
        if server.poll() is not None:
            pytest.skip("sshd does not start here")
        yield [
            *("ssh", "-F", "none", "-p", str(port), "-i", str(directory / "key"), "-o", "IdentityAgent=none"),
            *("-o", f"UserKnownHostsFile={directory}/known", "-o", "GlobalKnownHostsFile=none"),
        ]
    finally:
        server.terminate()
        server.wait(5 * SLOW)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[list[str]]:
    """A server that lets in whoever has the key."""
    with ssh_server(tmp_path, before=[], passwords=False) as words:
        yield [*words, "127.0.0.1"]


def test_ssh(agent: Agent, sshd: list[str]):
    terminal = Terminal(agent, [*sshd, "-t", "env", "'PS1=far$ '", "sh"])
    try:
        terminal.step(first("line_input", "(yes/no/[fingerprint])? "))
        terminal.step(line("yes", "password", "Enter passphrase for key"))
        terminal.step(line("open sesame", "unknown", "far$ ", "quiet", **PATIENT))
        terminal.step(line("echo $((6*7))", "unknown", "\n42\nfar$ ", "prompt", **PATIENT))
        terminal.step(line("sleep 0.7; cd /tmp", "unknown", "\nfar$ ", "prompt", **PATIENT))
        # Only the last line can tell that there, at the far end, a secret is asked: that is said, and makes no mode.
        asks = line(
            "stty -echo; printf 'Password: '; read -r x; stty echo", "unknown", "Password: ", "quiet", **PATIENT
        )
        assert "By its last line alone" in terminal.step(asks)["note"]
        terminal.step(line("hunter2", "unknown", "far$ ", "quiet", **PATIENT))
        if not missing(("vim",)):
            terminal.step(line("vim -u NONE", "fullscreen", "~", "quiet", **PATIENT))
            terminal.step(line(":q!", "unknown", "far$ ", "quiet", read="new", **PATIENT))
        terminal.step(over(text="exit", enter=True))
    finally:
        terminal.close()


def test_run_of_ssh_comes_back_at_the_far_prompt(agent: Agent, sshd: list[str], tmp_path: Path):
    key = ["-P", "open sesame", "-N", "", "-f", str(tmp_path / "key")]
    subprocess.run(["ssh-keygen", "-q", "-p", *key], check=True)
    session = agent.call("create_session", program="bash")["session_id"]
    words = [*sshd, "-t", "-o", "StrictHostKeyChecking=no", "env", "'PS1=far$ '", "bash", "--norc"]
    ran = agent.run(shlex.join(words), session_id=session, timeout_ms=int(15_000 * SLOW))
    assert (ran["outcome"], ran["evidence"], ran["completed"]) == ("idle", "prompt", False), ran
    assert "`ssh` hides what runs behind it" in ran["note"]
    refused = refused_for_good(lambda: agent.run("ls", session_id=session))
    assert "send" in refused.error["hint"]
    far: dict[str, Any] = {"session_id": session, "enter": True, **PATIENT}
    answer = agent.call("send", text="sleep 0.4; echo $((6*7))", **far)["result"]
    assert (answer["outcome"], answer["evidence"]) == ("ready", "prompt"), answer
    assert answer["content"].endswith("\n42\nfar$ ")
    # A program may print the prompt: its line editor does not come with it.
    answer = agent.call("send", session_id=session, text="printf 'far$ '; sleep 1.5; echo end", enter=True)["result"]
    assert (answer["outcome"], answer["evidence"]) == ("idle", "quiet"), answer
    agent.call("read", session_id=session, wait_for="pattern", pattern=r"end\n")
    answer = agent.call("read", session_id=session, wait_for="ready", **PATIENT)
    assert (answer["outcome"], answer["evidence"]) == ("ready", "prompt"), answer
    answer = agent.call("send", text="exit 3", **far)["result"]
    assert (answer["outcome"], answer["mode"]) == ("ready", "shell_prompt"), answer
    assert answer["command"]["exit_code"] == 3
    agent.call("destroy_session", session_id=session, force=True)


def test_a_prompt_pattern_speaks_where_the_kernel_cannot(agent: Agent, sshd: list[str]):
    terminal = Terminal(agent, [*sshd, "-t", "-o", "StrictHostKeyChecking=no", "env", "'PS1=far$ '", "sh"])
    try:
        terminal.step(Step("password"))
        pattern = {"prompt_pattern": r"far\$ $", "idle_ms": 5000}
        terminal.step(line("open sesame", "unknown", "far$ ", "prompt", **pattern))
        terminal.step(line("sleep 0.5; echo $((6*7))", "unknown", "\n42\nfar$ ", "prompt", **pattern))
    finally:
        terminal.close()


def test_ssh_asks_for_the_account_s_password(agent: Agent, tmp_path: Path, accounts: list[str]):
    """The question is the client's own, here; the same question of a program over there is told by its last line."""
    with ssh_server(tmp_path, before=accounts, passwords=True) as words:
        options = ("-o", "PubkeyAuthentication=no", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR")
        terminal = Terminal(agent, [*words, *options, "-t", f"{USER}@127.0.0.1", "env", "'PS1=far$ '", "sh"])
        try:
            terminal.step(first("password", f"{USER}@127.0.0.1's password: "))
            terminal.step(line("wrong", "password", "try again.\n"))
            terminal.step(line(PASSWORD, "unknown", "far$ ", "quiet", **PATIENT))
            terminal.step(line("echo $((6*7))", "unknown", "\n42\nfar$ ", "prompt", **PATIENT))
            terminal.step(over(text="exit", enter=True))
        finally:
            terminal.close()


def test_ssh_that_connects_only_works(agent: Agent):
    """It connects to one that never answers, as long as it likes: busy, and not silent."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        terminal = Terminal(agent, ["ssh", "-F", "none", "-p", str(mute.getsockname()[1]), "127.0.0.1"])
        try:
            eventually(lambda: agent.call("get_session", session_id=terminal.id)["mode"] == "running")
            answer = agent.call("read", session_id=terminal.id, wait_for="ready", timeout_ms=600)
            assert (answer["outcome"], answer["mode"]) == ("timeout", "running"), answer
        finally:
            terminal.close()
