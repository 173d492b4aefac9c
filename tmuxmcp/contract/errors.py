"""Every error a caller can see, each with its stable code.

    TmuxMcpError
    |-- InvalidArgument       INVALID_ARGUMENT     |-- SessionNotFound    SESSION_NOT_FOUND
    |   |-- InvalidKey        INVALID_KEY          |-- SessionExists      SESSION_EXISTS
    |   |-- InvalidPattern    INVALID_PATTERN      |-- SessionExited      SESSION_EXITED
    |   `-- NoInput           NO_INPUT             |-- SessionBusy        SESSION_BUSY
    |-- ProgramNotFound       PROGRAM_NOT_FOUND    |-- MaxSessions        MAX_SESSIONS
    |-- CwdNotFound           CWD_NOT_FOUND        |-- ResourceLimit      RESOURCE_LIMIT
    |-- NotAShell             NOT_A_SHELL          |-- TmuxUnavailable    TMUX_UNAVAILABLE
    |-- AdoptionFailed        ADOPTION_FAILED      |
    |-- WrongMode             WRONG_MODE           |-- TmuxFailed         TMUX_ERROR
    |-- HostUnreachable       HOST_UNREACHABLE     |
    |-- IncompleteCommand     INCOMPLETE_COMMAND   |-- IoError            IO_ERROR
    |-- FileMissing           FILE_NOT_FOUND       |-- PathOutsideRoot    PATH_OUTSIDE_ROOT
    |-- NotRetained           NOT_RETAINED         |-- SessionTaken       SESSION_TAKEN
    |-- Unsupported           UNSUPPORTED          |-- TimedOut           TIMEOUT
    |-- PermissionDenied      PERMISSION_DENIED    |-- Cancelled          CANCELLED
    |-- PolicyDenied          POLICY_DENIED        |-- ConfirmationDeclined CONFIRMATION_DECLINED
    |-- RecordingState        RECORDING_STATE      |
    |-- Unauthorized          UNAUTHORIZED         |-- Internal           INTERNAL
    |-- NodeUnreachable       NODE_UNREACHABLE     |-- OutcomeUnknown     OUTCOME_UNKNOWN
    `-- NodeLost              NODE_LOST            `-- FleetFull          FLEET_FULL

A code never changes its meaning and is never reused. The message says what happened, the hint what to do
next; both are shown to models and to people as they stand. A wait that ends is an answer, not an error.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any, ClassVar


class TmuxMcpError(Exception):
    """Base of everything tmuxmcp raises on purpose."""

    code: ClassVar[str] = "INTERNAL"
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    exit_status: ClassVar[int] = 1
    """Exit status of the command line: 1 error, 2 usage, 3 not found, 4 denied, 124 timed out."""

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
        """Values a program can use (`session_id`, `argv` ...); never secrets."""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" Hint: {self.hint}" if self.hint else "")

    def as_dict(self) -> dict[str, Any]:
        """The error object every face shows: `{code, message, retryable, hint, details}`."""
        return {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "hint": self.hint,
            "details": self.details,
        }

    @staticmethod
    def received(told: Mapping[str, Any]) -> TmuxMcpError:
        """The error that another process raised, as `as_dict` has it; `Internal` of a code that this version lacks."""
        known = next((each for each in all_errors() if each.code == told["code"]), None)
        message = told["message"] if known else f"{told['code']}: {told['message']}"
        return (known or Internal)(message, hint=told.get("hint", ""), **told.get("details", {}))


class InvalidArgument(TmuxMcpError):
    """An argument has the wrong type, form or size."""

    code, http_status, exit_status = "INVALID_ARGUMENT", 400, 2


class InvalidKey(InvalidArgument):
    """A key name that no notation knows; nothing was sent."""

    code = "INVALID_KEY"


class InvalidPattern(InvalidArgument):
    """A regular expression that does not compile, is too long, or takes too long to search for."""

    code = "INVALID_PATTERN"


class NoInput(InvalidArgument):
    """`send` was given nothing to send."""

    code = "NO_INPUT"


class SessionNotFound(TmuxMcpError):
    """No session has this id."""

    code, http_status, exit_status = "SESSION_NOT_FOUND", 404, 3


class SessionExists(TmuxMcpError):
    """The name is in use."""

    code, http_status = "SESSION_EXISTS", 409


class SessionExited(TmuxMcpError):
    """The session's program has ended; its output can still be read."""

    code, http_status = "SESSION_EXITED", 409


class SessionBusy(TmuxMcpError):
    """Something already runs in the session."""

    code, http_status, retryable = "SESSION_BUSY", 409, True


class SessionTaken(TmuxMcpError):
    """A person has taken the session over, or it is paused; nothing was done."""

    code, http_status, retryable = "SESSION_TAKEN", 409, True


class NotAShell(TmuxMcpError):
    """What reads the session's input is not a shell that can report exit codes."""

    code, http_status = "NOT_A_SHELL", 409


class AdoptionFailed(TmuxMcpError):
    """What is in front did not take our marks, though it was to: it may be no shell."""

    code, http_status = "ADOPTION_FAILED", 409


class WrongMode(TmuxMcpError):
    """The session is not in a mode in which this can work."""

    code, http_status = "WRONG_MODE", 409


class HostUnreachable(TmuxMcpError):
    """ssh has no connection to the host of a session: it could not be made, or the host refused it."""

    code, http_status = "HOST_UNREACHABLE", 502


class NodeUnreachable(TmuxMcpError):
    """The machine of a session does not answer, and nothing was done; the session may well be alive there."""

    code, http_status, retryable = "NODE_UNREACHABLE", 503, True


