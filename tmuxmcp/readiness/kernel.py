"""The kernel as witness: what does the program at a terminal do right now, and does it wait for input?

`TtyWitness` reads facts of Linux: termios(3) of the tty, unread input (FIONREAD), whether a write to it is held up,
the foreground process group, and of its members (proc(5)) state, wait channel and, where the system lets us see it,
which file a sleeping thread waits on. `judge` is pure. What is not known is `unknown`, never guessed: a wait channel
that cannot be read, a program behind which another terminal begins, a system without /proc.
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
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum

from tmuxmcp.latedataclass import dataclass
from tmuxmcp.machine import proc
from tmuxmcp.readiness import time_outs
from tmuxmcp.readiness.epolls import asked

TTY_READ = {"wait_woken", "n_tty_read"}
"""Wait channels of read(2) on a tty; inotify and TCP sockets sleep in the first one as well."""

POLLING = {"poll_schedule_timeout", "do_select", "do_sys_poll", "do_poll", "do_epoll_wait", "ep_poll"}
"""Wait channels of select, poll and epoll."""

EPOLLING = {"do_epoll_wait", "ep_poll"}
"""Those of epoll alone."""

UNREADABLE = {None, "", "0"}
"""Wait channels of a sleeping process that is not ours to look at, or of a kernel that does not tell."""

OPAQUE = frozenset(
    {"ssh", "mosh-client", "telnet", "docker", "podman", "kubectl", "oc", "lxc", "virsh", "machinectl", "sshpass"}
    | {"nerdctl", "dtach", "abduco", "zellij"}
    | {"tmux: client", "screen", "script", "su", "sudo", "picocom", "minicom", "socat", "nc"}
)
"""Programs behind which another terminal or machine may begin: in raw mode they always look ready."""

FAR_ENDS_ARE_INSIDE = frozenset({"mc", "vim", "vim.basic", "vi", "nvim", "emacs", "kakoune", "hx"})
"""Programs that hold the far end of another terminal, and yet are who is typed to."""

MANY_IN_ONE = frozenset({"busybox", "toybox"})
"""Programs that are many: the first argument tells which."""

MOST_PROCESSES, MOST_THREADS = 200, 64
"""So many are looked at."""

LOOKS_AT_SLEEP = 3
"""So often a sleeping thread is looked at before its wait channel is called unreadable."""

_CALLS = {
    "x86_64": ({0, 17, 19}, {7, 271}, {23, 270}, {232, 281, 441}, {45, 47, 299} | {1, 18, 20}),
    "aarch64": ({63, 65, 67}, {73}, {72}, {22, 441}, {207, 212, 243} | {64, 66, 68}),
}.get(platform.machine(), (set[int](), set[int](), set[int](), set[int](), set[int]()))
"""Numbers of read, poll, select, epoll_wait, and of recv, write and their kin on this machine.

Others are not known: no harm.
"""


_RETURNS = termios.OPOST | termios.ONLCR


class Waiting(StrEnum):
    """The verdict on a terminal's foreground program."""

    EDITOR = "editor"
    """A line editor or full-screen program waits for a key."""
    LINE = "line"
    """A program waits for a line."""
    SECRET = "secret"
    """A program waits for a line and does not echo it."""
    BUSY = "busy"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Process:
    """A process of the foreground group."""

    pid: int
    name: str
    state: str
    """One letter, as in proc(5); R when any thread computes, D when any waits for a device."""
    channel: str | None
    """Kernel function it sleeps in; None: not to be read. Of several threads, the one at the terminal counts."""
    on_terminal: bool | None = None
    """It sleeps in a read of this terminal, or polls it; None: not known."""
    main: bool = True
    """It is the main thread that does."""
    relay: bool = False
    """It holds the far end of another terminal."""
    wakes: int = 0
    """How often that thread has gone to sleep."""
    age_s: float = 1e9
    """Time since the process began, where that matters: while it waits for input."""
    parent: int = 0
    """Process id of the parent."""
    time_out_s: float | None = None
    """It polls the terminal, and goes on by itself after so long; None: never, or not known."""
    other_work: str = ""
    """What another thread of it sleeps in that may be work; empty: nothing."""


