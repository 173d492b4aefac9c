"""Reads what the kernel says of a terminal at one moment; `kernel` says what it means.

`TtyWitness` reads facts of Linux: termios(3) of the tty, unread input (FIONREAD), whether a write to it is held up,
the foreground process group, and of its members (proc(5)) state, wait channel and, where the system lets us see it,
which file a sleeping thread waits on.
"""

from __future__ import annotations

import array
import fcntl
import os
import platform
import select
import struct
import sys
import termios
from collections.abc import Iterable
from contextlib import suppress

from tmuxmcp.contract.value import replace, value
from tmuxmcp.machine import proc
from tmuxmcp.machine.witness import kernel
from tmuxmcp.machine.witness.kernel import KernelFacts, Process

MOST_PROCESSES, MOST_THREADS = 200, 64
"""So many are looked at."""

PTS_MAJOR = 136
"""Major device number of pseudo-terminals."""

PATH_ROOTS = ("ns/mnt", "root")
"""What decides where a path leads, below `/proc/PID`."""

OWN_TERMINAL = os.makedev(5, 0)
"""Device number of /dev/tty, wherever it lies: it stands for the terminal of who opens it (tty(4))."""

LOOKS_AT_SLEEP = 3
"""So often a sleeping thread is looked at before its wait channel is called unreadable."""

_READS, _POLLS, _SELECTS, _EPOLLS = kernel.INPUT_CALLS.get(platform.machine(), (set[int](),) * 4)
_OTHER_CALLS = {"x86_64": {45, 47, 299, 1, 18, 20}, "aarch64": {207, 212, 243, 64, 66, 68}}.get(platform.machine(), ())
"""Numbers of recv, write and their kin on this machine."""

_OUTPUT_FLAGS = termios.OPOST | termios.ONLCR

_ALTERING_FLAGS = termios.ISTRIP | getattr(termios, "IUCLC", 0o1000)


