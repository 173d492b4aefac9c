"""SVG that moves: in a real browser, at any time, it looks as the picture of the screen that was there."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageChops

from tests.kit import browser
from tests.kit.films import film_of, printed, recorded
from tests.terminal.test_frames import made
from tmuxmcp.terminal.drawing.markup import svg, svg_size
from tmuxmcp.terminal.drawing.reel import moving_svg, reel
from tmuxmcp.terminal.film.film import Film, FilmOutput, FilmResize
from tmuxmcp.terminal.film.frames import Frame

NAME = "{http://www.w3.org/2000/svg}"


def moving(film: Film) -> str:
    return "".join(moving_svg(reel(film, 25)))


def test_it_is_well_formed_and_names_what_it_uses() -> None:
    tree = ElementTree.fromstring(moving(recorded("vim")))
    ids = {node.attrib["id"] for node in tree.iter() if "id" in node.attrib}
    for node in tree.iter(f"{NAME}animate"):
        values, times = node.attrib["values"].split(";"), [float(time) for time in node.attrib["keyTimes"].split(";")]
        assert {value.removeprefix("#") for value in values} <= ids
        assert len(values) == len(times)
        assert times[0] == 0
        assert times == sorted(times)
        assert times[-1] < 1
    assert not list(tree.iter(f"{NAME}script"))


def test_a_row_is_drawn_once_however_often_it_is_shown() -> None:
    lines = b"".join(b"\r\nline %d" % number for number in range(30))
    text = moving(printed(*[(number * 100, lines[start : start + 9]) for number, start in enumerate(range(0, 300, 9))]))
    assert text.count(">line<") <= 31
    assert text.count("<g id=") < 80


def test_what_is_on_the_screen_is_text_and_no_markup() -> None:
    text = moving(printed((0, b"\x1b]2;<t>&\x07</svg><script>&"), end_ms=100))
    assert "&lt;/svg&gt;&lt;script&gt;&amp;" in text
    ElementTree.fromstring(text)


@pytest.fixture(scope="module")
def page() -> Iterator[browser.Page]:
    if not browser.CHROMIUM:
        pytest.skip("needs Chromium")
    with browser.page() as page:
        yield page


def drawn(page: browser.Page, frame: Frame) -> Image.Image:
    width, height = svg_size(frame.snapshot.cols, frame.snapshot.rows)
    return Image.open(io.BytesIO(page.picture(width, height))).convert("RGB")


def at(page: browser.Page, file: Path, frame: Frame) -> Image.Image:
    """What the moving picture shows in the middle of a frame."""
    page.open(file)
    seconds = (frame.ms + frame.until_ms) / 2000
    page.value(f"document.documentElement.pauseAnimations(); document.documentElement.setCurrentTime({seconds})")
    return drawn(page, frame)


@pytest.mark.parametrize("name", ["vim", "htop", "emoji"])
def test_a_browser_shows_the_screen_of_the_time(page: browser.Page, tmp_path: Path, name: str) -> None:
    file, still = tmp_path / "moving.svg", tmp_path / "still.svg"
    file.write_text(moving(recorded(name)))
    found = made(recorded(name), 25)
    for frame in [*found[:: max(len(found) // 3, 1)], found[-1]]:
        seen = at(page, file, frame)
        still.write_text(svg(frame.snapshot))
        page.open(still)
        assert ImageChops.difference(seen, drawn(page, frame)).getbbox() is None, frame.ms


def test_a_browser_shows_a_smaller_screen_and_begins_again(page: browser.Page, tmp_path: Path) -> None:
    file = tmp_path / "moving.svg"
    film = film_of(
        [FilmOutput(0, b"one\r\ntwo\r\n\r\nfour"), FilmResize(1000, 8, 2), FilmOutput(2000, b"\x1b[2J")], end_ms=3000
    )
    file.write_text(moving(film))
    page.open(file)
    shown = """[...document.querySelectorAll("svg > use")].map(
        use => document.querySelector(use.href.animVal).textContent).join("|")"""
    for seconds, text in ((0.5, "one|two|four|"), (1.5, "|four||"), (2.5, "|||"), (4.5, "one|two|four|")):
        page.value(f"document.documentElement.pauseAnimations(); document.documentElement.setCurrentTime({seconds})")
        assert page.value(shown) == text, seconds
