"""`run`: one command in a live shell, its complete output and its exit code, by the shell's own marks.

What can happen. The shell is at its prompt, or on its way there, or runs something, or another program stands in
front of it. The prompt may be somebody else's at any moment: a person types, another broker was first, a program of
before has left keys in the terminal. The command may ask for input, never end, end its shell, start another one, or
print marks of its own. The log may be late, and a sink that was killed leaves a gap in it. This broker may be killed.

In which order:

    _at_prompt   one look that shows the shell at its prompt; else wait, adopt what is in front, or say what is there,
                 as `atprompt` judges
    _type        by file: the command is written to a file, our key and its name are typed (our own bash)
                 by key: our key is typed, the shell says that it listens, name and command are typed (the others)
    _press       claims the prompt, by its number, in the same tmux command that types the key
    _finish      reads marks until one of: its end, a refusal, a question, silence, the end of time, the shell's end
    _not_done    where no end comes: a missing mark says something only once nothing is on its way (`ShellRest`)

A shell is given the command with a name, which its marks then carry. Nothing else that is typed, shown or left in
the terminal has a say. Everything in between that types is one guarded tmux command: it holds the conditions (nobody
has taken over, nobody adopts, the prompt is unclaimed, the program lives), so no check is older than the
keys that depend on it. No lock file says that a shell is busy: its marks do.

What is trusted, and why:

- An end is ours if it carries our name; where the shell takes a proof, only with that: the name can be read by every
  program in the terminal, the proof is shown by the shell alone, when it is over.
- Offsets in the log, from mark to mark, bound the output. Text of the screen bounds nothing.
- That the shell did not take the command is believed from its own mark, with a proof in use only while it does not
  run, and rests or has stood so for a second: everybody can print such a mark.
- The kernel decides whether the shell's line editor is in front; without it, marks alone.
- What is not in the log says nothing, unless its sink lives, no gap was written down there, and the shell rests.

Invariants:

- A command is typed once. What fails before the key fails with "nothing was run"; what is not known later is told as
  not known (`completed` false, no exit code), never as "not run".
- From the claim to the last byte of the command a cancelled call goes on (shielded): no shell is left listening.
- A command outlives the call: cancelled, timed out or asked for input, it goes on, and `read wait_for=command` has it.
- A call with an id writes down what it types before it types it; `takeup` finds out later what became of that.
- Whoever gives up on a prompt frees its claim; a claim whose owner was killed is taken over only where the shell is
  seen at rest at that same prompt.

`typed` judges what became of a command, `pacing` what time tells of it; `waiting/asking.py` whether it asks.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import anyio

from tmuxmcp.contract.call import PROGRESS_EVERY_S, Progress
from tmuxmcp.contract.results import Mode
from tmuxmcp.contract.times import iso
from tmuxmcp.contract.words import Adopt
from tmuxmcp.errors import (
    IncompleteCommand,
    InvalidArgument,
    IoError,
    NotAShell,
    SessionBusy,
    SessionTaken,
    TimedOut,
    TmuxFailed,
    Unsupported,
)
from tmuxmcp.latedataclass import dataclass
from tmuxmcp.launch import shells
from tmuxmcp.launch.shells import adoption
from tmuxmcp.machine import cgroup
from tmuxmcp.readiness.front import shows_prompts
from tmuxmcp.readiness.kernel import InputWait
from tmuxmcp.readiness.settling import UNMARKED_S
from tmuxmcp.record.commands import TypedInput
from tmuxmcp.record.given import give, place_of
from tmuxmcp.record.levels import Level
from tmuxmcp.record.stdin import Stdin, remove_left
from tmuxmcp.running import adopting, typed
from tmuxmcp.running.adopting import AdoptionRefusal
from tmuxmcp.running.atprompt import AtPrompt, Need, Seen, Step
from tmuxmcp.running.pacing import LookDelay, ShellRest, SilenceTimer
from tmuxmcp.running.typed import Job, RunOutcome
from tmuxmcp.sessions.logged import all_logged
from tmuxmcp.sessions.look import Look, Scan
from tmuxmcp.sessions.noting import IdempotentCall
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.echo import ECHO_LIMIT
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.terminal.modes import ASKS_SECRET
from tmuxmcp.terminal.prompts import may_be_prompt
from tmuxmcp.terminal.proofs import done_half, new_proof, promise_of
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import InputLeftover, Pane, PaneChanged, Stamp
from tmuxmcp.waiting.adoptable import Adoptable, NotAdopted, asks, still_at_prompt
from tmuxmcp.waiting.asking import InputQuestions
from tmuxmcp.waiting.wait import last_line

PROMPT_MS = 5000
"""How long a shell that has just started or finished may take to show its prompt."""

LISTENS_S = 1.0
"""A shell at its prompt that does not answer our key for so long is in another mode: a search, a menu."""

LISTENS_BUSY_S = 5.0
"""The same of one that works: on a busy machine it may not have read the key yet."""

FAR_S = 4.0
"""How much longer one on another machine may take."""

ABANDONED_S = 2.0
"""How long a shell may take to show a new prompt after C-c."""

WHEN_OVER = "When it is over, read wait_for=command gives its exit code."

GOES_ON = f"It goes on. {WHEN_OVER}"

MAY_WORK = (
    "Not finished. Nothing is printed, and {who} listens to the terminal: it may wait for input, or still work. {why}. "
    f"Answer with send, or wait: {WHEN_OVER[0].lower()}{WHEN_OVER[1:]}"
)

BY_TEXT = "By its last line alone, what runs behind {who} asks for a secret."

KEYS_OF_TERMINALS = "\x03\x11\x13\x1a\x1c"
"""C-c, C-q, C-s, C-z, C-\\: signals and flow control stay on in line editors, also inside a paste (termios(3))."""


@dataclass(frozen=True)
class ReturnWhen:
    """When `run` comes back, beside the command's end."""

    timeout_ms: int
    idle_ms: int = 0
    """After so much silence; 0: never for that."""
    asks: bool = True
    """When something asks for input."""
    adopt: Adopt = "auto"
    """Whether a shell without our marks is adopted."""


