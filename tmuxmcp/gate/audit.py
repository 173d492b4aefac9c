"""The audit: one JSON line for each call, in a file that is bounded, private and shared by several brokers.

Lines are appended in one write each, so that those of several brokers do not mix; the file is put aside under a lock
when it is full. With `strict`, the line is on the disk before anything is done, and is filled in afterwards: a crash
leaves one that says `started`.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call, iso, ms_since
from tmuxmcp.contract.errors import ConfirmationDeclined, InvalidArgument, IoError, PolicyDenied, TmuxMcpError
from tmuxmcp.contract.request import Content, NamesCall, Operation, Request
from tmuxmcp.contract.results import Result
from tmuxmcp.machine import locks
from tmuxmcp.machine.environment import is_secret_name
from tmuxmcp.machine.ownfiles import closing, open_file
from tmuxmcp.shell.sequence import KeySequence, items_of

if TYPE_CHECKING:
    from tmuxmcp.gate.actions import ShellContext
    from tmuxmcp.gate.policy.judge import Ruling

AUDIT_FILE_BYTES = 10 * 1024 * 1024
KEPT_FILES = 5
"""So many files of that size are kept: `audit.jsonl`, `audit.jsonl.1` ..."""

VALUE_CHARS = 4096
"""Characters of one value; what is longer is cut and says so."""

AUDIT_MOST_WORDS = 256
SHORT_LINE_BYTES = 2 * AUDIT_MOST_WORDS
"""A line of no more has no value that is cut: each word of a list takes two bytes, with its comma."""
AUDIT_LINE_BYTES = 16 * 1024
LINE_ROOM_BYTES = 1024
"""Bytes left free in a line that is filled in afterwards."""

log = logging.getLogger(__name__)

_encode = json.JSONEncoder(separators=(",", ":")).encode
"""`json.dumps` would make an encoder for each line."""


class Audit:
    """Writes the lines of one broker; `write` and `begin` raise OSError where the file system does."""

    def __init__(self, directory: Path, file_bytes: int = AUDIT_FILE_BYTES, wish: str = "best-effort") -> None:
        """`wish`: as the setting `audit`, for `begun` and `ended`."""
        self.path = directory / "audit.jsonl"
        self.file_bytes = file_bytes
        self._wish, self._told = wish, False

    def begun(self, entry: dict[str, Any], done: str = "done") -> OpenLine | None:
        """Where the audit is strict, have a line on the disk before anything is done.

        Raises:
            IoError: it cannot be written.
        """
        if self._wish != "strict":
            return None
        try:
            return self.begin(entry)
        except OSError as error:
            raise IoError(
                f"The audit cannot be written ({error.strerror}), and nothing is {done} without it.",
                hint=f"Mend {self.path}; the setting audit says `strict`.",
            ) from None

    def ended(self, line: OpenLine | None, entry: dict[str, Any]) -> None:
        """Write down what came of it, in the line that was begun, if one was; that this fails is logged once."""
        try:
            if line:
                line.finish(entry)
            elif self._wish != "off":
                self.write(entry)
        except OSError as error:
            if not self._told:
                log.warning("the audit cannot be written: %s", error)
            self._told = True

    def write(self, entry: dict[str, Any]) -> None:
        """Append a line."""
        with closing(self._open()) as fd:
            _write(fd, as_line(entry))
        self._rotate()

    def begin(self, entry: dict[str, Any]) -> OpenLine:
        """Append a line that can be filled in; it is on the disk when this returns."""
        line = as_line(entry)
        self._rotate()
        line = line[:-1].ljust(len(line) + LINE_ROOM_BYTES) + b"\n"
        fd = self._open()
        try:
            _write(fd, line)
            os.fdatasync(fd)
            offset = os.lseek(fd, 0, os.SEEK_CUR) - len(line)
            # pwrite(2) appends all the same to what was opened with O_APPEND.
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_APPEND)
        except BaseException:
            os.close(fd)
            raise
        return OpenLine(fd, offset, len(line))

    def _open(self) -> int:
        return open_file(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def _rotate(self) -> None:
        """Put the file aside when it is full; somebody who has it open still writes to the right one."""
        if not self._is_full():
            return
        with locks.if_free(self.path.with_suffix(".lock")) as free:
            if not free or not self._is_full():
                return  # another broker does it at this moment, or has just done it
            for number in range(KEPT_FILES - 1, 0, -1):
                older = self._numbered(number - 1)
                if older.exists():
                    older.replace(self._numbered(number))

    def _is_full(self) -> bool:
        try:
            return self.path.stat().st_size >= self.file_bytes
        except FileNotFoundError:
            return False

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


class OpenLine:
    """A line that says `started`, to be filled in once."""

    def __init__(self, fd: int, offset: int, size: int) -> None:
        self._fd, self._offset, self._size = fd, offset, size

    def finish(self, entry: dict[str, Any]) -> None:
        """Replace the line."""
        with closing(self._fd):
            line = as_line(entry)[:-1]
            if len(line) < self._size:
                os.pwrite(self._fd, line.ljust(self._size - 1), self._offset)


def _write(fd: int, line: bytes) -> None:
    if os.write(fd, line) != len(line):
        raise OSError(28, "no space is left for the whole line")


def as_line(entry: dict[str, Any]) -> bytes:
    """An entry as a line of JSON, in pure ASCII, never longer than `AUDIT_LINE_BYTES`."""
    line = _encode(entry)
    if len(line) > SHORT_LINE_BYTES:
        line = _encode(_short(entry))
    if len(line) >= AUDIT_LINE_BYTES:
        line = _encode(_short(entry, AUDIT_LINE_BYTES // 128, 4) | {"cut": True})
    return line.encode() + b"\n"


def _short(value: Any, most: int = VALUE_CHARS, words: int = AUDIT_MOST_WORDS) -> Any:
    match value:
        case str() if len(value) > most:
            return f"{value[:most]}... ({len(value)} characters)"
        case list() | tuple():
            short = [_short(each, most, words) for each in value[:words]]
            return short if len(value) <= words else [*short, f"... ({len(value)} words)"]
        case dict():
            return {name: _short(each, most, words) for name, each in value.items()}
        case _:
            return value


# ---- What the audit says of one call ---------------------------------------------------------------------------------
#
# Facts as they become known, without what was typed and without secrets.

NOT_AT_A_PROMPT = frozenset({"WRONG_MODE", "NOT_A_SHELL", "SESSION_BUSY"})
"""Errors of `run` after which its text is not written down: the session may be asking for a password."""


class AuditLine:
    """The line of one call, as far as it is known."""

    def __init__(self, operation: Operation, call: Call, request: Request[Any] | None, redactor: Redactor) -> None:
        """Begin the line of a call; without a request, of one whose arguments are not understood."""
        self._redactor = redactor
        self._begun = time.monotonic()
        self.opened: OpenLine | None = None
        """What stands on the disk to be filled in, where the audit is strict."""
        named = {"request_id": request_id} if (request_id := request_id_of(request)) else {}
        what = {**named, **_what(request), "bytes_in": _bytes_in(request) if request else 0}
        session_id = request.session or None if request else None
        self._facts = _begun_line(call.call_id, call.caller, operation.name, session_id, what)

    @property
    def ended(self) -> bool:
        """It is known what came of the call."""
        return bool(self._facts["outcome"] != "started")

    def see(self, place: ShellContext) -> None:
        """Take in where it happens."""
        self._facts["session_id"] = self._facts["session_id"] or place.session_id or None
        self._facts["cwd"] = self._facts["cwd"] or place.cwd
        if place.secret:
            self._forget_text()

    def verdict(self, verdict: Ruling) -> None:
        """Take in what the policy says."""
        self._facts["policy"] = {"verdict": verdict.decision, "rule": verdict.rule or None, "reason": verdict.reason}

    def result(self, result: Result) -> None:
        """It was done."""
        self._facts["outcome"] = "ok"
        self._facts["session_id"] = getattr(result, "session_id", None) or self._facts["session_id"]
        self._facts["cwd"] = self._facts["cwd"] or getattr(result, "cwd", None)
        self._facts["exit_code"] = getattr(result, "exit_code", getattr(result, "rc", None))
        self._facts["bytes_out"] = _bytes_out(result)
        if getattr(result, "replayed", False):
            self._facts["replayed"] = True

    def error(self, error: TmuxMcpError) -> None:
        """It was not done, or failed."""
        denied = isinstance(error, (PolicyDenied, ConfirmationDeclined))
        self._facts |= {"outcome": "denied" if denied else "error", "error_code": error.code}
        if error.code in NOT_AT_A_PROMPT:
            self._forget_text()

    def failed(self, error: BaseException) -> None:
        """It was cancelled, a person is being asked, or something unexpected failed."""
        outcome = getattr(error, "audit_outcome", "error" if isinstance(error, Exception) else "cancelled")
        self._facts |= {"outcome": outcome, "error_code": {"error": "INTERNAL", "cancelled": "CANCELLED"}.get(outcome)}

    def entry(self) -> dict[str, Any]:
        """The line, without secrets."""
        self._facts["duration_ms"] = ms_since(self._begun)
        entry: dict[str, Any] = self._redactor.value(self._facts)
        return entry

    def _forget_text(self) -> None:
        """Echo is off, or may be: what was meant for the shell may have been meant as a password."""
        for name in ("command", "keys"):
            if name in self._facts:
                self._facts[name] = None


def request_id_of(request: Request[Any] | None) -> str:
    """The id by which a call can be asked for again; empty: it has none."""
    names = request.operation.marks(NamesCall) if request else ()
    return next((str(getattr(request, name)) for name in names), "")


def of_removal(session_id: str, bytes: int, why: str, client: str) -> dict[str, Any]:
    """The line of a session whose files are removed; `client` is empty where a setting does it."""
    line = _begun_line(None, client or None, "prune", session_id, {"cwd": None, "env": [], "bytes_in": 0})
    return line | {"removed_bytes": bytes, "why": why}


def _begun_line(
    call_id: str | None, client: str | None, tool: str, session_id: str | None, what: Mapping[str, Any]
) -> dict[str, Any]:
    """The line of what begins now."""
    return {
        "time": iso(time.time()),
        "call_id": call_id,
        "client": client,
        "tool": tool,
        "session_id": session_id,
        **what,
        "bytes_out": 0,
        "duration_ms": 0,
        "outcome": "started",
        "exit_code": None,
        "error_code": None,
        "policy": None,
    }


def _what(request: Request[Any] | None) -> dict[str, Any]:
    """The argv or the command; of typed text only its length, which `bytes_in` has, and the names of keys."""
    where: dict[str, Any] = {"cwd": None, "env": []}
    match request:
        case q.GdbOpen():
            argv = hide_arguments([request.path, *request.args])
            where = {"argv": argv, "path": request.core or request.path} | where
        case q.GdbCmd():
            where = {"command": hide_options(request.command)} | where
        case q.RunProcess():
            where = {"argv": hide_arguments(request.argv), "cwd": request.cwd or None, "env": sorted(request.env)}
        case q.CreateSession():
            argv = hide_arguments([request.program, *request.args])
            where = {"argv": argv, "cwd": request.cwd or None, "env": sorted(request.env)}
            where |= {"host": request.host} if request.host else {}
        case q.Run():
            where = {"command": hide_options(request.command)} | where
        case q.Send():
            secret = {"secret": request.secret} if request.secret else {}
            where = {"keys": _key_names(request)} | secret | where
        case (
            q.ReadFile()
            | q.WriteFile()
            | q.ListDirectory()
            | q.ExportRecording()
            | q.GitStatus()
            | q.GitLog()
            | q.GitDiff()
        ):
            where = ({"path": request.path} if request.path else {}) | where
        case q.R2Open():
            where = {"argv": hide_arguments(["radare2", *request.args, request.path])} | where
        case q.R2Cmd() | q.R2Cmdj():
            where = {"command": hide_options(request.command)} | where
        case q.Signal() | q.DestroySession():
            where = {name: value for name, value in request.arguments().items() if name == "signal"} | where
    return where


def _key_names(request: q.Send) -> list[str]:
    """Keys that are no characters, by tmux's names; of a wrong one nothing, it may be anything."""
    try:
        items = items_of(request)
    except InvalidArgument:
        return []
    return [name for item in items if isinstance(item, KeySequence) for name in item.names if len(name) > 1]


