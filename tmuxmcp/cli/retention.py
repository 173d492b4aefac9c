"""`tmuxmcp pin`: which files of sessions are kept; from the files alone, without a tmux server."""

from __future__ import annotations

import argparse

from tmuxmcp.cli import output
from tmuxmcp.cli.arguments import session_id
from tmuxmcp.cli.calling import CALLER
from tmuxmcp.cli.service import effective
from tmuxmcp.errors import IoError
from tmuxmcp.sessions import kept


def pin(options: argparse.Namespace) -> int:
    """`tmuxmcp pin`."""
    settings, _ = effective(options)
    directory = kept.place(settings.state_dir, session_id(options), CALLER)
    try:
        if options.remove:
            directory.pin.unlink(missing_ok=True)
        else:
            directory.pin.touch(mode=0o600)
    except OSError as error:
        raise IoError(f"{directory.pin} cannot be changed: {error.strerror}.") from error
    if options.json:
        output.write_json({"session_id": directory.name, "pinned": not options.remove})
    return 0