async def run(
    session: Session,
    text: str,
    until: ReturnWhen,
    progress: Progress,
    stdin: bytes | None = None,
    noting: IdempotentCall | None = None,
    *,
    as_known: bool = False,
) -> RunOutcome:
    """Run `text` in the session's shell and wait until it is done, or as `until` has it.

    Cancelled, or out of time, the command goes on.

    Args:
        stdin: what it reads instead of the terminal; None: it reads the terminal.
        noting: writes down what is about to be typed, for a call with an id.
        as_known: tmux was not asked how the pane is now: it is typed only where it is as tmux last told.

    Raises:
        NotAShell, SessionBusy, IncompleteCommand, SessionExited, InvalidArgument, IoError
        PaneChanged: it is not as tmux last told, or the shell not at its prompt; nothing was typed.
    """
    if session.running:
        raise _busy(session, await session.look(), session.running)
    data = command_bytes(text)
    with session.runs(text), session.watcher.waiting(session.log.path):
        deadline = time.monotonic() + until.timeout_ms / 1000
        await adopting.settle(session)
        look = await _seen_at_prompt(session)
        if as_known and look is None:
            raise PaneChanged
        look = look or await _at_prompt(session, deadline, until.adopt)
        killed = _killed_for_memory(session)
        if stdin is None or typed.is_empty(text):
            ran = await _carry_out(
                session, look, text, data, None, deadline, until, progress, noting, as_known=as_known
            )
        else:
            _check_stdin(session, look)
            given = Stdin(session.directory, stdin, number=look.shell.number, within=session.bounds.sandbox != "none")
            data = look.knows.reads_from(data, str(given.path))
            text = data.decode("utf-8", "surrogateescape")
            try:
                ran = await _carry_out(session, look, text, data, given, deadline, until, progress, noting)
            except (IncompleteCommand, SessionBusy):
                given.remove()  # it does not run
                raise
            if ran.completed:
                given.remove()
        memory = typed.KILLED_FOR_MEMORY if _killed_for_memory(session) > killed else None
        note = typed.joined(typed.left_behind(look, ran), memory, ran.note)
        return replace(ran, level=look.level, note=note)


def _killed_for_memory(session: Session) -> int:
    """How many of its processes the kernel has ended for their limit of memory; 0 where it has none."""
    limited = session.bounds.kept_by.get("memory_mb") == "cgroup"
    return cgroup.oom_kills(session.bounds.groups) if limited else 0


async def undo(session: Session, until: ReturnWhen) -> RunOutcome:
    """Take the marks out of the shell in front, which was adopted, and have it be as it was.

    Raises:
        InvalidArgument: it is the session's own, which has them from its start-up file.
        NotAShell, SessionBusy, SessionExited
    """
    begun = time.monotonic()
    with session.runs(typed.UNDO_JOB), session.watcher.waiting(session.log.path):
        await adopting.settle(session)
        look = await _at_prompt(session, begun + until.timeout_ms / 1000, "no")
        level, pane = look.level, session.live()
        if not level.number:
            raise InvalidArgument(
                f"The shell in front in session {session.id} was not adopted: there is nothing to take out.",
                hint="Its levels tell which shells were.",
                session_id=session.id,
            )
        job = Job(typed.UNDO_JOB, begun, look.size, secrets.token_hex(4), level)
        job.at(look.shell)
        given = adoption.undo(_kind(level), job.name, "" if session.proves(level) else None)
        async with session.input_lock:
            with anyio.CancelScope(shield=True):
                done = await _press(session, pane, job, given.key)
                if done and given.command:
                    await _listening(session, pane, job, given.key)
                    done = await _answer(session, pane, job, given.command)
        if not done or not await _marked(session, lambda _: session.sends_no_more(level.nonce), FAR_S):
            raise _busy(session, await session.look())
        scan = await session.scan()
        session.leave([replace(level, until=scan.size)])
        note = f"The marks were taken out of {level.kind} (level {level.number})."
        return RunOutcome("left", None, True, "marks", scan.size, scan.size, None, typed.since(job), note, level=level)


