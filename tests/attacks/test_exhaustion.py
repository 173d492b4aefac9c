"""Whoever takes all that can be had, in one session: what others run in theirs goes on, and nothing of it is lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
import pytest

from tests.conftest import SLOW, eventually
from tests.kit.agent import eventually as agent_eventually
from tests.kit.limits import CONTROLLERS
from tests.kit.processes import alive
from tests.kit.service import Service, bearer
from tests.kit.wire import Server
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import InvalidPattern, ResourceLimit, TimedOut
from tmuxmcp.contract.settings import BrokerSettings, Limits
from tmuxmcp.sessions.end import process_tree
from tmuxmcp.sessions.session import Session

RUNS = 5
LEAST_S = 0.4 * SLOW
"""Up to here, how much longer a `run` takes than alone says more of the machine than of us."""


async def run_s(broker: Broker) -> float:
    """Median time of a `run` in the session that is not attacked. Its output is exact."""
    times = []
    for number in range(RUNS):
        begun = time.monotonic()
        ran = await broker.run(f"(echo fine {number})", session_id="beside")
        times.append(time.monotonic() - begun)
        assert (ran.output, ran.exit_code) == (f"fine {number}\n", 0)
    return statistics.median(times)


@asynccontextmanager
async def others_go_on(broker: Broker) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Gives what measures a session beside the attack against the same session alone."""
    await broker.create_session("bash", name="beside")
    alone_s = await run_s(broker)

    async def measure() -> None:
        beside_s = await run_s(broker)
        print(f"run alone {alone_s * 1000:.1f} ms, beside {beside_s * 1000:.1f} ms")
        assert beside_s <= max(5 * alone_s, LEAST_S)

    yield measure
    assert (await broker.run("echo $((6 * 7))", session_id="beside")).output == "42\n"


# ---- patterns ------------------------------------------------------------------------------------

ENDLESS = r"(a|a|b)*(a|aa)+$c"
UNSTOPPABLE = "(?:(?:(?:a{1000}){1000}){1000}){1000}"
"""Only the end of the process that compiles it stops it."""

CATASTROPHES = [ENDLESS, UNSTOPPABLE, "(a+)+$", "(x+x+)+y", "(?R)", "(.{1,1000}){1,1000}!$c", "(?:a?){99}a{99}b"]
WRONG = ["(", "(" * 500, "(" * 500 + ")" * 500, "*", "[", "a" * 100_000, "|".join(f"a{n}" for n in range(20_000))]


