"""Prompts that were seen at rest, by the program in front: the last line, whose digits, paths and times may change."""

from __future__ import annotations

from typing import NamedTuple

from tmuxmcp.terminal.modes import shape

MOST_PROGRAMS, REMEMBERED_PROMPTS = 4, 8
"""So many programs, and prompts of each, are remembered: those that were seen last."""


class _SeenPrompt(NamedTuple):
    line: str
    edits: bool


class SeenPrompts:
    """What the prompts of a session's programs look like."""

    def __init__(self) -> None:
        self._seen: dict[int, dict[str, _SeenPrompt]] = {}
        """By process id: shapes, each with the line as it was last seen."""

    def learn(self, pid: int, line: str, edits: bool) -> None:
        """Remember the line at which a program rests, if it may be a prompt: progress and questions are none.

        Args:
            edits: a line editor showed itself with it.
        """
        looks = shape(line)
        if not looks:
            return
        prompts = self._seen.pop(pid, {})
        prompts.pop(looks, None)
        self._seen[pid] = prompts | {looks: _SeenPrompt(line, edits)}
        _keep_last(self._seen, MOST_PROGRAMS)
        _keep_last(self._seen[pid], REMEMBERED_PROMPTS)

    def knows(self, pid: int, line: str, edits: bool) -> bool:
        """Whether this line looks like a prompt of that program; with a line editor, if that showed itself with it."""
        seen = self._seen.get(pid, {}).get(shape(line))
        return seen is not None and (edits or not seen.edits)

    def begins(self, pid: int, line: str) -> bool:
        """Whether a prompt of that program, as it was last seen, begins this line."""
        return any(line.startswith(seen.line) for seen in self._seen.get(pid, {}).values())


def _keep_last(found: dict[int, dict[str, _SeenPrompt]] | dict[str, _SeenPrompt], most: int) -> None:
    while len(found) > most:
        del found[next(iter(found))]  # type: ignore[arg-type]  # a key of its own
