"""Taking a pane over, and giving it back: each one guarded command list, so that tmux does all of it or nothing.

A pane is also given back while no broker runs: by a key, and when the terminal client that took it goes. tmux does that
itself. Every give-back stands in an option of the pane until a broker has written it down.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path

from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.tmux import panes, personkey
from tmuxmcp.tmux.control import command, sequence
from tmuxmcp.tmux.held import Lease
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

GIVEN_TEXT = "Given back: agents may type again, you watch."
"""What a person reads who has pressed the key."""

_CLOCK_FORMAT = "#{T:@tmuxmcp_clock}"
"""The time in whole seconds: a format of tmux expands strftime only in the value of an option."""

_CLIENT_NAME = re.compile(r"[A-Za-z0-9/_.-]{1,100}")
"""Names of terminal clients, which are paths of terminals, that may enter a format."""

_IS_HELD = "#{!=:#{@tmuxmcp_taken},}"


@dataclass(frozen=True)
class AttachedClient:
    """A terminal that is attached to one of our sessions."""

    name: str
    pid: int
    may_type: bool
    active_s: float
    """When a key was last pressed in it, or it was attached, in seconds since 1970."""
    session_id: str


@dataclass(frozen=True)
class GiveBackRule:
    """How tmux gives back what is taken."""

    log: Path
    """Every broker looks at a session when somebody has opened and closed its log."""
    tty: str = ""
    """When the client goes that is attached at this terminal; empty: none took it."""
    key: str = ""
    """By which key, as the setting `take_key` has it; empty: none."""


async def clients(tmux: Tmux) -> list[AttachedClient]:
    """All terminals that are attached to our sessions."""
    form = "#{client_pid} #{client_readonly} #{client_activity} #{@tmuxmcp_id} #{client_name}"
    reply = await tmux.query(command("list-clients", "-F", form))
    found = [os.fsdecode(line).split(" ", 4) for line in reply.lines]
    return [
        AttachedClient(words[4], int(words[0]), words[1] != "1", float(words[2]), words[3])
        for words in found
        if len(words) == 5 and words[3]
    ]


async def take(tmux: Tmux, pane: Pane, lease: Lease, before: Lease | None, *, how: GiveBackRule, now_s: float) -> bool:
    """Have somebody hold a pane; False: it is held by another than before, or gone.

    Args:
        how: what gives it back.
        now_s: in seconds since 1970.
    """
    target = ("-t", pane.pane_id)
    commands = [
        command("set-option", "-p", *target, "@tmuxmcp_taken", lease.option),
        command("set-option", "-p", *target, "@tmuxmcp_held_at", str(int(now_s))),
        command("set-option", "-p", *target, "@tmuxmcp_wake", _wake(how.log)),
        command("set-option", "-g", "@tmuxmcp_clock", "%s"),
        command("set-hook", "-gu", _hook(pane)),
    ]
    if _CLIENT_NAME.fullmatch(how.tty):
        gone = f"#{{&&:#{{==:#{{hook_client}},{how.tty}}},{held_as(lease)}}}"
        given = command("if-shell", "-F", *target, gone, sequence(*_give(pane.pane_id, "detach", _CLOCK_FORMAT)))
        commands.append(command("set-hook", "-g", _hook(pane), given))
    commands += _bindings(how.key)
    return await panes.guarded(tmux, pane, *commands, condition=held_as(before)) is not None


async def release(tmux: Tmux, pane: Pane, lease: Lease, reason: str, now_s: float) -> bool:
    """Give a pane back; the terminal that took it watches from then on. False: nobody holds it so any more.

    Args:
        reason: `release`, `detach` or `timeout`.
        now_s: in seconds since 1970.
    """
    steps = [*_give(pane.pane_id, reason, f"{now_s:.3f}"), command("set-hook", "-gu", _hook(pane))]
    given = await panes.guarded(tmux, pane, *steps, alive=False, condition=held_as(lease)) is not None
    if given and lease.terminal:
        for each in await clients(tmux):
            if each.pid == lease.terminal and _CLIENT_NAME.fullmatch(each.name):
                with suppress(TmuxFailed):
                    await tmux.request(command("refresh-client", "-t", each.name, "-f", "read-only"))
    return given


async def forget_given(tmux: Tmux, pane: Pane) -> None:
    """Have tmux forget what was written down of give-backs, unless there was one more."""
    same = f"#{{==:#{{@tmuxmcp_given}},{pane.given}}}" if re.fullmatch(r"[A-Za-z0-9_.; -]*", pane.given) else ""
    forget = command("set-option", "-p", "-u", "-t", pane.pane_id, "@tmuxmcp_given")
    await panes.guarded(tmux, pane, forget, alive=False, condition=same)


async def touch(tmux: Tmux, pane: Pane, now_s: float) -> None:
    """Write down that who holds a pane was active just now."""
    await panes.set_option(tmux, pane, "held_at", str(int(now_s)), _IS_HELD)


def held_as(lease: Lease | None) -> str:
    """A format that holds while the option says just this; of what we have not written, that it says something."""
    if lease is not None and lease.since_s is None:
        return _IS_HELD
    return f"#{{==:#{{@tmuxmcp_taken}},{lease.option if lease else ''}}}"


def _give(pane_id: str, reason: str, at: str) -> list[bytes]:
    """The commands that give a pane back; of an empty id, the one of the terminal in which a key was pressed."""
    target = ("-t", pane_id) if pane_id else ()
    return [
        command("set-option", "-p", "-F", "-a", *target, "@tmuxmcp_given", f"#{{@tmuxmcp_taken}} {at} {reason};"),
        command("set-option", "-p", "-u", *target, "@tmuxmcp_taken"),
        command("run-shell", "-b", *target, "#{@tmuxmcp_wake}"),
    ]


def _wake(log: Path) -> str:
    """A shell command that has every broker look at the session; it prints nothing and never fails.

    tmux inserts it into a format as it is: what an option holds is not expanded again.
    """
    path = shlex.quote(str(log))
    return f"{{ [ -e {path} ] && : >> {path}; }} 2>/dev/null; :"


def _hook(pane: Pane) -> str:
    """The place of a pane's hook: another pane has another number."""
    return f"client-detached[{pane.pane_id.removeprefix('%')}]"


def _bindings(key: str) -> list[bytes]:
    """The commands that bind the key by which a person gives back; where nothing is held, it is what it was."""
    if not key:
        return []
    watch = command("refresh-client", "-f", "read-only")
    give = sequence(*_give("", "key", _CLOCK_FORMAT), watch, command("display-message", GIVEN_TEXT))
    return [personkey.bound(key, f"#{{&&:{personkey.MAY_TYPE},{_IS_HELD}}}", give)]
