"""What a Python program has of many machines beside the operations: many sessions at once, files in and out."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import InvalidArgument, IoError, TmuxMcpError
from tmuxmcp.nodes import fleetfile
from tmuxmcp.nodes.gateway import Gateway
from tmuxmcp.nodes.ids import split
from tmuxmcp.nodes.transport import Tombstone, Transport

CALLS_AT_ONCE = 32
"""Calls that go on at once when many are made: half of what one broker takes of one caller (`max_calls`)."""

PUT, GET = 512 << 10, 4 << 20
"""Bytes of a file that one call carries there, and back: a broker takes a MiB at once, unless it is set otherwise."""

JOIN_PIECES = 'umask 077; p=$1; shift; cat -- "$@" >"$p.tmuxmcp-new" && mv -- "$p.tmuxmcp-new" "$p" && rm -f -- "$@"'
"""For `sh -c`: makes a file of its pieces."""


class Fleet(Gateway):
    """Many machines, for programs."""

    async def create_many(
        self,
        count: int,
        program: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        at_once: int = CALLS_AT_ONCE,
        **arguments: Any,
    ) -> list[r.CreateSessionResult | TmuxMcpError]:
        """Make many sessions; of each a result, or the error that came in its place.

        Args:
            labels: what their machines have to have.
            at_once: how many are made at the same time.
            arguments: as `create_session` takes them; a `name` becomes NAME-0, NAME-1 ...

        Raises:
            InvalidArgument: the arguments are wrong, so that none was made.
        """
        name = arguments.pop("name", "")
        placement = arguments.pop("placement", None) or q.Placement(labels=dict(labels or {}))
        given = {"program": program, "placement": placement, **arguments}
        row = q.CreateSession.operation
        parsed = [row.parse({**given, "name": f"{name}-{number}"} if name else given) for number in range(count)]
        return await _each([partial(self.do, each) for each in parsed], at_once)

    async def run_many(
        self, session_ids: list[str], command: str, *, at_once: int = CALLS_AT_ONCE, **arguments: Any
    ) -> list[r.RunResult | TmuxMcpError]:
        """Run a command in many sessions; of each a result, or the error that came in its place.

        Raises:
            InvalidArgument: the arguments are wrong, so that nothing was run.
        """
        row = q.Run.operation
        parsed = [row.parse({"command": command, "session_id": each, **arguments}) for each in session_ids]
        return await _each([partial(self.do, each) for each in parsed], at_once)

    async def reset(self, session_id: str, **arguments: Any) -> r.CreateSessionResult:
        """End a session, and make it anew: of the same name, on the same machine, with the same program and size.

        Args:
            arguments: of `create_session`: what is to be other than it was, and what nobody knows any more (`env`,
                `cwd`).

        Raises:
            TmuxMcpError: as `destroy_session` and `create_session`; of a session that is gone only the latter.
        """
        facts = await self.get_session(session_id)
        name, node = split(facts.session_id)
        given: dict[str, Any] = {"program": facts.program, "args": facts.args, "rows": facts.rows, "cols": facts.cols}
        given |= {"host": facts.host or "", "sandbox": "none" if facts.sandbox == "none" else "auto"}
        if facts.limits:
            given["limits"] = {each.name: each.value for each in facts.limits}
        given |= arguments
        wanted = q.CreateSession.operation.parse(given | {"name": name, "placement": {"node": node}})
        if not facts.ended or facts.ended.reason != "destroyed":
            await self.destroy_session(facts.session_id, True)
        made = await self.do(wanted)
        assert isinstance(made, r.CreateSessionResult)
        return made

    async def upload(self, source: Path | str | bytes, session_id: str, path: str, *, mode: str | None = None) -> int:
        """Put a file onto the machine of a session; how many bytes it has.

        Args:
            source: a file here, or its content.
            path: there; absolute, or as `write_file` takes it.
            mode: octal, such as "0755".

        Raises:
            IoError: the file here cannot be read.
            TmuxMcpError: as `write_file`, and `run_process` for a file of more than 512 KiB.
        """
        data = source if isinstance(source, bytes) else await _read(Path(source))
        node = await self._node_of(session_id)
        pieces = [data[at : at + PUT] for at in range(0, len(data), PUT)] or [b""]
        if len(pieces) == 1:
            await self._write(f"{node}:{path}", data, mode)
            return len(data)
        if not os.path.isabs(path):
            raise InvalidArgument(f"{path} is not absolute.", hint=f"A file of more than {PUT:,} bytes needs that.")
        parts = [f"{path}.tmuxmcp-part{number}" for number in range(len(pieces))]
        for part, piece in zip(parts, pieces, strict=True):
            await self._write(f"{node}:{part}", piece, None)
        where = f"{node}:{os.path.dirname(path)}"
        done = await self.run_process(["sh", "-c", JOIN_PIECES, "sh", path, *parts], cwd=where)
        if done.rc != 0:
            raise IoError(f"{path} could not be put together on {node}: {done.stderr.strip()[:500]}", node=node)
        if mode is not None:
            await self.run_process(["chmod", "--", mode, path], cwd=where)
        return len(data)

    async def _write(self, path: str, data: bytes, mode: str | None) -> None:
        await self.write_file(path, base64.b64encode(data).decode(), "base64", mode)

    async def download(self, session_id: str, path: str, to: Path | str | None = None) -> bytes:
        """Get a file of the machine of a session.

        Args:
            to: a file here to write it to, too.

        Raises:
            IoError: it changed while it was read, or the file here cannot be written.
            TmuxMcpError: as `read_file`.
        """
        node = await self._node_of(session_id)
        data = bytearray()
        while True:
            piece = await self.read_file(f"{node}:{path}", len(data), GET)
            data += base64.b64decode(piece.data) if piece.encoding == "base64" else piece.data.encode()
            if piece.next_offset != len(data):
                raise IoError(f"{path} on {node} cannot be read to its end.", hint="Try again.", node=node)
            if len(data) >= piece.size:
                break
        if to is not None:
            try:
                await anyio.Path(to).write_bytes(data)
            except OSError as error:
                raise IoError(f"{to} cannot be written: {error.strerror}.") from error
        return bytes(data)

    async def _node_of(self, session_id: str) -> str:
        node = split(session_id)[1]
        if node:
            return node
        if not session_id:
            raise InvalidArgument("Whose machine is meant?", hint="Give the id of a session, NAME@NODE.")
        return split((await self.get_session(session_id)).session_id)[1]

    async def drain(self, node: str) -> None:
        """Place no new sessions on a machine; those that are there go on.

        Raises:
            InvalidArgument: no machine has this name.
        """
        await self.transport.drain(node, True)
        self._looked_at = -1e9

    async def undrain(self, node: str) -> None:
        """Place sessions on a machine again, also on one that was given up and is back.

        Raises:
            InvalidArgument: no machine has this name.
        """
        await self.transport.drain(node, False)
        self._looked_at = -1e9

    async def forget(self, node: str) -> Tombstone:
        """Give a machine up: from now on its sessions are NODE_LOST.

        Raises:
            InvalidArgument: no machine has this name.
        """
        given_up = await self.transport.forget(node)
        self._looked_at = -1e9
        return given_up

    async def tombstones(self) -> list[Tombstone]:
        """The machines that were given up, by name."""
        return await self.transport.tombstones()


async def _each(works: list[Callable[[], Coroutine[Any, Any, Any]]], at_once: int) -> list[Any]:
    """The result of each, or the error in its place; so many at once."""
    found: list[Any] = [None] * len(works)
    room = anyio.Semaphore(max(at_once, 1))

    async def one(number: int) -> None:
        async with room:
            try:
                found[number] = await works[number]()
            except TmuxMcpError as error:
                found[number] = error

    async with anyio.create_task_group() as tasks:
        for number in range(len(works)):
            tasks.start_soon(one, number)
    return found


async def _read(file: Path) -> bytes:
    try:
        return await anyio.Path(file).read_bytes()
    except OSError as error:
        raise IoError(f"{file} cannot be read: {error.strerror}.") from error


# ---- Opens the way to many machines that the setting `fleet` names ---------------------------------------------------


@asynccontextmanager
async def open_transport(
    where: str, token_of: Callable[[Path], str], fleet_secret: Path, state_dir: Path | None = None
) -> AsyncIterator[Transport]:
    """The way to the machines, while this is open.

    Args:
        where: `auto`, `ray://HOST:PORT`, or a file of brokers.
        token_of: reads the token of a file.
        fleet_secret: the file of the fleet's secret; on Ray there has to be one.
        state_dir: where is kept which machines a Ray cluster has had; None: nowhere.

    Raises:
        InvalidArgument: it names no fleet, or its file is not understood.
        Unsupported: what it needs is not installed.
        IoError, PermissionDenied: its file cannot be read.
    """
    if where in ("", "off"):
        raise InvalidArgument(
            "No fleet is named.", hint="Give --fleet, or the setting fleet: a file of brokers, ray://HOST:PORT or auto."
        )
    if where == "auto" or where.startswith("ray://"):
        from tmuxmcp.nodes.ray.transport import RayTransport

        async with RayTransport.open(where, fleetfile.read(fleet_secret), fleet_secret, state_dir) as ray:
            yield ray
        return
    from tmuxmcp.nodes.remote import HttpTransport

    async with HttpTransport.open(Path(where), token_of, fleetfile.read_secret(fleet_secret)) as remote:
        yield remote


# ---- What faces serve: the sessions of this machine, or those of many ------------------------------------------------

AnyBroker = Broker | Gateway
