"""`run`: one command in a live shell, its complete output and its exit code, by the shell's own marks.

A shell is given the command with a name, which its marks then carry: by a key after which it reads it from a file, or
listens for it at the terminal. Nothing else that is typed, shown or left in the terminal has a say. `typed` judges what
became of it. No lock file says that a shell is busy: its marks do.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from tmuxmcp.broker import typed
from tmuxmcp.broker.typed import Job, Ran, Rest
from tmuxmcp.broker.wait import Asking, last_line
from tmuxmcp.contract.call import PROGRESS_EVERY_S, Progress
from tmuxmcp.contract.results import Mode
from tmuxmcp.contract.times import iso
from tmuxmcp.errors import IncompleteCommand, InvalidArgument, NotAShell, SessionBusy, TimedOut
from tmuxmcp.readiness.kernel import Waiting
from tmuxmcp.record.commands import TypedInput
from tmuxmcp.record.given import give, place_of
from tmuxmcp.record.stdin import Stdin, remove_left
from tmuxmcp.sessions.logged import all_logged
from tmuxmcp.sessions.look import Look, Scan
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.echo import ECHO_LIMIT
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.tmux import panes, shells
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.shells import shell_of

PROMPT_MS = 5000
"""How long a shell that has just started or finished may take to show its prompt."""

UNMARKED_MS = 250
"""After this long at a line editor without a prompt of ours, a shell sends no marks."""

LISTENS_S = 1.0
"""A shell at its prompt that does not answer our key for so long is in another mode: a search, a menu."""

ABANDONED_S = 2.0
"""How long a shell may take to show a new prompt after C-c."""

WHEN_OVER = "When it is over, read wait_for=command gives its exit code."

GOES_ON = f"It goes on. {WHEN_OVER}"

KEYS_OF_TERMINALS = "\x03\x11\x13\x1a\x1c"
"""C-c, C-q, C-s, C-z, C-\\: signals and flow control stay on in line editors, also inside a paste (termios(3))."""


@dataclass(frozen=True)
class Until:
    """When `run` comes back, beside the command's end."""

    timeout_ms: int
    idle_ms: int = 0
    """After so much silence; 0: never for that."""
    asks: bool = True
    """When something asks for input."""


async def run(session: Session, text: str, until: Until, progress: Progress, stdin: bytes | None = None) -> Ran:
    """Run `text` in the session's shell and wait until it is done, or as `until` has it.

    Cancelled, or out of time, the command goes on.

    Args:
        stdin: what it reads instead of the terminal; None: it reads the terminal.

    Raises:
        NotAShell, SessionBusy, IncompleteCommand, SessionExited, InvalidArgument, IoError
    """
    if session.running:
        raise _busy(session, await session.look(), session.running)
    data = command_bytes(text)
    with session.runs(text), session.watcher.waiting(session.log.path):
        deadline = time.monotonic() + until.timeout_ms / 1000
        look = await _at_prompt(session, deadline)
        remove_left(session.directory, look.shell.number)
        if stdin is None or typed.is_empty(text):
            ran = await _carry_out(session, look, text, data, None, deadline, until, progress)
        else:
            given = Stdin(session.directory, stdin, number=look.shell.number, within=session.bounds.sandbox != "none")
            data = shell_of(session.meta.program).reads_from(data, str(given.path))
            text = data.decode("utf-8", "surrogateescape")
            try:
                ran = await _carry_out(session, look, text, data, given, deadline, until, progress)
            except (IncompleteCommand, SessionBusy):
                given.remove()  # it does not run
                raise
            if ran.completed:
                given.remove()
        return replace(ran, note=typed.joined(typed.left_behind(look, ran), ran.note))


async def _carry_out(
    session: Session,
    look: Look,
    text: str,
    data: bytes,
    stdin: Stdin | None,
    deadline: float,
    until: Until,
    progress: Progress,
) -> Ran:
    """Type a command at a prompt and wait for its end."""
    job = await _type(session, look, text, data)
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


