"""Which shells get our start-up files, by their options; and what is typed for a command."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tmuxmcp.gate.actions import LEAD_TO_SHELLS
from tmuxmcp.gate.policy.shelltext import TEXT_SHELLS
from tmuxmcp.machine.launch.shells import SHELLS, command_keys, file_keys, integrate, shell_of, temporary_prefixes
from tmuxmcp.machine.launch.shells.record import START_UP, Integration
from tmuxmcp.terminal.modes import PROMPT_SHELLS

GIVEN = Path(tempfile.gettempdir())


def integrated(program: str, *args: str, history: str = "session", **environment: str) -> Integration:
    (nonce_file := GIVEN / f"n0nce-{os.getpid()}").unlink(missing_ok=True)
    return integrate(
        f"/usr/bin/{program}",
        args,
        nonce="n0nce",
        nonce_file=nonce_file,
        own_history=Path("/state/s1/history"),
        given=GIVEN,
        history=history,
        environment={"HOME": "/home/me", **environment},
    )


BASH, FISH = ["--rcfile", f"{START_UP}/bash.sh"], ["--init-command", f"source '{START_UP}/marks.fish'"]


@pytest.mark.parametrize(
    ("program", "args", "becomes"),
    [
        ("bash", [], BASH),
        ("bash", ["-i"], [*BASH, "-i"]),
        ("bash", ["--rcfile", "mine", "-O", "extglob"], [*BASH, "-O", "extglob"]),
        ("bash", ["--norc"], ["--norc"]),
        ("zsh", [], []),
        ("zsh", ["-l", "-o", "vi"], ["-l", "-o", "vi"]),
        ("zsh", ["-f"], []),
        ("zsh", ["-fil", "+o", "rcs"], ["-il"]),
        ("zsh", ["--no-rcs", "-d"], ["-d"]),
        ("fish", [], FISH),
        ("fish", ["-N", "-C", "set x", "--profile=p"], ["-N", "-C", "set x", "--profile=p", *FISH]),
    ],
    ids=str,
)
def test_interactive_shells_send_marks(program: str, args: list[str], becomes: list[str]):
    integration = integrated(program, *args)
    assert integration.marks
    assert integration.args == becomes
    assert "n0nce" not in integration.env.values()
    nonce_file = Path(integration.env["TMUXMCP_NONCE_FILE"])
    assert nonce_file.read_text() == "n0nce\n"
    assert nonce_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("program", "args"),
    [
        *[(shell, ["-c", "echo"]) for shell in ("bash", "zsh", "fish")],
        *[(shell, ["script", "-i"]) for shell in ("bash", "zsh", "fish")],
        *[(shell, ["--version"]) for shell in ("bash", "zsh", "fish")],
        *[(shell, ["-"]) for shell in ("bash", "zsh", "fish")],
        ("bash", ["-lc", "echo"]),
        ("zsh", ["-fc", "echo"]),
        ("zsh", ["-o", "privileged"]),
        ("zsh", ["--emulate", "sh"]),
        ("fish", ["-nC", "echo"]),
        ("fish", ["--command=echo"]),
        ("fish", ["-C", "set x", "script"]),
        ("sh", []),
        ("dash", []),
        ("python3", []),
    ],
    ids=str,
)
def test_scripts_commands_and_other_programs_are_left_alone(program: str, args: list[str]):
    assert integrated(program, *args) == Integration(args, {}, False)


@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
def test_where_the_history_goes(program: str):
    files = {
        history: integrated(program, history=history).env["TMUXMCP_HISTFILE"] for history in ("session", "none", "user")
    }
    assert files == {"session": "/state/s1/history", "none": "none", "user": ""}


def test_zsh_is_told_where_the_users_own_files_are():
    assert "TMUXMCP_ZDOTDIR" not in integrated("zsh").env
    assert integrated("zsh", ZDOTDIR="/home/me/.zsh").env["TMUXMCP_ZDOTDIR"] == "/home/me/.zsh"
    assert "TMUXMCP_NORCS" not in integrated("zsh").env
    assert integrated("zsh", "-o", "NO_RCS").env["TMUXMCP_NORCS"] == "1"


def test_shell_is_known_by_the_name_of_its_program():
    assert shell_of("/usr/bin/zsh") is SHELLS["zsh"]
    assert shell_of("bash") is SHELLS["bash"]
    assert not shell_of("/usr/bin/less").reads_files
    assert not integrated("less").marks


@pytest.mark.parametrize("name", SHELLS)
def test_shell_that_we_start_is_a_shell_everywhere(name: str):
    """The other lists are of shells in general, whoever starts them."""
    assert SHELLS[name].name == name
    assert name in PROMPT_SHELLS
    assert name in TEXT_SHELLS
    assert name in LEAD_TO_SHELLS


def test_temporary_files_of_zsh_have_a_variable_of_their_own():
    assert temporary_prefixes() == {"TMPPREFIX": "zsh"}


def test_bash_is_told_where_its_commands_are(tmp_path: Path):
    given = tmp_path / "given"
    env = integrate(
        "/usr/bin/bash",
        [],
        nonce="n",
        nonce_file=tmp_path / "nonce",
        own_history=tmp_path,
        given=given,
        history="none",
        environment={},
    ).env
    assert env["TMUXMCP_GIVEN"] == str(given)
    assert given.stat().st_mode & 0o777 == 0o700
    assert "TMUXMCP_GIVEN" not in integrated("zsh").env


def test_a_proof_stands_before_the_name():
    assert command_keys("j1", b"ls", "p0") == b"p0j1\0002 2\0ls\0"
    assert file_keys("j1", "p0").endswith(b"~p0j1\0")


def test_a_command_with_its_sizes():
    assert command_keys("j1", "echo ä;".encode()) == b"j1\0007 8\0echo \xc3\xa4;\0"
    assert command_keys("j1", b"\xff") == b"j1\0001 1\0\xff\0"
