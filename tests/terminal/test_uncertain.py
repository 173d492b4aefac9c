"""A screen whose beginning is lost is said to be exact only where it is, whatever came before."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.cases import for_each
from tests.kit.streams import HARD, TOKENS, stream
from tests.terminal.conftest import RealTmux, trimmed
from tmuxmcp.contract.value import replace
from tmuxmcp.terminal.emulator.replay import Replay, SizeChange, beginning, blank
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.seed import seed as seed_of
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import ALL_DOUBTS, Cell, Cells, Doubt, Snapshot, from_data, to_data

ENDED = b"x\x1b\\"
"""The end of whatever string it was."""

NCURSES = b"\x1b[?1049h\x1b[22;0;0t\x1b[1;6r\x1b(B\x1b[m\x1b[4l\x1b[?7h\x1b[?1h\x1b=\x1b[?25l\x1b[m\x0f\x1b[H\x1b[2J"
"""What a full-screen program begins with."""

SETTING = [
    *(b"\x1bc", b"\x1b[m\x1b[H\x1b[2J", b"\x1b[0;1m", b"\x1b[m", b"\x1b[H", b"\x1b[2J", b"\x1b[J", b"\x1b#8", ENDED),
    *(b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?47h", b"\x1b[?1047l", b"\x1b[r", b"\x1b[1;3r", b"\x1b(B\x1b)B\x0f"),
    *(b"\x1b[4l\x1b[?7h\x1b[?6l", b"\x1b[?25h", b"\x1b[3g", b"\x1b7", b"\x1b8", b"\x1b[2;2H", b"\x1b[?6h", NCURSES),
]
"""What sets a part of the state outright, or hides what it was."""


def after(data: bytes, *resizes: SizeChange, start: Snapshot | None = None) -> Snapshot:
    replay = Replay(start or beginning(20, 6, 0), resizes)
    replay.feed(data)
    return replay.snapshot()


@for_each(
    ("data", "exact"),
    [
        (b"", False),
        (ENDED, False),
        (ENDED + b"\x1bc", True),
        (ENDED + b"\x1bchello\r\n\x1b[1mthere", True),
        (b"\x1bc", False),  # it may be in a string
        (b"\x1b\x1b\\\x1bc", False),
        (b"\x1b\\\x1bc", False),  # what was before the escape is not known
        (ENDED + b"\x1b[m\x1b[H\x1b[2J", False),  # the cursor may be hidden, and rows may count from elsewhere
        (ENDED + b"\x1b[r\x1b[m\x1b[H\x1b[2J\x1b[?25h", True),
        (ENDED + b"\x1b[r\x1b[H\x1b[2J\x1b[?25h", False),  # in which colour?
        (ENDED + b"\x1b[r\x1b[m\x1b[H\x1b[2J\x1b[?25hhello", False),  # it may be inserted
        (ENDED + b"\x1b[r\x1b[m\x1b[H\x1b[2J\x1b[?25h\x1b[4lHELLO", True),
        (ENDED + b"\x1b[r\x1b[m\x1b[H\x1b[2J\x1b[?25h\x1b[4lhello", False),  # it may be lines
        (ENDED + NCURSES + b"hello\r\n\x1b[1mthere", True),
        (ENDED + NCURSES + b"hello\tthere", False),
        (ENDED + NCURSES + b"hello\x1b[?1049l", False),
        (ENDED + b"\x1bc\x1b[?1049h", False),  # into the alternate screen, or already there
        (ENDED + b"\x1bc\x1b[?1049l", False),
        (ENDED + b"\x1bc\x1b[?1049l\x1bc", True),
        (ENDED + b"\x1bc\x1b[?1049l\x1bcmain\x1b[?1049hover\x1b[?1049l", True),
        (ENDED + b"\x1bc\x1b8", False),
        (ENDED + b"\x1bc\x1b7\x1b8", True),
    ],
)
def test_what_a_program_sets_outright_is_known(data: bytes, exact: bool) -> None:
    assert after(data).approximate != exact
    cut = max(len(data) // 2, len(ENDED))
    halves = after(data[cut:], start=replace(after(data[:cut]), offset=0))
    assert halves.state == after(data).state  # also through a checkpoint
    bytewise = Replay(beginning(20, 6, 0))
    for at in range(len(data)):
        bytewise.feed(data[at : at + 1])
    assert bytewise.snapshot() == after(data)


def test_a_doubt_is_kept_with_the_screen() -> None:
    screen = after(ENDED + b"\x1bc")
    assert {Doubt.TITLE, Doubt.ALTERNATE} < set(screen.state.doubts)
    assert from_data(to_data(screen)) == screen
    titled = after(b"\x1b]2;hello\x07", start=replace(screen, offset=0))
    assert set(screen.state.doubts) - set(titled.state.doubts) == {Doubt.TITLE}
    assert "doubts" not in to_data(blank(20, 6))["state"]
    assert set(after(b"", start=replace(blank(20, 6), approximate=True)).state.doubts) == ALL_DOUBTS


def test_a_size_that_is_not_known_is_known_when_it_is_changed() -> None:
    reset = ENDED + b"\x1bc"
    unknown = beginning(20, 6, 0, size_known=False)
    assert after(reset, start=unknown).approximate
    assert after(b"ab" + reset, SizeChange(2, 30, 6), start=unknown).approximate is False


def test_after_a_resize_that_nobody_saw_a_cleared_screen_is_exact() -> None:
    def resized(data: bytes) -> Snapshot:
        return after(b"before" + data, SizeChange(6, 30, 8), start=blank(20, 6))

    assert resized(b"x").approximate
    assert not resized(b"\x1b[H\x1b[2Jx").approximate
    assert not resized(b"\x1b[H\x1b[2Jx").state.doubts
    assert not resized(b"\x1b[?1049h\x1b[Hx").approximate
    assert resized(b"\x1b[?1049h\x1b[Hx\x1b[?1049l").approximate


def test_output_that_was_lost_is_forgotten_after_a_reset() -> None:
    replay = Replay(blank(20, 6), gaps=[3])
    replay.feed(b"abcdef" + ENDED)
    assert replay.snapshot().approximate
    replay.feed(b"\x1bcx")
    assert not replay.snapshot().approximate


def test_tmux_wraps_the_main_screen_anew_when_the_alternate_one_is_left(real_tmux: RealTmux) -> None:
    before = b"".join(b"%d\r\n" % number for number in range(20)) + b"\x1b[?1049hover"
    (name,) = real_tmux.start([before], 20, 6)
    real_tmux.run("resize-window", "-t", name, "-x", "20", "-y", "9")
    replay = Replay(blank(20, 6), [SizeChange(len(before), 20, 9)])
    replay.feed(before)
    assert real_tmux.look([name])[0].screen == trimmed(replay.snapshot().text_rows())
    assert not replay.snapshot().approximate
    replay.feed(b"\x1b[?1049l")
    assert replay.snapshot().approximate
    real_tmux.print_more(name, b"\x1b[?1049l", len(before))
    shown = real_tmux.look([name])[0].screen
    real_tmux.run("kill-session", "-t", name)
    assert shown != trimmed(replay.snapshot().text_rows())  # tmux takes rows back from its history


def unlinked(grid: Sequence[Cells]) -> list[list[Cell]]:
    return [[cell._replace(style=cell.style._replace(link="")) for cell in row] for row in grid]


def same_as_shown(guessed: Snapshot, true: Snapshot) -> bool:
    doubts = guessed.state.doubts
    return (
        unlinked(guessed.grid) == unlinked(true.grid)  # an address that was set before is not known
        and replace(guessed.cursor, shape="") == replace(true.cursor, shape="")
        and (Doubt.TITLE in doubts or guessed.title == true.title)
        and (Doubt.ALTERNATE in doubts or guessed.alternate == true.alternate)
    )


@settings(max_examples=80)
@given(st.integers(0, 2**32), st.booleans())
def test_whatever_came_before_what_is_not_in_doubt_is_right(seed: int, reset: bool) -> None:
    chosen = Random(seed)
    kind = chosen.getrandbits(30) * 4 + chosen.randrange(4)
    (before, cols, rows), (other, _, _) = stream(kind, HARD), stream(kind + 4, TOKENS)
    true = Stream(Screen(cols, rows))
    true.feed(before[: chosen.randrange(len(before))])
    wrong = Stream(Screen(cols, rows))
    wrong.feed(other[: chosen.randrange(len(other))])
    begun = wrong.snapshot()
    doubts = tuple(sorted(ALL_DOUBTS - {Doubt.SIZE}))
    guess = Replay(replace(begun, approximate=True, state=replace(begun.state, doubts=doubts)))
    pieces = [ENDED, chosen.choice([b"\x1bc", NCURSES])] if reset else []
    for _ in range(20):
        more = stream(chosen.getrandbits(30) * 4 + kind % 4, HARD)[0]
        at = chosen.randrange(len(more))
        pieces.append(chosen.choice([chosen.choice(SETTING), more[at : at + chosen.randint(1, 40)]]))
    for piece in pieces:
        true.feed(piece)
        guess.feed(piece)
        screen = guess.snapshot()
        assert screen.approximate or same_as_shown(screen, true.snapshot()), (pieces, piece)


def test_tmux_shows_what_is_said_to_be_exact(real_tmux: RealTmux) -> None:
    rest = ENDED + NCURSES + b"hello\r\n\x1b[3;4H\x1b[31mthere\x1b[5;1H\n\n\x1b[Kend"
    befores = [stream(seed, HARD)[0] for seed in range(2, 122, 4)]
    befores += [stream(seed)[0] + b"\x1bPq" for seed in (2, 6)] + [b"\x1b[?1049hover\x1b[?6h\x1b[4h\x0e\x1b)0"]
    exact = after(rest)
    assert not exact.approximate
    for shown in real_tmux.show_all([before + rest for before in befores], 20, 6):
        told = seed_of(shown.seed.facts, shown.seed.rows, shown.seed.under)
        assert told.text_rows() == exact.text_rows()
        assert told.cursor == exact.cursor


@pytest.mark.parametrize("lost", [b"\x1b[m", b"x\x1b\\\x1b[m", b"\x1b8\x1b[31m"])
def test_no_address_is_behind_text_once_output_was_lost(lost: bytes) -> None:
    link = b"\x1b]8;;https://example.org\x1b\\"
    before = link + b"\x1b7a"
    replay = Replay(blank(10, 2), gaps=[len(before)])
    replay.feed(before + lost + b"b" + link + b"c")
    after = replay.snapshot().grid[0]
    assert [cell.style.link for cell in after if cell.text == "b"] == [""]
