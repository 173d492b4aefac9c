from __future__ import annotations

from tests.kit.cases import for_each
from tmuxmcp.terminal.keys import encode


@for_each(
    ("action", "button", "expected"),
    [
        ("click", "", b"\x1b[<0;8;4M\x1b[<0;8;4m"),
        ("click", "right", b"\x1b[<2;8;4M\x1b[<2;8;4m"),
        ("press", "middle", b"\x1b[<1;8;4M"),
        ("release", "", b"\x1b[<0;8;4m"),
        ("move", "", b"\x1b[<35;8;4M"),
        ("move", "left", b"\x1b[<32;8;4M"),
        ("scroll_up", "", b"\x1b[<64;8;4M"),
        ("scroll_down", "", b"\x1b[<65;8;4M"),
    ],
)
def test_event_in_the_sgr_encoding(action: str, button: str, expected: bytes) -> None:
    assert encode(action, 3, 7, button) == expected


def test_no_place_is_too_far_away() -> None:
    assert encode("press", 499, 499) == b"\x1b[<0;500;500M"
