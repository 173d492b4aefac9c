"""Signals: their names, and those that our parent ignored or blocked."""

from __future__ import annotations

import signal


def reset() -> None:
    """Have children waited for and every signal delivered; at the entrance.

    What our parent ignored or blocked, we inherit (signal(7)). For processes of our own only: a program that uses the
    library keeps its signals, and what it starts resets itself.

    While SIGCHLD is ignored, the kernel throws away how children ended, and Python reports 0 for each of them.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def signal_name(number: int) -> str:
    """A signal's name without SIG; real-time signals, which Python does not name, as kill(1) does.

    The number for those that the C library keeps for itself, which have no name (signal(7)).
    """
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return f"RTMIN+{number - signal.SIGRTMIN}" if number > signal.SIGRTMIN else str(number)
