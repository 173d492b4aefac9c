"""Brings a session to the moment at which its shell can be given a command: `atprompt` judges, this looks and acts."""

from __future__ import annotations

import time

from tmuxmcp.contract.errors import AdoptionFailed, TimedOut
from tmuxmcp.contract.value import replace
from tmuxmcp.contract.words import Adopt
from tmuxmcp.machine.witness.front import shows_prompts
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.readiness.adoptable import Adoptable, NotAdopted, asks, still_at_prompt
from tmuxmcp.readiness.judge import UNMARKED_S
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.screens import all_logged
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import adopting, startup
from tmuxmcp.shell.adopting import AdoptionRefusal
from tmuxmcp.shell.atprompt import AtPrompt, PromptFacts, PromptNeed, PromptStep
from tmuxmcp.shell.entering import end_listening, interrupt, show_prompt
from tmuxmcp.shell.startup import busy, in_the_way, not_a_shell, several, terminals_in_one
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.tmux.panes import Pane

PROMPT_MS = 5000
"""How long a shell that has just started or finished may take to show its prompt."""


async def seen_at_prompt(session: Session) -> Look | None:
    """The look that shows the session's own shell at its prompt, where one at the terminal is enough; else None.

    What `at_prompt` asks where nothing is in the way: what the processes there wait for has no say in it.
    """
    look = await session.look_at_terminal(alone=session.pid or 0)
    if look is None or not look.marks or look.shell.state is not ShellState.PROMPT or not _may_listen(look):
        return None
    unread = look.typed_at_prompt or (look.facts is not None and look.facts.unread > 0)
    return None if unread or look.leaves_prompt or look.shell.listening else look


async def at_prompt(session: Session, deadline: float, adopt: Adopt) -> Look:
    """Wait until the shell shows a prompt; say so when it is not going to. The session was refreshed just now."""
    begun = time.monotonic()
    judge = AtPrompt(begun, adopts=adopt in ("auto", "yes"))
    async for look in session.looks(0.01, min(deadline, begun + PROMPT_MS / 1000)):
        pane = session.live()
        if look.leaving:
            continue
        match await _next_step(session, pane, look, judge):
            case PromptStep.TYPE:
                return look
            case PromptStep.SETTLE:
                await adopting.settle(session)
            case PromptStep.END_LISTENING:
                await end_listening(session, look)
                judge.listens_no_more(time.monotonic())
            case PromptStep.ADOPT:
                judge.tried(await _adopted(session, look, "auto") is True)
            case PromptStep.SHOW_PROMPT:
                await show_prompt(session, pane)
            case PromptStep.DRAW_PROMPT:
                await interrupt(session, pane)
            case PromptStep.BLOCKED:
                if look.marks and look.level.reads_lines:
                    stands = await still_at_prompt(session, look)
                    if isinstance(stands, Adoptable):
                        return look  # something was printed behind its prompt
                found = None if judge.adopted else await _adopted(session, look, adopt)
                if found is not True:
                    not_started = None if adopt == "no" else await startup.refusal(session, look)
                    raise not_started or in_the_way(session, look, adopt, found)
                judge.tried(True)
            case PromptStep.SEVERAL:
                raise await startup.refusal(session, look) or several(session, look)
            case PromptStep.BUSY:
                raise await startup.refusal(session, look) or busy(session, look)
    if not_started := await startup.refusal(session, look):
        raise not_started
    if look.shell.state is ShellState.RUNNING or look.waiting in (InputWait.BUSY, InputWait.STOPPED):
        raise busy(session, look)
    raise TimedOut(
        f"The shell of session {session.id} showed no prompt within {int((time.monotonic() - begun) * 1000)} ms. "
        "Nothing was run.",
        hint="Look at it with read view=screen.",
    )


