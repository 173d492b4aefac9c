"""Results as text, for models that see only text and for people at a command line.

What a terminal printed stands as it is, followed by one line of the fields that matter:

    [exit_code=0 duration_ms=12 cwd=/srv session_id=sess_ab12cd34]

That line is always the last one and always one line, whatever a program prints or a directory is called.
Pure: results in, text out.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import anyio

from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import SMALL_ANSWER_BYTES, Room
from tmuxmcp.contract.value import asdict
from tmuxmcp.contract.words import SCREEN_VIEWS
from tmuxmcp.terminal.text.plain import sanitize

UNQUOTED_VALUE = re.compile(r"[A-Za-z0-9_./:@%+,~-]+")
"""Values that need no quotes in a footer."""

COMMAND_CHARS = 80
"""Characters of a command's text in a footer: enough to know it again."""

Fields = Iterator[tuple[str, Any]]


def render(result: r.Result) -> str:
    """The whole of a result as text."""
    if isinstance(result, r.CreateSessionResult | r.SessionFacts | r.HealthResult):
        return "\n".join(_lines(result))
    above = ABOVE.get(type(result))
    return _above(above(result) if above else "", footer(result))


def footer(result: r.Result) -> str:
    """One line: the fields of a result that say something."""
    fields = FOOTERS.get(type(result), _known_fields)(result)
    shown = BODIES if type(result) in ABOVE else ()
    told = ((name, value) for name, value in fields if name not in shown and (value or name not in TOLD_IF_SO))
    return "[" + " ".join(f"{name}={_value(value)}" for name, value in told) + "]"


def _above(text: str, last: str) -> str:
    return text + ("\n" if text and not text.endswith("\n") else "") + last


def _run(result: r.RunResult) -> Fields:
    if result.completed:
        yield "exit_code", result.exit_code
        if result.outcome == "left":
            yield "outcome", result.outcome
    else:
        yield from (("completed", False), ("outcome", result.outcome), ("mode", result.mode))
        if result.command_number is not None:
            yield "command", result.command_number
    yield from _end_fields(result.ended)
    yield "duration_ms", result.duration_ms
    if result.cwd is not None:
        yield "cwd", result.cwd
    yield "session_id", result.session_id
    if result.shell and result.shell.adopted:
        yield from (("shell", result.shell.kind), ("level", result.shell.level))
    if result.truncated:
        yield from (("truncated", True), ("omitted_bytes", result.omitted_bytes))
        yield from (("start_offset", result.start_offset), ("end_offset", result.end_offset))
    elif not result.completed:
        yield "next_offset", result.end_offset
    if result.matched is not None:
        yield "matched", result.matched
    yield from _also_ended(result)
    if result.replayed:
        yield "replayed", True
    yield from _remarks(result)


def _read(result: r.ReadResult) -> Fields:
    yield "outcome", result.outcome
    if result.mode is not None:
        yield "mode", result.mode
    if result.evidence in ("quiet", "prompt"):  # marks and kernel are certain; of these two a model should know
        yield "evidence", result.evidence
    if result.matched is not None:
        yield "matched", result.matched
    if result.fresh is False:
        yield "fresh", False
    if result.exited:
        yield from (("exited", True), ("exit_code", result.exit_code))
        yield from _end_fields(result.ended)
    if result.command:
        yield from (("command", result.command.number), ("command_exit_code", result.command.exit_code))
        yield "command_text", (result.command.text or "")[:COMMAND_CHARS] or None
    yield from _also_ended(result)
    if result.view in SCREEN_VIEWS:
        yield from (("rows", result.rows), ("cols", result.cols))
        if result.cursor:
            yield "cursor", f"{result.cursor.row},{result.cursor.col}"
        if result.title:
            yield "title", result.title
        if result.screen_id:
            yield "screen_id", result.screen_id
    elif not result.has_new_content:
        yield "has_new_content", False
    if result.highlights:
        yield "highlights", [highlight.text for highlight in result.highlights]
    if result.waited_ms:
        yield "waited_ms", result.waited_ms
    yield "session_id", result.session_id
    if result.encoding:
        yield "encoding", result.encoding
    if result.truncated:
        yield from (("truncated", True), ("omitted_bytes", result.omitted_bytes))
    yield "next_offset", result.next_offset
    yield from _remarks(result)


def _also_ended(result: r.RunResult | r.ReadResult) -> Fields:
    if result.also_ended:
        yield "also_ended", [{"number": each.number, "exit_code": each.exit_code} for each in result.also_ended]


def _end_fields(ended: r.Ended | None) -> Fields:
    if ended:
        yield "ended", ended.reason
        if ended.by:
            yield "by", ended.by


def _send(result: r.SendResult) -> Fields:
    yield "sent_bytes", result.sent_bytes
    if result.steps_done is not None:
        yield from (("steps_done", result.steps_done), ("outcomes", [each.outcome for each in result.steps]))
    if result.replayed:
        yield "replayed", True
    if result.result:
        yield from _read(result.result)
    else:
        yield "session_id", result.session_id
    yield from _said_at_last(result)


