"""Films of sessions as files: the table of formats, and the work of one export. Blocking.

`main` does it in a process of its own, for a server that has other things to do: a request is a line of JSON on its
standard input; on its standard output are lines that say how far it is, and last a line of JSON, what came of it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from tmuxmcp.contract.errors import IoError, ResourceLimit, TmuxMcpError, Unsupported
from tmuxmcp.contract.value import asdict, replace, value
from tmuxmcp.contract.words import FilmFormat
from tmuxmcp.machine import fonts
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.meta import new_names
from tmuxmcp.record.past.recordings import RecordedSession, Stretch, times_of
from tmuxmcp.terminal.drawing.gif import gif
from tmuxmcp.terminal.drawing.markup import as_html
from tmuxmcp.terminal.drawing.picture import Painter, size_for
from tmuxmcp.terminal.drawing.reel import Reel, moving_svg, reel
from tmuxmcp.terminal.film import formats
from tmuxmcp.terminal.film.film import Film, FilmEvent, FilmInput, FilmMarker, FilmOutput
from tmuxmcp.terminal.film.formats import as_jsonl
from tmuxmcp.terminal.film.player import paced
from tmuxmcp.terminal.snapshot import Snapshot, from_data, to_data
from tmuxmcp.terminal.text.logtext import as_txt
from tmuxmcp.terminal.widths import counted_alike

# ---- Films as pictures that move, with what that needs of this machine: Pillow and fonts -----------------------------

SVG_PER_SECOND, GIF_PER_SECOND = 25, 10
"""Pictures of one second at most: each one of a GIF takes room and time, those of an SVG share their rows."""


Wound = Callable[[Reel], None]
"""Told of the pictures, before they are drawn."""


def as_svg(film: Film, wound: Wound) -> Iterator[bytes]:
    """Give an SVG that moves, without scripts."""
    shots = reel(film, SVG_PER_SECOND)
    wound(shots)
    return (piece.encode("utf-8", "replace") for piece in moving_svg(shots))


def as_gif(film: Film, wound: Wound) -> Iterator[bytes]:
    """Give a GIF that plays for ever.

    Raises:
        Unsupported: Pillow or a font is missing.
    """
    try:
        import PIL  # noqa: F401 - only to say what is missing
    except ImportError:
        raise Unsupported(
            "GIF needs Pillow, which cannot be imported.",
            hint="Have a person install tmuxmcp again, with what it depends on. The format svg needs nothing.",
        ) from None
    shots = reel(film, GIF_PER_SECOND)
    wound(shots)
    yield from gif(shots, Painter(fonts.find(), size=size_for(shots.cols, shots.lines)))


# ----------------------------------------------------------------------------------------------------------------------

EXPORT_BYTES = 1 << 30
"""Of a file: four times as much as a log keeps by its default."""

LAST_LINES_BYTES = 4096
"""Bytes that are kept free in a file that is about to be full: for its last lines."""

BYTES_PER_PRINTED_BYTE = 6
"""Bytes of a file for one that was printed, at most: JSON writes a control character as `\\u001b`."""

TOLD_S = 0.2
"""How often is told how far it is."""

Write = Callable[[Film, Wound], Iterator[bytes]]


@value
class FilmForm:
    """How a film is written."""

    ending: str
    """Of the file's name."""
    write: Write
    timed: bool = True
    """The times of its moments are in it."""


def _without_pictures(write: Callable[[Film], Iterator[bytes]]) -> Write:
    return lambda film, _: write(film)


FORMATS: Mapping[FilmFormat, FilmForm] = {
    "cast": FilmForm(".cast", _without_pictures(partial(formats.written, version=3))),
    "cast2": FilmForm(".cast", _without_pictures(partial(formats.written, version=2))),
    "txt": FilmForm(".txt", _without_pictures(as_txt), timed=False),
    "ansi": FilmForm(".ansi", _without_pictures(partial(as_txt, colours=True)), timed=False),
    "html": FilmForm(".html", _without_pictures(as_html), timed=False),
    "svg": FilmForm(".svg", as_svg),
    "gif": FilmForm(".gif", as_gif),
    "jsonl": FilmForm(".jsonl", _without_pictures(as_jsonl)),
}


