"""Wiring: settings -> broker -> faces; start, stop, logging."""

from __future__ import annotations

import gc
import json
import logging
import os
import secrets
import select
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.lowlevel

from tmuxmcp.config import Settings, home, load_settings
from tmuxmcp.contract.errors import InvalidArgument, IoError, PermissionDenied, TmuxMcpError, shortage
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import fields
from tmuxmcp.contract.words import TRACE_LEVEL
from tmuxmcp.gate.audit import Redactor
from tmuxmcp.machine import ownprocess
from tmuxmcp.machine.environment import leave_removed_directory
from tmuxmcp.machine.ownfiles import make_directory, write_once

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.faces.page.codes import ServedPage
    from tmuxmcp.faces.tokens import Tokens
    from tmuxmcp.nodes.fleet import AnyBroker, Fleet
    from tmuxmcp.nodes.ray.door import DoorHome

log = logging.getLogger(__name__)

FIRST_CALLS_S = 0.25
"""After its greeting a client asks for the tools, or calls at once: nothing is made ahead beside that."""


def broker_settings(settings: Settings) -> BrokerSettings:
    """The broker's plain values out of the settings."""
    values: dict[str, Any] = {field: getattr(settings, field) for field in fields(BrokerSettings)}
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(value)
    return BrokerSettings(**values)


@asynccontextmanager
async def open_broker(
    settings: Settings | None = None, caller: str = "library", *, keeps_times: bool = False
) -> AsyncIterator[Broker]:
    """A running broker: finds every session of the state directory, and lets go of them at the end.

        async with tmuxmcp.open_broker() as broker:
            result = await broker.run("make test")

    Args:
        settings: the settings; left out: variables, the settings file and defaults.
        caller: whose default session and read cursors are meant: letters, digits, `_` and `-`.
        keeps_times: write down when sessions print what, where no other broker does; for one that stays.

    Raises:
        TmuxUnavailable: tmux is missing or too old.
        PermissionDenied: the state directory is not the user's alone.
    """
    from tmuxmcp.broker.broker import Broker

    try:
        plain = broker_settings(settings or load_settings())
        async with Broker.open(plain, caller, keeps_times=keeps_times) as broker:
            yield broker
    except BaseExceptionGroup as group:
        # The broker's task group wraps what passes through it, the caller's own exceptions too.
        raise _only(group) from None


@asynccontextmanager
async def open_fleet(
    fleet: str | Path = "", settings: Settings | None = None, caller: str = "library"
) -> AsyncIterator[Fleet]:
    """Many machines as one broker: the same operations, on sessions whose ids are NAME@NODE.

        async with tmuxmcp.open_fleet("brokers.toml") as fleet:
            made = await fleet.create_many(100, "bash")

    Args:
        fleet: a file of brokers, `ray://HOST:PORT`, or `auto`; left out: what the setting says.
        settings: the settings; left out: variables, the settings file and defaults.
        caller: whose default session and read cursors are meant: letters, digits, `_` and `-`.

    Raises:
        InvalidArgument: no fleet is named, or its file is not understood.
        Unsupported: what it needs is not installed.
        IoError, PermissionDenied: its file cannot be read.
    """
    from tmuxmcp.faces.tokens import only_token
    from tmuxmcp.nodes.fleet import Fleet, open_transport

    known = settings or load_settings()
    async with open_transport(str(fleet) or known.fleet, only_token, known.fleet_secret, known.state_dir) as transport:
        yield Fleet(transport, broker_settings(known), caller)


@asynccontextmanager
async def open_served(
    settings: Settings, caller: str = "library", *, keeps_times: bool = False
) -> AsyncIterator[AnyBroker]:
    """What a server serves: many machines, if the setting `fleet` names them, else the broker of this one."""
    if settings.fleet == "off":
        async with open_broker(settings, caller, keeps_times=keeps_times) as broker:
            yield broker
    else:
        async with open_fleet("", settings, caller) as fleet:
            yield fleet


