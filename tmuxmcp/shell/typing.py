"""Brings a session to its shell's prompt and types a command there, each step as one guarded tmux command.

A prompt is claimed in the step that types our key. Whoever gives up on a prompt frees it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import anyio

from tmuxmcp.contract.call import begin, ms_since
from tmuxmcp.contract.errors import (
    AdoptionFailed,
    Cancelled,
    IoError,
    NodeUnreachable,
    NotAShell,
    SessionBusy,
    SessionTaken,
    TimedOut,
    TmuxFailed,
)
from tmuxmcp.contract.value import replace
from tmuxmcp.contract.words import Adopt
from tmuxmcp.machine.launch import shells
from tmuxmcp.machine.launch.shells import adoption
from tmuxmcp.machine.witness.foreground import shows_prompts
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.readiness.adoptable import Adoptable, NotAdopted, asks, may_adopt, may_adopt_far, still_at_prompt
from tmuxmcp.readiness.judge import UNMARKED_S
from tmuxmcp.record.commands import Stdin, TypedInput, give, place_of, remove_left
from tmuxmcp.record.levels import Level
from tmuxmcp.sessions.levels import program_of, shell_at
from tmuxmcp.sessions.look import LogView, Look
from tmuxmcp.sessions.noting import IdempotentCall
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import adopting, outcomes, startup
from tmuxmcp.shell.outcomes import Job
from tmuxmcp.shell.promptjudge import AtPrompt, PromptFacts, PromptNeed, PromptStep, ShellRest
from tmuxmcp.shell.startup import busy, in_the_way, not_a_shell, several, takes_no_command
from tmuxmcp.terminal.marks import ShellState, done_half, new_proof, promise_of
from tmuxmcp.terminal.text.echo import ECHO_LIMIT
from tmuxmcp.terminal.text.plain import plain
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import InputLeftover, Pane, PaneChanged, Stamp

# ---- The way to the moment at which a shell can be given a command: `promptjudge` judges, this looks and acts --------

PROMPT_MS = 5000
"""How long a shell that has just started or finished may take to show its prompt."""


async def seen_at_prompt(session: Session) -> Look | None:
    """The look that shows the session's own shell at its prompt, where one at the terminal is enough; else None.

    What `at_prompt` asks where nothing is in the way: what the processes there wait for has no say in it.
    """
    look = await session.look_at_terminal(alone=session.pid or 0)
    if look is None or not look.marks or look.shell.state is not ShellState.PROMPT or not look.may_listen:
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
        f"The shell of session {session.id} showed no prompt within {ms_since(begun)} ms. Nothing was run.",
        hint="Look at it with read view=screen.",
    )


async def _next_step(session: Session, pane: Pane, look: Look, judge: AtPrompt) -> PromptStep:
    """Judge one look, with what it needs to be known."""
    doubtful = look.may_be_asked and (look.unreported or look.may_be_untold or _may_be_forged(session, look))
    seen = PromptFacts(look, doubtful)
    while isinstance(said := judge.feed(seen, time.monotonic()), PromptNeed):
        match said:
            case PromptNeed.TAKEN_BACK:
                await interrupt(session, pane)
                seen = replace(seen, taken_back=True)
            case PromptNeed.LOGGED:
                seen = replace(seen, logged=await session.log_complete(look.size))
            case PromptNeed.LOST:
                gaps = session.events.gaps(look.shell.prompt_end, look.size)
                seen = replace(seen, lost=look.may_be_asked and bool(gaps))
            case PromptNeed.PATIENCE:
                seen = replace(seen, patience_s=_patience_s(session, look))
    return said


async def _adopted(session: Session, look: Look, adopt: Adopt) -> NotAdopted | bool:
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
    found = await (may_adopt_far if session.meta.host else may_adopt)(session, now)
    if isinstance(found, Adoptable):
        try:
            await adopting.adopt(session, now, found.condition)
        except AdoptionFailed:
            if adopt == "yes" or not session.readonly_prompt:
                raise
            return False
        return True
    if adopt == "auto":
        return found
    refusal = adopting.may_by_consent(now) or await asks(now)
    if refusal:
        raise await startup.refusal(session, now) or not_a_shell(session, now, refusal.why, refusal.hint)
    await adopting.adopt(session, now)
    return True


def _may_be_forged(session: Session, look: Look) -> bool:
    """Whether marks that keep us from typing at a shell in its line editor may be somebody else's."""
    shown = look.at_editor and look.shell.number > 0
    return shown and look.shell.promise is None and session.proves(look.level)


