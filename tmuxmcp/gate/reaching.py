"""Tells the people attached to a session that something waits for them there, and what their key is for.

None of an agent's words goes this way: an id, and the command that shows the rest.
"""

from __future__ import annotations

from contextlib import suppress

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.gate.confirmations import Confirmations
from tmuxmcp.sessions import inputrequests
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import answerkey
from tmuxmcp.tmux import viewers as messages

OFFER_S = 2.0
"""How long a call that is over may take to say what waits now."""


async def reach(session: Session, settings: BrokerSettings, asked_id: str) -> None:
    """Say in the status lines that a request or a question of the policy waits, and have the key open its popup."""
    if not session.pane:
        return
    by_command = f"tmuxmcp answer {asked_id}"
    with suppress(TmuxMcpError):
        await answerkey.bind(session.tmux, settings.answer_key, of_command_line(settings))
        await offer_next(session, settings)
        by_key = f"{session.id} asks: {settings.answer_key}, or {by_command}"
        await messages.tell(session.tmux, session.pane, f"{session.id} asks: {by_command}", by_key)


def of_command_line(settings: BrokerSettings) -> dict[str, str]:
    """The settings with which a command line does what this broker would."""
    names = ("state_dir", "audit", "answer_key", "take_key")
    return {name: str(getattr(settings, name)) for name in names}


def waiting(session: Session, settings: BrokerSettings) -> list[str]:
    """Ids of what waits for a person in a session, requests and questions of the policy, the first first."""
    asked = [(request.asked_at, request.id) for request in inputrequests.waiting(session)]
    asked += [(each.asked_at, each.id) for each in Confirmations(settings.state_dir).about(session.id)]
    return [each for _, each in sorted(asked)]


async def offer_next(session: Session, settings: BrokerSettings) -> None:
    """Have the key of attached people be for what waits first."""
    if session.pane:
        session.offers = next(iter(waiting(session, settings)), "")
        with suppress(TmuxMcpError):
            await answerkey.offer(session.tmux, session.pane, session.offers)
