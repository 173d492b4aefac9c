"""The child that calls the doors of a cluster: `python -m tmuxmcp.nodes.ray.bridge ADDRESS`.

It reads frames and does what they say, all at once:

    {"id", "do": "call", "node", "method"} + what the door is sent   {"id"} + what the door answers, or {"id", "fault"}
    {"id", "do": "cancel"}                                            the call of this id is ended, there as well
    {"id", "do": "put" | "delete", "key", "record"}                   {"id"}
    {"id", "do": "take_away" | "make", "node"}                        {"id"}

A fault says `sent`: False, and nothing has reached the door.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from pkgutil import resolve_name
from typing import Any

import ray
from ray.exceptions import RayError

from tmuxmcp.machine.serving import end_with_broker
from tmuxmcp.nodes.ray import DOOR_PREFIX, NAMESPACE, doors, kv
from tmuxmcp.nodes.ray.child import MOST_HEAD, Head, head_of, take_stdout, write_frame

DOOR_LOOK_S = 5.0
"""A door that has not been heard of for so long is asked whether it is there: before a call, and while one goes on."""

DOOR_SILENT_S = 15.0
"""So long it may be silent then."""

OPENS_DOOR = "tmuxmcp.app:open_door"
"""What opens a door's home: of a room above, and so by its name."""

DOOR_FIRST_S = 5.0
"""So long a door has to say that it is there, before it is sent anything."""


class NoDoorAnswer(Exception):
    """Why a call has no answer."""

    def __init__(self, said: str, *, sent: bool, silent: bool = False) -> None:
        super().__init__(said)
        self.sent, self.silent = sent, silent


