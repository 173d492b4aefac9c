"""Processes, seen from outside of them."""

from __future__ import annotations

from contextlib import suppress

import psutil

from tmuxmcp.broker.broker import Broker


def alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def living(mark: str) -> list[int]:
    """The processes that have a mark in their words, and have not ended."""
    found = []
    for each in psutil.process_iter():
        with suppress(psutil.Error):
            if mark in " ".join(each.cmdline()) and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each.pid)
    return found


async def is_in_front(broker: Broker, words: str) -> bool:
    """Whether this is the foreground command of the session `a`."""
    foreground = (await broker.get_session("a")).foreground
    return foreground is not None and foreground.command == words
