"""The commands of a session, as results tell them."""

from __future__ import annotations

import re
import signal
from typing import Any

from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, iso
from tmuxmcp.contract.errors import InvalidArgument, NotRetained
from tmuxmcp.machine.launch.shells import names
from tmuxmcp.machine.witness.tty import has_stopped
from tmuxmcp.record.commands import EndedCommand
from tmuxmcp.record.meta import ReportedCommands
from tmuxmcp.sessions.commands import Command, shell_is_back
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.modes import may_be_prompt

_PROMPT_SIGN = re.compile(r"[^\w\s]|λ")
"""What a prompt may end in."""

STOPPED_CODE = 128 + signal.SIGTSTP

STOPPED = "Command {number} is stopped (C-z), and not over: `fg` goes on with it."

MOST_LINES = 10
"""Numbers of lines that a note has."""


def listed(request: q.ListCommands, session: Session, look: Look) -> r.ListCommandsResult:
    """The newest commands that are asked for."""
    known = session.commands.kept_commands(look)
    wanted = [each for each in known if request.before is None or each.number < request.before]
    if request.failed_only:
        wanted = [each for each in wanted if isinstance(each, EndedCommand) and each.exit_code]
    chosen = wanted[-request.limit :]
    return r.ListCommandsResult(
        session_id=session.id,
        count=len(chosen),
        note=None if look.marks or chosen else f"Its program tells of no commands: only {names('and')} do.",
        commands=[row(each) for each in chosen],
    )


def row(command: Command) -> r.ListedCommand:
    """A command as a row of `list_commands`."""
    return r.ListedCommand(**_fields(command), by=command.by, level=command.level, stdin=command.stdin)


def not_reported(session: Session, look: Look, caller: str) -> list[int]:
    """Numbers of the commands that have ended and that this caller was not told of, oldest first."""
    told = session.told.of(caller)
    return [number for number in session.commands.ended_numbers(look, told.through) if number not in told.beyond]


async def settle(session: Session, look: Look) -> None:
    """Have it be known of a shell that is back at its prompt that its command has ended, also while tmux works."""
    if session.commands.in_doubt(look) and shell_is_back(look) and await session.log_complete(look.size):
        session.commands.settle(look)


def tell(session: Session, call: Call, number: int) -> None:
    """Take note that the caller is told of one command."""
    told = session.told.of(call.caller)
    if not told.knows(number):
        # One that still runs in a shell further out has a lower number: the caller is told of it when it ends.
        ended = sorted([*session.commands.said_to_have_ended(told.through), *session.running_numbers()])
        _now_told(session, call, told.also(number, ended), [number])


def _now_told(session: Session, call: Call, now: ReportedCommands, news: list[int]) -> None:
    """Remember what the caller is told of, and how to forget what is new of it."""

    def forget() -> None:
        told, ended = session.told.of(call.caller), session.commands.said_to_have_ended(news[0] - 1)
        session.told.tell(call.caller, told.without(news, ended))

    session.told.tell(call.caller, now)
    call.undo.append(forget)


MOST_ALSO_ENDED = 5
"""Commands that an answer names beside the one that it speaks of."""


def also_ended(
    session: Session, look: Look, call: Call, spoken_of: r.Command | None = None, *, keep: bool = False
) -> list[r.AlsoEnded]:
    """The commands that ended since this caller was told, newest first: with the newest it is told of all before.

    Args:
        spoken_of: the one that the answer is about, of which it is told as well.
        keep: they are told again the next time.
    """
    numbers = not_reported(session, look, call.caller)
    if numbers and not keep:
        ended = session.commands.ended_numbers(look)
        first = min(session.running_numbers(), default=ended[-1] + 1)  # of the shell that is furthest out
        through = min(ended[-1], first - 1)
        _now_told(
            session, call, ReportedCommands(through, frozenset(each for each in ended if each > through)), numbers
        )
    others = [number for number in reversed(numbers) if spoken_of is None or number != spoken_of.number]
    return [
        r.AlsoEnded(number=number, exit_code=session.commands.ended(number).exit_code)
        for number in others[:MOST_ALSO_ENDED]
    ]


def command_result(session: Session, look: Look, number: int) -> r.Command | None:
    """The command of a number, if anything of it is kept."""
    command = session.commands.find(look, number)
    return r.Command(**_fields(command)) if command else None


def why_not_over(session: Session, command: r.Command | None) -> str | None:
    """What is to be said of a command that C-z stopped; None: nothing."""
    if command is None or command.end_offset is None or session.pane is None:
        return None
    if command.exit_code not in (STOPPED_CODE, None):
        return None
    return STOPPED.format(number=command.number) if has_stopped(session.pane.leader) else None


