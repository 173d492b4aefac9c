"""The tmux server behind our socket: find the binary, start it, talk to it, find it again when it was lost.

Started through libtmux in an environment of its own, with our `tmux.conf`; the user's `~/.tmux.conf` and TMUX
variables have no influence. Everything after the start goes through the control client. Each broker asks at its start
who has the socket: that is one process of tmux without libtmux, whose import takes longer than all else of the start.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from tmuxmcp.contract.errors import InvalidArgument, IoError, PermissionDenied, TmuxFailed, TmuxUnavailable
from tmuxmcp.machine import locks
from tmuxmcp.machine.ownfiles import make_directory, read_text, write_atomically
from tmuxmcp.tmux.control import CONTROL_SESSION, ControlClient, Reply, command, sequence

if TYPE_CHECKING:
    import libtmux

log = logging.getLogger(__name__)

OLDEST_TMUX = (3, 2)
SOCKET_PATH_LIMIT = 107
"""Bytes in `sun_path` less the final NUL (unix(7))."""

CONNECT_LOCK_S = 15.0
"""Longest wait for another broker that connects; longer than the start of a server may take."""

SOCKET_S = 5.0
"""How long a server that lives may take to make its socket again."""

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/homebrew/bin"
TMUX_ROOM = Path(__file__).parent


def config_file() -> Path:
    """Our `tmux.conf`: beside this file in an installed package, at the top of a checkout."""
    shipped = TMUX_ROOM / "tmux.conf"
    return shipped if shipped.exists() else TMUX_ROOM.parent.parent / "tmux.conf"


def find_tmux() -> tuple[str, str]:
    """The tmux to use: its absolute path and its version.

    Raises:
        TmuxUnavailable: there is none, or it is older than 3.2.
    """
    path = shutil.which("tmux") or shutil.which("tmux", path=SEARCH_PATH)
    how = "Install tmux 3.2 or newer: `apt install tmux`, `dnf install tmux` or `brew install tmux`."
    if path is None:
        raise TmuxUnavailable("tmux is not installed.", hint=how)
    path = os.path.abspath(path)
    try:
        said = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=5, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TmuxUnavailable(f"{path} cannot be run: {error}.", hint=how) from None
    version = said.removeprefix("tmux ").strip()
    number = re.search(r"(\d+)\.(\d+)", version)
    if number and (int(number[1]), int(number[2])) < OLDEST_TMUX:
        raise TmuxUnavailable(f"{path} is tmux {version}, which is too old.", hint=how)
    return path, version


def check_private_directory(path: Path) -> None:
    """Make `path` if it is missing; refuse it unless it is ours alone.

    Whoever can write there can put a socket in our place, and the socket is full control of every session.

    Raises:
        PermissionDenied: it is a link, another user's, or open to others.
    """
    try:
        make_directory(path, links=True)
        info = path.lstat()
        if not (stat.S_ISDIR(info.st_mode) or stat.S_ISLNK(info.st_mode)):
            raise FileExistsError
    except FileExistsError:
        raise PermissionDenied(f"{path} is not a directory.", hint="Set state_dir to another path.") from None
    except OSError as error:
        raise PermissionDenied(
            f"The state directory {path} cannot be made: {error.strerror}.",
            hint="Set state_dir (TMUXMCP_STATE_DIR) to a directory that you may write.",
        ) from None
    if stat.S_ISLNK(info.st_mode):
        raise PermissionDenied(f"{path} is a symbolic link.", hint="Set state_dir to where it points.")
    if info.st_uid != os.geteuid():
        raise PermissionDenied(f"{path} belongs to another user.", hint="Set state_dir to a directory of your own.")
    if info.st_mode & 0o077:
        raise PermissionDenied(f"{path} is open to other users.", hint=f"Run `chmod 700 {shlex.quote(str(path))}`.")


def pipe_command(*argv: str) -> str:
    """A shell command for `pipe-pane`, which expands strftime and formats in it."""
    return shlex.join(argv).replace("%", "%%").replace("#", "##")


def _unblocking() -> str:
    """Words before a command that runs without the signals that this thread blocks, if it blocks any.

    tmux and all that it starts inherit them, and without SIGCHLD nobody is told that a program ended. Unblocked here,
    a signal could end the host program, which waits for it elsewhere.
    """
    if not signal.pthread_sigmask(signal.SIG_BLOCK, []):
        return ""
    code = "import _signal, os, sys; _signal.pthread_sigmask(_signal.SIG_SETMASK, [])"
    code += "; [_signal.signal(n, _signal.SIG_DFL) for n in (_signal.SIGPIPE, _signal.SIGXFSZ)]"  # Python ignores them
    return shlex.join([sys.executable, "-I", "-S", "-c", f"{code}; os.execvp(sys.argv[1], sys.argv[1:])"]) + " "


class Tmux:
    """Our tmux server. One object a broker; several brokers share one server."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.socket = state_dir / "tmux.sock"
        self.lock = state_dir / "tmux.lock"
        """Held shared by who makes or ends a tmux session, and alone by who connects."""
        self.binary = ""
        self.version = ""
        self._pid = 0
        """The server's process id, as it says itself."""
        self._client: ControlClient | None = None
        self._connecting = anyio.Lock()
        self._task_group: TaskGroup | None = None
        self._client_news = anyio.Event()

    @property
    def client_name(self) -> str:
        """What tmux calls our connection to it; empty without one."""
        return self._client.name if self._client else ""

    def client_news(self) -> anyio.Event:
        """What is set when a client of the server next comes or goes; also a new connection of our own."""
        return self._client_news

    def _clients_changed(self) -> None:
        self._client_news.set()
        self._client_news = anyio.Event()

    @property
    def pid(self) -> int:
        """The server's process id, as it said itself; 0 before it was asked."""
        return self._pid

    def check(self) -> None:
        """Make sure that there is a tmux, and a safe place for its socket.

        Raises:
            TmuxUnavailable, PermissionDenied, InvalidArgument
        """
        if len(os.fsencode(self.socket)) > SOCKET_PATH_LIMIT:
            raise InvalidArgument(
                f"The socket path {self.socket} is longer than {SOCKET_PATH_LIMIT} bytes.",
                hint="Set state_dir (TMUXMCP_STATE_DIR) to a shorter path.",
            )
        check_private_directory(self.state_dir)
        self.binary, self.version = find_tmux()

    async def open(self, task_group: TaskGroup) -> None:
        """Connect; start the server if there is none. Clients run in `task_group`."""
        self._task_group = task_group
        await anyio.to_thread.run_sync(self.check)
        await self._connect()

    def close(self) -> None:
        """Let go of the server, which lives on."""
        if self._client:
            self._client.close()

    # ---- requests ------------------------------------------------------------------------------

    async def request(self, *commands: bytes, timeout_s: float = 5.0) -> Reply:
        """Run `commands` one after the other with nothing in between.

        Raises:
            TmuxFailed: no answer. A request lost on the way is not repeated: it may have been carried out.
        """
        client = await self._connect()
        return await client.request(sequence(*commands), timeout_s)

    async def query(self, *commands: bytes, timeout_s: float = 5.0) -> Reply:
        """As `request`, for commands that change nothing: asked again when the client was lost."""
        try:
            return await self.request(*commands, timeout_s=timeout_s)
        except TmuxFailed as error:
            if not error.details.get("lost"):
                raise
        return await self.request(*commands, timeout_s=timeout_s)

    async def checked(self, *commands: bytes, timeout_s: float = 5.0) -> Reply:
        """As `request`; a command that failed is an error.

        Raises:
            TmuxFailed: with what tmux said.
        """
        reply = await self.request(*commands, timeout_s=timeout_s)
        if reply.failed:
            raise TmuxFailed(f"tmux refused: {reply.lines[-1].decode('utf-8', 'replace') if reply.lines else '?'}.")
        return reply

    async def counts_otherwise(self) -> bool:
        """Whether somebody has set the options of tmux 3.6 and later that change the columns of characters."""
        asked = "#{?codepoint-widths,set,#{variation-selector-always-wide}}"
        reply = await self.query(command("display-message", "-p", asked))
        return reply.lines[:1] in ([b"set"], [b"0"])

    @asynccontextmanager
    async def readable(self, data: bytes) -> AsyncIterator[str]:
        """A path from which the server reads `data` meanwhile; it lies on no disk where memory files exist.

        Raises:
            TmuxFailed: there is no connection.
        """
        if sys.platform == "linux":
            client = await self._connect()
            async with client.in_memory(data) as path:
                yield path
            return
        with tempfile.NamedTemporaryFile(dir=self.state_dir, prefix="input") as file:
            file.write(data)
            file.flush()
            yield file.name

    # ---- connecting ----------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """What the server and its clients see of ours: nothing that could be a secret."""
        return {
            "PATH": os.environ.get("PATH") or SEARCH_PATH,
            "HOME": str(self.state_dir),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TERM": "tmux-256color",
            "SHELL": "/bin/sh",
        }

    def _client_argv(self) -> list[str]:
        attach = ["new-session", "-A", "-s", CONTROL_SESSION, "-f", "no-output,ignore-size", "-x", "80", "-y", "24"]
        idle = ["sleep", "2147483647"]
        return [self.binary, "-N", "-u", "-S", str(self.socket), "-C", *attach, *idle]

    async def _connect(self) -> ControlClient:
        if self._client and not self._client.closed:
            return self._client
        async with self._connecting:
            if self._client and not self._client.closed:
                return self._client
            assert self._task_group, "open() comes first"
            async with self._locked():
                await self._revive_or_start()
                going = partial(self._locked, patience_s=1.0, without=OSError)
                client = ControlClient(self._client_argv(), self.environment(), going)
                client.clients_changed = self._clients_changed
                await client.start(self._task_group)
            try:
                await self._check_ours(client)
            except BaseException:
                client.close()
                raise
            self._client = client
            self._clients_changed()
            return client

    async def _check_ours(self, client: ControlClient) -> None:
        ours = command("show-options", "-gqv", "@tmuxmcp_server")
        reply = await client.request(sequence(command("display-message", "-p", "#{pid}"), ours))
        self._pid = int(reply.lines[0]) if len(reply.lines) == 2 else 0
        if not self._pid:
            raise self._foreign()

    def _foreign(self) -> TmuxFailed:
        return TmuxFailed(
            f"Another tmux server, not ours, has the socket {self.socket}.",
            hint=f"End it with `tmux -S {shlex.quote(str(self.socket))} kill-server`, or set another state_dir.",
        )

    def nudge(self) -> None:
        """Have the server look for ended children, as it does at every SIGCHLD."""
        if self._pid:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, signal.SIGCHLD)

    def run(self, *args: str, timeout_s: float = 5.0) -> subprocess.CompletedProcess[str]:
        """Run one tmux process; for what must work without the control client.

        Its return code is 0 whatever happened where the host program ignores SIGCHLD, or waits for all children
        itself: judge by what it printed.

        Raises:
            TmuxFailed: it did not end in time.
        """
        try:
            return subprocess.run(
                [self.binary, "-N", "-u", "-S", str(self.socket), *args],
                capture_output=True,
                text=True,
                errors="surrogateescape",
                env=self.environment(),
                timeout=timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise TmuxFailed(
                f"tmux did not answer `{args[0]}` within {timeout_s:g} s.",
                hint="It may have run out of file descriptors: destroy a session.",
            ) from None

    def alive(self) -> bool:
        """Whether our server answers on the socket, and says that it is ours.

        Raises:
            TmuxUnavailable: one does, but another version of tmux runs it.
        """
        if not self.socket.exists():
            return False
        done = self.run("show-options", "-gqv", "@tmuxmcp_server")
        if "protocol version mismatch" in done.stderr or "open terminal failed" in done.stderr:
            raise TmuxUnavailable(
                f"The server on {self.socket} was started by another version of tmux than {self.binary} "
                f"({self.version}).",
                hint="Put that tmux first on PATH, or end its sessions with it.",
            )
        return bool(done.stdout)

    def answers(self) -> bool:
        """Whether any server of this tmux answers on the socket; each has global options."""
        return self.socket.exists() and bool(self.run("show-options", "-g").stdout)

    @asynccontextmanager
    async def undisturbed(self) -> AsyncIterator[None]:
        """While this is open, no broker connects: for commands that make or end sessions.

        tmux up to 3.7 crashes when a session begins or ends, or a client goes, just while a control client says
        hello: it tells the news to all control clients, also to one that cannot take any yet.
        """
        await self._connect()
        async with self._locked(shared=True):
            yield

    @asynccontextmanager
    async def _locked(
        self, *, shared: bool = False, patience_s: float = CONNECT_LOCK_S, without: type[OSError] = FileNotFoundError
    ) -> AsyncIterator[None]:
        """Agree with other brokers; when the time is up, or the state directory was removed, go on without."""
        async with AsyncExitStack() as stack:
            with suppress(without):
                await stack.enter_async_context(locks.lock_within(self.lock, patience_s=patience_s, shared=shared))
            yield

    async def _revive_or_start(self) -> None:
        if await anyio.to_thread.run_sync(self.alive):
            return
        if await anyio.to_thread.run_sync(self.answers):
            raise self._foreign()
        if await self._recreate_socket():
            return
        await anyio.to_thread.run_sync(self._start)

    async def _recreate_socket(self) -> bool:
        """A deleted socket comes back with SIGUSR1 to its server.

        Raises:
            TmuxFailed: the server lives, and its socket does not come back. Another would not know the sessions.
        """
        pid = self.running_pid()
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
            with anyio.move_on_after(SOCKET_S):
                while not await anyio.to_thread.run_sync(self.alive):
                    if self.running_pid() != pid:
                        return False
                    await anyio.sleep(0.02)
                log.warning("the socket %s was deleted; its server made it again", self.socket)
                return True
        if self.running_pid() != pid:
            return False
        raise TmuxFailed(
            f"The socket {self.socket} was deleted, and its tmux server (process {pid}) does not make it again.",
            hint="It may be stopped or busy: try again. If you end it, its sessions are lost.",
        )

    def running_pid(self) -> int | None:
        """The process id of the last server that was started here, if it still is that server."""
        import psutil

        try:
            pid = int(read_text(self.state_dir / "tmux.pid"))
            words = psutil.Process(pid).cmdline()
            if pid > 1 and (str(self.socket) in words or f"-S{self.socket}" in words):  # libtmux writes the latter
                return pid
        except (OSError, ValueError, psutil.Error):
            pass
        return None

    def library(self, *, starts: bool = False) -> libtmux.Server:
        """Our server as libtmux's object: on our socket, by our tmux and in our environment.

        libtmux gives its processes the environment of whoever calls it, so it runs a script of ours in tmux's place.

        Args:
            starts: a command may start the server. If not, none does: one that libtmux starts would not be ours.
        """
        import libtmux

        wrapper = self.state_dir / ("tmux" if starts else "libtmux")
        variables = shlex.join(f"{name}={value}" for name, value in self.environment().items())
        words = f'env -i {variables} {shlex.quote(self.binary)} {"-u" if starts else "-N -u"} "$@"'
        script = f"#!/bin/sh\ncd / && umask 077 && exec {_unblocking()}{words}\n"
        write_atomically(wrapper, script, mode=0o700)
        return libtmux.Server(socket_path=self.socket, config_file=str(config_file()), tmux_bin=wrapper)

    def _start(self) -> None:
        if not self.state_dir.is_dir():
            raise IoError(
                f"The state directory {self.state_dir} was removed, and its tmux server has ended.",
                hint="Start tmuxmcp anew.",
            )
        if self.socket.exists() and not stat.S_ISSOCK(self.socket.lstat().st_mode):
            raise PermissionDenied(f"{self.socket} is not a socket.", hint="Remove it, or set another state_dir.")
        mark = ["set-option", "-g", "@tmuxmcp_server", "1"]
        done = self.library(starts=True).cmd("start-server", ";", *mark, ";", "display-message", "-p", "#{pid}")
        if not done.stdout:
            raise TmuxFailed(f"The tmux server did not start: {' '.join(done.stderr) or 'no reason given'}.")
        write_atomically(self.state_dir / "tmux.pid", done.stdout[0])
        log.info("started tmux %s on %s", self.version, self.socket)
