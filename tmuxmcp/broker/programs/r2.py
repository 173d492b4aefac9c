"""radare2 or rizin for callers: few at a time, each with bounds of time and size, in the settings' sandbox."""

from __future__ import annotations

import json
import os
import secrets
import stat
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio

from tmuxmcp.broker.programs import inside
from tmuxmcp.broker.programs.machine import environment
from tmuxmcp.broker.reading import clamp
from tmuxmcp.broker.verbs import Services, Work, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import (
    FileMissing,
    InvalidArgument,
    IoError,
    PathOutsideRoot,
    PermissionDenied,
    ProgramNotFound,
    ResourceLimit,
    SessionBusy,
    SessionNotFound,
    TimedOut,
)
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import value
from tmuxmcp.machine import process
from tmuxmcp.machine.environment import find_program
from tmuxmcp.machine.launch import launch
from tmuxmcp.machine.process import PIPE_BYTES, HeadAndTail
from tmuxmcp.machine.sandbox.sandbox import NO_SANDBOX

MOST_R2 = 4

INSTALL_HINT = "Install radare2 (https://www.radare.org) or rizin (https://rizin.re)."


@value(frozen=False)
class _OpenR2:
    """One that runs."""

    pipe: Pipe
    stack: AsyncExitStack
    """Closed, it is gone with all that it started."""
    busy: bool = False


@verb(q.R2Open, inside=True)
async def r2_open(work: Work[q.R2Open]) -> r.R2OpenResult:
    """Open a file."""
    return await work.broker.part(R2).start(work.request)


@verb(q.R2Cmd, inside=True)
async def r2_cmd(work: Work[q.R2Cmd]) -> r.R2CmdResult:
    """Run a command; its answer as text."""
    answer = await work.broker.part(R2).run_command(work.request)
    text, note = _decoded(answer)
    return r.R2CmdResult(truncated=answer.size > len(answer.data), note=note, text=text, messages=answer.said)


@verb(q.R2Cmdj, inside=True)
async def r2_cmdj(work: Work[q.R2Cmdj]) -> r.R2CmdjResult:
    """Run a command that answers with JSON."""
    answer, most = await work.broker.part(R2).run_command(work.request), work.request.max_bytes
    if answer.size > len(answer.data):
        text = f"The answer has {answer.size:,} bytes; max_bytes is {most:,}."
        raise ResourceLimit(text, hint="Ask for less, or give a larger max_bytes.", limit="max_bytes")
    return r.R2CmdjResult(json=await anyio.to_thread.run_sync(parsed, answer.data), messages=answer.said)


@verb(q.R2Close, inside=True)
async def r2_close(work: Work[q.R2Close]) -> r.R2CloseResult:
    """End one."""
    part, r2_id = work.broker.part(R2), work.request.r2_id
    part.of(r2_id)
    await part.end(r2_id)
    return r.R2CloseResult(closed=True)


class R2:
    """Those that one broker runs; they end with it."""

    def __init__(self, broker: Services) -> None:
        self._settings, self._boundary = broker.settings, broker.boundary
        self._open: dict[str, _OpenR2] = {}
        self._starting = 0
        broker.left_open.push_async_callback(self.close)

    async def close(self) -> None:
        """End all of them."""
        async with anyio.create_task_group() as tasks:
            for r2_id in [*self._open]:
                tasks.start_soon(self.end, r2_id)

    async def start(self, request: q.R2Open) -> r.R2OpenResult:
        """Start one, with a file.

        Raises:
            TmuxMcpError: as the request's docstring has it.
        """
        if any("\0" in word for word in request.args):
            raise InvalidArgument("An argument cannot hold NUL.", hint="Leave it out.")
        if len(self._open) + self._starting >= MOST_R2:
            text = f"{MOST_R2} are open, which is the most: {', '.join(self._open)}."
            raise ResourceLimit(text, hint="End one with r2_close.", limit="r2")
        self._starting, env = self._starting + 1, environment(self._settings)
        try:
            async with AsyncExitStack() as stack:
                box, path = NO_SANDBOX, await anyio.to_thread.run_sync(_file, self._settings, request.path)
                if await anyio.to_thread.run_sync(self._boundary.level) != "none":
                    writable = await anyio.to_thread.run_sync(self._boundary.everywhere)
                    await anyio.to_thread.run_sync(inside.reached, self._boundary, list(writable), request.path, False)
                    box, _ = await stack.enter_async_context(inside.child(self._boundary))
                name, executable = _program(env["PATH"])
                argv = [name, *R2_OPTIONS, *request.args, path]
                program = process.Program(
                    executable, argv, {**env, **box.env}, os.path.dirname(path), box=box, code=str(launch.LAUNCH_ROOM)
                )
                opened = Pipe(await stack.enter_async_context(process.started(program)), name)
                allowed_ms, _ = clamp(self._settings, request.timeout_ms)
                with anyio.move_on_after(allowed_ms / 1000) as waiting:
                    answer = await opened.run("", 0)
                if waiting.cancelled_caught:
                    text = f"{name} was not ready within {allowed_ms} ms; it was ended."
                    raise TimedOut(text, hint="Give fewer args, or a larger timeout_ms.")
                r2_id = f"r2_{secrets.token_hex(4)}"
                self._open[r2_id] = _OpenR2(opened, stack.pop_all())
        finally:
            self._starting -= 1
        return r.R2OpenResult(r2_id=r2_id, program=name, messages=answer.said)

    async def run_command(self, request: q.R2Cmd | q.R2Cmdj) -> R2Answer:
        """The answer to a command; who waits no longer for it has it ended, as it would answer the next one wrongly."""
        check_command(request.command)
        found = self.of(request.r2_id)
        if found.busy:
            raise SessionBusy(f"{request.r2_id} works on another command.", hint="Wait for that call's answer.")
        found.busy, answer, ended = True, None, True
        allowed_ms, _ = clamp(self._settings, request.timeout_ms)
        try:
            with anyio.move_on_after(allowed_ms / 1000):
                answer = await found.pipe.run(request.command, request.max_bytes)
            ended = answer is None
        finally:
            found.busy = False
            if ended:
                with anyio.CancelScope(shield=True):
                    await self.end(request.r2_id)
        if answer is None:
            text = f"{found.pipe.name} did not answer within {allowed_ms} ms; it was ended, {request.r2_id} is gone."
            raise TimedOut(text, hint="Use r2_open again, and a larger timeout_ms or a command that does less.")
        return answer

    def of(self, r2_id: str) -> _OpenR2:
        """The one of an id.

        Raises:
            SessionNotFound
        """
        try:
            return self._open[r2_id]
        except KeyError:
            known = f"Open: {', '.join(self._open)}." if self._open else "None is open."
            raise SessionNotFound(f"There is no r2_id {r2_id!r}. {known}", hint="Use r2_open.") from None

    async def end(self, r2_id: str) -> None:
        """End one, if it is there."""
        if found := self._open.pop(r2_id, None):
            await found.stack.aclose()


