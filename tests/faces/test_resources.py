"""Resources, subscriptions, prompts and completions, by a client in memory, in both protocol eras."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import PromptReference, ResourceTemplateReference, ResourceUpdatedNotification

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import TmuxUnavailable
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.results import ReadResult
from tmuxmcp.contract.value import fields
from tmuxmcp.faces import resources
from tmuxmcp.faces.mcp import McpFace
from tmuxmcp.faces.resources import RECIPES, parse_uri
from tmuxmcp.terminal.film import formats
from tmuxmcp.terminal.film.player import Player

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


class Heard:
    """A client, and the URIs that it was told of."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.uris: list[str] = []

    async def of(self, uri: str) -> None:
        """Wait until it is told of this resource."""
        self.uris.clear()
        await eventually(lambda: uri in self.uris)


@asynccontextmanager
async def connected(broker: Broker, mode: str) -> AsyncIterator[Heard]:
    async def source() -> Broker:
        return broker

    async def on_message(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.uris.append(message.params.uri)

    async with Client(McpFace(source).server(), mode=mode, message_handler=on_message) as client:
        heard = Heard(client)
        yield heard


@asynccontextmanager
async def subscribed(heard: Heard, *uris: str) -> AsyncIterator[None]:
    """While this is open, the client is told of these: by a stream, or on its connection."""
    if heard.client.protocol_version != "2026-07-28":
        for uri in uris:
            await heard.client.subscribe_resource(uri)
        yield
        for uri in uris:
            await heard.client.unsubscribe_resource(uri)
        return

    async def follow() -> None:
        async for event in stream:
            if hasattr(event, "uri"):
                heard.uris.append(event.uri)

    async with heard.client.listen(resource_subscriptions=list(uris)) as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        yield
        tasks.cancel_scope.cancel()


async def text_of(client: Client, uri: str) -> str:
    return (await client.read_resource(uri)).contents[0].text


async def test_sessions_are_resources(broker: Broker, mode: str):
    await broker.create_session("bash", name="a")
    await broker.run("seq 100", "a")
    async with connected(broker, mode) as heard:
        listed = (await heard.client.list_resources()).resources
        assert [each.uri for each in listed] == [
            "tmux://sessions",
            "tmux://sessions/a/screen",
            "tmux://sessions/a/history",
            "tmux://sessions/a/recording",
        ]
        assert all(each.title and each.description and each.mime_type for each in listed)
        sessions = json.loads(await text_of(heard.client, "tmux://sessions"))
        assert [each["session_id"] for each in sessions["sessions"]] == ["a"]
        screen = await text_of(heard.client, "tmux://sessions/a/screen")
        assert "100" in screen.splitlines()
        assert "1" not in screen.splitlines()


async def test_the_history_is_the_commands(broker: Broker, mode: str):
    await broker.create_session("bash", name="a")
    for command in ("echo one", "(exit 3)"):
        await broker.run(command, "a")
    async with connected(broker, mode) as heard:
        (contents,) = (await heard.client.read_resource("tmux://sessions/a/history")).contents
    assert contents.mime_type == "application/json"
    history = json.loads(contents.text)
    assert (history["session_id"], history["count"], history["omitted"]) == ("a", 2, 0)
    assert [(each["text"], each["exit_code"], each["by"]) for each in history["commands"]] == [
        ("echo one", 0, "agent"),
        ("(exit 3)", 3, "agent"),
    ]
    assert all(each["duration_ms"] is not None for each in history["commands"])


async def test_a_long_history_lacks_its_oldest_commands_and_says_so(broker: Broker, mode: str, monkeypatch):
    monkeypatch.setattr(resources, "RESOURCE_MAX_BYTES", resources.PREFACE_BYTES + 700)
    await broker.create_session("bash", name="a")
    for number in range(6):
        await broker.run(f"echo {number}", "a")
    async with connected(broker, mode) as heard:
        history = json.loads(await text_of(heard.client, "tmux://sessions/a/history"))
    assert 0 < history["count"] == len(history["commands"]) < 6
    assert history["omitted"] == 6 - history["count"]
    assert history["commands"][-1]["text"] == "echo 5"


def final_screen(cast: str) -> list[str]:
    """What a player shows at a cast's end."""
    film = formats.read(line.encode() for line in cast.splitlines(keepends=True))
    player = Player(film)
    player.seek(player.duration_ms)
    while player.seeks:
        player.work()
    return "\n".join(row.rstrip() for row in player.snapshot.text_rows()).rstrip().splitlines()


async def test_the_recording_is_a_cast_of_the_session(broker: Broker, mode: str):
    await broker.create_session("bash", name="a")
    await broker.run("seq 40; printf '\\033[31mred\\n'", "a")
    async with connected(broker, mode) as heard:
        (contents,) = (await heard.client.read_resource("tmux://sessions/a/recording")).contents
        screen = await text_of(heard.client, "tmux://sessions/a/screen")
    assert contents.mime_type == "application/x-asciicast"
    assert json.loads(contents.text.splitlines()[0])["version"] == 3
    assert final_screen(contents.text) == screen.splitlines()
    told = contents.meta["tmuxmcp/recording"]
    assert (told["cut"], told["begin_offset"], told["first_offset"]) == (False, 0, 0)
    assert not [*broker.registry.sessions["a"].directory.recordings.iterdir()]


async def test_a_long_recording_is_cut_and_says_where(broker: Broker, mode: str, monkeypatch):
    monkeypatch.setattr(resources, "RESOURCE_MAX_BYTES", 20_000)
    await broker.create_session("bash", name="a")
    await broker.run("seq 9999; for i in {1..3000}; do printf '\\033[1m.'; done; echo", "a", max_bytes=100)
    async with connected(broker, mode) as heard:
        (contents,) = (await heard.client.read_resource("tmux://sessions/a/recording")).contents
        screen = await text_of(heard.client, "tmux://sessions/a/screen")
    assert len(contents.text.encode()) <= 20_000
    told = contents.meta["tmuxmcp/recording"]
    assert told["cut"]
    assert told["begin_offset"] > 0
    marks = [json.loads(line) for line in contents.text.splitlines()[1:4]]
    assert f"cut: the {told['begin_offset']:,} bytes of output" in next(each[2] for each in marks if each[1] == "m")
    assert final_screen(contents.text) == screen.splitlines()


async def test_templates_name_every_part(broker: Broker, mode: str):
    async with connected(broker, mode) as heard:
        found = (await heard.client.list_resource_templates()).resource_templates
    assert [each.uri_template for each in found] == [
        f"tmux://sessions/{{id}}/{part}" for part in ("screen", "history", "recording")
    ]
    assert all(each.title and each.description for each in found)


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("tmux://sessions/none/screen", "SESSION_NOT_FOUND"),
        ("tmux://sessions/none/recording", "SESSION_NOT_FOUND"),
        ("tmux://sessions/a/else", "INVALID_ARGUMENT"),
        ("tmux://sessions/../screen", "INVALID_ARGUMENT"),
        ("file:///etc/passwd", "INVALID_ARGUMENT"),
    ],
)
async def test_what_cannot_be_read_is_an_error_with_its_code(broker: Broker, mode: str, uri: str, code: str):
    await broker.create_session("cat", name="a")
    async with connected(broker, mode) as heard:
        with pytest.raises(MCPError) as raised:
            await heard.client.read_resource(uri)
    assert raised.value.error.code == -32602
    assert raised.value.error.data["code"] == code
    assert raised.value.error.data["uri"] == uri
    assert raised.value.error.message.startswith(f"{code}: ")


