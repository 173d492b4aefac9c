"""The moment between a command's end and the next prompt: a shell that is there is neither busy nor hung."""

from __future__ import annotations

import time

from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.readiness.settling import UNMARKED_S
from tmuxmcp.sessions.look import Look, Scan
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import ShellState


async def prompt_drawn(session: Session) -> Scan:
    """Wait for the prompt of a shell that has just finished a command, for a moment.

    What is typed before it is there is echoed twice: by the terminal, and by the shell's line editor.
    """
    scan = await session.scan()
    if not _between_prompts(scan):
        return scan
    with session.watcher.waiting(session.log.path):
        async for scan in session.scans(0.01, time.monotonic() + UNMARKED_S):
            if not _between_prompts(scan):
                break
    return scan


def _between_prompts(scan: Scan) -> bool:
    between = scan.marks and scan.shell.state is ShellState.STARTING and scan.shell.number > 0
    return between and not scan.exited


async def at_rest(session: Session) -> Look:
    """Let a shell whose command is over come to its next prompt, for a moment: it is neither busy nor hung.

    `run` answers at the mark that ends the command; the prompt comes after it.
    """
    await prompt_drawn(session)
    look = await session.look()
    if _comes_to_rest(look):
        async for look in session.looks(0.001, time.monotonic() + UNMARKED_S):
            if not _comes_to_rest(look):
                break
    return look


def _comes_to_rest(look: Look) -> bool:
    """Whether its shell has drawn its prompt, and still does something for itself."""
    own = look.facts is not None and look.own_shell_in_front
    return own and look.shell.state is ShellState.PROMPT and look.waiting is InputWait.BUSY
