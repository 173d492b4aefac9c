from __future__ import annotations

import anyio
import pytest

from tmuxmcp.faces import access
from tmuxmcp.faces.access import Entrance
from tmuxmcp.faces.tokens import Tokens, parse_tokens

TOKEN = "0123456789abcdef0"


class Request:
    """One request to an entrance, and what came back."""

    def __init__(self, **headers: str) -> None:
        given = {"host": "a.example", "authorization": f"Bearer {TOKEN}"} | headers
        self.scope = {
            "type": "http",
            "path": "/x",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        self.pieces: list[dict[str, object]] = []
        self.status, self.body = 0, b""
        self.sent: list[dict[str, object]] = []

    async def receive(self) -> dict[str, object]:
        return self.pieces.pop(0) if self.pieces else {"type": "http.disconnect"}

    async def send(self, message: dict[str, object]) -> None:
        self.sent.append(message)
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")


@pytest.fixture
def counted() -> list[tuple[int, int, int]]:
    return []


@pytest.fixture
def door(counted: list[tuple[int, int, int]]) -> Entrance:
    async def echo(scope, receive, send) -> None:
        body = (await receive())["body"]
        if body == b"crash":
            raise RuntimeError("secret detail")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    tokens = Tokens(parse_tokens(TOKEN, "x"))
    return Entrance(echo, tokens, ["A.example"], lambda *numbers: counted.append(numbers))


async def pass_through(door: Entrance, *pieces: bytes, **headers: str) -> Request:
    request = Request(**headers)
    for number, piece in enumerate(pieces or (b"",), 1):
        more = number < max(len(pieces), 1)
        request.pieces.append({"type": "http.request", "body": piece, "more_body": more})
    await door(request.scope, request.receive, request.send)
    return request


async def test_a_body_in_pieces_arrives_whole(door: Entrance, counted: list[tuple[int, int, int]]):
    request = await pass_through(door, b"a", b"", b"bc")
    assert (request.status, request.body) == (200, b"abc")
    assert counted == [(200, 3, 3)]


async def test_a_long_answer_is_handed_over_in_pieces(door: Entrance, counted: list[tuple[int, int, int]]):
    """The listener waits for the client between them, and keeps no more than one."""
    said = bytes(range(256)) * 512 + b"end"
    request = await pass_through(door, said)
    start, *pieces = request.sent
    assert start["type"] == "http.response.start"
    assert request.body == said
    assert [len(piece["body"]) for piece in pieces] == [65536, 65536, 3]
    assert [piece["more_body"] for piece in pieces] == [True, True, False]
    assert counted == [(200, len(said), len(said))]


@pytest.mark.parametrize("pieces", [[5, 6], [11], [1, 10]])
async def test_a_body_is_bounded_however_it_is_cut(door: Entrance, monkeypatch: pytest.MonkeyPatch, pieces: list[int]):
    monkeypatch.setattr(access, "MAX_BODY", 10)
    assert (await pass_through(door, *(b"x" * size for size in pieces))).status == 413
    assert (await pass_through(door, b"", **{"content-length": "11"})).status == 413
    assert (await pass_through(door, b"x" * 4, b"x" * 6)).status == 200


async def test_all_bodies_together_are_bounded(door: Entrance, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(access, "MAX_HELD", 10)
    for _ in range(3):  # what was held is given back each time
        assert (await pass_through(door, b"x" * 11)).status == 503
        assert (await pass_through(door, b"x" * 10)).status == 200


async def test_a_body_that_does_not_come_is_not_waited_for(door: Entrance, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(access, "BODY_S", 0.05)
    request = Request()
    request.receive = anyio.sleep_forever
    await door(request.scope, request.receive, request.send)
    assert request.status == 408


async def test_a_client_that_leaves_while_it_sends_reaches_nothing(door: Entrance):
    request = Request()
    request.pieces.append({"type": "http.request", "body": b"x", "more_body": True})
    await door(request.scope, request.receive, request.send)
    assert b"has left" in request.body


async def test_a_defect_is_logged_and_not_told(door: Entrance, caplog: pytest.LogCaptureFixture):
    request = await pass_through(door, b"crash")
    assert request.status == 500
    assert b"secret detail" not in request.body
    assert "secret detail" in caplog.text


async def test_nothing_comes_in_once_it_stops(door: Entrance):
    door.stop()
    assert (await pass_through(door, b"x")).status == 503
