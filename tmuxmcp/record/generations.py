"""Sessions that had one name after another: each is a generation, counted from 1, with a directory of its own.

The newest is in `sessions/ID/`. Before another session takes the name, that directory becomes `sessions/ID.N/`, N
being its generation; numbers of generations that are no longer kept are not given again while a later one is.
"""

from __future__ import annotations

from pathlib import Path

from tmuxmcp.record.directory import SessionDirectory, earlier
from tmuxmcp.record.meta import Meta


def generation_of(directory: SessionDirectory, meta: Meta | None) -> int:
    """Which session of its name a directory holds."""
    if directory.is_earlier:
        return int(directory.name.rpartition(".")[2])
    kept = max(earlier(directory), default=0)
    return max(meta.generation if meta else 0, kept + 1)


def kept_generations(state_dir: Path, session_id: str) -> list[int]:
    """The generations of which something is kept, oldest first."""
    directory = SessionDirectory.of(state_dir, session_id)
    meta = Meta.load(directory)
    return sorted(earlier(directory)) + ([generation_of(directory, meta)] if meta else [])


def find(state_dir: Path, session_id: str, generation: int) -> SessionDirectory:
    """Where a generation is kept, if it is."""
    directory = SessionDirectory.of(state_dir, session_id)
    newest = generation_of(directory, Meta.load(directory))
    return directory if generation == newest else directory.beside(generation)
