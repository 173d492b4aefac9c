"""git in a sandbox: what lies beneath its roots is looked at there, at each level that this machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.test_git import made
from tests.machine.test_sandbox import LEVELS
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.machine.sandbox import sandbox


@pytest.mark.parametrize("bound", [False, True], ids=["", "files_root"])
@pytest.mark.parametrize("level", LEVELS)
async def test_a_repository_beneath_the_roots_is_looked_at_inside(
    state_dir: Path, home: Path, tmp_path: Path, level: str, bound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "best", lambda: level)
    root = tmp_path / "root"
    top = made(root / "top")
    (top / "kept").write_text("other\n")
    settings = BrokerSettings(
        state_dir=state_dir,
        program="bash",
        sandbox="auto",
        sandbox_roots=(str(root),),
        files_root=str(root) if bound else "",
    )
    async with Broker.open(settings) as broker:
        status = await broker.git_status(str(top))
        assert [(each.path, each.unstaged) for each in status.files] == [("kept", "modified")]
        assert "+other" in (await broker.git_diff(str(top))).text
        assert len((await broker.git_log(str(top))).commits) == 2
