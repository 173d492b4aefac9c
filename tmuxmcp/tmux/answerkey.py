"""The key by which an attached person answers what an agent asked for. It never reaches the program.

In the client that `tmuxmcp answer` has attached, whose process id an option of the pane names, it says that all is
done, and detaches. In any other client that may type it opens a popup: to answer, and to say so after typing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.tmux import answerpopup, panes, personkey
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

_INPUT_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_TYPING_OPTION = re.compile(r"([0-9]{1,10})-(own|lent)-([A-Za-z0-9_-]{8,64})")


@dataclass(frozen=True)
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
    ours = f"#{{&&:#{{==:#{{@tmuxmcp_answering}},#{{client_pid}}}},{personkey.MAY_TYPE}}}"
    done = "set-option -p -F @tmuxmcp_answered '#{client_pid}' ; detach-client"
    does = command("if-shell", "-F", ours, done, answerpopup.opens(settings))
    await tmux.checked(personkey.bound(key, f"#{{||:{ours},{answerpopup.OPENS_POPUP}}}", does))


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
