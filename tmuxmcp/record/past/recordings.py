"""Films of a session: what its files say of a stretch of it. A piece of the log is in memory at a time.

The log says what was printed, `timing` when, `events.jsonl` and `commands.jsonl` what else happened. Where no time was
written down, what was printed stands at the next time that is known: of a command, an event or the log's last byte.
"""

from __future__ import annotations

import math
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain
from signal import Signals

from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.errors import InvalidArgument, NotRetained
from tmuxmcp.contract.value import replace, value
from tmuxmcp.record.commands import CommandFile, EndedCommand
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import (
    Booted,
    Events,
    ExitedEvent,
    GapEvent,
    InputEvent,
    ResizedEvent,
    SessionClock,
    ShownEvent,
)
from tmuxmcp.record.log import LOG_READ_BYTES, RawLog
from tmuxmcp.record.meta import Meta
from tmuxmcp.record.past import replayer
from tmuxmcp.record.past.checkpoints import Checkpoints, screen_of
from tmuxmcp.record.past.replaying import Story, beginning
from tmuxmcp.record.past.timing import Times, TimingStep
from tmuxmcp.terminal.emulator.replay import blank
from tmuxmcp.terminal.film import film
from tmuxmcp.terminal.film.film import Film, FilmEvent
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.terminal.widths import version_of

MARKER_CHARS = 120
"""Characters of a command in its marker."""

SIGNAL_STATUS_BASE = 128
"""Added to the number of the signal that ended a program, as shells have it."""


@value
class WantedStretch:
    """Which stretch of a session; all that is left out: all that is kept."""

    from_ms: int | None = None
    """Since the session was made; negative: before now, or before it ended."""
    to_ms: int | None = None
    command: int | None = None
    """Number of a command, whose output is meant; -1: of the last one."""


@value
class Stretch:
    """What lies between two offsets of a log, and when that was."""

    begin: int
    end: int
    begin_ms: int
    end_ms: int | None = None
    """None: with the last byte."""


@value
class _EventAt:
    """Something that was written down beside the output."""

    offset: int
    ms: int
    moment: FilmEvent | None = None

    def is_between(self, begin: int, end: int) -> bool:
        """Whether it is part of a stretch; what is typed at its beginning is shown behind that."""
        return begin - isinstance(self.moment, film.FilmInput) < self.offset <= end


