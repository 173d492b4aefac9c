"""Our command line and servers as processes of their own, without the second that their imports take.

One process has imported it all, made what is made at the first use, and forks for each call. What it forks has its own
process id, environment, directory, standard files, terminal and exit status; /proc tells the first process's words and
environment of it. Tests of how something starts, of inherited signals, of memory or of what /proc tells start Python
anew.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import marshal
import os
import pkgutil
import runpy
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).parents[2]
LOCALE = {"LANG": "C.UTF-8"}
READ_AT_START = ("LC_", "LANG", "PYTHON")
"""Variables that begin so are read when Python starts: a call with others of these is no fork."""


def environment() -> dict[str, str]:
    """What a fork may have of our own environment."""
    return {name: os.environ[name] for name in os.environ if not name.startswith(READ_AT_START)} | LOCALE


def can_be(env: Mapping[str, str]) -> bool:
    """Whether a call with this environment may be a fork."""
    read_at_start = {name: env[name] for name in env if name.startswith(READ_AT_START)}
    return read_at_start.items() - {("PYTHONPATH", str(ROOT))} == LOCALE.items()


def run(
    words: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    timeout: float,
    stdin: bytes = b"",
    module: str = "tmuxmcp",
) -> subprocess.CompletedProcess[bytes]:
    """Do what `subprocess.run` of `python -m MODULE WORDS` does, with all output captured.

    Args:
        stdin: what comes from a pipe; where it is empty, nothing is to be read.
    """
    with _given(stdin) as given:
        if can_be(env):
            return _run_fork(words, env, cwd, timeout, given.fileno(), module)
        argv = [sys.executable, "-m", module, *words]
        return subprocess.run(argv, env=env, cwd=cwd, timeout=timeout, stdin=given, capture_output=True, check=False)


def _given(data: bytes) -> BinaryIO:
    if not data:
        return open(os.devnull, "rb")
    assert len(data) <= select.PIPE_BUF * 16, "a pipe holds no more"
    readable, writable = os.pipe()
    os.write(writable, data)
    os.close(writable)
    return open(readable, "rb")


class Fork:
    """A fork that goes on, with what `subprocess.Popen` has."""

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        files: Sequence[int],
        module: str = "tmuxmcp",
        terminal: bool = False,
    ) -> None:
        """Start it.

        Args:
            files: its standard files; the caller closes its own copies.
            module: what it runs, as `python -m` does.
            terminal: whether it leads a session whose terminal they are.
        """
        self._told, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(_origin()[0], [b"."], [*files, theirs.fileno()])
        call = {"module": module, "words": list(words), "env": dict(env), "cwd": str(cwd), "terminal": terminal}
        self._told.sendall(marshal.dumps(call))
        self._told.shutdown(socket.SHUT_WR)
        self.returncode: int | None = None
        self.pid = self._number()

    def _number(self) -> int:
        line = b""
        while not line.endswith(b"\n"):
            line += (byte := self._told.recv(1))
            assert byte, "the process that forks has ended"
        return int(line)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: it goes on.
        """
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(["tmuxmcp"], timeout or 0)
            self.returncode = self._number()
            self._told.close()
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and its status is on its way
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class PipedFork(Fork):
    """A fork whose standard files are pipes, with what `subprocess.Popen` has of them."""

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        module: str = "tmuxmcp",
        stdin: bool = True,
    ) -> None:
        """Start it.

        Args:
            words, env, cwd, module: as for `Fork`.
            stdin: whether it has one; else it reads /dev/null.
        """
        (its_in, to_it), (from_it, its_out), (errors, its_err) = os.pipe(), os.pipe(), os.pipe()
        if not stdin:
            os.close(its_in)
            its_in = os.open(os.devnull, os.O_RDONLY)
        self.stdin = os.fdopen(to_it, "wb")
        self.stdout, self.stderr = os.fdopen(from_it, "rb"), os.fdopen(errors, "rb")
        try:
            super().__init__(words, env, cwd, [its_in, its_out, its_err], module)
        finally:
            for fd in (its_in, its_out, its_err):
                os.close(fd)

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        """Wait for its end; what it wrote and nobody has read yet.

        Raises:
            TimeoutError: it goes on.
        """
        with suppress(BrokenPipeError):
            self.stdin.close()
        with self.stdout, self.stderr:
            out, err = all_of([self.stdout, self.stderr], timeout)
        self.wait()
        return out, err

    def __enter__(self) -> PipedFork:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self.stdout, self.stderr, self.stdin):
            with suppress(BrokenPipeError):  # of what was not read from it
                file.close()
        self.wait()


