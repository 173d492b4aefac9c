"""A session's small files: `meta.json`, what it is; how it began, ended and is recorded; how far callers have come."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psutil

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import IoError, Unsupported
from tmuxmcp.contract.value import field, replace, value
from tmuxmcp.contract.words import RecordedAs, RecordingStage
from tmuxmcp.machine import proc
from tmuxmcp.machine.ownfiles import make_directory, make_empty, open_file, read_text, write_atomically
from tmuxmcp.record.directory import SessionDirectory, earlier
from tmuxmcp.record.documents import ByCaller, Document, NewerFormat, made_of

META = Document(SessionDirectory.meta, indent=1)


@value(frozen=False)
class Meta:
    """What a session is; from the pane's options, or from `meta.json` when the pane is gone."""

    session_id: str
    program: str
    args: list[str]
    created_at: str
    owner: str
    nonce: str
    marks: bool
    """Its program was given our start-up file."""
    cwd: str
    cols: int
    rows: int
    scrollback_lines: int
    destroyed: bool = False
    generation: int = 0
    """Which session of that name it is, from 1; 0: that was not written down."""
    bounds: dict[str, Any] = field(default_factory=dict)
    """As `SessionBounds`."""
    host: str = ""
    """The machine that it runs on, as the caller named it; empty: this one."""
    control: str = ""
    """Where the control socket of its ssh is."""
    proofs: bool = False
    """Its shell takes a proof with a command."""
    function_key: bool = False
    """Its shell knows `FUNCTION_KEY`, if it is fish."""
    booted: dict[str, Any] = field(default_factory=dict)
    """`created_at` as `Booted`: by a clock that nobody sets."""

    env_names: list[str] | None = None
    """Names of the variables that it was given, for a later session made from it; None: that was not written down."""
    tmux: str = ""
    """The version of tmux that it runs in, as tmux says it; empty: that was not written down."""
    request: str = ""
    """What its pane was born with as `@tmuxmcp_request`: by which call with an id it was made."""
    made_by: str = ""
    """The caller who made it; empty: that was not written down."""

    def save(self, directory: SessionDirectory) -> None:
        """Write `meta.json`; keys that another version of the same format added stay.

        Raises:
            Unsupported: the file is of a newer format, and what is not known here would be lost.
        """
        there = META.read(directory)
        destroyed = self.destroyed or bool(there.get("destroyed"))  # by another broker: nothing undoes that
        try:
            META.write(directory, {**vars(self), "destroyed": destroyed}, keep=there)
        except NewerFormat as error:
            raise Unsupported(
                f"{directory.meta} was written by a newer tmuxmcp, and is not replaced by this one.",
                hint="Use that version for this session, or upgrade this one.",
                session_id=self.session_id,
            ) from error
        self.destroyed = destroyed

    def destroy(self, directory: SessionDirectory) -> None:
        """Write down that it was destroyed: beside a `meta.json` of a newer format, which is not replaced."""
        self.destroyed = True
        if not directory.is_there:
            return
        try:
            self.save(directory)
        except Unsupported:
            make_empty(directory.destroyed)

    def disown(self, directory: SessionDirectory) -> None:
        """It is nobody's default session any more; in a newer format its owner's newest session counts instead."""
        self.owner = ""
        if not directory.is_there:
            return
        with suppress(Unsupported):
            self.save(directory)

    @classmethod
    def load(cls, directory: SessionDirectory) -> Meta | None:
        """Read `meta.json`, of whatever format; None when there is none that can be read."""
        meta = made_of(cls, META.read(directory))
        if meta:
            meta.destroyed = bool(meta.destroyed) or directory.destroyed.exists()
        return meta


# ---- `ended.json`: why a session was ended, by whom and when, as whoever ended it wrote it down ----------------------
#
# Written before the session is ended, so that every broker that finds its pane dead or gone knows why. It says nothing
# of a session that lives on: whoever meant to end it was killed before it could.

ENDED = Document(SessionDirectory.ended, indent=1)