def _patience_s(session: Session, look: Look) -> float:
    """How long a shell that seems to run a command is given to come to its prompt."""
    if look.facts and look.facts.foreground and not look.own_shell_in_front and shows_prompts(look.facts.foreground):
        return 3 * UNMARKED_S  # it is on its way there; fish works at something behind it
    if look.own_shell_in_front and look.shell.promise is None and session.proves(look.level):
        return 2 * UNMARKED_S  # anybody can print that a command begins
    # Where the mark of the end may have been lost, it is asked for another prompt, and draws that.
    return 8 * UNMARKED_S if session.events.gaps(look.shell.prompt_end, look.size) else 0.02


# ---- A command at a prompt -------------------------------------------------------------------------------------------


async def type_command(
    session: Session,
    look: Look,
    text: str,
    data: bytes,
    stdin: Stdin | None,
    noting: IdempotentCall | None,
    *,
    caller: str,
    as_known: bool,
) -> Job:
    """Type a command at the prompt that a look shows.

    Args:
        text: the command as it was asked for.
        data: what its shell is given: the same, or that with the file `stdin` that it reads.

    Raises:
        SessionBusy: another broker was first at this prompt.
        PaneChanged, SessionTaken, NotAShell
    """
    pane = session.live()
    job = Job(text, time.monotonic(), look.size, secrets.token_hex(4), look.level, as_known=as_known)
    job.at(look.shell)
    job.stdin = stdin
    job.proof = "" if session.proves(look.level) else None
    session.typed_at = look.size
    by_file = look.knows.reads_files
    if look.facts and look.facts.alters and not (by_file or look.level.carrier):
        why = "the terminal makes other characters of what is typed (stty iuclc, istrip)"
        raise not_a_shell(session, look, why, "Switch that off: send `stty -iuclc -istrip` and Enter.")
    async with session.input_lock:
        # Cancelled halfway, the shell would go on listening, and the prompt would stay claimed.
        with anyio.CancelScope(shield=True):
            proof = new_proof() if job.proof is not None else ""
            promise = promise_of(proof) if proof else None
            typed_input = TypedInput(look.size, text, True, job.name, promise, stdin=stdin is not None, caller=caller)
            if session.commands.typing(typed_input) and proof:
                job.proof = proof  # else nobody could tell what proves it
            try:
                done = await (_give if by_file else _tell)(session, pane, job, data, noting)
            except SessionTaken:
                if as_known:
                    raise PaneChanged from None  # whoever takes it for gone gives it back first
                raise
    if not done and as_known:
        raise PaneChanged
    if not done:
        await session.alive()
        await adopting.free_if_left(session)
        raise busy(session, await session.look())  # another broker was first at this prompt
    session.write_input(bytes=len(text.encode("utf-8", "surrogateescape")), keys=1)
    session.write_shown(look.size, f"{text}\r")
    if noting:
        noting.note_typed(session, look.size)
    # While the shell works:
    remove_left(session.directory, look.shell.number)
    session.commands.save_some()
    return job


async def _noted(session: Session, job: Job, noting: IdempotentCall) -> Stamp:
    """Write down what tells of this command later, where its call has an id."""
    return await noting.types(
        session,
        job.sent_at,
        level=job.level.nonce,
        number=job.number,
        prompt_end=job.prompt_end,
        job=job.name,
        proof=job.proof is not None and bool(job.proof),
        file=str(job.given.path) if job.given else "",
    )


async def _give(session: Session, pane: Pane, job: Job, data: bytes, noting: IdempotentCall | None) -> bool:
    """Have the shell read the command from a file; false: its prompt is another broker's."""
    place = place_of(session.directory)
    if place is None and not session.directory.is_there:
        raise IoError(
            f"The directory of session {session.id} was removed, and with it where commands are given to its shell.",
            hint="Make another session. What runs in this one goes on; send and read view=screen reach it.",
            session_id=session.id,
        )
    if place is None:
        raise NotAShell(
            f"The shell of session {session.id} was started by an earlier version, and takes no command.",
            hint="Use send for it, or make another session.",
            session_id=session.id,
        )
    job.given = give(place, job.name, data)
    try:
        stamp = await _noted(session, job, noting) if noting else None
        done = await press_key(session, pane, job, shells.file_keys(job.name, done_half(job.proof or "")), stamp=stamp)
    except (SessionTaken, IoError, NodeUnreachable, Cancelled):
        job.given.take_back()
        raise
    except TmuxFailed:
        if noting is None:  # a tmux that did not answer may press the key later: then nothing runs
            job.given.take_back()
        raise
    if done:
        job.given.take_back_earlier()
    else:
        job.given.take_back()
    return done


