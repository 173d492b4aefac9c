"""Our key at the prompt of a shell that sends marks: it shows its prompt, listens for a command, or listens no more."""

from __future__ import annotations

import time
from collections.abc import Callable

from tmuxmcp.machine.launch import shells
from tmuxmcp.machine.launch.shells import adoption
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.readiness.judge import UNMARKED_S
from tmuxmcp.record.levels import Level
from tmuxmcp.sessions.levels import shell_at
from tmuxmcp.sessions.look import Scan
from tmuxmcp.sessions.screens import all_logged
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import typed
from tmuxmcp.shell.pacing import ShellRest
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import Pane

LISTENS_S = 1.0
"""A shell at its prompt that has not answered our key after this time is in another mode: a search, a menu."""

LISTENS_BUSY_S = 5.0
"""The same for a shell that uses the processor: on a busy machine it may not have read the key yet."""

FAR_S = 4.0
"""How much longer a shell on another machine may take to answer."""

ANSWERED_S = 2.0
"""Who has typed our key and not answered a shell that listens for so long is taken for gone."""

ASKED, TOLD = "asked", "told"
"""How a claim of a prompt ends: our key was typed there, and a command after it."""


async def interrupt(session: Session, pane: Pane) -> None:
    """Press C-c: what stands unfinished at a prompt is taken back, and another prompt drawn."""
    await panes.type_input(session.tmux, pane, b"", after=[panes.keys(pane, ["C-c"])])


async def show_prompt(session: Session, pane: Pane) -> None:
    """Have a shell that waits for keys say at which prompt it is, by its marks; that changes and runs nothing."""
    scan = await session.scan()
    nonce = scan.level.nonce
    if scan.level.reads_lines:
        return  # all that it can be asked is a command
    with session.expecting_answer(nonce) as asked_at:
        if scan.knows.reads_files:
            await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, shells.SHOW_PROMPT)])
            if session.proves(scan.level):  # an earlier version's shell shows its prompt, and says nothing
                await until_marked(session, lambda _: not session.is_asked(nonce), limit_s=UNMARKED_S)
            return
        key = command_key(session, scan.level)
        asked = await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, key)])
        if asked and await answer_to_key(session, nonce, asked_at):
            await listen_no_more(session, scan, pane)  # else it asks a question of its own, which nothing may answer


async def end_listening(session: Session, scan: Scan) -> None:
    """End the listening of a shell that answered our key, where no command comes, or no more of one.

    The broker that typed the key has given up or is gone, or a C-c came while the command was typed.

    A broker that goes on after all finds its claim taken away, and types no command.
    """
    if not scan.shell.listening:
        return
    pane = session.live()
    held = await panes.recall(session.tmux, pane, "claim")
    if held:
        told, rest = held.startswith(claim_of(scan)) and not held.endswith(ASKED), ShellRest()
        async for look in session.looks(0.02, time.monotonic() + ANSWERED_S):
            if not look.shell.listening:
                return
            if told and await typed.rests(session, look, rest):
                break  # it waits for more of its command, and no more comes: a C-c has taken a part of it away
        else:
            if told:
                return  # it reads its command
    await listen_no_more(session, scan, pane, held)


def claim_of(scan: Scan) -> str:
    """How each claim of the prompt that is shown begins."""
    return prompt_claim(scan.level.nonce, scan.shell.number)


def prompt_claim(nonce: str, number: int) -> str:
    """How each claim of a prompt begins: with its name."""
    return f"{nonce}-{number}-"


async def listen_no_more(session: Session, scan: Scan, pane: Pane, held: str | None = None) -> bool:
    """End the listening of a shell that was given our key; whether it says that it did.

    Args:
        held: only while the claim says this; it is given up.
    """
    asked_at, level = session.log.size(), scan.level
    keys = (
        adoption.refuse(shell_kind(level), typed.PROMPT_JOB) if level.number else shells.refused_keys(typed.PROMPT_JOB)
    )
    before, condition = [], ""
    if held is not None:
        before = [panes.remember(pane, "claim", "")]
        condition = f"#{{==:{panes.remembered(pane, 'claim')},{held}}}"
    if not await panes.type_input(session.tmux, pane, keys, before=before, condition=condition, ends=True):
        return False
    told = (typed.PROMPT_JOB,) if level.number == 0 else (typed.PROMPT_JOB, "")

    def refused(scan: Scan) -> bool:
        why, name = why_not_taken(scan, level.nonce, asked_at)
        return bool(why) and name in told

    return bool(await until_marked(session, refused))


def command_key(session: Session, level: Level) -> bytes:
    """The key after which a shell with a line editor takes a command."""
    knows_own = level.function_key if level.number else session.meta.function_key
    return shell_at(level, session.meta.program).key if knows_own else shells.COMMAND_KEY


def shell_kind(level: Level) -> adoption.ShellKind:
    """What a shell that was adopted has said of itself."""
    return adoption.who(level.answer)


async def until_marked(
    session: Session, met: Callable[[Scan], bool], longer_s: float = 0.0, limit_s: float = LISTENS_S
) -> Scan | None:
    """Wait until the marks in the log satisfy a condition, as long as a shell may take to answer a key, or longer."""
    until = time.monotonic() + limit_s + longer_s
    async for scan in session.scans(0.02, until + LISTENS_BUSY_S - LISTENS_S):
        if met(scan):
            return scan
        if not scan.launcher_alive:
            break
        if time.monotonic() > until and await _is_silent(session, scan.size):
            break
    return None


async def _is_silent(session: Session, size: int) -> bool:
    """Whether the shell has got all that was typed, does nothing, and all that it printed is in a log of this size."""
    if not await all_logged(session, size) or (await session.look()).waiting is InputWait.BUSY:
        return False
    return await all_logged(session, size)


async def answer_to_key(session: Session, nonce: str, asked_at: int) -> Scan | None:
    """What the marks say once the shell answers our key, that it listens; None: it does not."""

    def listens(scan: Scan) -> bool:
        found = scan.at(nonce)
        return found is not None and found.shell.listens >= asked_at

    level = session.level_of(nonce)
    far_s = FAR_S if level.where == "remote" else 0.0
    # Anybody can print that it does not.
    refuses = not session.proves(level)
    scan = await until_marked(
        session, lambda scan: listens(scan) or (refuses and bool(why_not_taken(scan, nonce, asked_at)[0])), far_s
    )
    return scan if scan and listens(scan) else None


def why_not_taken(scan: Scan, nonce: str, since: int) -> tuple[str, str]:
    """Why the shell did not take what was given to it by key, and under which name; empty if it did not say so."""
    found = scan.at(nonce)
    why, name, at = (found and found.shell.refused) or ("", "", 0)
    return (why, name) if at >= since else ("", "")
