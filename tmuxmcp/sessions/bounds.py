"""What a new session is bound by: its limits and who keeps each of them, its groups, its mark."""

from __future__ import annotations

import os
from dataclasses import field, fields
from typing import Any, get_args

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.results import AppliedLimit, KeptBy
from tmuxmcp.contract.settings import SHORTCOMINGS, Limits, SandboxLevel
from tmuxmcp.machine import cgroup
from tmuxmcp.machine import processes as inherited
from tmuxmcp.machine.cgroup import rlimits
from tmuxmcp.machine.processes import NO_MARK, LimitMark, now_s

BY_BROKER = ("duration_s",)
BY_CGROUP = ("cpu_percent",)
"""Nothing else can keep them."""


@dataclass(frozen=True)
class SessionBounds:
    """How a session is held; `meta.json` keeps it, as any broker may have to end the session."""

    limits: dict[str, float] = field(default_factory=dict)
    kept_by: dict[str, KeptBy] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    """Directories of its control groups."""
    mark: LimitMark = NO_MARK
    """By which its processes are found that have left everything else."""
    sandbox: SandboxLevel = "none"
    born_s: float = 0
    """When it was made, by `processes.now_s`: none of its processes is older."""

    @classmethod
    def of(cls, values: dict[str, Any]) -> SessionBounds:
        """As read from a file; what another version put there and is not known here is left out.

        A sandbox that is not known counts as none, and a limit whose keeper is not known is not told: nobody shall
        rely on what cannot be judged here.
        """
        try:
            known = {each.name: values[each.name] for each in fields(cls) if each.name in values}
            if known.get("sandbox") not in get_args(SandboxLevel):
                known.pop("sandbox", None)
            signals, queues = values.get("mark", NO_MARK)
            return cls(**{**known, "mark": (signals, queues)})
        except (AttributeError, TypeError, ValueError):
            return cls()

    @property
    def confine(self) -> list[tuple[str, str]]:
        """What the launcher's step does (`confine.py`)."""
        given = Limits.model_validate({name: self.limits[name] for name, by in self.kept_by.items() if by == "rlimit"})
        rows = [*inherited.rlimits(self.mark), *rlimits(given)]
        joined = [("group", directory) for directory in self.groups]
        return joined + [("limit", " ".join(map(str, row))) for row in rows]

    @property
    def applied(self) -> list[AppliedLimit]:
        """What a caller is told."""
        kept = {name: by for name, by in self.kept_by.items() if name in self.limits and by in get_args(KeptBy)}
        return [AppliedLimit(name=name, value=self.limits[name], kept_by=by) for name, by in kept.items()]

    @property
    def note(self) -> str | None:
        """What a caller should know who believes in these limits, or in this sandbox."""
        said = []
        loose = [name for name, by in self.kept_by.items() if by == "nobody"]
        if loose:
            said.append(f"Not enforced here, as no cgroup keeps it and root has no such limit: {', '.join(loose)}.")
        if self.sandbox in SHORTCOMINGS:
            said.append(SHORTCOMINGS[self.sandbox])
        return " ".join(said) or None


def bind(limits: Limits, key: str, server: int, sandbox: SandboxLevel) -> SessionBounds:
    """Make a session's groups, and say who keeps which limit.

    Args:
        key: what the session's processes are known by (`launch.session_mark`).
        server: process id of the tmux server, below whose groups the session's are.
    """
    groups = cgroup.make(cgroup.places(server or "self"), key, limits)
    given = limits.model_dump(exclude_none=True)
    return SessionBounds(
        limits=given,
        kept_by={name: _keeper(name, groups) for name in given},
        groups=list(groups.directories),
        mark=inherited.mark_of(key, server or "self"),
        sandbox=sandbox,
        born_s=now_s(),
    )


def _keeper(name: str, groups: cgroup.Groups) -> KeptBy:
    if name in groups.kept:
        return "cgroup"
    if name in BY_BROKER:
        return "broker"
    if name in BY_CGROUP or (name == "processes" and os.geteuid() == 0):
        return "nobody"
    return "rlimit"
