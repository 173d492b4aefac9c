"""Seeing through relays: programs that pass what is typed on to a terminal of their own (script, sudo, su -P, expect).

A relay holds the far end of a pseudo-terminal, whose number the kernel tells (`tty-index` in `/proc/PID/fdinfo`), and
somebody below it has that terminal. Then that terminal is judged, and so on, three deep. A relay must listen to the
terminal before it and to the one behind it, and sleep: what has been printed has passed it. Whoever merely holds a far
end (inherited, leaked, of a program that it has started and speaks to itself) relays nothing at that moment. What
leaves the machine, or cannot be followed, is `hidden`, never guessed.

Nothing is kept open behind a relay: many a relay ends when the last one closes the terminal.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress

from tmuxmcp.contract.value import field, replace, value
from tmuxmcp.machine import proc
from tmuxmcp.machine.witness import kernel, nestedtmux
from tmuxmcp.machine.witness.kernel import InputWait, KernelFacts, Process, Verdict
from tmuxmcp.machine.witness.nestedtmux import Client, wakes_at_rest
from tmuxmcp.machine.witness.tty import (
    MOST_THREADS,
    TtyWitness,
    foreground_group,
    members,
    path_of_terminal,
    pts_number,
    waited_for,
)

MOST_RELAYS = 3
"""So many are seen through, one behind the other."""

MOST_BELOW = 200
"""So many processes below a relay are looked at."""

KEEPS_MODES_OF_ITS_OWN = frozenset({"screen"})
"""Relays that at times keep what is typed for themselves, without a way to ask them."""

ASK_SECRETS = frozenset({"systemd-ask-pas", "systemd-tty-ask", "pinentry-curses", "pinentry-tty"})
"""Programs that read single keys to show a star for each; as long as the kernel's names are."""

TTY_INDEX = re.compile(r"^tty-index:\s*(\d+)", re.MULTILINE)


@value
class TerminalFacts:
    """What is seen of a pane's terminal, through the relays in it."""

    facts: KernelFacts | None
    """Of the pane's own terminal; None: they cannot be had."""
    verdict: Verdict
    """On the terminal that input comes to."""
    judged: KernelFacts | None = None
    """Facts of that terminal; those of the pane's own where nothing relays; None: they cannot be had."""
    terminal: str = ""
    """Its path, as we open it."""
    leader: int = 0
    """Process id of its session leader."""
    relays: tuple[str, ...] = ()
    """Names of the programs that are seen through, the pane's own first."""
    reader: bool = False
    """Who is judged is outside the foreground group."""
    asks: Client | None = None
    """A tmux inside has to be asked what it shows before more can be said."""

    @property
    def depth(self) -> int:
        """How many relays are seen through."""
        return len(self.relays)

    def as_far_as_known(self) -> TerminalFacts:
        """The same where a tmux that has to be asked will not be: what waits there may no longer be shown."""
        process = self.verdict.process
        if self.asks is None or process is None or not self.verdict.ready:
            return self
        return replace(self, verdict=_hidden(process, "the tmux before it does not say what it shows"))


@value
class _RelayedTerminal:
    """The terminal behind a relay."""

    relay: Process
    path: str
    leader: int
    passes_on: int
    """Process id of who copies between the two terminals: the relay, or a tmux server."""
    readable: bool = True
    """False: nothing but what all may read of its processes."""
    asks: Client | None = None
    """It showed this a while ago: it has to be asked again before that counts as ready."""
    old: bool = False
    """That is so long ago that it has to be asked in any case."""


@value
class _OpaqueRelay:
    """A relay that cannot be seen through."""

    relay: Process
    why: str
    asks: Client | None = None