async def _at_prompt(session: Session, deadline: float) -> Look:
    """Wait until the shell shows a prompt; say so when it is not going to. The session was refreshed just now."""
    begun = time.monotonic()
    limit = min(deadline, begun + PROMPT_MS / 1000)
    waiting_since: float | None = None
    asked, let_go = 0, False
    async for look in session.looks(0.01, limit):
        pane = session.live()
        if not look.marks:
            hint = (
                "Use send for it, or make a session with program bash, zsh or fish: their commands can be told apart."
            )
            raise _not_a_shell(session, look, "its program sends no command marks", hint)
        in_front = _may_listen(look)
        if look.shell.state is ShellState.PROMPT and in_front:
            if not look.shell.listening or let_go:
                return look
            let_go = True
            await end_listening(session, look)
            continue
        if look.shell.state is ShellState.CONTINUATION and in_front:
            # Somebody left a command unfinished there.
            await panes.type_input(session.tmux, pane, b"", after=[panes.keys(pane, ["C-c"])])
        now = time.monotonic()
        if not look.ready:
            waiting_since = None
        elif waiting_since is None:
            waiting_since = now
        elif now - waiting_since > UNMARKED_MS / 1000 and await all_logged(session, look.size):
            lost = bool(session.gaps(look.shell.prompt_end, look.size))
            if in_front and ((asked < 2 and lost) or (asked < 1 and look.unreported)):
                # The mark of its prompt was not recorded, or not printed: have it show that, or else draw another.
                asked, waiting_since = asked + 1, None
                if asked == 1:
                    await _show_prompt(session, pane)
                else:
                    await panes.type_input(session.tmux, pane, b"", after=[panes.keys(pane, ["C-c"])])
                continue
            raise _not_a_shell(session, look, *_in_the_way(session, look))
        if (
            look.shell.state is ShellState.RUNNING
            and look.shell.prompted is None
            and not look.ready
            and now - begun > _patience_s(session, look)
        ):
            raise _busy(session, look)
    if look.shell.state is ShellState.RUNNING:
        raise _busy(session, look)
    raise TimedOut(
        f"The shell of session {session.id} showed no prompt within {int((time.monotonic() - begun) * 1000)} ms.",
        hint="Look at it with read view=screen.",
    )


def _may_listen(look: Look) -> bool:
    """Whether the session's own program reads keys, as far as the kernel tells."""
    facts = look.facts
    return facts is None or (facts.foreground in (None, look.pid) and not facts.canonical)


def _patience_s(session: Session, look: Look) -> float:
    """How long a shell that seems to run a command is given to come to its prompt."""
    # Where the mark of the end may have been lost, it is asked for another prompt, and draws that.
    return 8 * UNMARKED_MS / 1000 if session.gaps(look.shell.prompt_end, look.size) else 0.02


async def prompt_drawn(session: Session) -> Scan:
    """Wait for the prompt of a shell that has just finished a command, for a moment.

    What is typed before it is there is echoed twice: by the terminal, and by the shell's line editor.
    """
    scan = await session.scan()
    if not _between_prompts(scan):
        return scan
    with session.watcher.waiting(session.log.path):
        async for scan in session.scans(0.01, time.monotonic() + UNMARKED_MS / 1000):
            if not _between_prompts(scan):
                break
    return scan


def _between_prompts(scan: Scan) -> bool:
    between = scan.marks and scan.shell.state is ShellState.STARTING and scan.shell.number > 0
    return between and not scan.exited


async def at_rest(session: Session) -> Look:
    """Let a shell whose command is over come to its next prompt, for a moment: it is neither busy nor hung.

    `run` answers at the mark that ends the command; the prompt comes after it.
    """
    await prompt_drawn(session)
    look = await session.look()
    if _comes_to_rest(look):
        async for look in session.looks(0.001, time.monotonic() + UNMARKED_MS / 1000):
            if not _comes_to_rest(look):
                break
    return look


def _comes_to_rest(look: Look) -> bool:
    """Whether its shell has drawn its prompt, and still does something for itself."""
    own = look.facts is not None and look.own_shell_in_front
    return own and look.shell.state is ShellState.PROMPT and look.waiting is Waiting.BUSY


async def place_after(session: Session, ran: Ran) -> tuple[str | None, Mode]:
    """Working directory and mode after a command: as its marks say, or else by a look."""
    at_prompt = ran.completed and ran.outcome == "ready"
    if at_prompt and ran.cwd is not None:
        return ran.cwd, "shell_prompt"
    look = await session.look()
    return look.cwd if ran.cwd is None else ran.cwd, "shell_prompt" if at_prompt else look.mode


async def _show_prompt(session: Session, pane: Pane) -> None:
    """Have a shell that waits for keys say at which prompt it is, by its marks; that changes and runs nothing."""
    if shell_of(session.meta.program).reads_files:
        await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, shells.SHOW_PROMPT)])
        return
    asked_at = session.log.size()
    asked = await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, shells.KEY)])
    if asked and await _answers(session, asked_at):  # else it asks a question of its own, which nothing may answer
        await _listen_no_more(session, pane)


