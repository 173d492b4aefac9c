"""What a person does in a page: takes a session, types into it, gives it back; pauses agents. No operation leads here.

Who types holds the session, by this very page: tmux itself checks that in the step that types. What is typed is
written down nowhere, no more than what is typed at a terminal that is attached.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence

import anyio

from tmuxmcp.broker.sending import Typing, commands_of, own_sequences, with_room
from tmuxmcp.contract.errors import PermissionDenied, TmuxFailed
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.sessions import lease
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell.sequence import KeySequence, Text, one_newline
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.leaseoptions import Lease, taken_error, user_name
from tmuxmcp.tmux.leases import held_as
from tmuxmcp.tmux.panes import INLINE_BYTES, InputLeftover, Pane

TOUCH_S = 30.0
"""That a person types is written down at most so often: tmux then draws the screens of all who are attached."""


class PageInput:
    """What the pages of one broker do."""

    def __init__(self, registry: Registry, settings: BrokerSettings, note: Callable[[Mapping[str, str]], None]) -> None:
        """`note` writes down what a person did."""
        self._registry, self._settings, self._note = registry, settings, note

    async def take(self, session_id: str, page: int) -> Lease:
        """Have a page hold a session, also where its person holds it in another way.

        Raises:
            SessionNotFound, SessionExited
            SessionTaken: another person holds it.
        """
        session = await self._registry.existing(session_id)
        taken = await lease.take(session, "page", page, key=self._settings.take_key)
        self._note({"tool": "take", "session_id": session_id, "by": taken.by, "via": "page"})
        return taken

    async def give_back(self, session_id: str, page: int) -> bool:
        """Give a session back; False: the page does not hold it.

        Raises:
            SessionNotFound
        """
        session = await self._registry.existing(session_id)
        return await lease.release(session, page=page) is not None

    async def let_go(self, page: int) -> None:
        """Give back what a page holds that has gone."""
        await self._registry.look_again()
        for session in list(self._registry.sessions.values()):
            if session.pane and session.pane.taken and session.pane.taken.page == page:
                await lease.release(session, "detach", page=page)

    # ---- typing ----------------------------------------------------------------------------------

    async def press(self, session_id: str, page: int, items: Sequence[KeySequence | Text]) -> None:
        """Type keys and texts, all of them or none.

        Raises:
            PermissionDenied, SessionTaken: the page does not hold the session.
            SessionNotFound, SessionExited, ResourceLimit, InvalidArgument, TmuxFailed
        """
        session, pane = await self._of_page(session_id, page)
        what = Typing(Text(""), list(items), "never")
        look = await with_room(session, self._settings, what)
        after = [*commands_of(pane, what.items, await own_sequences(look, what))]
        done = await panes.type_input(
            session.tmux,
            pane,
            b"",
            after=after,
            left=what.leftover(look.ready),
            person=True,
            condition=held_as(pane.taken),
        )
        await self._check_typed(session, page, done)

    async def paste(self, session_id: str, page: int, text: str) -> bool:
        """Type text as a terminal pastes it; True: what a paste cannot hold was left out (control characters).

        Where a secret is asked it goes through no buffer of tmux.

        Raises:
            As `press`.
        """
        session, pane = await self._of_page(session_id, page)
        lines = pasteable(text)
        what = Typing(Text(lines), [], "never")
        look = await with_room(session, self._settings, what)
        data, after = what.data, []
        if look.mode == "password" and len(data) <= INLINE_BYTES:
            data, after = b"", panes.raw_pieces(pane, data)
        done = await panes.type_input(
            session.tmux,
            pane,
            data,
            after=after,
            bracketed=True,
            left=InputLeftover.OPEN,  # between brackets a newline is no Enter
            person=True,
            condition=held_as(pane.taken),
        )
        await self._check_typed(session, page, done)
        return len(lines) != len(text.replace("\r\n", "\n"))

    async def _of_page(self, session_id: str, page: int) -> tuple[Session, Pane]:
        """A session that a page holds.

        Raises:
            PermissionDenied, SessionTaken, SessionNotFound, SessionExited
        """
        session = await self._registry.existing(session_id)
        pane = session.live()
        if pane.taken is None:
            raise PermissionDenied(
                f"Nothing was typed: session {session_id} is not held by this page any more.", hint="Take it first."
            )
        if pane.taken.page != page:
            raise taken_error(session_id, pane.taken)
        return session, pane

    async def _check_typed(self, session: Session, page: int, done: bool) -> None:
        """See that it was typed, and that the person is there."""
        if not done:
            await self._of_page(session.id, page)
            raise TmuxFailed(f"Nothing was typed: session {session.id} changed at this moment.", hint="Try again.")
        timeout_s = self._settings.take_timeout_s or TOUCH_S
        if session.pane and time.time() - session.pane.held_at_s >= min(TOUCH_S, timeout_s / 4):
            await lease.touch(session)

    # ---- pausing ---------------------------------------------------------------------------------

    async def pause(self, session_id: str = "") -> list[str]:
        """Keep agents from typing into a session, or into all and those made later; the ids of what is paused.

        Raises:
            SessionNotFound, TmuxUnavailable, PermissionDenied, InvalidArgument, TmuxFailed
        """
        names = await anyio.to_thread.run_sync(lease.pause, self._settings.state_dir, session_id, "page")
        self._note_pause("pause", session_id)
        return names

    async def resume(self, session_id: str = "") -> list[str]:
        """Let agents type again; the ids of what is not paused now: none, where all are and one was meant.

        Raises:
            SessionNotFound, TmuxUnavailable, PermissionDenied, InvalidArgument, TmuxFailed
        """
        names = await anyio.to_thread.run_sync(lease.resume, self._settings.state_dir, session_id)
        self._note_pause("resume", session_id)
        return names

    def _note_pause(self, tool: str, session_id: str) -> None:
        self._note({"tool": tool, "session_id": session_id, "by": user_name(), "via": "page"})


def pasteable(text: str) -> str:
    """Text without control characters, but for tabs and newlines: a paste that holds ESC could end itself."""
    lines = one_newline(text)
    return "".join(char for char in lines if char in "\t\n" or unicodedata.category(char) not in ("Cc", "Cs"))
