"""The kernel of another machine as witness: what `ssh/witness.sh` says of a far terminal -> `KernelFacts`. Pure.

They are judged as those of this machine are. What the far end does not tell, or what is not understood, is not known.
Processes of another machine have negative numbers here, so that none is taken for one of ours.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Iterable
from contextlib import suppress

from tmuxmcp.contract.value import replace, value
from tmuxmcp.machine.witness import kernel
from tmuxmcp.machine.witness.kernel import KernelFacts, Process

FAR_TICKS_A_SECOND = 100
"""USER_HZ, the unit of a birth in proc(5): it is this on every machine in `INPUT_CALLS`."""

UNKNOWN_TIME_S = 1.0
"""Stands for a time-out that was not read."""


@value
class FarFacts(KernelFacts):
    """The facts of a far terminal."""

    leader: int = 0
    """The process that the connection began with there: the login shell."""
    reads_file: bool = False
    """The leader has a regular file open: it may be reading commands from it."""


def facts_of(answer: str, machine: str) -> FarFacts | None:
    """The facts that an answer of the witness holds; None: it holds none.

    Args:
        machine: as uname(1) calls the far one.
    """
    with suppress(ValueError, IndexError, struct.error):
        return _facts(answer.split("\n"), machine)
    return None


def _facts(lines: list[str], machine: str) -> FarFacts | None:
    word, leader, group, canonical, echo, returns, up = lines[0].split(" ")
    if word != "tty" or canonical not in "01":
        return None
    rows = [line.split(" ", 12) for line in lines if line.startswith("p ")]
    found: dict[int, Process] = {}
    for row in rows:
        process = _process(row, machine, float(up))
        if process.pid not in found or kernel.rank(process) > kernel.rank(found[process.pid]):
            found[process.pid] = process
    others = {pid: [row for row in rows if -int(row[1]) == pid] for pid in found}
    return FarFacts(
        canonical=canonical == "1",
        echo=echo == "1",
        unread=0,  # no shell can ask for it; whoever reads the terminal would be awake
        writing=False,
        foreground=-int(group) if int(group) > 0 else None,
        processes=tuple(_with_others(process, others[pid]) for pid, process in found.items()),
        changing="changing" in lines,
        returns=returns == "1",
        leader=-int(leader),
        reads_file=any(row[1] == leader and "f" in row[8] for row in rows),
    )


def _process(row: list[str], machine: str, up_s: float) -> Process:
    """A process as one of its threads tells it."""
    _, pid, thread, parent, state, channel, wakes, born, holds, files, polled, call, name = row
    state = "R" if (state, call) == ("S", "running") else state  # it has just woken up
    known = None if channel == "-" else channel.split(".")[0]
    known = known if state == "S" else None
    waits = _on_terminal(known, files, _waited_for(machine, call, polled)) if state == "S" else None
    return Process(
        pid=-int(pid),
        name=name.strip(),
        state=state,
        wait_channel=known,
        on_terminal=waits,
        main=pid == thread,
        relay="r" in holds,
        wakes=int(wakes),
        age_s=max(up_s - int(born) / FAR_TICKS_A_SECOND, 0.0),
        parent=-int(parent),
        time_out_s=_time_out_s(machine, call) if known in kernel.POLL_WAIT_CHANNELS else None,
    )


def _with_others(process: Process, rows: list[list[str]]) -> Process:
    """The process, with what another thread of it sleeps in that may be work."""
    own = {(process.wait_channel or "-")}
    told = (row[5].split(".")[0] for row in rows if row[4] == "S")
    work = next((each for each in told if each not in own and kernel.may_work(each)), "")
    return replace(process, other_work=work) if process.on_terminal is not False else process


def _time_out_s(machine: str, call: str) -> float | None:
    """How long a poll waits at most; None: for ever, or not known. A time that lies in memory is not looked at."""
    words = call.split(",")
    if machine not in kernel.INPUT_CALLS or len(words) < 7:
        return None
    number, arguments = int(words[0]), [int(word, 16) for word in words[1:7]]
    milliseconds, *in_memory = kernel.TIME_OUT_ARGUMENTS[machine]
    if number in milliseconds:
        count = arguments[milliseconds[number]] & 0xFFFFFFFF
        return count / 1000 if count < 0x80000000 else None
    at = next((each[number] for each in in_memory if number in each), None)
    return UNKNOWN_TIME_S if at is not None and arguments[at] else None


def _on_terminal(channel: str | None, files: str, waited_for: Iterable[int] | None) -> bool | None:
    if channel not in kernel.TTY_READ and channel not in kernel.POLL_WAIT_CHANNELS:
        return None if channel in kernel.UNREADABLE_WAIT_CHANNELS else False
    if files == "?":
        return None
    terminals = {int(each) for each in files.split(",") if each not in ("", "-")}
    if waited_for is None:
        return None if terminals else False
    return not terminals.isdisjoint(waited_for)


def _waited_for(machine: str, call: str, polled: str) -> Iterable[int] | None:
    """The files that a system call waits for input from; None: it cannot be told."""
    words = call.split(",")
    if machine not in kernel.INPUT_CALLS or len(words) < 7:
        return None  # refused, or it runs again
    reads, polls, selects, epolls = kernel.INPUT_CALLS[machine]
    number, first, second = int(words[0]), int(words[1], 16), int(words[2], 16)
    if number in reads:
        return [first]
    if number in selects and not second:
        return []
    if number in (*polls, *selects, *epolls) and polled == "-":
        return None
    if number in polls:
        entries = struct.iter_unpack("=ihh", bytes.fromhex(polled))
        return [fd for fd, events, _ in entries if events & select.POLLIN]
    if number in selects:
        bits = int.from_bytes(bytes.fromhex(polled), "little")
        return [fd for fd in range(first) if bits >> fd & 1]
    if number in epolls:
        pairs = (each.split(":") for each in polled.split(",") if each)
        return [int(fd) for fd, events in pairs if int(events, 16) & select.EPOLLIN]
    return []
