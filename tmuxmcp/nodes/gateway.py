"""Many machines as one broker: each call goes to the machine that the id names, and comes back with ids of the fleet.

A gateway keeps nothing but caches, and there may be any number of them: what they know, they can ask again. There is no
table of sessions anywhere; what has to be looked for is asked of all machines at once, and an answer that may not be
whole says which machines are missing.
"""

from __future__ import annotations

import platform
import random
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import anyio
import anyio.abc

from tmuxmcp import __version__
from tmuxmcp.broker.listing import spell
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import PROGRESS_EVERY_S, Call, Question, joined_notes, new_call_id, no_progress, nobody
from tmuxmcp.contract.errors import (
    FleetFull,
    InvalidArgument,
    MaxSessions,
    NodeLost,
    NodeUnreachable,
    OutcomeUnknown,
    SessionNotFound,
    TmuxMcpError,
    Unsupported,
)
from tmuxmcp.contract.follow import Change
from tmuxmcp.contract.operations import Operations
from tmuxmcp.contract.request import NamesCall, Operation, R, Request
from tmuxmcp.contract.results import Result
from tmuxmcp.contract.value import replace
from tmuxmcp.contract.words import EVERY_SESSION
from tmuxmcp.gate.gate import authorize
from tmuxmcp.nodes import ids
from tmuxmcp.nodes.callnews import may_repeat
from tmuxmcp.nodes.ids import check_node, fleet_id, split
from tmuxmcp.nodes.transport import Machine, Transport, VisitAnswer, background_tasks
from tmuxmcp.sessions import noting

if TYPE_CHECKING:
    from tmuxmcp.contract.settings import BrokerSettings
    from tmuxmcp.contract.words import Cast

T = TypeVar("T")

LIST_S = 5.0
"""Longest time in which a machine has to answer what all machines are asked."""

ENOUGH_S = 2.0
"""Longest time that a machine has to end its wait after another machine has ended its own."""

LOOK_RETRY_S = 0.2
"""Time between two tries of a look."""

LOAD_S = 1.0
"""For this long, what the machines said of their room is used for placing sessions."""

SILENT_FACTOR = 1.5
"""A machine may be silent for this many intervals of progress; then the gateway reports progress itself."""

LOOK_PAUSE_FACTOR = 5
"""Time between two looks at all, as a multiple of what the last look took."""

CHANGES_LOOK_S = 1.0
"""Time between two looks at a session, or at all, for who is to be told of changes."""

MOST_HOMES = 10_000
"""Callers whose default session's machine is remembered, at most."""

SAMPLE = random.Random()


