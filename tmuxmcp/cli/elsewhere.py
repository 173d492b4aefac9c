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

from tmuxmcp.cli import output
from tmuxmcp.cli.calling import CALLER
from tmuxmcp.cli.service import effective
from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call
from tmuxmcp.errors import InvalidArgument, NodeUnreachable, ProgramNotFound, SessionNotFound, Unsupported
from tmuxmcp.nodes.names import AT, is_node, split

OVER_THE_NETWORK = frozenset({"new", "run", "send", "read", "search", "list", "view", "kill", "fleet"})
"""Verbs whose work is operations: they go to each machine as those do."""

OURS = ("--config", "--fleet", "--state-dir")
"""Options that are for this machine."""


def meant(options: argparse.Namespace) -> str:
    """The id of another machine's session that a verb names which works there alone; empty: there is none."""
    if options.verb in OVER_THE_NETWORK:
        return ""
    named = [getattr(options, name, None) for name in ("session", "id")]
    found = next((each for each in named if isinstance(each, str) and AT in each), "")
    return found if is_node(found.rpartition(AT)[2]) and "/" not in found else ""


def run(options: argparse.Namespace, words: Sequence[str]) -> int:
    """Become ssh, which runs the verb on the session's machine."""
    session_id = meant(options)
    name, node = split(session_id)
    host, attach_command = anyio.run(_place, options, name, node)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    state_dir = _state_dir(attach_command)
    if options.verb == "attach" and not options.take:
        command = attach_command
    else:
        there = [name if word == session_id else word for word in _without(OURS, words)]
        command = shlex.join(["tmuxmcp", *there, "--state-dir", state_dir])
    argv = ["ssh", *["-t"] * terminal, "--", host, command]
    if options.json and options.verb == "attach":
        output.write_json({"session_id": session_id, "argv": argv})
        return 0
    ssh = shutil.which("ssh")
    if ssh is None:
        raise ProgramNotFound("There is no ssh on this machine.", hint="Install it.")
    sys.stdout.flush()
    os.execv(ssh, argv)


async def _place(options: argparse.Namespace, name: str, node: str) -> tuple[str, str]:
    """Where ssh finds the machine, and the command that attaches there."""
    from tmuxmcp.app import open_fleet, setup_logging

    settings = effective(options)[0]
    setup_logging("warning", settings.log_format)
    if settings.fleet == "off":
        raise InvalidArgument(f"{name}{AT}{node} is on another machine, and no fleet is named.", hint="Give --fleet.")
    async with open_fleet("", settings, CALLER) as fleet:
        machine = next((each for each in await fleet.machines() if each.name == node), None)
        if machine is None:
            await fleet.get_session(f"{name}{AT}{node}")  # says why
            raise SessionNotFound(f"This fleet has no machine {node}.")
        if not machine.ssh:
            raise Unsupported(
                f"Nobody said how ssh reaches {node}, and `tmuxmcp {options.verb}` works on a session's own machine.",
                hint=f'Give it ssh = "USER@HOST" in {settings.fleet}, or run `tmuxmcp {options.verb} {name}` there.',
                node=node,
            )
        if not machine.alive:
            raise NodeUnreachable(f"{node} does not answer: {machine.note}", hint="Try again later.", node=node)
        facts = await fleet.transport.call(node, q.GetSession(name), Call(CALLER))
        return machine.ssh, facts.attach_command


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
