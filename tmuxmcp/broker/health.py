"""How the broker itself is."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import anyio

import tmuxmcp
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import TmuxMcpError, Unsupported
from tmuxmcp.contract.settings import BrokerSettings, SandboxWish
from tmuxmcp.machine import cgroup
from tmuxmcp.machine.ownfiles import state_id
from tmuxmcp.machine.sandbox import sandbox
from tmuxmcp.sessions.registry import Registry

LIMIT_SETTINGS = ("max_sessions", "max_calls", "max_wait_ms", "max_bytes", "max_input_bytes", "log_max_bytes")
"""The settings that a caller may run into."""

FREE_BYTES = 100 << 20
"""Less free space than this is too little: logs stop where the disk is full."""


async def check_health(registry: Registry, settings: BrokerSettings, *, uptime_s: float) -> r.HealthResult:
    """Versions, limits and checks."""
    sessions, tmux = await _look_at_tmux(registry)
    return r.HealthResult(
        version=tmuxmcp.__version__,
        tmux_version=registry.tmux.version,
        python_version=platform.python_version(),
        uptime_s=round(uptime_s, 3),
        machine_id=_machine_id(settings.state_dir),
        sessions=sessions,
        limits={name: getattr(settings, name) for name in LIMIT_SETTINGS},
        checks=[
            r.Check(name="state_dir", ok=True, message=str(settings.state_dir)),
            tmux,
            _look_at_disk(settings.state_dir),
            *await anyio.to_thread.run_sync(_confinement, settings.sandbox),
        ],
    )


def _machine_id(state_dir: Path) -> str | None:
    try:
        return state_id(state_dir)
    except OSError:  # a disk that is full, say: `checks` tells
        return None


async def _look_at_tmux(registry: Registry) -> tuple[int, r.Check]:
    """The number of live sessions, and whether tmux answers."""
    try:
        await registry.look_again()
    except TmuxMcpError as error:
        return 0, r.Check(name="tmux", ok=False, message=str(error))
    live = sum(1 for session in registry.sessions.values() if not session.exited)
    return live, r.Check(name="tmux", ok=True, message=f"{registry.tmux.binary} on {registry.tmux.socket}")


def _look_at_disk(path: Path) -> r.Check:
    free = shutil.disk_usage(path).free
    return r.Check(name="disk", ok=free > FREE_BYTES, message=f"{free >> 20} MiB free")


def _confinement(wish: SandboxWish) -> list[r.Check]:
    """What sessions can be bound by on this machine, and whether that is what the settings want."""
    try:
        sandbox.choose(wish)
        enough = True
    except Unsupported:
        enough = False
    return [
        r.Check(name="cgroup", ok=True, message=cgroup.describe(cgroup.places())),
        r.Check(name="sandbox", ok=enough, message=sandbox.describe()),
    ]
