"""`request_ids/CLIENT/ID`: calls that carry an id of their client's, so that asking again does nothing twice.

A file for each call, of JSON lines that are appended and synced: what is about to be typed or made, and what came of
it. Who has it locked carries the call out; the system lets go of the lock when that process ends, however it ends. A
call that was refused before it did anything leaves no file.

Of those that are done the newest are kept whole. What is older is kept in `.done`, a line each, which says no more than
that it was done: nothing is done again while its id is kept.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tmuxmcp.contract.errors import IoError, ResourceLimit
from tmuxmcp.contract.value import field, value
from tmuxmcp.machine import locks
from tmuxmcp.machine.ownfiles import closing, make_directory, open_file, read_bytes
from tmuxmcp.record.documents import as_line, values_in

NOTED_CALL_ID = re.compile(r"[A-Za-z0-9_-]{8,64}\Z")

PERSON_DIRECTORY = "person"
"""The directory of calls that come with no token: of whoever owns the state directory."""

MOST_WHOLE = 2048
"""Calls of one client that are kept with their results."""

SHORTENED_AT_ONCE = 64
"""Files that are open for that."""

LONGEST_RESULT = 128 * 1024
"""Bytes of a result that is kept; of a longer one the text is left out, which the log has."""

MOST_DONE_BYTES = 64 * 1024 * 1024
"""Bytes of each of the two files of those that are done: half a million calls."""

TIDY_S = 600
"""So often those whose time is up are removed."""

DONE, DONE_BEFORE = ".done", ".done.1"


@value
class NotedCall:
    """What is written down of one call."""

    digest: str
    """Of the operation and its arguments."""
    acts: Mapping[str, Any] = field(default_factory=dict)
    """What was about to be typed or made, last."""
    steps: tuple[Mapping[str, Any], ...] = ()
    """What came of the steps before that."""
    result: Mapping[str, Any] | None = None
    """What came of all of it; None: that is not written down."""
    done_at: str = ""
    """When it was done, of one whose result is no longer kept; else empty."""


class CallFile:
    """The file of one call. Closing it lets go of the lock."""

    def __init__(self, place: Path, request_id: str) -> None:
        self._place, self._id = place, request_id
        self._path = place / request_id
        self._fd: int | None = None

    def take(self) -> bool:
        """Lock it, and make it if there is none; whether nobody else has it.

        Raises:
            IoError
        """
        with _errors_as_ours():
            make_directory(self._place)
            fd = open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        with suppress(FileNotFoundError):
            # Not removed between these two lines?
            if locks.take(fd) and os.path.samestat(os.fstat(fd), os.stat(self._path)):
                self._fd = fd
                return True
        os.close(fd)
        return False

    def read(self) -> NotedCall | None:
        """What is written down; None: nothing is, as it has done nothing so far.

        Raises:
            IoError
        """
        with _errors_as_ours():
            found = _parse(_lines(self._path))
        return found or _find_done(self._place, self._id)

    def write(self, **line: Any) -> None:
        """Append a line, on the disk.

        Raises:
            IoError
        """
        assert self._fd is not None, "who writes holds it"
        with _errors_as_ours():
            if os.fstat(self._fd).st_size == 0:
                _sync_directory(self._place)
            _append(self._fd, line)

    def keep(self) -> None:
        """Have its time begin anew: somebody asked for it."""
        with suppress(OSError):
            os.utime(self._path)

    def clear(self) -> None:
        """Remove what is written down: nothing was done, and is about to be done anew."""
        assert self._fd is not None, "who clears holds it"
        with _errors_as_ours():
            os.ftruncate(self._fd, 0)
            os.fsync(self._fd)

    def forget(self) -> None:
        """Remove it: nothing was done."""
        assert self._fd is not None, "who forgets holds it"
        with suppress(OSError):
            os.unlink(self._path)

    def close(self) -> None:
        """Let go of it; an empty one is removed."""
        if self._fd is None:
            return
        with suppress(OSError):
            if os.fstat(self._fd).st_size == 0:
                os.unlink(self._path)
        os.close(self._fd)
        self._fd = None


class NotedCalls:
    """All calls with an id of one state directory."""

    def __init__(self, state_dir: Path, days: float) -> None:
        self._path, self._kept_s = state_dir / "request_ids", days * 24 * 3600
        self._tidied = 0.0

    def file(self, client: str, request_id: str) -> CallFile:
        """The file of a call.

        Args:
            client: the name of the token that it came with; empty: it came with none.
        """
        assert NOTED_CALL_ID.match(request_id), "checked before"
        return CallFile(self._directory_of(client), request_id)

    def _directory_of(self, client: str) -> Path:
        return self._path / (f"token-{client}" if client else PERSON_DIRECTORY)

    def tidy(self) -> None:
        """Now and then: remove what was kept for long enough, and shorten what is done.

        Raises:
            ResourceLimit: too many are kept.
        """
        now = time.monotonic()
        if self._tidied and now - self._tidied < TIDY_S:
            return
        self._tidied = now
        for place in _directories(self._path):
            with suppress(OSError), locks.if_free(place / ".lock") as free:
                if free:
                    self._tidy(place)

    def _tidy(self, place: Path) -> None:
        old = time.time() - self._kept_s
        whole = []
        for entry in os.scandir(place):
            if entry.name.startswith("."):
                continue
            with suppress(OSError):
                written = entry.stat().st_mtime
                if written < old:
                    _remove(Path(entry.path))
                else:
                    whole.append((written, entry.path))
        with suppress(OSError):
            if os.stat(place / DONE_BEFORE).st_mtime < old:
                os.unlink(place / DONE_BEFORE)
        older = [Path(path) for _, path in sorted(whole)[: max(len(whole) - MOST_WHOLE, 0)]]
        for at in range(0, len(older), SHORTENED_AT_ONCE):
            with suppress(OSError):
                _shorten(place, older[at : at + SHORTENED_AT_ONCE])
        self._turn_over(place, old)

    def _turn_over(self, place: Path, old: float) -> None:
        """Put the file of those that are done behind the other, once all in that one were kept for long enough.

        Raises:
            ResourceLimit
        """
        try:
            size, began = os.stat(place / DONE).st_size, _first_at(place / DONE)
        except OSError:
            return
        before = place / DONE_BEFORE
        if began < old or (size > MOST_DONE_BYTES and not before.exists()):
            os.replace(place / DONE, before)
        elif size > MOST_DONE_BYTES:
            self._tidied = 0.0
            raise ResourceLimit(
                "More calls with a request_id are kept than there is room for.",
                hint="Make calls without one, or lower the setting request_id_days.",
                limit="request_id_days",
            )


# ---- files ---------------------------------------------------------------------------------------


@contextmanager
def _errors_as_ours() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise IoError(
            f"A call with a request_id cannot be written down ({error.strerror}), and nothing is done without that.",
            hint="Make room where state_dir lies, or leave request_id out.",
        ) from error


def _append(fd: int, *lines: Mapping[str, Any]) -> None:
    """Append lines behind the last whole one, on the disk."""
    size = os.fstat(fd).st_size
    torn = size and os.pread(fd, 1, size - 1) != b"\n"  # a full disk cut it short
    data = (b"\n" if torn else b"") + b"".join(map(as_line, lines))
    if os.write(fd, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(fd)


def _sync_directory(path: Path) -> None:
    with closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
        os.fsync(fd)


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        data = read_bytes(path, MOST_DONE_BYTES)
    except FileNotFoundError:
        return []
    return [*values_in(data[: data.rfind(b"\n") + 1])]


def _parse(lines: list[dict[str, Any]]) -> NotedCall | None:
    acts = [each["acts"] for each in lines if isinstance(each.get("acts"), dict)]
    if not acts:
        return None
    steps = tuple(each["step"] for each in lines if isinstance(each.get("step"), dict))
    results = [each["result"] for each in lines if isinstance(each.get("result"), dict)]
    return NotedCall(str(acts[0].get("digest", "")), acts[-1], steps, results[-1] if results else None)


def _directories(path: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _remove(path: Path) -> None:
    """Remove a file that nobody holds."""
    with closing(locks.open_lock(path, make=False)) as fd:
        if locks.take(fd):
            os.unlink(path)


# ---- what is done, in short ----------------------------------------------------------------------


def _shorten(place: Path, paths: Sequence[Path]) -> None:
    """Keep of calls that are done no more than that they were; in this order, so that it is always known."""
    with ExitStack() as stack:
        lines = []
        for path in paths:
            with suppress(OSError):
                fd = locks.open_lock(path, make=False)
                stack.callback(os.close, fd)
                if line := _in_short(path, fd) if locks.take(fd) else None:
                    lines.append(line)
        if not lines:
            return
        done = open_file(place / DONE, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        stack.callback(os.close, done)
        _append(done, *lines)
        for line in lines:
            with suppress(OSError):
                os.unlink(place / line["id"])


def _in_short(path: Path, fd: int) -> dict[str, Any] | None:
    """What stays of a call; None: it may not be done."""
    noted = _parse(_lines(path))
    if noted is None or noted.result is None:
        return None
    facts = {name: noted.acts.get(name) for name in ("session_id", "generation", "number")}
    return {"id": path.name, "digest": noted.digest, "at": os.fstat(fd).st_mtime, **facts}


def _find_done(place: Path, request_id: str) -> NotedCall | None:
    begins = b'{"id": "%s",' % request_id.encode()
    for name in (DONE, DONE_BEFORE):
        try:
            data = read_bytes(place / name, 2 * MOST_DONE_BYTES)
        except OSError:
            continue
        at = data.rfind(begins)
        end = data.find(b"\n", at)
        with suppress(ValueError, KeyError, TypeError):
            if at >= 0 and end >= 0:
                values = json.loads(data[at:end])
                when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(values["at"]))
                return NotedCall(str(values["digest"]), values, done_at=when)
    return None


def _first_at(path: Path) -> float:
    with os.fdopen(open_file(path), "rb") as file, suppress(ValueError, KeyError, TypeError):
        return float(json.loads(file.readline())["at"])
    return 0.0
