"""What `CSI ... m` makes of a style, as tmux reads it. Pure."""

from __future__ import annotations

import re
from typing import Any

from tmuxmcp.terminal.snapshot import PLAIN_STYLE, UNDERLINES, Colour, Style

SGR = re.compile(r"\x1b\[([0-9;:]*)m")
"""The sequence that changes the style; its parameters in a group."""

MAX_NUMBER = 9999
"""Larger parameters count as this much."""

_CODE_EFFECTS: dict[int, dict[str, Any]] = {
    0: {name: value for name, value in PLAIN_STYLE._asdict().items() if name != "link"},
    1: {"bold": True},
    2: {"faint": True},
    3: {"italic": True},
    4: {"underline": "single"},
    5: {"blink": True},
    6: {"blink": True},
    7: {"reverse": True},
    8: {"conceal": True},
    9: {"strike": True},
    21: {"underline": "double"},
    22: {"bold": False, "faint": False},
    23: {"italic": False},
    24: {"underline": ""},
    25: {"blink": False},
    27: {"reverse": False},
    28: {"conceal": False},
    29: {"strike": False},
    39: {"fg": None},
    49: {"bg": None},
    53: {"overline": True},
    55: {"overline": False},
    59: {"underline_colour": None},
    **{code: {"fg": code - 30} for code in range(30, 38)},
    **{code: {"bg": code - 40} for code in range(40, 48)},
    **{code: {"fg": code - 82} for code in range(90, 98)},
    **{code: {"bg": code - 92} for code in range(100, 108)},
}
_COLOUR_PARAMETERS = {38: "fg", 48: "bg", 58: "underline_colour"}


MAX_PARAMS, MAX_FIELDS = 63, 23
"""Characters and numbers of the parameters; a sequence with more does nothing."""

_HUGE_NUMBER = re.compile(r"(?<![0-9])0*[1-9][0-9]{9}")


def obeyed(params: str) -> bool:
    """Whether tmux obeys a sequence with these parameters at all."""
    return len(params) <= MAX_PARAMS and params.count(";") < MAX_FIELDS and not _HUGE_NUMBER.search(params)


def number(digits: str) -> int:
    """Read a parameter; an empty one is 0."""
    digits = digits.lstrip("0")[:6]
    return min(int(digits), MAX_NUMBER) if digits.isdigit() else 0


def restyled(style: Style, params: str) -> Style:
    """Give the style after `CSI params m`; what cannot be read changes nothing."""
    changes: dict[str, Any] = {}
    if not obeyed(params):
        return style
    fields = params.split(";")
    pos = 0
    while pos < len(fields):
        field = fields[pos]
        pos += 1
        if ":" in field:
            changes |= _with_colons(field.split(":"))
        elif (code := number(field)) in _COLOUR_PARAMETERS:
            colour, used = _colour(fields[pos : pos + 4])
            pos += used
            changes |= {} if colour == () else {_COLOUR_PARAMETERS[code]: colour}
        else:
            changes |= _CODE_EFFECTS.get(code, {})
    return style._replace(**changes)


def _colour(fields: list[str]) -> tuple[Colour | tuple[()], int]:
    """Read what follows 38, 48 or 58: the colour, `()` for none, and how many fields it took."""
    match fields:
        case ["5", index, *_] if index:
            return (number(index) if number(index) < 256 else None), 2
        case ["5", *_]:
            return None, 2
        case ["2", r, g, b] if all(part and number(part) < 256 for part in (r, g, b)):
            return (number(r), number(g), number(b)), 4
    return (), 1


def _with_colons(parts: list[str]) -> dict[str, Any]:
    match parts:
        case ["4", kind] if kind and number(kind) < len(UNDERLINES):
            return {"underline": UNDERLINES[number(kind)]}
        case ["38" | "48" | "58" as code, "5", index, *_]:
            return {_COLOUR_PARAMETERS[int(code)]: _colour(["5", index])[0]}
        case ["38" | "48" | "58" as code, "2", *rest] if len(rest) >= 3:
            # 2:r:g:b, or 2:colour space:r:g:b
            colour, _ = _colour(["2", *(rest if len(rest) == 3 else rest[1:4])])
            return {} if colour == () else {_COLOUR_PARAMETERS[int(code)]: colour}
    return {}
