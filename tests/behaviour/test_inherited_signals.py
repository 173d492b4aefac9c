"""Signals that whoever starts us ignores or blocks: children inherit both, and answers stay true."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, eventually
from tests.kit.service import Service
from tmuxmcp.machine.sandbox import bubblewrap

START = """
import os, signal, sys
for name in sys.argv[1].split():
    signal.signal(getattr(signal, name), signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {getattr(signal, name) for name in sys.argv[2].split()})
os.execv(sys.executable, [sys.executable, "-m", "tmuxmcp", *sys.argv[3:]])
"""
PARENTS = pytest.mark.parametrize(
    "parent",
    [("SIGCHLD", ""), ("", "SIGCHLD SIGTERM SIGINT SIGHUP SIGUSR1"), ("SIGHUP SIGPIPE SIGINT SIGQUIT SIGTERM", "")],
    ids=["SIGCHLD ignored", "blocked", "ignored"],
)
CLEAN = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
SHOW = "grep Sig[BI] /proc/self/status"


@pytest.fixture
def environment(state_dir: Path, tmp_path: Path) -> dict[str, str]:
    kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    return kept | {"TMUXMCP_STATE_DIR": str(state_dir), "TMUXMCP_PROGRAM": "bash"}


@PARENTS
def test_command_line(parent: tuple[str, str], environment: dict[str, str]):
    def run(command: str) -> tuple[str, int]:
        argv = [sys.executable, "-c", START, *parent, "run", command]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=30 * SLOW, check=False)
        return done.stdout, done.returncode

    assert run("echo hi; (exit 7)") == ("hi\n", 7)
    assert run("exit 8")[1] == 8


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@PARENTS
def test_stdio_server(parent: tuple[str, str], state_dir: Path):
    with Agent(state_dir, "bash", start=("-c", START, *parent)) as agent:
        assert agent.run(f"{SHOW}; (exit 7)")["output"] == CLEAN
        assert agent.run("(exit 7)")["exit_code"] == 7
        ended = agent.call("run_process", argv=["sh", "-c", f"{SHOW}; exit 5"])
        assert (ended["stdout"], ended["rc"]) == (CLEAN, 5)
        program = agent.call("create_session", program="sh", args=["-c", "exit 6"])["session_id"]
        eventually(lambda: agent.call("get_session", session_id=program)["exit_code"] == 6)
        agent.server.send_signal(signal.SIGTERM)
        agent.server.wait(10 * SLOW)


LIBRARY = """
import json, os, signal, sys, threading
import anyio
import tmuxmcp

async def main():
    async with tmuxmcp.open_broker() as broker:
        ran = await broker.run("(exit 7)")
        ended = await broker.run_process(["sh", "-c", "exit 5"], timeout_ms=10_000)
        made = await broker.create_session("sh", ["-c", "exit 6"])
        waited = await broker.read(session_id=made.session_id, wait_for="exit", timeout_ms=20_000)
        print(json.dumps([ran.exit_code, ended.rc, ended.timed_out, waited.exit_code]))

def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass

def with_all_blocked():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    anyio.run(main)

host = sys.argv[1]
if host == "blocks all in its thread":
    thread = threading.Thread(target=with_all_blocked)
    thread.start()
    thread.join()
else:
    mine = {"ignores SIGCHLD": signal.SIG_IGN, "waits for all": reap}[host]
    signal.signal(signal.SIGCHLD, mine)
    anyio.run(main)
    assert signal.getsignal(signal.SIGCHLD) is mine
"""


@pytest.mark.parametrize("host", ["ignores SIGCHLD", "waits for all", "blocks all in its thread"])
def test_library_in_a_program_with_signals_of_its_own(host: str, environment: dict[str, str]):
    done = subprocess.run(
        [sys.executable, "-c", LIBRARY, host], env=environment, capture_output=True, text=True, timeout=60 * SLOW
    )
    assert (done.stdout, done.stderr) == ("[7, 5, false, 6]\n", "")


def test_sandbox_that_does_not_work_is_not_used(tmp_path: Path):
    forbidden = tmp_path / "bwrap"
    forbidden.write_text("#!/bin/sh\necho bwrap: setting up uid map: Permission denied >&2\nexit 1\n")
    forbidden.chmod(0o700)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert bubblewrap.why_no_namespaces(str(forbidden))
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_service_started_with_nohup_outlives_its_terminal(state_dir: Path):
    service = Service(state_dir, start=("-c", START, "SIGHUP", ""))
    try:
        assert service.result("run", command="echo up")["output"] == "up\n"
        service.process.send_signal(signal.SIGHUP)
        assert service.result("run", command="echo still up")["output"] == "still up\n"
    finally:
        status, _ = service.stop(signal.SIGTERM)
    assert (status, re.findall(rb"(\w+): stopping", service.said)) == (0, [b"SIGTERM"])
