"""A command that was typed into a shell, and what became of it.

The log may be late, and parts of it may be missing. So an end, a refusal or a foreign command is only ever said on
evidence that is in the log. What is missing there says something only when nothing is under way any more (`Rest`);
until then it says nothing. What then is still not known is said to be unknown: a caller who is told "not run" of a
command that ran would run it twice.

Judges; types nothing and waits for nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tmuxmcp.contract.results import Evidence, Outcome
from tmuxmcp.contract.times import ms_since
from tmuxmcp.errors import TmuxMcpError
from tmuxmcp.record.sink import sink_of
from tmuxmcp.record.stdin import Stdin
from tmuxmcp.sessions.logged import all_logged
from tmuxmcp.sessions.look import Look, Scan
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.echo import ECHO_LIMIT, Echo, behind_echo, compared
from tmuxmcp.terminal.marks import Finished, ShellState, ShellTrack
from tmuxmcp.terminal.plain import plain
from tmuxmcp.tmux.shells import shell_of

RESTS_S = 0.03
"""A shell that waits at its prompt for so long, before and after tmux said that nothing is on its way, rests."""

PROMPT_JOB = "prompted"
"""What a keyed shell is given instead of a command's name, to have it say at which prompt it is."""

LOOK_FIRST = "Look with read view=screen before you run it again."

ECHO_IS_OFF = (
    "The terminal shows nothing of what is typed (echo is off; `reset` mends that): a command that somebody else typed "
    "at the same moment would look like this one."
)
NOT_SHOWN = "What the shell echoed was not recorded, so it is not certain that this is the command's own result."


@dataclass(frozen=True)
class Ran:
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

    def __post_init__(self) -> None:
        assert self.start <= self.end, f"output from {self.start} to {self.end}"


_NOTES = {Echo.BLANK: ECHO_IS_OFF, Echo.LOST: NOT_SHOWN}


@dataclass
class Job:
    """A command that was typed, and what was seen of it so far."""

    text: str
    typed: str
    """What the line editor was given for it."""
    begun: float
    sent_at: int
    """Size of the log when it was typed."""
    number: int = 0
    """Of the prompt it was typed at."""
    prompt_end: int = 0
    name: str = ""
    """By which the shell's marks call it, if it was given by key."""
    next_number: int = 0
    """Commands before this prompt have been looked at."""
    foreign: bool = False
    """Somebody else typed as well."""
    doubtful: list[tuple[Finished, Echo]] = field(default_factory=list)
    """Commands that may have been this one."""
    seen: dict[int, Echo] = field(default_factory=dict)
    """What was echoed for a command, by its number, looked at while the log still held it."""
    stdin: Stdin | None = None
    """What it reads instead of the terminal."""
    asked_prompt: bool = False
    """The shell was asked to show its prompt anew."""

    def at(self, track: ShellTrack) -> None:
        """Take note of the prompt that it is typed at: the one that the shell shows now."""
        self.number = self.next_number = track.number
        self.prompt_end = track.prompt_end


class Rest:
    """Tells when a shell waits for keys and nothing is on its way: neither to it nor into the log.

    For `RESTS_S` it waits and prints nothing, tmux and the log's writer say that they have passed on all they had,
    and for `RESTS_S` more nothing changes.
    """

    def __init__(self) -> None:
        self._seen: tuple[int, int] = (-1, 0)
        self._since = 0.0
        self._passed_on = False

    async def proven(self, session: Session, look: Look) -> bool:
        """Whether it is so, by this look and those before it."""
        now = time.monotonic()
        seen = (look.size, look.verdict.process.wakes) if look.at_editor and look.verdict.process else None
        if seen is None or seen != self._seen:
            self._seen, self._since, self._passed_on = seen or (-1, 0), now, False
            return False
        if now - self._since < RESTS_S:
            return False
        if self._passed_on:
            return True
        self._passed_on, self._since = await _passed_on(session, look.size), time.monotonic()
        return False


async def _passed_on(session: Session, size: int) -> bool:
    """Whether the log has a writer, and holds all that was printed; false as well while that cannot be told."""
    if not sink_of(session.directory).alive:
        session.watcher.doubt(session.log.path)  # what the sink started may still write, so nobody was told
        return False
    try:
        return await all_logged(session, size)
    except TmuxMcpError:
        return False


# ---- what the shell showed of it -------------------------------------------------------------------