@dataclass(frozen=True)
class KernelFacts:
    """What the kernel says of one terminal at one moment."""

    canonical: bool
    echo: bool
    unread: int
    """Bytes typed that the program has not read."""
    writing: bool
    """Somebody is held up writing to the terminal: a blocked write sleeps where a read does."""
    foreground: int | None
    """Process group id."""
    processes: tuple[Process, ...]
    """The group's members that can be seen."""
    changing: bool = False
    """The foreground group changed during the look."""
    returns: bool = True
    """The terminal puts a carriage return before each newline that is printed."""


@dataclass(frozen=True)
class Verdict:
    """What a terminal's program does, and why we say so."""

    waiting: Waiting
    why: str
    process: Process | None = None
    """Who waits, or who hides what does."""
    hidden: bool = False
    """Another terminal begins behind it."""
    weak: str = ""
    """Why it may be at work although it listens to the terminal; empty: nothing tells so."""

    @property
    def ready(self) -> bool:
        """It waits for input."""
        return self.waiting in (Waiting.EDITOR, Waiting.LINE, Waiting.SECRET)

    @property
    def asleep(self) -> bool:
        """Nobody is seen waiting for input, and all sleep: for time, for a child, or where it cannot be told."""
        return self.waiting is Waiting.BUSY and self.process is not None and self.process.state == "S"


def judge(facts: KernelFacts | None) -> Verdict:
    """Say what the facts mean; pure."""
    if facts is None or facts.foreground is None:
        return Verdict(Waiting.UNKNOWN, "the kernel does not say")
    if facts.changing:
        return Verdict(Waiting.BUSY, "the foreground program changes at this moment")
    if not facts.processes:
        return Verdict(Waiting.UNKNOWN, "its processes cannot be seen")
    alive = [p for p in facts.processes if p.state not in "ZX"]
    if not alive:
        return Verdict(Waiting.BUSY, "it has just ended")
    if all(p.state == "T" for p in alive):
        return Verdict(Waiting.STOPPED, f"{alive[0].name} is stopped", alive[0])
    if facts.unread:
        return Verdict(Waiting.BUSY, f"{facts.unread} typed bytes are unread")
    if facts.writing:
        return Verdict(Waiting.BUSY, "its output is held up")
    return _raw(alive) if not facts.canonical else _lines(alive, facts.echo)


def _raw(alive: list[Process]) -> Verdict:
    """Single keys are read: whoever listens has the terminal, whatever the others do (`find / | less`)."""
    asleep = [p for p in alive if p.state == "S" and p.on_terminal is not False]
    reading = [p for p in asleep if p.channel in TTY_READ]
    polling = [p for p in asleep if p.channel in POLLING]
    for process in (*reading, *polling):
        if _hides(process):
            return Verdict(Waiting.UNKNOWN, f"{process.name} hides what runs behind it", process, hidden=True)
        return Verdict(Waiting.EDITOR, f"{process.name} waits for a key", process, weak=weakness(process, alive))
    return _neither(alive, lines=False)


def _hides(process: Process) -> bool:
    return process.name in OPAQUE or (process.relay and process.name not in FAR_ENDS_ARE_INSIDE)


