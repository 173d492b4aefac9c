"""A session made again from what is written down of one that is over: what it is given, and what is to be said of it.

No command that ran in it is run again. Its program is started anew, but not a shell that was given a command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from tmuxmcp.contract.errors import InvalidArgument, Unsupported
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.requests import CreateSession
from tmuxmcp.contract.settings import Limits, SandboxLevel
from tmuxmcp.machine.sandbox import sandbox
from tmuxmcp.record.commands import EndedCommand
from tmuxmcp.record.meta import Meta
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.modes import PROMPT_SHELLS

TAKES_A_WORD = ("--rcfile", "--init-file", "-o", "+o", "-O", "+O", "-C", "--init-command", "--profile")
"""Options of shells behind which a word stands that is no script."""


@dataclass(frozen=True)
class Restoration:
    """A session that is to be made from another."""

    request: CreateSession
    """All that is taken filled in, below what was asked for."""
    generation: int
    """Of the one that is over."""
    was_lost: bool
    """Nobody tells of its end; else it has ended, or was destroyed."""
    taken: tuple[str, ...]
    """Names of the arguments that are its."""
    owner: str
    """The caller whose default session it was."""
    env_names: tuple[str, ...] | None
    """Names of the variables that it was given; None: that is not known."""
    env_missing: tuple[str, ...] = ()
    """Those of them that have no value now."""
    env_other: tuple[str, ...] = ()
    """Those that have the value of the present environment, whatever they were given as."""
    remark: str = ""

    @property
    def note(self) -> str:
        """What is to be said of it."""
        over = "lost session" if self.was_lost else "session that was over and"
        words = [
            f"Made from the {over} of this name, whose log is generation {self.generation}: {', '.join(self.taken)} are"
            " as they were there. No command that ran there was run again.",
            self.remark,
        ]
        if self.env_names is None:
            words.append("Which variables it was given is not known.")
        if self.env_missing:
            words.append(f"These variables that it was given have no value now: {', '.join(self.env_missing)}.")
        if self.env_other:
            words.append(f"These have the present environment's value, not the one given: {', '.join(self.env_other)}.")
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class NotRestored:
    """A session that has the name of a lost one and nothing else of it."""

    note: str
    owner: str = ""
    env_names: tuple[str, ...] = ()


def was_lost(session: Session) -> bool:
    """Whether nothing runs in a session any more and nobody tells of its end."""
    return session.ended is not None and session.ended.reason == "lost"


def restoration(session: Session, look: Look, given: CreateSession) -> Restoration:
    """What is to be made from a session that is over; what was asked for wins.

    Raises:
        InvalidArgument: it was a shell that was given a command, which is not run again.
        Unsupported: it is written down in a way that is not understood here.
    """
    meta, asked = session.meta, given.arguments()
    remark = ""
    taken = _of(session, look)
    if "program" in asked or "host" in asked:
        for name in ("program", "args", *(("host", "cwd", "sandbox", "limits") if asked.get("host") else ())):
            taken.pop(name, None)
    elif why := ran_a_command(taken.get("program", ""), taken.get("args", []), marks=meta.marks):
        raise InvalidArgument(
            f"Session {session.id} was {os.path.basename(meta.program)} {why}, which is not run again.",
            hint="If it shall be, make a session of that name with this program and these args.",
            session_id=session.id,
        )
    if "cwd" in taken and "cwd" not in asked and not os.path.isdir(taken["cwd"]) and os.path.isdir(meta.cwd):
        remark = f"It begins in {meta.cwd}: {taken['cwd']} is gone."
        taken["cwd"] = meta.cwd
    taken = {name: value for name, value in taken.items() if name not in asked}
    return Restoration(
        request=CreateSession(**{**taken, **asked}),
        generation=session.generation,
        was_lost=was_lost(session),
        taken=tuple(taken),
        owner=meta.owner,
        env_names=None if meta.env_names is None else tuple(meta.env_names),
        remark=remark,
    )


def with_environment(found: Restoration, present: Mapping[str, str]) -> Restoration:
    """The same, with what became of the variables that it was given.

    Args:
        present: all that its program is going to have.
    """
    names = [name for name in found.env_names or () if name not in found.request.env]
    return Restoration(
        **{
            **vars(found),
            "env_missing": tuple(name for name in names if name not in present),
            "env_other": tuple(name for name in names if name in present),
        }
    )


def ran_a_command(program: str, args: Sequence[str], *, marks: bool = False) -> str:
    """By which of its arguments a shell was given a command or a script; empty: it is at a prompt, or is no shell."""
    if marks or os.path.basename(program) not in PROMPT_SHELLS:
        return ""
    words = iter(args)
    for word in words:
        if word in TAKES_A_WORD:
            next(words, None)
        elif word == "-s":
            return ""
        elif not word.startswith(("-", "+")) or word in ("-", "--") or _gives_a_command(word):
            return word
    return ""


def _gives_a_command(option: str) -> bool:
    """`-c`, also among other letters, `--command`."""
    if option.startswith("--"):
        return option.partition("=")[0] == "--command"
    return option.startswith("-") and "c" in option


def rank(level: SandboxLevel) -> int:
    """How much a sandbox keeps apart."""
    return get_args(SandboxLevel).index(level)


def _of(session: Session, look: Look) -> dict[str, Any]:
    """The arguments by which a session was made, as it was at last."""
    meta = session.meta
    found: dict[str, Any] = {"program": meta.program, "args": list(meta.args)}
    if meta.host:  # ssh, the host, and what was to run there
        words = list(meta.args[1:])
        found = {"host": meta.host, "program": words[0] if words else "", "args": words[1:]}
    else:
        found["cwd"] = _cwd(session, look)
        if session.bounds.sandbox != "none":
            found["sandbox"] = "required" if sandbox.meets(session.bounds.sandbox, "required") else "auto"
    resized = session.events.resizes()
    rows, cols = (resized[-1].rows, resized[-1].cols) if resized else (meta.rows, meta.cols)
    found |= {"rows": rows, "cols": cols, "scrollback_lines": meta.scrollback_lines}
    if limits := _limits(meta):
        found["limits"] = limits
    return {name: value for name, value in found.items() if value or name == "scrollback_lines"}


def _cwd(session: Session, look: Look) -> str:
    """Where its own shell was at last, as far as that told; in a sandbox, where it began."""
    if session.bounds.sandbox != "none" or not session.meta.marks:
        return session.meta.cwd
    known = [
        each for each in session.commands.kept_commands(look) if isinstance(each, EndedCommand) and each.level == 0
    ]
    return next((each.cwd for each in reversed(known) if each.cwd), session.meta.cwd)


def _limits(meta: Meta) -> Limits | None:
    values = meta.bounds.get("limits") or {}
    try:
        return Limits.model_validate(values) if values else None
    except ValidationError:
        raise Unsupported(
            f"The limits of session {meta.session_id} are not understood here: {', '.join(map(str, values))}.",
            hint="Upgrade tmuxmcp, or make the session with the limits that you want.",
            session_id=meta.session_id,
        ) from None
