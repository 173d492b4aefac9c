"""`commands.jsonl`: which commands of a session's shell have ended, and what callers typed. Every broker appends to it.

A command is written down before the checkpoint behind its end (`checkpoint`): whoever scans the log from there on knows
all of them. It may be written down twice, by two brokers or because a later mark ended it again: the last line of a
number counts. The file is bounded: once it is full it becomes `commands.1.jsonl`, and what that held is forgotten, but
for how many there were.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from bisect import insort
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from tmuxmcp.contract.errors import IoError
from tmuxmcp.contract.value import value
from tmuxmcp.machine.locks import take
from tmuxmcp.machine.ownfiles import write_atomically
from tmuxmcp.record.directory import SessionDirectory, open_directory
from tmuxmcp.record.documents import Journal, as_line, lines_of, made_of, values_in
from tmuxmcp.terminal.marks import Promise, hash_of

COMMANDS_FILE_BYTES = 256 * 1024
"""Bytes of one of the two files, which hold several hundred commands at least."""

MOST_INPUTS = 256
"""Inputs that are remembered: more than are typed between two looks at the commands."""

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


OPTIONAL_FIELDS = ("job", "promise", "by", "stdin", "caller", "lines", "read_by")
"""Fields of an input that a line has only where they say something: earlier versions knew none of them."""


class CommandFile(Journal):
    """One session's `commands.jsonl`."""

    def __init__(self, directory: SessionDirectory) -> None:
        super().__init__(directory, directory.commands, directory.commands_before)
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

    def type(self, typed: TypedInput) -> bool:
        """Write down what is about to be typed; whether that was done: a failure is no reason to fail."""
        said = {each: value for each in OPTIONAL_FIELDS if (value := getattr(typed, each)) != getattr(TypedInput, each)}
        if typed.promise:
            said["promise"] = vars(typed.promise)
        line = as_line({"typed": typed.offset, "text": typed.text, "whole": typed.whole, **said})
        try:
            while not self._add(line, typed):
                pass  # it went into a file that was given up just then
        except OSError:
            return False
        return True

    def _add(self, line: bytes, typed: TypedInput) -> bool:
        """Append the line of an input; whether the file is still in use."""
        with self.open() as file:
            if file.append(line):
                self.typed.append(typed)
            if file.in_use and file.size > COMMANDS_FILE_BYTES and take(file.fd):
                self._turn_over()
            return file.in_use

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
            with self.open() as file:
                if not take(file.fd) or not file.look():
                    return False  # another broker writes at this moment
                self.read_on()
                new = [each for each in commands if not self.has(each.number, each.exit_code, each.end)]
                lines = b"".join(as_line(vars(each)) for each in new)
                if file.append(lines):
                    self._take(lines)
                if file.size > COMMANDS_FILE_BYTES:
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

    def _turn_over(self) -> None:
        """Begin a new file: without the older inputs, or where commands fill it, without the one before the last."""
        self.read_on()
        lines = lines_of(self.path).splitlines(keepends=True)
        commands = [line for line in lines if line.startswith(b'{"number"')]
        if sum(map(len, commands)) < COMMANDS_FILE_BYTES / 2:
            self._leave_out_inputs(commands, [line for line in lines if line.startswith(b'{"typed"')])
            return
        kept = {values["number"] for values in values_in(b"".join(commands)) if "number" in values}
        first = max((number for number in self.numbers if number not in kept), default=0) + 1
        gone = sum(1 for number in self.numbers if number < first)
        os.replace(self.path, self._directory.commands_before)
        with self.open() as file:
            file.append(self._beginning(self.forgotten + gone, first))

    def _leave_out_inputs(self, commands: list[bytes], typed: list[bytes]) -> None:
        """Keep the commands, and of what was typed the newest."""
        room, first = COMMANDS_FILE_BYTES // 4, len(typed)
        while first and len(typed[first - 1]) <= room:
            first -= 1
            room -= len(typed[first])
        text = self._beginning(self.forgotten, self.first) + b"".join(commands + typed[first:])
        write_atomically(self.path, text.decode())

    def _beginning(self, forgotten: int, before: int) -> bytes:
        return as_line({"forgotten": forgotten, "before": before, "turn": self._turn + 1})

    def _start_over(self) -> None:
        self.typed.clear()  # commands are known by their numbers

    def _take(self, lines: bytes) -> None:
        for values in values_in(lines):
            with suppress(KeyError, TypeError, ValueError):
                self._take_line(values)

    def _take_line(self, values: dict[str, Any]) -> None:
        if "typed" in values:
            said = {name: values[name] for name in OPTIONAL_FIELDS if name in values}
            if "promise" in said:
                said["promise"] = Promise(**said["promise"])
            if said.get("by") != "person":  # nobody else is known to this version
                said.pop("by", None)
            self.typed.append(TypedInput(int(values["typed"]), values["text"], bool(values["whole"]), **said))
        elif "forgotten" in values:
            self._forget(int(values["forgotten"]), int(values["before"]))
            self._turn = int(values.get("turn", 0))
        elif (command := made_of(EndedCommand, values)) and command.number >= self.first:
            if command.number not in self.ended:
                insort(self.numbers, command.number)
            self.ended[command.number] = command

    def _forget(self, count: int, before: int) -> None:
        """Forget the commands before a number; so many are forgotten in all."""
        while self.numbers and self.numbers[0] < before:
            del self.ended[self.numbers.pop(0)]
        self.forgotten, self.first = count, max(self.first, before)


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
        self.path = path

    @property
    def waits(self) -> bool:
        """The shell has not read it; false as well where that cannot be told."""
        with suppress(OSError), open_directory(self.path.parent) as place:
            return os.stat(self.path.name, dir_fd=place, follow_symlinks=False).st_size > 0
        return False

    def take_back(self) -> None:
        """Remove it; a shell that comes for it later finds nothing, and says so."""
        _remove(self.path)

    def tidy(self) -> None:
        """Keep it for the next command if the shell has read it, and so emptied it."""
        with suppress(OSError), open_directory(self.path.parent) as place:
            if os.stat(self.path.name, dir_fd=place, follow_symlinks=False).st_size == 0:
                os.rename(self.path.name, SPARE_NAME, src_dir_fd=place, dst_dir_fd=place)

    def take_back_earlier(self) -> None:
        """Remove what earlier calls left: nobody waits for those commands any more."""
        with suppress(OSError), open_directory(self.path.parent) as place:
            for name in os.listdir(place):
                if name not in (self.path.name, SPARE_NAME):
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
    with suppress(OSError):
        if _is_empty_file(os.stat(SPARE_NAME, dir_fd=place, follow_symlinks=False)):
            os.rename(SPARE_NAME, name, src_dir_fd=place, dst_dir_fd=place)
            # One that a pipe was put in place of just now is not waited for.
            return os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=place)
    return _new_file(name, place)


def _new_file(name: str, place: int) -> int:
    return os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=place)


def _remove(path: Path) -> None:
    with suppress(OSError), open_directory(path.parent) as place:
        os.unlink(path.name, dir_fd=place)


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
            with open_directory(place) as fd, open(_new_file(self.path.name, fd), "wb") as file:
                file.write(data)
        except OSError as error:
            raise IoError(f"stdin cannot be handed over: {self.path} cannot be written: {error.strerror}.") from error

    def remove_once_opened(self, pid: int | None) -> None:
        """Remove it if this process, the shell, has it open."""
        if self._there and pid and _has_open(pid, self.path):
            self.remove()

    def remove(self) -> None:
        """Remove it: nobody opens it any more."""
        self._there = False
        _remove(self.path)


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


def _has_open(pid: int, path: Path) -> bool:
    wanted = os.path.realpath(path)
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == wanted:
                    return True
    return False
