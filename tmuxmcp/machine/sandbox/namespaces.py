"""What forbids a session namespaces of its own on this machine, as far as it can be seen, and how a person allows them.

Reads only. Whether they can be made is found out by trying (`bubblewrap.refusal`).
"""

from __future__ import annotations

import os
from pathlib import Path

from tmuxmcp.contract.latedataclass import dataclass


@dataclass(frozen=True)
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
