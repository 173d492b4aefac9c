"""Gateways reach doors by two children: the bridge, which calls, and the watcher, which knows the machines."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import anyio
import anyio.abc

from tmuxmcp import __version__
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, NodeUnreachable, OutcomeUnknown, TmuxMcpError, Unsupported
from tmuxmcp.contract.follow import Change, Destroyed, Exit, Gap, Lost, Output
from tmuxmcp.contract.request import R, Request
from tmuxmcp.contract.words import Cast
from tmuxmcp.machine import ownprocess
from tmuxmcp.nodes import transport
from tmuxmcp.nodes.callnews import EndedForQuestion, RemoteCall, RemoteCalls, own_time_s
from tmuxmcp.nodes.fleetfile import environment
from tmuxmcp.nodes.ray import NODE_LABEL, cluster_of, need_ray
from tmuxmcp.nodes.ray.child import BridgeChild, WatcherChild
from tmuxmcp.nodes.ray.door import change_received
from tmuxmcp.nodes.ray.own import KeptFleet
from tmuxmcp.nodes.transport import Machine, Tombstone, VisitAnswer

DOOR_BACK_S = 20.0
"""So long a look is asked for again: a door that died is back after 3 s, on a busy machine after 10."""

RAY_CONNECT_S = 20.0
"""So long the children have for their first word: they import Ray and look for the cluster."""

WATCHER_AGAIN_S = 0.8
"""The same, once they have said nothing for so long."""

HEAD_LISTENS_S = 1.5
"""Longest time that a connection to a head is tried."""

HELLO_S = 3.0
"""So long a door has to say how its machine is."""

HELLO_COST_S = 0.01
"""So many seconds for each machine pass before all are asked again: with a thousand, ten."""

DOOR_RETRY_S = 0.2

MOST_WAIT_MS = 3_600_000
"""As long a machine waits at most, whatever it is set to."""

NOTHING_DONE = "Nothing was done. Try again later."

OWN_LABELS = (NODE_LABEL, "ray.io/node-id")
"""Labels that say nothing to anybody: the name once more, and Ray's own id, another one after each start."""


