"""`run_process`: one program without a terminal, its exact arguments, status, output and use of the machine.

A supervisor of its own (`supervisor.py`) starts it and ends it with all its descendants, also when the broker is
killed meanwhile. Here are its pipes, read in the event loop into bounded memory, the clock, and the report.
"""

from __future__ import annotations

import errno
import marshal
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import psutil

from tmuxmcp.contract.call import PROGRESS_EVERY_S, Progress
from tmuxmcp.errors import CwdNotFound, InvalidArgument, IoError, ProgramNotFound, ResourceLimit
from tmuxmcp.host.environment import find_cwd, find_program
from tmuxmcp.host.limits import Rlimit
from tmuxmcp.host.output import PIPE_BYTES, Ends
from tmuxmcp.host.signals import signal_name

SUPERVISOR = Path(__file__).with_name("supervisor.py")

GRACE_S = 2.0
"""Time that a program has between TERM and KILL."""

SLACK_S = 5.0
"""Longer than the supervisor needs for killing; after it, it is itself killed."""

DRAIN_S = 0.2
"""How long the pipes of a program that is gone are read on: somebody outside of its tree may hold them."""

KILL_S = 2.0
"""After so long, we stop killing what a killed supervisor left: a process in the kernel's hands, or another user's."""

KILL_POLL_S = 0.005
"""A killed process needs a moment to end; nobody but its parent is told."""

KILLED = "Something killed the supervisor of this process, so its status is not known; it was ended."


@dataclass(frozen=True)
class Program:
    """What is run: checked, found, complete."""

    executable: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    rlimits: Sequence[Rlimit] = ()


@dataclass(frozen=True)
class Ended:
    """How it went. `rc` or `signal`; neither if it could not be ended."""

    rc: int | None
    signal: str | None
    timed_out: bool
    stdout: Ends
    stderr: Ends
    duration_ms: int
    cpu_ms: int
    max_rss_kb: int
    left: int
    """Processes that it had left running, and that were ended."""
    survivors: list[int]
    """Processes that could not be ended."""


def find(argv: Sequence[str], *, cwd: str, env: Mapping[str, str], rlimits: Sequence[Rlimit] = ()) -> Program:
    """What `argv` means in this directory and environment.

    Raises:
        InvalidArgument, ProgramNotFound, CwdNotFound
    """
    if not argv:
        raise InvalidArgument("argv is empty.", hint="Give the program and its arguments, one string each.")
    if any("\0" in word for word in argv):
        raise InvalidArgument("An argument cannot hold NUL.", hint="Give such data as stdin_base64.")
    try:
        where = find_cwd(cwd)
    except FileNotFoundError:
        raise CwdNotFound("The broker's own directory is gone.", hint="Give an existing directory as cwd.") from None
    return Program(find_program(argv[0], env.get("PATH", ""), where), argv, env, where, rlimits)


async def run(program: Program, *, stdin: bytes, timeout_s: float, max_output_bytes: int, progress: Progress) -> Ended:
    """Run a program until it has ended, at most `timeout_s`; then it and all its descendants are ended.

    Cancelled, they are ended too.

    Args:
        max_output_bytes: most bytes kept of each stream.

    Raises:
        ProgramNotFound, CwdNotFound, ResourceLimit: it could not be started.
        IoError: somebody killed its supervisor.
    """
    out, err = Ends(max_output_bytes), Ends(max_output_bytes)
    async with _supervised(program, bool(stdin)) as child:
        await child.started(program)
        async with anyio.create_task_group() as tg:
            closed = [anyio.Event(), anyio.Event()]
            tg.start_soon(_collect, child.stdout, out, closed[0])
            tg.start_soon(_collect, child.stderr, err, closed[1])
            tg.start_soon(_tell, progress, out, err)
            if stdin:
                tg.start_soon(child.feed, stdin)
            report, timed_out = await child.ended(timeout_s)
            with anyio.move_on_after(DRAIN_S):
                for stream in closed:
                    await stream.wait()
            tg.cancel_scope.cancel()
    if report is None:
        raise IoError(KILLED)
    return _ended(report, timed_out, out, err)


def _ended(report: dict[str, Any], timed_out: bool, out: Ends, err: Ends) -> Ended:
    code = None if report["status"] is None else os.waitstatus_to_exitcode(report["status"])
    return Ended(
        rc=code if code is not None and code >= 0 else None,
        signal=signal_name(-code) if code is not None and code < 0 else None,
        timed_out=timed_out,
        stdout=out,
        stderr=err,
        duration_ms=int(report["duration_s"] * 1000),
        cpu_ms=int(report["cpu_s"] * 1000),
        max_rss_kb=report["max_rss_kb"],
        left=report["left"],
        survivors=report["survivors"],
    )


@asynccontextmanager
async def _supervised(program: Program, has_stdin: bool) -> AsyncIterator[_Child]:
    """A supervisor at work; on leaving, it and all that it started are gone."""
    with ExitStack() as stack:
        work = marshal.dumps(_work(program))
        child = await anyio.to_thread.run_sync(_spawn, stack, has_stdin)
        try:
            await child.send(len(work).to_bytes(8, "big") + work)
            yield child
        finally:
            with anyio.CancelScope(shield=True):
                await child.finish()


def _work(program: Program) -> dict[str, Any]:
    try:
        return {
            "executable": os.fsencode(program.executable),
            "argv": [os.fsencode(word) for word in program.argv],
            "env": {os.fsencode(name): os.fsencode(value) for name, value in program.env.items()},
            "cwd": os.fsencode(program.cwd),
            "rlimits": list(program.rlimits),
            "grace_s": GRACE_S,
        }
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{error.object!r} cannot be given to a program.", hint="Give valid text.") from None


