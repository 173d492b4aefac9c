"""`tmuxmcp log`: what a session has printed, from its log alone, also when nothing else of it is left."""

from __future__ import annotations

import argparse
import base64
import json
import math
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.contract import follow
from tmuxmcp.contract.call import iso, seconds_of
from tmuxmcp.contract.errors import InvalidArgument, NotRetained, SessionNotFound, TmuxMcpError
from tmuxmcp.contract.follow import Gap, Output
from tmuxmcp.contract.requests import ListCommands
from tmuxmcp.contract.value import asdict, replace, value
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.calling import kept_session, with_broker
from tmuxmcp.faces.cli.helptext import Point
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.record.events import UnknownEvent
from tmuxmcp.record.log import ResumePoints
from tmuxmcp.record.past.recordings import RecordedSession
from tmuxmcp.sessions import registry
from tmuxmcp.terminal.film.formats import script as as_script

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract import results as r
    from tmuxmcp.sessions.session import Session

PRINTED_AT_ONCE_BYTES = 1 << 20
"""Raw bytes read at once."""

SEEN_ALL_S = 0.1
"""How often is looked whether all that was printed has been seen, where its time counts."""

MOST_TAIL_BYTES = 16 << 20
"""How far back lines are looked for that have times."""

TIMES_LEGEND = "`~`: printed then or before, nobody noted when; `?`: not known at all"


def log(options: argparse.Namespace) -> int:
    """`tmuxmcp log`."""
    check(options)
    if options.events:
        return print_events(options)
    session = kept_session(options)
    name = session.directory.name
    following = options.follow and _runs(session)
    printer = _Printer(session, options, part_of(options, session), following)
    if options.json:
        output.write_json(_as_json(printer, name))
        return 0
    printer.print_beginning()
    printer.print_new()
    if following:
        with_broker(options, printer.follow)
    printer.finish()
    return 0


def _as_json(printer: _Printer, name: str) -> dict[str, Any]:
    start = printer.at
    if printer.timed:
        lines = [{"time": None if stamp.at_s is None else iso(stamp.at_s), "exact": stamp.exact, "text": text}
                 for stamp, text in printer.timed_to_the_end()]  # fmt: skip
        return {"session_id": name, "start_offset": start, "end_offset": printer.at, "lines": lines}
    content = b"".join([*printer.beginning, *printer.new(), printer.rest()])
    text = base64.b64encode(content).decode() if printer.raw else content.decode(errors="replace")
    encoding = "base64" if printer.raw else None
    return {"session_id": name, "start_offset": start, "end_offset": printer.at, "encoding": encoding, "content": text}


