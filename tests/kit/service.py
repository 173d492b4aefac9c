"""The HTTP service as a process of its own, and how tests speak to it."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.conftest import SLOW, a_state_dir
from tests.kit import forks

TOKENS = {name: f"{name}-0123456789abcdef" for name in ("agent", "other", "viewer", "boss", "gateway")}
TOKEN_FILE = f"""\
# name   scopes  token
agent    write   {TOKENS["agent"]}
other    read,write {TOKENS["other"]}
viewer   read    {TOKENS["viewer"]}
boss     admin   {TOKENS["boss"]}
gateway  person  {TOKENS["gateway"]}
"""


class Service:
    """One server process. Sessions outlive it: their tmux server is ended with the state directory."""

    def __init__(
        self,
        state_dir: Path,
        *arguments: str,
        start: Sequence[str] = (),
        module: str = "tmuxmcp",
        **variables: str,
    ) -> None:
        """Start it.

        Args:
            start: how Python starts it anew, as ("-m", "tmuxmcp"); else it is a fork.
            module: what the fork runs, as `python -m` does.
        """
        self.state_dir = state_dir
        home = state_dir / "home"
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        tokens = state_dir / "tokens"
        tokens.touch(mode=0o600)
        tokens.write_text(TOKEN_FILE)
        words = ["serve", "--state-dir", str(state_dir), "--http", "127.0.0.1:0", *arguments]
        if not {"--no-token", "--token-file"} & set(words):
            words += ["--token-file", str(tokens)]
        words += ["--program", "bash"]
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **variables}
        self.process: subprocess.Popen[bytes] | forks.Fork
        reading, writing = os.pipe()
        if start or not forks.can_be(env):
            argv = [sys.executable, *(start or ("-m", module)), *words]
            self.process = subprocess.Popen(argv, env=env, cwd=home, stdin=subprocess.DEVNULL, stderr=writing)
        else:
            with open(os.devnull, "rb") as nothing:
                files = [nothing.fileno(), sys.__stdout__.fileno(), writing]
                self.process = forks.Fork(words, env, home, files, module)
        os.close(writing)
        self.stderr = os.fdopen(reading, "rb", 0)
        self.said = b""
        """What it wrote to stderr, as far as it was read."""
        try:
            self.port = self._wait_for_port()
        except BaseException:
            self.process.kill()
            self.stop()
            raise
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait_for_port(self) -> int:
        deadline = time.monotonic() + 20 * SLOW
        while time.monotonic() < deadline:
            if select.select([self.stderr], [], [], 0.1)[0]:
                self.said += (piece := os.read(self.stderr.fileno(), 65536))
                found = re.search(rb"serving .* on http://127\.0\.0\.1:(\d+)", self.said)
                if found:
                    return int(found[1])
                assert piece, self.said
        raise AssertionError(self.said)

    def read_stderr(self) -> None:
        """Take in what it has written to stderr."""
        while select.select([self.stderr], [], [], 0)[0]:
            if not (piece := os.read(self.stderr.fileno(), 65536)):
                return
            self.said += piece

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """End it; gives its exit status, and how long that took."""
        begun = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            if not self.stderr.closed:
                with self.stderr:
                    self.said += forks.all_of([self.stderr], 20 * SLOW)[0]
            status = self.process.wait(20 * SLOW)
        finally:
            self.process.kill()
        return status, time.monotonic() - begun

    def http(self, token: str = "agent", **headers: str) -> httpx2.Client:
        """A client with a token."""
        return httpx2.Client(base_url=self.url, headers=bearer(token) | headers, timeout=30 * SLOW, verify=False)

    def rpc(self, method: str, token: str = "agent", **params: Any) -> dict[str, Any]:
        """The answer to one JSON-RPC call."""
        with self.http(token) as client:
            answer = client.post("/rpc", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def result(self, method: str, token: str = "agent", **params: Any) -> dict[str, Any]:
        """Its result."""
        answer = self.rpc(method, token, **params)
        assert "result" in answer, answer
        return answer["result"]

    def metric(self, name: str) -> float:
        """A number out of /metrics; 0 when it is not there yet."""
        with self.http() as client:
            page = client.get("/metrics").text
        found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else 0.0

    @asynccontextmanager
    async def mcp(self, mode: str, token: str = "agent", **options: Any) -> AsyncIterator[Client]:
        """An MCP client of one of the two eras."""
        async with (
            httpx2.AsyncClient(headers=bearer(token), timeout=60 * SLOW) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http), mode=mode, **options) as client,
        ):
            yield client


@contextmanager
def a_service(*arguments: str, **options: Any) -> Iterator[Service]:
    """A server with a state directory of its own; nothing of either is left."""
    with a_state_dir() as state_dir, Service(state_dir, *arguments, **options) as service:
        yield service


def bearer(token: str) -> dict[str, str]:
    """The header for one of the names in `TOKENS`; none for an empty one."""
    return {"Authorization": f"Bearer {TOKENS[token]}"} if token else {}
