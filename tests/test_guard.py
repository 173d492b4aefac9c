"""What must not grow unnoticed: tmux commands, bytes parsed, modules imported. Counted, never timed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest

import tmuxmcp
from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.record.commands import CommandFile, EndedCommand
from tmuxmcp.terminal import marks
from tmuxmcp.terminal.emulator import capture
from tmuxmcp.tmux.control import ControlClient


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every request to tmux."""
    seen: list[bytes] = []
    original = ControlClient.request

    def counting(self: ControlClient, line: bytes, timeout_s: float = 5.0) -> Awaitable[object]:
        seen.append(line)
        return original(self, line, timeout_s)

    monkeypatch.setattr(ControlClient, "request", counting)
    return seen


CALLS: list[tuple[str, int, Callable[[Broker], Awaitable[object]]]] = [
    ("run", 1, lambda broker: broker.run("true", "a")),
    ("read screen", 1, lambda broker: broker.read("screen", "a")),
    ("read new", 1, lambda broker: broker.read("new", "a")),
    ("read raw", 1, lambda broker: broker.read("raw", "a", since=0)),
    ("get_session", 1, lambda broker: broker.get_session("a")),
    ("list_sessions", 1, lambda broker: broker.list_sessions()),
    ("send without reading", 2, lambda broker: broker.send(" ", session_id="a", read="none")),
    ("search", 1, lambda broker: broker.search("x", "a")),
    # What is shown before and after it; up to four tries to find a moment in which nothing is printed.
    ("resize", 12, lambda broker: broker.resize(rows=30, session_id="a")),
    ("signal", 2, lambda broker: broker.signal("CONT", session_id="a")),
]