def seem_typed(session: Session, look: Look, found: r.SearchResult) -> str | None:
    """What is to be said of matches in lines that look like a prompt and a command of this session behind it.

    Offsets do not tell: those of lines that were moved about, as zsh does at each prompt, are of a whole stretch.
    """
    texts = {
        line.strip() for each in session.commands.kept_commands(look) for line in (each.text or "").split("\n")
    } - {""}
    lines = []
    for match in found.matches:
        around = match.text.split("\n")
        line = around[min(found.context, match.line, len(around) - 1)]
        ends = [sign.end() for sign in _PROMPT_SIGN.finditer(line)]
        if any(line[end:].strip() in texts and may_be_prompt(line[:end]) for end in ends):
            lines.append(match.line)
    if not lines:
        return None
    told = ", ".join(map(str, lines[:MOST_LINES])) + ", ..." * (len(lines) > MOST_LINES)
    return (
        f"Lines that look like commands as typed, not like output: {told} ({len(lines)} of {len(found.matches)} shown)."
    )


def output_of(session: Session, look: Look, number: int) -> tuple[int, int, str | None]:
    """Between which offsets a command's output lies, and what is to be said of it.

    Args:
        number: -1: the last one.

    Raises:
        InvalidArgument: there is no such command.
        NotRetained: its output, or the command itself, is no longer kept.
    """
    command = command_of(session, look, number)
    end, note = _end_of(command, look)
    head = min(session.log.head(), look.size)
    if command.start < end <= head:
        raise _not_retained(f"The output of command {command.number} is no longer kept.", head)
    return command.start, max(command.start, end), note


def end_of(session: Session, look: Look, number: int) -> tuple[int, str | None]:
    """Where a command's output ends, or the log while it runs, and what is to be said of it.

    Raises:
        InvalidArgument, NotRetained: as `output_of`, but for its output.
    """
    command = command_of(session, look, number)
    end, note = _end_of(command, look)
    return max(command.start, end), note


UNTOLD = (
    "The command may be over: its shell waits at a prompt, and did not tell the end, as something took away the "
    "functions by which it does. The next run has it tell; then list_commands has the exit code."
)
"""Of a command after which its shell drew its prompt."""


def _end_of(command: Command, look: Look) -> tuple[int, str | None]:
    if isinstance(command, EndedCommand):
        return command.end, None
    if look.unreported and command.level == look.level.number:
        return look.shell.prompted or look.size, UNTOLD
    return look.size, None if look.exited else "The command still runs."


def command_of(session: Session, look: Look, number: int) -> Command:
    """The command of a number; -1: the last that began.

    Raises:
        InvalidArgument, NotRetained
    """
    known = session.commands.kept_commands(look)
    command = known[-1] if known and number < 0 else next((each for each in known if each.number == number), None)
    if command is None:
        raise _no_command(session, known, number, min(session.log.head(), look.size))
    return command


def _no_command(session: Session, known: list[Command], number: int, head: int) -> InvalidArgument | NotRetained:
    if not known:
        return InvalidArgument(f"No command has run in session {session.id}.", session_id=session.id)
    first, last = known[0].number, known[-1].number
    if 0 < number < first and session.commands.forgotten:
        return _not_retained(f"Command {number} is no longer kept: the first that is has number {first}.", head)
    return InvalidArgument(
        f"There is no command {number}: their numbers go from {first} to {last}, not without gaps.",
        hint="list_commands has them.",
        session_id=session.id,
        first=first,
        last=last,
    )


def _not_retained(message: str, head: int) -> NotRetained:
    hint = f"What is kept begins at offset {head}: read since={head}."
    return NotRetained(message, hint=hint, first_offset=head, first_ms=None)


def _fields(command: Command) -> dict[str, Any]:
    """What every result tells of a command."""
    over = command if isinstance(command, EndedCommand) else None
    return {
        "number": command.number,
        "text": command.text,
        "exit_code": over.exit_code if over else None,
        "started_at": None if command.began is None else iso(command.began),
        "duration_ms": _duration_ms(over) if over else None,
        "cwd": over.cwd if over else None,
        "start_offset": command.start,
        "end_offset": over.end if over else None,
    }


def _duration_ms(command: EndedCommand) -> int | None:
    """How long it ran; None where its clock was set back, or did not tell."""
    if command.began is None or command.ended is None or command.ended < command.began:
        return None
    return round((command.ended - command.began) * 1000)
