"""All sessions of this machine as the page lists them, and what waits for the person, changed where something happened.

Each session is followed, so that one in which nothing happens costs next to nothing. What nobody tells (a session was
made, somebody looks at it in a terminal, a question is about none) is looked for once a second.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import anyio

from tmuxmcp.broker.answering import WaitingRequest
from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.userinput import harmless
from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.value import asdict
from tmuxmcp.gate.confirmations import Confirmation
from tmuxmcp.terminal.drawing.theme import BACKGROUND, FOREGROUND, drawable, drawn_style, hexadecimal
from tmuxmcp.terminal.emulator.capture import LINK_INTRODUCER, clip, pieces
from tmuxmcp.terminal.snapshot import BLANK, Cells, Snapshot, Style, StyleRun, runs
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion

# ---- The list of all sessions that open pages are told ---------------------------------------------------------------
#
# And what waits for the person: kept while somebody looks.

Row = dict[str, Any]

Missing = dict[str, str]
"""A machine of which nothing is told, and why: `node`, `code`, `message`, `hint`; without a name: it is the fleet."""


class PageListing:
    """What is told to pages, who may be as slow as they like. Who fills it in says how."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.waits: list[PageWait] = []
        self.missing: list[Missing] = []
        self.version = 0
        self.lookers = 0
        """Pages that are open."""
        self._told = anyio.Event()
        self._wanted, self._unwanted = anyio.Event(), anyio.Event()

    @asynccontextmanager
    async def looked_at(self) -> AsyncIterator[None]:
        """Keep the list up to date while this is open."""
        self.lookers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.lookers -= 1
            if not self.lookers:
                self._unwanted.set()

    async def change(self, seen: int) -> None:
        """Wait until there is something newer than a version."""
        while self.version == seen:
            await self._told.wait()

    async def run(self) -> None:
        """Do the work, whenever somebody looks; until cancelled."""
        while True:
            await self._wanted.wait()
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(self._keep)
                while self.lookers:
                    self._unwanted = anyio.Event()
                    await self._unwanted.wait()
                task_group.cancel_scope.cancel()
            self._forget()
            self.version = 0  # so that the next page is told nothing before it is known
            if not self.lookers:  # else somebody has come while the work ended
                self._wanted = anyio.Event()

    def _tell(self) -> None:
        """Have all pages told how it is now."""
        self.version += 1
        told, self._told = self._told, anyio.Event()
        told.set()

    async def _keep(self) -> None:
        """Keep it up to date, until cancelled."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Nobody looks any more."""
        self.rows, self.waits, self.missing = {}, [], []


# ----------------------------------------------------------------------------------------------------------------------

log = logging.getLogger(__name__)

SESSIONS_LOOK_S = 1.0
"""Time between two looks for sessions that came and went."""

LIST_COALESCE_S = 0.25
"""What changes within this time is told at once: at most so often a session is looked at for the list."""

DESTROYED_S = 30.0
"""Time between two looks for sessions that were destroyed, when none went."""

QUIET_LOOK_S = 10.0
"""So late a change may be told of a session that has printed nothing for more than a minute; what it prints is told
at once."""

TAIL_ROWS = 5
"""Rows of a screen that the list shows."""


