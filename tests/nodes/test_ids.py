"""Ids of sessions of many machines."""

from __future__ import annotations

import pytest

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.nodes import ids


def test_the_machine_is_what_follows_the_last_at():
    assert ids.split("build@n7") == ("build", "n7")
    assert ids.split("a@b@n-1") == ("a@b", "n-1")
    assert ids.split("build") == ("build", "")
    assert ids.split("") == ("", "")
    assert ids.fleet_id(*ids.split("build@n7")) == "build@n7"


def test_a_name_that_no_machine_can_have_is_refused():
    assert ids.is_node("a" * 32)
    for wrong in ("", "N7", "-a", "a_b", "a.b", "a" * 33, "a/b", "a\n"):
        assert not ids.is_node(wrong)
        with pytest.raises(InvalidArgument):
            ids.split(f"build@{wrong}")
