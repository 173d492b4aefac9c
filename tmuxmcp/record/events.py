"""What happened to a session and at which offset of its log: input, changes of size, lost output, its end.

`events.jsonl` has one JSON object a line. Brokers of several versions append to it, and so do the sink and the
launcher, which have no codec: their lines are tested against this one. Nothing is ever changed or removed, so a
reader goes on where it stopped.

A line says `format` only when that is above 1. The number cannot stand in the first line, nor in another file: it would
be wrong for the next line that an older broker or its sink appends. In every format a kind keeps the meaning of its
fields, may get more of them, and something else gets a kind of its own. So a reader takes the kinds and the fields
that it knows, of whatever format, and the number tells it that a line that it cannot read is newer, not torn.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, get_args, get_type_hints

from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.value import replace, value
from tmuxmcp.contract.words import PAUSE_HOLDER
from tmuxmcp.machine import locks
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.documents import Journal, as_line, is_newer, lines_of, numbered

EVENT_FORMAT = 1
"""The newest format of a line that is known here."""

EVENTS_FILE_BYTES = 1 << 20
"""Bytes of `events.jsonl`; of what comes after that only gaps, leases, input requests and sizes are written down."""

SIZES_LIMIT_BYTES = 2 * EVENTS_FILE_BYTES
"""The same for changes of size: the first one after that says that no size is known any more."""

ALONE_S = 1.0
"""Longest wait for another broker that adds to it: it takes a millisecond."""

FOR_EVER = 2**62
"""An offset that no log reaches."""


# ---- the kinds of events -----------------------------------------------------------------------------


@value
class _WrittenEvent:
    """Something that happened."""

    kind: ClassVar[str]

    time: str
    """ISO 8601 in UTC; "" where it cannot be read."""
    offset: int
    """Size of the log then."""


@value
class InputEvent(_WrittenEvent):
    """Something was typed; what it was is not said here."""

    kind: ClassVar = "input"

    bytes: int
    keys: int
    """Named keys beside these bytes."""


@value
class NotedEvent(_WrittenEvent):
    """What was typed there was a call's with this `request_id`."""

    kind: ClassVar = "noted"

    request_id: str
    stamp: str
    """What `@tmuxmcp_request` of its pane then said."""


@value
class ShownEvent(_WrittenEvent):
    """What was typed there, which the terminal then showed; only while a recording wants what is typed.

    Its `offset` is the size of the log before it was typed.
    """

    kind: ClassVar = "shown"

    text: str
    """With the characters that Enter and control keys send."""


@value
class RecordingEvent(_WrittenEvent):
    """A recording began, or came to its end."""

    kind: ClassVar = "recording"

    state: str
    """As `RecordingStage` has it."""
    path: str
    """Of its file."""


@value
class ResizedEvent(_WrittenEvent):
    """The terminal has another size from here on."""

    kind: ClassVar = "resize"

    cols: int
    rows: int


@value
class SizeUnknownEvent(_WrittenEvent):
    """Somebody changed the size in tmux itself, some time between two offsets, and nobody wrote that down.

    Its `offset` is that of the change before; 0: there was none.
    """

    kind: ClassVar = "size_unknown"

    until: int
    """Size of the log when it was noticed."""


@value
class GapEvent(_WrittenEvent):
    """Output was lost here."""

    kind: ClassVar = "gap"


@value
class ExitedEvent(_WrittenEvent):
    """The program ended, by itself or by a signal: one of the two is None."""

    kind: ClassVar = "exit"

    exit_code: int | None
    exit_signal: str | None


@value
class AdoptedEvent(_WrittenEvent):
    """Our marks were typed into a shell."""

    kind: ClassVar = "adopted"

    level: int
    """How many shells with marks it is in front of."""
    shell: str
    """Its name."""
    where: str
    """`own`, `nested` or `remote`."""


@value
class LeftShellEvent(_WrittenEvent):
    """An adopted shell ended, or its marks were taken out."""

    kind: ClassVar = "left"

    level: int
    exit_code: int | None


