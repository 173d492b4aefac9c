"""The shell in front: whether the one program that has a terminal is a local shell that may be at its prompt.

Everything here is a fact of the kernel. What a shell with the same facts does at that moment, its prompt or a question,
`proven` tells.
"""

from __future__ import annotations

import os
import re
import select
import stat
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property

import anyio
import anyio.to_thread

from tmuxmcp.contract.value import value
from tmuxmcp.machine import proc
from tmuxmcp.machine.launch.shells import BY_APPLET, BY_FILE
from tmuxmcp.machine.launch.shells.record import BARE_PROMPT, Shell
from tmuxmcp.machine.witness.kernel import MANY_IN_ONE, InputWait, KernelFacts, Process, judge


@value
class Front:
    """A shell that has a terminal for itself and waits for input there."""

    pid: int
    born_s: float
    """When it began, by the clock CLOCK_BOOTTIME, to a hundredth of a second below."""
    shell: Shell
    called: str
    """The name by which its program was called, without a directory."""
    applet: tuple[str, ...]
    """Of a program that is many, if it was called by its own name: which one."""
    canonical: bool
    """It reads whole lines."""
    title: str
    """What a person calls it: its words."""


@value
class NoFront:
    """Why the program in front is not such a shell."""

    why: str
    """Completes `in session X ...`."""
    is_shell: bool = False
    """It is a shell, though not known to be at its prompt."""
    certain: bool = False
    """It is certainly not there."""


def front_of(facts: KernelFacts | None, terminal: proc.Device) -> Front | NoFront:
    """The shell in front.

    Args:
        facts: of the terminal.
    """
    verdict = judge(facts)
    process = verdict.process
    if facts is None or process is None or not verdict.ready or facts.unread:
        return NoFront(f"no program is known to wait for input ({verdict.why})")
    try:
        return _front(facts, process, verdict.waiting, terminal)
    except (OSError, ValueError, IndexError):
        return NoFront(f"what `{process.name}` is cannot be seen: it is another user's, or ends")


def shows_prompts(pid: int) -> bool:
    """Whether a process is a shell that was started without a script or a command."""
    with suppress(OSError, IndexError):
        shell, _, _, options = _shell(pid, proc.argv_text(pid))
        return shell is not None and not not_interactive(shell, options)
    return False


def _front(facts: KernelFacts, process: Process, waiting: InputWait, terminal: proc.Device) -> Front | NoFront:
    words = proc.argv_text(process.pid)
    title = " ".join(words).strip()[:200] or process.name
    shell, called, applet, options = _shell(process.pid, words)
    if shell is None:
        return NoFront(f"`{title}` is no shell that can be adopted")
    if proc.device(f"/proc/{process.pid}/fd/0") != terminal:
        return NoFront(f"`{title}` does not read its commands from the terminal", is_shell=True, certain=True)
    if why := not_interactive(shell, options):
        return NoFront(f"`{title}` {why}, and waits for input", is_shell=True, certain=True)
    if _forked(process.pid):
        return NoFront(f"a subshell of `{title}`, ( ... ), waits for input", is_shell=True, certain=True)
    if waiting is InputWait.SECRET:
        return NoFront(f"`{title}` waits for a line that is not shown", is_shell=True, certain=True)
    if facts.canonical and (not shell.reads_lines or not facts.echo):
        why = f"`{title}` waits for a line, as it does not at its prompt"
        return NoFront(why, is_shell=True, certain=shell.lines_ask)
    if not facts.canonical and (not shell.edits or facts.echo):
        why = f"`{title}` waits for a key, as it does not at its prompt"
        return NoFront(why, is_shell=True, certain=shell.edits)  # its line editor would show what is typed itself
    # Behind what is certain: a start-up file, for one, has no job control, and what it starts is in its shell's group.
    others = [each for each in facts.processes if each.state not in "ZX" and each.pid != process.pid]
    if facts.foreground != process.pid or any(not shell.has_helpers or each.on_terminal for each in others):
        return NoFront(f"`{title}` is not alone in front", is_shell=True)
    if process.on_terminal is not True or not process.main:
        return NoFront(f"`{title}` may wait for something else than its terminal", is_shell=True)
    return Front(process.pid, proc.stat(f"/proc/{process.pid}").born_s, shell, called, applet, facts.canonical, title)


def _shell(pid: int, words: list[str]) -> tuple[Shell | None, str, tuple[str, ...], list[str]]:
    """Which shell a process is (None: none), how it was called, as which applet, and its arguments."""
    file = os.path.basename(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)"))
    if file not in MANY_IN_ONE:
        return BY_FILE.get(file), file, (), words[1:]
    called = os.path.basename(words[0]).removeprefix("-")
    applet = (words[1],) if called in MANY_IN_ONE else ()
    name = applet[0] if applet else called
    return BY_APPLET.get(name), called, applet, words[1 + len(applet) :]


