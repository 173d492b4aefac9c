"""Panes with our launcher and our sink, without a broker."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from tests.conftest import eventually
from tmuxmcp.machine.environment import find_program
from tmuxmcp.machine.launch import launch
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import RawLog
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import NewPane, Pane
from tmuxmcp.tmux.server import Tmux

SENTINEL = re.compile(rb"\x1b\]7777;tmuxmcp;[0-9a-f]+;(\d+);([A-Z0-9+-]*)\x07")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "tmux-256color", "LANG": "C.UTF-8", "HOME": "/"}


@pytest.fixture
async def tmux(anyio_backend: str, state_dir: Path) -> AsyncIterator[Tmux]:
    """Our tmux server, connected."""
    server = Tmux(state_dir)
    async with anyio.create_task_group() as task_group:
        await server.open(task_group)
        yield server
        server.close()
        task_group.cancel_scope.cancel()


@dataclass
class Launched:
    """A program in a pane of its own."""

    tmux: Tmux
    pane: Pane
    directory: Path

    async def look(self) -> Pane:
        pane = await panes.find_pane(self.tmux, self.pane.pane_id, self.pane.id)
        assert pane
        return pane

    async def ended(self, timeout: float = 20) -> Pane:
        """The pane, once its program has ended."""

        async def dead() -> Pane | None:
            pane = await self.look()
            return pane if pane.dead else None

        return await eventually(dead, timeout)

    def log(self) -> bytes:
        """What the sink wrote."""
        return (self.directory / "out.raw").read_bytes()

    def output(self) -> bytes:
        """What the program printed: without the launcher's last words, newlines as they were."""
        return SENTINEL.sub(b"", self.log()).replace(b"\r\n", b"\n")

    @property
    def pid(self) -> int:
        return int((self.directory / "pid").read_text())

    async def started(self) -> int:
        """The program's process id."""
        await eventually(lambda: (self.directory / "pid").exists())
        return self.pid

    async def type(self, data: bytes) -> None:
        assert await panes.type_input(self.tmux, await self.look(), data)


_numbers = itertools.count(1)


async def launch_pane(
    tmux: Tmux,
    argv: Sequence[str],
    *,
    executable: str | None = None,
    env: Mapping[str, str] = ENVIRONMENT,
    cwd: str = "/",
    umask: int = 0o022,
    log_max_bytes: int = 256 << 20,
    session_id: str = "",
    shell: Sequence[str] = ("/bin/sh",),
) -> Launched:
    """Start a program as the broker does."""
    session_id = session_id or f"s{next(_numbers)}"
    directory = tmux.state_dir / "sessions" / session_id
    directory.mkdir(mode=0o700, parents=True)
    executable = executable or find_program(argv[0], env["PATH"], cwd)
    launch.write_spec(directory / "spec", executable=executable, argv=argv, env=env, cwd=cwd, umask=umask)
    RawLog(SessionDirectory(directory)).create()
    options = panes.options_of(
        session_id=session_id,
        program=argv[0],
        args=argv[1:],
        created="",
        owner="",
        log=str(directory / "out.raw"),
        scrollback=100,
        nonce="",
    )
    new = NewPane(
        options=options,
        argv=[*shell, *launch.launcher_argv(directory, secrets.token_hex(8))[1:]],
        pipe=launch.sink_argv(directory, log_max_bytes),
        cols=80,
        rows=24,
        history_limit=100,
    )
    return Launched(tmux, await panes.new_session(tmux, new), directory)
