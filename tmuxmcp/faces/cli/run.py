"""`tmuxmcp run`: a command in a live shell, its complete output on stdout and its status as ours."""

from __future__ import annotations

import argparse
import base64
import math
import re
import shlex
import shutil
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio

from tmuxmcp.contract.errors import InvalidArgument, SessionNotFound, TimedOut, TmuxMcpError
from tmuxmcp.contract.words import EVERY_SESSION
from tmuxmcp.faces.cli import attached, output
from tmuxmcp.faces.cli.calling import CLI_CALLER, FOREVER_MS, UNCUT_BYTES, exists, is_fleet_id, telling, with_any
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.sessions import registry

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract import results as r
    from tmuxmcp.nodes.fleet import AnyBroker

SHORT_BYTES = 64 * 1024
"""Bytes of output that come with the result itself; what is longer is read in pieces."""

OUTPUT_PIECE_BYTES = 8 * 1024 * 1024
"""Raw bytes read at once."""

TWICE_S = 2.0
"""Two Ctrl-C within this time leave the command alone."""


def run(options: argparse.Namespace) -> int:
    """`tmuxmcp run`."""
    if not [word for word in options.words if word != "--"] and options.adopt != "undo":
        options.parser.error("there is no COMMAND")
    return with_any(options, _run)


async def _run(broker: AnyBroker, options: argparse.Namespace) -> int:
    name, text = await _command(broker, options)
    if not options.request_id:  # else it may be of an earlier session
        facts = await broker.get_session(name)
        output.note(facts.note)
        name = facts.session_id
    timeout_ms = FOREVER_MS if options.timeout_ms is None else options.timeout_ms
    began = time.monotonic()
    result = await _interruptible(broker, name, text, timeout_ms, options)
    if result is None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is nothing left to interrupt
        name = _runs_in(broker, name, options)
        of = f" {name}" if name else ""
        output.note(f"left running in session{of}; `tmuxmcp read{of}` gives its output")
        return 128 + signal.SIGINT
    if options.json:
        output.write_result(result)
    elif result.truncated:
        async for piece in _pieces(broker, result.session_id, result.start_offset, result.end_offset):
            output.write(piece)
    else:
        output.write_text(result.output)
    far = effective(options)[0].fleet != "off"
    if far and result.outcome == "timeout" and result.effective_timeout_ms and not options.json:
        return await _waited_on(broker, result, began + timeout_ms / 1000)
    if not options.json and not far and await attached.wanted(result):
        return await _connected(cast("Broker", broker), result)
    output.note(result.note)
    return _status(result)


async def _connected(broker: Broker, result: r.RunResult) -> int:
    """Let the person answer what the command asks; its status, once it has ended."""
    ended = await attached.connected(broker, result)
    if ended is None:
        name = result.session_id
        output.note(f"it goes on in session {name}; `tmuxmcp attach --take {name}` connects you again")
        return output.OURS_IN_RUN
    if ended.command and ended.command.end_offset is not None:
        async for piece in _pieces(broker, result.session_id, result.end_offset, ended.command.end_offset):
            output.write_text(piece)
    return _code(ended.command)


async def _waited_on(broker: AnyBroker, result: r.RunResult, until: float) -> int:
    """Go on waiting where another machine waits no longer in one call; print the rest, and give the status.

    Args:
        until: by the clock of `time.monotonic`.
    """
    at = result.end_offset
    while (left_s := until - time.monotonic()) > 0:
        with telling(broker) as operations:
            seen = await attached.until_ended(operations, result, min(int(left_s * 1000), FOREVER_MS))
        command = seen.command
        if command and command.end_offset is not None:
            async for piece in _pieces(broker, result.session_id, at, command.end_offset):
                output.write_text(piece)
            return _code(command)
        if seen.exited:
            output.note("the session has ended")
            return _code(None)
        if seen.outcome == "command" and result.command_number is None:
            output.note(f"a command has ended in session {result.session_id}: whether it is this one cannot be told")
            return output.OURS_IN_RUN
        if seen.outcome not in ("timeout", "command"):
            output.note(f"it goes on in session {result.session_id}: {seen.outcome}")
            return output.OURS_IN_RUN
    output.note(f"timed out; it goes on in session {result.session_id}")
    return TimedOut.exit_status


def _code(command: r.Command | None) -> int:
    """The exit code of a command that has ended."""
    if command is None or command.exit_code is None:
        output.note("it has ended; its exit status is not known")
        return output.OURS_IN_RUN
    return command.exit_code


def _status(result: r.RunResult) -> int:
    if result.exit_code is not None:
        return result.exit_code
    if result.outcome == "timeout":
        output.note(f"timed out after {result.duration_ms} ms; it goes on in session {result.session_id}")
        return TimedOut.exit_status
    return output.OURS_IN_RUN


async def _command(broker: AnyBroker, options: argparse.Namespace) -> tuple[str, str]:
    """Which session, and which command."""
    session, words = options.session, options.words
    if session is None and words and is_fleet_id(words[0]) and effective(options)[0].fleet != "off":
        session = words[0]
        words = options.parser.take_leading(options, words[1:])
    elif session is None and words and options.adopt != "undo":
        session = await session_meant(broker, words, effective(options)[0].state_dir)
        if session:
            words = options.parser.take_leading(options, words[1:])
    if words[:1] == ["--"]:
        words = words[1:]
    elif len(words) > 1 and any(char.isspace() for char in words[0]):
        # No program is called so: it is shell text, and what follows can only be options.
        words = words[:1] + options.parser.take_leading(options, words[1:])
    if options.adopt == "undo" and session is None and words:
        session, words = words[0], words[1:]
    if options.adopt == "undo" and not words:
        return session or "", ""
    if not words:
        raise InvalidArgument("There is no COMMAND.", hint="See `tmuxmcp run --help`.")
    return session or "", words[0] if len(words) == 1 else shlex.join(words)


