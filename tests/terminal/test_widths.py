from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.cases import for_each
from tests.terminal.columns import COLS, ROWS, SAMPLES
from tests.terminal.conftest import RealTmux
from tmuxmcp.terminal.emulator.replay import Replay, blank, counted_by
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.seed import grid, seed
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import Doubt, from_data, to_data
from tmuxmcp.terminal.text.textscreen import TextScreen
from tmuxmcp.terminal.widths import TmuxVersion, char_width, clusters, counted_alike, text_width, version_of

VERSIONS = ("3.2a", "3.3a", "3.4", "3.5a", "3.6", "3.6b", "3.7c", "3.8")
OTHER_TMUXES = os.environ.get("TMUXMCP_TEST_TMUX", "").split()
"""Paths of more of them: what is tried with the machine's is tried with these, too."""


def number(said: str) -> TmuxVersion:
    found = version_of(said)
    assert found
    return found


def measured(sample: str, said: str) -> tuple[str, int, int]:
    """What a version was seen to do, or the last one measured before it."""
    _, by_version = SAMPLES[sample]
    known = [each for each in by_version if number(each) <= number(said)]
    return by_version[max(known, key=number) if known else "3.3a"]


def drawn(text: str, version: TmuxVersion) -> Screen:
    screen = Screen(COLS, ROWS)
    screen.count_as(version)
    Stream(screen).feed(text.encode())
    return screen


def seen(screen: Screen) -> tuple[str, int, int]:
    rows = [row.rstrip() for row in screen.display]
    return "\n".join(filter(None, rows)), screen.cursor.y, screen.cursor.x


@for_each(
    ("char", "version", "width"),
    [
        *[(char, said, 1) for char in ("a", "é", "\ufffd", "\u093f", "\u00ad", "①", "\ue0b0") for said in VERSIONS],
        *[(char, said, 2) for char in ("日", "💻", "🏽", "㉈", "\u302e", "\u1112") for said in VERSIONS],
        *[(char, said, 0) for char in ("\x1b", "\x7f", "\x9b", "\u0301", "\u200d", "\ufe0f") for said in VERSIONS],
        *[("🇩", "3.3a", 1), ("🇩", "3.4", 2), ("🇩", "3.5a", 2), ("🇩", "3.6", 1), ("🇩", "3.8", 1)],
        *[(char, "3.3a", 1) for char in "☝⛹✌✍🏋🏌🕴🕵🖐"],
        *[(char, said, 2) for char in "☝⛹✌✍🏋🏌🕴🕵🖐" for said in ("3.4", "3.5a", "3.8")],
        *[("☰", "3.3a", 1), ("☰", "3.5a", 2), ("𝌆", "3.3a", 1), ("𝌆", "3.8", 2)],
        *[("\ufffe", "3.3a", 0), ("\ufffe", "3.5a", 1), ("\u2028", "3.3a", 0), ("\u2028", "3.5a", 1)],
        *[("\u3164", "3.3a", 2), ("\u3164", "3.5a", 0), ("\uffa0", "3.3a", 1), ("\uffa0", "3.5a", 0)],
    ],
)
def test_width_of(char: str, version: str, width: int) -> None:
    assert char_width(char, number(version)) == width


@for_each(
    ("said", "version"),
    [
        ("3.3a", (3, 3, "a")),
        ("3.4", (3, 4, "")),
        ("next-3.8", (3, 8, "")),
        ("tmux 3.6b", (3, 6, "b")),
        ("master", None),
    ],
)
def test_version_is_read(said: str, version: TmuxVersion | None) -> None:
    assert version_of(said) == version


def test_what_joins_is_in_one_cell() -> None:
    family = "👨\u200d👩\u200d👧"
    for said in VERSIONS:
        version = number(said)
        assert list(clusters(f"e\u0301{family}x", version)) == [("e\u0301", 1), (family, 2), ("x", 1)]
        assert list(clusters("\u0301a", version)) == [(" \u0301", 1), ("a", 1)]
        assert text_width(f"日{family}e\u0301", version) == 5
    assert text_width("⚠\ufe0f W", number("3.3a")) == text_width("⚠\ufe0f W", number("3.4")) == 3
    assert text_width("⚠\ufe0f W", number("3.5a")) == text_width("⚠\ufe0f W", number("3.8")) == 4


@pytest.mark.parametrize("said", VERSIONS[1:])
def test_samples_are_drawn_as_each_version_was_seen_to(said: str) -> None:
    wrong = {}
    for sample, (text, _) in SAMPLES.items():
        found, wanted = seen(drawn(text, number(said))), measured(sample, said)
        if found != wanted:
            wrong[sample] = (found, wanted)
    assert not wrong


