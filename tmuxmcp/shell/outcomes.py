"""A command that was typed into a shell, and what became of it.

The log may be late, and parts of it may be missing. So an end, a refusal or a foreign command is only ever said on
evidence that is in the log. What is missing there says something only when nothing is under way any more (`ShellRest`);
until then it says nothing. What then is still not known is said to be unknown: a caller who is told "not run" of a
command that ran would run it twice.

Judges; types nothing and waits for nothing.
"""

from __future__ import annotations

import signal
import time

from tmuxmcp.contract.call import joined_notes, ms_since
from tmuxmcp.contract.results import Evidence, Outcome
from tmuxmcp.contract.settings import WRAPPER_LEVELS
from tmuxmcp.contract.value import value
from tmuxmcp.machine.signals import signal_name
from tmuxmcp.machine.ssh.client import SSH_FAILED
from tmuxmcp.readiness.finding import Match
from tmuxmcp.readiness.judge import Need
from tmuxmcp.record.commands import GivenCommand, Stdin
from tmuxmcp.record.levels import Level
from tmuxmcp.record.meta import sink_of
from tmuxmcp.sessions.levels import identity, is_replaced, shell_at
from tmuxmcp.sessions.look import LogView, Look
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell.promptjudge import ShellRest
from tmuxmcp.terminal.marks import UNNAMED_COMMAND, Finished, MarkScanner, ShellState, ShellTrack
from tmuxmcp.terminal.text.echo import ECHO_LIMIT, behind_echo, shows_nothing
from tmuxmcp.terminal.text.plain import plain

STANDS_S = 1.0
"""What anybody can print, that a shell has not taken a command, counts after this long where it does not rest."""

SHOWN_BYTES = 1024
"""Bytes behind a prompt that tell whether the line editor showed anything there."""

PROMPT_JOB = "prompted"
"""What a keyed shell is given instead of a command's name, to have it say at which prompt it is."""

LOOK_BEFORE_AGAIN = "Look with read view=screen before you run it again."

UNDO_JOB = "adopt undo"
"""What is under way while the marks are taken out of a shell."""

TELLS_NO_MORE = (
    "this shell no longer tells where its commands end, as something took away the functions by which it does."
)
"""Why nothing more is known of a shell."""

LATE_END_NOTE = "The shell told the end only when it was asked, as something changed {hook} or made it readonly."
"""What a caller is told who got an answer by asking."""

STDERR_ELSEWHERE = (
    "The shell's stderr is not the terminal: its prompt and what is typed are not shown there, nor are errors. To mend "
    "that, run `exec 2>/dev/tty`, if this did not."
)
"""Of a shell that prints its prompts to stderr."""

MORE_FOLLOWS = (
    "The shell prints through another program (`exec > >(...)`), and it cannot be told whether all of this output has "
    "come: the rest may stand in that of a later command. To mend that, run `exec >/dev/tty 2>&1`, if this did not."
)
"""Of a command whose shell could not wait for that."""

HOOKS_PRINT = "The output may end with what {hook} printed before the shell told the end."
"""Of a command that has put something before our own hook."""

MAY_BE_OVER = (
    "it cannot be told whether {what} is over: `{name}` waits in its line editor, at a prompt that tells nothing, or "
    "at a question of the command (`read -e`)"
)
"""Of a shell whose prompt and hooks were both changed."""

WANTS_MORE = "the first lines have run, and `{name}` wants more: a quote, bracket or here-document is not closed"
"""Of a shell that takes a command line by line, and whose last line is unfinished."""

GIVE_THE_REST = "Give it the rest with send, or take that back with key C-c."

KILLED_FOR_MEMORY = "The kernel ended a process meanwhile: those of the session took more than its limit memory_mb."

AFTER_IT = "Use send for it, or run if it shows a shell's prompt; once it has ended, run works here again."

MAY_BE_UNTAKEN = "It cannot be told whether it took the command."

NO_SIGN = (
    "The shell took the line, and nothing shows that it ran anything of it: it was interrupted before (C-c), or "
    "there was nothing in it to run."
)
"""Of a command that neither began nor has a message of an error of syntax."""

SAYS_ZERO = (
    "C-c or C-z is the last thing that its terminal showed, and the shell's status is 0, as it may be of a loop that a "
    "key broke off or stopped: whether it ran to its end cannot be told."
)
"""Of a command of zsh or fish."""

