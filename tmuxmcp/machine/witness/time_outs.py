"""How long a sleeping thread waits at most: the time-out of its poll, select or epoll_wait (proc(5), `syscall`).

A program that waits for ever wants input. One that waits for a time goes on by itself: it may have work to do.
"""

from __future__ import annotations

import os
import platform
import struct

from tmuxmcp.machine import proc

_BY_MILLISECONDS, _BY_TIMESPEC, _BY_TIMEVAL = {
    "x86_64": ({7: 2, 232: 3, 281: 3}, {270: 4, 271: 2, 441: 3}, {23: 4}),
    "aarch64": ({22: 3}, {72: 4, 73: 2, 441: 3}, {}),
}.get(platform.machine(), (dict[int, int](), dict[int, int](), dict[int, int]()))
"""Of system calls by number, which argument is the time-out: milliseconds, a timespec or a timeval.

poll, epoll_wait, epoll_pwait; pselect6, ppoll, epoll_pwait2; select. Other machines' numbers are not known: no harm.
"""

_TIME_BYTES = 16
"""Of a timespec and of a timeval on 64 bit machines."""


def of(path: str) -> float | None:
    """The time-out of the call that a thread sleeps in, in seconds; None: it has none, or that cannot be told.

    Args:
        path: the thread's directory in /proc.

    Raises:
        Runs: it has woken up.
    """
    try:
        words = proc.system_call(path)
        call, arguments = int(words[0]), [int(word, 16) for word in words[1:7]]
        if call in _BY_MILLISECONDS:
            (count,) = struct.unpack("=i", struct.pack("=I", arguments[_BY_MILLISECONDS[call]] & 0xFFFFFFFF))
            return count / 1000 if count >= 0 else None
        for calls, a_second in ((_BY_TIMESPEC, 1e9), (_BY_TIMEVAL, 1e6)):
            if call in calls:
                return _time_s(path, arguments[calls[call]], a_second)
    except proc.ThreadRuns:
        raise
    except (OSError, ValueError, IndexError, struct.error):
        pass  # refused
    return None


def _time_s(path: str, address: int, a_second: float) -> float | None:
    if not address:
        return None
    with open(path + "/mem", "rb", buffering=0) as file:
        seconds, fraction = struct.unpack("=qq", os.pread(file.fileno(), _TIME_BYTES, address))
    return float(seconds + fraction / a_second)
