"""Pictures of real programs, held against what the screen says."""

from __future__ import annotations

import base64
import io
import re
import shlex
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from tests.conftest import eventually
from tests.terminal.test_markup import Text, drawn
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import InvalidArgument, SessionExited, Unsupported
from tmuxmcp.machine import fonts


async def start(broker: Broker, program: str, *args: str) -> None:
    await broker.create_session(program, args, name="a", wait_ready=program != "sh")


def rows_of(picture: str, rows: int, cols: int) -> list[str]:
    """An SVG's text, put back into cells."""
    grid = [[" "] * cols for _ in range(rows)]
    for (row, col), (word, width) in drawn(picture).items():
        for at, char in enumerate(word) if len(word) == width else [(0, word)]:
            grid[row][col + at] = char
        if width == 2 and len(word) == 1:
            grid[row][col + 1] = ""
    return ["".join(row).rstrip() for row in grid]


@pytest.mark.parametrize(
    "argv",
    [
        ("vim", "-u", "NONE", "-N", "-c", "syntax on", "-c", "set number", __file__),
        ("mc", "-u", "--nosubshell", "/", "/"),
        ("less", "/etc/passwd"),
    ],
    ids=lambda argv: argv[0],
)
async def test_svg_has_each_character_where_the_screen_has_it(broker: Broker, argv: tuple[str, ...]):
    await start(broker, *argv)

    async def unmoved() -> tuple[r.ReadResult, r.ScreenshotResult, r.ScreenshotResult] | None:
        """The screen and its pictures, where it was the same before and after they were made."""
        before = await broker.read("screen", "a")
        shot, page = [await broker.screenshot(format, session_id="a") for format in ("svg", "html")]
        after = await broker.read("screen", "a")
        return (before, shot, page) if before.screen_id == after.screen_id else None

    await broker.read("screen", "a", wait_for="ready")
    screen, shot, page = await eventually(unmoved)
    assert shot.data
    found = rows_of(shot.data, 24, 80)
    while found and not found[-1]:
        found.pop()
    assert found == screen.content.split("\n")
    assert [row.rstrip() for row in Text(page.data or "").text.split("\n")][: len(found)] == found


async def test_png_has_the_colours_of_the_screen(broker: Broker):
    script = r"printf '\033[2J\033[3;5H\033[48;2;1;2;3m   \033[m\033[10;1H\033[38;2;9;8;7m█\033[m'; exec sleep 60"
    await start(broker, "sh", "-c", script)
    await broker.read("screen", "a", wait_for="pattern", pattern="█")
    shot = await broker.screenshot(session_id="a")
    assert (shot.format, shot.mime_type, shot.rows, shot.cols) == ("png", "image/png", 24, 80)
    data = base64.b64decode(shot.data or "")
    assert len(data) == shot.bytes
    image = Image.open(io.BytesIO(data)).convert("RGB")
    assert image.size == (shot.width, shot.height)
    from tmuxmcp.terminal.drawing.picture import Painter

    painter = Painter(fonts.find())
    for (row, col), colour in {(2, 3): False, (2, 4): (1, 2, 3), (2, 6): (1, 2, 3), (9, 0): (9, 8, 7)}.items():
        left, top = painter.corner_of(row, col)
        middle = image.getpixel((left + painter.cell[0] // 2, top + painter.cell[1] // 2))
        assert middle == colour if colour else middle != (1, 2, 3)


async def test_a_session_that_ended_shows_its_last_screen_without_a_cursor(broker: Broker):
    await start(broker, "sh", "-c", "printf 'the end'")
    await broker.read(session_id="a", wait_for="exit")
    shot = await broker.screenshot("svg", session_id="a")
    assert drawn(shot.data or "") == {(0, 0): ("the", 3), (0, 4): ("end", 3)}
    assert len(re.findall("<rect", shot.data or "")) == 1


async def test_a_title_and_text_are_data(broker: Broker):
    evil = "</title><script>x</script>"
    await start(broker, "sh", "-c", f"printf '\\033]2;%s\\007%s' {shlex.quote(evil)} {shlex.quote(evil)}; sleep 60")
    await eventually(lambda: broker.registry.sessions["a"].log.size() > 50)
    for format in ("svg", "html"):
        data = (await broker.screenshot(format, session_id="a")).data or ""
        assert "<script" not in data
        if format == "svg":
            ElementTree.fromstring(data)


async def test_without_pillow_png_says_what_to_do(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    await start(broker, "cat")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(Unsupported, match="Pillow") as refused:
        await broker.screenshot(session_id="a")
    assert "view=screen" in (refused.value.hint or "")
    assert "svg" not in str(refused.value)  # few models are shown one
    assert (await broker.screenshot("svg", session_id="a")).data


async def test_unknown_moments_and_lost_sessions_are_refused(broker: Broker):
    await start(broker, "cat")
    with pytest.raises(InvalidArgument, match="no time of session"):
        await broker.screenshot(at_ms=10**9, session_id="a")
    await broker.destroy_session("a", force=True)
    with pytest.raises(SessionExited):
        await broker.screenshot(session_id="a")


async def test_without_any_system_font_the_packaged_one_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(fonts, "FONT_FOLDERS", (str(tmp_path),))
    found = fonts.find.__wrapped__()
    assert "JetBrainsMono" in found.regular.name
    assert found.bold
    assert found.bold.weight == 700
    monkeypatch.setattr(fonts, "PACKAGED_FONTS", ("no_such_package", "", ""))
    with pytest.raises(Unsupported, match="font"):
        fonts.find.__wrapped__()
