"""Where each shell's program waits at its prompt: found out once, with a shell of its own on a terminal of its own.

That shell reads no start-up file and has a prompt that we chose: when that is shown and the shell waits, it is at its
prompt, and where it waits on its stack is where every shell of this program waits there (measured: equal to the byte
whatever the environment, options, prompt and history are). It is started once for each program and way of editing.
"""

from __future__ import annotations

import os
import re
import select
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator

import anyio
import anyio.to_thread

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine import proc
from tmuxmcp.machine.launch.shells.record import BARE_PROMPT
from tmuxmcp.machine.witness.front import Front
from tmuxmcp.machine.witness.stack import Stack, stack_of

PROOF_S = 3.0
"""How long one such shell may take; 0.1 is usual."""

SYSTEM_PROGRAMS = ("/usr/", "/bin/", "/nix/store/", "/gnu/store/")
"""Where programs lie that are the system's own."""

FAILED_AGAIN_S = 60.0
"""After this time one that did not come to its prompt is tried again."""

MOST_KNOWN = 64
"""Programs that are remembered, in all their ways."""

_CONTROL_SEQUENCE = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[P\]][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>]|[\x08\x0f\r]"
)
_ASKS_TERMINAL = re.compile(rb"\x1b\[(0?c|6n)")
_KEPT_VARIABLES = ("LANG", "LANGUAGE", "TERM")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.@:+-]{1,64}")


@dataclass(frozen=True)
class _WayToStart:
    """How a shell is started for us."""

    path: str
    name: str
    """By which it is called: some programs are many, and go another way for each."""
    file: tuple[int, int, int]
    """Device, inode and time of the last change of its program."""
    options: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


class Proven:
    """The places at which shells are known to wait at their prompt."""

    def __init__(self) -> None:
        self._known: dict[_WayToStart, tuple[Stack | None, float]] = {}
        self._measuring = anyio.Lock()

    async def is_at_prompt(self, front: Front) -> bool | None:
        """Whether a shell waits where its program waits at its prompt; None: it cannot be told.

        It takes a few 100 ms when nothing is known of this program yet, and never longer than some seconds.
        """
        try:
            seen = stack_of(front.pid)
            ways = list(_ways(front))
        except (OSError, ValueError, IndexError):
            return None
        if seen is None or not seen.is_known or not ways:
            return None
        told = set[bool | None]()
        for way in ways:
            place = await self._place(way, front.shell.exercise)
            told.add(place.fits(seen) if place else None)
            if True in told:
                return True
        return None if None in told else False

    async def _place(self, way: _WayToStart, exercise: tuple[bytes, ...]) -> Stack | None:
        async with self._measuring:
            now = time.monotonic()
            known = self._known.get(way)
            if known is None or (known[0] is None and now - known[1] > FAILED_AGAIN_S):
                found = await anyio.to_thread.run_sync(_measure, way, exercise, abandon_on_cancel=True)
                while len(self._known) >= MOST_KNOWN:
                    del self._known[next(iter(self._known))]
                known = self._known[way] = found, now
            return known[0]


def _ways(front: Front) -> Iterator[_WayToStart]:
    """How to start the program of a shell so that it waits as that does; none where it is not to be trusted.

    Raises:
        OSError: it is gone, or not ours to look at.
    """
    path = os.readlink(f"/proc/{front.pid}/exe")
    found, own = os.stat(f"/proc/{front.pid}/exe"), os.stat(path)
    if (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino):
        return  # of another root
    if not _is_of_system(path, own):
        return
    file = (own.st_dev, own.st_ino, own.st_mtime_ns)
    environment = _environment(front.pid)
    for options in front.shell.bare(front.canonical):
        yield _WayToStart(path, front.called, file, (*front.applet, *options), environment)


def _is_of_system(path: str, found: os.stat_result) -> bool:
    """Whether a program is the system's own. No other one is run: whoever is in a sandbox could have made it."""
    return found.st_uid == 0 and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and path.startswith(SYSTEM_PROGRAMS)


def _environment(pid: int) -> tuple[tuple[str, str], ...]:
    """What the shell has of what may matter: its language and its terminal's type."""
    kept: dict[str, str] = {}
    for each in proc.environment(pid):
        name, _, value = os.fsdecode(each).partition("=")
        if (name in _KEPT_VARIABLES or name.startswith("LC_")) and _PLAIN_WORD.fullmatch(value):
            kept[name] = value
    return tuple(sorted(kept.items()))


def _measure(way: _WayToStart, exercise: tuple[bytes, ...]) -> Stack | None:
    """Start the shell, and see where it waits at several prompts."""
    deadline = time.monotonic() + PROOF_S
    own = {"PATH": os.defpath, "HOME": "/dev/null", "PS1": BARE_PROMPT, "ENV": "", "HISTFILE": "/dev/null"}
    controller, terminal = os.openpty()
    try:
        with tempfile.TemporaryDirectory(prefix="tmuxmcp-") as directory:
            called = os.path.join(directory, way.name)
            os.symlink(way.path, called)
            # Whoever opens it as the leader of a session has it for its terminal.
            start = ["/bin/sh", "-c", 'exec 0<>"$0" >&0 2>&0; exec "$@"', os.ttyname(terminal), called, *way.options]
            shell = subprocess.Popen(
                start,
                env={**own, **dict(way.environment)},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                return _prompts(shell.pid, controller, exercise, deadline)
            finally:
                shell.kill()
                shell.wait()
    except (OSError, ValueError):
        return None
    finally:
        os.close(terminal)
        os.close(controller)


def _prompts(pid: int, controller: int, exercise: tuple[bytes, ...], deadline: float) -> Stack | None:
    place: Stack | None = None
    for keys in exercise:
        if keys:
            os.write(controller, keys)
        found = _rests(pid, controller, len(keys) > 0, deadline)
        if found is None:
            return None
        if place and (place.call, place.depth) != (found.call, found.depth):
            return None
        place = place.common(found) if place else found
    return place


def _rests(pid: int, controller: int, after_enter: bool, deadline: float) -> Stack | None:
    """Where it waits once it has shown our prompt, behind a new line if something was entered; None: it does not."""
    printed, before = b"", None
    while (now := time.monotonic()) < deadline:
        ready, _, _ = select.select([controller], [], [], min(0.01, deadline - now))
        if ready:
            data = os.read(controller, 65536)
            printed += data
            for asked in _ASKS_TERMINAL.findall(data):
                os.write(controller, b"\x1b[1;1R" if asked == b"6n" else b"\x1b[?62;c")
            before = None
            continue
        text = _CONTROL_SEQUENCE.sub(b"", printed)
        shown = text.rstrip().rpartition(b"\n")[2].strip().endswith(BARE_PROMPT.strip().encode())
        if not shown or (after_enter and b"\n" not in text):
            continue
        found = stack_of(pid)
        if found and found == before:
            return found
        before = found
    return None


PROVEN = Proven()
"""Of this process: programs do not change from session to session."""
