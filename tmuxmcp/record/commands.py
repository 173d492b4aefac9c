"""`commands.jsonl`: which commands of a session's shell have ended, and what callers typed. Every broker appends to it.

A command is written down before the checkpoint behind its end (`checkpoint`): whoever scans the log from there on knows
all of them. It may be written down twice, by two brokers or because a later mark ended it again: the last line of a
number counts. The file is bounded: once it is full it becomes `commands.1.jsonl`, and what that held is forgotten, but
for how many there were.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from tmuxmcp.contract.errors import IoError
from tmuxmcp.contract.value import fields, value
from tmuxmcp.machine.locks import take
from tmuxmcp.machine.ownfiles import OWN_FILE_BYTES, open_file, read_part, write_atomically
from tmuxmcp.record.directory import SessionDirectory, open_directory
from tmuxmcp.terminal.marks import Promise, hash_of

COMMANDS_FILE_BYTES = 256 * 1024
"""Bytes of one of the two files, which hold several hundred commands at least."""

MOST_INPUTS = 256
"""Inputs that are remembered: more than are typed between two looks at the commands."""

FILE_HEAD_BYTES = 100
"""Bytes at the beginning of a file by which it is told from another one."""

By = Literal["agent", "person", "other"]
"""Who typed a command: a call of ours, a person where that is known, somebody else."""


@value
class EndedCommand:
    """A command that the shell has ended."""

    number: int
    """Of the shell's prompt: never used again in this session."""
    text: str | None
    """None: not known."""
    by: By
    exit_code: int | None
    """None: it ended with its shell, and nobody tells."""
    began: float | None
    """In seconds since 1970; None: not known."""
    ended: float | None
    cwd: str | None
    """Working directory at its end."""
    start: int
    """Its output lies between these offsets."""
    end: int
    level: int = 0
    """Of the shell that ran it; 0: the session's own."""
    proven: bool = False
    """Its shell has proved its end."""
    job: str = ""
    """The name under which it was given to its shell, by a call of ours."""
    stdin: bool = False
    """It read what that call gave it, instead of the terminal."""
    caller: str = ""
    """Which caller typed it; empty: none of ours, or that is not known."""


@value
class TypedInput:
    """Something that was typed by a call, or by a person through us."""

    offset: int
    """Size of the log just before."""
    text: str | None
    """None: keys beside the text, or a terminal that may not have shown it."""
    whole: bool = False
    """It is the whole command: what stood on the line before was cleared."""
    job: str = ""
    """The name under which the shell's marks have it."""
    promise: Promise | None = None
    """What the shell will prove its end by; None: it was given no proof."""
    by: By = "agent"
    """Who typed it."""
    stdin: bool = False
    """The command reads what the call gave with it, instead of the terminal."""
    caller: str = ""
    """Who made the call; empty: that is not known."""
    lines: int = 1
    """How many lines were entered: so many commands it can begin at most."""
    read_by: int = 0
    """Number of the command that waited for this as its input; 0: no command was seen to."""


ADDED_FIELDS = ("stdin", "caller", "lines", "read_by")
"""Fields of an input that a line has only where they say something: versions before knew none of them."""


