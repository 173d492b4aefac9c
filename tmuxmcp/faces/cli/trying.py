"""Starts a server as a client would, or calls one over HTTP, and asks it for its tools.

`tmuxmcp install` does it before it writes: a client shows its user little of a server that does not start.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import anyio

from tmuxmcp.contract.errors import IoError, TimedOut, TmuxMcpError, Unauthorized
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.faces.cli.clients import SDK_VARIABLES

if TYPE_CHECKING:
    from mcp import Client

TRIAL_S = 60
"""How long a start and three answers may take: the longest that clients wait for a server."""

LAST_WORDS = 400
"""Characters of what a server wrote before it ended."""


@dataclass(frozen=True)
class TrialOutcome:
    """What answered."""

    version: str
    tools: int
    tmux: str


def try_command(command: Sequence[str], environment: Mapping[str, str], cwd: Path) -> TrialOutcome:
    """Start a server, greet it, list its tools, ask for its health, and let it go.

    Args:
        environment: all that it gets of ours.

    Raises:
        IoError, TimedOut: it does not start, or does not answer; the message has its last words.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        try:
            return anyio.run(_start, command, environment, cwd, said)
        except TimeoutError:
            raise TimedOut(
                f"The server did not answer within {TRIAL_S} s.{_last_of(said)}",
                hint="Nothing was changed. Run `tmuxmcp doctor`, or write the entry all the same with --no-start.",
            ) from None
        except Exception as group:
            error = _first_error(group)
            if isinstance(error, TmuxMcpError):
                raise error from None
            raise IoError(
                f"The server does not start: {_last_of(said).strip() or _why(error)}",
                hint=f"Nothing was changed. Run it yourself to see more: {' '.join(command)} </dev/null",
            ) from None


def try_url(url: str, token: str) -> TrialOutcome:
    """Greet the server at a URL, list its tools and ask for its health.

    Raises:
        Unauthorized: it does not take the token.
        IoError, TimedOut: it is not there, or is no such server.
    """
    try:
        return anyio.run(_call, url, token)
    except TimeoutError:
        raise TimedOut(f"{url} did not answer within {TRIAL_S} s.", hint="Nothing was changed.") from None
    except Exception as group:
        error = _first_error(group)
        if isinstance(error, TmuxMcpError):
            raise error from None
        raise IoError(
            f"{url} does not answer as a server: {_why(error)}.",
            hint="Nothing was changed. Start it with `tmuxmcp serve --http HOST:PORT --token-file FILE`, or write the"
            " entry all the same with --no-start.",
        ) from None


async def _start(command: Sequence[str], environment: Mapping[str, str], cwd: Path, said: IO[str]) -> TrialOutcome:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    # The library adds these of our environment; those that the client does not hand on go again.
    unset = [word for name in SDK_VARIABLES if name in os.environ and name not in environment for word in ("-u", name)]
    words = ["env", *unset, *command] if unset else list(command)
    server = StdioServerParameters(command=words[0], args=words[1:], env=dict(environment), cwd=cwd)
    with anyio.fail_after(TRIAL_S):
        async with Client(stdio_client(server, said)) as client:  # type: ignore[arg-type]  # its own text file
            return await _try_client(client)


async def _call(url: str, token: str) -> TrialOutcome:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with anyio.fail_after(TRIAL_S):
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=TRIAL_S))
            async with http.stream("GET", url) as answer:
                refused = answer.status_code
            if refused in (401, 403):
                raise Unauthorized(
                    f"{url} does not take this token (status {refused})." if token else f"{url} asks for a token.",
                    hint="Nothing was changed. Give --token-file FILE with a token that the server was given.",
                )
            return await _try_client(
                await stack.enter_async_context(Client(streamable_http_client(url, http_client=http)))
            )


async def _try_client(client: Client) -> TrialOutcome:
    names = [tool.name for tool in (await client.list_tools()).tools]
    info = client.server_info
    told: Mapping[str, Any] = {}
    if "health" in names:
        result = await client.call_tool("health", {})
        if result.is_error:
            text = getattr(result.content[0], "text", "") if result.content else ""
            raise IoError(f"The server starts, and cannot work: {text}", hint="Nothing was changed. Mend that first.")
        told = result.structured_content or (result.meta or {}).get("tmuxmcp/result") or {}
    return TrialOutcome(info.version if info else "", len(names), str(told.get("tmux_version") or ""))


def _last_of(said: IO[str]) -> str:
    """The end of what a server wrote to stderr."""
    said.seek(0)
    text = said.read().strip()
    return f" {text[-LAST_WORDS:]}" if text else ""


def _first_error(error: BaseException) -> BaseException:
    """The first error in a group of them."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _why(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__
