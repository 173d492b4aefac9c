"""Whether a secret may be typed now: who would get it, as the kernel says of programs that read without echo.

A program is known by its file: the one that it runs, by device and inode, not by a name, which it may choose itself.
What the kernel does not tell is not known, and never taken for a match.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.errors import InvalidArgument, PermissionDenied, WrongMode
from tmuxmcp.contract.settings import BrokerSettings, Secret
from tmuxmcp.contract.value import value
from tmuxmcp.machine import proc
from tmuxmcp.machine.witness.kernel import POLL_WAIT_CHANNELS, TTY_READ, UNREADABLE_WAIT_CHANNELS, Process
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.text.plain import sanitize

ARGUMENT_CHARS = 300
"""Characters of a program's arguments that a person is shown."""

ALSO_TYPED = ("text", "key", "keys", "ctrl", "alt", "shift", "data_base64")
"""Arguments of `send` that say what else is typed."""

File = tuple[int, int]
"""Device and inode."""


@value
class ReadingProgram:
    """A process that may read what is typed."""

    pid: int
    born_s: float
    """By the clock CLOCK_BOOTTIME: process ids come again."""
    words: str
    """Its arguments as it shows them, safe for a person's terminal."""
    path: str
    """Of the file that it runs; empty: another user's, so that it is not known."""
    file: File | None

    def __str__(self) -> str:
        # The file first, and in quotes what a program chooses itself: its words may look like another's.
        file = json.dumps(self.path, ensure_ascii=False) if self.path else "a file that is not known"
        number = f" (process {self.pid})" if self.pid else ""
        return f"{file}{number}, which calls itself {json.dumps(self.words, ensure_ascii=False)}"


@value
class SecretReader:
    """All that may read what is typed into a session at one moment."""

    programs: tuple[ReadingProgram, ...]
    relays: tuple[str, ...]
    """Names of the programs through which it would pass."""
    host: str
    """The machine on which it is read; empty: this one."""

    def runs(self, paths: Iterable[str]) -> bool:
        """Whether nobody but programs that run one of these files can get it, as far as the kernel knows."""
        if self.relays or self.host or not self.programs:
            return False
        files = {_file(path) for path in paths} - {None}
        return all(each.file in files for each in self.programs)

    @property
    def digest(self) -> str:
        """Tells these programs, with their words, from others; the same when they are started again."""
        who = sorted((each.words, each.file or ()) for each in self.programs)
        return hashlib.sha256(repr((who, self.relays, self.host)).encode()).hexdigest()

    def __str__(self) -> str:
        who = ", ".join(map(str, self.programs)) or "a program that is not known"
        where = f" on {self.host}" if self.host else ""
        return f"{who}{where}" + (f" behind {', '.join(self.relays)}" if self.relays else "")


def reader_of(session: Session, look: Look) -> SecretReader:
    """Who would get what is typed now.

    Raises:
        WrongMode: by the kernel's word no program waits for a line that is not shown.
    """
    facts = look.judged
    if not look.secret or look.mode != "password" or facts is None or facts.echo or facts.unread:
        raise WrongMode(
            f"Nothing was typed: no program in session {session.id} asks for a secret now (its mode is {look.mode}), "
            "so that what is typed may be shown.",
            hint="Bring the program to its question, wait for mode password, and make the call then.",
            session_id=session.id,
            mode=look.mode,
        )
    if look.far is not None:
        words = look.verdict.process.name if look.verdict.process else ""
        return SecretReader((ReadingProgram(0, 0.0, _safe(words), "", None),), look.relays, look.host)
    found = {each.pid: each for each in facts.processes if _may_read(each)}
    if look.verdict.process:
        found[look.verdict.process.pid] = look.verdict.process
    return SecretReader(tuple(map(_program, sorted(found))), look.relays, "")


def _may_read(process: Process) -> bool:
    """Whether it sleeps in a read of the terminal, as far as can be told."""
    if process.state != "S" or process.on_terminal is False:
        return False
    return (
        process.on_terminal is True or process.wait_channel in TTY_READ | POLL_WAIT_CHANNELS | UNREADABLE_WAIT_CHANNELS
    )


def _program(pid: int) -> ReadingProgram:
    words, born_s, path = "", 0.0, ""
    with suppress(OSError):
        born_s = proc.stat(f"/proc/{pid}").born_s
        words = " ".join(proc.argv_text(pid)) or proc.name(pid)
    file = _file(f"/proc/{pid}/exe")
    if file:
        with suppress(OSError):
            path = os.readlink(f"/proc/{pid}/exe")
    return ReadingProgram(pid, born_s, _safe(words)[:ARGUMENT_CHARS] or "?", _safe(path), file)


def _file(path: str) -> File | None:
    """The file that a path leads to; None: there is none, or it is not ours to see."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _safe(text: str) -> str:
    return sanitize(text.replace("\n", " "))[0]


def secret_named(settings: BrokerSettings, request: q.Send) -> Secret:
    """The secret that a call means.

    Raises:
        InvalidArgument: there is none of that name, or more is to be typed with it.
    """
    more = [name for name in ALSO_TYPED if getattr(request, name)]
    if more:
        hint = "Give secret alone: its value and Enter are typed."
        raise InvalidArgument(f"secret does not go with {', '.join(more)}.", hint=hint)
    found = settings.secrets.get(request.secret)
    if found is None:
        known = ", ".join(sorted(settings.secrets))
        hint = f"There are: {known}." if known else "The person names them in the setting secrets; there are none."
        raise InvalidArgument("There is no secret of that name.", hint=hint, secrets=sorted(settings.secrets))
    return found


@value
class SecretMoment:
    """How a session stands that asks for a secret."""

    look: Look
    reader: SecretReader
    asks: bool
    """A person has to agree to that reader."""


async def moment(name: str, secret: Secret, session: Session) -> SecretMoment:
    """Who would get a secret now.

    Raises:
        WrongMode: no program asks for a secret.
        PermissionDenied: it is not for this session, or not for that program.
    """
    if not secret.allows(session.id):
        raise PermissionDenied(
            f"Nothing was typed: secret {name} is not for session {session.id}.",
            hint="The person's setting secrets says in which sessions it may be typed. Ask them.",
            session_id=session.id,
        )
    await session.refresh()
    session.live()
    look = await session.look()
    reader = reader_of(session, look)
    known = reader.runs(secret.programs)
    if not known and not secret.ask:
        raise PermissionDenied(
            f"Nothing was typed: secret {name} is not for what asks in session {session.id}, {reader}.",
            hint="The person's setting secrets says which programs it is for. Ask them to type it.",
            session_id=session.id,
        )
    return SecretMoment(look, reader, asks=not known)