class DeepWitness:
    """Looks at a pane's terminal and, through relays, at the one that input comes to."""

    def __init__(self, tty: str) -> None:
        self.tty = tty
        self._witness = TtyWitness(tty)
        self._readers = Readers()
        self.panes = nestedtmux.Panes()
        """What the tmuxes inside show."""

    def look(self, leader: int) -> TerminalFacts:
        """What is seen now.

        Args:
            leader: process id of the session leader of the pane's terminal.
        """
        facts = self._witness.look(leader)
        return self._see(facts, TerminalFacts(facts, _judged(facts), facts, self.tty, leader))

    def look_at_terminal(self, leader: int, alone: int = 0) -> TerminalFacts:
        """The modes of the pane's own terminal and who is in front of it; no process is looked at.

        Args:
            alone: nobody is told to be in front but this process, and that only if it is there alone; 0: anybody is.
        """
        facts = self._witness.look(leader, processes=False, alone=alone)
        return TerminalFacts(facts, kernel.judge(facts), facts, self.tty, leader)

    def size(self) -> tuple[int, int] | None:
        """Columns and rows of the pane's own terminal; None where they cannot be had."""
        return self._witness.size()

    def close(self) -> None:
        """Let go of the pane's terminal."""
        self._witness.close()

    def _see(self, facts: KernelFacts | None, sight: TerminalFacts) -> TerminalFacts:
        """What is seen of a terminal with these facts; `sight` is what they say without looking through."""
        if facts is None or facts.changing or facts.unread or facts.writing:
            return sight
        for process in facts.processes:
            try:
                behind = self._behind(process, sight.terminal) if _may_relay(process) else None
            except OSError:
                return replace(sight, verdict=Verdict(InputWait.BUSY, f"{process.name} ends", process))
            if isinstance(behind, _OpaqueRelay):
                return replace(sight, verdict=_hidden(process, behind.why), asks=behind.asks)
            seen = self._through(behind, sight) if behind else None
            if seen:
                return seen
        # Whoever holds a far end here relays nothing.
        own = tuple(replace(each, relay=each.relay and not _may_relay(each)) for each in facts.processes)
        facts = replace(facts, processes=own)
        sight = replace(sight, judged=facts, verdict=_judged(facts))
        return (
            self._with_readers(facts, sight) if sight.verdict.waiting is InputWait.BUSY and not sight.reader else sight
        )

    def _with_readers(self, facts: KernelFacts, sight: TerminalFacts) -> TerminalFacts:
        """What is seen where nobody in front waits for input, and others may."""
        found = self._readers.see(facts, sight.leader, sight.terminal)
        if found is None:
            return sight
        sight = replace(sight, reader=True)
        return replace(sight, verdict=found) if isinstance(found, Verdict) else self._see(found, sight)

    def _behind(self, process: Process, terminal: str) -> _RelayedTerminal | _OpaqueRelay | None:
        return self._in_tmux(process) if process.name == nestedtmux.TMUX_CLIENT else _behind(process, terminal)

    def _in_tmux(self, process: Process) -> _RelayedTerminal | _OpaqueRelay | None:
        """The pane that the client of a tmux inside shows."""
        client = self.panes.client(process.pid)
        if client is None:
            return _OpaqueRelay(process, "it may not be asked what it shows")
        shown = self.panes.shown_to(client)
        if shown is None:
            return _OpaqueRelay(process, "it has to be asked what it shows", client)
        asks = client if shown.age_s > nestedtmux.FRESH_S else None
        if not shown.pane:
            return _OpaqueRelay(process, f"it {shown.why}", asks)
        old = shown.age_s > nestedtmux.OLD_S
        return _RelayedTerminal(process, shown.tty, shown.pane, shown.server, asks=asks, old=old)

    def _through(self, behind: _RelayedTerminal, sight: TerminalFacts) -> TerminalFacts | None:
        """What is seen of the terminal behind a relay; None: it is itself who is typed to."""
        name = behind.relay.name
        if sight.depth >= MOST_RELAYS:
            return replace(sight, verdict=_hidden(behind.relay, f"more than {MOST_RELAYS} pass it on"))
        works = Verdict(InputWait.BUSY, f"{name} passes something on", behind.relay)
        wakes = wakes_at_rest(behind.passes_on)
        if wakes is None:
            return replace(sight, verdict=works)
        relays = (*sight.relays, name)
        inner = replace(sight, judged=None, terminal=behind.path, leader=behind.leader, relays=relays)
        if not behind.readable:
            return replace(inner, verdict=_by_stat(behind))
        facts = _facts(behind)
        if facts is None:
            return replace(sight, verdict=_hidden(behind.relay, "that terminal cannot be opened"), asks=behind.asks)
        if facts.processes and all(each.state == "t" for each in facts.processes):
            return None  # a debugger, which has stopped what it runs there
        seen = self._see(facts, replace(inner, judged=facts, verdict=_judged(facts)))
        if seen.verdict.waiting is InputWait.BUSY:
            return replace(seen, asks=seen.asks or (behind.asks if behind.old else None))
        if wakes_at_rest(behind.passes_on) != wakes:
            return replace(seen, verdict=works)
        return replace(seen, asks=seen.asks or behind.asks)