@pytest.mark.parametrize(("most", "call"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
async def test_tmux_commands_of_a_call(broker: Broker, requests: list[bytes], most: int, call):
    await broker.create_session("bash", name="a")
    await call(broker)  # once, to be warm
    await broker.read("new", "a", wait_for="ready")  # the shell may still be on its way to the prompt
    requests.clear()
    await call(broker)
    assert len(requests) <= most, requests


async def test_a_shell_is_typed_no_more_than_it_needs_for_a_command(broker: Broker, requests: list[bytes]):
    """bash reads a byte at a time, and tmux one argument after the other."""
    await broker.create_session("bash", name="a")
    await broker.run("true", "a")
    requests.clear()
    await broker.run("true", "a")
    typed = [words for line in requests for words in re.findall(rb"-H'([ 0-9a-f]+)|-l' '(\w+)'", line)]
    assert [len(word) for _, word in typed if word] == [40], "half a proof, and a name"
    assert sum(len(numbers.split()) for numbers, _ in typed) == 15, "a key, twice, and NUL"


@cache
def audit_events() -> Counter[str]:
    """What this process has done, by the names of sys.addaudithook, since this was first called: hooks stay."""
    events: Counter[str] = Counter()
    sys.addaudithook(lambda event, _: events.update([event]))
    return events


@pytest.mark.parametrize(
    ("call", "opened", "looked_at"),
    [
        (lambda broker: broker.run("true", "a"), 15, 25),
        (lambda broker: broker.read("screen", "a"), 3, 9),
    ],
    ids=["run", "read screen"],
)
async def test_files_that_a_call_opens_and_looks_at(broker: Broker, monkeypatch, call, opened: int, looked_at: int):
    """Each is a few microseconds of what `run true` takes; where the kernel checks what a process does, more."""
    await broker.create_session("bash", name="a")
    for _ in range(3):
        await call(broker)
        await broker.read("new", "a", wait_for="ready")
    looks = 0

    def counting(original: Callable[..., Any]) -> Callable[..., Any]:
        def look(*args: Any, **named: Any) -> Any:
            nonlocal looks
            looks += 1
            return original(*args, **named)

        return look

    monkeypatch.setattr(os, "stat", counting(os.stat))
    found: list[tuple[int, int]] = []
    # A busy machine looks more often, and now and then a call writes down what the others have left.
    while not any(opens <= opened and stats <= looked_at for opens, stats in found):
        assert len(found) < 20, found
        before, looks = audit_events()["open"], 0
        await call(broker)
        found.append((audit_events()["open"] - before, looks))
        await broker.read("new", "a", wait_for="ready")


async def test_rows_of_a_screen_that_have_not_changed_are_not_read_again(broker: Broker, monkeypatch):
    read: list[str] = []
    original = capture._read_row
    monkeypatch.setattr(capture, "_read_row", lambda line, *rest: read.append(line) or original(line, *rest))
    await broker.create_session("bash", name="a")
    await broker.run("seq -f 'row %g' 15", "a")
    await broker.read(session_id="a", wait_for="ready")
    await broker.read("screen", "a")
    read.clear()
    await broker.read("screen", "a")
    assert read == []
    await broker.send("|", session_id="a", read="none")

    async def is_shown() -> bool:
        return "|" in (await broker.read("screen", "a")).content

    await eventually(is_shown)
    assert not any(line.startswith("row") for line in read)
    assert "|" in read[-1]


async def test_facts_of_a_session_are_asked_of_its_own_processes(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    async def used() -> int:
        usage = (await broker.get_session("a")).usage
        return usage.processes if usage else 0

    def all_processes(*_: object, **__: object) -> None:
        raise AssertionError("all processes of the machine were looked at")

    monkeypatch.setattr(psutil.Process, "children", all_processes)
    await broker.create_session("sh", ["-c", "sleep 600 & sh -c 'sleep 600; true'; true"], name="a")

    async def all_are_there() -> bool:
        return await used() == 4

    await eventually(all_are_there)


async def test_a_broker_asks_tmux_of_all_sessions_at_once_when_it_finds_them(broker: Broker, requests: list[bytes]):
    names = [f"s{number}" for number in range(8)]
    for name in names:
        await broker.create_session("cat", name=name)
    requests.clear()
    async with Broker.open(broker.settings) as other:
        assert sorted(other.session_ids) == names
        assert sum(b"display-message" in line and b"@tmuxmcp_id" in line for line in requests) == 0
        assert sum(b"list-panes" in line for line in requests) <= 2


async def test_nobody_is_looked_for_while_nobody_is_attached(state_dir: Path, requests: list[bytes]):
    def looks() -> int:
        return sum(b"list-clients" in line for line in requests)

    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash"), keeps_times=True) as broker:
        await broker.create_session("bash", name="a")
        await eventually(looks)
        for _ in range(20):
            await broker.run("true", "a")
        assert looks() <= 3, "once for the broker's own connection, and once for the reaper"


async def test_tmux_commands_do_not_grow_with_output(broker: Broker, requests: list[bytes]):
    await broker.create_session("bash", name="a")
    requests.clear()
    result = await broker.run("seq 200000", "a")
    assert result.output_bytes > 1_000_000
    assert len(requests) <= 1


async def test_no_call_writes_down_many_commands(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    written: list[int] = []
    original = CommandFile.end

    def counting(self: CommandFile, commands: Iterable[EndedCommand]) -> bool:
        written.append(len(each := [*commands]))
        return original(self, each)

    monkeypatch.setattr(CommandFile, "end", counting)
    await broker.create_session("bash", name="a")
    for _ in range(70):
        await broker.run("true", "a")
    assert sum(written) >= 60
    assert max(written) <= 10


async def test_every_byte_is_scanned_once(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    await broker.create_session("bash", name="a")
    fed = 0
    original = marks.MarkScanner.feed

    def counting(self: marks.MarkScanner, data: bytes) -> list[marks.Mark]:
        nonlocal fed
        fed += len(data)
        return original(self, data)

    monkeypatch.setattr(marks.MarkScanner, "feed", counting)
    result = await broker.run("seq 300000", "a")
    assert result.output_bytes <= fed <= result.output_bytes * 1.01 + 10_000


async def test_little_of_a_long_output_is_cleaned(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    from tmuxmcp.record import excerpt

    await broker.create_session("bash", name="a")
    cleaned = 0
    original = excerpt.plain

    def counting(data: bytes, cols: int, rows: int = 24, **place: Any):
        nonlocal cleaned
        cleaned += len(data)
        return original(data, cols, rows, **place)

    monkeypatch.setattr(excerpt, "plain", counting)
    result = await broker.run("seq 2000000", "a")
    assert result.truncated
    assert cleaned < 2_000_000 < result.output_bytes


def modules_of(code: str) -> set[str]:
    listing = f"{code}\nimport sys; print(' '.join(sys.modules))"
    return set(subprocess.check_output([sys.executable, "-c", listing], text=True).split())


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import tmuxmcp", {"pydantic", "anyio", "mcp", "tmuxmcp.contract.errors"}),
        ("import tmuxmcp.faces.cli", {"pydantic", "mcp", "asyncio", "dataclasses", "inspect"}),
        ("import tmuxmcp.machine.filework, tmuxmcp.machine.sandbox.seccomp", {"dataclasses", "inspect"}),
        ("import tmuxmcp.broker.programs.gitwork", {"dataclasses", "inspect"}),
        ("import tmuxmcp.broker.broker", {"mcp", "pydantic_settings", "libtmux", "pyte", "regex"}),
        ("import tmuxmcp.config", {"tmuxmcp.contract.results", "tmuxmcp.contract.requests"}),
        ("import tmuxmcp.app", {"mcp", "libtmux"}),
        (
            "import tmuxmcp.broker.broker",
            {"tmuxmcp.broker.programs.machine", "tmuxmcp.machine.files", "tmuxmcp.terminal.text.logtext"},
        ),
        ("import tmuxmcp.faces.cli.doctor", {"mcp", "mcp_types", "uvicorn", "starlette", "h11"}),
        ("import tmuxmcp.faces.mcp", {"libtmux", "pyte", "prometheus_client", "tmuxmcp.faces.http"}),
    ],
)
def test_what_is_not_imported(code: str, absent: set[str]):
    assert not absent & modules_of(code)


LOADED = """
import sys
from tmuxmcp.__main__ import main
status = main()
print(status, sum(name.startswith("tmuxmcp") for name in sys.modules), file=sys.stderr)
"""

VERBS = [
    # words, most modules of ours
    (["completion", "bash"], 24),
    (["new", "--name=a", "bash"], 180),
    (["list"], 180),
    (["view", "a"], 180),
    (["read", "a"], 180),
    (["run", "-s", "a", "true"], 180),
    (["history", "a"], 180),
    (["log", "a"], 120),
    (["kill", "--force", "a"], 180),
]
"""What a command brings into its process; each module is a part of a millisecond of every start."""


def test_what_verbs_of_the_command_line_load(state_dir: Path):
    over = {}
    for words, modules in VERBS:
        place = [] if words[0] == "completion" else [f"--state-dir={state_dir}"]
        command = [sys.executable, "-c", LOADED, words[0], *place, *words[1:]]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        status, counted = map(int, done.stderr.split()[-2:])
        if status != 0 or counted > modules:
            over[words[0]] = counted, done.stderr
    assert not over


def test_annotations_of_results_need_not_be_compiled():
    results = [each for each in vars(r).values() if isinstance(each, type) and issubclass(each, r.Result)]
    assert len(results) > 50
    assert not [each for each in results if any(isinstance(kind, str) for kind in each.__annotations__.values())]


COLLECTIONS = """
import gc, sys
from tmuxmcp.__main__ import main
early = 0
def collected(phase, info):
    global early
    early += not hasattr(sys.modules.get("tmuxmcp.broker.broker"), "Broker")
gc.callbacks.append(collected)
status = main()
sys.exit(f"{early} early" if early else status)
"""


@pytest.mark.parametrize("verb", ["list", "serve"])
def test_no_garbage_is_collected_before_the_broker_is_imported(verb: str, state_dir: Path):
    words = [sys.executable, "-c", COLLECTIONS, verb, f"--state-dir={state_dir}"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_ignored_type_error_says_why():
    from pathlib import Path

    import tmuxmcp

    for file in Path(tmuxmcp.__file__).parent.rglob("*.py"):
        for line in file.read_text().splitlines():
            ignored = line.partition("# type: ignore")[2]
            assert not ignored or "]  # " in ignored, f"{file.name}: {line.strip()}"


def test_only_the_screen_imports_pyte():
    from pathlib import Path

    import tmuxmcp

    package = Path(tmuxmcp.__file__).parent
    holders = [file for file in package.rglob("*.py") if "import pyte" in file.read_text()]
    assert holders == [package / "terminal" / "emulator" / "screen.py"]


MOST_FILES, MOST_FUNCTIONS, MOST_CALLS = 40, 290, 560
"""Through so many of each a command goes, from `Broker.do` into the shell and back: who changes `run` reads them."""


async def test_a_command_goes_through_few_files(broker: Broker):
    await broker.create_session("bash", name="a")
    for _ in range(3):
        await broker.run("true", "a")
    # What runs beside it, now and then, is no part of it.
    called = min([await files_called(broker.run("true", "a")) for _ in range(5)], key=calls_of)
    path = "\n".join(
        f"{file}: {', '.join(f'{name} {names[name]}' for name in names)}" for file, names in called.items()
    )
    print(path)
    assert "shell/run.py" in called
    assert len(called) <= MOST_FILES, path
    assert sum(map(len, called.values())) <= MOST_FUNCTIONS, path
    assert calls_of(called) <= MOST_CALLS, path


def calls_of(called: dict[str, Counter[str]]) -> int:
    return sum(names.total() for names in called.values())


async def files_called(call: Awaitable[object]) -> dict[str, Counter[str]]:
    """The functions of the package that are called meanwhile, by file."""
    package = str(Path(tmuxmcp.__file__).parent)
    called: dict[str, Counter[str]] = defaultdict(Counter)

    def count(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(package):
            called[file.removeprefix(package + "/")][frame.f_code.co_qualname] += 1

    sys.setprofile(count)
    try:
        await call
    finally:
        sys.setprofile(None)
    return called
