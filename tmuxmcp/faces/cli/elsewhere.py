"""Verbs that work on the machine of a session alone: run there, by the person's own ssh.

A session's files, its tmux and its terminal are on its machine. What is said of it over the network goes by operations;
these verbs do not.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from tmuxmcp.contract.errors import InvalidArgument, ProgramNotFound, SessionNotFound, Unsupported
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.attached import KNOWN_TYPES
from tmuxmcp.faces.cli.calling import CLI_CALLER, is_fleet_id
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.nodes.ids import split

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
    from tmuxmcp.contract import requests as q
    from tmuxmcp.contract.call import Call

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
