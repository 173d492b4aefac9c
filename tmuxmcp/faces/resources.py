"""Sessions as MCP resources: what is listed, read and completed. Reading goes through the table of operations."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, SessionNotFound, TmuxMcpError, Unsupported
from tmuxmcp.contract.request import R, Request
from tmuxmcp.contract.value import asdict, value
from tmuxmcp.contract.words import EVERY_SESSION
from tmuxmcp.faces.text import portable

if TYPE_CHECKING:
    from tmuxmcp.nodes.fleet import AnyBroker

Context = ServerRequestContext[Any, Any]
BrokerSource = Callable[[], Awaitable["AnyBroker"]]
"""Gives the broker, which may still be opening; raises `TmuxMcpError` if it cannot."""

SESSIONS = "tmux://sessions"
SESSION_PARTS = {
    "screen": ("Screen", "What the session's terminal shows now"),
    "history": ("History", "The commands that the session's shell ran: text, exit code, time, who typed it"),
    "recording": ("Recording", "What the session did, as an asciicast of version 3: the newest MiB"),
}
MIME_TYPES = {"screen": "text/plain", "history": "application/json", "recording": "application/x-asciicast"}
ID_IN_URI = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(?:@[a-z0-9][a-z0-9-]{0,31})?"
"""A session's id; of many machines with the machine's name."""

URI = re.compile(rf"{SESSIONS}(?:/({ID_IN_URI})/({'|'.join(SESSION_PARTS)}))?\Z")

RESOURCE_MAX_BYTES = 1 << 20
"""Most bytes of text in one resource."""

RESOURCE_COMMANDS = 1000
"""Most commands in one resource."""

PREFACE_BYTES = 4096
"""Of these, for what stands before the commands."""

RECORDING_META = "tmuxmcp/recording"
"""In the `_meta` of a recording: which part of the log it shows."""

MOST_COMPLETIONS = 100
"""As many as the protocol allows."""

LISTED_RESOURCES = 200
"""Resources in a list; the templates reach the others."""


@value
class Address:
    """What a URI means: all sessions, or a part of one."""

    session_id: str = ""
    part: str = ""


def parse_uri(uri: str) -> Address | None:
    """What a URI of ours means; None for any other."""
    match = URI.match(uri)
    return Address(match[1] or "", match[2] or "") if match else None


class Resources:
    """Handlers of the `resources/*` requests and of `completion/complete`."""

    def __init__(self, broker: BrokerSource, call_of: Callable[[Context], Call]) -> None:
        self._broker, self._call_of = broker, call_of

    async def listing(self, ctx: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        """All sessions, and the parts of each."""
        found = [Resource(name="sessions", title="Sessions", uri=SESSIONS, mime_type="application/json",
                          description="All sessions, with what each is doing")]  # fmt: skip
        for session_id in await self._session_ids(ctx):
            for part, (title, description) in SESSION_PARTS.items():
                uri, name = f"{SESSIONS}/{session_id}/{part}", f"{session_id}/{part}"
                found.append(Resource(name=name, title=f"{title} of {session_id}", uri=uri, mime_type=MIME_TYPES[part],
                                      description=description))  # fmt: skip
        return ListResourcesResult(resources=found[:LISTED_RESOURCES])

    async def templates(self, ctx: Context, params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        """The parts that every session has."""
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(
                    name=part,
                    title=title,
                    uri_template=f"{SESSIONS}/{{id}}/{part}",
                    description=description,
                    mime_type=MIME_TYPES[part],
                )
                for part, (title, description) in SESSION_PARTS.items()
            ]
        )

    async def read(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """The text of one resource; it moves no read cursor."""
        uri = str(params.uri)
        try:
            contents = await self._contents(ctx, uri)
        except TmuxMcpError as error:
            raise failed(error, uri) from None
        return ReadResourceResult(contents=[contents])

    async def _contents(self, ctx: Context, uri: str) -> TextResourceContents:
        address = parse_uri(uri)
        if address is None:
            raise InvalidArgument(f"There is no resource {uri[:200]!r}.", hint=f"{SESSIONS} lists the sessions.")
        part, session_id = address.part, address.session_id
        meta: dict[str, Any] | None = None
        match part:
            case "screen":
                text = (await self._do(ctx, q.Read("screen", session_id, max_bytes=RESOURCE_MAX_BYTES))).content
            case "history":
                text = _history(await self._do(ctx, q.ListCommands(session_id, limit=RESOURCE_COMMANDS)))
            case "recording":
                cast = await (await self._broker()).asciicast(session_id, RESOURCE_MAX_BYTES, self._call_of(ctx))
                text = cast.text.decode()
                cut = {"begin_offset": cast.begin, "end_offset": cast.end, "first_offset": cast.first}
                meta = {RECORDING_META: cut | {"cut": cast.begin > 0}}
            case _:
                text = _json(asdict(await self._do(ctx, q.ListSessions(limit=EVERY_SESSION))))
        mime_type = MIME_TYPES.get(part, "application/json")
        return TextResourceContents(uri=uri, mime_type=mime_type, text=portable(text), _meta=meta)

    async def _do(self, ctx: Context, request: Request[R]) -> R:
        return await (await self._broker()).do(request, self._call_of(ctx))

    async def _session_ids(self, ctx: Context) -> list[str]:
        try:
            listed = (await self._do(ctx, q.ListSessions(limit=EVERY_SESSION))).sessions
            return [each.session_id for each in listed if each.ended is None or each.ended.reason != "destroyed"]
        except TmuxMcpError as error:
            raise failed(error, SESSIONS) from None

    async def complete(self, ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        """Session ids, for the resources' `id` and the prompts' `session_id`; nothing for other arguments."""
        if params.argument.name not in ("id", "session_id"):
            return CompleteResult(completion=Completion(values=[]))
        ids = sorted(each for each in await self._session_ids(ctx) if each.startswith(params.argument.value))
        values = ids[:MOST_COMPLETIONS]
        return CompleteResult(completion=Completion(values=values, total=len(ids), has_more=len(ids) > len(values)))


def _json(values: dict[str, Any]) -> str:
    return json.dumps(portable(values), ensure_ascii=False)


def _history(listed: r.ListCommandsResult) -> str:
    """The commands, without the oldest beyond `RESOURCE_MAX_BYTES`; `omitted` says how many those are."""
    values = asdict(listed)
    commands = values.pop("commands")
    sizes = [len(_json(each).encode()) + 2 for each in commands]
    first, room = len(commands), RESOURCE_MAX_BYTES - PREFACE_BYTES
    while first and sizes[first - 1] <= room:
        first -= 1
        room -= sizes[first]
    return _json(values | {"count": len(commands) - first, "omitted": first, "commands": commands[first:]})


def failed(error: TmuxMcpError, uri: str) -> MCPError:
    """An error as MCP has it where there is no tool result to put it into."""
    wrong = isinstance(error, InvalidArgument | SessionNotFound | Unsupported)
    data = {"uri": uri, **error.as_dict()}
    return MCPError(INVALID_PARAMS if wrong else INTERNAL_ERROR, portable(str(error)), portable(data))


# ---- MCP prompts: three ways of working that need several tools in the right order -----------------------------------

SESSION = ("session_id", "Session to use; left out: your default session", False)


@value
class Recipe:
    """A prompt: its arguments as (name, description, required), and its text with their names in braces."""

    title: str
    description: str
    arguments: tuple[tuple[str, str, bool], ...]
    text: str


RECIPES: dict[str, Recipe] = {
    "run-and-fix": Recipe(
        "Run and fix",
        "Run a command, and mend what makes it fail until it succeeds.",
        (("command", "The command that has to succeed, such as a test run", True), SESSION),
        """\
