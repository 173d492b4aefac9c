"""Readers outside the foreground group: programs of another session that read a terminal which they were handed.

`su -c` and `setsid` start their program in a session of its own, gpg has its agent ask, emacsclient hands its terminal
to a server. The foreground group then only waits for them. They are looked for where nobody in that group is at the
terminal and all of it sleeps, without a time at which it will go on by itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field, replace

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine import proc
from tmuxmcp.machine.witness.kernel import InputWait, KernelFacts, Process, Verdict
from tmuxmcp.machine.witness.tty import members

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


@dataclass
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
