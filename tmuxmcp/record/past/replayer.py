"""The process that replays logs for `replaying.py` (`serving.py`): what a terminal printed is foreign, and may be much.

Run as `python -I -S replayer.py DIRECTORY...`.
"""

import sys
import time
from base64 import b64decode, b64encode
from typing import Any

REPLAY_CPU_S = 30.0
"""For one request, in processor time: a stretch ends by itself long before (`cpu_s` of a request)."""

PIECE_S = 0.02
"""Processor time between two looks at the time, about; so many bytes are fed at once."""

LEAST_PIECE, MOST_PIECE = 1 << 12, 1 << 18
"""Bytes: the engine does a MB a second at worst, and skips most of a flood if it is given much of it."""

FIRST_REQUEST = {
    "session": "/",
    "start": None,
    "blank": [1, 1, 0, False, True],
    "tmux": [3, 2, ""],
    "begin": 0,
    "resizes": [],
    "gaps": [],
    "end": 0,
    "cpu_s": 0,
    "passed": None,
    "happened": [],
}
"""A log that is not there: nothing of it is read."""


def stretch(request: dict[str, Any], passed: Any = None) -> dict[str, Any] | None:
    """The screen at the end of a stretch of a log, or as far as the time goes; None: its bytes are not there.

    Args:
        passed: the screens that earlier requests passed (`checkpoints.KeptScreens`), if some are kept.
    """
    from pathlib import Path

    from tmuxmcp.record.directory import SessionDirectory
    from tmuxmcp.record.log import RawLog
    from tmuxmcp.record.past.checkpoints import APART_S, count, packed_screen, screen_of
    from tmuxmcp.terminal.emulator.replay import Replay, SizeChange, beginning, blank, counted_by

    begun = time.process_time()
    log = RawLog(SessionDirectory(Path(request["session"])))
    of, happened, end = request["passed"] if passed else None, request["happened"], request["end"]
    near = passed.nearest(of, request["begin"], end, happened) if of else None
    if near:
        start = near
    elif request["start"]:
        start = screen_of(b64decode(request["start"]))
    else:
        *place, approximate, size_known = request["blank"]
        start = beginning(*place, size_known=size_known) if approximate else blank(*place)
    tmux = tuple(request["tmux"]) or None
    start = counted_by(start, tmux)
    resizes = [
        SizeChange(offset, cols, rows, told_screen(log, offset, told, tmux))
        for offset, cols, rows, told in request["resizes"]
        if offset > start.offset
    ]
    replay = Replay(start, resizes, request["gaps"])
    last, piece = begun, LEAST_PIECE
    while replay.offset < end:
        data = log.read(replay.offset, min(piece, end - replay.offset))
        if not data:
            return None
        before = time.process_time()
        replay.feed(data)
        now = time.process_time()
        piece = next_piece(piece, now - before)
        if of and now - last > APART_S:
            passed.keep(of, replay.snapshot(), count(happened, replay.offset))
            last = now
        if now - begun > request["cpu_s"]:
            break
    screen = replay.snapshot()
    if of:
        passed.keep(of, screen, count(happened, screen.offset))
    packed = b64encode(packed_screen(screen)).decode()
    return {
        "screen": packed,
        "offset": screen.offset,
        "approximate": screen.approximate,
        "cpu_s": time.process_time() - begun,
        "whole": near is None,
    }


def next_piece(piece: int, took_s: float) -> int:
    """How many bytes to feed next, after so many took so long."""
    if took_s > 2 * PIECE_S:
        return max(piece // 2, LEAST_PIECE)
    return min(piece * 2, MOST_PIECE) if took_s < PIECE_S / 2 else piece


def told_screen(log: Any, offset: int, told: str | None, tmux: Any) -> Any:
    """The screen that tmux told of at an offset; None: it did not."""
    from tmuxmcp.record.past.checkpoints import unpack
    from tmuxmcp.terminal.emulator.seed import TAIL_BYTES, seed

    if told is None:
        return None
    begin = max(log.head(), offset - TAIL_BYTES)
    try:
        known = unpack(b64decode(told))
        return seed(known["facts"], known["screen"], known["under"], log.read(begin, offset - begin), offset, tmux)
    except (ValueError, KeyError, TypeError):
        return None


if __name__ == "__main__":
    sys.path += sys.argv[1:]
    from tmuxmcp.machine.serving import serve
    from tmuxmcp.record.past.checkpoints import passed_screens

    passed = passed_screens()
    serve(lambda request: stretch(request, passed), FIRST_REQUEST, REPLAY_CPU_S)