class DoorConnection:
    """One door: whether it was heard of lately, and its calls."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._door: Any = None
        self._trusted = False
        """It answered, and nothing has broken since: what is sent arrives."""
        self._heard_at = 0.0
        self._calls: set[asyncio.Task[Any]] = set()
        self._given_up: set[asyncio.Task[Any]] = set()
        self._checking: asyncio.Task[None] | None = None
        self._knocking: asyncio.Task[None] | None = None

    async def call(self, method: str, body: bytes) -> bytes:
        """One call of the door; nothing is ever sent twice.

        Raises:
            Gone: there is no answer.
        """
        # A loop: another call may have found it broken just after it answered.
        while not self._trusted or time.monotonic() - self._heard_at > DOOR_LOOK_S:
            await self._knock()
        ref = self._send(method, body)
        mine = asyncio.current_task()
        assert mine
        self._calls.add(mine)
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())  # noqa: TID251 # the loop of a child, which ends with it
        try:
            answer: bytes = await ref
        except asyncio.CancelledError:
            ray.cancel(ref)  # who gives up an await alone leaves the call running there
            if mine in self._given_up:
                raise NoDoorAnswer(f"it says nothing for {DOOR_SILENT_S:g} s", sent=True, silent=True) from None
            raise
        except RayError as error:
            self._trusted, self._door = False, None
            raise NoDoorAnswer(_said_by_ray(error), sent=True) from None
        finally:
            self._calls.discard(mine)
            self._given_up.discard(mine)
        self._heard_at = time.monotonic()
        return answer

    def _send(self, method: str, body: bytes) -> Any:
        return getattr(self._door, method).remote(body)

    async def _knock(self) -> None:
        """Wait until the door says that it is there. All who ask at once ask once.

        Raises:
            Gone: it does not.
        """
        if self._knocking is None or self._knocking.done():
            self._knocking = asyncio.create_task(self._connect())  # noqa: TID251 # as above
            self._knocking.add_done_callback(lambda done: done.cancelled() or done.exception())  # all may have left
        await asyncio.shield(self._knocking)

    async def _connect(self) -> None:
        try:
            if self._door is None:
                self._door = await asyncio.to_thread(ray.get_actor, DOOR_PREFIX + self.node, NAMESPACE)
            ref = self._send("here", b"")
        except (ValueError, RayError) as error:
            raise NoDoorAnswer(_said_by_ray(error), sent=False) from None
        try:
            await asyncio.wait_for(ref, DOOR_FIRST_S)
        except TimeoutError:
            ray.cancel(ref)
            self._door = None  # there may be another one by now
            raise NoDoorAnswer(f"it says nothing for {DOOR_FIRST_S:g} s", sent=False, silent=True) from None
        except RayError as error:
            self._door = None
            raise NoDoorAnswer(_said_by_ray(error), sent=False) from None
        self._trusted, self._heard_at = True, time.monotonic()

    async def _check(self) -> None:
        """While there are calls: give them up when the machine says nothing, which Ray may not notice for long."""
        while self._calls:
            await asyncio.sleep(DOOR_LOOK_S)
            if time.monotonic() - self._heard_at < DOOR_LOOK_S or self._door is None:
                continue
            asked, ref = set(self._calls), self._send("here", b"")
            try:
                await asyncio.wait_for(ref, DOOR_SILENT_S)
                self._heard_at = time.monotonic()
            except RayError:
                pass  # the calls are told the same
            except TimeoutError:
                self._trusted = False
                self._given_up |= asked & self._calls
                for each in asked & self._calls:
                    each.cancel()


class BridgeServer:
    """What the frames say, done."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._lines: dict[str, DoorConnection] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Until nobody writes any more."""
        while line := await reader.readline():
            head = head_of(line)
            body = await reader.readexactly(head["bytes"])
            if head["do"] == "cancel":
                if task := self._tasks.get(head["id"]):
                    task.cancel()
                continue
            task = self._tasks[head["id"]] = asyncio.create_task(self._do_frame(head, body))  # noqa: TID251 # as above

    async def _do_frame(self, head: Head, body: bytes) -> None:
        told: Head = {"id": head["id"]}
        answer = b""
        try:
            answer = await self._do(head, body)
        except NoDoorAnswer as gone:
            told |= {"fault": str(gone), "sent": gone.sent, "silent": gone.silent}
        except asyncio.CancelledError:
            told |= {"fault": "cancelled", "sent": True}
        except Exception as error:
            told |= {"fault": _said_by_ray(error), "sent": True}
        finally:
            del self._tasks[head["id"]]
        write_frame(self._out, told, answer)

    async def _do(self, head: Head, body: bytes) -> bytes:
        match head["do"]:
            case "call":
                node = head["node"]
                line = self._lines.get(node) or self._lines.setdefault(node, DoorConnection(node))
                return await line.call(head["method"], body)
            case "put":
                await asyncio.to_thread(kv.put, head["key"], head["record"])
            case "delete":
                await asyncio.to_thread(kv.delete, head["key"])
            case "take_away":
                await asyncio.to_thread(doors.take_away, head["node"])
            case "make":
                await asyncio.to_thread(
                    doors.make, head["node"], resolve_name(OPENS_DOOR)
                )  # late: it brings the broker
        return b""


def _said_by_ray(error: BaseException) -> str:
    """What Ray means, in our words: its own are for who knows Ray, and are in the log."""
    print(f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')[:500]}", file=sys.stderr)
    match type(error).__name__:
        case "ValueError":
            return "the machine has none at this moment (`tmuxmcp fleet status` tells more)"
        case "ActorUnavailableError":
            return "its process is gone, or being started again"
        case "ActorDiedError":
            return "its process has ended"
        case name:
            return f"Ray tells of a fault ({name})"


async def _serve(out: int) -> None:
    reader = asyncio.StreamReader(limit=MOST_HEAD)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    write_frame(out, {"id": 0})
    await BridgeServer(out).serve(reader)


def main() -> None:
    """Serve until nobody writes any more."""
    end_with_broker()  # a call of Ray's may keep us from seeing that nobody writes any more
    out = take_stdout()
    doors.join(sys.argv[1])
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(out))
    os._exit(0)  # without Ray's farewell, which can take seconds


if __name__ == "__main__":
    main()
