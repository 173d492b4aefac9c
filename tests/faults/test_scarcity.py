"""No room on the disk, no descriptors: a clear error, soon; what needs nothing goes on; and all is well afterwards."""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import SLOW
from tests.kit.agent import ANEW, Agent, ToolFailed, eventually
from tests.kit.disks import a_small_disk
from tests.kit.tmux import plain_tmux
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.meta import sink_of

SOON_S = 5 * SLOW
"""Longest answer of a call, short of resources or not: facts about a session come much sooner."""


def timed(agent: Agent, tool: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    """What a tool says, and the code of its error; it never takes long and never has a defect of ours."""
    begun = time.monotonic()
    raw = agent.raw(tool, **arguments)
    error = raw.meta["tmuxmcp/error"] if raw.is_error else {"code": ""}
    answer, code = raw.structured_content or {}, error["code"]
    assert code != "INTERNAL", error
    assert time.monotonic() - begun < 2 * SOON_S, (tool, code)
    return answer, code


# ---- the disk ----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(state_dir: Path) -> Iterator[Path]:
    """A state directory that is a file system of 3 MiB."""
    with a_small_disk(state_dir / "s", "3m") as path:
        yield path
        plain_tmux(path, "kill-server", check=False)


def fill(path: Path) -> Path:
    """A file that takes what room there is."""
    ballast = path / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


def test_full_disk_is_told_and_got_over(small_disk: Path):
    with Agent(small_disk, "bash") as agent:
        for name in ("a", "quiet"):
            agent.call("create_session", program="bash", name=name)
        agent.run("echo kept", session_id="a")
        ballast = fill(small_disk)
        _, code = timed(agent, "create_session", program="bash", name="b")
        assert code == "IO_ERROR"
        answer, code = timed(agent, "run", command="seq 100000", session_id="a", timeout_ms=2000)
        assert code or not answer["completed"], "it says that all is there"
        agent.call("send", session_id="a", text="seq 100000", enter=True, read="none")
        for tool, arguments in (
            ("list_sessions", {}),
            ("get_session", {"session_id": "quiet"}),
            ("read", {"session_id": "quiet", "view": "screen"}),
            ("read", {"session_id": "quiet"}),
            ("send", {"session_id": "quiet", "text": "x", "read": "none"}),
            ("search", {"session_id": "a", "pattern": "kept"}),
            ("health", {}),
            ("run_process", {"argv": ["echo", "fine"]}),
        ):
            assert timed(agent, tool, **arguments)[1] == "", tool
        eventually(lambda: sink_of(SessionDirectory.of(small_disk, "a")) != (1, True))  # what it prints may come late
        ballast.unlink()
        agent.call("send", session_id="a", key="C-c", read="none")
        agent.call("send", session_id="quiet", key="C-u", read="none")

        def works(name: str) -> bool:
            answer, _ = timed(agent, "run", command="echo again", session_id=name, timeout_ms=3000)
            return answer.get("output") == "again\n"

        for name in ("quiet", "a"):
            eventually(lambda name=name: works(name), 20)
        assert agent.call("create_session", program="bash", name="b")["ready"]
        assert "lost" in agent.call("read", session_id="a", since=0)["note"]


# ---- descriptors -------------------------------------------------------------------------------


def spend(process: psutil.Process, left: int = 0) -> tuple[int, int]:
    """Allow it no more descriptors than it has; gives what it might have before."""
    before = process.rlimit(psutil.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir(f"/proc/{process.pid}/fd"))
    process.rlimit(psutil.RLIMIT_NOFILE, (highest + 1 + left, before[1]))
    return before


@contextmanager
def spent(process: psutil.Process, left: int = 0) -> Iterator[None]:
    before = spend(process, left)
    try:
        yield
    finally:
        process.rlimit(psutil.RLIMIT_NOFILE, before)


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("create_session", {"program": "bash"}),
    ("run", {"command": "echo hi", "session_id": "a"}),
    ("send", {"text": "x", "session_id": "a"}),
    ("send", {"text": "x" * 3000, "session_id": "cat"}),
    ("send", {"text": "é\n" * 6000, "session_id": "cat"}),
    ("read", {"session_id": "a"}),
    ("read", {"session_id": "a", "view": "screen"}),
    ("read", {"session_id": "cat", "wait_for": "idle", "idle_ms": 50}),
    ("search", {"session_id": "a", "pattern": "x"}),
    ("screenshot", {"session_id": "a", "format": "svg"}),
    ("resize", {"session_id": "a", "rows": 30}),
    ("signal", {"session_id": "a", "signal": "CONT"}),
    ("list_sessions", {}),
    ("get_session", {"session_id": "a"}),
    ("run_process", {"argv": ["true"]}),
    ("health", {}),
    ("read_file", {"path": "/etc/passwd"}),
    ("list_directory", {"path": "/"}),
    ("destroy_session", {"session_id": "c"}),
]


