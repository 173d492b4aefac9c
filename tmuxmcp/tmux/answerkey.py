"""The key by which an attached person answers what an agent asked for. It never reaches the program.

In the client that `tmuxmcp answer` has attached, whose process id an option of the pane names, it says that all is
done, and detaches. In any other client that may type it opens a popup: to answer, and to say so after typing.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress

from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.contract.value import value
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

# ---- Keys by which an attached person says something to us -----------------------------------------------------------
#
# In their terminal, and never to the program in the pane.

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


# ----------------------------------------------------------------------------------------------------------------------

_INPUT_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_TYPING_OPTION = re.compile(r"([0-9]{1,10})-(own|lent)-([A-Za-z0-9_-]{8,64})")


@value
class PersonTypes:
    """That a person types what was asked for, in a client that they had attached before."""

    client_pid: int
    request_id: str
    own: bool
    """They held the session before, and go on holding it."""

    @property
    def option(self) -> str:
        """What the pane's option says."""
        return f"{self.client_pid}-{'own' if self.own else 'lent'}-{self.request_id}"

    @classmethod
    def parse(cls, option: str) -> PersonTypes | None:
        """From the option; None: nobody does."""
        found = _TYPING_OPTION.fullmatch(option)
        return cls(int(found[1]), found[3], found[2] == "own") if found else None


async def bind(tmux: Tmux, key: str, settings: Mapping[str, str]) -> None:
    """Give the key its meaning, for all clients.

    Args:
        settings: of the command line that the popup runs, by name.
    """
    ours = f"#{{&&:#{{==:#{{@tmuxmcp_answering}},#{{client_pid}}}},{MAY_TYPE}}}"
    done = "set-option -p -F @tmuxmcp_answered '#{client_pid}' ; detach-client"
    does = command("if-shell", "-F", ours, done, opens(settings))
    await tmux.checked(bound(key, f"#{{||:{ours},{OPENS_POPUP}}}", does))


async def offer(tmux: Tmux, pane: Pane, request_id: str) -> None:
    """Have the key open the popup for a request of the pane; empty: for none."""
    assert not request_id or _INPUT_REQUEST_ID.fullmatch(request_id), request_id
    other = f"#{{!=:#{{@tmuxmcp_asks}},{request_id}}}"  # a change of an option draws the screens of all anew
    await panes.set_option(tmux, pane, "asks", request_id, other)


async def begin(tmux: Tmux, pane: Pane, typing: PersonTypes | None) -> None:
    """Write down that a person types what was asked for; None: nobody does any more."""
    await panes.set_option(tmux, pane, "typing", typing.option if typing else "")


async def who_types(tmux: Tmux, pane: Pane) -> PersonTypes | None:
    """Who types what was asked for in the pane; None: nobody."""
    return PersonTypes.parse(await panes.option(tmux, pane, "typing"))


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


# ---- The popup in which an attached person answers, over the session: tmux runs our own command line in it -----------
#
# What enters the shell's words is a request's id, a process id and what is ours; never what an agent has said.

POPUP_SIZE = ("-w", "90%", "-h", "70%")

SOMETHING_WAITS = "#{m/r:^[A-Za-z0-9_-]+$,#{@tmuxmcp_asks}}"
"""A format that holds while something waits in the pane; the option is the id of the request."""

CLIENT_IS_TYPING = "#{m:#{client_pid}-*,#{@tmuxmcp_typing}}"
"""A format that holds in the client in which a person types what was asked for."""

_HAS_PLAIN_NAME = "#{m/r:^[A-Za-z0-9/_.-]+$,#{client_name}}"

OPENS_POPUP = f"#{{&&:{MAY_TYPE},#{{&&:{_HAS_PLAIN_NAME},#{{||:{SOMETHING_WAITS},{CLIENT_IS_TYPING}}}}}}}"
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
