"""What acts beside sessions, inside the same sandbox as they: the same level, the same view, the same bounds."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp.broker.programs.workplace import Workplace, workplace
from tmuxmcp.contract.call import Progress, no_progress
from tmuxmcp.contract.errors import FileMissing, InvalidArgument, PathOutsideRoot, PermissionDenied
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.settings import WRAPPER_LEVELS, SandboxLevel
from tmuxmcp.machine import filework, process
from tmuxmcp.machine.environment import find_cwd
from tmuxmcp.machine.files import Files
from tmuxmcp.machine.launch import launch, shells
from tmuxmcp.machine.sandbox import bubblewrap, sandbox
from tmuxmcp.machine.sandbox.project import Identity
from tmuxmcp.machine.sandbox.sandbox import NO_SANDBOX, Sandbox, SandboxScope
from tmuxmcp.sessions.bounds import Boundary

WRITING_WORK: tuple[filework.Work, ...] = ("write", "check_new", "reserve", "release", "create")

NO_FILES_APART_NOTE = "The best sandbox here keeps no files apart: it can read and write what you can."


@dataclass(frozen=True)
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
