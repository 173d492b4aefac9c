"""The core: all sessions of one state directory, and the operations on them.

A broker keeps no state that it cannot rebuild: what a session is lies in tmux, what it printed in its log. Several
brokers work on one state directory at once, and any of them may go away at any moment.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from tmuxmcp.broker import again, lifecycle, stages
from tmuxmcp.broker.admission import span
from tmuxmcp.broker.answering import InClient, PersonAnswers
from tmuxmcp.broker.lifecycle import Pruned, Restored
from tmuxmcp.broker.listing import SessionOverviews
from tmuxmcp.broker.pageinput import PageInput
from tmuxmcp.broker.verbs import Services, Work
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, TmuxFailed, TmuxMcpError, Unauthorized
from tmuxmcp.contract.operations import Operations
from tmuxmcp.contract.request import Operation, R, Request
from tmuxmcp.contract.requests import CreateSession
from tmuxmcp.contract.results import Result
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import replace
from tmuxmcp.gate import confirmations
from tmuxmcp.gate.gate import Gate
from tmuxmcp.machine import cgroup
from tmuxmcp.machine.ownfiles import make_directory
from tmuxmcp.readiness.wait import SessionWatch, WatchChange
from tmuxmcp.record.directory import sessions_dir
from tmuxmcp.record.log import LogWatcher
from tmuxmcp.sessions import lease, retention
from tmuxmcp.sessions.background import CheckpointMaker, RecordingCare, SizesSeen, Timekeeper
from tmuxmcp.sessions.bounds import Boundary
from tmuxmcp.sessions.creation import Creation
from tmuxmcp.sessions.follow import LONGEST_LOOK_S, Follow
from tmuxmcp.sessions.life import EndCause
from tmuxmcp.sessions.noting import claim_name
from tmuxmcp.sessions.registry import Registry, Repair
from tmuxmcp.sessions.retention import RetentionWish
from tmuxmcp.sessions.session import Session
from tmuxmcp.sessions.statusline import StatusLine
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.control import command as tmux_command
from tmuxmcp.tmux.leaseoptions import Lease
from tmuxmcp.tmux.server import Tmux

if TYPE_CHECKING:
    import libtmux

    from tmuxmcp.contract.words import Cast

log = logging.getLogger(__name__)

CHANNEL_LOOK_S, NO_CHANNEL_LOOK_S = 0.5, 2.0
"""Time between two looks at second channels to other hosts: while one is open that is to be closed, and else."""

SPARE_S = 60.0
"""How long a pane that was made ahead is kept: most clients call within a minute, or not at all."""

REAP_GRACE_MS = 1000
"""Time that a session has to end when its time is up: it is over within 2 s of its limit, whatever it ignores."""


class Broker(Operations):
    """All sessions of one state directory; its operations are methods, in the name of the person who runs it."""

    def __init__(self, settings: BrokerSettings, caller: str = "library") -> None:
        self.settings = settings
        self._own = Call(caller, person=True)
        self.boundary = Boundary(settings)
        self.tmux = Tmux(settings.state_dir)
        self.watcher = LogWatcher()
        self.registry = Registry(
            self.tmux, self.watcher, settings.state_dir, settings.log_max_bytes, adopts=settings.integration
        )
        self.creation = Creation(self.registry, settings, self.boundary)
        self.creation.end_abandoned = self._end_abandoned
        self.watch = SessionWatch(self.registry)
        self.gate = Gate(settings)
        self.registry.given_back = self._note_given_back
        self.services = Services(settings, self.registry, self.creation, self.boundary, self.gate)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: BrokerSettings, caller: str = "library", *, keeps_times: bool = False
    ) -> AsyncIterator[Broker]:
        """Find or start the tmux server and every session; on leaving, let go of them.

        Args:
            caller: in whose name the broker's own methods are called.
            keeps_times: write down when sessions print what, and keep screens of them, where no other broker does, and
                make the files of recordings whose sessions have ended; for one that stays.

        Raises:
            TmuxUnavailable, PermissionDenied, InvalidArgument
        """
        broker = cls(settings, caller)
        jobs, at_end = [broker._reap, broker._mind_connections], []
        if keeps_times:
            timekeeper, making = Timekeeper(broker.registry, broker.watcher), CheckpointMaker(broker.registry)
            care = RecordingCare(broker.registry, broker.creation, partial(lifecycle.finish_recording, broker.services))
            jobs += [timekeeper.run, making.run, StatusLine(broker.registry).run, care.run]
            at_end = [timekeeper.close, making.close]
            broker.services.making = making
        # tmux.sock first: two brokers that start at once must agree on one server.
        async with broker._connections() as connections, anyio.create_task_group() as task_group:
            try:
                with broker.gate.telling_what_is_missing():
                    await broker.tmux.open(connections)
                    make_directory(sessions_dir(settings.state_dir))
                    connections.start_soon(broker.watcher.run)
                    repair = Repair(broker.watcher, broker.registry.session_of, settings.log_max_bytes)
                    task_group.start_soon(repair.run)
                    await broker.registry.adopt()
                    with suppress(TmuxMcpError):
                        await broker.creation.sweep()
                if not keeps_times:
                    at_end = [SizesSeen(broker.registry).note]
                broker.services.tasks = task_group
                for job in jobs:
                    task_group.start_soon(job)
                yield broker
            finally:
                with anyio.CancelScope(shield=True):
                    await broker.services.left_open.aclose()
                if settings.on_exit == "destroy":
                    with anyio.move_on_after(2, shield=True):
                        await broker._destroy_own()
                for end in at_end:
                    end()
                task_group.cancel_scope.cancel()

    @asynccontextmanager
    async def _connections(self) -> AsyncIterator[anyio.abc.TaskGroup]:
        """Tasks that all others need, with what is open: closed once those have ended, which may go on for a step."""
        async with anyio.create_task_group() as task_group:
            try:
                yield task_group
            finally:
                self._close()
                task_group.cancel_scope.cancel()

    async def do(self, request: Request[R], call: Call | None = None) -> R:
        """Do one operation: the one door, for every face.

        Raises:
            Unauthorized, PolicyDenied, ConfirmationDeclined: the caller may not.
            ResourceLimit: the client has too many calls going on.
            TmuxMcpError: what the operation raises.
        """
        asked, tracer = call or self._own_call(), self.services.tracer
        with span(tracer, request, asked) if tracer else nullcontext():
            return await stages.do(Work[Request[R]](self.services, request, asked))

    def session_of_call(self, request_id: str) -> str:
        """In which session a call of ours with this `request_id` acts; empty as long as it has not acted."""
        return again.session_of(self.services, request_id, self._own_call())

    def _own_call(self) -> Call:
        """A call in the name of the person who runs this broker."""
        return replace(self._own, call_id=Call().call_id)

    async def perform(self, operation: Operation, arguments: Mapping[str, Any], call: Call) -> Result:
        """Check arguments that came from outside, and do the operation.

        Raises:
            InvalidArgument: naming every argument that is wrong, and why.
            TmuxMcpError: as `do`.
        """
        try:
            request = operation.parse(arguments)
        except InvalidArgument as error:
            self.gate.refused(operation, call, error)
            raise
        return await self.do(request, call)

    def follow(
        self,
        session_id: str = "",
        since: int | None = None,
        output: bool = True,
        call: Call | None = None,
        longest_look_s: float = LONGEST_LOOK_S,
    ) -> Follow:
        """All that happens to a session, until it ends: iterate over the events. Nothing has to be closed.

        An agent's call is judged once, as one of `read`.

        Args:
            since: offset from which on every byte is given; None: first the screen of now as a `Snapshot`, then every
                byte behind it.
            output: False leaves out screen and bytes and costs less; `Printed` says that there is more.
            longest_look_s: so late a change may be told of a session that has printed nothing for long.

        Raises:
            SessionNotFound, InvalidArgument, Unauthorized, PolicyDenied: when the iteration begins.
        """
        find = partial(stages.session_to_read, self.services, session_id, call or self._own_call())
        return Follow(self.registry, find, since, output, longest_look_s)

    async def asciicast(self, session_id: str = "", most_bytes: int = 1 << 20, call: Call | None = None) -> Cast:
        """The newest part of what a session did, as an asciicast of at most so many bytes.

        An agent's call is judged as one of `read`.

        Raises:
            SessionNotFound, NotRetained, ResourceLimit, TimedOut, IoError, Unauthorized, PolicyDenied
        """
        from tmuxmcp.broker import recorder

        asked = call or self._own_call()
        session = await stages.session_to_read(self.services, session_id, asked)
        return await recorder.newest(session, most_bytes, asked)

    async def pane(self, session_id: str) -> libtmux.Pane:
        """A running session's pane as libtmux's object, for what tmux can do and no operation does.

        What is done with it passes neither lease nor policy nor audit, and blocks the thread. It stays valid until the
        session ends, also after this broker is closed.

        Raises:
            SessionNotFound
            SessionExited: the program has ended, or the pane is lost.
            SessionTaken: a person holds it.
            Unauthorized: it is the default session of another caller.
            TmuxFailed: tmux did not answer.
        """
        from tmuxmcp.tmux import library  # late: for who uses it alone

        session = await self.registry.existing(session_id)
        pane = await session.alive()
        lease.refuse(session)
        if session.meta.owner not in ("", self._own.caller):
            raise Unauthorized(
                f"Session {session.id} is the default session of another caller, {session.meta.owner}.",
                hint="Make a session with a name, or open the broker in that caller's name: open_broker(caller=NAME).",
                session_id=session.id,
            )
        found = await library.pane_of(self.tmux, pane)
        if found is None:
            await session.alive()
            raise TmuxFailed(f"The pane of session {session.id} changed meanwhile.", hint="Try again.")
        return found

    async def take(self, session_id: str, via: str = "cli", pid: int = 0, tty: str = "") -> Lease:
        """Have the user hold a session: until it is given back, no call types into it.

        Args:
            pid: of the terminal client that takes it, or the number of the page that does; 0: neither does.
            tty: the path of that client's terminal.

        Raises:
            SessionNotFound, SessionExited
            SessionTaken: another person holds it.
        """
        session = await self.registry.existing(session_id)
        taken = await lease.take(session, via, pid, tty=tty, key=self.settings.take_key)
        self.gate.note({"tool": "take", "session_id": session_id, "by": taken.by, "via": via})
        return taken

    async def release(self, session_id: str) -> Lease | None:
        """Give a session back, and tell who held it; None: nobody did.

        Raises:
            SessionNotFound
        """
        return await lease.release(await self.registry.existing(session_id))

    def _note_given_back(self, session: Session, given: Lease, reason: str) -> None:
        facts = {"session_id": session.id, "by": given.by, "via": given.via, "reason": reason}
        self.gate.note({"tool": "release", **facts})

    @property
    def people(self) -> PersonAnswers:
        """What agents wait for a person to do."""
        return PersonAnswers(self.registry, self.settings, self.gate.note)

    @property
    def hands(self) -> PageInput:
        """What a person does in the page: take a session, type, paste, give it back."""
        return PageInput(self.registry, self.settings, self.gate.note)

    async def in_client(self, pid: int) -> InClient:
        """A person's terminal that shows a session, by the process id of its tmux client.

        Raises:
            SessionNotFound, PermissionDenied: there is none, or it only watches.
        """
        return await InClient.of(self.people, self.registry, self.settings, pid)

    async def notify(
        self,
        changed: WatchChange,
        session_id: str = "",
        output: bool = False,
        commands: bool = False,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `changed` after each change of a session, which may come and go meanwhile, until cancelled.

        Args:
            session_id: empty: each change of any session counts, and when one comes or goes.
            output: what the session prints counts as well.
            commands: only the end of a command, or of the session, counts.
        """
        if session_id:
            await self.watch.session(session_id, changed, output, commands, task_status=task_status)
        else:
            await self.watch.all(changed, task_status=task_status)

    async def keep_spare(self, owner: str, lifetime_s: float = SPARE_S) -> None:
        """Have a pane ready for a caller's default session, for a while."""
        try:
            await self.creation.make_spare(owner)
            await anyio.sleep(lifetime_s)
        except (TmuxMcpError, OSError) as error:
            log.info("no pane is made ahead: %s", error)
        finally:
            self.creation.drop_spare()

    def shows_page(self, url: str) -> None:
        """Take note where a person can watch: facts of sessions tell it. It holds nothing that lets anybody in."""
        self.services.page_url = url

    def shown(self, session_id: str, page: int) -> AbstractContextManager[None]:
        """Count a page among the viewers of a session while this is open.

        Args:
            page: its number, which its lease has; 0: it has none.
        """
        return self.services.pages.shown(session_id, page)

    def seeing(self) -> SessionOverviews:
        """A look at all sessions at once, for a person."""
        return SessionOverviews(self.registry)

    @property
    def listeners(self) -> int:
        """How many are notified of changes now."""
        return self.watch.listeners

    @property
    def session_ids(self) -> frozenset[str]:
        """The sessions that were there at the last look."""
        return frozenset(self.registry.sessions)

    @property
    def tmux_binary(self) -> str:
        """The tmux in which the sessions live: another version might not understand its server."""
        return self.tmux.binary

    def claim_identity(self, key: str) -> str:
        """A caller's name that its restarts share and no other live process has; see `sessions/noting.py`."""
        with self.gate.telling_what_is_missing():
            return claim_name(self.settings.state_dir, key)

    async def answers(self, timeout_s: float) -> bool:
        """Whether tmux answers within this time."""
        try:
            await self.tmux.query(tmux_command("display-message", "-p", ""), timeout_s=timeout_s)
        except (TmuxMcpError, TimeoutError):
            return False
        return True

    async def _reap(self) -> None:
        """End what nobody wants any more, now and then."""
        settings = self.settings
        bounds = retention.AgeLimits(settings.idle_timeout_s, settings.max_duration_s, settings.take_timeout_s)
        wish = RetentionWish(settings.retention_days, settings.state_max_bytes)
        while True:
            with suppress(TmuxMcpError, OSError):
                await self.registry.look_again()
                await self._settle_leases()
                await self._settle_offers()
                watched = await panes.attached(self.tmux)
                await retention.end_idle(
                    self.registry.sessions.values(),
                    settings.state_dir,
                    bounds,
                    watched,
                    self._end_due,
                )
                await self.prune(wish)
                await anyio.to_thread.run_sync(lambda: cgroup.sweep(cgroup.places(self.tmux.pid or "self")))
            with anyio.move_on_after(retention.interval_s(bounds, self.registry.sessions.values())):
                await self.services.limited.wait()
            self.services.limited = anyio.Event()

    async def _settle_leases(self) -> None:
        """Give back what is held by persons who are gone."""
        for session in list(self.registry.sessions.values()):
            if not session.pane or not (session.pane.taken or session.pane.given):
                continue
            await lease.settle(session, self.settings.take_timeout_s)

    async def _settle_offers(self) -> None:
        """Unbind the answer key of requests whose time was up while no call waited for them."""
        for session in list(self.registry.sessions.values()):
            if session.offers:
                await confirmations.offer_next(session, self.settings)

    async def prune(self, wish: RetentionWish, *, by: str = "", look_only: bool = False) -> Pruned:
        """Remove files of sessions that are over.

        Args:
            by: the caller who wants it; empty: the settings do.
            look_only: only tell what would go.

        Raises:
            SessionNotFound, InvalidArgument: what is named is not there, or has to stay.
            TimedOut, IoError, TmuxFailed: nothing more was removed.
        """
        live = partial(panes.known_ids, self.tmux)
        pruned = await lifecycle.prune(self.settings, wish, live, by=by, look_only=look_only)
        for each in [] if look_only else pruned.removed:
            self.registry.drop(each.name)
        return pruned

    async def restore(self, session_ids: Sequence[str]) -> list[Restored]:
        """Make sessions again that are over, in the name of the person: the program of each is started anew.

        No command that ran in them is run again. What cannot be made is told, and keeps the others from nothing.
        """
        found = []
        for session_id in session_ids:
            try:
                restores = await lifecycle.left_by(self.services, session_id)
                work = Work[CreateSession](self.services, restores.request, self._own_call())
                work.restores = restores
                made = await stages.do(work)
            except TmuxMcpError as error:
                found.append(Restored(session_id, error=error))
            else:
                found.append(Restored(session_id, made, restores))
        return found

    async def lost(self) -> list[str]:
        """The ids of the sessions of which nobody tells how they ended, the oldest first."""
        return await lifecycle.lost(self.registry)

    async def _mind_connections(self) -> None:
        """Let sessions on other hosts end: ssh waits for the channel by which we ask there. See who printed much."""
        while True:
            if self.services.making:
                self.services.making.find_work()
            minded = [session.close_channel_if_over() for session in list(self.registry.sessions.values())]
            await anyio.sleep(CHANNEL_LOOK_S if any(minded) else NO_CHANNEL_LOOK_S)

    async def _end_due(self, session: Session, due: retention.DueEnd) -> None:
        await lifecycle.end(self.services, session, due.reason, "TERM", REAP_GRACE_MS, why=due.why)

    async def _end_abandoned(self) -> bool:
        sessions = self.registry.sessions
        watched = await panes.attached(self.tmux) | {each for each in sessions if self.services.pages.of(each)}
        found = await retention.abandoned(sessions.values(), self.settings.state_dir, watched, self.services.counting)
        if found:
            log.info("session %s is ended: its caller is gone, and another one needs its place", found.id)
            why = "its caller was gone, and another one needed its place"
            await self._end_due(found, retention.DueEnd(EndCause.IDLE, why))
        return found is not None

    async def _destroy_own(self) -> None:
        """End the sessions that this broker made."""
        async with anyio.create_task_group() as task_group:
            for session_id in self.creation.made & set(self.registry.sessions):
                task_group.start_soon(self.destroy_session, session_id, True)

    def _close(self) -> None:
        self.gate.close()
        self.services.searching.close()
        self.creation.drop_spare()
        self.registry.close()
        self.tmux.close()
        self.watcher.close()
