"""When a program was truly ready, from the growth of its log; and what simple rules would have said of it."""

from __future__ import annotations

import os
import re
import threading
import time
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.002
QUIET_S = 0.3
ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_].*?\x1b\\|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]+[0-~]|\x1b[0-Z\\^-~]",
    re.S,
)
PROMPT = re.compile(r"[$#%>:?»❯)\]] ?\Z")
"""The regex of a prompt that tools use which know none: a line that ends like one."""


def plain(data: bytes) -> str:
    """Text without escape sequences; where the cursor went is not followed."""
    return ESCAPES.sub("", data.decode(errors="replace")).replace("\x08", "").replace("\x0f", "")


@dataclass
class Growth:
    """The log had this size at this time (seconds since the epoch)."""

    at: float
    size: int


class Watch:
    """Watches a log, and a file that the program writes, from just before something is sent.

    Times come from the file's own time stamp, so a late look does not make the program late.
    """

    def __init__(self, log: Path, probe: Path | None = None) -> None:
        self.log, self.probe = log, probe
        self.before = self._size(log)[0]
        self._probe_before = self._size(probe)[0] if probe else 0
        self.begun = time.time()
        self.grown: list[Growth] = []
        self.probed_at: float | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_often, daemon=True)
        self._thread.start()

    @staticmethod
    def _size(file: Path) -> tuple[int, float]:
        try:
            stat = os.stat(file)
        except FileNotFoundError:
            return 0, 0.0
        return stat.st_size, stat.st_mtime

    def _look_often(self) -> None:
        while not self._over.wait(POLL_S):
            self.look()

    def look(self) -> float:
        """Note how large the files are now; the time of this look."""
        with self._lock:
            size, at = self._size(self.log)
            last = self.grown[-1].size if self.grown else self.before
            if size > last:
                self.grown.append(Growth(max(at, self.begun), size))
            if self.probe and self.probed_at is None:
                size, at = self._size(self.probe)
                if size > self._probe_before:
                    self.probed_at = max(at, self.begun)
            return time.time()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def text(self, size: int | None = None) -> str:
        """What was printed since the beginning, as far as that size."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(self.before)
            return plain(file.read(-1 if size is None else max(size - self.before, 0)))

    def ready_at(self, done: re.Pattern[str]) -> float | None:
        """When all was there that says that the program is ready; None: not yet."""
        grown = [Growth(self.begun, self.before), *self.grown]
        if not done.search(self.text(grown[-1].size)):
            return None
        # The first size at which it was all there. It stays there, so halving finds it.
        at = grown[bisect_left(grown, True, key=lambda growth: bool(done.search(self.text(growth.size))))].at
        if not self.probe:
            return at
        return None if self.probed_at is None else max(at, self.probed_at)

    def quiet_at(self) -> float:
        """When a wait for 300 ms of silence would have ended."""
        last = self.begun
        for growth in self.grown:
            if growth.at - last >= QUIET_S:
                break
            last = growth.at
        return last + QUIET_S

    def prompt_at(self) -> float | None:
        """When the last line of what was printed first ended like a prompt; None: it never did."""
        for growth in self.grown:
            lines = re.split(r"[\r\n]", self.text(growth.size))
            if len(lines) > 1 and PROMPT.search(lines[-1]):
                return growth.at
        return None