async def _carry_out(
    session: Session,
    look: Look,
    text: str,
    data: bytes,
    stdin: Stdin | None,
    deadline: float,
    until: ReturnWhen,
    progress: Progress,
    noting: IdempotentCall | None,
    *,
    as_known: bool = False,
) -> RunOutcome:
    """Type a command at a prompt and wait for its end."""
    job = await _type(session, look, text, data, noting, as_known=as_known)
    job.stdin = stdin
    try:
        return await _finish(session, job, deadline, until, progress)
    finally:
        if job.given:
            job.given.tidy()


def command_bytes(text: str) -> bytes:
    """What is pasted for a command: line ends of every kind become newlines, the last ones go.

    Raises:
        InvalidArgument: a character that would end the paste or act as a key.
    """
    if "\0" in text:
        raise InvalidArgument("A command cannot hold NUL.", hint="Write it as $'\\0' or use printf.")
    for char in KEYS_OF_TERMINALS:
        if char in text:
            raise InvalidArgument(
                f"A command cannot hold the character {char!r}: the terminal acts on it before the shell reads it.",
                hint="Write it as an escape, for example with printf.",
            )
    if "\x1b[201~" in text:
        raise InvalidArgument("A command cannot hold ESC [ 201 ~, which ends a paste.", hint="Write ESC as \\e.")
    text = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    return text.encode("utf-8", "surrogateescape")


def _check_stdin(session: Session, look: Look) -> None:
    """Refuse what a shell is to read that may not open our files.

    Raises:
        Unsupported
    """
    level = look.level
    if level.number == 0:
        return
    with suppress(OSError):
        own = level.where != "remote" and level.pid and os.stat(f"/proc/{level.pid}").st_uid == os.geteuid()
        if own and os.path.samestat(os.stat(f"/proc/{level.pid}/root"), os.stat("/")):
            return
    raise Unsupported(
        f"The shell in front in session {session.id} cannot open our files: it cannot be given stdin.",
        hint="Use a here-document, or send it once the command runs.",
        session_id=session.id,
    )


async def _seen_at_prompt(session: Session) -> Look | None:
    """The look that shows the session's own shell at its prompt, where one at the terminal is enough; else None.

    What `_at_prompt` asks where nothing is in the way: what the processes there wait for has no say in it.
    """
    look = await session.look_at_terminal()
    if look is None or not look.marks or look.shell.state is not ShellState.PROMPT or not _may_listen(look):
        return None
    return None if look.unanswered or look.leaves_prompt or look.shell.listening else look


async def _at_prompt(session: Session, deadline: float, adopt: Adopt) -> Look:
    """Wait until the shell shows a prompt; say so when it is not going to. The session was refreshed just now."""
    begun = time.monotonic()
    judge = AtPrompt(begun, adopts=adopt in ("auto", "yes"))
    async for look in session.looks(0.01, min(deadline, begun + PROMPT_MS / 1000)):
        pane = session.live()
        match await _next_step(session, pane, look, judge):
            case Step.TYPE:
                return look
            case Step.SETTLE:
                await adopting.settle(session)
            case Step.END_LISTENING:
                await end_listening(session, look)
            case Step.ADOPT:
                judge.tried(await _adopted(session, look, "auto") is True)
            case Step.SHOW_PROMPT:
                await _show_prompt(session, pane)
            case Step.DRAW_PROMPT:
                await _interrupt(session, pane)
            case Step.BLOCKED:
                if look.marks and look.level.reads_lines:
                    at_prompt = await still_at_prompt(session, look)
                    if isinstance(at_prompt, Adoptable):
                        return look  # something was printed behind its prompt
                found = None if judge.adopted else await _adopted(session, look, adopt)
                if found is not True:
                    raise _in_the_way(session, look, adopt, found)
                judge.tried(True)
            case Step.SEVERAL:
                raise _several(session, look)
            case Step.BUSY:
                raise _busy(session, look)
    if look.shell.state is ShellState.RUNNING:
        raise _busy(session, look)
    raise TimedOut(
        f"The shell of session {session.id} showed no prompt within {int((time.monotonic() - begun) * 1000)} ms.",
        hint="Look at it with read view=screen.",
    )


async def _next_step(session: Session, pane: Pane, look: Look, judge: AtPrompt) -> Step:
    """Have one look judged."""
    seen = _seen(session, look)
    while isinstance(said := judge.feed(seen, time.monotonic()), Need):
        match said:
            case Need.TAKEN_BACK:
                await _interrupt(session, pane)
                seen = replace(seen, taken_back=True)
            case Need.LOGGED:
                seen = replace(seen, logged=await all_logged(session, look.size))
            case Need.LOST:
                seen = replace(seen, lost=bool(session.gaps(look.shell.prompt_end, look.size)))
            case Need.PATIENCE:
                seen = replace(seen, patience_s=_patience_s(session, look))
    return said


def _seen(session: Session, look: Look) -> Seen:
    """What one look tells of the way to a prompt without being asked for more."""
    return Seen(
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
        prompted=look.shell.prompted is not None,
        doubtful=look.unreported or _may_be_forged(session, look),
        several=bool(_terminals_in_one(look)),
    )


async def _interrupt(session: Session, pane: Pane) -> None:
    await panes.type_input(session.tmux, pane, b"", after=[panes.keys(pane, ["C-c"])])


