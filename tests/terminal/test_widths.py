from __future__ import annotations

import pytest

from tmuxmcp.terminal.widths import char_width


@pytest.mark.parametrize(
    ("char", "width"),
    [
        *[("a", 1), ("é", 1), ("日", 2), ("💻", 2), ("\ufffd", 1)],
        *[("\x1b", 0), ("\x7f", 0), ("\x9b", 0), ("\u0301", 0), ("\u200d", 0), ("\ufe0f", 0)],
        *[("🇩", 1), ("🏽", 2), ("\u093f", 1), ("\u00ad", 1)],  # as tmux has them
    ],
)
def test_width_of(char: str, width: int) -> None:
    assert char_width(char) == width