@value
class WhyEnded:
    """Why a session is ended."""

    reason: str
    """As `Reason` has it."""
    by: str
    """The caller who wanted it; empty: a broker, by a setting or a limit."""
    at: str
    """ISO 8601, UTC."""
    why: str = ""
    """The setting or the limit, in words."""

    def save(self, directory: SessionDirectory) -> None:
        """Write it down; a failure is no reason not to end it."""
        with suppress(OSError):
            ENDED.write(directory, vars(self))

    @classmethod
    def load(cls, directory: SessionDirectory) -> WhyEnded | None:
        """What is written down, if it can be read."""
        there = ENDED.read(directory)
        words = [there.get(name, "") for name in ("reason", "by", "at", "why")]
        known = there.get("reason") and all(isinstance(word, str) for word in words)
        return cls(*words) if known else None


# ---- How the start of a session's program went -----------------------------------------------------------------------
#
# As the launcher's step writes it down (`machine/launch/step.py`).

READY, BEGUN = "ready", "begun"
"""What `error` holds when there is none, of a session in a sandbox."""


class Start:
    """The files `error`, `pid` and `wrapper` of one session."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._directory = directory

    @property
    def report(self) -> str:
        """What the step says: nothing yet, `READY`, `BEGUN`, or a code and a reason, on two lines."""
        with suppress(OSError, ValueError):
            return read_text(self._directory.report)
        return ""

    @property
    def succeeded(self) -> bool:
        """The step says that it becomes the program: it does so in a sandbox alone."""
        return self.report in (READY, BEGUN)

    def let_begin(self) -> None:
        """Let the program begin that waits until its process id is known: in a sandbox of bubblewrap's."""
        if self.pid is not None and self.report == READY:
            with os.fdopen(open_file(self._directory.report, os.O_WRONLY | os.O_TRUNC), "w") as file:
                file.write(BEGUN)

    @property
    def pid(self) -> int | None:
        """Process id of the program, once it is known."""
        with suppress(OSError, ValueError):
            return int(read_text(self._directory.pid))
        return self._pid_within() if self.succeeded else None

    @property
    def wrappers(self) -> list[int]:
        """Process ids of what is around the program in a sandbox of bubblewrap's: it ends with the program."""
        with suppress(OSError, ValueError, psutil.Error):
            outer = psutil.Process(int(read_text(self._directory.wrapper)))
            return [outer.pid, *(child.pid for child in outer.children())]
        return []

    def _pid_within(self) -> int | None:
        """The program, which is the first process below the two of bwrap; written down, as it may lose its parents."""
        with suppress(psutil.Error, IndexError):
            children = psutil.Process(self.wrappers[1]).children()
            pid = min(children, key=lambda child: child.create_time()).pid
            write_atomically(self._directory.pid, str(pid))
            return pid
        return None


# ---- Sessions that had one name after another ------------------------------------------------------------------------
#
# Each is a generation, counted from 1, with a directory of its own.
#
# The newest is in `sessions/ID/`. Before another session takes the name, that directory becomes `sessions/ID.N/`, N
# being its generation; numbers of generations that are no longer kept are not given again while a later one is.


def generation_of(directory: SessionDirectory, meta: Meta | None) -> int:
    """Which session of its name a directory holds."""
    if directory.is_earlier:
        return int(directory.name.rpartition(".")[2])
    kept = max(earlier(directory), default=0)
    return max(meta.generation if meta else 0, kept + 1)


def kept_generations(state_dir: Path, session_id: str) -> list[int]:
    """The generations of which something is kept, oldest first."""
    directory = SessionDirectory.of(state_dir, session_id)
    meta = Meta.load(directory)
    return sorted(earlier(directory)) + ([generation_of(directory, meta)] if meta else [])


def find_generation(state_dir: Path, session_id: str, generation: int) -> SessionDirectory:
    """Where a generation is kept, if it is."""
    directory = SessionDirectory.of(state_dir, session_id)
    newest = generation_of(directory, Meta.load(directory))
    return directory if generation == newest else directory.beside(generation)


# ---- Who writes a session's log: its sink, as that one wrote itself down ---------------------------------------------


class Sink(NamedTuple):
    """The sink that last wrote down that it is there."""

    number: int
    """A pane's sinks are numbered; 0: none ever was there."""
    alive: bool


def sink_pid(directory: SessionDirectory) -> int | None:
    """Process id of the sink that last wrote down that it is there."""
    try:
        return int(read_text(directory.sink).split()[0])
    except (OSError, ValueError, IndexError):
        return None


