"""One persistent control-mode client: the hot path to tmux (0.05-0.1 ms a command; a tmux process costs 2-3 ms).

Started with `no-output`, without which a client that stops reading blocks the pane's program, and `ignore-size`.
Control mode is described in tmux(1), CONTROL MODE. This module never decides what to send, only how.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import count

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.contract.value import field, value
from tmuxmcp.contract.words import TRACE_LEVEL
from tmuxmcp.machine.processes import Lifeline

log = logging.getLogger(__name__)

CONTROL_SESSION = "_tmuxmcp"
"""The control client's own tmux session: no session id begins with an underscore."""

_CONTROL_SESSION_BYTES = CONTROL_SESSION.encode()

Locked = Callable[[], AbstractAsyncContextManager[None]]

GOING_S = 0.5
"""Longest wait for a server to notice that its client went."""

READ_BYTES = 1 << 16
"""As much as a pipe holds. For much more room the system would make and unmap pages at each read."""

REPLY_LIMIT = 64 * 1024 * 1024
"""Most bytes of one reply: a 500 x 500 screen with colours is under 10 MiB."""

_AS_FILE_NAMES = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())
"""How os.fsencode() encodes, which looks that up each time: as long as the rest of `quote` takes."""

_BEGIN = re.compile(rb"%begin (\d+ \d+) \d+\Z")
_END = re.compile(rb"%(end|error) (\d+ \d+) \d+\Z")
_NEEDS_ESCAPE = re.compile(rb"[\x00-\x1f\x7f\xff']")
_SPECIAL_IN_DOUBLE = re.compile(rb"[\x00-\x1f\x7f\xff\"$~\\]")
_OCTAL_ESCAPES = {code: f"\\{code:03o}" for code in (*range(1, 32), 127, 255)}


def quote(text: str | bytes) -> bytes:
    """One argument of a tmux command line, exactly as given.

    Inside single quotes tmux takes every byte as it is but the quote; control characters, which would end
    or garble a control-mode line, go into double quotes as octal escapes, and so does 0xff, which tmux takes
    for the end of the file: what comes after it would be read as more commands.

    Raises:
        ValueError: NUL, which no argument can hold.
    """
    data = text.encode(*_AS_FILE_NAMES) if isinstance(text, str) else text
    if not _NEEDS_ESCAPE.search(data):
        return b"'" + data + b"'"
    if not _SPECIAL_IN_DOUBLE.search(data):  # commands within a command: their quotes need no cutting up
        return b'"' + data + b'"'
    if b"\0" in data:
        raise ValueError("a tmux argument cannot hold NUL")
    parts = re.split(rb"([\x01-\x1f\x7f\xff']+)", data)
    quoted = bytearray()
    for index, part in enumerate(parts):
        if index % 2 == 0:
            quoted += b"'" + part + b"'" if part else b""
        else:
            quoted += b'"' + b"".join(b"'" if c == 39 else _OCTAL_ESCAPES[c].encode() for c in part) + b'"'
    return bytes(quoted)


def command(*words: str | bytes) -> bytes:
    """One tmux command, every word quoted."""
    return b" ".join(map(quote, words))


def sequence(*commands: bytes) -> bytes:
    """Several commands that the server runs one after the other with nothing in between; an error stops the rest."""
    return b" ; ".join(commands)


@value(frozen=False)
class Reply:
    """What tmux answered to one request."""

    lines: list[bytes] = field(default_factory=list)
    failed: bool = False

    @property
    def text(self) -> str:
        """All lines as text; undecodable bytes kept as surrogates."""
        return os.fsdecode(b"\n".join(self.lines))


@value(frozen=False)
class _Pending:
    sentinel: bytes
    reply: Reply = field(default_factory=Reply)
    answered: anyio.Event = field(default_factory=anyio.Event)
    lost: bool = False