async def _tell(session: Session, pane: Pane, job: Job, data: bytes, noting: IdempotentCall | None) -> bool:
    """Type the command for a shell that says that it listens; false: its prompt is another broker's."""
    key = command_key(session, job.level)
    given = adoption.Giving(key, shells.command_keys(job.name, data, job.proof or ""))
    if job.level.number:
        given = adoption.give(shell_kind(job.level), key, job.name, data, job.proof)
    still = await _shown_prompt(session) if job.level.reads_lines else ""
    with session.expecting_answer(job.level.nonce):
        if not await press_key(session, pane, job, given.key, still):
            return False
        await until_listening(session, pane, job, given.key)
    return await type_answer(session, pane, job, given.command, InputLeftover.COMMAND, noting)


async def type_answer(
    session: Session,
    pane: Pane,
    job: Job,
    data: bytes,
    left: InputLeftover = InputLeftover.LINE,
    noting: IdempotentCall | None = None,
) -> bool:
    """Type what a shell listens for; false: the prompt is no longer claimed for this command, as it took too long.

    Raises:
        SessionTaken: a person was faster; the shell, which would show nothing of what they type, listens no more.
    """
    try:
        stamp = await _noted(session, job, noting) if noting else None
        told, ours = panes.remember(pane, "claim", _claim(job, TOLD)), _is_ours(pane, job, ASKED)
        program = _program(session, job)
        return await panes.type_input(
            session.tmux, pane, data, before=[told], condition=ours, left=left, program=program, stamp=stamp
        )
    except (SessionTaken, IoError):
        await listen_no_more(session, await session.scan(), pane)
        await free_prompt(session, job)
        raise


async def _shown_prompt(session: Session) -> str:
    """A condition that holds as long as a shell that takes lines shows its prompt, and nothing behind it.

    Raises:
        NotAShell: it does not.
    """
    why = hint = ""
    async for look in session.looks(0.01, time.monotonic() + UNMARKED_S):
        found = await still_at_prompt(session, look)
        if isinstance(found, Adoptable):
            return found.condition
        why, hint = found.why, found.hint
    raise not_a_shell(session, look, why, hint)


async def press_key(
    session: Session, pane: Pane, job: Job, keys: bytes, still: str = "", stamp: Stamp | None = None
) -> bool:
    """Type our key at this prompt; false: another broker did, or the pane is gone.

    A prompt is known by its number: it may be drawn anew while the shell is about to run what was typed there.

    Args:
        still: a format that has to hold as well.
    """
    prompt = prompt_claim(job.level.nonce, job.number)
    claim = panes.remember(pane, "claim", _claim(job, ASKED))
    steps = [claim, *panes.raw_words(pane, keys)]
    free = f"#{{?#{{m:{prompt}*,{panes.remembered(pane, 'claim')}}},,1}}"
    still = still or "1"
    if job.as_known:
        still = f"#{{&&:{still},{panes.as_known(pane)}}}"
    program, condition = _program(session, job), f"#{{&&:{still},{free}}}"
    begin()
    if await panes.type_input(session.tmux, pane, b"", before=steps, condition=condition, program=program, stamp=stamp):
        return True
    if job.as_known:
        return False
    held = await panes.recall(session.tmux, pane, "claim")
    if not held.startswith(prompt) or not await _left_at_prompt(session, job.number):
        return False
    # Whoever claimed it is gone, and the shell did not heed the key: of all that find this, one takes its place.
    same = f"#{{==:{panes.remembered(pane, 'claim')},{held}}}"
    condition = f"#{{&&:{still},{same}}}"
    begin()
    return await panes.type_input(
        session.tmux, pane, b"", before=steps, condition=condition, program=program, stamp=stamp
    )


def _program(session: Session, job: Job) -> str:
    """The program that reads what is typed for a command."""
    return program_of(job.level.pid if job.level.number else session.pid)


async def _left_at_prompt(session: Session, number: int) -> bool:
    """Whether the shell rests at a prompt at which a key of ours was typed: the key did nothing there."""
    rest = ShellRest()
    async for look in session.looks(0.01, time.monotonic() + LISTENS_S):
        if look.shell.number != number or look.shell.state is not ShellState.PROMPT or look.shell.listening:
            return False
        if await outcomes.rests(session, look, rest):
            return True
    return False


async def until_listening(session: Session, pane: Pane, job: Job, key: bytes) -> None:
    """Wait until the shell answers the key: in another mode it would take the command for keys.

    Raises:
        SessionBusy: it does not.
    """
    nonce = job.level.nonce
    if await answer_to_key(session, nonce, job.sent_at):
        return
    scan = await session.scan()
    if outcomes.may_miss(session, scan, job.sent_at) and await listen_no_more(session, scan, pane):
        asked_at = session.log.size()  # its answer was not recorded
        await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, key)])
        answer = await answer_to_key(session, nonce, asked_at)
        if answer:
            job.at(session.track_of(nonce))  # zsh has drawn another prompt
            return
    raise await not_taken(session, job)


