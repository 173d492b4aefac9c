"""What keeps a shell that was started from its first prompt, in words: what its start-up files do, and what to do then.

Its marks tell that a session's own shell has come to its first prompt. Until then whatever is in front was brought
there by a start-up file: a question, a program, another shell in its place.
"""

from __future__ import annotations

import time
from contextlib import suppress

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import NotAShell, SessionBusy, WrongMode
from tmuxmcp.contract.value import value
from tmuxmcp.contract.words import Adopt
from tmuxmcp.machine import proc
from tmuxmcp.machine.launch import shells
from tmuxmcp.machine.launch.shells import ADOPTABLE
from tmuxmcp.machine.witness.foreground import shows_prompts
from tmuxmcp.machine.witness.kernel import InputWait, Process
from tmuxmcp.readiness.adoptable import NotAdopted, asks, note_prompt
from tmuxmcp.readiness.judge import FULL_SCREEN_MODES
from tmuxmcp.readiness.wait import last_line
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import UNPROMPTED, Session
from tmuxmcp.shell import adopting, outcomes
from tmuxmcp.shell.adopting import kind_of
from tmuxmcp.terminal.marks import MarkScanner, ShellState
from tmuxmcp.terminal.modes import may_be_prompt
from tmuxmcp.terminal.text.echo import ECHO_LIMIT

INSIDE_ALREADY = {"tmux": '{"TMUX": "/nonexistent/tmux,0,0"}', "screen": '{"STY": "0.none"}'}
"""By program: the variable by which a start-up file sees that it runs in one already, and starts no other.

The path leads nowhere for anybody: where it leads to a file, such as /dev/null, `tmux new -d` puts its socket in place
of that.
"""

SETTLES_S, RETRY_S = 0.5, 0.03
"""How long a shell that shows its prompt may still do something for itself, and how often that is looked at."""

THEY_GO_ON = "When it has ended, the start-up files go on."


@value
class StartUp:
    """What the start-up files do."""

    what: str
    """Completes `in session X ...`."""
    hint: str
    """What to do."""
    secret: str = ""
    """What to do first where a secret is asked for, of which results tell by themselves."""
    asks: bool = False
    """What is typed goes to something else than a shell's prompt, which waits for it."""

    @property
    def advice(self) -> str:
        """All that is to be done, for an error."""
        return f"{self.secret} {self.hint}".strip()

    @property
    def note(self) -> str:
        """Both, for a result."""
        start = self.what[0].upper() if self.what.startswith(("a ", "the ")) else self.what[0]
        return f"{start}{self.what[1:]}. {self.hint}"


async def start_up(session: Session, look: Look) -> StartUp | None:
    """What keeps a session's own shell, which is to send marks, from its first prompt; None: nothing does."""
    unmarked = look.shell.state is ShellState.STARTING and not (look.shell.number or look.level.number)
    if not session.meta.marks or look.exited or not unmarked or session.events.gaps(0, look.size):
        return None
    name = look.knows.name
    if several := look.terminals_in_one:
        hint = (
            "What is sent goes to the windows that it shows, which may be the person's own. Make another session with "
            f"env={INSIDE_ALREADY[several]}: most such files then start no {several} (for all sessions: the setting "
            f"env). {_without_files(look)}"
        )
        return StartUp(f"a start-up file of {name} has started `{several}`, which is in front", hint, asks=True)
    if look.ready:
        return await _waits(session, await note_prompt(session, look))
    if look.waiting is InputWait.BUSY:
        beside = _beside_shell(look)
        at_work = f" (`{beside}`)" if beside else ""
        hint = "Wait with read wait_for=ready, then run it."
        return StartUp(f"the start-up files of {name} still run{at_work}", hint)
    hint, process = "Look with read view=screen, and use send for what asks there.", look.verdict.process
    if look.verdict.hidden and process:
        what = f"`{process.name}`, which a start-up file of {name} has started, hides what runs behind it"
        return StartUp(what, f"{hint} {THEY_GO_ON}", asks=True)
    return StartUp(f"{name} has shown no prompt yet, and what its start-up files do cannot be known", hint)