class _Printer:
    """How much of a log is printed, and how."""

    def __init__(self, session: Session, options: argparse.Namespace, part: LogPart, following: bool) -> None:
        self.session, self.raw, self.timed = session, options.raw, options.timestamps
        self.beginning: list[bytes] = []
        """Lines that were asked for by their number."""
        self._text = registry.text_of(session, last_state=not (following or self.timed))
        self._lines, self._made = StampedLines(), seconds_of(session.meta.created_at)
        self._watch, self._stamp = SeenUntil(self._now_s), TIME_UNKNOWN
        self._until = part.end
        self._ended = True
        """What was printed last ends a line, or nothing was."""
        log, head = session.log, session.log.head()
        self.at = self._begun = max(part.begin, head)
        if part.begin < head:
            output.note(f"offsets before {head} are no longer kept")
        if options.tail is not None:
            self._tail(options.tail, self._end(), following)
        elif options.command is None and not self.raw and self.at > head:
            place = ResumePoints(log).at(self.at, session.cols)
            self._text.begin_at(place.cut, place.col, place.inside)

    def _now_s(self) -> float | None:
        return None if self._made is None else self._made + self.session.now_ms() / 1000

    def _end(self) -> int:
        size = self.session.log.size()
        return size if self._until is None else min(self._until, size)

    def _tail(self, lines: int, end: int, following: bool) -> None:
        log = self.session.log
        if self.raw:
            self.at = self._begun = registry.start_of_tail(log, end, lines)
            return
        if following:  # what is not yet a line comes with the rest of it
            end = registry.start_of_tail(log, end, 1) if log.read(max(end - 1, 0), 1) != b"\n" else end
        if self.timed:
            self.beginning = [_line(*each) for each in self._last_timed(lines, end)]
        else:
            text = "\n".join(self.session.reader.last_lines(end, lines)) if lines else ""
            ended = bool(text) and log.read(end - 1, 1) == b"\n"
            self.beginning = [(text + "\n" * ended).encode("utf-8", "surrogateescape")]
        self.at = self._begun = end

    def _last_timed(self, count: int, end: int) -> deque[tuple[PrintedAt, str]]:
        """The last lines before an offset; a full-screen program, which is many lines of the log, is one."""
        many = count
        while True:
            begin = self.at = registry.start_of_tail(self.session.log, end, many)
            found = deque(self._timed(end, ends=True), maxlen=count)
            if len(found) == count or begin <= self.session.log.head() or end - begin > MOST_TAIL_BYTES:
                return found
            many *= 4

    def new(self) -> Iterator[bytes]:
        """What has come since; whole lines."""
        for piece in self._pieces(self._end()):
            yield self._clean(piece)

    def _pieces(self, end: int) -> Iterator[bytes]:
        log = self.session.log
        while self.at < end:
            data = log.read(self.at, min(PRINTED_AT_ONCE_BYTES, end - self.at))
            if not data:  # its head was given back while we read
                if log.head() <= self.at:
                    return
                self._left_out(log.head())
                continue
            self.at += len(data)
            yield data

    def _timed(self, end: int, *, ends: bool = False) -> Iterator[tuple[PrintedAt, str]]:
        """The lines up to an offset with their times; the last one too that has no end, if the text ends there."""
        for until, stamp in stretches(RecordedSession(self.session.directory), self._made, self.at, end):
            self._stamp = stamp
            for piece in self._pieces(until):
                yield from self._lines.feed(self._text.feed(piece), self._stamp)
        if ends:
            yield from self._lines.feed(self._text.end(), self._stamp)
            yield from self._lines.end(self._stamp)

    def timed_to_the_end(self) -> Iterator[tuple[PrintedAt, str]]:
        """All lines with their times."""
        return self._timed(self._end(), ends=True)

    def rest(self) -> bytes:
        """The last line, if it has no end."""
        return self._text.end().encode("utf-8", "surrogateescape")

    def _write(self, piece: bytes) -> None:
        output.write(piece)
        self._ended = piece.endswith(b"\n") if piece else self._ended

    def print_beginning(self) -> None:
        """Print the lines that were asked for by their number."""
        for piece in self.beginning:
            self._write(piece)

    def print_new(self) -> None:
        """Print what has come since, a piece at a time."""
        if self.timed:
            for each in self._timed(self._end()):
                self._write(_line(*each))
        else:
            for piece in self.new():
                self._write(piece)
        output.flush()

    def finish(self) -> None:
        """Print what is left, and say what is missing."""
        self.print_new()
        if self.timed:
            self._print_timed(self._text.end(), self._stamp)
            for each in self._lines.end(self._stamp):
                self._write(_line(*each))
        else:
            self._write(self.rest())
        if not self._ended and sys.stdout.isatty():
            output.write("\n")  # the shell's prompt gets a line of its own
        output.note_gaps(self.session.events.gaps(self._begun, self.at))
        if self._lines.guessed:
            output.note(TIMES_LEGEND)

    async def follow(self, broker: Broker, _: argparse.Namespace) -> int:
        """Print what comes until the session ends."""
        await _until_its_end(broker, self.session, self._print_to_the_end, self._mind_time if self.timed else None)
        return 0

    async def _print_to_the_end(self, broker: Broker) -> None:
        async for event in broker.follow(self.session.id, since=self.at):
            self._print(event)

    async def _mind_time(self) -> None:
        while True:
            if self.session.log.size() <= self.at:
                self._watch.caught_up()
            await anyio.sleep(SEEN_ALL_S)

    def _print(self, event: object) -> None:
        match event:
            case Output(data=data):
                self.at += len(data)
                if self.timed:
                    self._stamp = self._watch.stamp()
                    self._print_timed(self._text.feed(data), self._stamp)
                else:
                    self._write(self._clean(data))
                output.flush()
            case Gap(offset, until) if until > offset:
                self._left_out(until)

    def _print_timed(self, text: str, stamp: PrintedAt) -> None:
        for each in self._lines.feed(text, stamp):
            self._write(_line(*each))

    def _clean(self, data: bytes) -> bytes:
        return data if self.raw else self._text.feed(data).encode("utf-8", "surrogateescape")

    def _left_out(self, until: int) -> None:
        output.note(f"offsets {self.at} to {until} are no longer kept")
        self.at = until


