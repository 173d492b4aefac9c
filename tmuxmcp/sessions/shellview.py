"""What the marks in a session's log say of its shell, as far as the log was scanned; it waits for nothing."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from dataclasses import replace

from tmuxmcp.record.checkpoint import Checkpoint
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import PIECE, RawLog
from tmuxmcp.sessions.commands import Commands
from tmuxmcp.terminal.marks import Finished, Mark, MarkScanner, ShellTrack

CHECKPOINT_BYTES = 1 << 20
"""How much is scanned between two checkpoints: what a killed broker's successor scans again, at most."""

MOST_COMMANDS = 64
"""Finished commands that are remembered: more than one wait or `run` can miss."""

SCANNED_BYTES = 4 * PIECE
"""How much is scanned at once: others may go on in between."""

CLOCK_S = 1.0
"""How far clocks may disagree: a file system writes down times in steps."""


class ShellView:
    """The shell of one session, as its marks tell it."""

    def __init__(self, log: RawLog, directory: SessionDirectory, nonce: str, began: float, index: Commands) -> None:
        """Take note of each command in `index`; `began`: when the session was made, in seconds since 1970."""
        self._index = index
        self._log, self._directory, self._nonce, self._began = log, directory, nonce, began
        self._scanner = MarkScanner(nonce)
        self._saved = 0
        self.size = 0
        """Everything up to this offset was scanned."""
        self.track = ShellTrack()
        self.commands: deque[Finished] = deque(maxlen=MOST_COMMANDS)
        """What the shell finished, newest last."""

    def go_on(self) -> None:
        """Take up what was last written down of the same shell, if that can be read."""
        found = Checkpoint.load(self._directory)
        if found and found.nonce == self._nonce and found.offset <= self._log.size():
            self.track, self._saved = found.track, found.offset
            self._begin_at(found.offset)

    def scan_some(self) -> bool:
        """Scan a piece; True while there is more. Not interrupted, so that several callers may scan."""
        behind = self._log.size() - self.size
        if behind <= 0:
            return False
        if behind > SCANNED_BYTES and self._log.head() > self.size:
            self._begin_at(self._log.head())  # what lay between is gone
        data = self._log.read(self.size, SCANNED_BYTES)
        if not data and self._log.head() > self.size:  # cut just now
            self._begin_at(self._log.head())
            return True
        for mark in self._scanner.feed(data):
            self.track, finished = self.track.apply(self._dated(mark))
            if finished:
                self.commands.append(finished)
                self._index.take(finished)
        self.size += len(data)
        if self.size - self._saved >= CHECKPOINT_BYTES or self._index.many_new:
            self.save()
        return len(data) == SCANNED_BYTES

    def save(self) -> None:
        """Write down what the marks say, so that a later broker need not scan from the start."""
        if self._saved != self.size and self._index.save():  # first: behind a checkpoint nobody looks for commands
            self._saved = self.size
            Checkpoint(self._nonce, self._scanner.offset, self.track).save(self._directory)

    def _dated(self, mark: Mark) -> Mark:
        """The mark with its time since 1970; without one that cannot be true, as users can set a shell's clock."""
        if mark.time is None and mark.uptime is None:
            return mark
        said = mark.time if mark.uptime is None else time.time() - _uptime() + mark.uptime
        try:
            written = os.stat(self._log.path).st_mtime
        except OSError:
            written = 0.0
        told = said if said is not None and self._began - CLOCK_S <= said <= written + CLOCK_S else None
        return replace(mark, time=told)

    def _begin_at(self, offset: int) -> None:
        self.size = offset
        self._scanner = MarkScanner(self._nonce, offset)


def _uptime() -> float:
    """Seconds since the machine began, as `/proc/uptime` counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else 0.0
