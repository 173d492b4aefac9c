"""`tmuxmcp attach` within a tmux: a window of the person's own tmux, and never a session inside of a session."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tmuxmcp.contract.errors import PermissionDenied
from tmuxmcp.machine.ourselves import in_a_session

NESTING_ANSWER_S = 5.0
"""How long the person's tmux may take."""


def refuse_inside_ours(socket: Path, environment: Mapping[str, str]) -> None:
    """Refuse to attach from within a session, which would show itself.

    Raises:
        PermissionDenied
    """
    theirs = environment.get("TMUX", "").split(",")[0]
    if in_a_session() or (theirs and os.path.realpath(theirs) == os.path.realpath(socket)):
        raise PermissionDenied(
            "This terminal is itself in a session of tmuxmcp: a terminal shown within itself has no end.",
            hint="Attach from a terminal of your own, or look once with `tmuxmcp view`.",
        )


def open_window(name: str, words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Run a command in a new window of the tmux that this terminal is a pane of; False: it is none, or cannot.

    Args:
        name: of the window: letters, digits, `_` and `-`.
        words: exact; no shell and no tmux reads them.
    """
    tmux = shutil.which("tmux")
    pane = environment.get("TMUX_PANE", "")
    if tmux is None or not environment.get("TMUX") or not pane or not sys.stdin.isatty():
        return False
    # The variable is inherited by terminals that are started in a tmux, and are no pane of it.
    if _output_of(tmux, "display-message", "-p", "-t", pane, "#{pane_tty}") != os.ttyname(0):
        return False
    command = ["env", "-u", "TMUX", "-u", "TMUX_PANE", *words]
    # A word that ends with ; would end tmux's command.
    exact = [f"{word[:-1]}\\;" if word.endswith(";") else word for word in command]
    return _output_of(tmux, "new-window", "-P", "-F", "#{window_id}", "-n", name, *exact).startswith("@")


def _output_of(*argv: str) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=NESTING_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
