"""The verbs that are about sessions, `run` apart: each one call of the broker, and what came of it on stdout."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.errors import InvalidArgument, ProgramNotFound, SessionExited, SessionNotFound, TimedOut
from tmuxmcp.contract.settings import Limits
from tmuxmcp.contract.value import replace
from tmuxmcp.contract.words import EVERY_SESSION
from tmuxmcp.faces.cli import attached, calling, output
from tmuxmcp.faces.cli.arguments import program_words, session_id
from tmuxmcp.faces.cli.calling import UNCUT_BYTES, is_fleet_id, telling, with_broker
from tmuxmcp.faces.cli.run import MAYBE_SESSION_ID
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.faces.cli.watch import table_of, terminal_cols, watch_list
from tmuxmcp.gate.confirmations import Confirmations
from tmuxmcp.sessions import registry

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract import results as r
    from tmuxmcp.nodes.fleet import AnyBroker


LAST_LINES = 20
"""In so many of them, the last one with text is looked for."""


def attach(options: argparse.Namespace) -> int:
    """`tmuxmcp attach`: ends as tmux; in a tmux of the person's own, by a window there."""
    if not options.json:
        socket = effective(options)[0].state_dir / "tmux.sock"
        attached.refuse_inside_ours(socket, os.environ)
        if os.environ.get("TMUX") and with_broker(options, _attach_in_window) == 0:
            return 0
    status = with_broker(options, _attach)
    if status or options.json:
        return status
    os.execve(options.argv[0], options.argv, attached.environment())


async def new(broker: AnyBroker, options: argparse.Namespace) -> int:
    """`tmuxmcp new`."""
    program, *args = program_words(options) or [""]
    given = _given_options(options, "name", "rows", "cols", "cwd", "sandbox", "host")
    if options.record:
        given["record"] = "on_failure" if options.record == "on_failure" else True
    if options.node or options.label:
        given["placement"] = q.Placement(node=options.node or "", labels=dict(options.label or []))
    if options.limit:
        given["limits"] = _limits(dict(options.limit))
    try:
        result = await broker.create_session(
            program, args, env=dict(options.env or []), request_id=options.request_id, **given
        )
    except ProgramNotFound as error:
        if options.name is None and MAYBE_SESSION_ID.fullmatch(program):
            words = shlex.join([program, *args])
            error.hint += f" If '{program}' is to be the session's name: `tmuxmcp new --name {words}`."
        raise
    if options.json:
        output.write_result(result)
        return 0
    output.write(result.session_id + "\n")
    if sys.stderr.isatty():
        output.note(f"watch it with: {result.attach_command}")
    output.note(result.note)
    return 0


async def send(broker: AnyBroker, options: argparse.Namespace) -> int:
    """`tmuxmcp send`."""
    session, text = await _send_words(broker, options)
    given, began = _wait_arguments(options), time.monotonic()
    with telling(broker) as operations:
        result = await operations.send(
            text,
            keys=options.key or [],
            enter=options.enter,
            secret=options.secret,
            session_id=session,
            request_id=options.request_id,
            read="none" if options.wait_for == "none" else "auto",  # the next `read` gets all of it
            **given,
        )
        if result.result and calling.goes_on(result.result):
            more = await calling.on(operations, result.session_id, given, began, result.result)
            result = replace(result, result=more)
    if options.json:
        output.write_result(result)
    elif result.result:
        output.write_text(result.result.content)
        output.note(result.result.note)
    output.note(result.note)
    return _wait_status(options, result.result)


async def _send_words(broker: AnyBroker, options: argparse.Namespace) -> tuple[str, str]:
    """Which session, and what text: `send ID TEXT`, `send ID`, `send TEXT`."""
    words = options.words
    if len(words) > (2 if options.session is None else 1):
        raise InvalidArgument("There is one TEXT to send.", hint="Put it into quotes.")
    if options.session is not None:
        return options.session, "".join(words)
    if len(words) != 1:
        return words[0] if words else "", words[1] if words else ""
    if is_fleet_id(words[0]) and effective(options)[0].fleet != "off":
        return words[0], ""
    # One word that could be neither name nor typing error of a name is text.
    if not all(char.isalnum() or char in "_-" for char in words[0]):
        return "", words[0]
    await broker.get_session(words[0])
    return words[0], ""


async def read(broker: AnyBroker, options: argparse.Namespace) -> int:
    """`tmuxmcp read`."""
    waits = _wait_arguments(options)
    given = _given_options(options, "command", "view", "since", "offset", "limit", "format")
    with telling(broker) as operations:
        if effective(options)[0].fleet != "off" and waits.get("wait_for", "none") != "none":
            result = await calling.wait_then_read(operations, session_id(options), waits, given)
        else:
            result = await operations.read(session_id=session_id(options), **waits, **given)
    if options.json:
        output.write_result(result)
    elif result.encoding == "base64":
        import base64

        output.write_text(base64.b64decode(result.content))
    else:
        output.write_text(result.content)
    if not options.json:
        output.note(result.note)
        if result.outcome == "command" and result.command:
            output.note(_end_line(result.command))
        if result.truncated and (result.encoding or options.since is not None):
            output.note(f"there are {result.omitted_bytes:,} bytes more: read --since {result.next_offset}")
    return _wait_status(options, result)


