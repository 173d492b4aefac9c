"""The popup in which an attached person answers, over the session: tmux runs our own command line in it.

What enters the shell's words is a request's id, a process id and what is ours; never what an agent has said.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping

from tmuxmcp.tmux import personkey
from tmuxmcp.tmux.control import command

POPUP_SIZE = ("-w", "90%", "-h", "70%")

SOMETHING_WAITS = "#{m/r:^[A-Za-z0-9_-]+$,#{@tmuxmcp_asks}}"
"""A format that holds while something waits in the pane; the option is the id of the request."""

CLIENT_IS_TYPING = "#{m:#{client_pid}-*,#{@tmuxmcp_typing}}"
"""A format that holds in the client in which a person types what was asked for."""

_HAS_PLAIN_NAME = "#{m/r:^[A-Za-z0-9/_.-]+$,#{client_name}}"

OPENS_POPUP = f"#{{&&:{personkey.MAY_TYPE},#{{&&:{_HAS_PLAIN_NAME},#{{||:{SOMETHING_WAITS},{CLIENT_IS_TYPING}}}}}}}"
"""A format that holds in the clients in which the key opens the popup."""


def opens(settings: Mapping[str, str]) -> bytes:
    """The command that opens it in the client that pressed the key.

    The command line begins in /, as Python imports from the directory that it is started in, and what is typed before
    it asks is not shown.

    Args:
        settings: of the command line, by name.
    """
    variables = {"HOME": os.environ.get("HOME", "/")} | {f"TMUXMCP_{name.upper()}": settings[name] for name in settings}
    words = [*(f"{name}={value}" for name, value in variables.items()), sys.executable, "-m", "tmuxmcp", "answer"]
    ours = shlex.join(["env", *words]).replace("#", "##")
    shell = f"stty -echo; cd /; exec {ours} --client '#{{client_pid}}' -- '#{{@tmuxmcp_asks}}'"
    # -C: the whole command is a format, so that the popup is told of the client.
    return command("run-shell", "-C", command("display-popup", "-c", "#{client_name}", "-E", *POPUP_SIZE, shell))