def _judged(facts: KernelFacts | None) -> Verdict:
    """What the facts of one terminal mean; of a program that asks for nothing but secrets: that it asks for one."""
    verdict = kernel.judge(facts)
    if verdict.waiting is InputWait.EDITOR and verdict.process and verdict.process.name in ASK_SECRETS:
        return replace(verdict, waiting=InputWait.SECRET, why=f"{verdict.process.name} asks for a secret")
    return verdict


def _may_relay(process: Process) -> bool:
    """Whether another terminal may begin behind a process, as far as it is known without looking for one."""
    if process.state != "S" or process.name in kernel.FAR_ENDS_ARE_INSIDE | KEEPS_MODES_OF_ITS_OWN:
        return False
    return (
        process.relay
        or process.name == nestedtmux.TMUX_CLIENT
        or process.wait_channel in kernel.UNREADABLE_WAIT_CHANNELS
    )


def _hidden(process: Process, why: str) -> Verdict:
    return Verdict(InputWait.UNKNOWN, f"{process.name} hides what runs behind it ({why})", process, hidden=True)


def _behind(process: Process, terminal: str) -> _RelayedTerminal | _OpaqueRelay | None:
    """The terminal that a process relays; None: it relays none.

    Args:
        terminal: the path of the one before it, as we open that.

    Raises:
        OSError: it has just ended.
    """
    below = _terminals_below(process.pid)
    try:
        held = _far_ends(process.pid)
    except PermissionError:  # another user's: its processes tell who is there
        leaders = [leader for leader in below.values() if leader]
        if len(leaders) > 1:
            return _OpaqueRelay(process, "there are several terminals")
        return _RelayedTerminal(process, "", leaders[0], process.pid, readable=False) if leaders else None
    held.pop(proc.device(terminal), None)
    heard = _heard(process.pid)
    listened = {device for device, fds in held.items() if heard is not None and not heard.isdisjoint(fds)}
    if heard is not None and not listened:
        return None  # it reads for itself: what the terminal behind it prints does not come from there
    found = [device for device in (held if heard is None else listened) if device.number in below]
    if not found:
        return _OpaqueRelay(process, "it is not known who is there") if listened else None
    if len(found) > 1:
        return _OpaqueRelay(process, "there are several terminals")
    leader = below[found[0].number]
    path = path_of_terminal(process.pid, leader, found[0])
    if not leader or not path:
        return _OpaqueRelay(process, "it is not known who is there")
    return _RelayedTerminal(process, path, leader, process.pid)


def _terminals_below(pid: int) -> dict[int, int]:
    """The terminals that descendants of a process have: device number -> process id of its session leader, or 0.

    Its own is none of them: another session has another terminal, whatever the number of that. What is below a session
    leader with a terminal is not looked at.
    """
    found: dict[int, int] = {}
    own = proc.stat(f"/proc/{pid}").session
    todo = proc.children(pid, proc.threads(pid))
    for _ in range(MOST_BELOW):
        if not todo:
            break
        each = todo.pop(0)
        with suppress(OSError):
            facts = proc.stat(f"/proc/{each}")
            if facts.terminal and facts.session == each:
                found[facts.terminal] = 0 if found.get(facts.terminal) else each  # two: it is not known which
                continue
            if facts.terminal and facts.session != own:
                found.setdefault(facts.terminal, 0)
            todo += proc.children(each, proc.threads(each) if facts.threads > 1 else [each])
    return found


def _far_ends(pid: int) -> dict[proc.Device, list[int]]:
    """The terminals whose far end a process holds, and its descriptors.

    Raises:
        OSError: that is not ours to see (PermissionError), or it has ended.
    """
    found: dict[proc.Device, list[int]] = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            link = os.readlink(f"/proc/{pid}/fd/{name}")
            if link.endswith("ptmx"):
                with open(f"/proc/{pid}/fdinfo/{name}") as file:
                    told = TTY_INDEX.search(file.read())
                if told:
                    near = proc.Device(_file_system(pid, name, link), pts_number(int(told[1])))
                    found.setdefault(near, []).append(int(name))
    return found


