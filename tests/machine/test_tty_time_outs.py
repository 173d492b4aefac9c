"""The time-outs of real sleeping threads, and who is only weakly known to wait for input."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.agent import eventually
from tests.kit.cases import for_each
from tmuxmcp.machine import proc
from tmuxmcp.machine.witness import kernel, tty
from tmuxmcp.machine.witness.kernel import KernelFacts, Process, judge

LONG_S = 3600.0


def poll(fd: int, time_out_s: float | None) -> None:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    poller.poll(None if time_out_s is None else time_out_s * 1000)


def epoll(fd: int, time_out_s: float | None) -> None:
    with select.epoll() as poller:
        poller.register(fd, select.EPOLLIN)
        poller.poll(time_out_s)


CALLS: dict[str, Callable[[int, float | None], object]] = {
    "select": lambda fd, time_out_s: select.select([fd], [], [], time_out_s),
    "poll": poll,
    "epoll": epoll,
}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
@pytest.mark.skipif(os.geteuid() != 0, reason="others may not be let see system calls")
@pytest.mark.parametrize("time_out_s", [None, LONG_S], ids=["endless", "finite"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_finite_wait_is_told_from_an_endless_one(
    terminal: tuple[int, int], call: Callable[[int, float | None], object], time_out_s: float | None
):
    far, near = terminal
    thread = threading.Thread(target=call, args=(near, time_out_s))
    thread.start()
    try:
        path = f"/proc/{os.getpid()}/task/{thread.native_id}"
        eventually(lambda: Path(path, "wchan").read_text().split(".")[0] in kernel.POLL_WAIT_CHANNELS)
        found = tty.of(path)
    finally:
        os.write(far, b"\n")
        thread.join()
    assert found is None if time_out_s is None else found is not None and abs(found - time_out_s) < 60


def waiter(channel: str, **more: object) -> Process:
    return Process(7, "tool", "S", channel, True, **more)  # type: ignore[arg-type]


def other(name: str, pid: int, parent: int, channel: str = "hrtimer_nanosleep") -> Process:
    return Process(pid, name, "S", channel, False, parent=parent)


READ, POLL = "wait_woken", "poll_schedule_timeout"

WEAK = {
    "a blocking read": ([waiter(READ)], ""),
    "an endless poll": ([waiter(POLL)], ""),
    "a poll for half a second": ([waiter(POLL, time_out_s=0.5)], "tool listens for 500 ms at a time"),
    "a poll for seconds": ([waiter(POLL, time_out_s=4.0)], "tool listens for 4 s at a time"),
    "a thread that always reads": ([waiter(READ, main=False)], "a thread of tool always listens"),
    "a thread that sleeps": (
        [waiter(READ, other_work="hrtimer_nanosleep")],
        "another thread of tool sleeps in hrtimer",
    ),
    "its child": ([waiter(POLL), other("sleep", 8, 7)], "tool has started sleep"),
    "the child of a blocking read": ([waiter(READ), other("sleep", 8, 7)], ""),
    "its grandchild": ([waiter(POLL), other("sh", 8, 7), other("sleep", 9, 8)], "tool has started sh"),
    "its parent": ([other("git", 6, 1, "do_wait"), waiter(READ, parent=6)], ""),
    "its neighbour in a pipe": ([waiter(READ, parent=6), other("sort", 8, 6, "anon_pipe_read")], ""),
}


@for_each(("members", "why"), WEAK.values())
@for_each("lines", [True, False])
def test_who_may_be_at_work_although_it_listens(members: list[Process], why: str, lines: bool):
    verdict = judge(KernelFacts(lines, lines, 0, False, 1, tuple(members)))
    assert verdict.ready
    assert verdict.weak.startswith(why) if why else not verdict.weak


def test_processes_that_are_each_others_parents_end_the_search():
    """A process may end, and its number be given to another, between two facts of one look."""
    members = [waiter(POLL), other("a", 8, 9), other("b", 9, 8)]
    assert not judge(KernelFacts(True, True, 0, False, 1, tuple(members))).weak


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_a_thread_that_sleeps_beside_the_reader_is_seen(terminal: tuple[int, int]):
    far, near = terminal
    read_end, write_end = os.pipe()
    reader = threading.Thread(target=os.read, args=(near, 1))
    sleeper = threading.Thread(target=os.read, args=(read_end, 1))
    reader.start()
    sleeper.start()
    try:
        ids = [int(reader.native_id or 0), int(sleeper.native_id or 0)]
        paths = [Path(f"/proc/{os.getpid()}/task/{each}/wchan") for each in ids]
        eventually(lambda: paths[0].read_text().split(".")[0] in kernel.TTY_READ)
        eventually(lambda: "pipe_read" in paths[1].read_text())
        seen = tty._process(os.getpid(), ids, proc.device(near))
        alone = tty._process(os.getpid(), ids[:1], proc.device(near))
    finally:
        os.write(far, b"\n")
        os.write(write_end, b"x")
        reader.join()
        sleeper.join()
        os.close(read_end)
        os.close(write_end)
    if os.geteuid() == 0:
        assert "pipe_read" in seen.other_work
        assert not alone.other_work
