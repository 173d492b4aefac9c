"""`tmuxmcp log`: what a session has printed, from its log alone, also when nothing else of it is left."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tmuxmcp.cli import output
from tmuxmcp.cli.arguments import session_id
from tmuxmcp.cli.calling import CALLER, with_broker
from tmuxmcp.cli.service import effective
from tmuxmcp.contract.follow import Gap, Output
from tmuxmcp.errors import InvalidArgument, SessionNotFound
from tmuxmcp.sessions import kept

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.sessions.session import Session

PIECE = 1 << 20
"""Raw bytes read at once."""


def log(options: argparse.Namespace) -> int:
    """`tmuxmcp log`."""
    if options.follow and options.json:
        raise InvalidArgument("--follow has no end to print as JSON.", hint="Leave one of them out.")
    settings, _ = effective(options)
    session = kept.find(settings.state_dir, session_id(options), CALLER)
    name = session.directory.name
    following = options.follow and "." not in name and kept.seems_running(session)
    printer = _Printer(session, options, following)
    if options.json:
        output.write_json(_as_json(printer, name))
        return 0
    for piece in printer.beginning:
        output.write(piece)
    printer.print_new()
    if following:
        with_broker(options, printer.follow)
    printer.finish()
    return 0


def _as_json(printer: _Printer, name: str) -> dict[str, Any]:
    start, content = printer.at, b"".join([*printer.beginning, *printer.new(), printer.rest()])
    text = base64.b64encode(content).decode() if printer.raw else content.decode(errors="replace")
    encoding = "base64" if printer.raw else None
    return {"session_id": name, "start_offset": start, "end_offset": printer.at, "encoding": encoding, "content": text}


class _Printer:
    """How much of a log is printed, and how."""

    def __init__(self, session: Session, options: argparse.Namespace, following: bool) -> None:
        self.session, self.raw = session, options.raw
        self.beginning: list[bytes] = []
        """Lines that were asked for by their number."""
        self._text = kept.LogText(session.cols, session.rows)
        log = session.log
        end, head = log.size(), log.head()
        self.at = self._begun = max(options.since or 0, head)
        if options.since is not None and options.since > end:
            raise InvalidArgument(f"--since {options.since} is behind the end of the log ({end}).")
        if options.since is not None and options.since < head:
            output.note(f"offsets before {head} are no longer kept")
        if options.tail is not None:
            self._tail(options.tail, end, following)

    def _tail(self, lines: int, end: int, following: bool) -> None:
        log = self.session.log
        if self.raw:
            self.at = self._begun = kept.start_of_tail(log, end, lines)
            return
        if following:  # what is not yet a line comes with the rest of it
            end = kept.start_of_tail(log, end, 1) if log.read(max(end - 1, 0), 1) != b"\n" else end
        self.at = self._begun = end
        text = "\n".join(self.session.reader.last_lines(end, lines)) if lines else ""
        ended = bool(text) and log.read(end - 1, 1) == b"\n"
        self.beginning = [(text + "\n" * ended).encode("utf-8", "surrogateescape")]

    def new(self) -> Iterator[bytes]:
        """What has come since; whole lines."""
        log, end = self.session.log, self.session.log.size()
        while self.at < end:
            data = log.read(self.at, min(PIECE, end - self.at))
            if not data:  # its head was given back while we read
                if log.head() <= self.at:
                    return
                self._left_out(log.head())
                continue
            self.at += len(data)
            yield self._clean(data)

    def rest(self) -> bytes:
        """The last line, if it has no end."""
        return self._text.end().encode("utf-8", "surrogateescape")

    def print_new(self) -> None:
        """Print what has come since, a piece at a time."""
        for piece in self.new():
            output.write(piece)
        sys.stdout.flush()

    def finish(self) -> None:
        """Print what is left, and say what is missing."""
        self.print_new()
        output.write_text(self.rest().decode("utf-8", "surrogateescape"))
        gaps = self.session.gaps(self._begun, self.at)
        if gaps:
            output.note(f"output was lost at offset {', '.join(map(str, gaps))}: its recording was interrupted")

    async def follow(self, broker: Broker, _: argparse.Namespace) -> int:
        """Print what comes until the session ends."""
        try:
            if (await broker.get_session(self.session.id)).created_at != self.session.meta.created_at:
                return 0  # another one has its name
            async for event in broker.follow(self.session.id, since=self.at):
                self._print(event)
        except SessionNotFound:
            pass
        return 0

    def _print(self, event: object) -> None:
        match event:
            case Output(data=data):
                self.at += len(data)
                output.write(self._clean(data))
                sys.stdout.flush()
            case Gap(offset, until) if until > offset:
                self._left_out(until)

    def _clean(self, data: bytes) -> bytes:
        return data if self.raw else self._text.feed(data).encode("utf-8", "surrogateescape")

    def _left_out(self, until: int) -> None:
        output.note(f"offsets {self.at} to {until} are no longer kept")
        self.at = until
