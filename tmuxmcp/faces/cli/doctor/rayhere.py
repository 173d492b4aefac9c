"""How Ray runs on this machine, where it has a door: what would slow sessions down or end them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import psutil

from tmuxmcp.faces.cli.doctor.check import DoctorCheck

DOOR = "ray::Door"
"""What Ray calls the process of a door."""

SUBREAPER = "RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper"


def check_ray() -> DoctorCheck:
    """Doors and the tmux servers that they started are as nice as others, and Ray lets go of what doors start."""
    doors = [each for each in psutil.process_iter() if _is_door(each)]
    if not doors:
        return DoctorCheck("ray", True, "no door on this machine")
    wrong = sorted({problem for door in doors for problem in _problems(door)})
    if not wrong:
        return DoctorCheck("ray", True, f"{len(doors)} {'door' if len(doors) == 1 else 'doors'}")
    fix = f"Start Ray with RAY_worker_niceness=0 and without {SUBREAPER}, as `tmuxmcp fleet join` does."
    return DoctorCheck("ray", False, "; ".join(wrong), fix)


def _is_door(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return (process.cmdline() or [""])[0].startswith(DOOR)
    return False


def _problems(door: psutil.Process) -> Iterator[str]:
    with suppress(psutil.Error):
        if door.nice() > os.getpriority(os.PRIO_PROCESS, 0):
            yield f"the door runs at niceness {door.nice()}, and so will the sessions of a tmux that it starts"
        for parent in door.parents():
            if parent.name() == "raylet" and parent.environ().get(SUBREAPER, "").lower() in ("1", "true"):
                yield "Ray's subreaper is on: it ends what doors started when they end"