def _file_system(pid: int, fd: str, link: str) -> int:
    """The file system of the terminal whose far end a process has opened as `link`; 0: it cannot be told.

    It is the one in which `ptmx` lies, or else that of `pts` beside it: there the kernel looks for it.
    """
    with suppress(OSError):
        if link.endswith("/pts/ptmx"):
            return os.stat(f"/proc/{pid}/fd/{fd}").st_dev
        return os.stat(f"/proc/{pid}/root{os.path.dirname(link)}/pts").st_dev
    return 0


def _heard(pid: int) -> set[int] | None:
    """The descriptors from which a process waits for input; None: that cannot be told.

    Raises:
        OSError: it has ended.
    """
    found: set[int] = set()
    for thread in proc.threads(pid)[:MOST_THREADS]:
        try:
            found.update(waited_for(pid, f"/proc/{pid}/task/{thread}") or ())
        except (ValueError, IndexError, FileNotFoundError, ProcessLookupError):
            continue  # it runs, or has ended
        except OSError:
            return None
    return found


def _facts(behind: _RelayedTerminal) -> KernelFacts | None:
    witness = TtyWitness(behind.path)
    try:
        return witness.look(behind.leader)
    finally:
        witness.close()


def _by_stat(behind: _RelayedTerminal) -> Verdict:
    """What can be said of a terminal that is not ours to open: who is in front, and whether it is at work.

    A shell that sleeps may be at its prompt, in `read -s` or in `wait`: from here, all look the same.
    """
    front = list(_in_front(behind.leader))
    if not front:
        return _hidden(behind.relay, "it is another user's")
    for pid, state in front:
        if state not in "STI":
            return Verdict(InputWait.BUSY, f"{_name(pid)} computes", Process(pid, _name(pid), state, None))
    pid, state = front[-1]
    process = Process(pid, _name(pid), state, None)
    if all(state == "T" for _, state in front):
        return Verdict(InputWait.STOPPED, f"{process.name} is stopped", process)
    return Verdict(InputWait.UNKNOWN, f"{process.name} sleeps, behind {behind.relay.name}", process, hidden=True)


def _in_front(leader: int) -> Iterator[tuple[int, str]]:
    """The processes of the foreground group that live: process id and state, parents first."""
    group, todo = foreground_group(leader), [leader]
    for _ in range(MOST_BELOW):
        if not todo or group is None:
            return
        each = todo.pop(0)
        with suppress(OSError):
            facts = proc.stat(f"/proc/{each}")
            todo += proc.children(each, proc.threads(each) if facts.threads > 1 else [each])
            if facts.group == group and facts.state not in "ZX":
                yield each, facts.state


def _name(pid: int) -> str:
    with suppress(OSError):
        return proc.name(pid).strip()
    return "it"


# ---- Readers outside the foreground group ----------------------------------------------------------------------------
#
# Programs of another session that read a terminal which they were handed.
#
# `su -c` and `setsid` start their program in a session of its own, gpg has its agent ask, emacsclient hands its
# terminal to a server. The foreground group then only waits for them. They are looked for where nobody in that group is
# at the terminal and all of it sleeps, without a time at which it will go on by itself.

REST_S = 0.1
"""So long nobody does anything before readers are looked for: a program that has just begun may go on to read."""

SILENT_S = 1.0
"""After so long it is no longer said that programs work which cannot be seen."""

SOONEST_S, SEARCH_LATEST_S = 0.2, 2.0
"""Time between two searches: the longer nothing happens, the rarer."""

SLICE_S = 0.01
"""So much of the processor's time is searched at one look, however busy the machine is; the next one goes on."""

WAITS_FOR_TIME = frozenset({"hrtimer_nanosleep", "do_nanosleep", "nanosleep"})
"""Wait channels of a program that goes on by itself."""

MOST_GROUPS = 8
"""So many groups that have the terminal open are remembered."""

OPEN_FILES = 1024
"""So many open files of one process are looked at."""


@value(frozen=False)
class _FoundReaders:
    """What was found for one terminal, as long as the same processes sleep in front of it."""

    front: tuple[int | None, tuple[int, ...]]
    since: float
    """When they were first seen so, by `time.monotonic()`."""
    due: float = 0.0
    going: Iterator[None] | None = None
    groups: list[int] = field(default_factory=list)
    """Process groups of other sessions in which one has the terminal open."""
    unseen: int = 0
    """One that may be at it, and that is not ours to see."""


