"""More skips than are allowed fail a run in CI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import skips

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(("reason", "times", "status"), [("needs uv", 1, 0), ("needs uv", 2, 1), ("of late", 1, 1)])
def test_a_rise_fails(tmp_path: Path, workers: str, reason: str, times: int, status: int) -> None:
    assert skips.MOST["needs uv"] == 1
    skip = f"@pytest.mark.skip(reason={reason!r})\ndef test_it"
    tests = "".join(f"{skip}{number}(): pass\n" for number in range(times))
    (tmp_path / "test_it.py").write_text(f"import pytest\ndef test_passes(): pass\n{tests}")
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.skips",
        "-n",
        workers,
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, f"1 more: {reason}" in done.stdout) == (status, bool(status)), done.stdout
