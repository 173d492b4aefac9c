"""What a session showed at an offset of its log: rebuilt from its log, in a process of its own, and kept for a while.

It asks nothing of tmux, so that sessions of every state and generation have a past. It changes nothing of a session.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tmuxmcp.errors import InvalidArgument, IoError, NotRetained, TimedOut
from tmuxmcp.record.meta import Meta
from tmuxmcp.record.replaying import Blank, Replaying, SizeAt, Stretch
from tmuxmcp.terminal.snapshot import Snapshot

if TYPE_CHECKING:
    from tmuxmcp.sessions.session import Session

STRETCH_S = 1.0
"""Processor time after which what was rebuilt so far is kept: who comes later begins there."""

LONGEST_S = 40.0
"""How long one look may take: clients give up after a minute. The next look goes on where this one ended."""

KEPT_CELLS = 1_000_000
"""Cells of all screens that are kept, 8 bytes each: 500 usual screens."""

TRIES = 5
"""How often a look begins anew because the log has given its head back meanwhile."""

Key = tuple[str, int, str]
"""Path and number of a session's directory, and when the session was made."""


async def screen_at(session: Session, offset: int) -> Snapshot:
    """What a session showed after the first `offset` bytes of its log.

    Raises:
        InvalidArgument: so much was not printed.
        NotRetained: what was printed before is no longer kept.
        TimedOut: it takes long; the next look goes on where this one ended.
        IoError: the log cannot be replayed.
    """
    return await session.past.screen_at(session, offset)


class Past:
    """Rebuilds past screens, and keeps those that were looked at last."""

    def __init__(self) -> None:
        self._replaying = Replaying()
        self._kept = Kept(KEPT_CELLS)

    async def screen_at(self, session: Session, offset: int) -> Snapshot:
        """As the function `screen_at`."""
        if offset > (size := session.log.size()):
            raise InvalidArgument(
                f"at_offset={offset} is behind the end of the log ({size}).",
                hint="Without it, the screen of now is shown.",
                session_id=session.id,
            )
        deadline = time.monotonic() + LONGEST_S
        for _ in range(TRIES):
            found = await self._rebuilt(session, offset, deadline)
            if found:
                return found
        raise IoError(f"The log of session {session.id} is given back faster than it is read.", hint="Try again.")

    async def _rebuilt(self, session: Session, offset: int, deadline: float) -> Snapshot | None:
        """The screen at an offset; None: what it was to be made of was given back meanwhile.

        Raises:
            NotRetained, TimedOut, IoError
        """
        key, story = _key(session), Story.of(session, offset)
        start = self._kept.nearest(key, offset, story) or _first(session, offset, story)
        while start.offset < offset or isinstance(start, Blank):
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"The screen at offset {offset} is not rebuilt yet: offset {start.offset} is.",
                    hint="Ask again: it goes on from there.",
                    session_id=session.id,
                )
            stretch = Stretch(start, offset, story.resizes, story.gaps)
            done = await self._replaying.replay(session.directory, stretch, STRETCH_S)
            if done is None:
                return None
            start = done.snapshot
            self._kept.keep(key, start, story)
        return start

    @property
    def busy(self) -> bool:
        """Whether there is a process."""
        return self._replaying.process is not None

    def close(self) -> None:
        """End the process."""
        self._replaying.close()


def _key(session: Session) -> Key:
    return str(session.directory.path), session.directory.inode, session.meta.created_at


def _first(session: Session, offset: int, story: Story) -> Blank:
    """The screen with which a replay begins: that of the session's begin, or an empty one where the head is gone.

    Raises:
        NotRetained
    """
    head = session.log.head()
    if head > offset:
        raise NotRetained(
            f"What session {session.id} showed at offset {offset} is no longer kept.",
            hint=f"What is kept begins at offset {head}.",
            first_offset=head,
            first_ms=None,
        )
    made = Meta.load(session.directory) or session.meta
    sizes = [(made.cols, made.rows), *((each.cols, each.rows) for each in story.resizes if each.offset <= head)]
    return Blank(*sizes[-1], head, approximate=head > 0)


@dataclass(frozen=True)
class Story:
    """What happened to a session up to an offset, beside its output."""

    resizes: tuple[SizeAt, ...]
    gaps: tuple[int, ...]

    @classmethod
    def of(cls, session: Session, offset: int) -> Story:
        """All of it that is written down."""
        resizes = (SizeAt(each.offset, each.cols, each.rows) for each in session.events.resizes())
        return cls(tuple(each for each in resizes if each.offset <= offset), tuple(session.gaps(0, offset)))

    def count(self, offset: int) -> int:
        """How much had happened at an offset."""
        return sum(each.offset <= offset for each in self.resizes) + sum(each <= offset for each in self.gaps)


class Kept:
    """Screens that were rebuilt, the ones used last."""

    def __init__(self, most_cells: int) -> None:
        self._most = most_cells
        self._cells = 0
        self._screens: OrderedDict[tuple[Key, int, int], Snapshot] = OrderedDict()
        """By session, offset, and how much had happened up to there: more may happen at the same offset."""

    def nearest(self, key: Key, offset: int, story: Story) -> Snapshot | None:
        """The last one up to an offset."""
        fits = [
            each for each in self._screens if each[0] == key and each[1] <= offset and each[2] == story.count(each[1])
        ]
        if not fits:
            return None
        best = max(fits, key=lambda each: each[1])
        self._screens.move_to_end(best)
        return self._screens[best]

    def keep(self, key: Key, snapshot: Snapshot, story: Story) -> None:
        """Keep one more; the ones that were not used for the longest time give way."""
        at = (key, snapshot.offset, story.count(snapshot.offset))
        self._cells -= _cells(self._screens.pop(at, None))
        self._screens[at] = snapshot
        self._cells += _cells(snapshot)
        while self._cells > self._most and len(self._screens) > 1:
            self._cells -= _cells(self._screens.popitem(last=False)[1])


def _cells(snapshot: Snapshot | None) -> int:
    return 2 * snapshot.cols * snapshot.rows if snapshot else 0