async def _waits(session: Session, look: Look) -> StartUp:
    """Where something waits for input."""
    process, name = look.verdict.process, look.knows.name
    assert process, "somebody waits"
    own, same = process.pid == look.pid, look.own_marks and process.name == kind_of(look)
    if own and same:
        who, then = f"a start-up file of {name}", "Then run works here."
    elif own:
        who, then = f"`{_title(look, process)}`, which a start-up file has put in the place of {name} (exec),", ""
    else:
        who, then = f"`{_title(look, process)}`, which a start-up file of {name} has started,", THEY_GO_ON
    then = then or _without_files(look)
    line = last_line(look)
    at = f" ({line!r})" if line else ""
    if own and same and session.readonly_prompt:
        what = f"{name} cannot take our marks at its prompt: a start-up file makes {session.readonly_prompt} readonly"
        return StartUp(what, f"Use send for it. {_without_files(look)}", asks=True)
    if look.at_unmarked_prompt and own and same:
        what = f"{name} shows a prompt without our marks: a start-up file keeps them out, or has put another {name} in "
        return StartUp(f"{what}its place (exec)", "The first run types them in, or says why it cannot.")
    if look.at_unmarked_prompt:
        return StartUp(f"{who} waits at its prompt", "run works there: the first one types our marks in.")
    if look.secret:
        how = f"Have the person type it: request_user_input with secret=true, or `tmuxmcp attach --take {session.id}`."
        return StartUp(f"{who} asks for a secret{at}", then, how, asks=True)
    if look.alternate_screen or look.mode in FULL_SCREEN_MODES:
        return StartUp(f"{who} draws on the whole screen", f"Use send for it, and quit it. {then}", asks=True)
    if process.name in ADOPTABLE and ((own and same) or shows_prompts(process.pid)) and await asks(look) is None:
        what = f"`{process.name}` waits at a prompt without our marks, or at a question of a start-up file{at}"
        hint = "Look with read view=screen. Answer a question with send; at a prompt, run with adopt=yes works."
        return StartUp(what, hint, asks=True)
    if own and not same:
        return StartUp(f"{who} waits for input{at}", f"Use send for it. {then}", asks=True)
    return StartUp(f"{who} asks for input{at}", f"Answer it with send. {then}", asks=True)


def _title(look: Look, process: Process) -> str:
    """What a person calls a process: its words."""
    foreground = look.foreground
    return foreground.command if foreground and foreground.pid == process.pid else process.name


def _beside_shell(look: Look) -> str:
    """The words of the youngest program that runs beside the shell; empty: none does."""
    for process in reversed(look.facts.processes if look.facts else ()):
        if process.pid != look.pid and process.state not in "ZX":
            with suppress(OSError):
                return " ".join(proc.argv_text(process.pid)).strip()[:200]
    return ""


def _without_files(look: Look) -> str:
    """How to start the shell without its start-up files, as a sentence."""
    words = ", ".join(f'"{word}"' for word in look.knows.without_files)
    return f"A session made with args=[{words}] starts {look.knows.name} without its start-up files."


async def refusal(session: Session, look: Look) -> NotAShell | SessionBusy | None:
    """Why no command can be run there; None: its shell has come to its first prompt."""
    found = await start_up(session, look)
    if found is None:
        return None
    if found.asks:
        return not_a_shell(session, look, found.what, found.advice)
    message = f"In session {session.id} {found.what}. Nothing was run."
    return SessionBusy(message, hint=found.hint, session_id=session.id)


async def refuse_first_input(session: Session) -> None:
    """Refuse to type into a session that was made for this very call, where no prompt takes it.

    Its caller has seen nothing of it, and takes it for a shell.

    Raises:
        WrongMode
    """
    found = await start_up(session, await session.look())
    if found and found.asks:
        message = (
            f"Your default session {session.id} was made for this call, and in it {found.what}: nothing was typed."
        )
        raise WrongMode(message, hint=f"{found.advice} The next send types there.", session_id=session.id)


