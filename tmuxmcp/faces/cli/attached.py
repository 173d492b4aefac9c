"""A person's terminal attached to a session, to type in it, until they leave or there is nothing more to type."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import (
    InvalidArgument,
    PermissionDenied,
    ProgramNotFound,
    SessionNotFound,
    TmuxMcpError,
    Unsupported,
)
from tmuxmcp.contract.value import replace
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.calling import CLI_CALLER, FOREVER_MS, is_fleet_id
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.machine.environment import is_usual
from tmuxmcp.machine.ownprocess import in_a_session
from tmuxmcp.nodes.ids import split

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract import results as r
    from tmuxmcp.contract.operations import Operations

DRAWING_NAMES = ("TERM", "COLORTERM", "NCURSES_")
"""How the names of variables begin that say how to draw on the terminal, beside the usual ones."""

KNOWN_TYPES = ("xterm-256color", "xterm", "vt100")
"""Terminal types of which newer terminals understand as much as tmux needs, the best first."""


def command(broker: Broker, attach_command: str, *, types: bool = True) -> list[str]:
    """The argv that attaches a terminal to a session, for typing or to watch."""
    words = shlex.split(attach_command)[1:]
    if types:
        words.remove("-r")
    return [shutil.which(broker.tmux_binary) or broker.tmux_binary, *words]


def environment() -> dict[str, str]:
    """Variables for a tmux that shows itself on our terminal, whose type may have no entry here (terminfo(5)).

    No others: any program of our user reads them, for as long as the person watches.
    """
    found = {name: value for name, value in os.environ.items() if is_usual(name) or name.startswith(DRAWING_NAMES)}
    term = found.get("TERM", "")
    if term and not _has_entry(term):
        known = next(filter(_has_entry, KNOWN_TYPES), term)
        found["TERM"] = known
        if known != term:
            output.note(f"this machine does not know the terminal type {term}; {known} is taken for it")
    return found


@cache
def _has_entry(term: str) -> bool:
    """Whether this machine has the entry of a terminal type, or nothing here can tell."""
    try:
        import curses

        curses.setupterm(term, 2)  # the first that is found is the only one that curses reads in its life
    except ImportError:
        return True
    except curses.error:
        return False
    return True


async def until_over(
    argv: list[str],
    signals: AsyncIterator[signal.Signals],
    begun: Callable[[int], Awaitable[None]],
    over: Callable[[], Awaitable[None]],
) -> int:
    """Attach until the person leaves, `over` returns, or a signal other than SIGINT arrives; gives the client's pid.

    Args:
        signals: the receiver, opened by the caller before the session is held for the person.
        begun: is told the pid at once.
    """
    process = await anyio.open_process(argv, stdin=None, stdout=None, stderr=None, env=environment())
    try:
        await begun(process.pid)
        async with anyio.create_task_group() as tg:

            async def hung_up() -> None:
                async for number in signals:
                    if number != signal.SIGINT:
                        process.terminate()

            async def ended() -> None:
                await over()
                process.terminate()

            tg.start_soon(hung_up)
            tg.start_soon(ended)
            await process.wait()
            tg.cancel_scope.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
            with anyio.move_on_after(2, shield=True):
                await process.wait()
    return process.pid


# ---- A person at the terminal of `tmuxmcp run` is connected to a command that asks for something ---------------------
#
# Until it has ended.

ASKING_MODES = ("line_input", "password", "pager", "editor", "fullscreen")
"""Modes in which a command waits for a person's keys."""


async def wanted(result: r.RunResult) -> bool:
    """Whether the command waits for input and the person at this terminal wants to give it."""
    if result.completed or result.outcome != "ready" or result.mode not in ASKING_MODES:
        return False
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) or in_a_session():
        return False
    output.note(f"it waits for input in session {result.session_id}")
    sys.stderr.write("Connect to it? [Y/n] ")
    sys.stderr.flush()
    await anyio.wait_readable(sys.stdin)  # a terminal is, once there is a line; until then Ctrl-C is heard
    said = sys.stdin.readline()
    return said.strip().lower() in ("", "y", "yes", "c", "connect") and said != ""