def _terminals_in_one(look: Look) -> str:
    """What is in front and shows one of several terminals, which keys change: tmux, screen; empty: nothing such."""
    process = look.verdict.process
    names = (*look.relays, process.name if process and look.verdict.hidden else "")
    return next((name.partition(":")[0] for name in names if name.startswith(("tmux", "screen"))), "")


def _several(session: Session, look: Look) -> NotAShell:
    hint = "Use send for what it shows, detach it (in tmux: C-b d), or run the command in another session."
    return _not_a_shell(session, look, f"`{_terminals_in_one(look)}` is in front, which has terminals of its own", hint)


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
    given_ours = now.own_marks and not now.level.number and now.own_shell_in_front
    process = now.verdict.process
    if adopt == "auto" and given_ours and process and process.name == adopting.kind_of(now):
        return False  # it got our marks when it began, and takes none
    found = await adopting.may_unasked(session, now)
    if not isinstance(found, AdoptionRefusal):
        await adopting.adopt(session, now, found)
        return True
    if adopt == "auto":
        return found
    refusal: AdoptionRefusal | NotAdopted | None = adopting.may_by_consent(now) or await asks(now)
    if refusal:
        raise _not_a_shell(session, now, refusal.why, refusal.hint)
    await adopting.adopt(session, now)
    return True


def _may_be_forged(session: Session, look: Look) -> bool:
    """Whether marks that keep us from typing at a shell in its line editor may be somebody else's."""
    shown = look.at_editor and look.shell.number > 0
    return shown and look.shell.promise is None and session.proves(look.level)


def _may_listen(look: Look) -> bool:
    """Whether our shell reads keys, as far as the kernel tells."""
    facts = look.facts
    return facts is None or (look.own_shell_in_front and (not facts.canonical or look.level.reads_lines))


def _patience_s(session: Session, look: Look) -> float:
    """How long a shell that seems to run a command is given to come to its prompt."""
    if look.facts and look.facts.foreground and not look.own_shell_in_front and shows_prompts(look.facts.foreground):
        return 3 * UNMARKED_S  # it is on its way there; fish works at something behind it
    if look.own_shell_in_front and look.shell.promise is None and session.proves(look.level):
        return 2 * UNMARKED_S  # anybody can print that a command begins
    # Where the mark of the end may have been lost, it is asked for another prompt, and draws that.
    return 8 * UNMARKED_S if session.gaps(look.shell.prompt_end, look.size) else 0.02


async def place_after(session: Session, ran: RunOutcome) -> tuple[str | None, Mode]:
    """Working directory and mode after a command: as its marks say, or else by a look."""
    at_prompt = ran.completed and ran.outcome == "ready"
    if at_prompt and ran.cwd is not None:
        return ran.cwd, "shell_prompt"
    look = await session.look()
    return look.cwd if ran.cwd is None else ran.cwd, "shell_prompt" if at_prompt else look.mode


async def _show_prompt(session: Session, pane: Pane) -> None:
    """Have a shell that waits for keys say at which prompt it is, by its marks; that changes and runs nothing."""
    scan = await session.scan()
    nonce = scan.level.nonce
    if scan.level.reads_lines:
        return  # all that it can be asked is a command
    with session.expecting_answer(nonce) as asked_at:
        if scan.knows.reads_files:
            await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, shells.SHOW_PROMPT)])
            if session.proves(scan.level):  # an earlier version's shell shows its prompt, and says nothing
                await _marked(session, lambda _: not session.is_asked(nonce), limit_s=UNMARKED_S)
            return
        asked = await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, shells.COMMAND_KEY)])
        if asked and await _answers(session, nonce, asked_at):
            await _listen_no_more(session, scan, pane)  # else it asks a question of its own, which nothing may answer


async def end_listening(session: Session, scan: Scan) -> None:
    """Have a shell listen no more that answered our key late, when whoever had pressed it had given up."""
    if scan.shell.listening:
        pane = session.live()
        await _listen_no_more(session, scan, pane, condition=f"#{{==:{panes.remembered(pane, 'claim')},}}")


async def _listen_no_more(session: Session, scan: Scan, pane: Pane, condition: str = "") -> bool:
    """End the listening of a shell that was given our key; whether it says that it did."""
    asked_at, level = session.log.size(), scan.level
    keys = adoption.refuse(_kind(level), typed.PROMPT_JOB) if level.number else shells.refused_keys(typed.PROMPT_JOB)
    if not await panes.type_input(session.tmux, pane, keys, condition=condition, ends=True):
        return False
    told = (typed.PROMPT_JOB,) if level.number == 0 else (typed.PROMPT_JOB, "")

    def refused(scan: Scan) -> bool:
        why, name = _refusal(scan, level.nonce, asked_at)
        return bool(why) and name in told

    return bool(await _marked(session, refused))


def _kind(level: Level) -> adoption.ShellKind:
    """What a shell that was adopted has said of itself."""
    return adoption.who(level.answer)


async def _marked(
    session: Session, met: Callable[[Scan], bool], longer_s: float = 0.0, limit_s: float = LISTENS_S
) -> Scan | None:
    """Wait until the marks in the log say so, for as long as a shell may take to answer a key, or longer."""
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


