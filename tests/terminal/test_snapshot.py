"""Snapshots: values that plain data gives back."""

from __future__ import annotations

import json

import pytest

from tmuxmcp.terminal.snapshot import (
    BLANK,
    PLAIN_STYLE,
    Cell,
    Cursor,
    HiddenState,
    SavedCursor,
    Snapshot,
    Style,
    from_data,
    runs,
    to_data,
)

RED = Style(fg=1, bold=True)
CURLY = Style((1, 2, 3), 255, underline="curly", underline_colour=(255, 0, 0), overline=True)
GRID = (
    (Cell("a", RED), Cell("日", RED, 2), Cell("", RED, 0), BLANK),
    (BLANK, Cell("e\u0301", CURLY), BLANK, Cell(" ", CURLY)),
    (BLANK,) * 4,
)
FULL = Snapshot(
    cols=4,
    rows=3,
    grid=GRID,
    cursor=Cursor(1, 3, visible=False, wraps=True, shape="bar"),
    alternate=True,
    title="a title",
    offset=1234,
    state=HiddenState(
        wrapped=(0,),
        pen=CURLY,
        margins=(0, 1),
        tab_stops=(2,),
        drawing=(True, False),
        last_char="x",
        saved=SavedCursor(1, 2, RED, True, (False, True), 1),
        under=GRID,
        under_wrapped=(1,),
        unfinished=b"\x1b[3\xff",
    ),
)


@pytest.mark.parametrize("snapshot", [FULL, Snapshot(1, 1, ((BLANK,),)), Snapshot(4, 3, GRID)])
def test_snapshot_comes_back_from_json(snapshot: Snapshot) -> None:
    assert from_data(json.loads(json.dumps(to_data(snapshot)))) == snapshot


def test_an_empty_screen_is_small() -> None:
    snapshot = Snapshot(200, 50, ((BLANK,) * 200,) * 50)
    assert len(json.dumps(to_data(snapshot))) < 1000


def test_rows_as_text_and_as_runs() -> None:
    assert FULL.text_rows() == ["a日", " e\u0301", ""]
    assert [(run.col, run.text, run.style) for run in runs(GRID[1])] == [
        (0, " ", PLAIN_STYLE),
        (1, "e\u0301", CURLY),
        (2, " ", PLAIN_STYLE),
        (3, " ", CURLY),
    ]


@pytest.mark.parametrize(
    "change",
    [{"grid": []}, {"cols": 3}, {"styles": []}, {"cursor": None}, {"state": {}}, {"grid": [[[0, 5]], [], []]}],
)
def test_what_is_not_a_snapshot_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a snapshot"):
        from_data(to_data(FULL) | change)
