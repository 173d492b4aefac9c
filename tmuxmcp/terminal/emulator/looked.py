"""What to ask tmux of a pane's screens, and its answer as plain data: `seed.py` makes a Snapshot of it. Pure.

Asked are `SCREEN_STATE_FORMAT`, `capture-pane -p -e -N`, and while the alternate screen is on also `capture-pane -a`
with the same options; all in one command list, so that nothing is printed in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NUMBER_FIELDS = (
    *("pane_width", "pane_height", "cursor_x", "cursor_y", "scroll_region_upper", "scroll_region_lower"),
    *("alternate_on", "alternate_saved_x", "alternate_saved_y"),
)
MODE_FIELDS = {
    "cursor_flag": 25 << 5,
    "insert_flag": 4,
    "wrap_flag": 7 << 5,
    "origin_flag": 6 << 5,
    "keypad_cursor_flag": 1 << 5,
    "mouse_standard_flag": 1000 << 5,
    "mouse_button_flag": 1002 << 5,
    "mouse_all_flag": 1003 << 5,
    "mouse_utf8_flag": 1005 << 5,
    "mouse_sgr_flag": 1006 << 5,
}
"""The modes that tmux tells of, as a screen has them."""
CURSOR_NOT_SAVED = 2**32 - 1
"""What tmux says of a cursor that was not saved."""

SCREEN_STATE_FORMAT = " ".join(f"#{{{name}}}" for name in (*NUMBER_FIELDS, *MODE_FIELDS, "pane_tabs", "pane_title"))
"""What to ask `display-message -p` for."""


def looked(printed: Sequence[str]) -> dict[str, Any]:
    """Take apart the answers to `SCREEN_STATE_FORMAT` and to `capture-pane` of the screen and of the one under it.

    Raises:
        ValueError: that is not what tmux was asked for.
    """
    numbers = dict(zip(NUMBER_FIELDS, printed[0].split(" ") if printed else (), strict=False))
    try:
        cols, rows = int(numbers["pane_width"]), int(numbers["pane_height"])
    except (KeyError, ValueError):
        raise ValueError(f"not what tmux was asked for: {printed[:1]!r}") from None
    screen, under = list(printed[1 : rows + 1]), list(printed[rows + 1 :])
    return {"cols": cols, "rows": rows, "facts": printed[0], "screen": screen, "under": under}