BROKEN_OFF = (
    "A signal, such as SIGHUP, ended the shell in the middle of the command: what exit code the shell then has is not "
    "the command's."
)
"""Of a command during which a shell that does not die by such a signal (zsh, fish, or by its trap) has exited."""

MAY_BE_TRAPPED = (
    "The shell ended with exit code {code}: by the command, or by a trap of its own for a signal or for its end "
    "(`trap 'exit' HUP EXIT`)."
)
"""Of a command in a shell that has such a trap."""

ENDED_MEANWHILE = "{how} What exit code the shell then had is not the command's."
"""Of a command that ran when its session was ended."""

ITS_SHELL_S = (
    "The session has ended with exit code {code}, which its own program gave: that of the command, with which {name} "
    "(level {number}) ended before, was not told."
)
"""Of a command in a shell that was started in the session's own."""

ENDED_BY_SOMEBODY = ("memory", "cpu", "duration", "idle", "destroyed")
"""Why a session has ended that did not end by itself."""

CUT_OFF = (
    "The connection was cut, or a signal ended the shell at its far end, or the command exited with 255: ssh has the "
    "same exit code for all of them. What became of the command cannot be told, and it may go on there."
)
"""Of a command at the far end of ssh."""

MAY_BE_KILLED = "The shell ended with exit code {code}: by SIG{name}, or by `exit {code}`."
"""Of a command with whose shell nobody tells a signal from an exit code."""

USE_SEND = (
    "Use send for either. At a prompt, `exec {name}`, sent to it, gives a new shell in its place, in which run works; "
    "or use another session."
)
"""What to do about that: of a shell."""

BEGIN_ANEW = (
    "Use send for it. `exec {name}`, sent to it, gives a new shell in its place, in which run works; or use another "
    "session."
)
"""What to do about a shell that tells no more."""


@value
class RunOutcome:
    """How a command went."""

    outcome: Outcome
    exit_code: int | None
    completed: bool
    evidence: Evidence | None
    start: int
    end: int
    """The output lies between these offsets."""
    cwd: str | None
    duration_ms: int
    note: str | None = None
    number: int | None = None
    """Of the shell's prompt; None: nothing ran, or that is not known."""
    level: Level | None = None
    """The shell that it was given to."""
    unseen: bool = False
    """The terminal showed nothing of it when it was typed."""
    match: Match | None = None
    """What was waited for, if it was printed."""
    stderr_elsewhere: bool = False
    """As its shell prints that to stderr, which is not the terminal."""

    def __post_init__(self) -> None:
        assert self.start <= self.end, f"output from {self.start} to {self.end}"


@value(frozen=False)
class Job:
    """A command that was typed, and what was seen of it so far."""

    text: str
    begun: float
    sent_at: int
    """Size of the log when it was typed."""
    name: str
    """By which the shell's marks call it."""
    level: Level
    """The shell that it was given to."""
    number: int = 0
    """Of the prompt it was typed at."""
    prompt_end: int = 0
    next_number: int = 0
    """Commands before this prompt have been looked at."""
    foreign: bool = False
    """Somebody else typed as well, were it C-c or Enter alone."""
    behind_another: bool = False
    """It was a command, and ran first."""
    stdin: Stdin | None = None
    """What it reads instead of the terminal."""
    asked_prompt: bool = False
    """The shell was asked to show its prompt anew."""
    given: GivenCommand | None = None
    """Its file, if the shell reads it from one."""
    proof: str | None = None
    """What the shell shows when it is over; empty: nothing; None: it is of an earlier version and takes none."""

    as_known: bool = False
    """It is typed only where the pane is as tmux last told of it."""
    refused_since: float | None = None
    """When the shell was first seen not to have taken it; of `time.monotonic()`."""

    def refused_for_long(self, now: float) -> bool:
        """Whether it has been so for long that the shell has not taken it."""
        self.refused_since = now if self.refused_since is None else self.refused_since
        return now - self.refused_since >= STANDS_S

    def at(self, track: ShellTrack) -> None:
        """Take note of the prompt that it is typed at: the one that the shell shows now."""
        self.number = self.next_number = track.number
        self.prompt_end = track.prompt_end


