"""`run`: one command in a live shell, its complete output and its exit code, by the shell's own marks.

The theory of it stands in `shell/__init__.py`.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from contextlib import suppress

import anyio

from tmuxmcp.contract.call import PROGRESS_EVERY_S, Progress, joined_notes
from tmuxmcp.contract.errors import (
    IncompleteCommand,
    InvalidArgument,
    SessionBusy,
    Unsupported,
)
from tmuxmcp.contract.results import Mode
from tmuxmcp.contract.value import replace, value
from tmuxmcp.contract.words import Adopt
from tmuxmcp.machine import cgroup
from tmuxmcp.machine.launch.shells import adoption
from tmuxmcp.machine.searching import CompiledPattern
from tmuxmcp.machine.witness.foreground import shows_prompts
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.readiness.finding import InputQuestions, Matching, who_holds
from tmuxmcp.readiness.wait import HELD, last_line
from tmuxmcp.record.commands import Stdin
from tmuxmcp.sessions.look import LogView, Look
from tmuxmcp.sessions.noting import IdempotentCall
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import adopting, outcomes, typing
from tmuxmcp.shell.outcomes import Job, RunOutcome
from tmuxmcp.shell.promptjudge import LookDelay, ShellRest, SilenceTimer
from tmuxmcp.shell.startup import busy, continue_it, edits, wants_more
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.tmux.panes import PaneChanged

ABANDONED_S = 2.0
"""How long a shell may take to show a new prompt after C-c."""

WHEN_OVER = "When it is over, read wait_for=command gives its exit code."

GOES_ON = f"It goes on. {WHEN_OVER}"

MAY_WORK = (
    "Not finished. Nothing is printed, and {who} listens to the terminal: it may wait for input, or still work. {why}. "
    f"Answer with send, or wait: {WHEN_OVER[0].lower()}{WHEN_OVER[1:]}"
)

BY_TEXT = "By its last line alone, {who} asks for a secret."

KEYS_OF_TERMINALS = "\x03\x11\x13\x1a\x1c"
"""C-c, C-q, C-s, C-z, C-\\: signals and flow control stay on in line editors, also inside a paste (termios(3))."""


@value
class ReturnWhen:
    """When `run` comes back, beside the command's end."""

    timeout_ms: int
    idle_ms: int = 0
    """It comes back after this much silence; 0: silence does not end it."""
    asks: bool = True
    """It comes back when a program asks for input."""
    adopt: Adopt = "auto"
    """Whether a shell without our marks is adopted."""
    caller: str = ""
    """To whom."""
    pattern: CompiledPattern | None = None
    """It comes back when this is printed."""


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
        raise busy(session, await session.look(), session.running)
    data = command_bytes(text)
    with session.runs(text), session.watcher.waiting(session.log.path):
        deadline = time.monotonic() + until.timeout_ms / 1000
        if session.adopting:
            await adopting.settle(session)
        look = await typing.seen_at_prompt(session)
        if as_known and look is None:
            raise PaneChanged
        look = look or await typing.at_prompt(session, deadline, until.adopt)
        killed, given = _killed_for_memory(session), None
        if stdin is not None and not outcomes.is_empty(text):
            _check_stdin(session, look)
            given = Stdin(session.directory, stdin, number=look.shell.number, within=session.bounds.sandbox != "none")
            data, as_known = look.knows.reads_from(data, str(given.path)), False
        try:
            job = await typing.type_command(
                session, look, text, data, given, noting, caller=until.caller, as_known=as_known
            )
            try:
                ran = await _finish(session, job, deadline, until, progress)
                if not ran.completed and not session.exited:
                    await typing.empty_line(session, await session.look(), job)
            finally:
                if job.given:
                    job.given.tidy()
        except (IncompleteCommand, SessionBusy):
            if given:
                given.remove()  # it does not run
            raise
        if given and ran.completed:
            given.remove()
        memory = outcomes.KILLED_FOR_MEMORY if _killed_for_memory(session) > killed else None
        note = joined_notes(outcomes.left_behind(look, ran), memory, ran.note)
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
    with session.runs(outcomes.UNDO_JOB), session.watcher.waiting(session.log.path):
        await adopting.settle(session)
        look = await typing.at_prompt(session, begun + until.timeout_ms / 1000, "no")
        level, pane = look.level, session.live()
        if not level.number:
            raise InvalidArgument(
                f"The shell in front in session {session.id} was not adopted: there is nothing to take out.",
                hint="Its levels tell which shells were.",
                session_id=session.id,
            )
        job = Job(outcomes.UNDO_JOB, begun, look.size, secrets.token_hex(4), level)
        job.at(look.shell)
        key = typing.command_key(session, level)
        given = adoption.undo(typing.shell_kind(level), key, job.name, "" if session.proves(level) else None)
        async with session.input_lock:
            with anyio.CancelScope(shield=True):
                done = await typing.press_key(session, pane, job, given.key)
                if done and given.command:
                    await typing.until_listening(session, pane, job, given.key)
                    done = await typing.type_answer(session, pane, job, given.command)
        if not done or not await typing.until_marked(
            session, lambda _: session.sends_no_more(level.nonce), typing.FAR_S
        ):
            raise busy(session, await session.look())
        scan = await session.scan()
        session.leave([replace(level, until=scan.size)])
        note = f"The marks were taken out of {level.kind} (level {level.number})."
        return RunOutcome(
            "left", None, True, "marks", scan.size, scan.size, None, outcomes.since(job), note, level=level
        )


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


