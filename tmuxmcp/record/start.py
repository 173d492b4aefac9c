"""How the start of a session's program went, as the launcher's step writes it down (`machine/launch/step.py`)."""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

from tmuxmcp.machine.ownfiles import open_file, read_text, write_atomically
from tmuxmcp.record.directory import SessionDirectory

READY, BEGUN = "ready", "begun"
"""What `error` holds when there is none, of a session in a sandbox."""


class Start:
    """The files `error`, `pid` and `wrapper` of one session."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._directory = directory

    @property
    def report(self) -> str:
        """What the step says: nothing yet, `READY`, `BEGUN`, or a code and a reason, on two lines."""
        with suppress(OSError, ValueError):
            return read_text(self._directory.report)
        return ""

    @property
    def succeeded(self) -> bool:
        """The step says that it becomes the program: it does so in a sandbox alone."""
        return self.report in (READY, BEGUN)

    def let_begin(self) -> None:
        """Let the program begin that waits until its process id is known: in a sandbox of bubblewrap's."""
        if self.pid is not None and self.report == READY:
            with os.fdopen(open_file(self._directory.report, os.O_WRONLY | os.O_TRUNC), "w") as file:
                file.write(BEGUN)

    @property
    def pid(self) -> int | None:
        """Process id of the program, once it is known."""
        with suppress(OSError, ValueError):
            return int(read_text(self._directory.pid))
        return self._pid_within() if self.succeeded else None

    @property
    def wrappers(self) -> list[int]:
        """Process ids of what is around the program in a sandbox of bubblewrap's: it ends with the program."""
        with suppress(OSError, ValueError, psutil.Error):
            outer = psutil.Process(int(read_text(self._directory.wrapper)))
            return [outer.pid, *(child.pid for child in outer.children())]
        return []

    def _pid_within(self) -> int | None:
        """The program, which is the first process below the two of bwrap; written down, as it may lose its parents."""
        with suppress(psutil.Error, IndexError):
            children = psutil.Process(self.wrappers[1]).children()
            pid = min(children, key=lambda child: child.create_time()).pid
            write_atomically(self._directory.pid, str(pid))
            return pid
        return None
