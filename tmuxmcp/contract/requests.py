"""All operations: one request each, with the facts of the operation in the line above it.

The docstring is what a model reads; the order is that of every list. What a caller leaves out and a setting says is
marked `FromSetting`. `operations` has each as a method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from tmuxmcp.contract import results as r
from tmuxmcp.contract.request import (
    UNSET,
    AtMost,
    Bound,
    Content,
    FilePath,
    FromSetting,
    NamesCall,
    Request,
    SecretValues,
    Seldom,
    operation,
)
from tmuxmcp.contract.settings import Limits, SandboxWish
from tmuxmcp.contract.words import (
    EVERY_SESSION,
    WAIT_FOR_WORDS,
    Adopt,
    FilmFormat,
    PictureFormat,
    RecordedAs,
    SignalName,
    View,
    WaitFor,
    signal_name,
)

RESULT_MAX_BYTES = 16 * 1024 * 1024
"""The most that one result can be asked to hold."""

SessionId = Annotated[str, Field(description="Left out: yours"), Bound()]
MaxBytes = Annotated[
    int, Field(ge=1, le=RESULT_MAX_BYTES, description="Most bytes of text"), FromSetting("max_bytes"), Bound()
]
TimeoutMs = Annotated[int, Field(ge=0, description="Longest wait"), AtMost("max_wait_ms"), Bound()]
AtMs = Annotated[int | None, Field(description="A past screen: ms since its start; negative: ago"), Seldom()]
Rows = Annotated[int, Field(ge=1, le=500)]
Cols = Annotated[int, Field(ge=1, le=500)]
LineCount = Annotated[int, Field(ge=0, le=1_000_000)]
Format = Annotated[Literal["plain", "ansi"], Field(description="ansi: with colours")]
Pattern = Annotated[str, Field(description="Regex: output since you typed")]
IdleMs = Annotated[int, Field(ge=1, le=60_000, description="Silence that counts as idle")]
PromptPattern = Annotated[
    str,
    Field(description="Regex of a prompt: needed for ready"),
    FromSetting("prompt_pattern", only_told=True),
    Seldom(),
]
RequestId = Annotated[
    str,
    Field(pattern="^([A-Za-z0-9_-]{8,64})?$", description="Yours: asking again with it does nothing twice"),
    Bound(),
    NamesCall(),
    Seldom(),
]
Generation = Annotated[
    int | None, Field(ge=1, description="An earlier session of that name: its number"), Bound(), Seldom()
]
Signalled = Annotated[SignalName, BeforeValidator(signal_name)]
Env = Annotated[dict[str, str], Field(description="Added to the environment"), SecretValues()]

LIMITS_SCHEMA = {
    "type": "object",
    "description": "Any of " + " ".join(Limits.model_fields),
    "additionalProperties": {"type": "number"},
}
"""In a sixth of the words that the model would make."""


class Placement(BaseModel):
    """On which of many machines a session is made."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    node: str = ""
    """Name of the machine; empty: one that fits."""
    labels: dict[str, str] = Field(default_factory=dict)
    """What the machine has to have."""


PLACEMENT_SCHEMA = {
    "type": "object",
    "description": "Of many machines: which",
    "properties": {
        "node": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": False,
}

SomeLimits = Annotated[Limits | None, WithJsonSchema(LIMITS_SCHEMA), Seldom()]


def _any_of(*words: str) -> tuple[PlainValidator, WithJsonSchema]:
    """One of these words, or a list of them: any one of those ends a wait."""

    def check(given: object) -> object:
        wanted = [given] if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else []
        if not wanted or not all(each in words for each in wanted) or (len(wanted) > 1 and "none" in wanted):
            message = "Input should be {words}, or a list of these"
            raise PydanticCustomError("any_of", message, {"words": ", ".join(words)})
        return given if isinstance(given, str) else tuple(wanted)

    return PlainValidator(check), WithJsonSchema({"enum": [*words], "type": "string", "description": "Or a list"})


WaitForAny = Annotated[WaitFor | Sequence[WaitFor], *_any_of(*WAIT_FOR_WORDS)]
WaitedFor = Literal["ready", "command", "pattern", "output", "exit", "needs_you"]

KEY_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        },
    ]
}


