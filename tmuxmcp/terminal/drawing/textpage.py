"""The text of a film as a page of HTML with its colours: it can be searched and copied, and fetches nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tmuxmcp.terminal.drawing.markup import FONT_FAMILIES, SVG_POLICY, css
from tmuxmcp.terminal.drawing.theme import DARK_THEME, Theme, drawable, drawn_style
from tmuxmcp.terminal.emulator.sgr import SGR, restyled
from tmuxmcp.terminal.film.film import Film
from tmuxmcp.terminal.snapshot import PLAIN_STYLE
from tmuxmcp.terminal.text.logtext import film_text


def as_html(film: Film, theme: Theme = DARK_THEME) -> Iterator[bytes]:
    """Give the page, a piece at a time."""
    yield _head(film.title, theme).encode("utf-8", "replace")
    for piece in film_text(film, colours=True):
        yield coloured(piece, theme).encode("utf-8", "replace")
    yield b"</pre></body></html>\n"


def _head(title: str, theme: Theme) -> str:
    base = (
        f"margin:0;padding:10px;min-height:100vh;box-sizing:border-box;background:{_hex(theme.bg)};"
        f"color:{_hex(theme.fg)};font:14px/18px {FONT_FAMILIES};white-space:pre-wrap;overflow-wrap:anywhere;"
        "direction:ltr;unicode-bidi:bidi-override"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{SVG_POLICY}">'
        f"<title>{escape(drawable(title) or 'Terminal')}</title>"
        f"<style>pre{{{base}}}body{{margin:0}}</style></head>\n<body><pre>"
    )


def coloured(text: str, theme: Theme = DARK_THEME) -> str:
    """Text with SGR sequences as HTML; it begins in the terminal's own style."""
    made, style = [], PLAIN_STYLE
    parts = SGR.split(text)
    for part, params in zip(parts[::2], [*parts[1::2], ""], strict=True):
        if part:
            rules = css(style, drawn_style(style, theme), theme)
            made.append(f'<span style="{rules}">{escape(part)}</span>' if rules else escape(part))
        style = restyled(style, params)
    return "".join(made)


def _hex(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
