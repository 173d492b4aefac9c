"""What keeps a shell that was started from its first prompt, in words: what its start-up files do, and what to do then.

Its marks tell that a session's own shell has come to its first prompt. Until then whatever is in front was brought
there by a start-up file: a question, a program, another shell in its place.
"""

from __future__ import annotations

import time
from contextlib import suppress

from tmuxmcp.contract.errors import NotAShell, SessionBusy, WrongMode
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine import proc
from tmuxmcp.machine.launch.shells import ADOPTABLE
from tmuxmcp.machine.witness.front import shows_prompts
from tmuxmcp.machine.witness.kernel import InputWait, Process
from tmuxmcp.readiness.adoptable import asks, note_prompt
from tmuxmcp.readiness.judge import FULL_SCREEN_MODES
from tmuxmcp.readiness.wait import last_line
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import UNPROMPTED, Session
from tmuxmcp.shell.adopting import kind_of
from tmuxmcp.shell.obstacles import in_the_way, not_a_shell, terminals_in_one
from tmuxmcp.terminal.marks import ShellState

INSIDE_ALREADY = {"tmux": '{"TMUX": "/nonexistent/tmux,0,0"}', "screen": '{"STY": "0.none"}'}
"""By program: the variable by which a start-up file sees that it runs in one already, and starts no other.

The path leads nowhere for anybody: where it leads to a file, such as /dev/null, `tmux new -d` puts its socket in place
of that.
"""

SETTLES_S, RETRY_S = 0.5, 0.03
"""How long a shell that shows its prompt may still do something for itself, and how often that is looked at."""

THEY_GO_ON = "When it has ended, the start-up files go on."


@dataclass(frozen=True)
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
    if not session.meta.marks or look.exited or not unmarked or session.gaps(0, look.size):
        return None
    name = look.knows.name
    if several := terminals_in_one(look):
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
