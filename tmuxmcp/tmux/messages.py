"""The people who look at a pane in a tmux of theirs: told something in its status line."""

from __future__ import annotations

import os
import re

from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

SHOWN_MS = 15_000
"""How long a message stands there, if no key is pressed."""

HARMLESS = re.compile(r"[A-Za-z0-9_ :.,-]*\Z")
"""What a message may hold: tmux takes it for a format, and a format can run programs."""

_NAME = re.compile(r"[A-Za-z0-9/_.-]+\Z")
"""Of a client: the path of its terminal."""


async def tell(tmux: Tmux, pane: Pane, text: str) -> int:
    """Show a message to everybody who is attached to the pane's tmux session; how many those are.

    Raises:
        TmuxFailed: tmux does not answer.
    """
    assert HARMLESS.match(text), text
    form = "#{client_control_mode}|#{client_name}"
    reply = await tmux.query(command("list-clients", "-t", pane.tmux_session_id, "-F", form))
    rows = [os.fsdecode(line).partition("|") for line in reply.lines]
    names = [name for control, _, name in rows if control == "0" and _NAME.match(name)]
    for name in names:  # one that has gone meanwhile is told nothing
        await tmux.request(command("display-message", "-c", name, "-d", str(SHOWN_MS), text))
    return len(names)