def _run_fork(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float, stdin: int, module: str
) -> subprocess.CompletedProcess[bytes]:
    (out, its_out), (err, its_err) = os.pipe(), os.pipe()
    with open(out, "rb", 0) as stdout, open(err, "rb", 0) as stderr:
        fork = Fork(words, env, cwd, [stdin, its_out, its_err], module)
        for fd in (its_out, its_err):
            os.close(fd)
        try:
            texts = all_of([stdout, stderr], timeout)
        except TimeoutError as error:
            fork.kill()
            fork.wait()
            raise subprocess.TimeoutExpired(list(words), timeout) from error
        return subprocess.CompletedProcess(list(words), fork.wait(), *texts)


def all_of(files: Sequence, timeout: float) -> list[bytes]:
    """What is read from files until nobody has them open for writing any more.

    Raises:
        TimeoutError: somebody still has.
    """
    deadline = time.monotonic() + timeout
    texts = {file: bytearray() for file in files}
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            if time.monotonic() > deadline:
                raise TimeoutError
            for key, _ in selector.select(deadline - time.monotonic()):
                texts[key.fileobj] += (data := os.read(key.fd, 1 << 20))
                if not data:
                    selector.unregister(key.fileobj)
    return [bytes(text) for text in texts.values()]


CALLER = """\
#!{python} -IS
import _socket, marshal, os, sys

env = dict(os.environ)
read_at_start = {{name: env[name] for name in env if name.startswith({names})}}.items()
read_at_start -= {{{path}, ("LC_CTYPE", "C.UTF-8")}}  # this Python's own, where there is no locale
if read_at_start and read_at_start != {locale}.items():
    os.execv({python!r}, [{python!r}, "-m", {module!r}, *sys.argv[1:]])
caller = _socket.socket(_socket.AF_UNIX)
caller.connect({place!r})
files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
caller.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
words = {{"module": {module!r}, "words": sys.argv[1:], "env": env | {locale}, "cwd": os.getcwd(), "terminal": False}}
caller.sendall(marshal.dumps(words))
caller.shutdown(_socket.SHUT_WR)
told = b""
while piece := caller.recv(100):
    told += piece
status = int(told.split()[1])
os._exit(status if status >= 0 else 128 - status)
"""
"""Imports only what is compiled into Python, as it starts for each call."""


def command(directory: Path, module: str = "tmuxmcp") -> Path:
    """Put a command `tmuxmcp` into a directory, for shells and programs of others to call; each call is a fork.

    Args:
        directory: where it is put.
        module: what it runs, as `python -m` does.

    A signal for the command does not reach the fork. Called with another locale than that of forks, or with variables
    of Python, it is no fork; called with none, it has that of forks.
    """
    path = directory / "tmuxmcp"
    own = {"names": READ_AT_START, "path": ("PYTHONPATH", str(ROOT)), "locale": LOCALE}
    path.write_text(CALLER.format(python=sys.executable, module=module, place=_origin()[1], **own))
    path.chmod(0o700)
    return path