class CommandFile:
    """One session's `commands.jsonl`."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._directory = directory
        self._path, self._before = directory.commands, directory.commands_before
        self._seen = (0, 0, 0)
        """Which file was read last, when it had been written to, and its size then."""
        self._head: bytes | None = None
        """How it begins."""
        self._read_to = 0
        self.ended: dict[int, EndedCommand] = {}
        self.numbers: list[int] = []
        """Of all these, rising."""
        self.typed: deque[TypedInput] = deque(maxlen=MOST_INPUTS)
        """Newest last."""
        self.forgotten = 0
        """How many ended before those."""
        self._turn = 0
        """How often the file was full: no two begin alike."""
        self.first = 0
        """All commands with a lower number are forgotten: who scans the log anew does not bring them back."""

    def read_on(self) -> None:
        """Take in what anybody has written down since; mostly that is one look at the file."""
        seen = _file_version(self._path)
        if seen == self._seen or not self._directory.is_there:
            return
        head = _head(self._path)
        if self._head is None or not head.startswith(self._head):  # an inode's number says nothing: it is given again
            same = self._head is not None and _head(self._before).startswith(self._head)
            if not same:
                self.typed.clear()
            self._take(self._before, self._read_to if same else 0)
            self._read_to = 0
        self._head, self._seen = head, seen
        self._read_to += self._take(self._path, self._read_to)

    def type(self, typed: TypedInput) -> bool:
        """Write down what is about to be typed; whether that was done: a failure is no reason to fail."""
        named: dict[str, Any] = {"job": typed.job} if typed.job else {}
        if typed.promise:
            named["promise"] = vars(typed.promise)
        named |= {} if typed.by == "agent" else {"by": typed.by}
        named |= {name: value for name in ADDED_FIELDS if (value := getattr(typed, name)) != getattr(TypedInput, name)}
        line = _line({"typed": typed.offset, "text": typed.text, "whole": typed.whole, **named})
        try:
            while not self._add(line, typed):
                pass  # it went into a file that was given up just then
        except OSError:
            return False
        return True

    def input_of_job(self, job: str) -> TypedInput | None:
        """The input that was given to its shell under this name."""
        return next((each for each in reversed(self.typed) if each.job == job), None)

    def promised(self, job: str = "", done: str = "") -> TypedInput | None:
        """The newest input of which a proof was promised: of a name, or the one whose proof has this half for D."""
        done = hash_of(done) if done else ""
        for typed in reversed(self.typed):
            if typed.promise and (typed.promise.done == done if done else typed.job == job):
                return typed
        return None

    def end(self, commands: Iterable[EndedCommand]) -> bool:
        """Write down those that are not there yet; whether they are there now."""
        try:
            with self._open() as fd:
                if not take(fd) or not _is_at(fd, self._path):
                    return False  # another broker writes at this moment
                self.read_on()
                new = [each for each in commands if not self.has(each.number, each.exit_code, each.end)]
                os.write(fd, b"".join(_line(vars(each)) for each in new))
                if os.fstat(fd).st_size > COMMANDS_FILE_BYTES:
                    self._turn_over()
        except OSError:
            return False
        self.read_on()
        return True

    def has(self, number: int, exit_code: int | None, end: int) -> bool:
        """Whether a command's end is written down, or was and is forgotten.

        Clocks, and who typed it, may be told differently by two brokers: they do not count.
        """
        known = self.ended.get(number)
        return number < self.first or (known is not None and (known.exit_code, known.end) == (exit_code, end))

    # ---- files ---------------------------------------------------------------------------------

    @contextmanager
    def _open(self) -> Iterator[int]:
        """The file, to be written to behind its last whole line.

        Raises:
            OSError: it cannot be, or the directory is another session's by now.
        """
        if not self._directory.is_there:
            raise FileNotFoundError(self._path)
        fd = open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            state = os.fstat(fd)
            whole = self._is_read(state)
            if not whole and state.st_size and os.pread(fd, 1, state.st_size - 1) != b"\n":  # a full disk cut it short
                os.write(fd, b"\n")
            yield fd
        finally:
            os.close(fd)

    def _add(self, line: bytes, typed: TypedInput) -> bool:
        """Append the line of an input; whether the file is still in use."""
        with self._open() as fd:
            before = os.fstat(fd)
            os.write(fd, line)
            after = os.fstat(fd)
            in_use = _is_at(fd, self._path)
            if in_use and after.st_size > COMMANDS_FILE_BYTES and take(fd):
                self._turn_over()
            elif in_use and self._is_read(before) and after.st_size == before.st_size + len(line):
                # Nobody else has written meanwhile, so that it need not be read.
                self.typed.append(typed)
                self._read_to, self._seen = after.st_size, _version(after)
            return in_use

    def _is_read(self, state: os.stat_result) -> bool:
        """Whether all of the file as it is now was read, to the end of a line."""
        return _version(state) == self._seen and self._read_to == state.st_size

    def _turn_over(self) -> None:
        """Begin a new file: without the older inputs, or where commands fill it, without the one before the last."""
        self.read_on()
        lines = _lines(self._path, 0).splitlines(keepends=True)
        commands = [line for line in lines if line.startswith(b'{"number"')]
        if sum(map(len, commands)) < COMMANDS_FILE_BYTES / 2:
            self._leave_out_inputs(commands, [line for line in lines if line.startswith(b'{"typed"')])
            return
        kept = {values["number"] for values in _values(b"".join(commands)) if "number" in values}
        first = max((number for number in self.numbers if number not in kept), default=0) + 1
        gone = sum(1 for number in self.numbers if number < first)
        os.replace(self._path, self._before)
        with self._open() as fd:
            os.write(fd, self._beginning(self.forgotten + gone, first))

    def _leave_out_inputs(self, commands: list[bytes], typed: list[bytes]) -> None:
        """Keep the commands, and of what was typed the newest."""
        room, first = COMMANDS_FILE_BYTES // 4, len(typed)
        while first and len(typed[first - 1]) <= room:
            first -= 1
            room -= len(typed[first])
        text = self._beginning(self.forgotten, self.first) + b"".join(commands + typed[first:])
        write_atomically(self._path, text.decode())

    def _beginning(self, forgotten: int, before: int) -> bytes:
        return _line({"forgotten": forgotten, "before": before, "turn": self._turn + 1})

    def _take(self, path: Path, start: int) -> int:
        """Take in the whole lines from an offset of a file; how many bytes those were."""
        data = _lines(path, start)
        for values in _values(data):
            with suppress(KeyError, TypeError, ValueError):
                self._take_line(values)
        return len(data)

    def _take_line(self, values: dict[str, Any]) -> None:
        if "typed" in values:
            promise = Promise(**values["promise"]) if "promise" in values else None
            by: By = "person" if values.get("by") == "person" else "agent"
            added = {name: values[name] for name in ADDED_FIELDS if name in values}
            whole, job = bool(values["whole"]), values.get("job", "")
            self.typed.append(TypedInput(int(values["typed"]), values["text"], whole, job, promise, by, **added))
        elif "forgotten" in values:
            self._forget(int(values["forgotten"]), int(values["before"]))
            self._turn = int(values.get("turn", 0))
        else:
            command = EndedCommand(**{each: values[each] for each in fields(EndedCommand) if each in values})
            if command.number < self.first:
                return
            if command.number not in self.ended:
                insort(self.numbers, command.number)
            self.ended[command.number] = command

    def _forget(self, count: int, before: int) -> None:
        """Forget the commands before a number; so many are forgotten in all."""
        while self.numbers and self.numbers[0] < before:
            del self.ended[self.numbers.pop(0)]
        self.forgotten, self.first = count, max(self.first, before)


def _file_version(path: Path) -> tuple[int, int, int]:
    """Which file there is, when it was last written to, and its size."""
    try:
        state = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return _version(state)


def _version(state: os.stat_result) -> tuple[int, int, int]:
    return (state.st_ino, state.st_mtime_ns, state.st_size)


def _is_at(fd: int, path: Path) -> bool:
    """Whether an open file is the one at this path."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False


