"""What the kernel says of a terminal, as values, and what it means: does the program there wait for input? Pure.

What is not known is `unknown`, never guessed: a wait channel that cannot be read, a program behind which another
terminal begins, a system without /proc. `witness` reads the facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from tmuxmcp.contract.value import replace, value

TTY_READ = {"wait_woken", "n_tty_read"}
"""Wait channels of read(2) on a tty; inotify and TCP sockets sleep in the first one as well."""

POLL_WAIT_CHANNELS = {"poll_schedule_timeout", "do_select", "do_sys_poll", "do_poll", "do_epoll_wait", "ep_poll"}
"""Wait channels of select, poll and epoll."""

INPUT_CALLS = {
    "x86_64": ({0, 17, 19}, {7, 271}, {23, 270}, {232, 281, 441}),
    "aarch64": ({63, 65, 67}, {73}, {72}, {22, 441}),
}
"""By machine, the numbers of read, poll, select and epoll_wait with their kin. Others are not known: no harm."""

TIME_OUT_ARGUMENTS = {
    "x86_64": ({7: 2, 232: 3, 281: 3}, {270: 4, 271: 2, 441: 3}, {23: 4}),
    "aarch64": ({22: 3}, {72: 4, 73: 2, 441: 3}, dict[int, int]()),
}
"""By machine, which argument of these calls is the time-out: milliseconds, where a timespec stands, where a timeval.

poll, epoll_wait, epoll_pwait; pselect6, ppoll, epoll_pwait2; select.
"""

UNREADABLE_WAIT_CHANNELS = {None, "", "0"}
"""Wait channels of a sleeping process that is not ours to look at, or of a kernel that does not tell."""

OPAQUE_PROGRAMS = frozenset(
    {"ssh", "mosh-client", "telnet", "docker", "podman", "kubectl", "oc", "lxc", "virsh", "machinectl", "sshpass"}
    | {"nerdctl", "dtach", "abduco", "zellij"}
    | {"tmux: client", "screen", "script", "su", "sudo", "picocom", "minicom", "socat", "nc"}
)
"""Programs behind which another terminal or machine may begin: in raw mode they always look ready."""

FAR_ENDS_ARE_INSIDE = frozenset({"mc", "vim", "vim.basic", "vi", "nvim", "emacs", "kakoune", "hx"})
"""Programs that hold the far end of another terminal, and yet are who is typed to."""

MANY_IN_ONE = frozenset({"busybox", "toybox"})
"""Programs that are many: the first argument tells which."""


class InputWait(StrEnum):
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


@value
class Process:
    """A process of the foreground group."""

    pid: int
    name: str
    state: str
    """One letter, as in proc(5); R when any thread computes, D when any waits for a device."""
    wait_channel: str | None
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
    only_terminal: bool = False
    """Its one thread polls this terminal and nothing else."""

    @property
    def only_reads(self) -> bool:
        """It does nothing until somebody types, whatever its children do."""
        return self.wait_channel in TTY_READ or (self.only_terminal and self.time_out_s is None)


@value
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
    alters: bool = False
    """It makes other characters of some that are typed (`stty iuclc`, `istrip`)."""


@value
class Verdict:
    """What a terminal's program does, and why we say so."""

    waiting: InputWait
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
        return self.waiting in (InputWait.EDITOR, InputWait.LINE, InputWait.SECRET)

    @property
    def asleep(self) -> bool:
        """Nobody is seen waiting for input, and all sleep: for time, for a child, or where it cannot be told."""
        return self.waiting is InputWait.BUSY and self.process is not None and self.process.state == "S"


def judge(facts: KernelFacts | None) -> Verdict:
    """Say what the facts mean; pure."""
    if facts is None or facts.foreground is None:
        return Verdict(InputWait.UNKNOWN, "the kernel does not say")
    if facts.changing:
        return Verdict(InputWait.BUSY, "the foreground program changes at this moment")
    if not facts.processes:
        return Verdict(InputWait.UNKNOWN, "its processes cannot be seen")
    alive = [p for p in facts.processes if p.state not in "ZX"]
    if not alive:
        return Verdict(InputWait.BUSY, "it has just ended")
    if all(p.state == "T" for p in alive):
        return Verdict(InputWait.STOPPED, f"{alive[0].name} is stopped", alive[0])
    if facts.unread:
        return Verdict(InputWait.BUSY, f"{facts.unread} typed bytes are unread")
    if facts.writing:
        return Verdict(InputWait.BUSY, "its output is held up")
    return _raw(alive) if not facts.canonical else _lines(alive, facts.echo)


def stopped(pid: int, name: str) -> Verdict:
    """The verdict on a shell that somebody has stopped, whatever it has put in front of it."""
    return Verdict(InputWait.STOPPED, f"{name} is stopped", Process(pid, name, "T", None))


def _raw(alive: list[Process]) -> Verdict:
    """Single keys are read: whoever listens has the terminal, whatever the others do (`find / | less`)."""
    asleep = [p for p in alive if p.state == "S" and p.on_terminal is not False]
    reading = [p for p in asleep if p.wait_channel in TTY_READ]
    polling = [p for p in asleep if p.wait_channel in POLL_WAIT_CHANNELS]
    for process in (*reading, *polling):
        if _hides(process):
            return Verdict(InputWait.UNKNOWN, f"{process.name} hides what runs behind it", process, hidden=True)
        return Verdict(InputWait.EDITOR, f"{process.name} waits for a key", process, weak=weakness(process, alive))
    return _neither(alive, lines=False)


