"""What a session showed at an offset of its log: rebuilt from its log, in a process of its own, and kept for a while.

It asks nothing of tmux, so that sessions of every state and generation have a past. It changes nothing of a session.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from tmuxmcp.contract.errors import InvalidArgument, IoError, NotRetained, TimedOut
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind, screen_of
from tmuxmcp.record.past.replaying import BlankScreen, PackedScreen, Replaying, Story, beginning
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.terminal.widths import version_of

if TYPE_CHECKING:
    from tmuxmcp.sessions.session import Session

STRETCH_S = 1.0
"""Processor time after which what was rebuilt so far is kept: who comes later begins there."""

PAST_LOOK_S = 40.0
"""How long one look may take: clients give up after a minute. The next look goes on where this one ended."""

REBUILT_KEPT_BYTES = 8 << 20
"""Size of all screens that are kept, packed: some thousand usual ones."""

LOOK_TRIES = 5
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
        self._kept = RebuiltScreens(REBUILT_KEPT_BYTES)

    async def screen_at(self, session: Session, offset: int) -> Snapshot:
        """As the function `screen_at`."""
        if offset > (size := session.log.size()):
            raise InvalidArgument(
                f"at_offset={offset} is behind the end of the log ({size}).",
                hint="Without it, the screen of now is shown.",
                session_id=session.id,
            )
        deadline = time.monotonic() + PAST_LOOK_S
        for _ in range(LOOK_TRIES):
            found = await self._rebuilt(session, offset, deadline)
            if found:
                snapshot = await anyio.to_thread.run_sync(screen_of, found.screen)
                unsure = snapshot.approximate or await _size_unknown(session, offset)
                unsure = unsure or (session.pane is not None and await session.tmux.counts_otherwise())
                state = replace(snapshot.state, tmux=version_of(session.meta.tmux))
                return replace(snapshot, approximate=unsure, state=state)
        raise IoError(f"The log of session {session.id} is given back faster than it is read.", hint="Try again.")

    async def _rebuilt(self, session: Session, offset: int, deadline: float) -> PackedScreen | None:
        """The screen at an offset; None: what it was to be made of was given back meanwhile.

        Raises:
            NotRetained, TimedOut, IoError
        """
        key, checkpoints = _key(session), Checkpoints(session.directory)
        story = Story.of(session.events, checkpoints, offset)
        begin = self._kept.nearest(key, offset, story)
        start = beginning(session.directory, checkpoints, story, offset, begin)
        if start is None:
            raise _not_retained(session, offset)
        while start.offset < offset or isinstance(start, BlankScreen):
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"The screen at offset {offset} is not rebuilt yet: offset {start.offset} is.",
                    hint="Ask again: it goes on from there.",
                    session_id=session.id,
                )
            stretch = story.stretch(start, offset)
            done = await self._replaying.replay(session.directory, stretch, STRETCH_S, "/".join(map(str, key)))
            if done is None:
                return None
            start = done.reached
            self._kept.keep(key, start, story)
            if start.offset < offset and done.whole:  # else it is not known what it took
                happened, cost_ms = story.count(start.offset), round(done.cpu_s * 1000)
                checkpoints.add(RecordKind.SCREEN, start.offset, start.screen, cost_ms=cost_ms, happened=happened)
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


async def _size_unknown(session: Session, offset: int) -> bool:
    """Whether somebody may have changed the size before that, in tmux itself, and nobody wrote down when."""
    await session.refresh()
    unnoticed = session.resized_unnoticed
    return session.events.size_unknown(offset) or (unnoticed is not None and offset >= unnoticed.offset)


def _not_retained(session: Session, offset: int) -> NotRetained:
    head = session.log.head()
    return NotRetained(
        f"What session {session.id} showed at offset {offset} is no longer kept.",
        hint=f"What is kept begins at offset {head}.",
        first_offset=head,
        first_ms=session.times.ms_at(head),
    )


class RebuiltScreens:
    """Screens that were rebuilt, the ones used last."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._screens: OrderedDict[tuple[Key, int, int], PackedScreen] = OrderedDict()
        """By session, offset, and how much had happened up to there: more may happen at the same offset."""

    def nearest(self, key: Key, offset: int, story: Story) -> PackedScreen | None:
        """The last one up to an offset."""
        fits = [
            each for each in self._screens if each[0] == key and each[1] <= offset and each[2] == story.count(each[1])
        ]
        if not fits:
            return None
        best = max(fits, key=lambda each: each[1])
        self._screens.move_to_end(best)
        return self._screens[best]

    def keep(self, key: Key, screen: PackedScreen, story: Story) -> None:
        """Keep one more; the ones that were not used for the longest time give way."""
        at = (key, screen.offset, story.count(screen.offset))
        before = self._screens.pop(at, None)
        self._bytes += len(screen.screen) - (len(before.screen) if before else 0)
        self._screens[at] = screen
        while self._bytes > self._most and len(self._screens) > 1:
            self._bytes -= len(self._screens.popitem(last=False)[1].screen)
