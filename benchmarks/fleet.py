"""What a gateway of many machines costs, over HTTP on loopback, against the same calls to one broker."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import httpx2

import tmuxmcp
from benchmarks.common import Row, workshop
from tmuxmcp.config import Settings
from tmuxmcp.contract import requests as q
from tmuxmcp.contract.errors import TmuxMcpError

NODES = ("n1", "n2", "n3")
TOKEN = "0123456789abcdef0123456789abcdef"


@contextmanager
def a_broker(state_dir: Path, env: dict[str, str], token: Path) -> Iterator[str]:
    """A broker that serves HTTP; gives its URL."""
    words = ["serve", "--http", "127.0.0.1:0", "--token-file", str(token)]
    variables = env | {"TMUXMCP_STATE_DIR": str(state_dir), "TMUXMCP_LOG_LEVEL": "info"}
    with subprocess.Popen([sys.executable, "-m", "tmuxmcp", *words], env=variables, stderr=subprocess.PIPE) as process:
        assert process.stderr
        try:
            for line in process.stderr:
                if found := re.search(rb"serving .* on (http://127\.0\.0\.1:\d+)", line):
                    yield found[1].decode()
                    break
        finally:
            process.terminate()
            process.communicate()


def fleet(quick: bool) -> list[Row]:
    """By turns: a call over the gateway, and the same as one POST to the broker."""
    with ExitStack() as stack:
        place, env = stack.enter_context(workshop())
        place.mkdir(mode=0o700)
        token, file = place / "token", place / "brokers.toml"
        token.touch(mode=0o600)
        token.write_text(TOKEN)
        text = ""
        for name in NODES:
            directory, _ = stack.enter_context(workshop())
            url = stack.enter_context(a_broker(directory, env, token))
            text += f'[[brokers]]\nname = "{name}"\nurl = "{url}"\ntoken_file = "token"\n'
        file.write_text(text)
        return anyio.run(_measured, file, url, quick)


async def _measured(file: Path, url: str, quick: bool) -> list[Row]:
    count = 30 if quick else 200
    async with (
        tmuxmcp.open_fleet(file, Settings(state_dir=file.parent / "gateway")) as gateway,
        httpx2.AsyncClient(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False) as client,
    ):

        async def post(method: str, **arguments: object) -> None:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": arguments}
            assert "result" in (await client.post("/rpc", json=body)).json()

        begun = time.perf_counter()
        made = await gateway.create_many(60, "bash")
        rate = len(made) / (time.perf_counter() - begun)
        names = [each.session_id for each in made if not isinstance(each, TmuxMcpError)]
        await gateway.create_session("bash", name="one", placement=q.Placement(node="n3"))
        ran, floor = await _by_turns(lambda: gateway.run("true", "one@n3"), lambda: post("run", command="true",
                                     session_id="one"), count)  # fmt: skip
        listed, one_listed = await _by_turns(gateway.list_sessions, lambda: post("list_sessions"), count // 2)
        begun = time.perf_counter()
        await gateway.run_many(names, "true")
        at_once = (time.perf_counter() - begun) * 1000
        for each in (*names, "one@n3"):
            await gateway.destroy_session(each, True)
    return [
        Row("run true over a gateway", ran, "ms", floor, "<= floor + 3 ms", ran <= floor + 3),
        Row("list of three machines", listed, "ms", one_listed, "", True),
        Row(f"run true in {len(names)} sessions at once", at_once, "ms", floor, "", True),
        Row("sessions made, three brokers on one machine", rate, "/s", None, "", True),
    ]


async def _by_turns(
    ours: Callable[[], Awaitable[object]], floor: Callable[[], Awaitable[object]], count: int
) -> tuple[float, float]:
    """Medians of milliseconds."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(count + 5):
        for call, times in zip((ours, floor), found, strict=True):
            await anyio.sleep(0.01)
            begun = time.perf_counter()
            await call()
            if number >= 5:
                times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(found[0]), statistics.median(found[1])
