"""Commands of the person's own that we run: one prints the value of a secret, one tells them that something waits.

A secret is read at the moment it is needed, from a private file or from such a command. It is kept in one `bytearray`,
which the caller overwrites (`wipe`); nothing of it stands in any error. A value is one line without control characters:
a terminal would act on them instead of handing them on.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import signal
import stat
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

import anyio

from tmuxmcp.contract.errors import FileMissing, InvalidArgument, IoError, PermissionDenied, ProgramNotFound, TimedOut
from tmuxmcp.contract.settings import Secret
from tmuxmcp.machine import ownprocess
from tmuxmcp.machine.environment import find_program
from tmuxmcp.machine.ownfiles import closing, open_beneath
from tmuxmcp.machine.processes import Lifeline

SECRET_BYTES = 1024
"""Longest value: twice what PAM takes (PAM_MAX_RESP_SIZE), a quarter of what a terminal keeps of one line."""

COMMAND_S = 60.0
"""Time that a command has: it may have to ask its owner to unlock a store."""

KILLED_S = 1.0
"""Time that a killed command has to be gone."""

_UNTYPABLE = re.compile(rb"[\x00-\x1f\x7f]")


def wipe(value: bytearray) -> None:
    """Overwrite a value with zeros."""
    value[:] = bytes(len(value))


@asynccontextmanager
async def value_of(name: str, secret: Secret, env: Mapping[str, str]) -> AsyncIterator[bytearray]:
    """The value of a secret, without the end of its line; overwritten when this is left.

    Args:
        env: the variables of a command that prints it.

    Raises:
        FileMissing, PermissionDenied, IoError: it cannot be read, or others may read it too.
        ProgramNotFound, TimedOut: its command cannot be run, or takes too long.
        InvalidArgument: it is not one line that can be typed.
    """
    value = bytearray()
    try:
        if secret.file:
            await anyio.to_thread.run_sync(_read_file, name, secret.file, value)
        else:
            await _run(name, secret.argv, env, value)
        _check(name, value)
        yield value
    finally:
        wipe(value)


def _check(name: str, value: bytearray) -> None:
    """Take the end of the line away, and refuse what cannot be typed as one line."""
    ends = 2 if value.endswith(b"\r\n") else 1 if value.endswith(b"\n") else 0
    if len(value) - ends > SECRET_BYTES:
        raise InvalidArgument(f"The value of secret {name} is longer than {SECRET_BYTES:,} bytes.", hint=_SOURCE_HINT)
    if ends:
        del value[-ends:]
    if not value:
        raise InvalidArgument(f"The value of secret {name} is empty.", hint=_SOURCE_HINT)
    if _UNTYPABLE.search(value):
        raise InvalidArgument(
            f"The value of secret {name} has several lines, or control characters.", hint=_SOURCE_HINT
        )


_SOURCE_HINT = "Nothing was typed. The person who wrote the settings has to mend its source."


def check_source(name: str, secret: Secret, env: Mapping[str, str]) -> None:
    """Refuse a secret of which no value can be had, as far as that is seen without having it.

    Raises:
        FileMissing, PermissionDenied, IoError: its file cannot be opened, or others may read it too.
        ProgramNotFound: there is no such command.
    """
    if not secret.file:
        _find(name, secret.argv, env)
        return
    with _private_file(name, secret.file):
        pass


def _read_file(name: str, path: str, value: bytearray) -> None:
    """Append what a private file holds, at most a little more than a value may have."""
    with _private_file(name, path) as fd:
        try:
            _take(fd, value)
        except OSError as error:
            raise IoError(f"The file of secret {name} cannot be read: {error.strerror}.", hint=_SOURCE_HINT) from None


@contextmanager
def _private_file(name: str, path: str) -> Iterator[int]:
    """The file, open to be read, if it is the user's alone."""
    try:
        with closing(os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
            # Without waiting for who writes to a pipe, and without becoming a terminal's owner.
            fd = open_beneath(root, os.path.normpath(path).lstrip("/"), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        raise FileMissing(f"The file of secret {name} is not there.", hint=_SOURCE_HINT) from None
    except OSError as error:
        why = error.strerror if error.errno != errno.EXDEV else "a link on the way has an absolute target"
        raise IoError(f"The file of secret {name} cannot be opened: {why}.", hint=_SOURCE_HINT) from None
    with closing(fd):
        _check_private(name, os.fstat(fd))
        yield fd


def _check_private(name: str, state: os.stat_result) -> None:
    """Raises PermissionDenied unless it is a regular file of the user's that nobody else may read or write."""
    if not stat.S_ISREG(state.st_mode):
        raise PermissionDenied(f"The source of secret {name} is no regular file.", hint=_SOURCE_HINT)
    if state.st_uid != os.geteuid():
        raise PermissionDenied(f"The file of secret {name} belongs to another user.", hint=_SOURCE_HINT)
    if state.st_mode & 0o077:
        mode = stat.S_IMODE(state.st_mode)
        raise PermissionDenied(
            f"Others may use the file of secret {name} (mode {mode:o}): chmod 600.", hint=_SOURCE_HINT
        )


def _take(fd: int, value: bytearray) -> None:
    """Append what there is to read; more than a value may have is not read."""
    room = bytearray(SECRET_BYTES + 3)
    try:
        with memoryview(room) as view:
            while len(value) < len(room) and (count := os.readv(fd, [view[: len(room) - len(value)]])):
                value += view[:count]
    finally:
        wipe(room)


def _find(name: str, argv: Sequence[str], env: Mapping[str, str]) -> str:
    """The path of the command that prints it."""
    try:
        return find_program(argv[0], env.get("PATH", ""), "/")
    except (ProgramNotFound, InvalidArgument):
        raise ProgramNotFound(
            f"The command of secret {name} is not there, or cannot be run.", hint=_SOURCE_HINT
        ) from None


async def _run(name: str, argv: Sequence[str], env: Mapping[str, str], value: bytearray) -> None:
    """Append what a command prints. What it says on stderr goes nowhere: it may repeat the secret."""
    program, lifeline = _find(name, argv, env), Lifeline()
    try:
        # ASYNC220: fork and exec take a millisecond or two; the pipe is read with the event loop.
        process = subprocess.Popen(  # noqa: ASYNC220
            [program, *argv[1:]],
            env=dict(env),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=lifeline.inherited,
        )
        lifeline.tie(-process.pid)
    except OSError as error:
        lifeline.close()
        why = error.strerror
        raise ProgramNotFound(f"The command of secret {name} cannot be run: {why}.", hint=_SOURCE_HINT) from None
    assert process.stdout
    try:
        fd = process.stdout.fileno()
        os.set_blocking(fd, False)
        with anyio.fail_after(COMMAND_S):
            await _take_all(fd, value)
            while process.poll() is None and len(value) <= SECRET_BYTES + 2:
                await anyio.sleep(0.002)
    except TimeoutError:
        raise TimedOut(f"The command of secret {name} did not end within {COMMAND_S:g} s.", hint=_SOURCE_HINT) from None
    finally:
        lifeline.close()
        _end(process)
    if process.returncode and len(value) <= SECRET_BYTES + 2:
        raise IoError(f"The command of secret {name} failed with status {process.returncode}.", hint=_SOURCE_HINT)


async def _take_all(fd: int, value: bytearray) -> None:
    while len(value) <= SECRET_BYTES + 2:
        await anyio.wait_readable(fd)
        before = len(value)
        with suppress(BlockingIOError):
            _take(fd, value)
            if len(value) == before:
                return


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it started."""
    assert process.stdout
    process.stdout.close()
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # in the kernel's hands
            process.wait(KILLED_S)


# ---- Runs the person's own command when something waits for them. Nothing that an agent said goes along --------------

log = logging.getLogger(__name__)

NOTIFY_RUNS_S = 10.0
"""So long the command may run; then it is ended with what it started."""

MOST_AT_ONCE = 4
"""So many of these commands run at once; what comes while they do starts none."""

_running = threading.BoundedSemaphore(MOST_AT_ONCE)


def notify(argv: Sequence[str], facts: Mapping[str, str]) -> None:
    """Start the command and go on; without one, do nothing.

    Args:
        facts: variables of its environment, by name without the prefix `TMUXMCP_`.
    """
    if not argv or not _running.acquire(blocking=False):
        return
    variables = ownprocess.environment() | {f"TMUXMCP_{name}": value for name, value in facts.items()}
    threading.Thread(target=_run_notice, args=(list(argv), variables), name="notify", daemon=True).start()


def _run_notice(argv: list[str], variables: dict[str, str]) -> None:
    try:
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(
            argv, env=variables, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )
        try:
            process.wait(NOTIFY_RUNS_S)
        except subprocess.TimeoutExpired:
            log.warning("notify_command has not ended within %g s, and was ended", NOTIFY_RUNS_S)
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    except OSError as error:
        log.warning("notify_command cannot be run: %s", error)
    finally:
        _running.release()
