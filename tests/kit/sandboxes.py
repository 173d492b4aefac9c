"""The levels of sandbox that this machine has, and a broker that has one of them and no better."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.machine.sandbox import landlock, sandbox

BEST = sandbox.best()
LEVELS = [
    pytest.param("limits"),
    pytest.param("landlock", marks=pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")),
    pytest.param("bubblewrap", marks=pytest.mark.skipif(BEST != "bubblewrap", reason="bubblewrap does not run here")),
]
STRONG = LEVELS[1:]


def levels(params: list) -> pytest.MarkDecorator:
    """Try each in the fixture `boxed`."""
    return pytest.mark.parametrize("boxed", params, indirect=True)


@asynccontextmanager
async def a_boxed_broker(level: str, state_dir: Path, *roots: Path, **settings: Any) -> AsyncIterator[Broker]:
    """A broker that demands a sandbox with these roots, where there is this level and no better one."""
    boxed = {"sandbox": "auto", "sandbox_roots": tuple(map(str, roots)), **settings}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "best", lambda: level)
        async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash", **boxed)) as broker:
            yield broker
