"""What agents wait for a person to do, in one queue, and how the person does it: for the command line and pages.

An agent has no way in here: no operation leads to it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress

import anyio

from tmuxmcp.broker.sending import Typing, not_typed, type_steps, typing_steps
from tmuxmcp.broker.userinput import harmless
from tmuxmcp.contract.errors import (
    InvalidArgument,
    NoInput,
    PermissionDenied,
    SessionBusy,
    SessionNotFound,
    TmuxFailed,
    TmuxMcpError,
    WrongMode,
)
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import value
from tmuxmcp.gate.confirmations import ANSWER_LOOK_S, Confirmation, Confirmations, of_command_line, offer_next
from tmuxmcp.record.commands import TypedInput
from tmuxmcp.record.inputrequests import Became, InputRequest, RequestAnswer
from tmuxmcp.sessions import inputrequests, lease
from tmuxmcp.sessions.look import MIN_LOOK_INTERVAL_S
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell.secretreader import reader_of
from tmuxmcp.shell.sequence import ENTER, Text
from tmuxmcp.tmux import answerkey, leases, secrettyping
from tmuxmcp.tmux.answerkey import PersonTypes
from tmuxmcp.tmux.leaseoptions import taken_error, user_name
from tmuxmcp.tmux.leases import AttachedClient

TERMINAL_LINE_BYTES = 4095
"""Bytes of a line that a terminal takes (termios(3), MAX_CANON)."""


@value
class WaitingRequest:
    """A request that waits for a person."""

    session: Session
    request: InputRequest

    @property
    def message(self) -> str:
        """The agent's words as text that does nothing to a terminal."""
        return harmless(self.request.message)

    @property
    def left_s(self) -> float:
        """Until its time is up."""
        return max(self.request.until - time.time(), 0)


