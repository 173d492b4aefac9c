"""`run_process`: one program without a terminal, its exact arguments, status, output and use of the machine.

A supervisor of its own (`supervisor.py`) starts it and ends it with all its descendants, also when the broker is
killed meanwhile. Here are its pipes, read in the event loop into bounded memory, the clock, and the report.

In a sandbox the program is confined before it begins. In bubblewrap's, its supervisor is within as well, so that the
status is the program's own and not what bwrap makes of it; what it tells is believed of the program alone.
"""

from __future__ import annotations

import base64
import codecs
import errno
import fcntl
import marshal
import os
import socket
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import anyio
import psutil

from tmuxmcp.contract.call import PROGRESS_EVERY_S, Progress, begin
from tmuxmcp.contract.errors import CwdNotFound, InvalidArgument, IoError, ProgramNotFound, ResourceLimit, Unsupported
from tmuxmcp.contract.value import field, value
from tmuxmcp.machine.cgroup import Rlimit
from tmuxmcp.machine.environment import find_cwd, find_program
from tmuxmcp.machine.sandbox.sandbox import NO_SANDBOX, Sandbox
from tmuxmcp.machine.signals import signal_name

SUPERVISOR_PATH = Path(__file__).with_name("supervisor.py")

TERM_GRACE_S = 2.0
"""Time that a program has between TERM and KILL."""

SUPERVISOR_SLACK_S = 5.0
"""Longer than the supervisor needs for killing; after it, it is itself killed."""

PIPES_DRAIN_S = 0.2
"""How long the pipes of a program that is gone are read on: somebody outside of its tree may hold them."""

SUPERVISOR_KILL_S = 2.0
"""After so long, we stop killing what a killed supervisor left: a process in the kernel's hands, or another user's."""

KILL_POLL_S = 0.005
"""A killed process needs a moment to end; nobody but its parent is told."""

SUPERVISOR_LINE_BYTES = 64 * 1024
"""Bytes that a supervisor may tell at once."""

AHEAD_S = 60.0
"""How long a supervisor waits for work."""

SUPERVISOR_KILLED = "Something killed the supervisor of this process, so its status is not known; it was ended."


@value
class Program:
    """What is run: checked, found, complete."""

    executable: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    rlimits: Sequence[Rlimit] = ()
    box: Sandbox = NO_SANDBOX
    code: str = ""
    """In a sandbox: the directory in which `confine.py` lies."""


@value
class ProcessEnd:
    """How it went. `rc` or `signal`; neither if it could not be ended."""

    rc: int | None
    signal: str | None
    timed_out: bool
    stdout: HeadAndTail
    stderr: HeadAndTail
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
    where = find_cwd(cwd)
    return Program(find_program(argv[0], env.get("PATH", ""), where), argv, env, where, rlimits)


