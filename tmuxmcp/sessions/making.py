"""Makes checkpoints of what sessions print, in the background: so that a look at any past screen is short.

How far they are apart is counted in the processor time that it takes to replay what lies between. One broker of those
that stay does it for a session, held by a lock that ends with its process. The work is done by a process that takes
only the time which nobody else wants, and that is there while there is work. If it fails, there is no checkpoint.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine.locks import if_free
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind
from tmuxmcp.record.past.replaying import BlankScreen, PackedScreen, Replaying, Story, beginning
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session

log = logging.getLogger(__name__)

CHECKPOINT_CPU_S = 0.7
"""Processor time from one checkpoint to the next: two such steps, and the start of a process, stay below 2 s."""

ENOUGH_BYTES = 512 * 1024
"""Worth a start of the process: less takes a second to replay even where every cell has its colour."""

TURN_CHECKPOINTS = 8
"""Checkpoints of one session before it is another one's turn."""

ASIDE_S = 0.1
"""While a call is answered the process is stopped, for so long at most."""

BETWEEN_S = 0.02
"""For so long it works between two stops: calls that follow one another at once must not keep it from its work."""

MOST_FAILURES = 3
"""After so many in a row, a session is left alone."""


@dataclass
class CheckpointProgress:
    """How far the checkpoints of a session have come."""

    size: int = -1
    """Of the log, to which all is replayed."""
    screen: PackedScreen | None = None
    """What it showed there."""
    happened: int = 0
    """How much was known to have happened up to there."""
    cost_s: float = 0.0
    """Processor time from the last checkpoint to there."""
    failures: int = 0


class CheckpointMaker:
    """Makes the checkpoints of one broker's sessions."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._replaying = Replaying(idle=True)
        self._reached: dict[tuple[str, int], CheckpointProgress] = {}
        """By path and number of a session's directory."""
        self._wanted: list[Session] = []
        self._work = anyio.Event()
        self._stopped = anyio.Event()
        self._stopped_at: float | None = None
        self._went_on_at = 0.0

    def find_work(self) -> None:
        """See which sessions have printed enough since; called now and then, by who is awake."""
        sessions = list(self._registry.sessions.values())
        for gone in self._reached.keys() - {_key(session) for session in sessions}:
            del self._reached[gone]
        for session in sessions:
            reached = self._reached.setdefault(_key(session), CheckpointProgress())
            grown = session.log.size() - max(reached.size, 0)
            if grown >= ENOUGH_BYTES and reached.failures < MOST_FAILURES and session not in self._wanted:
                self._wanted.append(session)
                self._work.set()

    async def run(self) -> None:
        """Make what is wanted, until cancelled."""
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(self._end_stops)
            while True:
                await self._work.wait()
                self._work = anyio.Event()
                try:
                    while self._wanted:
                        await self._turn(self._wanted[0])
                finally:
                    self._replaying.close()

    # ---- standing aside --------------------------------------------------------------------------

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Stop the process while a call is answered: whatever its priority, it slows down what runs beside it."""
        self._stop()
        try:
            yield
        finally:
            self._go_on()

    def _stop(self) -> None:
        now, process = time.monotonic(), self._replaying.process
        if process and self._replaying.started and self._stopped_at is None and now - self._went_on_at >= BETWEEN_S:
            process.send_signal(signal.SIGSTOP)
            self._stopped_at = now
            self._stopped.set()

    def _go_on(self) -> None:
        if self._stopped_at is None:
            return
        self._stopped_at, self._went_on_at = None, time.monotonic()
        if process := self._replaying.process:
            process.send_signal(signal.SIGCONT)

    async def _end_stops(self) -> None:
        """Let the process go on where a call takes long."""
        while True:
            await self._stopped.wait()
            self._stopped = anyio.Event()
            while self._stopped_at is not None:
                left_s = self._stopped_at + ASIDE_S - time.monotonic()
                if left_s <= 0:
                    self._go_on()
                else:
                    await anyio.sleep(left_s)

    # ---- the work --------------------------------------------------------------------------------

    async def _turn(self, session: Session) -> None:
        """Make some checkpoints of a session; its next turn comes behind the others."""
        reached = self._reached.setdefault(_key(session), CheckpointProgress())
        more = False
        try:
            with if_free(session.directory.screens_lock) as free:
                if free:
                    more = await self._make(session, reached)
                else:
                    reached.size = session.log.size()  # another broker does it
            reached.failures = 0
        except (TmuxMcpError, OSError) as error:
            reached.failures += 1
            log.warning("no screens of session %s are kept: %s", session.id, error)
        finally:
            self._wanted.remove(session)
        if more:
            self._wanted.append(session)

    async def _make(self, session: Session, reached: CheckpointProgress) -> bool:
        """Whether there is more to do at once.

        Raises:
            IoError
        """
        end, checkpoints = session.log.size(), Checkpoints(session.directory)
        story = Story.of(session.events, checkpoints, end)
        for _ in range(TURN_CHECKPOINTS):
            start = _begin(session, checkpoints, story, reached, end)
            if start is None or start.offset >= end:
                break
            stretch = story.stretch(start, end)
            done = await self._replaying.replay(session.directory, stretch, max(CHECKPOINT_CPU_S - reached.cost_s, 0))
            if done is None:  # what it began with was given back
                reached.screen, reached.cost_s = None, 0.0
                continue
            reached.screen, reached.happened = done.reached, story.count(done.reached.offset)
            reached.cost_s += done.cpu_s
            if reached.cost_s >= CHECKPOINT_CPU_S:
                _add(checkpoints, reached)
        checkpoints.thin()
        reached.size = reached.screen.offset if reached.screen else end
        return reached.size < end

    def close(self) -> None:
        """End the process."""
        self._replaying.close()


def _begin(
    session: Session, checkpoints: Checkpoints, story: Story, reached: CheckpointProgress, end: int
) -> PackedScreen | BlankScreen | None:
    """Where to go on: what was reached, as long as it is right, else at the last checkpoint."""
    known = reached.screen
    if known and story.count(known.offset) == reached.happened and known.offset >= session.log.head():
        return known
    reached.cost_s = 0.0
    return beginning(session.directory, checkpoints, story, end)


def _add(checkpoints: Checkpoints, reached: CheckpointProgress) -> None:
    assert reached.screen, "something was replayed"
    cost_ms, screen = round(reached.cost_s * 1000), reached.screen
    checkpoints.add(RecordKind.SCREEN, screen.offset, screen.screen, cost_ms=cost_ms, happened=reached.happened)
    reached.cost_s = 0.0


def _key(session: Session) -> tuple[str, int]:
    return str(session.directory.path), session.directory.inode
