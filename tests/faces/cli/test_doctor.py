"""`tmuxmcp doctor`: each check with what makes it fail, and that nothing is changed by looking."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.conftest import SLOW, TMUX
from tests.kit import forks
from tests.kit.cli import COMMAND, CommandLine
from tests.kit.sources import PACKAGE
from tests.kit.terminal import SOON_S
from tmuxmcp.faces.cli import doctor
from tmuxmcp.machine import proc

SHELLS = [name for name in ("bash", "zsh", "fish") if shutil.which(name)]
QUICK = {"TMUXMCP_INTEGRATION": "false"}
"""No shell is tried."""


PATIENT = f"""
import sys
from tmuxmcp.faces.cli import doctor
from tmuxmcp.__main__ import main
doctor.CHECK_S *= {SLOW}
sys.exit(main())
"""
"""Starts the command line as on a machine that is slow: shells take their time to start there."""


def checks(cli: CommandLine, *words: str, status: int = 0, patient: bool = False, **variables: str) -> dict[str, dict]:
    if patient:
        argv = [sys.executable, "-c", PATIENT, "doctor", "--json", *words]
        done = subprocess.run(argv, env=cli.env | variables, cwd=cli.work, capture_output=True, timeout=2 * SOON_S)
    else:
        done = forks.run(["doctor", "--json", *words], cli.env | variables, cli.work, SOON_S)
    assert done.returncode == status, [each for each in json.loads(done.stdout)["checks"] if not each["ok"]]
    found = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
    assert all(set(each) == {"name", "ok", "message", "fix"} for each in found.values())
    assert all((each["fix"] is None) == each["ok"] for each in found.values())
    return found


def failed(cli: CommandLine, name: str, *words: str, **variables: str) -> dict:
    """The one check that fails."""
    found = checks(cli, *words, status=1, **QUICK | variables)
    assert [each["name"] for each in found.values() if not each["ok"]] == [name]
    return found[name]


def tree(path: Path) -> list[tuple[str, float]]:
    return sorted((str(each), each.lstat().st_mtime) for each in path.rglob("*"))


def fake_tmux(cli: CommandLine, version: str) -> None:
    """A tmux that says it is another version, first on PATH."""
    directory = cli.home / "bin"
    directory.mkdir()
    script = directory / "tmux"
    script.write_text(f'#!/bin/sh\nif [ "$1" = -V ]; then echo "tmux {version}"; exit; fi\nexec {TMUX} "$@"\n')
    script.chmod(0o700)
    cli.env["PATH"] = f"{directory}:{cli.env['PATH']}"


# ---- all is well ---------------------------------------------------------------------------------


def test_all_is_well_and_shells_are_tried(cli):
    temporary = cli.home / "tmp"
    temporary.mkdir()
    found = checks(cli, patient=True, TMPDIR=str(temporary))
    for name in SHELLS:
        assert found[name]["message"].endswith("its marks come"), found[name]
    assert "no server runs" in found["socket"]["message"]
    who = "root: what an agent runs may change" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    assert f"sessions run as {who}" in found["user"]["message"]
    assert not cli.state.exists()
    assert list(temporary.glob("tm-*")) == []  # where the shells were tried; the server that was there is gone, too
    assert subprocess.run(["pgrep", "-f", f"{temporary}/tm-"], capture_output=True, check=False).stdout == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a process 1")
def test_secrets_of_processes_above_are_told(cli):
    above = ["sh", "-c", '"$@"; true', "sh"]  # it stays
    first = ["unshare", "--pid", "--fork", "--mount-proc"]
    words = [sys.executable, "-m", "tmuxmcp", "doctor", "--json"]

    def told(*argv: str) -> dict:
        env = cli.env | QUICK | {"SOME_TOKEN": "of-mine"}
        done = subprocess.run([*argv, *words], env=env, cwd=cli.work, capture_output=True, timeout=SOON_S)
        assert b"of-mine" not in done.stdout
        return next(each for each in json.loads(done.stdout)["checks"] if each["name"] == "variables")

    assert re.search(r"SOME_TOKEN of process \d+ \(sh\)", told(*above)["message"])
    if subprocess.run([*first, "true"], capture_output=True, check=False).returncode == 0:
        check = told(*first, *above)
        assert (check["ok"], "SOME_TOKEN of process 1 (sh)" in check["message"]) == (False, True)
        assert told(*first)["ok"]  # it is process 1 itself, and hides them


def test_each_check_has_its_paragraph_in_the_docs(cli):
    page = Path(__file__).parents[3] / "docs" / "howto" / "when-something-is-wrong.md"
    _, _, checked = page.read_text().partition("\n## A check of `tmuxmcp doctor` fails\n")
    paragraphs = re.findall(r"^### (.+)\n\n\S", checked.partition("\n## ")[0], re.MULTILINE)
    assert paragraphs == [*checks(cli)]


def test_running_server_and_sessions_stay_as_they_are(cli):
    cli("new", "--name", "x", "cat")
    cli("send", "x", "kept", "--enter", "--wait", "pattern", "--pattern", r"^kept\n")
    before, pid = tree(cli.state), (cli.state / "tmux.pid").read_text()
    found = checks(cli, **QUICK)
    assert "our server answers" in found["socket"]["message"]
    assert f"process {pid}" in found["server"]["message"]
    assert (tree(cli.state), (cli.state / "tmux.pid").read_text()) == (before, pid)


def test_as_text_each_check_is_a_line_and_a_fix_one_more(cli):
    cli.env |= QUICK
    lines = cli.out("doctor").splitlines()
    assert all(line.startswith("ok  ") for line in lines)
    cli.env["TMUXMCP_TYPO"] = "1"
    text = cli.out("doctor", status=1)
    assert "\nFAIL  settings" in text
    assert text.count("\n") == len(lines) + 1


# ---- what fails, and its fix ---------------------------------------------------------------------


def test_tmux_that_is_too_old(cli):
    fake_tmux(cli, "3.1c")
    assert "Install tmux 3.2 or newer" in failed(cli, "tmux")["fix"]


def test_server_of_another_version(cli):
    cli("new", "--name", "x", "cat")
    fake_tmux(cli, "9.9")
    check = failed(cli, "server")
    assert "tmux 9.9" in check["message"]
    assert "PATH" in check["fix"]


def test_socket_path_that_is_too_long(cli):
    assert "shorter" in failed(cli, "socket", "--state-dir", str(cli.home / ("x" * 100)))["fix"]


def test_left_over_socket_is_no_failure(cli):
    cli.state.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(cli.state / "tmux.sock"))
    assert "left over" in checks(cli, **QUICK)["socket"]["message"]


def test_socket_that_is_none(cli):
    cli.state.mkdir(mode=0o700)
    (cli.state / "tmux.sock").touch()
    assert "is not a socket" in failed(cli, "socket")["message"]


def test_deleted_socket_of_a_live_server(cli):
    cli("new", "--name", "x", "cat")
    (cli.state / "tmux.sock").unlink()
    pid = (cli.state / "tmux.pid").read_text()
    assert f"kill -USR1 {pid}" in failed(cli, "socket")["fix"]
    assert not (cli.state / "tmux.sock").exists()
    assert cli.json("list")["count"] == 1  # as the fix says


def test_foreign_server(cli):
    cli.state.mkdir(mode=0o700)
    cli.tmux("-f", "/dev/null", "new-session", "-d", "-s", "theirs", "cat")
    assert "kill-server" in failed(cli, "socket")["fix"]
    assert cli.tmux("has-session", "-t", "=theirs").returncode == 0


def test_server_that_does_not_answer(cli):
    cli.state.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(cli.state / "tmux.sock"))
        silent.listen()
        begun = time.monotonic()
        found = checks(cli, status=1, **QUICK)
        assert time.monotonic() - begun < SOON_S
    assert not found["socket"]["ok"]
    assert found["locale"]["ok"]


@pytest.mark.parametrize("way", ["open", "link", "file"])
def test_state_directory_that_is_not_safe(cli, way):
    if way == "open":
        cli.state.mkdir()
        cli.state.chmod(0o755)
    elif way == "link":
        (cli.home / "other").mkdir(mode=0o700)
        cli.state.symlink_to(cli.home / "other")
    else:
        cli.state.touch()
    found = checks(cli, status=1, **QUICK)
    assert {"open": "chmod 700", "link": "points", "file": "another path"}[way] in found["state directory"]["fix"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_state_directory_that_cannot_be_made(cli):
    (cli.home / "closed").mkdir(mode=0o500)
    failed(cli, "state directory", "--state-dir", str(cli.home / "closed" / "s"))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_state_directory_where_nothing_can_be_made(cli):
    check = checks(cli, "--state-dir", "/proc/tmuxmcp", status=1, **QUICK)["state directory"]
    assert not check["ok"]
    assert "/proc/tmuxmcp cannot be made in /proc" in check["message"]


def test_missing_tools_are_named(cli):
    directory = cli.home / "few"
    directory.mkdir()
    for name in set(doctor.SCRIPT_PROGRAMS) - {"dd", "tail"} | {"tmux", "bash", "env", "locale"}:
        if found := shutil.which(name):
            (directory / name).symlink_to(found)
    check = failed(cli, "tools", PATH=str(directory))
    assert check["message"].endswith(": dd, tail")


def test_tools_are_those_that_the_scripts_call():
    scripts = PACKAGE / "machine" / "launch"
    text = "".join((scripts / name).read_text() for name in ("launcher.sh", "sink.sh"))
    assert [name for name in doctor.SCRIPT_PROGRAMS if not re.search(rf"\b{name}\b", text)] == []


def test_logs_over_their_limit(cli):
    directory = cli.state / "sessions" / "x"
    directory.mkdir(parents=True)
    cli.state.chmod(0o700)
    (directory / "out.raw").write_bytes(b"x" * 9000)
    assert "state_max_bytes" in failed(cli, "logs", TMUXMCP_STATE_MAX_BYTES="1000")["fix"]
    checks(cli, TMUXMCP_STATE_MAX_BYTES="0", **QUICK)


@pytest.mark.parametrize("value", ["C", "POSIX", "xx_YY.UTF-8"])
@pytest.mark.skipif(shutil.which("locale") is None, reason="musl knows only UTF-8")
def test_locale_without_utf8(cli, value):
    assert "C.UTF-8" in failed(cli, "locale", LC_ALL=value)["fix"]


def test_program_that_is_not_there(cli):
    assert "nowhere" in failed(cli, "program", TMUXMCP_PROGRAM="nowhere")["message"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("TMUXMCP_TYPO", "1", "TMUXMCP_TYPO is no setting"), ("TMUXMCP_ROWS", "many", "Setting rows")],
)
def test_variable_that_means_nothing(cli, name, value, said):
    assert said in failed(cli, "settings", **{name: value})["message"]


@pytest.mark.parametrize("text", ["colums = 80\n", "rows = \n", "rows = 0\n"])
def test_settings_file_that_is_wrong(cli, text):
    file = cli.home / ".config" / "tmuxmcp" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    del cli.env["TMUXMCP_PROGRAM"]
    assert failed(cli, "settings")["message"]


def test_settings_file_that_is_missing(cli):
    assert "no settings file" in failed(cli, "settings", "--config", "nowhere.toml")["message"]


def test_variables_of_sessions_are_no_mistake(cli):
    checks(cli, TMUXMCP_SESSION="x", TMUXMCP_KEY="y", TMUXMCP_TEST_SLOW="1", **QUICK)


def test_descriptors_are_too_few(cli):
    words = " ".join([*COMMAND, "doctor", "--json", "--config", "/dev/null"])
    done = subprocess.run(
        ["bash", "-c", f"ulimit -n 100; {words}"], env=cli.env | QUICK, cwd=cli.work, capture_output=True, check=False
    )
    found = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
    assert (done.returncode, found["descriptors"]["fix"]) == (1, "Run `ulimit -n 128` before, or lower max_sessions.")


def test_shell_whose_marks_do_not_come(cli):
    """A start-up file that never comes to an end; the other shells are told apart from it."""
    (cli.home / ".bashrc").write_text("read -r answer\n")
    begun = time.monotonic()
    found = checks(cli, status=1, patient=True)
    assert time.monotonic() - begun < 2 * SOON_S
    assert not found["bash"]["ok"]
    assert "no prompt came" in found["bash"]["message"]
    for name in SHELLS[1:]:
        assert found[name]["ok"], found[name]


def test_packages_that_are_missing_or_old(monkeypatch):
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda _: ["no-such-package>=1", "pytest>=999"])
    check = doctor.check_python()
    assert not check.ok
    assert "no-such-package is missing" in check.message
    assert "older than 999" in check.message


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_kernel_that_tells_nothing(monkeypatch):
    monkeypatch.setattr(proc, "wait_channel", lambda _: "0")
    assert "prompt_pattern" in doctor.check_kernel().fix


def test_check_that_hangs_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(doctor, "CHECK_S", 1.0 * SLOW)
    with tempfile.TemporaryDirectory() as directory:
        fifo = Path(directory, "fifo")
        os.mkfifo(fifo)
        hanging, well = doctor._bounded(
            [("hangs", lambda: doctor.DoctorCheck("hangs", fifo.read_text() == "", "")), ("well", doctor.check_tmux)]
        )
        assert (hanging.ok, well.ok) == (False, True)
        fifo.open("w").close()


LOADED = """
import sys
from tmuxmcp.faces.cli import doctor
before = {*sys.modules}
doctor._bounded = lambda looks: [look() for _, look in looks]
doctor.diagnose()
print(sorted(name for name in {*sys.modules} - before if name.partition(".")[0] in ("tmuxmcp", "uvicorn", "mcp")))
"""


def test_checks_load_nothing_in_the_time_that_they_have(cli):
    """On a slow machine that alone may take longer."""
    cli.env |= QUICK | {"TMUXMCP_HTTP": "127.0.0.1:0", "TMUXMCP_TOKEN": "0123456789abcdef" * 2}
    said = subprocess.check_output([sys.executable, "-c", LOADED], env=cli.env, cwd=cli.work, text=True)
    assert said == "[]\n"


def test_ssh_and_the_agent_that_it_is_to_use(cli):
    assert "no agent" in checks(cli, **QUICK)["ssh"]["message"]
    gone = str(cli.home / "agent")
    assert gone in failed(cli, "ssh", SSH_AUTH_SOCK=gone)["message"]


def test_secrets_can_be_had_and_are_not_told(cli):
    private, open_to_all = cli.home / "private", cli.home / "open"
    for path, mode in ((private, 0o600), (open_to_all, 0o644)):
        path.write_text("hunter2")
        path.chmod(mode)
    rows = {"kept": {"source": f"file:{private}"}, "printed": {"source": ["cat", str(private)]}}
    assert checks(cli, **QUICK, TMUXMCP_SECRETS=json.dumps(rows))["secrets"]["message"] == "kept, printed"
    rows |= {
        "seen": {"source": f"file:{open_to_all}"},
        "gone": {"source": f"file:{private}.none"},
        "unknown": {"source": "command:no-such-command hunter2"},
    }
    told = failed(cli, "secrets", TMUXMCP_SECRETS=json.dumps(rows))["message"]
    for part in ("secret seen (mode 644)", "secret gone is not there", "command of secret unknown is not there"):
        assert part in told
    assert "kept" not in told
    assert "hunter2" not in told
