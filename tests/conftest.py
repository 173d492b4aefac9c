"""What all tests share: a state directory with a tmux server of its own, a broker on it, waiting without sleeps."""

from __future__ import annotations

import gc
import inspect
import json
import logging
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import anyio
import psutil
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings
from jsonschema import Draft202012Validator

from tests.kit.probes import explained
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.gate.policy import parsing as parsing_module
from tmuxmcp.gate.policy.parsing import Parsing
from tmuxmcp.gate.policy.shelltext import SimpleCommand

EXAMPLES = int(os.environ.get("TMUXMCP_TEST_EXAMPLES", "0"))
"""Examples for each property, drawn at random; 0: a hundred of them, the same in every run."""

settings.register_profile(
    "tmuxmcp",
    max_examples=EXAMPLES or 100,
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tmuxmcp")
# How fast examples are made says how busy the machine is, and nothing of the code.

T = TypeVar("T")

SLOW = float(os.environ.get("TMUXMCP_TEST_SLOW", "1"))
"""Factor of every deadline, for slow machines."""

TMUX = shutil.which("tmux") or "tmux"


PATIENCE_S = 10.0
STEP_S = 0.005
LONGEST_STEP_S = 0.1


def attempts(what: object, timeout: float) -> Iterator[float]:
    """Turns to try something, until its time is over, which `SLOW` stretches; how long to rest after each.

    What was waited for long, or is looked at with much work, is looked at less often: the wait gets a tenth longer.
    """
    begun = last = time.monotonic()
    rest_s = STEP_S
    while True:
        yield rest_s
        now = time.monotonic()
        if now >= begun + timeout * SLOW:
            raise AssertionError(f"not within {timeout * SLOW:g} s: {explained(what)}")
        rest_s = min(max(STEP_S, (now - begun) / 10, now - last - rest_s), LONGEST_STEP_S)
        last = now


async def eventually(probe: Callable[[], T | Awaitable[T]], timeout: float = PATIENCE_S) -> T:
    """Call `probe`, which may be async, until it gives something true; return that.

    A file that is not there yet and a process that is gone mean: not now.
    `tests.kit.agent` has it for tests that are not async.
    """
    for rest_s in attempts(probe, timeout):
        with suppress(FileNotFoundError, psutil.NoSuchProcess):
            given = probe()
            found = await given if inspect.isawaitable(given) else given
            if found:
                return found
        await anyio.sleep(rest_s)
    raise AssertionError


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector of garbage from what stays to the end: to look through all tests takes it 0.3 s each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, so that no worker is left alone with one at the end: those with slow tests, then
    those with many."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -tests[item.path]))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_outer_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests behave the same inside a tmux and outside."""
    for name in ("TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True, scope="session")
def _schemas_checked_once() -> Iterator[None]:
    """Check a schema once: each of the SDK's clients checks that of each tool it calls, which takes 25 ms."""
    check, known = Draft202012Validator.check_schema, set[str]()

    def check_new(schema: object) -> None:
        if (text := json.dumps(schema)) not in known:
            check(schema)
            known.add(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft202012Validator, "check_schema", check_new)
        yield


@pytest.fixture(autouse=True, scope="session")
def _certificates_read_once() -> Iterator[None]:
    """Read the system's certificates once: each client of httpx does, which takes 20 ms, and no server here has TLS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


@pytest.fixture
def state_dir() -> Iterator[Path]:
    with a_state_dir() as path:
        yield path


@contextmanager
def a_state_dir() -> Iterator[Path]:
    """A private directory with a short name; afterwards its tmux server and the directory are gone."""
    path = Path(tempfile.mkdtemp(prefix="tm-"))
    try:
        yield path
    finally:
        end_server(path)
        shutil.rmtree(path, ignore_errors=True)


def end_server(state_dir: Path) -> None:
    """End the tmux server of a state directory, if there is one; also one whose socket is gone, or not there yet."""
    servers: list[psutil.Process] = []
    with suppress(OSError, ValueError, psutil.Error):
        servers.append(psutil.Process(int((state_dir / "tmux.pid").read_text())))
    argv = [TMUX, "-N", "-S", str(state_dir / "tmux.sock"), "kill-server"]
    ended = False
    with suppress(subprocess.TimeoutExpired):
        ended = subprocess.run(argv, check=False, capture_output=True, timeout=10 * SLOW).returncode == 0
    # A server that was told to end stays until its last client has gone.
    deadline = time.monotonic() + (2 * SLOW if ended else 0)
    while (left := [each for each in servers if _serves(each, state_dir)]) and time.monotonic() < deadline:
        time.sleep(0.005)
    for each in left:
        _kill(each)
    if ended or not state_dir.is_dir() or not any(state_dir.iterdir()):
        return
    deadline = time.monotonic() + 5 * SLOW
    while found := [each for each in psutil.process_iter() if _serves(each, state_dir)]:  # it may be on its way
        assert time.monotonic() < deadline, f"{found} cannot be ended"
        for each in found:
            _kill(each)


def _serves(process: psutil.Process, state_dir: Path) -> bool:
    """Whether it is the tmux of a state directory, or what is about to become it."""
    with suppress(psutil.Error):
        words = process.cmdline()
        return any(os.path.basename(word) == "tmux" for word in words) and any(str(state_dir) in word for word in words)
    return False


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.Error):
        process.kill()


NEWEST_FISH = Path(sys.prefix, "newest-fish", "fish")
"""Debian's newest fish, which `scripts/fish` fetches; that of the system may be older."""

newest_fish = pytest.param(
    str(NEWEST_FISH),
    id="newest fish",
    marks=pytest.mark.skipif(not NEWEST_FISH.exists(), reason="needs Debian's newest fish: scripts/fish fetches it"),
)
"""A parameter: it, as a program to start."""


def no_first_run(home: Path) -> None:
    """Keep fish from reading all manual pages when it meets a new home: that takes a minute of a processor."""
    (home / ".local/share/fish/generated_completions").mkdir(parents=True, exist_ok=True)


def until_exists(file: Path) -> str:
    """A command for any shell that ends once the file is there."""
    return f"sh -c 'until test -e {file}; do sleep 0.05; done'"


def stop_with_children(pid: int) -> list[psutil.Process]:
    """Stop a process first and its children second, so that it makes no new ones in between; resume what is given."""
    parent = psutil.Process(pid)
    parent.suspend()
    deadline = time.monotonic() + 5 * SLOW
    while parent.status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline, f"{parent} does not stop"
        time.sleep(0.001)
    children = parent.children()
    for child in children:
        child.suspend()
    return [parent, *children]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory: nobody's start-up files have a say."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads in which calls wait for what the test does."""
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.fixture
async def broker(anyio_backend: str, state_dir: Path, home: Path) -> AsyncIterator[Broker]:
    """A broker on a tmux server of its own."""
    no_first_run(home)
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as opened:
        yield opened


class Reasons(logging.Handler):
    """Collects why there was no answer."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.add(record.getMessage().rpartition(": ")[2])


@dataclass(frozen=True)
class Parsed:
    """The process that parses shell text, for tests that run in no event loop."""

    portal: BlockingPortal
    parsing: Parsing
    reasons: Reasons

    def __call__(self, text: str) -> list[SimpleCommand]:
        return self.portal.call(self.parsing.of_text, text, "/w", "/home/me")


@pytest.fixture(scope="module")
def commands() -> Iterator[Parsed]:
    """What a shell text would run in `/w`, `~` being `/home/me`."""
    reasons = Reasons()
    parsing_module.log.addHandler(reasons)
    with start_blocking_portal() as portal, closing(portal.call(Parsing)) as parsing:
        yield Parsed(portal, parsing, reasons)
    parsing_module.log.removeHandler(reasons)
