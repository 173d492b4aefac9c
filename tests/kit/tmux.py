"""Plain tmux beside the broker, as scripts and persons use it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conftest import SLOW, TMUX


def plain_tmux(state_dir: Path, *words: str, check: bool = True) -> str:
    """Have tmux do something at the server of a state directory; give what it prints."""
    argv = [TMUX, "-N", "-S", str(state_dir / "tmux.sock"), *words]
    return subprocess.run(argv, check=check, capture_output=True, text=True, timeout=10 * SLOW).stdout


def typed_by_script(state_dir: Path, *keys: str, session_id: str = "a") -> None:
    """Type into a session, which no broker is told."""
    plain_tmux(state_dir, "send-keys", "-t", f"={session_id}:", *keys)
