"""Signals that our parent ignored or blocked: a process inherits both (signal(7)).

For processes of our own only. A program that uses the library keeps its signals, and what it starts resets itself.
"""

from __future__ import annotations

import signal


def reset() -> None:
    """Have children waited for and every signal delivered; at the entrance.

    While SIGCHLD is ignored, the kernel throws away how children ended, and Python reports 0 for each of them.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
