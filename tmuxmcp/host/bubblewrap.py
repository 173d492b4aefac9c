"""bubblewrap (bwrap(1)): a session in namespaces of its own, where this machine lets us make them.

The root is read-only, the project writable; /tmp, /dev and /run are the session's own, /proc is as well but read-only;
what is hidden is empty.
Never `--new-session`: Ctrl-C would reach nobody, and there would be no /dev/tty to ask for a password on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

PROBE_S = 5.0
OWN = ("/tmp", "/var/tmp", "/run")
"""Directories that are empty in a sandbox: others' files and sockets lie there."""


def find() -> str | None:
    """The path of bwrap."""
    return shutil.which("bwrap")


def argv(
    bwrap: str, *, hidden: Iterable[str], readable: Iterable[str], writable: Iterable[str], network: bool
) -> list[str]:
    """The words before the program's.

    Args:
        hidden: directories that are empty within, but for what the other two name in them.
        readable: paths in them that are there.
        writable: directories that can be written to.
    """
    words = [bwrap, "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += [] if network else ["--unshare-net"]
    words += ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev"]
    # Read-only: for /proc/sys the kernel looks at the user id, and root's is root's without any capability. Of a
    # /proc that is locked read-only, a user namespace within gets none that can be written to (mount_too_revealing).
    words += ["--proc", "/proc", "--remount-ro", "/proc"]
    mounts = {path: ["--tmpfs", path] for path in OWN if os.path.isdir(path) and not os.path.islink(path)}
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


def works(bwrap: str) -> bool:
    """Whether namespaces can be made as we need them: containers mostly forbid it.

    Told by what is printed within: where the host program ignores SIGCHLD, each return code is 0.
    """
    try:
        words = [*argv(bwrap, hidden=[], readable=[], writable=[], network=True), "--", "echo", "within"]
        return subprocess.run(words, capture_output=True, timeout=PROBE_S, check=False).stdout == b"within\n"
    except (OSError, subprocess.TimeoutExpired):
        return False
