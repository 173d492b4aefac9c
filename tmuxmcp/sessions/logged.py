"""Whether a session's log holds all that was printed: what a program prints takes a moment to get there."""

from __future__ import annotations

from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux.control import command


async def all_logged(session: Session, size: int) -> bool:
    """Whether the log, of this size, holds everything that was printed until now.

    What a program prints goes through tmux and then the sink. When tmux has answered, it has read what lay there for
    it; its second answer comes after it has passed that on. A sink that sleeps has written all that it was given.
    """
    for _ in range(2):
        await session.tmux.query(command("display-message", "-p", ""))
    return session.sink_rests() and session.log.size() == size