def _key(given: object) -> object:
    """A key, or text between keys."""
    if isinstance(given, str) or (isinstance(given, dict) and [*given] == ["text"] and isinstance(given["text"], str)):
        return given
    raise PydanticCustomError("key", 'Input should be the name of a key, or {{"text": ...}}')


def _several(given: object) -> object:
    """A list of keys; one alone makes a list, too."""
    return [given] if isinstance(given, str | dict) else given


Key = Annotated[str | Mapping[str, str], PlainValidator(_key), WithJsonSchema(KEY_SCHEMA)]


STEPS_SCHEMA = {"type": "array", "items": {"type": "object", "additionalProperties": True}}

Steps = Annotated[
    Sequence[Mapping[str, Any]],
    BeforeValidator(lambda given: [given] if isinstance(given, dict) else given),
    WithJsonSchema(STEPS_SCHEMA),
]


def _bracketed(given: object) -> object:
    """True and False, as other servers have it, for `always` and `never`."""
    return {True: "always", False: "never"}[given] if isinstance(given, bool) else given


# ---- sessions ------------------------------------------------------------------------------------


@operation("Create session", r.CreateSessionResult, tools="core", acts="pane", repeatable=False, open_world=True)
class CreateSession(Request[r.CreateSessionResult]):
    """Start a program in a terminal of its own that lives on when you disconnect. Not needed for shell
    commands: run makes a default session. Give a name to find it again and to share it.

    Raises:
        SessionExists, MaxSessions, ProgramNotFound, CwdNotFound, PolicyDenied, InvalidArgument, Unsupported,
        HostUnreachable, TmuxFailed
    """

    program: Annotated[str, Field(description="Left out: the login shell"), FromSetting("program", only_told=True)] = ""
    args: Annotated[Sequence[str], Field(description="Its arguments, exact: no shell")] = Field(default_factory=list)
    name: Annotated[str, Field(description="Becomes the session id")] = ""
    rows: Annotated[Rows, FromSetting("rows")] = UNSET
    cols: Annotated[Cols, FromSetting("cols")] = UNSET
    env: Env = Field(default_factory=dict)
    cwd: Annotated[str, Field(description="Working directory"), FilePath(), FromSetting("cwd", only_told=True)] = ""
    wait_ready: Annotated[Literal["auto"] | bool, Field(description="auto: wait if it is a shell")] = "auto"
    ready_timeout_ms: Annotated[int, Field(ge=0), AtMost("max_wait_ms"), Bound()] = 5000
    scrollback_lines: Annotated[LineCount, FromSetting("scrollback_lines"), Seldom()] = UNSET
    limits: SomeLimits = None
    sandbox: Annotated[SandboxWish, FromSetting("sandbox", only_told=True)] = "none"
    record: Annotated[Literal["on_failure"] | bool, Field(description="Record it from its start"), Seldom()] = False
    host: Annotated[str, Field(description="user@box[:port], by ssh")] = ""
    placement: Annotated[Placement | None, WithJsonSchema(PLACEMENT_SCHEMA), Bound(), Seldom()] = None
    request_id: RequestId = ""


@operation(
    "Destroy session",
    r.DestroySessionResult,
    tools="core",
    acts="pane",
    session="named",
    destructive=True,
    repeatable=True,
)
class DestroySession(Request[r.DestroySessionResult]):
    """End a session and every process in it. Its log stays on disk.

    Raises:
        SessionNotFound, SessionTaken, Unauthorized
    """

    session_id: Annotated[str, Field(description="Session id"), Bound()]
    force: Annotated[bool, Field(description="Kill at once")] = False
    signal: Annotated[Signalled, Seldom()] = "TERM"
    grace_ms: Annotated[int, Field(ge=0, le=60_000, description="Time to end by itself")] = 2000


@operation("List sessions", r.ListSessionsResult, tools="core", acts="nothing", read_only=True, repeatable=True)
class ListSessions(Request[r.ListSessionsResult]):
    """All sessions, with what each is doing.

    Raises:
        InvalidArgument
    """

    include_exited: bool = True
    limit: Annotated[int, Field(ge=1, le=EVERY_SESSION, description="Most rows"), Seldom()] = 100
    after: Annotated[str, Field(max_length=200, description="next_after of the rows before"), Bound(), Seldom()] = ""


