"""Pictures of what a session shows now."""

from __future__ import annotations

import base64

import anyio

from tmuxmcp.broker.past import Moment, moment_at, screen_of
from tmuxmcp.broker.verbs import Work, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import SessionExited, Unsupported
from tmuxmcp.contract.value import replace, value
from tmuxmcp.contract.words import PictureFormat
from tmuxmcp.machine import fonts
from tmuxmcp.sessions.screens import shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.drawing import markup, picture
from tmuxmcp.terminal.emulator.capture import ShownScreen
from tmuxmcp.terminal.snapshot import Cursor, Doubt, Snapshot

PICTURE_TYPES = {"png": "image/png", "svg": "image/svg+xml", "html": "text/html"}


@value
class Picture:
    """A picture of a screen."""

    format: PictureFormat
    data: bytes
    cols: int
    rows: int
    width: int | None
    """In pixels, or in an SVG's own units; a page has none."""
    height: int | None

    def result(self, session_id: str) -> r.ScreenshotResult:
        """As the operation answers."""
        return r.ScreenshotResult(
            session_id=session_id,
            format=self.format,
            mime_type=PICTURE_TYPES[self.format],
            rows=self.rows,
            cols=self.cols,
            width=self.width,
            height=self.height,
            bytes=len(self.data),
            data=self.text,
        )

    @property
    def text(self) -> str:
        """The data, as JSON can carry them: base64 for PNG."""
        return base64.b64encode(self.data).decode("ascii") if self.format == "png" else self.data.decode()


@verb(q.Screenshot)
async def screenshot(work: Work[q.Screenshot]) -> r.ScreenshotResult:
    """Draw what a session shows, or showed at a moment."""
    request, session = work.request, await work.session()
    if request.at_ms is None:
        return (await take(session, request.format)).result(session.id)
    return await of_past(session, await moment_at(session, request.at_ms), request.format)


async def take(session: Session, format: PictureFormat) -> Picture:
    """Draw what a session shows now.

    Raises:
        Unsupported: Pillow or a font is missing.
        SessionExited: its pane is gone, and its screen with it.
    """
    shown = await shown_by(session)
    if shown is None:
        raise SessionExited(
            f"There is no screen any more. {session.how_it_ended}",
            hint="read view=scrollback still gives what it printed.",
            session_id=session.id,
        )
    title = session.pane.title if session.pane else ""
    alive = bool(session.pane and not session.pane.dead)
    return await anyio.to_thread.run_sync(lambda: draw(snapshot_of(shown, title, alive), format))


async def of_past(session: Session, moment: Moment, format: PictureFormat) -> r.ScreenshotResult:
    """Draw what a session showed at a moment.

    Raises:
        InvalidArgument, NotRetained, TimedOut, IoError: there is no such screen.
        Unsupported: Pillow or a font is missing.
    """
    snapshot = await screen_of(session, moment)
    picture = await anyio.to_thread.run_sync(draw, snapshot, format)
    approximate = snapshot.approximate or Doubt.SHAPE in snapshot.state.doubts  # the cursor's, which is drawn
    return replace(picture.result(session.id), approximate=approximate)


def snapshot_of(shown: ShownScreen, title: str, alive: bool) -> Snapshot:
    """What is shown, as cells."""
    from tmuxmcp.terminal.emulator.seed import grid  # late: it brings the emulator

    row, col, visible = shown.cursor
    cursor = Cursor(min(row, shown.rows - 1), min(col, shown.cols - 1), visible and alive)
    cells = grid(shown.lines, shown.cols, shown.rows, shown.version)
    return Snapshot(shown.cols, shown.rows, cells, cursor, title=title)


def draw(snapshot: Snapshot, format: PictureFormat) -> Picture:
    """Draw any screen; takes some hundredths of a second for a PNG.

    Raises:
        Unsupported: Pillow or a font is missing.
    """
    cols, rows = snapshot.cols, snapshot.rows
    if format == "png":
        data, width, height = _png(snapshot)
        return Picture(format, data, cols, rows, width, height)
    if format == "svg":
        return Picture(format, markup.svg(snapshot).encode(), cols, rows, *markup.svg_size(cols, rows))
    return Picture(format, markup.html(snapshot).encode(), cols, rows, None, None)


def _png(snapshot: Snapshot) -> tuple[bytes, int, int]:
    try:
        import PIL  # noqa: F401 - only to say what is missing
    except ImportError:
        raise Unsupported(
            "PNG needs Pillow, which cannot be imported.",
            hint="Have a person install tmuxmcp again, with what it depends on. `read view=screen` gives the text.",
        ) from None
    painter = picture.Painter(fonts.find(), size=picture.size_for(snapshot.cols, snapshot.rows))
    return picture.png(snapshot, painter)