def _end_line(command: r.Command) -> str:
    """How a command that was waited for ended, on one line."""
    status = "ended" if command.exit_code is None else f"ended with exit code {command.exit_code}"
    return f"command {command.number} {status}: {(command.text or '')[:200]}".rstrip(": ")


async def search(broker: AnyBroker, options: argparse.Namespace) -> int:
    """`tmuxmcp search`."""
    words = options.words
    if len(words) > (2 if options.session is None else 1):
        raise InvalidArgument("There is one PATTERN to search for.", hint="Put it into quotes.")
    session = options.session if options.session is not None else words[0] if len(words) == 2 else ""
    with telling(broker) as operations:
        result = await operations.search(words[-1], session, **_given_options(options, "limit", "context"))
    if options.json:
        output.write_result(result)
    else:
        from tmuxmcp.faces.text import matches

        output.write(matches(result))
        output.note(result.note or (None if result.total else "nothing matches"))
    return 0


async def list_(broker: AnyBroker, options: argparse.Namespace) -> int:
    """`tmuxmcp list`."""
    if options.watch:
        return await watch_list(broker, options)
    result = await broker.list_sessions(include_exited=options.all, limit=EVERY_SESSION)
    if options.json:
        output.write_result(result)
        return 0
    if effective(options)[0].fleet != "off":
        output.write_lines(await table_of(broker, result, terminal_cols()))
        output.note(result.note)
        return 0
    last = partial(_last_line, effective(options)[0].state_dir) if options.all else None
    output.write_lines(await table_of(broker, result, terminal_cols(), last))
    waiting = sum(not each.granted for each in Confirmations(effective(options)[0].state_dir).all())
    if waiting:
        output.note(f"{waiting} of what agents want to do waits for your answer: tmuxmcp policy pending")
    return 0


def _last_line(state_dir: Path, name: str) -> str:
    """The last line with text that an ended session printed."""
    try:
        session = registry.find(state_dir, name)
    except SessionNotFound:
        return ""
    lines = session.reader.last_lines(session.log.size(), LAST_LINES)
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


async def view(broker: AnyBroker, options: argparse.Namespace) -> int:
    """`tmuxmcp view`."""
    colours = output.coloured(sys.stdout)
    name, _, earlier = session_id(options).partition(".")
    generation = int(earlier) if earlier.isdecimal() else None
    style: Literal["ansi", "plain"] = "ansi" if colours else "plain"
    result = await broker.read(view="screen", session_id=name, format=style, generation=generation)
    if options.json:
        output.write_result(result)
    else:
        output.write(result.content + ("\x1b[0m\n" if colours else "\n"))
        output.note(result.note)
    return 0


async def _attach(broker: Broker, options: argparse.Namespace) -> int:
    facts = await broker.get_session(session_id(options))
    if facts.mode == "lost":
        raise SessionExited(
            f"Session {facts.session_id} is lost: its pane is gone.",
            hint="Somebody killed it, or the tmux server. Its log can still be read.",
        )
    if options.take and not options.json and sys.stdin.isatty():  # else tmux says why it does not attach
        await broker.take(facts.session_id, "attach", os.getpid(), os.ttyname(0))
    options.argv = attached.command(broker, facts.attach_command, types=options.take)
    if options.json:
        output.write_json({"session_id": facts.session_id, "argv": options.argv})
    return 0


async def _attach_in_window(broker: Broker, options: argparse.Namespace) -> int:
    """Attach in a new window of the person's tmux; 1: there is none."""
    name = (await broker.get_session(session_id(options))).session_id
    state_dir = effective(options)[0].state_dir.absolute()
    words = [sys.executable, "-m", "tmuxmcp", "attach", "--state-dir", str(state_dir), name]
    if not attached.open_window(name, [*words, *["--take"] * options.take], os.environ):
        return 1
    output.note(f"session {name} is in a new window of your tmux")
    return 0


async def kill(broker: AnyBroker, options: argparse.Namespace) -> int:
    """`tmuxmcp kill`."""
    given = _given_options(options, "force", "signal", "grace_ms")
    result = await broker.destroy_session(session_id(options), **given)
    if options.json:
        output.write_result(result)
        return 1 if result.survivors else 0
    output.note(result.note)
    if result.survivors:
        output.note(f"these processes could not be ended: {', '.join(map(str, result.survivors))}")
    return 1 if result.survivors else 0


def _limits(words: dict[str, str]) -> Limits:
    from pydantic import ValidationError

    try:
        return Limits.model_validate_strings(words)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidArgument(
            f"--limit {'.'.join(map(str, first['loc']))}: {first['msg']}.",
            hint=f"Limits are: {', '.join(Limits.model_fields)}.",
        ) from None


def _given_options(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that were given: what was not gets the operation's default."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _wait_arguments(options: argparse.Namespace) -> dict[str, Any]:
    if options.pattern and options.wait_for is None:
        options.wait_for = "pattern"
    given = _given_options(options, "wait_for", "pattern", "idle_ms", "timeout_ms", "max_bytes")
    return {"max_bytes": UNCUT_BYTES} | given


def _wait_status(options: argparse.Namespace, result: r.ReadResult | None) -> int:
    """A wait that was asked for and ended without its event."""
    if result is None or result.outcome != "timeout" or options.wait_for is None:
        return 0
    output.note(f"timed out after {result.waited_ms} ms; the program goes on")
    return TimedOut.exit_status