async def place_after(session: Session, ran: RunOutcome) -> tuple[str | None, Mode]:
    """Working directory and mode after a command: as its marks say, or else by a look."""
    at_prompt = ran.completed and ran.outcome == "ready"
    if at_prompt and ran.cwd is not None:
        return ran.cwd, "shell_prompt"
    look = await session.look()
    return look.cwd if ran.cwd is None else ran.cwd, "shell_prompt" if at_prompt else look.mode


async def take_up(session: Session, job: Job, until: ReturnWhen, progress: Progress) -> RunOutcome:
    """Wait for the end of a command that an earlier call has typed.

    Raises:
        SessionBusy, IncompleteCommand: it was not run.
    """
    deadline = time.monotonic() + until.timeout_ms / 1000
    with session.watcher.waiting(session.log.path):
        ran = await _finish(session, job, deadline, until, progress)
    return replace(ran, level=job.level)


def _not_taken(scan: LogView, job: Job) -> str:
    """Why the shell did not take our command; empty if it did not say so."""
    why, name = typing.why_not_taken(scan, job.level.nonce, job.sent_at)
    return why if name in ("", job.name) else ""


def _leader(session: Session) -> int | None:
    return session.pane.leader if session.pane else None


async def _finish(session: Session, job: Job, deadline: float, until: ReturnWhen, progress: Progress) -> RunOutcome:
    told, questions, rest, silence = time.monotonic(), None, ShellRest(), SilenceTimer(until.idle_ms)
    put_off, leader = LookDelay(told), _leader(session)
    printed = _Printed(session, job, until) if until.pattern else None

    def is_gone(scan: LogView) -> bool:
        # A shell that a script has put there, and that was adopted since, is still there.
        return scan.exited or (scan.replaced and (not job.level.number or _leader(session) != leader))

    async for scan in session.scans(put_off.step_s, deadline):
        if job.stdin:
            job.stdin.remove_once_opened(job.level.pid if job.level.number else session.pid)
        session.throttle(scan.size - job.sent_at)
        ran = outcomes.done(session, scan, job)
        if ran is None and (is_gone(scan) or not put_off.feed(scan.size, time.monotonic())):
            scan = look = await session.look()
            questions = questions or InputQuestions(session)
            ran = outcomes.done(session, look, job)
            pid = outcomes.replaced(session, look, job)
            ran = ran or (await _after_exec(session, look, job, questions, pid) if pid else None)
            ran = ran or _elsewhere(session, look, job, pid)
            if ran is None and (look.leaving or (pid and job.level.number)):
                continue
            ran = ran or await _not_done(session, job, look, rest)
            if ran is None and until.asks:
                ran = await _asks(session, job, look, questions, surely=until.pattern is not None)
            if ran is None and silence.feed(look.size, time.monotonic()):
                ran = _idle(session, look, job, until.idle_ms)
        if ran is None and is_gone(scan):
            ran = _exited(session, scan, job)
        if printed and (ran is None or ran.outcome == "ready"):
            ran = await printed.judged(scan, ran)
        if ran:
            return ran
        if session.lease:
            return _taken(session, scan, job)
        now = time.monotonic()
        if now - told >= PROGRESS_EVERY_S:
            told = now
            await progress(now - job.begun, last_line(scan))
    session.save_checkpoint()  # whoever comes next need not look for its beginning
    if printed and (ran := printed.in_vain()):
        return ran
    ran = outcomes.unfinished(session, scan, job, "timeout")
    look = await session.look()
    stopped = look.waiting is InputWait.STOPPED
    goes_on = continue_it(look) if stopped else GOES_ON if ran.number is not None else None
    return replace(ran, note=joined_notes(ran.note, goes_on))


