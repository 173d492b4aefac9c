"""What a session showed at an offset of its log, with bounded work.

The log is replayed from the nearest screen that is known before the offset: one that tmux told at a change of size,
one kept from an earlier question, or the empty screen at the log's beginning. What was replayed leaves screens behind
every `KEYFRAME_BYTES`, so that looking around in a log costs little. Where nothing near enough is known, it begins
with an empty screen somewhat before, and says so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from tmuxmcp.latedataclass import dataclass
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events
from tmuxmcp.record.log import RawLog
from tmuxmcp.record.meta import Meta
from tmuxmcp.terminal.replay import Replay, SizeChange, blank
from tmuxmcp.terminal.snapshot import Snapshot

REPLAY_BYTES = 8 * 1024 * 1024
"""Bytes replayed at most for one question: two seconds of a full-screen program's drawing, less of plain output."""

KEYFRAME_BYTES = 512 * 1024
"""Distance of the screens that are kept."""

KEYFRAMES = 32
"""Screens kept of one log, about 40 KB each."""


@dataclass(frozen=True)
class Past:
    """A screen of the past."""

    snapshot: Snapshot
    certain: bool
    """Everything that made it was read; else what an earlier program drew may be missing."""


class History:
    """The screens of one log."""

    def __init__(self, log: RawLog, cols: int, rows: int, resizes: Sequence[SizeChange] = ()) -> None:
        """Begin with the size that the terminal had at offset 0."""
        self._log = log
        self._size = (cols, rows)
        self._resizes = list(resizes)
        self._kept: OrderedDict[int, Past] = OrderedDict()

    def resized(self, resize: SizeChange) -> None:
        """Take note of a change of size."""
        self._resizes.append(resize)

    def screen_at(self, offset: int) -> Past:
        """Give the screen after the first `offset` bytes; at most the log's end."""
        offset = min(max(offset, 0), self._log.size())
        start = self._start(offset)
        replay = Replay(start.snapshot, self._resizes)
        for begin in range(replay.offset, offset, KEYFRAME_BYTES):
            for data in self._log.pieces(begin, min(begin + KEYFRAME_BYTES, offset)):
                replay.feed(data)
            self._keep(Past(replay.snapshot(), start.certain))
        return Past(replay.snapshot(), start.certain)

    def _start(self, offset: int) -> Past:
        """The nearest screen from which the log can be replayed, made up where none is near."""
        head = self._log.head()
        earliest = max(head, offset - REPLAY_BYTES)
        known = [Past(each.told, True) for each in self._resizes if each.told]
        known += self._kept.values()
        if earliest == 0:
            known.append(Past(blank(*self._size), True))
        near = [past for past in known if earliest <= past.snapshot.offset <= offset]
        if near:
            return max(near, key=lambda past: (past.snapshot.offset, past.certain))
        cols, rows = self._size_at(earliest)
        return Past(blank(cols, rows, min(earliest, offset)), False)

    def _size_at(self, offset: int) -> tuple[int, int]:
        before = [each for each in self._resizes if each.offset <= offset]
        last = max(before, key=lambda each: each.offset, default=None)
        return (last.cols, last.rows) if last else self._size

    def _keep(self, past: Past) -> None:
        self._kept[past.snapshot.offset] = past
        self._kept.move_to_end(past.snapshot.offset)
        while len(self._kept) > KEYFRAMES:
            self._kept.popitem(last=False)


def of_session(directory: SessionDirectory) -> History:
    """The history of the session, running or not, whose files lie in this directory."""
    meta = Meta.load(directory)
    cols, rows = (meta.cols, meta.rows) if meta else (80, 24)
    resizes = [SizeChange(each.offset, each.cols, each.rows) for each in Events(directory).resizes()]
    return History(RawLog(directory), cols, rows, resizes)