async def first_look(session: Session, *, ready: bool) -> Look:
    """A look at a session that was just made: what keeps its shell from its first prompt is seen at rest, if it rests.

    Args:
        ready: something in it was found waiting for input.
    """
    async for look in session.looks(RETRY_S, time.monotonic() + SETTLES_S):
        process = look.verdict.process
        if not session.meta.marks or not ready or look.exited or look.shell.state is not ShellState.STARTING:
            break
        if look.ready and process and process.name in ADOPTABLE:
            look = await note_prompt(session, look)
            if look.at_unmarked_prompt or await asks(look):
                break
        elif look.ready or look.verdict.hidden:
            break
    return look


async def first_note(session: Session, look: Look) -> str | None:
    """What is to be said of a session that was just made and takes no command yet; None: nothing."""
    if not session.meta.marks or look.takes_commands:
        return None
    if look.exited:
        ended = f"{session.how_it_ended} {UNPROMPTED} read tells what was printed. {_without_files(look)}"
        return ended if session.ended_unprompted else None
    if found := await start_up(session, look):
        return found.note
    if not look.ready:
        return None
    blocked = in_the_way(session, look, "auto", None)
    return f"{blocked.message} {blocked.hint}"


# ---- Why a session takes no command, and what to do about that: the errors of `run` ----------------------------------


def several(session: Session, look: Look) -> NotAShell:
    """In front is what shows one of several terminals."""
    hint = "Use send for what it shows, detach it (in tmux: C-b d), or run the command in another session."
    return not_a_shell(session, look, f"`{look.terminals_in_one}` is in front, which has terminals of its own", hint)


SEND_OR_ANOTHER = "Use send for it, or another session."

FEWEST_FILES = 16
"""So many files a shell has to be allowed to open: what it redirects it keeps open above the first ten."""


def continue_it(look: Look) -> str:
    """What to do about a program that is stopped."""
    process = look.verdict.process
    aside = look.facts and process and process.pid == look.shell_pid and look.facts.foreground != process.pid
    return f"It is stopped: continue it with signal CONT{', target session' * bool(aside)}."


def takes_no_command(session: Session, look: Look) -> SessionBusy:
    """Its shell has not heeded our key."""
    if look.waiting is InputWait.STOPPED:
        return SessionBusy(
            f"The shell of session {session.id} is stopped. Nothing was run.",
            hint=continue_it(look),
            session_id=session.id,
        )
    few = few_files(look)
    why = few or "it is in the middle of something there (a search, a menu), or its key for commands was taken away"
    anew = outcomes.BEGIN_ANEW.format(name=look.knows.name or look.level.kind)
    look_first = f"Look at it with read view=screen; end what it is in the middle of with key C-c. {anew}"
    return SessionBusy(
        f"The shell of session {session.id} does not take a command at its prompt: {why}. Nothing was run.",
        hint=SEND_OR_ANOTHER if few else look_first,
        session_id=session.id,
    )


def few_files(look: Look) -> str:
    """That a shell may open too few files for what it does at each prompt; empty: nothing tells so."""
    title = "Max open files"
    with suppress(OSError, KeyError, ValueError):
        soft, _ = proc.limits(look.shell_pid or 0, [title])[title]
        if look.shell_pid and int(soft) < FEWEST_FILES:
            return f"it may open {soft} files only (ulimit -n), which is too few"
    return ""


def edits(look: Look) -> bool:
    """Whether the session's own shell is in its line editor: the last word on pastes in brackets switched them on."""
    start = max(look.shell.output_start, look.size - ECHO_LIMIT)
    told = look.log.read(start, look.size - start).rpartition(b"\x1b[?2004")[2]
    return look.waiting is InputWait.EDITOR and told.startswith(b"h")


def wants_more(look: Look) -> bool:
    """Whether the session's own shell has run the first lines of a command, and asks for the rest, as bash does."""
    start = max(look.shell.output_start, look.size - ECHO_LIMIT)
    marks = MarkScanner(look.level.nonce, start).feed(look.log.read(start, look.size - start))
    return bool(marks) and (marks[-1].kind, marks[-1].why) == ("P", "s") and edits(look)


