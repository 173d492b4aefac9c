"""`run`: one command in a live shell, its complete output and its exit code, by the shell's own marks.

The command is pasted as one edit into the shell's line editor, in one step with what clears a half-typed line and
the final Enter: nobody's keys can come in between. What the shell echoed tells our command from one that a person
or a script typed at the same moment. Shells with a key for it (`shells.keyed`) are given the command with a name,
which the marks then carry. No lock file says that a shell is busy: its marks do.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from dataclasses import dataclass, replace

import anyio

from tmuxmcp.broker.call import Progress
from tmuxmcp.broker.log import FLOOD_BYTES
from tmuxmcp.broker.readiness import Waiting
from tmuxmcp.broker.results import Evidence, Outcome
from tmuxmcp.broker.session import Session
from tmuxmcp.broker.wait import PROGRESS_EVERY_S, Asking, last_line
from tmuxmcp.errors import IncompleteCommand, InvalidArgument, NotAShell, SessionBusy, TimedOut
from tmuxmcp.terminal.marks import Finished, ShellState
from tmuxmcp.terminal.plain import plain
from tmuxmcp.tmux import panes, shells
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import Pane

PROMPT_MS = 5000
"""How long a shell that has just started or finished may take to show its prompt."""

UNMARKED_MS = 250
"""After this long at a line editor without a prompt of ours, a shell sends no marks."""

LISTENS_S = 1.0
"""A shell at its prompt that does not answer our key for so long is in another mode: a search, a menu."""

RESTS_S = 0.03
"""A shell that was given a line and rests for so long at its prompt is not going to run it."""

KEYS_OF_TERMINALS = "\x03\x11\x13\x1a\x1c"
"""C-c, C-q, C-s, C-z, C-\\: signals and flow control stay on in line editors, also inside a paste (termios(3))."""

ECHO_LIMIT = 64 * 1024
"""Bytes of echo that are compared; a longer command is told by its beginning."""


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


async def run(session: Session, text: str, timeout_ms: int, progress: Progress) -> Ran:
    """Run `text` in the session's shell and wait until it is done, at most `timeout_ms`.

    Cancelled, or out of time, the command goes on.

    Raises:
        NotAShell, SessionBusy, IncompleteCommand, SessionExited, InvalidArgument
    """
    if session.running:
        raise _busy(session, session.running)
    data = command_bytes(text)
    session.running = text
    try:
        with session.watcher.waiting(session.log.path):
            deadline = time.monotonic() + timeout_ms / 1000
            pane = await _at_prompt(session, deadline)
            job = await _type(session, pane, text, data)
            return await _finish(session, job, deadline, progress)
    finally:
        session.running = ""


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


@dataclass
class _Job:
    """A command that was typed."""

    text: str
    begun: float
    number: int
    """Of the prompt it was typed at."""
    prompt_end: int
    sent_at: int
    """Size of the log when it was typed."""
    name: str = ""
    """By which the shell's marks call it, if it was given by key."""
    foreign: bool = False
    """Somebody else's command came first."""
    size: int = 0
    rests_since: float = 0.0