Make this command succeed: {command}
{session}
1. Run it with `run`. exit_code 0 means it succeeded: stop and report.
2. completed=false means that it still runs: `read` with wait_for=command goes on waiting and gives its exit code.
   mode=password or line_input means that it asks for something: look with `read` view=screen before you type.
3. If it failed, read the output up to the first real error; if the middle was left out, fetch it with the offsets
   that the result names. Find the cause, change one thing, and run the same command again.
4. Stop after five attempts that bring nothing new, and say what you know.
Never hide a failure (`|| true`, skipped tests). Say at the end what was wrong and what you changed.""",
    ),
    "drive-tui": Recipe(
        "Drive a full-screen program",
        "Work with a program that draws on the whole screen: an editor, a menu, an installer.",
        (
            ("program", "The program and its arguments", True),
            ("goal", "What is to be reached in it", False),
            SESSION,
        ),
        """\
Use this full-screen program: {program}
{goal}{session}
1. Start it with `send` text and enter=true in a shell, or give it a session of its own with `create_session`.
2. Look with `read` view=screen before each step. `highlights` says what stands in reverse video: the chosen row of
   a menu. `cursor` says where typing goes.
3. Press keys by name (`send` key=Down, F10, Escape, C-x; Down*5 repeats) and check the screen that comes back before
   the next ones. Type text with `send` text.