def matches(result: r.SearchResult) -> str:
    """`LINE @OFFSET: TEXT` for each match; with context, its lines below, the matching one with `>`."""
    if not result.context:
        return "".join(f"{match.line} @{match.offset}: {match.text}\n" for match in result.matches)
    blocks = []
    for match in result.matches:
        lines = match.text.split("\n")
        wanted = min(result.context, match.line)
        shown = [f"{'>' if number == wanted else ' '} {line}\n" for number, line in enumerate(lines)]
        blocks.append(f"{match.line} @{match.offset}:\n" + "".join(shown))
    return "".join(blocks)


def _search(result: r.SearchResult) -> Fields:
    yield from (("total", result.total), ("session_id", result.session_id))
    if result.truncated:
        yield "truncated", True
    yield from _said_at_last(result)


def _streams(result: r.RunProcessResult) -> str:
    """Both streams, without what a terminal would act on; stderr under a line of its own."""
    stdout, stderr = sanitize(result.stdout)[0], sanitize(result.stderr)[0]
    return _above(stdout, f"[stderr]\n{stderr}") if stderr else stdout


def _process(result: r.RunProcessResult) -> Fields:
    yield "rc", result.rc
    if result.signal is not None:
        yield "signal", result.signal
    if result.sandbox != "none":
        yield "sandbox", result.sandbox
    if result.timed_out:
        yield "timed_out", True
    yield "duration_ms", result.duration_ms
    yield from (("cpu_ms", result.usage.cpu_ms), ("max_rss_kb", result.usage.max_rss_kb))
    if result.encoding == "base64":
        yield "encoding", result.encoding
    if result.truncated:
        yield from (("truncated", True), ("stdout_bytes", result.stdout_bytes), ("stderr_bytes", result.stderr_bytes))
    if result.effective_timeout_ms is not None:
        yield "effective_timeout_ms", result.effective_timeout_ms
    if result.note:
        yield "note", result.note


def _directory_entry(entry: r.DirectoryEntry) -> str:
    return f"{entry.mode} {entry.type:9} {entry.size:>10} {entry.mtime} {_value(entry.name)}"


def _git_file(file: r.GitFile) -> str:
    """`STAGED UNSTAGED PATH`; a dash where nothing has changed."""
    moved = f" from {_value(file.original_path)}" if file.original_path else ""
    return f"{file.staged or '-':12} {file.unstaged or '-':12} {_value(file.path)}{moved}"


def _git_commit(commit: r.GitCommit) -> str:
    """One line for its facts, then its body, set in."""
    facts = (commit.commit[:12], commit.date, commit.author, commit.subject)
    line = sanitize(" ".join(facts))[0].replace("\n", " ")
    return "\n    ".join([line, *sanitize(commit.body)[0].strip().splitlines()])


def _command(command: r.ListedCommand) -> str:
    """`NUMBER FIELDS: TEXT`, one line; an exit code of null says that it runs."""
    fields = {
        name: value for name, value in vars(command).items() if name not in ("number", "text") and value is not None
    }
    if not command.level:
        del fields["level"]  # the session's own shell
    if not command.stdin:
        del fields["stdin"]
    told = {"exit_code": command.exit_code} | fields
    line = " ".join([str(command.number), *(f"{name}={_value(value)}" for name, value in told.items())])
    return line if command.text is None else f"{line}: {_value(command.text)}"


def _remarks(result: r.RunResult | r.ReadResult) -> Fields:
    if isinstance(result, r.ReadResult) and result.approximate:
        yield "approximate", True
    if result.effective_timeout_ms is not None:
        yield "effective_timeout_ms", result.effective_timeout_ms
    if result.sanitized:
        yield "sanitized", True
    yield from _said_at_last(result)


def _said_at_last(result: r.RunResult | r.ReadResult | r.SendResult | r.SearchResult) -> Fields:
    if result.handed_back:
        yield "handed_back", asdict(result.handed_back)
    if result.note:
        yield "note", result.note


def _gdb(result: r.GdbCmdResult) -> Fields:
    if stopped := result.stopped:
        frame = stopped.frame or {}
        yield "stopped", stopped.reason or "yes"
        yield from ((name, frame[name]) for name in ("func", "file", "line", "addr") if name in frame)
        yield from ((name, value) for name, value in _known_fields(stopped) if name in ("exit_code", "signal"))
    yield "running", result.running
    yield from (
        (name, value) for name, value in _known_fields(result) if name == "note" or (name == "truncated" and value)
    )


def _known_fields(result: r.Result) -> Fields:
    """Every field that is known; a field that is not there is null."""
    for name, value in asdict(result).items():
        if value is not None:
            yield name, value


