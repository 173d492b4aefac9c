"""Who calls, how to tell them that a long call is still going on, and how to ask the person behind them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from tmuxmcp.contract.value import field, value

if TYPE_CHECKING:
    from tmuxmcp.contract.results import ReadResult

Progress = Callable[[float, str], Awaitable[None]]
"""`await progress(elapsed_s, last_line)`; called at most once in `PROGRESS_EVERY_S`."""

PROGRESS_EVERY_S = 1.0

ALL_SCOPES = frozenset({"read", "write", "admin"})
"""read: look; write: make, type into and end sessions; admin: also act in the default sessions of other clients."""


async def no_progress(elapsed_s: float, last_line: str) -> None:
    """Tell nobody."""


SMALL_ANSWER_BYTES = 64 << 10
"""Most bytes of text of an answer that is not long."""

Room = Callable[[int], Awaitable[None]]
"""`await room(size)` returns when there is room for an answer of so many bytes of text."""


async def unlimited(size: int) -> None:
    """There is always room."""


@value
class Question:
    """What a person is asked before something is done."""

    message: str
    digest: str
    """Of the exact action, where it happens and what is in front there: an answer to it is for nothing else."""
    may_wait: bool = False
    """Who puts it away without an answer has not declined: it waits elsewhere, too."""
    url: str = ""
    """Where it is answered: the client is asked to open this, and says nothing by doing so; empty: in the client."""


class CallAgain(BaseException):
    """The client is to make the call again, with a person's answer; not an error, so that nothing takes it for one."""


Ask = Callable[[Question], Awaitable[bool | None]]
"""`await ask(question)`: True when the person agrees, False when not, None when nobody can be asked."""


async def nobody(question: Question) -> None:
    """There is nobody who could be asked."""


may_begin: ContextVar[Callable[[], None] | None] = ContextVar("may_begin", default=None)
"""What `begin` asks; None: nobody has passed the call on."""


def begin() -> None:
    """Called right before something is changed, again after each wait: who passed the call on may have given it up.

    Nothing is waited for between this and the change.

    Raises:
        NodeUnreachable, Cancelled: the caller was told by now that nobody knows what becomes of it; so nothing does.
    """
    if ask := may_begin.get():
        ask()


def new_call_id() -> str:
    """A correlation id that no other call has."""
    return uuid4().hex[:12]


@value
class Call:
    """One call of an operation."""

    caller: str = "library"
    """Whose read cursors and default session are meant: `[A-Za-z0-9_-]+`, stable across restarts of the broker."""
    scopes: frozenset[str] = ALL_SCOPES
    """What the caller may do."""
    client: str = ""
    """Name of the token with which it came: whose `request_id`s are meant; empty: it came with none."""
    progress: Progress = no_progress
    room: Room = unlimited
    """Asked when an answer is about to be made, and nothing else is to be waited for."""
    ask: Ask = nobody
    answers: str = ""
    """Digest of the question to which this call brings an answer; empty: it brings none."""
    person: bool = False
    """The person whose machine it is: a command line, a Python program. No policy judges it, no audit has it."""
    asks_person: bool = True
    """It can have a person asked, by `request_user_input`."""
    enough: Callable[[], Awaitable[None]] | None = None
    """`await enough()` returns when a wait is to end and to say how things stand; None: it goes on to its end."""
    goes_on: Callable[[ReadResult], bool] | None = None
    """Told how a wait ended, without content: True where more is typed at once, and nobody sees what is there."""
    undo: list[Callable[[], None]] = field(default_factory=list, repr=False, compare=False)
    """What puts back what was noted as told to the caller; for `roll_back`."""
    call_id: str = field(default_factory=new_call_id)
    """Correlation id: in the result's `_meta`, in the logs."""

    def roll_back(self) -> None:
        """The caller never gets the answer: what it tells alone counts as not told. Once; what was told since stays."""
        while self.undo:
            self.undo.pop()()


def joined_notes(*notes: str | None) -> str | None:
    """The sentences of a result's note as one text; None: there are none."""
    return " ".join(filter(None, notes)) or None


# ---- Times as results tell them --------------------------------------------------------------------------------------


def iso(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_of(text: str) -> float | None:
    """Seconds since 1970 of a time that `iso` wrote; None for any other text."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def ms_since(begun: float) -> int:
    """Whole milliseconds since a moment of `time.monotonic`."""
    return int((time.monotonic() - begun) * 1000)
