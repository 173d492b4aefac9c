"""The key by which an attached person says that they have done what was asked. It never reaches the program.

It works in one client alone: the one that `tmuxmcp answer` has attached, whose process id an option of the pane names.
"""

from __future__ import annotations

import re
from contextlib import suppress

from tmuxmcp.errors import TmuxFailed
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

KEY = re.compile(r"(?:(?P<prefix>[CM]-[a-z]) )?(?P<key>(?:[CMS]-)*(?:[A-Za-z0-9]|F[0-9]{1,2}))\Z")
"""`C-b a`, `C-x d`, `F12`: tmux's own notation."""

PREFIX = "C-b"
"""As `tmux.conf` has it."""

TABLE = "tmuxmcp_answer"


async def bind(tmux: Tmux, key: str) -> None:
    """Give the key its meaning; for all clients, of whom it concerns one."""
    found = KEY.match(key)
    assert found, "the settings have checked it"
    ours = "#{&&:#{==:#{@tmuxmcp_answering},#{client_pid}},#{?client_readonly,,1}}"
    done = "set-option -p -F @tmuxmcp_answered '#{client_pid}' ; detach-client"
    other = "" if found["prefix"] else f"send-keys {found['key']}"
    table = {None: "root", PREFIX: "prefix"}.get(found["prefix"], TABLE)
    commands = [command("bind-key", "-T", table, found["key"], "if-shell", "-F", ours, done, other)]
    if table == TABLE:
        enter, pass_on = f"switch-client -T {TABLE}", f"send-keys {found['prefix']}"
        commands.append(command("bind-key", "-T", "root", found["prefix"], "if-shell", "-F", ours, enter, pass_on))
    await tmux.checked(*commands)


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