def _hides(process: Process) -> bool:
    return process.name in OPAQUE_PROGRAMS or (process.relay and process.name not in FAR_ENDS_ARE_INSIDE)


def _lines(alive: list[Process], echo: bool) -> Verdict:
    """Whole lines are read."""
    asleep = [p for p in alive if p.state == "S"]
    reading = [
        p for p in asleep if p.wait_channel in TTY_READ and (p.on_terminal or (p.on_terminal is None and not echo))
    ]
    reading += [
        p for p in asleep if p.wait_channel in POLL_WAIT_CHANNELS and p.on_terminal and p.name not in OPAQUE_PROGRAMS
    ]
    for process in reading:
        # A question for a secret stands whatever others do: `tar | gpg -c`. One that listens may do it by those.
        certain = not echo and process.main and process.wait_channel in TTY_READ
        if _computing(alive) and not certain:
            break
        if echo and process.name in OPAQUE_PROGRAMS and not process.main:
            break  # `docker run -i`: it reads all the time; ssh's question is asked by the main thread
        waiting, what = (InputWait.LINE, "line") if echo else (InputWait.SECRET, "line without echo")
        return Verdict(waiting, f"{process.name} waits for a {what}", process, weak=weakness(process, alive))
    unseen = [p for p in asleep if p.wait_channel in UNREADABLE_WAIT_CHANNELS]
    if unseen and not echo and not _computing(alive):
        # sudo of another user: hardly anything but a question for a secret turns the echo off and keeps lines.
        return Verdict(InputWait.SECRET, f"{unseen[-1].name} sleeps, and what is typed is not shown", unseen[-1])
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
    if process.only_reads:
        return ""
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


def rank(process: Process) -> int:
    """How much a process says of its terminal, as it is told by one thread: most of all one that computes."""
    if process.state not in "STIZX":
        return 4
    if process.state == "S" and process.on_terminal:
        return 3
    if process.state == "S" and process.on_terminal is None and process.wait_channel in TTY_READ | POLL_WAIT_CHANNELS:
        return 2
    return 1 if process.state not in "ZX" else 0


def _neither(alive: list[Process], *, lines: bool) -> Verdict:
    """Nobody is seen waiting for input."""
    computing = _computing(alive)
    if computing:
        return Verdict(InputWait.BUSY, f"{computing[0].name} computes", computing[0])
    asleep = [p for p in alive if p.state == "S"]
    for process in asleep:
        if lines and process.on_terminal is False:
            continue  # ssh connects, `ssh -N`, sudo waits for its child: what is typed reaches nobody behind it
        if process.name in OPAQUE_PROGRAMS and (
            process.wait_channel in POLL_WAIT_CHANNELS | TTY_READ or process.wait_channel in UNREADABLE_WAIT_CHANNELS
        ):
            return Verdict(InputWait.UNKNOWN, f"{process.name} hides what runs behind it", process, hidden=True)
    for process in asleep:
        if process.wait_channel in UNREADABLE_WAIT_CHANNELS:
            return Verdict(InputWait.UNKNOWN, f"the wait channel of {process.name} cannot be read", process)
        if process.wait_channel in TTY_READ and process.on_terminal is None:
            return Verdict(InputWait.UNKNOWN, f"{process.name} may read the terminal or a socket", process)
    return Verdict(InputWait.BUSY, f"{alive[-1].name} sleeps in {alive[-1].wait_channel}", alive[-1])


def _computing(alive: list[Process]) -> list[Process]:
    return [p for p in alive if p.state not in "STI"]


def may_work(channel: str | None) -> bool:
    """Whether a thread that sleeps there may go on without input: not if it waits for a lock, a poll or a signal."""
    if channel is None or channel in UNREADABLE_WAIT_CHANNELS or channel in POLL_WAIT_CHANNELS:
        return False
    return not channel.startswith(("futex", "do_sigtimedwait", "sigsuspend"))


@value
class EnteredLine:
    """A line that was entered at a prompt."""

    prompt: str
    """The line that the cursor was in before it was typed; empty: none."""
    pid: int
    """Who waited there for input."""
    present: frozenset[int]
    """Who was in the foreground group then."""
    at: int = 0
    """Size of the log then."""


def entered_at(
    verdict: Verdict, facts: KernelFacts | None, line: str, last: EnteredLine | None, at: int = 0
) -> EnteredLine | None:
    """What there is to remember of the moment before something is entered.

    Args:
        line: the one that the cursor is in.
        at: size of the log.
        last: of what was entered before: where its prompt has not come back, nothing has changed.
    """
    if verdict.process is None or facts is None:
        return None
    line = line.strip()
    if last and not line and last.pid == verdict.process.pid:
        return replace(last, at=at)
    return EnteredLine(line, verdict.process.pid, frozenset(each.pid for each in facts.processes), at)
