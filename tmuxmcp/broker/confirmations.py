"""Questions that a person answers outside of the client: small files that the command line shows and grants.

A question is about one exact action (its digest). It is granted once, and forgotten after ten minutes. The files are
the person's own; a program that the agent starts runs as the same user and could write one, as it could do the thing
itself.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tmuxmcp.host.atomically import write_atomically

FORGOTTEN_S = 600
MOST_OPEN = 100
ID = re.compile(r"c_[a-f0-9]{8}\Z")


@dataclass(frozen=True)
class Confirmation:
    """A question as it lies on the disk."""

    id: str
    digest: str
    message: str
    client: str
    asked_at: float
    """Seconds since 1970."""
    granted: bool = False


class Confirmations:
    """The open questions of a state directory."""

    def __init__(self, state_dir: Path) -> None:
        self.directory = state_dir / "confirmations"

    def open(self, digest: str, message: str, client: str) -> str:
        """Put a question; the same one again keeps its id.

        Returns:
            its id, `c_` and eight hexadecimal digits.
        """
        found = list(self.all())
        for each in found:
            if each.digest == digest:
                return each.id
        for each in found[: max(len(found) - MOST_OPEN + 1, 0)]:
            self._remove(each.id)
        question = Confirmation(f"c_{secrets.token_hex(4)}", digest, message, client, time.time())
        self._save(question)
        return question.id

    def all(self) -> Iterator[Confirmation]:
        """Every question that is not forgotten, the oldest first."""
        found = []
        for path in self.directory.glob("c_*.json"):
            with suppress(OSError, ValueError, TypeError):
                question = Confirmation(**json.loads(path.read_text()))
                if time.time() - question.asked_at < FORGOTTEN_S:
                    found.append(question)
                else:
                    path.unlink()
        yield from sorted(found, key=lambda each: each.asked_at)

    def grant(self, question_id: str) -> bool:
        """Allow it once; False when there is no such question."""
        for each in self.all():
            if each.id == question_id:
                self._save(Confirmation(**(asdict(each) | {"granted": True})))
                return True
        return False

    def decline(self, question_id: str) -> bool:
        """Forget it; False when there is no such question."""
        known = any(each.id == question_id for each in self.all())
        if known:
            self._remove(question_id)
        return known

    def take(self, digest: str) -> bool:
        """Use up a grant for this action; False when there is none."""
        for each in self.all():
            if each.digest == digest and each.granted:
                return self._remove(each.id)
        return False

    def _save(self, question: Confirmation) -> None:
        self.directory.mkdir(mode=0o700, exist_ok=True)
        write_atomically(self.directory / f"{question.id}.json", json.dumps(asdict(question)))

    def _remove(self, question_id: str) -> bool:
        """Remove it; False when somebody else was first."""
        try:
            (self.directory / f"{question_id}.json").unlink()
        except FileNotFoundError:
            return False
        return True