def sink_of(directory: SessionDirectory) -> Sink:
    """Read who the sink is, and whether it still is there."""
    try:
        pid, number = map(int, read_text(directory.sink).split())
    except (OSError, ValueError):
        return Sink(0, False)
    try:
        os.kill(pid, 0)
    except OSError:
        return Sink(number, False)
    # Process ids are used again.
    with suppress(OSError):
        words = proc.argv_bytes(pid)
        ours = os.fsencode(directory.path) in words and any(word.endswith(b"/sink.sh") for word in words)
        return Sink(number, ours)
    return Sink(number, True)


# ---- `recording.json`: the recording of a session that is being made, or the last one that was -----------------------
#
# Nothing is copied while a recording runs: the note says where it began and what is wanted, and the file is made of the
# log when it is stopped or the session has ended, by whatever broker is there then. So a killed broker loses nothing.
# Whoever changes the note holds `recording.lock`.

RECORDING = Document(SessionDirectory.recording, indent=1, to_disk=True)

Keep = Literal["always", "on_failure"]
"""Whether its file is kept whatever happens, or only if something failed."""

FILM_ENDINGS: dict[RecordedAs, str] = {"cast": ".cast", "cast2": ".cast", "jsonl": ".jsonl"}
"""Of the files for which no place was named."""

FileId = tuple[int, int]
"""Device and number of the empty file that keeps the place."""


@value
class RecordingNote:
    """One recording."""

    id: str
    film: RecordedAs
    path: str
    """Where its file is to be; empty: beside the log, under `name`."""
    name: str
    """Of its file beside the log."""
    place: FileId | None
    """What keeps the place at `path`."""
    begin: int
    """Offset of the log at which it begins."""
    begin_ms: int
    """The same as a time: since the session was made."""
    began_at: str
    """ISO 8601, UTC."""
    input: bool = False
    """What is typed is part of it, where the terminal shows that."""
    idle_limit_ms: int | None = None
    keep: Keep = "always"
    by: str = ""
    """The caller who wanted it; empty: a setting."""
    state: RecordingStage = "running"
    end: int | None = None
    """Offset at which it ended; None: it has not, or with the session."""
    end_ms: int | None = None
    with_session: bool = False
    """It ended because the session did."""
    saved: str = ""
    """Where its file is; empty: in `recordings/` under `name`."""
    bytes: int = 0
    duration_ms: int = 0
    events: int = 0
    times_known: bool = True
    approximate: bool = False
    truncated: bool = False
    """Its file was full before the end."""
    tries: int = 0
    """How often its file could not be made."""
    note: str = ""

    @property
    def is_open(self) -> bool:
        """Its file is still to be made."""
        return self.state in ("running", "stopped")

    def file(self, directory: SessionDirectory) -> Path:
        """Where its file is, or will be."""
        return Path(self.saved or self.path or directory.recordings / self.name)

    def save(self, directory: SessionDirectory) -> None:
        """Write it down, on the disk.

        Raises:
            IoError: it cannot be, or a newer version has written there.
        """
        try:
            RECORDING.write(directory, vars(self))
        except NewerFormat as error:
            raise IoError(f"{directory.recording} was written by a newer tmuxmcp.", hint="Use that version.") from error
        except OSError as error:
            raise IoError(f"{directory.recording} cannot be written: {error.strerror}.") from error

    @classmethod
    def load(cls, directory: SessionDirectory) -> RecordingNote | None:
        """What is written down; None: nothing that can be read."""
        note = made_of(cls, RECORDING.read(directory))
        return replace(note, place=_file_id(note.place)) if note else None


def _file_id(given: Any) -> FileId | None:
    match given:
        case [int() as device, int() as number] | (int() as device, int() as number):
            return device, number
    return None


def begin_recording(
    directory: SessionDirectory,
    film: RecordedAs,
    *,
    begin: int,
    begin_ms: int,
    path: str = "",
    place: FileId | None = None,
    **more: Any,
) -> RecordingNote:
    """Write down that a recording begins, and keep a place for its file where none was named.

    Args:
        more: other fields of the note.

    Raises:
        IoError: it cannot be written down; nothing is left.
    """
    name = "" if path else reserve_beside(directory, FILM_ENDINGS[film])
    note = RecordingNote(secrets.token_hex(4), film, path, name, place, begin, begin_ms, iso(time.time()), **more)
    try:
        note.save(directory)
    except IoError:
        if name:
            (directory.recordings / name).unlink(missing_ok=True)
        raise
    return note