async def _type(
    session: Session, look: Look, text: str, data: bytes, noting: IdempotentCall | None, *, as_known: bool
) -> Job:
    pane = session.live()
    job = Job(text, time.monotonic(), look.size, secrets.token_hex(4), look.level, as_known=as_known)
    job.at(look.shell)
    job.proof = "" if session.proves(look.level) else None
    session.typed_at = look.size
    by_file = look.knows.reads_files
    async with session.input_lock:
        # Cancelled halfway, the shell would go on listening, and the prompt would stay claimed.
        with anyio.CancelScope(shield=True):
            proof = new_proof() if job.proof is not None else ""
            # The marks of some shells tell that it is ours, and not what it is.
            if proof or by_file or not look.knows.tells_commands:
                promise = promise_of(proof) if proof else None
                if session.commands.typing(TypedInput(look.size, text, True, job.name, promise)) and proof:
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
        raise _busy(session, await session.look())  # another broker was first at this prompt
    session.write_input(bytes=len(text.encode("utf-8", "surrogateescape")), keys=1)
    session.write_shown(look.size, f"{text}\r")
    if noting:
        noting.note_typed(session, look.size)
    # While the shell works:
    remove_left(session.directory, look.shell.number)
    session.save_commands()
    return job


async def _noted(session: Session, job: Job, noting: IdempotentCall | None) -> Stamp | None:
    """Write down what tells of this command later, where its call has an id."""
    if noting is None:
        return None
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


async def take_up(session: Session, job: Job, until: ReturnWhen, progress: Progress) -> RunOutcome:
    """Wait for the end of a command that an earlier call has typed.

    Raises:
        SessionBusy, IncompleteCommand: it was not run.
    """
    deadline = time.monotonic() + until.timeout_ms / 1000
    with session.watcher.waiting(session.log.path):
        ran = await _finish(session, job, deadline, until, progress)
    return replace(ran, level=job.level)


async def _give(session: Session, pane: Pane, job: Job, data: bytes, noting: IdempotentCall | None) -> bool:
    """Have the shell read the command from a file; false: its prompt is another broker's."""
    place = place_of(session.directory)
    if place is None:
        raise NotAShell(
            f"The shell of session {session.id} was started by an earlier version, and takes no command.",
            hint="Use send for it, or make another session.",
            session_id=session.id,
        )
    job.given = give(place, job.name, data)
    try:
        stamp = await _noted(session, job, noting)
        done = await _press(session, pane, job, shells.file_keys(job.name, done_half(job.proof or "")), stamp=stamp)
    except (SessionTaken, IoError):
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
    given = adoption.Giving(shells.COMMAND_KEY, shells.command_keys(job.name, data, job.proof or ""))
    if job.level.number:
        given = adoption.give(_kind(job.level), job.name, data, job.proof)
    still = await _shown_prompt(session) if job.level.reads_lines else ""
    with session.expecting_answer(job.level.nonce):
        if not await _press(session, pane, job, given.key, still):
            return False
        await _listening(session, pane, job, given.key)
    return await _answer(session, pane, job, given.command, InputLeftover.COMMAND, noting)


async def _answer(
    session: Session,
    pane: Pane,
    job: Job,
    data: bytes,
    left: InputLeftover = InputLeftover.LINE,
    noting: IdempotentCall | None = None,
) -> bool:
    """Type what a shell listens for.

    Raises:
        SessionTaken: a person was faster; the shell, which would show nothing of what they type, listens no more.
    """
    try:
        stamp = await _noted(session, job, noting)
        return await panes.type_input(session.tmux, pane, data, left=left, stamp=stamp)
    except (SessionTaken, IoError):
        await _listen_no_more(session, await session.scan(), pane)
        await _free_prompt(session, job)
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
    raise _not_a_shell(session, look, why, hint)


async def _press(
    session: Session, pane: Pane, job: Job, keys: bytes, still: str = "", stamp: Stamp | None = None
) -> bool:
    """Type our key at this prompt; false: another broker did, or the pane is gone.

    A prompt is known by its number: it may be drawn anew while the shell is about to run what was typed there.

    Args:
        still: a format that has to hold as well.
    """
    prompt = _prompt(session, job)
    claim = panes.remember(pane, "claim", _claim(session, job))
    steps = [claim, *panes.raw_words(pane, keys)]
    free = f"#{{?#{{m:{prompt}*,{panes.remembered(pane, 'claim')}}},,1}}"
    still = still or "1"
    if job.as_known:
        still = f"#{{&&:{still},{panes.as_known(pane)}}}"
    if await panes.type_input(session.tmux, pane, b"", before=steps, condition=f"#{{&&:{still},{free}}}", stamp=stamp):
        return True
    if job.as_known:
        return False
    held = await panes.recall(session.tmux, pane, "claim")
    if not held.startswith(prompt) or not await _left_at_prompt(session, job.number):
        return False
    # Whoever claimed it is gone, and the shell did not heed the key: of all that find this, one takes its place.
    same = f"#{{==:{panes.remembered(pane, 'claim')},{held}}}"
    return await panes.type_input(
        session.tmux, pane, b"", before=steps, condition=f"#{{&&:{still},{same}}}", stamp=stamp
    )


