"""Which sandbox something gets: the best that this machine can do, and what has to be done for it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.contract.settings import SandboxLevel, SandboxWish
from tmuxmcp.contract.value import field, value
from tmuxmcp.machine.sandbox import bubblewrap, landlock, seccomp
from tmuxmcp.machine.sandbox.project import Identity

WISHES: tuple[SandboxWish, ...] = ("none", "auto", "required")


@value
class SandboxScope:
    """What a sandbox is put around; paths are absolute."""

    writable: Mapping[str, Identity]
    """Real paths of what can be written to, and what they were when they were judged: nothing else is let in."""
    state_dir: str
    own: str
    """A directory of its own that is to be seen within, and can be written to."""
    temporary: str
    """Directory for temporary files in that one."""
    code: tuple[str, ...]
    """Where our start-up files lie, and what is run within before the program."""
    hidden: tuple[str, ...] = ()
    """Real paths of other directories that are not to be seen."""
    network: bool = True
    terminal: bool = True
    """Its standard input is a terminal of its own."""
    other_terminal: str = ""
    """The path of a terminal that is lent to it beside its own."""
    temporary_prefixes: Mapping[str, str] = field(default_factory=dict)
    """Variables of programs that take no notice of TMPDIR, and what their files in it begin with."""


@value
class Sandbox:
    """What is done for a sandbox."""

    level: SandboxLevel = "none"
    confine: list[tuple[str, str]] = field(default_factory=list)
    """Words of `confine.py`, for what becomes the program."""
    wrapper: list[str] = field(default_factory=list)
    """Words before those of what becomes the program within; empty: none is needed."""
    env: dict[str, str] = field(default_factory=dict)


NO_SANDBOX = Sandbox()


def tighter(one: SandboxWish, other: SandboxWish) -> SandboxWish:
    """The stricter wish: a caller cannot get out of what the settings say."""
    return max(one, other, key=WISHES.index)


def meets(level: SandboxLevel, wish: SandboxWish) -> bool:
    """Whether a session of this level is what the settings want."""
    short: dict[SandboxWish, tuple[SandboxLevel, ...]] = {
        "none": (),
        "auto": ("none",),
        "required": ("none", "limits", "landlock"),
    }
    return level not in short[wish]


def best() -> SandboxLevel:
    """The best level that this machine can do; each is tried, which takes some milliseconds, once."""
    if not why_no_bubblewrap():
        return "bubblewrap"
    return "limits" if why_no_landlock() else "landlock"


def why_no_bubblewrap() -> str:
    """Why this machine cannot do the best level; empty: it can."""
    bwrap = bubblewrap.find()
    if not bwrap:
        return "bubblewrap is not installed"
    try:
        why = bubblewrap.why_no_namespaces(bwrap)
    except subprocess.TimeoutExpired as late:
        return f"{bwrap} gave no answer within {late.timeout:g} s"
    if not why:
        return ""
    seen = "".join(f"; {each.what}" for each in bubblewrap.obstacles())
    return f"namespaces cannot be made here ({why}{seen})"


def why_no_landlock() -> str:
    """Why this machine cannot do the second best level; empty: it can."""
    try:
        return landlock.why_no_landlock() or _why_no_filter()
    except subprocess.TimeoutExpired as late:
        return f"Landlock was tried without an answer within {late.timeout:g} s"


def _why_no_filter() -> str:
    """Why no system call can be refused; empty: they can."""
    return "" if _filter(True, True, attach=True) else f"no filter of system calls is known for {platform.machine()}"


def describe() -> str:
    """What sandbox=auto gives here, and why not a better one."""
    level = best()
    if level != "bubblewrap":
        why = [why_no_bubblewrap(), *([why_no_landlock()] if level == "limits" else [])]
        return f"{level}: {'; '.join(why)}; sandbox=required is refused"
    if why_no_filter := _why_no_filter():
        return f"{level}: namespaces of its own, but {why_no_filter}; sandbox=required is refused"
    return f"{level}: namespaces of its own, users' as well; no switch of the kernel can be written to"


def choose(wish: SandboxWish, level: SandboxLevel | None = None) -> SandboxLevel:
    """The level that is reached.

    Raises:
        Unsupported: a sandbox is required, and this machine gives a session no user namespace of its own.
    """
    if wish == "none":
        return "none"
    level = level or best()
    if wish == "required" and (why := _falls_short(level)):
        raise Unsupported(
            f"sandbox=required: {why}.",
            hint=f"The person can {_remedy(level)}set sandbox=auto, which gives level {level} here.",
            level=level,
        )
    return level


def _falls_short(level: SandboxLevel) -> str:
    """Why a level is not what `required` asks for; empty: it is."""
    if level == "bubblewrap":
        return _why_no_filter()
    return why_no_bubblewrap() or "bubblewrap was not taken"


def _remedy(level: SandboxLevel) -> str:
    """What would make a better level possible, as the beginning of a choice; empty: nothing."""
    if level == "bubblewrap":
        return ""
    todo = [] if bubblewrap.find() else ["install bubblewrap"]
    todo += dict.fromkeys(each.allow for each in bubblewrap.obstacles())
    return f"{' and '.join(todo) or 'allow user namespaces'}, or "


def plan(level: SandboxLevel, around: SandboxScope) -> Sandbox:
    """What has to be done."""
    if level == "none":
        return NO_SANDBOX
    if level == "limits":
        words = [("no_new_privs", ""), ("drop_capabilities", "")]
        words += _filter(False, around.network, attach=False, limits_of_others=False)
        return Sandbox(level, words)
    readable = [os.path.realpath(path) for path in (*around.code, sys.prefix, sys.base_prefix)]
    if level == "landlock":
        return _landlock(around, readable)
    abi = landlock.version()
    inner = [("same", f"{device} {inode} {path}") for path, (device, inode) in around.writable.items()]
    inner.append(("no_new_privs", ""))
    if abi >= 6:
        inner += [landlock.ruleset(abi, files=False), ("enforce", "")]
    inner += _filter(True, True, attach=True)
    hidden = [around.state_dir, *around.hidden]
    hide = [*bubblewrap.EMPTY_DIRECTORIES, *hidden]
    wrapper = bubblewrap.argv(
        bubblewrap.find() or "bwrap",
        hidden=hidden,
        readable=[path for path in readable if any(Path(path).is_relative_to(each) for each in hide)],
        writable=[*around.writable, around.own],
        network=around.network,
        console=around.other_terminal,
    )
    return Sandbox(level, inner, [*wrapper, "--"], {"TMPDIR": "/tmp"})


def _landlock(around: SandboxScope, readable: list[str]) -> Sandbox:
    hidden = [os.path.realpath(path) for path in (around.state_dir, *bubblewrap.EMPTY_DIRECTORIES, *around.hidden)]
    words = [("no_new_privs", ""), ("drop_capabilities", "")]
    words += landlock.confining_words(
        landlock.version(),
        hidden=hidden,
        readable=readable,
        writable=[*around.writable, around.own],
        same=around.writable,
        terminal=around.terminal,
        other_terminal=around.other_terminal,
    )
    truncate = landlock.version() >= 3
    words += _filter(False, around.network, attach=True, limits_of_others=False, truncate=truncate)
    # zsh takes no notice of TMPDIR.
    env = {"TMPDIR": around.temporary}
    env |= {name: os.path.join(around.temporary, end) for name, end in around.temporary_prefixes.items()}
    return Sandbox("landlock", words, env=env)


def _filter(
    unix_sockets: bool, network: bool, *, attach: bool, limits_of_others: bool = True, truncate: bool = True
) -> list[tuple[str, str]]:
    code = seccomp.program(
        unix_sockets=unix_sockets,
        network=network,
        attach=attach,
        limits_of_others=limits_of_others,
        truncate=truncate,
    )
    return [("seccomp", code.hex())] if code else []
