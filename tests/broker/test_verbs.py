"""What does each operation: no request is without a verb."""

from __future__ import annotations

import pytest

from tmuxmcp.broker import stages
from tmuxmcp.broker.verbs import VERBS, verb_of
from tmuxmcp.contract.operations import OPERATIONS


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_a_verb(name: str):
    kind = OPERATIONS[name].request
    assert verb_of(object.__new__(kind)) is VERBS[kind]


def test_a_person_passes_by_what_is_for_agents():
    assert set(stages.OF_AGENTS) < set(stages.STAGES)