def in_the_way(session: Session, look: Look, adopt: Adopt, found: NotAdopted | bool | None) -> NotAShell | SessionBusy:
    """Why a session takes no command although it waits for input, and what to do; `found`: why it was not adopted."""
    if look.verdict.hidden and not may_be_prompt(last_line(look)):
        return busy(session, look)
    why, hint = _obstacle(session, look)
    elsewhere = not look.marks or not look.own_shell_in_front or look.level.carrier is not None
    if isinstance(found, NotAdopted) and not look.verdict.hidden and (look.relays or not look.own_shell_in_front):
        return not_a_shell(session, look, f"{why}: {found.why}", found.hint)
    if isinstance(found, NotAdopted) and session.meta.marks and not look.marks:
        why = f"{why}: {found.why}"
    if adopt != "yes" and elsewhere and adopting.may_by_consent(look) is None:
        hint = (
            "If a shell's prompt stands there, call run again with adopt=yes: one line is typed into it, once, and run "
            "works there. Otherwise use send."
        )
    return not_a_shell(session, look, why, hint)


def _obstacle(session: Session, look: Look) -> tuple[str, str]:
    """The same, and what to do where nothing can be adopted."""
    shell = look.knows
    if not look.marks and session.meta.marks and look.facts and look.facts.foreground == look.pid:
        name = f"`{look.foreground.command}`" if look.foreground else "another program"
        hint = (
            "Use send for it, which gives no exit code, or run the command in another session: this one ends with it."
        )
        return f"{name} has taken the place of its shell (exec)", hint
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
    if few := few_files(look):
        return f"{shell.name} tells nothing of its commands: {few}", SEND_OR_ANOTHER
    if look.shell.prompted is not None:
        return outcomes.TELLS_NO_MORE.rstrip("."), outcomes.BEGIN_ANEW.format(name=shell.name)
    if look.shell.state is ShellState.RUNNING:
        what = _running(session, look)
        if look.verdict.hidden:
            return f"{what} runs, and whether it waits for input cannot be known", "Use send for it."
        if wants_more(look):
            return f"of {what} {outcomes.WANTS_MORE.format(name=shell.name)}", outcomes.GIVE_THE_REST
        if edits(look):
            return outcomes.MAY_BE_OVER.format(what=what, name=shell.name), outcomes.USE_SEND.format(name=shell.name)
        return f"{what} is not over: it waits for input", "Answer it with send, or end it with key C-c."
    if look.shell.state is ShellState.PROMPT and look.facts.canonical:
        return f"the line editor of {shell.name} is off", f"Switch it on: send `{shell.editor_on}` and Enter."
    if look.shell.number:
        why = f"{shell.name} shows a prompt without our marks: something keeps them out, as a readonly variable does"
        return why, outcomes.BEGIN_ANEW.format(name=shell.name)
    what = f"{shell.name} shows a prompt without our marks: its start-up files keep them out"
    return what, "Use send for it, or make another session."


def _running(session: Session, look: Look) -> str:
    """The command that the session's shell runs, as far as it is known."""
    running = next((each for each in session.commands.running(look) if each.level == look.level.number), None)
    text = ((running and running.text) or "").strip().split("\n")[0][:200]
    return f"`{text}`" if text else "its last command"


def busy(session: Session, look: Look, text: str = "") -> SessionBusy:
    """A command runs there: `text`, or what the kernel says."""
    foreground, since = look.foreground, running_since(look)
    own = look.facts is not None and look.own_shell_in_front
    what = text.strip().split("\n")[0][:200] or (foreground.command if foreground and not own else "a command")
    hint = "Wait with read wait_for=ready, stop it with signal INT, or use another session."
    if look.verdict.hidden:
        hint = "Use send for what runs behind it, read wait_for=ready to wait for it, or run in another session."
    elif look.waiting is InputWait.STOPPED:
        if look.verdict.process and look.verdict.process.pid == look.shell_pid:
            return takes_no_command(session, look)
        hint = continue_it(look)
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


def not_a_shell(session: Session, look: Look, why: str, hint: str = "") -> NotAShell:
    """Something else than a shell at its prompt is there; `why` completes `in session X ...`."""
    foreground = look.foreground
    return NotAShell(
        f"run needs the session's own shell at its prompt, but in session {session.id} {why}.",
        hint=hint or "Use send for it, quit it first, or run the command in another session.",
        session_id=session.id,
        foreground=foreground.command if foreground else None,
        waiting=look.waiting.value if foreground else InputWait.UNKNOWN.value,
    )