class PrestartedSupervisor:
    """A supervisor that was started ahead of its work, as the one before got its own: a start takes 10 ms."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._child: SupervisorChild | None = None
        self._since_s = 0.0
        self._starts = self._expires = self._closed = False

    def take(self, stack: ExitStack) -> SupervisorChild | None:
        """The supervisor, if one waits; `stack` closes our ends of its pipes."""
        child, self._child = self._child, None
        if child is None or child.process.poll() is not None:
            self._stack.close()
            return None
        stack.push(self._stack.pop_all())
        return child

    async def get(self) -> None:
        """Start one if none waits, and end it when it has waited for too long."""
        if self._child is None and not self._starts:
            with anyio.CancelScope(shield=True):
                await self._start()
        if self._expires:
            return
        self._expires = True
        try:
            while self._child and (left_s := self._since_s + AHEAD_S - time.monotonic()) > 0:
                await anyio.sleep(left_s)
        finally:
            self._expires = False
        await self._end()

    async def _start(self) -> None:
        self._starts = True
        # Without descriptors, memory or threads there is none: the next call is told what it lacks itself.
        with suppress(OSError, RuntimeError), ExitStack() as stack:
            self._child = await anyio.to_thread.run_sync(_spawn, stack, True, NO_SANDBOX)
            self._stack, self._since_s = stack.pop_all(), time.monotonic()
        self._starts = False
        if self._closed:
            await self._end()

    async def _end(self) -> None:
        child, self._child = self._child, None
        self._stack.close()
        if child:
            await anyio.to_thread.run_sync(child.process.wait)

    async def close(self) -> None:
        """End the one that waits; none comes any more."""
        self._closed = True
        await self._end()


async def run(
    program: Program,
    *,
    stdin: bytes,
    timeout_s: float,
    max_output_bytes: int,
    progress: Progress,
    ahead: PrestartedSupervisor | None = None,
) -> ProcessEnd:
    """Run a program until it has ended, at most `timeout_s`; then it and all its descendants are ended.

    Cancelled, they are ended too.

    Args:
        max_output_bytes: most bytes kept of each stream.
        ahead: has a supervisor for a program in no sandbox, and gets the next one meanwhile.

    Raises:
        ProgramNotFound, CwdNotFound, ResourceLimit: it could not be started.
        Unsupported: its sandbox could not be made.
        IoError: somebody killed its supervisor.
    """
    out, err = HeadAndTail(max_output_bytes), HeadAndTail(max_output_bytes)
    begin()
    async with supervised(program, bool(stdin), ahead) as child:
        await child.started(program)
        async with anyio.create_task_group() as tg:
            closed = [anyio.Event(), anyio.Event()]
            tg.start_soon(_collect, child.stdout, out, closed[0])
            tg.start_soon(_collect, child.stderr, err, closed[1])
            tg.start_soon(_tell, progress, out, err)
            if stdin:
                tg.start_soon(child.feed, stdin)
            report, timed_out = await child.wait_for_report(timeout_s)
            with anyio.move_on_after(PIPES_DRAIN_S):
                for stream in closed:
                    await stream.wait()
            tg.cancel_scope.cancel()
        for fd, ends in ((child.stdout, out), (child.stderr, err)):
            _take_rest(fd, ends)
    try:
        return _end_of_report(report, timed_out, out, err)
    except (ValueError, OverflowError):
        raise IoError(SUPERVISOR_KILLED) from None


def _end_of_report(report: list[str], timed_out: bool, out: HeadAndTail, err: HeadAndTail) -> ProcessEnd:
    """The report as a value.

    Raises:
        ValueError, OverflowError: it is none.
    """
    word, status, duration_s, cpu_s, max_rss_kb, left, *survivors = report
    if word != "ended":
        raise ValueError(word)
    code = None if status == "-1" else os.waitstatus_to_exitcode(int(status))
    return ProcessEnd(
        rc=code if code is not None and code >= 0 else None,
        signal=signal_name(-code) if code is not None and code < 0 else None,
        timed_out=timed_out,
        stdout=out,
        stderr=err,
        duration_ms=int(float(duration_s) * 1000),
        cpu_ms=int(float(cpu_s) * 1000),
        max_rss_kb=int(max_rss_kb),
        left=int(left),
        survivors=[int(pid) for pid in survivors],
    )


@asynccontextmanager
async def started(program: Program) -> AsyncIterator[SupervisorChild]:
    """A program that is talked to through its pipes; on leaving, it and all its descendants are gone.

    Raises:
        As `run`.
    """
    async with supervised(program, True) as child:
        await child.started(program)
        yield child


@asynccontextmanager
async def supervised(
    program: Program, has_stdin: bool, ahead: PrestartedSupervisor | None = None
) -> AsyncIterator[SupervisorChild]:
    """A supervisor at work; on leaving, it and all that it started are gone."""
    with ExitStack() as stack:
        waiting = ahead.take(stack) if ahead and program.box.level == "none" else None
        work = marshal.dumps(_work(program) | {"null": bool(waiting and not has_stdin)})
        if waiting:
            child = waiting
            if child.process.stdin and not has_stdin:
                child.process.stdin.close()
        elif program.box.wrapper:
            # By --die-with-parent bwrap ends with the thread that started it, and threads for work end when idle.
            child = _spawn(stack, has_stdin, program.box)
        else:
            child = await anyio.to_thread.run_sync(_spawn, stack, has_stdin, program.box)
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
            "confine": program.box.confine,
            "within": bool(program.box.wrapper),
            "code": program.code,
            "grace_s": TERM_GRACE_S,
        }
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{error.object!r} cannot be given to a program.", hint="Give valid text.") from None


def _spawn(stack: ExitStack, has_stdin: bool, box: Sandbox) -> SupervisorChild:
    """Start a supervisor; the stack closes our ends of its pipes."""
    ours, theirs = socket.socketpair()
    stack.callback(ours.close)
    argv = [*box.wrapper, sys.executable, "-I", "-S", str(SUPERVISOR_PATH), str(theirs.fileno())]
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
            env=None if box.level == "none" else {},  # what is confined may read it
        )
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stack.callback(stream.close)
            os.set_blocking(stream.fileno(), False)
    ours.setblocking(False)
    assert process.stdout
    assert process.stderr
    return SupervisorChild(process, ours, process.stdout.fileno(), process.stderr.fileno(), bool(box.wrapper))


@value(frozen=False)
class SupervisorChild:
    """A supervisor, seen from here."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    stdout: int
    stderr: int
    wrapped: bool = False
    """It is within: bwrap ends with it, and all processes with bwrap."""
    pid: int = 0
    """The program's, once it has started; 0 within, where it is another one."""
    reported: bool = False
    """The supervisor has nothing more to do."""
    _received: bytearray = field(default_factory=bytearray)

    async def started(self, program: Program) -> None:
        """Wait until the program has started.

        Raises:
            ProgramNotFound, CwdNotFound, ResourceLimit, Unsupported
            IoError: its supervisor is gone.
        """
        told = await self._next_words()
        if told[:1] == ["pid"]:
            with suppress(ValueError):
                self.pid = 0 if self.wrapped else int(told[1])
            told = await self._next_words()
        if told[:1] == ["failed"]:
            self.reported = True
            raise _failure(program, *told[1:])
        if told != ["runs"]:
            raise self._not_begun()

    def _not_begun(self) -> Exception:
        """Why a supervisor that is gone has started nothing."""
        said = b""
        with suppress(OSError):
            said = os.read(self.stderr, PIPE_BYTES) if self.wrapped else b""
        if not said:
            return IoError(SUPERVISOR_KILLED)
        text = said.decode(errors="replace").strip()[-500:]
        return Unsupported(f"The sandbox could not be made: {text}.", hint="`tmuxmcp doctor` says what can be had.")

    async def interrupt(self) -> None:
        """Send the program SIGINT, and what runs in its process group, as Ctrl-C in a terminal does."""
        await self.send(b"I")

    async def wait_for_report(self, timeout_s: float) -> tuple[list[str], bool]:
        """Wait for the report; end the tree when the time is up.

        Returns:
            the report, empty if the supervisor is gone without one; and whether the time was up.
        """
        told: list[str] = []
        with anyio.move_on_after(timeout_s) as waiting:
            told = await self._next_words()
        if waiting.cancelled_caught:
            await self.send(b"E")
            with anyio.move_on_after(TERM_GRACE_S + SUPERVISOR_SLACK_S):
                told = await self._next_words()
        self.reported = bool(told)
        return told, waiting.cancelled_caught

    async def finish(self) -> None:
        """Have the tree ended if it still runs, and reap the supervisor."""
        if not self.reported:
            await self.send(b"E")
            with anyio.move_on_after(TERM_GRACE_S + SUPERVISOR_SLACK_S):
                self.reported = bool(await self._next_words())
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

    async def _next_words(self) -> list[str]:
        """The words of the supervisor's next line; none if it is gone. Cancelled, it loses nothing."""
        while b"\n" not in self._received:
            await anyio.wait_readable(self.control)
            try:
                piece = self.control.recv(PIPE_BYTES)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                return []
            if not piece or len(self._received) > SUPERVISOR_LINE_BYTES:
                return []
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        return line.decode(errors="replace").split(" ")