class TtyWitness:
    """Reads the facts of one terminal. Keeps its descriptor open: 8 us a look instead of 30."""

    def __init__(self, tty: str) -> None:
        self.tty = tty
        self._asleep: dict[int, Asleep] = {}
        """Who slept at the last look, by process id."""
        self._fd = -1
        self._poll = select.poll()

    def look(self, leader: int, *, processes: bool = True, alone: int = 0) -> KernelFacts | None:
        """The facts now; None where they cannot be had.

        Args:
            leader: process id of the terminal's session leader.
            processes: False: none is looked at, which takes nine tenths of the time.
            alone: process id of the only one that may be in front, by `alone_in_front`; where it is not, nobody is told
                to be. 0: anybody may.
        """
        if sys.platform != "linux":
            return None
        try:
            input_modes, output_modes, _, local_modes, *_ = termios.tcgetattr(self._open())
            unread = array.array("i", [0])
            fcntl.ioctl(self._fd, termios.FIONREAD, unread)
            self._poll.register(self._fd, select.POLLOUT)
            writing = not self._poll.poll(0)
        except (OSError, termios.error):
            self.close()
            return None
        group = (alone if alone_in_front(alone, leader) else None) if alone else foreground_group(leader)
        seen: tuple[Process, ...] = ()
        if group and processes:
            seen = members(leader, group, proc.device(self._fd), self._asleep)
            self._asleep = {each.pid: self._asleep[each.pid] for each in seen if each.pid in self._asleep}
        writing = writing or not self._poll.poll(0)  # it may have begun to write before we looked at it
        return KernelFacts(
            canonical=bool(local_modes & termios.ICANON),
            echo=bool(local_modes & termios.ECHO),
            unread=unread[0],
            writing=writing,
            foreground=group,
            processes=seen,
            changing=processes and group != foreground_group(leader),
            returns=output_modes & _OUTPUT_FLAGS == _OUTPUT_FLAGS,
            alters=bool(input_modes & _ALTERING_FLAGS),
        )

    def size(self) -> tuple[int, int] | None:
        """Columns and rows as the terminal's program sees them; None where they cannot be had."""
        try:
            rows, cols = termios.tcgetwinsize(self._open())
        except (OSError, termios.error):
            self.close()
            return None
        return cols, rows

    def _open(self) -> int:
        if self._fd < 0:
            self._fd = os.open(self.tty, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        return self._fd

    def close(self) -> None:
        """Let go of the terminal."""
        if self._fd >= 0:
            with suppress(OSError, KeyError):
                os.close(self._fd)
                self._poll.unregister(self._fd)
            self._fd = -1


def pts_number(index: int) -> int:
    """The device number of the pseudo-terminal whose path ends in this (pts(4))."""
    return os.makedev(PTS_MAJOR, index)


def path_of_terminal(holder: int, leader: int, device: proc.Device) -> str | None:
    """Where we open a terminal; None: it cannot be told that this is the one.

    Args:
        holder: process id of who holds its far end.
        leader: process id of its session leader.
        device: it; file system 0: that is not known.
    """
    with suppress(OSError):
        same = all(os.readlink(f"/proc/{holder}/{each}") == os.readlink(f"/proc/self/{each}") for each in PATH_ROOTS)
        path = f"{'' if same else f'/proc/{holder}/root'}/dev/pts/{os.minor(device.number)}"
        there = proc.device(path)
        if there != device._replace(file_system=device.file_system or there.file_system):
            return None
        for name in os.listdir(f"/proc/{leader}/fd"):
            with suppress(FileNotFoundError):
                opened = proc.device(f"/proc/{leader}/fd/{name}")
                if opened.number == device.number:
                    return path if opened == there else None
        return path if same else None
    return None


def foreground_group(leader: int) -> int | None:
    """The foreground process group of the leader's terminal; None when there is none."""
    try:
        group = proc.stat(f"/proc/{leader}").foreground
    except OSError:
        return None
    return group if group > 0 else None


def sleeps(pid: int) -> bool:
    """Whether a process and its children sleep; True where it cannot be told, and for one that has ended.

    One that somebody has stopped does not sleep: it may have something to do.
    """
    with suppress(OSError):
        return all(map(rests, (pid, *proc.children(pid, [pid]))))
    return True


def rests(pid: int) -> bool:
    """The same of a process alone."""
    return _state(pid) not in "RDTt"


def computes(pid: int) -> bool:
    """Whether a process has something to do at this moment; False where it cannot be told."""
    return _state(pid) in "RD"


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal; False where it cannot be told."""
    return _state(pid) == "T"


def _state(pid: int) -> str:
    with suppress(OSError):
        return proc.stat(f"/proc/{pid}").state
    return "?"


def alone_in_front(pid: int, leader: int) -> bool:
    """Whether a process of one thread is all there is in front of its leader's terminal: not stopped, without a child.

    False as well where it cannot be told.
    """
    with suppress(OSError):
        stat = proc.stat(f"/proc/{pid}")
        leads = stat.group == stat.foreground == pid and stat.session == leader
        return leads and stat.threads == 1 and stat.state in "RSD" and not proc.listed_children(pid, pid)
    return False


def session_members(leader: int) -> dict[int, int]:
    """All processes of the leader's session (setsid(2)): process id -> process group."""
    return {pid: stat.group for pid, stat in proc.all_stats() if stat.session == leader}


def has_stopped(leader: int) -> bool:
    """Whether a process of the leader's session is stopped, as by C-z."""
    return any(stat.session == leader and stat.state == "T" for _, stat in proc.all_stats())


def holder_of_terminal(leader: int, tty: str, shells: Iterable[int]) -> tuple[int, str] | None:
    """A process of the leader's session that can still print on its terminal: its id and name. None: there is none.

    Args:
        shells: process ids that do not count, nor do those between them and the leader.
    """
    stats = {pid: stat for pid, stat in proc.all_stats() if stat.session == leader}
    own = {leader}
    for pid in shells:
        while pid in stats and pid not in own:
            own.add(pid)
            pid = stats[pid].parent
    try:
        terminal = proc.device(tty)
    except OSError:
        return None
    for pid, stat in stats.items():
        if pid not in own and stat.state not in "TZX" and _holds(pid, terminal):
            with suppress(OSError):
                return pid, _name(pid)
    return None


def _holds(pid: int, terminal: proc.Device) -> bool:
    """Whether a process has a terminal open; one that may not be looked at counts as such."""
    try:
        return any(_is_terminal(pid, int(fd), terminal) for fd in os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        return True
    except OSError:
        return False


@value
class Asleep:
    """A process of one thread, as it was found asleep: while that sleep lasts, nothing of it changes but its age."""

    born_s: float
    """When it began, by the clock CLOCK_BOOTTIME: process ids are used again."""
    process: Process

    def now(self, path: str, stat: proc.Stat, name: str) -> Process | None:
        """The process now, if that same sleep lasts; None: it has gone on, or may have.

        Each sleep that it begins is counted. So one that sleeps, and has begun none since it was found asleep, is in
        that sleep still.
        """
        known = self.process
        if (stat.threads, stat.born_s, name) != (1, self.born_s, known.name):
            return None
        if _sleep(path) != ("S", known.wait_channel) or _wakes(path) != known.wakes:
            return None
        return replace(known, parent=stat.parent, age_s=proc.since_boot_s() - self.born_s)


def members(
    leader: int, group: int, terminal: proc.Device, asleep: dict[int, Asleep] | None = None
) -> tuple[Process, ...]:
    """The processes of a group, looked for among the descendants of the session's leader, parents first.

    Args:
        asleep: who slept when they were looked at before, by process id; who sleeps now is put there.
    """
    found: list[Process] = []
    todo, seen = [leader], set[int]()
    while todo and len(seen) < MOST_PROCESSES:
        pid = todo.pop(0)
        if pid in seen:
            continue
        seen.add(pid)
        with suppress(OSError):
            stat = proc.stat(f"/proc/{pid}")
            threads = _threads(pid) if stat.threads > 1 else [pid]
            todo += proc.children(pid, threads)
            if stat.group == group:
                found.append(_process(pid, threads, terminal, stat, asleep))
    if not found:  # the kernel lists no children, or they were adopted by another process
        for pid, its_group in session_members(leader).items():
            if its_group == group:
                with suppress(OSError):
                    found.append(_process(pid, _threads(pid), terminal))
    return tuple(found)


def _threads(pid: int) -> list[int]:
    return proc.threads(pid)[:MOST_THREADS]


def _process(
    pid: int,
    threads: list[int],
    terminal: proc.Device,
    stat: proc.Stat | None = None,
    asleep: dict[int, Asleep] | None = None,
) -> Process:
    """One process, told by the thread that says most: one that computes, one at the terminal, the main one."""
    name, parent = _name(pid), stat.parent if stat else 0
    known = asleep.get(pid) if asleep else None
    same = known.now(f"/proc/{pid}/task/{pid}", stat, name) if known and stat else None
    if same:
        return same
    best: tuple[str, Process] | None = None
    channels: dict[str, str | None] = {}
    for thread in threads:
        path = f"/proc/{pid}/task/{thread}"
        with suppress(OSError):
            found = _thread(Process(pid, name, "", None, main=thread == pid, parent=parent), path, terminal)
            channels[path] = found.wait_channel
            if best is None or kernel.rank(found) > kernel.rank(best[1]):
                best = path, found
    if best is None:
        raise ProcessLookupError(pid)
    path, process = best
    if (
        process.state != "S"
        or process.on_terminal is False
        or process.wait_channel not in kernel.TTY_READ | kernel.POLL_WAIT_CHANNELS
    ):
        return process
    other_work = next((each for other, each in channels.items() if other != path and kernel.may_work(each)), "") or ""
    opened = _opened(pid)
    relay = any(each.endswith("/ptmx") for each in opened)
    only = process.only_terminal and len(threads) == 1
    age_s = proc.since_boot_s() - proc.stat(f"/proc/{pid}").born_s
    process = replace(process, relay=relay, age_s=age_s, other_work=other_work, only_terminal=only)
    # Another process can change what an epoll waits for; what another thread does is not counted.
    if asleep is not None and stat and stat.threads == 1 and process.wakes and EPOLL_LINK not in opened:
        asleep[pid] = Asleep(stat.born_s, process)
    return process


def _thread(process: Process, path: str, terminal: proc.Device) -> Process:
    """The process as one of its threads tells it: what it sleeps in, all of one sleep, else it runs."""
    state, channel = _sleep(path)
    if state != "S" or channel not in kernel.TTY_READ | kernel.POLL_WAIT_CHANNELS:
        waits = on_terminal(process.pid, path, channel, terminal) if state == "S" else None
        return replace(process, state=state, wait_channel=channel, on_terminal=waits)
    wakes = _wakes(path)
    state, channel = _sleep(path)
    if state == "S":
        with suppress(proc.ThreadRuns):
            waits = on_terminal(process.pid, path, channel, terminal)
            polls = channel in kernel.POLL_WAIT_CHANNELS and waits is not False
            time_out_s = of(path) if polls else None
            only = polls and _polls_nothing_else(process.pid, path, terminal)
            if _wakes(path) == wakes:
                found = replace(process, state=state, wait_channel=channel, on_terminal=waits)
                return replace(found, time_out_s=time_out_s, only_terminal=only, wakes=wakes)
        state, channel = "R", None  # it has gone on, and perhaps to sleep anew, between the first fact and the last
    return replace(process, state=state, wait_channel=channel)


def _name(pid: int) -> str:
    """What a process is called, without the blanks with which one that renames itself fills the rest."""
    name = proc.name(pid).strip()
    if name in kernel.MANY_IN_ONE:
        with suppress(OSError):
            words = proc.argv_text(pid)
            name = words[1] if len(words) > 1 else name
    return name


def on_terminal(pid: int, path: str, channel: str | None, terminal: proc.Device) -> bool | None:
    """Whether a sleeping thread waits for this terminal; None: it cannot be told.

    The system call says it exactly, to root and, where Yama does not forbid it, to the same user; else what the
    process has open says it sometimes.

    Args:
        path: the thread's directory in /proc.

    Raises:
        Runs: it has woken up.
    """
    if channel not in kernel.TTY_READ and channel not in kernel.POLL_WAIT_CHANNELS:
        return None if channel in kernel.UNREADABLE_WAIT_CHANNELS else False
    try:
        fds = waited_for(pid, path)
        if fds is not None:
            return any(_is_terminal(pid, fd, terminal) for fd in fds)
    except proc.ThreadRuns:
        raise
    except (OSError, ValueError, IndexError):
        pass  # refused
    opened = _opened(pid)
    if not opened:
        return None
    if not any(name.startswith(("/dev/pts/", "/dev/tty")) for name in opened):
        return False
    if channel in kernel.POLL_WAIT_CHANNELS or any(
        name.startswith(("socket:", "anon_inode:inotify", "anon_inode:[")) for name in opened
    ):
        return None
    return True


def _polls_nothing_else(pid: int, path: str, terminal: proc.Device) -> bool:
    """Whether a thread that polls a terminal waits for nothing else; False where that cannot be told."""
    with suppress(OSError, ValueError, IndexError):
        call, arguments = _call(path)
        if call in _POLLS:
            fds = [fd for fd, _ in _polled(path, arguments)]
        elif call in _SELECTS:
            fds = [fd for at in (1, 2, 3) for fd in _selected(path, arguments, at)]
        else:
            return False
        return all(_is_terminal(pid, fd, terminal) for fd in fds)
    return False


def waited_for(pid: int, path: str) -> Iterable[int] | None:
    """The files that a sleeping thread waits for input from; None: it sleeps in another call.

    Args:
        path: the thread's directory in /proc.

    Raises:
        Runs: the thread runs.
        OSError, ValueError, IndexError: the call cannot be seen.
    """
    call, arguments = _call(path)
    if call in _READS:
        return [arguments[0]]
    if call in _POLLS:
        return _with_sets(pid, [fd for fd, events in _polled(path, arguments) if events & select.POLLIN])
    if call in _SELECTS:
        return _with_sets(pid, _selected(path, arguments, 1))
    if call in _EPOLLS:
        return watched_descriptors(pid, arguments[0])
    return [] if call in _OTHER_CALLS else None


def _call(path: str) -> tuple[int, list[int]]:
    """The number of the system call that a thread sleeps in, and its arguments."""
    words = proc.system_call(path)
    return int(words[0]), [int(word, 16) for word in words[1:7]]


def _polled(path: str, arguments: list[int]) -> list[tuple[int, int]]:
    """The descriptors of a poll(2), with what it waits for; those below 0 are left out, as the kernel does."""
    count = min(arguments[1], 1024)
    entries = struct.iter_unpack("=ihh", _memory(path, arguments[0], count * 8)) if count else ()
    return [(fd, events) for fd, events, _ in entries if fd >= 0]


def _selected(path: str, arguments: list[int], at: int) -> list[int]:
    """The descriptors in one of the three sets of a select(2), by the number of its argument."""
    count = min(arguments[0], 1024)
    if not arguments[at] or not count:
        return []
    bits = int.from_bytes(_memory(path, arguments[at], (count + 63) // 64 * 8), "little")
    return [fd for fd in range(count) if bits >> fd & 1]


def _memory(path: str, address: int, size: int) -> bytes:
    with open(path + "/mem", "rb", buffering=0) as file:
        return os.pread(file.fileno(), size, address)


def _is_terminal(pid: int, fd: int, terminal: proc.Device) -> bool:
    try:
        opened = proc.device(f"/proc/{pid}/fd/{fd}")
    except FileNotFoundError:
        return False
    return opened == terminal or opened.number == OWN_TERMINAL


def _opened(pid: int) -> list[str]:
    """What the descriptors of a process lead to; empty where they cannot be seen."""
    with suppress(OSError):
        return [_link(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    return []


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _sleep(path: str) -> tuple[str, str | None]:
    """State of a thread, and the kernel function that it sleeps in; None where it does not sleep.

    One that wakes up between the two facts, or has not quite gone to sleep, has no such function. So it is looked at
    again before that is taken for unreadable. Who slept anew before each look has run in between: it counts as running.
    """
    wakes = None
    for _ in range(LOOKS_AT_SLEEP):
        state = proc.stat(path).state
        channel = _channel(path) if state == "S" else None
        if state != "S" or channel not in kernel.UNREADABLE_WAIT_CHANNELS:
            return state, channel
        wakes = _wakes(path) if wakes is None else wakes
        try:
            proc.system_call(path)
        except proc.ThreadRuns:
            return "R", None
        except OSError:
            pass
    return (state, channel) if _wakes(path) == wakes else ("R", None)


def _channel(path: str) -> str | None:
    try:
        return proc.wait_channel(path).split(".")[0]  # without what a compiler adds: `n_tty_read.isra.0`
    except OSError:
        return None


def _wakes(path: str) -> int:
    """How often a thread has gone to sleep of its own will."""
    with suppress(OSError):
        return int(proc.status(path, "voluntary_ctxt_switches"))
    return 0


# ---- Which files a set of epoll(7) waits for input from, as /proc shows it -------------------------------------------
#
# A file may be in a set and not be listened to: libuv, Haskell and others leave it there and take the event away, or
# ask for one event only (EPOLLONESHOT), after which the kernel clears all but that flag. A set may hold another set.

INPUT_EVENTS = 0x001 | 0x040
"""EPOLLIN, and EPOLLRDNORM, which says the same."""

EPOLL_LINK = "anon_inode:[eventpoll]"
"""What a descriptor of a set leads to, below `/proc/PID/fd`."""

NESTED_EPOLLS = 5
"""The kernel refuses deeper nests."""

WATCHED_FILES = 4096
"""So many of one set are looked at."""


def watched_descriptors(pid: int, fd: int, depth: int = NESTED_EPOLLS) -> list[int]:
    """The descriptors from which a process's set `fd`, or one within it, is to be told of input.

    Raises:
        OSError: the set cannot be seen.
    """
    with open(f"/proc/{pid}/fdinfo/{fd}") as file:
        # `tfd:        0 events:       19 data: ...`
        rows = [line.split() for line in file if line.startswith("tfd:")][:WATCHED_FILES]
    return _with_sets(pid, [int(row[1]) for row in rows if int(row[3], 16) & INPUT_EVENTS], depth - 1)


def _with_sets(pid: int, fds: list[int], depth: int = NESTED_EPOLLS) -> list[int]:
    """Descriptors, and behind them those that sets among them wait for."""
    found = list(fds)
    for fd in fds if depth > 0 else ():
        with suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{fd}") == EPOLL_LINK:
                found += watched_descriptors(pid, fd, depth)
    return found


# ---- How long a sleeping thread waits at most ------------------------------------------------------------------------
#
# The time-out of its poll, select or epoll_wait (proc(5), `syscall`).
#
# A program that waits for ever wants input. One that waits for a time goes on by itself: it may have work to do.

_BY_MILLISECONDS, _BY_TIMESPEC, _BY_TIMEVAL = kernel.TIME_OUT_ARGUMENTS.get(platform.machine(), (dict[int, int](),) * 3)

_TIME_BYTES = 16
"""Of a timespec and of a timeval on 64 bit machines."""


def of(path: str) -> float | None:
    """The time-out of the call that a thread sleeps in, in seconds; None: it has none, or that cannot be told.

    Args:
        path: the thread's directory in /proc.

    Raises:
        Runs: it has woken up.
    """
    try:
        call, arguments = _call(path)
        if call in _BY_MILLISECONDS:
            (count,) = struct.unpack("=i", struct.pack("=I", arguments[_BY_MILLISECONDS[call]] & 0xFFFFFFFF))
            return count / 1000 if count >= 0 else None
        for calls, a_second in ((_BY_TIMESPEC, 1e9), (_BY_TIMEVAL, 1e6)):
            if call in calls:
                return _time_s(path, arguments[calls[call]], a_second)
    except proc.ThreadRuns:
        raise
    except (OSError, ValueError, IndexError, struct.error):
        pass  # refused
    return None


def _time_s(path: str, address: int, a_second: float) -> float | None:
    if not address:
        return None
    with open(path + "/mem", "rb", buffering=0) as file:
        seconds, fraction = struct.unpack("=qq", os.pread(file.fileno(), _TIME_BYTES, address))
    return float(seconds + fraction / a_second)
