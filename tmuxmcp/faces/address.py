"""Addresses to listen on, as people write them."""

from __future__ import annotations

import ipaddress
import re

from tmuxmcp.contract.errors import InvalidArgument

HOST_AND_PORT = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:]+):)?(?P<port>\d{1,5})\Z")


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT` or `PORT`, which is on the loopback address; IPv6 in brackets; port 0: any that is free.

    Raises:
        InvalidArgument: it is neither.
    """
    match = HOST_AND_PORT.match(text)
    if not match or int(match["port"]) > 65535:
        raise InvalidArgument(f"{text!r} is no address to listen on.", hint="Give HOST:PORT, such as 127.0.0.1:7433.")
    return (match["host"] or "127.0.0.1").strip("[]"), int(match["port"])


def is_loopback(address: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
