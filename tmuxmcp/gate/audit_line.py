"""What the audit says of one call: facts as they become known, without what was typed and without secrets."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call, iso, ms_since
from tmuxmcp.contract.errors import ConfirmationDeclined, InvalidArgument, PolicyDenied, TmuxMcpError
from tmuxmcp.contract.request import Content, NamesCall, Operation, Request
from tmuxmcp.contract.results import Result
from tmuxmcp.gate.redact import Redactor, hide_arguments, hide_options
from tmuxmcp.shell.sequence import KeySequence, items_of

if TYPE_CHECKING:
    from tmuxmcp.gate.actions import ActionPlace
    from tmuxmcp.gate.policy.judge import Ruling

NOT_AT_A_PROMPT = frozenset({"WRONG_MODE", "NOT_A_SHELL", "SESSION_BUSY"})
"""Errors of `run` after which its text is not written down: the session may be asking for a password."""


class AuditLine:
    """The line of one call, as far as it is known."""

    def __init__(self, operation: Operation, call: Call, request: Request[Any] | None, redactor: Redactor) -> None:
        """Begin the line of a call; without a request, of one whose arguments are not understood."""
        self._redactor = redactor
        self._begun = time.monotonic()
        self._facts: dict[str, Any] = {
            "time": iso(time.time()),
            "call_id": call.call_id,
            "client": call.caller,
            "tool": operation.name,
            "session_id": request.session or None if request else None,
            **({"request_id": request_id} if (request_id := request_id_of(request)) else {}),
            **_what(request),
            "bytes_in": _bytes_in(request) if request else 0,
            "bytes_out": 0,
            "duration_ms": 0,
            "outcome": "started",
            "exit_code": None,
            "error_code": None,
            "policy": None,
        }

    def see(self, place: ActionPlace) -> None:
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
    return {
        "time": iso(time.time()),
        "call_id": None,
        "client": client or None,
        "tool": "prune",
        "session_id": session_id,
        "cwd": None,
        "env": [],
        "bytes_in": 0,
        "bytes_out": 0,
        "duration_ms": 0,
        "outcome": "started",
        "exit_code": None,
        "error_code": None,
        "policy": None,
        "removed_bytes": bytes,
        "why": why,
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