class RecordedSession:
    """What the files of a session say."""

    def __init__(
        self,
        directory: SessionDirectory,
        times: Times | None = None,
        *,
        typed: bool = False,
        end_ms: int | None = None,
    ) -> None:
        """
        Args:
            end_ms: when it ended, as `Session.end_ms` has it; None: it runs.
            typed: what was typed is part of the films, as far as that is written down.
        """
        self._typed, self._end_ms = typed, end_ms
        self.directory, self.log = directory, RawLog(directory)
        self._times = times or Times(directory)
        meta = Meta.load(directory)
        self._name = meta.session_id if meta else directory.name
        self._size = (meta.cols, meta.rows) if meta else (80, 24)
        self._tmux = version_of(meta.tmux) if meta else None
        created = seconds_of(meta.created_at) if meta else None
        self._created = created or 0.0
        self._clock = SessionClock(created, Booted.of(meta.booted) if meta else Booted())
        self._file = CommandFile(directory)

    # ---- which stretch -------------------------------------------------------------------------

    def stretch(self, wanted: WantedStretch) -> Stretch:
        """Find what is wanted.

        Raises:
            InvalidArgument: there is no such stretch, or no such command.
            NotRetained: it is no longer kept.
        """
        between = wanted.command is None
        found = self._between(wanted.from_ms, wanted.to_ms) if between else self._of_command(wanted)
        head = self.log.head()
        if found.begin < head:
            raise NotRetained(
                f"The log is kept from offset {head} on; what is wanted begins at {found.begin}.",
                hint="Leave the beginning out, or begin later.",
                first_offset=head,
                first_ms=self._times.ms_at(head),
            )
        return found

    def of_output(self, begin: int, end: int) -> Stretch:
        """The stretch between two offsets."""
        return Stretch(begin, end, self._ms_at(begin))

    def _of_command(self, wanted: WantedStretch) -> Stretch:
        if wanted.from_ms is not None or wanted.to_ms is not None:
            raise InvalidArgument("command goes without from_ms and to_ms.", hint="Give one or the other.")
        self._file.read_on()
        number = self._file.numbers[-1] if wanted.command == -1 and self._file.numbers else wanted.command
        command = self._file.ended.get(number or 0)
        if command is None:
            known = f"{self._file.numbers[0]} to {self._file.numbers[-1]}" if self._file.numbers else "none"
            raise InvalidArgument(
                f"There is no command {wanted.command} that has ended.", hint=f"Those that are known: {known}."
            )
        began_ms = self._ms_at(command.start) if command.began is None else self._since(command.began)
        indexed = self._times.ms_at(command.start)
        return Stretch(command.start, command.end, began_ms if indexed is None else indexed)

    def _between(self, from_ms: int | None, to_ms: int | None) -> Stretch:
        size, head = self.log.size(), self.log.head()
        now_ms = self._clock.now_ms() if self._end_ms is None else self._end_ms
        first, last = (each + now_ms if each is not None and each < 0 else each for each in (from_ms, to_ms))
        if first is not None and last is not None and last < first:
            raise InvalidArgument("to_ms is before from_ms.", hint="Times count from the session's beginning.")
        if first is not None and first > now_ms:
            raise InvalidArgument(
                f"from_ms={first} has not come yet: the session was made {now_ms} ms ago."
                if self._end_ms is None
                else f"from_ms={first} is behind the session's end: it ended {now_ms} ms after it was made.",
                hint="Times count from the session's beginning; negative ones are before now, or before its end.",
            )
        begin = head if first is None else self._offset_at(max(first, 0))
        end = size if last is None else max(self._offset_at(max(last, 0)), begin)
        begin_ms = (self._ms_at(head) if head else 0) if first is None else max(first, 0)
        return Stretch(begin, end, begin_ms, None if last is None else max(min(last, now_ms), begin_ms))

    def offsets_at(self, ms: int) -> tuple[int, int]:
        """Between which two offsets the log ended at a moment: one offset, where that was written down."""
        if ms < 0:
            return 0, 0
        found = self._times.offset_at(ms)
        if found is not None:
            return found, found
        size = self.log.size()
        behind = next((each.offset for each in self.steps(0, size) if each.ms > ms), size)
        # Times are cut to the millisecond: what has this one may have come later.
        return self._offset_at(max(ms - 1, 0)), behind

    def _offset_at(self, ms: int) -> int:
        """How much had been printed; where that was not written down, at the last time before it that is known."""
        found = self._times.offset_at(ms)
        if found is not None:
            return found
        return max((each.offset for each in self.steps(0, self.log.size()) if each.ms <= ms), default=0)

    def _ms_at(self, offset: int) -> int:
        found = self._times.ms_at(offset)
        if found is not None:
            return found
        return next((each.ms for each in self.steps(0, self.log.size()) if each.offset >= offset), 0)

    # ---- its film ------------------------------------------------------------------------------

    def film(self, stretch: Stretch, start: Snapshot | None = None) -> Film:
        """Make the film of a stretch; its moments are read from the files whenever they are iterated over.

        Args:
            start: the screen at its beginning, if that is known; else it is drawn anew.
        """
        end_ms = stretch.end_ms
        if end_ms is None:
            end_ms = max(times_of(self, stretch), default=stretch.begin_ms)
        return Film(
            start=start or self.screen_at(stretch.begin),
            begin_ms=stretch.begin_ms,
            end_ms=end_ms,
            moments=_Moments(self, stretch),
            title=self._name,
            created_at=self._created,
            times_known=all(step.known for step in self.steps(stretch.begin, stretch.end)),
        )

    def screen_at(self, offset: int) -> Snapshot:
        """The screen after so many bytes, drawn from the nearest one that is kept; blank where its bytes are gone."""
        checkpoints = Checkpoints(self.directory)
        story = Story.of(Events(self.directory), checkpoints, offset)
        if start := beginning(self.directory, checkpoints, story, offset):
            done = replayer.stretch(story.request(self.directory, start, offset, math.inf))
            if done:
                screen = screen_of(b64decode(done["screen"]))
                return replace(screen, state=replace(screen.state, tmux=self._tmux))
        return replace(blank(*self._size_at(offset), offset, self._tmux), approximate=True)

    def moments(self, stretch: Stretch, read: Callable[[int, int], Iterable[bytes]]) -> Iterator[FilmEvent]:
        """What happens in a stretch; `read(start, end)` gives the bytes."""
        ms, at = stretch.begin_ms, stretch.begin
        latest = stretch.end_ms
        waiting = [each for each in self._happened if each.is_between(stretch.begin, stretch.end)]
        for step in chain(self.steps(stretch.begin, stretch.end), [None]):
            end, end_ms = (stretch.end + 1, latest) if step is None else (step.offset, step.ms)
            while waiting and waiting[0].offset < end:
                happened = waiting.pop(0)
                ms = max(ms, happened.ms if end_ms is None else min(happened.ms, end_ms))
                yield from (film.FilmOutput(ms, data) for data in read(at, happened.offset))
                at = max(at, happened.offset)
                assert happened.moment
                yield replace(self._with_told(happened), ms=ms)
            if step:
                ms = max(ms, step.ms if latest is None else min(step.ms, latest))
                yield from (film.FilmOutput(ms, data) for data in read(at, step.offset))
                at = max(at, step.offset)

    def _with_told(self, happened: _EventAt) -> FilmEvent:
        """What happened; a change of size with what tmux showed right after it, where it told that."""
        moment = happened.moment
        assert moment
        if not isinstance(moment, film.FilmResize):
            return moment
        checkpoints = Checkpoints(self.directory)
        packed = Story.of(Events(self.directory), checkpoints, happened.offset).told_at(
            happened.offset, moment.cols, moment.rows
        )
        text = b64encode(packed).decode() if packed else None
        told = replayer.told_screen(self.log, happened.offset, text, self._tmux)
        return replace(moment, told=told)

    def steps(self, begin: int, end: int) -> Iterator[TimingStep]:
        """Times of all that was printed between two offsets, rising in both; the last one at the end."""
        last = TimingStep(begin, 0)
        for step in self._times.steps(begin, end):
            if step.offset <= last.offset:
                continue
            step = TimingStep(min(step.offset, end), max(step.ms, last.ms), step.known)
            if not step.known:
                yield from self._guessed(last, step.offset - 1, step.ms)
            yield step
            last = step
        for guess in self._guessed(last, end, None):
            yield guess
            last = guess
        if last.offset < end:
            yield TimingStep(end, max(last.ms, self._last_written_ms), known=False)

    def _guessed(self, last: TimingStep, end: int, latest_ms: int | None) -> Iterator[TimingStep]:
        """What is known of a stretch that the index does not know: when something else happened in it."""
        for each in self._anchors:
            if last.offset < each.offset <= end and last.ms <= each.ms and (latest_ms is None or each.ms <= latest_ms):
                last = each
                yield each

    # ---- what else is written down -------------------------------------------------------------

    def _size_at(self, offset: int) -> tuple[int, int]:
        before = [each for each in Events(self.directory).resizes() if each.offset <= offset]
        return (before[-1].cols, before[-1].rows) if before else self._size

    @cached_property
    def _happened(self) -> list[_EventAt]:
        """All but what was printed, in the order of the log."""
        found = [*filter(None, map(self._event, Events(self.directory).read())), *map(self._command, self._commands)]
        return sorted((each for each in found if each.moment), key=lambda each: (each.offset, each.ms))

    @cached_property
    def _anchors(self) -> list[TimingStep]:
        """Times that are known without the index: by the clock of the machine, which may have been set meanwhile."""
        events = filter(None, map(self._event, Events(self.directory).read()))
        began = (_EventAt(each.start, self._since(each.began)) for each in self._commands if each.began is not None)
        ended = (_EventAt(each.end, self._since(each.ended)) for each in self._commands if each.ended is not None)
        found = sorted((each.offset, each.ms) for each in chain(events, began, ended) if each.ms > 0)
        return [TimingStep(offset, ms, known=False) for offset, ms in found]

    @property
    def _commands(self) -> list[EndedCommand]:
        self._file.read_on()
        return [self._file.ended[number] for number in self._file.numbers]

    def _event(self, event: object) -> _EventAt | None:
        match event:
            case InputEvent(when, offset):
                return _EventAt(offset, self._ms_of(when))
            case ShownEvent(when, offset, text) if self._typed:
                return _EventAt(offset, self._ms_of(when), film.FilmInput(0, text.encode("utf-8", "surrogateescape")))
            case ResizedEvent(when, offset, cols, rows):
                return _EventAt(offset, self._ms_of(when), moment=film.FilmResize(0, cols, rows))
            case GapEvent(when, offset):
                return _EventAt(offset, self._ms_of(when), moment=film.FilmMarker(0, "output was lost here"))
            case ExitedEvent(when, offset, code, name):
                status = code if name is None else _signalled(name)
                ms = self._ms_of(when)
                return _EventAt(offset, ms, moment=None if status is None else film.FilmExit(0, status))
        return None

    def _command(self, command: EndedCommand) -> _EventAt:
        text = (command.text or "").partition("\n")[0][:MARKER_CHARS] or f"command {command.number}"
        label = text if command.exit_code is None else f"{text}: exit {command.exit_code}"
        ms = 0 if command.ended is None else self._since(command.ended)
        return _EventAt(command.end, ms, moment=film.FilmMarker(0, label, command.exit_code))

    def _ms_of(self, when: str) -> int:
        seconds = seconds_of(when)
        return 0 if seconds is None else self._since(seconds)

    def _since(self, seconds: float) -> int:
        return max(round((seconds - self._created) * 1000), 0) if self._created else 0

    @property
    def _last_written_ms(self) -> int:
        try:
            return self._since(os.stat(self.log.path).st_mtime)
        except OSError:
            return 0