async def _at_prompt(session: Session, deadline: float) -> Pane:
    """Wait until the shell shows a prompt; say so when it is not going to. The session was refreshed just now."""
    pane = session.live()
    if not session.meta.marks:
        hint = "Use send for it, or make a session with program bash, zsh or fish: their commands can be told apart."
        raise _not_a_shell(session, "its program sends no command marks", hint)
    begun = time.monotonic()
    limit = min(deadline, begun + PROMPT_MS / 1000)
    waiting_since: float | None = None
    asked_anew = False
    while True:
        change = session.growth.next_change()
        await session.scan()
        facts, verdict = session.look()
        in_front = facts is None or (facts.foreground in (None, session.pid) and not facts.canonical)
        if session.track.state is ShellState.PROMPT and in_front:
            return pane
        if session.track.state is ShellState.CONTINUATION and in_front:
            # Somebody left a command unfinished there.
            await panes.type_input(session.tmux, pane, b"", after=[panes.keys(pane, ["C-c"])])
        now = time.monotonic()
        if not verdict.ready:
            waiting_since = None
        elif waiting_since is None:
            waiting_since = now
        elif now - waiting_since > UNMARKED_MS / 1000:
            if in_front and not asked_anew and session.gaps(session.track.prompt_end, session.log.size()):
                # The mark of its prompt was not recorded: have it draw another.
                asked_anew, waiting_since = True, None
                await panes.type_input(session.tmux, pane, b"", after=[panes.keys(pane, ["C-c"])])
                continue
            raise _not_a_shell(session, f"{_front(session)} is in front and waits for input")
        if session.track.state is ShellState.RUNNING and not verdict.ready and now - begun > _patience_s(session):
            raise _busy(session)
        if now >= limit:
            if session.track.state is ShellState.RUNNING:
                raise _busy(session)
            raise TimedOut(
                f"The shell of session {session.id} showed no prompt within {int((now - begun) * 1000)} ms.",
                hint="Look at it with read view=screen.",
            )
        if not session.leader_alive():
            await session.alive()
        with anyio.move_on_after(0.01):
            await change.wait()


def _patience_s(session: Session) -> float:
    """How long a shell that seems to run a command is given to come to its prompt."""
    # Where the mark of the end may have been lost, it is asked for another prompt, and draws that.
    return 8 * UNMARKED_MS / 1000 if session.gaps(session.track.prompt_end, session.log.size()) else 0.02


async def prompt_drawn(session: Session) -> None:
    """Wait for the prompt of a shell that has just finished a command, for a moment.

    What is typed before it is there is echoed twice: by the terminal, and by the shell's line editor.
    """
    if not session.meta.marks:
        return
    await session.scan()
    if session.track.state is not ShellState.STARTING or not session.track.number:
        return
    with session.watcher.waiting(session.log.path), anyio.move_on_after(UNMARKED_MS / 1000):
        while session.track.state is ShellState.STARTING:
            change = session.growth.next_change()
            await session.scan()
            with anyio.move_on_after(0.01):
                await change.wait()


async def at_rest(session: Session) -> None:
    """Let a shell whose command is over come to its next prompt, for a moment: it is neither busy nor hung.

    `run` answers at the mark that ends the command; the prompt comes after it.
    """
    await prompt_drawn(session)
    with anyio.move_on_after(UNMARKED_MS / 1000):
        while session.track.state is ShellState.PROMPT:
            facts, verdict = session.look()
            if verdict.waiting is not Waiting.BUSY or facts is None or facts.foreground != session.pid:
                return
            await anyio.sleep(0.001)
            await session.scan()


async def _type(session: Session, pane: Pane, text: str, data: bytes) -> _Job:
    track = session.track
    job = _Job(text, time.monotonic(), track.number, track.prompt_end, session.log.size())
    claim = f"{session.meta.nonce}-{track.number}-{track.prompt_end}"
    keyed = shells.keyed(session.meta.program)
    before = [
        command("set-option", "-p", "-t", pane.pane_id, "@tmuxmcp_claim", claim),
        # Twice where nothing answers it: the first one ends a search or half a key, and may be taken for text.
        panes.raw(pane, shells.KEY if keyed else shells.KEY * 2),
    ]
    async with session.input_lock:
        typed = await panes.type_input(
            session.tmux,
            pane,
            b"" if keyed else data,
            before=before,
            after=[] if keyed else [panes.keys(pane, ["Enter"])],
            bracketed=True,
            condition=f"#{{!=:#{{@tmuxmcp_claim}},{claim}}}",
        )
        if typed and keyed:
            await _listening(session, pane, job)
            job.name = secrets.token_hex(4)
            data = shells.command_keys(job.name, data)
            typed = await panes.type_input(session.tmux, pane, data)
    if not typed:
        await session.alive()
        raise _busy(session)  # another broker was first at this prompt
    session.write_event("input", bytes=len(text.encode("utf-8", "surrogateescape")), keys=1)
    return job