async def rests(session: Session, look: Look, rest: ShellRest) -> bool:
    """Whether the shell rests, by this look and those before it."""
    said = rest.feed(look, time.monotonic())
    if said is Need.LOGGED:
        rest.logged(await session.log_surely_complete(look.size), time.monotonic())
        return False
    return said


# ---- what was there before it ----------------------------------------------------------------------


def left_behind(look: Look, ran: RunOutcome) -> str | None:
    """What programs of before have left of the terminal at whose prompt a command was typed; None if it is in order."""
    # Behind ssh and its like the terminal here is left raw, and says nothing of the one there.
    facts, pane = look.far if look.level.carrier else look.facts, look.pane
    elsewhere = ran.unseen and ran.stderr_elsewhere
    found = [
        "it shows nothing of what is typed (echo is off)" * (ran.unseen and not elsewhere),
        "newlines do not return to the first column" * (facts is not None and not facts.returns),
        "it asks for the mouse" * (pane is not None and pane.wants_mouse),
        "the alternate screen is on" * (pane is not None and pane.alternate_screen),
    ]
    told = [each for each in found if each]
    mend = "`tput rmcup; reset`" if told and told[-1] == found[-1] else "`reset`"
    changed = f"A program had left the terminal changed: {'; '.join(told)}. To mend that, run {mend}, if this did not."
    return joined_notes(STDERR_ELSEWHERE * elsewhere, changed * bool(told))


def is_empty(text: str) -> bool:
    """Nothing but blank lines and comments: the shell reads it and runs nothing."""
    return all(not line.strip() or line.strip().startswith("#") for line in text.splitlines())


# ---- what became of it -----------------------------------------------------------------------------


def done(session: Session, scan: LogView, job: Job) -> RunOutcome | None:
    """The result, if the shell has finished what is certainly our command."""
    found = scan.at(job.level.nonce)
    for finished in found.commands if found else ():
        if job.proof and finished.job == job.name:
            if finished.proven:
                return _ran(session, job, finished)
            continue  # its name is no secret: somebody else printed that
        if finished.number < job.next_number or finished.echo_start < job.prompt_end:
            continue
        if job.asked_prompt and finished.output_start is None and not finished.job:
            continue  # zsh leaves the prompt at which it was asked
        if finished.job == job.name:
            return _ran(session, job, finished)
        job.next_number = finished.number + 1
        job.foreign = True
        job.behind_another |= finished.output_start is not None
    return None


def settled(session: Session, scan: LogView, job: Job) -> RunOutcome | None:
    """What became of it, now that nothing is under way (`ShellRest`); None when even that does not tell."""
    shell = scan.shell
    gaps = session.events.gaps(job.sent_at, scan.size)
    if shell.state is ShellState.PROMPT and shell.number > job.number and gaps:
        return _over(session, scan, job) if not job.foreign else _unknown(scan, job)
    if gaps and job.asked_prompt:
        return _unknown(scan, job)
    if not gaps and shell.state is ShellState.PROMPT:
        return _refused(scan, job) if shell.number == job.number else _unknown(scan, job)
    return None


def misses_its_end(session: Session, scan: LogView, job: Job) -> bool:
    """Where the shell waits for keys: whether that may be its prompt, of which the log does not tell."""
    if scan.shell.state is ShellState.PROMPT and scan.shell.number > job.number:
        return False
    return may_miss(session, scan, job.sent_at)


def may_miss(session: Session, scan: LogView, offset: int) -> bool:
    """Whether something that was printed behind this offset may not be in the log."""
    return not sink_of(session.directory).alive or bool(session.events.gaps(offset, scan.size))


