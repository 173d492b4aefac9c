"""What each operation answers: the contract's fields, in the order a model reads them.

Small fields first, big text last: clients that cut a long result keep its head. A field that is
named here is always present; what is not known is `None`, never guessed. Sizes are bytes, times
milliseconds, offsets byte offsets into the session's raw log, rows and columns 0-based but in sizes.

Annotations are no texts here: pydantic would compile each of some five hundred for the schemas of a server.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, dataclass_transform

from tmuxmcp.contract.settings import SandboxLevel
from tmuxmcp.contract.value import MISSING, field, fields, value
from tmuxmcp.contract.words import FileKind, FilmFormat, PictureFormat, RecordedAs, RecordingStage, View, Where

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema

Mode = Literal[
    "shell_prompt",
    "running",
    "line_input",
    "password",
    "pager",
    "editor",
    "fullscreen",
    "stopped",
    "exited",
    "lost",
    "unknown",
]
Evidence = Literal["marks", "kernel", "prompt", "quiet"]
Outcome = Literal[
    "ready", "command", "idle", "matched", "output", "needs_you", "left", "taken", "exited", "timeout", "immediate"
]
HandedReason = Literal["key", "release", "detach", "timeout"]
EndReason = Literal["exit", "signal", "memory", "cpu", "duration", "idle", "destroyed", "lost"]
KeptBy = Literal["cgroup", "rlimit", "broker", "nobody"]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Result:
    """Base of all results."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]
        """By which mypy lets `replace` have a result of whatever class."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "json_schema_serialization_defaults_required": True}

    def __init_subclass__(cls) -> None:
        value(cls, kw_only=True)

    contents: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that hold what a program printed, or what a file holds."""

    @property
    def parts(self) -> "list[Result]":
        """Results inside of this one that have such fields."""
        return []

    @classmethod
    @cache
    def adapter(cls) -> "TypeAdapter[Self]":
        """Checks JSON that came from elsewhere, and makes the schema. Made when wanted: most commands want none."""
        from pydantic import TypeAdapter

        return TypeAdapter(cls)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        taken = []
        for name, each in fields(cls).items():
            schema = handler.generate_schema(each.type)
            if each.default is not MISSING:
                schema = core_schema.with_default_schema(schema, default=each.default)
            elif each.default_factory is not MISSING:
                schema = core_schema.with_default_schema(schema, default_factory=each.default_factory)
            taken.append(core_schema.dataclass_field(name, schema, kw_only=True))
        checked = core_schema.dataclass_args_schema(cls.__name__, taken, extra_behavior="forbid")
        return core_schema.dataclass_schema(cls, checked, list(fields(cls)), ref=f"{cls.__module__}.{cls.__name__}")


class CursorPosition(Result):
    """Where the terminal's cursor is."""

    row: int
    col: int
    visible: bool


class Foreground(Result):
    """The program that the terminal's input goes to."""

    pid: int
    command: str
    """Its command line, bounded."""


class Usage(Result):
    """What the session's processes use together."""

    cpu_ms: int
    rss_bytes: int
    processes: int


class AppliedLimit(Result):
    """A limit of a session, and who sees to it."""

    name: str
    """As in `limits`."""
    value: float
    kept_by: KeptBy


class Highlight(Result):
    """A stretch of reverse video: the chosen row of a menu, a search hit."""

    row: int
    col: int
    text: str


class Ended(Result):
    """Why nothing runs in a session any more."""

    reason: EndReason
    """What ended it."""
    by: str | None
    """The caller who destroyed it."""
    at: str | None
    """ISO 8601, UTC."""


class ShellInFront(Result):
    """A shell that tells where its commands end."""

    kind: str
    """Its name."""
    where: Where
    """The session's own program; another process of this machine; one that no process here is known to be."""
    level: int
    """How many such shells it is in front of; 0: the session's own."""
    adopted: bool
    """Our marks were typed into it."""
    host: str | None
    """The machine that it runs on, where that is another one and known."""


