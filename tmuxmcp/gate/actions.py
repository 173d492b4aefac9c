"""What an operation's arguments come to, in the terms of the policy: programs, files, hosts, keys.

Text typed into a shell counts as a command when it holds Enter. That is a best effort: what a person typed before, a
completion or a line of the history cannot be known, and then counts as not understood.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Sequence
from typing import Any

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.request import FilePath, Request
from tmuxmcp.contract.value import value
from tmuxmcp.gate.policy.judge import Action
from tmuxmcp.gate.policy.parsing import Parsing
from tmuxmcp.gate.policy.shelltext import TEXT_SHELLS, SimpleCommand
from tmuxmcp.sessions.look import Look
from tmuxmcp.shell.sequence import items_of, key_of, pressed, text_of
from tmuxmcp.terminal.modes import PROMPT_SHELLS

LEAD_TO_SHELLS = TEXT_SHELLS | frozenset(
    {"ssh", "mosh-client", "su", "sudo", "login", "docker", "podman", "kubectl", "tmux", "screen", "nsenter"}
    | {"chroot", "unshare", "bwrap", "script", "expect", "lxc", "machinectl"}
)
"""Programs behind which a shell may read what is typed."""

RUNS_LINE_KEYS = frozenset({"Enter", "KPEnter", "C-m", "C-j", "C-o"})
CLEARING_KEYS = frozenset({"C-c", "C-u"})
MAY_RUN_LINE_KEYS = frozenset({"M-a", "M-A"})
"""zsh runs the line and keeps it; other shells do not."""

IDLE_KEYS = frozenset({"C-d", "C-z"})
"""They do nothing to a line at whose end the cursor stands."""

RUNS_LINE_CHARS = re.compile(r"[\r\n\x0f]")
HALF_TYPED_CHARS = 64 * 1024


@value
class ShellContext:
    """Where an action would happen, as far as it is known; nothing of it where there is no session yet."""

    session_id: str = ""
    cwd: str | None = None
    mode: str | None = None
    foreground: str = ""
    """Name of the program in front."""
    secret: bool = False
    """It asks for a secret: echo is off."""
    hidden: bool = False
    """Another terminal begins behind the program in front."""
    shell: bool = False
    """It is a shell, whatever it calls itself."""

    @property
    def takes_commands(self) -> bool:
        """What is typed may be a command; where nothing reads it now, for the shell behind the program in front."""
        return self.to_shell or (self.mode == "running" and not self.secret)

    @property
    def to_shell(self) -> bool:
        """What is typed goes to a shell, as far as can be told."""
        return self.mode in (None, "shell_prompt") or self.shell or self.hidden or self.foreground in LEAD_TO_SHELLS


@value
class TypedLine:
    """What stands in a shell's line editor after some typing."""

    submitted: str | None = ""
    """The lines that Enter ended; None: they cannot be known."""
    pending: str | None = ""
    entered: bool = False


async def action_of(
    request: Request[Any],
    place: ShellContext,
    parsing: Parsing,
    pending: str | None = "",
    program: Sequence[str] = (),
    base: str = "",
) -> Action:
    """An operation in the policy's terms.

    Args:
        pending: what was typed before into the same session, without Enter.
        program: what runs where a session names no program.
        base: what relative paths of files are relative to.
    """
    text: str | None = None
    commands: list[SimpleCommand] = []
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    match request:
        case q.Run():
            text = request.command
            commands = await _of_text(text, place.cwd, parsing, fed=bool(request.stdin))
        case q.Send():
            keys = (*_keys(request), *(["Enter"] if request.secret else []))
            text, commands = await _of_typing(request, keys, place, parsing, pending)
        case q.CreateSession():
            # Without a program, arguments are those of the program that the settings name, as for `Creation.create`.
            words = [request.program] if request.program else [*program]
            argv = [*words[:1], *(request.args or words[1:])]
            commands = await parsing.of_program(argv, request.cwd or place.cwd, request.env)
            hosts = (request.host,) if request.host else ()
        case q.GdbOpen():
            attached = [f"--pid={request.pid}"] if request.pid else []
            words = ["gdb", *attached, "--args", request.path, *request.args]
            commands = await parsing.of_program(words, place.cwd, {})
            if request.path:
                target = [max(_spellings(request.path, base)), *request.args]
                commands += await parsing.of_program(target, place.cwd, {})
        case q.GdbCmd():
            text = request.command
            commands = await parsing.of_program(["gdb", "-ex", text], place.cwd, {})
        case q.RunProcess():
            argv = list(request.argv if request.argv[0] else program)
            fed = bool(request.stdin or request.stdin_base64)
            commands = await parsing.of_program(argv, request.cwd or place.cwd, request.env, fed=fed)
        case q.R2Open():
            commands = await parsing.of_program(["radare2", *request.args, request.path], place.cwd, {})
        case q.R2Cmd() | q.R2Cmdj():
            commands = await parsing.of_program(["radare2", "-c", request.command], place.cwd, {})
    given = [value for _, value, _ in request.marked(FilePath) if value]
    paths = tuple(each for path in given for each in _spellings(path, base))
    row = request.operation
    secret = request.secret if isinstance(request, q.Send) else ""
    return Action(row.name, row.read_only, tuple(commands), text, paths, hosts, place.mode, keys, secret)


