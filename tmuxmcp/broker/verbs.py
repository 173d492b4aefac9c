"""What verbs have in common: a call on its way (`Work`), the parts of the broker that they share, and who does what.

A verb is a function that does one kind of request, with `@verb(q.Run)` above it, in the module of what it does. Who may
do it, and which session is meant, is settled before (`stages.py`).
"""

from __future__ import annotations

import shlex
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

import anyio
from anyio.abc import TaskGroup

from tmuxmcp.broker.admission import Admission, tracer
from tmuxmcp.broker.views import OpenPages
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, seconds_of
from tmuxmcp.contract.errors import PolicyDenied, ResourceLimit, SessionBusy, SessionExited, SessionTaken
from tmuxmcp.contract.request import ACTS_BESIDE_SESSIONS, Request
from tmuxmcp.contract.results import Result
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import replace
from tmuxmcp.gate.audit import AuditLine
from tmuxmcp.gate.gate import Gate
from tmuxmcp.gate.target import Target, Targets
from tmuxmcp.machine.launch import launch
from tmuxmcp.machine.processes import Counting
from tmuxmcp.machine.searching import Searching
from tmuxmcp.record.notedcalls import NotedCalls
from tmuxmcp.sessions.background import CheckpointMaker
from tmuxmcp.sessions.bounds import Boundary
from tmuxmcp.sessions.creation import Creation
from tmuxmcp.sessions.noting import IdempotentCall
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.retention import NotRestored, Restoration
from tmuxmcp.sessions.session import Session
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
        self.ends = ReportedEnds(registry)
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
        self.pane_changed = False
        """The pane was found to be other than tmux last told."""
        self.result: Result | None = None
        """What the verb gave."""
        self.answer: Result | None = None
        """What the caller is given."""

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While this is open, an answer is made: where that fails, nothing counts as told to the caller."""
        asked = self.call
        self.call = replace(asked, undo=[])
        try:
            with self.broker.making.aside() if self.broker.making else nullcontext():
                yield
        except BaseException:  # cancelled, for one
            self.call.roll_back()
            raise
        asked.undo[:] = self.call.undo
        self.call = asked

    async def session(self) -> Session:
        """The session that is meant; the caller's default session is made now if there is none.

        Raises:
            SessionNotFound: there is none of that id.
            MaxSessions, TmuxFailed: the default session cannot be made.
        """
        if self.target.error:
            raise self.target.error
        return self.target.session or await self.broker.targets.default(self.call)

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

INSIDE = set[type[Request[Any]]]()
"""The requests that act beside sessions, in the sandbox of the settings if there is one."""

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


def verb(*kinds: type[Request[Any]], inside: bool = False) -> Callable[[F], F]:
    """Make a function the one that does these kinds of requests.

    Args:
        inside: it does so in the sandbox of the settings; one that acts beside sessions is refused there without that.
    """

    def register(function: F) -> F:
        VERBS.update(dict.fromkeys(kinds, function))
        INSIDE.update(kinds if inside else ())
        return function

    return register


def verb_of(request: Request[Any], settings: BrokerSettings) -> Verb:
    """What does a request.

    Raises:
        PolicyDenied: it would act outside the sandbox.
    """
    kind, operation = type(request), request.operation
    late = LATE_MODULES.get(operation.name) or LATE_MODULES.get(operation.tools or "")
    if kind not in VERBS and late:
        import_module(f"tmuxmcp.broker.{late}")
    if settings.sandbox != "none" and operation.acts in ACTS_BESIDE_SESSIONS and kind not in INSIDE:
        raise PolicyDenied(
            f"{operation.name} was not done: it acts outside the sandbox, and the setting sandbox is "
            f"{settings.sandbox}.",
            hint="Use run: commands in a session are inside.",
        )
    return VERBS[kind]


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


# ---- Which callers were told that a session has ended, so that a wait over all sessions tells each end once ----------
#
# A session may end between two waits: neither would tell of it. In memory only: a broker tells of the ends that it saw.

MOST_CALLERS = 1024
"""Callers of whom it is known when they came; to the others older ends are no news."""

OVER_MODES = ("exited", "lost")
"""Modes of sessions in which nothing runs."""


class ReportedEnds:
    """Who was told of which ends."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._came: OrderedDict[str, float] = OrderedDict()
        """When each caller made its first call, in seconds since 1970."""

    def came(self, caller: str) -> None:
        """Take note that this caller is there."""
        self._came.setdefault(caller, time.time())
        self._came.move_to_end(caller)
        if len(self._came) > MOST_CALLERS:
            self._came.popitem(last=False)

    def untold_ends(self, caller: str) -> list[Session]:
        """The sessions that have ended since this caller came, and of whose end it was not told."""
        return [each for each in self._registry.sessions.values() if self._is_news(each, caller)]

    def note_ends(self, caller: str, request: Request[Any], answer: r.Result | SessionExited) -> None:
        """Take note of the ends that an answer tells a caller of."""
        if getattr(request, "generation", None) is None:  # an earlier session of a name says nothing of the newest
            for session_id in _ends_in(answer):
                self.tell(caller, session_id)

    def tell(self, caller: str, session_id: str) -> None:
        """Take note that a caller is told of one end."""
        session = self._registry.sessions.get(session_id)
        if session and session.exited:
            session.end_told.add(caller)

    def _is_news(self, session: Session, caller: str) -> bool:
        end = session.life.end
        if end is None or not session.seen_alive or caller in session.end_told:
            return False
        why = session.ended
        at_s = (seconds_of(why.at) if why and why.at else None) or end.at_s
        return at_s >= self._came.get(caller, time.time())


def _ends_in(answer: r.Result | SessionExited) -> Iterator[str]:
    """The sessions of which an answer says that they have ended."""
    match answer:
        case SessionExited():
            yield answer.details.get("session_id", "")
        case r.WaitResult() | r.ListSessionsResult():
            yield from (each.session_id for each in answer.sessions if each.mode in OVER_MODES)
        case r.SendResult(result=r.ReadResult() as read):
            yield from _ends_in(read)
        case _ if getattr(answer, "mode", None) in OVER_MODES:
            yield getattr(answer, "session_id", "")