@asynccontextmanager
async def open_door() -> AsyncIterator[DoorHome]:
    """What this machine gives its door in a fleet, by the machine's own settings.

    Raises:
        IoError, PermissionDenied, InvalidArgument: settings or secret cannot be read.
        TmuxMcpError: as `open_broker`.
    """
    from tmuxmcp.faces.page.lookups import OwnDesk
    from tmuxmcp.faces.page.routes import page_of
    from tmuxmcp.nodes import fleetfile
    from tmuxmcp.nodes.ray import CONFIG_VARIABLE
    from tmuxmcp.nodes.ray.door import DoorHome

    named = os.environ.get(CONFIG_VARIABLE)
    settings = load_settings(file=Path(named) if named else None)
    setup_logging(settings.log_level, settings.log_format)
    # A door is taken away and made anew; and the directory that Ray started it in may be Ray's, who removes it.
    own = {"on_exit": "keep", "cwd": settings.cwd or str(home())}
    async with open_broker(settings.model_copy(update=own), "door", keeps_times=True) as broker:
        desk = OwnDesk(broker)
        async with desk.run():
            yield DoorHome(broker, settings.state_dir, fleetfile.read(settings.fleet_secret), page_of(desk))


def _only(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def run_stdio(settings: Settings) -> None:
    """Serve MCP on stdin and stdout until the client goes or a signal comes; for a process that ends then."""
    setup_logging(settings.log_level, settings.log_format)
    _begin(settings)
    # All that is imported anywhere below, so that `freeze` keeps it out of every later collection.
    import tmuxmcp.broker.broker
    import tmuxmcp.broker.programs.machine  # noqa: F401  # as all of these

    gc.freeze()
    gc.enable()
    with _traced(settings):
        anyio.run(serve_stdio, settings)


def _traced(settings: Settings) -> AbstractContextManager[None]:
    if not settings.traces:
        return nullcontext()
    from tmuxmcp.faces import metrics

    return metrics.sent()


def _begin(settings: Settings) -> None:
    """Go home if our directory is gone, and say what a person would not expect of sessions."""
    if leave_removed_directory():
        log.warning("the directory that this was started in has been removed: sessions begin in %s", Path.cwd())
    if os.geteuid() == 0:
        log.warning("sessions run as root: what an agent runs in them may change this whole machine")
    shown = ownprocess.shown_above() if settings.sandbox == "none" and settings.fleet == "off" else {}
    if shown:
        told = ", ".join(f"{name} of process {pid} ({program})" for name, (pid, program) in shown.items())
        log.warning("sessions run as the same user as processes above this one, and can read there: %s", told)


async def serve_stdio(settings: Settings) -> None:
    """Serve MCP on stdin and stdout; see `run_stdio`."""
    from tmuxmcp.faces import mcp, stdio
    from tmuxmcp.faces.stdio import RecentAnswers

    key = mcp.stdio_identity()
    log.info("serving %s on stdio", key)
    answered = RecentAnswers()
    async with late_broker(settings, key, answered.greeted) as broker:
        face = mcp.McpFace(
            broker,
            settings=broker_settings(settings),
            tools=settings.tools,
            results=settings.results,
            caller=lambda: broker.caller,
            answered=answered,
        )
        await stdio.serve(face.server(), mcp.only_waits, answered)


def run_http(
    settings: Settings, *, no_token: bool = False, shown: Callable[[ServedPage], None] = lambda served: None
) -> None:
    """Serve MCP and JSON-RPC over HTTP until a signal comes; sessions live on.

    Args:
        no_token: ask for no token; on loopback only.
        shown: called once the page is served; must not block.

    Raises:
        InvalidArgument, PermissionDenied, IoError: the address or the tokens are not right.
    """
    setup_logging(settings.log_level, settings.log_format)
    _begin(settings)
    import tmuxmcp.broker.programs.machine  # noqa: F401  # as all of these

    gc.freeze()
    gc.enable()
    with _traced(settings):
        anyio.run(serve_http, settings, no_token, shown)


async def serve_http(settings: Settings, no_token: bool, shown: Callable[[ServedPage], None]) -> None:
    """Serve over HTTP; see `run_http`."""
    from tmuxmcp.faces import http, listener, tokens
    from tmuxmcp.faces.page.codes import AccessSecrets, announced
    from tmuxmcp.faces.page.lookups import desk_of
    from tmuxmcp.faces.page.routes import Page
    from tmuxmcp.faces.tokens import parse_address
    from tmuxmcp.nodes import fleetfile

    host, port = parse_address(settings.http)
    given = ownprocess.environment().get(tokens.TOKEN_VARIABLE)
    accepted = None if no_token else tokens.load_tokens(settings.token_file, given)
    for token in accepted or ():
        if token.short:
            log.warning("the token %s is short: it can be guessed", token.name)
    known = fleetfile.read_secret(settings.fleet_secret)
    try:
        bound = listener.bind(host, port, only_loopback=accepted is None)
    except PermissionDenied as error:
        if no_token:
            raise
        raise InvalidArgument(f"HTTP wants a token, and there is none. {error.message}", hint=error.hint) from None
    with bound as opened:
        async with open_served(settings, keeps_times=True) as broker:
            if accepted is None and not no_token:
                accepted = _own_token(settings.state_dir / tokens.OWN_TOKEN_FILE)
            hosts = listener.hosts_of(opened, host) | set(settings.allowed_hosts)
            served = listener.served_at(opened)
            page = Page(desk_of(broker), AccessSecrets(settings.state_dir, served.port), tokens.bearer)
            broker.shows_page(served.url)
            service = http.Service(
                broker,
                tokens=accepted,
                hosts=hosts,
                page=page,
                settings=broker_settings(settings),
                tools=settings.tools,
                results=settings.results,
                fleet_secret=known,
            )
            address = ":".join(map(str, opened.getsockname()[:2]))
            log.info("serving %s on http://%s; its page: tmuxmcp page", served_from(settings), address)
            async with service.run():
                with announced(settings.state_dir, served):
                    shown(served)
                    await listener.serve(
                        service.app,
                        opened,
                        close=service.close,
                        stop=service.stop,
                        cut=service.app.stop,
                        dropped=service.metrics.dropped,
                    )
    log.info("ended cleanly")


def _own_token(file: Path) -> Tokens | None:
    """The token of a service that was given none: made at its first start, and good at every later one."""
    from tmuxmcp.faces import tokens

    try:
        make_directory(file.parent, links=True)
        write_once(file, f"{secrets.token_hex(32)}\n")
    except OSError as error:
        raise IoError(f"{file} cannot be written: {error.strerror}.") from error
    log.info("clients send the token in %s", file)
    return tokens.load_tokens(file, None)


def run_page(settings: Settings, port: int | None, shown: Callable[[ServedPage], None]) -> None:
    """Show the page, and serve nothing else, on loopback until a signal comes; sessions live on.

    Args:
        port: where; `None`: any, the last one if it is free.
        shown: called once the page is served; must not block.

    Raises:
        IoError: the port cannot be had.
    """
    setup_logging("warning", settings.log_format)
    try:
        with _traced(settings):
            anyio.run(_serve_page, settings.model_copy(update={"on_exit": "keep"}), port, shown)
    except BaseExceptionGroup as group:
        raise _only(group) from None


async def _serve_page(settings: Settings, port: int | None, shown: Callable[[ServedPage], None]) -> None:
    from tmuxmcp.faces.http import page_beside

    async with anyio.create_task_group() as tg:
        tg.start_soon(_cancel_at_signal, tg.cancel_scope)
        async with open_served(settings, keeps_times=True) as broker:
            await page_beside(broker, settings.state_dir, port, shown)


async def _cancel_at_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for _ in signals:
            scope.cancel()


def served_from(settings: Settings) -> str:
    """Where the sessions are that a server serves."""
    return str(settings.state_dir) if settings.fleet == "off" else f"the fleet {settings.fleet}"


@asynccontextmanager
async def late_broker(settings: Settings, key: str, greeted: anyio.Event) -> AsyncIterator[LateBroker]:
    """A broker that opens once the client is greeted, which then has its answer sooner; or calls without a greeting.

    Args:
        key: what the client's identity is claimed under.
        greeted: set when the client has its first answer.
    """
    async with anyio.create_task_group() as tg:
        late = LateBroker(settings, key, tg, greeted)
        tg.start_soon(late.open_early)
        try:
            yield late
        finally:
            late.close()


class LateBroker:
    """Gives the broker; what keeps it from opening is the answer to each call, and not the end of the server.

    A client shows its user little of a server that does not start, and its model nothing.
    """

    def __init__(self, settings: Settings, key: str, tasks: anyio.abc.TaskGroup, greeted: anyio.Event) -> None:
        self._settings, self._key, self._tasks, self._greeted = settings, key, tasks, greeted
        self.caller = ""
        """The client's identity, once the broker is open."""
        self._broker: AnyBroker | None = None
        self._failure: Exception | None = None
        """Why it could not be opened the last time."""
        self._opening, self._called, self._closing = anyio.Lock(), anyio.Event(), anyio.Event()

    async def __call__(self) -> AnyBroker:
        """The broker, for a call, when it is open; tries again if it could not be opened before.

        Whoever waited for a try that failed is told so, and does not wait for one more.
        """
        self._called.set()
        return await self._opened()

    async def _opened(self) -> AnyBroker:
        if self._broker is None:
            known = self._failure
            async with self._opening:
                if self._broker is None:
                    if self._failure and self._failure is not known:
                        raise self._failure
                    self._broker = await self._open()
        return self._broker

    async def _open(self) -> AnyBroker:
        try:
            broker: AnyBroker = await self._tasks.start(self._hold)
        except Exception as error:
            self._failure = shortage(error) or error
            raise self._failure from None
        return broker

    async def open_early(self) -> None:
        """Open the broker before somebody asks for it."""
        with anyio.CancelScope() as scope:
            self._tasks.start_soon(_cancel_at, self._closing, scope)
            await self._greeted.wait()
        if self._closing.is_set():
            return
        try:
            await self._opened()
        except TmuxMcpError as error:
            log.error("%s", error)
        except Exception:
            log.exception("the broker cannot be opened")

    def close(self) -> None:
        """Let go of the broker."""
        self._closing.set()

    async def _hold(self, *, task_status: anyio.abc.TaskStatus[AnyBroker]) -> None:
        async with open_served(self._settings, keeps_times=True) as broker:
            self.caller = broker.claim_identity(self._key)
            self._tasks.start_soon(self._prepare, broker)
            if self._settings.page:
                self._tasks.start_soon(self._show_page, broker)
            task_status.started(broker)
            await self._closing.wait()

    async def _prepare(self, broker: AnyBroker) -> None:
        """Once the client is answered, have a pane ready for its first call."""
        from tmuxmcp.broker.broker import Broker

        try:
            with anyio.CancelScope() as scope:
                self._tasks.start_soon(_cancel_at, self._closing, scope)
                await self._greeted.wait()
                with anyio.move_on_after(FIRST_CALLS_S):
                    await self._called.wait()
                if self._called.is_set():
                    await anyio.sleep(FIRST_CALLS_S)  # the first call may make the session itself
                if isinstance(broker, Broker):
                    await broker.keep_spare(self.caller)
        except Exception:
            log.exception("nothing is made ahead")

    async def _show_page(self, broker: AnyBroker) -> None:
        """Show the page until the broker closes. What goes wrong with it is no reason for calls to fail."""
        from tmuxmcp.faces.http import page_beside

        try:
            with anyio.CancelScope() as scope:
                self._tasks.start_soon(_cancel_at, self._closing, scope)
                await page_beside(broker, self._settings.state_dir)
        except TmuxMcpError as error:
            log.error("the page is not shown: %s", error)
        except Exception:
            log.exception("the page is not shown any more")


async def _cancel_at(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def setup_logging(level: str = "info", form: str = "text") -> None:
    """Send all logs to stderr, as text or as one JSON object a line."""
    handler = StderrHandler()
    if form == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.addLevelName(TRACE_LEVEL, "TRACE")
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


class StderrHandler(logging.Handler):
    """Writes what stderr takes at once, without known secrets, and drops the rest.

    Some clients never read their server's stderr; a full pipe would stop the whole event loop.
    """

    def __init__(self) -> None:
        super().__init__()
        self._redactor = Redactor(ownprocess.environment())
        self._poll = select.poll()
        self._poll.register(2, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        data = memoryview((self._redactor.text(self.format(record)) + "\n").encode(errors="backslashreplace"))
        try:
            while data and self._poll.poll(0):
                data = data[os.write(2, data[: select.PIPE_BUF]) :]
        except OSError:  # nobody is there any more
            pass


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry)
