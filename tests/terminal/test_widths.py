from __future__ import annotations

from tests.cases import for_each
from tmuxmcp.terminal.widths import char_width, clusters, text_width


@for_each(
    ("char", "width"),
    [
        *[("a", 1), ("é", 1), ("日", 2), ("💻", 2), ("\ufffd", 1)],
        *[("\x1b", 0), ("\x7f", 0), ("\x9b", 0), ("\u0301", 0), ("\u200d", 0), ("\ufe0f", 0)],
        *[("🇩", 1), ("🏽", 2), ("\u093f", 1), ("\u00ad", 1)],  # as tmux has them
    ],
)
def test_width_of(char: str, width: int) -> None:
    assert char_width(char) == width


def test_what_joins_is_in_one_cell() -> None:
    family = "👨\u200d👩\u200d👧"
    assert list(clusters(f"e\u0301{family}x")) == [("e\u0301", 1), (family, 2), ("x", 1)]
    assert list(clusters("\u0301a")) == [(" \u0301", 1), ("a", 1)]
    assert text_width(f"日{family}e\u0301") == 5
