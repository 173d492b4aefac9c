"""A person answers where they are attached already: in a popup over the session, or by typing into it."""

from __future__ import annotations

from tmuxmcp.broker.answering import PersonAnswers, WaitingRequest
from tmuxmcp.contract.errors import PermissionDenied, SessionNotFound
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.gate.confirmations import Confirmation
from tmuxmcp.sessions import inputrequests, lease
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import answerkey, leases
from tmuxmcp.tmux.answerkey import PersonTypes
from tmuxmcp.tmux.held import taken_error, user_name
from tmuxmcp.tmux.leases import AttachedClient


@dataclass(frozen=True)
class InClient:
    """A person's client, which may type into a session of ours."""

    people: PersonAnswers
    session: Session
    client: AttachedClient
    take_key: str
    typing: PersonTypes | None
    """What they have been typing for; None: nothing."""

    @classmethod
    async def of(cls, people: PersonAnswers, registry: Registry, settings: BrokerSettings, pid: int) -> InClient:
        """The client by its process id.

        Raises:
            SessionNotFound, PermissionDenied: there is none, or it only watches.
        """
        await registry.look_again()
        found = [each for each in await leases.clients(registry.tmux) if each.pid == pid]
        session = registry.sessions.get(found[0].session_id) if found else None
        if session is None or session.pane is None:
            raise SessionNotFound(f"No terminal with process id {pid} shows a session.")
        if not found[0].may_type:
            raise PermissionDenied("This terminal only watches.", hint="Run `tmuxmcp answer` in another one.")
        typing = await answerkey.who_types(session.tmux, session.pane)
        ours = typing if typing and typing.client_pid == pid else None
        return cls(people, session, found[0], settings.take_key, ours)

    async def pending(self, asked_id: str) -> WaitingRequest | Confirmation | None:
        """What waits in this session: the request or question of that id, else the first; None: nothing does."""
        found: dict[str, tuple[float, WaitingRequest | Confirmation]] = {}
        for each in await self.people.waiting():
            if each.session.id == self.session.id:
                found[each.request.id] = each.request.asked_at, each
        for question in self.people.questions():
            if question.session_id == self.session.id:
                found[question.id] = question.asked_at, question
        if asked_id in found:
            return found[asked_id][1]
        return min(found.values(), key=lambda each: each[0])[1] if found else None

    async def type_here(self, what: WaitingRequest) -> None:
        """Keep agents out while the person types in this client, until they leave it or say that it is done.

        Raises:
            InvalidArgument: the request is over.
            SessionTaken: another person holds the session.
            SessionExited, TmuxFailed
        """
        self.people.check_waits(what)
        before = (await self.session.alive()).taken
        if before and before.by not in (user_name(), "unknown"):
            raise taken_error(self.session.id, before)
        if before is None:
            await lease.take(self.session, "attach", tty=self.client.name, key=self.take_key)
        typing = PersonTypes(self.client.pid, what.request.id, own=before is not None)
        await answerkey.begin(self.session.tmux, self.session.live(), typing)

    async def finish_typing(self, typing: PersonTypes) -> str:
        """The person has typed: what became of the request. The session is given back, if it was theirs for this."""
        await answerkey.begin(self.session.tmux, self.session.live(), None)
        if not typing.own:
            await lease.release(self.session)
        requests = inputrequests.of(self.session)
        request = requests.find(typing.request_id)
        if request and await self.people.settle(WaitingRequest(self.session, request), "done", "attach"):
            return "done"
        answer = requests.answer(typing.request_id)
        return answer.outcome if answer else "forgotten"

    async def offer_next(self) -> None:
        """Have the key be for what waits now."""
        await self.people.offer_next(self.session.id)