class _Moments:
    """The moments of a stretch; each iteration reads them anew."""

    def __init__(self, recorded: RecordedSession, stretch: Stretch) -> None:
        self._recorded, self._stretch = recorded, stretch

    def __iter__(self) -> Iterator[FilmEvent]:
        return self._recorded.moments(self._stretch, _LogBytes(self._recorded.log, self._stretch.end).between)


def times_of(recorded: RecordedSession, stretch: Stretch) -> Iterator[int]:
    """The times of a film's moments; what was printed is not read."""
    return (each.ms for each in recorded.moments(stretch, lambda start, end: [b""] if start < end else []))


class _LogBytes:
    """Reads on in a log, many small pieces with one look at the file."""

    def __init__(self, log: RawLog, end: int) -> None:
        self._log, self._end = log, end
        self._data, self._at = b"", 0

    def between(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes between two offsets; those that were given back meanwhile are left out."""
        while start < end:
            if not self._at <= start < self._at + len(self._data):
                self._at, self._data = start, self._log.read(start, min(LOG_READ_BYTES, max(self._end, end) - start))
            data = self._data[start - self._at : end - self._at]
            if data:
                yield data
                start += len(data)
            elif (head := self._log.head()) > start:
                start = head
            else:
                return


def _signalled(name: str) -> int | None:
    """The status that a shell gives a program ended by this signal."""
    try:
        return SIGNAL_STATUS_BASE + Signals[f"SIG{name}"]
    except KeyError:
        return None
