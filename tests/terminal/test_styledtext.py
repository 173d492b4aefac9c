"""Clean text with its colours: the text of `plain`, and the styles that tmux shows."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.cases import for_each
from tests.kit.corpora import NAMES, Recording
from tests.terminal.conftest import RealTmux, styled_rows
from tests.terminal.test_plain import LIKE_TMUX
from tests.terminal.test_textscreen import UNUSUAL, USUAL
from tmuxmcp.terminal.emulator.redraw import shortened
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Style
from tmuxmcp.terminal.text import styledtext
from tmuxmcp.terminal.text.plain import plain, style_behind
from tmuxmcp.terminal.text.styledtext import StyleLetters
from tmuxmcp.terminal.text.textscreen import TextScreen

ansi = partial(plain, style=PLAIN_STYLE)
SGR = re.compile(r"\x1b\[[0-9;:]*m")
CUT = re.compile(r"\x1b(?!\[[0-9;:]*m)")
RED, GREEN = Style(fg=1), Style(fg=2)

EXACT = [
    ("nothing", b"", ""),
    ("no colour", b"a\tb \r\n\r\nc", "a\tb \n\nc"),
    ("a word", b"a \x1b[31mred\x1b[0m b\r\n", "a \x1b[31mred\x1b[0m b\n"),
    ("ls --color", b"\x1b[0m\x1b[01;34mdir\x1b[0m  a\r\n", "\x1b[1;34mdir\x1b[0m  a\n"),
    (
        "grep --color",
        b"\x1b[35m\x1b[Kf\x1b[m\x1b[K:\x1b[01;31m\x1b[Kx\x1b[m\x1b[K\r\n",
        "\x1b[35mf\x1b[0m:\x1b[1;31mx\x1b[0m\n",
    ),
    ("what changes nothing", b"\x1b[31m\x1b[31;22;31mr\x1b[39;49mx\x1b[31m\x1b[m\r\n", "\x1b[31mr\x1b[0mx\n"),
    ("open at the end", b"\x1b[31mred", "\x1b[31mred\x1b[0m"),
    ("over lines", b"\x1b[31ma\r\n\r\nb\r\n\x1b[mc", "\x1b[31ma\x1b[0m\n\n\x1b[31mb\x1b[0m\nc"),
    ("before a line's end", b"\x1b[31ma\x1b[32m\r\nb\x1b[0m\r\n", "\x1b[31ma\x1b[0m\n\x1b[32mb\x1b[0m\n"),
    ("between the bytes of a line's end", b"\x1b[31ma\r\x1b[0m\nb", "\x1b[31ma\x1b[0m\nb"),
    ("256 colours", b"\x1b[38;5;208mo\x1b[48;5;3mp\x1b[m", "\x1b[38;5;208mo\x1b[43mp\x1b[0m"),
    ("true colour", b"\x1b[38;2;1;2;3mt\x1b[m", "\x1b[38;2;1;2;3mt\x1b[0m"),
    ("colons", b"\x1b[38:2::1:2:3mt\x1b[4:3mc\x1b[m", "\x1b[38;2;1;2;3mt\x1b[4:3mc\x1b[0m"),
    ("underlined in colour", b"\x1b[4;58:5:9mu\x1b[m", "\x1b[4;58;5;9mu\x1b[0m"),
    (
        "only what is added",
        b"\x1b[1ma\x1b[31mb\x1b[42mc\x1b[22md\x1b[m",
        "\x1b[1ma\x1b[31mb\x1b[42mc\x1b[0;31;42md\x1b[0m",
    ),
    ("attributes", b"\x1b[1;2;3;4;5;7;8;9;53mx\x1b[m", "\x1b[1;2;3;5;7;8;9;53;4mx\x1b[0m"),
    ("hyperlink", b"\x1b]8;;http://x/\x1b\\\x1b[34mlink\x1b]8;;\x07\x1b[m", "\x1b[34mlink\x1b[0m"),
    (
        "title, modes, marks",
        b"\x1b]0;t\x07\x1b[?2004l\x1b]133;C\x07\x1b[31mr\x1b[>4;2m\x1b[m\r\n",
        "\x1b[31mr\x1b[0m\n",
    ),
    ("within a string", b"\x1bPtmux;\x1b\x1b[31mx\x1b\\y", "y"),
    ("a sequence too long to obey", b"\x1b[31m\x1b[" + b"1;" * 40 + b"mr", "\x1b[31mr\x1b[0m"),
    ("unfinished", b"\x1b[31mr\x1b[32", "\x1b[31mr\x1b[0m"),
    ("within a character", b"\xe6\x97\x1b[31m\xa5x\x1b[m", "\ufffd\x1b[31m\ufffdx\x1b[0m"),
    ("invisible characters", "\x1b[31m\u202ea\x1b[m".encode(), "\x1b[31m<U+202E>a\x1b[0m"),
]
EDITED = [
    ("bar", b"\x1b[31m 10%\r\x1b[32m100%\x1b[m\r\n", "\x1b[32m100%\x1b[0m\n"),
    ("bar of one colour", b"\x1b[32m10%\r50%\x1b[m\r\nx", "\x1b[32m50%\x1b[0m\nx"),
    ("shorter state", b"\x1b[31mabcdef\r\x1b[32mxy\x1b[m\r\n", "\x1b[32mxy\x1b[31mcdef\x1b[0m\n"),
    ("erased", b"\x1b[31mlonger\r\x1b[K\x1b[32mxy\x1b[m\r\n", "\x1b[32mxy\x1b[0m\n"),
    ("backspace", b"\x1b[31mab\b\x1b[mc\r\n", "\x1b[31ma\x1b[0mc\n"),
    (
        "typed in the middle",
        b"\x1b[31mac\x1b[m\b\x1b[1@\x1b[32mb\x1b[m\r\n",
        "\x1b[31ma\x1b[32mb\x1b[31mc\x1b[0m\n",
    ),
    ("wide", "\x1b[31m日本\b\b\x1b[32mx\x1b[m\r\n".encode(), "\x1b[31m日\x1b[32mx\x1b[0m\n"),
    ("accent", "\x1b[31me\x1b[32m\u0301x\rb\x1b[m\r\n".encode(), "\x1b[32mbx\x1b[0m\n"),
    ("gap", b"\x1b[41ma\x1b[3Cb\x1b[m\r\n", "\x1b[41ma\x1b[0m   \x1b[41mb\x1b[0m\n"),
]
MOVED = [
    ("up", b"\x1b[31mone\r\n\x1b[32mtwo\r\n\x1b[2A\x1b[mO\r\n\r\n", "O\x1b[31mne\x1b[0m\n\x1b[32mtwo\x1b[0m\n"),
    ("saved style", b"\x1b[31m\x1b7\x1b[mx\r\n\x1b8y\r\n\r\n", "\x1b[31my\x1b[0m\n\n"),
    ("line drawing", b"\x1b[31m\x1b(0lqk\x1b(B\x1b[m\r\nx\r\n", "\x1b[31m┌─┐\x1b[0m\nx\n"),
    (
        "style goes on behind",
        b"a\r\n\x1b[A\x1b[31mb\r\nc\r\n" + b"d\r\n" * 30,
        "\x1b[31mb\x1b[0m\n\x1b[31mc\x1b[0m\n" + "\x1b[31md\x1b[0m\n" * 30,
    ),
    (
        "full-screen program",
        b"\x1b[31m\x1b[?1049h\x1b[44m\x1b[2Jdrawn\x1b[?1049lr\x1b[m\r\n",
        "[full-screen program: 14 bytes of screen drawing left out]\n\x1b[31mr\x1b[0m\n",
    ),
    ("cleared", b"\x1b[31ma\r\n\x1b[H\x1b[2Jb\r\n\x1bcc\r\n", "\x1b[31ma\x1b[0m\n\x1b[31mb\x1b[0m\nc\n"),
]


@for_each(("data", "text"), [pytest.param(data, text, id=name) for name, data, text in EXACT + EDITED + MOVED])
def test_text_has_its_colours(data: bytes, text: str) -> None:
    assert ansi(data, cols=80).text == text


def holds(text: str, bare: str) -> None:
    """Nothing but text and styles, and no style at a line's end."""
    assert SGR.sub("", text) == bare
    for line in text.split("\n"):
        changes = SGR.findall(line)
        assert not changes or (changes[-1] == "\x1b[0m" and changes[0] != "\x1b[0m")