@value
class ExportOptions:
    """What is made of a stretch."""

    format: FilmFormat
    speed: float = 1.0
    idle_limit_ms: int | None = None
    typed: bool = False
    """What was typed is part of it, as far as that is written down."""
    full_at: int | None = None
    """Bytes at which the file is full: what comes after that is left out. None: it must be whole."""
    mark: str = ""
    """A marker at its beginning; empty: none."""


@value
class Exported:
    """What came of it."""

    bytes: int
    duration_ms: int
    events: int
    """Moments of the film."""
    times_known: bool
    approximate: bool
    """The screen at its beginning may lack something."""
    begin: int
    """What was printed before this offset is no part of it."""
    truncated: bool = False
    """The file was full before the end."""
    merged_ms: float | None = None
    """There were too many pictures, and those that followed within so long became one; None: all of them are there."""

    @property
    def merged_note(self) -> str | None:
        """The same as a sentence."""
        if self.merged_ms is None:
            return None
        return f"There were too many pictures: those that follow within {self.merged_ms:g} ms became one."


TellProgress = Callable[[int, int], None]
"""`told(done, whole)`: bytes of the log."""


def no_progress(done: int, whole: int) -> None:
    """Tell nobody."""


class Export:
    """The work of one: iterate over the bytes of the file, once; then it says what came of it."""

    def __init__(
        self,
        recorded: RecordedSession,
        stretch: Stretch,
        options: ExportOptions,
        told: TellProgress = no_progress,
        start: Snapshot | None = None,
    ) -> None:
        """Make the film.

        Args:
            start: the screen at its beginning, if that is known.
        """
        self._stretch = stretch
        self._format, self._options = FORMATS[options.format], options
        self._count = _ExportProgress(self._stretch, told)
        film = recorded.film(self._stretch, start)
        marks = [FilmMarker(film.begin_ms, options.mark)] if options.mark else []
        film = replace(film, moments=self._fitting(chain(marks, film.moments)))
        if options.speed != 1 or options.idle_limit_ms is not None:
            film = paced(film, times_of(recorded, self._stretch), options.speed, options.idle_limit_ms)
        self._film, self._bytes = replace(film, moments=self._count.counted(film.moments)), 0
        self._truncated = False
        self._merged_ms: float | None = None

    def __iter__(self) -> Iterator[bytes]:
        """Give the file, a piece at a time.

        Raises:
            ResourceLimit: it is longer than `EXPORT_BYTES`.
        """
        full_at = self._options.full_at
        for piece in self._format.write(self._film, self._wound):
            if full_at is not None and self._bytes + len(piece) > full_at:
                self._truncated = True
                return
            self._bytes += len(piece)
            if self._bytes > EXPORT_BYTES:
                text = f"The file would have more than {EXPORT_BYTES:,} bytes."
                raise ResourceLimit(text, hint="Export a shorter stretch.")
            yield piece

    def _fitting(self, moments: Iterable[FilmEvent]) -> Iterator[FilmEvent]:
        """The moments that a file has room for, and a last one that says so if those are not all."""
        for each in moments:
            size = len(each.data) if isinstance(each, FilmOutput | FilmInput) else 0
            if (
                self._options.full_at is not None
                and self._bytes + size * BYTES_PER_PRINTED_BYTE + LAST_LINES_BYTES > self._options.full_at
            ):
                self._truncated = True
                yield FilmMarker(each.ms, f"the recording ends here: its file may have {self._options.full_at:,} bytes")
                return
            yield each

    def _wound(self, reel: Reel) -> None:
        self._merged_ms = reel.interval_ms if reel.merged else None

    @property
    def exported(self) -> Exported:
        """What came of it, once all of it was given."""
        end_ms = self._count.ms if self._truncated else self._film.end_ms
        return Exported(
            bytes=self._bytes,
            duration_ms=max(end_ms - self._film.begin_ms, 0),
            truncated=self._truncated,
            events=self._count.events,
            times_known=self._film.times_known or not self._format.timed,
            approximate=self._film.start.approximate
            or bool(self._film.start.state.doubts)
            or (self._film.start.state.tmux is None and not self._count.counted_alike),
            begin=self._stretch.begin,
            merged_ms=self._merged_ms,
        )


