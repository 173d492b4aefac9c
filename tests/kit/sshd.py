"""A real sshd on a port of its own, accounts of the test's own, and an ssh whose configuration is the test's.

OpenSSH takes a person's configuration from the home directory in the user database, whatever HOME says. So the broker's
PATH begins with an `ssh` that is told another file by `-F`; it is the real one in all else.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, an_agent, eventually
from tests.kit.programs import PATH, missing, need

PASSWORD = "hunter2-9c41d7e0b6"
"""Of all accounts; so long that it is found nowhere by chance."""
HASHED = "$6$abc$SQP7eVmDxHgKr/i0mtwqD9kSrInzxdBASZPRtRcsARTG3mi1y2CeBly9ctxog.NK/BMQUd6con.5HPf0gyENl."
"""What crypt(3) makes of the password."""

SHELLS = {"bash": "bash", "zsh": "zsh", "fish": "fish", "dash": "dash"}
"""Accounts at the far end, `far-NAME`, and the shell of each."""


@dataclass
class Box:
    """A machine to go to: this one, by its sshd."""

    directory: Path
    port: int
    as_root: bool
    relays: list[Relay] = field(default_factory=list)

    @property
    def path(self) -> str:
        """A PATH in which ssh is told our configuration."""
        return f"{self.directory}/bin:{PATH}"

    def user(self, shell: str = "bash") -> str:
        """Who logs in with that shell; without root there is nobody else."""
        if not self.as_root:
            if shell != "bash":
                pytest.skip("only root can make accounts")
            return ""
        need(SHELLS[shell])
        return f"far-{shell}@"

    def known(self, *names: str) -> None:
        """Let these be all the machines that are known, each by its key."""
        key = " ".join((self.directory / "host.pub").read_text().split()[:2])
        (self.directory / "known").write_text("".join(f"{name} {key}\n" for name in names))

    def relay(self, delay_s: float) -> Relay:
        """A way to it that takes so long, in each direction."""
        self.relays.append(Relay(self.port, delay_s))
        return self.relays[-1]


class Relay:
    """Passes bytes on, later; can be cut, and can stop to pass anything."""

    def __init__(self, port: int, delay_s: float) -> None:
        self._to, self.delay_s = port, delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self.stopped = threading.Event()
        self._over = False
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *given: socket.socket) -> None:
        self._threads.append(threading.Thread(target=work, args=given, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            for each in (near, far):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [near, far]
            for one, other in ((near, far), (far, near)):
                self._start(self._pass, one, other)

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        waiting: list[tuple[float, bytes]] = []
        with suppress(OSError, ValueError):
            while not self._over:
                left = max(waiting[0][0] - time.monotonic(), 0) if waiting else 1.0
                if select.select([one], [], [], left)[0]:
                    data = one.recv(65536)
                    waiting.append((time.monotonic() + self.delay_s, data))
                while waiting and waiting[0][0] <= time.monotonic():
                    if self.stopped.is_set():
                        waiting[0] = (time.monotonic() + 0.05, waiting[0][1])
                        break
                    _, data = waiting.pop(0)
                    if not data:
                        other.shutdown(socket.SHUT_WR)
                        return
                    other.sendall(data)

    def cut(self) -> None:
        """End every connection that goes through it."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._over = True
        self._listener.shutdown(socket.SHUT_RDWR)  # its thread waits in accept
        self.cut()
        for thread in self._threads:
            thread.join(5 * SLOW)
        for each in (self._listener, *self._sockets):
            each.close()


