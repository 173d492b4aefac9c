"""A point of a log as a person names it: an offset, or a time. It imports nothing that takes time."""

from __future__ import annotations

import re
from datetime import datetime

from tmuxmcp.contract.latedataclass import dataclass

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}

AGO_TEXT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])")


@dataclass(frozen=True)
class Point:
    """One of the three is given."""

    word: str
    """As it was typed."""
    offset: int | None = None
    ago_s: float | None = None
    at_s: float | None = None
    """Since 1970."""


def age(word: str) -> float:
    """Seconds of `90s`, `15m`, `12h` or `7d`.

    Raises:
        ValueError: it is none of these.
    """
    found = AGO_TEXT.fullmatch(word)
    if not found:
        raise ValueError
    return float(found[1]) * UNITS_S[found[2]]


def point(word: str) -> Point:
    """The point of an option: digits are an offset, `10m` is ten minutes ago, all else ISO 8601.

    A time without a zone is local.

    Raises:
        ValueError: it is none of these.
    """
    if re.fullmatch(r"\d{1,18}", word):
        return Point(word, offset=int(word))
    if AGO_TEXT.fullmatch(word):
        return Point(word, ago_s=age(word))
    try:
        return Point(word, at_s=datetime.fromisoformat(word).astimezone().timestamp())
    except OverflowError as error:
        raise ValueError from error