class OutcomeUnknown(TmuxMcpError):
    """Nobody can tell whether the call was carried out: who did it is gone, or the way there. It is not done again."""

    code, http_status = "OUTCOME_UNKNOWN", 502


class NodeLost(TmuxMcpError):
    """An operator has given up the machine of a session, and the session with it."""

    code, http_status, exit_status = "NODE_LOST", 410, 3


class FleetFull(TmuxMcpError):
    """No machine that fits has room for a session."""

    code, http_status, retryable = "FLEET_FULL", 429, True


class IncompleteCommand(TmuxMcpError):
    """The shell wants more text: an open quote, bracket or here-document."""

    code, http_status = "INCOMPLETE_COMMAND", 422


class Unsupported(TmuxMcpError):
    """This tmux, terminal or system cannot do it."""

    code, http_status = "UNSUPPORTED", 501


class PermissionDenied(TmuxMcpError):
    """The system refused, or the state directory is not safe to use."""

    code, http_status, exit_status = "PERMISSION_DENIED", 403, 4


class PolicyDenied(TmuxMcpError):
    """The person's policy or sandbox forbids it, or a person must agree and cannot be asked; nothing was done."""

    code, http_status, exit_status = "POLICY_DENIED", 403, 4


class ConfirmationDeclined(TmuxMcpError):
    """A person was asked and did not agree, or what was agreed to has changed; nothing was done."""

    code, http_status, exit_status = "CONFIRMATION_DECLINED", 403, 4


class Unauthorized(TmuxMcpError):
    """No token that is accepted came with the request, or its scopes do not allow the call."""

    code, http_status, exit_status = "UNAUTHORIZED", 401, 4


class ProgramNotFound(TmuxMcpError):
    """The program does not exist or cannot be executed."""

    code, http_status, exit_status = "PROGRAM_NOT_FOUND", 404, 3


class CwdNotFound(TmuxMcpError):
    """The working directory does not exist."""

    code, http_status, exit_status = "CWD_NOT_FOUND", 404, 3


class FileMissing(TmuxMcpError):
    """The file or directory does not exist."""

    code, http_status, exit_status = "FILE_NOT_FOUND", 404, 3


class PathOutsideRoot(TmuxMcpError):
    """The path leads out of `files_root`, or out of what the file tools reach in a sandbox."""

    code, http_status, exit_status = "PATH_OUTSIDE_ROOT", 403, 4


class NotRetained(TmuxMcpError):
    """What was asked for is no longer kept: the log gave its head back."""

    code, http_status, exit_status = "NOT_RETAINED", 410, 3


class RecordingState(TmuxMcpError):
    """A recording runs already, or none does."""

    code, http_status = "RECORDING_STATE", 409


class MaxSessions(TmuxMcpError):
    """No more sessions may be opened."""

    code, http_status, retryable = "MAX_SESSIONS", 429, True


class ResourceLimit(TmuxMcpError):
    """A size or count is over its limit; the message names the setting."""

    code, http_status = "RESOURCE_LIMIT", 413


class TmuxUnavailable(TmuxMcpError):
    """tmux is missing or too old."""

    code, http_status = "TMUX_UNAVAILABLE", 503


class TmuxFailed(TmuxMcpError):
    """tmux refused a command or did not answer."""

    code = "TMUX_ERROR"


class IoError(TmuxMcpError):
    """A file could not be read or written."""

    code = "IO_ERROR"


class TimedOut(TmuxMcpError):
    """An operation that has no partial answer did not end in time."""

    code, http_status, retryable, exit_status = "TIMEOUT", 504, True, 124


LOOK_BEFORE = "What runs in the session goes on: look with read or list_commands before you make the call again."
"""For who is not told what became of a call."""


class Cancelled(TmuxMcpError):
    """The call was ended before it had an answer: its client left, or the server stops. What runs goes on, and the
    same call again may do it twice."""

    code, http_status = "CANCELLED", 503


class Internal(TmuxMcpError):
    """A defect of ours; the log has the whole of it under the incident id."""

    code = "INTERNAL"


def unexpected(incident: str) -> Internal:
    """What a caller is told of an exception that nobody raised on purpose; the log has it under `incident`."""
    return Internal(
        "Something unexpected failed inside tmuxmcp.",
        hint=f"The server's log (stderr) has it under incident {incident}; sessions go on.",
        incident=incident,
    )


def shortage(error: BaseException) -> TmuxMcpError | None:
    """What a caller is told when the machine has no more of something, or no longer; None for any other error.

    Wherever it strikes: every file, pipe and process that we open can be the one too many.
    """
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(shortage, error.exceptions)), None)
    if isinstance(error, ImportError) and (error.name or "").startswith("tmuxmcp."):
        return Internal(
            "tmuxmcp was upgraded while this process ran, and the file that it needs now is gone.",
            hint="Restart the server, or the client that started it. Sessions go on.",
        )
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return ResourceLimit(
            "The server has no file descriptors left.",
            hint="Destroy sessions, let calls return, or start it with a higher limit of open files (ulimit -n).",
            limit="open_files",
        )
    if error.errno == errno.ENOMEM:
        return ResourceLimit("The machine has no memory left.", hint="End something, then try again.", limit="memory")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
        return IoError(f"The disk is full{where}.", hint="Make room where state_dir lies, then try again.")
    return None


def all_errors() -> list[type[TmuxMcpError]]:
    """Every error class, sorted by code; the reference documentation is made from it."""
    found: list[type[TmuxMcpError]] = []
    todo = list(TmuxMcpError.__subclasses__())
    while todo:
        cls = todo.pop()
        found.append(cls)
        todo += cls.__subclasses__()
    return sorted(found, key=lambda cls: cls.code)
