"""The verbs that are about sessions, `run` apart: each one call of the broker, and what came of it on stdout."""

from __future__ import annotations

import argparse
import gc
import os
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.broker.call import Call
from tmuxmcp.broker.confirmations import Confirmations
from tmuxmcp.cli import output
from tmuxmcp.cli.arguments import program_words, session_id
from tmuxmcp.cli.service import effective
from tmuxmcp.errors import InvalidArgument, SessionExited, SessionNotFound, TimedOut

if TYPE_CHECKING:
    from tmuxmcp.broker import results as r
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.host.limits import Limits

CALL = Call(caller="cli")
"""All command lines of a user are one caller: they share a default session and a read cursor."""

FOREVER_MS = 10 * 365 * 24 * 3600 * 1000
"""The clamp on waits is there for MCP clients, who give up after a minute; a person has Ctrl-C."""

MOST_BYTES = 16 * 1024 * 1024
"""The contract's largest `max_bytes`: what a person or a pipe reads is not cut as a model's is."""


def with_broker(options: argparse.Namespace, work: Callable[[Broker, argparse.Namespace], Awaitable[int]]) -> int:
    """Open a broker, do the work and let go of the sessions."""
    from tmuxmcp.app import open_broker, setup_logging

    settings, origins = effective(options)
    setup_logging("warning" if origins["log_level"] == "default" else settings.log_level, settings.log_format)
    # A session outlives the command that made it, whatever `on_exit` says of servers.
    settings = settings.model_copy(update={"max_wait_ms": FOREVER_MS, "on_exit": "keep"})

    async def opened() -> int:
        async with open_broker(settings) as broker:
            return await work(broker, options)

    gc.enable()
    return anyio.run(opened)


def new(options: argparse.Namespace) -> int:
    """`tmuxmcp new`."""
    return with_broker(options, _new)


def send(options: argparse.Namespace) -> int:
    """`tmuxmcp send`."""
    return with_broker(options, _send)


def read(options: argparse.Namespace) -> int:
    """`tmuxmcp read`."""
    return with_broker(options, _read)


def search(options: argparse.Namespace) -> int:
    """`tmuxmcp search`."""
    return with_broker(options, _search)


def list_(options: argparse.Namespace) -> int:
    """`tmuxmcp list`."""
    if options.watch:
        from tmuxmcp.cli.watch import watch_list

        return watch_list(options)
    return with_broker(options, _list)


def view(options: argparse.Namespace) -> int:
    """`tmuxmcp view`."""
    return with_broker(options, _view)


def kill(options: argparse.Namespace) -> int:
    """`tmuxmcp kill`."""
    return with_broker(options, _kill)


def attach(options: argparse.Namespace) -> int:
    """`tmuxmcp attach`: ends as tmux."""
    status = with_broker(options, _attach)
    if status or options.json:
        return status
    environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
    os.execve(options.argv[0], options.argv, environment)


@contextmanager
def telling() -> Iterator[Call]:
    """A call that tells a person at the terminal how it goes; what it told is erased at the end."""
    progress = output.Progress()
    try:
        yield replace(CALL, progress=progress)
    finally:
        progress.erase()


async def _new(broker: Broker, options: argparse.Namespace) -> int:
    program, *args = program_words(options) or [""]
    given = _given(options, "name", "rows", "cols", "cwd", "sandbox")
    if options.limit:
        given["limits"] = _limits(dict(options.limit))
    result = await broker.create_session(program, args, env=dict(options.env or []), call=CALL, **given)
    if options.json:
        output.write_result(result)
        return 0
    output.write(result.session_id + "\n")
    if sys.stderr.isatty():
        output.note(f"watch it with: {result.attach_command}")
    output.note(result.note)
    return 0


async def _send(broker: Broker, options: argparse.Namespace) -> int:
    session, text = await _send_words(broker, options)
    given = _wait_arguments(options)
    with telling() as call:
        result = await broker.send(
            text,
            keys=options.key or [],
            enter=options.enter,
            session_id=session,
            read="none" if options.wait_for == "none" else "auto",  # the next `read` gets all of it
            call=call,
            **given,
        )
    if options.json:
        output.write_result(result)
    elif result.result:
        output.write_text(result.result.content)
        output.note(result.result.note)
    output.note(result.note)
    return _wait_status(options, result.result)


async def _send_words(broker: Broker, options: argparse.Namespace) -> tuple[str, str]:
    """Which session, and what text: `send ID TEXT`, `send ID`, `send TEXT`."""
    words = options.words
    if len(words) > (2 if options.session is None else 1):
        raise InvalidArgument("There is one TEXT to send.", hint="Put it into quotes.")
    if options.session is not None:
        return options.session, "".join(words)
    if len(words) != 1:
        return words[0] if words else "", words[1] if words else ""
    # One word that could be neither name nor typing error of a name is text.
    if not all(char.isalnum() or char in "_-" for char in words[0]):
        return "", words[0]
    await broker.get_session(words[0], call=CALL)
    return words[0], ""


