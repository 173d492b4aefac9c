"""`tmuxmcp log --events`: what happened to a session beside its output, as lines for people or as JSON."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.contract import follow
from tmuxmcp.contract.call import iso, seconds_of
from tmuxmcp.contract.errors import SessionNotFound, TmuxMcpError
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.calling import CLI_CALLER, with_broker
from tmuxmcp.faces.cli.history import took, with_commands
from tmuxmcp.faces.cli.logpart import ms_of, offset_of, part_of
from tmuxmcp.faces.cli.logtimes import STAMP_COLUMNS
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.record.events import UnknownEvent
from tmuxmcp.sessions import registry as kept

if TYPE_CHECKING:
    from pathlib import Path

    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract import results as r
    from tmuxmcp.sessions.session import Session

EVENTS_COMMANDS = 1000
"""The newest of them are told."""

MAY_END_COMMAND = follow.Command | follow.ModeChange | follow.End
"""What may mean that a command has ended; a mode is told when the following begins."""

EVENTS_LOOK_S = 0.2
"""How often is looked whether something was written down."""


@dataclass(frozen=True)
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
    facts = command.model_dump()
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
    settings, _ = effective(options)
    session = kept.find(settings.state_dir, session_id(options), CLI_CALLER)
    name = session.directory.name
    running = "." not in name and kept.seems_running(session)
    events = _EventPrinter(options, session, settings.state_dir)
    found = events.events_so_far(running)
    if options.json and not options.follow:
        output.write_json({"session_id": name, "events": [each.as_json() for each in found]})
        return 0
    for each in found:
        events.print(each)
    if options.follow and running:
        with_broker(options, events.follow)
    return 0


class _EventPrinter:
    """Which events are printed, and how."""

    def __init__(self, options: argparse.Namespace, session: Session, state_dir: Path) -> None:
        self._options, self._session, self._state_dir = options, session, state_dir
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
        name, failed = self._session.id, None
        async with anyio.create_task_group() as group:
            group.start_soon(self._look_on)
            try:
                await self._print_commands(broker)
            except TmuxMcpError as error:  # the group would wrap it
                failed = error
            group.cancel_scope.cancel()
        if failed and not isinstance(failed, SessionNotFound):
            raise failed
        self._print_new()
        for each in _end(kept.find(self._state_dir, name), running=False):
            self.print(each)
        return 0

    async def _print_commands(self, broker: Broker) -> None:
        """Print the commands as they end, until the session does."""
        name = self._session.id
        if (await broker.get_session(name)).created_at != self._session.meta.created_at:
            return  # another one has its name
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