@operation(
    "Get session", r.SessionFacts, tools="core", acts="nothing", session="default", read_only=True, repeatable=True
)
class GetSession(Request[r.SessionFacts]):
    """All facts about one session: program, foreground process, mode, cursor, exit status, why it ended, usage.

    Raises:
        SessionNotFound
    """

    session_id: SessionId = ""
    generation: Generation = None


# ---- commands and keys ---------------------------------------------------------------------------


@operation(
    "Run command",
    r.RunResult,
    tools="core",
    acts="pane",
    repeatable=False,
    session="default",
    types=True,
    destructive=True,
    open_world=True,
    long=True,
)
class Run(Request[r.RunResult]):
    """Run a command in a live shell and get its complete output and exit code in one call. cd, export and
    functions persist. Still running at timeout_ms: completed is false, it goes on; then read with
    wait_for=command gives its exit code. For programs that ask or draw (REPL, vim, less) use send.

    Raises:
        NotAShell, AdoptionFailed, SessionBusy, IncompleteCommand, SessionExited, SessionNotFound, ResourceLimit,
        SessionTaken, Unsupported, IoError
    """

    command: Annotated[str, Field(description="Shell command; may have several lines"), Content()]
    session_id: SessionId = ""
    stdin: Annotated[str | None, Field(description="Read instead of the terminal"), Content(shown=False)] = None
    timeout_ms: TimeoutMs = 30_000
    idle_ms: Annotated[
        int, Field(ge=0, le=60_000, description="Come back after so much silence; 0: not for that"), Bound(), Seldom()
    ] = 0
    max_bytes: MaxBytes = UNSET
    wait_for: Annotated[
        Literal["auto", "command"], Field(description="auto: come back when it asks for input"), Bound()
    ] = "auto"
    adopt: Annotated[Adopt, Field(description="yes: a shell's prompt stands there (ssh, su)"), Bound()] = "auto"
    request_id: RequestId = ""
    pattern: Annotated[str, Field(description="Come back when this is printed"), Bound()] = ""


@operation(
    "Send input",
    r.SendResult,
    tools="core",
    acts="pane",
    repeatable=False,
    session="default",
    types=True,
    destructive=True,
    open_world=True,
    long=True,
)
class Send(Request[r.SendResult]):
    """Type text and press keys in a session, wait until the program has dealt with it, and return what it
    printed or its screen. Order: text, key, keys, Enter.

    Raises:
        NoInput, InvalidKey, InvalidPattern, InvalidArgument, SessionExited, SessionNotFound, SessionTaken,
        ResourceLimit, TimedOut, WrongMode, PermissionDenied, ConfirmationDeclined
    """

    text: Annotated[str, Field(description="Typed; a newline is Enter"), Content()] = ""
    key: Annotated[str, Field(description="One key: Up, F5, C-c, M-x, Enter, Down*5")] = ""
    keys: Annotated[
        Sequence[Key], BeforeValidator(_several), Field(description='Keys in order; {"text": ...} types'), Content()
    ] = Field(default_factory=list)
    ctrl: Annotated[bool, Seldom()] = False
    alt: Annotated[bool, Seldom()] = False
    shift: Annotated[bool, Seldom()] = False
    enter: Annotated[bool, Field(description="Press Enter at the end")] = False
    steps: Annotated[
        Steps,
        Field(
            description="Several sends, each {text, key, enter, wait_for, pattern, timeout_ms}, till one ends otherwise"
        ),
    ] = Field(default_factory=list)
    session_id: SessionId = ""
    data_base64: Annotated[str, Field(description="Exact bytes, in place of text"), Content(), Seldom()] = ""
    secret: Annotated[
        str, Field(description="Name of a secret of the settings: typed, with Enter, if mode is password"), Seldom()
    ] = ""
    bracketed_paste: Annotated[Literal["auto", "always", "never"], BeforeValidator(_bracketed), Seldom()] = "auto"
    read: Annotated[
        Literal["auto", "none", "new", "screen", "diff"],
        Field(description="auto: changed rows of a full-screen program, else new text; none: do not wait"),
    ] = "auto"
    wait_for: WaitForAny = "ready"
    timeout_ms: TimeoutMs = 5000
    format: Annotated[Format, Seldom()] = "plain"
    pattern: Pattern = ""
    idle_ms: Annotated[IdleMs, Seldom()] = 300
    prompt_pattern: PromptPattern = ""
    max_bytes: MaxBytes = UNSET
    request_id: RequestId = ""


