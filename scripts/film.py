"""Makes docs/images/agent-at-work.gif: an agent at work and the terminal that it works in, as a person watches both.

Three sessions of one state directory: in `agent` an MCP client works by calls to a server over stdio, in `work` it gets
things done, and in `film` a person runs `tmuxmcp watch agent work`. What `film` showed is exported. Nothing is left.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import psutil
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

if TYPE_CHECKING:
    from tests.kit.service import Service

ROOT = Path(__file__).resolve().parent.parent
FILM = ROOT / "docs" / "images" / "agent-at-work.gif"
PROJECT = Path("/tmp/shop")
ROWS, COLS = 23, 56
MOST_BYTES = 700_000
TMUXMCP = Path(sys.executable).with_name("tmuxmcp")

LINES = 40
SLOW = f"(for i in $(seq {LINES}); do echo line $i; sleep 0.06; done; exit 5)"

FILES = {
    "prices.py": '''\
"""What things cost."""

from decimal import Decimal

RATES = {"de": Decimal("0.19"), "fr": Decimal("0.02")}


def gross(net: Decimal, country: str) -> Decimal:
    """The price with tax."""
    return net * (1 + RATES[country])
''',
    "test_prices.py": """\
import unittest
from decimal import Decimal
from prices import gross


class Prices(unittest.TestCase):
    def test_germany(self):
        self.assertEqual(gross(Decimal(100), "de"), 119)

    def test_france(self):
        self.assertEqual(gross(Decimal(100), "fr"), 120)
""",
}


# ---- what the agent does -----------------------------------------------------------------------


PACE = float(os.environ.get("PACE", 1))
"""The agent's pauses are so many times as long."""


def say(text: str, colour: int = 0, pause_s: float = 0.5) -> None:
    """Print a line, and give who watches the time to read it."""
    print(f"\x1b[{colour}m{text}\x1b[0m", flush=True)
    time.sleep(pause_s * PACE)


