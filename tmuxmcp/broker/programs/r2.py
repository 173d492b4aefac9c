"""radare2 or rizin for callers: few at a time, each with bounds of time and size, in the settings' sandbox."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import AsyncExitStack

import anyio

from tmuxmcp.broker.programs import inside
from tmuxmcp.broker.programs import r2pipe as pipe
from tmuxmcp.broker.reading import clamp
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
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.machine import process
from tmuxmcp.machine.environment import find_program
from tmuxmcp.machine.launch import launch
from tmuxmcp.machine.sandbox.sandbox import NO_SANDBOX
from tmuxmcp.sessions.bounds import Boundary

MOST_R2 = 4

INSTALL_HINT = "Install radare2 (https://www.radare.org) or rizin (https://rizin.re)."


@dataclass
class _OpenR2:
    """One that runs."""

    pipe: pipe.Pipe
    stack: AsyncExitStack
    """Closed, it is gone with all that it started."""
    busy: bool = False


class R2:
    """Those that one broker runs; they end with it."""

    def __init__(self, settings: BrokerSettings, boundary: Boundary) -> None:
        self._settings, self._boundary = settings, boundary
        self._open: dict[str, _OpenR2] = {}
        self._starting = 0

    async def act(
        self, request: q.R2Open | q.R2Cmd | q.R2Cmdj | q.R2Close, env: Mapping[str, str]
    ) -> r.R2OpenResult | r.R2CmdResult | r.R2CmdjResult | r.R2CloseResult:
        """Do what a request says.

        Args:
            env: the environment of one that is started.

        Raises:
            TmuxMcpError: as the request's docstring has it.
        """
        match request:
            case q.R2Open():
                return await self._start(request, env)
            case q.R2Cmd():
                answer = await self._run_command(request)
                text, note = _decoded(answer)
                return r.R2CmdResult(
                    truncated=answer.size > len(answer.data), note=note, text=text, messages=answer.said
                )
            case q.R2Cmdj():
                answer = await self._run_command(request)
                if answer.size > len(answer.data):
                    text = f"The answer has {answer.size:,} bytes; max_bytes is {request.max_bytes:,}."
                    raise ResourceLimit(text, hint="Ask for less, or give a larger max_bytes.", limit="max_bytes")
                value = await anyio.to_thread.run_sync(pipe.parsed, answer.data)
                return r.R2CmdjResult(json=value, messages=answer.said)
            case q.R2Close():
                self._open_r2(request.r2_id)
                await self._end(request.r2_id)
                return r.R2CloseResult(closed=True)

    async def close(self) -> None:
        """End all of them."""
        async with anyio.create_task_group() as tasks:
            for r2_id in [*self._open]:
                tasks.start_soon(self._end, r2_id)

    async def _start(self, request: q.R2Open, env: Mapping[str, str]) -> r.R2OpenResult:
        if any("\0" in word for word in request.args):
            raise InvalidArgument("An argument cannot hold NUL.", hint="Leave it out.")
        if len(self._open) + self._starting >= MOST_R2:
            text = f"{MOST_R2} are open, which is the most: {', '.join(self._open)}."
            raise ResourceLimit(text, hint="End one with r2_close.", limit="r2")
        self._starting += 1
        try:
            async with AsyncExitStack() as stack:
                box, path = NO_SANDBOX, await anyio.to_thread.run_sync(_file, self._settings, request.path)
                if await anyio.to_thread.run_sync(self._boundary.level) != "none":
                    writable = await anyio.to_thread.run_sync(self._boundary.everywhere)
                    await anyio.to_thread.run_sync(inside.reached, self._boundary, list(writable), request.path, False)
                    box, _ = await stack.enter_async_context(inside.child(self._boundary))
                name, executable = _program(env["PATH"])
                argv = [name, *pipe.R2_OPTIONS, *request.args, path]
                program = process.Program(
                    executable, argv, {**env, **box.env}, os.path.dirname(path), box=box, code=str(launch.LAUNCH_ROOM)
                )
                opened = pipe.Pipe(await stack.enter_async_context(process.started(program)), name)
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

    async def _run_command(self, request: q.R2Cmd | q.R2Cmdj) -> pipe.R2Answer:
        """The answer to a command; who waits no longer for it has it ended, as it would answer the next one wrongly."""
        pipe.check_command(request.command)
        found = self._open_r2(request.r2_id)
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
                    await self._end(request.r2_id)
        if answer is None:
            text = f"{found.pipe.name} did not answer within {allowed_ms} ms; it was ended, {request.r2_id} is gone."
            raise TimedOut(text, hint="Use r2_open again, and a larger timeout_ms or a command that does less.")
        return answer

    def _open_r2(self, r2_id: str) -> _OpenR2:
        try:
            return self._open[r2_id]
        except KeyError:
            known = f"Open: {', '.join(self._open)}." if self._open else "None is open."
            raise SessionNotFound(f"There is no r2_id {r2_id!r}. {known}", hint="Use r2_open.") from None

    async def _end(self, r2_id: str) -> None:
        if found := self._open.pop(r2_id, None):
            await found.stack.aclose()


def _program(path: str) -> tuple[str, str]:
    """Name and executable of what there is."""
    for name in pipe.ECHO_COMMANDS:
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


def _decoded(answer: pipe.R2Answer) -> tuple[str, str | None]:
    """The text of an answer, and a remark if it is not all as it came."""
    cut = answer.size > len(answer.data)
    try:
        return answer.data.decode("utf-8"), None
    except UnicodeDecodeError as error:
        text = answer.data.decode("utf-8", "replace")
        if cut and error.reason == "unexpected end of data":
            return answer.data[: error.start].decode("utf-8"), None
        return text, "Bytes that are not UTF-8 are shown as \N{REPLACEMENT CHARACTER}."