def echo_of(session: Session, job: Job, number: int, name: str, start: int, end: int) -> Echo:
    """What the shell showed of the command of one prompt, between two offsets."""
    if number not in job.seen:
        job.seen[number] = _echo(session, job, name, start, end)
    return job.seen[number]


def _echo(session: Session, job: Job, name: str, start: int, end: int) -> Echo:
    kept = session.log.head() <= start
    if job.name:
        return Echo.OURS if name == job.name else Echo.OTHER if name or kept else Echo.LOST
    echo = Echo.LOST
    if kept:
        last = session.log.read(max(start, end - ECHO_LIMIT), min(end - start, ECHO_LIMIT))
        last = last[: behind_echo(last)] or last  # what comes after it tells why the shell did not run it
        first = session.log.read(start, ECHO_LIMIT) if end - start > ECHO_LIMIT else last
        echo = compared(job.typed, *(plain(part, session.cols, session.rows).text for part in (first, last)))
    return Echo.LOST if echo not in (Echo.OURS, Echo.WITHIN) and session.gaps(start, end) else echo


def is_empty(text: str) -> bool:
    """Nothing but blank lines and comments: the shell reads it and runs nothing."""
    return all(not line.strip() or line.strip().startswith("#") for line in text.splitlines())


# ---- what became of it -----------------------------------------------------------------------------


def done(session: Session, scan: Scan, job: Job) -> Ran | None:
    """The result, if the shell has finished what is certainly our command."""
    for finished in scan.commands:
        if finished.number < job.next_number or finished.echo_start < job.prompt_end:
            continue
        if job.asked_prompt and finished.output_start is None and not finished.job:
            continue  # zsh leaves the prompt at which it was asked
        echo = echo_of(session, job, finished.number, finished.job, finished.echo_start, finished.echo_end)
        if echo is Echo.OURS or (echo is Echo.BLANK and is_empty(job.text)):
            return _ran(session, job, finished, foreign_note(job))
        job.next_number = finished.number + 1
        if job.name or (echo is Echo.BLANK and not _showed_something(session, finished)):
            job.foreign = True  # it has another name, or somebody pressed Enter alone
        else:
            job.doubtful.append((finished, echo))
    return None


def _showed_something(session: Session, finished: Finished) -> bool:
    """Whether a command ran there, or the shell said why it did not."""
    if finished.output_start is not None:
        return True
    data = session.log.read(finished.echo_start, min(finished.output_end - finished.echo_start, ECHO_LIMIT))
    return bool(plain(data, session.cols, session.rows).text.strip())


def settled(session: Session, scan: Scan, job: Job) -> Ran | None:
    """What became of it, now that nothing is under way (`Rest`); None when even that does not tell."""
    shell = scan.shell
    gaps = session.gaps(job.sent_at, scan.size)
    if job.doubtful:
        finished, echo = job.doubtful[-1]
        if len(job.doubtful) > 1 or job.foreign or echo is Echo.OTHER:
            return _unknown(scan, job, finished)
        return _ran(session, job, finished, _NOTES.get(echo))
    if shell.state is ShellState.PROMPT and shell.number > job.number and gaps:
        return _over(session, scan, job) if not job.foreign else _unknown(scan, job)
    if gaps and job.asked_prompt:
        return _unknown(scan, job)
    if not gaps and shell.state is ShellState.PROMPT:
        return _refused(scan, job) if shell.number == job.number else _unknown(scan, job)
    return None


def misses_its_end(session: Session, scan: Scan, job: Job) -> bool:
    """Where the shell waits for keys: whether that may be its prompt, of which the log does not tell."""
    if job.doubtful or (scan.shell.state is ShellState.PROMPT and scan.shell.number > job.number):
        return False
    return may_miss(session, scan, job.sent_at)


def may_miss(session: Session, scan: Scan, offset: int) -> bool:
    """Whether something that was printed behind this offset may not be in the log."""
    return not sink_of(session.directory).alive or bool(session.gaps(offset, scan.size))