async def _interruptible(
    broker: AnyBroker, session_id: str, text: str, timeout_ms: int, options: argparse.Namespace
) -> r.RunResult | None:
    """Run it; Ctrl-C is passed on to what is in front, and the second one within `TWICE_S` gives up (None)."""
    result: r.RunResult | None = None
    failed: TmuxMcpError | None = None
    async with anyio.create_task_group() as tg:

        async def listen() -> None:
            last = -math.inf
            with anyio.open_signal_receiver(signal.SIGINT) as interrupts:
                async for _ in interrupts:
                    now = time.monotonic()
                    if now - last < TWICE_S:
                        tg.cancel_scope.cancel()
                    last = now
                    if where := _runs_in(broker, session_id, options):
                        with suppress(TmuxMcpError):
                            await broker.signal("INT", session_id=where)

        tg.start_soon(listen)
        try:
            with telling(broker) as operations:
                result = await operations.run(
                    text,
                    session_id,
                    timeout_ms=timeout_ms,
                    max_bytes=UNCUT_BYTES if options.json else SHORT_BYTES,
                    adopt=options.adopt,
                    request_id=options.request_id,
                )
        except TmuxMcpError as error:
            failed = error
        tg.cancel_scope.cancel()
    if failed:
        raise failed
    return result


def _runs_in(broker: AnyBroker, session_id: str, options: argparse.Namespace) -> str:
    """The session in which a command runs: with a `request_id` that of the first call; empty while it is not known."""
    if session_id or effective(options)[0].fleet != "off":
        return session_id
    return cast("Broker", broker).session_of_call(options.request_id)


async def _pieces(broker: AnyBroker, session_id: str, at: int, end: int) -> AsyncIterator[str]:
    """Output between two offsets, however long, a piece at a time; cut where a line ends."""
    from tmuxmcp.terminal.text.plain import plain

    rest = b""
    while at < end:
        size = min(OUTPUT_PIECE_BYTES, end - at)
        raw = await broker.read("raw", session_id, since=at, max_bytes=size)
        output.note(raw.note)
        data = rest + base64.b64decode(raw.content)
        if raw.next_offset <= at:
            break
        at = raw.next_offset
        cut = len(data) if at >= end else data.rfind(b"\n") + 1
        yield plain(data[:cut], raw.cols, raw.rows).text
        rest = data[cut:]


# ---- The first word of `tmuxmcp run WORD ...`: a session, a command, or a typing error that is neither ---------------

MAYBE_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What can be a session's id; any other word begins a command."""

_OF_BASH = """alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs
disown echo enable eval exec exit export false fc fg for function getopts hash help history if jobs kill let local
logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend test time
times trap true type typeset ulimit umask unalias unset until wait while"""
_OF_OTHERS = """abbr and autoload begin bindkey chdir compdef contains emit emulate functions math noglob nocorrect not
or print rehash set_color setopt string unsetopt whence where which zmodload"""
IN_SHELLS = frozenset(f"{_OF_BASH} {_OF_OTHERS}".split())
"""Commands of shells that are no programs."""


async def session_meant(broker: AnyBroker, words: Sequence[str], state_dir: Path) -> str | None:
    """The session that the first word names; None: it begins a command.

    Raises:
        InvalidArgument: it is a session and a command, or a session without a command.
        SessionNotFound: it is no command, and looks like a session or would make the default session.
    """
    word = words[0]
    if not MAYBE_SESSION_ID.fullmatch(word):
        return None
    is_command = word in IN_SHELLS or shutil.which(word) is not None
    as_command = f"`tmuxmcp run -- {word} ...` runs it as a command."
    if await exists(broker, word):
        if len(words) == 1 and is_command:
            return None
        if len(words) == 1:
            raise InvalidArgument(f"'{word}' is a session; there is no COMMAND.", hint=as_command)
        if is_command:
            raise InvalidArgument(
                f"'{word}' is a session and a command.",
                hint=f"`tmuxmcp run -s {word} ...` means the session. {as_command}",
            )
        return word
    if is_command:
        return None
    rows = (await broker.list_sessions(include_exited=True, limit=EVERY_SESSION)).sessions
    ids = [each.session_id for each in rows if not each.ended or each.ended.reason != "destroyed"]
    if near := get_close_matches(word, ids, n=1, cutoff=0.7):
        raise SessionNotFound(
            f"There is no session '{word}'.",
            hint=f"Did you mean `tmuxmcp run {near[0]} ...`? {as_command}",
            session_id=word,
        )
    if len(words) > 1 and not _default_runs(state_dir):
        raise SessionNotFound(
            f"There is no session '{word}', and no command of that name.", hint=as_command, session_id=word
        )
    return None


def _default_runs(state_dir: Path) -> bool:
    """Whether the command line's default session is there: its shell may know commands that we do not."""
    try:
        return registry.seems_running(registry.find(state_dir, "", CLI_CALLER))
    except SessionNotFound:
        return False