def _runs(session: Session) -> bool:
    """Whether it may still print something; an earlier one of its name does not."""
    return "." not in session.directory.name and registry.seems_running(session)


async def _until_its_end(
    broker: Broker,
    session: Session,
    print_new: Callable[[Broker], Awaitable[None]],
    beside: Callable[[], Coroutine[Any, Any, None]] | None,
) -> None:
    """Print what is new in a session until it ends, unless another one has its name now; do `beside` meanwhile."""
    failed: TmuxMcpError | None = None
    async with anyio.create_task_group() as group:
        if beside:
            group.start_soon(beside)
        try:
            if (await broker.get_session(session.id)).created_at == session.meta.created_at:
                await print_new(broker)
        except TmuxMcpError as error:  # the group would wrap it
            failed = error
        group.cancel_scope.cancel()
    if failed and not isinstance(failed, SessionNotFound):
        raise failed


def _line(stamp: PrintedAt, text: str) -> bytes:
    return (stamp.text + text).encode("utf-8", "surrogateescape")


# ---- `tmuxmcp log --events`: what happened to a session beside its output, as lines for people or as JSON ------------

EVENTS_COMMANDS = 1000
"""The newest of them are told."""

MAY_END_COMMAND = follow.Command | follow.ModeChange | follow.End
"""What may mean that a command has ended; a mode is told when the following begins."""

EVENTS_LOOK_S = 0.2
"""How often is looked whether something was written down."""


@value
class PrintedEvent:
    """Something that happened."""

    kind: str
    time: str | None
    """ISO 8601 in UTC; None: not known."""
    offset: int
    """Size of the log then."""
    facts: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"time": self.time, "event": self.kind, "offset": self.offset, **self.facts}

    def as_line(self) -> str:
        """The same for a person."""
        words = _DETAIL_BY_KIND.get(self.kind, json.dumps)(self.facts)
        return f"{self.time or '?':<{STAMP_COLUMNS}}  @{self.offset:<10}  {self.kind:<12}  {output.visible(words)}\n"


# ---- in words ----------------------------------------------------------------------------------------


def _input(facts: dict[str, Any]) -> str:
    return f"{facts['bytes']} bytes" + (f", {facts['keys']} named keys" if facts["keys"] else "")


def _command(facts: dict[str, Any]) -> str:
    text = "?" if facts["text"] is None else facts["text"]
    code = "?" if facts["exit_code"] is None else facts["exit_code"]
    lasted = "" if facts["duration_ms"] is None else f", {took(facts['duration_ms'])}"
    return f"{facts['number']}: exit {code}{lasted}, by {facts['by']}: {text}"


def _exit(facts: dict[str, Any]) -> str:
    name, code = facts["exit_signal"], facts["exit_code"]
    return f"SIG{name}" if name else f"exit code {'?' if code is None else code}"


_DETAIL_BY_KIND = {
    "input": _input,
    "resize": lambda facts: f"{facts['cols']}x{facts['rows']}",
    "size_unknown": lambda facts: f"somebody changed the size unnoticed, before offset {facts['until']}",
    "gap": lambda facts: "output was lost",
    "exit": _exit,
    "adopted": lambda facts: f"{facts['shell']}, {facts['where']}, level {facts['level']}",
    "left": lambda facts: f"level {facts['level']}, exit code {'?' if (c := facts['exit_code']) is None else c}",
    "taken": lambda facts: f"by {facts['by']}, {facts['via']}",
    "given_back": lambda facts: f"by {facts['by']}, {facts['reason']}",
    "command": _command,
    "ended": lambda facts: facts["reason"] + (f", by {facts['by']}" if facts["by"] else ""),
}


