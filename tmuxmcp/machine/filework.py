"""The work of the file tools in a process of its own, which a sandbox is put around: nothing is opened outside of it.

The request is a line of JSON, then the bytes to write. So is the answer: a line, then the bytes that were read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tmuxmcp.contract.errors import IoError, ResourceLimit, TimedOut, TmuxMcpError
from tmuxmcp.contract.value import asdict
from tmuxmcp.machine.files import FileEntry, FilePart, Files

if TYPE_CHECKING:
    from tmuxmcp.machine.process import ProcessEnd

Work = Literal["read", "read_lines", "write", "check_new", "reserve", "release", "create", "list_directory"]
"""Methods of `Files`."""

FILE_WORK_S = 60.0
"""For a file system that does not answer."""

WORK_ANSWER_BYTES = 64 * 1024 * 1024
"""Of an answer: 10,000 names, each of 255 bytes that JSON writes as six, or the 16 MiB that are read at most."""

PACKAGE_ROOT = Path(__file__).parents[1]

WORKER_CODE = """
import sys
from importlib import util
spec = util.spec_from_file_location("tmuxmcp", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["tmuxmcp"] = util.module_from_spec(spec)
from importlib import import_module
import_module(sys.argv[2]).main()
"""
"""The package is named by its path: what lies above it may be out of reach."""


def argv(module: str = __name__) -> list[str]:
    """What is run: `main` of a module of ours, which reads the request on its standard input."""
    return [sys.executable, "-I", "-S", "-c", WORKER_CODE, str(PACKAGE_ROOT), module]


def request(files: Files, work: Work, *arguments: Any, data: bytes = b"") -> bytes:
    """What it is given: a method's arguments, but for the bytes to write."""
    return pack({"files": [files.root, files.base], "work": work, "arguments": arguments}, data)


def main() -> None:
    """Do what standard input says."""
    line, _, data = sys.stdin.buffer.read().partition(b"\n")
    asked = json.loads(line)
    try:
        answer = _do(Files(*asked["files"]), asked["work"], asked["arguments"], data)
    except TmuxMcpError as error:
        answer = pack({"error": error.as_dict()})
    sys.stdout.buffer.write(answer)


def _do(files: Files, work: Work, arguments: list[Any], data: bytes) -> bytes:
    match work:
        case "read" | "read_lines":
            piece: FilePart = getattr(files, work)(*arguments)
            return pack({"piece": [piece.size, piece.offset, piece.truncated]}, piece.data)
        case "write":
            path, mode, create_dirs = arguments
            return pack({"bytes": files.write(path, data, mode, create_dirs)})
        case "check_new":
            files.check_new(*arguments)
            return pack({"bytes": 0})
        case "reserve":
            return pack({"place": files.reserve(*arguments)})
        case "release":
            return pack({"bytes": int(files.release(*arguments))})
        case "create":
            path, reserved = arguments
            return pack({"bytes": files.create(path, [data], reserved=reserved)})
        case "list_directory":
            entries, more = files.list_directory(*arguments)
            return pack({"entries": [[*asdict(entry).values()] for entry in entries], "more": more})


def answered(ended: ProcessEnd) -> Any:
    """What the method gives.

    Raises:
        TmuxMcpError: what the method raises.
        TimedOut, ResourceLimit, IoError: there is no answer.
    """
    if ended.timed_out:
        raise TimedOut(f"The file system did not answer within {FILE_WORK_S:g} s.", hint="Try again.")
    if ended.stdout.truncated:
        raise ResourceLimit("The answer is too long.", hint="Ask for less.")
    line, _, data = ended.stdout.pieces(WORK_ANSWER_BYTES)[0].partition(b"\n")
    try:
        answer = json.loads(line)
    except ValueError:
        raise IoError(f"The file could not be reached: {ended.stderr.last_line() or 'nothing was said'}.") from None
    match answer:
        case {"error": dict() as error}:
            raise TmuxMcpError.received(error)
        case {"piece": [size, offset, truncated]}:
            return FilePart(data, size, offset, truncated)
        case {"bytes": count}:
            return count
        case {"place": [device, number]}:
            return device, number
        case {"entries": entries, "more": more}:
            return [FileEntry(*each) for each in entries], more
    raise IoError("The file could not be reached.")


def pack(head: dict[str, Any], data: bytes = b"") -> bytes:
    """A line of JSON, and bytes."""
    return json.dumps(head).encode() + b"\n" + data
