"""Several screens side by side in one terminal: where each lies, and the rows that this makes. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.terminal.emulator.capture import clip
from tmuxmcp.terminal.emulator.grid import SGR
from tmuxmcp.terminal.widths import text_width

WANTED_SIZE = (80, 25)
"""Columns and rows that show most sessions whole."""

LEAST_ROWS = 2
"""A heading and a row of the screen."""

TILE_LEAST_COLS = 20


@dataclass(frozen=True)
class TileGrid:
    """Tiles of one size in columns, which are filled row by row."""

    across: int
    down: int
    cols: int
    """Of each tile; a line of one column stands between two."""
    rows: int

    @property
    def places(self) -> int:
        """How many tiles there are room for."""
        return self.across * self.down


def grid(count: int, cols: int, lines: int) -> TileGrid:
    """The grid that shows most of `count` screens; in a small terminal it has fewer places than that."""
    found = [_grid(across, count, cols, lines) for across in range(1, count + 1)]
    return max(found, key=lambda each: (min(each.places, count), _share_seen(each), each.across))


def _grid(across: int, count: int, cols: int, lines: int) -> TileGrid:
    across = max(min(across, (cols + 1) // (TILE_LEAST_COLS + 1)), 1)
    down = max(min(math.ceil(count / across), lines // LEAST_ROWS), 1)
    return TileGrid(across, down, max((cols - across + 1) // across, 1), max(lines // down, 1))


def _share_seen(each: TileGrid) -> float:
    """How much of a common screen is seen, in tenths."""
    return round(10 * min(each.cols / WANTED_SIZE[0], 1) * min(each.rows / WANTED_SIZE[1], 1))


def tile(heading: str, content: str, cursor_row: int, size: tuple[int, int]) -> list[str]:
    """One screen beneath its heading, exactly so large; where not all fits, the part with the cursor is shown.

    Args:
        size: columns and rows of the tile.
    """
    cols, rows = size
    lines = content.split("\n")
    height = rows - 1
    top = max(min(cursor_row - height + 1, len(lines) - height), 0)
    shown = clip(lines, cols)[top : top + height]
    padded = [f"{line}\x1b[0m{' ' * (cols - text_width(SGR.sub('', line)))}" for line in shown]
    bar = clip([heading], cols)[0]
    bar = f"\x1b[7m{bar}{' ' * (cols - text_width(bar))}\x1b[0m"
    return [bar, *padded, *[" " * cols] * (height - len(padded))][:rows]


def joined_rows(tiles: Sequence[list[str]], place: TileGrid) -> list[str]:
    """The rows of a whole grid."""
    rows: list[str] = []
    for first in range(0, min(len(tiles), place.places), place.across):
        beside = tiles[first : min(first + place.across, place.places)]
        rows += ["│".join(parts) for parts in zip(*beside, strict=True)]
    return rows