def _bytes_in(request: Request[Any]) -> int:
    return sum(_bytes_of_texts(value) if isinstance(value, Sequence) and not isinstance(value, str) else _size(value)
               for _, value, _ in request.marked(Content))  # fmt: skip


def _bytes_of_texts(keys: Sequence[Any]) -> int:
    """Bytes of the texts among keys."""
    return sum(_size(each["text"]) for each in keys if isinstance(each, Mapping))


def _bytes_out(result: Result) -> int:
    return sum(_size(getattr(result, name)) for name in result.contents) + sum(map(_bytes_out, result.parts))


def _size(text: str | None) -> int:
    return len((text or "").encode("utf-8", "surrogateescape"))


# ---- Takes the values of known secrets out of text that is written down or shown -------------------------------------
#
# Audit, events, logs, errors.
#
# What a session prints is not touched: it is the program's, and its log is true to the byte.

HARMLESS_VALUE = re.compile(r"(?:true|false|yes|no|on|off|none|null|enabled|disabled|default|\d{1,5})\Z", re.IGNORECASE)
SHORTEST_VALUE = 5
"""Shorter values are not taken out: they would be found everywhere."""

VALUE_PIECE_CHARS = 100
"""Longer values, such as private keys, are taken out in pieces of so many characters."""

MOST_SECRETS = 300
"""So many pieces are known; the oldest go first."""