class RayTransport:
    """The way to the doors of a Ray cluster."""

    def __init__(
        self,
        address: str,
        bridge: BridgeChild,
        watcher: WatcherChild,
        secret: str,
        tasks: anyio.abc.TaskGroup,
        kept: KeptFleet,
    ) -> None:
        self._address = address
        self.patience_s = DOOR_BACK_S
        self._kept, self._answered = kept, True
        self._told: Mapping[str, Any] | None = None
        self._known: dict[str, Any] = {}
        """What the watcher told last, with what is kept."""
        self._bridge, self._watcher, self._secret = bridge, watcher, secret
        self._tasks = tasks
        self._hellos: dict[str, tuple[float, dict[str, Any]]] = {}
        self._hearings: dict[str, RemoteCalls] = {}
        self._broke_at: dict[str, float] = {}
        """When Ray last told that a call cannot come to a door."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, fleet: str, secret: str, secret_file: os.PathLike[str], state_dir: Path | None = None
    ) -> AsyncIterator[RayTransport]:
        """A transport for the setting `fleet`, until it is left. What cannot be reached is told by the calls.

        Args:
            state_dir: keeps what the fleet has, also when the cluster forgets it; None: nothing does.

        Raises:
            Unsupported: Ray is not installed.
        """
        need_ray()
        address, env = cluster_of(fleet), environment(ownprocess.environment(), secret_file)
        bridge, watcher = BridgeChild(address, env), WatcherChild(address, env)
        async with transport.background_tasks() as tasks:
            for each in (bridge.run, bridge.write, watcher.run):
                tasks.start_soon(each)
            yield cls(address, bridge, watcher, secret, tasks, KeptFleet(state_dir))

    # ---- which machines ------------------------------------------------------------------------

    async def names(self) -> list[str]:
        """The machines that have a door or had one, and those that are in the cluster by their label."""
        return sorted(await self._known_machines())

    async def machines(self) -> list[Machine]:
        """Each as it is, asked where it is in the cluster."""
        known = await self._known_machines()
        hellos: dict[str, dict[str, Any]] = {}
        async with anyio.create_task_group() as tasks:
            for name, facts in known.items():
                if facts["alive"] and facts["hung"]:
                    tasks.start_soon(self._hello, name, HELLO_COST_S * len(known), hellos)
        return [_machine(name, facts, hellos.get(name)) for name, facts in sorted(known.items())]

    async def _known_machines(self) -> dict[str, dict[str, Any]]:
        """What the watcher knows of the machines that are not given up.

        Raises:
            NodeUnreachable: the cluster does not answer.
        """
        told = await self._watcher_report()
        found: dict[str, dict[str, Any]] = told["machines"]
        return {name: facts for name, facts in found.items() if not _given_up(facts, told["tombs"].get(name))}

    async def _watcher_report(self) -> Mapping[str, Any]:
        if self._watcher.told is None and await self._listens():
            with anyio.move_on_after(RAY_CONNECT_S if self._answered else WATCHER_AGAIN_S):
                await self._watcher.wait_for_report()
        told = self._watcher.told
        self._answered = told is not None
        if told is None:
            known = self._kept.all_away(self._address)
            if known["machines"]:
                return known
            raise self._no_cluster()
        if told is not self._told:
            if self._told and self._told["life"] != told["life"]:
                self._bridge.restart()  # it calls the doors of a cluster that is over
            self._told = told
            self._known, lost = self._kept.merged(told)
            for key, record in lost.items():
                self._tasks.start_soon(self._write_again, key, record)
        return self._known

    def _no_cluster(self) -> NodeUnreachable:
        return NodeUnreachable(
            f"The Ray cluster cannot be asked for its machines: {self._watcher.why or 'it does not answer'}.",
            hint="Nothing was done. `tmuxmcp fleet up` starts the head anew, `tmuxmcp fleet join` another machine.",
        )

    async def _listens(self) -> bool:
        """Whether anything listens where the head is to be, as far as that is known: else nobody is waited for."""
        host, _, port = self._address.rpartition(":")
        if not port.isdigit():
            return True
        with anyio.move_on_after(HEAD_LISTENS_S):
            try:
                await (await anyio.connect_tcp(host.strip("[]"), int(port))).aclose()
            except OSError:
                return False
        return True

    async def _write_again(self, key: str, record: dict[str, Any]) -> None:
        """Have a cluster know what one before it knew."""
        with suppress(TmuxMcpError):
            await self._write({"do": "put", "key": key, "record": record})

    async def _hello(self, node: str, good_s: float, into: dict[str, dict[str, Any]]) -> None:
        """Ask a door how its machine is, if it was not asked just now; nothing when it does not say."""
        at, known = self._hellos.get(node, (-good_s, {}))
        if known and time.monotonic() - at < good_s:
            into[node] = known
            return
        with anyio.move_on_after(HELLO_S), suppress(TmuxMcpError):
            try:
                told = _received(await self._call_door(node, "hello", {"call": transport.call_sent(Call(person=True))}))
            except TmuxMcpError as error:
                told = {"note": str(error)} if not isinstance(error, NodeUnreachable | OutcomeUnknown) else {}
                into[node] = told
                raise
            self._hellos[node] = time.monotonic(), told
            into[node] = told

    # ---- calls ---------------------------------------------------------------------------------

    async def call(self, node: str, request: Request[R], call: Call) -> R:
        """One call of a door."""
        own_s, changes = own_time_s(request, MOST_WAIT_MS), not request.operation.read_only
        hearing = await self._reached(node, own_s)
        try:
            async with hearing.of(call, own_s, changes=changes) as heard:
                try:
                    answer = await self._sent(node, request, call, heard)
                except OutcomeUnknown as error:
                    raise await self._given_up(node, heard, error) from None
                if "again" in answer:
                    raise EndedForQuestion
                return transport.answer_received(request, answer)
        except EndedForQuestion:
            raise OutcomeUnknown(f"{node} asks a question that nobody has heard.", node=node) from None

    async def _sent(self, node: str, request: Request[R], call: Call, heard: RemoteCall) -> dict[str, Any]:
        asked = {"request": transport.request_sent(request), "call": transport.call_sent(call)}
        with heard.bound:
            answer = await self._call_door(node, "call", asked | ({"talk": heard.sent} if heard.sent else {}))
            self._hearing(node).hear(answer.get("now"))
            return answer
        raise OutcomeUnknown(f"The door of {node} has not answered in time.", node=node)

    async def _given_up(self, node: str, heard: RemoteCall, broke: OutcomeUnknown) -> TmuxMcpError:
        error = await self._hearing(node).given_up(heard, broke)
        if self._comes_back(node):
            error.details.pop("silent", None)
        return error

    async def _reached(self, node: str, own_s: float = 0.0) -> RemoteCalls:
        """What hears the calls at a door that says that it is there.

        Raises:
            LookupError: no machine has this name.
            NodeUnreachable: it does not, and nothing was sent.
        """
        facts = await self._check(node)
        hearing = self._hearing(node)
        try:
            await hearing.reach(own_s)
        except NodeUnreachable as error:
            silent = {"silent": True} if not self._comes_back(node) else {}
            why = f"The door of {node} does not answer: {error.message}."
            if not facts["alive"]:
                why = f"{node} is not in the Ray cluster at this moment."
            raise NodeUnreachable(why, hint=NOTHING_DONE, node=node, **silent) from None
        return hearing

    def _comes_back(self, node: str) -> bool:
        """Whether Ray has told that a door is gone, and is about to have it back."""
        told = self._watcher.told or {"machines": {}}
        lately = time.monotonic() - self._broke_at.get(node, -DOOR_BACK_S) < DOOR_BACK_S
        return bool(lately and told["machines"].get(node, {}).get("alive"))

    def _hearing(self, node: str) -> RemoteCalls:
        """What hears the calls at a door."""
        if node not in self._hearings:

            async def exchange(what: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
                answer = await self._call_door(node, "talk", {"what": what, "asked": asked})
                if "error" in answer:  # the call itself is told the same
                    raise Unsupported(str(answer["error"].get("message")))
                return answer

            self._hearings[node] = RemoteCalls(exchange)
            self._tasks.start_soon(self._hearings[node].run)
            self._tasks.start_soon(self._hearings[node].watch)
        return self._hearings[node]

    async def follow(self, node: str, session_id: str, since: int, call: Call) -> AsyncIterator[Change]:
        """Ask for what was printed since, again and again: so nothing piles up, and a break costs nothing."""
        await self._check(node)
        broken_at: float | None = None
        while True:
            asked = {"session_id": session_id, "since": since, "call": transport.call_sent(call)}
            try:
                answer = _received(await self._call_door(node, "changes", asked))
            except (NodeUnreachable, OutcomeUnknown) as error:
                broken_at = broken_at or time.monotonic()
                if time.monotonic() - broken_at > self.patience_s:
                    raise NodeUnreachable(error.message, hint=error.hint, **error.details) from None
                await anyio.sleep(DOOR_RETRY_S)
                continue
            broken_at = None
            for sent in answer["changes"]:
                change = change_received(sent)
                yield change
                match change:
                    case Output(offset, data):
                        since = offset + len(data)
                    case Gap():
                        since = max(since, change.until)
                    case Exit() | Lost() | Destroyed():
                        return

    async def asciicast(self, node: str, session_id: str, most_bytes: int, call: Call) -> Cast:
        """One call of a door."""
        await self._reached(node)
        asked = {"session_id": session_id, "most_bytes": most_bytes, "call": transport.call_sent(call)}
        return Cast.received(_received(await self._call_door(node, "asciicast", asked))["result"])

    def shows_page(self, node: str) -> bool:
        """By a door, each is."""
        return True

    @asynccontextmanager
    async def visit(
        self, node: str, name: str, asked: Mapping[str, Any], silence_s: float
    ) -> AsyncIterator[VisitAnswer]:
        """A call of the door that begins it, and others that read on."""
        await self._reached(node)
        visit = {"visit": token_hex(8)}
        first = await self._read_on(node, visit | {"name": name, "asked": asked}, silence_s)
        pieces = self._pieces(node, visit, first, silence_s)
        try:
            yield VisitAnswer(first["status"], first["kind"], first["length"], pieces)
        finally:
            with anyio.move_on_after(HELLO_S, shield=True), suppress(TmuxMcpError):
                await pieces.aclose()
                if first["more"]:
                    await self._call_door(node, "visit", visit | {"end": True})

    async def _pieces(
        self, node: str, visit: dict[str, Any], told: dict[str, Any], silence_s: float
    ) -> AsyncGenerator[bytes]:
        while True:
            yield base64.b64decode(told["data"])
            if not told["more"]:
                return
            told = await self._read_on(node, visit, silence_s)

    async def _read_on(self, node: str, asked: dict[str, Any], silence_s: float) -> dict[str, Any]:
        """
        Raises:
            NodeUnreachable, OutcomeUnknown
        """
        with anyio.move_on_after(silence_s):
            while True:
                told = _received(await self._call_door(node, "visit", asked))
                if told["data"] or not told["more"]:
                    return told
                asked = {"visit": asked["visit"]}
        raise OutcomeUnknown(f"{node} has said nothing for {silence_s:g} s.", node=node)

    async def _check(self, node: str) -> dict[str, Any]:
        """What is known of a machine.

        Raises:
            LookupError: no machine has this name.
        """
        if node not in await self._known_machines():
            await self._refresh()  # it may have come just now
        known = await self._known_machines()
        if node not in known:
            error = self._no_cluster()
            error.details["silent"] = True
            raise LookupError(node) if self._watcher.told is not None else error
        return known[node]

    async def _call_door(self, node: str, method: str, asked: dict[str, Any]) -> dict[str, Any]:
        """What a door answers.

        Raises:
            NodeUnreachable: nothing was sent.
            OutcomeUnknown: it may have been sent.
        """
        await self._connected(node)
        body = json.dumps({"version": __version__, "secret": self._secret, **asked}).encode()
        head, answer = await self._bridge.call({"do": "call", "node": node, "method": method}, body)
        if "fault" in head:
            if not head.get("silent"):
                self._broke_at[node] = time.monotonic()
            raise _broken(node, head)
        received: dict[str, Any] = json.loads(answer)
        return received

    async def _connected(self, node: str = "") -> None:
        if self._bridge.ready.is_set():
            return
        if await self._listens():
            with anyio.move_on_after(RAY_CONNECT_S):
                await self._bridge.ready.wait()
                return
        why = self._bridge.why or "it does not answer"
        details = {"node": node} if node else {}
        raise NodeUnreachable(f"There is no connection to the Ray cluster: {why}.", hint="Nothing was sent.", **details)

    # ---- what operators say --------------------------------------------------------------------

    async def drain(self, node: str, drained: bool) -> None:
        """Keep it in the cluster's store. Placing again takes back that a machine was given up."""
        if drained:
            await self._check_name(node)
            await self._write({"do": "put", "key": f"drain:{node}", "record": {"at": _now_text()}})
        else:
            if node not in (await self._watcher_report())["tombs"]:
                await self._check_name(node)
            given_up = node in (await self._watcher_report())["tombs"]
            for key in (f"tomb:{node}", f"drain:{node}"):
                await self._write({"do": "put", "key": key, "record": {"at": _now_text(), "off": True}})
            if given_up:  # with its door
                await self._write({"do": "make", "node": node})
        await self._refresh()

    async def forget(self, node: str) -> Tombstone:
        """Keep the tombstone in the cluster's store, and take the door away."""
        facts = await self._check_name(node)
        tomb = Tombstone(node, facts.get("machine", {}).get("machine_id", ""), _now_text())
        await self._write(
            {"do": "put", "key": f"tomb:{node}", "record": {"machine_id": tomb.machine_id, "at": tomb.at}}
        )
        await self._write({"do": "take_away", "node": node})
        await self._write({"do": "delete", "key": f"machine:{node}"})
        await self._refresh()
        return tomb

    async def tombstones(self) -> list[Tombstone]:
        """As the watcher saw them last."""
        tombs = (await self._watcher_report())["tombs"]
        return [Tombstone(node, tomb["machine_id"], tomb["at"]) for node, tomb in sorted(tombs.items())]

    async def _check_name(self, node: str) -> dict[str, Any]:
        known = await self._known_machines()
        if node not in known:
            names = ", ".join(sorted(known)) or "none"
            raise InvalidArgument(f"This fleet has no machine {node!r}.", hint=f"Machines are: {names}.", node=node)
        return known[node]

    async def _write(self, head: dict[str, Any]) -> None:
        """
        Raises:
            NodeUnreachable, OutcomeUnknown: it is not known to be written.
        """
        await self._connected()
        told, _ = await self._bridge.call(head)
        if "fault" in told:
            raise _broken("", told)

    async def _refresh(self) -> None:
        with suppress(OSError, anyio.BrokenResourceError, NodeUnreachable), anyio.move_on_after(HELLO_S):
            await self._watcher.refresh()
            await self._watcher_report()  # which keeps it


