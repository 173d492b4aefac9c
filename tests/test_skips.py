"""More skips than are allowed fail a run in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import skips

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("reason", "times", "status", "workers"),
    [("needs uv", 1, 0, "0"), ("needs uv", 1, 0, "2"), ("needs uv", 2, 1, "2"), ("of late", 1, 1, "0")],
)
def test_a_rise_fails(tmp_path: Path, reason: str, times: int, status: int, workers: str) -> None:
    assert skips.MOST["needs uv"] == 1
    skip = f"@pytest.mark.skip(reason={reason!r})\ndef test_it"
    tests = "".join(f"{skip}{number}(): pass\n" for number in range(times))
    (tmp_path / "test_it.py").write_text(f"import pytest\ndef test_passes(): pass\n{tests}")
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "xdist",
        "-p",
        "tests.skips",
        "-n",
        workers,
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the others take three times as long to load
    done = subprocess.run(argv, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)
    assert (done.returncode, f"1 more: {reason}" in done.stdout) == (status, bool(status)), done.stdout
