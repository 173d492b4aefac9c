"""What `run` gives of a command: what it printed, and where it draws the screen, that screen.

A full-screen program that asks for keys is shown as it stands. One that ended without leaving the alternate screen,
as a crashed program does, is shown as it left it: its last message is there.
"""

from __future__ import annotations

import anyio

from tmuxmcp.broker import views
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.readiness.judge import FULL_SCREEN_MODES
from tmuxmcp.sessions.screens import ShownScreen, shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell.typed import RunOutcome
from tmuxmcp.terminal.text.plain import begun_full_screen
from tmuxmcp.terminal.widths import sanitize

DRAWN_ANEW_BYTES = 1 << 20
"""Raw bytes that a program which did not leave its screen may have drawn, for that to be drawn anew (1 s of work)."""

LEAST_BEFORE = 200
"""Bytes of text: where there is less room above a screen, what was printed before it is left out."""

IS_SHOWN = "Its screen is in output."
WAS_SHOWN = "It ended without leaving its screen, which is in output; `tput rmcup` leaves it."


@dataclass(frozen=True)
class CommandOutput:
    """The output of a command."""

    text: str
    omitted_bytes: int
    sanitized: bool
    note: str | None = None
    shown: ShownScreen | None = None
    """The screen in it, if that is the session's of now."""

    @property
    def truncated(self) -> bool:
        """Something was left out."""
        return self.omitted_bytes > 0


async def output_of(session: Session, ran: RunOutcome, max_bytes: int) -> CommandOutput:
    """What a command printed and shows, at most so many bytes of text."""
    if not ran.completed and ran.evidence is not None:
        shown = await _drawn_now(session)
        if shown:
            piece = views.screen(shown, "plain", max_bytes, ran.end)
            begun = _drawing_begin(session, ran)
            return _below(session, ran, begun or ran.start, piece, max_bytes, IS_SHOWN, shown)
    if ran.end == ran.start:
        return CommandOutput("", 0, sanitized=False)
    if session.reader.draws_at(ran.end):
        begun = _drawing_begin(session, ran)
        if begun is not None:
            return await anyio.to_thread.run_sync(_after_drawing, session, ran, begun, max_bytes)
    found = session.reader.of_command(ran.start, ran.end, max_bytes)
    return CommandOutput(
        found.text, found.omitted_bytes, found.sanitized, views.DREW_ABOVE if found.drew_above else None
    )


async def _drawn_now(session: Session) -> ShownScreen | None:
    """The screen, if a program draws the whole of it."""
    look = await session.look()
    if not (look.alternate_screen or look.mode in FULL_SCREEN_MODES or session.reader.draws_at(look.size)):
        return None
    shown = await shown_by(session)
    drawn = look.mode in FULL_SCREEN_MODES or (session.pane and session.pane.alternate_screen)
    return shown if drawn else None


def _drawing_begin(session: Session, ran: RunOutcome) -> int | None:
    """Where in its output a command began to draw the screen that it has not left; None: not in what is looked at."""
    start = max(ran.start, ran.end - DRAWN_ANEW_BYTES, session.log.head())
    data = session.log.read(start, max(ran.end - start, 0))
    begun = begun_full_screen(data)
    return start + begun if begun < len(data) else None


def _after_drawing(session: Session, ran: RunOutcome, begun: int, max_bytes: int) -> CommandOutput:
    from tmuxmcp.terminal.emulator.replay import Replay, SizeChange, blank  # late: it brings the emulator

    resizes = [SizeChange(each.offset, each.cols, each.rows) for each in session.events.resizes()]
    replay = Replay(blank(session.cols, session.rows, begun, session.screen_rows.version), resizes)
    for data in session.log.pieces(begun, ran.end):
        replay.feed(data)
    rows = [row.rstrip() for row in replay.snapshot().text_rows()]
    while rows and not rows[-1]:
        rows.pop()
    text, sanitized = sanitize("\n".join(rows))
    kept = text.encode("utf-8", "replace")[-max_bytes:].decode("utf-8", "ignore")
    omitted = len(text.encode("utf-8", "replace")) - len(kept.encode("utf-8", "replace"))
    return _below(session, ran, begun, views.ViewText(kept, ran.end, omitted, sanitized), max_bytes, WAS_SHOWN, None)


def _below(
    session: Session,
    ran: RunOutcome,
    begun: int,
    screen: views.ViewText,
    max_bytes: int,
    note: str,
    shown: ShownScreen | None,
) -> CommandOutput:
    """A screen, below what the command printed before it began to draw."""
    room = max_bytes - len(screen.text.encode("utf-8", "replace")) - 1
    if begun <= ran.start:
        return CommandOutput(screen.text, screen.omitted_bytes, screen.sanitized, note, shown)
    if room < LEAST_BEFORE:
        return CommandOutput(screen.text, screen.omitted_bytes + begun - ran.start, screen.sanitized, note, shown)
    before = session.reader.of_command(ran.start, begun, room)
    text = before.text + ("" if not before.text or before.text.endswith("\n") else "\n") + screen.text
    sanitized = before.sanitized or screen.sanitized
    return CommandOutput(text, before.omitted_bytes + screen.omitted_bytes, sanitized, note, shown)