@operation(
    "Read output",
    r.ReadResult,
    tools="core",
    acts="nothing",
    repeatable=False,
    session="default",
    read_only=True,
    long=True,
)
class Read(Request[r.ReadResult]):
    """New output of a session since your last read, its screen, or raw bytes; can first wait for ready
    (program waits for input), command (the end of yours, its exit code), idle, a pattern, or exit.

    Raises:
        InvalidPattern, InvalidArgument, NotRetained, SessionNotFound, TimedOut, IoError
    """

    view: Annotated[
        View,
        Field(description="new: text since your last read; diff: changed screen rows; raw: log bytes, base64"),
    ] = "new"
    session_id: SessionId = ""
    command: Annotated[int | None, Field(ge=-1, description="This command's output, by number; -1: the last")] = None
    at_ms: AtMs = None
    at_offset: Annotated[
        int | None, Field(ge=0, description="view=screen: the past screen, after so many bytes of output"), Seldom()
    ] = None
    since: Annotated[int | None, Field(ge=0, description="Start at this offset; moves no cursor")] = None
    offset: Annotated[int | None, Field(ge=0, description="scrollback: first line, from 0; else the last")] = None
    limit: Annotated[int, Field(ge=1, le=100_000, description="scrollback: most lines")] = 1000
    wait_for: WaitForAny = "none"
    timeout_ms: TimeoutMs = 30_000
    format: Format = "plain"
    pattern: Pattern = ""
    idle_ms: IdleMs = 300
    prompt_pattern: PromptPattern = ""
    max_bytes: MaxBytes = UNSET
    screen_id: Annotated[str, Field(description="diff, changed: since this screen, not your last look"), Seldom()] = ""
    generation: Generation = None


@operation(
    "List commands",
    r.ListCommandsResult,
    tools="core",
    acts="nothing",
    session="default",
    read_only=True,
    repeatable=True,
)
class ListCommands(Request[r.ListCommandsResult]):
    """The commands a session's shell ran, whoever typed them: text, exit code, time, offsets. Newest last.

    Raises:
        SessionNotFound
    """

    session_id: SessionId = ""
    limit: Annotated[int, Field(ge=1, le=1000, description="The newest so many")] = 20
    before: Annotated[int | None, Field(ge=1, description="Only numbers below this")] = None
    failed_only: Annotated[bool, Field(description="Exit code other than 0")] = False
    generation: Generation = None


@operation("Wait for sessions", r.WaitResult, tools="core", acts="nothing", repeatable=False, read_only=True)
class Wait(Request[r.WaitResult]):
    """Wait for the first of several sessions: ready, command (ended), pattern, output, exit, needs_you (a secret or
    person is asked). What you have read is no news; timeout_ms 0: how things stand.

    Raises:
        SessionNotFound, InvalidPattern, InvalidArgument, TimedOut
    """

    session_ids: Annotated[Sequence[str], Field(description="Left out: all that are yours or named"), Bound()] = Field(
        default_factory=list
    )
    wait_for: Annotated[WaitedFor | Sequence[WaitedFor], *_any_of(*get_args(WaitedFor))] = "ready"
    patterns: Annotated[Sequence[str], Field(max_length=20)] = Field(default_factory=list)
    timeout_ms: TimeoutMs = 30_000
    command: Annotated[int | None, Field(ge=1, description="This command's end, of one session"), Bound(), Seldom()] = (
        None
    )


@operation(
    "Search output", r.SearchResult, tools="core", acts="nothing", session="default", read_only=True, repeatable=True
)
class Search(Request[r.SearchResult]):
    """Find a regex in everything a session printed. Each match has an offset for read since=.

    Raises:
        InvalidPattern, SessionNotFound, TimedOut
    """

    pattern: Annotated[str, Field(description="Regex, put to each line; (?i) ignores case")]
    session_id: SessionId = ""
    limit: Annotated[int, Field(ge=1, le=10_000, description="Most matches")] = 100
    context: Annotated[int, Field(ge=0, le=50, description="Lines around each match")] = 0
    generation: Generation = None


# ---- the terminal --------------------------------------------------------------------------------


@operation("Resize terminal", r.ResizeResult, tools="core", acts="pane", session="default", repeatable=True)
class Resize(Request[r.ResizeResult]):
    """Set a session's terminal size, and how many lines its scrollback keeps.

    Raises:
        SessionExited, SessionNotFound, SessionTaken, InvalidArgument
    """

    rows: Rows | None = None
    cols: Cols | None = None
    scrollback_lines: Annotated[LineCount | None, Field(description="Lines that scrollback keeps"), Seldom()] = None
    session_id: SessionId = ""


