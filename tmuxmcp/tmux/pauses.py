"""Pausing panes: one, or all at once and those that are made later. It needs no connection that stays."""

from __future__ import annotations

from tmuxmcp.contract.errors import SessionNotFound, TmuxFailed
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.tmux.control import command, sequence
from tmuxmcp.tmux.held import Lease
from tmuxmcp.tmux.server import Tmux

PAUSED_OPTION, ALL_PAUSED_OPTION = "@tmuxmcp_paused", "@tmuxmcp_paused_all"

_PAUSE_FORMAT = f"#{{pane_id}}|#{{{PAUSED_OPTION}}}|#{{{ALL_PAUSED_OPTION}}}|#{{@tmuxmcp_id}}"


@dataclass(frozen=True)
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


def panes(tmux: Tmux, *then: str) -> list[Pause]:
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
    return panes(tmux, "set-option", "-goq", ALL_PAUSED_OPTION, lease.option)


def resume_all(tmux: Tmux) -> list[Pause]:
    """Resume all panes, also those that were paused one by one; they as they were before that.

    Raises:
        TmuxFailed
    """
    before = panes(tmux)
    own = [
        word
        for each in before
        if each.own
        for word in (";", "set-option", "-p", "-u", "-t", each.pane_id, PAUSED_OPTION)
    ]
    panes(tmux, "set-option", "-gu", ALL_PAUSED_OPTION, *own)
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
    known = panes(tmux)
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
