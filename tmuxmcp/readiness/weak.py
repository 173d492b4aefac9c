"""Programs that listen to the terminal while they work: what tells that one waits for input, and for how long not.

The kernel shows that an event loop listens, not that it has nothing to do. Its last line may tell: a prompt or a
question that is newer than what was typed, with the cursor at its end. Without that there is only silence. Pure.
"""

from __future__ import annotations

import re

from tmuxmcp.machine.witness.kernel import (
    POLL_WAIT_CHANNELS,
    EnteredLine,
    InputWait,
    KernelFacts,
    Process,
    Verdict,
    descends,
)
from tmuxmcp.terminal.modes import may_be_prompt

NEW_LINE_S = 1.0
"""So long it is waited for a new last line, while nothing is printed."""

QUESTION_S = 0.15
"""A question has to stand for so long: it may be one that is put to somebody else."""

SHORT_S = 0.25
"""A program that wakes so often, as those do that draw a spinner, is waited for until it has slept once in peace."""

_QUESTION_LINE = re.compile(r"\?[^.?]{0,60}$|[\[(]\w+/\w+[\])]\W*$")
_ENDS_SO = re.compile(r"[$#%>:?)\]]\s*$")
_PROGRESS_LINE = re.compile(r"\d\s?%|\d\s?/\s?\d+\W*$|[\[(][\s=#*.>█-]*[\])]\s*$")

STILL_LISTENS = (
    "Nothing was printed for {} ms. {}, so it may wait for input or still work: that cannot be known. Wait for a text "
    "with wait_for=pattern, give prompt_pattern, or read again."
)


def doubt(verdict: Verdict, facts: KernelFacts | None, line: str, entered: EnteredLine | None) -> str:
    """Why a program that listens may be at work; empty: nothing tells so.

    Args:
        line: the one that the cursor is in.
        entered: the last line that was entered, where that is known.
    """
    process = verdict.process
    if process is None or verdict.waiting is InputWait.SECRET:
        return ""
    if verdict.weak:
        return verdict.weak
    if facts is None or entered is None or entered.pid != process.pid:
        return ""
    begun = _begun_since(facts, process, entered)
    if begun:
        return f"{begun.name} was started by what was entered, and still runs"
    if process.wait_channel in POLL_WAIT_CHANNELS and entered.prompt and not line.strip():
        return f"{process.name} listens, and its prompt has not come back"
    return ""


def works_beside(process: Process, facts: KernelFacts | None) -> str:
    """Why others of its group may work for a program that polls, as in `... | dialog --gauge`; empty: they do not."""
    if facts is None or process.wait_channel not in POLL_WAIT_CHANNELS:
        return ""
    above, parents = {process.pid}, {each.pid: each.parent for each in facts.processes}
    pid = process.parent
    while pid in parents and pid not in above:
        above.add(pid)
        pid = parents[pid]
    others = (
        each for each in facts.processes if each.pid not in above and not descends(each, process, facts.processes)
    )
    other = next((each for each in others if each.on_terminal is False and each.state not in "ZX"), None)
    return f"{process.name} listens to others than the terminal, and {other.name} beside it still runs" if other else ""


def _begun_since(facts: KernelFacts, process: Process, entered: EnteredLine) -> Process | None:
    others = (each for each in facts.processes if each.pid not in entered.present and each.pid != process.pid)
    reads = (
        process.wait_channel not in POLL_WAIT_CHANNELS
    )  # then it waits for nothing else, its own children least of all
    others = (each for each in others if not (reads and descends(each, process, facts.processes)))
    return next((each for each in others if each.on_terminal is False and each.state not in "ZX"), None)


def may_ask(line: str) -> bool:
    """Whether a line ends as prompts and questions do: `Resolving: ` does too, and is neither."""
    return bool(_ENDS_SO.search(line)) and not _PROGRESS_LINE.search(line)


def stands_s(line: str, time_out_s: float | None, drawn: bool = False) -> float | None:
    """How long a last line must stand to tell that its program waits for input; None: it does not tell.

    Args:
        line: what is in the cursor's line, and newer than what was typed.
        time_out_s: of the program's wait.
        drawn: a line editor drew it.
    """
    if not line.strip() or _PROGRESS_LINE.search(line):
        return None
    if may_be_prompt(line):
        stands = 0.0
    elif _QUESTION_LINE.search(line) or (drawn and may_ask(line)):
        stands = QUESTION_S
    else:
        return None
    return max(stands, time_out_s * 1.5) if time_out_s is not None and time_out_s <= SHORT_S else stands
