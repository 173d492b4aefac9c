"""The process that replays logs for `replaying.py` (`serving.py`): what a terminal printed is foreign, and may be much.

Run as `python -I -S replayer.py DIRECTORY...`.
"""

import sys
import time
from base64 import b64decode, b64encode
from typing import Any

CPU_S = 30.0
"""For one request, in processor time: a stretch ends by itself long before (`cpu_s` of a request)."""

PIECE = 1 << 16
"""Bytes between two looks at the time: 0.03 s of full-screen output."""

FIRST = {
    "session": "/",
    "start": None,
    "blank": [1, 1, 0, False],
    "resizes": [],
    "gaps": [],
    "end": 0,
    "cpu_s": 0,
}
"""A log that is not there: nothing of it is read."""


def stretch(request: dict[str, Any]) -> dict[str, Any] | None:
    """The screen at the end of a stretch of a log, or as far as the time goes; None: its bytes are not there."""
    from dataclasses import replace
    from pathlib import Path

    from tmuxmcp.record.checkpoints import packed_screen, screen_of
    from tmuxmcp.record.directory import SessionDirectory
    from tmuxmcp.record.log import RawLog
    from tmuxmcp.terminal.replay import Replay, Resize, blank

    begun = time.process_time()
    log = RawLog(SessionDirectory(Path(request["session"])))
    if request["start"]:
        start = screen_of(b64decode(request["start"]))
    else:
        *place, approximate = request["blank"]
        start = replace(blank(*place), approximate=approximate)
    resizes = [
        Resize(offset, cols, rows, told_screen(log, offset, told)) for offset, cols, rows, told in request["resizes"]
    ]
    replay = Replay(start, resizes, request["gaps"])
    while replay.offset < request["end"]:
        data = log.read(replay.offset, min(PIECE, request["end"] - replay.offset))
        if not data:
            return None
        replay.feed(data)
        if time.process_time() - begun > request["cpu_s"]:
            break
    screen = replay.snapshot()
    packed = b64encode(packed_screen(screen)).decode()
    return {
        "screen": packed,
        "offset": screen.offset,
        "approximate": screen.approximate,
        "cpu_s": time.process_time() - begun,
    }


def told_screen(log: Any, offset: int, told: str | None) -> Any:
    """The screen that tmux told of at an offset; None: it did not."""
    from tmuxmcp.record.checkpoints import unpack
    from tmuxmcp.terminal.seed import TAIL_BYTES, seed

    if told is None:
        return None
    begin = max(log.head(), offset - TAIL_BYTES)
    try:
        known = unpack(b64decode(told))
        return seed(known["facts"], known["screen"], known["under"], log.read(begin, offset - begin), offset)
    except (ValueError, KeyError, TypeError):
        return None


if __name__ == "__main__":
    sys.path += sys.argv[1:]
    from tmuxmcp.host.serving import serve

    serve(stretch, FIRST, CPU_S)