async def _left_at_prompt(session: Session, number: int) -> bool:
    """Whether the shell rests at a prompt at which a key of ours was typed: the key did nothing there."""
    rest = ShellRest()
    async for look in session.looks(0.01, time.monotonic() + LISTENS_S):
        if look.shell.number != number or look.shell.state is not ShellState.PROMPT or look.shell.listening:
            return False
        if await typed.rests(session, look, rest):
            return True
    return False


async def _listening(session: Session, pane: Pane, job: Job, key: bytes) -> None:
    """Wait until the shell answers the key: in another mode it would take the command for keys.

    Raises:
        SessionBusy: it does not.
    """
    nonce = job.level.nonce
    if await _answers(session, nonce, job.sent_at):
        return
    scan = await session.scan()
    if typed.may_miss(session, scan, job.sent_at) and await _listen_no_more(session, scan, pane):
        asked_at = session.log.size()  # its answer was not recorded
        await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, key)])
        answer = await _answers(session, nonce, asked_at)
        if answer:
            job.at(session.track_of(nonce))  # zsh has drawn another prompt
            return
    await _free_prompt(session, job)
    raise _typed_at(session)


async def _free_prompt(session: Session, job: Job) -> None:
    """Let somebody type at the prompt that this command had claimed: the shell may show it for long."""
    pane = session.live()
    ours = f"#{{==:{panes.remembered(pane, 'claim')},{_claim(session, job)}}}"
    await panes.guarded(session.tmux, pane, panes.remember(pane, "claim", ""), alive=False, condition=ours)


def _claim(session: Session, job: Job) -> str:
    """What a pane's option says while a prompt is this command's: the prompt's name, and its own."""
    return f"{_prompt(session, job)}{job.name}"


def _prompt(session: Session, job: Job) -> str:
    return f"{job.level.nonce}-{job.number}-"


async def _answers(session: Session, nonce: str, asked_at: int) -> Scan | None:
    """What the marks say once the shell answers our key, that it listens; None: it does not."""

    def listens(scan: Scan) -> bool:
        found = scan.at(nonce)
        return found is not None and found.shell.listens >= asked_at

    level = session.level_of(nonce)
    far_s = FAR_S if level.where == "remote" else 0.0
    # Anybody can print that it does not.
    refuses = not session.proves(level)
    scan = await _marked(
        session, lambda scan: listens(scan) or (refuses and bool(_refusal(scan, nonce, asked_at)[0])), far_s
    )
    return scan if scan and listens(scan) else None


def _refusal(scan: Scan, nonce: str, since: int) -> tuple[str, str]:
    """Why the shell did not take what was given to it by key, and under which name; empty if it did not say so."""
    found = scan.at(nonce)
    why, name, at = (found and found.shell.refused) or ("", "", 0)
    return (why, name) if at >= since else ("", "")


def _not_taken(scan: Scan, job: Job) -> str:
    """Why the shell did not take our command; empty if it did not say so."""
    why, name = _refusal(scan, job.level.nonce, job.sent_at)
    return why if name in ("", job.name) else ""


def _typed_at(session: Session) -> SessionBusy:
    return SessionBusy(
        f"The shell of session {session.id} does not take a command at its prompt: somebody may be in the middle of "
        "something there. Nothing was run.",
        hint="Look at it with read view=screen, end it with key C-c, and try again.",
        session_id=session.id,
    )


async def _finish(session: Session, job: Job, deadline: float, until: ReturnWhen, progress: Progress) -> RunOutcome:
    told, questions, rest, silence = time.monotonic(), InputQuestions(session), ShellRest(), SilenceTimer(until.idle_ms)
    put_off = LookDelay(time.monotonic())
    async for scan in session.scans(put_off.step_s, deadline):
        if job.stdin:
            job.stdin.remove_once_opened(job.level.pid if job.level.number else session.pid)
        session.throttle(scan.size - job.sent_at)
        ran = typed.done(session, scan, job)
        if ran is None and (scan.exited or scan.replaced or not put_off.feed(scan.size, time.monotonic())):
            scan = look = await session.look()
            ran = typed.done(session, look, job) or _elsewhere(session, look, job)
            if ran is None and look.leaving:
                continue
            ran = ran or await _not_done(session, job, look, rest)
            if ran is None and until.asks:
                ran = await _asks(session, job, look, questions)
            if ran is None and silence.feed(look.size, time.monotonic()):
                ran = _idle(session, look, job, until.idle_ms)
        if ran is None and (scan.exited or scan.replaced):
            ran = _exited(session, scan, job)
        if ran:
            return ran
        if session.lease:
            return _taken(session, scan, job)
        now = time.monotonic()
        if now - told >= PROGRESS_EVERY_S:
            told = now
            await progress(now - job.begun, last_line(scan))
    session.save_checkpoint()  # whoever comes next need not look for its beginning
    ran = typed.unfinished(session, scan, job, "timeout")
    return replace(ran, note=" ".join(filter(None, (ran.note, GOES_ON)))) if ran.number is not None else ran


