"""Ray's processes on this machine that were started beside our sessions; what is left of a cluster whose head died."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil

STATE_VARIABLE = "TMUXMCP_STATE_DIR"
"""What tells whose they are: it is in their environment, and in that of nothing that sessions start."""

PARTS = ("/ray/_private/", "/ray/dashboard/", "/ray/autoscaler/")
"""Where Ray's servers in Python lie: agents, monitors."""

END_S = 10.0
"""So long a process has to be gone that was killed."""


def head(state_dir: Path) -> psutil.Process | None:
    """The cluster's head, if it is here."""
    return next((each for each in _ours(state_dir) if _program(each) == "gcs_server"), None)


def raylet(state_dir: Path) -> psutil.Process | None:
    """What has this machine in a cluster."""
    return next((each for each in _ours(state_dir) if _program(each) == "raylet"), None)


def head_address(state_dir: Path) -> str:
    """Of the cluster that this machine is in, or was; empty: it is in none."""
    found = raylet(state_dir)
    with suppress(psutil.Error):
        for word in found.cmdline() if found else []:
            if word.startswith("--gcs-address="):
                return word.partition("=")[2]
    return ""


def end(state_dir: Path) -> int:
    """End all of them, and the workers below; how many there were. Sessions live beside them."""
    found = _ours(state_dir)
    for each in list(found):
        with suppress(psutil.Error):
            found |= {below for below in each.children(recursive=True) if _is_ray(below)}
    for each in found:
        with suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(found, END_S)
    return len(found)


def _ours(state_dir: Path) -> set[psutil.Process]:
    found = set()
    for each in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if _is_ray(each) and each.pid != os.getpid() and each.environ().get(STATE_VARIABLE) == str(state_dir):
                found.add(each)
    return found


def _is_ray(process: psutil.Process) -> bool:
    """Whether it is one of Ray's own: its servers, their agents, a worker."""
    with suppress(psutil.Error, OSError):
        words = process.cmdline()
        return bool(words) and (
            words[0].startswith("ray::")
            or _program(process) in ("gcs_server", "raylet")
            or any(part in word for word in words[1:4] for part in PARTS)
        )
    return False


def _program(process: psutil.Process) -> str:
    with suppress(psutil.Error, OSError):
        return os.path.basename((process.cmdline() or [""])[0])
    return ""