# ---- what happened -----------------------------------------------------------------------------------


def written_down(session: Session) -> Iterator[PrintedEvent]:
    """All that stands in its events, oldest first."""
    for event in session.events.read():
        if isinstance(event, UnknownEvent):
            known = ("event", "time", "offset", "format")
            facts = {name: value for name, value in event.values.items() if name not in known}
            when, offset = event.values.get("time"), event.values.get("offset")
            yield PrintedEvent(event.kind, when if isinstance(when, str) else None,
                            offset if isinstance(offset, int) else 0, facts)  # fmt: skip
        else:
            facts = {name: value for name, value in vars(event).items() if name not in ("time", "offset")}
            yield PrintedEvent(event.kind, event.time or None, event.offset, facts)


def of_command(command: r.ListedCommand) -> PrintedEvent:
    """The end of a command."""
    facts = asdict(command)
    offset = facts.pop("end_offset")
    began = seconds_of(command.started_at or "")
    known = began is not None and command.duration_ms is not None
    ended = began + command.duration_ms / 1000 if known else None  # type: ignore[operator]  # both are known
    return PrintedEvent("command", None if ended is None else iso(ended), offset, facts)


def _end(session: Session, running: bool) -> Iterator[PrintedEvent]:
    """Why it ended, where its events do not say that."""
    why = None if running else session.ended
    if why and why.reason not in ("exit", "signal"):
        facts = {"reason": why.reason, "by": why.by}
        yield PrintedEvent("ended", why.at, session.log.size(), facts)


def _in_order(happened: list[PrintedEvent]) -> list[PrintedEvent]:
    return sorted(happened, key=lambda each: (each.offset, each.time or ""))


# ---- printing ----------------------------------------------------------------------------------------


def print_events(options: argparse.Namespace) -> int:
    """`tmuxmcp log --events`."""
    session = kept_session(options)
    running = _runs(session)
    events = _EventPrinter(options, session)
    found = events.events_so_far(running)
    if options.json and not options.follow:
        output.write_json({"session_id": session.directory.name, "events": [each.as_json() for each in found]})
        return 0
    for each in found:
        events.print(each)
    if options.follow and running:
        with_broker(options, events.follow)
    return 0


class _EventPrinter:
    """Which events are printed, and how."""

    def __init__(self, options: argparse.Namespace, session: Session) -> None:
        self._options, self._session = options, session
        self._within = _EventRange(options, session)
        self._seen = 0
        """How many of those that are written down were looked at."""
        self._commands: set[int] = set()
        """Numbers of the commands that were told."""

    def events_so_far(self, running: bool) -> list[PrintedEvent]:
        """What has happened so far."""
        found = [*self._new(), *_end(self._session, running)]
        with_commands(
            self._options, {"limit": EVENTS_COMMANDS}, lambda _, result: found.extend(self._ended_commands(result))
        )
        chosen = [each for each in _in_order(found) if self._within(each)]
        tail = self._options.tail
        return chosen if tail is None else chosen[len(chosen) - min(tail, len(chosen)) :]

    def _new(self) -> list[PrintedEvent]:
        all_events = list(written_down(self._session))
        new = all_events[self._seen :]
        self._seen = len(all_events)
        return new

    def _ended_commands(self, result: r.ListCommandsResult) -> Iterator[PrintedEvent]:
        for each in result.commands:
            if each.end_offset is not None and each.number not in self._commands:
                self._commands.add(each.number)
                yield of_command(each)

    def print(self, event: PrintedEvent) -> None:
        """Print one of them."""
        output.write(json.dumps(event.as_json()) + "\n" if self._options.json else event.as_line())
        output.flush()

    async def follow(self, broker: Broker, _: argparse.Namespace) -> int:
        """Print what happens until the session ends."""
        await _until_its_end(broker, self._session, self._print_commands, self._look_on)
        self._print_new()
        for each in _end(registry.find(effective(self._options)[0].state_dir, self._session.id), running=False):
            self.print(each)
        return 0

    async def _print_commands(self, broker: Broker) -> None:
        """Print the commands as they end, until the session does."""
        name = self._session.id
        async for event in broker.follow(name, output=False):
            if isinstance(event, MAY_END_COMMAND):
                self._print_new()
                for each in self._ended_commands(await broker.list_commands(name, limit=EVENTS_COMMANDS)):
                    self.print(each)

    async def _look_on(self) -> None:
        while True:
            self._print_new()
            await anyio.sleep(EVENTS_LOOK_S)

    def _print_new(self) -> None:
        for each in self._new():
            self.print(each)