def _head(path: Path) -> bytes:
    """How a file begins: its first line, or as much of that as tells it from others."""
    try:
        with os.fdopen(open_file(path), "rb") as file:
            return file.readline(FILE_HEAD_BYTES)
    except OSError:
        return b""


def _lines(path: Path, start: int) -> bytes:
    """The whole lines of a file from an offset."""
    try:
        fd = open_file(path)
        try:
            data = read_part(fd, OWN_FILE_BYTES, start)
        finally:
            os.close(fd)
    except OSError:
        return b""
    return data[: data.rfind(b"\n") + 1]


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _values(lines: bytes) -> Iterator[dict[str, Any]]:
    for line in lines.splitlines():
        with suppress(ValueError, RecursionError):
            values = json.loads(line)
            if isinstance(values, dict):
                yield values


# ---- A command on its way to a shell that reads commands from files --------------------------------------------------
#
# Written once, read once, then emptied by the shell.
#
# The shell is told the file's name by a key. What it has not read can be taken back: it never runs then. An emptied
# file is kept for the next command: some file systems take longer to make a file than a shell takes to run `true`.

SPARE_NAME = os.path.basename(SessionDirectory.given_spare.name)
"""Name of the emptied file. Whoever renames it has it: no two commands come into one file."""


class GivenCommand:
    """The file of one command."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._path

    @property
    def waits(self) -> bool:
        """The shell has not read it; false as well where that cannot be told."""
        with suppress(OSError), open_directory(self._path.parent) as place:
            return os.stat(self._path.name, dir_fd=place, follow_symlinks=False).st_size > 0
        return False

    def take_back(self) -> None:
        """Remove it; a shell that comes for it later finds nothing, and says so."""
        with suppress(OSError), open_directory(self._path.parent) as place:
            os.unlink(self._path.name, dir_fd=place)

    def tidy(self) -> None:
        """Keep it for the next command if the shell has read it, and so emptied it."""
        with suppress(OSError), open_directory(self._path.parent) as place:
            if os.stat(self._path.name, dir_fd=place, follow_symlinks=False).st_size == 0:
                os.rename(self._path.name, SPARE_NAME, src_dir_fd=place, dst_dir_fd=place)

    def take_back_earlier(self) -> None:
        """Remove what earlier calls left: nobody waits for those commands any more."""
        with suppress(OSError), open_directory(self._path.parent) as place:
            for name in os.listdir(place):
                if name not in (self._path.name, SPARE_NAME):
                    os.unlink(name, dir_fd=place)


def place_of(directory: SessionDirectory) -> Path | None:
    """Where the shell of a session looks for commands; None where it does not."""
    return next((path for path in (directory.given, directory.given_within) if path.is_dir()), None)


def give(place: Path, name: str, text: bytes) -> GivenCommand:
    """Write a command.

    Raises:
        IoError: it cannot be written.
    """
    try:
        with open_directory(place) as directory, open(_file(name, directory), "wb") as stream:
            stream.write(text + b"\0")
    except OSError as error:
        raise IoError(f"The command cannot be written to {place}: {error.strerror}. Nothing was run.") from error
    return GivenCommand(place / name)


def _file(name: str, place: int) -> int:
    """An empty file of this name, to be written to. Programs in a sandbox may write here as well: no link is followed.

    Raises:
        OSError
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        if _is_empty_file(os.stat(SPARE_NAME, dir_fd=place, follow_symlinks=False)):
            os.rename(SPARE_NAME, name, src_dir_fd=place, dst_dir_fd=place)
            # One that a pipe was put in place of just now is not waited for.
            return os.open(name, flags | os.O_NONBLOCK, dir_fd=place)
    return os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=place)