class ShellLevel(Result):
    """One of the shells of a session, of which each is in front of the one before."""

    level: int
    """How many such shells it is in front of; 0: the session's own."""
    kind: str
    """Its name."""
    state: str
    """`prompt`, `running`, `continuation`: a command is not complete; `starting`: between two prompts."""


class CreateSessionResult(Result):
    """A session that was made."""

    session_id: str
    program: str
    args: list[str]
    pid: int
    """The program's own, not its launcher's."""
    created_at: str
    """ISO 8601, UTC."""
    cwd: str | None
    rows: int
    cols: int
    mode: Mode
    ready: bool
    """A program waits for input; in a shell that may be a question of a start-up file, as `mode` and `note` say."""
    attach_command: str
    replayed: bool = False
    """Another call with this `request_id` made it; this one made nothing."""
    note: str | None = None


class RecordingFacts(Result):
    """A recording that runs, or ended with its session."""

    state: RecordingStage
    """`stopped`: its file is still to be made; `discarded`: as nothing failed."""
    path: str | None
    """Where its file is, or will be; null: it was discarded."""
    format: RecordedAs
    input: bool
    """What is typed is part of it, where the terminal shows that."""
    started_at: str
    """ISO 8601, UTC."""
    bytes: int | None
    """Of its file; null while there is none."""
    duration_s: float | None
    """How long it plays; null while there is no file."""
    note: str | None


class DestroySessionResult(Result):
    """A session that is gone."""

    session_id: str
    destroyed: bool
    exit_code: int | None
    exit_signal: str | None
    duration_ms: int
    survivors: list[int]
    """Processes of the session that could not be ended."""
    recording: RecordingFacts | None = None
    """What became of the recording that ran."""
    note: str | None = None
    """That it had ended before, and how; null: this call ended it."""


class SessionSummary(Result):
    """A row of `list_sessions`."""

    session_id: str
    node: str | None = None
    """The machine that it lives on, where there are many; null: this one."""
    program: str
    args: list[str]
    mode: Mode
    ready: bool
    exited: bool
    exit_code: int | None
    exit_signal: str | None
    ended: Ended | None
    """Null while its program runs."""
    pid: int | None
    cwd: str | None
    title: str
    rows: int
    cols: int
    created_at: str
    last_activity_at: str | None
    output_bytes: int
    healthy: bool
    """False when something is wrong with the session that its owner should know; `get_session` says what."""
    pinned: bool = False
    """Its files stay, however old they become."""
    asks: int = 0
    """How many requests for input wait for a person."""


class ListSessionsResult(Result):
    """Sessions in the order of their making: those whose program runs, then those that are over."""

    count: int
    """How many there are in all: the list may have fewer."""
    default_session_id: str | None = None
    """The one that is meant where you name none; null: it is still to be made."""
    missing: list[str] | None = None
    """Of many machines those that did not answer: the list may not be whole; null: there is one machine."""
    note: str | None = None
    next_after: str | None = None
    """What `after` takes to list the others; null: there are none."""
    sessions: list[SessionSummary]


class TakenOver(Result):
    """Who holds a session, so that no call types into it."""

    by: str
    """A person's name; `pause`: it is paused."""
    since: str | None
    """ISO 8601, UTC."""


class Viewer(Result):
    """Somebody who looks at a session live."""

    kind: Literal["tmux", "page"]
    """In which program."""
    name: str
    """The user and the terminal; of a page the user whose page it is."""
    may_type: bool
    """False: what they press goes nowhere."""
    since: str
    """ISO 8601, UTC."""


class Command(Result):
    """A command that a session's shell ran."""

    number: int
    """Never used again in this session, and not without gaps: prompts at which nothing ran count as well."""
    text: str | None
    """A long one ends with `…`; null where nothing tells it."""
    exit_code: int | None
    """null: it runs, as far as is known; with `end_offset`: nobody told it."""
    started_at: str | None
    """ISO 8601, UTC, by the shell's clock."""
    duration_ms: int | None
    cwd: str | None
    """Working directory at its end."""
    start_offset: int
    """Where its output begins in the log."""
    end_offset: int | None


