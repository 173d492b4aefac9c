"""Secrets unlike anything else, and the search for them: files, processes, tmux, answers; in any common spelling.

A test that types a secret somewhere makes one with `Canaries`, types it, and asserts that `everywhere` is empty.
"""

from __future__ import annotations

import base64
import json
import os
import pty
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.conftest import SLOW, TMUX
from tests.kit.agent import Agent, eventually

AWKWARD = " '\"$\\`;"
"""Behind each secret: what quoting would change. The search is for what stands before it."""


def spellings(word: str) -> Iterator[bytes]:
    """How a word may stand somewhere: as text, base64, hexadecimal, octal, in 16 bits."""
    data = word.encode()
    yield data
    yield data[::-1]
    for shift in range(3):  # base64 has three, by where the word begins; what hangs on its surroundings is cut
        whole = base64.b64encode(b"\0" * shift + data)
        yield whole[(4 if shift else 0) : len(whole) // 4 * 4 - 4]
    for code in (f"{data.hex()}", data.hex(" "), data.hex(":"), "\\x" + data.hex("-").replace("-", "\\x")):
        yield code.encode()
        yield code.upper().encode()
    yield "".join(f"\\{byte:03o}" for byte in data).encode()
    yield word.encode("utf-16-le")
    yield word.encode("utf-16-be")


class Canaries:
    """Secrets by name."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        self._spellings: dict[str, tuple[bytes, ...]] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self.of:
            self.add(name, f"canary{os.urandom(9).hex()}")
        return self.of[name]

    def add(self, name: str, text: str) -> None:
        """Search for this text as well."""
        self.of[name] = text
        self._spellings[name] = tuple(spellings(text))

    def forget(self, name: str) -> None:
        """Search for it no more."""
        del self.of[name], self._spellings[name]

    def awkward(self, name: str) -> str:
        """The same with characters behind it that quoting changes."""
        return self[name] + AWKWARD

    def found_in(self, data: bytes | str) -> list[str]:
        """Which of them stand in the data, also where lines were broken."""
        raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        whole = (raw, raw.replace(b"\r", b"").replace(b"\n", b""))
        return [name for name, all_of in self._spellings.items() if any(s in w for s in all_of for w in whole)]

    def found(self, places: Iterable[tuple[str, bytes | str]]) -> dict[str, list[str]]:
        """Where they stand, of places by name."""
        return {where: found for where, data in places if (found := self.found_in(data))}


def files(*roots: Path, but: Iterable[Path] = ()) -> Iterator[tuple[str, bytes]]:
    """Every file below directories: its name, links' targets and what is in it."""
    left_out = {path.absolute() for path in but}
    for root in roots:
        for top, directories, names in os.walk(root):
            for name in (*directories, *names):
                path = Path(top, name)
                if path.absolute() in left_out:
                    continue
                yield f"name of {path}", os.fsencode(path)
                with suppress(OSError):
                    if path.is_symlink():
                        yield f"target of {path}", os.fsencode(os.readlink(path))
                    elif path.is_file():
                        yield str(path), path.read_bytes()


def processes() -> Iterator[tuple[str, bytes]]:
    """What the kernel shows of all processes: words and variables."""
    for pid in (name for name in os.listdir("/proc") if name.isdecimal()):
        for kind in ("cmdline", "environ", "comm"):
            with suppress(OSError):
                yield f"{kind} of {pid}", Path(f"/proc/{pid}/{kind}").read_bytes()


@contextmanager
def watched_processes(canaries: Canaries) -> Iterator[dict[str, list[str]]]:
    """What `processes` shows of secrets until this is left, by one look after the other."""
    found: dict[str, list[str]] = {}
    over = threading.Event()
    known: dict[str, bytes] = {}

    def changed() -> Iterator[tuple[str, bytes]]:
        for where, data in processes():
            if known.get(where) != data:
                known[where] = data
                yield where, data

    def watch() -> None:
        while not over.wait(0.005):
            found.update(canaries.found(changed()))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def tmux(state_dir: Path, *words: str) -> bytes:
    """What a tmux command prints."""
    argv = [TMUX, "-S", str(state_dir / "tmux.sock"), *words]
    return subprocess.run(argv, capture_output=True, check=False, timeout=10 * SLOW).stdout


def kept_by_tmux(state_dir: Path) -> Iterator[tuple[str, bytes]]:
    """All that tmux tells anybody: buffers, messages, options, environments, panes, screens with what scrolled away."""
    for words in ("list-buffers", "show-messages", "show-environment -g", "show-options -s", "show-options -g"):
        yield words, tmux(state_dir, *words.split())
    for buffer in tmux(state_dir, "list-buffers", "-F", "#{buffer_name}").decode().split():
        yield f"buffer {buffer}", tmux(state_dir, "show-buffer", "-b", buffer)
    yield "panes", tmux(state_dir, "list-panes", "-a", "-F", "#{pane_start_command} #{pane_title} #{pane_current_path}")
    for pane in tmux(state_dir, "list-panes", "-a", "-F", "#{pane_id}").decode().split():
        yield f"environment of {pane}", tmux(state_dir, "show-environment", "-t", pane)
        yield f"options of {pane}", tmux(state_dir, "show-options", "-p", "-t", pane)
        for alternate in ([], ["-a", "-q"]):
            yield f"screen of {pane}", tmux(state_dir, "capture-pane", "-p", "-J", "-S", "-", *alternate, "-t", pane)


def texts(session_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls that give all that a session printed, and the commands that it noticed."""
    session = {"session_id": session_id}
    yield "read", session | {"view": "scrollback"}
    yield "read", session | {"view": "raw", "since": 0, "max_bytes": 1 << 20}
    yield "list_commands", session


def calls(session_id: str, past_offsets: Iterable[int] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls of all operations that tell what happened in a session, now and on past screens."""
    session = {"session_id": session_id}
    yield from texts(session_id)
    for view in ("screen", "diff", "new"):
        yield "read", session | {"view": view}
    yield "read", session | {"since": 0, "format": "ansi", "max_bytes": 1 << 20}
    for offset in past_offsets:
        yield "read", session | {"view": "screen", "at_offset": offset}
    yield "search", session | {"pattern": "(?s).", "limit": 10_000}
    yield "get_session", session
    for picture in ("svg", "html"):
        yield "screenshot", session | {"format": picture}
    for film in ("cast", "txt", "svg", "jsonl"):
        yield "export_recording", session | {"format": film}
    yield "wait", {"session_ids": [session_id], "timeout_ms": 0}
    for name in ("list_sessions", "health"):
        yield name, {}


def answers(agent: Agent, asked: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, str]]:
    """What an agent is told by these calls; what cannot be told, too."""
    for tool, arguments in asked:
        yield f"{tool} {json.dumps(arguments)}", agent.raw(tool, **arguments).model_dump_json()


class Person:
    """Somebody at a terminal of their own, attached to a session so that they can type."""

    def __init__(self, state_dir: Path, session_id: str) -> None:
        self.seen = bytearray()
        self._fd, theirs = pty.openpty()
        argv = [TMUX, "-S", str(state_dir / "tmux.sock"), "attach", "-t", f"={session_id}"]
        env = {"TERM": "xterm", "PATH": os.environ["PATH"]}
        self._client = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
        os.close(theirs)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        eventually(lambda: b"/dev/pts" in tmux(state_dir, "list-clients", "-t", f"={session_id}"))

    def type(self, line: str) -> None:
        """Type a line and Enter."""
        os.write(self._fd, line.encode() + b"\r")

    def leave(self) -> None:
        """Go away."""
        self._client.terminate()
        self._client.wait(10 * SLOW)
        self._reader.join()
        os.close(self._fd)

    def _read(self) -> None:
        with suppress(OSError):
            while data := os.read(self._fd, 65536):
                self.seen += data


@contextmanager
def person_at(state_dir: Path, session_id: str) -> Iterator[Person]:
    """A person who attaches to a session, and leaves at the end."""
    person = Person(state_dir, session_id)
    try:
        yield person
    finally:
        person.leave()
