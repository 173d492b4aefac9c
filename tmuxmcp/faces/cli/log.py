"""`tmuxmcp log`: what a session has printed, from its log alone, also when nothing else of it is left."""

from __future__ import annotations

import argparse
import base64
import sys
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.contract.call import iso, seconds_of
from tmuxmcp.contract.errors import SessionNotFound, TmuxMcpError
from tmuxmcp.contract.follow import Gap, Output
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.calling import CLI_CALLER, with_broker
from tmuxmcp.faces.cli.logpart import LogPart, check, part_of
from tmuxmcp.faces.cli.logtimes import TIME_UNKNOWN, PrintedAt, SeenUntil, StampedLines, stretches
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.record.log import Places
from tmuxmcp.record.past.recordings import RecordedSession
from tmuxmcp.sessions import registry as kept

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
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
        from tmuxmcp.faces.cli.logevents import print_events

        return print_events(options)
    settings, _ = effective(options)
    session = kept.find(settings.state_dir, session_id(options), CLI_CALLER)
    name = session.directory.name
    following = options.follow and "." not in name and kept.seems_running(session)
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
        self._text = kept.text_of(session, last_state=not (following or self.timed))
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
            place = Places(log).at(self.at, session.cols)
            self._text.begin_at(place.cut, place.col, place.inside)

    def _now_s(self) -> float | None:
        return None if self._made is None else self._made + self.session.now_ms() / 1000

    def _end(self) -> int:
        size = self.session.log.size()
        return size if self._until is None else min(self._until, size)

    def _tail(self, lines: int, end: int, following: bool) -> None:
        log = self.session.log
        if self.raw:
            self.at = self._begun = kept.start_of_tail(log, end, lines)
            return
        if following:  # what is not yet a line comes with the rest of it
            end = kept.start_of_tail(log, end, 1) if log.read(max(end - 1, 0), 1) != b"\n" else end
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
            begin = self.at = kept.start_of_tail(self.session.log, end, many)
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
        output.note_gaps(self.session.gaps(self._begun, self.at))
        if self._lines.guessed:
            output.note(TIMES_LEGEND)

    async def follow(self, broker: Broker, _: argparse.Namespace) -> int:
        """Print what comes until the session ends."""
        failed: TmuxMcpError | None = None
        async with anyio.create_task_group() as group:
            if self.timed:
                group.start_soon(self._mind_time)
            try:
                await self._print_to_the_end(broker)
            except TmuxMcpError as error:  # the group would wrap it
                failed = error
            group.cancel_scope.cancel()
        if failed and not isinstance(failed, SessionNotFound):
            raise failed
        return 0

    async def _print_to_the_end(self, broker: Broker) -> None:
        if (await broker.get_session(self.session.id)).created_at != self.session.meta.created_at:
            return  # another one has its name
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


def _line(stamp: PrintedAt, text: str) -> bytes:
    return (stamp.text + text).encode("utf-8", "surrogateescape")
