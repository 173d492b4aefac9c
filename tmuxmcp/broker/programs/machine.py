"""Operations on the machine beside the terminal: arguments checked against the settings, answers as results.

With a sandbox in the settings processes run inside of it and files are touched from there; all else is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp.broker.programs import inside
from tmuxmcp.broker.reading import clamp
from tmuxmcp.broker.verbs import Services, Work, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import InvalidArgument, IoError, ResourceLimit, TimedOut, TmuxMcpError
from tmuxmcp.contract.settings import WRAPPER_LEVELS, BrokerSettings, Limits, SandboxLevel
from tmuxmcp.contract.value import replace
from tmuxmcp.machine import ownprocess, process
from tmuxmcp.machine.cgroup import rlimits
from tmuxmcp.machine.environment import session_environment
from tmuxmcp.machine.files import COPY_BYTES, FileEntry, FileId, FilePart, Files
from tmuxmcp.machine.filework import Work as FileWork

MOST_INSIDE = 64 * 1024 * 1024
"""Bytes of a file that is made in a sandbox: they pass through our memory."""


@verb(q.RunProcess, inside=True)
async def run_process(work: Work[q.RunProcess]) -> r.RunProcessResult:
    """Run one program without a terminal until it has ended; it ends with the time, or the call."""
    request, call, broker, settings = work.request, work.call, work.broker, work.broker.settings
    machine = broker.part(MachineWork)
    limits = (request.limits or Limits()).within(settings.limits)
    data = _input(settings, request.stdin, request.stdin_base64)
    timeout_ms, (allowed_ms, _) = request.timeout_ms, clamp(settings, request.timeout_ms)
    if limits.duration_s is not None:
        allowed_ms = min(allowed_ms, round(limits.duration_s * 1000))
    env = environment(settings, request.env)
    async with inside.project(broker.boundary, request.cwd, request.cwd or settings.cwd) as place:
        program = process.find(request.argv, cwd=place.cwd, env=env | place.box.env, rlimits=rlimits(limits))
        program = replace(program, box=place.box, code=place.code)
        if broker.tasks and place.level == "none":
            broker.tasks.start_soon(machine.ahead.get)
        ended = await process.run(
            program,
            stdin=data,
            timeout_s=allowed_ms / 1000,
            max_output_bytes=request.max_output_bytes,
            progress=call.progress,
            ahead=machine.ahead,
        )
    await call.room(sum(min(each.size, request.max_output_bytes) for each in (ended.stdout, ended.stderr)))
    remarks = [place.note, _unkept(limits), *_survivor_notes(ended, place.level)]
    return _process_result(program.cwd, ended, allowed_ms if allowed_ms < timeout_ms else None, place.level, remarks)


def environment(settings: BrokerSettings, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """What sessions get, but for the variables that describe a terminal.

    Raises:
        InvalidArgument
    """
    given = dict(env or {})
    found = session_environment(
        ownprocess.environment(), allow=settings.env_allow, settings_env=settings.env, env=given, term="dumb"
    )
    if "COLORTERM" not in settings.env | given:
        del found["COLORTERM"]
    return found


@verb(q.ReadFile, inside=True)
async def read_file(work: Work[q.ReadFile]) -> r.ReadFileResult:
    """A piece of a file: bytes from `offset`, or lines from `start_line` to `end_line`."""
    request, machine = work.request, work.broker.part(MachineWork)
    await work.call.room(request.max_bytes)
    path, first, last = request.path, request.start_line or 1, request.end_line
    by_line = request.start_line is not None or last is not None
    if by_line and request.offset is not None:
        raise InvalidArgument("offset goes with bytes, start_line and end_line with lines.", hint="Give one kind.")
    if last is not None and last < first:
        raise InvalidArgument(f"end_line {last} is before line {first}.", hint="Both are included.")
    if by_line:
        piece: FilePart = await machine.on_files("read_lines", path, first, last, request.max_bytes)
    else:
        piece = await machine.on_files("read", path, request.offset or 0, request.max_bytes)
    text = process.decode(piece.data, partial=piece.truncated)
    encoding: process.Encoding
    if text is None or (piece.data and not text):
        encoding, data, size = "base64", base64.b64encode(piece.data).decode(), len(piece.data)
    else:
        encoding, data, size = "utf-8", text, len(text.encode())
    return r.ReadFileResult(
        size=piece.size,
        offset=piece.offset,
        next_offset=piece.offset + size,
        truncated=piece.truncated,
        encoding=encoding,
        data=data,
    )


@verb(q.WriteFile, inside=True)
async def write_file(work: Work[q.WriteFile]) -> r.WriteFileResult:
    """Write a whole file; readers see the old one or the new one."""
    request, data, mode = work.request, work.request.data, work.request.mode
    encoded = request.encoding == "base64"
    content = decode_base64("data", data) if encoded else data.encode("utf-8", "surrogateescape")
    _check_size(work.broker.settings, "data", len(content), "Write it in a session, or raise the setting.")
    permissions = int(mode, 8) if isinstance(mode, str) else mode
    done = work.broker.part(MachineWork).on_files("write", request.path, permissions, request.create_dirs, data=content)
    return r.WriteFileResult(bytes=await done)


@verb(q.ListDirectory, inside=True)
async def list_directory(work: Work[q.ListDirectory]) -> r.ListDirectoryResult:
    """What is in a directory, by name; nothing is followed."""
    found, truncated = await work.broker.part(MachineWork).on_files(
        "list_directory", work.request.path, work.request.limit
    )
    return r.ListDirectoryResult(count=len(found), truncated=truncated, entries=[_entry(each) for each in found])


class MachineWork:
    """The files of one machine, as its callers may touch them, and what its processes are run by."""

    def __init__(self, broker: Services) -> None:
        self._settings, self._boundary = broker.settings, broker.boundary
        self.ahead = process.PrestartedSupervisor()
        broker.left_open.push_async_callback(self.ahead.close)

    @property
    def is_inside(self) -> bool:
        """There is a sandbox in the settings: what is done here is done inside."""
        return self._settings.sandbox != "none"

    def absolute(self, path: str) -> str:
        """Where a path that a caller gives leads, as it is spelled."""
        return _absolute(self._files(), path)

    async def move_in(self, path: str, made: Path, reserved: FileId | None = None) -> str:
        """Make a new file of what lies elsewhere; where it lies then.

        Args:
            reserved: what keeps its place.

        Raises:
            ResourceLimit: it is too long to be brought into the sandbox.
            TmuxMcpError: it cannot be made.
        """
        if self._settings.sandbox == "none":
            with made.open("rb") as source:
                pieces = iter(partial(source.read, COPY_BYTES), b"")
                await anyio.to_thread.run_sync(partial(self._files().create, path, pieces, reserved=reserved))
        else:
            data = await anyio.to_thread.run_sync(_short_enough, made)
            await self.on_files("create", path, reserved, data=data)
        return _absolute(self._files(), path)

    async def on_files(self, work: FileWork, path: str, *arguments: Any, data: bytes = b"") -> Any:
        """Have a method of `Files` done, inside where there is a sandbox in the settings.

        Raises:
            TmuxMcpError: as that method.
        """
        if self._settings.sandbox != "none":
            return await inside.files(self._boundary, work, path, *arguments, data=data)
        files = self._files()
        if work == "write":
            return await anyio.to_thread.run_sync(files.write, path, data, *arguments)
        return await anyio.to_thread.run_sync(getattr(files, work), path, *arguments)

    def _files(self) -> Files:
        settings = self._settings
        return Files(settings.files_root, os.path.abspath(os.path.expanduser(settings.cwd)))


def _input(settings: BrokerSettings, text: str, encoded: str) -> bytes:
    if text and encoded:
        raise InvalidArgument("stdin and stdin_base64 are both given.", hint="Give one of them.")
    data = decode_base64("stdin_base64", encoded) if encoded else text.encode("utf-8", "surrogateescape")
    _check_size(settings, "stdin", len(data), "Put it into a file and name that in argv.")
    return data


def _check_size(settings: BrokerSettings, name: str, size: int, hint: str) -> None:
    most = settings.max_input_bytes
    if size > most:
        text = f"{name} has {size:,} bytes; max_input_bytes is {most:,}."
        raise ResourceLimit(text, hint=hint, limit="max_input_bytes")


def decode_base64(name: str, text: str) -> bytes:
    """The bytes of an argument.

    Raises:
        InvalidArgument: it is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument(f"{name} is not base64.", hint="Give standard base64, with its padding.") from None