@pytest.mark.parametrize("said", VERSIONS[1:])
def test_text_of_samples_is_what_each_version_was_seen_to_show(said: str) -> None:
    wrong = {}
    for sample, (text, _) in SAMPLES.items():
        screen = TextScreen(COLS, ROWS, version=number(said))
        screen.feed(text.encode())
        screen.end()
        found, wanted = (screen.cursor.y, screen.cursor.x), measured(sample, said)
        shown, text = screen.text().rstrip("\n"), wanted[0]
        if "\n" in text:  # a capture of rows leaves out the blanks where a line goes on in the next
            shown, text = shown.replace(" ", ""), text.replace(" ", "").replace("\n", "")
        if found != wanted[1:] or shown != text:
            wrong[sample] = (found, shown, wanted)
    assert not wrong


@pytest.mark.parametrize("said", VERSIONS[1:])
def test_samples_cut_anywhere_are_drawn_alike(said: str) -> None:
    for text, _ in SAMPLES.values():
        data = text.encode()
        whole = drawn(text, number(said)).snapshot()
        stream = Stream(screen := Screen(COLS, ROWS))
        screen.count_as(number(said))
        for at in range(len(data)):
            stream.feed(data[at : at + 1])
        assert stream.snapshot() == whole
        assert from_data(to_data(whole)) == whole


def test_samples_that_versions_count_differently_are_known_to_be_so() -> None:
    for text, by_version in SAMPLES.values():
        assert len(by_version) == 1 or not counted_alike(text)
    for text in ("plain", "日本 e\u0301 ─│ ✓ → é", "💻🚀", "\u0643\u062a"):
        assert counted_alike(text)


def test_screen_of_an_unknown_tmux_is_approximate_once_versions_differ() -> None:
    replay = Replay(counted_by(blank(20, 6), None))
    replay.feed("plain 日本 ✓ e\u0301\r\n".encode())
    assert not replay.snapshot().approximate
    replay.feed("⚠\ufe0f W".encode())
    assert replay.snapshot().approximate
    replay.feed(b"\x1b[H\x1b[2J\x1b[mnew")
    assert not replay.snapshot().approximate
    assert Doubt.WIDTHS in replay.doubts


def test_screen_of_a_known_tmux_is_not_approximate() -> None:
    replay = Replay(counted_by(blank(20, 6), number("3.8")))
    replay.feed("⚠\ufe0f W".encode())
    snapshot = replay.snapshot()
    assert (snapshot.approximate, snapshot.cursor.col) == (False, 4)


@pytest.fixture(scope="module", params=["tmux", *OTHER_TMUXES])
def any_tmux(request: pytest.FixtureRequest) -> Iterator[RealTmux]:
    with tempfile.TemporaryDirectory(prefix="tm-") as home:
        server = RealTmux(Path(home), request.param)
        yield server
        server.run("kill-server")


def test_a_real_tmux_shows_the_samples_as_they_are_drawn(any_tmux: RealTmux) -> None:
    version = number(any_tmux.run("display-message", "-p", "#{version}"))
    wrong = {}
    texts = [text for text, _ in SAMPLES.values()]
    for sample, shown in zip(SAMPLES, any_tmux.show_all([text.encode() for text in texts], COLS, ROWS), strict=True):
        screen = drawn(SAMPLES[sample][0], version)
        if seen(screen) != ("\n".join(shown.screen), *shown.cursor):
            wrong[sample] = (seen(screen), shown)
    assert not wrong


def test_captured_rows_are_read_into_the_cells_that_they_came_from(any_tmux: RealTmux) -> None:
    version = number(any_tmux.run("display-message", "-p", "#{version}"))
    text = "⚠\ufe0f W 👋🏽 🇩🇪\r\n❤\ufe0f|日|"
    (shown,) = any_tmux.show_all([text.encode()], COLS, ROWS)
    screen = drawn(text, version)
    told = seed(shown.seed.facts, shown.seed.rows, tmux=version)
    for at, row in enumerate(told.grid[:2]):
        marks = [(col, cell.text) for col, cell in enumerate(row) if cell.text in ("W", "|", "日")]
        assert marks == [(c, cell.text) for c, cell in enumerate(screen.buffer[at]) if cell.text in ("W", "|", "日")]
    assert grid(shown.seed.rows, COLS, ROWS, version) == told.grid
