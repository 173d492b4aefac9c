"""Taking a pane over, and giving it back: each one guarded command list, so that tmux does all of it or nothing."""

from __future__ import annotations

from tmuxmcp.tmux import panes
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.held import Lease
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux


async def take(tmux: Tmux, pane: Pane, lease: Lease, before: Lease | None) -> bool:
    """Have somebody hold a pane; False: it is held by another than before, or gone."""
    change = command("set-option", "-p", "-t", pane.pane_id, "@tmuxmcp_taken", lease.option)
    return await panes.guarded(tmux, pane, change, condition=_held_as(before)) is not None


async def release(tmux: Tmux, pane: Pane, lease: Lease) -> bool:
    """Give a pane back; False: nobody holds it so any more."""
    change = command("set-option", "-p", "-u", "-t", pane.pane_id, "@tmuxmcp_taken")
    return await panes.guarded(tmux, pane, change, alive=False, condition=_held_as(lease)) is not None


def _held_as(lease: Lease | None) -> str:
    """A format that holds while the option says just this; of what we have not written, that it says something."""
    if lease is not None and lease.since_s is None:
        return "#{!=:#{@tmuxmcp_taken},}"
    return f"#{{==:#{{@tmuxmcp_taken}},{lease.option if lease else ''}}}"
