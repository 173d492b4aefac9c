"""What waits for a person, as the page lists it. An agent's words are text.

A wait is `{"id", "kind", "session_id", "message", "asked_ms", "until_ms", "for_session"}`. `kind` is `secret`, `input`,
`policy` or `held`: a session that the person holds. Times are in milliseconds since 1970, `until_ms` null: no end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tmuxmcp.broker.answering import WaitingRequest
from tmuxmcp.broker.userinput import harmless
from tmuxmcp.contract.call import seconds_of
from tmuxmcp.gate.confirmations import Confirmation

PageWait = dict[str, Any]


def waits(
    asked: Iterable[WaitingRequest], questions: Iterable[Confirmation], rows: Iterable[dict[str, Any]]
) -> list[PageWait]:
    """All that waits, in the order in which it is needed: who asked first first, what the person holds last.

    Args:
        rows: all sessions, as the list has them.
    """
    asking = [*map(_request, asked), *map(_question, questions)]
    held = [_held_wait(row) for row in rows if row["yours"]]
    return sorted(asking, key=_asked_ms) + sorted(held, key=_asked_ms)


def _asked_ms(wait: PageWait) -> int:
    return wait["asked_ms"] or 0


def _request(what: WaitingRequest) -> PageWait:
    request = what.request
    kind = "secret" if request.secret else "input"
    return _wait(request.id, kind, what.session.id, what.message, request.asked_at, request.until)


def _question(question: Confirmation) -> PageWait:
    found = _wait(
        question.id, "policy", question.session_id, harmless(question.message), question.asked_at, question.until
    )
    return found | {"for_session": bool(question.scope)}


def _held_wait(row: dict[str, Any]) -> PageWait:
    name, since = row["session_id"], row["taken_over"]["since"]
    return _wait(f"held {name}", "held", name, "", seconds_of(since) if since else None, None)


def _wait(id: str, kind: str, session_id: str, message: str, asked_at: float | None, until: float | None) -> PageWait:
    return {
        "id": id,
        "kind": kind,
        "session_id": session_id,
        "message": message,
        "asked_ms": asked_at and round(asked_at * 1000),
        "until_ms": until and round(until * 1000),
        "for_session": False,
    }
