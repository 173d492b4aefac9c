"""Clean text of a log as it comes, with colours or without, and a film as such text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tmuxmcp.terminal.film.film import Film, FilmOutput, FilmResize
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Snapshot
from tmuxmcp.terminal.text.plain import (
    MAX_HELD_BYTES,
    begun_full_screen,
    ends_full_screen,
    out_of_reach,
    plain,
    style_behind,
    unfinished,
)
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion

_LEAST_HELD_BYTES = 64 * 1024
"""Bytes of a log that are made text at once, where there are as many."""


class LogText:
    """Clean text: whole lines, and what a full-screen program drew as the one line it becomes."""

    def __init__(
        self,
        cols: int,
        rows: int,
        *,
        colours: bool = False,
        before: Snapshot | None = None,
        last_state: bool = False,
        version: TmuxVersion = OLDEST_VERSION,
    ) -> None:
        """Begin on an empty screen, or on what was shown before.

        Args:
            last_state: lines wait until nothing can be drawn over them; else they come as soon as they end.
            version: of the tmux that counts its columns, where the screen before does not say it.
        """
        self.cols, self.rows = cols, rows
        self._version = (before and before.state.tmux) or version
        self._last_state = last_state
        self._waiting: list[bytes] = []
        """What was fed and not looked at yet."""
        self._room = _LEAST_HELD_BYTES
        """So much may still come before it is looked at."""
        self._rest = before.state.unfinished if before else b""
        self._inside = before.alternate if before else False
        self._col = before.cursor.col if before and not before.alternate else 0
        saved = before.state.saved_by_alternate if before and before.alternate else None
        style = saved.pen if saved else before.state.pen if before else PLAIN_STYLE
        self._style = style if colours else None

    def begin_at(self, cut: bytes, col: int, inside: bool) -> None:
        """Begin where nobody knows all that was shown.

        Args:
            cut: the beginning of a sequence or character whose rest comes first.
            col: the cursor's column.
            inside: a full-screen program draws there.
        """
        self._rest, self._col, self._inside = cut, col, inside

    def feed(self, data: bytes) -> str:
        """Take bytes; give the lines that are complete."""
        self._waiting.append(data)
        self._room -= len(data)
        if self._last_state and self._room > 0:
            return ""
        self._rest, self._waiting = b"".join([self._rest, *self._waiting]), []
        begun = begun_full_screen(self._rest)
        cut = self._rest.rfind(b"\n", 0, begun) + 1
        if self._last_state and len(self._rest) < MAX_HELD_BYTES:
            cut = out_of_reach(self._rest, cut, self.rows)
        if not cut and len(self._rest) > MAX_HELD_BYTES:
            cut = len(self._rest) - unfinished(self._rest)
        done, self._rest = self._rest[:cut], self._rest[cut:]
        self._room = max(len(self._rest), _LEAST_HELD_BYTES)
        return self._clean(done)

    def end(self) -> str:
        """Give what is left."""
        done, self._rest, self._waiting = b"".join([self._rest, *self._waiting]), b"", []
        return self._clean(done)

    def _clean(self, data: bytes) -> str:
        if not data:
            return ""
        inside, col, self._col = self._inside, self._col, 0
        self._inside = ends_full_screen(data, inside)
        style = self._style
        if style is not None:
            self._style = style_behind(data, style, inside=inside)
        return plain(data, self.cols, self.rows, col=col, inside=inside, style=style, version=self._version).text


def film_text(film: Film, *, colours: bool = False) -> Iterator[str]:
    """The text of a film, a piece at a time; with colours, each line begins and ends in the terminal's own style."""
    start = film.start
    text = LogText(start.cols, start.rows, colours=colours, before=start, last_state=True)
    for each in film.moments:
        match each:
            case FilmOutput(_, data):
                if piece := text.feed(data):
                    yield piece
            case FilmResize(_, cols, rows):
                text.cols, text.rows = cols, rows
    if piece := text.end():
        yield piece


def as_txt(film: Film, *, colours: bool = False) -> Iterator[bytes]:
    """The text of a film as a file; with colours, those are sequences."""
    return (piece.encode("utf-8", "surrogateescape") for piece in film_text(film, colours=colours))
