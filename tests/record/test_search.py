"""`search` against what grep would find: any pattern, any cut of the log, bounded in time, memory and size."""

from __future__ import annotations

import re
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import eventually
from tmuxmcp.contract.errors import InvalidPattern
from tmuxmcp.contract.results import SearchResult
from tmuxmcp.machine.searching import CompiledPattern, Searching
from tmuxmcp.record import search as module
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.excerpt import LogReader
from tmuxmcp.record.log import RawLog
from tmuxmcp.terminal.text.plain import plain


@pytest.fixture
def log(tmp_path: Path) -> RawLog:
    return RawLog(SessionDirectory(tmp_path))


SEARCHING = Searching()


@pytest.fixture(scope="module", autouse=True)
def _searching() -> Iterator[None]:
    yield
    SEARCHING.close()


def search(log: RawLog, pattern: str, limit: int = 100, context: int = 0, cols: int = 80) -> SearchResult:
    async def found() -> SearchResult:
        return await module.search(log, cols, 24, "a", await SEARCHING.pattern(pattern), limit, context)

    return anyio.run(found)


def found(log: RawLog, pattern: str, **arguments: Any) -> list[tuple[int, int, str]]:
    return [(each.line, each.offset, each.text) for each in search(log, pattern, **arguments).matches]


def test_lines_offsets_and_text(log: RawLog):
    log.path.write_bytes(b"one\r\n\x1b[31mtwo\x1b[0m\r\nthree\r\n10%\r20%\r\nlast two")
    assert found(log, "t") == [(1, 5, "two"), (2, 19, "three"), (4, 35, "last two")]
    assert found(log, "^2.%$") == [(3, 26, "20%")]
    assert search(log, "[0-9]0%").total == 1  # the state that was overwritten is not there
    assert (search(log, "four").total, found(log, "four")) == (0, [])


def test_reading_from_an_offset_begins_with_the_line(log: RawLog):
    log.path.write_bytes(
        b"".join(b"\x1b[1m%d\x1b[m: %s\r\n" % (number, b"x" * (number % 90)) for number in range(9000))
    )
    reader = LogReader(log, 80, 24)
    for line, offset, text in found(log, "^8?[0-9]99: "):
        assert reader.from_start(offset, log.size(), 1000).text.startswith(text + "\n")
        assert text.startswith(f"{line}: ")


def test_context_is_the_lines_around(log: RawLog):
    log.path.write_bytes(b"".join(b"%d\r\n" % number for number in range(20)))
    assert found(log, "^[07]$", context=2) == [(0, 0, "0\n1\n2"), (7, 21, "5\n6\n7\n8\n9")]
    assert found(log, "^1[89]$", context=1) == [(18, 62, "17\n18\n19"), (19, 66, "18\n19")]
    assert found(log, "^[3-5]$", context=1, limit=1) == [(3, 9, "2\n3\n4")]