class AlsoEnded(Result):
    """A command that has ended too, and of which you were not told before."""

    number: int
    """As `list_commands` has it, with all else of it."""
    exit_code: int | None
    """null: nobody told it."""


class ListedCommand(Command):
    """A row of `list_commands`."""

    by: Literal["agent", "person", "other"]
    """Who typed it: `agent` is a call of ours, `person` whoever held the session then, `other` is whoever else."""
    level: int
    """Of the shell that ran it: 0 is the session's own."""
    stdin: bool = False
    """It read what `run` gave it as `stdin`, instead of the terminal."""


class HandedBack(Result):
    """That a person had taken the session over and gave it back since you last looked; of several times the last."""

    by: str
    """The person's name."""
    since: str | None
    """ISO 8601, UTC; null: not known."""
    until: str
    """ISO 8601, UTC; where tmux itself gave it back, to the second."""
    reason: HandedReason
    """By `take_key`, by `tmuxmcp release`, by leaving the terminal, or by doing nothing for `take_timeout_s`."""
    omitted_commands: int
    """How many more there were, before these."""
    commands: list[ListedCommand]
    """What was run meanwhile by the person, also in earlier times of which you were not told; newest last."""


class SessionFacts(Result):
    """All that is known of one session."""

    session_id: str
    node: str | None = None
    """The machine that it lives on, where there are many; null: this one."""
    generation: int
    """Which session of that name it is; an earlier one is read by this number."""
    program: str
    args: list[str]
    pid: int | None
    created_at: str
    """ISO 8601, UTC."""
    cwd: str | None
    rows: int
    cols: int
    cursor: CursorPosition | None
    title: str
    mode: Mode
    foreground: Foreground | None
    ready: bool
    exited: bool
    exit_code: int | None
    exit_signal: str | None
    ended: Ended | None
    """Null while its program runs."""
    healthy: bool
    """False when something is wrong with the session that its owner should know; `note` says what."""
    last_activity_at: str | None
    output_bytes: int
    alternate_screen: bool
    recording: bool
    """One runs."""
    recorded: RecordingFacts | None = None
    """The recording that runs, or that ended with the session; null: there is none."""
    taken_over: TakenOver | None
    """Null: nobody has taken it over."""
    viewers: list[Viewer] = field(default_factory=list)
    """Who looks at it live, the first first."""
    usage: Usage | None
    attach_command: str
    watch_url: str | None
    shell: ShellInFront | None = None
    """The one that run would use; null while another program is in front."""
    levels: list[ShellLevel] = field(default_factory=list)
    """Its shells that tell of their commands, the session's own first."""
    commands: int = 0
    """How many its shell ran, as far as it tells; with the one that runs."""
    host: str | None = None
    """The machine that its ssh leads to; null: its program runs here."""
    sandbox: SandboxLevel = "none"
    """What it runs in."""
    limits: list[AppliedLimit] = field(default_factory=list)
    """What it may use at most."""
    pinned: bool = False
    """Its files stay, however old they become."""
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""
    asks: int = 0
    """How many requests for input wait for a person."""
    note: str | None = None


class RunResult(Result):
    """The outcome of one command in a live shell."""

    contents = ("output",)

    session_id: str
    exit_code: int | None
    completed: bool
    outcome: Outcome
    evidence: Evidence | None
    duration_ms: int
    cwd: str | None
    mode: Mode
    ended: Ended | None = None
    """Why, if the shell has ended."""
    truncated: bool
    output_bytes: int
    """Raw bytes the command printed so far."""
    omitted_bytes: int
    """Raw bytes left out of `output`."""
    start_offset: int
    end_offset: int
    command_number: int | None = None
    """As `list_commands` has it; null when nothing ran, or it is not known which command was this one."""
    shell: ShellInFront | None = None
    """Which one ran it."""
    matched: str | None = None
    """The text that `pattern` matched."""
    also_ended: list[AlsoEnded] = field(default_factory=list)
    """As `read` has it."""
    effective_timeout_ms: int | None = None
    """Set when the time asked for was shortened to `max_wait_ms`."""
    sanitized: bool = False
    """Invisible characters were replaced by `<U+XXXX>`."""
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""
    replayed: bool = False
    """Another call with this `request_id` ran it; this one ran nothing."""
    note: str | None = None
    output: str