def _ran(session: Session, job: Job, finished: Finished) -> RunOutcome:
    start, status, empty = finished.output_start, finished.status, is_empty(job.text)
    if empty:
        start, status = finished.output_end, 0
    elif start is None:  # nothing ran: a syntax error, which has a status and a message
        echo_end = finished.output_end
        read_from = max(finished.echo_start, echo_end - ECHO_LIMIT)
        start = read_from + behind_echo(session.log.read(read_from, echo_end - read_from))
    end = max(start, finished.output_end)
    # Its C was not printed, or not recorded; what is proven ends it all the same. Between C and D nothing is lost but
    # where a sink has written down that it came.
    unbegun = finished.output_start is None and (finished.proven or finished.ran is False)
    missing = (start == end or unbegun) and (
        bool(session.events.gaps(finished.echo_start, end)) or (unbegun and not sink_of(session.directory).alive)
    )
    # Interrupts (C-c) make the terminal discard what it has not passed on, also the mark of a beginning.
    missing |= unbegun and finished.ran is True
    unrun = unbegun and not finished.late and not empty and (finished.ran is False or not missing)
    interrupted = unrun and not _says_why(session, job, start, end)
    untold = status is None
    if interrupted:
        start = end
    return RunOutcome(
        outcome="ready",
        exit_code=None if interrupted else status,
        completed=not (interrupted or untold),
        evidence="marks",
        start=start,
        end=end,
        cwd=finished.cwd,
        duration_ms=since(job),
        note=joined_notes(
            foreign_note(job),
            f"{NO_SIGN} {LOOK_BEFORE_AGAIN}" * interrupted,
            f"{SAYS_ZERO} {LOOK_BEFORE_AGAIN}" * untold,
            ("What it printed was not recorded." if start == end else "Of what it printed, some was not recorded.")
            * missing,
            _hook_note(session, job, LATE_END_NOTE) if finished.late else None,
            _hook_note(session, job, HOOKS_PRINT)
            if finished.behind_hooks and _ends_with_text(session, start, end)
            else None,
            MORE_FOLLOWS * finished.more_follows,
        ),
        number=None if finished.output_start is None else finished.number,
        unseen=not empty and finished.output_start is not None and _blank(session, finished),
        stderr_elsewhere=finished.stderr_elsewhere,
    )


def _ends_with_text(session: Session, start: int, end: int) -> bool:
    """Whether anything can be seen at the end of an output."""
    shown = session.log.read(max(start, end - SHOWN_BYTES), min(end - start, SHOWN_BYTES))
    return bool(plain(shown, session.cols).text.strip())


def _says_why(session: Session, job: Job, start: int, end: int) -> bool:
    """Whether there is a message behind a line of which nothing ran, as of an error of syntax: not only `^C`."""
    shown = session.log.read(start, min(end - start, SHOWN_BYTES))
    # zsh marks an unfinished line behind its E.
    over = next((each.start for each in MarkScanner(job.level.nonce).feed(shown) if each.kind == "E"), len(shown))
    return bool(plain(shown[:over], session.cols).text.replace("^C", "").strip())


def _blank(session: Session, finished: Finished) -> bool:
    """Whether the line editor showed nothing behind its prompt."""
    start, size = finished.echo_start, finished.echo_end - finished.echo_start
    if session.log.head() > start or session.events.gaps(start, finished.echo_end):
        return False
    shown = session.log.read(start, min(size, SHOWN_BYTES))
    return shows_nothing(shown)


def _hook_note(session: Session, job: Job, note: str) -> str:
    return note.format(hook=shell_at(job.level, session.meta.program).prompt_hook)


def _over(session: Session, scan: LogView, job: Job) -> RunOutcome:
    """The shell is at a later prompt, and what it said of our command was not recorded."""
    start = job.sent_at + behind_echo(session.log.read(job.sent_at, ECHO_LIMIT))
    end = max(start, scan.shell.prompt_start)
    status = scan.knows.status_variable
    note = (
        "It is over; its exit status and some of its output were not recorded. "
        f"`echo {status}`, if it is run next, gives the status."
    )
    return RunOutcome("ready", None, True, "marks", start, end, None, since(job), note)


def left(session: Session, look: Look, job: Job) -> RunOutcome:
    """The shell that our command was given to is no longer there: it was left, or ended."""
    level, track = session.level_of(job.level.nonce), session.track_of(job.level.nonce)
    ran = _began(track, job)
    start = track.output_start if ran else look.size
    end = max(start, look.size if level.output_end is None else level.output_end)
    what, goes_on = f"{level.kind} (level {level.number})", is_replaced(level)
    note = f"{what} has ended. What is in front now is {_in_front(look)}."
    if goes_on:
        note = f"Not finished. {what} has put another program into its place (exec): {_in_front(look)}. {AFTER_IT}"
    elif identity(level.pid or 0) and level.process:
        note = f"{what} does not have the terminal any more: it was stopped, or its marks were taken out."
    if not ran:
        note = f"{note} {MAY_BE_UNTAKEN} {LOOK_BEFORE_AGAIN}"
    why = why_in_doubt(level, track, job.text) if ran else ""
    if why:
        note = f"{note} {why}"
    completed, number = ran and not goes_on and not why, job.number if ran else None
    code = level.exit_code if track.gives_code_to(job.text, level.exit_code) else None
    return RunOutcome("left", code, completed, "marks" if ran else None, start, end, None, since(job), note, number)


