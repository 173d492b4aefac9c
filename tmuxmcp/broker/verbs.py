"""What verbs have in common: a call on its way (`Work`), the parts of the broker that they share, and who does what.

A verb is a function that does one kind of request, with `@verb(q.Run)` above it, in the module of what it does. Who may
do it, and which session is meant, is settled before (`stages.py`).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

import anyio
from anyio.abc import TaskGroup

from tmuxmcp.broker.admission import Admission, only_waits, tracer
from tmuxmcp.broker.views import OpenPages
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import ResourceLimit, SessionBusy, SessionTaken
from tmuxmcp.contract.latedataclass import changed
from tmuxmcp.contract.request import Request
from tmuxmcp.contract.results import Result
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.gate.audit import AuditLine
from tmuxmcp.gate.gate import Gate
from tmuxmcp.gate.target import Target, Targets
from tmuxmcp.machine.launch import launch
from tmuxmcp.machine.processes import Counting
from tmuxmcp.machine.searching import Searching
from tmuxmcp.record.notedcalls import NotedCalls
from tmuxmcp.sessions.bounds import Boundary
from tmuxmcp.sessions.creation import Creation
from tmuxmcp.sessions.noting import IdempotentCall
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.retention import NotRestored, Restoration
from tmuxmcp.sessions.session import Session
from tmuxmcp.sessions.timekeeper import CheckpointMaker
from tmuxmcp.shell import adopting
from tmuxmcp.shell.secretreader import SecretReader

T = TypeVar("T")
Q = TypeVar("Q", bound=Request[Any], covariant=True)


class Services:
    """The parts of one broker that its stages and verbs work with."""

    def __init__(
        self, settings: BrokerSettings, registry: Registry, creation: Creation, boundary: Boundary, gate: Gate
    ) -> None:
        self.settings, self.registry, self.creation = settings, registry, creation
        self.boundary, self.gate = boundary, gate
        self.searching = Searching()
        self.targets = Targets(registry, creation, self.searching, settings)
        self.admission = Admission(settings.max_calls)
        self.noted_calls = NotedCalls(settings.state_dir, settings.request_id_days)
        self.tracer = tracer() if settings.traces else None
        self.counting = Counting(launch.KEY_VARIABLE)
        self.pages = OpenPages()
        self.page_url = ""
        """Where the page is shown; empty: nowhere."""
        self.began = time.monotonic()
        self.making: CheckpointMaker | None = None
        """Makes checkpoints ahead, where this broker does that."""
        self.tasks: TaskGroup | None = None
        """Where debuggers live; they end with it."""
        self.limited = anyio.Event()
        """Set when there is a new session with limits; whoever looks after them puts a fresh event here."""
        self.listing = anyio.Lock()
        """Held while a list is made: one at a time, a row between two turns of everybody else."""
        self.left_open = AsyncExitStack()
        """Ends what callers have left open beside sessions."""
        self._parts: dict[object, Any] = {}

    def part(self, kind: Callable[[Services], T]) -> T:
        """The one object of a kind that this broker has; made when it is first asked for."""
        if kind not in self._parts:
            self._parts[kind] = kind(self)
        return cast("T", self._parts[kind])

    def aside(self) -> AbstractContextManager[None]:
        """While this is open, a call is answered, and no checkpoint is made."""
        return self.making.aside() if self.making else nullcontext()

    def attach_command(self, session: Session) -> str:
        """How a person watches: by the tmux session's name, which a script may have changed."""
        target = session.pane.attach_target if session.pane else f"={session.id}"
        # A target holds nothing that quotes do not keep; without them zsh takes =word for the path of a command.
        return f"tmux -S {shlex.quote(str(self.registry.tmux.socket))} attach -r -t '{target}'"


class Work(Generic[Q]):
    """One call of an operation, as the stages hand it on."""

    def __init__(self, broker: Services, asked: Request[Any], call: Call, noting: IdempotentCall | None = None) -> None:
        """Begin with what was asked; `noting` writes down what a call with an id is about to do."""
        self.broker, self.asked, self.call, self.noting = broker, asked, call, noting
        self.caller = call.caller
        self.request = cast("Q", asked.filled(broker.settings))
        """What was asked, with the settings in place of what was left out."""
        self.restores: Restoration | NotRestored | None = None
        """What the session that the call makes has from one that is over."""
        self.open = AsyncExitStack()
        """What stages have opened for those behind them; closed when there is an answer or an error."""
        self.line: AuditLine | None = None
        """Of the audit; a person's call has none."""
        self.target = Target()
        self.agreed: SecretReader | None = None
        """Who gets the secret that the call types, as a person agreed."""
        self.admitted = False
        """It counts among the calls of its client that go on."""
        self.result: Result | None = None
        """What the verb gave."""
        self.answer: Result | None = None
        """What the caller is given."""

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While this is open, an answer is made: where that fails, nothing counts as told to the caller."""
        asked = self.call
        self.call = changed(asked, untold=[])
        try:
            with self.broker.aside():
                yield
        except BaseException:  # cancelled, for one
            self.call.not_told()
            raise
        asked.untold[:] = self.call.untold
        self.call = asked

    def counted(self) -> AbstractContextManager[None]:
        """While this is open, the call counts among those of its client that go on; a person's does not.

        Raises:
            ResourceLimit: there are too many.
        """
        if self.call.person or self.admitted:
            return nullcontext()
        return self.broker.admission.admit(self.call, waits=only_waits(self.request))

    async def session(self) -> Session:
        """The session that is meant; the caller's default session is made now if there is none.

        Raises:
            SessionNotFound: there is none of that id.
            MaxSessions, TmuxFailed: the default session cannot be made.
        """
        return await self.broker.targets.session(self.target, self.call)

    async def settled_session(self) -> Session:
        """The session that is meant; what a killed broker began to type into it is finished."""
        session = await self.session()
        with suppress(SessionBusy, SessionTaken):
            await adopting.settle(session)
        return session


Verb = Callable[[Work[Any]], Awaitable[Result]]
F = TypeVar("F", bound=Callable[..., Awaitable[Result]])

VERBS: dict[type[Request[Any]], Verb] = {}
"""What does each kind of request, of the modules that were imported."""

LATE_MODULES = {
    "screenshot": "screenshot",
    "recording": "recorder",
    "helpers": "helpers",
    "process": "programs.machine",
    "files": "programs.machine",
    "git": "programs.machine",
    "r2": "programs.r2",
    "gdb": "programs.gdb",
}
"""Modules whose verbs few callers need, by set of tools or by operation: imported when they are first called."""


def verb(*kinds: type[Request[Any]]) -> Callable[[F], F]:
    """Make a function the one that does these kinds of requests."""

    def register(function: F) -> F:
        VERBS.update(dict.fromkeys(kinds, function))
        return function

    return register


def verb_of(request: Request[Any]) -> Verb:
    """What does a request."""
    if type(request) not in VERBS:
        operation = request.operation
        import_module(f"tmuxmcp.broker.{LATE_MODULES.get(operation.name) or LATE_MODULES[operation.tools or '']}")
    return VERBS[type(request)]


def check_size(settings: BrokerSettings, text: str) -> None:
    """Refuse more input at once than is allowed.

    Raises:
        ResourceLimit
    """
    size = len(text.encode("utf-8", "surrogateescape"))
    if size > settings.max_input_bytes:
        raise ResourceLimit(
            f"{size:,} bytes are more than max_input_bytes ({settings.max_input_bytes:,}) allows at once.",
            hint="Send it in pieces, or write it to a file.",
            limit="max_input_bytes",
        )