class WaitedSession(Result):
    """How one session stands when a wait over several ends."""

    session_id: str
    mode: Mode
    outcome: Outcome | None
    """What it has of what was waited for; null: nothing."""


class WaitResult(Result):
    """Which of several sessions was the first to have what was waited for."""

    session_id: str | None
    outcome: Outcome
    evidence: Evidence | None
    matched: str | None
    """The text that a pattern matched."""
    fresh: bool | None = None
    """As `read` has it."""
    pattern: str | None
    """Which of `patterns` that was."""
    command: Command | None = None
    """The command whose end ended the wait, or that had ended then; else null."""
    also_ended: list[AlsoEnded] = field(default_factory=list)
    """As `read` has it, of the session of `session_id`."""
    waited_ms: int
    effective_timeout_ms: int | None = None
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""
    missing: list[str] | None = None
    """Of many machines those that did not answer: nothing is known of their sessions; null: there is one machine."""
    note: str | None = None
    sessions: list[WaitedSession]


class ReadResult(Result):
    """What a session shows or printed."""

    contents = ("content",)

    session_id: str
    view: View
    outcome: Outcome
    evidence: Evidence | None
    mode: Mode | None
    """null, as the next three, of a past screen: they tell of now."""
    exited: bool | None
    exit_code: int | None
    ended: Ended | None = None
    """Why, if its program has ended."""
    rows: int
    cols: int
    cursor: CursorPosition | None
    title: str | None = ""
    """What the program calls its window; null of a past screen where that is not known."""
    matched: str | None
    """The text that `pattern` matched."""
    fresh: bool | None = None
    """false: you had been shown that text before; null: nothing matched."""
    waited_ms: int
    effective_timeout_ms: int | None = None
    has_new_content: bool
    truncated: bool
    omitted_bytes: int
    next_offset: int
    """Where the next piece starts: give it as `since`."""
    lines: int | None = None
    """Lines in `content`; of scrollback all that are kept, of which `content` may be a part. null for view=raw."""
    time: int | None = None
    """Milliseconds since the session was made, at the end of what was read; null where that is not known."""
    screen_id: str | None = None
    """What the screen of now shows, as a name of it: `read view=diff screen_id=...` tells what has changed since."""
    command: Command | None = None
    """The command that this answer speaks of: that of `command` or `wait_for=command`, else the last that ended since
    you were told; else null."""
    also_ended: list[AlsoEnded] = field(default_factory=list)
    """Others that have ended since you were told, newest first, five at most; `list_commands` has them all."""
    changed_rows: list[int] | None = None
    """With view=diff: the rows in `content`; null when that is the whole screen."""
    encoding: Literal["base64"] | None = None
    sanitized: bool = False
    approximate: bool = False
    """Of a past screen: not all that made it is known, so something may be missing or in another place."""
    highlights: list[Highlight] = field(default_factory=list)
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""
    note: str | None = None
    content: str


class SendStep(Result):
    """How one step of a `send` ended."""

    sent_bytes: int
    outcome: Outcome | None = None
    """Null: it was not waited for."""
    mode: Mode | None = None
    """Of the terminal then."""
    matched: str | None = None
    """The text that its `pattern` matched."""
    waited_ms: int = 0
    exit_code: int | None = None
    """Of the command that it waited for, with `wait_for=command`."""


class SendResult(Result):
    """What was typed, and what the session answered."""

    session_id: str
    sent_bytes: int
    """With steps: of all that were done."""
    steps_done: int | None = None
    """How many of the steps were typed; null: there were none."""
    steps: list[SendStep] = field(default_factory=list)
    """Those, in order; `result` is after the last of them, and has what was printed since the first."""
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""
    replayed: bool = False
    """Another call with this `request_id` typed it; this one typed nothing."""
    note: str | None = None
    result: ReadResult | None

    @property
    def parts(self) -> list[Result]:
        return [self.result] if self.result else []