def _spawn(stack: ExitStack, has_stdin: bool) -> _Child:
    """Start a supervisor; the stack closes our ends of its pipes."""
    ours, theirs = socket.socketpair()
    stack.callback(ours.close)
    argv = [sys.executable, "-I", "-S", str(SUPERVISOR), str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            cwd="/",
        )
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stack.callback(stream.close)
            os.set_blocking(stream.fileno(), False)
    ours.setblocking(False)
    assert process.stdout
    assert process.stderr
    return _Child(process, ours, process.stdout.fileno(), process.stderr.fileno())


@dataclass
class _Child:
    """A supervisor, seen from here."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    stdout: int
    stderr: int
    pid: int = 0
    """The program's, once it has started."""
    reported: bool = False
    """The supervisor has nothing more to do."""
    _received: bytearray = field(default_factory=bytearray)

    async def started(self, program: Program) -> None:
        """Wait until the program has started.

        Raises:
            ProgramNotFound, CwdNotFound, ResourceLimit
            IoError: its supervisor is gone.
        """
        pid = await self._told()
        self.pid = pid[0] if pid else 0
        told = await self._told()
        if told is None:
            raise IoError(KILLED)
        if told[0]:
            self.reported = True
            raise _failure(program, *told[0])

    async def ended(self, timeout_s: float) -> tuple[dict[str, Any] | None, bool]:
        """Wait for the report; end the tree when the time is up.

        Returns:
            the report, `None` if the supervisor is gone without one; and whether the time was up.
        """
        told = None
        with anyio.move_on_after(timeout_s) as waiting:
            told = await self._told()
        if waiting.cancelled_caught:
            await self.send(b"E")
            with anyio.move_on_after(GRACE_S + SLACK_S):
                told = await self._told()
        self.reported = told is not None
        return told[0] if told else None, waiting.cancelled_caught

    async def finish(self) -> None:
        """Have the tree ended if it still runs, and reap the supervisor."""
        if not self.reported:
            await self.send(b"E")
            with anyio.move_on_after(GRACE_S + SLACK_S):
                self.reported = await self._told() is not None
        if not self.reported:
            self.process.kill()
            if self.pid:
                await anyio.to_thread.run_sync(_kill_session, self.pid)
        await anyio.to_thread.run_sync(self.process.wait)

    async def feed(self, data: bytes) -> None:
        """Write all of `data` to the program's standard input and close it; it may not want it."""
        assert self.process.stdin
        fd = self.process.stdin.fileno()
        view = memoryview(data)
        with suppress(BrokenPipeError):
            while view:
                await anyio.wait_writable(fd)
                with suppress(BlockingIOError):
                    view = view[os.write(fd, view[:PIPE_BYTES]) :]
        self.process.stdin.close()

    async def send(self, data: bytes) -> None:
        """Write to the supervisor, which may be gone."""
        view = memoryview(data)
        with suppress(BrokenPipeError, ConnectionResetError):
            while view:
                await anyio.wait_writable(self.control)
                with suppress(BlockingIOError):
                    view = view[self.control.send(view) :]

    async def _told(self) -> Any:
        """The supervisor's next message; `None` if it is gone. Cancelled, it loses nothing."""
        while True:
            size = 8 + int.from_bytes(self._received[:8], "big")
            if len(self._received) >= max(size, 9):
                message = marshal.loads(self._received[8:size])
                del self._received[:size]
                return message
            await anyio.wait_readable(self.control)
            try:
                piece = self.control.recv(PIPE_BYTES)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self._received += piece


def _failure(program: Program, code: str, number: int) -> Exception:
    reason = os.strerror(number)
    if code == "CWD_NOT_FOUND":
        hint = "Give a directory that you may enter as cwd."
        return CwdNotFound(f"{program.cwd!r} cannot be entered: {reason}.", hint=hint, cwd=program.cwd)
    if number == errno.E2BIG:
        return ResourceLimit("Arguments and environment are too long for the system.", hint="Give data as stdin.")
    if code == "PROGRAM_NOT_FOUND":
        hint = "A script needs a #! line with an interpreter that exists."
        text = f"{program.executable!r} cannot be executed: {reason}."
        return ProgramNotFound(text, hint=hint, program=program.executable)
    return IoError(f"The process could not be started: {reason}.")


def _kill_session(pid: int) -> None:
    """Kill a program whose supervisor is gone, and its session with all below it; wait until they are gone."""
    deadline = time.monotonic() + KILL_S
    while (left := _session_tree(pid)) and time.monotonic() < deadline:
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(KILL_POLL_S)  # in a worker thread


def _session_tree(leader: int) -> set[psutil.Process]:
    """The living processes of a terminal session and all below them."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == leader:
                found |= {process, *process.children(recursive=True)}
    return {process for process in found if _lives(process)}


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False


async def _collect(fd: int, ends: Ends, closed: anyio.Event) -> None:
    """Read a pipe until its end."""
    while True:
        await anyio.wait_readable(fd)
        try:
            data = os.read(fd, PIPE_BYTES)
        except BlockingIOError:
            continue
        if not data:
            break
        ends.feed(data)
    closed.set()


async def _tell(progress: Progress, out: Ends, err: Ends) -> None:
    """Say every second that it goes on, with the newest line of the stream that grew last."""
    begun, newest, sizes = time.monotonic(), out, (0, 0)
    while True:
        await anyio.sleep(PROGRESS_EVERY_S)
        if err.size != sizes[1]:
            newest = err
        if out.size != sizes[0]:
            newest = out
        sizes = out.size, err.size
        await progress(time.monotonic() - begun, newest.last_line())