class Overview(PageListing):
    """The sessions of one broker."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker, self._seeing, self._people = broker, broker.seeing(), broker.people
        self._asked: dict[str, list[WaitingRequest]] = {}
        """The requests of each session."""
        self._news = anyio.Event()
        self._dirty: set[str] = set()
        self._signs: dict[str, Hashable] = {}
        """Of the moments in which the rows were made."""

    def _forget(self) -> None:
        super()._forget()
        self._signs, self._asked = {}, {}

    # ---- the work --------------------------------------------------------------------------------

    async def _keep(self) -> None:
        followed: dict[str, anyio.CancelScope] = {}
        signs: dict[str, Hashable] = {}
        destroyed_at = 0.0
        async with anyio.create_task_group() as task_group:
            while True:
                begun = anyio.current_time()
                try:
                    now = await self._seeing.signs()
                except (TmuxMcpError, OSError) as error:
                    log.debug("the sessions cannot be listed: %s", error)
                    now = signs
                gone = signs.keys() - now.keys()
                if gone or begun - destroyed_at > DESTROYED_S:
                    destroyed_at = begun
                    over = set(self._seeing.destroyed())
                    self._dirty |= {name for name in over if name not in now} | (self.rows.keys() - now.keys())
                self._dirty |= {name for name in now if self._signs.get(name) != now[name]}
                for name in followed.keys() - now.keys():
                    followed.pop(name).cancel()
                for name in now.keys() - followed.keys():
                    followed[name] = anyio.CancelScope()
                    task_group.start_soon(self._follow, name, followed)
                signs = now
                await self._refresh_until(begun + SESSIONS_LOOK_S)

    async def _refresh_until(self, end: float) -> None:
        """Take in what happens until then."""
        while True:
            names, self._dirty = self._dirty, set()
            await self._refresh(names)
            self._news = anyio.Event()
            with anyio.move_on_at(end):
                await self._news.wait()
            if anyio.current_time() >= end:
                return
            await anyio.sleep(LIST_COALESCE_S)

    async def _follow(self, name: str, followed: dict[str, anyio.CancelScope]) -> None:
        """Say that a session has changed, whenever it has."""
        with followed[name]:
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(self._follow_requests, name)
                await self._follow_output(name)
                task_group.cancel_scope.cancel()
            self.look_anew(name)
            await anyio.sleep(SESSIONS_LOOK_S)
        if followed.get(name):  # it ended, or another has its name now: the next look tells
            del followed[name]

    async def _follow_output(self, name: str) -> None:
        """Until the session ends."""
        try:
            follow = self._broker.follow(name, output=False, longest_look_s=QUIET_LOOK_S)
            while await follow.batch():
                self.look_anew(name)
                await anyio.sleep(LIST_COALESCE_S)
        except (TmuxMcpError, OSError) as error:
            log.debug("session %s cannot be followed: %s", name, error)

    async def _follow_requests(self, name: str) -> None:
        try:
            while True:
                await self._people.wait_for_change(name)
                self.look_anew(name)
        except (TmuxMcpError, OSError) as error:
            log.debug("requests of session %s cannot be followed: %s", name, error)

    def look_anew(self, session_id: str) -> None:
        """Look at a session anew; empty: at what waits."""
        if session_id:
            self._dirty.add(session_id)
        self._news.set()

    async def _refresh(self, names: set[str]) -> None:
        changed = False
        for name in names:
            try:
                row = await self._row(name)
                self._asked[name] = self._people.of(name)
                if row is None and name in self.rows:
                    self._seeing.destroyed()  # it is among those from now on
                    row = await self._row(name)
            except (TmuxMcpError, OSError) as error:
                log.debug("session %s cannot be looked at: %s", name, error)
                self._signs.pop(name, None)  # nothing is known of this moment: the next look for sessions tries again
                continue
            if row is None:
                self._signs.pop(name, None)
                changed |= self.rows.pop(name, None) is not None
                self._asked.pop(name, None)
            elif self.rows.get(name) != row:
                self.rows[name], changed = row, True
        found = waits(chain(*self._asked.values()), self._people.questions(), self.rows.values())
        if found != self.waits:
            self.waits, changed = found, True
        if changed or not self.version:
            self._tell()

    async def _row(self, name: str) -> Row | None:
        standing = await self._seeing.standing(name)
        if standing is None:
            return None
        self._signs[name] = standing.sign
        summary, taken = standing.summary, standing.taken
        row = asdict(summary)
        del row["output_bytes"]
        row |= {
            "taken_over": taken and {"by": taken.by, "since": taken.since, "via": taken.via, "page": taken.page},
            "paused": standing.paused,
            "yours": standing.yours,
            "watched": standing.watched,
            "command": standing.command and asdict(standing.command),
            "commands": standing.commands,
            "tail": [] if summary.mode == "lost" else await self._tail(name),
        }
        return row

    async def _tail(self, name: str) -> list[str]:
        """The last rows that the screen shows, as JSON."""
        sight = await self._seeing.sight(name)
        if sight is None:
            return []
        shown = sight.shown
        rows = encoded_rows(shown.lines, shown.cols, shown.rows, shown.version)
        while rows and rows[-1] == "[]":
            rows.pop()
        return rows[-TAIL_ROWS:]


# ---- Rows of a terminal as JSON that a browser draws: stretches of one look, each with its text. Pure ----------------
#
# A stretch is `{"t": TEXT}` with, where it has them, `f` and `b` (colours of ink and ground, `#rrggbb`), `a`
# (attributes: `b`old, `i`talic, `s`truck, `o`verlined, `k` blinking), `u` (a kind of underline), `l` (its colour), `h`
# (the address behind it), and `w`: the text is one cell of so many columns, whatever font has it. Its text holds
# nothing that a terminal or a browser would act upon.

KEPT_ROWS = 4096
"""Rows whose drawing is kept: those of many screens are the same, frame after frame."""

Span = dict[str, Any]


class Link(NamedTuple):
    """An address behind a row's text."""

    begin: int
    end: int
    """Columns: of its first one, and behind its last one."""
    address: str


def encoded_rows(lines: Sequence[str], cols: int, rows: int, version: TmuxVersion = OLDEST_VERSION) -> list[str]:
    """Rows as `capture-pane -e` of this tmux printed them, each as JSON."""
    shown = list(lines[:rows])
    alone = [
        _encoded(line, cols, version, _links(whole, cols, version))
        for line, whole in zip(clip(shown, cols, version), shown, strict=True)
    ]
    return alone + [_encoded("", cols, version)] * (rows - len(alone))


def encoded_screen(snapshot: Snapshot) -> Span:
    """A whole screen, as the stream sends one."""
    cursor = snapshot.cursor
    return {
        "size": [snapshot.cols, snapshot.rows],
        "facts": [cursor.row, cursor.col, cursor.visible, drawable(snapshot.title), cursor.shape],
        "lines": {str(number): spans(row) for number, row in enumerate(snapshot.grid)},
    }


