"""Draws docs/images/first-session.svg: a terminal as a person watches it, beside what the agent asks and gets.

Both halves come from one session that runs now, in a state directory of its own; what differs from run to run
(times, ids) is not drawn. The drawing is plain SVG: text on a grid, one colour table.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import escape

import anyio

from tmuxmcp.app import open_broker
from tmuxmcp.broker.broker import Broker
from tmuxmcp.config import Settings

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "first-session.svg"
COLS, ROWS = 46, 13
CHAR, LINE, SIZE = 7.8, 18, 13
"""Width of a character, height of a line, size of the font; in SVG's units."""

PAD, BAR, SIDE = 16, 34, 44
"""Margin, height of the title bars, columns of the right half."""

GROUND, PANEL, INK, DIM, ACCENT = "#11161d", "#1a212b", "#d7dde5", "#8592a3", "#7cc4ff"
COLOURS = ["#3b4554", "#ff7b72", "#7ee787", "#f2cc60", "#79c0ff", "#d2a8ff", "#76e3ea", "#d7dde5"]


@dataclass(frozen=True)
class Style:
    """How a stretch of text looks."""

    fill: str = INK
    bold: bool = False
    reverse: bool = False


Line = list[tuple[str, Style]]
PLAIN, FAINT, ASKED = Style(), Style(DIM), Style(ACCENT, bold=True)


async def session() -> tuple[list[Line], list[Line]]:
    """The screen's rows, and the agent's side of it."""
    directory = Path(tempfile.mkdtemp(prefix="tm-"))
    env = {"HOME": str(directory), "PS1": r"\[\e[32m\]$\[\e[0m\] ", "PYTHON_BASIC_REPL": "1", "PYTHONSTARTUP": ""}
    settings = Settings(state_dir=directory, program="bash", rows=ROWS, cols=COLS, cwd="/", env=env)
    try:
        async with open_broker(settings) as broker:
            await broker.create_session(args=["--norc"], name="demo")
            told = [line async for line in _story(broker)]
            screen = await broker.read("screen", "demo", format="ansi")
            assert screen.cursor
            rows = [styled(row) for row in screen.content.split("\n")]
            blank = screen.cursor.col - sum(len(text) for text, _ in rows[screen.cursor.row])
            rows[screen.cursor.row] += [(" " * blank, PLAIN), (" ", Style(reverse=True))]
            return rows, told
    finally:
        stop = ["tmux", "-S", str(directory / "tmux.sock"), "kill-server"]
        subprocess.run(stop, capture_output=True, check=False)  # noqa: ASYNC221 - the end of a script
        shutil.rmtree(directory, ignore_errors=True)


async def _story(broker: Broker) -> AsyncIterator[Line]:
    for command in ("cd /usr && export SEASON=autumn", 'echo "$PWD, $SEASON"', "seq 3000000 | tail -n 2; (exit 3)"):
        ran = await broker.run(command, "demo")
        answer = f"exit_code={ran.exit_code} output={json.dumps(ran.output)}"
        assert ran.completed, ran
        for line in _exchange(f"run {command}", answer):
            yield line
    # `run` answers before the shell has drawn its prompt: what is typed until then would be echoed twice.
    await broker.read(session_id="demo", wait_for="ready")
    for text in ("python3 -q", "6 * 7"):
        typed = (await broker.send(text, enter=True, session_id="demo")).result
        assert typed
        assert typed.outcome == "ready", typed
        for line in _exchange(f"send {text}", f"outcome={typed.outcome} mode={typed.mode}"):
            yield line
    await broker.send(key="C-d", session_id="demo")
    secret = (await broker.send("read -rsp 'Password: ' word", enter=True, session_id="demo")).result
    assert secret
    assert secret.mode == "password", secret
    for line in _exchange("send read -rsp 'Password: ' word", f"outcome={secret.outcome} mode={secret.mode}"):
        yield line


def _exchange(asked: str, answer: str) -> Iterator[Line]:
    yield [(_cut(asked), ASKED)]
    yield [("  " + _cut(answer), FAINT)]


def _cut(text: str) -> str:
    return text if len(text) <= SIDE - 4 else text[: SIDE - 7] + "..."


# ---- drawing -----------------------------------------------------------------------------------

_SGR = re.compile(r"\x1b\[([0-9;]*)m|\x1b[()].|[\x0e\x0f]")


def styled(row: str) -> Line:
    """A row as `capture-pane -e` prints it."""
    found: Line = []
    style, at = PLAIN, 0
    for match in _SGR.finditer(row):
        found.append((row[at : match.start()], style))
        at = match.end()
        if match[1] is not None:
            for number in match[1].split(";"):
                style = _after(style, int(number or 0))
    return [*found, (row[at:], style)]


def _after(style: Style, number: int) -> Style:
    if number == 0:
        return PLAIN
    if number in (1, 22):
        return replace(style, bold=number == 1)
    if number in (7, 27):
        return replace(style, reverse=number == 7)
    if number == 39:
        return replace(style, fill=INK)
    if number // 10 in (3, 9) and number % 10 < 8:
        return replace(style, fill=COLOURS[number % 10])
    return style


def draw(screen: Sequence[Line], told: Sequence[Line]) -> str:
    """The picture: two panels."""
    left, right = COLS * CHAR + 2 * PAD, SIDE * CHAR + 2 * PAD
    height = BAR + ROWS * LINE + PAD
    width = left + right + 3 * PAD
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height + 2 * PAD:g}" role="img"'
        f' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="{SIZE}">',
        "<title>A terminal as a person watches it, beside the calls of the agent that works in it</title>",
        f'<rect width="100%" height="100%" rx="10" fill="{GROUND}"/>',
        *_panel(PAD, left, height, "what a person watches", screen),
        *_panel(2 * PAD + left, right, height, "what the agent asks and gets", told),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(x: float, width: float, height: float, title: str, lines: Sequence[Line]) -> Iterator[str]:
    yield f'<rect x="{x:g}" y="{PAD}" width="{width:g}" height="{height:g}" rx="8" fill="{PANEL}"/>'
    yield f'<text x="{x + PAD:g}" y="{PAD + 22}" fill="{DIM}">{escape(title)}</text>'
    for number, line in enumerate(lines):
        y = PAD + BAR + (number + 1) * LINE - 5
        col = 0
        for text, style in line:
            if text.strip() or style.reverse:
                yield from _stretch(x + PAD + col * CHAR, y, text, style)
            col += len(text)


def _stretch(x: float, y: float, text: str, style: Style) -> Iterator[str]:
    fill = style.fill
    if style.reverse:
        yield f'<rect x="{x:g}" y="{y - 13:g}" width="{len(text) * CHAR:g}" height="{LINE}" fill="{fill}"/>'
        fill = PANEL
    weight = ' font-weight="bold"' if style.bold else ""
    # The length holds the grid together, whatever font there is.
    length = f'textLength="{len(text) * CHAR:g}" lengthAdjust="spacingAndGlyphs"'
    if text.strip():
        yield f'<text x="{x:g}" y="{y:g}" fill="{fill}"{weight} {length} xml:space="preserve">{escape(text)}</text>'


async def picture() -> str:
    """The picture of a session that runs now."""
    return draw(*await session())


def main() -> int:
    """Write the picture."""
    PICTURE.write_text(anyio.run(picture))
    print(PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
