"""THE table of operations: MCP tools, the command line and the reference documentation are made from it.

A row names the operation, says what a model needs to know of it, and holds the models of what goes in and
comes out. The function is the broker's method of the same name: `await broker.NAME(call=..., **arguments)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from tmuxmcp.contract import results as r
from tmuxmcp.contract.limits import Limits
from tmuxmcp.errors import InvalidArgument, Unauthorized

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract.call import Call

MAX_BYTES = 16 * 1024 * 1024
DEFAULT_SESSION = "Left out: your own default session"

SessionId = Annotated[str, Field(description=DEFAULT_SESSION)]
MaxBytes = Annotated[int, Field(ge=1, le=MAX_BYTES, description="Most bytes of text to return")]
TimeoutMs = Annotated[int, Field(ge=0, description="Longest wait; what runs goes on afterwards")]
Rows = Annotated[int, Field(ge=1, le=500)]
Cols = Annotated[int, Field(ge=1, le=500)]
WaitFor = Literal["none", "ready", "idle", "pattern", "changed", "exit"]
SignalName = Literal["INT", "TERM", "HUP", "KILL", "QUIT", "TSTP", "CONT", "USR1", "USR2"]


LIMITS_SCHEMA = {
    "type": "object",
    "description": "Any of " + " ".join(Limits.model_fields),
    "additionalProperties": {"type": "number"},
}
"""In a sixth of the words that the model would make."""

SomeLimits = Annotated[Limits | None, WithJsonSchema(LIMITS_SCHEMA)]

FILES = ("read_file", "list_directory", "write_file")
"""What reaches beyond sessions without a program."""


class Input(BaseModel):
    """Base of all inputs: exact types, unknown arguments refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CreateSessionInput(Input):
    program: Annotated[str, Field(description="Program to run; left out: the login shell")] = ""
    args: Annotated[list[str], Field(description="Its arguments, exact: no shell splits them")] = []
    name: Annotated[str, Field(description="Becomes the session id")] = ""
    rows: Rows = 24
    cols: Cols = 80
    env: Annotated[dict[str, str], Field(description="Added to the environment")] = {}
    cwd: Annotated[str, Field(description="Working directory")] = ""
    wait_ready: Annotated[Literal["auto"] | bool, Field(description="auto: wait if it is a shell")] = "auto"
    ready_timeout_ms: Annotated[int, Field(ge=0)] = 5000
    scrollback_lines: Annotated[int, Field(ge=0, le=1_000_000)] = 5000
    limits: SomeLimits = None
    sandbox: Literal["none", "auto", "required"] = "none"
    record: bool = False
    host: str = ""


class DestroySessionInput(Input):
    session_id: Annotated[str, Field(description="Session id")]
    force: Annotated[bool, Field(description="Kill at once")] = False
    signal: SignalName = "TERM"
    grace_ms: Annotated[int, Field(ge=0, le=60_000, description="Time to end before it is killed")] = 2000


class ListSessionsInput(Input):
    include_exited: bool = True


class GetSessionInput(Input):
    session_id: SessionId = ""


class RunInput(Input):
    command: Annotated[str, Field(description="Shell command; may have several lines")]
    session_id: SessionId = ""
    timeout_ms: TimeoutMs = 30_000
    max_bytes: MaxBytes = 8192


class WaitArguments(Input):
    """What `read` and `send` share."""

    format: Annotated[Literal["plain", "ansi"], Field(description="ansi: screen with colours")] = "plain"
    pattern: Annotated[str, Field(description="Regex for wait_for=pattern, over new text and screen")] = ""
    idle_ms: Annotated[int, Field(ge=1, le=60_000, description="Silence that counts as idle")] = 300
    prompt_pattern: Annotated[str, Field(description="Regex of a prompt that counts as ready")] = ""
    max_bytes: MaxBytes = 8192