async def _read(broker: Broker, options: argparse.Namespace) -> int:
    given = _wait_arguments(options) | _given(options, "view", "since", "offset", "limit", "format")
    with telling() as call:
        result = await broker.read(session_id=session_id(options), call=call, **given)
    if options.json:
        output.write_result(result)
    elif result.encoding == "base64":
        import base64

        output.write(base64.b64decode(result.content))
    else:
        output.write_text(result.content)
    if not options.json:
        output.note(result.note)
        if result.truncated and (result.encoding or options.since is not None):
            output.note(f"there are {result.omitted_bytes:,} bytes more: read --since {result.next_offset}")
    return _wait_status(options, result)


async def _search(broker: Broker, options: argparse.Namespace) -> int:
    words = options.words
    if len(words) > (2 if options.session is None else 1):
        raise InvalidArgument("There is one PATTERN to search for.", hint="Put it into quotes.")
    session = options.session if options.session is not None else words[0] if len(words) == 2 else ""
    with telling() as call:
        result = await broker.search(words[-1], session, call=call, **_given(options, "limit", "context"))
    if options.json:
        output.write_result(result)
    else:
        from tmuxmcp.faces.text import matches

        output.write(matches(result))
        output.note(result.note or (None if result.total else "nothing matches"))
    return 0


async def _list(broker: Broker, options: argparse.Namespace) -> int:
    result = await broker.list_sessions(include_exited=options.all, call=CALL)
    if options.json:
        output.write_result(result)
        return 0
    output.write_table(table_of(result))
    waiting = sum(not each.granted for each in Confirmations(broker.settings.state_dir).all())
    if waiting:
        output.note(f"{waiting} of what agents want to do waits for your answer: tmuxmcp policy pending")
    return 0


def table_of(result: r.ListSessionsResult) -> list[tuple[str, ...]]:
    """The sessions as rows with a heading."""
    return [("ID", "MODE", "PROGRAM", "PID", "SIZE", "AGE", "CWD"), *(_row(each) for each in result.sessions)]


def _row(session: r.SessionSummary) -> tuple[str, ...]:
    mode: str = session.mode
    if session.exited and (session.exit_signal or session.exit_code is not None):
        mode += f" {session.exit_signal or session.exit_code}"
    return (
        session.session_id,
        mode,
        session.program,
        str(session.pid or "-"),
        f"{session.cols}x{session.rows}",
        _age(session.created_at),
        session.cwd or "-",
    )


def _age(created_at: str) -> str:
    seconds = max(int((datetime.now(UTC) - datetime.fromisoformat(created_at)).total_seconds()), 0)
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


async def _view(broker: Broker, options: argparse.Namespace) -> int:
    colours = output.coloured(sys.stdout)
    result = await broker.read(
        view="screen", session_id=session_id(options), format="ansi" if colours else "plain", call=CALL
    )
    if options.json:
        output.write_result(result)
    else:
        output.write(result.content + ("\x1b[0m\n" if colours else "\n"))
        output.note(result.note)
    return 0


async def _attach(broker: Broker, options: argparse.Namespace) -> int:
    facts = await broker.get_session(session_id(options), call=CALL)
    if facts.mode == "lost":
        raise SessionExited(
            f"Session {facts.session_id} is lost: its pane is gone.",
            hint="Somebody killed it, or the tmux server. Its log can still be read.",
        )
    read_only = [] if options.take else ["-r"]
    options.argv = [
        shutil.which(broker.tmux.binary) or broker.tmux.binary,
        *("-S", str(broker.tmux.socket), "attach", *read_only, "-t", shlex.split(facts.attach_command)[-1]),
    ]
    if options.json:
        output.write_json({"session_id": facts.session_id, "argv": options.argv})
    return 0


async def _kill(broker: Broker, options: argparse.Namespace) -> int:
    given = _given(options, "force", "signal", "grace_ms")
    result = await broker.destroy_session(session_id(options), call=CALL, **given)
    if options.json:
        output.write_result(result)
    elif result.survivors:
        output.note(f"these processes could not be ended: {', '.join(map(str, result.survivors))}")
    return 1 if result.survivors else 0


def _limits(words: dict[str, str]) -> Limits:
    from pydantic import ValidationError

    from tmuxmcp.host.limits import Limits

    try:
        return Limits.model_validate_strings(words)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidArgument(
            f"--limit {'.'.join(map(str, first['loc']))}: {first['msg']}.",
            hint=f"Limits are: {', '.join(Limits.model_fields)}.",
        ) from None


def _given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that were given: what was not gets the operation's default."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _wait_arguments(options: argparse.Namespace) -> dict[str, Any]:
    if options.pattern and options.wait_for is None:
        options.wait_for = "pattern"
    given = _given(options, "wait_for", "pattern", "idle_ms", "timeout_ms", "max_bytes")
    return {"max_bytes": MOST_BYTES} | given


def _wait_status(options: argparse.Namespace, result: r.ReadResult | None) -> int:
    """A wait that was asked for and ended without its event."""
    if result is None or result.outcome != "timeout" or options.wait_for is None:
        return 0
    output.note(f"timed out after {result.waited_ms} ms; the program goes on")
    return TimedOut.exit_status


async def exists(broker: Broker, name: str) -> bool:
    """Whether a session has this id."""
    try:
        await broker.get_session(name, call=CALL)
    except SessionNotFound:
        return False
    return True