@operation(
    "Send signal", r.SignalResult, tools="core", acts="pane", repeatable=False, session="default", destructive=True
)
class Signal(Request[r.SignalResult]):
    """Send a signal to the foreground program or to all processes of a session.

    Raises:
        SessionExited, SessionNotFound, SessionTaken
    """

    signal: Signalled
    target: Literal["foreground", "session"] = "foreground"
    session_id: SessionId = ""


@operation(
    "Screenshot", r.ScreenshotResult, tools="core", acts="nothing", session="default", read_only=True, repeatable=True
)
class Screenshot(Request[r.ScreenshotResult]):
    """A picture of the screen, with colours. For text use read: it costs less.

    Raises:
        Unsupported, InvalidArgument, NotRetained, TimedOut, IoError, SessionNotFound
    """

    format: PictureFormat = "png"
    at_ms: AtMs = None
    session_id: SessionId = ""


@operation(
    "Mouse",
    r.MouseResult,
    tools="core",
    acts="pane",
    repeatable=False,
    session="default",
    types=True,
    destructive=True,
    open_world=True,
)
class Mouse(Request[r.MouseResult]):
    """Click, drag or scroll in a program that listens to the mouse; rows and columns from 0.

    Raises:
        WrongMode, Unsupported, InvalidArgument, SessionExited, SessionNotFound, SessionTaken
    """

    action: Literal["click", "press", "release", "move", "scroll_up", "scroll_down"]
    row: Annotated[int | None, Field(ge=0)] = None
    col: Annotated[int | None, Field(ge=0)] = None
    on_text: Annotated[str, Field(description="Or a text on screen; with row: in that row")] = ""
    button: Literal["left", "middle", "right"] | None = None
    session_id: SessionId = ""


# ---- people --------------------------------------------------------------------------------------


@operation("Ask a person", r.RequestUserInputResult, tools="human", acts="pane", repeatable=False, session="default")
class RequestUserInput(Request[r.RequestUserInputResult]):
    """Have a person type what you cannot or must not (password, code, choice) into a session, and wait.
    outcome waiting: call again with request_id.

    Raises:
        InvalidArgument, SessionExited, SessionNotFound, ResourceLimit, IoError
    """

    message: Annotated[str, Field(max_length=4000, description="What to do, in your words")] = ""
    secret: Annotated[bool, Field(description="Nobody else may see it")] = False
    timeout_s: Annotated[int, Field(ge=1, le=86_400), Bound()] = 300
    request_id: Annotated[str, Field(pattern="^([A-Za-z0-9_-]{8,64})?$", description="Go on waiting")] = ""
    session_id: SessionId = ""


# ---- the machine ---------------------------------------------------------------------------------


@operation(
    "Run process",
    r.RunProcessResult,
    tools="process",
    acts="process",
    repeatable=False,
    destructive=True,
    open_world=True,
    long=True,
)
class RunProcess(Request[r.RunProcessResult]):
    """Run one program without terminal or shell until it ends: exit code, stdout and stderr apart. All that
    it starts ends with it. For what asks, draws, or should go on use run or create_session.

    Raises:
        PolicyDenied, ProgramNotFound, CwdNotFound, InvalidArgument, ResourceLimit, Unsupported, IoError
    """

    argv: Annotated[Sequence[str], Field(min_length=1, description="Program, arguments: no shell")]
    cwd: Annotated[str, Field(description="Working directory"), FilePath(), FromSetting("cwd", only_told=True)] = ""
    env: Env = Field(default_factory=dict)
    stdin: Annotated[str, Content(shown=False)] = ""
    stdin_base64: Annotated[str, Content(shown=False)] = ""
    timeout_ms: Annotated[int, Field(ge=1, description="It is ended then"), AtMost("max_wait_ms"), Bound()] = 30_000
    max_output_bytes: Annotated[int, Field(ge=1, le=RESULT_MAX_BYTES, description="Of each stream"), Bound()] = 65_536
    limits: SomeLimits = None


Path = Annotated[
    str, Field(description="Absolute, with ~, or relative to files_root or the working directory"), FilePath()
]