async def end_listening(session: Session, scan: Scan) -> None:
    """Have a shell listen no more that answered our key late, when whoever had pressed it had given up."""
    if scan.shell.listening:
        await _listen_no_more(session, session.live(), condition="#{==:#{@tmuxmcp_claim},}")


async def _listen_no_more(session: Session, pane: Pane, condition: str = "") -> bool:
    """End the listening of a shell that was given our key; whether it says that it did."""
    asked_at = session.log.size()
    keys = shells.refused_keys(typed.PROMPT_JOB)
    if not await panes.type_input(session.tmux, pane, keys, condition=condition):
        return False
    return bool(await _marked(session, lambda scan: _refusal(scan, asked_at)[1] == typed.PROMPT_JOB))


async def _marked(session: Session, met: Callable[[Scan], bool]) -> Scan | None:
    """Wait until the marks in the log say so, for as long as a shell may take to answer a key."""
    async for scan in session.scans(0.02, time.monotonic() + LISTENS_S):
        if met(scan):
            return scan
        if not scan.launcher_alive:
            break
    return None


async def _type(session: Session, look: Look, text: str, data: bytes) -> Job:
    pane = session.live()
    job = Job(text, time.monotonic(), look.size, secrets.token_hex(4))
    job.at(look.shell)
    by_file = shell_of(session.meta.program).reads_files
    async with session.input_lock:
        # Cancelled halfway, the shell would go on listening, and the prompt would stay claimed.
        with anyio.CancelScope(shield=True):
            if by_file:  # the marks tell that it is ours, and not what it is
                session.commands.typing(TypedInput(look.size, text, whole=True))
            done = await (_give if by_file else _tell)(session, pane, job, data)
    if not done:
        await session.alive()
        raise _busy(session, await session.look())  # another broker was first at this prompt
    session.write_input(bytes=len(text.encode("utf-8", "surrogateescape")), keys=1)
    return job


async def _give(session: Session, pane: Pane, job: Job, data: bytes) -> bool:
    """Have the shell read the command from a file; false: its prompt is another broker's."""
    place = place_of(session.directory)
    if place is None:
        raise NotAShell(
            f"The shell of session {session.id} was started by an earlier version, and takes no command.",
            hint="Use send for it, or make another session.",
            session_id=session.id,
        )
    job.given = give(place, job.name, data)
    done = await _press(session, pane, job, shells.file_keys(job.name))
    if done:
        job.given.take_back_earlier()
    else:
        job.given.take_back()
    return done


async def _tell(session: Session, pane: Pane, job: Job, data: bytes) -> bool:
    """Type the command for a shell that says that it listens; false: its prompt is another broker's."""
    if not await _press(session, pane, job, shells.KEY):
        return False
    await _listening(session, pane, job)
    return await panes.type_input(session.tmux, pane, shells.command_keys(job.name, data))


async def _press(session: Session, pane: Pane, job: Job, keys: bytes) -> bool:
    """Type our key at this prompt; false: another broker did, or the pane is gone.

    A prompt is known by its number: it may be drawn anew while the shell is about to run what was typed there.
    """
    prompt = _prompt(session, job)
    claim = command("set-option", "-p", "-t", pane.pane_id, "@tmuxmcp_claim", _claim(session, job))
    steps = [claim, panes.raw(pane, keys)]
    free = f"#{{?#{{m:{prompt}*,#{{@tmuxmcp_claim}}}},,1}}"
    if await panes.type_input(session.tmux, pane, b"", before=steps, condition=free):
        return True
    held = await panes.option(session.tmux, pane, "claim")
    if not held.startswith(prompt) or not await _left_at_prompt(session, job.number):
        return False
    # Whoever claimed it is gone, and the shell did not heed the key: of all that find this, one takes its place.
    return await panes.type_input(
        session.tmux, pane, b"", before=steps, condition=f"#{{==:#{{@tmuxmcp_claim}},{held}}}"
    )


async def _left_at_prompt(session: Session, number: int) -> bool:
    """Whether the shell rests at a prompt at which a key of ours was typed: the key did nothing there."""
    rest = Rest()
    async for look in session.looks(0.01, time.monotonic() + LISTENS_S):
        if look.shell.number != number or look.shell.state is not ShellState.PROMPT or look.shell.listening:
            return False
        if await rest.proven(session, look):
            return True
    return False


async def _listening(session: Session, pane: Pane, job: Job) -> None:
    """Wait until the shell answers the key: in another mode it would take the command for keys.

    Raises:
        SessionBusy: it does not.
    """
    if await _answers(session, job.sent_at):
        return
    if typed.may_miss(session, await session.scan(), job.sent_at) and await _listen_no_more(session, pane):
        asked_at = session.log.size()  # its answer was not recorded
        await panes.type_input(session.tmux, pane, b"", after=[panes.raw(pane, shells.KEY)])
        answer = await _answers(session, asked_at)
        if answer:
            job.at(answer.shell)  # zsh has drawn another prompt
            return
    await _free_prompt(session, job)
    raise _typed_at(session)


