"""Questions that a person answers outside of the client: small files that the command line shows and grants.

A question is about one exact action (its digest). It is granted once, and forgotten after ten minutes. The files are
the person's own; a program that the agent starts runs as the same user and could write one, as it could do the thing
itself.

That it is granted is a second name of its file, which one person can make and nobody once the file is removed: of
several who answer at once, the first counts.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio

from tmuxmcp.contract.call import Call, CallAgain, Question
from tmuxmcp.contract.errors import ConfirmationDeclined, TmuxMcpError
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import asdict, replace, value
from tmuxmcp.machine.ownfiles import make_directory, read_text, write_atomically
from tmuxmcp.sessions import inputrequests
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import answerkey, viewers

ANSWER_FORGOTTEN_S = 600
OPEN_CONFIRMATIONS = 100


@value
class Confirmation:
    """A question as it lies on the disk."""

    id: str
    digest: str
    message: str
    client: str
    asked_at: float
    """Seconds since 1970."""
    granted: bool = False
    scope: str = ""
    """Digest of the session, the rule that asks and the caller; empty: an answer cannot be for more than once."""
    session_id: str = ""
    """Where it would be done; empty: in none."""

    @property
    def until(self) -> float:
        """When it is forgotten, in seconds since 1970."""
        return self.asked_at + ANSWER_FORGOTTEN_S


class Confirmations:
    """The open questions of a state directory."""

    def __init__(self, state_dir: Path) -> None:
        self.directory = state_dir / "confirmations"

    def open(self, digest: str, message: str, client: str, scope: str = "", session_id: str = "") -> str:
        """Put a question; the same one again keeps its id.

        Args:
            scope, session_id: as `Confirmation` has them.

        Returns:
            its id, `c_` and eight hexadecimal digits.
        """
        found = list(self.all())
        for each in found:
            if each.digest == digest:
                return each.id
        for each in found[: max(len(found) - OPEN_CONFIRMATIONS + 1, 0)]:
            self._remove(each.id)
        question = Confirmation(
            f"c_{secrets.token_hex(4)}", digest, message, client, time.time(), False, scope, session_id
        )
        self._save(question)
        return question.id

    def all(self) -> Iterator[Confirmation]:
        """Every question that is not forgotten, the oldest first."""
        found = []
        for path in self.directory.glob("c_*.json"):
            with suppress(OSError, ValueError, TypeError, RecursionError):
                question = Confirmation(**json.loads(read_text(path)))
                if time.time() < question.until:
                    found.append(replace(question, granted=self._granted(question.id).exists()))
                else:
                    self._remove(question.id)
        yield from sorted(found, key=lambda each: each.asked_at)

    def about(self, session_id: str) -> list[Confirmation]:
        """The questions about a session that nobody has answered, the oldest first."""
        return [each for each in self.all() if each.session_id == session_id and not each.granted]

    def of(self, digest: str) -> Confirmation | None:
        """The question about an action; None: there is none, or it was declined or forgotten."""
        return next((each for each in self.all() if each.digest == digest), None)

    def forget(self, digest: str) -> bool:
        """Forget the question about an action; False when there is none."""
        found = self.of(digest)
        return found is not None and self._remove(found.id)

    def grant(self, question_id: str, *, for_session: bool = False) -> bool:
        """Allow it once; False when there is no such question, or somebody was first.

        Args:
            for_session: whatever that rule asks about, for that caller in that session, until the session ends.
        """
        for each in self.all():
            if each.id == question_id:
                try:
                    os.link(self._file(question_id), self._granted(question_id))
                except (FileNotFoundError, FileExistsError):
                    return False
                if for_session and each.scope:
                    self._agree(each.scope)
                return True
        return False

    def agreed(self, scope: str) -> bool:
        """Whether a person has agreed for the rest of a session."""
        return bool(scope) and self._scope(scope).exists()

    def _agree(self, scope: str) -> None:
        for path in sorted(self.directory.glob("s_*"), key=lambda path: path.stat().st_mtime)[
            : -OPEN_CONFIRMATIONS + 1
        ]:
            path.unlink(missing_ok=True)
        write_atomically(self._scope(scope), "")

    def _scope(self, scope: str) -> Path:
        return self.directory / f"s_{scope}"

    def decline(self, question_id: str) -> bool:
        """Forget it; False when there is no such question, or somebody was first."""
        return any(each.id == question_id for each in self.all()) and self._remove(question_id)

    def take(self, digest: str) -> bool:
        """Use up a grant for this action; False when there is none."""
        for each in self.all():
            if each.digest == digest and each.granted:
                return self._remove(each.id)
        return False

    def _save(self, question: Confirmation) -> None:
        make_directory(self.directory)
        write_atomically(self._file(question.id), json.dumps(asdict(question)))

    def _file(self, question_id: str) -> Path:
        return self.directory / f"{question_id}.json"

    def _granted(self, question_id: str) -> Path:
        return self.directory / f"{question_id}.granted"

    def _remove(self, question_id: str) -> bool:
        """Remove it; False when somebody else was first."""
        try:
            self._file(question_id).unlink()
        except FileNotFoundError:
            return False
        self._granted(question_id).unlink(missing_ok=True)  # then nobody can make it any more
        return True


# ---- A question that a person sees in two places ---------------------------------------------------------------------
#
# In the client and at the command line: the first answer counts.
#
# The other place is told nothing more. Who declines after having agreed elsewhere has declined, as long as nothing was
# done.

ANSWER_LOOK_S = 0.2
"""How often the command line's answer is looked for while the client asks: a person takes longer than that."""

