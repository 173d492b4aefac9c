"""bubblewrap (bwrap(1)): a session in namespaces of its own, where this machine lets us make them.

The root is read-only, the project writable; /tmp, /dev and /run are the session's own, /proc is as well but read-only,
and what tells of the machine or acts on it is masked there and in /sys; what is hidden is empty.
Never `--new-session`: Ctrl-C would reach nobody, and there would be no /dev/tty to ask for a password on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from glob import glob
from pathlib import Path

from tmuxmcp.contract.value import value

PROBE_S = 5.0
EMPTY_DIRECTORIES = ("/tmp", "/var/tmp", "/run")
"""Directories that are empty in a sandbox: others' files and sockets lie there."""

CONSOLE = "/dev/console"
"""Where programs within find the terminal that they were given: those of the machine are not to be seen."""

MASKED_PATHS = (
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats"),
    *("/sys/devices/system/cpu/cpu*/thermal_throttle", "/sys/devices/virtual/powercap", "/sys/firmware"),
)
"""What container engines mask of the kernel's files: they tell of the machine, or act on it."""


def find() -> str | None:
    """The path of bwrap."""
    return shutil.which("bwrap")


def argv(
    bwrap: str,
    *,
    hidden: Iterable[str],
    readable: Iterable[str],
    writable: Iterable[str],
    network: bool,
    console: str = "",
) -> list[str]:
    """The words before the program's.

    Args:
        hidden: directories that are empty within, but for what the other two name in them.
        readable: paths in them that are there.
        writable: directories that can be written to.
        console: a terminal that is `CONSOLE` within; empty: standard output is, if it is one.
    """
    # For root, too: bubblewrap would do without, and capabilities within be those of the machine.
    words = [bwrap, "--die-with-parent", "--unshare-user", *_no_more_users(bwrap)]
    words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += [] if network else ["--unshare-net"]
    words += ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev"]
    words += ["--dev-bind", console, CONSOLE] if console else []
    # Read-only: for /proc/sys the kernel looks at the user id, and root's is root's without any capability. Of a
    # /proc that is locked read-only, a user namespace within gets none that can be written to (mount_too_revealing).
    words += ["--proc", "/proc", *_masks(), "--remount-ro", "/proc"]
    mounts = {path: ["--tmpfs", path] for path in EMPTY_DIRECTORIES if os.path.isdir(path) and not os.path.islink(path)}
    mounts |= {path: ["--tmpfs", path] for path in hidden}
    mounts |= {path: ["--ro-bind-try", path, path] for path in (*readable, *_name_service())}
    mounts |= {path: ["--bind", path, path] for path in writable}
    for path in sorted(mounts, key=lambda path: Path(path).parts):  # what lies in another comes after it
        words += mounts[path]
    for path in hidden:
        words += ["--remount-ro", path]
    return words


def _name_service() -> list[str]:
    """Where /etc/resolv.conf really is, if that is in /run."""
    path = os.path.realpath("/etc/resolv.conf")
    return [path] if path.startswith("/run/") else []


def _masks() -> list[str]:
    words = []
    for path in (each for pattern in MASKED_PATHS for each in sorted(glob(pattern))):
        words += ["--tmpfs", path, "--remount-ro", path] if os.path.isdir(path) else ["--dev-bind", "/dev/null", path]
    return words


@cache
def _no_more_users(bwrap: str) -> list[str]:
    """The option by which nobody within makes user namespaces; before its version 0.8 seccomp alone sees to that."""
    done = subprocess.run([bwrap, "--help"], capture_output=True, timeout=PROBE_S, check=False)
    return ["--disable-userns"] if b"--disable-userns" in done.stdout + done.stderr else []


@cache
def why_no_namespaces(bwrap: str) -> str:
    """Why namespaces cannot be made as we need them, as containers mostly forbid it; empty: they can.

    Told by what is printed within: where the host program ignores SIGCHLD, each return code is 0.

    Raises:
        subprocess.TimeoutExpired: there was no answer, as on a busy machine; the next call tries again.
    """
    try:
        words = [*argv(bwrap, hidden=[], readable=[], writable=[], network=True), "--", "echo", "within"]
        done = subprocess.run(words, capture_output=True, timeout=PROBE_S, check=False)
    except OSError as error:
        return f"{bwrap}: {error.strerror}"
    if done.stdout == b"within\n":
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1][:200] if said else f"{bwrap} ended with {done.returncode}"


# ---- What forbids a session namespaces of its own on this machine ----------------------------------------------------
#
# As far as it can be seen, and how a person allows them.
#
# Reads only. Whether they can be made is found out by trying (`bubblewrap.refusal`).


@value
class Obstacle:
    """One thing that forbids them."""

    what: str
    allow: str
    """What the person does to allow them."""


PROC_SWITCHES = (
    ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000", False),
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1", True),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "give bwrap an AppArmor profile that allows userns", True),
)
"""Of /proc/sys: the value that forbids, what allows it, and whether root is exempt."""

CONTAINER_FIX = "start the container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
"""For Docker and Podman: their filter of system calls and their masks over /proc are in the way."""


def obstacles() -> list[Obstacle]:
    """What is seen to forbid them; empty: nothing, which does not say that they can be made."""
    found = []
    for name, forbids, allow, root_is_exempt in PROC_SWITCHES:
        if _text(f"/proc/sys/{name}").strip() == forbids and not (root_is_exempt and os.geteuid() == 0):
            found.append(Obstacle(f"{name.replace('/', '.')} is {forbids}", allow))
    if "\nSeccomp:\t2" in _text("/proc/self/status"):
        found.append(Obstacle("a filter of system calls is in force here", CONTAINER_FIX))
    if _mounted_beneath_proc():
        found.append(Obstacle("parts of /proc are masked here", CONTAINER_FIX))
    return found


def _mounted_beneath_proc() -> list[str]:
    """Mounts over files of /proc: the kernel then lets no user namespace have a /proc (mount_too_revealing)."""
    points = [fields[4] for line in _text("/proc/self/mountinfo").splitlines() if len(fields := line.split()) > 4]
    return [point for point in points if point.startswith("/proc/") and point != "/proc/sys/fs/binfmt_misc"]


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, ValueError):
        return ""