def reserve_beside(directory: SessionDirectory, ending: str) -> str:
    """Make an empty file for a recording beside the log; its name.

    Raises:
        IoError: it cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        make_directory(directory.recordings)
        for name in new_names(ending):
            try:
                os.close(os.open(directory.recordings / name, flags, 0o600))
                return name
            except FileExistsError:
                continue
    except OSError as error:
        raise IoError(f"No file can be made in {directory.recordings}: {error.strerror}.") from error
    raise AssertionError("there is always one more name")


def new_names(ending: str) -> Iterator[str]:
    """Names for a file that is made now, the first choice first."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return (f"{stamp}{f'-{number}' if number else ''}{ending}" for number in count())


# ---- How far each caller has come, whatever broker it asked: in reading, in being told of give-backs -----------------


class Cursors(ByCaller[int]):
    """The files of one directory, by caller; 0 for one of whom nothing is known."""

    def __init__(self, directory: SessionDirectory, path: Path) -> None:
        super().__init__(directory, path, int, 0)

    def move(self, caller: str, offset: int) -> None:
        """Remember how far this caller has come."""
        self.put(caller, offset, b"%020d" % offset)


# ---- Which commands of a session each caller was told of, whatever broker it asked -----------------------------------

MOST_BEYOND = 64
"""Numbers that are kept one by one; a caller who takes so many answers in between has given up the older ones."""


@value
class ReportedCommands:
    """The commands that one caller was told of, by number."""

    through: int = 0
    """All up to this one."""
    beyond: frozenset[int] = frozenset()
    """And these."""

    def knows(self, number: int) -> bool:
        """Whether it was told of a command."""
        return number <= self.through or number in self.beyond

    def also(self, number: int, ended: Iterable[int]) -> ReportedCommands:
        """With one more; `ended`: the numbers of all that have ended behind `through`, rising."""
        beyond, through = {*self.beyond, number}, self.through
        for each in ended:
            if each not in beyond:
                break
            through = max(through, each)
        return _bounded(through, {each for each in beyond if each > through})

    def without(self, numbers: Sequence[int], ended: Iterable[int]) -> ReportedCommands:
        """Without some, rising; `ended`: the numbers of all that have ended from the first of those on."""
        through = min(self.through, numbers[0] - 1)
        beyond = {*self.beyond, *(each for each in ended if each <= self.through)}
        return _bounded(through, beyond.difference(numbers))


def _bounded(through: int, beyond: set[int]) -> ReportedCommands:
    while len(beyond) > MOST_BEYOND:
        through = min(beyond)
        beyond.discard(through)
    return ReportedCommands(through, frozenset(beyond))


class ReportedCallers(ByCaller[ReportedCommands]):
    """The files of `told/`; a caller who never asked was told of nothing."""

    def __init__(self, directory: SessionDirectory) -> None:
        super().__init__(directory, directory.told, _told, ReportedCommands())

    def tell(self, caller: str, told: ReportedCommands) -> None:
        """Remember what this caller was told of."""
        if told != self.of(caller):
            # What a longer line left behind this one is not read.
            self.put(caller, told, (" ".join(map(str, (told.through, *sorted(told.beyond)))) + "\n").encode())


def _told(text: str) -> ReportedCommands:
    first, *beyond = map(int, text.splitlines()[0].split())
    return ReportedCommands(first, frozenset(beyond))


# ---- Input that may wait in tmux for a program that does not read: how much, whatever broker typed it ----------------

TERMINAL_TAKES_BYTES = 4096
"""What a terminal takes itself: less is not written down."""


class QueuedInput:
    """The file `typed` of one session."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._path = directory.queued

    @property
    def bytes(self) -> int:
        """Bytes typed since its terminal last had room: at most that many are queued."""
        with suppress(OSError, ValueError):
            return int(read_text(self._path))
        return 0

    @bytes.setter
    def bytes(self, size: int) -> None:
        with suppress(OSError):
            if size > TERMINAL_TAKES_BYTES or self._path.exists():
                write_atomically(self._path, str(size))
