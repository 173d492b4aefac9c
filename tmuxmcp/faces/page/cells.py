"""Rows of a terminal as JSON that a browser draws: stretches of one look, each with its text. Pure.

A stretch is `{"t": TEXT}` with, where it has them, `f` and `b` (colours of ink and ground, `#rrggbb`), `a`
(attributes: `b`old, `i`talic, `s`truck, `o`verlined, `k` blinking), `u` (a kind of underline), `l` (its colour), `h`
(the address behind it), and `w`: the text is one cell of so many columns, whatever font has it. Its text holds nothing
that a terminal or a browser would act upon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tmuxmcp.terminal.drawing.theme import DARK_THEME, Rgb, drawable, drawn_style
from tmuxmcp.terminal.emulator.capture import LINK_INTRODUCER, clip, pieces
from tmuxmcp.terminal.snapshot import BLANK, Cells, Snapshot, Style, StyleRun, runs
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion

KEPT_ROWS = 4096
"""Rows whose drawing is kept: those of many screens are the same, frame after frame."""

Span = dict[str, Any]


class Link(NamedTuple):
    """An address behind a row's text."""

    begin: int
    end: int
    """Columns: of its first one, and behind its last one."""
    address: str


def encoded_rows(lines: Sequence[str], cols: int, rows: int, version: TmuxVersion = OLDEST_VERSION) -> list[str]:
    """Rows as `capture-pane -e` of this tmux printed them, each as JSON."""
    shown = list(lines[:rows])
    alone = [
        _encoded(line, cols, version, _links(whole, cols, version))
        for line, whole in zip(clip(shown, cols, version), shown, strict=True)
    ]
    return alone + [_encoded("", cols, version)] * (rows - len(alone))


def encoded_screen(snapshot: Snapshot) -> Span:
    """A whole screen, as the stream sends one."""
    cursor = snapshot.cursor
    return {
        "size": [snapshot.cols, snapshot.rows],
        "facts": [cursor.row, cursor.col, cursor.visible, drawable(snapshot.title), cursor.shape],
        "lines": {str(number): spans(row) for number, row in enumerate(snapshot.grid)},
    }


@lru_cache(maxsize=KEPT_ROWS)
def _encoded(line: str, cols: int, version: TmuxVersion, links: tuple[Link, ...] = ()) -> str:
    from tmuxmcp.terminal.emulator.seed import grid  # late: it brings the emulator

    return encoded(grid([line], cols, 1, version)[0], links) if line else "[]"


def _links(line: str, cols: int, version: TmuxVersion) -> tuple[Link, ...]:
    """The addresses behind a row as `capture-pane` printed it."""
    if LINK_INTRODUCER not in line:
        return ()
    from tmuxmcp.terminal.emulator.seed import captured_screen
    from tmuxmcp.terminal.emulator.stream import Stream

    screen = captured_screen(cols, 1, version)
    stream = Stream(screen)
    found = []
    for text, address in pieces(line):
        begin = screen.cursor.x
        stream.feed(text.encode("utf-8", "replace"))
        if address:
            found.append(Link(begin, screen.cursor.x, address))
    return tuple(found)


def encoded(row: Cells, links: Sequence[Link] = ()) -> str:
    """A row as JSON."""
    return json.dumps(spans(row, links), ensure_ascii=False, separators=(",", ":"))


def spans(row: Cells, links: Sequence[Link] = ()) -> list[Span]:
    """A row as stretches; blanks at its end that cannot be seen are left out."""
    end = len(row)
    while end and row[end - 1] == BLANK:
        end -= 1
    found, at = [], 0
    for link in links:
        begin, behind = min(link.begin, end), min(link.end, end)
        found += _stretches(row[at:begin])
        found += [span | {"h": link.address} for span in _stretches(row[begin:behind])]
        at = behind
    return found + _stretches(row[at:end])


def _stretches(cells: Cells) -> list[Span]:
    return [span for run in runs(cells) for span in _of_run(run)]


def _of_run(run: StyleRun) -> Iterator[Span]:
    style = _style(run.style._replace(link=""))
    if run.style.link:
        style = style | {"h": run.style.link}
    plain = ""
    for cell in run.cells:
        if not cell.width:
            continue
        if cell.width == 1 and cell.text.isascii() and cell.text.isprintable() and len(cell.text) == 1:
            plain += cell.text
            continue
        if plain:
            yield {"t": plain, **style}
            plain = ""
        yield {"t": drawable(cell.text).encode("utf-8", "replace").decode() or " ", "w": cell.width, **style}
    if plain:
        yield {"t": plain, **style}


@lru_cache(maxsize=4096)
def _style(style: Style) -> Span:
    seen = drawn_style(style, DARK_THEME)
    found: Span = {}
    if seen.ink != DARK_THEME.fg:
        found["f"] = _hex(seen.ink)
    if seen.ground != DARK_THEME.bg:
        found["b"] = _hex(seen.ground)
    marks = {"b": style.bold, "i": style.italic, "s": style.strike, "o": style.overline, "k": style.blink}
    if attributes := "".join([letter for letter, has in marks.items() if has]):
        found["a"] = attributes
    if style.underline:
        found["u"] = style.underline
        if seen.line != seen.ink:
            found["l"] = _hex(seen.line)
    return found


def _hex(colour: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