def _broken(node: str, head: Mapping[str, Any]) -> TmuxMcpError:
    """What a call is told that has no answer."""
    details = {"node": node} if node else {}
    who = f"The door of {node}" if node else "The Ray cluster"
    if head["sent"]:
        return OutcomeUnknown(f"{who} broke under the call: {head['fault']}.", **details)
    return NodeUnreachable(f"{who} does not answer: {head['fault']}.", hint=NOTHING_DONE, **details)


def _received(answer: dict[str, Any]) -> dict[str, Any]:
    """What a door answers that is no result of an operation.

    Raises:
        TmuxMcpError: the error that it told.
    """
    if "error" in answer:
        raise TmuxMcpError.received(answer["error"])
    return answer


def _given_up(facts: Mapping[str, Any], tomb: Mapping[str, Any] | None) -> bool:
    """Whether a machine is the one that was given up; another one of its name is not."""
    if tomb is None:
        return False
    machine = facts.get("machine")
    return not machine or not tomb["machine_id"] or machine["machine_id"] == tomb["machine_id"]


def _machine(name: str, facts: Mapping[str, Any], hello: Mapping[str, Any] | None) -> Machine:
    note = ""
    if not facts["alive"]:
        note = f"it is not in the cluster: run `tmuxmcp fleet join {name}` there"
    elif not facts["hung"]:
        note = "it has no door: run `tmuxmcp fleet up`"
    elif hello and hello.get("version", __version__) != __version__:
        note = f"its door is of tmuxmcp {hello['version']}: run `tmuxmcp fleet up`"
    elif hello:
        note = hello.get("note", "") or "; ".join(hello.get("failed", ()))
    return Machine(
        name,
        labels={name: value for name, value in facts["labels"].items() if name not in OWN_LABELS},
        alive=bool(facts["alive"] and hello and "live" in hello),
        version=hello.get("version", "") if hello else "",
        live=hello.get("live") if hello else None,
        free=hello.get("free") if hello else None,
        machine_id=facts.get("machine", {}).get("machine_id", ""),
        drained="drain" in facts,
        note=note,
    )


def _now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
