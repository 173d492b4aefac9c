"""Mouse events as programs read them, in the SGR encoding (DEC private mode 1006). Pure."""

from __future__ import annotations

BUTTONS = {"left": 0, "middle": 1, "right": 2}
NO_BUTTON = 3
MOTION_BIT = 32
SCROLL_BUTTONS = {"scroll_up": 64, "scroll_down": 65}


def encode(action: str, row: int, col: int, button: str = "") -> bytes:
    """Give the bytes of one event; a click is two.

    Args:
        action: `click press release move scroll_up scroll_down`.
        row, col: from 0.
        button: `left middle right`; empty: the left one, and for `move` none.
    """
    number = BUTTONS.get(button, NO_BUTTON if action == "move" else BUTTONS["left"])
    match action:
        case "click":
            return _event(number, row, col) + _event(number, row, col, "m")
        case "release":
            return _event(number, row, col, "m")
        case "move":
            return _event(MOTION_BIT + number, row, col)
        case "press":
            return _event(number, row, col)
        case _:
            return _event(SCROLL_BUTTONS[action], row, col)


def _event(number: int, row: int, col: int, end: str = "M") -> bytes:
    return f"\x1b[<{number};{col + 1};{row + 1}{end}".encode("ascii")
