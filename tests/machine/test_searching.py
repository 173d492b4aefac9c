"""Patterns of callers: searched for by a process of its own, whatever they do to it."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import closing

import anyio
import psutil
import pytest

from tests.conftest import SLOW
from tmuxmcp.contract.errors import InvalidPattern, TimedOut
from tmuxmcp.machine.helper import AskerTurns
from tmuxmcp.machine.searching import CompiledPattern, Searching
from tmuxmcp.terminal.patterns import MOST_PATTERN

ENDLESS = r"(a|a|b)*(a|aa)+$c"
"""On `a`s it takes until its time is up."""

UNSTOPPABLE = "(?:(?:(?:a{1000}){1000}){1000}){1000}"
"""Compiling it takes all memory or all time: only the end of the process stops it."""


@pytest.fixture
async def searching(anyio_backend: str) -> AsyncIterator[Searching]:
    with closing(Searching()) as searching:
        yield searching
    assert searching.process is None


async def search(searching: Searching, pattern: str, *texts: str, asker: str = "") -> str | None:
    with anyio.fail_after(100 * SLOW):
        return await (await searching.pattern(pattern, asker)).search(*texts)


async def test_pattern_matches_lines(searching: Searching):
    assert await search(searching, "^b+$", "a\nbb\nc") == "bb"
    assert await search(searching, "x", "a\nbb\nc") is None
    assert await search(searching, "x*", "") == ""
    assert await search(searching, r"\w+é", "nothing", "ça été \ud800") == "été"
    assert await search(searching, "(?<=a)b(?=c)", "abc") == "b"


async def test_lines_that_match_and_their_columns(searching: Searching):
    for pattern in ("b+", r"(?s:.)(?<=^a*)(?:b)+"):  # put to all lines at once, and one by one
        lines = await (await searching.pattern(pattern)).lines("abb\nx\n\nbb\naab b\n")
        assert [line for line, _ in lines] == ([0, 3, 4] if pattern == "b+" else [0, 4])
    assert await (await searching.pattern("b")).lines("abb\nx\n\nbb\naab b\n") == [(0, 1), (3, 0), (4, 2)]
    assert await (await searching.pattern("")).lines("\n\n") == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "(" * 500,
        "(" * 500 + "a" + ")" * 500,
        "*",
        "[",
        r"(?P<a",
        "(?<=",
        "\\",
        r"\p{Nope}",
        "a" * (MOST_PATTERN + 1),
    ],
    ids=lambda pattern: pattern[:12],
)
async def test_what_is_no_pattern_is_refused_at_once(searching: Searching, pattern: str):
    await searching.pattern("a")
    process = searching.process
    with pytest.raises(InvalidPattern):
        await searching.pattern(pattern)
    assert searching.process is process


@pytest.mark.parametrize("pattern", [UNSTOPPABLE, "(?R)", "(x+x+)+y", "(?i)" + "(?:ß|ss|S)*" * 50 + "$c"])
async def test_catastrophe_costs_its_time_and_harms_nobody(searching: Searching, pattern: str):
    begun = time.monotonic()
    for text in ("a" * 60 + "!", "x" * 200_000, "ß" * 200_000):
        with suppress_invalid():
            await search(searching, pattern, text)
    assert await search(searching, "b", "abc", asker="other") == "b"
    assert time.monotonic() - begun < 3 * 5 * SLOW
    with suppress_invalid():
        await CompiledPattern(pattern, "", searching).lines("a" * 60 + "!\n")


class suppress_invalid:
    """It may match, or be refused; nothing else."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> bool:
        return kind is not None and issubclass(kind, InvalidPattern)


async def test_endless_pattern_is_refused(searching: Searching):
    with pytest.raises(InvalidPattern, match="too long"):
        await search(searching, ENDLESS, "a" * 60 + "!")
    with pytest.raises(InvalidPattern, match="too long"):
        await searching.pattern(UNSTOPPABLE)


async def test_event_loop_goes_on_meanwhile(searching: Searching):
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0.01)
            turns += 1

    async with anyio.create_task_group() as tg:
        tg.start_soon(turn)
        with pytest.raises(InvalidPattern):
            await search(searching, ENDLESS, "a" * 60 + "!")
        tg.cancel_scope.cancel()
    assert turns > 10


async def test_who_asks_much_waits_behind_who_asks_little(searching: Searching):
    """Four endless patterns of one asker: another one waits for one of them at a time."""
    refused: list[str] = []
    answered: list[int] = []

    async def endless() -> None:
        with pytest.raises(InvalidPattern):
            await search(searching, ENDLESS, "a" * 60 + "!", asker="greedy")
        refused.append("")

    async def modest() -> None:
        while not refused:
            await anyio.sleep(0.01)
        assert await search(searching, "b", "abc", asker="modest") == "b"
        answered.append(len(refused))

    async with anyio.create_task_group() as tg:
        for _ in range(4):
            tg.start_soon(endless)
        tg.start_soon(modest)
    assert len(refused) == 4
    assert answered[0] <= 3  # a check and a search, each behind one of theirs


async def test_turns_pass_on_when_those_who_wait_are_cancelled():
    turns, order = AskerTurns(), []

    async def take(name: str, scope: anyio.CancelScope) -> None:
        with scope:
            async with turns.of(name):
                order.append(name)

    scopes = {name: anyio.CancelScope() for name in "abc"}
    async with anyio.create_task_group() as tg:
        async with turns.of("first"):
            for name, scope in scopes.items():
                tg.start_soon(take, name, scope)
            await anyio.wait_all_tasks_blocked()
            scopes["b"].cancel()
            await anyio.wait_all_tasks_blocked()
        scopes["a"].cancel()
    async with turns.of("last"):
        order.append("last")
    assert order[-2:] == ["c", "last"]
    assert "b" not in order


async def test_cancelled_search_is_not_waited_for_in_the_queue(searching: Searching):
    await searching.pattern("a")
    process = searching.process
    async with anyio.create_task_group() as tg:
        for _ in range(5):
            tg.start_soon(search, searching, "b", "abc")
        tg.cancel_scope.cancel()
    assert searching.process is process
    assert await search(searching, "b", "abc") == "b"


async def test_stopped_process_costs_the_limit(searching: Searching, monkeypatch: pytest.MonkeyPatch):
    await searching.pattern("a")
    assert searching.process
    psutil.Process(searching.process.pid).suspend()
    monkeypatch.setattr(searching, "limit_s", 0.3)
    with pytest.raises(TimedOut, match="busy"):
        await searching.pattern("a")
    monkeypatch.undo()
    assert await search(searching, "b", "abc") == "b"


async def test_killed_process_is_not_missed(searching: Searching):
    for _ in range(3):
        assert await search(searching, "b", "abc") == "b"
        assert searching.process
        searching.process.kill()


async def test_process_has_nothing_of_ours(searching: Searching):
    await searching.pattern("a")
    assert searching.process
    process = psutil.Process(searching.process.pid)
    assert process.environ() == {}
    assert process.cwd() == "/"
    assert process.num_fds() == 3
    assert os.getsid(process.pid) == process.pid
    assert not any("tmuxmcp/broker" in each.path or "pydantic" in each.path for each in process.memory_maps())
