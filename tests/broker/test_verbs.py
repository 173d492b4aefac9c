"""What does each operation: no request is without a verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmuxmcp.broker import stages
from tmuxmcp.broker.verbs import VERBS, verb_of
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.settings import BrokerSettings, SandboxLevel


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("sandbox", ["none", "limits"])
def test_every_operation_has_a_verb(name: str, sandbox: SandboxLevel, tmp_path: Path):
    """Also where a sandbox is demanded: what acts beside sessions says that it does so inside."""
    kind = OPERATIONS[name].request
    assert verb_of(object.__new__(kind), BrokerSettings(state_dir=tmp_path, sandbox=sandbox)) is VERBS[kind]


def test_a_person_passes_by_what_is_for_agents():
    assert set(stages.OF_AGENTS) < set(stages.STAGES)