class Match(Result):
    """A line in which a pattern was found."""

    line: int
    """Its number in the clean text of all that is kept, from 0."""
    offset: int
    """Where it begins in the log: give it to `read` as `since`."""
    text: str
    """The line; with `context`, the lines around it as well, one below the other."""


class ListCommandsResult(Result):
    """What a session's shell ran."""

    session_id: str
    count: int
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""
    note: str | None = None
    commands: list[ListedCommand]
    """Newest last."""


class SearchResult(Result):
    """Where a pattern was found in what a session printed."""

    session_id: str
    total: int
    """Lines that match, also those that are not among `matches`."""
    context: int
    """As asked for: before the matching line stand so many lines in `text`, or as many as there are."""
    truncated: bool
    """Not all of them are among `matches`, or not everything was searched; `note` says which."""
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""
    note: str | None = None
    matches: list[Match]
    """The first of them, in the order they were printed."""


class ResizeResult(Result):
    session_id: str
    rows: int
    cols: int
    scrollback_lines: int
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""


class SignalResult(Result):
    session_id: str
    delivered: bool
    pids: list[int]
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""


class MouseResult(Result):
    session_id: str
    sent: bool
    row: int
    """Where: on_text's first column."""
    col: int
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""


class RequestUserInputResult(Result):
    """What became of a request to a person."""

    session_id: str
    request_id: str
    """Give it to go on waiting."""
    outcome: Literal["done", "waiting", "timeout", "declined", "withdrawn", "exited"]
    duration_s: float
    """Since it was asked."""
    mode: Mode
    """Of the terminal now."""
    attach_command: str
    """How a person watches."""
    effective_timeout_ms: int | None = None
    """How long this call waited at most, where that was less than `timeout_s`."""
    note: str | None = None


class ProcessUsage(Result):
    """What a process and its descendants used, as far as the kernel tells."""

    cpu_ms: int
    max_rss_kb: int
    """Of the largest of them; what starts them counts, so never under about 9,000."""


class RunProcessResult(Result):
    """How a process ended, and what it printed."""

    contents = ("stdout", "stderr")

    rc: int | None
    """Exit code; null if a signal ended it."""
    signal: str | None
    """The signal that ended it, without SIG."""
    cwd: str
    """The directory that it ran in."""
    sandbox: SandboxLevel = "none"
    """The sandbox that it ran in: bubblewrap, landlock, limits or none."""
    timed_out: bool
    """The time was up: it was ended with all its descendants."""
    truncated: bool
    """The middle of a stream was left out."""
    encoding: Literal["utf-8", "base64"]
    """Of both streams; base64 if one of them is not UTF-8."""
    duration_ms: int
    usage: ProcessUsage
    stdout_bytes: int
    """Bytes printed in all."""
    stderr_bytes: int
    """Bytes printed in all."""
    effective_timeout_ms: int | None = None
    """Set when the time asked for was shortened: to `max_wait_ms`, or `duration_s` of the limits."""
    note: str | None = None
    stderr: str
    """What it printed there."""
    stdout: str
    """What it printed there."""


class ReadFileResult(Result):
    """A piece of a file."""

    contents = ("data",)

    size: int
    """Bytes of the whole file."""
    offset: int
    """Where `data` begins in the file."""
    next_offset: int
    """Where the next piece starts: give it as `offset`."""
    truncated: bool
    """There is more of what was asked for."""
    encoding: Literal["utf-8", "base64"]
    """base64 if the piece is not UTF-8."""
    data: str
    """The bytes from `offset` to `next_offset`."""


class WriteFileResult(Result):
    """A file that was written."""

    bytes: int
    """How many it has now."""


GitState = Literal["modified", "type_changed", "added", "deleted", "renamed", "copied", "unmerged", "untracked"]


class GitFile(Result):
    """A file that is not as the last commit has it."""

    path: str
    """In the working tree."""
    staged: GitState | None
    """What the next commit changes."""
    unstaged: GitState | None
    """What has changed since it was staged."""
    original_path: str | None
    """Renamed or copied: from where."""


