"""What tests of a session's files share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmuxmcp.record.directory import SessionDirectory


@pytest.fixture
def directory(tmp_path: Path) -> SessionDirectory:
    """An empty one."""
    return SessionDirectory(tmp_path)