@value
class TakenEvent(_WrittenEvent):
    """A person took the session over, or it was paused."""

    kind: ClassVar = "taken"

    by: str
    """Their name; `pause`."""
    via: str
    """`cli`, `attach` or `page`."""


@value
class GivenBackEvent(_WrittenEvent):
    """It was given back. Two brokers may write the same one down."""

    kind: ClassVar = "given_back"

    by: str
    since: str
    """When it was taken; "" where that is not known."""
    until: str
    reason: str
    """`key`, `release`, `detach` or `timeout`."""


@value
class AskedEvent(_WrittenEvent):
    """An agent asked a person to type something; what it said is not written down."""

    kind: ClassVar = "asked"

    request_id: str
    secret: int
    """1: a secret is to be typed."""


@value
class AnsweredEvent(_WrittenEvent):
    """What became of that."""

    kind: ClassVar = "answered"

    request_id: str
    outcome: str
    """`done`, `declined`, `timeout`, `withdrawn` or `exited`."""
    by: str
    """The person's name; "": no person."""
    via: str
    """`answer`, `attach`, `client` or `page`."""


Event = (
    InputEvent
    | NotedEvent
    | ShownEvent
    | RecordingEvent
    | ResizedEvent
    | SizeUnknownEvent
    | GapEvent
    | ExitedEvent
    | AdoptedEvent
    | LeftShellEvent
    | TakenEvent
    | GivenBackEvent
    | AskedEvent
    | AnsweredEvent
)


@value
class UnknownEvent:
    """An event of a newer version: of another kind, or of a format in which its kind cannot be read."""

    kind: str
    values: dict[str, Any]
    """The whole line."""


_EVENT_FIELDS: dict[type[Event], dict[str, Any]] = {
    each: {name: hint for name, hint in get_type_hints(each).items() if name not in ("kind", "time")}
    for each in get_args(Event)
}
_ALWAYS_WRITTEN = GapEvent | TakenEvent | GivenBackEvent | AskedEvent | AnsweredEvent
"""What is written down however long the file is."""

_EVENT_BY_KIND: dict[str, type[Event]] = {each.kind: each for each in _EVENT_FIELDS}


# ---- one line ----------------------------------------------------------------------------------------


def encode(event: Event) -> bytes:
    """Its line, with the newline."""
    first = {**numbered(EVENT_FORMAT), "time": event.time, "offset": event.offset, "event": event.kind}
    return as_line(first | vars(event))


