"""What scripts/run says while it sets up."""

from __future__ import annotations

import subprocess
from pathlib import Path

LIBRARY = Path(__file__).resolve().parent.parent / "scripts" / "lib.sh"


def test_installing_says_how_far_it_is():
    script = f"source {LIBRARY}; for n in $(seq 21); do echo Collecting part-$n==1.0; done | say_progress 30"
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=20).stderr
    assert said.splitlines() == ["tmuxmcp: package 20 of 30: part-20", "tmuxmcp: installing 21 packages"]


def test_terminal_shows_each_package_in_one_line():
    script = f"source {LIBRARY}; printf 'Collecting one\\nCollecting two>=3 (from one)\\n' | say_progress 2"
    said = subprocess.run(
        ["script", "-qec", f"bash -c {script!r}", "/dev/null"], capture_output=True, check=True, timeout=20
    ).stdout
    assert b"\r\x1b[Ktmuxmcp: package 1 of 2: one\r\x1b[Ktmuxmcp: package 2 of 2: two\r\x1b[K" in said