@operation("Read file", r.ReadFileResult, tools="files", acts="file", read_only=True, repeatable=True, long=True)
class ReadFile(Request[r.ReadFileResult]):
    """A file or a piece of it: bytes from offset, or lines. Base64 if it is not UTF-8.

    Raises:
        PolicyDenied, FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, ResourceLimit, Unsupported,
        TimedOut, IoError
    """

    path: Path
    offset: Annotated[int | None, Field(ge=0, le=2**62, description="First byte")] = None
    max_bytes: Annotated[int, Field(ge=1, le=RESULT_MAX_BYTES), Bound()] = 65_536
    start_line: Annotated[int | None, Field(ge=1, description="First line, from 1; instead of offset")] = None
    end_line: Annotated[int | None, Field(ge=1, description="Last line, included")] = None


@operation("Write file", r.WriteFileResult, tools="files", acts="file", destructive=True, repeatable=True)
class WriteFile(Request[r.WriteFileResult]):
    """Write a whole file at one stroke, in place of what was there.

    Raises:
        PolicyDenied, FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, ResourceLimit, Unsupported,
        TimedOut, IoError
    """

    path: Path
    data: Annotated[str, Content(shown=False)]
    encoding: Annotated[Literal["utf-8", "base64"], Field(description="Of data")] = "utf-8"
    mode: Annotated[
        Annotated[str, Field(pattern="^(0o)?0?[0-7]{3}$")] | Annotated[int, Field(ge=0, le=0o777)] | None,
        Field(description='Octal, "0644"; left out: as it was'),
    ] = None
    create_dirs: Annotated[bool, Field(description="Make directories that are missing")] = False


@operation("List directory", r.ListDirectoryResult, tools="files", acts="file", read_only=True, repeatable=True)
class ListDirectory(Request[r.ListDirectoryResult]):
    """Names, types, modes, sizes and times in a directory.

    Raises:
        PolicyDenied, FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, Unsupported, TimedOut, IoError
    """

    path: Path
    limit: Annotated[int, Field(ge=1, le=10_000, description="Most entries")] = 1000


# ---- git -----------------------------------------------------------------------------------------

GitPath = Annotated[
    str, Field(description="The repository, or a file or directory in it: then only that; as in read_file"), FilePath()
]
Ref = Annotated[
    str, Field(pattern=r"^([^-\s][^\x00-\x1f]*)?$", max_length=1000, description="Branch, tag, commit, or a range a..b")
]


@operation("Git status", r.GitStatusResult, tools="git", acts="file", read_only=True, repeatable=True)
class GitStatus(Request[r.GitStatusResult]):
    """Branch and changed files of a git repository. Nothing that the repository names is run: no hook, no filter.

    Raises:
        FileMissing, InvalidArgument, PathOutsideRoot, PermissionDenied, ProgramNotFound, PolicyDenied, Unsupported,
        ResourceLimit, TimedOut, IoError
    """

    path: GitPath


@operation("Git log", r.GitLogResult, tools="git", acts="file", read_only=True, repeatable=True, long=True)
class GitLog(Request[r.GitLogResult]):
    """Commits of a git repository, newest first.

    Raises:
        As git_status.
    """

    path: GitPath
    limit: Annotated[int, Field(ge=1, le=1000, description="Most commits")] = 20
    ref: Ref = ""
    max_bytes: Annotated[int, Field(ge=1, le=RESULT_MAX_BYTES), Bound()] = 65_536


@operation("Git diff", r.GitDiffResult, tools="git", acts="file", read_only=True, repeatable=True, long=True)
class GitDiff(Request[r.GitDiffResult]):
    """What has changed: the working tree against the last commit, or against ref; with a range, between two commits.

    Raises:
        As git_status.
    """

    path: GitPath
    ref: Ref = ""
    max_bytes: Annotated[int, Field(ge=1, le=RESULT_MAX_BYTES), Bound()] = 65_536


# ---- editors and pagers --------------------------------------------------------------------------


