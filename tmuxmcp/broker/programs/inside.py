"""What acts beside sessions, inside the same sandbox as they: the same level, the same view, the same bounds."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp.contract.call import Progress, no_progress
from tmuxmcp.contract.errors import FileMissing, InvalidArgument, IoError, PathOutsideRoot, PermissionDenied
from tmuxmcp.contract.settings import WRAPPER_LEVELS, SandboxLevel
from tmuxmcp.contract.value import value
from tmuxmcp.machine import filework, locks, process
from tmuxmcp.machine.environment import find_cwd
from tmuxmcp.machine.files import Files
from tmuxmcp.machine.launch import launch, shells
from tmuxmcp.machine.sandbox import bubblewrap, sandbox
from tmuxmcp.machine.sandbox.project import Identity
from tmuxmcp.machine.sandbox.sandbox import NO_SANDBOX, Sandbox, SandboxScope
from tmuxmcp.sessions.bounds import Boundary

WRITING_WORK: tuple[filework.Work, ...] = ("write", "check_new", "reserve", "release", "create")

NO_FILES_APART_NOTE = "The best sandbox here keeps no files apart: it can read and write what you can."


@value
class Confinement:
    """How a process is confined, and where it works."""

    box: Sandbox = NO_SANDBOX
    cwd: str = ""
    note: str = ""
    code: str = str(launch.LAUNCH_ROOM)
    """Where `confine.py` lies."""

    @property
    def level(self) -> SandboxLevel:
        """The sandbox that it is in."""
        return self.box.level


@asynccontextmanager
async def project(boundary: Boundary, given: str, where: str) -> AsyncIterator[Confinement]:
    """What a process gets that works in a directory as a session would; it is over when this ends.

    Args:
        given: the directory that the caller gave, if one.
        where: the same, or what the settings say.

    Raises:
        PolicyDenied, Unsupported, CwdNotFound
    """
    level = await anyio.to_thread.run_sync(boundary.level)
    if level == "none":
        yield Confinement(cwd=where)
        return
    async with _workplace(boundary) as place:
        found = await anyio.to_thread.run_sync(boundary.project, given, find_cwd(where), str(place.work))
        cwd, writable, notice = found
        notes = [
            f"{notice} What it left there is gone." if notice else "",
            NO_FILES_APART_NOTE if level == "limits" else "",
        ]
        box = plan(boundary, level, writable, place)
        yield Confinement(box, cwd, " ".join(note for note in notes if note))


async def files(boundary: Boundary, work: filework.Work, path: str, *arguments: Any, data: bytes = b"") -> Any:
    """Have a method of `Files` done inside, where all can be written to that some session could write to.

    Raises:
        PathOutsideRoot: what a session could not see, or not write to.
        PolicyDenied, Unsupported, TimedOut, ResourceLimit
        TmuxMcpError: what the method raises.
    """
    level = await anyio.to_thread.run_sync(boundary.level)
    writable = await anyio.to_thread.run_sync(boundary.everywhere)
    files, real = await anyio.to_thread.run_sync(reached, boundary, list(writable), path, work in WRITING_WORK)
    async with _workplace(boundary) as place:
        box = plan(boundary, level, writable, place)
        program = process.Program(sys.executable, filework.argv(), home(), "/", box=box, code=str(launch.LAUNCH_ROOM))
        ended = await process.run(
            program,
            stdin=filework.request(files, work, real, *arguments, data=data),
            timeout_s=filework.FILE_WORK_S,
            max_output_bytes=filework.WORK_ANSWER_BYTES,
            progress=no_progress,
        )
    try:
        return filework.answered(ended)
    except (FileMissing, PermissionDenied) as error:
        error.message = f"In the sandbox: {error.message}"
        raise


@asynccontextmanager
async def child(boundary: Boundary, terminal: str = "") -> AsyncIterator[tuple[Sandbox, str]]:
    """What is put around a process of ours, and its directory for temporary files as it sees it.

    Args:
        terminal: the path of one that is lent to it; within it is called as `terminal_within` says.

    Raises:
        PolicyDenied, Unsupported
    """
    level = await anyio.to_thread.run_sync(boundary.level)
    async with _workplace(boundary) as place:
        if level == "none":
            yield NO_SANDBOX, str(place.temporary)
            return
        writable = await anyio.to_thread.run_sync(boundary.everywhere)
        box = plan(boundary, level, writable, place, terminal)
        yield box, box.env.get("TMPDIR", str(place.temporary))


async def work(
    box: Sandbox, module: str, stdin: bytes, timeout_s: float, most: int, progress: Progress
) -> process.ProcessEnd:
    """Run `main` of a module of ours in a process of its own."""
    argv = filework.argv(module)
    program = process.Program(sys.executable, argv, home(), "/", box=box, code=str(launch.LAUNCH_ROOM))
    return await process.run(program, stdin=stdin, timeout_s=timeout_s, max_output_bytes=most, progress=progress)


def home() -> dict[str, str]:
    """All that the file tools know of the environment."""
    return {"HOME": os.path.expanduser("~")}


def reached(boundary: Boundary, writable: list[str], path: str, writes: bool) -> tuple[Files, str]:
    """The files that may be touched, and the path among them that is meant.

    This only says why something cannot be reached: that it is not is the sandbox's business.

    Raises:
        PathOutsideRoot: it is not to be seen inside, or not to be written to.
        InvalidArgument: it is no path.
    """
    if not path or "\0" in path:
        raise InvalidArgument("path must be a path.", hint="It is not empty and holds no NUL.")
    if writes and os.path.basename(path) in ("", ".", ".."):
        raise InvalidArgument(f"{path!r} is no name of a file.", hint="Give the file's own name.")
    settings = boundary.settings
    root = os.path.realpath(settings.files_root) if settings.files_root else ""
    base = root or os.path.abspath(os.path.expanduser(settings.cwd))
    real = os.path.realpath(os.path.join(base, os.path.expanduser(path)))
    above = next((each for each in writable if Path(real).is_relative_to(each)), None)
    ours: tuple[str | Path, ...] = (
        *bubblewrap.EMPTY_DIRECTORIES,
        boundary.state_dir,
        *settings.own_files,
        *boundary.hidden(writable),
    )
    hidden = [Path(each).resolve() for each in ours]
    if not above and any(Path(real).is_relative_to(each) for each in hidden):
        raise PathOutsideRoot(
            f"{path!r} is out of reach in a sandbox.", hint="Use what lies in one of sandbox_roots.", path=path
        )
    if not writes:
        return Files(settings.files_root, base), path if root else real
    if not above:
        where = ", ".join(writable) or "nothing"
        raise PathOutsideRoot(
            f"{path!r} cannot be written to: in the sandbox that can be what lies in {where}.",
            hint="Give a path there.",
            path=path,
        )
    # The narrower one, so that nothing is written where only the sandbox would see it.
    return Files(root if root and Path(root).is_relative_to(above) else above, base), real


def terminal_within(level: SandboxLevel, path: str) -> str:
    """What a terminal that is lent to a sandbox is called in it."""
    return bubblewrap.CONSOLE if level in WRAPPER_LEVELS else path


def plan(
    boundary: Boundary, level: SandboxLevel, writable: dict[str, Identity], place: Workplace, terminal: str = ""
) -> Sandbox:
    """What is done for a process that has no terminal of its own; it may be lent one."""
    settings = boundary.settings
    around = SandboxScope(
        writable=writable,
        state_dir=str(boundary.state_dir),
        own=str(place.path),
        temporary=str(place.temporary),
        code=(str(launch.PACKAGE_ROOT),),
        hidden=boundary.hidden(writable),
        network=settings.sandbox_network,
        terminal=False,
        other_terminal=terminal,
        temporary_prefixes=shells.temporary_prefixes(),
    )
    return sandbox.plan(level, around)


@asynccontextmanager
async def _workplace(boundary: Boundary) -> AsyncIterator[Workplace]:
    made = workplace(boundary.state_dir / "processes")
    place = await anyio.to_thread.run_sync(made.__enter__)
    try:
        yield place
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(made.__exit__, None, None, None)


# ---- A directory of its own for one process in a sandbox -------------------------------------------------------------
#
# Its temporary files, and where it works without a project.
#
# It is locked while it is in use. What a killed broker left is removed when the next one is made.

DIRECTORY_TRIES = 10
"""Another broker that tidies up may take a new directory before it is locked."""


@value
class Workplace:
    """A directory, and what is in it."""

    path: Path

    @property
    def temporary(self) -> Path:
        """For temporary files."""
        return self.path / "tmp"

    @property
    def work(self) -> Path:
        """Where to work."""
        return self.path / "work"


@contextmanager
def workplace(above: Path) -> Iterator[Workplace]:
    """Make one in `above`, which is made too; afterwards it is gone. Blocking: for a worker thread.

    Raises:
        IoError: it cannot be made.
    """
    above.mkdir(mode=0o700, exist_ok=True)
    _sweep(above)
    for _ in range(DIRECTORY_TRIES):
        place = Workplace(above / secrets.token_hex(8))
        place.path.mkdir(mode=0o700)
        with _locked(place.path) as ours:
            if not ours:
                continue
            try:
                place.temporary.mkdir(mode=0o700)
                place.work.mkdir(mode=0o700)
                yield place
            finally:
                shutil.rmtree(place.path, ignore_errors=True)
            return
    raise IoError(f"No directory can be kept in {above}: something removes each.")


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of a directory, if nobody else does and it is still there."""
    fd = -1
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd >= 0 and locks.take(fd) and path.is_dir()
    finally:
        if fd >= 0:
            os.close(fd)


def _sweep(above: Path) -> None:
    for path in above.iterdir():
        with _locked(path) as free:
            if free:
                shutil.rmtree(path, ignore_errors=True)