def _lines(alive: list[Process], echo: bool) -> Verdict:
    """Whole lines are read."""
    asleep = [p for p in alive if p.state == "S"]
    reading = [p for p in asleep if p.channel in TTY_READ and (p.on_terminal or (p.on_terminal is None and not echo))]
    reading += [p for p in asleep if p.channel in POLLING and p.on_terminal and p.name not in OPAQUE]
    for process in reading:
        if not echo:
            return Verdict(Waiting.SECRET, f"{process.name} waits for a line without echo", process)
        if _computing(alive):
            break
        if process.name in OPAQUE and not process.main:
            break  # `docker run -i`: it reads all the time; ssh's question is asked by the main thread
        return Verdict(Waiting.LINE, f"{process.name} waits for a line", process, weak=weakness(process, alive))
    unseen = [p for p in asleep if p.channel in UNREADABLE]
    if unseen and not echo and not _computing(alive):
        # sudo of another user: hardly anything but a question for a secret turns the echo off and keeps lines.
        return Verdict(Waiting.SECRET, f"{unseen[-1].name} sleeps, and what is typed is not shown", unseen[-1])
    return _neither(alive, lines=True)


def weakness(process: Process, alive: list[Process]) -> str:
    """Why a program that listens to the terminal may be at work all the same; empty: nothing tells so. Pure.

    Args:
        process: who listens.
        alive: the foreground group's members.
    """
    if process.time_out_s is not None:
        return f"{process.name} listens for {_duration(process.time_out_s)} at a time and then goes on by itself"
    if not process.main:
        return f"a thread of {process.name} always listens, whatever the others do"
    if process.other_work:
        return f"another thread of {process.name} sleeps in {process.other_work}"
    if process.channel in TTY_READ:
        return ""  # it does nothing until somebody types, whatever its children do
    child = next((each for each in alive if each.on_terminal is False and descends(each, process, alive)), None)
    return f"{process.name} has started {child.name}, which still runs" if child else ""


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def descends(process: Process, ancestor: Process, members: Iterable[Process]) -> bool:
    """Whether a process descends from another, by way of these."""
    parents = {each.pid: each.parent for each in members}
    pid = process.parent
    for _ in members:
        if pid == ancestor.pid:
            return process.pid != ancestor.pid
        pid = parents.get(pid, 0)
    return False


def _neither(alive: list[Process], *, lines: bool) -> Verdict:
    """Nobody is seen waiting for input."""
    computing = _computing(alive)
    if computing:
        return Verdict(Waiting.BUSY, f"{computing[0].name} computes", computing[0])
    asleep = [p for p in alive if p.state == "S"]
    for process in asleep:
        if lines and process.on_terminal is False:
            continue  # ssh connects, `ssh -N`, sudo waits for its child: what is typed reaches nobody behind it
        if process.name in OPAQUE and (process.channel in POLLING | TTY_READ or process.channel in UNREADABLE):
            return Verdict(Waiting.UNKNOWN, f"{process.name} hides what runs behind it", process, hidden=True)
    for process in asleep:
        if process.channel in UNREADABLE:
            return Verdict(Waiting.UNKNOWN, f"the wait channel of {process.name} cannot be read", process)
        if process.channel in TTY_READ and process.on_terminal is None:
            return Verdict(Waiting.UNKNOWN, f"{process.name} may read the terminal or a socket", process)
    return Verdict(Waiting.BUSY, f"{alive[-1].name} sleeps in {alive[-1].channel}", alive[-1])


def _computing(alive: list[Process]) -> list[Process]:
    return [p for p in alive if p.state not in "STI"]


class TtyWitness:
    """Reads the facts of one terminal. Keeps its descriptor open: 8 us a look instead of 30."""

    def __init__(self, tty: str) -> None:
        self.tty = tty
        self._asleep: dict[int, Asleep] = {}
        """Who slept at the last look, by process id."""
        self._fd = -1
        self._poll = select.poll()

    def look(self, leader: int, *, processes: bool = True) -> KernelFacts | None:
        """The facts now; None where they cannot be had.

        Args:
            leader: process id of the terminal's session leader.
            processes: False: none is looked at, which takes nine tenths of the time.
        """
        if sys.platform != "linux":
            return None
        try:
            _, output_modes, _, local_modes, *_ = termios.tcgetattr(self._open())
            unread = array.array("i", [0])
            fcntl.ioctl(self._fd, termios.FIONREAD, unread)
            self._poll.register(self._fd, select.POLLOUT)
            writing = not self._poll.poll(0)
        except (OSError, termios.error):
            self.close()
            return None
        group = foreground_group(leader)
        seen: tuple[Process, ...] = ()
        if group and processes:
            seen = members(leader, group, os.fstat(self._fd).st_rdev, self._asleep)
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
            returns=output_modes & _RETURNS == _RETURNS,
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
    with suppress(OSError):
        return proc.stat(f"/proc/{pid}").state not in "RDTt"
    return True


