"""Bearer tokens of the HTTP service: who may call, and what they may do. Only digests are kept, and nothing is logged.

A token has a name, which is its client's identity, and scopes. One token a line, in a file or in `TMUXMCP_TOKEN`:

    # name   scopes   token
    agent    write    6f1c...
    grafana  read     92ab...

A line with a single word is a token named `default` that may do every operation. In place of a token its hash may
stand, `sha256:` and 64 digits: who reads that cannot call.

The scope `person` stands alone: such a token opens the page, for a gateway whose own page has let somebody in, and no
operation.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import stat
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tmuxmcp.contract.errors import InvalidArgument, IoError, PermissionDenied
from tmuxmcp.contract.value import field, value
from tmuxmcp.machine.ownfiles import read_written

TOKEN_VARIABLE = "TMUXMCP_TOKEN"
OWN_TOKEN_FILE = "http_token"
"""In the state directory: the token that a service made which this machine alone reaches, and which was given none."""
TOKEN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
PERSON_TOKEN = "person"
IMPLIED_SCOPES = {
    "read": frozenset({"read"}),
    "write": frozenset({"read", "write"}),
    "admin": frozenset({"read", "write", "admin"}),
    PERSON_TOKEN: frozenset({PERSON_TOKEN}),
}
"""What each scope allows: a wider one holds the narrower."""

HASH = "sha256:"
"""How the hash of a token begins."""

HASHED = re.compile(HASH + r"[0-9A-Fa-f]{64}\Z")

SHORT_CHARS = 16
"""Characters below which a token is easily guessed."""


@value
class Token:
    """One token that is accepted."""

    name: str
    scopes: frozenset[str]
    digest: bytes = field(repr=False)
    short: bool = False
    """It has fewer than `SHORT_CHARS` characters."""


class Tokens:
    """All tokens that are accepted."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        names = [token.name for token in tokens]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise InvalidArgument(f"Two tokens are named {twice!r}.", hint="A name is one client's identity.")
        self._tokens = tuple(tokens)

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def find(self, authorization: str | None, *, person: bool = False) -> Token | None:
        """The token in an `Authorization` header; compared with every one, in constant time.

        Args:
            person: one of the scope `person` is wanted, and no other counts; else none of these does.
        """
        given = bearer(authorization)
        if not given:
            return None
        digest = _digest(given)
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest) and (PERSON_TOKEN in token.scopes) == person:
                found = token
        return found


def bearer(authorization: str | None) -> str:
    """The token in an `Authorization` header; empty: there is none."""
    scheme, _, given = (authorization or "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def load_tokens(file: Path | None, variable: str | None) -> Tokens | None:
    """The tokens of a file and of `TMUXMCP_TOKEN`; None when neither gives one.

    Raises:
        InvalidArgument: a line is not understood; it is named by its number, never shown.
        PermissionDenied: others than its owner may read the file.
        IoError: it cannot be read.
    """
    found = [*parse_tokens(_read(file), str(file))] if file else []
    if variable:
        found += parse_tokens(variable, TOKEN_VARIABLE)
    if file and not found:
        raise InvalidArgument(f"{file} holds no token.", hint="A line is a token, or: NAME SCOPES TOKEN.")
    return Tokens(found) if found else None


def parse_tokens(text: str, where: str) -> list[Token]:
    """The tokens in a text, one a line.

    Raises:
        InvalidArgument: a line is not understood.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            found.append(_parse(words, f"{where}, line {number}"))
    return found


def only_token(file: Path) -> str:
    """The one token that a file holds, for who has to send it.

    Raises:
        InvalidArgument: it holds none or several, or a line is not understood.
        PermissionDenied, IoError: as of `load_tokens`.
    """
    text = _read(file)
    found = [line.split()[-1] for line in text.splitlines() if line.strip() and not line.split()[0].startswith("#")]
    if len(parse_tokens(text, str(file))) != 1:
        raise InvalidArgument(
            f"{file} holds {len(found)} tokens, and a client sends one.", hint="Give it a file with its own alone."
        )
    if found[0].startswith(HASH):
        raise InvalidArgument(f"{file} holds the hash of a token.", hint="A client sends the token itself.")
    return found[0]


def _parse(words: list[str], where: str) -> Token:
    hint = (
        "A line is a token, or: NAME SCOPES TOKEN, with scopes out of read, write, admin and commas between, or person."
    )
    name, scopes, token = words if len(words) == 3 else ("default", "admin", words[0])
    given = scopes.split(",")
    known = given == [PERSON_TOKEN] or set(given) <= IMPLIED_SCOPES.keys() - {PERSON_TOKEN}
    if len(words) not in (1, 3) or not TOKEN_NAME.match(name) or not known:
        raise InvalidArgument(f"{where}, is not understood.", hint=hint)
    if not token.isascii() or not token.isprintable():
        raise InvalidArgument(f"{where}: a token is printable ASCII.", hint=hint)
    allowed = frozenset().union(*(IMPLIED_SCOPES[scope] for scope in given))
    if not token.startswith(HASH):
        return Token(name, allowed, _digest(token), short=len(token) < SHORT_CHARS)
    if not HASHED.match(token):
        raise InvalidArgument(f"{where}: the hash of a token is {HASH} and 64 hexadecimal digits.", hint=hint)
    return Token(name, allowed, bytes.fromhex(token.removeprefix(HASH)))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _read(file: Path) -> str:
    """The file's text; the descriptor is looked at that is then read."""
    try:
        return read_written(file, "The token file", partial(_check_owner, file))
    except FileNotFoundError as error:
        raise IoError(f"The token file {file} cannot be read: {error.strerror}.") from error


def _check_owner(file: Path, state: os.stat_result) -> None:
    if state.st_mode & 0o077 or state.st_uid not in (os.getuid(), 0):
        raise PermissionDenied(
            f"Others may read or own the token file {file} (mode {stat.S_IMODE(state.st_mode):o}).",
            hint=f"chmod 600 {file}",
        )


# ---- Addresses to listen on, as people write them --------------------------------------------------------------------

HOST_AND_PORT = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:]+):)?(?P<port>\d{1,5})\Z")


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT` or `PORT`, which is on the loopback address; IPv6 in brackets; port 0: any that is free.

    Raises:
        InvalidArgument: it is neither.
    """
    match = HOST_AND_PORT.match(text)
    if not match or int(match["port"]) > 65535:
        raise InvalidArgument(f"{text!r} is no address to listen on.", hint="Give HOST:PORT, such as 127.0.0.1:7433.")
    return (match["host"] or "127.0.0.1").strip("[]"), int(match["port"])


def is_loopback(address: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
