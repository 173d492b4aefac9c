"""What the audit says of one call: facts as they become known, without what was typed and without secrets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tmuxmcp.contract.call import Call
from tmuxmcp.errors import ConfirmationDeclined, InvalidArgument, PolicyDenied, TmuxMcpError
from tmuxmcp.host.redact import Redactor, hide_arguments, hide_options
from tmuxmcp.sessions.session import iso
from tmuxmcp.terminal.keys import parse_key, parse_keys

if TYPE_CHECKING:
    from tmuxmcp.broker.actions import Place
    from tmuxmcp.host.policy import Verdict

NOT_AT_A_PROMPT = frozenset({"WRONG_MODE", "NOT_A_SHELL", "SESSION_BUSY"})
"""Errors of `run` after which its text is not written down: the session may be asking for a password."""


class Record:
    """The line of one call, as far as it is known."""

    def __init__(self, tool: str, call: Call, arguments: Mapping[str, Any], redactor: Redactor) -> None:
        self._redactor = redactor
        self._begun = time.monotonic()
        self._facts: dict[str, Any] = {
            "time": iso(time.time()),
            "call_id": call.call_id,
            "client": call.caller,
            "tool": tool,
            "session_id": arguments.get("session_id") or None,
            **_what(tool, arguments),
            "cwd": arguments.get("cwd") or None,
            "env": sorted(arguments.get("env") or {}),
            "bytes_in": _bytes_in(arguments),
            "bytes_out": 0,
            "duration_ms": 0,
            "outcome": "started",
            "error_code": None,
            "policy": None,
        }

    def see(self, place: Place) -> None:
        """Take in where it happens."""
        self._facts["session_id"] = self._facts["session_id"] or place.session_id or None
        self._facts["cwd"] = self._facts["cwd"] or place.cwd
        if place.secret:
            self._forget_text()

    def verdict(self, verdict: Verdict) -> None:
        """Take in what the policy says."""
        self._facts["policy"] = {"verdict": verdict.decision, "rule": verdict.rule or None, "reason": verdict.reason}

    def result(self, result: Any) -> None:
        """It was done."""
        self._facts["outcome"] = "ok"
        self._facts["session_id"] = getattr(result, "session_id", None) or self._facts["session_id"]
        self._facts["cwd"] = self._facts["cwd"] or getattr(result, "cwd", None)
        self._facts["bytes_out"] = _bytes_out(result)

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
        self._facts["duration_ms"] = int((time.monotonic() - self._begun) * 1000)
        entry: dict[str, Any] = self._redactor.value(self._facts)
        return entry

    def _forget_text(self) -> None:
        """Echo is off, or may be: what was meant for the shell may have been meant as a password."""
        for name in ("command", "keys"):
            if name in self._facts:
                self._facts[name] = None


def _what(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The argv or the command; of typed text only its length, which `bytes_in` has, and the names of keys."""
    found: dict[str, Any] = {}
    if tool in ("run_process", "create_session"):
        argv = arguments.get("argv") or [arguments.get("program", ""), *arguments.get("args", ())]
        found["argv"] = hide_arguments(argv)
    elif tool == "run":
        found["command"] = hide_options(arguments.get("command", ""))
    elif tool == "send":
        found["keys"] = _key_names(arguments)
    return found | {name: arguments[name] for name in ("path", "host", "signal") if arguments.get(name)}


def _key_names(arguments: Mapping[str, Any]) -> list[str]:
    """Keys that are no characters, by tmux's names; of a wrong one nothing, it may be anything."""
    try:
        names = parse_key(arguments["key"]) if arguments.get("key") else []
        names += parse_keys(arguments["keys"]) if arguments.get("keys") else []
    except InvalidArgument:
        names = []
    return [name for name in names if len(name) > 1] + (["Enter"] if arguments.get("enter") else [])


def _bytes_in(arguments: Mapping[str, Any]) -> int:
    texts = [arguments.get(name) for name in ("command", "text", "data", "stdin", "stdin_base64")]
    return sum(len(each.encode("utf-8", "surrogateescape")) for each in texts if isinstance(each, str))


def _bytes_out(result: Any) -> int:
    inner = getattr(result, "result", None) or result
    texts = [getattr(inner, name, None) for name in ("output", "content", "data", "stdout", "stderr")]
    return sum(len(each.encode("utf-8", "surrogateescape")) for each in texts if isinstance(each, str))