def _short_enough(made: Path) -> bytes:
    if made.stat().st_size > MOST_INSIDE:
        text = f"A file of more than {MOST_INSIDE:,} bytes cannot be brought into the sandbox."
        raise ResourceLimit(text, hint="Leave path out, or export a shorter stretch.")
    return made.read_bytes()


def _absolute(files: Files, path: str) -> str:
    return os.path.normpath(os.path.join(files.root or files.base, os.path.expanduser(path)))


def _entry(entry: FileEntry) -> r.DirectoryEntry:
    return r.DirectoryEntry(
        name=entry.name,
        type=entry.kind,
        mode=f"{entry.mode:04o}",
        size=entry.size,
        mtime=iso(entry.mtime),
    )


def _unkept(limits: Limits) -> str:
    """What of the limits nothing here keeps, as a remark."""
    unkept = ["cpu_percent"] if limits.cpu_percent is not None else []
    if limits.processes is not None and os.geteuid() == 0:
        unkept.append("processes (root has no such limit)")
    return f"Not limited: {', '.join(unkept)}." if unkept else ""


def _survivor_notes(ended: process.ProcessEnd, level: SandboxLevel) -> list[str]:
    """What is to be told of processes that outlived the program."""
    notes = []
    if ended.left:
        notes.append(f"{ended.left} processes that it left running were ended; what should live on needs a session.")
    if ended.survivors:
        numbers = " (as they are numbered in its sandbox)" if level in WRAPPER_LEVELS else ""
        notes.append(f"Processes that could not be ended{numbers}: {', '.join(map(str, ended.survivors[:20]))}.")
    return notes


