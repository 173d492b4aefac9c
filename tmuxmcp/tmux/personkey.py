"""Keys by which an attached person says something to us: in their terminal, and never to the program in the pane."""

from __future__ import annotations

from tmuxmcp.tmux.control import command

MAY_TYPE = "#{?client_readonly,,1}"
"""A format that holds in a client that does not merely watch."""


def bound(key: str, concerned: str, does: str | bytes) -> bytes:
    """The command that binds a key; where it does not concern a client, it is what it was.

    Args:
        key: in tmux's notation, behind its prefix `C-b` or alone, as the settings have checked it.
        concerned: a format that holds in the clients that the key is for.
        does: commands of tmux.
    """
    *prefix, name = key.split()
    otherwise = [] if prefix else [command("send-keys", name)]
    return command(
        "bind-key", "-T", "prefix" if prefix else "root", name, command("if-shell", "-F", concerned, does, *otherwise)
    )