class _ExportProgress:
    """How far it is."""

    def __init__(self, stretch: Stretch, told: TellProgress) -> None:
        self._told, self._whole = told, stretch.end - stretch.begin
        self._done, self._next = 0, time.monotonic() + TOLD_S
        self.events = 0
        self.ms = 0
        """When the last moment was."""
        self.counted_alike = True
        """All versions of tmux give what was printed the same columns."""

    def counted(self, moments: Iterable[FilmEvent]) -> Iterator[FilmEvent]:
        """The moments, once they were taken."""
        for each in moments:
            self.ms = each.ms
            yield each
            self.events += 1
            if isinstance(each, FilmOutput):
                self._done += len(each.data)
                self.counted_alike &= each.data.isascii() or counted_alike(each.data.decode("utf-8", "ignore"))
                if (now := time.monotonic()) > self._next:
                    self._next = now + TOLD_S
                    self._told(self._done, self._whole)


# ---- in a process of its own -------------------------------------------------------------------------


def free_path(directory: SessionDirectory, format: FilmForm) -> Path:
    """Where a file goes for which no place was named.

    Raises:
        IoError: that place cannot be made.
    """
    try:
        directory.recordings.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise IoError(f"{directory.recordings} cannot be made: {error.strerror}.") from error
    return next(path for name in new_names(format.ending) if not (path := directory.recordings / name).exists())


@contextmanager
def staged(directory: SessionDirectory, name: str) -> Iterator[Path]:
    """A new empty file in a session's directory that is gone afterwards, if nobody has moved it.

    Raises:
        IoError: it cannot be made.
    """
    path = directory.recordings / name
    try:
        directory.recordings.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise IoError(f"{path} cannot be made: {error.strerror}.") from error
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink()


def request(
    directory: SessionDirectory, stretch: Stretch, options: ExportOptions, to: Path, start: Snapshot | None = None
) -> bytes:
    """What the process is given."""
    return json.dumps(
        {
            "directory": str(directory.path),
            "stretch": asdict(stretch),
            "options": asdict(options),
            "to": str(to),
            "start": to_data(start) if start else None,
        }
    ).encode()


def main() -> None:
    """Do what standard input says."""
    asked = json.loads(sys.stdin.buffer.read())
    try:
        answer: dict[str, Any] = {"exported": asdict(_do(asked))}
    except TmuxMcpError as error:
        answer = {"error": error.as_dict()}
    sys.stdout.write(json.dumps(answer) + "\n")


def _do(asked: dict[str, Any]) -> Exported:
    options = ExportOptions(**asked["options"])
    recorded = RecordedSession(SessionDirectory(Path(asked["directory"])), typed=options.typed)
    start = from_data(asked["start"]) if asked["start"] else None
    export = Export(recorded, Stretch(**asked["stretch"]), options, _tell, start)
    try:
        with open(asked["to"], "r+b") as out:
            out.writelines(export)
    except OSError as error:
        raise IoError(f"{asked['to']} cannot be written: {error.strerror}.") from error
    return export.exported


def _tell(done: int, whole: int) -> None:
    sys.stdout.write(f"{percent(done, whole)} %\n")
    sys.stdout.flush()


def percent(done: int, whole: int) -> int:
    """How much of the whole that is."""
    return min(done * 100 // max(whole, 1), 100)


def read_reply(stdout: bytes) -> Exported:
    """What the process has to say.

    Raises:
        TmuxMcpError: what `export` raises.
        IoError: it has nothing to say.
    """
    try:
        answer = json.loads(stdout.rstrip(b"\n").rpartition(b"\n")[2])
    except ValueError:
        answer = None
    match answer:
        case {"error": dict() as error}:
            raise TmuxMcpError.received(error)
        case {"exported": dict() as facts}:
            return Exported(**facts)
    raise IoError("The process that makes the file has ended.", hint="Try again, or export a shorter stretch.")