class SendInput(WaitArguments):
    text: Annotated[str, Field(description="Typed as it is")] = ""
    key: Annotated[str, Field(description="One key: Up, F5, C-c, M-x, Enter, Down*5")] = ""
    keys: Annotated[list[str], Field(description="Keys in order, after text")] = []
    ctrl: bool = False
    alt: bool = False
    shift: bool = False
    enter: Annotated[bool, Field(description="Press Enter at the end")] = False
    session_id: SessionId = ""
    bracketed_paste: Literal["auto", "always", "never"] = "auto"
    read: Annotated[
        Literal["auto", "none", "new", "screen", "diff"],
        Field(description="auto: changed rows of a full-screen program, else new text; none: do not wait"),
    ] = "auto"
    wait_for: Annotated[WaitFor, Field(description="When to return")] = "ready"
    timeout_ms: TimeoutMs = 5000


class ReadInput(WaitArguments):
    session_id: SessionId = ""
    view: Annotated[
        Literal["new", "screen", "diff", "scrollback", "raw"],
        Field(description="new: text since your last read; diff: changed screen rows; raw: log bytes, base64"),
    ] = "new"
    offset: Annotated[int | None, Field(ge=0, description="scrollback: first line, 0 the oldest; else the last")] = None
    limit: Annotated[int, Field(ge=1, le=100_000, description="scrollback: most lines")] = 1000
    since: Annotated[int | None, Field(ge=0, description="Start at this offset; moves no cursor")] = None
    screen_id: Annotated[str, Field(description="diff, changed: since this screen, not your last look")] = ""
    wait_for: WaitFor = "none"
    timeout_ms: TimeoutMs = 30_000


class SearchInput(Input):
    pattern: Annotated[str, Field(description="Regex, put to each line; (?i) ignores case")]
    session_id: SessionId = ""
    limit: Annotated[int, Field(ge=1, le=10_000, description="Most matches to return")] = 100
    context: Annotated[int, Field(ge=0, le=50, description="Lines around each match, in its text")] = 0


class ResizeInput(Input):
    rows: Rows | None = None
    cols: Cols | None = None
    scrollback_lines: Annotated[int | None, Field(ge=0, le=1_000_000, description="Lines that scrollback keeps")] = None
    session_id: SessionId = ""


class SignalInput(Input):
    signal: SignalName
    target: Annotated[Literal["foreground", "session"], Field(description="Who gets it")] = "foreground"
    session_id: SessionId = ""


class ScreenshotInput(Input):
    format: Literal["png", "svg", "html"] = "png"
    at_ms: Annotated[int | None, Field(ge=0, description="Time in the session's history; left out: now")] = None
    session_id: SessionId = ""


class MouseInput(Input):
    action: Literal["click", "press", "release", "move", "scroll_up", "scroll_down"]
    row: Annotated[int | None, Field(ge=0)] = None
    col: Annotated[int | None, Field(ge=0)] = None
    on_text: Annotated[str, Field(description="Or a text of the screen; with row: of that row")] = ""
    button: Literal["left", "middle", "right"] | None = None
    session_id: SessionId = ""


class RunProcessInput(Input):
    argv: Annotated[list[str], Field(min_length=1, description="Program and arguments, exact: no shell")]
    cwd: Annotated[str, Field(description="Working directory")] = ""
    env: Annotated[dict[str, str], Field(description="Added to the environment")] = {}
    stdin: str = ""
    stdin_base64: str = ""
    timeout_ms: Annotated[int, Field(ge=1, description="It is ended then")] = 30_000
    max_output_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES, description="Of each stream")] = 65_536
    limits: SomeLimits = None


FilePath = Annotated[str, Field(description="Absolute, with ~, or relative to files_root or the working directory")]


class ReadFileInput(Input):
    path: FilePath
    offset: Annotated[int | None, Field(ge=0, le=2**62, description="First byte")] = None
    max_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES)] = 65_536
    start_line: Annotated[int | None, Field(ge=1, description="First line, from 1; instead of offset")] = None
    end_line: Annotated[int | None, Field(ge=1, description="Last line, included")] = None