def _is_empty_file(state: os.stat_result) -> bool:
    ours = state.st_uid == os.geteuid() and stat.S_IMODE(state.st_mode) == 0o600
    return stat.S_ISREG(state.st_mode) and state.st_size == 0 and state.st_nlink == 1 and ours


# ---- What a command reads instead of the terminal --------------------------------------------------------------------
#
# A file of the session's own, there until its shell has opened it.
#
# The bytes never pass through the terminal, its log or the shell's history: only the file's path is typed. A file is
# called after the number of the prompt at which its command is typed: once the shell is at a later one, it is left
# over. What runs in a sandbox can put a link in the directory's place, so nothing here follows one.

LEFT_S = 5.0
"""Between looking at the prompt and typing a broker needs less: so long a file of an earlier prompt may be needed."""

REMOVED_AT_ONCE = 100
"""Files that are removed at once: what runs in a sandbox may put any number there."""


class Stdin:
    """The file of one command."""

    def __init__(self, directory: SessionDirectory, data: bytes, *, number: int, within: bool) -> None:
        """Write it.

        Args:
            number: of the prompt at which its command is typed.
            within: the session is in a sandbox, which sees a part of its directory alone.

        Raises:
            IoError: it cannot be written.
        """
        place = directory.resolved().stdin_within if within else directory.stdin
        self.path = place / f"{number}-{secrets.token_hex(8)}"
        self._there = True
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            with open_directory(place) as fd:
                _write(self.path.name, fd, data)
        except OSError as error:
            raise IoError(f"stdin cannot be handed over: {self.path} cannot be written: {error.strerror}.") from error

    def remove_once_opened(self, pid: int | None) -> None:
        """Remove it if this process, the shell, has it open."""
        if self._there and pid and _has_open(pid, self.path):
            self.remove()

    def remove(self) -> None:
        """Remove it: nobody opens it any more."""
        self._there = False
        with suppress(OSError), open_directory(self.path.parent) as fd:
            os.unlink(self.path.name, dir_fd=fd)


def remove_left(directory: SessionDirectory, number: int | None = None) -> None:
    """Remove what commands before a prompt have left, as a killed broker does; None: all, as the session is over."""
    # Mostly there is none, as no command has read anything else: an exception would cost ten times as much.
    places = [place for place in (directory.stdin, directory.stdin_within) if os.access(place, os.F_OK)]
    if not places or not directory.is_there:
        return
    for place in places:
        with suppress(OSError), open_directory(place) as fd, os.scandir(fd) as files:
            for name in [each.name for each in islice(files, REMOVED_AT_ONCE)]:
                with suppress(OSError):
                    if number is None or _is_left(name, fd, number):
                        os.unlink(name, dir_fd=fd)


def _is_left(name: str, place: int, number: int) -> bool:
    its = name.partition("-")[0]
    earlier = not its.isdecimal() or int(its) < number
    return earlier and time.time() - os.stat(name, dir_fd=place, follow_symlinks=False).st_mtime > LEFT_S


def _write(name: str, place: int, data: bytes) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=place), "wb") as file:
        file.write(data)


def _has_open(pid: int, path: Path) -> bool:
    wanted = os.path.realpath(path)
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == wanted:
                    return True
    return False
