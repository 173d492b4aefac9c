"""Whether a command that runs wants input, by looks at its session: `readiness/asking.py` judges them."""

from __future__ import annotations

import time

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.readiness.adoptable import note_prompt
from tmuxmcp.readiness.asking import AskingJudge
from tmuxmcp.readiness.facts import Conclusion
from tmuxmcp.readiness.finding import Finding
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session


@dataclass(frozen=True)
class AskedForInput:
    """How a command came to ask."""

    look: Look
    """The last one, at which all that was printed before is in the log."""
    how: Conclusion


class InputQuestions:
    """Watches one command."""

    def __init__(self, session: Session) -> None:
        self._session, self._finding, self._asking = session, Finding(session), AskingJudge()

    async def asked(self, look: Look) -> AskedForInput | None:
        """A last look, once what tells that it asks has stood for a while."""
        judged = await self._finding.judged(self._asking, look, time.monotonic())
        if isinstance(judged, float):
            return None
        how, last = judged
        return AskedForInput(await note_prompt(self._session, last), how)