def recovered(agent: Agent) -> None:
    agent.call("send", session_id="a", key="C-c")
    eventually(lambda: timed(agent, "run", command="echo fine", session_id="a")[0].get("output") == "fine\n")
    assert agent.call("create_session", program="bash")["ready"]


@pytest.mark.parametrize("left", [0, 1, 2, 4])
def test_broker_without_descriptors(state_dir: Path, left: int):
    """Some calls fail and say why, none hangs; with descriptors again, all is as it was."""
    with Agent(state_dir, "bash", TMUXMCP_TOOLS="all") as agent:
        for name, program in (("a", "bash"), ("cat", "cat"), ("c", "cat")):
            agent.call("create_session", program=program, name=name)
        with spent(psutil.Process(agent.server.pid), left):
            codes = {timed(agent, tool, **arguments)[1] for tool, arguments in CALLS}
        assert codes <= {"", "RESOURCE_LIMIT", "IO_ERROR", "TMUX_ERROR", "MAX_SESSIONS", "SESSION_BUSY"}, codes
        assert left or codes != {""}
        recovered(agent)


def test_tmux_without_descriptors(state_dir: Path):
    """Its clients would hang for ever."""
    with Agent(state_dir, "bash") as agent:
        for name in ("a", "cat"):
            agent.call("create_session", program="bash" if name == "a" else "cat", name=name)
        tmux = psutil.Process(int((state_dir / "tmux.pid").read_text()))
        with spent(tmux):
            _, code = timed(agent, "create_session", program="bash")
            assert code in ("MAX_SESSIONS", "TMUX_ERROR", "RESOURCE_LIMIT"), code
            assert timed(agent, "run", command="echo hi", session_id="a")[0]["output"] == "hi\n"
            assert timed(agent, "list_sessions")[0]["count"] == 2
            with Agent(state_dir, "bash") as other:
                _, code = timed(other, "list_sessions")
                assert code in ("TMUX_ERROR", "RESOURCE_LIMIT", "TMUX_UNAVAILABLE"), code
        recovered(agent)
        with Agent(state_dir, "bash") as other:
            assert other.run("echo fine", session_id="a")["output"] == "fine\n"


def test_as_many_sessions_as_a_small_limit_allows(state_dir: Path):
    """Started under it, tmux too; the last one that is allowed works, the next is refused with what to do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (76, hard))
    try:
        with Agent(state_dir, "bash", start=ANEW) as agent:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            made = []
            for _ in range(6):
                made.append(agent.call("create_session", program="bash")["session_id"])
            with pytest.raises(ToolFailed, match="open files") as refused:
                agent.call("create_session", program="bash")
            assert refused.value.code == "MAX_SESSIONS"
            assert agent.run("echo fine", session_id=made[-1])["output"] == "fine\n"
            agent.call("destroy_session", session_id=made[0])
            assert agent.call("create_session", program="bash")["ready"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_removed_state_directory_is_told_as_that(state_dir: Path, capfd: pytest.CaptureFixture[str]):
    said = ""

    def told_of_the_log() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "its output may not be recorded" in said

    with Agent(state_dir, "bash") as agent:
        agent.run("true")
        agent.call("read", wait_for="ready")  # a prompt that comes later is recorded nowhere
        tmux = psutil.Process(int((state_dir / "tmux.pid").read_text()))
        try:
            shutil.rmtree(state_dir)
            for tool, arguments in (("run", {"command": "true"}), ("create_session", {"program": "bash"})):
                with pytest.raises(ToolFailed, match="was removed") as failed:
                    agent.call(tool, **arguments)
                assert failed.value.code == "IO_ERROR"
            agent.call("send", text="clear; printf '%s' 4 2; read", enter=True, read="none")
            eventually(lambda: agent.call("read", view="screen")["content"].startswith("42"))
        finally:
            tmux.kill()
        eventually(told_of_the_log)
        with pytest.raises(ToolFailed, match="was removed") as failed:
            agent.call("run", command="true")
        assert failed.value.code == "IO_ERROR"
    assert "Traceback" not in said + capfd.readouterr().err
