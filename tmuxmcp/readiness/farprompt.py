"""Whether the login shell of a session on another host waits at its first prompt there.

Who made the session with `host` has agreed to its shell being adopted, and not to anything else being typed to. So
the kernel there has to say that the login shell itself waits, alone, as that kind of shell does at its prompt; and the
line has to look like a prompt at which nothing was typed. Without a witness there, nothing of this is known.
"""

from __future__ import annotations

import re

from tmuxmcp.machine.launch.shells import BY_FILE
from tmuxmcp.machine.witness.far import FarFacts
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.readiness.adoptable import Adoptable, NotAdopted, before_cursor, unmoved
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.screens import all_logged
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.modes import PROMPT_SIGNS, may_be_prompt
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import InputLeftover

_BEHIND_SIGN = re.compile(rf"[{re.escape(PROMPT_SIGNS)}]\s+\S")
"""Text behind a prompt's sign: a person may have typed it."""

ADOPT_HINT = "Look at it with read view=screen. If a shell's prompt stands there, run a command with adopt=yes."
ANSWER_FIRST = "Answer it with send; then run works here."


async def may_adopt_far(session: Session, look: Look) -> Adoptable | NotAdopted:
    """Whether the login shell there is surely at its prompt. It types nothing."""
    why = _not_at_prompt(look)
    if why:
        return why
    line = await panes.line_of_cursor(session.tmux, session.live())
    logged = await all_logged(session, look.size)
    again = await session.look()
    if not line or not logged or _moved(look, again):
        return NotAdopted("something happens there at this moment", ADOPT_HINT, passes=True)
    text = before_cursor(line)
    if not may_be_prompt(text) or "".join((*line.above, line.row)).rstrip() != text.rstrip():
        return NotAdopted("its line does not look like a prompt", ADOPT_HINT)
    if (
        line.last_input is None
        or line.last_input.left is InputLeftover.OPEN
        or (line.person_at and _BEHIND_SIGN.search(text))
    ):
        return NotAdopted("something was typed there and not entered", ADOPT_HINT)
    process = again.verdict.process
    return Adoptable(process.pid if process else 0, process.name if process else "", unmoved(line))


def _not_at_prompt(look: Look) -> NotAdopted | None:
    """Why the login shell is not at its prompt, by the far kernel's word; None: nothing says so."""
    far, process = look.far, look.verdict.process
    if not isinstance(far, FarFacts) or look.verdict.hidden:
        return NotAdopted(f"what its far end does is not known: {look.verdict.why}", ADOPT_HINT, passes=look.far_late)
    if look.level.number or look.alternate_screen or process is None:
        return NotAdopted("another program is in front there", ADOPT_HINT)
    name = process.name.lstrip("-")
    shell = BY_FILE.get(name)
    if shell is None:
        return NotAdopted(f"`{name}` is in front there, which is no shell that can be adopted", "Use send for it.")
    edits = look.waiting is InputWait.EDITOR
    if not edits and not (look.waiting is InputWait.LINE and shell.reads_lines_afar):
        return NotAdopted(f"`{name}` is not at its prompt there", ANSWER_FIRST)
    alone = [each for each in far.processes if each.state not in "ZX"] == [process]
    if not alone or process.pid != far.leader or far.foreground != far.leader or look.verdict.weak:
        return NotAdopted(f"`{name}` is not the login shell there, or not alone", ADOPT_HINT, passes=True)
    if far.reads_file and not shell.keeps_file:
        return NotAdopted(f"`{name}` is still reading a file of commands there", ANSWER_FIRST)
    return None


def _moved(look: Look, again: Look) -> bool:
    """Whether something has happened there between two looks."""
    return again.size != look.size or again.far is None or _who_waits(again) != _who_waits(look)


def _who_waits(look: Look) -> tuple[object, ...]:
    process = look.verdict.process
    return (look.waiting, look.verdict.weak, process and (process.pid, process.wakes))