REDACTED_TEXT = "[redacted]"

SECRET_OPTION = re.compile(
    r"(?i)(?P<name>--?[\w-]*(?:passw(?:or)?d|passphrase|token|secret|api-?key)|\b\w*(?:PASSW(?:OR)?D|TOKEN|SECRET|_KEY))"
    r"(?P<sign>=|\s+)(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\";&|)]+)"
)
"""`--token VALUE`, `API_KEY=VALUE` in a command line."""

USER_INFO = re.compile(r"(?P<scheme>\b[A-Za-z][\w+.-]*://[^/\s:@]*):(?P<value>[^/\s@]+)@")
BEARER = re.compile(r"(?i)(?P<name>\bAuthorization:\s*\w+\s+)(?P<value>[^\s'\"]+)")

LINE_BREAK = r"(?:\\?\r?\n[ \t]*)?"
"""Where a terminal or a shell has broken a long line inside of a secret."""


class Redactor:
    """Knows the secrets of one broker."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._secrets: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None
        self.learn_environment(environment or {})

    def learn_environment(self, environment: Mapping[str, str]) -> None:
        """Take in the values of the variables whose names look like secrets."""
        self.learn(value for name, value in environment.items() if is_secret_name(name))

    def learn(self, values: Iterable[str]) -> None:
        """Take in secrets; the oldest of more than `MOST_SECRETS` are forgotten."""
        new = [piece for value in values for piece in _pieces(value.strip())]
        new = [
            each
            for each in new
            if len(each) >= SHORTEST_VALUE and not HARMLESS_VALUE.match(each) and each not in self._secrets
        ]
        if not new:
            return
        self._secrets |= dict.fromkeys(new)
        self._secrets |= dict.fromkeys(json.dumps(each)[1:-1] for each in new)  # as a log in JSON has it
        for old in list(self._secrets)[:-MOST_SECRETS]:
            del self._secrets[old]
        # The longest first: one secret may be the beginning of another.
        longest = sorted(self._secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(LINE_BREAK.join(map(re.escape, each)) for each in longest))

    def text(self, text: str) -> str:
        """The text without secrets, also those that a line break has split."""
        return self._pattern.sub(REDACTED_TEXT, text) if self._pattern else text

    def value(self, value: Any) -> Any:
        """The same of a value as JSON has it, its keys included."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(str(key)): self.value(each) for key, each in value.items()}
            case list() | tuple():
                return [self.value(each) for each in value]
            case _:
                return value


