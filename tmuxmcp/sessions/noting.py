"""What a call with a `request_id` writes down before it acts, so that asking again with that id does nothing twice.

In this order: what is about to be done goes to the disk, then tmux does it and sets the pane's `@tmuxmcp_request` in
the same command list, then the result goes to the disk. Wherever the broker is killed, tmux or these notes tell how
far it came. A call that has not come to the first of these was refused: it leaves nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import IncompleteCommand, ResourceLimit, SessionBusy, TmuxMcpError
from tmuxmcp.contract.request import Bound, Request
from tmuxmcp.contract.value import asdict
from tmuxmcp.machine import locks
from tmuxmcp.machine.ownfiles import closing, make_directory
from tmuxmcp.record.events import NotedEvent
from tmuxmcp.record.notedcalls import LONGEST_RESULT, CallFile
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import Stamp

log = logging.getLogger(__name__)

OVER_OUTCOMES = ("left", "exited")
"""Outcomes of `run` after which nothing more becomes of its command."""

NOTHING_RAN = (IncompleteCommand, SessionBusy)
"""Errors of `run` that say so, although something was typed."""

LONG_TEXT_FIELD = {"output": "output", "result": "content"}
"""Where the long text of a result stands that is too long to be kept."""


def digest_of(request: Request[Any]) -> str:
    """Of what is to be done: how long it may take, how much is shown and in which session are no part of that."""
    bounds = request.operation.marks(Bound)
    given = {name: value for name, value in request.arguments().items() if name not in bounds or name == "adopt"}
    text = json.dumps([request.operation.name, given], sort_keys=True, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class IdempotentCall:
    """One call with an id, while it is carried out."""

    def __init__(self, file: CallFile, request: Request[Any], request_id: str) -> None:
        """`file`: is held."""
        self._file, self._request, self._id = file, request, request_id
        self._session: Session | None = None
        self._stamp: Stamp | None = None
        self._steps = 0
        self.noted = False
        """It is written down that it is about to act."""
        self.made = False
        """The session that it makes is there."""

    async def types(self, session: Session, offset: int, **facts: Any) -> Stamp:
        """Write down that this is about to be typed; the stamp goes into the step that types it.

        Args:
            offset: size of the log now.

        Raises:
            IoError: it cannot be written down, and is not to be typed.
        """
        before = await panes.stamped(session.tmux, session.live()) or ""
        self._session, self._stamp = session, Stamp(before, self._new_stamp())
        where = {"session_id": session.id, "generation": session.generation, "nonce": session.meta.nonce}
        await self._write(**where, offset=offset, before=before, stamp=self._stamp.after, step=self._steps, **facts)
        return self._stamp

    async def makes(self, session_id: str) -> str:
        """Write down that a session of this name is about to be made; what its pane is to be born with.

        Raises:
            IoError
        """
        stamp = self._new_stamp()
        await self._write(session_id=session_id, stamp=stamp)
        return stamp

    def note_typed(self, session: Session, offset: int) -> None:
        """Note in the session's own events that what was typed there was this call's."""
        assert self._stamp
        session.events.append(NotedEvent(iso(time.time()), offset, self._id, self._stamp.after))

    async def step_done(self, done: r.SendStep) -> None:
        """Write down what came of one of several steps."""
        self._steps += 1
        await _keep(self._file, step=asdict(done))

    async def ended(self, result: r.Result) -> None:
        """Write down what came of it."""
        if self.noted:
            await write_result(self._file, result)

    async def failed(self, error: TmuxMcpError) -> None:
        """Let nothing stay of a call that did nothing before it failed."""
        if not self.noted or await self._did_nothing(error):
            self._file.forget()

    async def _did_nothing(self, error: TmuxMcpError) -> bool:
        if isinstance(self._request, q.CreateSession):
            return not self.made
        if isinstance(self._request, q.Run) and isinstance(error, NOTHING_RAN):
            return True
        if self._steps or self._session is None or self._stamp is None or self._session.pane is None:
            return False
        try:
            return await panes.never_types(self._session.tmux, self._session.pane, self._stamp)
        except TmuxMcpError:
            return False

    def _new_stamp(self) -> str:
        return f"{self._id}-{secrets.token_hex(4)}"

    async def _write(self, **facts: Any) -> None:
        facts |= {"digest": digest_of(self._request), "operation": self._request.operation.name, "at": time.time()}
        await anyio.to_thread.run_sync(partial(self._file.write, acts=facts))
        self.noted = True


async def write_result(file: CallFile, result: r.Result) -> None:
    """Write down what came of a call that has acted, unless more is to become of it."""
    if is_final(result):
        await _keep(file, result=_stored_form(result))


async def _keep(file: CallFile, **line: Any) -> None:
    """Write down what was done: that this fails is no reason to say that it was not done."""
    try:
        await anyio.to_thread.run_sync(partial(file.write, **line))
    except TmuxMcpError as error:
        log.warning("%s", error.message)


def is_final(result: r.Result) -> bool:
    """Whether nothing more becomes of a call; what still runs is looked at again."""
    if not isinstance(result, r.RunResult):
        return True
    refused = result.outcome == "ready" and result.evidence == "marks" and result.command_number is None
    # By exec, if it is not completed: that has no exit code yet.
    replaced = result.outcome == "left" and result.evidence is not None and result.exit_code is None
    return result.completed or (result.outcome in OVER_OUTCOMES and not replaced) or refused


def _stored_form(result: r.Result) -> dict[str, Any]:
    """What is written down of a result: without its text where that is long."""
    values = asdict(result)
    if len(json.dumps(values)) > LONGEST_RESULT:
        for field, inner in LONG_TEXT_FIELD.items():
            if isinstance(values.get(field), dict):
                values[field] = {**values[field], inner: ""}
                values["left_out"] = True
            elif field in values and values[field] is not None:
                values[field] = ""
                values["left_out"] = True
    return values


# ---- Who a caller is, across restarts of the broker ------------------------------------------------------------------
#
# A client's server may be killed and started again: its sessions and read cursors must find it. Two servers of one
# client must not share them. So a caller has a key that its restarts share, and claims the first free number under
# it; the claim is a lock on a file, which the system lets go of when the process ends, however it ends.

MOST_CLAIMS = 1000

IDENTITY_FORGOTTEN_S = 30 * 24 * 3600
"""So long after its last claim an identity that nobody holds is forgotten: its sessions are long reaped."""

CLAIM_TRIES = 3
"""Somebody who forgets an identity that is old holds it for microseconds."""

LOOKED_AT_TRIES = 2000
"""Somebody who only looks whether an identity is held does so, too, unless the system stops him just then."""


def claim_name(state_dir: Path, key: str) -> str:
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
            with closing(locks.open_lock(path, make=False)) as fd:
                if locks.take(fd):
                    path.unlink()


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
