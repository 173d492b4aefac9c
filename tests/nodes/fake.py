"""A way to machines that are not there: what each answers, and what it was asked, for tests of the gateway alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio

from tmuxmcp.broker.listing import spell
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import MaxSessions, NodeUnreachable, OutcomeUnknown, SessionExists, SessionNotFound
from tmuxmcp.contract.follow import Change
from tmuxmcp.contract.request import Request
from tmuxmcp.nodes.transport import Machine, Tombstone

WHEN = "2026-01-31T12:00:00Z"


class FakeMachine:
    """Sessions as a table of names, and what is to go wrong."""

    def __init__(self, name: str, room: int = 4, **labels: str) -> None:
        self.name, self.room, self.labels = name, room, labels
        self.owners: dict[str, str] = {}
        """By session: whose default session it is."""
        self.away = self.drained = self.full_for_default = False
        self.breaks = 0
        """So many calls are done, and their answers get lost."""
        self.hangs = False
        self.asked: list[Request[Any]] = []
        self.calls: list[Call] = []
        self.cancelled = self.ended = 0
        """Calls that were cut off, and waits that were told to end."""
        self.hears = True
        """What is said to its calls while they go on."""
        self.ready_after_s = 0.0

    async def call(self, request: Request[Any], call: Call) -> r.Result:
        if self.away:
            raise NodeUnreachable(f"{self.name} is away.")
        self.asked.append(request)
        self.calls.append(call)
        try:
            if self.hangs:
                await anyio.sleep_forever()
            answer = await self._do(request, call)
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        if self.breaks:
            self.breaks -= 1
            raise OutcomeUnknown(f"The way to {self.name} broke.")
        return answer

    async def _do(self, request: Request[Any], call: Call) -> r.Result:
        match request:
            case q.CreateSession():
                if request.name in self.owners:
                    raise SessionExists("It exists.", session_id=request.name)
                if len(self.owners) >= self.room:
                    raise MaxSessions("Full.")
                self.owners[request.name] = ""
                return r.CreateSessionResult(
                    session_id=request.name, program="bash", args=[], pid=1, created_at="", cwd="/", rows=24,
                    cols=80,
                    mode="shell_prompt", ready=True, attach_command="tmux attach",
                )  # fmt: skip
            case q.ListSessions():
                own = next((name for name, owner in self.owners.items() if owner == call.caller), None)
                behind = [name for name in sorted(self.owners) if spell((False, WHEN, name)) > request.after]
                rows = [_row(name) for name in behind[: request.limit]]
                goes_on = spell((False, WHEN, rows[-1].session_id)) if len(behind) > len(rows) else None
                return r.ListSessionsResult(
                    count=len(self.owners), default_session_id=own, next_after=goes_on, sessions=rows
                )
            case q.GetSession():
                name = self._name(request.session_id, call)
                return r.SessionFacts(
                    **vars(_row(name)), generation=1, cursor=None, foreground=None, alternate_screen=False,
                    recording=False, taken_over=None, usage=None, attach_command="tmux attach", watch_url=None,
                )  # fmt: skip
            case q.Wait():
                ready = not self.ready_after_s
                if request.timeout_ms:
                    ready = await self._waits(call)
                names = [self._name(each, call) for each in request.session_ids] or list(self.owners)
                first = names[0] if names and ready else None
                rows = [
                    r.WaitedSession(session_id=each, mode="shell_prompt", outcome="ready" if each == first else None)
                    for each in names
                ]
                return r.WaitResult(
                    session_id=first, outcome="ready" if first else "timeout", evidence=None, matched=None,
                    pattern=None, waited_ms=0, sessions=rows,
                )  # fmt: skip
            case q.Signal():
                return r.SignalResult(session_id=self._name(request.session_id, call), delivered=True, pids=[])
            case q.Search():
                return r.SearchResult(
                    session_id=self._name(request.session_id, call), total=0, context=0, truncated=False, matches=[]
                )
            case q.ReadFile():
                return r.ReadFileResult(size=0, offset=0, next_offset=0, truncated=False, encoding="utf-8", data="")
        raise AssertionError(request)

    async def _waits(self, call: Call) -> bool:
        """Whether it is ready before somebody has heard enough."""
        async with anyio.create_task_group() as tasks:
            if call.enough and self.hears:
                tasks.start_soon(self._ended, call.enough, tasks.cancel_scope)
            await anyio.sleep(self.ready_after_s)
            tasks.cancel_scope.cancel()
            return True
        return False

    async def _ended(self, enough: Callable[[], Awaitable[None]], waits: anyio.CancelScope) -> None:
        await enough()
        self.ended += 1
        waits.cancel()

    def _name(self, name: str, call: Call) -> str:
        if not name:
            name = next((each for each, owner in self.owners.items() if owner == call.caller), "")
            if not name and self.full_for_default:
                raise MaxSessions("Full.")
            if not name:
                name = f"own-{call.caller}"
                self.owners[name] = call.caller
        if name not in self.owners:
            raise SessionNotFound("None.", session_id=name)
        return name


def _row(name: str) -> r.SessionSummary:
    return r.SessionSummary(
        session_id=name, program="bash", args=[], mode="shell_prompt", ready=True, exited=False, exit_code=None,
        exit_signal=None, ended=None, pid=1, cwd="/", title="", rows=24, cols=80, created_at=WHEN,
        last_activity_at=None, output_bytes=0, healthy=True,
    )  # fmt: skip


class FakeTransport:
    """A way to some of them."""

    def __init__(self, *machines: FakeMachine, patience_s: float = 0.0) -> None:
        self.patience_s = patience_s
        self.there = {each.name: each for each in machines}
        self.graves: list[Tombstone] = []
        self.looks = 0

    async def names(self) -> list[str]:
        return sorted(self.there)

    async def machines(self) -> list[Machine]:
        self.looks += 1
        return [
            Machine(
                each.name,
                each.labels,
                not each.away,
                "1",
                len(each.owners),
                each.room - len(each.owners),
                drained=each.drained,
            )
            for _, each in sorted(self.there.items())
        ]

    async def call(self, node: str, request: Request[Any], call: Call) -> Any:
        if node not in self.there:
            raise LookupError(node)
        return await self.there[node].call(request, call)

    async def follow(self, node: str, session_id: str, since: int, call: Call) -> AsyncIterator[Change]:
        for event in ():
            yield event

    def shows_page(self, node: str) -> bool:
        return False

    async def drain(self, node: str, drained: bool) -> None:
        self.there[node].drained = drained

    async def forget(self, node: str) -> Tombstone:
        del self.there[node]
        self.graves.append(Tombstone(node, "", WHEN))
        return self.graves[-1]

    async def tombstones(self) -> list[Tombstone]:
        return self.graves

    def placed(self) -> Counter[str]:
        """How many sessions each has."""
        return Counter({each.name: len(each.owners) for each in self.there.values()})