@lru_cache(maxsize=KEPT_ROWS)
def _encoded(line: str, cols: int, version: TmuxVersion, links: tuple[Link, ...] = ()) -> str:
    from tmuxmcp.terminal.emulator.seed import grid  # late: it brings the emulator

    return encoded(grid([line], cols, 1, version)[0], links) if line else "[]"


def _links(line: str, cols: int, version: TmuxVersion) -> tuple[Link, ...]:
    """The addresses behind a row as `capture-pane` printed it."""
    if LINK_INTRODUCER not in line:
        return ()
    from tmuxmcp.terminal.emulator.seed import captured_screen
    from tmuxmcp.terminal.emulator.stream import Stream

    screen = captured_screen(cols, 1, version)
    stream = Stream(screen)
    found = []
    for text, address in pieces(line):
        begin = screen.cursor.x
        stream.feed(text.encode("utf-8", "replace"))
        if address:
            found.append(Link(begin, screen.cursor.x, address))
    return tuple(found)


def encoded(row: Cells, links: Sequence[Link] = ()) -> str:
    """A row as JSON."""
    return json.dumps(spans(row, links), ensure_ascii=False, separators=(",", ":"))


def spans(row: Cells, links: Sequence[Link] = ()) -> list[Span]:
    """A row as stretches; blanks at its end that cannot be seen are left out."""
    end = len(row)
    while end and row[end - 1] == BLANK:
        end -= 1
    found, at = [], 0
    for link in links:
        begin, behind = min(link.begin, end), min(link.end, end)
        found += _stretches(row[at:begin])
        found += [span | {"h": link.address} for span in _stretches(row[begin:behind])]
        at = behind
    return found + _stretches(row[at:end])


def _stretches(cells: Cells) -> list[Span]:
    return [span for run in runs(cells) for span in _of_run(run)]


def _of_run(run: StyleRun) -> Iterator[Span]:
    style = _style(run.style._replace(link=""))
    if run.style.link:
        style = style | {"h": run.style.link}
    plain = ""
    for cell in run.cells:
        if not cell.width:
            continue
        if cell.width == 1 and cell.text.isascii() and cell.text.isprintable() and len(cell.text) == 1:
            plain += cell.text
            continue
        if plain:
            yield {"t": plain, **style}
            plain = ""
        yield {"t": drawable(cell.text).encode("utf-8", "replace").decode() or " ", "w": cell.width, **style}
    if plain:
        yield {"t": plain, **style}


@lru_cache(maxsize=4096)
def _style(style: Style) -> Span:
    seen = drawn_style(style)
    found: Span = {}
    if seen.ink != FOREGROUND:
        found["f"] = hexadecimal(seen.ink)
    if seen.ground != BACKGROUND:
        found["b"] = hexadecimal(seen.ground)
    marks = {"b": style.bold, "i": style.italic, "s": style.strike, "o": style.overline, "k": style.blink}
    if attributes := "".join([letter for letter, has in marks.items() if has]):
        found["a"] = attributes
    if style.underline:
        found["u"] = style.underline
        if seen.line != seen.ink:
            found["l"] = hexadecimal(seen.line)
    return found


# ---- What waits for a person, as the page lists it. An agent's words are text ----------------------------------------
#
# A wait is `{"id", "kind", "session_id", "message", "asked_ms", "until_ms", "for_session"}`. `kind` is `secret`,
# `input`, `policy` or `held`: a session that the person holds. Times are in milliseconds since 1970, `until_ms` null:
# no end.

PageWait = dict[str, Any]


def waits(
    asked: Iterable[WaitingRequest], questions: Iterable[Confirmation], rows: Iterable[dict[str, Any]]
) -> list[PageWait]:
    """All that waits, in the order in which it is needed: who asked first first, what the person holds last.

    Args:
        rows: all sessions, as the list has them.
    """
    asking = [*map(_request, asked), *map(_question, questions)]
    held = [_held_wait(row) for row in rows if row["yours"]]
    return sorted(asking, key=_asked_ms) + sorted(held, key=_asked_ms)


def _asked_ms(wait: PageWait) -> int:
    return wait["asked_ms"] or 0


def _request(what: WaitingRequest) -> PageWait:
    request = what.request
    kind = "secret" if request.secret else "input"
    return _wait(request.id, kind, what.session.id, what.message, request.asked_at, request.until)


def _question(question: Confirmation) -> PageWait:
    found = _wait(
        question.id, "policy", question.session_id, harmless(question.message), question.asked_at, question.until
    )
    return found | {"for_session": bool(question.scope)}


def _held_wait(row: dict[str, Any]) -> PageWait:
    name, since = row["session_id"], row["taken_over"]["since"]
    return _wait(f"held {name}", "held", name, "", seconds_of(since) if since else None, None)


def _wait(id: str, kind: str, session_id: str, message: str, asked_at: float | None, until: float | None) -> PageWait:
    return {
        "id": id,
        "kind": kind,
        "session_id": session_id,
        "message": message,
        "asked_ms": asked_at and round(asked_at * 1000),
        "until_ms": until and round(until * 1000),
        "for_session": False,
    }