class Gateway(Operations):
    """The sessions of many machines; its operations are methods, in the name of one caller."""

    def __init__(self, transport: Transport, settings: BrokerSettings, caller: str = "library") -> None:
        self.transport, self._settings = transport, settings
        self._own = Call(caller, person=True)
        self._homes: OrderedDict[str, str] = OrderedDict()
        """On which machine a caller's default session is."""
        self._away: set[str] = set()
        """Machines that did not answer the last time."""
        self._machines: dict[str, Machine] = {}
        self._looked_at, self._look_holds_s = -LOAD_S, LOAD_S
        self._looking = anyio.Lock()
        self._listed: frozenset[str] = frozenset()
        self._began = time.monotonic()
        self._page_url = ""
        self.listeners = 0
        """How many listeners are told of changes at this moment."""

    # ---- the door of all faces -----------------------------------------------------------------

    async def do(self, request: Request[R], call: Call | None = None) -> R:
        """Do one operation, on the machine that it is meant for.

        Raises:
            NodeUnreachable: the machine does not answer, and nothing was done.
            OutcomeUnknown: the way broke, and it may have been done.
            NodeLost: the machine was given up.
            TmuxMcpError: what the machine's broker raises.
        """
        asked = call or replace(self._own, call_id=new_call_id())
        authorize(request, asked.scopes)
        if at_many := AT_MANY.get(type(request)):
            return cast("R", await at_many(self, request, asked))
        there, node = await self._routed(request, asked)
        return await self._at(node, there, asked)

    async def perform(self, operation: Operation, arguments: Mapping[str, Any], call: Call) -> Result:
        """Check arguments that came from outside, and do the operation.

        Raises:
            InvalidArgument: naming every argument that is wrong, and why.
            TmuxMcpError: as `do`.
        """
        return await self.do(operation.parse(arguments), call)

    # ---- which machine -------------------------------------------------------------------------

    async def _routed(self, request: Request[R], call: Call) -> tuple[Request[R], str]:
        """The request as its machine knows it, and the machine."""
        there, node = ids.local(request)
        if node:
            return there, node
        if there.session:
            return there, await self._find(there.session, request, call)
        if request.operation.session == "named":
            hint = "list_sessions gives them."
            raise InvalidArgument(f"{request.operation.name} needs a session_id.", hint=hint)
        return there, await self._home(call)

    async def _find(self, name: str, request: Request[Any], call: Call) -> str:
        """The one machine that has a session of this name.

        Raises:
            SessionNotFound: none has.
            NodeUnreachable: one that does not answer may have it.
            InvalidArgument: several have.
        """
        found, missing = await self._everywhere(q.GetSession(name), call, ignored=(SessionNotFound,))
        live = [node for node, facts in found.items() if not facts.ended or facts.ended.reason != "destroyed"]
        nodes = sorted(live or found)
        named = f"{name}@{nodes[0] if nodes else 'MACHINE'}"
        if len(nodes) > 1:
            raise InvalidArgument(
                f"There is a session {name} on {', '.join(nodes)}.", hint=f"Say which is meant: {named}."
            )
        if missing and (not nodes or not request.operation.read_only):
            raise NodeUnreachable(
                f"{', '.join(missing)} did not answer, and may have a session {name}.",
                hint=f"Name the machine: {named}.",
                missing=missing,
            )
        if not nodes:
            raise SessionNotFound(
                f"There is no session '{name}' on any machine.", hint="list_sessions gives them.", session_id=name
            )
        return nodes[0]

    async def _home(self, call: Call) -> str:
        """The machine of the caller's default session, or on which it is to be made.

        A session that is there is found wherever it is. Else the first machine with room is taken, in an order that is
        the caller's own, so that gateways that know nothing of each other take the same. A machine that does not answer
        may have it, also where it is not the first: the first may have been full.

        Raises:
            NodeUnreachable: it may be on a machine that does not answer.
        """
        if call.caller in self._homes:
            self._homes.move_to_end(call.caller)
            return self._homes[call.caller]
        found, missing = await self._everywhere(q.ListSessions(include_exited=False, limit=1), call)
        own = [node for node, listed in found.items() if listed.default_session_id]
        if missing and not own:
            raise NodeUnreachable(
                f"{', '.join(missing)} did not answer, and your default session may be there.",
                hint="Try again later, or make a session with create_session and name it. A machine that is gone for "
                "good is given up with `tmuxmcp fleet forget`.",
                missing=missing,
            )
        node = own[0] if own else await self._first_with_room(call)
        self._homes[call.caller] = node
        if len(self._homes) > MOST_HOMES:
            self._homes.popitem(last=False)
        return node

    async def _first_with_room(self, call: Call) -> str:
        known = {each.name: each for each in await self._machines_lately()}
        for name in ids.ranked(sorted(known), call.caller):
            if not known[name].alive:
                raise NodeUnreachable(
                    f"{name} does not answer, and your default session may be there.",
                    hint="Try again later, or make a session with create_session and name it.",
                    node=name,
                )
            if known[name].free != 0 and not known[name].drained:
                return name
        raise FleetFull("No machine has room for your default session.", hint="Wait, or end sessions.")

    async def _everywhere(
        self, request: Request[R], call: Call, *, ignored: tuple[type[TmuxMcpError], ...] = ()
    ) -> tuple[dict[str, R], list[str]]:
        """What the machines answer, each within `LIST_S`; and the names of those that do not."""
        return await self._ask_each(dict.fromkeys(await self.transport.names(), request), call, ignored)

    async def _ask_each(
        self, asked: Mapping[str, Request[R]], call: Call, ignored: tuple[type[TmuxMcpError], ...] = ()
    ) -> tuple[dict[str, R], list[str]]:
        """The same of one request for each machine."""
        found: dict[str, R] = {}
        missing: list[str] = []

        async def one(node: str, request: Request[R]) -> None:
            with anyio.move_on_after(LIST_S) as patience:
                try:
                    found[node] = await self.transport.call(node, request, _quiet(call))
                except ignored:
                    pass
                except (TmuxMcpError, LookupError):
                    missing.append(node)
            if patience.cancelled_caught:
                missing.append(node)

        async with anyio.create_task_group() as tasks:
            for node, request in asked.items():
                tasks.start_soon(one, node, request)
        return dict(sorted(found.items())), sorted(missing)

    # ---- one call to one machine ---------------------------------------------------------------

    async def _at(self, node: str, request: Request[R], call: Call) -> R:
        ask = partial(self.transport.call, node, request)
        return ids.with_node_ids(await self._have_done(node, request, call, ask), node, self._page_url)

    async def _have_done(self, node: str, request: Request[Any], call: Call, ask: Callable[[Call], Awaitable[T]]) -> T:
        """Have a machine do it: once, if it changes something; a look again until the transport's patience is over.

        There is no patience with a machine that says nothing at all, or did not answer the last time either.
        """
        late = False
        until = time.monotonic() + (0.0 if node in self._away else self.transport.patience_s)
        while True:
            try:
                async with _telling(self._asking(call, node)) as heard:
                    answer = await ask(heard)
                    self._away.discard(node)
                    return answer
            except LookupError:
                if self._homes.get(call.caller) == node:
                    del self._homes[call.caller]
                raise await self._no_such(node, request.session) from None
            except (NodeUnreachable, OutcomeUnknown) as error:
                silent = error.details.pop("silent", False)
                if error.details.pop("late", False) and not late:
                    late = True  # it was not begun, as it has another clock than was known
                    continue
                if silent or time.monotonic() >= until or not may_repeat(request):
                    self._away.add(node)
                if not may_repeat(request):
                    raise _unknown(error, node, request) from None
                if node in self._away:
                    raise _unreachable(error, node) from None
            except TmuxMcpError as error:
                if isinstance(error, MaxSessions) and not request.session:
                    self._homes.pop(call.caller, None)  # there is no default session, and no room for one there
                raise ids.told_error(error, node) from None
            await anyio.sleep(LOOK_RETRY_S)

    def _asking(self, call: Call, node: str) -> Call:
        """The call with questions that name the machine, and lead to the gateway's own page."""
        if call.ask is nobody:
            return call

        async def ask(question: Question) -> bool | None:
            page_url = self._page_url if self.transport.shows_page(node) else ""
            told = ids.told_question(question, node, page_url)
            return await call.ask(told) if told else None

        return replace(call, ask=ask, answers=ids.local_answers(call.answers, node))

    async def _no_such(self, node: str, name: str) -> TmuxMcpError:
        """Why there is no machine of this name."""
        given_up = next((each for each in await self.transport.tombstones() if each.node == node), None)
        session = {"session_id": fleet_id(name, node)} if name else {}
        if given_up:
            return NodeLost(
                f"{node} was given up at {given_up.at}, and its sessions with it.",
                hint="Make a new session; this one cannot be reached any more.",
                node=node,
                **session,
            )
        names = await self.transport.names()
        hint = f"Machines are: {', '.join(names)}." if len(names) <= 20 else "`tmuxmcp fleet status` lists them."
        return SessionNotFound(f"This fleet has no machine {node}.", hint=hint, node=node, **session)

    # ---- operations on several machines --------------------------------------------------------

    async def _create(self, request: q.CreateSession, call: Call) -> r.CreateSessionResult:
        """Make a session where there is room. Its name is made here, so that a lost answer can be asked after."""
        placement = request.placement or q.Placement()
        # With a request_id it is the same name each time: under another one it would be another call.
        drawn = _digest(call, request.request_id) if request.request_id else secrets.token_hex(4)
        name = request.name or f"sess_{drawn}"
        there = ids.with_arguments(request, name=name, placement=None)
        if placement.node:
            await self._check_pinned(placement)
            return await self._at(placement.node, there, call)
        # The same id again has to go to the same machine, which knows what became of the first.
        if request.request_id and (node := await self._made_before(there, call)):
            return await self._at(node, there, call)
        full: list[str] = []
        missing: list[str] = []
        order = ids.in_turn(ids.fitting(await self._machines_lately(), placement.labels), SAMPLE.sample)
        for machine in order:
            if not machine.alive:
                missing.append(machine.name)
                continue
            try:
                made = await self._at(machine.name, there, call)
            except MaxSessions:
                full.append(machine.name)
                self._count(machine.name, None)
            except (NodeUnreachable, NodeLost):  # nothing was sent
                missing.append(machine.name)
            else:
                self._count(machine.name, 1)
                return made
        raise _no_room(placement, full, missing)

    async def _check_pinned(self, placement: q.Placement) -> None:
        """Whether a machine that is named takes the session.

        Raises:
            InvalidArgument: there is no such machine.
            NodeLost: it was given up.
            NodeUnreachable: it was asked just now, and does not answer.
            FleetFull: it is drained, or has other labels.
        """
        node, begun = check_node(placement.node), time.monotonic()
        machine = next((each for each in await self._machines_lately() if each.name == node), None)
        if machine is None:
            error = await self._no_such(node, "")
            raise error if isinstance(error, NodeLost) else InvalidArgument(error.message, hint=error.hint, node=node)
        if not ids.fitting([machine], placement.labels):
            why = "is drained" if machine.drained else "has other labels"
            raise FleetFull(f"{node} {why}.", hint="Leave placement.node out, or name another.", node=node)
        if not machine.alive and self._looked_at >= begun:
            raise _unreachable(NodeUnreachable(f"{node} does not answer: {_described(machine)}."), node)

    async def _made_before(self, request: q.CreateSession, call: Call) -> str:
        """The machine that has the session which an earlier call of this id made; empty: none has.

        Raises:
            NodeUnreachable: one that does not answer may have it.
        """
        found, missing = await self._everywhere(q.GetSession(request.name), call, ignored=(SessionNotFound,))
        if not found and missing:
            raise NodeUnreachable(
                f"{', '.join(missing)} did not answer, and may have made the session before.",
                hint="Ask again with the same request_id, or pin the machine with placement.",
                missing=missing,
            )
        return next(iter(found), "")

    async def _list(self, request: q.ListSessions, call: Call) -> r.ListSessionsResult:
        found, missing = await self._everywhere(request, call)
        told = [(node, ids.with_node_ids(each, node)) for node, each in found.items()]
        rows = ((_list_order(row, node), row) for node, each in told for row in each.sessions)
        placed = sorted(rows, key=lambda each: each[0])
        shown = placed[: request.limit]
        # Rows of one place on several machines stay together: `after` is a place.
        shown += takewhile(lambda each: shown and each[0][:3] == shown[-1][0][:3], placed[request.limit :])
        more = len(placed) > len(shown) or any(each.next_after for _, each in told)
        goes_on = spell(shown[-1][0][:3]) if more and shown else None
        notes = [f"This list may not be whole: {', '.join(missing)} did not answer."] if missing else []
        notes += [f"More are not shown: list_sessions with after={goes_on} goes on."] if goes_on else []
        self._listed = frozenset(row.session_id for _, row in shown)
        return r.ListSessionsResult(
            count=sum(each.count for _, each in told),
            default_session_id=next((each.default_session_id for _, each in told if each.default_session_id), None),
            missing=missing,
            note=joined_notes(*notes),
            next_after=goes_on,
            sessions=[row for _, row in shown],
        )

    async def _wait(self, request: q.Wait, call: Call) -> r.WaitResult:
        """Wait on all machines concerned at once: the first answer counts, and the others are told to give theirs."""
        parts = await self._parts(request, call)
        if len(parts) == 1:
            [(node, part)] = parts.items()
            return replace(await self._at(node, part, call), missing=[])
        begun = time.monotonic()
        ended: dict[str, r.WaitResult] = {}
        failed: dict[str, TmuxMcpError] = {}
        first, enough = "", anyio.Event()
        asked = replace(_quiet(call), enough=enough.wait)
        async with _telling(call), anyio.create_task_group() as tasks:

            async def one(node: str, part: q.Wait) -> None:
                nonlocal first
                try:
                    ended[node] = await self._at(node, part, asked)
                except TmuxMcpError as error:
                    failed[node] = error
                if not first and node in ended and ended[node].session_id:
                    first = node
                    enough.set()
                if len(ended) + len(failed) == len(parts):
                    tasks.cancel_scope.cancel()

            for node, part in parts.items():
                tasks.start_soon(one, node, part)
            # What another machine tells at the same moment it does not tell again: so no wait is cut off that ends.
            await enough.wait()
            await anyio.sleep(ENOUGH_S)
            tasks.cancel_scope.cancel()
        wrong = next((each for each in failed.values() if not isinstance(each, NodeUnreachable | OutcomeUnknown)), None)
        if wrong or (not ended and failed):
            raise wrong or next(iter(failed.values()))
        late = {node: part for node, part in parts.items() if node not in ended and node not in failed}
        now = {node: ids.with_arguments(part, timeout_ms=0) for node, part in late.items()}
        found, _ = await self._ask_each(now, call)
        ended |= {node: ids.with_node_ids(each, node) for node, each in found.items()}
        missing = sorted(parts.keys() - ended.keys())
        best = ended[first] if first else next(iter(ended.values()))
        return replace(
            best,
            waited_ms=round((time.monotonic() - begun) * 1000),
            missing=missing,
            note=f"{', '.join(missing)} did not answer." if missing else best.note,
            sessions=[row for node in parts if node in ended for row in ended[node].sessions],
        )

    async def _parts(self, request: q.Wait, call: Call) -> dict[str, q.Wait]:
        """The wait of each machine."""
        if not request.session_ids:
            return dict.fromkeys(await self.transport.names(), request)
        names: dict[str, list[str]] = {}
        for session_id in dict.fromkeys(request.session_ids):
            name, node = split(session_id)
            names.setdefault(node or await self._find(name, request, call), []).append(name)
        return {node: ids.with_arguments(request, session_ids=each) for node, each in names.items()}

    async def _health(self, request: q.Health, call: Call) -> r.HealthResult:
        machines = await self._machines_lately(fresh=True)
        return r.HealthResult(
            version=__version__,
            tmux_version=None,
            python_version=platform.python_version(),
            uptime_s=round(time.monotonic() - self._began, 3),
            sessions=sum(each.live or 0 for each in machines),
            limits={"max_wait_ms": self._settings.max_wait_ms, "machines": len(machines)},
            checks=[r.Check(name=each.name, ok=each.alive, message=_described(each)) for each in machines],
        )

    # ---- machines ------------------------------------------------------------------------------

    async def machines(self) -> list[Machine]:
        """All machines of the fleet as they are now, also those that do not answer, by name."""
        return await self._machines_lately(fresh=True)

    async def _machines_lately(self, *, fresh: bool = False) -> list[Machine]:
        """The machines, as they were a short time ago."""
        asked_at = time.monotonic()
        async with self._looking:  # who comes while somebody looks gets what that one sees
            if self._looked_at < (asked_at if fresh else asked_at - self._look_holds_s):
                begun = time.monotonic()
                self._machines = {each.name: each for each in await self.transport.machines()}
                self._looked_at = time.monotonic()
                # A machine that hangs makes each look slow: not everybody who places a session is to wait for it.
                self._look_holds_s = max(LOAD_S, LOOK_PAUSE_FACTOR * (self._looked_at - begun))
        return list(self._machines.values())

    def _count(self, node: str, made: int | None) -> None:
        """Count a session that was made on a machine since the last look; None: the machine has no room."""
        machine = self._machines.get(node)
        if machine and machine.free is not None:
            self._machines[node] = replace(machine, free=max(machine.free - made, 0) if made else 0)

    # ---- what faces need beside operations -----------------------------------------------------

    def claim_identity(self, key: str) -> str:
        """A caller's name that its restarts share and no other live process has; see `identity`."""
        directory = self._settings.state_dir
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return noting.claim_name(directory, f"{platform.node()}:{key}" if key.startswith("stdio:") else key)

    @property
    def caller(self) -> str:
        """Whose default session and read cursors the gateway's own methods mean."""
        return self._own.caller

    @property
    def session_ids(self) -> frozenset[str]:
        """The sessions that were there at the last look."""
        return self._listed

    def shows_page(self, url: str) -> None:
        """Take note where a person can watch: facts of sessions tell it. It holds nothing that lets anybody in."""
        self._page_url = url

    async def answers(self, timeout_s: float) -> bool:
        """Whether a machine answers within this time."""
        with anyio.move_on_after(timeout_s):
            return any(each.alive for each in await self._machines_lately())
        return False

    async def asciicast(self, session_id: str = "", most_bytes: int = 1 << 20, call: Call | None = None) -> Cast:
        """The newest part of what a session did, as its machine makes it.

        Raises:
            NodeUnreachable: its machine does not answer.
            SessionNotFound, NodeLost, NotRetained, ResourceLimit, TimedOut, IoError, Unauthorized, PolicyDenied
        """
        asked = call or self._own
        there, node = await self._routed(q.Read("raw", session_id), asked)
        ask = partial(self.transport.asciicast, node, there.session, most_bytes)
        return await self._have_done(node, there, asked, ask)

    async def pane(self, session_id: str) -> NoReturn:
        """Refuse: a pane can be used on the session's own machine alone.

        Raises:
            Unsupported
        """
        raise Unsupported(
            "A fleet gives no panes: libtmux reaches the tmux of its own machine alone.",
            hint="Run the program on the session's machine, with open_broker() and the id without @NODE.",
            session_id=session_id,
        )

    async def follow(self, session_id: str, since: int = 0, call: Call | None = None) -> AsyncIterator[Change]:
        """What a session prints from an offset on, and its end; also over breaks of the way, nothing lost or doubled.

        Raises:
            NodeUnreachable: its machine was away for too long.
            SessionNotFound, NodeLost, Unauthorized, PolicyDenied
        """
        asked = call or self._own
        there, node = await self._routed(q.Read("raw", session_id, since=since), asked)
        try:
            async for event in self.transport.follow(node, there.session, since, asked):
                yield event
        except LookupError:
            raise await self._no_such(node, there.session) from None
        except TmuxMcpError as error:
            raise ids.told_error(error, node) from None

    @asynccontextmanager
    async def visit(
        self, node: str, name: str, asked: Mapping[str, Any], silence_s: float
    ) -> AsyncIterator[VisitAnswer]:
        """Ask a machine's page for something, as `Transport.visit`: for a person whom the gateway's page has let in.

        Raises:
            SessionNotFound, NodeLost: there is no such machine.
            NodeUnreachable, OutcomeUnknown, PermissionDenied
        """
        async with AsyncExitStack() as there:
            try:
                visited = await there.enter_async_context(self.transport.visit(node, name, asked, silence_s))
            except LookupError:
                raise await self._no_such(node, "") from None
            except TmuxMcpError as error:
                raise ids.told_error(error, node) from None
            yield visited

    async def notify(
        self,
        changed: Callable[[], Awaitable[None]],
        session_id: str = "",
        output: bool = False,
        commands: bool = False,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `changed` after each change of a session, or of any, until cancelled: a look each `CHANGES_LOOK_S`.

        Args:
            session_id: empty: all sessions, and which there are.
            output: what the session prints counts as well.
            commands: only the end of a command, or of the session, counts.
        """
        seen = await self._state(session_id, output, commands)
        self.listeners += 1
        task_status.started()
        try:
            while True:
                await anyio.sleep(CHANGES_LOOK_S)
                now = await self._state(session_id, output, commands)
                if now is not None and now != seen:
                    seen = now
                    await changed()
        finally:
            self.listeners -= 1

    async def _state(self, session_id: str, output: bool, commands: bool) -> object:
        """What counts as changed when it differs; None: not known at this moment."""
        try:
            if not session_id:
                listed = await self.list_sessions(limit=EVERY_SESSION)
                return [(each.session_id, each.mode, each.ready, each.output_bytes) for each in listed.sessions]
            facts = await self.get_session(session_id)
        except SessionNotFound:
            return "gone"
        except TmuxMcpError:
            return None
        if commands:
            return facts.commands, facts.mode == "shell_prompt", facts.exited
        return facts.mode, facts.ready, facts.rows, facts.cols, facts.exited, facts.output_bytes if output else 0


AT_MANY: Mapping[type[Request[Any]], Callable[[Gateway, Any, Call], Awaitable[Result]]] = {
    q.CreateSession: Gateway._create,
    q.ListSessions: Gateway._list,
    q.Wait: Gateway._wait,
    q.Health: Gateway._health,
}
"""What does requests that concern several machines."""


@asynccontextmanager
async def _telling(call: Call) -> AsyncIterator[Call]:
    """The call with progress from its machine; where the machine is silent, the caller is told that time passes."""
    if call.progress is no_progress:
        yield call
        return
    begun = told_at = time.monotonic()

    async def tell(elapsed_s: float, last_line: str) -> None:
        """By one clock, whoever tells: what goes on begins anew where a look is made again."""
        nonlocal told_at
        told_at = time.monotonic()
        await call.progress(told_at - begun, last_line)

    async def tick() -> None:
        while True:
            await anyio.sleep(PROGRESS_EVERY_S)
            if time.monotonic() - told_at > SILENT_FACTOR * PROGRESS_EVERY_S:
                await tell(0, "")

    async with background_tasks() as tasks:
        tasks.start_soon(tick)
        yield replace(call, progress=tell)


def _quiet(call: Call) -> Call:
    """The call as one of several that stand for it: none of them asks the person or reports progress by itself."""
    return replace(call, progress=no_progress, ask=nobody, answers="", undo=[])


def _digest(call: Call, request_id: str) -> str:
    return ids.digest(f"{call.client}\n{request_id}")


def _list_order(row: r.SessionSummary, node: str) -> tuple[bool, str, str, str]:
    """The order of the list: as on one machine, and then by machines."""
    return row.exited, row.created_at[:40], split(row.session_id)[0], node


def _described(machine: Machine) -> str:
    """A machine on one line."""
    if not machine.alive:
        return machine.note or "it does not answer"
    room = "" if machine.free is None else f", room for {machine.free}"
    said = f"{machine.version}, {machine.live} sessions{room}" + ", drained" * machine.drained
    return f"{said}; {machine.note}" if machine.note else said


def _unreachable(error: TmuxMcpError, node: str) -> NodeUnreachable:
    hint = "The session may well be alive there. Try again later."
    return NodeUnreachable(error.message, hint=error.hint or hint, **{**error.details, "node": node})


def _unknown(error: TmuxMcpError, node: str, request: Request[Any]) -> TmuxMcpError:
    """What a caller is told whose call was not to be made again."""
    name = request.session or (request.name if isinstance(request, q.CreateSession) else "")
    error.details = {**error.details, "node": node} | ({"session_id": fleet_id(name, node)} if name else {})
    if isinstance(error, OutcomeUnknown) and not error.hint:  # the machine's own word has one
        error.hint = _look_first(request, fleet_id(name, node) if name else "")
    elif not error.hint:
        error.hint = "Nothing was done. The session may well be alive there: try again later."
    return error


def _look_first(request: Request[Any], session_id: str) -> str:
    meant = f" of {session_id}" if session_id else ""
    if any(getattr(request, name) for name in request.operation.marks(NamesCall)):
        return "Ask again with the same request_id: the machine says what became of the first call."
    match request:
        case q.CreateSession():
            return f"get_session{meant} says whether it was made. Do not make another before that."
        case q.Read() | q.Wait():
            return "What it would have told may count as told: read with since gives everything again."
    return (
        f"It may have been done. Look first: list_commands{meant} and read with since tell. Do not repeat it blindly."
    )


def _no_room(placement: q.Placement, full: Iterable[str], missing: Iterable[str]) -> TmuxMcpError:
    full, missing = sorted(full), sorted(missing)
    details = {"labels": dict(placement.labels), "full": full, "missing": missing}
    if missing and not full:
        raise NodeUnreachable(f"{', '.join(missing)} did not answer.", hint="Nothing was made. Try again.", **details)
    labels = ", ".join(f"{name}={value}" for name, value in placement.labels.items())
    which = f" with the labels {labels}" if labels else ""
    return FleetFull(
        f"No machine{which} has room for a session: {len(full)} are full."
        if full
        else f"No machine{which} takes new sessions.",
        hint="Wait, end sessions, raise max_sessions there, or add machines.",
        **details,
    )
