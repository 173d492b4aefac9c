"""The fleet's secret: a file that all its machines have. Doors want it with each call, Ray with each connection.

Over HTTP it does not travel itself: what a gateway sends is good together with that machine's token alone.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tmuxmcp.contract.errors import InvalidArgument, IoError, PermissionDenied
from tmuxmcp.machine.ownfiles import make_directory, read_written, write_once

MIN_SECRET_CHARS = 32
"""Characters of a secret."""


def read(file: Path) -> str:
    """The secret.

    Raises:
        IoError: there is no such file, or it cannot be read.
        PermissionDenied: others than its owner may read it.
        InvalidArgument: it is no regular file, not UTF-8, or too short.
    """
    try:
        found = read_written(file, "The fleet's secret", partial(_check_owner, file)).strip()
    except FileNotFoundError:
        hint = "`tmuxmcp fleet up` makes it on the first machine; copy it to the others, mode 600."
        raise IoError(f"There is no secret of the fleet in {file}.", hint=hint) from None
    if len(found) < MIN_SECRET_CHARS:
        raise InvalidArgument(
            f"The secret in {file} has fewer than {MIN_SECRET_CHARS} characters.", hint="Remove the file."
        )
    return found


def _check_owner(file: Path, state: os.stat_result) -> None:
    if state.st_mode & 0o077 or state.st_uid not in (os.getuid(), 0):
        raise PermissionDenied(f"Others may read or own {file}.", hint=f"chmod 600 {file}")


def read_secret(file: Path) -> str:
    """The secret; empty where there is no such file.

    Raises:
        IoError, PermissionDenied, InvalidArgument: as `read`.
    """
    return read(file) if file.exists() else ""


def proof(secret: str, token: str) -> str:
    """What shows that somebody who sends a token knows the secret, too."""
    return hmac.new(secret.encode(), b"tmuxmcp fleet 1\n" + token.encode(), hashlib.sha256).hexdigest()


def proves(said: str, secret: str, token: str) -> bool:
    """Whether this shows it."""
    return hmac.compare_digest(said.encode(), proof(secret, token).encode())


def make(file: Path) -> str:
    """The secret, made where there is none yet.

    Raises:
        IoError, PermissionDenied, InvalidArgument: as `read`.
    """
    make_directory(file.parent, links=True)
    write_once(file, secrets.token_hex(32) + "\n")
    return read(file)


def environment(variables: Mapping[str, str], file: os.PathLike[str]) -> dict[str, str]:
    """Variables with which Ray asks for the fleet's secret and shows it, unless they say how Ray authenticates."""
    if any(name.startswith("RAY_AUTH_") for name in variables):
        return dict(variables)
    return {**variables, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": os.fspath(file)}
