"""Times are told in one form."""

from __future__ import annotations

import time

from tmuxmcp.contract.call import iso, ms_since


def test_time_is_utc_to_the_millisecond():
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1_700_000_000.1239) == "2023-11-14T22:13:20.123Z"


def test_time_since_is_in_milliseconds():
    assert 1500 <= ms_since(time.monotonic() - 1.5) < 60_000
