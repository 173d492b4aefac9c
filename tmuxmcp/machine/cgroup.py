"""Control groups (cgroups(7)): a group of its own for each session, where this machine lets us make one.

A group counts the whole tree of processes, holds what left its terminal, cleared its environment and forgot its
parents, and can be killed at one stroke. Version 2, version 1, or both at once; in containers mostly neither, as the
file system is read-only there. Nothing outside our own groups is changed, but for controllers that are switched on
for the children of the group we are in ourselves.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tmuxmcp.contract.settings import Limits
from tmuxmcp.contract.value import value

CONTROLLERS = ("memory", "pids", "cpu")
OF_LIMIT = {"memory_mb": "memory", "processes": "pids", "cpu_percent": "cpu"}
"""Which controller keeps which limit."""

GROUP_PREFIX = "tmuxmcp-"
"""Of our groups' names."""

GROUP_YOUNG_S = 60
"""A group that was made within this time may be about to be joined."""

PERIOD_US = 100_000
"""Over which processor time is given out; the kernel's own default."""

GROUP_EMPTY_S = 2.0
"""How long a killed group may take to be empty."""


@value
class ParentGroup:
    """A group below which we can make ours."""

    directory: Path
    controllers: frozenset[str]
    unified: bool
    """Version 2."""


@value
class Groups:
    """The groups of one session: one per hierarchy in use."""

    directories: tuple[str, ...]
    kept: frozenset[str]
    """Names of the limits that they keep."""


def places(pid: int | str = "self", proc: Path = Path("/proc")) -> list[ParentGroup]:
    """Where groups can be made for what this process starts; empty where nowhere.

    Args:
        pid: whose groups ours shall be below, so that ours live as long as its.
        proc: where proc(5) is.
    """
    try:
        own = (proc / str(pid) / "cgroup").read_text().splitlines()
        mounts = (proc / "self" / "mountinfo").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in own:
        _, names, path = line.split(":", 2)
        where = _directory(mounts, frozenset(names.split(",")) - {""}, path)
        if where is None:
            continue
        place = _unified(*where) if not names else _version_1(where[1], names)
        if place:
            found.append(place)
    return found


def describe(available: Sequence[ParentGroup]) -> str:
    """What groups can do here."""
    if not available:
        return "none can be made: limits hold for each process, cpu_percent for none"
    found = sorted({name for place in available for name in place.controllers & {*CONTROLLERS}})
    versions = sorted({"v2" if place.unified else "v1" for place in available})
    return f"{' and '.join(versions)}: {', '.join(found) or 'no limits, only ending'}"


def _directory(mounts: Sequence[str], controllers: frozenset[str], path: str) -> tuple[Path, Path] | None:
    """The mount point of a hierarchy, and the directory of a group of it (proc_pid_mountinfo(5))."""
    for line in mounts:
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, mount_point = before.split(" ")[3:5]
        named = set(options.rsplit(" ", 1)[-1].split(","))
        if kind != ("cgroup" if controllers else "cgroup2") or not controllers <= named:
            continue
        inside = Path(path)
        if root != "/":
            if not inside.is_relative_to(root):
                continue
            inside = Path("/") / inside.relative_to(root)
        if ".." not in inside.parts:  # outside of what we can see
            return Path(mount_point), Path(mount_point) / inside.relative_to("/")
    return None


def _unified(mount_point: Path, own: Path) -> ParentGroup | None:
    """The nearest group above us whose children have most controllers."""
    if _writable(own):
        _switch_on(own)
    best: ParentGroup | None = None
    for directory in (own, *own.parents):
        if directory.is_relative_to(mount_point) and _writable(directory):
            here = ParentGroup(
                directory, frozenset(_words(directory / "cgroup.subtree_control") & {*CONTROLLERS}), True
            )
            if best is None or len(here.controllers) > len(best.controllers):
                best = here
    return best


def _version_1(own: Path, names: str) -> ParentGroup | None:
    ours = frozenset(names.split(",")) & {*CONTROLLERS, "freezer"}
    return ParentGroup(own, ours, False) if ours and _writable(own) else None


def _writable(directory: Path) -> bool:
    """Children can be made here, and processes moved to them (cgroups(7), Cgroup delegation containment)."""
    with suppress(OSError):
        read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
        return not read_only and os.access(directory, os.W_OK) and os.access(directory / "cgroup.procs", os.W_OK)
    return False


def _switch_on(directory: Path) -> None:
    """Give its children all controllers; refused where processes are in it, the root group apart."""
    missing = (_words(directory / "cgroup.controllers") & {*CONTROLLERS}) - _words(directory / "cgroup.subtree_control")
    for name in missing:
        with suppress(OSError):
            (directory / "cgroup.subtree_control").write_text(f"+{name}")


def _words(path: Path) -> set[str]:
    with suppress(OSError):
        return set(path.read_text().split())
    return set()


# ---- one session's ---------------------------------------------------------------------------------


