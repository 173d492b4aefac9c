"""A new session on another host: from ssh's start to the first prompt there.

What ssh asks on the way (a host key, a passphrase, a password) is asked of the person: it is told, and never answered
here.
"""

from __future__ import annotations

import shutil
import time

import anyio

from tmuxmcp.contract.call import Progress
from tmuxmcp.contract.errors import AdoptionFailed, HostUnreachable, SessionBusy
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine.ssh.client import SSH_FAILED
from tmuxmcp.readiness.adoptable import NotAdopted, may_adopt_far
from tmuxmcp.readiness.wait import WaitCondition, wait_for
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import adopting

SILENT_MS = 3000
"""Silence that is told where the far end has no witness: a login may say nothing for so long."""

SAID_LINES = 3
"""The last lines of ssh that an error repeats."""

SAID_CHARACTERS = 600

SETTLES_S, RETRY_S = 2.0, 0.03
"""How long a shell that shows its prompt may still do something for itself, and how often that is looked at."""

OTHER_KEY = "REMOTE HOST IDENTIFICATION HAS CHANGED"


@dataclass(frozen=True)
class Arrival:
    """How far a session has come."""

    ready: bool
    """A program at the far end waits for input."""
    note: str | None = None
    """What the caller should know."""


async def arrive(
    registry: Registry, session: Session, timeout_ms: int, attach_command: str, progress: Progress, *, adopts: bool
) -> Arrival:
    """Wait for the far end, at most so long, and adopt the shell that stands at its prompt there.

    Args:
        attach_command: how a person comes to its terminal.
        adopts: what is there is to be adopted if it is a shell.

    Raises:
        HostUnreachable: there is no connection; nothing is left of the session.
    """
    wait = WaitCondition("ready", timeout_ms, idle_ms=SILENT_MS, sent_at=0, progress=progress)
    answer = await wait_for(session, wait)
    look = await session.look()
    if look.exited:
        if look.exit_status == (SSH_FAILED, None):
            raise await _unreachable(registry, session, look)
        return Arrival(False)
    if _ssh_asks(look):
        return Arrival(False, f"{_question(look)} Only the person answers that: {attach_command.replace(' -r ', ' ')}")
    if answer.outcome != "ready":
        return Arrival(False, answer.note)
    return Arrival(True, await _adopted(session) if adopts else None)


async def _adopted(session: Session) -> str | None:
    """Adopt the shell at its first prompt there, if it is one; else say what to do."""
    deadline = time.monotonic() + SETTLES_S
    while True:
        await session.alive()
        look = await session.look()
        found = await may_adopt_far(session, look)
        if not isinstance(found, NotAdopted) or not found.passes or time.monotonic() > deadline:
            break
        await anyio.sleep(RETRY_S)
    if isinstance(found, NotAdopted):
        return f"run does not work in it yet: {found.why}. {found.hint}"
    try:
        await adopting.adopt(session, look, found.condition)
    except (AdoptionFailed, SessionBusy) as error:
        return f"{error.message} {error.hint}"
    return None


def _ssh_asks(look: Look) -> bool:
    """Whether it is ssh that waits for an answer: it has not passed its terminal on yet."""
    return look.ready and look.far is None and look.facts is not None and look.facts.canonical


def _question(look: Look) -> str:
    what = "asks for a secret" if look.secret else "asks a question"
    return f"ssh {what}: {last_lines(look.last_text, 1)!r}."


async def _unreachable(registry: Registry, session: Session, look: Look) -> HostUnreachable:
    said = last_lines(look.last_text, SAID_LINES)
    hint = "Check the host's name, that it is up, and that `ssh` reaches it without a question."
    if OTHER_KEY in look.last_text:
        hint = "The host shows another key than the known one. Only the person can judge why: tell them."
    await registry.forget(session)
    shutil.rmtree(session.directory.path, ignore_errors=True)
    return HostUnreachable(
        f"ssh has no connection to {session.meta.host}: {said or 'it said nothing'}",
        hint=hint,
        host=session.meta.host,
        exit_code=SSH_FAILED,
    )


def last_lines(text: str, most: int) -> str:
    """The last lines that say something, as one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[-most:])[-SAID_CHARACTERS:]