def computes(pid: int) -> bool:
    """Whether a process has something to do at this moment; False where it cannot be told."""
    with suppress(OSError):
        return proc.stat(f"/proc/{pid}").state in "RD"
    return False


def session_members(leader: int) -> dict[int, int]:
    """All processes of the leader's session (setsid(2)): process id -> process group."""
    return {pid: stat.group for pid, stat in proc.all_stats() if stat.session == leader}


@dataclass(frozen=True)
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
        if _sleep(path) != ("S", known.channel) or _wakes(path) != known.wakes:
            return None
        return replace(known, parent=stat.parent, age_s=_since_boot() - self.born_s)


def members(leader: int, group: int, terminal: int, asleep: dict[int, Asleep] | None = None) -> tuple[Process, ...]:
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
    terminal: int,
    stat: proc.Stat | None = None,
    asleep: dict[int, Asleep] | None = None,
) -> Process:
    """One process, told by the thread that says most: one that computes, one at the terminal, the main one."""
    name, parent = _name(pid), stat.parent if stat else 0
    known = asleep.get(pid) if asleep else None
    same = known.now(f"/proc/{pid}/task/{pid}", stat, name) if known and stat else None
    if same:
        return same
    best: tuple[int, str, Process] | None = None
    channels: dict[str, str | None] = {}
    for thread in threads:
        path = f"/proc/{pid}/task/{thread}"
        with suppress(OSError):
            found = _thread(Process(pid, name, "", None, main=thread == pid, parent=parent), path, terminal)
            channels[path] = found.channel
            rank = _rank(found.state, found.channel, found.on_terminal)
            if best is None or rank > best[0]:
                best = rank, path, found
    if best is None:
        raise ProcessLookupError(pid)
    _, path, process = best
    if process.state != "S" or process.on_terminal is False or process.channel not in TTY_READ | POLLING:
        return process
    other_work = next((each for other, each in channels.items() if other != path and may_work(each)), "") or ""
    process = replace(process, relay=_is_relay(pid), age_s=_age_s(pid), other_work=other_work)
    # Another process can change what an epoll waits for; what another thread does is not counted.
    if asleep is not None and stat and stat.threads == 1 and process.wakes and process.channel not in EPOLLING:
        asleep[pid] = Asleep(stat.born_s, process)
    return process


def _thread(process: Process, path: str, terminal: int) -> Process:
    """The process as one of its threads tells it: what it sleeps in, all of one sleep, else it runs."""
    state, channel = _sleep(path)
    if state != "S" or channel not in TTY_READ | POLLING:
        waits = on_terminal(process.pid, path, channel, terminal) if state == "S" else None
        return replace(process, state=state, channel=channel, on_terminal=waits)
    wakes = _wakes(path)
    state, channel = _sleep(path)
    if state == "S":
        with suppress(proc.Runs):
            waits = on_terminal(process.pid, path, channel, terminal)
            time_out_s = time_outs.of(path) if channel in POLLING and waits is not False else None
            if _wakes(path) == wakes:
                found = replace(process, state=state, channel=channel, on_terminal=waits)
                return replace(found, time_out_s=time_out_s, wakes=wakes)
        state, channel = "R", None  # it has gone on, and perhaps to sleep anew, between the first fact and the last
    return replace(process, state=state, channel=channel)


def may_work(channel: str | None) -> bool:
    """Whether a thread that sleeps there may go on without input: not if it waits for a lock, a poll or a signal."""
    if channel is None or channel in UNREADABLE or channel in POLLING:
        return False
    return not channel.startswith(("futex", "do_sigtimedwait", "sigsuspend"))


