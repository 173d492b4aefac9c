"""git in a sandbox: what lies beneath its roots is looked at there, at each level that this machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.repositories import made
from tests.kit.sandboxes import LEVELS, a_boxed_broker


@pytest.mark.parametrize("bound", [False, True], ids=["", "files_root"])
@pytest.mark.parametrize("level", LEVELS)
async def test_a_repository_beneath_the_roots_is_looked_at_inside(
    state_dir: Path, home: Path, tmp_path: Path, level: str, bound: bool
) -> None:
    root = tmp_path / "root"
    top = made(root / "top")
    (top / "kept").write_text("other\n")
    async with a_boxed_broker(level, state_dir, root, files_root=str(root) if bound else "") as broker:
        status = await broker.git_status(str(top))
        assert [(each.path, each.unstaged) for each in status.files] == [("kept", "modified")]
        assert "+other" in (await broker.git_diff(str(top))).text
        assert len((await broker.git_log(str(top))).commits) == 2