def _elsewhere(session: Session, look: Look, job: Job) -> RunOutcome | None:
    """What became of our command, if its shell has ended, or another one stands in front of it by now."""
    if look.level.nonce == job.level.nonce:
        return None
    if look.at(job.level.nonce) is None and not look.exited:
        return typed.left(session, look, job)
    if look.at(job.level.nonce):
        note = f"In front of it is another shell by now, in which commands can be run. {WHEN_OVER}"
        return RunOutcome("ready", None, False, "marks", look.size, look.size, None, typed.since(job), note, job.number)
    return None


async def _not_done(session: Session, job: Job, look: Look, rest: ShellRest) -> RunOutcome | None:
    """What became of our command, if the shell did not run it, or what it said at the end is not in the log."""
    why = _not_taken(look, job)
    alone = look.shell.number == job.number and not job.foreign
    wants_more = look.shell.state is ShellState.CONTINUATION and alone
    rests = await typed.rests(session, look, rest)
    # A program of before can print such a mark while the shell is about to run the command.
    said = bool(why or wants_more)
    if job.proof:
        said = said and look.shell.state is not ShellState.RUNNING and (rests or job.lasts(time.monotonic()))
    if said and why:
        await _free_prompt(session, job)
        raise _incomplete(session) if why == "s" else _typed_at(session)
    if said:
        await _abandon(session, job)
    if not rests:
        return None
    if job.given and job.given.waits:
        job.given.take_back()
        await _free_prompt(session, job)
        raise _typed_at(session)
    ran = typed.settled(session, look, job)
    if ran is None and not job.asked_prompt and (look.unreported or typed.misses_its_end(session, look, job)):
        job.asked_prompt = True
        await _show_prompt(session, session.live())
    elif ran is None and look.unreported:
        return typed.unreported(look, job)
    return ran


async def _abandon(session: Session, job: Job) -> None:
    """Take an unfinished command back, and say so."""
    await _interrupt(session, await session.alive())
    async for scan in session.scans(0.02, time.monotonic() + ABANDONED_S):
        if scan.shell.state is ShellState.PROMPT and scan.shell.number != job.number:
            break
    raise _incomplete(session)


def _incomplete(session: Session) -> IncompleteCommand:
    return IncompleteCommand(
        "The shell wants more: a quote, bracket or here-document is not closed. Nothing was run.",
        hint="Close it and run the whole command again.",
        session_id=session.id,
    )


def _idle(session: Session, look: Look, job: Job, idle_ms: int) -> RunOutcome:
    ran = typed.unfinished(session, look, job, "idle")
    note = f"Nothing was printed for {idle_ms} ms; it goes on. Take it up with read wait_for=command."
    return replace(ran, evidence="quiet" if ran.evidence else None, note=" ".join(filter(None, (ran.note, note))))


def _taken(session: Session, scan: Scan, job: Job) -> RunOutcome:
    """What is known of a command during which a person took the session over, or paused it."""
    ran = typed.unfinished(session, scan, job, "taken")
    what = "The session was paused" if session.lease and session.lease.paused else "A person has taken the session over"
    return replace(ran, note=typed.joined(ran.note, f"{what}. {GOES_ON}"))


def _exited(session: Session, scan: Scan, job: Job) -> RunOutcome:
    code, name = scan.exit_status
    ran = typed.unfinished(session, scan, job, "exited")
    note = f"The shell was ended by SIG{name}." if name else ran.note
    return replace(ran, exit_code=code, completed=code is not None, note=note)


async def _asks(session: Session, job: Job, look: Look, questions: InputQuestions) -> RunOutcome | None:
    """What our command printed, if it now wants input: who called can give it."""
    if look.shell.state is not ShellState.RUNNING:
        return None
    asked = await questions.asked(look)
    if asked is None or asked.look.verdict.process is None or asked.look.shell.state is not ShellState.RUNNING:
        return None
    settled, process = asked.look, asked.look.verdict.process
    if process.pid == settled.pid and (settled.unreported or typed.misses_its_end(session, settled, job)):
        return None  # it is at its prompt, or may be
    ran = typed.unfinished(session, settled, job, asked.how.outcome)
    if ran.evidence is None:
        return None  # another command's question
    ran = replace(ran, evidence=asked.how.evidence)
    if process.pid == settled.pid and _edits(settled):
        what = typed.MAY_BE_OVER.format(what="it", name=process.name)
        note = f"I{what[1:]}. {typed.USE_SEND} {typed.LOOK_BEFORE_AGAIN}"
        return replace(ran, note=typed.joined(ran.note, note))
    who = f"`{process.name}`"
    if why := asked.how.doubt:
        note = MAY_WORK.format(who=who, why=why[0].upper() + why[1:])
        return replace(ran, note=typed.joined(ran.note, note))
    match settled.waiting:
        case InputWait.UNKNOWN if ASKS_SECRET.search(last_line(settled)):
            what = f"{BY_TEXT.format(who=who)} Have the person type it with `tmuxmcp attach --take {session.id}`"
        case InputWait.UNKNOWN:
            what = f"{who} hides what runs behind it, and its last line looks like a prompt: use send"
            what += ", or if it is a shell's, run adopt=yes"
        case InputWait.SECRET:
            what = f"{who} asks for a secret: have the person type it with `tmuxmcp attach --take {session.id}`"
        case _ if settled.at_unmarked_prompt:
            what = f"{who} waits at its prompt: run works there"
        case InputWait.LINE:
            what = f"{who} waits for a line of input: answer with send"
        case _ if settled.mode == "line_input" and process.pid != settled.pid and last_line(settled):
            what = f"{who} waits at its prompt: use send"
        case _:
            what = f"{who} waits for keys: use send"
    note = " ".join(filter(None, (ran.note, f"Not finished. {what}. {WHEN_OVER}")))
    return replace(ran, note=note)


