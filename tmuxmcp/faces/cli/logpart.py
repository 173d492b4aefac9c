"""Which part of a log `tmuxmcp log` prints: from what its options say to offsets."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.errors import InvalidArgument, NotRetained
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.history import with_commands
from tmuxmcp.faces.cli.point import Point
from tmuxmcp.record.past.recordings import RecordedSession

if TYPE_CHECKING:
    from tmuxmcp.contract import results as r
    from tmuxmcp.sessions.session import Session

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


@dataclass(frozen=True)
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