def test_context_goes_over_the_borders_of_pieces(log: RawLog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SEARCH_PIECE_BYTES", 16)
    log.path.write_bytes(b"".join(b"line %03d\r\n" % number for number in range(500)))
    texts = [text for _, _, text in found(log, "99$", context=3)]
    assert texts == ["\n".join(f"line {n:03}" for n in range(m - 3, min(m + 4, 500))) for m in (99, 199, 299, 399, 499)]


def test_total_counts_what_is_not_shown(log: RawLog):
    log.path.write_bytes(b"error here\r\nfine\r\n" * 50_000)
    result = search(log, "error", limit=3)
    assert (result.total, len(result.matches), result.truncated) == (50_000, 3, True)
    assert "first 3 of 50000" in (result.note or "")
    assert search(log, r"err\wr(?s:.)here", limit=3).total == 50_000  # a pattern that is put to single lines


def test_long_lines_are_cut_around_the_match(log: RawLog):
    log.path.write_bytes(b"x" * 100_000 + b" needle " + b"y" * 100_000 + b"\r\n")
    [(_, offset, text)] = found(log, "needle")
    assert (offset, len(text) <= module.SHOWN_LINE_CHARS + 2, " needle " in text) == (0, True, True)


def test_text_is_bounded_whatever_is_asked_for(log: RawLog):
    log.path.write_bytes((b"x" * 2000 + b"\r\n") * 5000)
    result = search(log, "x", limit=10_000, context=50)
    assert sum(len(match.text) for match in result.matches) <= module.MATCHES_CHARS + 60 * module.SHOWN_LINE_CHARS
    assert (result.total, result.truncated) == (5000, True)


def test_invisible_characters_are_shown(log: RawLog):
    log.path.write_bytes("safe\u202etxt\x07\r\n".encode())
    assert found(log, "safe")[0][2] == "safe<U+202E>txt"


def test_full_screen_drawing_is_not_searched(log: RawLog):
    drawing = b"".join(b"\x1b[%d;1Hneedle" % row for row in range(24)) * 20_000
    log.path.write_bytes(b"needle 1\r\n\x1b[?1049h" + drawing + b"\x1b[?1049lneedle 2\r\n")
    assert len(drawing) > module.MAX_HELD_BYTES
    assert [text for _, _, text in found(log, "needle")] == ["needle 1", "needle 2"]
    assert search(log, "full-screen program").total == 1


def test_bars_of_several_lines_are_there_once(log: RawLog):
    bar = b"".join(b"\x1b[2A\x1b[2Ka %d%%\r\n\x1b[2Kb %d%%\r\n" % (n, n) for n in range(100))
    log.path.write_bytes(b"x\r\n" * 100 + (b"\r\n\r\n" + bar) * 200)
    assert search(log, "99%").total == 400
    assert search(log, "98%").total == 0


def test_head_that_is_gone_is_told(log: RawLog):
    with log.path.open("wb") as file:
        file.seek(1 << 20)
        file.write(b"needle\r\n")
    result = search(log, "needle")
    assert [(match.line, match.offset) for match in result.matches] == [(0, 1 << 20)]
    assert "no longer kept" in (result.note or "")


@pytest.mark.parametrize("pattern", ["(", "a{2", "*", "[z-a]", r"\8"])
def test_wrong_patterns(log: RawLog, pattern: str):
    log.path.write_bytes(b"x\r\n")
    if pattern == "a{2":  # is text
        assert search(log, pattern).total == 0
        return
    with pytest.raises(InvalidPattern):
        search(log, pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", r"(?s:(a+)+)$"])
def test_exponential_patterns_end(log: RawLog, pattern: str):
    log.path.write_bytes((b"a" * 5000 + b"!\r\n") * 3)
    with pytest.raises(InvalidPattern, match="too long"):
        search(log, pattern)


def test_out_of_time_tells_how_far_it_came(log: RawLog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SEARCH_S", -1)
    log.path.write_bytes(b"x\r\n")
    result = search(log, "x")
    assert (result.total, result.truncated) == (0, True)
    assert "offset 0" in (result.note or "")


def test_cancelled_search_stops(log: RawLog, monkeypatch: pytest.MonkeyPatch):
    jobs: list[Any] = []
    begun = module._LogSearch._search

    def slow(self: Any, *args: Any) -> None:
        jobs.append(self)
        begun(self, *args)

    monkeypatch.setattr(module, "SEARCH_PIECE_BYTES", 1000)
    monkeypatch.setattr(module._LogSearch, "_search", slow)
    log.path.write_bytes(b"0123456789\r\n" * 500_000)

    async def cancelled() -> None:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(module.search, log, 80, 24, "a", CompiledPattern("x", "", SEARCHING), 10, 0)
            await eventually(lambda: jobs)
            task_group.cancel_scope.cancel()
        await anyio.sleep(0.05)

    anyio.run(cancelled)
    assert jobs[0].stopped
    assert len(jobs) < 5000


def test_memory_is_bounded(log: RawLog):
    log.path.write_bytes(b"2026-01-01 INFO request 12345 took 17 ms\r\n" * 400_000)
    tracemalloc.start()
    try:
        assert search(log, "took", limit=5).total == 400_000
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()


ATOMS = [
    "a",
    "b",
    ".",
    r"\s",
    r"\S",
    r"\W",
    r"\w",
    r"\D",
    r"\d",
    "[^a]",
    "[ab]",
    r"[^\S]",
    r"[\s]",
    "[^b ]",
    r"\t",
    " ",
]
ATOMS += [
    "^",
    "$",
    r"\b",
    r"\A",
    r"\Z",
    "(?i:A)",
    r"(?=\s)",
    r"(?!\s)",
    r"(?<=\W)",
    "(?s:.)",
    r"\n",
    "[[:space:]]",
    "é",
    "(a)",
]
patterns = st.lists(
    st.tuples(st.sampled_from(ATOMS), st.sampled_from(["", "", "", "*", "+", "?", "{2}", "*?"])), min_size=1, max_size=4
).map(lambda atoms: "".join(atom + count for atom, count in atoms))
texts = st.lists(st.text("ab \t1é", max_size=6), max_size=12)


@given(patterns, texts, st.booleans())
def test_finds_what_matches_line_by_line(pattern: str, lines: list[str], ended: bool):
    try:
        compiled = regex.compile(pattern, regex.MULTILINE)
    except regex.error:
        return
    data = "\r\n".join(lines).encode() + b"\r\n" * ended
    with tempfile.TemporaryDirectory() as directory:
        log = RawLog(SessionDirectory(Path(directory)))
        log.path.write_bytes(data)
        shown = plain(data, 80, 24).text
        expected = [line for line in re.split("\n", shown.removesuffix("\n")) if compiled.search(line)] if shown else []
        assert [text for _, _, text in found(log, pattern)] == expected
        assert search(log, pattern, limit=1).total == len(expected)