def _program(path: str) -> tuple[str, str]:
    """Name and executable of what there is."""
    for name in ECHO_COMMANDS:
        try:
            return name, find_program(name, path, "/")
        except ProgramNotFound:
            continue
    raise ProgramNotFound("There is no radare2 and no rizin in the PATH.", hint=INSTALL_HINT, program="radare2")


def _file(settings: BrokerSettings, path: str) -> str:
    """The real path of a file that may be opened."""
    if not path or "\0" in path:
        raise InvalidArgument("path must be a path.", hint="It is not empty and holds no NUL.")
    root = os.path.realpath(settings.files_root) if settings.files_root else ""
    base = root or os.path.abspath(os.path.expanduser(settings.cwd))
    real = os.path.realpath(os.path.join(base, os.path.expanduser(path)))
    if root and not real.startswith(root.rstrip("/") + "/"):
        raise PathOutsideRoot(f"{path!r} leads out of {root}.", hint="Give a path beneath files_root.", path=path)
    try:
        found = os.stat(real)
    except (FileNotFoundError, NotADirectoryError):
        raise FileMissing(f"There is no {path!r}.", hint="Give the path of a file.", path=path) from None
    except OSError as error:
        raise IoError(f"{path!r} cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(found.st_mode):
        raise InvalidArgument(f"{path!r} is no regular file.", hint="Give a program, a library or another file.")
    if not os.access(real, os.R_OK):
        raise PermissionDenied(f"{path!r} cannot be read.", path=path)
    return real


def _decoded(answer: R2Answer) -> tuple[str, str | None]:
    """The text of an answer, and a remark if it is not all as it came."""
    cut = answer.size > len(answer.data)
    try:
        return answer.data.decode("utf-8"), None
    except UnicodeDecodeError as error:
        text = answer.data.decode("utf-8", "replace")
        if cut and error.reason == "unexpected end of data":
            return answer.data[: error.start].decode("utf-8"), None
        return text, "Bytes that are not UTF-8 are shown as \N{REPLACEMENT CHARACTER}."


# ---- radare2 or rizin behind its pipes: a command in, its answer out -------------------------------------------------
#
# The protocol is that of `radare2 -q0`: a line on standard input; on standard output the answer, and NUL behind it. The
# library r2pipe speaks it, too, but no bounded child process around it would make its answers exact: it takes NUL
# within an answer for its end and gives the rest as the answer to the next command, leaves out bytes that are not
# UTF-8, and splits a path at its blanks. Here each command is followed by one that prints a word that nobody can guess.

ECHO_COMMANDS = {"radare2": "?e", "rizin": "echo"}
"""Names in the order in which they are looked for, and the command of each that prints a word."""

R2_OPTIONS = ("-q0", "-N", "-e", "scr.color=0", "-e", "scr.prompt=false", "-e", "scr.interactive=false")
"""Speak the protocol; read no file of the user's; run no script that lies beside the file (it would ask first)."""

MOST_COMMAND = 4000
"""Bytes of a command: radare2 cuts a line of 4,096."""

R2_SAID_BYTES = 4096
"""Bytes kept of standard error for one command."""

MOST_STALE = 1024 * 1024
"""Bytes of what programs in the background have printed between two commands; they are dropped."""

MAX_JSON_DEPTH = 100
"""Lists and objects within each other."""


@value
class R2Answer:
    """What came of one command."""

    data: bytes
    """The first bytes of it."""
    size: int
    """How many it were."""
    said: str
    """What came on standard error meanwhile, bounded."""


class Pipe:
    """One that runs. Commands go in one at a time; whoever gives up on one has to end it."""

    def __init__(self, child: process.SupervisorChild, name: str) -> None:
        self._child, self._prints, self.name = child, ECHO_COMMANDS[name], name

    async def run(self, command: str, most: int) -> R2Answer:
        """Have one command done; `most` bytes of its answer are kept.

        Raises:
            IoError: it has ended.
        """
        stale, said = HeadAndTail(0), HeadAndTail(R2_SAID_BYTES)
        for fd in (self._child.stdout, self._child.stderr):
            _take(fd, stale if command else said)
        word = secrets.token_hex(16)
        answer: tuple[bytes, int] | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, said)
            tasks.start_soon(self._write, f"{command}\n{self._prints} {word}\n".encode())
            answer = await self._read(f"\0{word}\n\0".encode(), most)
            tasks.cancel_scope.cancel()
        _take(self._child.stderr, said)
        text = (said.text(cut_off=True) or said.pieces(R2_SAID_BYTES)[0].decode(errors="replace")).strip()
        if answer is None:
            raise IoError(f"{self.name} has ended{f': {said.last_line()}' if text else ''}.", hint="Use r2_open again.")
        return R2Answer(*answer, text)

    async def _read(self, end: bytes, most: int) -> tuple[bytes, int] | None:
        """What comes before the end, at most so many bytes of it, and how many it were; None: it has ended."""
        kept, seen, size = bytearray(), b"", 0
        while True:
            await anyio.wait_readable(self._child.stdout)
            try:
                data = os.read(self._child.stdout, PIPE_BYTES)
            except BlockingIOError:
                continue
            if not data:
                return None
            seen += data
            at = seen.find(end)
            sure = at if at >= 0 else max(0, len(seen) - len(end))
            size += sure
            kept += seen[: min(sure, most - len(kept))]
            seen = seen[sure:]
            if at >= 0:
                return bytes(kept), size

    async def _listen(self, said: HeadAndTail) -> None:
        """Read standard error, so that nobody waits for room in it."""
        while True:
            await anyio.wait_readable(self._child.stderr)
            with suppress(BlockingIOError):
                data = os.read(self._child.stderr, PIPE_BYTES)
                if not data:
                    return
                said.feed(data)

    async def _write(self, data: bytes) -> None:
        assert self._child.process.stdin
        fd = self._child.process.stdin.fileno()
        with suppress(BrokenPipeError):
            while data:
                await anyio.wait_writable(fd)
                with suppress(BlockingIOError):
                    data = data[os.write(fd, data) :]


