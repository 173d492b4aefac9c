"""The verbs of people: keep agents from typing into a session, and let them again; and what others of theirs share."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import InvalidArgument, PermissionDenied
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.calling import with_broker
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.machine.ownprocess import in_a_session
from tmuxmcp.sessions import lease

if TYPE_CHECKING:
    from tmuxmcp.broker.answering import WaitingRequest
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.config import Settings
    from tmuxmcp.gate.confirmations import Confirmation


def take(options: argparse.Namespace) -> int:
    """`tmuxmcp take`."""
    return with_broker(options, _take)


def release(options: argparse.Namespace) -> int:
    """`tmuxmcp release`."""
    check_outside()
    return with_broker(options, _release)


def check_outside(why: str = "Only a person gives a session back.") -> None:
    """What an agent runs in its session does not do what is a person's.

    Raises:
        PermissionDenied
    """
    if in_a_session():
        raise PermissionDenied(why, hint="Run it in a terminal of your own.")


def check_person() -> None:
    """No agent answers itself, as far as that can be told.

    Raises:
        PermissionDenied: this runs in a session, or below a server.
    """
    if in_a_session() or _below_a_server():
        raise PermissionDenied("Only a person answers.", hint="Run it in a terminal of your own.")


def _below_a_server() -> bool:
    """Whether a server has started this, as `run_process` does."""
    import psutil

    for process in psutil.Process().parents():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if "serve" in words and any(os.path.basename(word) == "tmuxmcp" for word in words[:4]):
            return True
    return False


def show(what: WaitingRequest) -> None:
    """The agent's words, indented below a heading of ours: they can look like nothing else."""
    kind = "a secret" if what.request.secret else "input"
    where = f"in session {what.session.id}, {what.left_s:.0f} s left"
    _show_words(f"{what.request.id}: an agent asks for {kind} {where}", what.message)


def show_question(question: Confirmation) -> None:
    """What an agent may only do when a person agrees; its words are indented as well."""
    from tmuxmcp.broker.userinput import harmless

    _show_words(f"{question.id}: an agent asks whether it may do something", harmless(question.message))


def _show_words(heading: str, words: str) -> None:
    text = "".join(f"    | {line}\n" for line in words.split("\n"))
    output.write(f"{output.bold(heading, sys.stdout)}\n{text}")
    sys.stdout.flush()


async def _take(broker: Broker, options: argparse.Namespace) -> int:
    name = (await broker.get_session(session_id(options))).session_id
    lease = await broker.take(name)
    value = {"session_id": name, "taken_over": {"by": lease.by, "since": lease.since}}
    output.tell(options.json, value, f"agents do not type into it until you run: tmuxmcp release {name}")
    return 0


async def _release(broker: Broker, options: argparse.Namespace) -> int:
    name = (await broker.get_session(session_id(options))).session_id
    lease = await broker.release(name)
    released = lease is not None
    output.tell(options.json, {"session_id": name, "released": released}, None if released else "nobody had taken it")
    return 0


# ---- `tmuxmcp pause` and `tmuxmcp resume`: no agent types anywhere. At once, so without a broker ---------------------


def pause(options: argparse.Namespace) -> int:
    """`tmuxmcp pause`."""
    settings = _settings(options)
    names = lease.pause(settings.state_dir, session_id(options))
    _audit(settings, options)
    text = f"agents do not type until you run: tmuxmcp resume {'--all' if options.all else names[0]}"
    output.tell(options.json, {"paused": names, "all": options.all}, text)
    return 0


def resume(options: argparse.Namespace) -> int:
    """`tmuxmcp resume`; 1: the session stays paused, with all others."""
    check_outside()
    settings = _settings(options)
    names = lease.resume(settings.state_dir, session_id(options))
    _audit(settings, options)
    if options.json:
        output.write_json({"resumed": names, "all": options.all})
    if not names and not options.all:
        output.note("it stays paused, as all sessions are: tmuxmcp resume --all")
        return 1
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    """The settings; which session is meant was said.

    Raises:
        InvalidArgument
    """
    if options.all == bool(session_id(options)):
        raise InvalidArgument("Say which session, or --all.", hint=f"See `tmuxmcp {options.verb} --help`.")
    return effective(options)[0]


def _audit(settings: Settings, options: argparse.Namespace) -> None:
    """Write down what the person did that concerns agents; it is done, whether that works or not."""
    if settings.audit == "off":
        return
    from tmuxmcp.gate.audit import Audit

    line = {"time": iso(time.time()), "tool": options.verb, "session_id": session_id(options), "via": "cli"}
    try:
        Audit(settings.state_dir).write({**line, "all": options.all, "outcome": "ok"})
    except OSError as error:
        output.note(f"it was done, and is not in the audit: {error.strerror}")