async def _listening(session: Session, pane: Pane, job: _Job) -> None:
    """Wait until the shell answers the key: in another mode it would take the command for keys."""
    deadline = time.monotonic() + LISTENS_S
    while True:
        change = session.growth.next_change()
        await session.scan()
        if session.track.listens >= job.sent_at:
            return
        if _refused(session, job) or time.monotonic() > deadline or not session.leader_alive():
            await panes.set_option(session.tmux, pane, "claim", "")  # the prompt may be the same one
            raise _typed_at(session)
        with anyio.move_on_after(0.02):
            await change.wait()


def _refused(session: Session, job: _Job) -> str:
    """Why the shell did not take what was given to it by key; empty if it did not say so."""
    why, name, at = session.track.refused or ("", "", 0)
    return why if at >= job.sent_at and name in ("", job.name) else ""


def _typed_at(session: Session) -> SessionBusy:
    return SessionBusy(
        f"Somebody is in the middle of something at the prompt of session {session.id}. Nothing was run.",
        hint="Look at it with read view=screen, end it with key C-c, and try again.",
        session_id=session.id,
    )


async def _finish(session: Session, job: _Job, deadline: float, progress: Progress) -> Ran:
    told, asking = time.monotonic(), Asking()
    while True:
        change = session.growth.next_change()
        await session.scan()
        session.growth.flood = session.log.size() - job.sent_at > FLOOD_BYTES
        ran = _done(session, job) or _lost(session, job)
        ran = ran or await _not_run(session, job) or await _asks(session, job, asking)
        if ran:
            return ran
        if not session.leader_alive():
            pane = await session.refresh()
            if pane is None or pane.dead or pane.respawned:
                return _exited(session, job)
        now = time.monotonic()
        if now >= deadline:
            session.save_checkpoint()  # whoever comes next need not look for its beginning
            return _unfinished(session, job, "timeout")
        if now - told >= PROGRESS_EVERY_S:
            told = now
            await progress(now - job.begun, last_line(session))
        with anyio.move_on_after(min(0.02, deadline - now)):
            await change.wait()


def _done(session: Session, job: _Job) -> Ran | None:
    """The result, if the shell has finished our command."""
    for finished in session.commands:
        if finished.number < job.number or finished.echo_start < job.prompt_end:
            continue
        if _is_ours(session, job, finished.job, finished.echo_start, finished.echo_end):
            return _ran(session, job, finished)
        job.foreign = True
        job.number = finished.number + 1
    return None


def _lost(session: Session, job: _Job) -> Ran | None:
    """The result, if the shell is at a later prompt and what it said of our command was not recorded."""
    track = session.track
    if track.state is not ShellState.PROMPT or track.number <= job.number:
        return None
    if job.foreign or not session.gaps(job.sent_at, session.log.size()):
        return None
    start = job.sent_at + _behind_echo(session.log.read(job.sent_at, ECHO_LIMIT))
    note = "It is over; its exit status and some of its output were not recorded."
    return Ran("ready", None, True, "marks", start, max(start, track.prompt_start), None, _since(job), note)


def _ran(session: Session, job: _Job, finished: Finished) -> Ran:
    start, status = finished.output_start, finished.status
    if _is_empty(job.text):
        start, status = finished.output_end, 0
    elif start is None and session.log.head() > finished.echo_start:  # its beginning is no longer kept
        start = finished.echo_start
    elif start is None:  # nothing ran: a syntax error, which has a status and a message
        echo_end = finished.output_end
        read_from = max(finished.echo_start, echo_end - ECHO_LIMIT)
        start = read_from + _behind_echo(session.log.read(read_from, echo_end - read_from))
    return Ran(
        outcome="ready",
        exit_code=status,
        completed=True,
        evidence="marks",
        start=start,
        end=finished.output_end,
        cwd=finished.cwd,
        duration_ms=_since(job),
        note=_foreign_note(job),
    )