async def _free_prompt(session: Session, job: Job) -> None:
    """Let somebody type at the prompt that this command had claimed: the shell may show it for long."""
    ours = f"#{{==:#{{@tmuxmcp_claim}},{_claim(session, job)}}}"
    await panes.set_option(session.tmux, session.live(), "claim", "", condition=ours)


def _claim(session: Session, job: Job) -> str:
    """What a pane's option says while a prompt is this command's: the prompt's name, and its own."""
    return f"{_prompt(session, job)}{job.name}"


def _prompt(session: Session, job: Job) -> str:
    return f"{session.meta.nonce}-{job.number}-"


async def _answers(session: Session, asked_at: int) -> Scan | None:
    """What the marks say once the shell answers our key, that it listens; None: it does not."""
    scan = await _marked(session, lambda scan: scan.shell.listens >= asked_at or bool(_refusal(scan, asked_at)[0]))
    return scan if scan and scan.shell.listens >= asked_at else None


def _refusal(scan: Scan, since: int) -> tuple[str, str]:
    """Why the shell did not take what was given to it by key, and under which name; empty if it did not say so."""
    why, name, at = scan.shell.refused or ("", "", 0)
    return (why, name) if at >= since else ("", "")


def _not_taken(scan: Scan, job: Job) -> str:
    """Why the shell did not take our command; empty if it did not say so."""
    why, name = _refusal(scan, job.sent_at)
    return why if name in ("", job.name) else ""


def _typed_at(session: Session) -> SessionBusy:
    return SessionBusy(
        f"The shell of session {session.id} does not take a command at its prompt: somebody may be in the middle of "
        "something there. Nothing was run.",
        hint="Look at it with read view=screen, end it with key C-c, and try again.",
        session_id=session.id,
    )


async def _finish(session: Session, job: Job, deadline: float, until: Until, progress: Progress) -> Ran:
    told, asking, rest, silence = time.monotonic(), Asking(), Rest(), Silence(until.idle_ms)
    async for scan in session.scans(0.02, deadline):
        if job.stdin:
            job.stdin.remove_once_opened(session.pid)
        session.throttle(scan.size - job.sent_at)
        ran = typed.done(session, scan, job)
        if ran is None:
            scan = look = await session.look()
            ran = typed.done(session, look, job) or await _not_done(session, job, look, rest)
            if ran is None and until.asks:
                ran = await _asks(session, job, look, asking)
            if ran is None and silence.lasts(look.size):
                ran = _idle(session, look, job, until.idle_ms)
        if ran is None and (scan.exited or scan.replaced):
            ran = _exited(session, scan, job)
        if ran:
            return ran
        now = time.monotonic()
        if now - told >= PROGRESS_EVERY_S:
            told = now
            await progress(now - job.begun, last_line(scan))
    session.save_checkpoint()  # whoever comes next need not look for its beginning
    ran = typed.unfinished(session, scan, job, "timeout")
    return replace(ran, note=" ".join(filter(None, (ran.note, GOES_ON)))) if ran.number is not None else ran


async def _not_done(session: Session, job: Job, look: Look, rest: Rest) -> Ran | None:
    """What became of our command, if the shell did not run it, or what it said at the end is not in the log."""
    why = _not_taken(look, job)
    if why:
        await _free_prompt(session, job)
        raise _incomplete(session) if why == "s" else _typed_at(session)
    alone = look.shell.number == job.number and not job.foreign
    if look.shell.state is ShellState.CONTINUATION and alone:
        await _abandon(session, job)
    if not await rest.proven(session, look):
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
    pane = await session.alive()
    await panes.type_input(session.tmux, pane, b"", after=[panes.keys(pane, ["C-c"])])
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


class Silence:
    """Tells when nothing was printed for so long."""

    def __init__(self, idle_ms: int) -> None:
        """`idle_ms`: 0: never."""
        self._idle_ms, self._size, self._since = idle_ms, -1, 0.0

    def lasts(self, size: int) -> bool:
        """Whether it does, by the size that the log has now."""
        now = time.monotonic()
        if size != self._size:
            self._size, self._since = size, now
        return bool(self._idle_ms) and (now - self._since) * 1000 >= self._idle_ms


