"""Rows of measurements as a picture: every name and figure, and a bar and a spread where there is a floor."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.common import Row
from benchmarks.plot import as_svg

SVG = "{http://www.w3.org/2000/svg}"


def test_rows_are_drawn_with_their_floors_and_spreads() -> None:
    rows = [
        Row("quick <one>", 3.0, "ms", 1.0, "no-op + 2 ms", True, "", 2.0, 5.0),
        Row("slow", 900.0, "ms", 1.0, "<= 5 x", False),
        Row("no floor", 12.0, "KB", None, "<= 12 KB", True),
        Row("nothing at all", 0.0, "ms", 1.0, "", True),
    ]
    drawn = ElementTree.fromstring(as_svg(rows, "a & b"))
    words = [each.text for each in drawn.iter(f"{SVG}text")]
    assert {"a & b", "quick <one>", "slow", "no floor", "nothing at all", "1x", "1000x"} <= set(words)
    assert "3.00 ms (floor 1.00), no-op + 2 ms" in words
    bars = [float(each.attrib["width"]) for each in drawn.iter(f"{SVG}rect") if each.attrib["width"] != "100%"]
    assert len(bars) == 3
    assert bars[0] < bars[1]
    spreads = [each for each in drawn.iter(f"{SVG}path") if each.attrib["stroke"] == "black"]
    assert len(spreads) == 1
