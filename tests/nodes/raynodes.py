"""Ray nodes on this machine, each with a state directory of its own: started and ended by process id."""

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
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.conftest import SLOW, end_server
from tests.kit.sshd import free_port

START_S = 60
RAY = Path(sys.executable).with_name("ray")


class Cluster:
    """A head, and nodes that come and go. Ray listens on all addresses: so it wants the secret with each connection."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.secret_file = directory / "secret"
        fd = os.open(self.secret_file, os.O_CREAT | os.O_WRONLY, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_hex(32))
        self.address = f"127.0.0.1:{free_port()}"
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        (directory / "home").mkdir()

    def env(self, key: str = "", **more: str) -> dict[str, str]:
        """The variables of a node; of a program that is a client, without a key."""
        usual = ("PATH", "LANG", "TMUXMCP_TEST_SLOW", "VIRTUAL_ENV")
        env = {name: os.environ[name] for name in usual if name in os.environ}
        env |= {"HOME": str(self.directory / "home"), "TMPDIR": str(self.directory), "TMUXMCP_PROGRAM": "bash"}
        env |= {"TMUXMCP_FLEET_SECRET": str(self.secret_file), "TMUXMCP_FLEET": f"ray://{self.address}"}
        env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.secret_file)}
        env |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        # A raylet that is stopped counts as dead after 12 s, and not after more than 60.
        health = {"period_ms": 1000, "timeout_ms": 2000, "initial_delay_ms": 2000, "failure_threshold": 4}
        env |= {f"RAY_health_check_{name}": str(value) for name, value in health.items()}
        if key:
            env["TMUXMCP_STATE_DIR"] = str(self.state_dir(key))
        return env | more

    def state_dir(self, key: str) -> Path:
        """Where the sessions of a node are."""
        return self.directory / key

    def start(self, key: str, node: str = "", *, head: bool = False, **env: str) -> None:
        """Start a node; `key` names it here, `node` is its machine's name, the same if left out."""
        where = [f"--address={self.address}"]
        if head:
            where = ["--head", f"--port={self.address.rpartition(':')[2]}", "--include-dashboard=false", "--no-monitor"]
        self.state_dir(key).mkdir(mode=0o700, exist_ok=True)
        argv = [RAY, "start", "--block", *where, "--node-ip-address=127.0.0.1", "--disable-usage-stats"]
        argv += ["--num-cpus=1", "--object-store-memory=80000000", "--include-log-monitor=false"]
        argv += [f"--temp-dir={self.directory / f'r{key}'}", f"--labels=tmuxmcp/node={node or key}"]
        with (self.directory / f"{key}.log").open("wb") as log:
            self.nodes[key] = subprocess.Popen(
                argv, env=self.env(key, **env), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def up(self, key: str) -> None:
        """Wait until a node has started."""
        log = self.directory / f"{key}.log"
        deadline = time.monotonic() + START_S * SLOW
        while b"Ray runtime started" not in log.read_bytes():
            assert self.nodes[key].poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)

    def processes(self, key: str, name: str) -> list[psutil.Process]:
        """The processes of a node whose command line begins with, or has as program, `name`."""
        found = []
        for each in psutil.Process(self.nodes[key].pid).children(recursive=True):
            with suppress(psutil.Error):
                words = each.cmdline() or [""]
                if words[0].startswith(name) or words[0].endswith("/" + name):
                    found.append(each)
        return found

    def end(self, key: str) -> None:
        """End a node and all its processes, not what it has let go of."""
        process = self.nodes.pop(key)
        with suppress(psutil.Error):
            for each in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
                with suppress(psutil.Error):
                    each.kill()
        process.wait(10)

    def close(self) -> None:
        """End everything."""
        for key in [*self.nodes]:
            self.end(key)
        left = [each for each in psutil.process_iter() if self._is_ours(each)]
        for each in left:
            with suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(left, 5)
        for each in self.directory.iterdir():
            if (each / "tmux.sock").exists():
                end_server(each)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _is_ours(self, process: psutil.Process) -> bool:
        """What a killed raylet left behind: it has our directory in its environment, and is no tmux."""
        with suppress(psutil.Error, OSError):
            return (
                process.pid != os.getpid()
                and str(self.directory) in json.dumps(process.environ())
                and "RAY_AUTH_MODE" in process.environ()
            )
        return False


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A place for a cluster; nothing of it is left."""
    made = Cluster(Path(tempfile.mkdtemp(prefix="tmr")))
    try:
        yield made
    finally:
        made.close()


def make_doors(nodes: Cluster) -> dict[str, str]:
    """Have `tmuxmcp fleet up` make the doors of all machines; what it says of each."""
    argv = [sys.executable, "-P", "-m", "tmuxmcp", "fleet", "up", "--json"]
    done = subprocess.run(argv, env=nodes.env(), timeout=90 * SLOW, capture_output=True, text=True)
    assert done.stdout, done.stderr
    doors = json.loads(done.stdout)["doors"]
    assert done.returncode == (not all(each["ok"] for each in doors))
    return {each["node"]: each["said"] for each in doors}
