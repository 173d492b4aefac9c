"""The table of operations as MCP tools, for both protocol eras (`initialize` and 2026-07-28).

Made on the SDK's low-level server: it hands arguments over as they came, where the high-level one runs
`json.loads` on free text. State hangs on session ids, never on the connection. This file turns arguments,
results and errors into MCP's forms; it decides nothing about sessions.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Literal
from uuid import uuid4

import anyio
import psutil
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import NoBackChannelError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    EmbeddedResource,
    Icon,
    ImageContent,
    InputRequiredResult,
    JSONRPCRequest,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from tmuxmcp import __version__
from tmuxmcp.contract.call import Ask, Call, CallAgain, Progress, Question, new_call_id
from tmuxmcp.contract.errors import ConfirmationDeclined, InvalidArgument, TmuxMcpError, unexpected
from tmuxmcp.contract.guesses import right_tool
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.request import Operation
from tmuxmcp.contract.results import Result, ScreenshotResult
from tmuxmcp.contract.settings import DEFAULT_SETTINGS, BrokerSettings
from tmuxmcp.contract.value import asdict, replace
from tmuxmcp.faces.resources import BrokerSource, Resources, get_prompt, list_prompts
from tmuxmcp.faces.stdio import RecentAnswers, with_request_id
from tmuxmcp.faces.subscriptions import Subscriptions
from tmuxmcp.faces.text import AnswerRoom, current_task, footer, portable, render

log = logging.getLogger(__name__)

ResultForm = Literal["both", "text", "structured"]
Results = Literal["auto", "both", "text", "structured"]

SHOW_ONE: dict[str, ResultForm] = {
    "claude-code": "text",
    "codex-mcp-client": "text",
    "gemini-cli-mcp-client": "text",
    "opencode": "text",
    "qwen-cli-mcp-client": "text",
}
"""What the models of known clients get, by the beginning of the client's name.

Claude Code and Codex show structured content as JSON in place of the text. The others show the text alone.
"""
Context = ServerRequestContext[Any, Any]

CALL_META, ERROR_META, RESULT_META = "tmuxmcp/call", "tmuxmcp/error", "tmuxmcp/result"
DURATION_META = "tmuxmcp/duration_ms"

MAX_RESULT_CHARS = 500_000
"""What Claude Code may show of a result that was asked for with a large `max_bytes`: the most it accepts."""

USELESS_MAXIMUM = 1000
"""An upper bound from here on is no news to a model."""

ICON = Icon(
    src="data:image/svg+xml;base64,"
    + base64.b64encode(
        b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16' rx='3' fill='#222'/>"
        b"<path d='m3 5 3 3-3 3m5 0h5' fill='none' stroke='#1bb91f' stroke-width='2'/></svg>"
    ).decode(),
    mime_type="image/svg+xml",
    sizes=["any"],
)
"""A prompt in a window."""

LAUNCHERS = ("uv", "uvx")
"""Parents that live only as long as we do; the client is above them."""

INSTRUCTIONS = """\
Live terminal sessions on tmux. They keep running between calls and when you disconnect.