def _summary(session: r.SessionSummary) -> str:
    facts: dict[str, Any] = {"mode": session.mode, "program": session.program, "args": session.args or None}
    if session.exited:
        facts |= {
            "exit_code": session.exit_code,
            "exit_signal": session.exit_signal,
            **dict(_end_fields(session.ended)),
        }
    else:
        facts |= {"ready": session.ready, "pid": session.pid, "cwd": session.cwd}
    facts |= {"title": session.title or None, "last_activity_at": session.last_activity_at}
    facts |= {} if session.healthy else {"healthy": False}
    return " ".join([session.session_id, *(f"{k}={_value(v)}" for k, v in facts.items() if v is not None)])


def _lines(result: r.Result) -> Iterator[str]:
    for name, value in _known_fields(result):
        if isinstance(result, r.HealthResult) and name == "checks":
            yield from (f"{'ok' if c.ok else 'FAILED'} {c.name}: {_value(c.message)}" for c in result.checks)
        else:
            yield f"{name}: {value if isinstance(value, str) and value.isprintable() else _value(value)}"


def _value(value: Any) -> str:
    """A value on one line: as it is if that is unmistakable, else as JSON."""
    if isinstance(value, str) and UNQUOTED_VALUE.fullmatch(value):
        return value
    if type(value) is int:
        return str(value)
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _clean(text: str) -> str:
    return sanitize(text)[0]


ABOVE: Mapping[type[r.Result], Callable[[Any], str]] = {
    r.RunResult: lambda result: result.output,
    r.ReadResult: lambda result: result.content,
    r.SendResult: lambda result: result.result.content if result.result else "",
    r.RunProcessResult: _streams,
    r.ReadFileResult: lambda result: _clean(result.data),
    r.ListDirectoryResult: lambda result: "\n".join(map(_directory_entry, result.entries)),
    r.GitStatusResult: lambda result: "\n".join(map(_git_file, result.files)),
    r.GitLogResult: lambda result: "\n".join(map(_git_commit, result.commits)),
    r.GitDiffResult: lambda result: _clean(result.text),
    r.EditorActionResult: lambda result: result.content,
    r.PagerActionResult: lambda result: result.content,
    r.R2CmdResult: lambda result: _clean(result.text),
    r.R2CmdjResult: lambda result: _clean(json.dumps(result.json, ensure_ascii=False)),
    r.GdbOpenResult: lambda result: _clean(result.text),
    r.GdbCmdResult: lambda result: _clean(result.text),
    r.ScreenshotResult: lambda result: "",
    r.ListSessionsResult: lambda result: "\n".join(map(_summary, result.sessions)),
    r.ListCommandsResult: lambda result: "\n".join(map(_command, result.commands)),
    r.SearchResult: matches,
}
"""What stands above the footer of a result; of others nothing does."""

FOOTERS: Mapping[type[r.Result], Callable[[Any], Fields]] = {
    r.RunResult: _run,
    r.ReadResult: _read,
    r.SendResult: _send,
    r.SearchResult: _search,
    r.RunProcessResult: _process,
    r.GdbCmdResult: _gdb,
}
"""What stands in the footer of a result; of others all that is known does, but for what stands above it."""

BODIES = ("data", "files", "commits", "text", "content", "json", "entries", "commands", "sessions")
"""Fields that stand above a footer."""

TOLD_IF_SO = ("also_ended", "replayed")
"""Fields that are no news where they are empty or false."""


# ---- Room for long answers -------------------------------------------------------------------------------------------
#
# One is made only when those before it have gone out, so that few are in memory at once.
#
# While it is made and written, an answer is there as text, as structured content and as JSON: ten bytes for each of its
# text. How fast it goes is the client's choice.

ROOM_BYTES = 1024 * 1024
"""Bytes of text that the long answers to one client may have together; one alone may have more."""


def current_task() -> asyncio.Task[Any]:
    """The task that this runs in."""
    task = asyncio.current_task()
    assert task
    return task


class AnswerRoom:
    """The long answers to one client that are being made or written."""

    def __init__(self, most: int = ROOM_BYTES) -> None:
        self._most = most
        self._sizes: dict[asyncio.Task[Any], int] = {}
        self._turns = anyio.Lock()
        """Held by who waits for room; the others wait for it in the order in which they came."""
        self._left = anyio.Event()

    def until_done(self, task: asyncio.Task[Any]) -> Room:
        """Room for the answer of a task, which ends when it is written or not needed any more. Small ones need none."""
        return partial(self._take, task)

    async def _take(self, task: asyncio.Task[Any], size: int) -> None:
        if size <= SMALL_ANSWER_BYTES or task in self._sizes:
            return
        async with self._turns:
            while self._sizes and sum(self._sizes.values()) + size > self._most:
                await self._left.wait()
            self._sizes[task] = size
        task.add_done_callback(self._leave)

    def _leave(self, task: asyncio.Task[Any]) -> None:
        del self._sizes[task]
        self._left.set()
        self._left = anyio.Event()


# ---- Values as JSON can carry them -----------------------------------------------------------------------------------


def portable(value: Any) -> Any:
    """A value that JSON can carry: names of files may hold bytes that are not UTF-8, details any object."""
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, (dict, Mapping)):
        return {_text(str(key)): portable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [portable(item) for item in value]
    return portable(str(value))


def _text(text: str) -> str:
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