def decode(line: bytes) -> Event | UnknownEvent | None:
    """The event of a line; None when it is torn, or no event."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or not isinstance(values.get("event"), str):
        return None
    kind = _EVENT_BY_KIND.get(values["event"])
    fields = _EVENT_FIELDS[kind] if kind else {}
    if kind and all(name in values and _is(values[name], hint) for name, hint in fields.items()):
        time = values.get("time")
        return kind(time=time if isinstance(time, str) else "", **{name: values[name] for name in fields})
    return None if kind and not is_newer(values, EVENT_FORMAT) else UnknownEvent(values["event"], values)


def _is(value: object, hint: Any) -> bool:
    return isinstance(value, hint) and not isinstance(value, bool)


def _events_of(lines: Iterable[bytes]) -> Iterator[Event | UnknownEvent]:
    for line in lines:
        # To a line that the full disk cut short, the next one was appended; events hold no objects.
        event = decode(line) or decode(line[max(line.rfind(b"{"), 0) :])
        if event:
            yield event


_KEPT_EVENT = re.compile(rb'"(?:gap|resize|size_unknown|taken|given_back)"')
"""What is in every line that `Events` keeps: hardly any, and the many others need not be parsed."""


def _lines_with(pattern: re.Pattern[bytes], lines: bytes) -> Iterator[bytes]:
    at = 0
    while found := pattern.search(lines, at):
        begin = lines.rfind(b"\n", 0, found.start()) + 1
        at = lines.find(b"\n", found.end()) + 1
        yield lines[begin:at]


# ---- the file ----------------------------------------------------------------------------------------


class Events(Journal):
    """One session's `events.jsonl`."""

    def __init__(self, directory: SessionDirectory) -> None:
        super().__init__(directory, directory.events)
        self._start_over()

    def append(self, event: Event) -> None:
        """Write down what happened; a failure is no reason to fail."""
        with suppress(OSError), self.open() as file:
            if fitting := self._fitting(event, file.size):
                line = encode(fitting)
                if file.append(line):
                    self._take(line)

    @asynccontextmanager
    async def exclusively(self) -> AsyncIterator[None]:
        """While no other broker looks what stands here and adds to it; without that where it cannot be had."""
        async with AsyncExitStack() as stack:
            with suppress(OSError):  # its directory is gone
                await stack.enter_async_context(locks.lock_within(self.path, patience_s=ALONE_S))
            yield

    def _fitting(self, event: Event, size: int) -> Event | None:
        """What is written down of an event in a file of this size; None: nothing."""
        if size < EVENTS_FILE_BYTES or isinstance(event, _ALWAYS_WRITTEN):
            return event
        if not isinstance(event, ResizedEvent | SizeUnknownEvent):
            return None
        if size < SIZES_LIMIT_BYTES:
            return event
        return None if self.size_unknown(FOR_EVER) else SizeUnknownEvent(event.time, event.offset, FOR_EVER)

    def read(self) -> Iterator[Event | UnknownEvent]:
        """All that is written down, oldest first; torn lines are left out.

        No event is earlier than the one before: where date(1) tells whole seconds, the exit would be.
        """
        latest = ""
        for event in _events_of(lines_of(self.path).split(b"\n")):
            if isinstance(event, UnknownEvent | ShownEvent) or not event.time:  # that it was shown is known later
                yield event
                continue
            latest = max(latest, event.time)  # ISO 8601 in one form: as texts they are in the order of time
            yield event if event.time == latest else replace(event, time=latest)

    def gaps(self, start: int, end: int) -> list[int]:
        """Offsets between `start` and `end` at which output was lost."""
        self.read_on()
        return [
            each.offset for each in self._gaps_and_resizes if isinstance(each, GapEvent) and start <= each.offset <= end
        ]

    def resizes(self) -> list[ResizedEvent]:
        """The changes of size, oldest first."""
        return [each for each in self.gaps_and_resizes() if isinstance(each, ResizedEvent)]

    def gaps_and_resizes(self, start: int = 0) -> list[GapEvent | ResizedEvent]:
        """Lost output and changes of size, oldest first; without the first `start` of them, which a reader has."""
        self.read_on()
        return self._gaps_and_resizes[start:]

    def size_unknown(self, offset: int) -> bool:
        """Whether the size at an offset is not known for certain, as somebody changed it unnoticed."""
        self.read_on()
        return any(each.offset <= offset <= each.until for each in self._sizes_unknown)

    def holdings(self) -> list[Holding]:
        """When persons held it."""
        return holdings(self.leases())

    def leases(self) -> list[TakenEvent | GivenBackEvent]:
        """When it was taken over or paused, and given back, oldest first."""
        self.read_on()
        return self._leases

    def _start_over(self) -> None:
        self._gaps_and_resizes: list[GapEvent | ResizedEvent] = []
        """What readers ask for, oldest first."""
        self._sizes_unknown: list[SizeUnknownEvent] = []
        self._leases: list[TakenEvent | GivenBackEvent] = []

    def _take(self, lines: bytes) -> None:
        for event in _events_of(_lines_with(_KEPT_EVENT, lines)):
            if isinstance(event, GapEvent | ResizedEvent):
                self._gaps_and_resizes.append(event)
            elif isinstance(event, SizeUnknownEvent):
                self._sizes_unknown.append(event)
            elif isinstance(event, TakenEvent | GivenBackEvent):
                self._leases.append(event)


# ---- When persons held a session, as its events tell. Pauses are left out: nobody types in them ----------------------

TMUX_TIME_S = 1.0
"""How exactly tmux tells the time of a give-back that no broker did."""