@operation(
    "Editor action",
    r.EditorActionResult,
    tools="helpers",
    acts="pane",
    repeatable=False,
    session="default",
    types=True,
    destructive=True,
    open_world=True,
)
class EditorAction(Request[r.EditorActionResult]):
    """Have vim, nvim or nano save, quit, go to a line or insert text at the cursor, whatever mode it is in. Types
    nothing when another program is in front. quit gives up no changes.

    Raises:
        WrongMode, InvalidArgument, SessionExited, SessionNotFound, SessionTaken
    """

    action: Literal["save", "quit", "save_quit", "goto", "insert"]
    session_id: SessionId = ""
    line: Annotated[int | None, Field(ge=1, le=2**31 - 1, description="For goto, from 1")] = None
    text: Annotated[str, Content(), Field(max_length=4000, description="For insert, as it is; no Escape")] = ""


@operation(
    "Pager action",
    r.PagerActionResult,
    tools="helpers",
    acts="pane",
    repeatable=False,
    session="default",
    types=True,
    open_world=True,
)
class PagerAction(Request[r.PagerActionResult]):
    """Have less or more (also behind man and git) show the next or previous screen, search (less), or quit. Types
    nothing when another program is in front.

    Raises:
        WrongMode, Unsupported, InvalidArgument, SessionExited, SessionNotFound, SessionTaken
    """

    action: Literal["next", "prev", "search", "quit"]
    session_id: SessionId = ""
    text: Annotated[str, Content(), Field(max_length=1000, description="For search: the pager's regex")] = ""


# ---- radare2 -------------------------------------------------------------------------------------

R2Id = Annotated[str, Field(description="From r2_open")]
R2TimeoutMs = Annotated[int, Field(ge=1, description="It is ended then"), AtMost("max_wait_ms"), Bound()]
R2Command = Annotated[str, Field(description="One command"), Content(shown=False)]


@operation(
    "Open in radare2", r.R2OpenResult, tools="r2", acts="process", repeatable=False, destructive=True, open_world=True
)
class R2Open(Request[r.R2OpenResult]):
    """Open a file in radare2 or rizin, for r2_cmd and r2_cmdj. Four can be open; end each with r2_close.

    Raises:
        ProgramNotFound, FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, PolicyDenied, Unsupported,
        ResourceLimit, TimedOut, IoError
    """

    path: Annotated[str, Field(description="As in read_file"), FilePath()]
    args: Annotated[Sequence[str], Field(max_length=100, description="Options before it, such as -A or -w")] = Field(
        default_factory=list
    )
    timeout_ms: R2TimeoutMs = 30_000


@operation(
    "radare2 command",
    r.R2CmdResult,
    tools="r2",
    acts="process",
    repeatable=False,
    destructive=True,
    open_world=True,
    long=True,
)
class R2Cmd(Request[r.R2CmdResult]):
    """Have radare2 do one command; its answer as text. !program runs a program.

    Raises:
        SessionNotFound, SessionBusy, InvalidArgument, PolicyDenied, TimedOut, IoError
    """

    r2_id: R2Id
    command: R2Command
    timeout_ms: R2TimeoutMs = 30_000
    max_bytes: Annotated[int, Field(ge=1, le=RESULT_MAX_BYTES), Bound()] = 65_536


@operation(
    "radare2 JSON",
    r.R2CmdjResult,
    tools="r2",
    acts="process",
    repeatable=False,
    destructive=True,
    open_world=True,
    long=True,
)
class R2Cmdj(Request[r.R2CmdjResult]):
    """Have radare2 do one command that answers in JSON, such as ij, aflj or pdj 10.

    Raises:
        SessionNotFound, SessionBusy, InvalidArgument, PolicyDenied, ResourceLimit, TimedOut, IoError
    """

    r2_id: R2Id
    command: R2Command
    timeout_ms: R2TimeoutMs = 30_000
    max_bytes: Annotated[int, Field(ge=1, le=RESULT_MAX_BYTES), Bound()] = 1_048_576


@operation("Close radare2", r.R2CloseResult, tools="r2", acts="process", repeatable=False, destructive=True)
class R2Close(Request[r.R2CloseResult]):
    """End what r2_open has started, and all that runs below it.

    Raises:
        SessionNotFound
    """

    r2_id: R2Id


# ---- gdb -----------------------------------------------------------------------------------------

GdbId = Annotated[str, Field(description="As gdb_open gave it")]


