"""stdio that a signal can end: the wire between one client and a server.

The SDK's own transport reads stdin on a worker thread, which nothing can cancel: SIGTERM kills the process
before its clean-up, SIGINT waits until the client closes stdin. Here both directions wait in the event loop.
Clients are impatient (SIGINT, SIGTERM after 0.1 s, SIGKILL after 0.49 s), so ending is bounded. What a message
says is the SDK's business: here lines are split, bounded, and refused when they are no messages.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import select
import signal
import stat
import threading
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.abc
import anyio.lowlevel
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import LOOK_BEFORE, Cancelled, Internal, InvalidArgument, ResourceLimit, TmuxMcpError
from tmuxmcp.contract.request import NamesCall, Operation
from tmuxmcp.contract.value import value
from tmuxmcp.faces.text import portable

log = logging.getLogger(__name__)

SERVER_ERROR = -32000
MAX_LINE = 16 * 1024 * 1024
READ_BYTES = 64 * 1024
"""Bytes read at once: what a pipe holds."""
MAX_BACKLOG_BYTES = 8 * 1024 * 1024
"""Bytes of answers that may wait while another is written; then no long answer joins them."""
LONG_LINE_BYTES = 64 * 1024
PAUSE_READING_BYTES = MAX_BACKLOG_BYTES // 2
PAUSE_READING_MESSAGES = 1024
"""Bytes or messages that wait when no more requests are taken in. A message costs 8 KiB besides its bytes: its task."""
CLIENT_LOOK_S = 0.05
"""How often a client that does not read, or said its last word, is looked at."""
FINISH_S = 5.0
"""How long calls may go on when the client has closed its end, and waits for their answers."""
WAITS_S = 0.5
"""The same for calls that only wait for something to happen."""
WIRE_GRACE_S = 0.3
"""Longest time from the end of the wire to the end of the process."""
LONG_LINE_ENDS = 1024
"""Bytes that are kept of each end of a line that is too long: its method and its id stand there."""
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def never(request: JSONRPCRequest) -> bool:
    """No request is one that only waits."""
    return False


async def serve(
    server: Server[Any],
    only_waits: Callable[[JSONRPCRequest], bool] = never,
    answered: RecentAnswers | None = None,
) -> None:
    """Serve the client on descriptors 0 and 1 until it closes or breaks the wire, or a signal comes.

    What was asked before the client closed its end is answered: with its result if it ends soon, else with
    CANCELLED. Only for a process that ends afterwards: signals are ignored from then on, the descriptors are not given
    back, and what has not ended after `WIRE_GRACE_S` ends with the process.

    Args:
        only_waits: whether a request does nothing but wait for something to happen.
        answered: told of each request, and of each that the client cancels, also when it has its answer.
    """
    wire_in, wire_out = claim_wire()
    async with anyio.create_task_group() as tg:
        with anyio.CancelScope() as serving:

            def stop() -> None:
                writer.end()
                serving.cancel()

            asked = OpenCalls(only_waits, answered)
            writer = Writer(wire_out, broken=stop, asked=asked)
            reader = MessageReader(wire_in, refuse=writer.write, ended=writer.finish, full=writer.full, asked=asked)
            await tg.start(_on_signal, stop)
            await server.run(reader, writer, server.create_initialization_options())
        tg.cancel_scope.cancel()
    for number in END_SIGNALS:  # the loop gave back the default action: a second one would kill us in the clean-up
        signal.signal(number, signal.SIG_IGN)
    log.info("ended cleanly")


def claim_wire() -> tuple[int, int]:
    """Move the wire to private descriptors `(in, out)`: what we or a child print must not land in it.

    Descriptor 0 reads EOF from now on, 1 writes to stderr.
    """
    wire_in, wire_out = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without stderr
        os.dup2(null, 1)
    os.close(null)
    return wire_in, wire_out


async def _on_signal(stop: Callable[[], None], *, task_status: anyio.abc.TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(*END_SIGNALS) as signals:
        task_status.started()
        async for _ in signals:
            stop()


class OpenCalls:
    """The requests that have no answer yet."""

    def __init__(
        self,
        only_waits: Callable[[JSONRPCRequest], bool] = never,
        answered: RecentAnswers | None = None,
    ) -> None:
        """As `serve` has them."""
        self._only_waits, self._answered = only_waits, answered or RecentAnswers()
        self._left: list[tuple[RequestId, bool]] = []
        """Requests, and whether each only waits. A client may give a number twice: then it gets two answers."""

    def read(self, message: JSONRPCMessage) -> None:
        """Take in what the client said."""
        if isinstance(message, JSONRPCRequest):
            self._answered.begins(message.id)
            self._left.append((message.id, message.method == "subscriptions/listen" or self._only_waits(message)))
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            number = (message.params or {}).get("requestId")
            if isinstance(number, str | int):  # a client may say anything
                self._done(number)
                self._answered.cancelled(number)

    def written(self, message: JSONRPCMessage) -> None:
        """Take in what it was answered."""
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._answered.greeted.set()
            self._done(message.id)

    def _done(self, number: RequestId) -> None:
        at = next((at for at, (left, _) in enumerate(self._left) if left == number), None)
        if at is not None:
            del self._left[at]

    def unanswered(self, *, waits: bool) -> list[RequestId]:
        """The requests without an answer; without `waits`, those that do something."""
        return [number for number, only_waits in self._left if waits or not only_waits]


_STRING = rb'"(?:[^"\\]|\\.)*"'
_PLAIN_FIELD = rb'"[^"\\]*"\s*:\s*(?:%b|-?\d+|true|false|null)\s*' % _STRING


@value
class LongLine:
    """What is kept of a line that is too long: its first and its last bytes."""

    begin: bytes
    end: bytes

    def value_of(self, name: str) -> Any:
        """A string or an integer of the object in the line; None: it is not seen, as what stands between is long."""
        wanted = rb'"%b"\s*:\s*(%b|-?\d+)\s*' % (name.encode(), _STRING)
        found = re.match(rb"\s*\{\s*(?:%b,\s*)*?%b[,}]" % (_PLAIN_FIELD, wanted), self.begin)
        found = found or re.search(rb"[,{]\s*%b(?:,\s*%b)*\}\s*\Z" % (wanted, _PLAIN_FIELD), self.end)
        return _asked(found[1]) if found else None


class LineSplitter:
    """Bytes in, lines out; of a line that is too long only its ends remain."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max, self._line, self._size = max_line, bytearray(), 0
        self._begin = b""

    def feed(self, data: bytes) -> list[bytes | LongLine]:
        """The lines that `data` completes, without their ends."""
        *ends, rest = data.split(b"\n")
        done: list[bytes | LongLine] = []
        for end in ends:
            self._add(end)
            line = bytes(self._line)
            done.append(line if self._size <= self._max else LongLine(self._begin, line))
            self._line.clear()
            self._size, self._begin = 0, b""
        self._add(rest)
        return done

    def _add(self, part: bytes) -> None:
        self._begin += part[: max(LONG_LINE_ENDS - self._size, 0)]
        self._size += len(part)
        self._line += part
        if self._size > self._max:
            del self._line[:-LONG_LINE_ENDS]