def not_interactive(shell: Shell, options: list[str]) -> str:
    """Why a shell with these arguments shows no prompt: it runs a script or a command; empty: it shows one."""
    words = iter(options)
    from_input = False
    for word in words:
        if word in shell.valued:
            next(words, None)
        elif word in ("-", "--"):
            rest = next(words, None)
            return "" if rest is None or from_input else "runs a script"
        elif word.startswith("--"):
            if word.startswith(("--command", "--no-execute")):
                return "runs a command"
        elif word[:1] in ("-", "+") and len(word) > 1:
            letters = word[1:]
            if "c" in letters and word[0] == "-" and letters[0] not in shell.getopt:
                return "runs a command"
            from_input = from_input or "s" in letters
            if not shell.getopt and letters.endswith(("o", "O")):
                next(words, None)
        elif not from_input:
            return "runs a script"
    return ""


def _forked(pid: int) -> bool:
    """Whether a process runs on the stack of its parent: it was forked, and no new program began in it."""
    parent = proc.stat(f"/proc/{pid}").parent
    with suppress(OSError):
        if os.stat(f"/proc/{pid}/exe").st_ino == os.stat(f"/proc/{parent}/exe").st_ino:
            return proc.stack_start(pid) == proc.stack_start(parent)
    return False


def read_bytes(pid: int) -> int | None:
    """How many bytes a process has read so far, of all files; None where that cannot be seen."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/io") as file:
        for line in file:
            if line.startswith("rchar:"):
                return int(line.split()[1])
    return None


# ---- Where on its stack a process waits ------------------------------------------------------------------------------
#
# A shell at its prompt waits at a place of its own, whatever it asks elsewhere.
#
# A shell's prompt, its builtin `read`, a file that it sources and a subshell can sleep in the same system call on the
# same terminal in the same mode. They do not do so in the same functions: how deep the stack is, and which return
# addresses lie on it, tells them apart (proc(5): `stat`, `syscall`, `mem`). Linux tells that to root and, where Yama
# does not forbid it, to the same user.

DEEPEST_BYTES = 256 * 1024
"""Of a stack that is looked at: a shell that is deeper is not at its prompt."""

SHARED_ADDRESSES = 0.7
"""How many of a proven prompt's return addresses another stack of the same depth must have.

The rest is left over from calls that have returned. Prompts were measured to have 83-100 %, other places 15-55 %.
"""

_WORD_BYTES = struct.calcsize("P")


@value
class Stack:
    """Where one process waits."""

    call: int
    """Number of the system call."""
    depth: int
    """Bytes from where the stack began to where it is now."""
    returns: frozenset[tuple[int, str, int]]
    """What may be return addresses: the depth at which each lies, the program's file or library, the offset in it."""

    def common(self, other: Stack) -> Stack:
        """What two looks at the same place share."""
        return Stack(self.call, self.depth, self.returns & other.returns)

    @cached_property
    def is_known(self) -> bool:
        """Some return addresses could be read."""
        return bool(self.returns)

    def fits(self, other: Stack) -> bool | None:
        """Whether a process waits at this place; None: as deep, and the rest does not tell."""
        if self.depth != other.depth:
            return False
        if not self.is_known or self.call != other.call:
            return None
        return len(self.returns & other.returns) >= SHARED_ADDRESSES * len(self.returns) or None


def stack_of(pid: int) -> Stack | None:
    """Where the main thread of a process waits; None: it does not wait, or waits too deep.

    Raises:
        OSError: it is gone, or not ours to look at.
    """
    seen = proc.waits_in(pid)
    if seen is None:
        return None
    call, pointer = seen
    start = proc.stack_start(pid)
    depth = start - pointer
    if not 0 < depth <= DEEPEST_BYTES:
        return None
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        data = os.pread(file.fileno(), depth, pointer)
    code = list(proc.code_of(pid))
    found = set[tuple[int, str, int]]()
    for at, (word,) in enumerate(struct.iter_unpack("P", data[: len(data) // _WORD_BYTES * _WORD_BYTES])):
        for low, high, name, base in code:
            if low <= word < high:
                found.add((depth - at * _WORD_BYTES, name, word - base))
                break
    return Stack(call, depth, frozenset(found)) if proc.waits_in(pid) == seen else None


# ---- Where each shell's program waits at its prompt ------------------------------------------------------------------
#
# Found out once, with a shell of its own on a terminal of its own.
#
# That shell reads no start-up file and has a prompt that we chose: when that is shown and the shell waits, it is at its
# prompt, and where it waits on its stack is where every shell of this program waits there (measured: equal to the byte
# whatever the environment, options, prompt and history are). It is started once for each program and way of editing.

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


@value
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