def _is_empty(text: str) -> bool:
    """Nothing but blank lines and comments: the shell reads it and runs nothing."""
    return all(not line.strip() or line.strip().startswith("#") for line in text.splitlines())


def _is_ours(session: Session, job: _Job, name: str, echo_start: int, echo_end: int) -> bool:
    """Whether the marks name our command, or the shell echoed it there, and nobody else's.

    What the log no longer keeps cannot say: then it is ours, as it was typed at that very prompt.
    """
    if session.log.head() > echo_start and name in ("", job.name):
        return True
    if job.name:
        return name == job.name
    wanted = _comparable(job.text)
    size = echo_end - echo_start
    echo = session.log.read(echo_start, min(size, ECHO_LIMIT))
    seen = _comparable(plain(echo, session.cols, session.rows).text)
    if size > ECHO_LIMIT or len(wanted) > 2000:
        return wanted[:200] in seen
    return wanted in seen


def _comparable(text: str) -> str:
    """Without what a line editor changes in its echo: blanks, wrapping, control characters."""
    return "".join(char for char in text if "!" <= char <= "~")


async def _not_run(session: Session, job: _Job) -> Ran | None:
    """What became of our command, if the shell did not run it."""
    track = session.track
    refused = _refused(session, job)
    if refused:
        raise _incomplete(session) if refused == "s" else _typed_at(session)
    if track.number != job.number or job.foreign:
        return None
    if track.state is ShellState.CONTINUATION:
        await _abandon(session, job)
    if track.state is not ShellState.PROMPT or not _shell_rests(session, job):
        return None
    data = session.log.read(job.sent_at, ECHO_LIMIT)
    shown = plain(data, session.cols, session.rows).text
    if "\n" not in shown or _comparable(job.text)[:200] not in _comparable(shown):
        return None  # it has not read the line yet
    start = job.sent_at + _behind_echo(data[: track.prompt_start - job.sent_at])
    note = "The shell refused the line before running it (history expansion?): put ! into single quotes."
    return Ran("ready", None, False, "marks", start, track.prompt_start, None, _since(job), note)


_FAREWELL = re.compile(rb"\x1b\[\?2004l\r(?:\x1b\[[0-9]*B)?(?:\r+\n)?")
"""bash goes to the next line before it, zsh after."""


def _behind_echo(data: bytes) -> int:
    """Where the line editor, having taken the line, gives the terminal back: there it ends bracketed paste."""
    farewell = list(_FAREWELL.finditer(data))
    return farewell[-1].end() if farewell else data.find(b"\n") + 1


def _shell_rests(session: Session, job: _Job) -> bool:
    """The shell waits at its line editor, has read everything, and has printed nothing for a while."""
    size = session.log.size()
    if size != job.size or not session.look()[1].ready:
        job.size, job.rests_since = size, time.monotonic()
        return False
    return time.monotonic() - job.rests_since > RESTS_S


async def _abandon(session: Session, job: _Job) -> None:
    """Take an unfinished command back, and say so."""
    pane = await session.alive()
    await panes.type_input(session.tmux, pane, b"", after=[panes.keys(pane, ["C-c"])])
    with anyio.move_on_after(2):
        while session.track.state is not ShellState.PROMPT or session.track.number == job.number:
            change = session.growth.next_change()
            await session.scan()
            with anyio.move_on_after(0.02):
                await change.wait()
    raise _incomplete(session)


def _incomplete(session: Session) -> IncompleteCommand:
    return IncompleteCommand(
        "The shell wants more: a quote, bracket or here-document is not closed. Nothing was run.",
        hint="Close it and run the whole command again.",
        session_id=session.id,
    )