def _name(pid: int) -> str:
    """What a process is called, without the blanks with which one that renames itself fills the rest."""
    name = proc.name(pid).strip()
    if name in MANY_IN_ONE:
        with suppress(OSError):
            words = proc.words(pid)
            name = words[1] if len(words) > 1 else name
    return name


def _rank(state: str, channel: str | None, waits: bool | None) -> int:
    if state not in "STIZX":
        return 4
    if state == "S" and waits:
        return 3
    if state == "S" and waits is None and channel in TTY_READ | POLLING:
        return 2
    return 1 if state not in "ZX" else 0


def on_terminal(pid: int, path: str, channel: str | None, terminal: int) -> bool | None:
    """Whether a sleeping thread waits for this terminal; None: it cannot be told.

    The system call says it exactly, to root and, where Yama does not forbid it, to the same user; else what the
    process has open says it sometimes.

    Args:
        path: the thread's directory in /proc.
        terminal: the terminal's device number.

    Raises:
        Runs: it has woken up.
    """
    if channel not in TTY_READ and channel not in POLLING:
        return None if channel in UNREADABLE else False
    try:
        fds = waited_for(pid, path)
        if fds is not None:
            return any(_is_terminal(pid, fd, terminal) for fd in fds)
    except proc.Runs:
        raise
    except (OSError, ValueError, IndexError):
        pass  # refused
    try:
        opened = [_link(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return None
    if not any(name.startswith(("/dev/pts/", "/dev/tty")) for name in opened):
        return False
    if channel in POLLING or any(name.startswith(("socket:", "anon_inode:inotify", "anon_inode:[")) for name in opened):
        return None
    return True


def waited_for(pid: int, path: str) -> Iterable[int] | None:
    """The files that a sleeping thread waits for input from; None: it sleeps in another call.

    Args:
        path: the thread's directory in /proc.

    Raises:
        Runs: the thread runs.
        OSError, ValueError, IndexError: the call cannot be seen.
    """
    words = proc.system_call(path)
    return _waited_for(pid, path, int(words[0]), [int(word, 16) for word in words[1:7]])


def _waited_for(pid: int, path: str, call: int, arguments: list[int]) -> Iterable[int] | None:
    """The files that a system call waits for input from; None: another call."""
    reads, polls, selects, epolls, others = _CALLS
    if call in reads:
        return [arguments[0]]
    if call in polls:
        count = min(arguments[1], 1024)
        entries = struct.iter_unpack("=ihh", _memory(path, arguments[0], count * 8)) if count else ()
        return [fd for fd, events, _ in entries if events & select.POLLIN]
    if call in selects:
        count = min(arguments[0], 1024)
        if not arguments[1] or not count:
            return []
        bits = int.from_bytes(_memory(path, arguments[1], (count + 63) // 64 * 8), "little")
        return [fd for fd in range(count) if bits >> fd & 1]
    if call in epolls:
        return asked(pid, arguments[0])
    return [] if call in others else None


def _memory(path: str, address: int, size: int) -> bytes:
    with open(path + "/mem", "rb", buffering=0) as file:
        return os.pread(file.fileno(), size, address)


def _is_terminal(pid: int, fd: int, terminal: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}/fd/{fd}").st_rdev in (terminal, os.makedev(5, 0))  # or /dev/tty
    except FileNotFoundError:
        return False


def _is_relay(pid: int) -> bool:
    with suppress(OSError):
        return any(_link(f"/proc/{pid}/fd/{fd}").endswith("/ptmx") for fd in os.listdir(f"/proc/{pid}/fd"))
    return False


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
        if state != "S" or channel not in UNREADABLE:
            return state, channel
        wakes = _wakes(path) if wakes is None else wakes
        try:
            proc.system_call(path)
        except proc.Runs:
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


def _age_s(pid: int) -> float:
    return _since_boot() - proc.stat(f"/proc/{pid}").born_s


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
