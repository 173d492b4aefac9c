"""`tmuxmcp demo`: an MCP client starts the real server over stdio and shows, and checks, what it promises.

It works in a state directory of its own, with a tmux server of its own, and leaves neither behind unless told to.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tmuxmcp.contract.call import ms_since
from tmuxmcp.contract.value import field, value
from tmuxmcp.faces.cli import output
from tmuxmcp.tmux.server import find_tmux

DEMO_ROWS = 40
SLOW_COMMAND = f"(for i in $(seq {DEMO_ROWS}); do echo line $i; sleep 0.05; done; exit 5)"
"""Two seconds of output, and an exit code that nothing else has."""

POEM = ["Broker gone, the shell stays on;", "lines still come at break of dawn."]


def main(settings: Sequence[str], *, keep: bool, as_json: bool) -> int:
    """Show it; return 0 when every check held.

    Args:
        settings: flags for the server.
        keep: leave the session and its tmux server running.
        as_json: print the checks and nothing else.
    """
    show = Show(quiet=as_json)
    state_dir = Path(tempfile.mkdtemp(prefix="tm-"))
    ended_by: list[int] = []

    def end(number: int, frame: object) -> None:
        ended_by.append(number)
        signal.raise_signal(signal.SIGINT)  # asyncio has a way to end for this one

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    finished = False
    try:
        anyio.run(Demo(show, state_dir, settings).run)
        finished = True
    except KeyboardInterrupt:
        return 128 + (ended_by or [signal.SIGINT])[0]
    except Exception as error:
        show.check(f"the demo went through ({_cause(error)})", False)
        show.text(_tail(state_dir / "server.log"))
    finally:
        if not (keep and finished):
            clean_up(state_dir)
    show.ending(state_dir, kept=keep and finished)
    return 0 if show.ok else 1


@value(frozen=False)
class Show:
    """What the person sees; `quiet` for those who only want to know how it went."""

    quiet: bool
    checks: list[dict[str, Any]] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    attach_command: str = ""

    @property
    def ok(self) -> bool:
        """Whether every check held."""
        return all(check["ok"] for check in self.checks)

    def heading(self, text: str) -> None:
        """Begin a part."""
        self._print(f"\n{self._style('1', text)}")

    def request(self, text: str) -> None:
        """What is asked of the server."""
        self._print(f"  {self._style('36', text)}")

    def text(self, text: str) -> None:
        """What a terminal showed."""
        for line in text.splitlines():
            self._print(f"    {self._style('2', output.visible(line))}".rstrip())

    def check(self, what: str, ok: bool, took_ms: int | None = None) -> None:
        """One thing that must hold."""
        self.checks.append({"check": what, "ok": ok, "duration_ms": took_ms})
        mark = self._style("32", self._sign("✓", "ok")) if ok else self._style("31", self._sign("✗", "FAILED"))
        took = f" {self._style('2', f'({took_ms} ms)')}" if took_ms is not None else ""
        self._print(f"  {mark} {what}{took}")

    def ending(self, state_dir: Path, *, kept: bool) -> None:
        """How it went, and what to do next."""
        seconds = time.monotonic() - self.begun
        failed = sum(not check["ok"] for check in self.checks)
        if self.quiet:
            result = {
                "ok": self.ok,
                "duration_ms": int(seconds * 1000),
                "checks": self.checks,
                "state_dir": str(state_dir) if kept else None,
                "attach_command": self.attach_command if kept else None,
            }
            output.write_json(result)
            return
        command = server_command()
        servers = {"mcpServers": {"tmuxmcp": {"command": command[0], "args": [*command[1:], "serve"]}}}
        if kept:
            self.heading("The session is still there")
            self.request(self.attach_command)
            self._print(f"  End it with: tmux -S {shlex.quote(str(state_dir / 'tmux.sock'))} kill-server")
        else:
            self.heading("A person could have watched with")
            self.request(self.attach_command)
            self._print("  Nothing is left of it now; `tmuxmcp demo --keep` leaves the session running.")
        self.heading("For your MCP client")
        self._print(json.dumps(servers, indent=2))
        self._print(f"\n  or: {shlex.join(['claude', 'mcp', 'add', 'tmuxmcp', '--', *command, 'serve'])}")
        count = f"{failed} of {len(self.checks)} checks failed" if failed else f"all {len(self.checks)} checks held"
        self.heading(f"{count}, in {seconds:.1f} s")

    def _print(self, text: str) -> None:
        if not self.quiet:
            output.write(text + "\n")
            sys.stdout.flush()

    def _style(self, code: str, text: str) -> str:
        return output.bold(text, sys.stdout, code)

    def _sign(self, sign: str, word: str) -> str:
        return sign if "utf" in (sys.stdout.encoding or "").lower() else word


@value(frozen=False)
class Demo:
    """The story, told once."""

    show: Show
    state_dir: Path
    settings: Sequence[str]

    async def run(self) -> None:
        """All of it."""
        (self.state_dir / "work").mkdir()
        self.show.heading("tmuxmcp: an MCP server over stdio, and tmux behind it")
        async with self._server() as tools:
            await self._session(tools)
            await self._commands(tools)
            await self._editor(tools)
            start = await self._killed_in_the_middle(tools)
        async with self._server() as tools:
            await self._nothing_lost(tools, start)

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[Tools]:
        """The real server, started as any client would start it."""
        begun = time.monotonic()
        flags = ["--config", os.devnull, "--state-dir", str(self.state_dir), *self.settings]
        path = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "tmuxmcp", "serve", *flags], env=path, cwd=self.state_dir / "work"
        )
        before = {process.pid for process in psutil.Process().children()}
        with (self.state_dir / "server.log").open("a") as log:
            async with Client(stdio_client(parameters, errlog=log)) as client:
                [process] = [each for each in psutil.Process().children() if each.pid not in before]
                tools = Tools(client, process)
                names = [tool.name for tool in (await client.list_tools()).tools]
                self.show.check(f"the server answers and offers {len(names)} tools", "run" in names, ms_since(begun))
                yield tools

    async def _session(self, tools: Tools) -> None:
        self.show.heading("A shell of its own")
        bash = shutil.which("bash")
        arguments = {"name": "demo"} | ({"program": bash} if bash else {})
        made = await tools.call("create_session", **arguments)
        self.show.attach_command = made["attach_command"]
        self.show.check(f"{made['program']} is ready at its prompt, pid {made['pid']}", made["ready"], tools.took_ms)

    async def _commands(self, tools: Tools) -> None:
        self.show.heading("Exact output, exit codes, and a shell that remembers")
        await self._command(tools, "uname -sm", 0)
        await self._command(tools, "seq 100000 | tail -n 2", 0, "99999\n100000\n")
        await self._command(tools, "cd /usr && export SEASON='late autumn'", 0, "")
        await self._command(tools, 'echo "$PWD, $SEASON"; cd "$OLDPWD"', 0, "/usr, late autumn\n")
        await self._command(tools, "ls /nowhere/at/all || (exit 3)", 3)

    async def _command(self, tools: Tools, command: str, exit_code: int, expected: str | None = None) -> None:
        self.show.request(f"$ {command}")
        ran = await tools.call("run", command=command, session_id="demo")
        self.show.text(ran["output"])
        good = ran["completed"] and ran["exit_code"] == exit_code and expected in (None, ran["output"])
        self.show.check(f"exit code {ran['exit_code']}", good, tools.took_ms)

    async def _editor(self, tools: Tools) -> None:
        self.show.heading("A full-screen program, by keys")
        if not shutil.which("vim"):
            self.show.request("vim is not installed: left out")
            return
        opened = await self._keys(tools, "vim -u NONE -i NONE -N poem.txt", enter=True)
        self.show.check(f"vim waits for keys: mode {opened['mode']}", opened["mode"] == "editor", tools.took_ms)
        typed = await self._keys(tools, "i" + "\n".join(POEM))
        self.show.text("\n".join(typed["content"].splitlines()[:3]))
        self.show.check("the screen shows what was typed", all(line in typed["content"] for line in POEM))
        closed = await self._keys(tools, "", keys=["Escape", ":", "w", "q"], enter=True)
        self.show.check("the shell is back", closed["mode"] == "shell_prompt", tools.took_ms)
        await self._command(tools, "cat poem.txt", 0, "\n".join([*POEM, ""]))

    async def _keys(self, tools: Tools, text: str, **keys: Any) -> dict[str, Any]:
        named = [*keys.get("keys", []), *(["Enter"] if keys.get("enter") else [])]
        self.show.request(" ".join(["send", *([json.dumps(text)] if text else []), *named]))
        sent = await tools.call("send", text=text, session_id="demo", read="screen", **keys)
        result: dict[str, Any] = sent["result"]
        return result

    async def _killed_in_the_middle(self, tools: Tools) -> int:
        """Start something long and kill the server while it runs; return where its output begins."""
        self.show.heading("kill -9 in the middle")
        self.show.request(f"$ {SLOW_COMMAND}")
        ran = await tools.call("run", command=SLOW_COMMAND, session_id="demo", timeout_ms=600)
        seen = ran["output"].split("\n")[-2:-1]
        running = not ran["completed"] and ran["outcome"] == "timeout" and seen != [f"line {DEMO_ROWS}"]
        self.show.check(f"it runs; so far: {''.join(seen)}", running, tools.took_ms)
        tools.process.kill()
        self.show.request(f"kill -9 {tools.process.pid}")
        start: int = ran["start_offset"]
        return start

    async def _nothing_lost(self, tools: Tools, start: int) -> None:
        read = await tools.call(
            "read", session_id="demo", since=start, wait_for="ready", timeout_ms=20_000, max_bytes=1 << 20
        )
        lines = [line for line in read["content"].split("\n") if line.startswith("line ")]
        whole = lines == [f"line {number}" for number in range(1, DEMO_ROWS + 1)]
        self.show.text("\n".join([*lines[:1], "...", *lines[-1:]]))
        self.show.check(f"{len(lines)} of {DEMO_ROWS} lines are there, in order", whole, tools.took_ms)
        await self._command(tools, "echo $?", 0, "5\n")


@value(frozen=False)
class Tools:
    """The server's tools, called."""

    client: Client
    process: psutil.Process
    took_ms: int = 0
    """How long the last call took, as the client sees it."""

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured result."""
        begun = time.monotonic()
        result = await self.client.call_tool(name, arguments, read_timeout_seconds=30)
        self.took_ms = ms_since(begun)
        if result.is_error or result.structured_content is None:
            raise RuntimeError(f"{name}: {getattr(result.content[0], 'text', 'no text')}")
        structured: dict[str, Any] = result.structured_content
        return structured


def clean_up(state_dir: Path) -> None:
    """End the demo's tmux server with all that runs in it, and remove its directory."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # A server of ours that was killed may have left one that begins just now, and has not written its number down.
    for _ in range(3):
        if not (servers := _tmux_processes(state_dir)):
            break
        running = [*servers, *(child for server in servers for child in _below(server))]
        with suppress(subprocess.TimeoutExpired):  # then they are killed
            argv = [find_tmux()[0], "-S", str(state_dir / "tmux.sock"), "kill-server"]
            subprocess.run(argv, capture_output=True, timeout=5, check=False)
        for process in psutil.wait_procs(running, timeout=2)[1]:
            with suppress(psutil.Error):
                process.kill()
    shutil.rmtree(state_dir, ignore_errors=True)


def _tmux_processes(state_dir: Path) -> list[psutil.Process]:
    """The demo's tmux server, one that begins, and the clients of either."""
    words = {f"-S{state_dir / 'tmux.sock'}", str(state_dir / "tmux.sock"), str(state_dir / "tmux")}
    found = psutil.process_iter(["cmdline"])
    return [each for each in found if words.intersection(each.info["cmdline"] or ())]


def _below(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return process.children(recursive=True)
    return []


def server_command() -> list[str]:
    """How a client starts this tmuxmcp: absolute words."""
    script = Path(sys.executable).with_name("tmuxmcp")
    if script.exists():
        return [str(script)]
    return [sys.executable, "-m", "tmuxmcp"]


def _cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".split("\n")[0]


def _tail(path: Path) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-20:])
    except OSError:
        return ""