async def connected(broker: Broker, result: r.RunResult) -> r.ReadResult | None:
    """Attach the person, who holds the session meanwhile; what the wait for the end says, None: they left before."""
    name, tty = result.session_id, os.ttyname(0)
    argv = command(broker, (await broker.get_session(name)).attach_command)
    ended: r.ReadResult | None = None

    async def begun(pid: int) -> None:
        await broker.take(name, "attach", pid, tty)

    async def over() -> None:
        nonlocal ended
        ended = await _end(broker, result)

    # From before the session is held: a terminal that goes at any moment gives it back.
    with anyio.open_signal_receiver(signal.SIGHUP, signal.SIGTERM) as signals:
        try:
            await broker.take(name, "attach", 0, tty)
            await until_over(argv, signals, begun, over)
        finally:
            with suppress(TmuxMcpError):
                await broker.release(name)
    return ended


async def _end(broker: Broker, result: r.RunResult) -> r.ReadResult:
    """Wait until the command has ended, or the session."""
    while True:
        seen = await until_ended(broker, result, FOREVER_MS)
        if seen.outcome not in ("taken", "timeout"):
            return seen


async def until_ended(broker: Operations, result: r.RunResult, timeout_ms: int) -> r.ReadResult:
    """Wait until the command of a `run` has ended, by its number where that is known; `command` is that one or null."""
    number = result.command_number
    since = result.end_offset if number is None else None
    seen = await broker.read(
        "raw",
        result.session_id,
        since=since,
        command=number,
        wait_for="command",
        timeout_ms=timeout_ms,
        max_bytes=1,
    )
    ended = number is not None and seen.command is not None and seen.command.end_offset is not None
    return seen if ended else replace(seen, command=None)


# ---- `tmuxmcp attach` within a tmux ----------------------------------------------------------------------------------
#
# A window of the person's own tmux, and never a session inside of a session.

NESTING_ANSWER_S = 5.0
"""How long the person's tmux may take."""


def refuse_inside_ours(socket: Path, environment: Mapping[str, str]) -> None:
    """Refuse to attach from within a session, which would show itself.

    Raises:
        PermissionDenied
    """
    theirs = environment.get("TMUX", "").split(",")[0]
    if in_a_session() or (theirs and os.path.realpath(theirs) == os.path.realpath(socket)):
        raise PermissionDenied(
            "This terminal is itself in a session of tmuxmcp: a terminal shown within itself has no end.",
            hint="Attach from a terminal of your own, or look once with `tmuxmcp view`.",
        )


