"""Who holds a session: a person who took it over, or a pause. Options of the pane say so; here they are only read.

tmux itself checks them in the same step that types, so that nothing is typed between a look at them and the typing.
"""

from __future__ import annotations

import os
import pwd
import re
from contextlib import suppress

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import SessionTaken
from tmuxmcp.contract.value import value
from tmuxmcp.contract.words import PAUSE_HOLDER

IS_FREE = "#{==:#{@tmuxmcp_taken}#{@tmuxmcp_paused}#{@tmuxmcp_paused_all},}"
"""A tmux format that holds while nobody holds the pane."""

_LEASE_OPTION = re.compile(r"([0-9]{1,15})-(cli|attach|page)-([0-9]{1,10})-([A-Za-z0-9_.]{1,64})")


_GIVEN_OPTION = re.compile(r"([^;|]*) ([0-9]{1,12}(?:\.[0-9]{1,3})?) (key|release|detach|timeout);")


@value
class Lease:
    """That somebody holds a session."""

    by: str
    """Their name; `pause`; `unknown`, where somebody else than we has set the option."""
    via: str
    """`cli`, `attach` or `page`."""
    since_s: float | None
    """In seconds since 1970; None: not known."""
    pid: int = 0
    """Process id of the terminal client that took it, or the number of the page that did; 0: neither did."""

    @property
    def since(self) -> str | None:
        """ISO 8601, UTC."""
        return None if self.since_s is None else iso(self.since_s)

    @property
    def paused(self) -> bool:
        """No person holds it: it was paused."""
        return self.by == PAUSE_HOLDER

    @property
    def page(self) -> int:
        """Number of the page that holds it, above all process ids; 0: none does."""
        return self.pid if self.via == "page" else 0

    @property
    def terminal(self) -> int:
        """Process id of the terminal client that took it; 0: none did."""
        return 0 if self.via == "page" else self.pid

    @property
    def option(self) -> str:
        """What the pane's option says."""
        return f"{round((self.since_s or 0) * 1000)}-{self.via}-{self.pid}-{self.by}"

    @classmethod
    def parse(cls, option: str) -> Lease | None:
        """From the option; None: nobody holds it."""
        if not option:
            return None
        found = _LEASE_OPTION.fullmatch(option)
        if found is None:
            return cls("unknown", "cli", None)
        return cls(found[4], found[2], int(found[1]) / 1000, int(found[3]))


@value
class NotedGiveBack:
    """That a pane was given back, as tmux keeps it until a broker writes it down."""

    lease: Lease
    until_s: float
    """In seconds since 1970; tmux itself tells whole ones."""
    reason: str
    """`key`, `release`, `detach` or `timeout`."""

    @classmethod
    def parse(cls, option: str) -> list[NotedGiveBack]:
        """From the option, oldest first."""
        found = _GIVEN_OPTION.findall(option)
        return [cls(lease, float(at), why) for text, at, why in found if (lease := Lease.parse(text))]


def name_of(user: str) -> str:
    """A user's name as a lease has it."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", user)[:64] or "unknown"


def user_name() -> str:
    """Whose name a lease of this process has."""
    with suppress(KeyError):
        return name_of(pwd.getpwuid(os.geteuid()).pw_name)
    return name_of(str(os.geteuid()))


def taken_error(session_id: str, lease: Lease) -> SessionTaken:
    """What is answered while somebody holds a session."""
    since = f" since {lease.since}" if lease.since else ""
    if lease.paused:
        message = f"Session {session_id} is paused{since}: nothing was typed or done. What runs in it goes on."
        hint = "Only a person can resume it. read shows what happens meanwhile; try again later."
    else:
        message = f"{lease.by} has taken over session {session_id}{since}: nothing was typed or done."
        hint = "read shows what happens meanwhile; try again once the person has released it. force still ends it."
    return SessionTaken(message, hint=hint, session_id=session_id, by=lease.by, since=lease.since, via=lease.via)