class Tools:
    """A server's tools; each call is shown as it is made."""

    def __init__(self, client: Client, pid: int) -> None:
        self.client = client
        self.pid = pid

    async def call(self, shown: str, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call one; gives its result."""
        say(f"\x1b[1m{name}\x1b[22m {shown}", 36)
        begun = time.monotonic()
        result = await self.client.call_tool(name, {"session_id": "work", **arguments}, read_timeout_seconds=30)
        took_ms = round(1000 * (time.monotonic() - begun))
        assert not result.is_error, result
        answer = result.structured_content
        assert answer
        told = answer.get("result") or answer
        facts = {key: told[key] for key in ("exit_code", "outcome", "mode") if told.get(key) is not None}
        say(f"  {' '.join(f'{key}={value}' for key, value in facts.items())} ({took_ms} ms)", 90, 1.0)
        return dict(answer)


async def with_server(state_dir: str, story: Any) -> None:
    """Start the server as a client does, and tell a part of the story with it."""
    before = {each.pid for each in psutil.Process().children()}
    server = StdioServerParameters(
        command=str(TMUXMCP), args=["serve", "--state-dir", state_dir, "--log-level", "error"]
    )
    async with Client(stdio_client(server)) as client:
        [process] = [each for each in psutil.Process().children() if each.pid not in before]
        await story(Tools(client, process.pid))


async def mend(tools: Tools) -> None:
    """The first part: a test fails, and is mended in vim; then the server is killed."""
    say("> A test fails. Mend it.\n", 1, 1.2)
    await tools.call("python3 -m unittest -q", "run", command="python3 -m unittest -q")
    await tools.call("vim prices.py", "send", text="vim -u NONE -c 'syn on|set nu bg=dark' prices.py", enter=True)
    await tools.call('/0.02 Enter ct"0.20 Escape', "send", keys=[{"text": '/0.02\nct"0.20'}, "Escape"], read="screen")
    await tools.call(":wq", "send", text=":wq", enter=True)
    await tools.call("python3 -m unittest -q", "run", command="python3 -m unittest -q")


async def killed(tools: Tools) -> None:
    """The second part."""
    say("\n> Print 40 lines, slowly.\n", 1, 1.0)
    await tools.call("(for i in $(seq 40); do ...; exit 5)", "run", command=SLOW, timeout_ms=900)
    say(f"kill -9 {tools.pid}", 31, 0.3)
    os.kill(tools.pid, signal.SIGKILL)
    say("  the server is gone", 31, 1.2)


async def nothing_lost(tools: Tools) -> None:
    """The third part, with another server."""
    say("  another server\n", 32)
    ended = (await tools.call("wait_for=command", "read", wait_for="command", timeout_ms=20_000))["command"]
    printed = (await tools.call("command=-1", "read", command=-1))["content"].splitlines()
    whole = printed == [f"line {number}" for number in range(1, LINES + 1)]
    say(f"\n{len(printed)} of {LINES} lines{', in order' * whole}, exit code {ended['exit_code']}", 32, 2.5)


def agent(state_dir: str) -> None:
    """All of it."""
    time.sleep(1)  # `watch` starts beside us
    anyio.run(with_server, state_dir, mend)
    with suppress(Exception):  # what the client says of a server that was killed
        anyio.run(with_server, state_dir, killed)
    anyio.run(with_server, state_dir, nothing_lost)


# ---- who films it ------------------------------------------------------------------------------


@contextmanager
def project(directory: Path) -> Iterator[None]:
    """The directory in which the agent works, for as long as that."""
    directory.mkdir()
    try:
        for name, text in FILES.items():
            (directory / name).write_text(text)
        yield
    finally:
        shutil.rmtree(directory)


def film(service: Service, directory: Path, path: Path, pace: float = 1, command: Path = TMUXMCP) -> dict[str, Any]:
    """Have it all happen in the project `directory`, and export it to `path`; gives what `tmuxmcp export` says.

    Args:
        command: what the person calls; the agent starts its servers by TMUXMCP.
    """
    state_dir = str(service.state_dir)
    (service.state_dir / "home" / ".bashrc").write_text("PS1='\\[\\e[1;32m\\]shop\\[\\e[0m\\] $ '\n")

    def new(name: str, argv: list[str], rows: int = ROWS, cols: int = COLS) -> None:
        env = {"PYTHONPATH": str(ROOT), "PACE": str(pace)}
        start: dict[str, Any] = {"program": argv[0], "args": argv[1:], "cwd": str(directory), "env": env}
        service.result("create_session", name=name, rows=rows, cols=cols, **start)

    new("work", ["bash"])
    new("agent", [sys.executable, __file__, "agent", state_dir])
    new("film", [str(command), "watch", "agent", "work", "--state-dir", state_dir], ROWS + 1, 2 * COLS + 1)
    service.result("wait", session_ids=["agent"], wait_for="exit", timeout_ms=50_000)
    end = f"{LINES} of {LINES} lines, in order, exit code 5"
    service.result("read", session_id="film", wait_for="pattern", pattern=end, timeout_ms=5000)
    shown = service.result("read", session_id="film", view="screen")["content"]
    assert end in shown, shown
    export = [str(command), "export", "film", "--path", str(path), "--from", "1.2", "--state-dir", state_dir, "--json"]
    return dict(json.loads(subprocess.run(export, check=True, capture_output=True, text=True).stdout))


def main() -> int:
    """Make the film, or be the agent in it."""
    if sys.argv[1:2] == ["agent"]:
        agent(sys.argv[2])
        return 0
    from tests.kit.service import a_service  # not in the agent, whose start is filmed

    FILM.unlink(missing_ok=True)
    with project(PROJECT), a_service() as service:
        made = film(service, PROJECT, FILM)
    FILM.chmod(0o644)
    assert made["bytes"] < MOST_BYTES, made
    print(FILM)
    return 0


if __name__ == "__main__":
    sys.exit(main())