def open_window(name: str, words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Run a command in a new window of the tmux that this terminal is a pane of; False: it is none, or cannot.

    Args:
        name: of the window: letters, digits, `_` and `-`.
        words: exact; no shell and no tmux reads them.
    """
    tmux = shutil.which("tmux")
    pane = environment.get("TMUX_PANE", "")
    if tmux is None or not environment.get("TMUX") or not pane or not sys.stdin.isatty():
        return False
    # The variable is inherited by terminals that are started in a tmux, and are no pane of it.
    if _output_of(tmux, "display-message", "-p", "-t", pane, "#{pane_tty}") != os.ttyname(0):
        return False
    command = ["env", "-u", "TMUX", "-u", "TMUX_PANE", *words]
    # A word that ends with ; would end tmux's command.
    exact = [f"{word[:-1]}\\;" if word.endswith(";") else word for word in command]
    return _output_of(tmux, "new-window", "-P", "-F", "#{window_id}", "-n", name, *exact).startswith("@")


def _output_of(*argv: str) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=NESTING_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# ---- Verbs that work on the machine of a session alone: run there, by the person's own ssh ---------------------------
#
# A session's files, its tmux and its terminal are on its machine. What is said of it over the network goes by
# operations; these verbs do not.

LOCAL_OPTIONS = ("--config", "--fleet", "--state-dir")
"""Options that are for this machine."""

TAKE_KNOWN_TYPE = f"! command -v infocmp >/dev/null || infocmp >/dev/null 2>&1 || TERM={KNOWN_TYPES[0]}"
"""For sh on a machine that may lack the entry of our terminal's type: there as `attached.environment` does it here."""


def is_elsewhere(options: argparse.Namespace) -> bool:
    """Whether a verb is for a session that is on another machine, and works there alone."""
    if getattr(options, "all", False):
        return False
    named = _named(options)
    if is_fleet_id(named):
        return True
    return not ("/" in named or named.endswith(".cast")) and effective(options)[0].fleet != "off"


def _named(options: argparse.Namespace) -> str:
    """The session that a verb names; empty: the default session."""
    return options.session or getattr(options, "id", None) or ""


def run(options: argparse.Namespace, words: Sequence[str]) -> int:
    """Become ssh, which runs the verb on the session's machine."""
    named = _named(options)
    session_id, host, attach_command = anyio.run(_way_to_session, options, named)
    name = split(session_id)[0]
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if options.verb == "attach" and not options.take:
        command = shlex.join(["sh", "-c", f"{TAKE_KNOWN_TYPE}; exec {attach_command}"])  # their own shell may be any
    else:
        there = [name if named and word == named else word for word in _without(LOCAL_OPTIONS, words)]
        there += [] if named else ["--session", name]
        command = shlex.join(["tmuxmcp", *there, "--state-dir", _state_dir(attach_command)])
    argv = ["ssh", *["-t"] * terminal, "--", host, command]
    if options.json and options.verb == "attach":
        output.write_json({"session_id": session_id, "argv": argv})
        return 0
    ssh = shutil.which("ssh")
    if ssh is None:
        raise ProgramNotFound("There is no ssh on this machine.", hint="Install it.")
    sys.stdout.flush()
    os.execv(ssh, argv)


async def _way_to_session(options: argparse.Namespace, named: str) -> tuple[str, str, str]:
    """The session's whole id, where ssh finds its machine, and the command that attaches there."""
    from tmuxmcp.app import open_fleet, setup_logging

    settings = effective(options)[0]
    setup_logging("warning", settings.log_format)
    if settings.fleet == "off":
        raise InvalidArgument(f"{named} is on another machine, and no fleet is named.", hint="Give --fleet.")
    async with open_fleet("", settings, CLI_CALLER) as fleet:
        if named:
            session_id = (await fleet.get_session(named)).session_id
        else:
            session_id = (await fleet.list_sessions(limit=1)).default_session_id or ""
        if not session_id:
            raise SessionNotFound("There is no default session yet.", hint="Name one: `tmuxmcp list` shows them.")
        name, node = split(session_id)
        machine = next(each for each in await fleet.machines() if each.name == node)
        if not machine.ssh:
            raise Unsupported(
                f"Nobody said how ssh reaches {node}, and `tmuxmcp {options.verb}` works on a session's own machine.",
                hint=f'Give it ssh = "USER@HOST" in {settings.fleet}, or run `tmuxmcp {options.verb} {name}` there.',
                node=node,
            )
        facts = await fleet.transport.call(node, q.GetSession(name), Call(CLI_CALLER, person=True))
        return session_id, machine.ssh, facts.attach_command


def _state_dir(attach_command: str) -> str:
    """The state directory that the command which attaches names: that of the socket."""
    words = shlex.split(attach_command)
    return str(Path(words[words.index("-S") + 1]).parent)


def _without(options: Sequence[str], words: Sequence[str]) -> list[str]:
    """The words without these options and their values."""
    left: list[str] = []
    skip = False
    for word in words:
        if skip or word.partition("=")[0] in options:
            skip = not skip and "=" not in word
            continue
        left.append(word)
    return left
