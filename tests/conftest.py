"""What all tests share: a state directory with a tmux server of its own, a broker on it, waiting without sleeps."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio
import psutil
import pytest

from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.settings import BrokerSettings

T = TypeVar("T")

SLOW = float(os.environ.get("TMUXMCP_TEST_SLOW", "1"))
"""Factor of every deadline, for slow machines."""

TMUX = shutil.which("tmux") or "tmux"


async def eventually(probe: Callable[[], T | Awaitable[T]], timeout: float = 5.0) -> T:
    """Call `probe`, which may be async, until it gives something true; return that."""
    deadline = time.monotonic() + timeout * SLOW
    while True:
        given = probe()
        found = await given if inspect.isawaitable(given) else given
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {timeout * SLOW:g} s: {probe}"
        await anyio.sleep(0.005)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_outer_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests behave the same inside a tmux and outside."""
    for name in ("TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A private directory with a short name; afterwards its tmux server and the directory are gone."""
    path = Path(tempfile.mkdtemp(prefix="tm-"))
    try:
        yield path
    finally:
        end_server(path)
        shutil.rmtree(path, ignore_errors=True)


def end_server(state_dir: Path) -> None:
    """End the tmux server of a state directory, if there is one; also one whose socket is gone."""
    argv = [TMUX, "-N", "-S", str(state_dir / "tmux.sock"), "kill-server"]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(argv, check=False, capture_output=True, timeout=10 * SLOW)
    with suppress(OSError, ValueError, psutil.Error):
        server = psutil.Process(int((state_dir / "tmux.pid").read_text()))
        if any(str(state_dir) in word for word in server.cmdline()):
            server.kill()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory: nobody's start-up files have a say."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


@pytest.fixture
async def broker(anyio_backend: str, state_dir: Path, home: Path) -> AsyncIterator[Broker]:
    """A broker on a tmux server of its own."""
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as opened:
        yield opened
