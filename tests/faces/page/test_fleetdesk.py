"""The desk of a gateway beside two brokers of this process: what keeps a page's place, and what breaks off."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

import anyio
import pytest
from starlette.types import ASGIApp

from tests.conftest import a_state_dir, eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import NodeUnreachable, OutcomeUnknown, TmuxMcpError
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.faces.page import holding
from tmuxmcp.faces.page.fleetdesk import FleetDesk
from tmuxmcp.faces.page.lookups import OwnDesk
from tmuxmcp.faces.page.routes import page_of
from tmuxmcp.faces.page.stream import PageSubscription
from tmuxmcp.nodes.gateway import Gateway
from tmuxmcp.nodes.ray.door import Visits
from tmuxmcp.nodes.transport import Transport, VisitAnswer

PAGE = 1_000_000_001


class Beside:
    """A way to pages in this process."""

    patience_s = 0.0

    def __init__(self, pages: Mapping[str, ASGIApp]) -> None:
        self.pages, self.visits = pages, Visits()

    async def names(self) -> list[str]:
        return sorted(self.pages)

    @asynccontextmanager
    async def visit(
        self, node: str, name: str, asked: Mapping[str, Any], silence_s: float
    ) -> AsyncIterator[VisitAnswer]:
        number = token_hex(4)
        told = await self.visits.do(self.pages[node], {"visit": number, "name": name, "asked": asked})

        async def pieces() -> AsyncIterator[bytes]:
            nonlocal told
            yield base64.b64decode(told["data"])
            while told["more"]:
                told = await self.visits.do(self.pages[node], {"visit": number})
                yield base64.b64decode(told["data"])

        try:
            yield VisitAnswer(told["status"], told["kind"], told["length"], pieces())
        finally:
            with suppress(OutcomeUnknown):
                await self.visits.do(self.pages[node], {"visit": number, "end": True})


@pytest.fixture
async def second(anyio_backend: str, home: Path) -> AsyncIterator[Broker]:
    """The broker of another machine."""
    with a_state_dir() as directory:
        async with Broker.open(BrokerSettings(state_dir=directory, program="bash")) as opened:
            yield opened


def fleet(pages: Mapping[str, ASGIApp], directory: Path) -> FleetDesk:
    """The desk of a gateway of these machines."""
    return FleetDesk(Gateway(cast(Transport, Beside(pages)), BrokerSettings(state_dir=directory)))


@asynccontextmanager
async def shown(desk: FleetDesk, session: str) -> AsyncIterator[list[bytes]]:
    """A page that shows a session is open; gives what it was told."""
    told: list[bytes] = []
    asked = [{"type": "http.request", "body": b""}]

    async def receive() -> Any:
        if asked:
            return asked.pop()
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        told.append(message.get("body", b""))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.stream(PageSubscription(session, PAGE)), {"type": "http"}, receive, send)
        yield told
        tasks.cancel_scope.cancel()


async def test_a_page_that_shows_another_machines_session_holds_on(
    broker: Broker, second: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "PAGE_GONE_S", 0.5)
    await broker.create_session("bash", name="shown")
    await second.create_session("bash", name="held")
    desks = {"n1": OwnDesk(broker), "n2": OwnDesk(second)}
    async with desks["n1"].run(), desks["n2"].run():
        desk = fleet({node: page_of(each) for node, each in desks.items()}, tmp_path)
        async with desk.run():
            await second.hands.take("held", PAGE)
            async with shown(desk, "shown@n1") as told:
                handling = desks["n2"]._handling
                await eventually(lambda: handling._connected[PAGE])
                await eventually(lambda: any(b'"kind":"screen"' in each for each in told))
                await anyio.sleep(1.5)  # three times as long as a page may be away
                assert (await second.get_session("held")).taken_over

            async def given_back() -> bool:
                return (await second.get_session("held")).taken_over is None

            await eventually(given_back)


ODD = [
    b'{"kind":"list","rows":[{"session_id":"a"}],"gone":[]}',
    b'{"kind":"list","rows":7,"gone":[]}',
    b'{"kind":"list","rows":[],"gone":[],"waits":[{"id":1}],"now_ms":1}',
    b'{"kind":"list"}',
    b"[1]",
    b"no JSON",
    b"",
]


def tells(line: bytes) -> ASGIApp:
    """A page that tells this and nothing more."""

    async def page(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/x-ndjson")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": line + b"\n", "more_body": True})
        await anyio.sleep_forever()

    return page


async def test_machines_that_tell_something_odd_are_missing(broker: Broker, tmp_path: Path) -> None:
    await broker.create_session("bash", name="fine")
    own, odd = OwnDesk(broker), {f"odd{number}": tells(line) for number, line in enumerate(ODD)}
    async with own.run():
        desk = fleet({"n1": page_of(own), **odd}, tmp_path)
        async with desk.run(), desk.listing.looked_at():
            await eventually(lambda: "fine@n1" in desk.listing.rows and len(desk.listing.missing) == len(ODD))
            assert [each["node"] for each in desk.listing.missing] == [*odd]
            assert {each["code"] for each in desk.listing.missing} == {"OUTCOME_UNKNOWN"}


@pytest.mark.parametrize("error", [NodeUnreachable, OutcomeUnknown])
async def test_who_types_is_told_whether_it_may_have_arrived(error: type[TmuxMcpError], tmp_path: Path) -> None:
    class Broken(Beside):
        @asynccontextmanager
        async def visit(self, *asked: Any) -> AsyncIterator[VisitAnswer]:
            raise error("The way broke.")
            yield

    desk, told = FleetDesk(Gateway(cast(Transport, Broken({})), BrokerSettings(state_dir=tmp_path))), list[Any]()

    async def send(message: Any) -> None:
        told.append(message)

    passed = await desk._pass("type", 5.0, {"session": "a@n1", "page": PAGE, "items": []})
    await passed({"type": "http"}, cast(Any, None), send)
    refused = json.loads(told[1]["body"])["error"]
    assert (refused["code"], refused["details"]["node"]) == (error.code, "n1")
    assert refused["hint"].startswith("Nothing was done" if error is NodeUnreachable else "It may have been done")


async def test_a_part_of_a_file_does_not_look_like_a_file(tmp_path: Path) -> None:
    async def page(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/octet-stream"), (b"content-length", b"10")]
        await send(
            {"type": "http.response.start", "status": 200, "headers": headers[: 1 if "no" in scope["path"] else 2]}
        )
        await send({"type": "http.response.body", "body": b"a part", "more_body": True})
        raise ValueError("it breaks off")

    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    desk = fleet({"n1": page}, tmp_path)
    passed = await desk._pass("export", 5.0, {"session": "a@n1"})
    with pytest.raises(OutcomeUnknown):
        await passed({"type": "http"}, cast(Any, None), send)
    assert [each.get("more_body") for each in told] == [None, True]  # and no end
    told.clear()
    passed = await desk._pass("no-length", 5.0, {"session": "a@n1"})
    await passed({"type": "http"}, cast(Any, None), send)
    assert (told[0]["status"], b"OUTCOME_UNKNOWN" in told[1]["body"]) == (502, True)