def _idle(session: Session, look: Look, job: Job, idle_ms: int) -> Ran:
    ran = typed.unfinished(session, look, job, "idle")
    note = f"Nothing was printed for {idle_ms} ms; it goes on. Take it up with read wait_for=command."
    return replace(ran, evidence="quiet" if ran.evidence else None, note=" ".join(filter(None, (ran.note, note))))


def _exited(session: Session, scan: Scan, job: Job) -> Ran:
    code, name = scan.exit_status
    ran = typed.unfinished(session, scan, job, "exited")
    note = f"The shell was ended by SIG{name}." if name else ran.note
    return replace(ran, exit_code=code, completed=code is not None, note=note)


async def _asks(session: Session, job: Job, look: Look, asking: Asking) -> Ran | None:
    """What our command printed, if it now wants input: who called can give it."""
    if look.shell.state is not ShellState.RUNNING:
        return None
    settled = await asking.settled(session, look)
    if settled is None or settled.verdict.process is None or settled.shell.state is not ShellState.RUNNING:
        return None
    process = settled.verdict.process
    if process.pid == settled.pid and (settled.unreported or typed.misses_its_end(session, settled, job)):
        return None  # it is at its prompt, or may be
    ran = typed.unfinished(session, settled, job, "ready")
    if ran.evidence is None:
        return None  # another command's question
    if process.pid == settled.pid and _edits(settled):
        what = typed.MAY_BE_OVER.format(what="it", name=process.name)
        note = f"I{what[1:]}. {typed.USE_SEND} {typed.LOOK_FIRST}"
        return replace(ran, evidence="kernel", note=typed.joined(ran.note, note))
    who = f"`{process.name}`"
    match settled.waiting:
        case Waiting.SECRET:
            what = f"{who} asks for a secret: have the person type it with `tmuxmcp attach --take {session.id}`"
        case Waiting.LINE:
            what = f"{who} waits for a line of input: answer with send"
        case _ if settled.mode == "line_input" and process.pid != settled.pid and last_line(settled):
            what = f"{who} waits at its prompt: use send"
        case _:
            what = f"{who} waits for keys: use send"
    note = " ".join(filter(None, (ran.note, f"Not finished. {what}. {WHEN_OVER}")))
    return replace(ran, evidence="kernel", note=note)


def _edits(look: Look) -> bool:
    """Whether the session's own shell is in its line editor: the last word on pastes in brackets switched them on."""
    start = max(look.shell.output_start, look.size - ECHO_LIMIT)
    told = look.log.read(start, look.size - start).rpartition(b"\x1b[?2004")[2]
    return look.waiting is Waiting.EDITOR and told.startswith(b"h")


def _in_the_way(session: Session, look: Look) -> tuple[str, str]:
    """Why a session takes no command although it waits for input, and what to do."""
    shell = shell_of(session.meta.program)
    if not (look.facts and look.own_shell_in_front):
        name = f"`{look.foreground.command}`" if look.foreground else "another program"
        what = f"{name}, which was started there, is in front and waits for input"
        hint = "Use send for it, which gives no exit code, or run the command in another session."
        return what, f"{hint} Once it has ended, run works here again."
    if look.shell.prompted is not None:
        return typed.SILENT.rstrip("."), "Use send for it, or another session."
    if look.shell.state is ShellState.RUNNING:
        what = _running(session, look)
        if _edits(look):
            return typed.MAY_BE_OVER.format(what=what, name=shell.name), typed.USE_SEND
        return f"{what} is not over: it waits for input", "Answer it with send, or end it with key C-c."
    if look.shell.state is ShellState.PROMPT and look.facts.canonical:
        return f"the line editor of {shell.name} is off", f"Switch it on: send `{shell.editor_on}` and Enter."
    what = f"{shell.name} shows a prompt without our marks: another one took its place (exec), or its start-up files "
    return what + "keep ours out", "Use send for it, or make another session."


def _running(session: Session, look: Look) -> str:
    """The command that the session's shell runs, as far as it is known."""
    running = session.commands.running(look)
    text = ((running and running.text) or "").strip().split("\n")[0][:200]
    return f"`{text}`" if text else "its last command"


def _busy(session: Session, look: Look, text: str = "") -> SessionBusy:
    foreground, since = look.foreground, running_since(look)
    own = look.facts is not None and look.own_shell_in_front
    what = text.strip().split("\n")[0][:200] or (foreground.command if foreground and not own else "a command")
    return SessionBusy(
        f"Session {session.id} runs `{what}`" + (f" since {since}." if since else "."),
        hint="Wait with read wait_for=ready, stop it with signal INT, or use another session.",
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
        waiting=look.waiting.value if foreground else Waiting.UNKNOWN.value,
    )