async def _of_typing(
    request: q.Send, keys: tuple[str, ...], place: ShellContext, parsing: Parsing, pending: str | None
) -> tuple[str | None, list[SimpleCommand]]:
    """The shell text that a `send` has run, and its commands; else the program in front, which gets the keys."""
    in_front = [SimpleCommand((place.foreground or None,))]
    if place.secret or not place.takes_commands:
        return None, in_front
    text = _text(request)
    behind = keys[_controls(text) :]
    done = line_after(pending, text, behind)
    commands = [] if place.to_shell else in_front
    if not done.entered:
        return None, commands
    commands += await _of_text(done.submitted, place.cwd, parsing)
    if pending:
        # A signal or the person may have cleared the line meanwhile: then this is all that the shell gets.
        commands += await _of_text(line_after("", text, behind).submitted, place.cwd, parsing)
    return done.submitted, commands


def _of_text(
    text: str | None, cwd: str | None, parsing: Parsing, *, fed: bool = False
) -> Awaitable[list[SimpleCommand]]:
    return parsing.of_text(text, cwd, os.path.expanduser("~"), fed=fed)


def _spellings(path: str, base: str) -> set[str]:
    """A path as it was meant, and where it leads through links."""
    whole = os.path.normpath(os.path.join(base or os.getcwd(), os.path.expanduser(path)))
    return {whole} if "\0" in whole else {whole, os.path.realpath(whole)}  # the operation refuses NUL


def _keys(request: q.Send) -> tuple[str, ...]:
    """Every key that `send` presses: control characters in its text, then what follows; a wrong one presses none."""
    try:
        items = items_of(request)
    except InvalidArgument:
        return ()  # the operation itself says what is wrong
    return (*(key_of(char) for char in _text(request) if char < " " or char == "\x7f"), *pressed(items))


def _text(request: q.Send) -> str:
    """The text that comes first; none where it is wrong, which the operation itself says."""
    try:
        return text_of(request).text
    except InvalidArgument:
        return ""


def _controls(text: str) -> int:
    return sum(char < " " or char == "\x7f" for char in text)


def line_after(pending: str | None, text: str, keys: Sequence[str]) -> TypedLine:
    """What a shell gets that already had `pending` in its line; None where editing makes that unknowable."""
    lines = RUNS_LINE_CHARS.sub("\n", text).split("\n")
    done: str | None = ""
    line, entered = _add(pending, lines[0]), False
    for each in lines[1:]:
        done, line, entered = _end(done, line), _add("", each), True
    for key in keys:
        if key in RUNS_LINE_KEYS:
            done, line, entered = _end(done, line), "", True
        elif key in MAY_RUN_LINE_KEYS:
            done, line, entered = _end(done, line), None, True
        elif key in CLEARING_KEYS:
            line = ""
        elif key in IDLE_KEYS:
            pass
        else:
            # Other keys edit, complete, or fetch a line of the history.
            line = _add(line, " " if key == "Space" else key) if key == "Space" or len(key) == 1 else None
    return TypedLine(done, line, entered)


def _end(done: str | None, line: str | None) -> str | None:
    return None if done is None or line is None else f"{done}{line}\n"


def _add(line: str | None, text: str) -> str | None:
    if line is None or len(line) + len(text) > HALF_TYPED_CHARS or any(char < " " and char != "\t" for char in text):
        return None
    return line + text


def pending_after(pending: str | None, request: q.Send) -> str | None:
    """What a `send` leaves in a shell's line."""
    text = _text(request)
    return line_after(pending, text, _keys(request)[_controls(text) :]).pending


def place_of(session_id: str, look: Look) -> ShellContext:
    """Where an action would happen in a session."""
    words = look.foreground.command.split() if look.foreground else []
    return ShellContext(
        session_id=session_id,
        cwd=look.cwd,
        mode=look.mode,
        foreground=os.path.basename(words[0]).lstrip("-") if words else "",
        secret=look.secret,
        hidden=look.verdict.hidden,
        shell=look.verdict.process is not None and look.verdict.process.name in PROMPT_SHELLS,
    )
