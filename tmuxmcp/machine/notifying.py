"""Runs the person's own command when something waits for them. Nothing that an agent said goes along."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tmuxmcp.machine import ourselves

log = logging.getLogger(__name__)

NOTIFY_RUNS_S = 10.0
"""So long the command may run; then it is ended with what it started."""

MOST_AT_ONCE = 4
"""So many of these commands run at once; what comes while they do starts none."""

_running = threading.BoundedSemaphore(MOST_AT_ONCE)


def notify(argv: Sequence[str], facts: Mapping[str, str]) -> None:
    """Start the command and go on; without one, do nothing.

    Args:
        facts: variables of its environment, by name without the prefix `TMUXMCP_`.
    """
    if not argv or not _running.acquire(blocking=False):
        return
    variables = ourselves.environment() | {f"TMUXMCP_{name}": value for name, value in facts.items()}
    threading.Thread(target=_run, args=(list(argv), variables), name="notify", daemon=True).start()


def _run(argv: list[str], variables: dict[str, str]) -> None:
    try:
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(
            argv, env=variables, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )
        try:
            process.wait(NOTIFY_RUNS_S)
        except subprocess.TimeoutExpired:
            log.warning("notify_command has not ended within %g s, and was ended", NOTIFY_RUNS_S)
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    except OSError as error:
        log.warning("notify_command cannot be run: %s", error)
    finally:
        _running.release()