class GitStatusResult(Result):
    """The branch, and what has changed."""

    root: str
    """The working tree."""
    branch: str | None
    """Null: no branch is checked out."""
    commit: str | None
    """The last one; null: there is none."""
    truncated: bool
    """There are more files."""
    note: str | None = None
    files: list[GitFile]
    """In the order of git."""


class GitCommit(Result):
    """One commit."""

    commit: str
    """Its name: a hash."""
    parents: list[str]
    """Of a merge more than one, of the first commit none."""
    author: str
    """Name of who wrote it, as the commit says: anybody can write anything there."""
    email: str
    """Address of the author, as the commit says."""
    date: str
    """When it was written; ISO 8601, in the author's time zone."""
    subject: str
    """The first paragraph of the message, as one line."""
    body: str
    """The message without its subject."""


class GitLogResult(Result):
    """Commits, newest first."""

    root: str
    """The working tree, or a repository without one."""
    truncated: bool
    """max_bytes were not enough for all of `limit`."""
    commits: list[GitCommit]
    """Whole ones."""


class GitDiffResult(Result):
    """Changes as a patch."""

    contents = ("text",)

    root: str
    """The working tree, or a repository without one."""
    truncated: bool
    """There is more: the patch ends after max_bytes."""
    note: str | None = None
    text: str
    """The patch; empty: nothing has changed."""


class EditorActionResult(Result):
    """What an editor shows after it was told something."""

    contents = ("content",)

    session_id: str
    program: str
    """The editor: the name of its file."""
    mode: Mode
    """Afterwards: `editor` if it is still there."""
    note: str | None = None
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""
    content: str
    """The screen; what the editor says of an error stands there."""


class PagerActionResult(Result):
    """What a pager shows after it was told something."""

    contents = ("content",)

    session_id: str
    program: str
    """The pager: the name of its file."""
    mode: Mode
    """Afterwards: `pager` if it is still there."""
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""
    content: str
    """The screen."""


class R2OpenResult(Result):
    """radare2 or rizin with a file open."""

    contents = ("messages",)

    r2_id: str
    """For r2_cmd, r2_cmdj and r2_close."""
    program: str
    """`radare2` or `rizin`."""
    messages: str
    """Warnings and errors that it printed meanwhile, bounded."""


class R2CmdResult(Result):
    """What a command of radare2 printed."""

    contents = ("text", "messages")

    truncated: bool
    """There was more than max_bytes: the text ends there."""
    note: str | None = None
    messages: str
    """Warnings and errors that it printed meanwhile, bounded."""
    text: str
    """The answer."""


class R2CmdjResult(Result):
    """What a command of radare2 printed, as JSON."""

    contents = ("messages",)

    messages: str
    """Warnings and errors that it printed meanwhile, bounded."""
    json: Any
    """The answer."""


class R2CloseResult(Result):
    """One is closed."""

    closed: bool
    """True."""


class GdbOpenResult(Result):
    """A debugger that was started."""

    contents = ("text",)

    gdb_id: str
    """For gdb_cmd and gdb_close."""
    session_id: str
    """The program's terminal: its input and output."""
    sandbox: SandboxLevel = "none"
    """The sandbox that gdb and the program are in: bubblewrap, landlock, limits or none."""
    note: str | None = None
    text: str
    """What gdb said."""


class GdbStopped(Result):
    """Why and where a program stopped."""

    reason: str | None
    """In gdb's words: `breakpoint-hit`, `signal-received`, `exited`, ..."""
    frame: dict[str, Any] | None
    """As GDB/MI has it: func, args, file, line, addr, ...; null: it has ended."""
    exit_code: int | None
    """It exited."""
    signal: str | None
    """What stopped or ended it."""
    thread_id: str | None
    """gdb's number of the thread that stopped."""