def asking(broker: Broker, pattern: str) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every argument that is a pattern, in the session that attacks."""
    return {
        "read": lambda: broker.read(session_id="a", wait_for="pattern", pattern=pattern, since=0, timeout_ms=300),
        "send": lambda: broker.send(
            "", enter=True, session_id="a", wait_for="pattern", pattern=pattern, timeout_ms=300
        ),
        "prompt": lambda: broker.read(session_id="a", wait_for="ready", prompt_pattern=pattern, timeout_ms=300),
        "wait": lambda: broker.wait(["a"], wait_for="pattern", patterns=[pattern, "x"], timeout_ms=300),
        "search": lambda: broker.search(pattern, session_id="a"),
    }


@pytest.mark.parametrize("pattern", WRONG, ids=lambda pattern: f"{pattern[:6]} {len(pattern)}")
async def test_what_is_no_pattern_is_refused_by_every_operation(broker: Broker, pattern: str) -> None:
    await broker.create_session("bash", name="a")
    for name, ask in asking(broker, pattern).items():
        with pytest.raises(InvalidPattern):
            await ask()
        assert (await broker.run("(echo fine)", session_id="a")).output == "fine\n", name


async def test_catastrophic_patterns_hold_up_nobody(broker: Broker, tmp_path: Path) -> None:
    """Over a line of 200 KB, by every operation at once; a pattern of another session is searched for as well."""
    (tmp_path / "text").write_text("a" * 60 + "!\n" + "a" * 100_000 + "x" * 100_000 + "!\n")
    await broker.create_session("bash", name="a")
    assert (await broker.run(f"cat {tmp_path}/text", session_id="a", max_bytes=1000)).exit_code == 0

    async def attack(ask: Callable[[], Awaitable[Any]]) -> None:
        while True:
            with contextlib.suppress(InvalidPattern, TimedOut, ResourceLimit):
                await ask()
            await anyio.sleep(0.001)

    async with others_go_on(broker) as measure, anyio.create_task_group() as tg:
        for pattern in CATASTROPHES:
            for ask in asking(broker, pattern).values():
                tg.start_soon(attack, ask)
        await anyio.sleep(0.3)
        await measure()
        await broker.send("echo need''le", enter=True, session_id="beside", read="none")
        with anyio.fail_after(100 * SLOW):
            found = await broker.read(
                session_id="beside", wait_for="pattern", pattern="^need(?=le)", timeout_ms=int(30_000 * SLOW)
            )
        assert (found.outcome, found.matched) == ("matched", "need")
        begun = time.monotonic()
        tg.cancel_scope.cancel()
    assert time.monotonic() - begun < 10 * SLOW  # what is searched for at the moment comes to its end
    assert (await broker.search("need..$", session_id="beside")).total >= 1


# ---- output without end --------------------------------------------------------------------------

MOST_LOG = 1 << 20
FLOODS = {
    "lines": "yes",
    "zeros": "cat /dev/zero",
    "one line": "tr '\\0' a </dev/zero",
    "redraws": "while :; do printf '\\033[2J\\033[H%2000d' {1..200}; done",
    "progress": "while :; do printf '\\r%80d' {1..1000}; done",
}


@pytest.mark.parametrize("command", FLOODS.values(), ids=FLOODS)
async def test_floods_hold_up_nobody(state_dir: Path, home: Path, command: str) -> None:
    """Two floods that are read all the while; memory and log stay bounded, and what others print is whole."""
    settings = BrokerSettings(state_dir=state_dir, program="bash", log_max_bytes=MOST_LOG)
    async with Broker.open(settings) as broker, others_go_on(broker) as measure:
        for name in ("a", "b"):
            await broker.create_session("bash", ["-c", command], name=name, wait_ready=False)
        memory = psutil.Process().memory_info().rss
        async with anyio.create_task_group() as tg:
            tg.start_soon(keep_reading, broker, "a")
            await eventually(lambda: (state_dir / "sessions/a/out.raw").stat().st_size > 2 * MOST_LOG, 30)
            await measure()
            tg.cancel_scope.cancel()
        ran = await broker.run("seq 20000", session_id="beside", max_bytes=200_000)
        assert ran.output == "".join(f"{number}\n" for number in range(1, 20_001))
        for name in ("a", "b"):
            assert (state_dir / f"sessions/{name}/out.raw").stat().st_blocks * 512 < 2 * MOST_LOG
            assert (await broker.destroy_session(name, force=True)).survivors == []
        assert psutil.Process().memory_info().rss - memory < 64 << 20


async def keep_reading(broker: Broker, session_id: str) -> None:
    """As an agent does who waits for a program that never stops."""
    while True:
        await broker.read(session_id=session_id, wait_for="pattern", pattern="no such$", timeout_ms=200)
        await broker.read(session_id=session_id, view="screen")


# ---- hogs under limits ---------------------------------------------------------------------------

BOMB = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
MEMORY = "hog = []\nwhile True:\n    hog.append(bytearray(8 << 20))"
FILES = """import os, time
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    print("held", len(held), flush=True)
time.sleep(600)"""
DISK = """import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
while True:
    try:
        with open("big", "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
    except OSError:
        pass"""
WORDS = "import sys\nwhile True:\n    sys.stdout.write('x' * 65536)"
HOGS = {"processes": BOMB, "memory": MEMORY, "files": FILES, "disk": DISK, "log": WORDS}
LIMITS = Limits(processes=50, memory_mb=64, open_files=64, file_mb=4, cpu_percent=50, duration_s=120)


@pytest.mark.parametrize(
    ("hog", "sandbox"),
    [
        ("processes", "none"),
        ("processes", "auto"),
        ("memory", "none"),
        ("files", "auto"),
        ("disk", "auto"),
        ("log", "none"),
    ],
)
async def test_hogs_under_limits_hold_up_nobody(state_dir: Path, home: Path, hog: str, sandbox: str) -> None:
    if not {"pids", "memory"} <= CONTROLLERS:
        pytest.skip("no cgroup with pids and memory can be made here")
    work = home / "work"
    work.mkdir()
    (work / "hog.py").write_text(HOGS[hog])
    settings = BrokerSettings(state_dir=state_dir, program="bash", log_max_bytes=MOST_LOG, cwd=str(work))
    async with Broker.open(settings) as broker, others_go_on(broker) as measure:
        words = ["-c", f"{sys.executable} -IS hog.py"]
        await broker.create_session(
            "bash", words, name="a", wait_ready=False, limits=LIMITS, sandbox=sandbox, cwd=str(work)
        )
        session = broker.registry.sessions["a"]
        await reached(broker, session, hog, work)
        await measure()
        assert len(process_tree(session)) <= 50 + 2  # the launcher and the sandbox's own
        if hog == "memory":
            facts = await broker.get_session("a")
            assert facts.exit_code != 0
            assert facts.ended
            assert facts.ended.reason == "memory"
        else:
            assert not (await broker.get_session("a")).exited
        assert (await broker.destroy_session("a", force=True)).survivors == []
        assert not any(map(alive, process_tree(session)))


async def reached(broker: Broker, session: Session, hog: str, work: Path) -> None:
    """Wait until the hog has all that it can get."""
    match hog:
        case "processes":
            await eventually(lambda: len(process_tree(session)) >= 40, 20)
        case "memory":
            await broker.read(session_id="a", wait_for="exit", timeout_ms=int(20_000 * SLOW))
            assert session.exited
        case "files":
            read = await broker.read(
                session_id="a", wait_for="pattern", pattern="held [0-9]+", since=0, timeout_ms=int(20_000 * SLOW)
            )
            assert read.matched
            assert int(read.matched.split()[1]) < 64
        case "disk":
            big = work / "big"
            await eventually(lambda: big.exists() and big.stat().st_size == 4 << 20, 20)
        case "log":
            await eventually(lambda: session.log.size() > 2 * MOST_LOG, 20)


# ---- requests ------------------------------------------------------------------------------------

MANY = 10_000 if os.environ.get("TMUXMCP_TEST_MANY") else 200
AT_ONCE = 500
MOST_SESSIONS = 4
MADE = {"program": "cat", "wait_ready": False}
REFUSED = {"MAX_SESSIONS", "RESOURCE_LIMIT"}


def code_of(result: dict[str, Any]) -> str:
    return str(result.get("_meta", {}).get("tmuxmcp/error", {}).get("code", "ok"))


def pour(server: Server, calls: Iterable[tuple[str, dict[str, Any]]]) -> Counter[str]:
    """Send calls, up to so many at once; how often each code was the answer. None is lost or answered twice."""
    waiting, seen, rest = set[int](), Counter[str](), iter(calls)
    while True:
        for tool, arguments in itertools.islice(rest, AT_ONCE - len(waiting)):
            waiting.add(server.call(tool, **arguments))
        if not waiting:
            return seen
        for _ in range(max(len(waiting) // 2, 1)):
            message = server.receive()
            waiting.remove(message["id"])
            seen[code_of(message["result"])] += 1


def median_s(run: Callable[[], str]) -> float:
    times = []
    for _ in range(RUNS):
        begun = time.monotonic()
        assert run() == "fine\n"
        times.append(time.monotonic() - begun)
    return statistics.median(times)


@contextmanager
def meanwhile(attack: Callable[[], Counter[str]], run: Callable[[], str]) -> Iterator[Counter[str]]:
    """Attack in a thread, and measure `run` beside it; gives what the attack saw."""
    alone_s, seen = median_s(run), Counter[str]()
    with ThreadPoolExecutor(1) as pool:
        attacking = pool.submit(attack)
        beside_s = median_s(run)
        seen.update(attacking.result())
    print(f"run alone {alone_s * 1000:.1f} ms, beside {beside_s * 1000:.1f} ms: {dict(seen)}")
    assert beside_s <= max(5 * alone_s, LEAST_S)
    yield seen


@pytest.fixture
def servers(state_dir: Path, home: Path) -> Iterator[tuple[Server, Server]]:
    """The attacker's server and another client's, on one state directory."""
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(2):
            server = Server(state_dir, "--max-sessions", str(MOST_SESSIONS))
            stack.callback(server.process.__exit__, None, None, None)
            stack.callback(server.process.kill)
            made.append(server.start())
        yield made[0], made[1]


def runs(server: Server) -> str:
    result = server.result_of(server.call("run", command="echo fine", session_id="beside"))
    return str(result["structuredContent"]["output"])


def held_by(server: Server) -> tuple[int, int]:
    """Descriptors and processes of a server."""
    process = psutil.Process(server.process.pid)
    return process.num_fds(), len(process.children())


def test_bursts_of_sessions_over_stdio_are_all_answered(servers: tuple[Server, Server], state_dir: Path) -> None:
    attacker, other = servers
    other.result_of(other.call("create_session", name="beside"))
    attacker.result_of(attacker.call("run", command="true", session_id="beside"))
    before = held_by(attacker)
    with meanwhile(lambda: pour(attacker, [("create_session", MADE)] * MANY), lambda: runs(other)) as seen:
        assert seen.total() == MANY
        assert set(seen) <= {"ok", *REFUSED}, seen
        assert seen["ok"] == MOST_SESSIONS - 1
    listed = attacker.result_of(attacker.call("list_sessions"))["structuredContent"]["sessions"]
    kept = list((state_dir / "sessions").glob("*/meta.json"))  # a pane that was made ahead has none yet
    assert len(listed) == len(kept) == MOST_SESSIONS
    for each in listed:
        if each["session_id"] != "beside":
            attacker.result_of(attacker.call("destroy_session", session_id=each["session_id"], force=True))
    agent_eventually(lambda: held_by(attacker) <= (before[0] + 2, before[1]))
    assert code_of(attacker.result_of(attacker.call("create_session", **MADE))) == "ok"


def test_bursts_of_calls_over_stdio_are_all_answered(servers: tuple[Server, Server]) -> None:
    attacker, other = servers
    other.result_of(other.call("create_session", name="beside"))
    attacker.result_of(attacker.call("create_session", name="a"))
    tools = [
        ("run", {"command": "true", "session_id": "a"}),
        ("read", {"session_id": "a", "view": "screen"}),
        ("wait", {"session_ids": ["a"], "wait_for": "needs_you", "timeout_ms": 100}),
    ]
    calls = (tools[number % 3] for number in range(MANY))
    with meanwhile(lambda: pour(attacker, calls), lambda: runs(other)) as seen:
        assert seen.total() == MANY
        assert set(seen) <= {"ok", "SESSION_BUSY", "RESOURCE_LIMIT"}, seen
        assert seen["ok"] > 10
    ran = attacker.result_of(attacker.call("run", command="echo $((6 * 7))", session_id="a"))
    assert ran["structuredContent"]["output"] == "42\n"


def test_bursts_of_sessions_over_http_are_all_answered(state_dir: Path) -> None:
    with Service(state_dir, "--max-sessions", str(MOST_SESSIONS)) as service:
        assert "result" in service.rpc("create_session", "other", name="beside")
        process = psutil.Process(service.process.pid)
        before = process.num_fds()

        async def ask() -> Counter[str]:
            seen, rest = Counter[str](), iter(range(MANY))

            async def one(client: httpx2.AsyncClient) -> None:
                for number in rest:
                    call = {"jsonrpc": "2.0", "id": number, "method": "create_session", "params": MADE}
                    answer = (await client.post("/rpc", json=call)).json()
                    assert answer["id"] == number
                    seen[answer["error"]["data"]["code"] if "error" in answer else "ok"] += 1

            headers = bearer("agent")
            client = httpx2.AsyncClient(base_url=service.url, headers=headers, timeout=60 * SLOW)
            async with client, anyio.create_task_group() as tg:
                for _ in range(30):
                    tg.start_soon(one, client)
            return seen

        def run() -> str:
            return str(service.rpc("run", "other", command="echo fine", session_id="beside")["result"]["output"])

        with meanwhile(lambda: anyio.run(ask), run) as seen:
            assert seen.total() == MANY
            assert set(seen) <= {"ok", *REFUSED}, seen
            assert seen["ok"] == MOST_SESSIONS - 1
        assert len(list((state_dir / "sessions").iterdir())) == MOST_SESSIONS
        agent_eventually(lambda: process.num_fds() <= before + 3 * MOST_SESSIONS)
