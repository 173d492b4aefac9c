"""The head of a Ray cluster dies: what brings the cluster back, and that nothing is said to be gone meanwhile.

Two machines as an operator has them, by `tmuxmcp fleet up` and `join`, each with a state directory of its own.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from tests.conftest import SLOW, end_server
from tests.kit.sshd import free_port
from tmuxmcp.nodes.ray import own

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'tmuxmcp[fleet]'"),
    pytest.mark.slow,
]

FAST_S = 10 * SLOW
"""A command of the command line that waits for nothing."""


@dataclass
class Machines:
    """n1, the head's, and n2."""

    directory: Path
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def state_dir(self, node: str) -> Path:
        return self.directory / node

    def do(self, node: str, *words: str, timeout_s: float = 60 * SLOW) -> subprocess.CompletedProcess[str]:
        """A command on a machine."""
        argv = [sys.executable, "-P", "-m", "tmuxmcp", *words, "--state-dir", str(self.state_dir(node))]
        env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        env |= {"HOME": str(self.directory / "home"), "TMPDIR": str(self.directory), "TMUXMCP_PROGRAM": "bash"}
        env |= {"TMUXMCP_FLEET_SECRET": str(self.directory / "secret"), "RAY_USAGE_STATS_ENABLED": "0"}
        if words[:2] != ("fleet", "up"):
            env["TMUXMCP_FLEET"] = f"ray://{self.address}"
        return subprocess.run(argv, env=env, timeout=timeout_s, capture_output=True, text=True, check=False)

    def ray(self, node: str, *more: str) -> str:
        """Options of `ray start` with which two machines can be one."""
        small = ["--node-ip-address=127.0.0.1", "--num-cpus=1", "--object-store-memory=80000000"]
        where = [f"--temp-dir={self.directory / f'r{node}'}", "--include-log-monitor=false"]
        return f"--ray={' '.join([*small, *where, *more])}"

    def up(self, *more: str) -> subprocess.CompletedProcess[str]:
        return self.do("n1", "fleet", "up", "n1", self.ray("n1", f"--port={self.port}"), *more)

    def join(self) -> subprocess.CompletedProcess[str]:
        return self.do("n2", "fleet", "join", "n2", self.ray("n2"))

    def status(self) -> dict[str, tuple[bool, bool]]:
        """By machine: whether it is there, and whether it is drained."""
        machines = json.loads(self.do("n1", "fleet", "status", "--json").stdout)["machines"]
        return {each["name"]: (each["alive"], each["drained"]) for each in machines}

    def kill_head(self) -> None:
        found = own.head(self.state_dir("n1"))
        assert found
        found.kill()
        found.wait(10)


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    made = Machines(Path(tempfile.mkdtemp(prefix="tmh")), free_port())
    secret = made.directory / "secret"
    secret.touch(mode=0o600)
    secret.write_text(secrets.token_hex(32))
    for name in ("home", "n1", "n2"):
        (made.directory / name).mkdir(mode=0o700)
    try:
        done = made.up()
        assert done.returncode == 0, done.stderr
        done = made.join()
        assert done.returncode == 0, done.stderr
        yield made
    finally:
        for node in ("n1", "n2"):
            own.end(made.state_dir(node))
            end_server(made.state_dir(node))
        shutil.rmtree(made.directory, ignore_errors=True)


def test_the_door_has_the_state_directory_of_the_command_line(machines: Machines) -> None:
    done = machines.do("n1", "new", "--name", "own", "--node", "n1", "bash")
    assert done.stdout == "own@n1\n", done.stderr
    assert (machines.state_dir("n1") / "sessions" / "own").is_dir()
    assert not [*(machines.directory / "home").rglob("tmux.sock"), *(machines.directory / "home").rglob("tmux.pid")]
    assert machines.do("n1", "kill", "own@n1").returncode == 0


def test_a_machine_that_answers_is_not_given_up_by_mistake(machines: Machines) -> None:
    assert machines.do("n1", "new", "--name", "kept", "--node", "n2", "bash").returncode == 0
    done = machines.do("n1", "fleet", "forget", "n2")
    assert (done.returncode, "has 1 session" in done.stderr, "--force" in done.stderr) == (2, True, True)
    assert machines.do("n1", "run", "kept@n2", "true").returncode == 0
    assert machines.do("n1", "fleet", "forget", "n2", "--force").returncode == 0
    assert "NODE_LOST" in machines.do("n1", "run", "kept@n2", "true").stderr
    done = machines.do("n1", "fleet", "undrain", "n2")
    assert (done.returncode, "was given up at" in done.stderr) == (0, True)
    deadline = time.monotonic() + 30 * SLOW
    while (done := machines.do("n1", "run", "kept@n2", "echo here")).returncode:
        assert time.monotonic() < deadline, done.stderr
        assert "ray" not in done.stderr.lower().replace("the ray cluster", "")
    assert done.stdout == "here\n"
    assert machines.do("n1", "kill", "kept@n2").returncode == 0


def monitors(machines: Machines) -> list[psutil.Process]:
    """Ray's own monitors of the cluster."""
    words = [(each, " ".join(each.info["cmdline"] or ())) for each in psutil.process_iter(["cmdline"])]
    return [each for each, line in words if "autoscaler" in line and str(machines.directory) in line]


def test_a_dead_head_loses_no_machine(machines: Machines) -> None:
    assert machines.do("n1", "new", "--name", "build", "--node", "n2", "bash").returncode == 0
    shell = machines.do("n1", "run", "build@n2", "echo $$").stdout
    assert machines.do("n1", "fleet", "drain", "n2").returncode == 0
    machines.kill_head()
    # At once, while what is left of it lives.
    begun = time.monotonic()
    done = machines.join()
    assert (done.returncode, "does not answer" in done.stderr) == (1, True), done.stderr
    assert time.monotonic() - begun < FAST_S
    assert machines.status() == {"n1": (False, False), "n2": (False, True)}
    done = machines.do("n1", "list")
    assert "n1, n2 did not answer" in done.stderr
    done = machines.up()
    assert done.returncode == 0, done.stderr
    assert len(monitors(machines)) == 1  # none is left of the old one
    assert machines.status() == {"n1": (True, False), "n2": (False, True)}
    listed = machines.do("n1", "list")
    assert "n2 did not answer" in listed.stderr
    done = machines.do("n1", "run", "build@n2", "true")
    assert "NODE_UNREACHABLE" in done.stderr
    done = machines.join()
    assert done.returncode == 0, done.stderr
    assert machines.status() == {"n1": (True, False), "n2": (True, True)}
    assert machines.do("n1", "run", "build@n2", "echo $$").stdout == shell


def test_a_head_that_lives_is_left_alone(machines: Machines) -> None:
    head = own.head(machines.state_dir("n1"))
    done = machines.up()
    assert (done.returncode, "runs here already" in done.stderr) == (2, True), done.stderr
    assert head
    assert psutil.pid_exists(head.pid)
    assert machines.do("n1", "fleet", "up").returncode == 2  # whose --state-dir?
