"""`python -m tmuxmcp` and the `tmuxmcp` script."""

from __future__ import annotations

import gc
import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command line; the collector rests until the imports are done.

    Importing the SDK builds about a thousand pydantic models; collecting meanwhile costs 40 % of the start.
    """
    gc.disable()
    try:
        from tmuxmcp.cli import main as command_line
        from tmuxmcp.machine import signals

        signals.reset()

        status = command_line()
    except KeyboardInterrupt:  # while it was imported
        status = INTERRUPTED
    if status == INTERRUPTED:
        _stay_interrupted()
    return status


def _stay_interrupted() -> None:
    """Let no more interrupts in, and keep our exit status.

    CPython ends a program by SIGINT if one ever struck inside `exec` of a text, as of a dataclass while it is made,
    even if it was handled. Blocked, that signal does nothing, and our own status counts.
    """
    import signal

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


if __name__ == "__main__":
    sys.exit(main())
