"""When what was printed: what a writer notes is found again, and nothing else is ever told."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.machine import locks
from tmuxmcp.record import events
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Booted, SessionClock
from tmuxmcp.record.past import timing
from tmuxmcp.record.past.timing import (
    FIRST_STEP,
    HELD_UP_MS,
    OUTPUT_SHARE,
    SPARE_BYTES,
    TIMING_FORMAT,
    TIMING_HEADER,
    Times,
    TimingStep,
    TimingWriter,
    decode,
    encode,
    format_of,
)


def writer_of(directory: SessionDirectory, offset: int = 0, ms: int = 0) -> TimingWriter:
    writer = TimingWriter.take(directory)
    assert writer
    writer.begin(offset, ms)
    return writer


def write(directory: SessionDirectory, steps: list[tuple[int, int]], *, flush_each: bool = True) -> None:
    """One writer notes all of it and lets go; the log is as long as the last step says."""
    writer = writer_of(directory)
    for offset, ms in steps:
        writer.note(offset, ms)
        if flush_each:
            writer.flush()
    writer.close(steps[-1][1])
    grow(directory, steps[-1][0])


def grow(directory: SessionDirectory, size: int) -> None:
    with directory.log.open("ab") as file:
        file.truncate(size)


STEPS = [(10, 100), (11, 120), (5000, 2000), (70_000, 2010), (70_001, 9_999_999)]


@pytest.mark.parametrize("flush_each", [True, False])
def test_what_was_noted_is_found(directory: SessionDirectory, flush_each: bool) -> None:
    write(directory, STEPS, flush_each=flush_each)
    times = Times(directory)
    assert [times.ms_at(offset) for offset in (0, 1, 10, 11, 12, 5000, 5001, 70_001)] == [
        *(0, 100, 100, 120, 2000, 2000, 2010, 9_999_999)
    ]
    assert times.ms_at(70_002) is None
    moments = (-1, 0, 99, 100, 119, 120, 2000, 2009, 2010, 9_999_998, 9_999_999, 10**9)
    assert [times.offset_at(ms) for ms in moments] == [
        *(None, 0, 0, 10, 10, 11, 5000, 5000, 70_000, 70_000, 70_001, 70_001)
    ]
    assert list(times.steps(11, 5001)) == [TimingStep(5000, 2000), TimingStep(70_000, 2010)]


def test_without_an_index_nothing_is_known_but_the_beginning(directory: SessionDirectory) -> None:
    times = Times(directory)
    assert (times.ms_at(0), times.ms_at(1), times.offset_at(5), list(times.steps(0, 9))) == (0, None, 0, [])
    grow(directory, 3)
    assert (times.ms_at(3), times.offset_at(5)) == (None, None)


def test_what_was_printed_since_the_last_step_has_no_time_yet(directory: SessionDirectory) -> None:
    write(directory, STEPS)
    grow(directory, 70_005)
    assert (Times(directory).ms_at(70_005), Times(directory).offset_at(10**8)) == (None, None)
    assert Times(directory).offset_at(STEPS[-1][1]) is None, "more may have come in the same millisecond"
    assert Times(directory).offset_at(STEPS[-1][1] - 1) == STEPS[-2][0]
    assert Times(directory).ms_at(70_000) == 2010


def test_a_new_writer_notes_what_nobody_saw(directory: SessionDirectory) -> None:
    write(directory, [(10, 100), (20, 200)])
    writer = writer_of(directory, 500, 1000)
    writer.note(510, 1100)
    writer.close(1200)
    times = Times(directory)
    assert [times.ms_at(offset) for offset in (20, 21, 500, 501, 510)] == [200, None, None, 1100, 1100]
    assert [times.offset_at(ms) for ms in (199, 200, 999, 1000, 1099, 1100)] == [10, None, None, 500, 500, 510]
    assert TimingStep(500, 1000, known=False) in list(times.steps(0, 510))


def test_a_writer_that_begins_at_once_misses_nothing(directory: SessionDirectory) -> None:
    writer_of(directory, 30, HELD_UP_MS).close(60)
    assert Times(directory).ms_at(30) == HELD_UP_MS


def test_of_a_coarse_step_the_time_is_not_known(directory: SessionDirectory) -> None:
    writer = writer_of(directory)
    writer.note(10, 100)
    writer.note(500, 900, known=False)
    writer.note(501, 910)
    writer.close(920)
    assert [Times(directory).ms_at(offset) for offset in (10, 11, 500, 501)] == [100, None, None, 910]


def test_what_stood_before_bytes_of_which_the_time_is_not_known_is_known(directory: SessionDirectory) -> None:
    writer = writer_of(directory)
    writer.note(10, 100)
    writer.note(500, 5000, known=False, unchanged_ms=4000)
    writer.note(510, 6000, known=True, unchanged_ms=5500)
    writer.close(6100)
    grow(directory, 510)
    times = Times(directory)
    assert [times.offset_at(ms) for ms in (100, 3999, 4000, 4999, 5000, 5999)] == [10, 10, None, None, 500, 500]
    assert [times.ms_at(offset) for offset in (10, 11, 500, 501)] == [100, None, None, 6000]
    around = times.around(4500)
    assert (around.before_ms, around.after_ms) == (4000, 5000)


@pytest.mark.parametrize(("since_ms", "known_from"), [(700, 700), (None, 1000), (50, 1000), (2000, 1000)])
def test_a_new_writer_knows_when_the_log_was_written_last(
    directory: SessionDirectory, since_ms: int | None, known_from: int
) -> None:
    write(directory, [(10, 100)])
    writer = TimingWriter.take(directory)
    assert writer
    writer.begin(500, 1000, since_ms)
    writer.note(510, 2000, known=False)
    writer.close(2100)
    times = Times(directory)
    known = [times.offset_at(ms) for ms in (known_from - 1, known_from, 999, 1000)]
    assert known == [None, 500 if known_from < 1000 else None, 500 if known_from < 1000 else None, None]


def test_steps_never_go_back(directory: SessionDirectory) -> None:
    writer = writer_of(directory)
    for offset, ms in ((10, 100), (8, 110), (10, 120), (11, 90)):
        writer.note(offset, ms)
    writer.close(50)
    assert list(Times(directory).steps(0, 11)) == [TimingStep(10, 100), TimingStep(11, 100)]


def test_one_writes_at_a_time(directory: SessionDirectory) -> None:
    writer = writer_of(directory)
    assert TimingWriter.take(directory) is None
    assert not os.get_inheritable(writer._lock)
    writer.close(1)
    writer_of(directory).close(2)
    with locks.if_free(directory.timing_lock) as free:
        assert free


def test_index_of_a_newer_format_is_neither_read_nor_written(directory: SessionDirectory) -> None:
    newer = (
        TIMING_HEADER.replace(b"%d" % TIMING_FORMAT, b"%d" % (TIMING_FORMAT + 1))
        + encode(FIRST_STEP, [TimingStep(5, 5)])
        + b"torn"
    )
    directory.timing.write_bytes(newer)
    assert format_of(newer) == TIMING_FORMAT + 1
    with pytest.raises(Unsupported, match="newer"):
        TimingWriter.take(directory)
    assert Times(directory).ms_at(5) is None
    assert directory.timing.read_bytes() == newer


def test_of_a_session_whose_place_another_one_has_nothing_more_is_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    directory = SessionDirectory(tmp_path / "a").pinned()
    writer = writer_of(directory)
    directory.path.rename(tmp_path / "a.1")
    directory.path.mkdir()
    with pytest.raises(OSError, match="place"):
        TimingWriter.take(directory)
    writer.note(10, 100)
    writer.close(200)
    assert Times(directory).ms_at(10) is None


def test_a_file_with_a_damaged_beginning_is_put_aside(directory: SessionDirectory) -> None:
    write(directory, STEPS)
    data = directory.timing.read_bytes()
    directory.timing.write_bytes(b"?" + data[1:])
    assert Times(directory).ms_at(10) is None
    writer = writer_of(directory, STEPS[-1][0], STEPS[-1][1])
    writer.note(80_000, 10**8)
    writer.close(10**8)
    assert Times(directory).ms_at(80_000) == 10**8
    assert Times(directory).ms_at(10) is None


def test_torn_tail_is_cut(directory: SessionDirectory) -> None:
    write(directory, STEPS)
    whole = directory.timing.read_bytes()
    directory.timing.write_bytes(whole + encode(TimingStep(*STEPS[-1]), [TimingStep(80_000, 10**8)])[:-1])
    writer = writer_of(directory, STEPS[-1][0], 10**9)
    assert directory.timing.read_bytes() == whole
    writer.close(10**9)


def test_index_that_is_ahead_of_the_log_is_cut(directory: SessionDirectory) -> None:
    """A crash of the machine can keep the one and lose the end of the other."""
    write(directory, STEPS)
    directory.log.write_bytes(b"x" * 6000)
    writer = writer_of(directory, 6000, 10**8)
    writer.note(6500, 10**8 + 10)
    writer.close(10**8 + 10)
    grow(directory, 6500)
    times = Times(directory)
    assert [times.ms_at(offset) for offset in (11, 5000, 6000, 6001)] == [120, 2000, None, 10**8 + 10]


def test_a_full_file_is_put_aside(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "TIMING_FILE_BYTES", 2000)
    steps = [(100 * each, 20 * each) for each in range(1, 500)]
    write(directory, steps)
    times = Times(directory)
    assert max(directory.timing.stat().st_size, directory.timing_before.stat().st_size) <= 2000
    told = [times.ms_at(offset) for offset, _ in steps]
    first = next(at for at, ms in enumerate(told) if ms is not None)
    assert 100 < first < 450
    assert told == [None] * first + [ms for _, ms in steps[first:]]
    assert times.offset_at(steps[first][1] + 5) == steps[first][0]
    assert times.offset_at(5) is None


def test_an_index_that_costs_too_much_gets_coarse(directory: SessionDirectory) -> None:
    writer = writer_of(directory)
    for key in range(1, 20_000):
        writer.note(key, 100 * key)
        writer.flush()
    size = directory.timing.stat().st_size
    assert SPARE_BYTES // 2 < size <= SPARE_BYTES + 20_000 // OUTPUT_SHARE
    times = Times(directory)
    assert times.ms_at(2000) == 200_000
    assert times.ms_at(15_000) is None
    writer.note(500_000, 3_000_000)
    writer.note(500_010, 3_000_020)
    writer.close(3_000_020)
    assert (times.ms_at(500_000), times.ms_at(500_010)) == (None, 3_000_020)


def test_where_there_is_no_room_times_are_not_known(
    directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writer_of(directory)
    writer.note(10, 100)
    writer.flush()
    writer.note(20, 200)
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: _write(fd, data[:5]))
        writer.flush()
    writer.note(30, 300)
    writer.close(300)
    assert [Times(directory).ms_at(offset) for offset in (10, 20, 30)] == [100, None, 300]


_write, _pread = os.write, os.pread


def test_a_large_index_is_searched_by_halves(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [(240_000 * each, 10 * each) for each in range(1, 12_000)]
    write(directory, steps)
    reads = 0

    def counted(fd: int, size: int, at: int) -> bytes:
        nonlocal reads
        reads += 1
        return _pread(fd, size, at)

    monkeypatch.setattr(os, "pread", counted)
    times = Times(directory)
    assert (times.ms_at(240_000 * 7777), times.offset_at(77_775)) == (77_770, 240_000 * 7777)
    assert reads < 40


# ---- damage --------------------------------------------------------------------------------------

MOMENTS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 2000), st.booleans(), st.booleans()), max_size=40)
"""Of each: how much more was printed, how much later; whether that is known, and whether it is written at once."""


def printed(moments: list[tuple[int, int, bool, bool]]) -> Iterator[tuple[TimingStep, bool]]:
    offset = ms = 0
    for more, later, known, now in moments:
        offset, ms = offset + more, ms + later
        yield TimingStep(offset, ms, known), now


def noted(directory: SessionDirectory, moments: list[tuple[int, int, bool, bool]]) -> list[TimingStep]:
    """Write what these moments say; gives the truth."""
    writer, truth = writer_of(directory), [FIRST_STEP]
    for step, now in printed(moments):
        writer.note(step.offset, step.ms, known=step.known)
        if step.offset > truth[-1].offset:
            truth.append(step)
        if now:
            writer.flush()
    writer.close(truth[-1].ms)
    grow(directory, truth[-1].offset)
    return truth


def check(times: Times, truth: list[TimingStep], *, whole: bool = False) -> None:
    """All that is told is true; when the index is whole, all that is true is told."""
    for before, step in pairwise(truth):
        for offset in {before.offset + 1, step.offset}:
            told = times.ms_at(offset)
            assert told in (step.ms, None)
            assert not whole or told == (step.ms if step.known else None)
        if step.ms > before.ms:
            told = times.offset_at(before.ms), times.offset_at(step.ms - 1)
            assert told in ((before.offset,) * 2, (None,) * 2, (before.offset, None), (None, before.offset))
            assert not whole or told == ((before.offset if step.known else None),) * 2


@given(MOMENTS)
def test_all_that_is_told_is_true(moments: list[tuple[int, int, bool, bool]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        directory = SessionDirectory(Path(place))
        check(Times(directory), noted(directory, moments), whole=True)


def test_more_may_have_come_in_the_millisecond_of_the_last_step(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    grow(directory, 2)
    assert Times(directory).offset_at(0) is None
    truth = noted(directory, [(1, 7, True, True)])
    grow(directory, 2)
    assert (truth[-1].ms, Times(directory).offset_at(7)) == (7, None)


@given(MOMENTS, st.data())
def test_of_a_damaged_index_only_what_is_true_is_told(
    moments: list[tuple[int, int, bool, bool]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as place:
        directory = SessionDirectory(Path(place))
        truth = noted(directory, moments)
        index = bytearray(directory.timing.read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            if data.draw(st.booleans()):
                index[data.draw(st.integers(0, len(index) - 1))] ^= data.draw(st.integers(1, 255))
            else:
                del index[data.draw(st.integers(1, len(index))) :]
        directory.timing.write_bytes(index)
        check(Times(directory), truth)
        try:
            writer = TimingWriter.take(directory)
        except Unsupported:  # the damage made it look newer
            return
        assert writer
        size = truth[-1].offset
        now = truth[-1].ms + HELD_UP_MS + 1
        writer.begin(size, now)
        writer.note(size + 5, now + 10)
        writer.close(now + 10)
        grow(directory, size + 5)
        check(Times(directory), truth)
        assert Times(directory).ms_at(size + 5) == now + 10
        assert Times(directory).offset_at(now + 10) == size + 5


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40), st.booleans()), max_size=40), st.binary())
def test_a_block_is_read_as_it_was_written(moments: list[tuple[int, int, bool]], behind: bytes) -> None:
    offset = ms = 0
    steps = []
    for more, later, known in moments:
        offset, ms = offset + more, ms + later
        steps.append(TimingStep(offset, ms, known))
    data = encode(TimingStep(0, 0), steps)
    block = decode(data + behind, 0)
    assert block
    assert (block.start, block.steps, block.length) == (FIRST_STEP, tuple(steps), len(data))
    assert all(decode(data[:end], 0) is None for end in range(len(data)))


# ---- the clock -----------------------------------------------------------------------------------


def test_the_clock_is_that_of_the_machine_where_it_is_still_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 <= SessionClock(0.0, Booted.now()[0]).now_ms() < 60_000


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system tells no time since its start")
def test_the_moment_of_both_clocks_is_one_however_busy_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly() -> str:
        time.sleep(0.2)
        return "a start"

    monkeypatch.setattr(events, "_boot_id", slowly)
    booted, since_1970_s = Booted.now()
    since_booted_s = time.clock_gettime(time.CLOCK_BOOTTIME) - booted.at_s
    assert abs(since_booted_s - (time.time() - since_1970_s)) < 0.1


def test_behind_a_reboot_it_is_the_difference_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    session = SessionClock(990.0, Booted("another", 5.0))
    assert session.now_ms() == 10_000
    now = 995.0
    assert session.now_ms() == 10_000  # somebody has set it back
    assert SessionClock(None, Booted()).now_ms() == 0
    assert Booted.of({"boot_id": 3, "at_s": None}) == Booted()
