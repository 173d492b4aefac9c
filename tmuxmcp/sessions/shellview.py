"""What the marks in a session's log say of its shell, as far as the log was scanned; it waits for nothing."""

from __future__ import annotations

from collections import deque

from tmuxmcp.record.checkpoint import Checkpoint
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import PIECE, RawLog
from tmuxmcp.terminal.marks import Finished, MarkScanner, ShellTrack

CHECKPOINT_BYTES = 1 << 20
"""How much is scanned between two checkpoints: what a killed broker's successor scans again, at most."""

MOST_COMMANDS = 64
"""Finished commands that are remembered: more than one wait or `run` can miss."""

SCANNED_BYTES = 4 * PIECE
"""How much is scanned at once: others may go on in between."""


class ShellView:
    """The shell of one session, as its marks tell it."""

    def __init__(self, log: RawLog, directory: SessionDirectory, nonce: str) -> None:
        self._log, self._directory, self._nonce = log, directory, nonce
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
            self.track, finished = self.track.apply(mark)
            if finished:
                self.commands.append(finished)
        self.size += len(data)
        if self.size - self._saved >= CHECKPOINT_BYTES:
            self.save()
        return len(data) == SCANNED_BYTES

    def save(self) -> None:
        """Write down what the marks say, so that a later broker need not scan from the start."""
        if self._saved != self.size:
            self._saved = self.size
            Checkpoint(self._nonce, self._scanner.offset, self.track).save(self._directory)

    def _begin_at(self, offset: int) -> None:
        self.size = offset
        self._scanner = MarkScanner(self._nonce, offset)
