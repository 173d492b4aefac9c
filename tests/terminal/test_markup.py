from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from tmuxmcp.terminal.drawing.markup import CELL_HEIGHT, CELL_WIDTH, SVG_MARGIN, html, svg
from tmuxmcp.terminal.drawing.theme import BACKGROUND, PALETTE, drawable, drawn_style
from tmuxmcp.terminal.snapshot import BLANK, PLAIN_STYLE, Cell, Cursor, Snapshot, Style

RED = Style(fg=(200, 0, 0))


def screen(*rows: list[Cell], cols: int = 12, cursor: Cursor | None = None, title: str = "") -> Snapshot:
    grid = tuple((*row, *[BLANK] * (cols - len(row))) for row in rows)
    return Snapshot(cols, len(grid), grid, cursor or Cursor(visible=False), title=title)


def text(words: str, style: Style = PLAIN_STYLE) -> list[Cell]:
    return [Cell(char, style) for char in words]


def wide(char: str, style: Style = PLAIN_STYLE) -> list[Cell]:
    return [Cell(char, style, 2), Cell("", style, 0)]


def drawn(picture: str) -> dict[tuple[int, int], tuple[str, float]]:
    """Text and columns of what an SVG draws, by row and column."""
    found = {}
    for node in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):
        col = (float(node.attrib["x"]) - SVG_MARGIN) / CELL_WIDTH
        row = (float(node.attrib["y"]) - SVG_MARGIN) // CELL_HEIGHT
        found[int(row), round(col)] = (node.text or "", round(float(node.attrib["textLength"]) / CELL_WIDTH, 1))
    return found


def test_each_word_stands_at_its_cells():
    picture = svg(screen([*text("ab  cd"), *wide("日"), *text("e")], text(" ─┐", RED)))
    assert drawn(picture) == {
        (0, 0): ("ab", 2),
        (0, 4): ("cd", 2),
        (0, 6): ("日", 2),
        (0, 8): ("e", 1),
        (1, 1): ("─┐", 2),
    }


def test_joined_characters_are_one_cell():
    family = "👨\u200d👩\u200d👧"
    assert drawn(svg(screen([Cell("e\u0301"), *wide(family)]))) == {(0, 0): ("e\u0301", 1), (0, 1): (family, 2)}


def test_styles_are_drawn():
    style = Style(fg=(1, 2, 3), bg=(4, 5, 6), bold=True, italic=True, underline="single", strike=True)
    picture = svg(screen(text("x", style)))
    assert 'fill="#010203" font-weight="bold" font-style="italic"' in picture
    assert 'fill="#040506"' in picture
    assert picture.count('stroke="#010203"') == 2


def test_cursor_turns_its_cell_around():
    picture = svg(screen(text("ab"), cursor=Cursor(0, 1)))
    assert f'fill="#{BACKGROUND[0]:02x}{BACKGROUND[1]:02x}{BACKGROUND[2]:02x}" ' not in picture.split("<text")[1]
    assert f'<rect x="{SVG_MARGIN + CELL_WIDTH}" y="{SVG_MARGIN}" width="{CELL_WIDTH}"' in picture
    assert svg(screen(text("ab"), cursor=Cursor(0, 1, visible=False))).count("<rect") == 1
    wide_one = svg(screen([*wide("日")], cursor=Cursor(0, 1)))
    assert f'width="{2 * CELL_WIDTH}"' in wide_one


def test_markup_is_escaped_and_nothing_runs():
    evil = "<script>alert('1')</script>&\"</title><svg onload=x>"
    shot = screen(text(evil), cols=80, title=evil)
    ElementTree.fromstring(svg(shot))
    for page in (svg(shot), html(shot)):
        assert "<script" not in page
        assert "<svg onload" not in page
        assert "alert(&#x27;1" in page or "alert(" in page
    assert "default-src 'none'" in html(shot)


def test_what_is_not_seen_is_not_drawn():
    assert drawable("a\u202eb\x1b\ud800\ufffec\U0001fffed") == "abcd"
    assert drawable("👩\u200d💻") == "👩\u200d💻"


class Text(HTMLParser):
    """The text of a page's `pre`."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.within, self.text = False, ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.within |= tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        self.within &= tag != "pre"

    def handle_data(self, data: str) -> None:
        self.text += data if self.within else ""


def test_page_holds_the_text():
    shot = screen(text("<a> & b", RED), [*wide("日"), *text("本")], title="t")
    assert [row.rstrip() for row in Text(html(shot)).text.split("\n")] == ["<a> & b", "日本"]
    assert re.search(r'<span style="color:#c80000">&lt;a&gt; &amp; b</span>', html(shot))
    assert '<i style="width:2ch">日</i>' in html(shot)


def test_colours():
    assert drawn_style(Style(fg=1, bg=None, reverse=True)).ground == PALETTE[1]
    assert drawn_style(Style(fg=196)).ink == (255, 0, 0)
    assert drawn_style(Style(fg=244)).ink == (128, 128, 128)
    assert drawn_style(Style(fg=(10, 20, 30), bg=(20, 40, 50), faint=True)).ink == (15, 30, 40)
    assert drawn_style(Style(fg=1, bg=2, conceal=True)).ink == PALETTE[2]


COLOURS = st.none() | st.integers(0, 255) | st.tuples(*[st.integers(0, 255)] * 3)
STYLES = st.tuples(COLOURS, COLOURS, *[st.booleans()] * 3, st.sampled_from(["", "single", "curly"])).map(
    lambda values: Style(*values)
)
CELLS = st.one_of(
    st.builds(lambda char, style: [Cell(char, style)], st.characters(), STYLES),
    st.builds(wide, st.sampled_from("日本👩"), STYLES),
)
ROWS = st.lists(CELLS, max_size=5).map(lambda cells: [cell for each in cells for cell in each])


@settings(max_examples=50)
@given(st.lists(ROWS, min_size=1, max_size=3), st.integers(0, 11), st.text(max_size=5))
def test_any_screen_gives_well_formed_pictures_each_time_the_same(rows: list[list[Cell]], col: int, title: str):
    shot = screen(*rows, cursor=Cursor(0, col), title=title)
    picture = svg(shot)
    ElementTree.fromstring(picture)
    assert (svg(shot), html(shot)) == (picture, html(shot))
    for (row, at), (word, cols) in drawn(picture).items():
        cells = shot.grid[row][at : at + int(cols)]
        assert drawable("".join(cell.text for cell in cells)).strip() == word