def _failure(program: Program, code: str = "", number: str = "0", *words: str) -> Exception:
    if code == "UNSUPPORTED":
        return Unsupported(f"The sandbox could not be made: {' '.join(words)}.", hint="Try again with another cwd.")
    error = int(number) if number.isdecimal() else errno.EINVAL
    reason = os.strerror(error)
    if code == "CWD_NOT_FOUND":
        hint = "Give a directory that you may enter as cwd."
        return CwdNotFound(f"{program.cwd!r} cannot be entered: {reason}.", hint=hint, cwd=program.cwd)
    if error == errno.E2BIG:
        return ResourceLimit("Arguments and environment are too long for the system.", hint="Give data as stdin.")
    if code == "PROGRAM_NOT_FOUND":
        hint = "A script needs a #! line with an interpreter that exists."
        if program.box.level != "none":
            hint += " In the sandbox, what lies in /tmp or the state directory is not to be seen, but for the cwd."
        text = f"{program.executable!r} cannot be executed: {reason}."
        return ProgramNotFound(text, hint=hint, program=program.executable)
    return IoError(f"The process could not be started: {reason}.")


def _kill_session(pid: int) -> None:
    """Kill a program whose supervisor is gone, and its session with all below it; wait until they are gone."""
    deadline = time.monotonic() + SUPERVISOR_KILL_S
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


