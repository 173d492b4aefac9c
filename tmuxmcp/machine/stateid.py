"""Which state directory is meant, and what names it: one that is made anew, or on another machine, has another name."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from tmuxmcp.machine.atomically import write_once
from tmuxmcp.machine.ownfiles import read_text

NAME_BYTES = 16


def own_directory(path: Path) -> Path:
    """The directory itself, or one of the user's own beneath it where it is everybody's, as /tmp is.

    So it is in a container that may run as any user.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return path
    everybodys = stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & stat.S_IWOTH
    return path / str(os.geteuid()) if everybodys else path


def state_id(state_dir: Path) -> str:
    """The name of a state directory; made when it is first asked for, and the same for all who ask at once.

    Raises:
        OSError: it can be neither read nor made.
    """
    file = state_dir / "id"
    with suppress(FileNotFoundError):
        return read_text(file).strip()
    write_once(file, secrets.token_hex(NAME_BYTES) + "\n")
    return read_text(file).strip()
