"""`tmuxmcp install`: puts this server into a client's configuration, or takes it out again.

The server is tried first, as the client would use it. The file as it was is kept beside it; the new one takes its
place at once, whole, with the same permissions, or with none for others where it holds a token.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import anyio

from tmuxmcp.config import Settings
from tmuxmcp.contract.errors import InvalidArgument, IoError, TimedOut, TmuxMcpError, Unauthorized
from tmuxmcp.contract.value import asdict, value
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import parse
from tmuxmcp.faces.cli.clients import (
    CLIENTS,
    EVERY_VARIABLE,
    SDK_VARIABLES,
    HttpServer,
    McpClient,
    Scope,
    StartedServer,
    TrustFound,
    edited,
    masked,
    read,
)
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.faces.tokens import only_token
from tmuxmcp.machine.ownfiles import write_atomically

if TYPE_CHECKING:
    from mcp import Client

NOT_INSTALLED = ("/archive-v0/", "/builds-v0/")
"""Parts of a path in uv's cache, where `uvx` runs programs from: nothing there lasts."""


def install(options: argparse.Namespace) -> int:
    """`tmuxmcp install`."""
    client, cwd = CLIENTS[options.client], Path.cwd()
    scope: Scope = options.scope or next(iter(client.files))
    path = client.path(scope, Path.home(), cwd, os.environ)
    at = _remote(client, scope, path, options)
    server = None if options.remove else at or _start(client, options)
    entry = client.entry_of(server) if server else None
    before = _text_of(path)
    after = edited(before, path, client.keys(scope, cwd), options.name, entry)
    changed = read(before, path) != read(after, path)
    asks = _asks(client, scope, options.name)
    trust = client.trust_in(cwd, scope, Path.home(), os.environ)
    tried = None if server is None or options.dry_run or options.no_start else _try(client, server)
    backup = None
    if not options.dry_run:
        backup = _back_up(path) if changed else None
        if changed:
            _replace(path, after, bool(at and at.token))
        if at and at.token:
            _keep_private(path, backup)
    if options.json:
        told = {"client": options.client, "scope": scope, "path": str(path), "name": options.name}
        told["entry"] = entry and json.loads(masked(json.dumps(entry)))
        if not options.remove:
            told |= {"asks": asks, "trust": trust and asdict(trust)}
        told |= {"changed": changed, "dry_run": options.dry_run, "backup": backup and str(backup)}
        output.write_json(told | {"tried": tried and asdict(tried), "next": None if options.remove else _next(client)})
        return 0
    if options.dry_run:
        output.write(masked(_difference(before, after if changed else before, path)))
        if not changed:
            output.write(f"{client.title}: {path} is as it should be.\n")
        if server:
            output.write(f"  It would hold {_where(scope, cwd, trust)}.\n  It would try {_plan(client, server)}.\n")
            _tell_what_it_asks(asks, cwd, client, trust)
        return 0
    _tell(client, path, changed, backup, options.remove)
    if server:
        output.write(f"  It holds {_where(scope, cwd, trust)}.\n")
        if at and at.token:
            output.write(f"  The token is in it: only you can read {path} (mode 600).\n")
        if tried:
            tmux = f" on tmux {tried.tmux}" if tried.tmux else ""
            plan = _plan(client, server)
            output.write(f"  Tried {plan}: tmuxmcp {tried.version}{tmux} answers with {tried.tools} tools.\n")
        _tell_what_it_asks(asks, cwd, client, trust)
        output.write(f"  Next: {_next(client)}.\n")
    return 0


def _remote(client: McpClient, scope: str, path: Path, options: argparse.Namespace) -> HttpServer | None:
    """The server that `--http` names; `None`: the client starts one."""
    if not options.http:
        if options.token_file:
            raise InvalidArgument("--token-file belongs to --http.", hint="Give --http URL as well.")
        return None
    if options.words[options.words[:1] == ["--"] :]:
        raise InvalidArgument(
            "Options of `tmuxmcp serve` are for a server that the client starts.",
            hint="With --http, give them to the server at that URL.",
        )
    if client.at_url is None:
        raise InvalidArgument(
            f"{client.title} has no servers at a URL in its configuration.", hint="Leave --http out: it starts its own."
        )
    token = only_token(Path(options.token_file)) if options.token_file else ""
    if token and scope == "project":
        raise InvalidArgument(f"A token does not belong into {path}: a project is shared.", hint="Use --scope user.")
    return HttpServer(options.name, _url(options.http), token, Settings().max_wait_ms)


