"""Operations on the machine beside the terminal: arguments checked against the settings, answers as results.

All of them act outside of every sandbox: with one in the settings they are refused.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from functools import partial

import anyio

from tmuxmcp.broker.reading import clamp
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.limits import Limits
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.errors import InvalidArgument, PolicyDenied, ResourceLimit
from tmuxmcp.host import output, process
from tmuxmcp.host.environment import session_environment
from tmuxmcp.host.files import Entry, Files
from tmuxmcp.host.limits import rlimits
from tmuxmcp.sessions.session import iso

FILE_TOOLS = ("read_file", "write_file", "list_directory")
"""Operations whose relative paths begin at `files_root`."""


class Machine:
    """What one broker does on its machine."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings

    async def run_process(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: str,
        stdin_base64: str,
        timeout_ms: int,
        max_output_bytes: int,
        limits: Limits,
        call: Call,
    ) -> r.RunProcessResult:
        """See `Broker.run_process`."""
        self._refuse_outside("run_process")
        data, limits = self._input(stdin, stdin_base64), limits.within(self._settings.limits)
        allowed_ms, _ = clamp(self._settings, timeout_ms)
        if limits.duration_s is not None:
            allowed_ms = min(allowed_ms, round(limits.duration_s * 1000))
        where = cwd or self._settings.cwd
        program = process.find(argv, cwd=where, env=self.environment(env), rlimits=rlimits(limits))
        ended = await process.run(
            program,
            stdin=data,
            timeout_s=allowed_ms / 1000,
            max_output_bytes=max_output_bytes,
            progress=call.progress,
        )
        return _process_result(ended, allowed_ms if allowed_ms < timeout_ms else None, _unkept(limits))

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """What sessions get, but for the variables that describe a terminal.

        Raises:
            InvalidArgument
        """
        settings = self._settings
        named = settings.env | dict(env)
        found = session_environment(
            os.environ, allow=settings.env_allow, settings_env=settings.env, env=dict(env), term="dumb"
        )
        if "COLORTERM" not in named:
            del found["COLORTERM"]
        return found

    async def read_file(
        self, path: str, offset: int | None, max_bytes: int, start_line: int | None, end_line: int | None
    ) -> r.ReadFileResult:
        """See `Broker.read_file`."""
        self._refuse_outside("read_file")
        by_line = start_line is not None or end_line is not None
        if by_line and offset is not None:
            raise InvalidArgument("offset goes with bytes, start_line and end_line with lines.", hint="Give one kind.")
        first = start_line or 1
        if end_line is not None and end_line < first:
            raise InvalidArgument(f"end_line {end_line} is before line {first}.", hint="Both are included.")
        if by_line:
            work = partial(self._files().read_lines, path, first, end_line, max_bytes)
        else:
            work = partial(self._files().read, path, offset or 0, max_bytes)
        piece = await anyio.to_thread.run_sync(work)
        text = output.decode(piece.data, partial=piece.truncated)
        if text is None or (piece.data and not text):
            encoding, data, size = "base64", base64.b64encode(piece.data).decode(), len(piece.data)
        else:
            encoding, data, size = "utf-8", text, len(text.encode())
        return r.ReadFileResult(
            size=piece.size,
            offset=piece.offset,
            next_offset=piece.offset + size,
            truncated=piece.truncated,
            encoding=encoding,  # type: ignore[arg-type]  # mypy forgets the literal
            data=data,
        )

    async def write_file(
        self, path: str, data: str, encoding: str, mode: str | int | None, create_dirs: bool
    ) -> r.WriteFileResult:
        """See `Broker.write_file`."""
        self._refuse_outside("write_file")
        content = decode_base64("data", data) if encoding == "base64" else data.encode("utf-8", "surrogateescape")
        self._check_size("data", len(content), "Write it in a session, or raise the setting.")
        permissions = int(mode, 8) if isinstance(mode, str) else mode
        work = partial(self._files().write, path, content, permissions, create_dirs)
        return r.WriteFileResult(bytes=await anyio.to_thread.run_sync(work))

    async def list_directory(self, path: str, limit: int) -> r.ListDirectoryResult:
        """See `Broker.list_directory`."""
        self._refuse_outside("list_directory")
        found, truncated = await anyio.to_thread.run_sync(self._files().list_directory, path, limit)
        return r.ListDirectoryResult(count=len(found), truncated=truncated, entries=[_entry(each) for each in found])

    def _refuse_outside(self, tool: str) -> None:
        wish = self._settings.sandbox
        if wish != "none":
            raise PolicyDenied(
                f"{tool} was not done: it acts outside the sandbox, and the setting sandbox is {wish}.",
                hint="Use run: commands in a session are inside.",
            )

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


def _entry(entry: Entry) -> r.DirectoryEntry:
    return r.DirectoryEntry(
        name=entry.name,
        type=entry.kind,  # type: ignore[arg-type]
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


def _process_result(ended: process.Ended, effective_ms: int | None, unkept: str) -> r.RunProcessResult:
    streams = [ended.stdout, ended.stderr]
    encoding, (stdout, stderr) = output.carry(streams, cut_off=ended.signal is not None)
    notes = [unkept]
    if ended.left:
        notes.append(f"{ended.left} processes that it left running were ended; what should live on needs a session.")
    if ended.survivors:
        notes.append(f"Processes that could not be ended: {', '.join(map(str, ended.survivors[:20]))}.")
    return r.RunProcessResult(
        rc=ended.rc,
        signal=ended.signal,
        timed_out=ended.timed_out,
        truncated=any(stream.truncated for stream in streams),
        encoding=encoding,
        duration_ms=ended.duration_ms,
        usage=r.ProcessUsage(cpu_ms=ended.cpu_ms, max_rss_kb=ended.max_rss_kb),
        stdout_bytes=ended.stdout.size,
        stderr_bytes=ended.stderr.size,
        effective_timeout_ms=effective_ms,
        note=" ".join(note for note in notes if note) or None,
        stderr=stderr,
        stdout=stdout,
    )