4. If the screen is not what you expect, stop and look again; Escape or q leaves most menus.
5. Leave the program by its own way out, so that mode is shell_prompt again, and report what you reached.""",
    ),
    "debug-with-gdb": Recipe(
        "Debug with gdb",
        "Find out with gdb why a program crashes or does the wrong thing.",
        (
            ("program", "The program to debug", True),
            ("args", "Its arguments", False),
            ("problem", "What goes wrong", False),
            SESSION,
        ),
        """\
Find out with gdb what is wrong with: {program}{args}
{problem}{session}
1. Start `gdb -q -nx --args {program}{args}` with `send` (enter=true): gdb is a prompt, so `run` does not fit it.
   Then `set pagination off` and `set confirm off`.
2. `run` in gdb; wait with wait_for=ready and a timeout_ms that fits. A program that hangs is stopped with key=C-c.
3. After a stop: `bt`, then `frame N`, `info locals`, `print EXPRESSION`. Set breakpoints where the state is still
   good, run again, and narrow down where it goes bad.
4. No symbols? Say so, and rebuild with -g -O0 if you may.
5. End with `quit`. Report the line at fault, the evidence, and a fix.""",
    ),
}


async def list_prompts(ctx: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
    """All prompts."""
    return ListPromptsResult(
        prompts=[
            Prompt(
                name=name,
                title=recipe.title,
                description=recipe.description,
                arguments=[
                    PromptArgument(name=argument, description=description, required=required)
                    for argument, description, required in recipe.arguments
                ],
            )
            for name, recipe in RECIPES.items()
        ]
    )


async def get_prompt(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    """One prompt, with its arguments filled in."""
    recipe = RECIPES.get(params.name)
    if recipe is None:
        raise MCPError(INVALID_PARAMS, f"There is no prompt {params.name[:100]!r}; there are: {', '.join(RECIPES)}.")
    text = fill(recipe, params.arguments or {})
    message = PromptMessage(role="user", content=TextContent(type="text", text=text))
    return GetPromptResult(description=recipe.description, messages=[message])


def fill(recipe: Recipe, given: Mapping[str, str]) -> str:
    """A prompt's text.

    Raises:
        MCPError: an argument is missing or unknown.
    """
    names = [name for name, _, _ in recipe.arguments]
    missing = [name for name, _, required in recipe.arguments if required and not given.get(name)]
    unknown = sorted(set(given) - set(names))
    if missing or unknown:
        said = f"{missing[0]} is missing" if missing else f"{unknown[0][:100]!r} is unknown"
        raise MCPError(INVALID_PARAMS, f"{said}; the arguments are: {', '.join(names)}.")
    session = f"Work in the session {given['session_id']}.\n" if given.get("session_id") else ""
    lines = {name: f"{name.capitalize()}: {given[name]}\n" if given.get(name) else "" for name in ("goal", "problem")}
    words = {name: given.get(name, "") for name in ("command", "program")}
    words["args"] = f" {given['args']}" if given.get("args") else ""
    return recipe.text.format(session=session, **lines, **words)
