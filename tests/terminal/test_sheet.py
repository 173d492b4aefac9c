from __future__ import annotations

import pytest

from tmuxmcp.terminal.emulator.sheet import last_shape


@pytest.mark.parametrize(
    ("printed", "shape"),
    [
        (b"nothing of it", None),
        (b"\x1b[5 q", "bar"),
        (b"\x1b[6 q text \x1b[ q", "block"),
        (b"\x1b[ q\x1b[3 qmore", "underline"),
        (b"\x1b[5 q\x1bc", "block"),
        (b"\x1b[7 q", None),
        (b"\x1b[5", None),
    ],
)
def test_last_shape_counts(printed: bytes, shape: str | None):
    assert last_shape(printed) == shape
