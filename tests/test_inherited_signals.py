"""Signals that whoever starts us ignores or blocks: children inherit both, and answers stay true."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tmuxmcp.host import bubblewrap


@pytest.fixture
def environment(state_dir: Path, tmp_path: Path) -> dict[str, str]:
    kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    return kept | {"TMUXMCP_STATE_DIR": str(state_dir), "TMUXMCP_PROGRAM": "bash"}


LIBRARY = """
import json, os, signal, sys
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

host = sys.argv[1]
mine = {"ignores SIGCHLD": signal.SIG_IGN, "waits for all": reap}[host]
signal.signal(signal.SIGCHLD, mine)
anyio.run(main)
assert signal.getsignal(signal.SIGCHLD) is mine
"""


@pytest.mark.parametrize("host", ["ignores SIGCHLD", "waits for all"])
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
        assert not bubblewrap.works(str(forbidden))
    finally:
        signal.signal(signal.SIGCHLD, before)
