"""The people who look at a pane in a tmux of theirs: told something in its status line."""

from __future__ import annotations

import os
import re

from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

SHOWN_MS = 15_000
"""How long a message stands there, if no key is pressed."""

HARMLESS_TEXT = re.compile(r"[A-Za-z0-9_ :.,-]*\Z")
"""What a message may hold: tmux takes it for a format, and a format can run programs."""

_CLIENT_NAME = re.compile(r"[A-Za-z0-9/_.-]+\Z")
"""Of a client: the path of its terminal."""


async def tell(tmux: Tmux, pane: Pane, text: str, to_typing: str) -> int:
    """Show a message to everybody who is attached to the pane's tmux session; how many those are.

    Args:
        to_typing: what those are told who may type.

    Raises:
        TmuxFailed: tmux does not answer.
    """
    for words in (text, to_typing):
        assert HARMLESS_TEXT.match(words), words
    form = "#{client_control_mode}|#{client_readonly}|#{client_name}"
    reply = await tmux.query(command("list-clients", "-t", pane.tmux_session_id, "-F", form))
    rows = [os.fsdecode(line).split("|", 2) for line in reply.lines]
    people = [(row[2], row[1] == "1") for row in rows if row[0] == "0" and _CLIENT_NAME.match(row[2])]
    for name, watches in people:  # one that has gone meanwhile is told nothing
        shown = text if watches else to_typing
        await tmux.request(command("display-message", "-c", name, "-d", str(SHOWN_MS), shown))
    return len(people)