def replaced(session: Session, look: Look, job: Job) -> int | None:
    """Process id of the shell that our command was given to, if another program runs there by now (exec); else None."""
    if job.level.number == 0:
        return look.pid if session.meta.marks and not look.own_marks else None
    level = session.level_of(job.level.nonce)
    return level.pid if look.at(level.nonce) is None and is_replaced(level) else None


def over_by_exec(session: Session, look: Look, job: Job) -> RunOutcome:
    """The result, where a shell has come to its prompt in the place of the one that our command was given to."""
    track = session.track_of(job.level.nonce)
    note = f"{in_its_place(session, look, job)}, and is at its prompt: run works there."
    if not _began(track, job):
        note = f"{note} {MAY_BE_UNTAKEN} {LOOK_BEFORE_AGAIN}"
        return RunOutcome("ready", None, False, "kernel", look.size, look.size, None, since(job), note)
    start = track.output_start
    prompt = max(start, look.size - ECHO_LIMIT)
    end = prompt + look.log.read(prompt, look.size - prompt).rfind(b"\n") + 1
    return RunOutcome("ready", None, True, "kernel", start, end, None, since(job), note, track.number)


def in_its_place(session: Session, look: Look, job: Job) -> str:
    """Which program has taken the place of our command's shell, as the beginning of a sentence."""
    process, name = look.verdict.process, job.level.kind if job.level.number else session.program
    return f"`{process.name if process else 'another program'}` has taken the place of `{name}` (exec)"


def _began(track: ShellTrack, job: Job) -> bool:
    """Whether the last command that a shell said to have begun is ours."""
    return (track.job == job.name or track.number == job.number) and track.output_start >= job.sent_at


def why_not_its_code(session: Session, scan: LogView, level: Level, text: str | None) -> str:
    """Why the exit code of a session that has ended says nothing of the command in it; empty: it is the command's.

    Args:
        level: the shell that ran it.
        text: the command; None: it is not known.
    """
    code, _ = scan.exit_status
    nonces = [level.nonce, *(each.level.nonce for each in scan.levels)]
    tracks = [session.track_of(nonce) for nonce in nonces]
    if any(each.broken_off for each in tracks):
        return BROKEN_OFF
    if session.ended and session.ended.reason in ENDED_BY_SOMEBODY:
        return ENDED_MEANWHILE.format(how=session.how_it_ended)
    if code is not None and not _ends_with_session(session, level):
        return ITS_SHELL_S.format(code=code, name=level.kind, number=level.number)
    if code is not None and not all(each.gives_code_to(text, code) for each in tracks):
        return MAY_BE_TRAPPED.format(code=code)
    if session.meta.host and code == SSH_FAILED:
        return CUT_OFF
    # Where another shell or the wrapper of a sandbox tells of a death by a signal.
    told_as_code = bool(level.number and not session.meta.host) or session.bounds.sandbox in WRAPPER_LEVELS
    if code == 128 + signal.SIGPIPE or (code and 128 < code < 192 and told_as_code):
        return MAY_BE_KILLED.format(code=code, name=signal_name(code - 128))
    return ""


def _ends_with_session(session: Session, level: Level) -> bool:
    """Whether the end of a shell is the session's: it is the session's program, or has taken its place (exec)."""
    # At the far end of ssh, and where a sandbox's wrapper is the program, as far as can be told.
    carried = session.meta.host or (session.bounds.sandbox != "none" and not session.meta.marks)
    return level.number == 0 or level.pid == session.pid or bool(carried and level.number == 1)


def why_in_doubt(level: Level, track: ShellTrack, text: str) -> str:
    """Why the exit code of an adopted shell says nothing of the command with which it ended; empty: it does."""
    if track.broken_off:
        return BROKEN_OFF
    if level.exit_code is not None and not track.gives_code_to(text, level.exit_code):
        return MAY_BE_TRAPPED.format(code=level.exit_code)
    if level.where == "remote" and level.passes_on and level.exit_code is None:
        return CUT_OFF
    code = level.exit_code or 0
    return MAY_BE_KILLED.format(code=code, name=signal_name(code - 128)) if 128 < code < 192 else ""


