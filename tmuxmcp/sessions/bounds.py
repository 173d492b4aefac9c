"""What a new session is bound by: its limits and who keeps each of them, its groups, its mark."""

from __future__ import annotations

import os
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from tmuxmcp.contract.call import joined_notes
from tmuxmcp.contract.errors import PolicyDenied
from tmuxmcp.contract.results import AppliedLimit, KeptBy
from tmuxmcp.contract.settings import SHORTCOMINGS, BrokerSettings, Limits, SandboxLevel, SandboxWish
from tmuxmcp.contract.value import field, fields, value
from tmuxmcp.machine import cgroup, processes
from tmuxmcp.machine.cgroup import rlimits
from tmuxmcp.machine.launch import launch
from tmuxmcp.machine.processes import NO_MARK, LimitMark, now_s
from tmuxmcp.machine.sandbox import sandbox
from tmuxmcp.machine.sandbox.project import Identity, Project, directories_to_hide, judge, roots_of
from tmuxmcp.machine.ssh.client import Destination, matches_any

BY_BROKER = ("duration_s",)
BY_CGROUP = ("cpu_percent",)
"""Nothing else can keep them."""


@value
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
            known = {each: values[each] for each in fields(cls) if each in values}
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
        rows = [*processes.rlimits(self.mark), *rlimits(given)]
        joined = [("group", directory) for directory in self.groups]
        return joined + [("limit", " ".join(map(str, row))) for row in rows]

    @property
    def applied(self) -> list[AppliedLimit]:
        """What a caller is told."""
        kept = {name: by for name, by in self.kept_by.items() if name in self.limits and by in get_args(KeptBy)}
        return [AppliedLimit(name=name, value=float(self.limits[name]), kept_by=by) for name, by in kept.items()]

    @property
    def note(self) -> str | None:
        """What a caller should know who believes in these limits, or in this sandbox."""
        said = []
        loose = [name for name, by in self.kept_by.items() if by == "nobody"]
        if loose:
            said.append(f"Not enforced here, as no cgroup keeps it and root has no such limit: {', '.join(loose)}.")
        if self.sandbox in SHORTCOMINGS:
            said.append(SHORTCOMINGS[self.sandbox])
        return joined_notes(*said)


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
        mark=processes.mark_of(key, server or "self"),
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


# ---- The boundary that the settings draw for what works in a sandbox -------------------------------------------------
#
# Where it works, and what it can write to.
#
# There is one for sessions and for what acts beside them.


def allows(settings: BrokerSettings, host: Destination) -> bool:
    """Whether settings allow a session on another machine, where no sandbox reaches."""
    return matches_any(host, settings.hosts_allow) if settings.hosts_allow else settings.sandbox == "none"


class Boundary:
    """What the settings say of sandboxes, with the roots as they are when it is made."""

    def __init__(self, settings: BrokerSettings) -> None:
        """Look the roots up.

        Raises:
            InvalidArgument: one that is named cannot be one; settings or tokens lie where no sandbox keeps them apart.
        """
        self.settings = settings
        self.roots: tuple[Project, ...] | None = None
        """Beneath them work is done in the settings' sandbox; None: the settings demand none."""
        if settings.sandbox != "none":
            self.hidden(())
            start = os.path.expanduser(settings.cwd) or "."
            self.roots = roots_of(settings.sandbox_roots, start, self._ours())

    @property
    def state_dir(self) -> Path:
        """The state directory by its real path, as sandboxes have to know it."""
        return self.settings.state_dir.resolve()

    def hidden(self, writable: Container[str]) -> tuple[str, ...]:
        """Directories of settings and tokens, which are not to be seen; but those of sandbox_write are given away.

        Raises:
            InvalidArgument: one of them holds what is needed in a sandbox.
        """
        return tuple(path for path in directories_to_hide(map(str, self.settings.own_files)) if path not in writable)

    def _ours(self) -> list[str]:
        settings = self.settings
        return [str(path) for path in (settings.state_dir, launch.PACKAGE_ROOT, *settings.own_files)]

    def level(self, wish: SandboxWish = "none") -> SandboxLevel:
        """The level of what a caller wants confined so much at least.

        Raises:
            Unsupported: a sandbox is required, and this machine can do none that keeps files apart.
        """
        return sandbox.choose(sandbox.tighter(wish, self.settings.sandbox))

    def project(self, given: str, where: str, own: str) -> tuple[str, dict[str, Identity], str | None]:
        """Where something in a sandbox works, what it can write to, and what its caller should know of that.

        Args:
            given: the directory that the caller gave, if one.
            where: the same, or what the settings say.
            own: an empty directory, for what can work nowhere else.

        Raises:
            PolicyDenied: it may not work in the directory that the caller gave.
        """
        writable = self.beside()
        try:
            project = judge(where, self._ours())
            path, closed = project.path, project.closed
            if not closed and self.roots is not None and not project.lies_in(self.roots):
                closed = self._outside()
        except OSError as error:
            path, closed = where, f"it cannot be looked at ({error.strerror})"
        if not closed:
            return path, writable | {path: project.identity}, None
        if given:
            raise PolicyDenied(
                f"What is in a sandbox cannot work in {path}: {closed}.",
                hint="Give the directory of a project as cwd." if self.roots != () else "Leave cwd out.",
            )
        notice = f"It works in an empty directory of its own, as in a sandbox it cannot work in {path}: {closed}."
        return own, writable, notice + (" To work elsewhere, give another cwd." if self.roots != () else "")

    def _outside(self) -> str:
        """Why a directory beneath none of the roots is no project."""
        if not self.roots:
            return "there is no directory for that, unless the person names some in sandbox_roots"
        return f"it lies in none of sandbox_roots ({', '.join(root.path for root in self.roots)})"

    def everywhere(self) -> dict[str, Identity]:
        """All that some session in the settings' sandbox could write to: the roots that are in place, and `beside`.

        Raises:
            PolicyDenied: as `beside`.
        """
        writable = self.beside()
        for root in self.roots or ():
            with suppress(OSError):
                if judge(root.path, self._ours()).identity == root.identity:
                    writable[root.path] = root.identity
        return writable

    def beside(self) -> dict[str, Identity]:
        """What `sandbox_write` names, as far as it is there.

        Raises:
            PolicyDenied: one of them is a link, which a session may have made, to where none may write.
        """
        found: dict[str, Identity] = {}
        for path in self.settings.sandbox_write:
            with suppress(OSError):  # nothing there, or nothing that we could write to
                target = judge(path, self._ours())
                if target.closed and target.path != path:
                    raise PolicyDenied(
                        f"No sandbox is made: {path} of sandbox_write leads to {target.path}, and {target.closed}.",
                        hint="If it shall be written to, the person names it by its real path in sandbox_write.",
                    )
                found[target.path] = target.identity
        found.pop("/", None)
        return found
