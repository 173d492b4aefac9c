"""The programs of others that `scripts/clients` installs, and Node to run them with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import SLOW

PLACE = Path(os.environ.get("TMUXMCP_CLIENTS_DIR", "/var/tmp/tmuxmcp-clients"))
MODULES = PLACE / "node_modules"
NODE = MODULES / "node" / "bin" / "node"


def program(name: str) -> Path:
    """A client's program; skips the test where it is not installed."""
    path = MODULES / ".bin" / name
    if not path.exists():
        pytest.skip(f"needs {name}: scripts/clients installs it")
    return path


def installed(path: str) -> Path:
    """A file of what is installed; skips the test where it is not there."""
    found = PLACE / path
    if not found.exists():
        pytest.skip(f"needs {path}: scripts/clients installs it")
    return found


def node(script: Path, *words: str, home: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script of an installed package, or one that imports some, in a home of its own.

    Returns:
        how it ended, with what it wrote.
    """
    for needed in (NODE, script):
        if not needed.exists():
            pytest.skip(f"needs {needed.relative_to(PLACE)}: scripts/clients installs it")
    return subprocess.run(
        [NODE, script, *words],
        env={"HOME": str(home), "PATH": f"{NODE.parent}:{os.environ['PATH']}", "LANG": "C.UTF-8", "NO_COLOR": "1"},
        cwd=cwd or home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60 * SLOW,
    )