def _edits(look: Look) -> bool:
    """Whether the session's own shell is in its line editor: the last word on pastes in brackets switched them on."""
    start = max(look.shell.output_start, look.size - ECHO_LIMIT)
    told = look.log.read(start, look.size - start).rpartition(b"\x1b[?2004")[2]
    return look.waiting is InputWait.EDITOR and told.startswith(b"h")


def _in_the_way(
    session: Session, look: Look, adopt: Adopt, found: AdoptionRefusal | bool | None
) -> NotAShell | SessionBusy:
    """Why a session takes no command although it waits for input, and what to do; `found`: why it was not adopted."""
    if look.verdict.hidden and not may_be_prompt(last_line(look)):
        return _busy(session, look)
    why, hint = _obstacle(session, look)
    elsewhere = not look.marks or not look.own_shell_in_front or look.level.carrier is not None
    if isinstance(found, AdoptionRefusal) and not look.verdict.hidden and (look.relays or not look.own_shell_in_front):
        return _not_a_shell(session, look, f"{why}: {found.why}", found.hint)
    if adopt != "yes" and elsewhere and adopting.may_by_consent(look) is None:
        hint = (
            "If a shell's prompt stands there, call run again with adopt=yes: one line is typed into it, once, and run "
            "works there. Otherwise use send."
        )
    return _not_a_shell(session, look, why, hint)


def _obstacle(session: Session, look: Look) -> tuple[str, str]:
    """The same, and what to do where nothing can be adopted."""
    shell = look.knows
    if not look.marks and look.facts and look.facts.foreground == look.pid:
        hint = (
            f"Use send for it, or make a session with program {shells.names('or')}: their commands can be told apart."
        )
        return "its program sends no command marks", hint
    if not (look.facts and look.own_shell_in_front):
        name = f"`{look.foreground.command}`" if look.foreground else "another program"
        if look.verdict.hidden:
            hint = "Use send for it. Once it has ended, run works here again."
            return f"{name} is in front, which hides what runs behind it", hint
        what = f"{name}, which was started there, is in front and waits for input"
        hint = "Use send for it, which gives no exit code, or run the command in another session."
        return what, f"{hint} Once it has ended, run works here again."
    if look.shell.prompted is not None:
        return typed.TELLS_NO_MORE.rstrip("."), "Use send for it, or another session."
    if look.shell.state is ShellState.RUNNING:
        what = _running(session, look)
        if look.verdict.hidden:
            return f"{what} runs, and whether it waits for input cannot be known", "Use send for it."
        if _edits(look):
            return typed.MAY_BE_OVER.format(what=what, name=shell.name), typed.USE_SEND
        return f"{what} is not over: it waits for input", "Answer it with send, or end it with key C-c."
    if look.shell.state is ShellState.PROMPT and look.facts.canonical:
        return f"the line editor of {shell.name} is off", f"Switch it on: send `{shell.editor_on}` and Enter."
    what = f"{shell.name} shows a prompt without our marks: another one took its place (exec), or its start-up files "
    return what + "keep ours out", "Use send for it, or make another session."


def _running(session: Session, look: Look) -> str:
    """The command that the session's shell runs, as far as it is known."""
    running = next((each for each in session.commands.running(look) if each.level == look.level.number), None)
    text = ((running and running.text) or "").strip().split("\n")[0][:200]
    return f"`{text}`" if text else "its last command"


def _busy(session: Session, look: Look, text: str = "") -> SessionBusy:
    foreground, since = look.foreground, running_since(look)
    own = look.facts is not None and look.own_shell_in_front
    what = text.strip().split("\n")[0][:200] or (foreground.command if foreground and not own else "a command")
    hint = "Wait with read wait_for=ready, stop it with signal INT, or use another session."
    if look.verdict.hidden:
        hint = "Use send for what runs behind it, read wait_for=ready to wait for it, or run in another session."
    return SessionBusy(
        f"Session {session.id} runs `{what}`" + (f" since {since}." if since else "."),
        hint=hint,
        session_id=session.id,
        command=what,
        since=since,
        pid=foreground.pid if foreground else None,
    )


def running_since(look: Look) -> str | None:
    """When the foreground program began; ISO 8601."""
    import psutil

    try:
        return iso(psutil.Process(look.foreground.pid).create_time()) if look.foreground else None
    except psutil.Error:
        return None


def _not_a_shell(session: Session, look: Look, why: str, hint: str = "") -> NotAShell:
    foreground = look.foreground
    return NotAShell(
        f"run needs the session's own shell at its prompt, but in session {session.id} {why}.",
        hint=hint or "Use send for it, quit it first, or run the command in another session.",
        session_id=session.id,
        foreground=foreground.command if foreground else None,
        waiting=look.waiting.value if foreground else InputWait.UNKNOWN.value,
    )