async def not_taken(session: Session, job: Job) -> SessionBusy:
    """Leave a shell that did not take our command: its prompt is free, and nothing of ours stands in its line.

    Returns:
        What to say.
    """
    await free_prompt(session, job)
    async for look in session.looks(0.02, time.monotonic() + LISTENS_S):
        if look.at_editor and await session.log_complete(look.size):
            break
    await empty_line(session, look, job)
    return takes_no_command(session, look)


async def empty_line(session: Session, look: Look, job: Job) -> None:
    """Take back what of ours has come into a shell's line: by itself it shows neither our key nor a name."""
    start, number = max(job.sent_at, look.size - ECHO_LIMIT), look.shell.number
    shown = plain(session.log.read(start, look.size - start), look.cols, look.rows).text.replace("\n", "")
    key_as_text = command_key(session, job.level)[-3:].decode()  # to a line editor that does not know it
    if look.at_editor and (job.name in shown or key_as_text in shown):
        await interrupt(session, session.live())
        await until_marked(session, lambda scan: scan.shell.number != number)


async def free_prompt(session: Session, job: Job) -> None:
    """Give up this command's claim of the prompt, so that others may type there."""
    pane = session.live()
    free = panes.remember(pane, "claim", "")
    await panes.guarded(session.tmux, pane, free, alive=False, condition=_is_ours(pane, job, "*"))


def _claim(job: Job, how_far: str) -> str:
    """What a pane's variable says while a prompt is this command's: the prompt's name, its own, and how far it is."""
    return f"{prompt_claim(job.level.nonce, job.number)}{job.name}-{how_far}"


def _is_ours(pane: Pane, job: Job, how_far: str) -> str:
    """A condition that holds while a prompt is this command's, whichever number the shell has given it meanwhile."""
    return f"#{{m:*-{job.name}-{how_far},{panes.remembered(pane, 'claim')}}}"


# ---- Our key at the prompt of a shell that sends marks ---------------------------------------------------------------
#
# It shows its prompt, listens for a command, or listens no more.

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


async def end_listening(session: Session, scan: LogView) -> None:
    """End the listening of a shell that answered our key, where no command comes, or no more of one.

    The broker that typed the key has given up or is gone, or a C-c came while the command was typed.

    A broker that goes on after all finds its claim taken away, and types no command.
    """
    if not scan.shell.listening:
        return
    pane = session.live()
    held = await panes.recall(session.tmux, pane, "claim")
    if held:
        told, rest = (
            held.startswith(prompt_claim(scan.level.nonce, scan.shell.number)) and not held.endswith(ASKED),
            ShellRest(),
        )
        async for look in session.looks(0.02, time.monotonic() + ANSWERED_S):
            if not look.shell.listening:
                return
            if told and await outcomes.rests(session, look, rest):
                break  # it waits for more of its command, and no more comes: a C-c has taken a part of it away
        else:
            if told:
                return  # it reads its command
    await listen_no_more(session, scan, pane, held)


def prompt_claim(nonce: str, number: int) -> str:
    """How each claim of a prompt begins: with its name."""
    return f"{nonce}-{number}-"


async def listen_no_more(session: Session, scan: LogView, pane: Pane, held: str | None = None) -> bool:
    """End the listening of a shell that was given our key; whether it says that it did.

    Args:
        held: only while the claim says this; it is given up.
    """
    asked_at, level = session.log.size(), scan.level
    keys = (
        adoption.refuse(shell_kind(level), outcomes.PROMPT_JOB)
        if level.number
        else shells.refused_keys(outcomes.PROMPT_JOB)
    )
    before, condition = [], ""
    if held is not None:
        before = [panes.remember(pane, "claim", "")]
        condition = f"#{{==:{panes.remembered(pane, 'claim')},{held}}}"
    if not await panes.type_input(session.tmux, pane, keys, before=before, condition=condition, ends=True):
        return False
    told = (outcomes.PROMPT_JOB,) if level.number == 0 else (outcomes.PROMPT_JOB, "")

    def refused(scan: LogView) -> bool:
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
    session: Session, met: Callable[[LogView], bool], longer_s: float = 0.0, limit_s: float = LISTENS_S
) -> LogView | None:
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
    if not await session.log_complete(size) or (await session.look()).waiting is InputWait.BUSY:
        return False
    return await session.log_complete(size)


async def answer_to_key(session: Session, nonce: str, asked_at: int) -> LogView | None:
    """What the marks say once the shell answers our key, that it listens; None: it does not."""

    def listens(scan: LogView) -> bool:
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


def why_not_taken(scan: LogView, nonce: str, since: int) -> tuple[str, str]:
    """Why the shell did not take what was given to it by key, and under which name; empty if it did not say so."""
    found = scan.at(nonce)
    why, name, at = (found and found.shell.refused) or ("", "", 0)
    return (why, name) if at >= since else ("", "")
