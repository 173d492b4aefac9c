"""Which sandbox a session gets: the best that this machine can do, and what the launcher has to do for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tmuxmcp.contract.limits import Level, Wish
from tmuxmcp.errors import Unsupported
from tmuxmcp.host import bubblewrap, landlock, seccomp
from tmuxmcp.host.project import Identity

WISHES: tuple[Wish, ...] = ("none", "auto", "required")


@dataclass(frozen=True)
class Around:
    """What a sandbox is put around; paths are absolute."""

    writable: Mapping[str, Identity]
    """Real paths of what can be written to, and what they were when they were judged: nothing else is let in."""
    state_dir: str
    own: str
    """The session's own directory in it that is to be seen within."""
    temporary: str
    """Directory for temporary files in that one."""
    code: str
    """Where our start-up files and the launcher's step are."""
    network: bool = True
    temporary_prefixes: Mapping[str, str] = field(default_factory=dict)
    """Variables of programs that take no notice of TMPDIR, and what their files in it begin with."""


@dataclass(frozen=True)
class Sandbox:
    """What the launcher does for a sandbox."""

    level: Level = "none"
    confine: list[tuple[str, str]] = field(default_factory=list)
    """Words of `confine.py`, for the step that becomes the program."""
    wrapper: list[str] = field(default_factory=list)
    """Words before the program's; empty: none is needed."""
    env: dict[str, str] = field(default_factory=dict)


def tighter(one: Wish, other: Wish) -> Wish:
    """The stricter wish: a caller cannot get out of what the settings say."""
    return max(one, other, key=WISHES.index)


def meets(level: Level, wish: Wish) -> bool:
    """Whether a session of this level is what the settings want."""
    short: dict[Wish, tuple[Level, ...]] = {"none": (), "auto": ("none",), "required": ("none", "limits")}
    return level not in short[wish]


@cache
def best() -> Level:
    """The best level that this machine can do; bubblewrap is tried, which takes some milliseconds, once."""
    bwrap = bubblewrap.find()
    if bwrap and bubblewrap.works(bwrap):
        return "bubblewrap"
    if landlock.version() and _filter(unix_sockets=False, network=True, ptrace=True):
        return "landlock"
    return "limits"


def describe() -> str:
    """What sandbox=auto gives here, and why not a better one."""
    level = best()
    if level == "bubblewrap":
        return level
    why = "bwrap cannot make namespaces here" if bubblewrap.find() else "bubblewrap is not installed"
    return f"{level}: {why}" + ("" if level == "landlock" else ", and the kernel has no Landlock")


def choose(wish: Wish, level: Level | None = None) -> Level:
    """The level that a session gets.

    Raises:
        Unsupported: a sandbox is required, and this machine can do none that keeps files apart.
    """
    if wish == "none":
        return "none"
    level = level or best()
    if wish == "required" and level == "limits":
        raise Unsupported(
            "sandbox=required: neither bubblewrap runs here nor has the kernel Landlock.",
            hint="Install bubblewrap and allow user namespaces, or run tmuxmcp in a container and take sandbox=auto.",
            level=level,
        )
    return level


def plan(level: Level, around: Around) -> Sandbox:
    """What the launcher has to do."""
    if level == "none":
        return Sandbox()
    if level == "limits":
        words = [("no_new_privs", ""), ("drop_capabilities", ""), *_filter(False, around.network, ptrace=False)]
        return Sandbox(level, words)
    readable = [os.path.realpath(path) for path in (around.code, sys.prefix, sys.base_prefix)]
    if level == "landlock":
        return _landlock(around, readable)
    abi = landlock.version()
    inner = [("same", f"{device} {inode} {path}") for path, (device, inode) in around.writable.items()]
    inner.append(("no_new_privs", ""))
    if abi >= 6:
        inner += [landlock.ruleset(abi, files=False), ("enforce", "")]
    inner += _filter(True, True, ptrace=True)
    hide = [*bubblewrap.OWN, around.state_dir]
    wrapper = bubblewrap.argv(
        bubblewrap.find() or "bwrap",
        hidden=[around.state_dir],
        readable=[path for path in readable if any(Path(path).is_relative_to(each) for each in hide)],
        writable=[*around.writable, around.own],
        network=around.network,
    )
    step = [sys.executable, "-I", "-S", os.path.join(around.code, "step.py"), "inside"]
    return Sandbox(level, inner, [*wrapper, "--", *step], {"TMPDIR": "/tmp"})


def _landlock(around: Around, readable: list[str]) -> Sandbox:
    hidden = [os.path.realpath(path) for path in (around.state_dir, *bubblewrap.OWN)]
    words = [("no_new_privs", ""), ("drop_capabilities", "")]
    words += landlock.words(
        landlock.version(),
        hidden=hidden,
        readable=readable,
        writable=[*around.writable, around.own],
        same=around.writable,
    )
    words += _filter(False, around.network, ptrace=True, truncate=landlock.version() >= 3)
    # zsh takes no notice of TMPDIR.
    env = {"TMPDIR": around.temporary}
    env |= {name: os.path.join(around.temporary, end) for name, end in around.temporary_prefixes.items()}
    return Sandbox("landlock", words, env=env)


def _filter(unix_sockets: bool, network: bool, ptrace: bool, truncate: bool = True) -> list[tuple[str, str]]:
    code = seccomp.program(unix_sockets=unix_sockets, network=network, ptrace=ptrace, truncate=truncate)
    return [("seccomp", code.hex())] if code else []
