"""When persons held a session, as its events tell. Pauses are left out: nobody types in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.words import PAUSE_HOLDER
from tmuxmcp.record.events import GivenBackEvent, TakenEvent

TMUX_TIME_S = 1.0
"""How exactly tmux tells the time of a give-back that no broker did."""


@dataclass(frozen=True)
class Holding:
    """A time in which a person held a session."""

    by: str
    since: str
    """ISO 8601, UTC; "": not known."""
    start: int | None
    """Size of the log then; None: nobody wrote that down."""
    until: str = ""
    """"": it has not ended."""
    end: int | None = None
    """Size of the log when its end was noticed; None: it has not ended."""
    reason: str = ""
    """`key`, `release`, `detach` or `timeout`."""

    def covers(self, start: int, began_s: float | None) -> bool:
        """Whether a command began in it, whose output starts at this offset.

        Args:
            began_s: when it began, in seconds since 1970; None: not known.
        """
        since_s, until_s = seconds_of(self.since), seconds_of(self.until)
        if self.start is not None:
            begins = start >= self.start
        else:
            begins = since_s is not None and began_s is not None and began_s >= since_s
        ends = self.end is None or start <= self.end
        late = until_s is not None and began_s is not None and began_s > until_s + TMUX_TIME_S
        return begins and ends and not late


def holdings(events: Iterable[TakenEvent | GivenBackEvent]) -> list[Holding]:
    """The times in which persons held it, in the order in which they were written down."""
    found: list[Holding] = []
    for event in events:
        if event.by == PAUSE_HOLDER:
            continue
        if isinstance(event, TakenEvent):
            found.append(Holding(event.by, event.time, event.offset))
        else:
            _end(found, event)
    return found


def _end(found: list[Holding], event: GivenBackEvent) -> None:
    for at, each in enumerate(found):
        same = (each.by, each.since) == (event.by, event.since)
        if same and each.end is None:
            found[at] = replace(each, until=event.until, end=event.offset, reason=event.reason)
            return
        if same and (each.since or each.until == event.until):
            return  # two brokers have written it down
    found.append(Holding(event.by, event.since, None, event.until, event.offset, event.reason))


def handed_back(held: Iterable[Holding]) -> list[Holding]:
    """Those that have ended, in the order of their ends."""
    return sorted((each for each in held if each.end is not None), key=lambda each: each.end or 0)
