"""The key by which an attached person says that they have done what was asked. It never reaches the program.

It works in one client alone: the one that `tmuxmcp answer` has attached, whose process id an option of the pane names.
"""

from __future__ import annotations

from contextlib import suppress

from tmuxmcp.errors import TmuxFailed
from tmuxmcp.tmux import panes, personkey
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux


async def bind(tmux: Tmux, key: str) -> None:
    """Give the key its meaning; for all clients, of whom it concerns one."""
    ours = f"#{{&&:#{{==:#{{@tmuxmcp_answering}},#{{client_pid}}}},{personkey.MAY_TYPE}}}"
    done = "set-option -p -F @tmuxmcp_answered '#{client_pid}' ; detach-client"
    await tmux.checked(personkey.bound(key, ours, done))


async def listen(tmux: Tmux, pane: Pane, client_pid: int) -> None:
    """Have the key work in one client that shows the pane."""
    await panes.guarded(
        tmux,
        pane,
        command("set-option", "-p", "-u", "-t", pane.pane_id, "@tmuxmcp_answered"),
        command("set-option", "-p", "-t", pane.pane_id, "@tmuxmcp_answering", str(client_pid)),
        alive=False,
    )


async def was_pressed(tmux: Tmux, pane: Pane, client_pid: int) -> bool:
    """Whether the key was pressed in that client; from now on it does nothing there."""
    with suppress(TmuxFailed):
        printed = await panes.guarded(
            tmux,
            pane,
            command("display-message", "-p", "-t", pane.pane_id, "#{@tmuxmcp_answered}"),
            command("set-option", "-p", "-u", "-t", pane.pane_id, "@tmuxmcp_answering"),
            command("set-option", "-p", "-u", "-t", pane.pane_id, "@tmuxmcp_answered"),
            alive=False,
        )
        return bool(printed) and printed is not None and printed[0] == str(client_pid)
    return False
