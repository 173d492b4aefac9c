"""A call by a fork is the call by a process that starts anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.kit import forks

TIMEOUT_S = 30 * SLOW


def environment(home: Path, **variables: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **variables}


@pytest.mark.parametrize(
    "words", [[], ["--version"], ["frob"], ["config", "--json", "--state-dir", "s"], ["view", "no"]], ids=str
)
def test_fork_writes_and_ends_as_a_process_does(tmp_path: Path, state_dir: Path, words: list[str]) -> None:
    env = environment(tmp_path, TMUXMCP_COLS="123", TMUXMCP_STATE_DIR=str(state_dir))
    argv = [sys.executable, "-m", "tmuxmcp", *words]
    done = subprocess.run(argv, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True)
    forked = forks.run(words, env, tmp_path, TIMEOUT_S)
    assert (forked.returncode, forked.stdout, forked.stderr) == (done.returncode, done.stdout, done.stderr)


def test_fork_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    # Nobody writes to what it plays.
    os.mkfifo(tmp_path / "film")
    with pytest.raises(subprocess.TimeoutExpired):
        forks.run(["replay", "./film"], environment(tmp_path), tmp_path, 0.5)
    assert forks.run(["--version"], environment(tmp_path), tmp_path, TIMEOUT_S).returncode == 0


def test_fork_reads_what_it_is_given(tmp_path: Path, state_dir: Path) -> None:
    env = environment(tmp_path, TMUXMCP_STATE_DIR=str(state_dir))
    said = forks.run(["serve"], env, tmp_path, TIMEOUT_S, b"no request\n")
    assert (said.returncode, b"-32700" in said.stdout) == (0, True)


def test_fork_that_goes_on_is_a_process_of_its_own(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "film")
    with open(os.devnull, "r+b") as nothing:
        fork = forks.Fork(["replay", "./film"], environment(tmp_path), tmp_path, [nothing.fileno()] * 3)
    assert fork.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        fork.wait(0.05)
    fork.kill()
    assert (fork.wait(TIMEOUT_S), fork.poll()) == (-signal.SIGKILL, -signal.SIGKILL)


def test_fork_that_has_just_ended_is_killed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, "r+b") as nothing:
        fork = forks.Fork(["--version"], environment(tmp_path), tmp_path, [nothing.fileno()] * 3)
    assert fork.wait(TIMEOUT_S) == 0
    monkeypatch.setattr(fork, "poll", lambda: None)  # as before its status has come
    fork.kill()


def test_command_that_forks_is_called_as_ours_is(tmp_path: Path) -> None:
    env = environment(tmp_path, PATH=f"{forks.command(tmp_path).parent}:{os.environ['PATH']}", ODD="a\nb")
    commands = ["tmuxmcp frob 2>&1; echo $?", "cd /usr && echo x | tmuxmcp config --json --state-dir s | tail -n 9"]
    for command in commands:
        own = command.replace("tmuxmcp", f"{sys.executable} -m tmuxmcp")
        answers = [subprocess.run(["sh", "-c", each], env=env, capture_output=True) for each in (command, own)]
        assert answers[0].stdout
        assert (answers[0].stdout, answers[0].stderr) == (answers[1].stdout, answers[1].stderr)


@pytest.mark.parametrize(
    ("variables", "forked"),
    [
        ({}, True),
        ({"LANG": None}, True),
        ({"LANG": ""}, False),
        ({"LC_ALL": "C"}, False),
        ({"PYTHONDEVMODE": "1"}, False),
    ],
)
def test_command_that_must_not_fork_does_not(
    tmp_path: Path, state_dir: Path, variables: dict[str, str | None], forked: bool
) -> None:
    given = environment(tmp_path, TMUXMCP_STATE_DIR=str(state_dir)) | variables
    env = {name: value for name, value in given.items() if value is not None}
    words = [forks.command(tmp_path), "serve"]
    with subprocess.Popen(words, env=env, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"no request\n")
        process.stdin.flush()
        assert b"-32700" in process.stdout.readline()
        told = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")  # while it waits for more
        process.stdin.close()
    assert ("-m" not in told) == forked