def _process_result(
    cwd: str, ended: process.ProcessEnd, effective_ms: int | None, level: SandboxLevel, remarks: list[str]
) -> r.RunProcessResult:
    streams = [ended.stdout, ended.stderr]
    encoding, (stdout, stderr) = process.carry(streams, cut_off=ended.signal is not None)
    return r.RunProcessResult(
        rc=ended.rc,
        signal=ended.signal,
        cwd=cwd,
        sandbox=level,
        timed_out=ended.timed_out,
        truncated=any(stream.truncated for stream in streams),
        encoding=encoding,
        duration_ms=ended.duration_ms,
        usage=r.ProcessUsage(cpu_ms=ended.cpu_ms, max_rss_kb=ended.max_rss_kb),
        stdout_bytes=ended.stdout.size,
        stderr_bytes=ended.stderr.size,
        effective_timeout_ms=effective_ms,
        note=" ".join(remark for remark in remarks if remark) or None,
        stderr=stderr,
        stdout=stdout,
    )


# ---- Git: a process of its own looks at repositories, in the settings' sandbox if there is one -----------------------

WORK_MODULE = "tmuxmcp.broker.programs.gitwork"
"""The module that is run."""

GIT_WORK_S = 30.0
"""For a repository that is very large, or made to take for ever."""

ANSWER_ROOM = 8
"""JSON writes a byte as six at most, and each file and commit has names of fields beside it."""

LEAST_ROOM = 16 * 1024 * 1024


@verb(q.GitStatus, q.GitLog, q.GitDiff, inside=True)
async def run_git(work: Work[q.GitStatus | q.GitLog | q.GitDiff]) -> r.Result:
    """Have git asked.

    Raises:
        TmuxMcpError: as the request's docstring has it.
    """
    request, call, boundary = work.request, work.call, work.broker.boundary
    if isinstance(request, q.GitLog | q.GitDiff):
        await call.room(request.max_bytes)
    most = getattr(request, "max_bytes", 0)
    asked = _work_arguments(request, work.broker.settings)
    if await anyio.to_thread.run_sync(boundary.level) != "none":
        writable = await anyio.to_thread.run_sync(boundary.everywhere)
        await anyio.to_thread.run_sync(inside.reached, boundary, list(writable), request.path, False)
    room = max(LEAST_ROOM, most * ANSWER_ROOM)
    async with inside.child(boundary) as (box, temporary):
        asked["temporary"] = temporary
        stdin = json.dumps(asked).encode()
        ended = await inside.work(box, WORK_MODULE, stdin, GIT_WORK_S, room, call.progress)
    if ended.timed_out:
        raise TimedOut(
            f"git did not answer within {GIT_WORK_S:g} s.", hint="Give a path in the repository, or use run."
        )
    if ended.stdout.truncated:
        raise ResourceLimit("The answer is too long.", hint="Give a path in the repository.")
    try:
        answer = json.loads(ended.stdout.pieces(room)[0])
    except ValueError:
        raise IoError(f"git was not run: {ended.stderr.last_line() or 'nothing was said'}.") from None
    if "error" in answer:
        raise TmuxMcpError.received(answer["error"])
    return request.operation.result.adapter().validate_python(answer)


def _work_arguments(request: q.GitStatus | q.GitLog | q.GitDiff, settings: BrokerSettings) -> dict[str, Any]:
    if not request.path or "\0" in request.path:
        raise InvalidArgument("path must be a path.", hint="It is not empty and holds no NUL.")
    root = os.path.realpath(settings.files_root) if settings.files_root else ""
    base = root or os.path.abspath(os.path.expanduser(settings.cwd))
    return {
        "work": request.operation.name.removeprefix("git_"),
        "path": os.path.join(base, os.path.expanduser(request.path)),
        "root": root,
        "ref": getattr(request, "ref", ""),
        "limit": getattr(request, "limit", 0),
        "max_bytes": getattr(request, "max_bytes", 0),
        "PATH": environment(settings)["PATH"],
    }