class WriteFileInput(Input):
    path: FilePath
    data: str
    encoding: Annotated[Literal["utf-8", "base64"], Field(description="Of data")] = "utf-8"
    mode: Annotated[
        Annotated[str, Field(pattern="^(0o)?0?[0-7]{3}$")] | Annotated[int, Field(ge=0, le=0o777)] | None,
        Field(description='Octal, "0644"; left out: as it was'),
    ] = None
    create_dirs: Annotated[bool, Field(description="Make directories that are missing")] = False


class ListDirectoryInput(Input):
    path: FilePath
    limit: Annotated[int, Field(ge=1, le=10_000, description="Most entries")] = 1000


class HealthInput(Input):
    pass


@dataclass(frozen=True)
class Operation:
    """A row of the table."""

    name: str
    title: str
    description: str
    input: type[Input]
    output: type[r.Result]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    """True where the call can reach beyond this machine: whatever a terminal runs."""

    def parse(self, arguments: dict[str, Any]) -> Input:
        """Check `arguments` against the input model.

        Raises:
            InvalidArgument: naming every argument that is wrong, and why.
        """
        try:
            return self.input.model_validate(arguments)
        except ValidationError as error:
            raise _invalid(self, error) from None

    async def call(self, broker: Broker, call: Call, arguments: dict[str, Any]) -> r.Result:
        """Check the arguments and do it, if the policy lets it, with a line in the audit.

        Only what the caller gave is passed on, so settings give the defaults.

        Raises:
            InvalidArgument, Unauthorized, PolicyDenied, ConfirmationDeclined; ResourceLimit: the client has too many
            calls going on; what the operation raises.
        """
        try:
            given = self.parse(arguments)
            self.authorize(call.scopes, given)
        except (InvalidArgument, Unauthorized) as error:
            broker.gate.refused(self.name, call, error)
            raise
        named = {name: getattr(given, name) for name in given.model_fields_set}

        async def done() -> r.Result:
            with broker.admit(call):
                result: r.Result = await getattr(broker, self.name)(call=call, **named)
            return result

        return await broker.gate.call(self.name, self.read_only, call, named, done)

    @property
    def scope(self) -> str:
        """The scope that a caller needs: `read` to look at sessions, and at nothing else of the machine."""
        return "read" if self.read_only and self.name not in FILES else "write"

    def authorize(self, scopes: frozenset[str], given: Input) -> None:
        """Whether a caller with these scopes may do it.

        Raises:
            Unauthorized: no.
        """
        if self.scope not in scopes:
            raise Unauthorized(
                f"{self.name} needs the scope {self.scope}; your token has {', '.join(sorted(scopes)) or 'none'}.",
                hint="Ask for a token with that scope.",
                scope=self.scope,
            )
        if "write" not in scopes and getattr(given, "session_id", None) == "":
            raise Unauthorized(
                "A token that may only read has no default session.",
                hint="Give a session_id; list_sessions lists them.",
                scope="write",
            )


def _invalid(operation: Operation, error: ValidationError) -> InvalidArgument:
    problems = [
        {"argument": ".".join(str(part) for part in item["loc"]) or "(all)", "problem": item["msg"]}
        for item in error.errors(include_url=False, include_input=False)
    ][:20]
    known = ", ".join(operation.input.model_fields) or "none"
    return InvalidArgument(
        "; ".join(f"{p['argument']}: {p['problem']}" for p in problems) + ".",
        hint=f"{operation.name} takes: {known}.",
        problems=problems,
    )


