"""What a caller is told of a session that a person has given back: once, with the commands of that person.

Who never called before is told of the last time alone. Which times each caller was told of stands in the session's
directory, so every broker knows it.
"""

from __future__ import annotations

from typing import cast

from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.readiness import finding as nextprompt
from tmuxmcp.record.events import Holding, handed_back
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.session import Session

HANDED_COMMANDS = 20
"""Commands of a person that are told; `list_commands` has the others."""


def is_news(session: Session, caller: str) -> bool:
    """Whether the session was given back and this caller was not told."""
    return bool(_untold(session, caller))


async def tell(session: Session, call: Call) -> r.HandedBack | None:
    """What is new of this to a caller; from now on the caller was told. Several times are told as one, the last."""
    untold = _untold(session, call.caller)
    if not untold:
        return None
    _note_told(session, call)  # before anything is waited for: no other call of this caller tells it as well
    look = await nextprompt.at_rest(session)
    ran = [
        each
        for each in session.commands.kept_commands(look)
        if each.by == "person" and any(held.covers(each.start, each.began) for held in untold)
    ]
    last = untold[-1]
    return r.HandedBack(
        by=last.by,
        since=last.since or None,
        until=last.until,
        reason=cast("r.HandedReason", last.reason),
        omitted_commands=max(len(ran) - HANDED_COMMANDS, 0),
        commands=[commandresults.row(each) for each in ran[-HANDED_COMMANDS:]],
    )


def _untold(session: Session, caller: str) -> list[Holding]:
    back = handed_back(session.holdings)
    if not back:
        return []
    told = session.handed.of(caller)
    knew = told or session.cursor_of(caller)
    return back[told:] if knew else back[-1:]


def _note_told(session: Session, call: Call) -> None:
    """Remember that the caller is told, and how to forget it."""
    before = session.handed.of(call.caller)
    session.handed.move(call.caller, len(handed_back(session.holdings)))
    call.untold.append(lambda: session.handed.move(call.caller, before))