class _EventRange:
    """Whether an event lies in the part that is asked for; one of an unknown time lies before and behind every time."""

    def __init__(self, options: argparse.Namespace, session: Session) -> None:
        self._offsets, self._times = [0, math.inf], [-math.inf, math.inf]
        if options.command is not None:
            part = part_of(options, session)
            self._offsets = [part.begin, math.inf if part.end is None else part.end]
        for place, name in enumerate(("since", "until")):
            point = getattr(options, name)
            if point and point.offset is not None:
                self._offsets[place] = offset_of(point, name, session)
            elif point:
                made = seconds_of(session.meta.created_at) or 0
                self._times[place] = made + ms_of(point, name, session) / 1000

    def __call__(self, event: PrintedEvent) -> bool:
        at_s = seconds_of(event.time or "")
        in_time = at_s is None or self._times[0] <= at_s <= self._times[1]
        return in_time and self._offsets[0] <= event.offset <= self._offsets[1]


# ---- Which part of a log `tmuxmcp log` prints: from what its options say to offsets ----------------------------------

CONFLICTING_OPTIONS = (
    ("command", "since", "It has a beginning and an end of its own."),
    ("command", "until", "It has a beginning and an end of its own."),
    ("command", "tail", "It has a beginning and an end of its own."),
    ("command", "follow", "It is for one command, whose output is printed as far as it has come."),
    ("follow", "until", "--follow goes on until the session ends."),
    ("timestamps", "raw", "Bytes have no lines to put a time before."),
    ("events", "raw", "Events are no bytes."),
    ("events", "timestamps", "Events have their times already."),
)
"""Two options of which one must be left out, and why."""


@value
class LogPart:
    """Between which offsets it lies."""

    begin: int
    end: int | None
    """None: it grows with the log."""


