"""File systems that are soon full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def a_small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system of this size at a place that is made for it; skips the test where none can be mounted."""
    path.mkdir(mode=0o700)
    argv = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(path)]
    if subprocess.run(argv, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)