def _ran(session: Session, job: Job, finished: Finished, note: str | None = None) -> Ran:
    start, status = finished.output_start, finished.status
    if is_empty(job.text):
        start, status = finished.output_end, 0
    elif start is None and session.log.head() > finished.echo_start:  # its beginning is no longer kept
        start = finished.echo_start
    elif start is None:  # nothing ran: a syntax error, which has a status and a message
        echo_end = finished.output_end
        read_from = max(finished.echo_start, echo_end - ECHO_LIMIT)
        start = read_from + behind_echo(session.log.read(read_from, echo_end - read_from))
    end = max(start, finished.output_end)
    missing = start == end and session.gaps(finished.echo_start, end)
    return Ran(
        outcome="ready",
        exit_code=status,
        completed=True,
        evidence="marks",
        start=start,
        end=end,
        cwd=finished.cwd,
        duration_ms=since(job),
        note=_joined(note, "What it printed was not recorded." if missing else None),
        number=None if finished.output_start is None else finished.number,
    )


def _joined(*notes: str | None) -> str | None:
    return " ".join(filter(None, notes)) or None


def _over(session: Session, scan: Scan, job: Job) -> Ran:
    """The shell is at a later prompt, and what it said of our command was not recorded."""
    start = job.sent_at + behind_echo(session.log.read(job.sent_at, ECHO_LIMIT))
    end = max(start, scan.shell.prompt_start)
    status = shell_of(session.meta.program).status_variable
    note = (
        "It is over; its exit status and some of its output were not recorded. "
        f"`echo {status}`, if it is run next, gives the status."
    )
    return Ran("ready", None, True, "marks", start, end, None, since(job), note)


def _refused(scan: Scan, job: Job) -> Ran | None:
    """The shell took the line and drew the same prompt anew, without running anything; else None."""
    end = scan.shell.prompt_start
    shown = scan.log.read(job.sent_at, min(max(end - job.sent_at, 0), ECHO_LIMIT))
    taken = behind_echo(shown)
    if not taken:
        return None
    if not job.name:
        text = plain(shown[:taken], scan.cols, scan.rows).text
        if compared(job.typed, text, text) is Echo.OTHER:
            return None
    note = "The shell refused the line before running it (history expansion?): put ! into single quotes."
    start = job.sent_at + taken
    return Ran("ready", None, False, "marks", start, end, None, since(job), note)


def _unknown(scan: Scan, job: Job, finished: Finished | None = None) -> Ran:
    """The shell is at its prompt again, and what became of our command cannot be told."""
    start, end = job.sent_at, scan.size
    if finished:
        first = job.doubtful[0][0]
        start, end = first.output_start or first.echo_start, finished.output_end
        note = (
            f"It cannot be told whether this command ran: one ran and ended with status {finished.status}, but what "
            "the shell showed of it is not this command. Somebody else may have typed at the same moment."
        )
    elif job.foreign:
        note = "It cannot be told whether this command ran: somebody else typed at the same moment."
    else:
        note = (
            "It was typed, and the shell waits for keys. A part of what was printed since was not recorded, so it "
            "cannot be told whether the command is over."
        )
    return Ran("ready", None, False, None, start, max(start, end), None, since(job), f"{note} {LOOK_FIRST}")


def unfinished(session: Session, scan: Scan, job: Job, outcome: Outcome) -> Ran:
    """What our command printed so far, if it runs; what is known of it, if that is not known."""
    track, end = scan.shell, scan.size
    start, note = end, foreign_note(job)
    evidence: Evidence | None = None
    number = None
    if track.state is ShellState.RUNNING and track.number >= job.next_number:
        echo = echo_of(session, job, track.number, track.job, track.prompt_end, track.echo_end)
        if echo is Echo.OTHER:
            note = (
                "Something else than this command runs: somebody typed it at the same moment. This one may run "
                f"after it, or be read by it as input. {LOOK_FIRST}"
            )
        else:
            start, evidence, number = min(track.output_start, end), "marks", track.number
            note = _NOTES.get(echo, note)
    elif outcome == "timeout":
        note = f"It was typed, and whether the shell has taken it cannot be told yet. {LOOK_FIRST}"
    if outcome == "timeout" and not sink_of(session.directory).alive:
        note = _joined(note, "At this moment the log has no writer: some output may not be recorded.")
    return Ran(outcome, None, False, evidence, start, end, None, since(job), note, number)


def foreign_note(job: Job) -> str | None:
    """What a caller is told whose command was not the only one."""
    return "Somebody else typed a command at the same moment; it ran first." if job.foreign or job.doubtful else None


def since(job: Job) -> int:
    """Milliseconds since it was typed."""
    return ms_since(job.begun)
