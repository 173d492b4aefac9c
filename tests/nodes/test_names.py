"""Ids of sessions of many machines."""

from __future__ import annotations

import pytest

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.nodes import names


def test_the_machine_is_what_follows_the_last_at():
    assert names.split("build@n7") == ("build", "n7")
    assert names.split("a@b@n-1") == ("a@b", "n-1")
    assert names.split("build") == ("build", "")
    assert names.split("") == ("", "")
    assert names.fleet_id(*names.split("build@n7")) == "build@n7"


def test_a_name_that_no_machine_can_have_is_refused():
    assert names.is_node("a" * 32)
    for wrong in ("", "N7", "-a", "a_b", "a.b", "a" * 33, "a/b", "a\n"):
        assert not names.is_node(wrong)
        with pytest.raises(InvalidArgument):
            names.split(f"build@{wrong}")