def _pieces(value: str) -> list[str]:
    """A value in pieces; the last one is never short, so that it is found, too."""
    if len(value) <= 2 * VALUE_PIECE_CHARS:
        return [value]
    whole = len(value) // VALUE_PIECE_CHARS * VALUE_PIECE_CHARS - VALUE_PIECE_CHARS
    return [*(value[at : at + VALUE_PIECE_CHARS] for at in range(0, whole, VALUE_PIECE_CHARS)), value[whole:]]


def hide_options(text: str) -> str:
    """A command line without what its options, assignments, URLs and headers call a secret themselves."""

    def hidden(found: re.Match[str]) -> str:
        assigned = found["sign"] == "=" or found["name"].startswith("-")
        return f"{found['name']}{found['sign']}{REDACTED_TEXT}" if assigned else found[0]

    text = SECRET_OPTION.sub(hidden, text)
    return BEARER.sub(rf"\g<name>{REDACTED_TEXT}", USER_INFO.sub(rf"\g<scheme>:{REDACTED_TEXT}@", text))


def hide_arguments(argv: Sequence[str]) -> list[str]:
    """The same of exact arguments: the one behind `--token`, too."""
    found = [hide_options(each) for each in argv]
    for at, each in enumerate(argv[:-1]):
        if each.startswith("-") and "=" not in each and hide_options(f"{each} x") != f"{each} x":
            found[at + 1] = REDACTED_TEXT
    return found