class _End:
    """One direction of the wire, as the SDK's streams are: nothing to let go of, it lives as long as the process."""

    async def aclose(self) -> None:
        """Do nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class MessageReader(_End):
    """Messages from a descriptor, as the SDK's read stream; a pending read can be cancelled."""

    def __init__(
        self,
        fd: int,
        *,
        refuse: Callable[[JSONRPCMessage], Awaitable[None]],
        ended: Callable[[], Awaitable[None]],
        full: Callable[[], bool] = lambda: False,
        asked: OpenCalls | None = None,
    ) -> None:
        """Args:
        ended: awaited at the end of the wire, before the server is told.
        full: whether too many answers wait; while it is true, no request is handed on.
        asked: told of every message.
        """
        self._asked = asked or OpenCalls()
        self._fd, self._refuse, self._ended, self._full = fd, refuse, ended, full
        self._lines, self._ready = LineSplitter(), deque[bytes | LongLine]()
        mode = os.fstat(fd).st_mode
        self._can_wait = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
        """epoll refuses files; they never block anyway."""

    async def receive(self) -> SessionMessage | Exception:
        """The next message; what is none is answered with an error and passed over."""
        while True:
            while not self._ready:
                await self._fill()
            while self._full() and not self._client_closed():
                await anyio.sleep(CLIENT_LOOK_S)
            line = self._ready.popleft()
            message = parse(line)
            if not isinstance(message, ErrorData):
                self._asked.read(message)
                return SessionMessage(message)
            if isinstance(line, LongLine) or line.strip():
                log.warning("refused a line: %s", message.message)
                named = isinstance(line, LongLine) or message.code == INVALID_PARAMS
                number = id_in(line) if named else None
                await self._refuse(JSONRPCError(jsonrpc="2.0", id=number, error=message))

    def _client_closed(self) -> bool:
        """Whether the client has closed its end: then all it said is read on to its end, which ends us."""
        poll = select.poll()
        poll.register(self._fd, 0)
        return bool(poll.poll(0))

    async def _fill(self) -> None:
        if self._can_wait:
            await anyio.wait_readable(self._fd)
        else:
            await anyio.lowlevel.checkpoint()
        data = os.read(self._fd, READ_BYTES)
        if not data:
            await self._ended()
            raise anyio.EndOfStream
        self._ready.extend(self._lines.feed(data))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def parse(line: bytes | LongLine) -> JSONRPCMessage | ErrorData:
    """The message in a line, or what is wrong with it."""
    if isinstance(line, LongLine):
        return ErrorData(code=INVALID_REQUEST, message=f"A message may have {MAX_LINE} bytes")
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_input=False)
        if first["type"] == "json_invalid":
            return _nearly_json(line, first["ctx"]["error"]) or ErrorData(code=PARSE_ERROR, message="Not JSON")
        return ErrorData(code=INVALID_REQUEST, message="Not a JSON-RPC message")
    if isinstance(message, JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
        # The SDK would take it for a notification, which nobody answers.
        return ErrorData(code=INVALID_REQUEST, message="The id of a request is a string or an integer")
    return message


def _asked(text: bytes) -> Any:
    """What only Python's lenient reader understands; None: not even that does."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def id_in(line: bytes | LongLine) -> RequestId | None:
    """The id of a request that is no message; None where none is found that an answer can bear.

    What a client answers has an id, too, but one of ours.
    """
    if isinstance(line, LongLine):
        method, number = line.value_of("method"), line.value_of("id")
    else:
        asked = _asked(line)
        method, number = (asked.get("method"), asked.get("id")) if isinstance(asked, dict) else (None, None)
    is_id = isinstance(number, str | int) and not isinstance(number, bool) and portable(number) == number
    return number if is_id and isinstance(method, str) else None


def _nearly_json(line: bytes, why: str) -> ErrorData | None:
    """What is wrong with a request of which some tool made something that is like JSON.

    Args:
        why: the strict reader's words.
    """
    asked = _asked(line)
    if not isinstance(asked, dict) or "method" not in asked:
        return None
    error = InvalidArgument(f"The request cannot be read: {why}.")
    if "hex escape" in why:
        error = InvalidArgument(
            "The request holds half of a surrogate pair (\\ud800 to \\udfff), which is no text.",
            hint="Send bytes that are no text as data_base64.",
        )
    return _error_data(INVALID_PARAMS, error)


def _line(message: JSONRPCMessage) -> bytes:
    """A message as a line; one that cannot be written becomes an error, and ends nothing."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:
        log.exception("a message cannot be written as JSON")
        number = getattr(message, "id", None)
        error = Internal("The answer cannot be written as JSON.", hint=LOOK_BEFORE)
        return _line(_failure(number if portable(number) == number else None, INTERNAL_ERROR, error))


def _error_data(code: int, error: TmuxMcpError) -> ErrorData:
    return ErrorData(code=code, message=str(error), data=error.as_dict())


def _failure(number: RequestId | None, code: int, error: TmuxMcpError) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=number, error=_error_data(code, error))


