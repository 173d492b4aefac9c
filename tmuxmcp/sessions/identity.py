"""Who a caller is, across restarts of the broker.

A client's server may be killed and started again: its sessions and read cursors must find it. Two servers of one
client must not share them. So a caller has a key that its restarts share, and claims the first free number under
it; the claim is a lock on a file, which the system lets go of when the process ends, however it ends.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from tmuxmcp.contract.errors import ResourceLimit
from tmuxmcp.machine import locks
from tmuxmcp.machine.ownfiles import make_directory

MOST_CLAIMS = 1000

IDENTITY_FORGOTTEN_S = 30 * 24 * 3600
"""So long after its last claim an identity that nobody holds is forgotten: its sessions are long reaped."""

CLAIM_TRIES = 3
"""Somebody who forgets an identity that is old holds it for microseconds."""

LOOKED_AT_TRIES = 2000
"""Somebody who only looks whether an identity is held does so, too, unless the system stops him just then."""


def claim(state_dir: Path, key: str) -> str:
    """Claim a caller's identity until this process ends.

    Returns:
        The identity: `[a-z0-9-]+`, the same after a restart with the same key.
    """
    directory = state_dir / "callers"
    make_directory(directory)
    _forget(directory)
    digest = hashlib.sha256(os.fsencode(key)).hexdigest()[:16]
    for number in range(MOST_CLAIMS):
        identity = f"{digest}-{number}"
        for tried in range(LOOKED_AT_TRIES):
            if _take(directory / identity):
                return identity
            if tried + 1 >= CLAIM_TRIES and is_alive(state_dir, identity):
                break
            time.sleep(0.001)
    raise ResourceLimit(f"One client runs {MOST_CLAIMS} servers on {state_dir}.", hint="End some.")


def _take(path: Path) -> bool:
    # Kept open on purpose: the lock is the claim.
    fd = locks.open_lock(path)
    with suppress(FileNotFoundError):
        # Not forgotten between these two lines?
        if locks.take(fd) and os.path.samestat(os.fstat(fd), os.stat(path)):
            os.utime(fd)
            return True
    os.close(fd)
    return False


def _forget(directory: Path) -> None:
    """Remove the files of identities that nobody claimed for long."""
    for path in directory.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime < IDENTITY_FORGOTTEN_S:
                continue
            fd = locks.open_lock(path, make=False)
            try:
                if locks.take(fd):
                    path.unlink()
            finally:
                os.close(fd)


def is_alive(state_dir: Path, identity: str) -> bool:
    """Whether some process holds this identity now."""
    try:
        fd = locks.open_lock(state_dir / "callers" / identity, make=False)
    except FileNotFoundError:
        return False
    try:
        return not locks.take(fd, shared=True)  # two who look do not see each other
    finally:
        os.close(fd)