class _Printed:
    """Whether what `run` waits for was printed, and whether anything can still print it."""

    def __init__(self, session: Session, job: Job, until: ReturnWhen) -> None:
        assert until.pattern
        self._session, self._job = session, job
        self._matching = Matching([until.pattern], job.sent_at, jobs=True)
        self._ended: RunOutcome | None = None
        self._note = ""

    async def judged(self, scan: LogView, ran: RunOutcome | None) -> RunOutcome | None:
        """What the command has come to: it printed the pattern, or it has ended and nothing of it has the terminal.

        Args:
            ran: how it has ended, or what it asks; None: it runs.
        """
        match = await self._matching.found(self._session, scan, time.monotonic())
        ran = self._ended = self._ended or ran
        if match:
            before = ran or outcomes.unfinished(self._session, scan, self._job, "matched")
            note = before.note if ran else joined_notes(before.note, GOES_ON)
            return replace(before, outcome="matched", match=match, note=note)
        if ran is None or not ran.completed:
            return ran
        holder = who_holds(self._session, await self._session.look())
        if holder:
            self._note = HELD.format(command="The command", holder=holder)
        # A job that has just ended may have printed it last.
        late = not holder and not await self._session.log_complete(scan.size)
        return None if holder or late else ran

    def in_vain(self) -> RunOutcome | None:
        """What to say when the time is over, of a command that has ended, and left something running that may print."""
        ran = self._ended
        return ran and replace(ran, outcome="timeout", note=joined_notes(ran.note, self._note))


async def _after_exec(session: Session, look: Look, job: Job, questions: InputQuestions, pid: int) -> RunOutcome | None:
    """What became of our command, where another program runs in its shell's place; None: that goes on."""
    asked = None if look.level.pid == pid else await questions.asked(look)
    at_prompt = asked[1].at_unmarked_prompt if asked else look.level.pid == pid
    if at_prompt:
        return outcomes.over_by_exec(session, asked[1] if asked else look, job)
    ends = job.level.number and (asked or not shows_prompts(pid))
    return outcomes.left(session, look, job) if ends else None


def _elsewhere(session: Session, look: Look, job: Job, replaced: int | None) -> RunOutcome | None:
    """What became of our command, if its shell has ended, or another one stands in front of it by now."""
    if look.level.nonce == job.level.nonce or replaced:
        return None
    if look.at(job.level.nonce) is None and not look.exited:
        return outcomes.left(session, look, job)
    if look.at(job.level.nonce):
        note = f"In front of it is another shell by now, in which commands can be run. {WHEN_OVER}"
        return RunOutcome(
            "ready", None, False, "marks", look.size, look.size, None, outcomes.since(job), note, job.number
        )
    return None


async def _not_done(session: Session, job: Job, look: Look, rest: ShellRest) -> RunOutcome | None:
    """What became of our command, if the shell did not run it, or what it said at the end is not in the log."""
    why = _not_taken(look, job)
    alone = look.shell.number == job.number and not job.foreign
    wants_more = look.shell.state is ShellState.CONTINUATION and alone
    rests = await outcomes.rests(session, look, rest)
    # A program of before can print such a mark while the shell is about to run the command.
    said = bool(why or wants_more)
    if job.proof:
        said = said and look.shell.state is not ShellState.RUNNING and (rests or job.refused_for_long(time.monotonic()))
    if said and why == "s":
        await typing.free_prompt(session, job)
        raise _incomplete(session)
    if said and why:
        raise await typing.not_taken(session, job)
    if said:
        await _abandon(session, job)
    if not rests:
        return None
    if job.given and job.given.waits:
        job.given.take_back()
        raise await typing.not_taken(session, job)
    # Where what it said since may be missing, it may have run the command: then it is asked first.
    if look.shell.listening and not outcomes.may_miss(session, look, job.sent_at):
        await typing.end_listening(session, look)
        if not (await session.scan()).shell.listening:
            raise await typing.not_taken(session, job)
        return None
    ran = outcomes.settled(session, look, job)
    doubtful = look.unreported or look.may_be_untold
    doubtful = look.may_be_asked and (doubtful or outcomes.misses_its_end(session, look, job))
    if ran is None and not job.asked_prompt and doubtful:
        job.asked_prompt = True
        await typing.show_prompt(session, session.live())
    elif ran is None and look.unreported:
        return outcomes.unreported(look, job)
    return ran


async def _abandon(session: Session, job: Job) -> None:
    """Take an unfinished command back, and say so."""
    pane = await session.alive()
    if not _interrupts_alone(session, job):
        await typing.interrupt(session, pane)
    async for scan in session.scans(0.02, time.monotonic() + ABANDONED_S):
        if scan.shell.state is ShellState.PROMPT and scan.shell.number != job.number:
            break
    raise _incomplete(session)


def _interrupts_alone(session: Session, job: Job) -> bool:
    """Interrupt a shell of this machine alone; whether that was done.

    C-c would end the programs that it prints through as well (`exec > >(tee log)`), and so the shell.
    """
    pid = job.level.pid if job.level.number else session.pid
    if session.lease or session.meta.host or job.level.where == "remote" or not pid:
        return False
    try:
        os.kill(pid, signal.SIGINT)
    except OSError:
        return False
    return True