- Shell commands: `run`. You get the complete output and exit code; cd, export, functions persist.
- Programs that ask or draw (python, vim, less, installers): type with `send`, look with `read`.
- `session_id` may be left out: you have a default session of your own. Use \
`create_session` with a `name` for a second terminal, another program, or one to share.
- Waits end by themselves and say why in `outcome`: ready (the program waits for input), command, idle (silence: it \
may be working), matched, exited, timeout, immediate. `evidence`: marks and kernel are facts, prompt a text, \
quiet silence. `wait_for` may be a list. A timeout is no failure: the program goes on. Call `read` with \
wait_for=command to get a command's exit code, wait_for=ready for other programs, or send key=C-c to stop it. Do not \
start it again.
- `read` gives what is new since your last read; view=screen shows the visible screen (for vim, less, \
menus), view=diff only its rows that changed since your last look.
- Long output is cut in the middle; a line there says which offsets fetch the rest (`read since=`). \
`search` finds text in all that was printed.
- `mode` says what the terminal does: shell_prompt, running, line_input, password, pager, editor, fullscreen.
- mode=password: a secret is asked for. Never type, guess or ask for secrets yourself: call `request_user_input` with \
secret=true, or have the person run `tmuxmcp attach --take SESSION_ID` and type it, then read with \
wait_for=ready. `attach_command` only watches.
- Understood though in no schema: ctrl alt shift bracketed_paste prompt_pattern screen_id limits \
scrollback_lines generation data_base64 at_ms at_offset, idle_ms of send and run, format of send, command of wait, \
signal of destroy_session, limit and after of list_sessions, record (true, on_failure) and placement of \
create_session, request_id (safe retries) of run, send, create_session.
- Errors begin with a CODE and say what to do next.
"""


def stdio_identity() -> str:
    """The key of a stdio server's client: its process and our working directory.

    The same after the client has started us anew, another for each client; `Broker.claim_identity` tells several
    servers of one client apart.
    """
    client = psutil.Process().parent()
    while client is not None and client.name() in LAUNCHERS:
        client = client.parent()
    who = f"{client.pid}:{client.create_time():.2f}" if client else "0:0"
    where = hashlib.sha256(os.fsencode(os.getcwd())).hexdigest()[:12]
    return f"stdio:{who}:{where}"


class McpFace:
    """A broker as an MCP server of one client; who has several says by `caller_of` which one calls."""

    def __init__(
        self,
        broker: BrokerSource,
        *,
        settings: BrokerSettings = DEFAULT_SETTINGS,
        tools: Sequence[str] = ("core", "process", "human"),
        results: Results = "both",
        caller: Callable[[], str] = lambda: "mcp",
        subscriptions: Subscriptions | None = None,
        answered: RecentAnswers | None = None,
    ) -> None:
        """Offer what a broker does.

        Args:
            broker: gives the broker; awaited at each call, so that the client is greeted while it opens.
            settings: whose values the tools' schemas give as defaults.
            tools: names of tool sets, or `all`.
            results: what a result holds: text, structured content, or both; auto: as the client that calls shows it.
            caller: whose read cursors and default session are meant; asked once the broker is open.
            subscriptions: the subscribers; left out: its own.
            answered: takes note of the calls that were answered, on a wire whose requests have numbers of their own.
        """
        self._broker, self._settings, self._results, self._caller = broker, settings, results, caller
        self._offered, self._whole = select(tools), "all" in tools
        self._listed: dict[ResultForm, ListToolsResult] = {}
        self._room, self._asking, self._answered = AnswerRoom(), OpenQuestions(), answered
        self._subscribers = subscriptions or Subscriptions(broker)

    def server(self) -> Server[dict[str, Any]]:
        """The SDK's server, which answers by this."""
        resources, subscribers = Resources(self._broker, self._call_of), self._subscribers

        @asynccontextmanager
        async def lifespan(server: Server[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
            async with subscribers.run():
                yield {}

        return Server(
            "tmuxmcp",
            title="tmuxmcp",
            version=__version__,
            description="Terminal sessions for agents, on tmux",
            instructions=INSTRUCTIONS,
            icons=[ICON],
            lifespan=lifespan,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=resources.listing,
            on_list_resource_templates=resources.templates,
            on_read_resource=resources.read,
            on_subscribe_resource=subscribers.subscribe,
            on_unsubscribe_resource=subscribers.unsubscribe,
            on_subscriptions_listen=subscribers.listen,
            on_list_prompts=list_prompts,
            on_get_prompt=get_prompt,
            on_completion=resources.complete,
        )

    def caller_of(self, ctx: Context) -> Call:
        """Who calls, and what they may do; the call is over with the task that answers it."""
        return Call(self._caller(), room=self._room.until_done(current_task()))

    def around(self, ctx: Context, name: str) -> AbstractAsyncContextManager[None]:
        """Entered around each call of a tool."""
        return nullcontext()

    def _call_of(self, ctx: Context) -> Call:
        asks_person = "request_user_input" in self._offered
        return replace(self.caller_of(ctx), progress=_progress(ctx), asks_person=asks_person)

    async def _list_tools(self, ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        form = shown_by(ctx, self._results)
        if form not in self._listed:
            tools = [as_tool(row, form, self._settings, whole=self._whole) for row in self._offered.values()]
            self._listed[form] = ListToolsResult(tools=tools)
        return self._listed[form]

    async def _call_tool(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        call_id, began = new_call_id(), time.monotonic()
        ask, answers = self._asking.of(ctx, params), self._asking.answered_digest(params)
        try:
            operation = _find(self._offered, params.name)
            opened = await self._broker()
            call = replace(self._call_of(ctx), call_id=call_id, ask=ask, answers=answers)
            async with self.around(ctx, operation.name):
                arguments = with_request_id(operation, params.arguments or {}, params.meta)
                result = await opened.perform(operation, arguments, call)
            if self._answered and ctx.request_id is not None:
                self._answered.add(ctx.request_id, call)
            return _timed(as_result(result, shown_by(ctx, self._results), call_id), began)
        except NeedsInput as needed:
            return needed.result
        except TmuxMcpError as error:
            # Without the hint: it may repeat what was given.
            log.debug("call %s: %.100s: %s: %s", call_id, params.name, error.code, error.message)
            return _timed(as_error(error, call_id), began)
        except Exception:
            incident = uuid4().hex[:12]
            log.exception("call %s: %s failed, incident %s", call_id, params.name, incident)
            return _timed(as_error(unexpected(incident), call_id), began)


def shown_by(ctx: Context, results: Results) -> ResultForm:
    """What a result to this caller holds."""
    if results != "auto":
        return results
    about = ctx.session.client_params
    name = about.client_info.name if about else ""
    return next((shown for begins, shown in SHOW_ONE.items() if name.startswith(begins)), "both")


def select(sets: Sequence[str]) -> dict[str, Operation]:
    """The operations of some tool sets, in the order of the table."""
    return {name: row for name, row in OPERATIONS.items() if "all" in sets or row.tools in sets}


def only_waits(request: JSONRPCRequest) -> bool:
    """Whether a request is a call that does nothing but wait for something to happen in a session."""
    params = request.params or {}
    operation, arguments = OPERATIONS.get(str(params.get("name"))), params.get("arguments")
    if request.method != "tools/call" or operation is None or "wait_for" not in operation.arguments:
        return False
    default = operation.defaults.get("wait_for")
    wanted = arguments.get("wait_for", default) if isinstance(arguments, dict) else default
    return operation.acts == "nothing" and wanted != "none"


def as_tool(
    operation: Operation, results: ResultForm, settings: BrokerSettings = DEFAULT_SETTINGS, *, whole: bool = True
) -> Tool:
    """An operation as MCP lists it, with the defaults that these settings make.

    Args:
        whole: also with the arguments that are seldom needed.
    """
    schema = without_nulls(lean(operation.schema(settings, whole=whole)))
    return Tool(
        name=operation.name,
        title=operation.title,
        description=operation.description,
        input_schema=schema if whole else brief(schema),
        output_schema=None if results == "text" else lean(operation.result_schema),
        annotations=ToolAnnotations(
            read_only_hint=operation.read_only,
            destructive_hint=operation.destructive,
            idempotent_hint=operation.repeatable,
            open_world_hint=operation.open_world,
        ),
        _meta={"anthropic/maxResultSizeChars": MAX_RESULT_CHARS} if operation.long else None,
    )


def lean(schema: Any) -> Any:
    """A JSON schema without pydantic's titles: they cost every listing tokens and say nothing."""
    if isinstance(schema, list):
        return [lean(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    named = ("properties", "$defs")  # below these, `title` would be the name of a field
    return {
        key: {name: lean(item) for name, item in value.items()} if key in named else lean(value)
        for key, value in schema.items()
        if key != "title"
    }


def without_nulls(schema: dict[str, Any]) -> dict[str, Any]:
    """An input schema that does not say of optional arguments that they may also be null: it says so in many words."""
    properties = {}
    for name, given in schema.get("properties", {}).items():
        kinds = [kind for kind in given.get("anyOf", ()) if kind != {"type": "null"}]
        one = kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}
        rest = {key: value for key, value in given.items() if key != "anyOf" and (key, value) != ("default", None)}
        properties[name] = {**one, **rest}
    return schema | {"properties": properties}


def brief(schema: dict[str, Any]) -> dict[str, Any]:
    """An input schema without what a model can do without: that what is left out is empty, and bounds as wide as these.

    They hold all the same, and an error names them.
    """
    properties = {
        name: {key: value for key, value in given.items() if not _goes_without_saying(key, value)}
        for name, given in schema["properties"].items()
    }
    return schema | {"properties": properties}


def _goes_without_saying(key: str, value: Any) -> bool:
    if key == "default":
        return value in ("", [], {})
    return (key == "minimum" and value in (0, 1)) or (key == "maximum" and value >= USELESS_MAXIMUM)


def as_result(result: Result, results: ResultForm, call_id: str) -> CallToolResult:
    """A result as MCP carries it; text and structured content are each complete by themselves, but for pictures."""
    data = portable(asdict(result))
    text = portable(footer(result) if results == "structured" else render(result))
    pictures = []
    if isinstance(result, ScreenshotResult):
        pictures.append(_picture(result))
        data["data"] = None  # a model would be charged for it as text
    return CallToolResult(
        content=[*pictures, TextContent(type="text", text=text)],
        structured_content=None if results == "text" else data,
        _meta={CALL_META: call_id} | ({RESULT_META: data} if results == "text" else {}),
    )


def _picture(result: ScreenshotResult) -> ImageContent | EmbeddedResource:
    """PNG as an image; SVG and HTML as text: most clients drop an image of these types, or save it to a file."""
    data = result.data or ""
    if result.format == "png":
        return ImageContent(type="image", mime_type=result.mime_type, data=data)
    uri = f"tmux://sessions/{result.session_id}/screen.{result.format}"
    text = TextResourceContents(uri=uri, mime_type=result.mime_type, text=data)
    return EmbeddedResource(type="resource", resource=text)


def _timed(answer: CallToolResult, began: float) -> CallToolResult:
    """The answer, which now says how long its call took, from `began` (monotonic clock)."""
    took_ms = round((time.monotonic() - began) * 1000)
    answer.meta = {**(answer.meta or {}), DURATION_META: took_ms}
    return answer


def as_error(error: TmuxMcpError, call_id: str) -> CallToolResult:
    """An error as MCP carries it: the code in the text, since that is all that every client shows.

    Without structured content: some clients hold it against the output schema and then drop the message.
    """
    return CallToolResult(
        content=[TextContent(type="text", text=portable(str(error)))],
        is_error=True,
        _meta={CALL_META: call_id, ERROR_META: portable(error.as_dict())},
    )


def _find(offered: Mapping[str, Operation], name: str) -> Operation:
    if name not in offered:
        meant = right_tool(name)
        if meant in OPERATIONS and meant not in offered:
            hint = f"{meant} does that, but is not offered here: a person adds it to the setting tools."
        else:
            hint = f"Tools: {', '.join(offered)}." + (f" Did you mean {meant}?" if meant else "")
        raise InvalidArgument(f"There is no tool {name[:100]!r}.", hint=hint)
    return offered[name]


def _progress(ctx: Context) -> Progress:
    async def progress(elapsed_s: float, last_line: str) -> None:
        await ctx.session.report_progress(elapsed_s, message=last_line)  # tells nobody if nobody asked

    return progress


# ---- Asks the person behind an MCP client by elicitation, in both protocol eras --------------------------------------
#
# Before 2026-07-28 the server sends a request of its own and waits. From then on the result of the tool call is the
# question; the client makes the call again with the answer and with the state that came with the question.
#
# What is answered elsewhere (a secret, in the page) is asked by its address. That the client opened it settles nothing.

PERSON_THINKS_S = 300
"""How long a person may think; then it counts as not agreed."""

OPEN_IN_CLIENTS = 1000
CONFIRM_FIELD = "confirm"
EMPTY_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
"""Nothing is to be filled in: the person accepts or declines."""

FIRST_MODERN = "2026-07-28"


class NeedsInput(CallAgain):
    """The call's answer is a question."""

    audit_outcome = "asked"

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__()
        self.result = result


class OpenQuestions:
    """The questions of one server that are open between two calls of a client."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, str] = OrderedDict()
        """State given to the client -> the digest of what was asked."""
        self._opened: OrderedDict[str, None] = OrderedDict()
        """Digests of what the person went elsewhere for: they are not sent there again."""

    def of(self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> Ask:
        """What asks the client of this request.

        Raises:
            MCPError: the request brings a state that we did not give, or whose answer has come already.
        """
        if params.request_state is not None and params.request_state not in self._open:
            raise MCPError(INVALID_PARAMS, "This requestState is unknown or was used. Make the call anew without it.")

        async def ask(question: Question) -> bool | None:
            if not _can_be_asked(ctx, question) or question.digest in self._opened:
                return None
            if ctx.protocol_version >= FIRST_MODERN:
                return self._by_result(question, params)
            return await self._by_request(question, ctx)

        return ask

    def answered_digest(self, params: CallToolRequestParams) -> str:
        """Digest of the question to which a request brings the answer; empty: it brings none."""
        return self._open.get(params.request_state or "", "")

    async def _by_request(self, question: Question, ctx: ServerRequestContext[Any, Any]) -> bool | None:
        try:
            with anyio.move_on_after(PERSON_THINKS_S):
                return self._agreed(question, await _elicit(question, ctx))
        except (MCPError, NoBackChannelError):
            return None
        return None if question.may_wait else False

    def _by_result(self, question: Question, params: CallToolRequestParams) -> bool | None:
        asked = self._open.pop(params.request_state or "", None)  # an answer counts once
        answer = (params.input_responses or {}).get(CONFIRM_FIELD)
        if asked is None or not isinstance(answer, ElicitResult):
            raise NeedsInput(self._put_question(question))
        if asked != question.digest:
            raise ConfirmationDeclined(
                "The session or the call changed while the person was asked, so the answer is void.",
                hint="Look at the session; make the call again if it is still right.",
            )
        return self._agreed(question, answer)

    def _agreed(self, question: Question, answer: ElicitResult) -> bool | None:
        """What a person said; None: nothing yet, as they put away what may wait, or went to answer elsewhere."""
        if question.url and answer.action == "accept":
            self._opened[question.digest] = None
            while len(self._opened) > OPEN_IN_CLIENTS:
                self._opened.popitem(last=False)
            return None
        return None if question.may_wait and answer.action == "cancel" else answer.action == "accept"

    def _put_question(self, question: Question) -> InputRequiredResult:
        state = secrets.token_urlsafe(24)
        self._open[state] = question.digest
        while len(self._open) > OPEN_IN_CLIENTS:
            self._open.popitem(last=False)
        params: ElicitRequestURLParams | ElicitRequestFormParams
        if question.url:
            params = ElicitRequestURLParams(message=question.message, url=question.url)
        else:
            params = ElicitRequestFormParams(message=question.message, requested_schema=EMPTY_SCHEMA)
        return InputRequiredResult(input_requests={CONFIRM_FIELD: ElicitRequest(params=params)}, request_state=state)


def _can_be_asked(ctx: ServerRequestContext[Any, Any], question: Question) -> bool:
    """Whether the client opens addresses, or shows forms; one that names no kind shows forms."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return False
    if question.url:
        return capabilities.elicitation.url is not None
    return capabilities.elicitation.form is not None or capabilities.elicitation.url is None


async def _elicit(question: Question, ctx: ServerRequestContext[Any, Any]) -> ElicitResult:
    """The client's answer."""
    message, session = question.message, ctx.session
    if question.url:
        return await session.elicit_url(message, question.url, question.digest, ctx.request_id)
    return await session.elicit_form(message, EMPTY_SCHEMA, related_request_id=ctx.request_id)
