"""Operations on the machine beside the terminal: arguments checked against the settings, answers as results.

With a sandbox in the settings processes run inside of it and files are touched from there; all else is refused.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from tmuxmcp.broker.programs import git, inside
from tmuxmcp.broker.programs.r2 import R2
from tmuxmcp.broker.reading import clamp
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, iso
from tmuxmcp.contract.errors import InvalidArgument, PolicyDenied, ResourceLimit
from tmuxmcp.contract.request import Request
from tmuxmcp.contract.settings import WRAPPER_LEVELS, BrokerSettings, Limits, SandboxLevel
from tmuxmcp.contract.value import replace
from tmuxmcp.machine import ourselves, process
from tmuxmcp.machine.cgroup import rlimits
from tmuxmcp.machine.environment import session_environment
from tmuxmcp.machine.files import COPY_BYTES, FileEntry, FileId, FilePart, Files
from tmuxmcp.machine.filework import Work
from tmuxmcp.sessions.bounds import Boundary

MOST_INSIDE = 64 * 1024 * 1024
"""Bytes of a file that is made in a sandbox: they pass through our memory."""


class MachineWork:
    """What one broker does on its machine."""

    def __init__(self, settings: BrokerSettings, boundary: Boundary, tasks: TaskGroup | None = None) -> None:
        """`tasks`: where the start of what a later call needs goes on; None: nothing is started ahead."""
        self._settings, self._boundary, self._tasks = settings, boundary, tasks
        self._ahead = process.PrestartedSupervisor()
        self._r2 = R2(settings, boundary)

    async def close(self) -> None:
        """End what callers have left open."""
        await self._r2.close()
        await self._ahead.close()

    async def act(self, request: Request[Any], call: Call) -> r.Result:
        """Do what a request says that acts beside sessions; in the sandbox of the settings, if there is one.

        Raises:
            PolicyDenied: it cannot be done inside.
            TmuxMcpError: as the request's docstring has it.
        """
        if isinstance(request, q.ReadFile | q.GitLog | q.GitDiff):
            await call.room(request.max_bytes)
        match request:
            case q.RunProcess():
                return await self._run_process(request, call)
            case q.ReadFile():
                return await self._read_file(request)
            case q.WriteFile():
                return await self._write_file(request)
            case q.ListDirectory():
                return await self._list_directory(request)
            case q.GitStatus() | q.GitLog() | q.GitDiff():
                return await git.run_git(request, self._settings, self._boundary, self.environment({})["PATH"], call)
            case q.R2Open() | q.R2Cmd() | q.R2Cmdj() | q.R2Close():
                return await self._r2.act(request, self.environment({}))
            case _:
                self._refuse_outside(request.operation.name)
                raise NotImplementedError(request.operation.name)

    async def _run_process(self, request: q.RunProcess, call: Call) -> r.RunProcessResult:
        """Run one program without a terminal until it has ended; it ends with the time, or the call."""
        limits = (request.limits or Limits()).within(self._settings.limits)
        data = self._input(request.stdin, request.stdin_base64)
        timeout_ms, (allowed_ms, _) = request.timeout_ms, clamp(self._settings, request.timeout_ms)
        if limits.duration_s is not None:
            allowed_ms = min(allowed_ms, round(limits.duration_s * 1000))
        env = self.environment(request.env)
        async with inside.project(self._boundary, request.cwd, request.cwd or self._settings.cwd) as place:
            program = process.find(request.argv, cwd=place.cwd, env=env | place.box.env, rlimits=rlimits(limits))
            program = replace(program, box=place.box, code=place.code)
            if self._tasks and place.level == "none":
                self._tasks.start_soon(self._ahead.get)
            ended = await process.run(
                program,
                stdin=data,
                timeout_s=allowed_ms / 1000,
                max_output_bytes=request.max_output_bytes,
                progress=call.progress,
                ahead=self._ahead,
            )
        await call.room(sum(min(each.size, request.max_output_bytes) for each in (ended.stdout, ended.stderr)))
        remarks = [place.note, _unkept(limits), *_survivor_notes(ended, place.level)]
        return _process_result(
            program.cwd, ended, allowed_ms if allowed_ms < timeout_ms else None, place.level, remarks
        )

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """What sessions get, but for the variables that describe a terminal.

        Raises:
            InvalidArgument
        """
        settings = self._settings
        named = settings.env | dict(env)
        found = session_environment(
            ourselves.environment(), allow=settings.env_allow, settings_env=settings.env, env=dict(env), term="dumb"
        )
        if "COLORTERM" not in named:
            del found["COLORTERM"]
        return found

    async def _read_file(self, request: q.ReadFile) -> r.ReadFileResult:
        """A piece of a file: bytes from `offset`, or lines from `start_line` to `end_line`."""
        path, first, last = request.path, request.start_line or 1, request.end_line
        by_line = request.start_line is not None or last is not None
        if by_line and request.offset is not None:
            raise InvalidArgument("offset goes with bytes, start_line and end_line with lines.", hint="Give one kind.")
        if last is not None and last < first:
            raise InvalidArgument(f"end_line {last} is before line {first}.", hint="Both are included.")
        if by_line:
            piece: FilePart = await self._on_files("read_lines", path, first, last, request.max_bytes)
        else:
            piece = await self._on_files("read", path, request.offset or 0, request.max_bytes)
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

    async def _write_file(self, request: q.WriteFile) -> r.WriteFileResult:
        """Write a whole file; readers see the old one or the new one."""
        data, mode = request.data, request.mode
        encoded = request.encoding == "base64"
        content = decode_base64("data", data) if encoded else data.encode("utf-8", "surrogateescape")
        self._check_size("data", len(content), "Write it in a session, or raise the setting.")
        permissions = int(mode, 8) if isinstance(mode, str) else mode
        done = self._on_files("write", request.path, permissions, request.create_dirs, data=content)
        return r.WriteFileResult(bytes=await done)

    async def _list_directory(self, request: q.ListDirectory) -> r.ListDirectoryResult:
        """What is in a directory, by name; nothing is followed."""
        found, truncated = await self._on_files("list_directory", request.path, request.limit)
        return r.ListDirectoryResult(count=len(found), truncated=truncated, entries=[_entry(each) for each in found])

    async def check_new(self, path: str) -> None:
        """Say whether a file could be made there, as `write_file` would make it.

        Raises:
            TmuxMcpError: it could not.
        """
        await self._on_files("check_new", path)

    @property
    def is_inside(self) -> bool:
        """There is a sandbox in the settings: what is done here is done inside."""
        return self._settings.sandbox != "none"

    def absolute(self, path: str) -> str:
        """Where a path that a caller gives leads, as it is spelled."""
        return _absolute(self._files(), path)

    async def reserve(self, path: str) -> FileId:
        """Keep a place for a file that is made later.

        Raises:
            TmuxMcpError: it cannot be made there.
        """
        place: FileId = await self._on_files("reserve", path)
        return place

    async def release(self, path: str, reserved: FileId) -> None:
        """Give back a place that was kept.

        Raises:
            TmuxMcpError: it cannot be reached any more.
        """
        await self._on_files("release", path, reserved)

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
            await self._on_files("create", path, reserved, data=data)
        return _absolute(self._files(), path)

    def _refuse_outside(self, tool: str) -> None:
        wish = self._settings.sandbox
        if wish != "none":
            raise PolicyDenied(
                f"{tool} was not done: it acts outside the sandbox, and the setting sandbox is {wish}.",
                hint="Use run: commands in a session are inside.",
            )

    async def _on_files(self, work: Work, path: str, *arguments: Any, data: bytes = b"") -> Any:
        """Have a method of `Files` done, inside where there is a sandbox in the settings."""
        if self._settings.sandbox != "none":
            return await inside.files(self._boundary, work, path, *arguments, data=data)
        files = self._files()
        if work == "write":
            return await anyio.to_thread.run_sync(files.write, path, data, *arguments)
        return await anyio.to_thread.run_sync(getattr(files, work), path, *arguments)

    def _files(self) -> Files:
        settings = self._settings
        return Files(settings.files_root, os.path.abspath(os.path.expanduser(settings.cwd)))

    def _input(self, text: str, encoded: str) -> bytes:
        if text and encoded:
            raise InvalidArgument("stdin and stdin_base64 are both given.", hint="Give one of them.")
        data = decode_base64("stdin_base64", encoded) if encoded else text.encode("utf-8", "surrogateescape")
        self._check_size("stdin", len(data), "Put it into a file and name that in argv.")
        return data

    def _check_size(self, name: str, size: int, hint: str) -> None:
        most = self._settings.max_input_bytes
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