async def _next_step(session: Session, pane: Pane, look: Look, judge: AtPrompt) -> PromptStep:
    """Judge one look, with what it needs to be known."""
    seen = _seen(session, look)
    while isinstance(said := judge.feed(seen, time.monotonic()), PromptNeed):
        match said:
            case PromptNeed.TAKEN_BACK:
                await interrupt(session, pane)
                seen = replace(seen, taken_back=True)
            case PromptNeed.LOGGED:
                seen = replace(seen, logged=await all_logged(session, look.size))
            case PromptNeed.LOST:
                seen = replace(seen, lost=look.may_be_asked and bool(session.gaps(look.shell.prompt_end, look.size)))
            case PromptNeed.PATIENCE:
                seen = replace(seen, patience_s=_patience_s(session, look))
    return said


def _seen(session: Session, look: Look) -> PromptFacts:
    """What one look tells of the way to a prompt without being asked for more."""
    return PromptFacts(
        state=look.shell.state,
        marks=look.marks,
        in_front=_may_listen(look),
        at_editor=look.at_editor,
        ready=look.ready,
        hidden=look.verdict.hidden or (look.waiting is InputWait.UNKNOWN and not look.own_shell_in_front),
        adopting=look.adopting,
        unanswered=look.unanswered,
        leaves=look.leaves_prompt,
        listening=look.shell.listening,
        stopped=look.waiting is InputWait.STOPPED,
        prompted=look.marks and look.shell.prompted is not None,
        doubtful=look.may_be_asked and (look.unreported or look.may_be_untold or _may_be_forged(session, look)),
        several=bool(terminals_in_one(look)),
    )


async def _adopted(session: Session, look: Look, adopt: Adopt) -> AdoptionRefusal | bool:
    """Adopt the shell in front, if that may be done; whether it was, or why it was not.

    Raises:
        AdoptionFailed, SessionBusy, NotAShell
    """
    if adopt in ("no", "undo"):
        return False
    await session.alive()  # where the cursor is
    now = await session.look()
    if now.size != look.size:
        return False
    started = now.shell.state is not ShellState.STARTING or session.readonly_prompt
    given_ours = now.own_marks and not now.level.number and now.own_shell_in_front and started
    process = now.verdict.process
    if adopt == "auto" and given_ours and process and process.name == adopting.kind_of(now):
        return False  # it got our marks when it began, and takes none
    found = await adopting.may_unasked(session, now)
    if not isinstance(found, AdoptionRefusal):
        try:
            await adopting.adopt(session, now, found)
        except AdoptionFailed:
            if adopt == "yes" or not session.readonly_prompt:
                raise
            return False
        return True
    if adopt == "auto":
        return found
    refusal: AdoptionRefusal | NotAdopted | None = adopting.may_by_consent(now) or await asks(now)
    if refusal:
        raise await startup.refusal(session, now) or not_a_shell(session, now, refusal.why, refusal.hint)
    await adopting.adopt(session, now)
    return True


def _may_be_forged(session: Session, look: Look) -> bool:
    """Whether marks that keep us from typing at a shell in its line editor may be somebody else's."""
    shown = look.at_editor and look.shell.number > 0
    return shown and look.shell.promise is None and session.proves(look.level)


def _may_listen(look: Look) -> bool:
    """Whether our shell reads keys, as far as the kernel tells."""
    facts = look.facts
    if facts is None:
        return True
    # What was typed at this prompt may be on its way to the shell, and make another program of it.
    reads = look.waiting is not InputWait.BUSY or not (facts.unread or look.typed_at_prompt)
    return reads and look.marks and look.own_shell_in_front and (not facts.canonical or look.level.reads_lines)


def _patience_s(session: Session, look: Look) -> float:
    """How long a shell that seems to run a command is given to come to its prompt."""
    if look.facts and look.facts.foreground and not look.own_shell_in_front and shows_prompts(look.facts.foreground):
        return 3 * UNMARKED_S  # it is on its way there; fish works at something behind it
    if look.own_shell_in_front and look.shell.promise is None and session.proves(look.level):
        return 2 * UNMARKED_S  # anybody can print that a command begins
    # Where the mark of the end may have been lost, it is asked for another prompt, and draws that.
    return 8 * UNMARKED_S if session.gaps(look.shell.prompt_end, look.size) else 0.02
