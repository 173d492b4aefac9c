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

from tmuxmcp.contract.errors import SessionNotFound, TmuxFailed
from tmuxmcp.contract.value import value
from tmuxmcp.tmux import answerkey, panes
from tmuxmcp.tmux.control import command, sequence
from tmuxmcp.tmux.leaseoptions import Lease
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

GIVEN_TEXT = "Given back: agents may type again, you watch."
"""What a person reads who has pressed the key."""

_CLOCK_FORMAT = "#{T:@tmuxmcp_clock}"
"""The time in whole seconds: a format of tmux expands strftime only in the value of an option."""

_CLIENT_NAME = re.compile(r"[A-Za-z0-9/_.-]{1,100}")
"""Names of terminal clients, which are paths of terminals, that may enter a format."""

_IS_HELD = "#{!=:#{@tmuxmcp_taken},}"


@value
class AttachedClient:
    """A terminal that is attached to one of our sessions."""

    name: str
    pid: int
    may_type: bool
    active_s: float
    """When a key was last pressed in it, or it was attached, in seconds since 1970."""
    session_id: str


@value
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
    return [answerkey.bound(key, f"#{{&&:{answerkey.MAY_TYPE},{_IS_HELD}}}", give)]


# ---- Pausing panes: one, or all at once and those that are made later. It needs no connection that stays -------------

PAUSED_OPTION, ALL_PAUSED_OPTION = "@tmuxmcp_paused", "@tmuxmcp_paused_all"

_PAUSE_FORMAT = f"#{{pane_id}}|#{{{PAUSED_OPTION}}}|#{{{ALL_PAUSED_OPTION}}}|#{{@tmuxmcp_id}}"


@value
class Pause:
    """How a pane is paused."""

    session_id: str
    pane_id: str
    own: Lease | None
    """By itself."""
    all: Lease | None
    """With all others."""

    @property
    def lease(self) -> Lease | None:
        """What holds it; None: it is not paused."""
        return self.own or self.all


def pauses(tmux: Tmux, *then: str) -> list[Pause]:
    """How each of our panes is paused, before commands that come in the same breath.

    Raises:
        TmuxFailed: tmux did not do it.
    """
    done = tmux.run("list-panes", "-a", "-F", _PAUSE_FORMAT, *([";"] if then else []), *then)
    # The return code says nothing in a host program that waits for all its children.
    if done.stderr:
        raise TmuxFailed(f"tmux refused: {done.stderr.strip()}.")
    rows = [line.split("|") for line in done.stdout.splitlines()]
    return [Pause(row[3], row[0], Lease.parse(row[1]), Lease.parse(row[2])) for row in rows if len(row) == 4 and row[3]]


def pause_all(tmux: Tmux, lease: Lease) -> list[Pause]:
    """Pause all panes, and those that are made later; they as they were before that.

    Raises:
        TmuxFailed
    """
    # -o: what is paused already stays paused since then.
    return pauses(tmux, "set-option", "-goq", ALL_PAUSED_OPTION, lease.option)


def resume_all(tmux: Tmux) -> list[Pause]:
    """Resume all panes, also those that were paused one by one; they as they were before that.

    Raises:
        TmuxFailed
    """
    before = pauses(tmux)
    own = [
        word
        for each in before
        if each.own
        for word in (";", "set-option", "-p", "-u", "-t", each.pane_id, PAUSED_OPTION)
    ]
    pauses(tmux, "set-option", "-gu", ALL_PAUSED_OPTION, *own)
    return before


def pause(tmux: Tmux, session_id: str, lease: Lease) -> Pause:
    """Pause one pane; it as it was before that.

    Raises:
        SessionNotFound, TmuxFailed
    """
    return _change(tmux, session_id, command("set-option", "-p", "-oq", "-t", "%s", PAUSED_OPTION, lease.option))


def resume(tmux: Tmux, session_id: str) -> Pause:
    """Resume one pane, unless all are paused; it as it was before that.

    Raises:
        SessionNotFound, TmuxFailed
    """
    return _change(tmux, session_id, command("set-option", "-p", "-u", "-t", "%s", PAUSED_OPTION))


def _change(tmux: Tmux, session_id: str, change: bytes) -> Pause:
    """Change one pane, if it still is the session's."""
    known = pauses(tmux)
    found = next((each for each in known if each.session_id == session_id), None)
    if found is None:
        raise SessionNotFound(
            f"There is no session {session_id!r} that runs.",
            hint=f"Sessions are: {', '.join(sorted(each.session_id for each in known)) or 'none'}.",
            session_id=session_id,
        )
    same = f"#{{==:#{{@tmuxmcp_id}},{session_id}}}"
    then = sequence(change.replace(b"%s", found.pane_id.encode()), command("display-message", "-p", "ok"))
    done = tmux.run("if-shell", "-F", "-t", found.pane_id, same, then.decode())
    if done.stdout != "ok\n":
        raise TmuxFailed(f"Session {session_id} changed at this moment: {done.stderr.strip() or 'nothing was done'}.")
    return found