def make(available: Iterable[ParentGroup], name: str, limits: Limits) -> Groups:
    """Make a session's groups and set its limits; none where none can be made.

    Args:
        name: of the groups, behind `GROUP_PREFIX`.
    """
    directories: list[str] = []
    kept: set[str] = set()
    wanted = {limit for limit in OF_LIMIT if getattr(limits, limit) is not None}
    # Version 2 first: it can be killed at one stroke. One of version 1 holds the tree where there is no other.
    for place in sorted(available, key=lambda each: (not each.unified, "freezer" in each.controllers)):
        useful = {limit for limit in wanted - kept if OF_LIMIT[limit] in place.controllers}
        if not useful and directories:
            continue
        directory = place.directory / f"{GROUP_PREFIX}{name}"
        try:
            directory.mkdir(exist_ok=True)
        except OSError:
            continue
        directories.append(str(directory))
        kept |= {limit for limit in useful if _set(directory, place.unified, limit, getattr(limits, limit))}
    return Groups(tuple(directories), frozenset(kept))


def _set(directory: Path, unified: bool, limit: str, value: int) -> bool:
    """Set one limit; False when the kernel refuses."""
    try:
        for file, text in _files(unified, limit, value):
            with suppress(FileNotFoundError):  # no swap accounting
                (directory / file).write_text(text)
    except OSError:
        return False
    return True


def _files(unified: bool, limit: str, value: int) -> list[tuple[str, str]]:
    size, quota = str(value * MIB), str(value * PERIOD_US // 100)
    if limit == "processes":
        return [("pids.max", str(value))]
    if limit == "memory_mb":
        if unified:
            return [("memory.max", size), ("memory.swap.max", "0")]
        return [("memory.limit_in_bytes", size), ("memory.memsw.limit_in_bytes", size)]
    if unified:
        return [("cpu.max", f"{quota} {PERIOD_US}")]
    return [("cpu.cfs_period_us", str(PERIOD_US)), ("cpu.cfs_quota_us", quota)]


def members(directories: Iterable[str]) -> list[int]:
    """Every process in these groups and in groups that somebody made below them."""
    found: set[int] = set()
    for group in _all(directories):
        with suppress(OSError, ValueError):
            found |= {int(word) for word in (group / "cgroup.procs").read_text().split()}
    return sorted(found - {0})  # 0: of another process namespace


def kill(directories: Sequence[str]) -> None:
    """Kill every process in these groups, also those that are just being born."""
    for directory in directories:
        with suppress(OSError):
            Path(directory, "cgroup.kill").write_text("1")
    deadline = time.monotonic() + GROUP_EMPTY_S
    while (left := members(directories)) and time.monotonic() < deadline:
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def remove(directories: Iterable[str]) -> bool:
    """Remove these groups; False when something is still in one."""
    done = True
    for group in sorted(_all(directories), key=lambda each: -len(each.parts)):
        try:
            group.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            done = False
    return done


def sweep(available: Iterable[ParentGroup]) -> None:
    """Remove groups of sessions that nobody ended: of a server that was killed, of a state directory that is gone.

    A group in which something still is cannot be removed.
    """
    for place in available:
        for directory in place.directory.glob(f"{GROUP_PREFIX}*"):
            with suppress(OSError):
                if time.time() - directory.stat().st_mtime > GROUP_YOUNG_S:
                    remove([str(directory)])


def cpu_ms(directories: Iterable[str]) -> int | None:
    """Processor time of all that ever ran in them, in milliseconds; None where the kernel does not tell."""
    for directory in directories:
        with suppress(OSError):
            for line in Path(directory, "cpu.stat").read_text().splitlines():
                if line.startswith("usage_usec "):
                    return int(line.split()[1]) // 1000
    return None


def oom_kills(directories: Iterable[str]) -> int:
    """How many processes the kernel ended in them for want of memory."""
    for directory in directories:
        for file in ("memory.events", "memory.oom_control"):  # version 2, version 1
            with suppress(OSError):
                for line in Path(directory, file).read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
    return 0


def _all(directories: Iterable[str]) -> Iterator[Path]:
    for directory in directories:
        for path, _, _ in os.walk(directory):
            yield Path(path)


# ---- Which limits of a program the kernel keeps for each process -----------------------------------------------------
#
# Pure: nothing here changes a limit. The short step that becomes the program (never a `preexec_fn`: the broker has
# threads) calls `setrlimit` for each row of `rlimits`, clamped to the hard limit that it has itself.

MIB = 1024 * 1024

Rlimit = tuple[int, int, int]
"""`(resource, soft, hard)` for `setrlimit`."""


def rlimits(limits: Limits) -> list[Rlimit]:
    """What `setrlimit` can keep; `cpu_percent` and `duration_s` are somebody else's business."""
    rows: list[Rlimit] = []
    if limits.memory_mb is not None:
        rows.append(_row(resource.RLIMIT_AS, limits.memory_mb * MIB))
    if limits.cpu_seconds is not None:
        # SIGXCPU first; who survives that is killed a second later (setrlimit(2)).
        rows.append((resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1))
    if limits.processes is not None:
        rows.append(_row(resource.RLIMIT_NPROC, limits.processes))
    if limits.open_files is not None:
        rows.append(_row(resource.RLIMIT_NOFILE, limits.open_files))
    if limits.file_mb is not None:
        rows.append(_row(resource.RLIMIT_FSIZE, limits.file_mb * MIB))
    return rows


def _row(which: int, most: int) -> Rlimit:
    return which, most, most