class GdbRecord(Result):
    """A record of GDB/MI; the streams of text are in `text`."""

    type: Literal["result", "exec", "status", "notify", "other"]
    """Kind of record; other: no record, its line is in `results.text`."""
    name: str
    """Its class: `done`, `error`, `running`, `stopped`, ..."""
    results: dict[str, Any]
    """Its values by name; of a name that repeats, a list."""


class GdbCmdResult(Result):
    """What gdb answered to a command."""

    contents = ("text",)

    stopped: GdbStopped | None
    """Null: it did not stop meanwhile."""
    running: bool
    """The program runs now."""
    truncated: bool
    """There was more than is kept: 64 KiB of text, as much of records."""
    note: str | None = None
    text: str
    """What gdb's console said."""
    records: list[GdbRecord]
    """All since the last answer, in order."""


class GdbCloseResult(Result):
    """A debugger that was ended."""

    gdb_id: str
    """As it was given."""
    closed: bool
    """It has ended."""


class ExportRecordingResult(Result):
    """A stretch of a session as a file."""

    session_id: str
    path: str
    """Where it lies."""
    format: FilmFormat
    bytes: int
    """How many it has."""
    duration_s: float
    """How long it plays."""
    times_known: bool
    """False: nobody noted exactly when some of it was printed; that comes late, at a time by which it was."""
    approximate: bool
    """The screen at its beginning may lack something."""
    merged: bool
    """svg, gif: there were too many pictures, and neighbours became one; `note` says within which time."""
    note: str | None = None


class StartRecordingResult(Result):
    """A recording that has begun; nothing of it is in the file yet."""

    session_id: str
    path: str
    """Where its file will be: it is empty until the recording has ended."""
    format: RecordedAs
    bytes: int
    """0, as yet."""
    duration_s: float
    """0, as yet."""
    events: int
    """0, as yet."""
    note: str | None = None


class StopRecordingResult(Result):
    """A recording that has ended."""

    session_id: str
    path: str
    """Where its file is."""
    format: RecordedAs
    bytes: int
    """How many it has."""
    duration_s: float
    """How long it plays."""
    events: int
    """Outputs, inputs, sizes and markers in it."""
    times_known: bool
    """False: nobody noted exactly when some of it was printed; that comes late, at a time by which it was."""
    approximate: bool
    """The screen at its beginning may lack something."""
    truncated: bool
    """Its file was full before the end."""
    note: str | None = None


class DirectoryEntry(Result):
    """A name in a directory; links are not followed."""

    name: str
    type: FileKind
    """What it is."""
    mode: str
    """Permissions, octal: `0644`."""
    size: int
    """Bytes."""
    mtime: str
    """When it was last written; ISO 8601, UTC."""


class ListDirectoryResult(Result):
    """What is in a directory, by name."""

    count: int
    truncated: bool
    """There are more than `limit`."""
    entries: list[DirectoryEntry]
    """In the order of their names."""


class ScreenshotResult(Result):
    contents = ("data",)

    session_id: str
    format: PictureFormat
    mime_type: str
    rows: int
    cols: int
    width: int | None
    """In pixels; of a page, null."""
    height: int | None
    bytes: int
    """Size of the picture."""
    data: str | None
    """The picture, base64 for PNG; null over MCP, where it is a content block of its own."""
    approximate: bool = False
    """As of `read`."""
    handed_back: HandedBack | None = None
    """Null: no person has, or you were told."""


class Check(Result):
    name: str
    ok: bool
    message: str


class CallsGoingOn(Result):
    """Calls of the client that asks, at this moment, and how many there may be."""

    calls: int
    """Those that do something, this one among them."""
    waits: int
    """Those that only wait: `wait`, and `read` with `wait_for`."""
    most_calls: int
    """More are refused: the setting `max_calls`."""
    most_waits: int
    """The same of waits."""


class HealthResult(Result):
    version: str
    tmux_version: str | None
    python_version: str
    uptime_s: float
    machine_id: str | None = None
    """Names this state directory, as no other is named; null: not known, or there are many machines."""
    sessions: int
    limits: dict[str, int]
    going_on: CallsGoingOn | None = None
    """Null: a person's calls are not counted."""
    checks: list[Check]
