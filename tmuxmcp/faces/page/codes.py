"""Who may look at the page: codes that are good once, and the tokens they are exchanged for.

Both lie in the state directory by their digests alone. So only who can write there makes a code, the server that is
asked takes it once, and a token outlives a restart of its server. Each counts for one port, as a page in a browser
does.

While no server is there, any program can take its port. So a page has whoever answers prove that it knows the seal
which came with its token, before it sends that again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tmuxmcp.contract.errors import ResourceLimit, Unauthorized
from tmuxmcp.contract.value import value
from tmuxmcp.machine import locks
from tmuxmcp.machine.ownfiles import make_directory, open_file, read_text, write_atomically

CODE_S = 60
"""How long a code is good."""

TOKEN_S = 30 * 86_400
"""How long a token is good that nobody uses."""

NOTED_S = 3600
"""That a token is used is written down at most so often."""

MAX_CODES = 64
"""Codes and tokens, of each so many."""

SECRET = re.compile(r"[A-Za-z0-9_-]{43}\Z")
DIGEST = re.compile(r"[0-9a-f]{64}\Z")

LONGEST_NONCE = 100
FILE_CHARS = 100


@value
class AccessGrant:
    """What a page is given for its code."""

    token: str
    seal: str
    """By which it knows its server again."""


def make_code(state_dir: Path, port: int) -> str:
    """A new code for the server at a port, good once and for `CODE_S`.

    Raises:
        ResourceLimit: too many are open.
        OSError: it cannot be written.
    """
    kept = _SecretDirectory(_directory(state_dir, "codes"), CODE_S)
    if len(kept.names()) >= MAX_CODES:
        raise ResourceLimit("Too many codes are open.", hint=f"Each is good for {CODE_S} s: try again then.")
    return kept.make(port)


def make_address(state_dir: Path, served: ServedPage, session: str = "") -> tuple[str, str]:
    """An address that lets a browser in at a server's page, and the new code in it.

    Raises:
        ResourceLimit, OSError: as of `make_code`.
    """
    code = make_code(state_dir, served.port)
    return f"{served.url}/#code={code}" + (f"&session={session}" if session else ""), code


def is_open(state_dir: Path, code: str) -> bool:
    """Whether nobody has used a code yet, and its time is not up."""
    return _SecretDirectory(_directory(state_dir, "codes"), CODE_S).port_of(code) is not None


class AccessSecrets:
    """The codes and tokens of one server."""

    def __init__(self, state_dir: Path, port: int) -> None:
        self._port = port
        self._codes = _SecretDirectory(_directory(state_dir, "codes"), CODE_S)
        self._tokens = _SecretDirectory(_directory(state_dir, "tokens"), TOKEN_S)

    def enter(self, code: str) -> AccessGrant:
        """Exchange a code for a token.

        Raises:
            Unauthorized: it is none, was used, is too old, or is for another port.
        """
        if self._codes.port_of(code) != self._port or not self._codes.drop(code):
            raise Unauthorized("This code is not good, or not any more.", hint="Make another: tmuxmcp page")
        self._tokens.bound(MAX_CODES - 1)
        seal = secrets.token_urlsafe(32)
        return AccessGrant(self._tokens.make(self._port, seal), seal)

    def prove(self, digest: str, nonce: str) -> str:
        """Show a page that this server has what it was given.

        Args:
            digest: SHA-256 of the page's token, in hexadecimal digits.
            nonce: made by the page for this.

        Raises:
            Unauthorized: there is no such token.
        """
        seal = self._tokens.seal_of(digest) if DIGEST.match(digest) and len(nonce) <= LONGEST_NONCE else ""
        if not seal:
            raise Unauthorized("The page is not open to this.", hint="Open it anew: tmuxmcp page")
        return hmac.new(seal.encode(), nonce.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def knows(self, token: str) -> bool:
        """Whether a token is good here."""
        if self._tokens.port_of(token) != self._port:
            return False
        self._tokens.used(token)
        return True

    def leave(self, token: str) -> None:
        """Make a token worthless."""
        self._tokens.drop(token)


class _SecretDirectory:
    """A directory with a file for each secret: named by its digest, holding its port, as old as its last use."""

    def __init__(self, directory: Path, lifetime_s: float) -> None:
        self._directory, self._lifetime_s = directory, lifetime_s

    def make(self, port: int, seal: str = "") -> str:
        secret = secrets.token_urlsafe(32)
        fd = os.open(self._path(secret), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(f"{port} {seal}\n")
        return secret

    def port_of(self, secret: str) -> int | None:
        """The port that a secret is for; None: it is not good."""
        port = self._read(self._path(secret))[0] if SECRET.match(secret) else ""
        return int(port) if port.isdigit() else None

    def seal_of(self, digest: str) -> str:
        """What came with a secret; empty: it is not good."""
        return self._read(self._directory / digest)[1]

    def _read(self, path: Path) -> tuple[str, str]:
        """The words of a file, as long as it is good."""
        try:
            with os.fdopen(open_file(path)) as file:
                age_s = time.time() - os.fstat(file.fileno()).st_mtime
                port, _, seal = file.read(FILE_CHARS).strip().partition(" ")
        except (OSError, UnicodeDecodeError):
            return "", ""
        return (port, seal) if -1 <= age_s <= self._lifetime_s else ("", "")

    def used(self, secret: str) -> None:
        path = self._path(secret)
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > NOTED_S:
                os.utime(path)

    def drop(self, secret: str) -> bool:
        """Remove a secret; whether this call did: of several at once, one."""
        try:
            self._path(secret).unlink()
        except OSError:
            return False
        return True

    def names(self) -> list[str]:
        """Those that are good, the oldest first; others are removed."""
        found = []
        for entry in os.scandir(self._directory):
            with suppress(OSError):
                made = entry.stat(follow_symlinks=False).st_mtime
                if time.time() - made > self._lifetime_s:
                    os.unlink(entry.path)
                else:
                    found.append((made, entry.name))
        return [name for _, name in sorted(found)]

    def bound(self, most: int) -> None:
        """Keep at most so many: the ones that were not used for the longest time go."""
        names = self.names()
        for name in names[: max(len(names) - most, 0)]:
            with suppress(OSError):
                os.unlink(self._directory / name)

    def _path(self, secret: str) -> Path:
        return self._directory / hashlib.sha256(secret.encode()).hexdigest()


def _directory(state_dir: Path, name: str) -> Path:
    directory = state_dir / "page" / name
    make_directory(directory)
    return directory


# ---- Which servers show the page of a state directory ----------------------------------------------------------------
#
# Each has a file with its address, and holds a lock on it.

FILE_BYTES = 4096


@value
class ServedPage:
    """A page that a server shows."""

    port: int
    url: str
    """`http://HOST:PORT`, as a browser on this machine reaches it."""


@contextmanager
def announced(state_dir: Path, served: ServedPage) -> Iterator[None]:
    """Tell command lines of a page while this is open."""
    path = _servers_directory(state_dir) / str(served.port)
    fd = locks.open_lock(path)
    try:
        locks.take(fd)  # nobody else can have the port, so nobody has this
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps({"url": served.url}).encode(), 0)
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(fd)


def last_port(state_dir: Path) -> int:
    """The port that a server without one of its own had last; 0: none is known."""
    try:
        text = read_text(_servers_directory(state_dir).parent / "port")[:16].strip()
    except (OSError, ValueError):
        return 0
    return int(text) if text.isdigit() and int(text) < 1 << 16 else 0


def keep_port(state_dir: Path, port: int) -> None:
    """Have the next such server take this port, so that pages that are open find it."""
    with suppress(OSError):
        write_atomically(_servers_directory(state_dir).parent / "port", f"{port}\n")


def running(state_dir: Path) -> list[ServedPage]:
    """The pages that are served now, the newest first."""
    found = []
    for path in sorted(_servers_directory(state_dir).iterdir(), key=_modified_s, reverse=True):
        if path.name.isdigit() and (url := _url(path)):
            found.append(ServedPage(int(path.name), url))
    return found


def _url(path: Path) -> str:
    """What a file says, if the server that wrote it is still there."""
    try:
        fd = locks.open_lock(path, make=False)
    except OSError:
        return ""
    try:
        if locks.take(fd, shared=True):
            return ""
        url = json.loads(os.pread(fd, FILE_BYTES, 0))["url"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return ""
    finally:
        os.close(fd)
    return url if isinstance(url, str) else ""


def _modified_s(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _servers_directory(state_dir: Path) -> Path:
    directory = state_dir / "page" / "servers"
    make_directory(directory)
    return directory
