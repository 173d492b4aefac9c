"""`run`: one command in a live shell, its complete output and its exit code, by the shell's own marks.

The command is pasted as one edit into the shell's line editor, in one step with what clears a half-typed line and
the final Enter: nobody's keys can come in between. Shells with a key for it (`shells.keyed`) are given the command with
a name, which the marks then carry. `typed` judges what became of it. No lock file says that a shell is busy: its marks
do.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import replace

import anyio

from tmuxmcp.broker import typed
from tmuxmcp.broker.typed import Job, Look, Ran, Rest
from tmuxmcp.broker.wait import PROGRESS_EVERY_S, Asking, all_logged, last_line
from tmuxmcp.contract.call import Progress
from tmuxmcp.errors import IncompleteCommand, InvalidArgument, NotAShell, SessionBusy, TimedOut
from tmuxmcp.readiness.kernel import Waiting
from tmuxmcp.record.log import FLOOD_BYTES
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.tmux import panes, shells
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import Pane

PROMPT_MS = 5000
"""How long a shell that has just started or finished may take to show its prompt."""

UNMARKED_MS = 250
"""After this long at a line editor without a prompt of ours, a shell sends no marks."""

LISTENS_S = 1.0
"""A shell at its prompt that does not answer our key for so long is in another mode: a search, a menu."""

KEYS_OF_TERMINALS = "\x03\x11\x13\x1a\x1c"
"""C-c, C-q, C-s, C-z, C-\\: signals and flow control stay on in line editors, also inside a paste (termios(3))."""


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


async def _at_prompt(session: Session, deadline: float) -> Pane:
    """Wait until the shell shows a prompt; say so when it is not going to. The session was refreshed just now."""
    pane = session.live()
    if not session.meta.marks:
        hint = "Use send for it, or make a session with program bash, zsh or fish: their commands can be told apart."
        raise _not_a_shell(session, "its program sends no command marks", hint)
    begun = time.monotonic()
    limit = min(deadline, begun + PROMPT_MS / 1000)
    waiting_since: float | None = None
    asked = 0
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
        elif now - waiting_since > UNMARKED_MS / 1000 and await all_logged(session, session.log.size()):
            if in_front and asked < 2 and session.gaps(session.track.prompt_end, session.log.size()):
                # The mark of its prompt was not recorded: have it show that, or else draw another.
                asked, waiting_since = asked + 1, None
                if asked == 1:
                    await _show_prompt(session, pane)
                else:
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


async def _show_prompt(session: Session, pane: Pane) -> None:
    """Have a shell that waits for keys say at which prompt it is, by its marks; that changes and runs nothing."""
    if not shells.keyed(session.meta.program):
        await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, shells.SHOW_PROMPT)])
        return
    asked_at = session.log.size()
    asked = await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, shells.KEY)])
    if asked and await _answers(session, asked_at):  # else it asks a question of its own, which nothing may answer
        await _listen_no_more(session, pane)


async def _listen_no_more(session: Session, pane: Pane) -> bool:
    """End the listening of a shell that was given our key; whether it says that it did."""
    asked_at = session.log.size()
    await panes.type_input(session.tmux, pane, shells.refused_keys(typed.PROMPT_JOB))
    return await _marked(session, lambda: _refusal(session, asked_at)[1] == typed.PROMPT_JOB)


async def _marked(session: Session, met: Callable[[], bool]) -> bool:
    """Wait until the marks in the log say so, for as long as a shell may take to answer a key."""
    with anyio.move_on_after(LISTENS_S):
        while session.leader_alive():
            change = session.growth.next_change()
            await session.scan()
            if met():
                return True
            with anyio.move_on_after(0.02):
                await change.wait()
    return False


async def _type(session: Session, pane: Pane, text: str, data: bytes) -> Job:
    track = session.track
    keyed = shells.keyed(session.meta.program)
    if not keyed and re.search(rb"[\x00-\x1f]", data) and not _takes_pastes(session):
        data = shells.one_line(data)
    line = data.decode("utf-8", "surrogateescape")
    job = Job(text, line, time.monotonic(), session.log.size())
    job.at(track)
    claim = f"{session.meta.nonce}-{track.number}-{track.prompt_end}"
    before = [
        command("set-option", "-p", "-t", pane.pane_id, "@tmuxmcp_claim", claim),
        # Twice where nothing answers it: the first one ends a search or half a key, and may be taken for text.
        panes.raw(pane, shells.KEY if keyed else shells.KEY * 2),
    ]
    async with session.input_lock:
        # Cancelled halfway, the shell would go on listening, and the prompt would stay claimed.
        with anyio.CancelScope(shield=True):
            done = await panes.type_input(
                session.tmux,
                pane,
                b"" if keyed else data,
                before=before,
                after=[] if keyed else [panes.keys(pane, ["Enter"])],
                bracketed=True,
                condition=f"#{{!=:#{{@tmuxmcp_claim}},{claim}}}",
            )
            if done and keyed:
                await _listening(session, pane, job)
                job.name = secrets.token_hex(4)
                data = shells.command_keys(job.name, data)
                done = await panes.type_input(session.tmux, pane, data)
    if not done:
        await session.alive()
        raise _busy(session)  # another broker was first at this prompt
    session.write_event("input", bytes=len(text.encode("utf-8", "surrogateescape")), keys=1)
    return job


def _takes_pastes(session: Session) -> bool:
    """Whether the line editor asked for bracketed paste when it showed this prompt: on a dumb terminal it does not."""
    end = session.track.prompt_end
    start = max(session.track.output_end, end - typed.ECHO_LIMIT)
    return session.log.read(start, end - start).rpartition(b"\x1b[?2004")[2].startswith(b"h")


async def _listening(session: Session, pane: Pane, job: Job) -> None:
    """Wait until the shell answers the key: in another mode it would take the command for keys.

    Raises:
        SessionBusy: it does not.
    """
    if await _answers(session, job.sent_at):
        return
    if typed.may_miss(session, job.sent_at) and await _listen_no_more(session, pane):
        asked_at = session.log.size()  # its answer was not recorded
        await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, shells.KEY)])
        if await _answers(session, asked_at):
            job.at(session.track)  # zsh has drawn another prompt
            return
    await panes.set_option(session.tmux, pane, "claim", "")  # the prompt may be the same one
    raise _typed_at(session)


async def _answers(session: Session, asked_at: int) -> bool:
    """Whether the shell answers our key, that it listens."""
    await _marked(session, lambda: session.track.listens >= asked_at or bool(_refusal(session, asked_at)[0]))
    return session.track.listens >= asked_at


def _refusal(session: Session, since: int) -> tuple[str, str]:
    """Why the shell did not take what was given to it by key, and under which name; empty if it did not say so."""
    why, name, at = session.track.refused or ("", "", 0)
    return (why, name) if at >= since else ("", "")


def _not_taken(session: Session, job: Job) -> str:
    """Why the shell did not take our command; empty if it did not say so."""
    why, name = _refusal(session, job.sent_at)
    return why if name in ("", job.name) else ""


def _typed_at(session: Session) -> SessionBusy:
    return SessionBusy(
        f"The shell of session {session.id} does not take a command at its prompt: somebody may be in the middle of "
        "something there. Nothing was run.",
        hint="Look at it with read view=screen, end it with key C-c, and try again.",
        session_id=session.id,
    )


async def _finish(session: Session, job: Job, deadline: float, progress: Progress) -> Ran:
    told, asking, rest = time.monotonic(), Asking(), Rest()
    while True:
        change = session.growth.next_change()
        await session.scan()
        session.growth.flood = session.log.size() - job.sent_at > FLOOD_BYTES
        ran = typed.done(session, job)
        if ran is None:
            look = await Look.at(session)
            ran = typed.done(session, job) or await _not_done(session, job, look, rest)
            ran = ran or await _asks(session, job, look, asking)
        if ran:
            return ran
        if not session.leader_alive():
            pane = await session.refresh()
            if pane is None or pane.dead or pane.respawned:
                await session.scan()
                return typed.done(session, job) or _exited(session, job)
        now = time.monotonic()
        if now >= deadline:
            session.save_checkpoint()  # whoever comes next need not look for its beginning
            return typed.unfinished(session, job, "timeout")
        if now - told >= PROGRESS_EVERY_S:
            told = now
            await progress(now - job.begun, last_line(session))
        with anyio.move_on_after(min(0.02, deadline - now)):
            await change.wait()


async def _not_done(session: Session, job: Job, look: Look, rest: Rest) -> Ran | None:
    """What became of our command, if the shell did not run it, or what it said at the end is not in the log."""
    why = _not_taken(session, job)
    if why:
        raise _incomplete(session) if why == "s" else _typed_at(session)
    alone = session.track.number == job.number and not job.foreign and not job.doubtful
    if session.track.state is ShellState.CONTINUATION and alone:
        await _abandon(session, job)
    if not await rest.proven(session, look):
        return None
    ran = typed.settled(session, job)
    if ran is None and typed.misses_its_end(session, job) and not job.asked_prompt:
        job.asked_prompt = True
        await _show_prompt(session, session.live())
    return ran


async def _abandon(session: Session, job: Job) -> None:
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


def _exited(session: Session, job: Job) -> Ran:
    code, name = session.exit_status
    ran = typed.unfinished(session, job, "exited")
    note = f"The shell was ended by SIG{name}." if name else ran.note
    return replace(ran, exit_code=code, completed=code is not None, note=note)


async def _asks(session: Session, job: Job, look: Look, asking: Asking) -> Ran | None:
    """What our command printed, if it now wants input: who called can give it."""
    if session.track.state is not ShellState.RUNNING:
        return None
    verdict = await asking.settled(session, look.verdict)
    await session.scan()
    if verdict is None or verdict.process is None or session.track.state is not ShellState.RUNNING:
        return None
    if verdict.process.pid == session.pid and typed.misses_its_end(session, job):
        return None  # it may be at its prompt
    ran = typed.unfinished(session, job, "ready")
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
    status = shells.status_variable(session.meta.program)
    then = f"read wait_for=ready; back at the shell prompt, run `echo {status}` gives its exit code"
    note = " ".join(filter(None, (ran.note, f"Not finished. {what}, then {then}.")))
    return replace(ran, evidence="kernel", note=note)


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

    from tmuxmcp.sessions.session import iso

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