async def _collect(fd: int, ends: HeadAndTail, closed: anyio.Event) -> None:
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


def _take_rest(fd: int, ends: HeadAndTail) -> None:
    """Read what a pipe holds at this moment: we may have been stopped while it was to be read."""
    left = int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
    while left > 0 and (data := os.read(fd, left)):
        ends.feed(data)
        left -= len(data)


async def _tell(progress: Progress, out: HeadAndTail, err: HeadAndTail) -> None:
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


# ---- The first and the last bytes of a stream in bounded memory, and as what JSON can carry. Pure --------------------

PIPE_BYTES = 64 * 1024
"""Bytes read at once: what a pipe holds (pipe(7))."""

Encoding = Literal["utf-8", "base64"]

MARKER_ROOM = 48
"""Bytes of the line that stands for what was left out."""

LAST_LINE_BYTES = 4096
"""Bytes from the end in which the last line is looked for."""


@value(frozen=False)
class HeadAndTail:
    """Keeps the head and the tail of what it is fed: all of it up to `most` bytes."""

    most: int
    size: int = 0
    """Bytes fed in all."""
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """Take more of the stream."""
        self.size += len(data)
        self._head += data[: self.most - len(self._head)]
        self._tail += data
        del self._tail[: -max(self.most // 2, LAST_LINE_BYTES)]

    @property
    def truncated(self) -> bool:
        """Whether something has to be left out."""
        return self.size > self.most

    def pieces(self, room: int) -> tuple[bytes, bytes]:
        """Head and tail, together `room` bytes; the whole as head if nothing has to be left out."""
        if not self.truncated:
            return bytes(self._head), b""
        first = (room + 1) // 2
        return bytes(self._head[:first]), bytes(self._tail[len(self._tail) - (room - first) :])

    def last_line(self) -> str:
        """The newest line that says something, shortened."""
        lines = bytes(self._tail[-LAST_LINE_BYTES:]).decode(errors="replace").split("\n")
        return next((line.strip()[-200:] for line in reversed(lines) if line.strip()), "")

    def text(self, *, cut_off: bool = False) -> str | None:
        """The stream as text; `None` if it is not UTF-8.

        Args:
            cut_off: its writer was ended, perhaps in the middle of a character, which is then left out.
        """
        if not self.truncated:
            return decode(bytes(self._head), partial=cut_off)
        marked = self.most >= 2 * MARKER_ROOM
        head, tail = self.pieces(self.most - MARKER_ROOM if marked else self.most)
        start = 0
        while start < min(3, len(tail)) and tail[start] & 0xC0 == 0x80:  # the rest of a character
            start += 1
        first, last = decode(head, partial=True), decode(tail[start:], partial=cut_off)
        if first is None or last is None:
            return None
        omitted = self.size - len(first.encode()) - len(last.encode())
        return first + (f"\n[... {omitted:,} bytes left out ...]\n" if marked else "") + last

    def base64(self) -> str:
        """The stream's head and tail, one after the other; in each as many bytes as in the other, or one more."""
        return base64.b64encode(b"".join(self.pieces(self.most))).decode()


def carry(streams: list[HeadAndTail], *, cut_off: bool = False) -> tuple[Encoding, list[str]]:
    """Streams as text if all of them are UTF-8, else all of them as base64."""
    texts = [stream.text(cut_off=cut_off) for stream in streams]
    if all(text is not None for text in texts):
        return "utf-8", [text or "" for text in texts]
    return "base64", [stream.base64() for stream in streams]


def decode(data: bytes, *, partial: bool) -> str | None:
    """Bytes as text, `None` if they are not UTF-8; `partial`: a character that lacks its end is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not partial)
    except UnicodeDecodeError:
        return None
