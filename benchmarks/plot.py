"""Rows of measurements as a picture: each figure in multiples of its floor, on a scale of powers of ten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.common import Row

HEIGHT, TOP = 18, 40
LABELS, BARS, FIGURES = 300, 420, 320
"""Widths in pixels: the names, the bars, the figures in words."""

GOOD, OVER, PLAIN = "#2f7d4f", "#b3402e", "#4a6fa5"


def as_svg(rows: Sequence[Row], title: str) -> str:
    """The rows that have a floor, as bars from the floor (1x) to the figure, with their spread; the others in words."""
    multiples = [each.value / each.floor for each in rows if each.floor]
    low = math.floor(min([0.0, *(math.log10(max(each, 1e-3)) for each in multiples)]))
    high = math.ceil(max([1.0, *(math.log10(max(each, 1e-3)) for each in multiples)]))

    def x(multiple: float) -> float:
        place = (math.log10(max(multiple, 1e-3)) - low) / (high - low)
        return LABELS + min(max(place, 0.0), 1.0) * BARS

    drawn = [_text(8, 22, title, "bold")]
    bottom = TOP + HEIGHT * len(rows)
    for power in range(low, high + 1):
        at = x(10.0**power)
        drawn.append(f'<path d="M{at:.1f} {TOP}V{bottom}" stroke="#ccc"/>' + _text(at, TOP - 4, f"{10.0**power:g}x"))
    for number, row in enumerate(rows):
        drawn.append(_row(row, TOP + HEIGHT * number, x))
    width = LABELS + BARS + FIGURES
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 10}" font-family="sans-serif" '
        f'font-size="11"><rect width="100%" height="100%" fill="white"/>{"".join(drawn)}</svg>\n'
    )


def _row(row: Row, top: int, x: object) -> str:
    assert callable(x)
    colour = PLAIN if not row.budget else GOOD if row.holds else OVER
    middle = top + HEIGHT / 2
    drawn = _text(8, middle + 4, row.name)
    if row.floor:
        begin, end = sorted((x(1.0), x(row.value / row.floor)))
        drawn += f'<rect x="{begin:.1f}" y="{top + 4}" width="{max(end - begin, 1):.1f}" height="10" fill="{colour}"/>'
        if row.low is not None and row.high is not None:
            path = f"M{x(row.low / row.floor):.1f} {middle}H{x(row.high / row.floor):.1f}"
            drawn += f'<path d="{path}" stroke="black"/>'
    words = f"{row.value:.2f} {row.unit}" + (f" (floor {row.floor:.2f})" if row.floor else "")
    words += f", {row.budget}" if row.budget else ""
    return drawn + _text(LABELS + BARS + 8, middle + 4, words, colour=colour)


def _text(x: float, y: float, text: str, weight: str = "normal", colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-weight="{weight}" fill="{colour}">{escape(text)}</text>'