def _url(text: str) -> str:
    """The address of a server, with its path."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise InvalidArgument(f"{masked(text)!r} is no address of a server.", hint="As in http://127.0.0.1:8765/mcp.")
    return urlunsplit(parts._replace(path="/mcp")) if parts.path in ("", "/") else text


def _try(client: McpClient, server: StartedServer | HttpServer) -> TrialOutcome:
    if isinstance(server, HttpServer):
        return try_url(server.url, server.token)
    return try_command(server.command, client.handed_on(os.environ), _cwd_of(client))


def _plan(client: McpClient, server: StartedServer | HttpServer) -> str:
    """What is tried, for people."""
    if isinstance(server, HttpServer):
        return server.url
    names = "" if client.environment == EVERY_VARIABLE else f", with {', '.join(client.environment)} of the environment"
    return f"`{shlex.join(server.command)}` in {_cwd_of(client)}{names}"


def _cwd_of(client: McpClient) -> Path:
    """Where a client starts its servers: one that a desktop starts knows nothing of our directory."""
    return Path.home() if client.environment == SDK_VARIABLES else Path.cwd()


def _next(client: McpClient) -> str:
    return f"{client.then}, and ask it to run `pwd` in a terminal session"


def _asks(client: McpClient, scope: Scope, name: str) -> str | None:
    sentence = client.asks.get(scope)
    return sentence.format(name=name) if sentence else None


def _tell_what_it_asks(asks: str | None, cwd: Path, client: McpClient, found: TrustFound | None) -> None:
    """Say what the person has to agree to before the client starts the server, and what they did as far as we see."""
    if asks:
        output.write(f"  {asks}\n")
    match found:
        case TrustFound(trust="yes" | "off", by=by):
            output.write(f"  {cwd} is trusted ({by}).\n")
        case TrustFound(trust="no", by=by):
            output.write(f"  {cwd} is not trusted ({by}): no server starts there until {client.trust_again}.\n")
        case TrustFound(trust="unasked", by=by):
            output.write(f"  {cwd} is not trusted yet ({by}): no server starts there until you agree.\n")
        case TrustFound(trust="unknown", by=by):
            output.write(f"  Whether {cwd} is trusted is not known: {by}.\n")


def _where(scope: Scope, cwd: Path, found: TrustFound | None) -> str:
    """Where a configuration holds, for people."""
    match scope:
        case "user" if found and found.trust != "off":
            return "for you, in every directory that the client trusts"
        case "user":
            return "for you, in every directory"
        case "local":
            return f"for you, in {cwd} alone"
        case _:
            return f"for everybody, in {cwd} alone"


def own_command() -> list[str]:
    """How a client starts us: absolute, because programs started from a desktop have a short PATH."""
    script = Path(sys.executable).with_name("tmuxmcp")
    uvx = shutil.which("uvx")
    if uvx and any(part in sys.executable for part in NOT_INSTALLED):
        return [os.path.abspath(uvx), "tmuxmcp"]
    return [str(script)] if script.exists() else [sys.executable, "-m", "tmuxmcp"]


def _start(client: McpClient, options: argparse.Namespace) -> StartedServer:
    words: list[str] = options.words[options.words[:1] == ["--"] :]
    # Checked here: a client shows its user little of a server that does not start.
    settings, _ = effective(parse(["serve", *words]))
    command = [*own_command(), "serve", *_serve_words(client, words)]
    return StartedServer(options.name, command, settings.max_wait_ms)


def _serve_words(client: McpClient, words: list[str]) -> list[str]:
    if client.results == "both" or any(word.startswith("--results") for word in words):
        return words
    return ["--results", client.results, *words]


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise IoError(f"{path} cannot be read: {error}.") from None


def _back_up(path: Path) -> Path | None:
    if not path.exists():
        return None
    copy = path.with_name(f"{path.name}.{datetime.now():%Y%m%d-%H%M%S}.bak")
    try:
        shutil.copy2(path, copy)
    except OSError as error:
        raise IoError(f"{path} cannot be copied to {copy}: {error.strerror}.", hint="Nothing was changed.") from error
    return copy


def _replace(path: Path, text: str, private: bool) -> None:
    target = Path(os.path.realpath(path))  # a link to where somebody keeps their files stays one
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        mode = 0o600 if private else mode
        write_atomically(target, text, mode=mode, to_disk=True)
    except OSError as error:
        raise IoError(f"{path} cannot be written: {error.strerror}.") from error


def _keep_private(*paths: Path | None) -> None:
    """Let nobody else read files that hold a token."""
    for path in filter(None, paths):
        os.chmod(path, 0o600)


def _difference(before: str, after: str, path: Path) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _tell(client: McpClient, path: Path, changed: bool, backup: Path | None, removed: bool) -> None:
    if not changed:
        output.write(f"{client.title}: {path} is as it should be.\n")
        return
    output.write(f"{client.title}: {'removed from' if removed else 'added to'} {path}\n")
    if backup:
        output.write(f"  as it was: {backup}\n")
    if removed:
        output.write("  It takes effect when the client starts again.\n")


# ---- Starts a server as a client would, or calls one over HTTP, and asks it for its tools ----------------------------
#
# `tmuxmcp install` does it before it writes: a client shows its user little of a server that does not start.

TRIAL_S = 60
"""How long a start and three answers may take: the longest that clients wait for a server."""

LAST_WORDS = 400
"""Characters of what a server wrote before it ended."""


@value
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
            return anyio.run(_start_trial, command, environment, cwd, said)
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


async def _start_trial(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path, said: IO[str]
) -> TrialOutcome:
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