def _take(fd: int, ends: HeadAndTail) -> None:
    """Read what is there at this moment."""
    with suppress(BlockingIOError):
        while ends.size < MOST_STALE and (data := os.read(fd, PIPE_BYTES)):
            ends.feed(data)


def check_command(command: str) -> None:
    """Refuse what would not be one command.

    Raises:
        InvalidArgument
    """
    if not command.strip():
        raise InvalidArgument("command is empty.", hint="? lists the commands of radare2.")
    if any(each in command for each in "\n\r\0"):
        raise InvalidArgument("command holds a line break or NUL.", hint="Give one command a call; ; separates two.")
    size = len(command.encode("utf-8", "surrogateescape"))
    if size > MOST_COMMAND:
        raise InvalidArgument(f"command has {size:,} bytes; {MOST_COMMAND:,} are the most.", hint="Give several calls.")


def parsed(data: bytes) -> Any:
    """An answer as JSON.

    Raises:
        InvalidArgument: it is none, or not such that it can be passed on.
    """
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        begin = data[:200].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}").strip()
        text = f"The answer is not JSON; it begins with {begin!r}." if begin else "The answer is empty, not JSON."
        raise InvalidArgument(text, hint="Commands that answer in JSON end in j; for others use r2_cmd.") from None
    level, depth = [value], 0
    while level := [each for above in level for each in _within(above)]:
        depth += 1
        if depth > MAX_JSON_DEPTH:
            raise _too_deep()
    return value


def _within(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.values()]
    return value if isinstance(value, list) else []


def _no_number(name: str) -> Any:
    raise ValueError(name)


def _too_deep() -> InvalidArgument:
    return InvalidArgument(f"The answer is JSON of more than {MAX_JSON_DEPTH} levels.", hint="Use r2_cmd.")