@pytest.mark.parametrize("text", ["tmux://sessions/-a/screen", "tmux://sessions/a/screen\n", "tmux://sessions/", "x"])
def test_other_uris_mean_nothing(text: str):
    assert parse_uri(text) is None


async def test_subscribers_are_told_of_output_modes_and_sessions(broker: Broker, mode: str):
    await broker.create_session("bash", name="a")
    async with connected(broker, mode) as heard:
        async with subscribed(heard, "tmux://sessions", "tmux://sessions/a/screen"):
            async with anyio.create_task_group() as tasks:
                for uri in ("tmux://sessions", "tmux://sessions/a/screen"):
                    tasks.start_soon(heard.of, uri)
                await broker.send(text="cat", enter=True, session_id="a", read="none")
            assert broker.watch.listeners == 2  # one of them for all sessions
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(heard.of, "tmux://sessions")
                await broker.create_session("cat", name="b")
        await eventually(lambda: broker.watch.listeners == 0)


async def test_subscribers_of_the_history_are_told_of_commands_that_ended_alone(broker: Broker, mode: str):
    await broker.create_session("bash", name="a")
    history, screen = "tmux://sessions/a/history", "tmux://sessions/a/screen"
    async with connected(broker, mode) as heard, subscribed(heard, history, screen):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heard.of, screen)
            await broker.send(text="read x", enter=True, session_id="a", wait_for="none", read="none")
        assert history not in heard.uris
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heard.of, history)
            await broker.send(text="y", enter=True, session_id="a", wait_for="none", read="none")
        assert json.loads(await text_of(heard.client, history))["commands"][-1]["exit_code"] == 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heard.of, history)
            await broker.destroy_session("a", force=True)