def check(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other.

    Raises:
        InvalidArgument
    """
    for one, other, why in CONFLICTING_OPTIONS:
        if all(getattr(options, name) not in (None, False) for name in (one, other)):
            raise InvalidArgument(f"--{one} and --{other} do not go together: {why}", hint="Leave one of them out.")
    if options.follow and options.json and not options.events:
        raise InvalidArgument("--follow has no end to print as JSON.", hint="Leave one of them out, or add --events.")


def part_of(options: argparse.Namespace, session: Session) -> LogPart:
    """The part that --since and --until, or --command, name.

    Raises:
        InvalidArgument: there is none.
        NotRetained: it is not known when the session was made; the output of the command is no longer kept.
    """
    if options.command is not None:
        return _of_command(options, session)
    begin = offset_of(options.since, "since", session) if options.since else session.log.head()
    end = offset_of(options.until, "until", session) if options.until else None
    if end is not None and end < begin:
        raise InvalidArgument(f"--until {options.until.word} is before the beginning of what is printed ({begin}).")
    return LogPart(begin if options.since or options.tail is not None or options.events else 0, end)


def offset_of(point: Point, option: str, session: Session) -> int:
    """The offset that is meant; where it is not known, the nearest that certainly leaves out nothing."""
    size = session.log.size()
    if point.offset is not None:
        if point.offset > size:
            raise InvalidArgument(f"--{option} {point.word} is behind the end of the log ({size}).")
        return point.offset
    low, high = RecordedSession(session.directory).offsets_at(ms_of(point, option, session))
    if low < high:
        output.note(f"not known how much had been printed {point.word}: between offsets {low} and {high}")
    return low if option == "since" else high


def ms_of(point: Point, option: str, session: Session) -> int:
    """A time by the session's clock."""
    made, now_ms = seconds_of(session.meta.created_at), session.now_ms()
    if made is None:
        raise NotRetained("It is not known when this session was made.", hint="Give an offset instead of a time.")
    if point.ago_s is not None:
        return now_ms - round(point.ago_s * 1000)
    assert point.at_s is not None
    ms = round((point.at_s - made) * 1000)
    if option == "since" and ms > now_ms:
        raise InvalidArgument(f"--since {point.word} has not come yet.", hint="A time without a zone is local.")
    return ms


def _of_command(options: argparse.Namespace, session: Session) -> LogPart:
    number: int = options.command
    if number < -1 or number == 0:
        raise InvalidArgument(f"There is no command {number}.", hint="`tmuxmcp history ID` has their numbers.")
    found: list[LogPart] = []
    given = {"limit": 1} if number == -1 else {"limit": 1, "before": number + 1}
    with_commands(options, given, partial(_take, found, options))
    return found[0]


def _take(found: list[LogPart], options: argparse.Namespace, session: Session, result: r.ListCommandsResult) -> None:
    number, name = options.command, result.session_id
    command = next((each for each in result.commands if number in (-1, each.number)), None)
    if command is None:
        if number > 0 and not result.commands and session.commands.forgotten:
            raise NotRetained(f"Command {number} is no longer kept.", hint=f"`tmuxmcp history {name}` lists others.")
        what = "No command has run" if number == -1 else f"There is no command {number}"
        raise InvalidArgument(f"{what} in session {name}.", hint=f"`tmuxmcp history {name}` lists them.")
    end = session.log.size() if command.end_offset is None else command.end_offset
    head = session.log.head()
    if command.start_offset < end <= head:
        raise NotRetained(f"The output of command {command.number} is no longer kept.", first_offset=head)
    if command.end_offset is None:
        output.note("the command still runs")
    found.append(LogPart(command.start_offset, max(command.start_offset, end)))


# ---- The time before each line of `tmuxmcp log --timestamps` ---------------------------------------------------------
#
# When the line was complete, or what is known of that.

STAMP_COLUMNS = len("2026-01-31T12:00:00.000Z")

SOON_S = 0.3
"""What is seen so soon after it was printed is dated by the moment at which it was seen."""


@value
class PrintedAt:
    """When something was printed."""

    at_s: float | None
    """Since 1970; None: not known."""
    exact: bool
    """To a few hundredths of a second; else it was printed then or before."""

    @property
    def text(self) -> str:
        """For a person: `~` is "then or before"."""
        if self.at_s is None:
            return f"{'?':<{STAMP_COLUMNS}}  "
        return f"{iso(self.at_s)}{' ' if self.exact else '~'} "


TIME_UNKNOWN = PrintedAt(None, False)


def stretches(recorded: RecordedSession, made: float | None, begin: int, end: int) -> Iterator[tuple[int, PrintedAt]]:
    """Pieces of a log: up to which offset, and when that had been printed.

    Args:
        made: when the session was made, in seconds since 1970; None: not known.
    """
    for step in recorded.steps(begin, end):
        known = made is not None and (step.known or step.ms > 0)
        stamp = PrintedAt((made or 0) + step.ms / 1000, step.known) if known else TIME_UNKNOWN
        yield step.offset, stamp


class StampedLines:
    """Lines of text as they become complete, each with the stamp of its end."""

    def __init__(self) -> None:
        self._begun = ""
        self.guessed = False
        """A stamp was not exact."""

    def feed(self, text: str, stamp: PrintedAt) -> Iterator[tuple[PrintedAt, str]]:
        """Take text; give the lines that are complete, each with its newline."""
        *whole, rest = (self._begun + text).split("\n")
        for line in whole:
            self.guessed |= not stamp.exact
            yield stamp, line + "\n"
        self._begun = rest

    def end(self, stamp: PrintedAt) -> Iterator[tuple[PrintedAt, str]]:
        """Give the last line, if it has no end."""
        if self._begun:
            self.guessed |= not stamp.exact
            yield stamp, self._begun
        self._begun = ""


class SeenUntil:
    """When it was last certain that all that was printed had been seen."""

    def __init__(self, now_s: Callable[[], float | None]) -> None:
        """`now_s`: the time, in seconds since 1970; None: not known."""
        self._now_s = now_s
        self._caught_up = -SOON_S

    def caught_up(self) -> None:
        """All is seen now."""
        self._caught_up = time.monotonic()

    def stamp(self) -> PrintedAt:
        """That of what is seen now."""
        now_s = self._now_s()
        return PrintedAt(now_s, now_s is not None and time.monotonic() - self._caught_up <= SOON_S)


# ---- `tmuxmcp history`: the commands that a session's shell ran, as a table ------------------------------------------

HEADING = ("NUMBER", "EXIT", "STARTED", "TOOK", "BY", "COMMAND")


def history(options: argparse.Namespace) -> int:
    """`tmuxmcp history`."""
    given = {name: value for name in ("limit", "before") if (value := getattr(options, name))}
    return with_commands(options, given | {"failed_only": options.failed}, partial(_tell, options))


def with_commands(
    options: argparse.Namespace, given: dict[str, Any], tell: Callable[[Session, r.ListCommandsResult], None]
) -> int:
    """Ask for the commands of a session: a broker, while it may run, else its files, without a tmux server."""
    session = kept_session(options)

    async def ask(broker: Broker, _: argparse.Namespace) -> int:
        tell(session, await broker.list_commands(session.directory.name, **given))
        return 0

    if _runs(session):
        return with_broker(options, ask)
    tell(session, anyio.run(_of_files, session, given))
    return 0


async def _of_files(session: Session, given: dict[str, Any]) -> r.ListCommandsResult:
    from tmuxmcp.sessions.commandresults import listed

    request = ListCommands.operation.parse({"session_id": session.id, **given})
    assert isinstance(request, ListCommands)
    result = listed(request, session, await session.look())
    return replace(result, session_id=session.directory.name)


def _tell(options: argparse.Namespace, _: Session, result: r.ListCommandsResult) -> None:
    if options.json:
        output.write_result(result)
        return
    output.write_table([HEADING, *map(_row, result.commands)])
    output.note(result.note)


def _row(command: r.ListedCommand) -> tuple[str, ...]:
    return (
        str(command.number),
        "-" if command.exit_code is None else str(command.exit_code),
        command.started_at or "-",
        took(command.duration_ms),
        command.by,
        "-" if command.text is None else command.text,
    )


def took(duration_ms: int | None) -> str:
    """A duration for a person."""
    if duration_ms is None:
        return "-"
    return f"{duration_ms} ms" if duration_ms < 1000 else f"{duration_ms / 1000:.1f} s"


# ---- `tmuxmcp script`: what a session's shell ran, as a shell script -------------------------------------------------

SCRIPT_COMMANDS = 1000
"""Commands of one script: the newest."""


def script(options: argparse.Namespace) -> int:
    """`tmuxmcp script`."""
    return with_commands(options, {"limit": SCRIPT_COMMANDS}, partial(_tell_script, options))


def _tell_script(options: argparse.Namespace, session: Session, result: r.ListCommandsResult) -> None:
    shell = os.path.basename(session.meta.program)
    first = result.commands[0].number if result.commands else 0
    whole = not session.commands.forgotten and result.count < SCRIPT_COMMANDS
    head = [
        f"What {shell or 'a program'} ran in session {result.session_id}, made {session.meta.created_at}.",
        "What failed, still runs, ran in another shell inside, was given stdin or is not wholly known is a comment "
        "with its number.",
    ]
    if result.note:
        head.append(result.note)
    if not whole:
        head.append(f"Commands before number {first} are not in it.")
    start = session.meta.cwd if whole and not session.meta.host and result.commands else ""
    text = as_script(shell, head, start, result.commands)
    if options.json:
        output.write_json({"session_id": result.session_id, "shell": shell, "whole": whole, "script": text})
    else:
        output.write(text)
