"""`tmuxmcp replay`: what a session did, or an asciicast, played in a person's terminal.

What was recorded never reaches that terminal as it is: it is fed to our own screen, and the rows of that are drawn.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Sequence

import anyio

from tmuxmcp.contract.errors import FileMissing, InvalidArgument, ResourceLimit, SessionNotFound, Unsupported
from tmuxmcp.contract.value import field, value
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.calling import kept_session
from tmuxmcp.faces.cli.fullscreen import Stage
from tmuxmcp.record.past.recordings import RecordedSession, WantedStretch
from tmuxmcp.terminal.emulator.capture import clip
from tmuxmcp.terminal.emulator.redraw import ansi_row
from tmuxmcp.terminal.film import formats
from tmuxmcp.terminal.film.film import Film, FilmEvent
from tmuxmcp.terminal.film.player import Player
from tmuxmcp.terminal.snapshot import Cells, Snapshot, runs

REPLAY_FRAME_S = 0.04
"""The screen is drawn at most so often."""

STATUS_TIME_S = 0.5
"""The time in the status line is at most so old."""

SEEK_MS = 5000

IDLE_LIMIT_MS = 2000
"""No silence is longer, unless the person says something else."""

MOST_CAST_BYTES = 256 << 20
"""Of a file: all of it is in memory."""

KEYS_HELP = "space . ←→ +- i n p f q"


@value
class Source:
    """What is played."""

    player: Player
    begin_ms: float
    """Where to begin."""


def replay(options: argparse.Namespace) -> int:
    """`tmuxmcp replay`."""
    source = _source(options)
    if options.json:
        _print_facts(source.player)
        return 0
    if not sys.stdout.isatty():
        raise Unsupported(
            "A replay needs a terminal to play in.",
            hint="`tmuxmcp export ID --format txt --path -` gives the text; --json tells what there is.",
        )
    return anyio.run(_play, source)


# ---- what is played ----------------------------------------------------------------------------------


def _source(options: argparse.Namespace) -> Source:
    name = session_id(options)
    if os.sep in name or name.endswith(".cast"):
        return _of_file(name, options)
    try:
        return _of_session(options)
    except SessionNotFound:
        if name and os.path.isfile(name):
            return _of_file(name, options)
        raise


def _player(options: argparse.Namespace, film: Film, marks: Iterable[FilmEvent] | None = None) -> Player:
    idle_limit_ms = IDLE_LIMIT_MS if options.idle_limit is None else options.idle_limit
    return Player(film, options.speed or 1.0, idle_limit_ms, marks)


def _of_session(options: argparse.Namespace) -> Source:
    recorded = RecordedSession(kept_session(options).directory)
    stretch = recorded.stretch(WantedStretch())
    happened = recorded.moments(stretch, lambda start, end: ())
    player = _player(options, recorded.film(stretch), happened)
    begin_ms = options.begin
    if options.command is not None:
        begin_ms = recorded.stretch(WantedStretch(command=options.command)).begin_ms
    if begin_ms is not None and begin_ms >= 0:
        begin_ms -= player.film.begin_ms
    return Source(player, _from_end(player, begin_ms))


def _from_end(player: Player, ms: int | None) -> float:
    return player.duration_ms + ms if ms is not None and ms < 0 else ms or 0


def _of_file(path: str, options: argparse.Namespace) -> Source:
    player = _player(options, _cast(path))
    if options.command is None:
        return Source(player, _from_end(player, options.begin))
    ends = [0, *(ms for ms, _ in player.marks)]
    number = options.command + len(ends) if options.command < 0 else options.command
    if not 0 < number < len(ends):
        known = f"It has {len(ends) - 1}." if len(ends) > 1 else "It has none."
        raise InvalidArgument(f"There is no command {options.command} in {path}.", hint=known)
    return Source(player, ends[number - 1])


def _cast(path: str) -> Film:
    try:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise InvalidArgument(f"{path} is no file.", hint="Name an asciicast or a session.")
            if facts.st_size > MOST_CAST_BYTES:
                hint = "Play a shorter recording, or the session itself."
                raise ResourceLimit(f"{path} has more than {MOST_CAST_BYTES:,} bytes.", hint=hint)
            return formats.read(iter(lambda: file.readline(formats.MOST_LINE + 1), b""))
    except OSError as error:
        raise FileMissing(f"{path} cannot be read: {error.strerror}.", hint="Name a file that can be.") from error
    except ValueError as error:
        raise InvalidArgument(f"{path}: {error}.", hint="asciinema and `tmuxmcp export` write such files.") from error


def _print_facts(player: Player) -> None:
    film = player.film
    marks = [{"at_ms": ms, "text": mark.label, "exit_code": mark.exit_code} for ms, mark in player.marks]
    size = {"cols": film.start.cols, "rows": film.start.rows}
    output.write_json({"title": film.title, **size, "duration_ms": player.duration_ms, "commands": marks})


# ---- playing -----------------------------------------------------------------------------------------


async def _play(source: Source) -> int:
    player = source.player
    player.seek(source.begin_ms)
    async with Stage.open(keeps_keys=True) as stage:
        show = Playback(player, stage)
        while not stage.left.is_set() and (stage.reads_keys or not player.ended):
            begun = time.monotonic()
            show.obey(stage.keys())
            show.paint()
            await show.rest()
            # Time in which we were stopped is no time of the film.
            player.pass_(min(time.monotonic() - begun, 2 * STATUS_TIME_S))
        if not stage.left.is_set():
            show.paint()
    return stage.status


@value(frozen=False)
class Playback:
    """A player on a stage."""

    player: Player
    stage: Stage
    note: str = ""
    """What the last key could not do."""
    _actions: dict[str, Callable[[], object]] = field(init=False)

    def __post_init__(self) -> None:
        player = self.player
        self._actions = {
            " ": self._pause,
            ".": player.step,
            "left": lambda: player.seek(player.position_ms - SEEK_MS),
            "right": lambda: player.seek(player.position_ms + SEEK_MS),
            "home": lambda: player.seek(0),
            "end": lambda: player.seek(player.duration_ms),
            "+": lambda: player.faster(+1),
            "=": lambda: player.faster(+1),
            "-": lambda: player.faster(-1),
            "i": self._skip_idle,
            "n": lambda: self._tell(player.next_mark(), "no command ends after this"),
            "p": player.previous_mark,
            "f": lambda: self._tell(player.next_mark(failed=True), "no command fails after this"),
        }

    def _pause(self) -> None:
        again = self.player.ended
        if again:
            self.player.seek(0)
        self.player.paused = not (again or self.player.paused)

    def _skip_idle(self) -> None:
        self.player.skips_idle = not self.player.skips_idle
        self.player.idle_limit_ms = self.player.idle_limit_ms or IDLE_LIMIT_MS

    def _tell(self, done: bool, otherwise: str) -> None:
        self.note = "" if done else otherwise

    def obey(self, keys: Sequence[str]) -> None:
        """Do what keys say."""
        for key in keys:
            self.note = ""
            if action := self._actions.get(key):
                action()

    async def rest(self) -> None:
        """Let time pass until there is something to show; or go on to where the person wants to be."""
        if self.player.seeks:
            self.player.work()
            await self.stage.wait(0)
            return
        due = self.player.due_s()
        await self.stage.wait(STATUS_TIME_S if due is None else min(max(due, REPLAY_FRAME_S), STATUS_TIME_S))

    def paint(self) -> None:
        """Draw the screen, and below it how things stand, where there is room or the film does not move."""
        cols, lines = self.stage.size
        snapshot = self.player.snapshot
        cropped = snapshot.cols > cols or snapshot.rows > lines
        told = cropped or snapshot.rows < lines or self.player.paused or self.player.ended or self.player.seeks
        height = max(lines - told, 0)
        cursor = snapshot.cursor
        # Where not all of it fits, the part with the cursor is shown.
        top = max(min(cursor.row - height + 1, snapshot.rows - height), 0)
        rows = [_drawn(row, cols) for row in snapshot.grid[top : top + height]]
        rows += [""] * (height - len(rows))
        if told:
            rows.append(_bar(self._status(snapshot, cropped, cols), cols))
        self.stage.paint(rows, (cursor.row - top, cursor.col) if cursor.visible and cursor.row - top < height else None)

    def _status(self, snapshot: Snapshot, cropped: bool, cols: int) -> str:
        player = self.player
        words = [f"{snapshot.cols}x{snapshot.rows} cut"] if cropped else []
        words += [_state(player), f"{_clock(player.position_ms)} / {_clock(player.duration_ms)}"]
        words += [f"x{player.speed:g}"] if player.speed != 1 else []
        words += [f"idle {player.idle_limit_ms / 1000:g} s"] if player.skips_idle else []
        words += [self.note or _command(player)]
        text = "  ".join(filter(None, words))
        return f"{text}  {KEYS_HELP}" if len(text) + len(KEYS_HELP) + 3 < cols else text


def _state(player: Player) -> str:
    if player.seeks:
        return "seeking"
    return "at the end" if player.ended else "paused" if player.paused else "playing"


def _command(player: Player) -> str:
    number = player.mark()
    if number is None:
        return ""
    return f"{number + 1}/{len(player.marks)} {output.visible(player.marks[number][1].label)}"


def _clock(ms: float) -> str:
    seconds = int(ms / 1000)
    hours = f"{seconds // 3600}:{seconds // 60 % 60:02}" if seconds >= 3600 else f"{seconds // 60}"
    return f"{hours}:{seconds % 60:02}"


def _bar(text: str, cols: int) -> str:
    shown = clip([f" {text}"], cols)[0]
    return f"\x1b[7m{shown}{' ' * (cols - len(shown) if shown.isascii() else 0)}"


def _drawn(row: Cells, cols: int) -> str:
    """A row for a terminal of so many columns; a wide character that does not fit is left out."""
    cut = row[:cols]
    if len(row) > cols and row[cols].width == 0:
        cut = (*cut[:-1], cut[-1]._replace(text=" ", width=1))
    return ansi_row([(run.style, run.text) for run in runs(cut)])
