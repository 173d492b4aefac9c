"""`python -m tmuxmcp` and the `tmuxmcp` script."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import NoReturn

INTERRUPTED = 130


def run() -> NoReturn:
    """Run the command line as a program of its own, and end it without freeing what it holds, object by object.

    Taking half a thousand modules apart is a twelfth of what a short command costs.
    """
    _open_missing_streams()
    _keep_our_variables()
    ended: list[int] = []
    atexit.register(_end_at_once, ended)  # before all others, so that it is called after them
    ended.append(main())
    sys.exit(ended[0])


def _keep_our_variables() -> None:
    """Show those that may hold secrets to no other program of our user."""
    from tmuxmcp.machine import ownprocess

    ownprocess.leave_process_1()
    ownprocess.take_over()
    ownprocess.hide()


def _open_missing_streams() -> None:
    """Open what our caller closed (`>&-`), or the next file would take its number. What is put on stdout then fails."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDONLY if fd == 1 else os.O_RDWR), fd)
            setattr(sys, name, os.fdopen(fd, mode))


def _end_at_once(ended: list[int]) -> None:
    """End the process, whose threads and other handlers are done, if it has a status; else Python ends it."""
    if ended:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended[0])


def main() -> int:
    """Run the command line; the collector rests until the imports are done.

    Importing the SDK builds about a thousand pydantic models; collecting meanwhile costs 40 % of the start.
    """
    gc.disable()
    try:
        from tmuxmcp.faces.cli import main as command_line
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
    run()