@contextmanager
def a_box() -> Iterator[Box]:
    """An sshd; afterwards nothing is left of it."""
    need("sshd", "ssh", "ssh-keygen")
    # Its accounts come to their files there: TMPDIR may lie in a directory of ours alone.
    directory = Path(tempfile.mkdtemp(prefix="tm-box-", dir="/tmp" if os.geteuid() == 0 else None))
    directory.chmod(0o755)
    try:
        for name in ("host", "other", "key", "forced_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
        port = free_port()
        before = _accounts(directory)
        box = Box(directory, port, bool(before))
        _write_files(box)
        server = subprocess.Popen(
            [*before, shutil.which("sshd", path=PATH) or "", "-D", "-e", "-f", str(directory / "config")],
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: server.poll() is not None or _listens(port))
            if server.poll() is not None:
                pytest.skip("sshd does not start here")
            yield box
        finally:
            server.terminate()
            server.wait(5 * SLOW)
            for relay in box.relays:
                relay.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _accounts(directory: Path) -> list[str]:
    """Words before sshd by which it sees another /etc, with accounts of ours; none where that cannot be."""
    if os.geteuid() != 0 or missing(("unshare", "mount")):
        return []
    etc = directory / "etc"
    etc.mkdir()
    passwd, shadow = Path("/etc/passwd").read_text(), Path("/etc/shadow").read_text()
    for number, (name, shell) in enumerate(SHELLS.items()):
        home = directory / f"home-{name}"
        home.mkdir()
        path = shutil.which(shell, path=PATH) or "/bin/sh"
        passwd += f"far-{name}:x:{65430 + number}:{65430 + number}::{home}:{path}\n"
        shadow += f"far-{name}:{HASHED}:19000:0:99999:7:::\n"
        (home / ".zshrc").write_text("PS1='%m %~ %# '\n")
        (home / ".hushlogin").touch()
        (home / ".local/share/fish/generated_completions").mkdir(parents=True)  # else it makes them, in the background
        subprocess.run(["chown", "-R", f"{65430 + number}:{65430 + number}", home], check=True)
    (etc / "passwd").write_text(passwd)
    (etc / "shadow").write_text(shadow)
    (etc / "shadow").chmod(0o600)
    mounts = [f"mount --bind {etc}/{name} /etc/{name}" for name in ("passwd", "shadow")]
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", " && ".join([*mounts, 'exec "$@"']), "sh"]
    return [] if subprocess.run([*words, "true"], capture_output=True, check=False).returncode else words


def _write_files(box: Box) -> None:
    directory = box.directory
    forced = directory / "forced"
    forced.write_text(f"#!/bin/sh\necho run >>{directory}/forced.log\nprintf 'menu> '\ncat >>{directory}/forced.log\n")
    forced.chmod(0o755)
    (directory / "forced.log").touch()
    (directory / "forced.log").chmod(0o666)
    key, forced_key = ((directory / f"{name}.pub").read_text() for name in ("key", "forced_key"))
    (directory / "authorized").write_text(f'{key}command="{forced}" {forced_key}')
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    (directory / "config").write_text(
        f"Port {box.port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\n"
        f"AuthorizedKeysFile {directory}/authorized\nStrictModes no\nUsePAM no\nPasswordAuthentication yes\n"
        "PidFile none\nPrintMotd no\nPermitRootLogin yes\nPrintLastLog no\n"
    )
    (directory / "ssh_config").write_text(
        f"Host forced\n  HostKeyAlias box\n  IdentityFile {directory}/forced_key\n"
        "Host asks\n  PubkeyAuthentication no\n"
        "Host *\n"
        f"  HostName 127.0.0.1\n  Port {box.port}\n  IdentityFile {directory}/key\n  IdentitiesOnly yes\n"
        f"  IdentityAgent none\n  UserKnownHostsFile {directory}/known\n  GlobalKnownHostsFile none\n"
        "  CheckHostIP no\n  HostKeyAlias box\n"
    )
    (directory / "bin").mkdir()
    ssh = directory / "bin/ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {directory}/ssh_config "$@"\n')
    ssh.chmod(0o755)
    box.known("box")


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def an_agent_near(box: Box, *arguments: str) -> Iterator[Agent]:
    """An agent whose ssh knows the box; nothing of it is left."""
    with an_agent(*arguments, "bash", PATH=box.path) as agent:
        yield agent


LINUX = sys.platform == "linux"
