"""Whether a process is confined more than we are: then nothing of its choice is run for it outside."""

from __future__ import annotations

import os

from tmuxmcp.machine import proc

NAMESPACE_FILES = ("mnt", "user", "pid", "net", "ipc", "uts", "cgroup")

SANDBOX_FLAGS = ("NoNewPrivs", "Seccomp", "Seccomp_filters")
"""Of `status`: what a sandbox that leaves no other trace has set.

Of Landlock itself nothing is to be seen; ours comes with a filter. A kernel before 5.9 does not count filters: there
nobody is known to be as free as we are.
"""


def more_than_we(pid: int) -> bool:
    """Whether a process lacks something that we have, or that cannot be told.

    Its user is not compared: who runs something for a process does that as its user.
    """
    it, we = f"/proc/{pid}", "/proc/self"
    try:
        if any(os.readlink(f"{it}/ns/{each}") != os.readlink(f"{we}/ns/{each}") for each in NAMESPACE_FILES):
            return True
        if os.readlink(f"{it}/root") != os.readlink(f"{we}/root"):
            return True
        if any(int(proc.status(it, each)) > int(proc.status(we, each)) for each in SANDBOX_FLAGS):
            return True
        same_user = os.stat(it).st_uid == os.geteuid()
        for each in ("CapBnd", "CapEff", "CapPrm")[: 3 if same_user else 1]:
            if int(proc.status(we, each), 16) & ~int(proc.status(it, each), 16):
                return True
    except (OSError, ValueError):
        return True
    return False