STYLES = [b"\x1b[m", b"\x1b[0m", b"\x1b[31m", b"\x1b[1;44m", b"\x1b[38;2;1;2;3m", b"\x1b[4:3m", b"\x1b[7;38:5:99m"]
LEVEL = [
    *(
        b"a",
        b"two words",
        b"  ",
        "é".encode(),
        "日".encode(),
        "👩\u200d💻".encode(),
        "\u200d".encode(),
        "e\u0301".encode(),
    ),
    *("\u202e".encode(), b"\xff", b"\xc3", b"\xa9", b"\xe2\x80", b"\x8d", b"\r\n", b"\r\n", b"\n", b"\r", b"\b", b"\t"),
    *(
        b"\0",
        b"\x07",
        b"\x1b",
        b"\x1b[",
        b"m",
        b"0",
        b"\x1b[K",
        b"\x1b[J",
        b"\x1b[1K",
        b"\x1b[2K",
        b"\x1b[P",
        b"\x1b[2@",
    ),
    *(b"\x1b[3C", b"\x1b[D", b"\x1b[5G", b"\x1b[2b", b"\x1b[Z", b"\x1b[3X", b"\x1b]0;t\x07", b"\x1bPq\x1b[31m\x1b\\"),
]
SWITCHES = [b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?47h", b"\x1b[?47l", b"\x1b[H\x1b[2J", b"\x1bc"]
STREAMS = st.one_of(
    st.lists(st.sampled_from(LEVEL + STYLES * 4), max_size=40),
    st.lists(st.sampled_from(USUAL + UNUSUAL + SWITCHES * 2 + STYLES * 8) | st.binary(max_size=6), max_size=40),
).map(b"".join)
"""Anything that a program may print, a style every few words."""


@given(
    STREAMS,
    st.sampled_from([80, 20, 7]),
    st.sampled_from([24, 4]),
    st.integers(0, 20),
    st.sampled_from([None, False, True]),
)
def test_without_its_colours_it_is_the_plain_text(
    data: bytes, cols: int, rows: int, col: int, inside: bool | None
) -> None:
    found = ansi(data, cols, rows, col=col, inside=inside, style=RED)
    text = plain(data, cols, rows, col=col, inside=inside)
    holds(found.text, text.text)
    assert found.sanitized == text.sanitized


def test_begun_line_goes_on_in_its_style_behind_blanks_without_one() -> None:
    style = Style(bg=4)
    assert ansi(b"b\x1b[mc\r\n", 80, col=3, style=style).text == "\x1b[44mb\x1b[0mc\n"
    assert ansi(b"b\rx\x1b[m\r\n", 80, col=3, style=style).text == "\x1b[44mx\x1b[0m  \x1b[44mb\x1b[0m\n"
    assert ansi(b"b\x1b[Ac\x1b[m", 80, col=3, style=style).text == "   \x1b[44mbc\x1b[0m"
    assert ansi(b"b\x1b(B\x1b[Ac\rd\x1b[m", 80, col=3, style=style).text == "\x1b[44md\x1b[0m  \x1b[44mbc\x1b[0m"


@for_each("name", NAMES)
def test_recording_of_a_real_program_without_its_colours_is_the_plain_text(name: str) -> None:
    recording = Recording(name)
    holds(
        ansi(recording.raw, recording.cols, recording.rows).text,
        plain(recording.raw, recording.cols, recording.rows).text,
    )


def shown(lines: list[str]) -> list[tuple[str, Style]]:
    """Every character that is no blank, with its style."""
    return [(char, style) for row in styled_rows(lines) for style, text in row for char in text if char not in " \t"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(USUAL + STYLES * 4), max_size=60).map(b"".join))
def test_styles_of_text_that_moves_are_those_of_the_screen(data: bytes) -> None:
    palette, screen = StyleLetters(), Screen(20, 6)
    drawn = TextScreen(20, 6, palette=palette)
    drawn.feed(data)
    Stream(screen, errors="replace").feed(data)
    seen = shown(palette.drawn(drawn.text()).split("\n"))
    assert drawn.pen.style == screen.pen.style
    cells = [(cell.text, cell.style) for row in screen.buffer for cell in row if cell.text.strip(" ")]
    assert seen[len(seen) - len(cells) :] == cells


COLOURED = [
    (name, data.replace(b"x", b"\x1b[3%dmx" % (number % 8)).replace(b"y", b"y\x1b[m"))
    for number, (name, data) in enumerate(LIKE_TMUX)
]


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in COLOURED])
def test_styles_are_those_that_tmux_shows(data: bytes, real_tmux: RealTmux) -> None:
    (name,) = real_tmux.start([data], 40, 10)
    history = real_tmux.run("capture-pane", "-p", "-e", "-J", "-S", "-", "-t", name)
    real_tmux.run("kill-session", "-t", f"={name}")
    assert shown(ansi(data, cols=40, rows=10).text.split("\n")) == shown(history.split("\n"))


LINES = st.lists(st.sampled_from([b"a", b"two words ", "日".encode(), b"\r\n", b"\r\n", *STYLES]), max_size=40).map(
    b"".join
)


@given(LINES, st.integers(0, 400))
def test_pieces_cut_at_line_ends_are_the_whole(data: bytes, near: int) -> None:
    cut = data.find(b"\n", near) + 1
    rest = ansi(data[cut:], 80, style=style_behind(data[:cut])).text
    assert ansi(data[:cut], 80).text + rest == ansi(data, 80).text


BEHIND = [
    (b"", PLAIN_STYLE),
    (b"\x1b[32mx", GREEN),
    (b"\x1b[32mx\x1b[m", PLAIN_STYLE),
    (b"\x1b[32m\x1b[?1049h\x1b[44mx", GREEN),
    (b"\x1b[32m\x1b[?1049h\x1b[44mx\x1b[?1049l", GREEN),
    (b"\x1b[32m\x1b[?47h\x1b[31mx\x1b[?47l", RED),
    (b"\x1b[32m\x1b7\x1b[31m\x1b8", GREEN),
    (b"\x1b[32m\x1bc", PLAIN_STYLE),
    (b"\x1bPq\x1b[32m\x1b\\", PLAIN_STYLE),
]


@for_each(("data", "style"), BEHIND)
def test_style_behind(data: bytes, style: Style) -> None:
    assert style_behind(data) == style


def test_style_behind_a_full_screen_program_that_began_before() -> None:
    assert style_behind(b"\x1b[44mx", RED, inside=True) == RED
    assert style_behind(b"\x1b[44mx\x1b[?1049l\x1b[1m", RED, inside=True) == RED._replace(bold=True)


@settings(deadline=None)
@given(STREAMS, st.integers(0, 120))
def test_shortened_text_is_whole_and_fits(data: bytes, limit: int) -> None:
    text = ansi(data, 80).text
    cut = shortened(text, limit)
    assert len(cut.encode()) <= limit or cut == text
    assert not CUT.search(cut)
    bare = SGR.sub("", cut)
    assert SGR.sub("", text).startswith(bare)
    holds(cut, bare)


def test_shortened_text_without_colours_is_cut_between_characters() -> None:
    assert [shortened("aé", limit) for limit in (0, 1, 2, 3)] == ["", "a", "a", "aé"]
    assert shortened("ab\x1b[31mc\x1b[0m", 3) == "ab"
    assert shortened("a\x1b[31mbcd\x1b[0m", 12) == "a\x1b[31mbc\x1b[0m"


def test_importing_it_costs_no_emulator() -> None:
    script = "import sys, tmuxmcp.terminal.text.plain; sys.exit(bool({'pyte'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_more_styles_than_a_text_can_have_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(styledtext, "MAX_STYLES", 3)
    assert ansi(b"\x1b[31ma\x1b[32mb\x1b[33mc\x1b[31md", 80).text == "\x1b[31ma\x1b[32mb\x1b[0mc\x1b[31md\x1b[0m"
