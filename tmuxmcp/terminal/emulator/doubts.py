"""The parts of a screen that may be wrong where its beginning is lost; `doubtful.py` says until when."""

from __future__ import annotations

from enum import StrEnum


class Doubt(StrEnum):
    """A part of a screen that may be wrong."""

    SIZE = "size"
    PARSER = "parser"
    """The bytes may belong to a string that began before."""
    GRID = "grid"
    CURSOR = "cursor"
    VISIBLE = "visible"
    """Whether the cursor is."""
    PEN = "pen"
    LAST = "last"
    """What `CSI b` repeats."""
    INSERT = "insert"
    WRAP = "wrap"
    ORIGIN = "origin"
    MARGINS = "margins"
    TABS = "tabs"
    G0 = "g0"
    G1 = "g1"
    SHIFT = "shift"
    SAVED = "saved"
    """By `ESC 7`."""
    ALTERNATE = "alternate"
    """Whether the alternate screen is shown."""
    UNDER = "under"
    """The main screen, while the alternate one is shown."""
    SAVED_BY_ALTERNATE = "saved_by_alternate"
    TITLE = "title"
    SHAPE = "shape"
    MODES = "modes"
    """Of the mouse, of pasting and of keys: nothing that is drawn depends on them."""
    WIDTHS = "widths"
    """Which version of tmux counts the columns; no byte tells it."""


ALL_DOUBTS = frozenset(Doubt) - {Doubt.WIDTHS}
SHOWN_DOUBTS = frozenset({Doubt.SIZE, Doubt.PARSER, Doubt.GRID, Doubt.CURSOR, Doubt.VISIBLE})
"""In doubt of one of these, what is shown may be wrong. The title and the cursor's shape are told apart."""