OPERATIONS: dict[str, Operation] = {
    row.name: row
    for row in (
        Operation(
            "create_session",
            "Create session",
            "Start a program in a terminal of its own that lives on when you disconnect. Not needed for shell "
            "commands: run makes a default session. Give a name to find it again and to share it.",
            CreateSessionInput,
            r.CreateSessionResult,
            open_world=True,
        ),
        Operation(
            "destroy_session",
            "Destroy session",
            "End a session and every process in it. Its log stays on disk.",
            DestroySessionInput,
            r.DestroySessionResult,
            destructive=True,
            idempotent=True,
        ),
        Operation(
            "list_sessions",
            "List sessions",
            "All sessions, with what each is doing.",
            ListSessionsInput,
            r.ListSessionsResult,
            read_only=True,
            idempotent=True,
        ),
        Operation(
            "get_session",
            "Get session",
            "All facts about one session: program, foreground process, mode, cursor, exit status, usage.",
            GetSessionInput,
            r.SessionFacts,
            read_only=True,
            idempotent=True,
        ),
        Operation(
            "run",
            "Run command",
            "Run a command in a live shell and get its complete output and exit code in one call. cd, export and "
            "functions persist. Still running at timeout_ms: completed is false, it goes on; then use read with "
            "wait_for=ready. For programs that ask or draw (REPL, vim, less) use send.",
            RunInput,
            r.RunResult,
            destructive=True,
            open_world=True,
        ),
        Operation(
            "send",
            "Send input",
            "Type text and press keys in a session, wait until the program has dealt with it, and return what it "
            "printed or its screen. Order: text, key, keys, Enter.",
            SendInput,
            r.SendResult,
            destructive=True,
            open_world=True,
        ),
        Operation(
            "read",
            "Read output",
            "New output of a session since your last read, its screen, or raw bytes; can first wait for ready "
            "(program waits for input), idle, a pattern, or exit.",
            ReadInput,
            r.ReadResult,
            read_only=True,
        ),
        Operation(
            "search",
            "Search output",
            "Find a regex in everything a session printed, also what scrolled away. Each match has an offset for "
            "read since=.",
            SearchInput,
            r.SearchResult,
            read_only=True,
            idempotent=True,
        ),
        Operation(
            "resize",
            "Resize terminal",
            "Set a session's terminal size, and how many lines its scrollback keeps.",
            ResizeInput,
            r.ResizeResult,
            idempotent=True,
        ),
        Operation(
            "signal",
            "Send signal",
            "Send a signal to the foreground program or to all processes of a session.",
            SignalInput,
            r.SignalResult,
            destructive=True,
        ),
        Operation(
            "screenshot",
            "Screenshot",
            "A picture of the screen with its colours. For its text use read: it costs less.",
            ScreenshotInput,
            r.ScreenshotResult,
            read_only=True,
        ),
        Operation(
            "mouse",
            "Mouse",
            "Click, drag or scroll in a program that listens to the mouse; rows and columns from 0.",
            MouseInput,
            r.MouseResult,
            destructive=True,
            open_world=True,
        ),
        Operation(
            "run_process",
            "Run process",
            "Run one program without terminal or shell until it ends: exit code, stdout and stderr apart. All that "
            "it starts ends with it. For what asks, draws, or should go on use run or create_session.",
            RunProcessInput,
            r.RunProcessResult,
            destructive=True,
            open_world=True,
        ),
        Operation(
            "read_file",
            "Read file",
            "A file or a piece of it: bytes from offset, or lines. Base64 if it is not UTF-8.",
            ReadFileInput,
            r.ReadFileResult,
            read_only=True,
            idempotent=True,
        ),
        Operation(
            "write_file",
            "Write file",
            "Write a whole file at one stroke, in place of what was there.",
            WriteFileInput,
            r.WriteFileResult,
            destructive=True,
            idempotent=True,
        ),
        Operation(
            "list_directory",
            "List directory",
            "Names, types, modes, sizes and times in a directory.",
            ListDirectoryInput,
            r.ListDirectoryResult,
            read_only=True,
            idempotent=True,
        ),
        Operation(
            "health",
            "Health",
            "Versions, limits and checks of this server.",
            HealthInput,
            r.HealthResult,
            read_only=True,
            idempotent=True,
        ),
    )
}