class BlockParser:
    """Control-mode bytes in, finished `%begin ... %end` blocks out; between them only `%client-*` counts.

    A pane can print a fake `%end`: an end counts only with its begin's time and number. These can be guessed, so
    a line that begins with `sentinel`, which cannot, is a block by itself wherever it comes.
    """

    def __init__(self, sentinel: bytes) -> None:
        self._sentinel = sentinel
        self._rest = b""
        self.clients_changed = False
        """A client has come or gone since this was last set to False."""
        self._open: bytes | None = None
        self._lines: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[tuple[list[bytes], bool]]:
        """Return the blocks that `data` completed: (lines, failed)."""
        done: list[tuple[list[bytes], bool]] = []
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._open is None:
                begin = _BEGIN.match(line)
                if begin:
                    self._open, self._lines, self._size = begin.group(1), [], 0
                self.clients_changed |= line.startswith(b"%client-")
                continue
            if line.startswith(self._sentinel):
                done.append(([line], False))
                self._open = None
                continue
            end = _END.match(line)
            if end and end.group(2) == self._open:
                done.append((self._lines, end.group(1) == b"error"))
                self._open = None
            elif self._size < REPLY_LIMIT:
                self._size += len(line)
                self._lines.append(line)
        return done


class ControlClient:
    """A running `tmux -C` and the requests that wait for its answers, in order."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], locked: Locked) -> None:
        """Args:
        locked: held while the client goes, so that no other comes at the same time.
        """
        self._argv = list(argv)
        self._env = dict(env)
        self._locked = locked
        self._process: subprocess.Popen[bytes] | None = None
        self._memory: int | None = None
        """A file in memory that the client has open as well: the server may look into the client, and not into us."""
        self._memory_turn = anyio.Lock()
        self._lifeline: Lifeline | None = None
        """tmux (3.3a) keeps a client for ever whose answers nobody can read, and `kill-server` waits for it."""
        self._pending: deque[_Pending] = deque()
        self._numbers = count(1)
        self._token = b"tmuxmcp-" + secrets.token_hex(8).encode()
        self._parser = BlockParser(self._token)
        self._out = bytearray()
        self._held_up = anyio.Event()
        self._scope = anyio.CancelScope()
        self.clients_changed: Callable[[], None] = lambda: None
        """Told when a client of the server comes or goes."""
        self.closed = True

    @property
    def name(self) -> str:
        """What tmux calls it: it has no terminal."""
        return f"client-{self._process.pid}" if self._process else ""

    async def start(self, task_group: TaskGroup) -> None:
        """Start tmux and wait for its first answer.

        Raises:
            TmuxFailed: it did not answer; the message holds what it said.
        """
        try:
            if sys.platform == "linux":
                self._memory = os.memfd_create("tmuxmcp-input", os.MFD_CLOEXEC)
            self._lifeline = Lifeline()
            # ASYNC220: fork and exec of tmux take 1-2 ms, and the pipes are read with the event loop.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._env,
                cwd="/",
                start_new_session=True,
                pass_fds=[*self._lifeline.inherited, *([] if self._memory is None else [self._memory])],
            )
            self._lifeline.tie(self._process.pid)
        except BaseException:
            self._close_descriptors()
            raise
        assert self._process.stdin
        assert self._process.stdout
        os.set_blocking(self._process.stdin.fileno(), False)
        os.set_blocking(self._process.stdout.fileno(), False)
        self.closed = False
        task_group.start_soon(self._run)
        try:
            with anyio.fail_after(5):
                # tmux may read our first requests before it has attached us: no command has a target until then.
                while (await self.request(command("display-message", "-p", "#{client_session}"))).lines != [
                    _CONTROL_SESSION_BYTES
                ]:
                    await anyio.sleep(0.001)
        except TimeoutError:
            self.close()
            raise TmuxFailed("The tmux control client was not attached within 5 s.", lost=True) from None
        except TmuxFailed as error:
            self.close()
            raise TmuxFailed(f"The tmux control client did not start: {error.message}", lost=True) from None
        except BaseException:
            self.close()
            raise

    @asynccontextmanager
    async def in_memory(self, data: bytes) -> AsyncIterator[str]:
        """A path from which the server reads `data` meanwhile; it lies on no disk.

        Raises:
            TmuxFailed: the client is gone.
        """
        async with self._memory_turn:
            if self._memory is None or self._process is None:
                raise TmuxFailed("The tmux control client is gone.", lost=True)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.pwrite(self._memory, view, len(data) - len(view)) :]
                yield f"/proc/{self._process.pid}/fd/{self._memory}"
            finally:
                if self._memory is not None:
                    os.ftruncate(self._memory, 0)

    def _close_descriptors(self) -> None:
        if self._memory is not None:
            os.close(self._memory)
        if self._lifeline:
            self._lifeline.close()
        self._memory = self._lifeline = None

    async def request(self, line: bytes, timeout_s: float = 5.0) -> Reply:
        """Have the server run one line; requests may overlap, answers come in order.

        Returns:
            The output of all its commands; `failed` when one of them failed, with its message as last line.

        Raises:
            TmuxFailed: no answer in time, or the client went away (`details["lost"]`); it is unknown then
                whether the commands ran.
        """
        if self.closed:
            raise TmuxFailed("The tmux control client is gone.", lost=True)
        begun = time.monotonic()
        pending = _Pending(b"%s-%d" % (self._token, next(self._numbers)))
        self._pending.append(pending)
        self._out += line + b"\ndisplay-message -p " + pending.sentinel + b"\n"
        if not self._write():
            self._held_up.set()
        self._take_replies()  # tmux has often answered by now: the write has woken it
        if pending.answered.is_set():
            await anyio.lowlevel.checkpoint()  # others may go on, as while an answer is waited for
        else:
            with anyio.move_on_after(timeout_s):
                await pending.answered.wait()
        if not pending.answered.is_set():
            self.close()
            raise TmuxFailed(f"tmux did not answer within {timeout_s:g} s.", hint="Look at it with `tmuxmcp doctor`.")
        if pending.lost:
            raise TmuxFailed("tmux went away before it answered.", lost=True)
        if log.isEnabledFor(TRACE_LEVEL):
            name, lines = line.split(None, 1)[0].strip(b"'").decode(errors="replace"), len(pending.reply.lines)
            log.log(TRACE_LEVEL, "tmux %s: %d lines, %d ms", name, lines, (time.monotonic() - begun) * 1000)
        return pending.reply

    def _write(self) -> bool:
        """Write what the pipe takes; False when something is left."""
        assert self._process
        assert self._process.stdin
        try:
            while self._out and not self.closed:
                written = os.write(self._process.stdin.fileno(), self._out)
                del self._out[:written]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            self.close()
        return True

    async def _run(self) -> None:
        """Read and write until the client is gone."""
        try:
            async with anyio.create_task_group() as task_group:
                self._scope = task_group.cancel_scope
                task_group.start_soon(self._write_on)
                await self._read_replies()
                task_group.cancel_scope.cancel()
        finally:
            self.close()
            with anyio.CancelScope(shield=True):
                async with self._locked():
                    await self._end()

    async def _write_on(self) -> None:
        """Write on when the pipe was full; no request does, as it may be cancelled half-way."""
        assert self._process
        assert self._process.stdin
        while True:
            await self._held_up.wait()
            self._held_up = anyio.Event()
            while not self._write():
                await anyio.wait_writable(self._process.stdin)

    async def _read_replies(self) -> None:
        assert self._process
        assert self._process.stdout
        while not self.closed:
            await anyio.wait_readable(self._process.stdout)
            if not self._take_replies():
                break

    def _take_replies(self) -> bool:
        """Take what tmux has answered; False where it has closed its end."""
        assert self._process
        assert self._process.stdout
        try:
            data = os.read(self._process.stdout.fileno(), READ_BYTES)
        except BlockingIOError:
            return True
        # The block that answers the attach itself is empty: it adds nothing to whichever reply it falls into.
        for lines, failed in self._parser.feed(data):
            if not self._pending:
                break
            pending = self._pending[0]
            if lines == [pending.sentinel]:
                self._pending.popleft()
                pending.answered.set()
            else:
                pending.reply.lines += lines
                pending.reply.failed |= failed
        if self._parser.clients_changed:
            self._parser.clients_changed = False
            self.clients_changed()
        return bool(data)

    def close(self) -> None:
        """End the client; whoever waits is told. Our tmux session stays for the next one."""
        if self.closed:
            return
        self.closed = True
        for pending in self._pending:
            pending.lost = True
            pending.answered.set()
        self._pending.clear()
        self._scope.cancel()

    async def _end(self) -> None:
        """End the process and wait until the server has noticed, which got our pipes from it.

        Killed, not asked: a client that is asked waits for the server, and that may be what hangs.
        """
        assert self._process
        assert self._process.stdout
        self._process.kill()
        self._close_descriptors()
        with anyio.move_on_after(GOING_S), suppress(OSError):
            while True:
                try:
                    if not os.read(self._process.stdout.fileno(), READ_BYTES):
                        break
                except BlockingIOError:
                    await anyio.wait_readable(self._process.stdout)
        while self._process.poll() is None:
            await anyio.sleep(0.002)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with suppress(OSError):
                    stream.close()