@operation("Open gdb", r.GdbOpenResult, tools="gdb", acts="process", repeatable=False, open_world=True)
class GdbOpen(Request[r.GdbOpenResult]):
    """Start gdb on a program, a core file or a running process. The program's input and output are in a session of
    their own: send and read. It ends with that session, or when you disconnect.

    Raises:
        FileMissing, InvalidArgument, PathOutsideRoot, PolicyDenied, ProgramNotFound, ResourceLimit, MaxSessions,
        Unsupported, TimedOut, IoError
    """

    path: Annotated[str, Field(description="The program"), FilePath()] = ""
    args: Annotated[Sequence[str], Field(description="Its arguments, exact")] = Field(default_factory=list)
    core: Annotated[str, Field(description="A core file of it"), FilePath()] = ""
    pid: Annotated[int | None, Field(ge=1, description="Attach to this process")] = None


@operation(
    "Command gdb",
    r.GdbCmdResult,
    tools="gdb",
    acts="process",
    repeatable=False,
    destructive=True,
    open_world=True,
    long=True,
)
class GdbCmd(Request[r.GdbCmdResult]):
    """Give gdb one command: of its console (break main, run, bt) or of GDB/MI (-stack-list-frames). Comes back when the
    program stops. After a timeout it runs on: interrupt stops it, an empty command waits on.

    Raises:
        InvalidArgument, PolicyDenied, SessionTaken, TimedOut, IoError
    """

    gdb_id: GdbId
    command: Annotated[str, Field(max_length=4000, pattern=r"^[^\x00-\x1f]*$", description="One line")]
    timeout_ms: TimeoutMs = 10_000


@operation("Close gdb", r.GdbCloseResult, tools="gdb", acts="process", repeatable=False, destructive=True)
class GdbClose(Request[r.GdbCloseResult]):
    """End gdb, the program that it started, and its session. A process that it was attached to lives on.

    Raises:
        InvalidArgument, PolicyDenied, SessionTaken
    """

    gdb_id: GdbId


# ---- recordings ----------------------------------------------------------------------------------

RecordingPath = Annotated[
    str, Field(description="As for write_file; left out: in the session's own directory"), FilePath()
]
IdleLimitS = Annotated[float | None, Field(ge=0, le=1e9, description="No pause is longer")]


@operation(
    "Start recording", r.StartRecordingResult, tools="recording", acts="file", repeatable=False, session="default"
)
class StartRecording(Request[r.StartRecordingResult]):
    """Record what a session prints from now on, to a file that is not there yet, until stop_recording or its end.

    Raises:
        RecordingState, PathOutsideRoot, FileMissing, PermissionDenied, InvalidArgument, PolicyDenied, Unsupported,
        TimedOut, IoError, SessionExited, SessionNotFound
    """

    session_id: SessionId = ""
    path: RecordingPath = ""
    format: RecordedAs = "cast"
    input: Annotated[bool, Field(description="Also what is typed, where the terminal shows it")] = False
    idle_limit_s: IdleLimitS = None


@operation("Stop recording", r.StopRecordingResult, tools="recording", acts="file", repeatable=False, session="default")
class StopRecording(Request[r.StopRecordingResult]):
    """End the recording of a session and write its file.

    Raises:
        RecordingState, ResourceLimit, Unsupported, TimedOut, IoError, SessionNotFound
    """

    session_id: SessionId = ""


@operation(
    "Export recording", r.ExportRecordingResult, tools="recording", acts="file", repeatable=False, session="default"
)
class ExportRecording(Request[r.ExportRecordingResult]):
    """Write what a session did to a file that is not there yet: a recording for asciinema (cast), its text,
    a moving picture or JSON lines. All of it, a stretch, or one command. Nothing needs to be recorded before.

    Raises:
        NotRetained, PathOutsideRoot, FileMissing, PermissionDenied, InvalidArgument, ResourceLimit, PolicyDenied,
        Unsupported, TimedOut, IoError, SessionNotFound
    """

    session_id: SessionId = ""
    format: FilmFormat = "cast"
    path: RecordingPath = ""
    from_ms: Annotated[int | None, Field(description="Since it was made; negative: before now or its end")] = None
    to_ms: Annotated[int | None, Field(description="The same")] = None
    command: Annotated[int | None, Field(description="Only this command's output; -1: the last one's")] = None
    speed: Annotated[float, Field(ge=0.01, le=1000)] = 1.0
    idle_limit_s: IdleLimitS = None
    generation: Generation = None


@operation("Health", r.HealthResult, tools="core", acts="nothing", read_only=True, repeatable=True)
class Health(Request[r.HealthResult]):
    """Versions, limits and checks of this server."""
