"""Why a session takes no command, and what to do about that: the errors of `run`."""

from __future__ import annotations

from contextlib import suppress

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import NotAShell, SessionBusy
from tmuxmcp.contract.words import Adopt
from tmuxmcp.machine import proc
from tmuxmcp.machine.launch import shells
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.readiness.wait import last_line
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import adopting, typed
from tmuxmcp.shell.adopting import AdoptionRefusal
from tmuxmcp.terminal.marks import MarkScanner, ShellState
from tmuxmcp.terminal.modes import may_be_prompt
from tmuxmcp.terminal.text.unechoed import ECHO_LIMIT


def terminals_in_one(look: Look) -> str:
    """The program in front that shows one of several terminals, among which keys switch (tmux, screen); empty: none."""
    process = look.verdict.process
    names = (*look.relays, process.name if process and look.verdict.hidden else "")
    return next((name.partition(":")[0] for name in names if name.startswith(("tmux", "screen"))), "")


def several(session: Session, look: Look) -> NotAShell:
    """In front is what shows one of several terminals."""
    hint = "Use send for what it shows, detach it (in tmux: C-b d), or run the command in another session."
    return not_a_shell(session, look, f"`{terminals_in_one(look)}` is in front, which has terminals of its own", hint)


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
    anew = typed.BEGIN_ANEW.format(name=look.knows.name or look.level.kind)
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


def in_the_way(
    session: Session, look: Look, adopt: Adopt, found: AdoptionRefusal | bool | None
) -> NotAShell | SessionBusy:
    """Why a session takes no command although it waits for input, and what to do; `found`: why it was not adopted."""
    if look.verdict.hidden and not may_be_prompt(last_line(look)):
        return busy(session, look)
    why, hint = _obstacle(session, look)
    elsewhere = not look.marks or not look.own_shell_in_front or look.level.carrier is not None
    if isinstance(found, AdoptionRefusal) and not look.verdict.hidden and (look.relays or not look.own_shell_in_front):
        return not_a_shell(session, look, f"{why}: {found.why}", found.hint)
    if isinstance(found, AdoptionRefusal) and session.meta.marks and not look.marks:
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
        return typed.TELLS_NO_MORE.rstrip("."), typed.BEGIN_ANEW.format(name=shell.name)
    if look.shell.state is ShellState.RUNNING:
        what = _running(session, look)
        if look.verdict.hidden:
            return f"{what} runs, and whether it waits for input cannot be known", "Use send for it."
        if wants_more(look):
            return f"of {what} {typed.WANTS_MORE.format(name=shell.name)}", typed.GIVE_THE_REST
        if edits(look):
            return typed.MAY_BE_OVER.format(what=what, name=shell.name), typed.USE_SEND.format(name=shell.name)
        return f"{what} is not over: it waits for input", "Answer it with send, or end it with key C-c."
    if look.shell.state is ShellState.PROMPT and look.facts.canonical:
        return f"the line editor of {shell.name} is off", f"Switch it on: send `{shell.editor_on}` and Enter."
    if look.shell.number:
        why = f"{shell.name} shows a prompt without our marks: something keeps them out, as a readonly variable does"
        return why, typed.BEGIN_ANEW.format(name=shell.name)
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