def _in_front(look: Look) -> str:
    """The shell with marks that is in front now, or the program that it runs."""
    where = f"level {look.level.number}"
    if look.own_shell_in_front or look.foreground is None:
        return where
    return f"`{look.foreground.command}`, started in {where}"


def unreported(scan: LogView, job: Job) -> RunOutcome:
    """The shell is at its prompt, tells no more of its commands, and does not answer either."""
    end = scan.shell.prompted or scan.size
    if job.proof:
        start, note = min(scan.shell.output_start, end), may_be_over(scan.knows.name)
        return RunOutcome("ready", None, False, "kernel", start, end, None, since(job), note)
    return _untold(scan, job, end)


def may_be_over(name: str) -> str:
    """What a caller is told whose command began in a shell that tells no more."""
    said = MAY_BE_OVER.format(what="it", name=name)
    return f"I{said[1:]}. {USE_SEND.format(name=name)} {LOOK_BEFORE_AGAIN}"


def _untold(scan: LogView, job: Job, end: int) -> RunOutcome:
    """It ran and is over: its shell shows its prompt, and does not tell how it ended."""
    note = f"It is over, and its exit status is not known: {TELLS_NO_MORE} {BEGIN_ANEW.format(name=scan.knows.name)}"
    return RunOutcome("ready", None, True, "marks", min(scan.shell.output_start, end), end, None, since(job), note)


def _refused(scan: LogView, job: Job) -> RunOutcome | None:
    """The shell took the line and drew the same prompt anew, without running anything; else None."""
    end = scan.shell.prompt_start
    if scan.shell.output_start > job.sent_at:
        return _untold(scan, job, end)
    shown = scan.log.read(job.sent_at, min(max(end - job.sent_at, 0), ECHO_LIMIT))
    taken = behind_echo(shown)
    if not taken:
        return None
    note = "The shell refused the line before running it (history expansion?): put ! into single quotes."
    start = job.sent_at + taken
    return RunOutcome("ready", None, False, "marks", start, end, None, since(job), note)


def _unknown(scan: LogView, job: Job) -> RunOutcome:
    """The shell is at its prompt again, and what became of our command cannot be told."""
    if job.foreign:
        note = (
            "It cannot be told whether this command ran: somebody else typed at the same moment, or something took "
            "away functions by which this shell tells of commands. If that comes again, send "
            f"`exec {scan.knows.name}`: run works in the new shell."
        )
    else:
        note = (
            "It was typed, and the shell waits for keys. A part of what was printed since was not recorded, so it "
            "cannot be told whether the command is over."
        )
    start, end = job.sent_at, max(job.sent_at, scan.size)
    return RunOutcome("ready", None, False, "kernel", start, end, None, since(job), f"{note} {LOOK_BEFORE_AGAIN}")


def unfinished(session: Session, scan: LogView, job: Job, outcome: Outcome) -> RunOutcome:
    """What our command printed so far, if it runs; what is known of it, if that is not known."""
    found = scan.at(job.level.nonce)  # None: its shell has ended, and what it ran with it
    track, end = found.shell if found else session.track_with_echo(job.level), scan.size
    start, note = end, foreign_note(job)
    evidence: Evidence | None = None
    number = None
    ours = track.job == job.name
    if track.state is ShellState.RUNNING and (ours or track.number >= job.next_number):
        if track.job not in (job.name, UNNAMED_COMMAND):
            note = (
                "Something else than this command runs: somebody typed it at the same moment. This one may run "
                f"after it, or be read by it as input. {LOOK_BEFORE_AGAIN}"
            )
        else:
            start, evidence, number = min(track.output_start, end), "marks", track.number
    elif outcome == "timeout":
        note = f"It was typed, and whether the shell has taken it cannot be told yet. {LOOK_BEFORE_AGAIN}"
    if outcome == "timeout" and not sink_of(session.directory).alive:
        note = joined_notes(note, "At this moment the log has no writer: some output may not be recorded.")
    return RunOutcome(outcome, None, False, evidence, start, end, None, since(job), note, number)


def foreign_note(job: Job) -> str | None:
    """What a caller is told whose command was not the only one."""
    return "Somebody else typed a command at the same moment; it ran first." if job.behind_another else None


def since(job: Job) -> int:
    """Milliseconds since it was typed."""
    return ms_since(job.begun)
