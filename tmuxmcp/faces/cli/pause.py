"""`tmuxmcp pause` and `tmuxmcp resume`: no agent types anywhere. At once, so without a broker."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.people import check_outside
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.sessions import lease as pausing

if TYPE_CHECKING:
    from tmuxmcp.config import Settings


def pause(options: argparse.Namespace) -> int:
    """`tmuxmcp pause`."""
    settings = _settings(options)
    names = pausing.pause(settings.state_dir, session_id(options))
    _audit(settings, options, "pause")
    if options.json:
        output.write_json({"paused": names, "all": options.all})
    else:
        output.note(f"agents do not type until you run: tmuxmcp resume {'--all' if options.all else names[0]}")
    return 0


def resume(options: argparse.Namespace) -> int:
    """`tmuxmcp resume`; 1: the session stays paused, with all others."""
    check_outside()
    settings = _settings(options)
    names = pausing.resume(settings.state_dir, session_id(options))
    _audit(settings, options, "resume")
    if options.json:
        output.write_json({"resumed": names, "all": options.all})
    if not names and not options.all:
        output.note("it stays paused, as all sessions are: tmuxmcp resume --all")
        return 1
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    """The settings; which session is meant was said.

    Raises:
        InvalidArgument
    """
    if options.all == bool(session_id(options)):
        raise InvalidArgument("Say which session, or --all.", hint=f"See `tmuxmcp {options.verb} --help`.")
    return effective(options)[0]


def _audit(settings: Settings, options: argparse.Namespace, tool: str) -> None:
    """Write down what the person did that concerns agents; it is done, whether that works or not."""
    if settings.audit == "off":
        return
    from tmuxmcp.gate.audit import Audit

    line = {"time": iso(time.time()), "tool": tool, "session_id": session_id(options), "via": "cli"}
    try:
        Audit(settings.state_dir).write({**line, "all": options.all, "outcome": "ok"})
    except OSError as error:
        output.note(f"it was done, and is not in the audit: {error.strerror}")
