"""How many calls of one client go on at once. Calls that only wait cost next to nothing: they count apart.

Then what is told of calls: their spans, and the health of the broker.
"""

from __future__ import annotations

import platform
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

import tmuxmcp
from tmuxmcp import __version__
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import SMALL_ANSWER_BYTES, Call, joined_notes
from tmuxmcp.contract.errors import ResourceLimit, TmuxMcpError, Unsupported
from tmuxmcp.contract.request import Request
from tmuxmcp.contract.requests import Read, Wait
from tmuxmcp.contract.results import CallsGoingOn, Result
from tmuxmcp.contract.settings import BrokerSettings, SandboxWish
from tmuxmcp.contract.value import asdict, fields, replace
from tmuxmcp.machine import cgroup
from tmuxmcp.machine.ownfiles import state_id
from tmuxmcp.machine.sandbox import sandbox
from tmuxmcp.sessions.registry import Registry

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

WAITS_PER_CALL = 16
"""So many waits are let go on for each call that may."""

NEAR_LIMIT = 0.75
"""From this part of the limit on, answers say so."""


def only_waits(request: Request[Any]) -> bool:
    """Whether a call does little more than to wait; what was left out of it is filled in.

    A wait whose answer may be long does more: a thousand may end at the same moment.
    """
    match request:
        case Wait():
            return request.timeout_ms > 0
        case Read():
            return request.wait_for != "none" and request.max_bytes <= SMALL_ANSWER_BYTES
    return False


class Admission:
    """Counts the calls of each client that go on at this moment."""

    def __init__(self, max_calls: int) -> None:
        self.max_calls, self.max_waits = max_calls, max_calls * WAITS_PER_CALL
        self._calls: Counter[str] = Counter()
        self._waits: Counter[str] = Counter()

    @contextmanager
    def admit(self, call: Call, *, waits: bool = False) -> Iterator[None]:
        """While this is open, the call counts.

        Args:
            waits: it only waits.

        Raises:
            ResourceLimit: its client has too many.
        """
        going_on, most, kind = (
            (self._waits, self.max_waits, "waits") if waits else (self._calls, self.max_calls, "calls")
        )
        if going_on[call.caller] >= most:
            allows = f"{WAITS_PER_CALL} times max_calls" if waits else "max_calls"
            raise ResourceLimit(
                f"{most} {kind} of this client go on at once, as many as {allows} allows.",
                hint="Wait until one of them has returned. `wait` waits for many sessions in one call.",
                limit="max_calls",
                **asdict(self.going_on(call.caller)),
            )
        going_on[call.caller] += 1
        try:
            yield
        finally:
            going_on[call.caller] -= 1
            if not going_on[call.caller]:
                del going_on[call.caller]

    def going_on(self, caller: str) -> CallsGoingOn:
        """How many calls of a client go on, and how many may."""
        return CallsGoingOn(
            calls=self._calls[caller],
            waits=self._waits[caller],
            most_calls=self.max_calls,
            most_waits=self.max_waits,
        )

    def with_limit_note(self, result: Result, caller: str) -> Result:
        """A result, with a note if its client comes near the limit."""
        near = [
            f"{going_on[caller]} of {most} {kind}"
            for going_on, most, kind in ((self._calls, self.max_calls, "calls"), (self._waits, self.max_waits, "waits"))
            if most > 1 and going_on[caller] >= most * NEAR_LIMIT
        ]
        if not near or "note" not in fields(result):
            return result
        warning = f"{' and '.join(near)} of this client go on at once: more are refused (max_calls)."
        return replace(result, note=joined_notes(getattr(result, "note", None), warning))


# ---- A span of OpenTelemetry for each operation ----------------------------------------------------------------------
#
# What was called, with which id, how it ended. Nothing of its content.
#
# Who serves says where spans go (`faces/metrics.py`); a program that uses the broker as a library brings its own
# provider.


def tracer() -> Tracer:
    """What makes the spans; they go nowhere until the process has a provider of OpenTelemetry's SDK."""
    from opentelemetry.trace import get_tracer

    return get_tracer("tmuxmcp", __version__)


@contextmanager
def span(made_by: Tracer, request: Request[Any], call: Call) -> Iterator[None]:
    """While this is open, the operation goes on. It is within the span of the MCP request, which the SDK makes."""
    from opentelemetry.trace import StatusCode

    attributes = {"tmuxmcp.call_id": call.call_id, "tmuxmcp.operation": request.operation.name}
    if request.session:
        attributes["tmuxmcp.session_id"] = request.session
    with made_by.start_as_current_span(
        f"tmuxmcp {request.operation.name}",
        attributes=attributes,
        record_exception=False,  # its message may hold what was typed
        set_status_on_exception=False,
    ) as begun:
        try:
            yield
        except BaseException as error:
            code = error.code if isinstance(error, TmuxMcpError) else type(error).__name__
            begun.set_attribute("error.type", code)
            begun.set_status(StatusCode.ERROR)
            raise


# ---- How the broker itself is ----------------------------------------------------------------------------------------

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