def _incomplete(session: Session) -> IncompleteCommand:
    return IncompleteCommand(
        "The shell wants more: a quote, bracket or here-document is not closed. Nothing was run.",
        hint="Close it and run the whole command again.",
        session_id=session.id,
    )


def _idle(session: Session, look: Look, job: Job, idle_ms: int) -> RunOutcome:
    ran = outcomes.unfinished(session, look, job, "idle")
    note = f"Nothing was printed for {idle_ms} ms; it goes on. Take it up with read wait_for=command."
    return replace(ran, evidence="quiet" if ran.evidence else None, note=joined_notes(ran.note, note))


def _taken(session: Session, scan: LogView, job: Job) -> RunOutcome:
    """The outcome of a command during which a person took the session over, or paused it."""
    ran = outcomes.unfinished(session, scan, job, "taken")
    what = "The session was paused" if session.lease and session.lease.paused else "A person has taken the session over"
    return replace(ran, note=joined_notes(ran.note, f"{what}. {GOES_ON}"))


def _exited(session: Session, scan: LogView, job: Job) -> RunOutcome:
    code, name = scan.exit_status
    ran = outcomes.unfinished(session, scan, job, "exited")
    note = f"The shell was ended by SIG{name}." if name else ran.note
    if ran.number is None:
        note = f"The shell has ended, and nothing shows that it ran this command. {outcomes.LOOK_BEFORE_AGAIN}"
        return replace(ran, note=note)
    if why := outcomes.why_not_its_code(session, scan, job.level, job.text):
        return replace(ran, note=joined_notes(ran.note, why))
    return replace(ran, exit_code=code, completed=code is not None, note=note)


async def _asks(
    session: Session, job: Job, look: Look, questions: InputQuestions, *, surely: bool
) -> RunOutcome | None:
    """What our command printed, if it now wants input: who called can give it.

    Args:
        surely: not where it may as well work: a server listens to its terminal, too.
    """
    if look.shell.state is not ShellState.RUNNING:
        return None
    asked = await questions.asked(look)
    if asked is None:
        return None
    how, settled = asked
    process = settled.verdict.process
    if (surely and how.doubt) or process is None or settled.shell.state is not ShellState.RUNNING:
        return None
    replaced = outcomes.replaced(session, settled, job) == process.pid
    if (
        process.pid == settled.pid
        and not replaced
        and (settled.unreported or outcomes.misses_its_end(session, settled, job))
    ):
        return None  # it is at its prompt, or may be
    ran = outcomes.unfinished(session, settled, job, how.outcome)
    if ran.evidence is None:
        return None  # another command's question
    ran = replace(ran, evidence=how.evidence)
    if process.pid == settled.pid and not replaced and wants_more(settled):
        note = f"Not finished. Of this {outcomes.WANTS_MORE.format(name=process.name)}. {outcomes.GIVE_THE_REST}"
        return replace(ran, note=joined_notes(ran.note, note))
    if process.pid == settled.pid and not replaced and edits(settled):
        return replace(ran, note=joined_notes(ran.note, outcomes.may_be_over(process.name)))
    who = f"`{process.name}`"
    if why := how.doubt:
        note = MAY_WORK.format(who=who, why=why[0].upper() + why[1:])
        return replace(ran, note=joined_notes(ran.note, note))
    match settled.waiting:
        case _ if settled.may_ask_secret:
            asker = f"what runs behind {who}" * settled.verdict.hidden or who
            what = f"{BY_TEXT.format(who=asker)} Have the person type it with `tmuxmcp attach --take {session.id}`"
        case InputWait.UNKNOWN:
            what = f"{who} hides what runs behind it, and its last line looks like a prompt: use send"
            what += ", or if it is a shell's, run adopt=yes"
        case InputWait.SECRET:
            what = f"{who} asks for a secret"
        case _ if settled.at_unmarked_prompt:
            what = f"{who} waits at its prompt: run works there"
        case _ if replaced:
            what = f"{outcomes.in_its_place(session, settled, job)}, and waits for input: use send"
            what += ". If a shell's prompt stands there, run with adopt=yes" * shows_prompts(process.pid)
        case InputWait.LINE:
            what = f"{who} waits for a line of input: answer with send"
        case _ if settled.mode == "line_input" and process.pid != settled.pid and last_line(settled):
            what = f"{who} waits at its prompt: use send"
        case _ if process.pid == settled.pid:
            # Where its stderr is elsewhere, nothing that it shows tells one from the other.
            what = (
                f"{who} waits for keys: for a question of the command, or for the rest of it, if a quote, bracket or "
            )
            what += "here-document is not closed. Give it that with send, or take the command back with key C-c"
        case _:
            what = f"{who} waits for keys: use send"
    return replace(ran, note=joined_notes(ran.note, f"Not finished. {what}. {WHEN_OVER}"))
