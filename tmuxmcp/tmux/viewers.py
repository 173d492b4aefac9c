"""The people who look at our panes, each in a tmux of their own that is attached to our server."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable
from functools import lru_cache

from tmuxmcp.contract.value import value
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

_VIEWER_FIELDS = (
    "@tmuxmcp_id",
    "session_id",
    "window_id",
    "client_readonly",
    "client_created",
    "client_uid",  # by its number: for the name, tmux reads the user database for each of them
    "client_tty",
    "client_name",
)
_VIEWER_FORMAT = "|".join(f"#{{{name}}}" for name in _VIEWER_FIELDS)
_VIEWER_LINE = re.compile(r"([A-Za-z0-9_-]*)\|(\$\d+)\|(@\d+)\|([01])\|(\d{1,12})\|(\d{0,12})\|([^|]*)\|([^|]*)")

SHOWN_COLS = 60
"""Most of what a status line says of a program."""

_UNSAFE_CHARACTER = re.compile(r"[^A-Za-z0-9 _./=:,@+~*\"'|&;<>()\[\]{}!?^$\\-]")
"""All but plain ASCII, and of that what tmux reads as a style or a format (#) and strftime as its own (%)."""


@value
class TmuxViewer:
    """A tmux client that shows one of our panes."""

    session_id: str
    """Ours, of the pane that has the keys in it; empty: another program's."""
    tmux_session_id: str
    window_id: str
    may_type: bool
    since_s: int
    """When it was attached, in seconds since 1970."""
    user: str
    """By name, or by number where it has none; empty: tmux 3.2 does not tell."""
    terminal: str
    """Path of its terminal; tmux's name of the client where it has none."""
    name: str
    """What tmux calls it."""


def parse(line: str) -> TmuxViewer | None:
    """A line of what tmux tells of its clients; None: it is none. What a client says of itself is cleaned."""
    found = _VIEWER_LINE.fullmatch(line)
    if found is None:
        return None
    session_id, home, window_id, readonly, created, uid, *words = found.groups()
    tty, name = ("".join(char for char in word if char.isprintable()) for word in words)
    return TmuxViewer(session_id, home, window_id, readonly == "0", int(created), _user(uid), tty or name, name)


@lru_cache(maxsize=64)
def _user(uid: str) -> str:
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except (ValueError, KeyError, OverflowError):
        return uid


async def everybody(tmux: Tmux) -> list[TmuxViewer]:
    """All who look at something, the first first."""
    reply = await tmux.query(command("list-clients", "-F", _VIEWER_FORMAT))
    found = [viewer for line in reply.lines if (viewer := parse(os.fsdecode(line)))]
    return sorted(found, key=lambda each: each.since_s)


async def of_pane(tmux: Tmux, pane: Pane) -> list[TmuxViewer]:
    """Who sees a pane's window, by whatever tmux session, the first first; tmux is not asked where it said nobody."""
    if not pane.viewers:
        return []
    return [each for each in await everybody(tmux) if each.window_id == pane.window_id]


def plain(text: str) -> str:
    """Text for a status line, which means nothing to tmux."""
    text = _UNSAFE_CHARACTER.sub("?", text)
    return text if len(text) <= SHOWN_COLS else text[: SHOWN_COLS - 3] + "..."


async def show(tmux: Tmux, viewers: Iterable[TmuxViewer], text: str) -> None:
    """Have the status lines of viewers say this, for as long as our connection to tmux lasts; empty: no more.

    The words lie in hidden variables of the tmux session, which unlike options redraw nobody's whole screen. tmux.conf
    shows them while the client named there is attached.
    """
    viewers = list(viewers)
    commands = []
    for home in sorted({each.tmux_session_id for each in viewers}):
        target = ("-h", "-t", home)
        commands.append(command("set-environment", *target, "TMUXMCP_SHOWN", plain(text)))
        commands.append(command("set-environment", *target, "TMUXMCP_SHOWN_BY", tmux.client_name))
    if commands:
        await tmux.request(*commands)
    for each in viewers:  # one by one: who has gone meanwhile must not keep the others from it
        await tmux.request(command("refresh-client", "-S", "-t", each.name))


async def forget(tmux: Tmux, tmux_session_id: str) -> None:
    """Have the status lines of a tmux session, which may be gone, say no more what it does."""
    await tmux.request(command("set-environment", "-h", "-u", "-t", tmux_session_id, "TMUXMCP_SHOWN"))


# ---- The people who look at a pane in a tmux of theirs: told something in its status line ----------------------------

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
