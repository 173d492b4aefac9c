"""Shells in front of a session's own, which `run` adopts."""

from __future__ import annotations

import shutil

import pytest

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r

SHELLS = [
    pytest.param(command, kind, marks=pytest.mark.skipif(shutil.which(command.split()[0]) is None, reason="missing"))
    for command, kind in (
        ("bash --norc", "bash"),
        ("zsh -f", "zsh"),
        ("fish --no-config", "fish"),
        ("dash", "sh"),
        ("busybox ash", "ash"),
        ("mksh", "mksh"),
    )
]


async def begin(broker: Broker, command: str, name: str = "a", program: str = "bash") -> None:
    """A session in which a shell is in front of the session's own."""
    await broker.create_session(program, name=name)
    await enter(broker, command, name)


async def enter(broker: Broker, command: str, name: str = "a") -> None:
    """Start a shell in front of the one that is there, and wait until it rests."""
    await broker.send(command, session_id=name, enter=True, read="none")
    words = command.removeprefix("busybox ")  # all of them: the shell that is there may be a bash as well

    async def rests() -> bool:
        facts = await broker.get_session(name)
        return facts.foreground is not None and facts.foreground.command == words and facts.ready

    await eventually(rests)


async def at_prompt(broker: Broker, name: str = "a") -> None:
    """Wait until the shell has drawn its prompt: `run` answers at the mark that ends the command."""
    answer = await broker.read(session_id=name, wait_for="ready")
    assert (answer.outcome, answer.mode) == ("ready", "shell_prompt")


def told(result: r.RunResult) -> tuple[str, int | None, str]:
    return result.output, result.exit_code, result.outcome
