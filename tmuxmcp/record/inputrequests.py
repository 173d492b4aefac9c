"""What agents ask a person to type into a session: a file for each request, and one for what became of it.

A request never changes. What became of it is a second file, which only one of those who want to say so can make: the
first. So it survives every broker, and a person who answers twice, in two places, has answered once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal, get_args

from tmuxmcp.contract.errors import IoError, ResourceLimit
from tmuxmcp.contract.value import value
from tmuxmcp.machine import locks
from tmuxmcp.machine.ownfiles import check_directory, make_directory
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.documents import Document

REQUESTS = Document(SessionDirectory.requests, to_disk=True)
"""Both files of each."""

REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{8,64}\Z")

OPEN_REQUESTS = 16
"""Requests of one session that wait for a person at once."""

KEPT_REQUESTS = 64
"""Requests of one session of which it is known what became of them."""

Became = Literal["done", "declined", "timeout", "withdrawn", "exited"]
"""A person did it, or did not want to; the time was up; its agent gave it up; the session ended."""


@value
class InputRequest:
    """What an agent asks."""

    id: str
    message: str
    """The agent's words: shown to a person as text, and put nowhere else."""
    secret: bool
    """A secret is to be typed, which nobody else sees."""
    caller: str
    asked_at: float
    """Seconds since 1970."""
    timeout_s: int
    reader: str = ""
    """Digest of the programs that asked for a secret then; empty: that is not known."""

    @property
    def until(self) -> float:
        """When its time is up, in seconds since 1970."""
        return self.asked_at + self.timeout_s


@value
class RequestAnswer:
    """What became of a request."""

    outcome: Became
    by: str = ""
    """The person's name; empty: no person."""
    via: str = ""
    """`answer`, `attach`, `client` or `page`: where they said so."""
    at: float = 0.0
    """Seconds since 1970."""


class InputRequests:
    """The requests of one session."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._directory = directory
        self._path = directory.requests

    def put(self, request: InputRequest) -> None:
        """Write a new request down, on the disk.

        Raises:
            ResourceLimit: too many wait.
            IoError
        """
        if len(self.open()) >= OPEN_REQUESTS:
            raise ResourceLimit(
                f"{OPEN_REQUESTS} requests of this session wait for a person already.",
                hint="Wait for one of them: give its request_id.",
                limit="requests",
            )
        try:
            if not self._directory.is_there:
                raise FileNotFoundError(f"{self._path.parent} is another session's by now")
            make_directory(self._path)
            self._forget_old()
            REQUESTS.write(self._directory, vars(request), f"{request.id}.json")
        except OSError as error:
            raise IoError(f"The request cannot be written down: {error}.") from error

    def find(self, request_id: str) -> InputRequest | None:
        """A request by its id, whatever became of it; None: there is none."""
        if not REQUEST_ID.match(request_id):
            return None
        values = REQUESTS.read(self._directory, f"{request_id}.json")
        try:
            request = InputRequest(
                str(values["id"]),
                str(values["message"]),
                bool(values["secret"]),
                str(values["caller"]),
                float(values["asked_at"]),
                int(values["timeout_s"]),
                str(values.get("reader", "")),
            )
        except (KeyError, TypeError, ValueError):
            return None
        return request if request.id == request_id else None

    def answer(self, request_id: str) -> RequestAnswer | None:
        """What became of a request; None: it waits."""
        if not REQUESTS.path(self._directory, f"{request_id}.became").exists():
            return None
        values = REQUESTS.read(self._directory, f"{request_id}.became")
        if values.get("outcome") not in get_args(Became):  # of a newer version: it is settled all the same
            return RequestAnswer("withdrawn")
        known = {name: values[name] for name in ("by", "via", "at") if isinstance(values.get(name), str | float | int)}
        return RequestAnswer(values["outcome"], **known)

    def settle(self, request_id: str, answer: RequestAnswer) -> bool:
        """Say what became of a request; False: somebody was first.

        Raises:
            IoError
        """
        try:
            REQUESTS.write(self._directory, vars(answer), f"{request_id}.became", new=True)
        except FileExistsError:
            return False
        except OSError as error:
            raise IoError(f"What became of the request cannot be written down: {error}.") from error
        return True

    @contextmanager
    def hold_alone(self, request_id: str) -> Iterator[bool]:
        """Hold a request while it is answered; yields False when somebody else does, or it is forgotten."""
        try:
            fd = locks.open_lock(self._path / f"{request_id}.json", make=False)
        except OSError:
            yield False
            return
        try:
            yield locks.take(fd)
        finally:
            os.close(fd)

    def open(self) -> list[InputRequest]:
        """The requests that nobody has settled, the first that was asked first; also those whose time is up."""
        try:
            names = os.listdir(self._path)
            check_directory(self._path)
        except OSError:
            return []
        settled = {name.removesuffix(".became") for name in names if name.endswith(".became")}
        ids = [name[:-5] for name in names if name.endswith(".json") and name[:-5] not in settled]
        found = [request for each in ids if (request := self.find(each))]
        return sorted(found, key=lambda each: (each.asked_at, each.id))

    def _forget_old(self) -> None:
        """Remove the oldest of those that are settled."""
        settled = sorted(self._path.glob("*.became"), key=lambda path: path.stat().st_mtime)
        for path in settled[: max(len(settled) - KEPT_REQUESTS + 1, 0)]:
            with suppress(OSError):
                path.with_suffix(".json").unlink(missing_ok=True)  # first: without it, nothing is asked again
                path.unlink(missing_ok=True)
