"""Reading: an optional wait, then a view of what a session shows or printed, with what is to be said of it."""

from __future__ import annotations

from dataclasses import dataclass

from tmuxmcp.broker import results as r
from tmuxmcp.broker import views
from tmuxmcp.broker.call import Call
from tmuxmcp.broker.registry import Registry
from tmuxmcp.broker.session import Session
from tmuxmcp.broker.settings import BrokerSettings
from tmuxmcp.broker.views import Piece
from tmuxmcp.broker.wait import Answer, Wait, compile_pattern, wait_for
from tmuxmcp.errors import InvalidArgument
from tmuxmcp.terminal.capture import Capture, parse_capture
from tmuxmcp.terminal.plain import sanitize
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import Pane


@dataclass(frozen=True)
class Asked:
    """What a caller wants to see, and after which wait: the arguments that `read` and `send` share, and read's own."""

    view: str
    """A view's name, or `auto`."""
    wait_for: str
    timeout_ms: int
    format: str = "plain"
    pattern: str = ""
    idle_ms: int = 300
    prompt_pattern: str = ""
    max_bytes: int | None = None
    since: int | None = None
    offset: int | None = None
    limit: int = 1000


class Reading:
    """Waits and reads for `read` and `send`."""

    def __init__(self, registry: Registry, settings: BrokerSettings) -> None:
        self.registry = registry
        self.settings = settings

    def wait(self, asked: Asked, call: Call) -> Wait:
        """The wait that was asked for.

        Raises:
            InvalidPattern, InvalidArgument
        """
        if asked.wait_for == "pattern" and not asked.pattern:
            raise InvalidArgument("wait_for=pattern needs a pattern.", hint="Give a regular expression as pattern.")
        prompt = asked.prompt_pattern or self.settings.prompt_pattern
        return Wait(
            want=asked.wait_for,
            timeout_ms=clamp(self.settings, asked.timeout_ms)[0],
            idle_ms=asked.idle_ms,
            pattern=compile_pattern(asked.pattern) if asked.pattern else None,
            prompt_pattern=compile_pattern(prompt) if prompt else None,
            progress=call.progress,
        )

    async def read(self, session: Session, asked: Asked, wait: Wait, call: Call) -> r.ReadResult:
        """Wait for new text or the screen, and read.

        Raises:
            InvalidArgument: `since` is not in the log.
        """
        if asked.since is not None and asked.since > session.log.size():
            raise InvalidArgument(
                f"since={asked.since} is behind the end of the log ({session.log.size()}).",
                hint="Use a next_offset that this session gave.",
            )
        wait.start_offset = session.cursor_of(call.caller) if asked.since is None else asked.since
        return await self.waited(session, asked, wait, call)

    async def waited(self, session: Session, asked: Asked, wait: Wait, call: Call) -> r.ReadResult:
        """Wait, and read."""
        answer = await wait_for(session, wait)
        await session.scan()
        view = await _chosen(session, asked.view)
        start = session.cursor_of(call.caller) if asked.since is None else asked.since
        end = session.log.size()
        shown, piece = await self._piece(session, view, asked, start, end)
        if view in ("new", "raw"):
            if wait.want != "none":
                await session.refresh()
            if asked.since is None:
                session.move_cursor(call.caller, piece.next_offset)
        note = notes(session, end if view == "screen" else start, end, piece.note)
        effective = clamp(self.settings, asked.timeout_ms)[1] if wait.want != "none" else None
        return _result(session, view, answer, shown, piece, end > start, effective, note)

    async def _piece(self, session: Session, view: str, asked: Asked, start: int, end: int) -> tuple[Capture, Piece]:
        """What the view shows of the log between two offsets, or of the screen."""
        limit = asked.max_bytes or self.settings.max_bytes
        if view == "screen":
            shown, lines = await self._screen(session)
            return shown, views.screen(shown, lines, asked.format, limit, end)
        nothing = Capture([], [], False)
        if view == "scrollback":
            return nothing, views.scrollback(session, asked.offset, asked.limit, limit, end)
        if view == "raw":
            return nothing, views.raw(session, start, end, limit)
        return nothing, views.text(session, start, end, limit, contiguous=asked.since is not None)

    async def _screen(self, session: Session) -> tuple[Capture, list[str]]:
        """What is visible, and the same with its colours; nothing for a session that is lost."""
        captured = await panes.capture_pane(session.tmux, session.pane) if session.pane else None
        if captured is None:
            await self.registry.existing(session.id)  # destroyed, or lost
            return Capture([], [], False), []
        session.see(captured[0])
        return parse_capture(captured[1]), captured[1]


async def _chosen(session: Session, view: str) -> str:
    """The view that `auto` stands for now."""
    if view != "auto":
        return view
    await session.refresh()
    return "screen" if session.pane and session.pane.alternate_screen else "new"


def _result(
    session: Session,
    view: str,
    answer: Answer,
    shown: Capture,
    piece: Piece,
    has_new_content: bool,
    effective_timeout_ms: int | None,
    note: str | None,
) -> r.ReadResult:
    code, _ = session.exit_status
    return r.ReadResult(
        session_id=session.id,
        view=view,  # type: ignore[arg-type]
        outcome=answer.outcome,
        evidence=answer.evidence,
        mode=session.mode(),
        exited=session.exited,
        exit_code=code,
        rows=session.rows,
        cols=session.cols,
        cursor=cursor_of(session.pane),
        matched=answer.matched,
        waited_ms=answer.waited_ms,
        effective_timeout_ms=effective_timeout_ms,
        has_new_content=has_new_content,
        truncated=piece.truncated,
        omitted_bytes=piece.omitted_bytes,
        next_offset=piece.next_offset,
        encoding="base64" if view == "raw" else None,
        sanitized=piece.sanitized,
        highlights=[r.Highlight(row=each.row, col=each.col, text=each.text) for each in shown.reversed[:50]],
        note=note,
        content=piece.text,
    )


def clamp(settings: BrokerSettings, timeout_ms: int) -> tuple[int, int | None]:
    """The wait that is allowed, and that again if it is shorter than what was asked for."""
    most = settings.max_wait_ms
    return (most, most) if timeout_ms > most else (timeout_ms, None)


def taken_notice(session: Session) -> str | None:
    """What the session's owner is to be told; once."""
    notice, session.notice = session.notice, None
    return notice


def notes(session: Session, start: int, end: int, *more: str | None) -> str | None:
    """All that is to be said of a result, which covers the log between two offsets."""
    found = [note for note in (taken_notice(session), *more) if note]
    gaps = session.gaps(start, end) if end > start else []
    if gaps:
        found.append(f"Output was lost at offset {', '.join(map(str, gaps))}: its recording was interrupted.")
    return " ".join(found) or None


def cursor_of(pane: Pane | None) -> r.CursorPosition | None:
    """Where a pane's cursor is; None when its program has ended."""
    if pane is None or pane.dead:
        return None
    return r.CursorPosition(row=pane.cursor_row, col=pane.cursor_col, visible=pane.cursor_visible)


def title_of(session: Session) -> str:
    """The title that its program has set, safe to show."""
    return sanitize(session.pane.title)[0] if session.pane else ""
