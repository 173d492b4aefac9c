from __future__ import annotations

import pytest

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.faces.tokens import is_loopback, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7433", ("127.0.0.1", 7433)),
        ("7433", ("127.0.0.1", 7433)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:80", ("::1", 80)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", ":", "127.0.0.1:65536", "::1:80", "[x]:80", "a:b:1", "host:1x"])
def test_what_is_no_address(text: str):
    with pytest.raises(InvalidArgument):
        parse_address(text)


def test_loopback():
    assert is_loopback("127.9.9.9")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("fe80::1%eth0")