@value
class Holding:
    """A time in which a person held a session."""

    by: str
    since: str
    """ISO 8601, UTC; "": not known."""
    start: int | None
    """Size of the log then; None: nobody wrote that down."""
    until: str = ""
    """"": it has not ended."""
    end: int | None = None
    """Size of the log when its end was noticed; None: it has not ended."""
    reason: str = ""
    """`key`, `release`, `detach` or `timeout`."""

    def covers(self, start: int, began_s: float | None) -> bool:
        """Whether a command began in it, whose output starts at this offset.

        Args:
            began_s: when it began, in seconds since 1970; None: not known.
        """
        since_s, until_s = seconds_of(self.since), seconds_of(self.until)
        if self.start is not None:
            begins = start >= self.start
        else:
            begins = since_s is not None and began_s is not None and began_s >= since_s
        ends = self.end is None or start <= self.end
        late = until_s is not None and began_s is not None and began_s > until_s + TMUX_TIME_S
        return begins and ends and not late


def holdings(events: Iterable[TakenEvent | GivenBackEvent]) -> list[Holding]:
    """The times in which persons held it, in the order in which they were written down."""
    found: list[Holding] = []
    for event in events:
        if event.by == PAUSE_HOLDER:
            continue
        if isinstance(event, TakenEvent):
            found.append(Holding(event.by, event.time, event.offset))
        else:
            _end(found, event)
    return found


def _end(found: list[Holding], event: GivenBackEvent) -> None:
    for at, each in enumerate(found):
        same = (each.by, each.since) == (event.by, event.since)
        if same and each.end is None:
            found[at] = replace(each, until=event.until, end=event.offset, reason=event.reason)
            return
        if same and (each.since or each.until == event.until):
            return  # two brokers have written it down
    found.append(Holding(event.by, event.since, None, event.until, event.offset, event.reason))


def handed_back(held: Iterable[Holding]) -> list[Holding]:
    """Those that have ended, in the order of their ends."""
    return sorted((each for each in held if each.end is not None), key=lambda each: each.end or 0)


# ---- A session's clock: milliseconds since it was made, and never back -----------------------------------------------
#
# While the machine stays up it is that of CLOCK_BOOTTIME: it goes on while the machine sleeps, and nobody sets it.
# Behind a reboot, and for a session of which nobody wrote down when that clock began, it is the difference to
# `created_at`.

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@value
class Booted:
    """A moment by the clock that runs from the machine's start."""

    boot_id: str = ""
    """Which start; empty: the system does not tell."""
    at_s: float = 0.0

    @classmethod
    def now(cls) -> tuple[Booted, float]:
        """This moment, and the same in seconds since 1970: nothing that takes time stands between the two readings."""
        boot_id = _boot_id()
        if not boot_id:
            return cls(), time.time()
        at_s, since_1970_s = time.clock_gettime(time.CLOCK_BOOTTIME), time.time()
        return cls(boot_id, round(at_s, 6)), since_1970_s

    @classmethod
    def of(cls, values: dict[str, Any]) -> Booted:
        """As somebody wrote it down with `vars`; no moment where it is something else."""
        boot_id, at_s = values.get("boot_id"), values.get("at_s")
        return cls(boot_id, at_s) if isinstance(boot_id, str) and isinstance(at_s, float) else cls()


@cache
def _boot_id() -> str:
    with suppress(OSError):
        return BOOT_ID.read_text().strip() if hasattr(time, "CLOCK_BOOTTIME") else ""
    return ""


class SessionClock:
    """The clock of one session."""

    def __init__(self, created_at_s: float | None, booted: Booted) -> None:
        """Both are the moment at which the session was made, where they are known."""
        self._created_at_s = created_at_s
        self._booted_s = booted.at_s if booted.boot_id and booted.boot_id == _boot_id() else None
        self._latest = 0

    def now_ms(self) -> int:
        """The time now; 0 where nobody knows when the session was made."""
        if self._booted_s is not None:
            found = time.clock_gettime(time.CLOCK_BOOTTIME) - self._booted_s
        elif self._created_at_s is not None:
            found = time.time() - self._created_at_s
        else:
            found = 0.0
        self._latest = max(self._latest, int(found * 1000))
        return self._latest
