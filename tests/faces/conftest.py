"""What tests of the faces share."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both protocol eras."""
    return request.param