async def test_who_leaves_without_a_word_is_forgotten(broker: Broker, mode: str):
    await broker.create_session("cat", name="a")
    async with connected(broker, mode) as heard, subscribed(heard, "tmux://sessions/a/screen"):
        async with connected(broker, mode) as other, anyio.create_task_group() as tasks:

            async def stay() -> None:
                async with subscribed(other, "tmux://sessions/a/history"):
                    await anyio.sleep_forever()

            tasks.start_soon(stay)
            await eventually(lambda: broker.watch.listeners == 2)
            tasks.cancel_scope.cancel()
        await eventually(lambda: broker.watch.listeners == 1)
    await eventually(lambda: broker.watch.listeners == 0)


async def test_a_client_may_subscribe_to_so_many_only(broker: Broker, mode: str):
    uris = [f"other://{number}" for number in range(257)]
    async with connected(broker, mode) as heard:
        with pytest.raises(MCPError) as raised:
            async with subscribed(heard, *uris):
                pass
    assert raised.value.error.code == -32602
    assert broker.watch.listeners == 0


async def test_without_a_broker_subscribing_is_an_error(mode: str):
    async def none() -> Broker:
        raise TmuxUnavailable("tmux is missing.", hint="Install it.")

    async with Client(McpFace(none).server(), mode=mode) as client:
        with pytest.raises(MCPError) as raised:
            async with subscribed(Heard(client), "tmux://sessions"):
                pass
        assert raised.value.error.data["code"] == "TMUX_UNAVAILABLE"
        assert (await client.list_prompts()).prompts


async def test_session_ids_are_completed(broker: Broker, mode: str):
    for name in ("build", "bench", "other"):
        await broker.create_session("cat", name=name)
    template = ResourceTemplateReference(uri="tmux://sessions/{id}/screen")
    async with connected(broker, mode) as heard:

        async def complete(ref: object, name: str, value: str) -> list[str]:
            return (await heard.client.complete(ref, {"name": name, "value": value})).completion.values

        assert await complete(template, "id", "b") == ["bench", "build"]
        assert await complete(PromptReference(name="drive-tui"), "session_id", "") == ["bench", "build", "other"]
        assert await complete(PromptReference(name="drive-tui"), "program", "v") == []


async def test_prompts_are_listed_and_filled_in(broker: Broker, mode: str):
    async with connected(broker, mode) as heard:
        listed = (await heard.client.list_prompts()).prompts
        assert [each.name for each in listed] == ["run-and-fix", "drive-tui", "debug-with-gdb"]
        for each in listed:
            assert all([each.title, each.description, *(one.description for one in each.arguments)])
            given = {one.name: f"THE-{one.name}" for one in each.arguments}
            text = (await heard.client.get_prompt(each.name, given)).messages[0].content.text
            assert all(value in text for value in given.values())
            needed = {one.name: f"THE-{one.name}" for one in each.arguments if one.required}
            text = (await heard.client.get_prompt(each.name, needed)).messages[0].content.text
            assert "{" not in text
            assert "session None" not in text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("none", {}), ("run-and-fix", {}), ("run-and-fix", {"command": "x", "bogus": "y"})],
)
async def test_wrong_prompts_are_invalid_params(broker: Broker, mode: str, name: str, arguments: dict[str, str]):
    async with connected(broker, mode) as heard:
        with pytest.raises(MCPError) as raised:
            await heard.client.get_prompt(name, arguments)
    assert raised.value.error.code == -32602


def test_prompts_name_what_exists():
    names = {*OPERATIONS, *fields(ReadResult), "quit", "bt"}
    for recipe in RECIPES.values():
        for word in re.findall(r"`([a-z_]+)`", recipe.text):
            assert word in names, word


async def test_the_server_has_an_icon_and_subscriptions(broker: Broker, mode: str):
    async with connected(broker, mode) as heard:
        icon = heard.client.server_info.icons[0].src  # a URI by its grammar, too: strict clients check that
        assert re.fullmatch(r"data:image/svg\+xml;base64,[A-Za-z0-9+/]+=*", icon)
        assert heard.client.server_capabilities.resources.subscribe is True
        assert heard.client.server_capabilities.completions is not None