@cache
def _origin() -> tuple[socket.socket, str]:
    """The way to the process that forks, which ends when this one does; and the place where others reach it."""
    ours, theirs = socket.socketpair()
    place = tempfile.mkdtemp(prefix="tm-")
    with theirs, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{place}/forks")
        listening.listen(64)
        fds = [theirs.fileno(), listening.fileno()]
        argv = [sys.executable, "-m", "tests.kit.forks", *map(str, fds)]
        env = LOCALE | {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(argv, env=env, cwd=ROOT, pass_fds=fds, stdin=subprocess.DEVNULL)

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()
        shutil.rmtree(place)

    return ours, f"{place}/forks"


def _make_all_ready() -> None:
    """Import all modules, and make what a process makes when it needs it first: each fork would make it again."""
    import inotify_simple
    from pydantic.dataclasses import rebuild_dataclass

    import tmuxmcp.app
    import tmuxmcp.broker.broker
    import tmuxmcp.broker.programs.machine
    import tmuxmcp.faces.cli
    import tmuxmcp.faces.cli.doctor
    import tmuxmcp.faces.http
    import tmuxmcp.faces.listener
    import tmuxmcp.faces.mcp
    import tmuxmcp.faces.stdio
    import tmuxmcp.sessions.spare
    from tmuxmcp.contract.operations import OPERATIONS

    for name in ("anyio._backends._asyncio", "libtmux", "pydantic._internal._serializers"):
        importlib.import_module(name)
    for module in pkgutil.iter_modules(tmuxmcp.faces.cli.__path__, "tmuxmcp.faces.cli."):
        importlib.import_module(module.name)
    if sys.platform == "linux":
        inotify_simple.INotify().close()  # the first one asks ldconfig for the C library
    for operation in OPERATIONS.values():
        tmuxmcp.faces.mcp.as_tool(operation, "both")
        rebuild_dataclass(operation.request)  # type: ignore[arg-type]  # made by pydantic
        operation.result.adapter()


def _fork_for_calls(control: socket.socket, listening: socket.socket) -> str:
    """Fork for each call; gives the module that is to run in its process, and nothing at the end of all."""
    running: dict[int, socket.socket] = {}
    woken, wakes = os.pipe()
    for fd in (woken, wakes):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    while True:
        ready, _, _ = select.select([control, listening, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends(running)
        for asked in {control, listening}.intersection(ready):
            fds = _files_of(asked)
            if not fds and asked is control:
                return ""
            if len(fds) < 4:  # who asked has gone
                continue
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for fd in (woken, wakes, *(of.detach() for of in (control, *running.values()))):
                    os.close(fd)
                return _become(fds)
            for fd in fds[:3]:
                os.close(fd)
            running[pid] = socket.socket(fileno=fds[3])
            with suppress(BrokenPipeError):  # nobody waits for it any more
                running[pid].sendall(b"%d\n" % pid)


def _files_of(asked: socket.socket) -> list[int]:
    """The standard files of the next call and a socket to its caller; fewer when the caller has gone."""
    if not asked.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return socket.recv_fds(asked, 1, 4)[1]
    caller, _ = asked.accept()
    return [*socket.recv_fds(caller, 1, 3)[1], caller.detach()]


def _tell_ends(running: dict[int, socket.socket]) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with running.pop(pid) as caller, suppress(BrokenPipeError):  # nobody waits for it any more
                caller.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _become(fds: Sequence[int]) -> str:
    """Take over the standard files, the environment, the directory and the words of a call; gives its module."""
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
        os.close(fd)
    with socket.socket(fileno=fds[3]) as caller, caller.makefile("rb") as asked:
        call = marshal.load(asked)
    if call["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(call["env"])
    time.tzset()
    tempfile.tempdir = None
    os.chdir(call["cwd"])
    sys.argv[1:] = call["words"]
    return str(call["module"])


def main() -> None:
    """Make all ready, then fork."""
    _make_all_ready()
    gc.collect()
    gc.freeze()  # as nothing to collect, it stays shared
    if module := _fork_for_calls(*(socket.socket(fileno=int(number)) for number in sys.argv[1:])):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