class Readers:
    """Looks for the readers of one terminal."""

    def __init__(self) -> None:
        self._search: _FoundReaders | None = None

    def see(self, facts: KernelFacts, leader: int, path: str) -> KernelFacts | Verdict | None:
        """Who else reads the terminal: its facts with the reader in front; a verdict; None: there is nothing to add.

        Args:
            facts: nobody in the foreground group is at the terminal.
            leader: process id of the terminal's session leader.
            path: the terminal's.
        """
        now = time.monotonic()
        if not _waits_for_others(facts):
            self._search = None
            return None
        front = facts.foreground, tuple(each.pid for each in facts.processes)
        search = self._search
        if search is None or search.front != front:
            search = self._search = _FoundReaders(front, now)
        try:
            terminal = proc.device(path)
        except OSError:
            return None
        if now - search.since < REST_S:
            return None
        found = _at_terminal(search.groups, terminal)
        if not found and (search.going or now >= search.due):
            search.going = search.going or _look_for(search, leader, terminal)
            began = time.thread_time()
            for _ in search.going:
                if time.thread_time() - began > SLICE_S:
                    break
            else:
                search.due = now + min(max(SOONEST_S, (now - search.since) / 4), SEARCH_LATEST_S)
                search.going = None
            found = _at_terminal(search.groups, terminal)
        if found:
            return replace(facts, processes=found)
        return _unseen(search, facts, now) if search.unseen and not search.groups else None


def _waits_for_others(facts: KernelFacts) -> bool:
    """Whether all of the foreground group sleep, none at the terminal, and none for a time."""
    alive = [each for each in facts.processes if each.state not in "ZX"]
    return bool(alive) and all(
        each.state in "SI" and not each.on_terminal and each.wait_channel not in WAITS_FOR_TIME for each in alive
    )


def _look_for(search: _FoundReaders, leader: int, terminal: proc.Device) -> Iterator[None]:
    """Look through all processes of other sessions, the youngest first, one a step."""
    stats: dict[int, proc.Stat] = {}
    for pid, stat in proc.all_stats():
        stats[pid] = stat
        yield
    own = stats[leader].session if leader in stats else leader
    groups: list[int] = []
    unseen = 0
    for pid, stat in sorted(stats.items(), reverse=True):
        yield
        if stat.session == own or stat.state in "ZX" or stat.group in groups:
            continue
        try:
            if _has_open(pid, terminal):
                groups.append(stat.group)
                search.groups = list(dict.fromkeys([*search.groups, stat.group]))
        except OSError:
            if not stat.terminal and _is_below(pid, set(search.front[1]), stats):
                unseen = pid
        if len(groups) >= MOST_GROUPS:
            break
    search.groups, search.unseen = groups, unseen


def _has_open(pid: int, terminal: proc.Device) -> bool:
    """Whether a process has the terminal open.

    Raises:
        OSError: that is not ours to see.
    """
    for name in os.listdir(f"/proc/{pid}/fd")[:OPEN_FILES]:
        with suppress(FileNotFoundError):
            if proc.device(f"/proc/{pid}/fd/{name}") == terminal:
                return True
    return False


def _at_terminal(groups: list[int], terminal: proc.Device) -> tuple[Process, ...]:
    """The processes of the first of these groups in which one waits for input of the terminal; empty: none does."""
    for group in groups:
        found = members(group, group, terminal)
        if any(each.on_terminal for each in found):
            return found
    return ()


def _is_below(pid: int, front: set[int], stats: dict[int, proc.Stat]) -> bool:
    """Whether a process descends from one of the foreground group."""
    for _ in range(len(stats)):
        stat = stats.get(pid)
        if stat is None:
            return False
        pid = stat.parent
        if pid in front:
            return True
    return False


def _unseen(search: _FoundReaders, facts: KernelFacts, now: float) -> Verdict | None:
    """What can be said where a program is not ours to see."""
    name = "a program"
    with suppress(OSError):
        name = proc.name(search.unseen)
    process = Process(search.unseen, name, "S", None)
    if facts.canonical and not facts.echo:
        return Verdict(InputWait.SECRET, f"{name} sleeps, and what is typed is not shown", process)
    if now - search.since < SILENT_S:
        return None
    return Verdict(InputWait.UNKNOWN, f"what {name} waits for cannot be seen", process)
