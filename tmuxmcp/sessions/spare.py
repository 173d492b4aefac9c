"""A pane that is made ahead, so that a client's default session need not wait for it.

Nothing of the user's runs in it: the launcher's step waits for a byte in the pipe `go`, whose other end only this
broker has. All that a session is, its program, environment and working directory too, is decided when it is taken.
Until then it is no session: it has no `meta.json` and no options, counts nowhere, and stands in no list. If the pipe is
closed first, because its time is up or the broker has ended in whatever way, the step has tmux end the pane and removes
the directory. tmux decides which of the two comes first.
"""

from __future__ import annotations

import os
import secrets
import shutil

import anyio

from tmuxmcp.contract.requests import CreateSession
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import value
from tmuxmcp.machine.launch import launch
from tmuxmcp.machine.ownfiles import closing
from tmuxmcp.record.directory import SessionDirectory, make_directory
from tmuxmcp.record.log import RawLog
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import NewPane, Pane, PaneChanged
from tmuxmcp.tmux.server import Tmux

TELL_AGAIN_S, TELL_S = 0.001, 1.0
"""How often it is tried to tell a step that is about to wait to go on, and for how long; then it asks tmux."""


@value(frozen=False)
class Spare:
    """One such pane; whoever takes it holds the lock of creation."""

    directory: SessionDirectory
    pane_id: str
    go: int
    """Our end of the pipe for which its step waits."""
    size: tuple[int, int, int]
    """Columns, rows and lines of scrollback, with which it was made."""

    @property
    def id(self) -> str:
        """Of the session that it is to be."""
        return self.directory.name

    def is_for(self, request: CreateSession) -> bool:
        """Whether it is still there, and as the request wants it."""
        return self.size == _size(request) and self.directory.is_there

    async def take(self, tmux: Tmux, new: NewPane) -> Pane:
        """Make it the session that its `meta.json` and `spec` tell of, and let its program begin.

        Raises:
            PaneChanged: it is gone; nothing of it is left.
            TmuxFailed: tmux did not say whether it is taken.
        """
        pane = await panes.take_spare(tmux, self.pane_id, new)
        if pane is None:
            shutil.rmtree(self.directory.path, ignore_errors=True)  # it was its own when the lock was taken
            raise PaneChanged
        with anyio.move_on_after(TELL_S):
            while not self._tell():
                await anyio.sleep(TELL_AGAIN_S)
        self.close()
        return pane

    def _tell(self) -> bool:
        try:
            return os.write(self.go, b"\n") == 1
        except BrokenPipeError:  # the step has not opened its end yet
            return False

    def close(self) -> None:
        """Let go of it: if it was not taken, its step ends it."""
        if self.go >= 0:
            os.close(self.go)
            self.go = -1


def possible(settings: BrokerSettings) -> bool:
    """Whether a default session can be made of a pane without a sandbox around it."""
    return settings.sandbox == "none"


async def make(tmux: Tmux, request: CreateSession, settings: BrokerSettings) -> Spare:
    """Make a spare pane for a request in which everything is filled in; who calls holds the lock of creation.

    Raises:
        TmuxMcpError, OSError: it was not made, and nothing is left.
    """
    directory = make_directory(settings.state_dir, f"sess_{secrets.token_hex(4)}").pinned()
    spare = Spare(directory, "", -1, _size(request))
    try:
        RawLog(directory).create()
        directory.unless_taken.touch(mode=0o600)
        directory.unless_taken.write_bytes(b"\0".join(map(os.fsencode, panes.unless_taken(tmux))))
        spare.go = _pipe(directory)
        cols, rows, scrollback = spare.size
        new = NewPane(
            options={"id": spare.id},
            argv=launch.launcher_argv(directory.path, secrets.token_hex(8)),
            pipe=launch.sink_argv(directory.path, settings.log_max_bytes),
            cols=cols,
            rows=rows,
            history_limit=max(scrollback, 1),
        )
        with anyio.CancelScope(shield=True):
            spare.pane_id = await panes.new_spare(tmux, new)
    except BaseException:
        spare.close()
        shutil.rmtree(directory.path, ignore_errors=True)
        raise
    return spare


def _size(request: CreateSession) -> tuple[int, int, int]:
    return request.cols, request.rows, request.scrollback_lines


def _pipe(directory: SessionDirectory) -> int:
    """Make the pipe and open the end that is ours: a pipe can be written to only once somebody has opened the other."""
    os.mkfifo(directory.go, 0o600)
    with closing(os.open(directory.go, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)):
        return os.open(directory.go, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