def _exited(session: Session, job: _Job) -> Ran:
    code, name = session.exit_status
    unfinished = _unfinished(session, job, "exited")
    note = f"The shell was ended by SIG{name}." if name else unfinished.note
    return Ran(
        outcome="exited",
        exit_code=code,
        completed=code is not None,
        evidence=unfinished.evidence,
        start=unfinished.start,
        end=unfinished.end,
        cwd=None,
        duration_ms=_since(job),
        note=note,
    )


def _unfinished(session: Session, job: _Job, outcome: Outcome) -> Ran:
    """What our command printed so far."""
    track, end = session.track, session.log.size()
    ours = track.state is ShellState.RUNNING and track.number >= job.number
    ours = ours and _is_ours(session, job, track.job, track.prompt_end, track.echo_end)
    start = track.output_start if ours else end
    note = _foreign_note(job)
    if not ours and outcome == "timeout":
        note = "The shell has not begun to run it yet: something else is in front."
    evidence: Evidence | None = "marks" if ours else None
    return Ran(outcome, None, False, evidence, start, end, None, _since(job), note)


async def _asks(session: Session, job: _Job, asking: Asking) -> Ran | None:
    """What our command printed, if it now wants input: who called can give it."""
    if session.track.state is not ShellState.RUNNING:
        return None
    verdict = await asking.settled(session)
    await session.scan()
    if verdict is None or verdict.process is None or session.track.state is not ShellState.RUNNING:
        return None
    ran = _unfinished(session, job, "ready")
    if ran.evidence is None:
        return None  # another command's question
    who = f"`{verdict.process.name}`"
    match verdict.waiting:
        case Waiting.SECRET:
            what = f"{who} asks for a secret: have the person type it with `tmuxmcp attach --take {session.id}`"
        case Waiting.LINE:
            what = f"{who} waits for a line of input: answer with send"
        case _:
            what = f"{who} waits for keys: use send"
    status = "$status" if os.path.basename(session.meta.program) == "fish" else "$?"
    then = f"read wait_for=ready; back at the shell prompt, run `echo {status}` gives its exit code"
    note = " ".join(filter(None, (ran.note, f"Not finished. {what}, then {then}.")))
    return replace(ran, evidence="kernel", note=note)


def _foreign_note(job: _Job) -> str | None:
    return "Somebody else typed a command at the same moment; it ran first." if job.foreign else None


def _since(job: _Job) -> int:
    return int((time.monotonic() - job.begun) * 1000)


def _front(session: Session) -> str:
    foreground = session.foreground()
    return f"`{foreground.command}`" if foreground else "another program"


def _busy(session: Session, text: str = "") -> SessionBusy:
    foreground = session.foreground()
    since = running_since(session)
    what = text.strip().split("\n")[0][:200] or (foreground.command if foreground else "a command")
    return SessionBusy(
        f"Session {session.id} runs `{what}`" + (f" since {since}." if since else "."),
        hint="Wait with read wait_for=ready, stop it with signal INT, or use another session.",
        session_id=session.id,
        command=what,
        since=since,
        pid=foreground.pid if foreground else None,
    )


def running_since(session: Session) -> str | None:
    """When the foreground program began; ISO 8601."""
    import psutil

    from tmuxmcp.broker.session import iso

    foreground = session.foreground()
    try:
        return iso(psutil.Process(foreground.pid).create_time()) if foreground else None
    except psutil.Error:
        return None


def _not_a_shell(session: Session, why: str, hint: str = "") -> NotAShell:
    foreground = session.foreground()
    return NotAShell(
        f"run needs the session's own shell at its prompt, but in session {session.id} {why}.",
        hint=hint or "Use send for it, quit it first, or run the command in another session.",
        session_id=session.id,
        foreground=foreground.command if foreground else None,
        waiting=session.look()[1].waiting.value if foreground else Waiting.UNKNOWN.value,
    )
