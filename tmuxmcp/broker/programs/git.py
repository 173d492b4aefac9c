"""What is told of git repositories. A process of its own looks at them, in the settings' sandbox if there is one."""

from __future__ import annotations

import json
import os
from typing import Any

import anyio

from tmuxmcp.broker.programs import inside
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, IoError, ResourceLimit, TimedOut
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.machine import filework
from tmuxmcp.sessions.bounds import Boundary

WORK_MODULE = "tmuxmcp.broker.programs.gitwork"
"""The module that is run."""

GIT_WORK_S = 30.0
"""For a repository that is very large, or made to take for ever."""

ANSWER_ROOM = 8
"""JSON writes a byte as six at most, and each file and commit has names of fields beside it."""

LEAST_ROOM = 16 * 1024 * 1024


async def run_git(
    request: q.GitStatus | q.GitLog | q.GitDiff, settings: BrokerSettings, boundary: Boundary, path: str, call: Call
) -> r.Result:
    """Do what a request says.

    Args:
        path: the PATH in which git is looked for.

    Raises:
        TmuxMcpError: as the request's docstring has it.
    """
    most = getattr(request, "max_bytes", 0)
    asked = _work_arguments(request, settings, path)
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
        raise filework.error_of(answer["error"])
    return request.operation.result.adapter().validate_python(answer)


def _work_arguments(request: q.GitStatus | q.GitLog | q.GitDiff, settings: BrokerSettings, path: str) -> dict[str, Any]:
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
        "PATH": path,
    }