Agreed = bool | None


async def first_answer(question: Question, confirmations: Confirmations, call: Call) -> Agreed:
    """Ask in the client, and look for an answer at the command line meanwhile.

    Returns:
        whether a person agrees; None: the client cannot ask, and the question waits at the command line.

    Raises:
        CallAgain: the client asks, and makes the call again.
        ConfirmationDeclined: the answer is to another question.
    """
    if call.answers:  # the client brings its answer: nothing is waited for
        try:
            answer = await call.ask(question)
        except TmuxMcpError:
            confirmations.forget(question.digest)
            confirmations.forget(call.answers)
            raise
        return _in_client(question, confirmations, answer)
    told: list[Agreed | CallAgain | TmuxMcpError] = []
    async with anyio.create_task_group() as task_group:

        async def first(what: Callable[[], Awaitable[Agreed]]) -> None:
            try:
                told.append(await what())
            except (CallAgain, TmuxMcpError) as error:  # not through the task group, which would make a group of it
                told.append(error)
            task_group.cancel_scope.cancel()

        async def in_client() -> Agreed:
            return _in_client(question, confirmations, await call.ask(question))

        task_group.start_soon(first, in_client)
        task_group.start_soon(first, partial(_at_command_line, question, confirmations))
    result = told[0]
    if isinstance(result, BaseException):
        raise result
    return result


def _in_client(question: Question, confirmations: Confirmations, answer: Agreed) -> Agreed:
    """What the client's answer comes to; where it could not ask, the question stays.

    Raises:
        ConfirmationDeclined: it comes too late.
    """
    if answer is None:
        return None
    if not confirmations.forget(question.digest) and answer:
        raise ConfirmationDeclined(
            "The question was declined elsewhere before, or forgotten after ten minutes: the answer is void.",
            hint="Ask the person what they want; if they agree, make the call again.",
        )
    return answer


async def _at_command_line(question: Question, confirmations: Confirmations) -> Agreed:
    while True:
        await anyio.sleep(ANSWER_LOOK_S)
        if confirmations.take(question.digest):
            return True
        if confirmations.of(question.digest) is None:
            return False


# ---- Tells the people attached to a session that something waits for them there, and what their key is for -----------
#
# None of an agent's words goes this way: an id, and the command that shows the rest.

OFFER_S = 2.0
"""How long a call that is over may take to say what waits now."""


async def reach(session: Session, settings: BrokerSettings, asked_id: str) -> None:
    """Say in the status lines that a request or a question of the policy waits, and have the key open its popup."""
    if not session.pane:
        return
    by_command = f"tmuxmcp answer {asked_id}"
    with suppress(TmuxMcpError):
        await answerkey.bind(session.tmux, settings.answer_key, of_command_line(settings))
        await offer_next(session, settings)
        by_key = f"{session.id} asks: {settings.answer_key}, or {by_command}"
        await viewers.tell(session.tmux, session.pane, f"{session.id} asks: {by_command}", by_key)


def of_command_line(settings: BrokerSettings) -> dict[str, str]:
    """The settings with which a command line does what this broker would."""
    names = ("state_dir", "audit", "answer_key", "take_key")
    return {name: str(getattr(settings, name)) for name in names}


def waiting(session: Session, settings: BrokerSettings) -> list[str]:
    """Ids of what waits for a person in a session, requests and questions of the policy, the first first."""
    asked = [(request.asked_at, request.id) for request in inputrequests.waiting(session)]
    asked += [(each.asked_at, each.id) for each in Confirmations(settings.state_dir).about(session.id)]
    return [each for _, each in sorted(asked)]


async def offer_next(session: Session, settings: BrokerSettings) -> None:
    """Have the key of attached people be for what waits first."""
    if session.pane:
        session.offers = next(iter(waiting(session, settings)), "")
        with suppress(TmuxMcpError):
            await answerkey.offer(session.tmux, session.pane, session.offers)