class Writer(_End):
    """Messages to a descriptor, as the SDK's write stream; a client that does not read holds up nothing else.

    The descriptor stays in blocking mode, since others may share it. A pipe that polls as writable takes
    PIPE_BUF bytes without blocking, so that is the most that one write gets.
    """

    def __init__(self, fd: int, *, broken: Callable[[], None], asked: OpenCalls | None = None) -> None:
        self._fd, self._broken, self._asked = fd, broken, asked or OpenCalls()
        self._lock = anyio.Lock(fast_acquire=True)
        self._rest = memoryview(b"")
        """What a cancelled sender left of its message: a line once begun must be finished first."""
        self._waiting = self._messages = 0
        """Bytes and number of the messages that wait until another is written."""
        self._ending = False
        self._given_up: set[RequestId | None] = set()
        """Requests that were answered with CANCELLED in the server's place."""
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def full(self) -> bool:
        """Whether so much waits that no more should be asked for."""
        return self._waiting > PAUSE_READING_BYTES or self._messages > PAUSE_READING_MESSAGES

    def end(self) -> None:
        """From now on write only what does not block, and be gone within `WIRE_GRACE_S`."""
        if not self._ending:
            self._ending = True
            last_resort = threading.Timer(WIRE_GRACE_S, os._exit, (0,))
            last_resort.daemon = True
            last_resort.start()

    async def finish(self) -> None:
        """The client has said its last word: answer what it asked, and then be gone as `end` says.

        What is not done in time is CANCELLED, so that nobody takes silence for "not done".
        """
        begun = anyio.current_time()
        with anyio.move_on_after(FINISH_S):
            while self._asked.unanswered(waits=anyio.current_time() - begun < WAITS_S) and not self._gone():
                await anyio.sleep(min(CLIENT_LOOK_S, FINISH_S / 10))
        self.end()
        with anyio.move_on_after(WIRE_GRACE_S / 3), suppress(anyio.BrokenResourceError):
            for number in self._asked.unanswered(waits=True):
                error = Cancelled("The wire was closed before there was an answer.", hint=LOOK_BEFORE)
                await self.write(_failure(number, SERVER_ERROR, error))
                self._given_up.add(number)

    def _gone(self) -> bool:
        """Whether nobody is there any more to read an answer."""
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in self._poll.poll(0))

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message.

        Raises:
            anyio.BrokenResourceError: the client does not take it any more.
        """
        await self.write(item.message)

    async def write(self, message: JSONRPCMessage) -> None:
        """Write one message; see `send`. A long answer that finds too many waiting becomes an error."""
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id in self._given_up:
            return  # answered already
        data = _line(message)
        if self._waiting > MAX_BACKLOG_BYTES and len(data) > LONG_LINE_BYTES and isinstance(message, JSONRPCResponse):
            error = ResourceLimit(
                f"Answers of {self._waiting:,} bytes wait for you to read them; this one was dropped.",
                hint="Read them; what the call did is done, and its output is in the session's log: read since=.",
            )
            data = _line(_failure(message.id, SERVER_ERROR, error))
        self._waiting += len(data)
        self._messages += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= len(data)
            self._messages -= 1
        try:
            await self._drain()
            self._rest = memoryview(data)
            await self._drain()
            self._asked.written(message)
        finally:
            self._lock.release()

    async def _drain(self) -> None:
        while self._rest:
            if not self._poll.poll(0):
                if self._ending:
                    raise anyio.BrokenResourceError
                await anyio.wait_writable(self._fd)
            try:
                written = os.write(self._fd, self._rest[: select.PIPE_BUF])
            except OSError:
                self._rest = memoryview(b"")
                self._broken()
                raise anyio.BrokenResourceError from None
            self._rest = self._rest[written:]


# ---- Answers that a client cancels while they are on the way: it drops them, and was told nothing --------------------

MOST_ANSWERED = 64
"""Calls that are remembered: an answer is on the way for milliseconds."""


class RecentAnswers:
    """The calls of one wire that were answered last, by the numbers of their requests."""

    def __init__(self) -> None:
        self._calls: OrderedDict[RequestId, Call] = OrderedDict()
        self._cancelled: OrderedDict[RequestId, None] = OrderedDict()
        """Cancelled before they had an answer."""
        self.greeted = anyio.Event()
        """Set when the client has its first answer: it waits for nothing then."""

    def begins(self, number: RequestId) -> None:
        """Take note of a new call, whatever had its number before."""
        self._calls.pop(number, None)
        self._cancelled.pop(number, None)

    def add(self, number: RequestId, call: Call) -> None:
        """Take note of a call that has its answer."""
        if number in self._cancelled:
            call.roll_back()
        else:
            self._calls[number] = call
            _bound(self._calls)

    def cancelled(self, number: RequestId) -> None:
        """The client has cancelled a call, and reads no answer to it."""
        call = self._calls.pop(number, None)
        if call:
            call.roll_back()
        else:
            self._cancelled[number] = None
            _bound(self._cancelled)


def _bound(numbers: OrderedDict[RequestId, Any]) -> None:
    if len(numbers) > MOST_ANSWERED:
        numbers.popitem(last=False)


# ---- The `request_id` of a call that came from outside ---------------------------------------------------------------
#
# An argument, or a word in its `_meta` where no schema has it.

REQUEST_META = ("tmuxmcp/request_id", "request_id")
"""Where it stands in `_meta`; the first is ours alone."""


def with_request_id(operation: Operation, arguments: Any, meta: Mapping[str, Any] | None) -> Any:
    """The arguments, with the id that stands beside them if the operation takes one.

    Raises:
        InvalidArgument: it is given twice, and differently.
    """
    if not meta or not isinstance(arguments, Mapping):
        return arguments
    for name in operation.marks(NamesCall):
        given = [meta[key] for key in REQUEST_META if meta.get(key) is not None]
        given += [arguments[name]] if arguments.get(name) else []
        if any(each != given[0] for each in given):
            raise InvalidArgument(
                f"{name} is given more than once, and differently.", hint="Give it as argument or in _meta."
            )
        if given:
            return {**arguments, name: given[0]}
    return arguments
