"""What the measurements share: a place of their own to work in, and the row that each budget is."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Row:
    """One budget: what was measured, the floor in the same run, and whether it holds."""

    name: str
    value: float
    unit: str
    floor: float | None
    budget: str
    holds: bool
    note: str = ""
    low: float | None = None
    """With `high`: the spread, from the 10th to the 90th percentile of what was measured."""
    high: float | None = None


@contextmanager
def workshop() -> Iterator[tuple[Path, dict[str, str]]]:
    """A state directory and an environment of our own; nothing of it is left."""
    directory = Path(tempfile.mkdtemp(prefix="tm-"))
    home = directory / "home"
    home.mkdir()
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TMUXMCP_STATE_DIR": str(directory / "s")}
    env |= {"TMUXMCP_LOG_LEVEL": "error", "TMUXMCP_PROGRAM": "bash", "TMUXMCP_MAX_SESSIONS": "300"}
    try:
        yield directory / "s", env
    finally:
        subprocess.run(["tmux", "-S", directory / "s" / "tmux.sock", "kill-server"], capture_output=True, check=False)
        shutil.rmtree(directory, ignore_errors=True)


def bare_pipe(state: Path, command: str, size: int) -> float:
    """Seconds until a command's output of so many bytes lies in a file, by tmux and `cat` alone."""
    file = state.parent / "bare"
    file.unlink(missing_ok=True)
    tmux = ["tmux", "-S", str(state.parent / f"bare{time.monotonic_ns()}"), "-f", "/dev/null"]
    begun = time.perf_counter()
    start = [*tmux, "new-session", "-d", "-x", "80", "-y", "24", f"{command}; sleep 60"]
    subprocess.run([*start, ";", "pipe-pane", "-O", f"exec cat >> {file}"], check=True)
    while not file.exists() or file.stat().st_size < size:
        time.sleep(0.005)
    took = time.perf_counter() - begun
    subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)
    return took
