"""A package of this version takes the place of an earlier one, in the same directory, while server and sessions run."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.behaviour.people.test_popup import attached, opens
from tests.kit.agent import ANEW, Agent, ToolFailed, eventually
from tests.kit.asking import Asked
from tests.kit.sources import PACKAGE

EARLIER = "d144b7005cef75a58d6b2090473cf996e8ed9f09"
"""The last commit before the modules were moved: none of them lies where it lay."""

SHELLS = [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the earlier version is installed."""
    words = ["git", "-C", str(PACKAGE.parent), "archive", EARLIER, "tmuxmcp", "tmux.conf"]
    archive = subprocess.run(words, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip("the history is not here")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(tmp_path / "place", filter="data")
    return tmp_path / "place"


def upgrade(place: Path) -> None:
    shutil.rmtree(place / "tmuxmcp")
    shutil.copytree(PACKAGE, place / "tmuxmcp", ignore=shutil.ignore_patterns("__pycache__"))


def test_all_goes_on(place: Path, state_dir: Path, threads: ThreadPoolExecutor) -> None:
    with Agent(state_dir, start=ANEW, PYTHONPATH=str(place)) as earlier:
        for shell in SHELLS:
            earlier.call("create_session", program=shell, name=shell)
            earlier.run("cd /usr", session_id=shell)
        earlier.call("create_session", program="bash", name="a")
        then = earlier.run("clear; echo then", session_id="bash")["end_offset"]
        earlier.run("clear; echo now", session_id="bash")
        earlier.call("send", session_id="a", text="read -rs x; echo ${#x}-read", enter=True, wait_for="ready")
        with attached(earlier) as person:
            asked = Asked(earlier, threads, "the word", secret=True)
            person.until("a asks: C-b a")
            upgrade(place)
            opens(person)
            person.until("the word")
            person.type("secret\r")
            assert asked.result()["outcome"] == "done"
            person.until("6-read")
        with Agent(state_dir, start=ANEW, PYTHONPATH=str(place)) as later:
            for shell in SHELLS:
                ran = later.run("pwd; seq 20000; sh -c 'exit 3'", session_id=shell)
                assert (ran["exit_code"], ran["output"].partition("\n")[0]) == (3, "/usr")
                assert ran["output_bytes"] > 100_000
                later.run("zsh", session_id=shell)
                nested = later.run("echo in-$ZSH_NAME; (exit 4)", session_id=shell)
                assert (nested["output"], nested["exit_code"]) == ("in-zsh\n", 4)
                later.run("exit", session_id=shell)
            shown = later.call("read", session_id="bash", view="screen", at_offset=then)
            assert "then" in shown["content"]
            assert "now" not in shown["content"]
            os.kill(int((state_dir / "sessions/bash/sink.pid").read_text().split()[0]), signal.SIGKILL)
            eventually(lambda: later.run("echo again", session_id="bash")["output"] == "again\n")
            assert goes_on_or_says_why(earlier)
    assert not psutil.pid_exists(earlier.server.pid)


def goes_on_or_says_why(earlier: Agent) -> bool:
    """The server of the earlier version: what it has not loaded yet is no longer there."""
    try:
        return bool(earlier.run("echo on", session_id="bash")["output"] == "on\n")
    except ToolFailed as failed:
        return failed.code == "INTERNAL" and "ModuleNotFoundError" in str(failed)


def test_who_needs_a_file_that_is_gone_says_why(state_dir: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    shutil.copytree(PACKAGE, place / "tmuxmcp", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE.parent / "tmux.conf", place)
    with Agent(state_dir, "bash", start=ANEW, PYTHONPATH=str(place)) as agent:
        agent.run("true")
        (place / "tmuxmcp" / "broker" / "screenshot.py").unlink()
        with pytest.raises(ToolFailed, match="tmuxmcp was upgraded while this process ran") as failed:
            agent.call("screenshot")
        assert failed.value.code == "INTERNAL"
        assert agent.run("echo on")["output"] == "on\n"