class PersonAnswers:
    """What a person does with the requests of all sessions."""

    def __init__(self, registry: Registry, settings: BrokerSettings, note: Callable[[Mapping[str, str]], None]) -> None:
        """`note` writes down what a person did."""
        self._registry, self._settings, self._note = registry, settings, note

    @property
    def key(self) -> str:
        """The key by which an attached person says that it is done."""
        return self._settings.answer_key

    async def waiting(self) -> list[WaitingRequest]:
        """What waits, the first first."""
        await self._registry.look_again()
        found = [
            WaitingRequest(session, request)
            for session in list(self._registry.sessions.values())
            for request in inputrequests.waiting(session)
        ]
        return sorted(found, key=lambda each: each.request.asked_at)

    def of(self, session_id: str) -> list[WaitingRequest]:
        """What waits in a session, as it was known at the last look; the first first."""
        session = self._registry.sessions.get(session_id)
        return [WaitingRequest(session, request) for request in inputrequests.waiting(session)] if session else []

    async def wait_for_change(self, session_id: str) -> None:
        """Wait until something else waits for a person in a session; who answers a question elsewhere tells nobody."""
        session = self._registry.sessions.get(session_id)
        if session is None:
            return await anyio.sleep_forever()
        before = self._ids(session)
        with session.watcher.waiting(session.log.path) as growth:
            while True:
                change = growth.next_change()
                if self._ids(session) != before:
                    return
                await change.wait()
                await anyio.sleep(MIN_LOOK_INTERVAL_S)

    def _ids(self, session: Session) -> list[str]:
        asked = [request.id for request in inputrequests.waiting(session)]
        return asked + [each.id for each in Confirmations(self._settings.state_dir).about(session.id)]

    def questions(self) -> list[Confirmation]:
        """What agents may only do when a person agrees, and nobody has yet; the first first."""
        return [each for each in Confirmations(self._settings.state_dir).all() if not each.granted]

    async def agree(
        self, question: Confirmation, agreed: bool, *, for_session: bool = False, via: str = "answer"
    ) -> bool:
        """Let an agent do it once, or not; False: somebody was first, or it was forgotten.

        Args:
            for_session: or whatever the same rule asks about, for this agent, until the session ends.
            via: `answer` or `page`.
        """
        confirmations = Confirmations(self._settings.state_dir)
        done = (
            confirmations.grant(question.id, for_session=for_session) if agreed else confirmations.decline(question.id)
        )
        if done:
            outcome = ("agreed for the session" if for_session else "agreed") if agreed else "declined"
            self._note({"tool": "answer", "request_id": question.id, "by": user_name(), "via": via, "answer": outcome})
        await self.offer_next(question.session_id)
        return done

    async def decided_elsewhere(self, question: Confirmation) -> None:
        """Wait until somebody has answered a question, or it is forgotten."""
        while any(each.id == question.id for each in self.questions()):
            await anyio.sleep(ANSWER_LOOK_S)

    async def offer_next(self, session_id: str) -> None:
        """Have the key of who is attached to a session be for what waits there now."""
        with suppress(TmuxMcpError):
            await self._registry.look_again()
            if session := self._registry.sessions.get(session_id):
                await offer_next(session, self._settings)

    async def held_sessions(self) -> dict[str, str | None]:
        """Sessions that the person holds, and since when (ISO 8601)."""
        await self._registry.look_again()
        found = [(each.id, each.lease) for each in self._registry.sessions.values()]
        return {name: taken.since for name, taken in found if taken and taken.by == user_name()}

    async def find(self, word: str) -> WaitingRequest:
        """A request by its id, or the first of a session.

        Raises:
            SessionNotFound: nothing waits by that name.
        """
        for each in await self.waiting():
            if word in (each.request.id, each.session.id):
                return each
        raise SessionNotFound(f"Nothing waits for a person as {word!r}.", hint="`tmuxmcp answer` shows what waits.")

    async def request_of(self, session_id: str, request_id: str) -> WaitingRequest:
        """A request, whatever became of it.

        Raises:
            SessionNotFound
        """
        session = await self._registry.known(session_id)
        request = inputrequests.of(session).find(request_id)
        if request is None:
            raise SessionNotFound(f"Session {session_id} has no such request.", session_id=session_id)
        return WaitingRequest(session, request)

    def became(self, what: WaitingRequest) -> RequestAnswer | None:
        """What became of it; None: it waits.

        Raises:
            IoError
        """
        return inputrequests.answer_now(what.session, what.request)

    async def settle(self, what: WaitingRequest, outcome: Became, via: str = "answer") -> bool:
        """Say what became of it; False: somebody was first.

        Raises:
            SessionBusy: somebody types the answer at this moment.
            IoError
        """
        with self._answer_alone(what):
            first = self._settle(what, outcome, via)
        await self.offer_next(what.session.id)
        return first

    @contextmanager
    def _answer_alone(self, what: WaitingRequest) -> Iterator[None]:
        """Answer a request as the only one: nobody types a second answer, or declines what is being typed.

        Raises:
            SessionBusy
        """
        with inputrequests.of(what.session).hold_alone(what.request.id) as alone:
            if not alone and self.became(what) is None:
                raise SessionBusy("Somebody answers this request at this moment.", hint="Look what became of it.")
            yield

    def _settle(self, what: WaitingRequest, outcome: Became, via: str) -> bool:
        done = inputrequests.settle(what.session, what.request.id, outcome, user_name(), via)
        if done:
            self._note(
                {
                    "tool": "answer",
                    "session_id": what.session.id,
                    "request_id": what.request.id,
                    "by": user_name(),
                    "via": via,
                    "answer": outcome,
                }
            )
        return done

    async def type_line(self, what: WaitingRequest, line: str, via: str = "answer") -> bool:
        """Type a line and Enter, in one step, and settle the request; a secret only while nothing of it is shown.

        Returns:
            False: the line was typed, and the request's end (its time, its session) came before that was written down.

        Raises:
            SessionBusy: somebody else types an answer at this moment.
            WrongMode: it would be shown, or another program asks than did; nothing was typed.
            NoInput, InvalidArgument: there is no line, or one that cannot be typed whole.
            SessionTaken: another person holds the session.
            SessionExited, TmuxFailed, IoError
        """
        data = _line(line, what.request.secret)
        with self._answer_alone(what):
            with anyio.CancelScope(shield=True):  # what was typed is settled, also when its person has just left
                await self._type(what, line, data)
                first = self._settle(what, "done", via)
        await self.offer_next(what.session.id)
        return first

    async def _type(self, what: WaitingRequest, line: str, data: bytes) -> None:
        session = what.session
        pane = await session.alive()
        held = pane.lease
        if held and not held.paused and held.by != user_name():
            raise taken_error(session.id, held)
        self.check_waits(what)
        program = await secrettyping.program_in_front(session.tmux, pane)
        look = await session.look()  # after all else: what is looked at is what is typed into
        if what.request.secret and look.mode != "password":
            raise WrongMode(
                f"Nothing was typed: the program in session {session.id} shows what is typed ({look.mode}).",
                hint="It asks for no secret at this moment. The request waits on; look with `tmuxmcp view`.",
                session_id=session.id,
                mode=look.mode,
            )
        if what.request.reader and reader_of(session, look).digest != what.request.reader:
            raise WrongMode(
                f"Nothing was typed: what asks for a secret in session {session.id} is another program than the one "
                "for which the agent asked.",
                hint="Look with `tmuxmcp view`. The request waits on; decline it, and the agent can ask anew.",
                session_id=session.id,
                mode=look.mode,
            )
        if look.takes_commands:
            session.commands.typing(TypedInput(look.size, line, by="person"))
        ends = held is not None
        if what.request.secret:
            if not await secrettyping.type_secret(session.tmux, pane, bytearray(data), program, ends=ends):
                await not_typed(session)
        else:
            what_is_typed = Typing(Text(""), [Text(line), ENTER], "never")
            steps, left = typing_steps(what_is_typed, look), what_is_typed.leftover(look.ready)
            rest = await type_steps(session, pane, b"", steps, {}, left, ends=ends)
            if rest and not session.exited:
                raise TmuxFailed(rest.note, hint="Look with `tmuxmcp view`. The request waits on.")
        session.write_input(bytes=len(data), keys=1)

    def check_waits(self, what: WaitingRequest) -> None:
        """Refuse what was settled meanwhile, before anything is typed.

        Raises:
            InvalidArgument
        """
        answer = inputrequests.answer_now(what.session, what.request)
        if answer:
            raise InvalidArgument(
                f"Nothing was typed: the request is over ({answer.outcome}).",
                hint="`tmuxmcp answer` shows what waits.",
            )

    @asynccontextmanager
    async def hold_while_typing(self, what: WaitingRequest) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
        """Hold the session while its person types; gives what is told of the client that they type in.

        Raises:
            SessionTaken, SessionExited
        """
        session = what.session
        self.check_waits(what)
        before = (await session.alive()).taken
        await lease.take(session, "attach")
        await answerkey.bind(session.tmux, self._settings.answer_key, of_command_line(self._settings))

        async def attached(pid: int) -> None:
            await lease.take(session, "attach", pid)
            await answerkey.listen(session.tmux, session.live(), pid)

        try:
            yield attached
        finally:
            if before is None:
                with suppress(TmuxMcpError):
                    await lease.release(session)

    async def said_done(self, what: WaitingRequest, client_pid: int) -> bool:
        """Whether the person has pressed the key in that client."""
        session = what.session
        return session.pane is not None and await answerkey.was_pressed(session.tmux, session.pane, client_pid)

    async def settled_elsewhere(self, what: WaitingRequest) -> str:
        """Wait until the request is over, and tell how."""
        while True:
            if answer := await inputrequests.wait_for_answer(what.session, what.request, what.left_s + 1):
                return answer.outcome


def _line(text: str, secret: bool) -> bytes:
    """A line as bytes.

    Raises:
        NoInput, InvalidArgument
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidArgument("Nothing was typed: it is no text.") from None  # the error would have all of it
    if secret and not data:
        raise NoInput("There is nothing to type.", hint="Nothing was typed; the request waits on.")
    if len(data) > TERMINAL_LINE_BYTES or any(byte < 0x20 and byte != 0x09 for byte in data) or b"\x7f" in data:
        raise InvalidArgument(
            f"Nothing was typed: it has control characters, or more than {TERMINAL_LINE_BYTES} bytes.",
            hint="Type it yourself: run the command without --text.",
        )
    return data


# ---- A person answers where they are attached already: in a popup over the session, or by typing into it -------------


@value
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
