"""A session's directory, `STATE/sessions/ID/`: what lies there, who writes it, who reads it.

Only this module spells these names, and the scripts of `machine/launch/`, which run without the package. Names and
contents are fixed: brokers of several versions may work on one state directory.

Everything there is the owner's alone: files have mode 0600, directories 0700. A small file is replaced, never changed
in place: what is about to replace `NAME` is called `.NAME.RANDOM.new`, or `NAME.new` by a script.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, overload

from tmuxmcp.contract.errors import IoError
from tmuxmcp.contract.value import field, replace, value

Party = Literal["broker", "launcher", "step", "sink", "shell"]
"""Who writes or reads: any broker, the scripts `launcher.sh`, `step.py` and `sink.sh`, what runs in the session."""


@value
class SessionFile:
    """A file or a directory of every session; asked of one session's directory, it is its path there.

    Brokers alone write and read it, where nothing else is said.
    """

    name: str
    holds: str
    writers: tuple[Party, ...] = ("broker",)
    readers: tuple[Party, ...] = ("broker",)
    is_directory: bool = False
    attribute: str = field(default="", init=False, compare=False)
    """Its name here."""

    def __set_name__(self, _: type, attribute: str) -> None:
        object.__setattr__(self, "attribute", attribute)

    @overload
    def __get__(self, directory: None, _: type) -> SessionFile: ...
    @overload
    def __get__(self, directory: SessionDirectory, _: type) -> Path: ...
    def __get__(self, directory: SessionDirectory | None, _: type) -> SessionFile | Path:
        if directory is None:
            return self
        path = vars(directory)[self.attribute] = directory.path / self.name  # found there from now on
        return path


@value
class SessionDirectory:
    """One session's directory, and the path of each file in it."""

    path: Path
    inode: int = field(default=0, compare=False)
    """Number of the directory that is meant; 0: whatever has this path."""

    # ---- what was printed ----------------------------------------------------------------------

    log = SessionFile(
        "out.raw",
        "all bytes that the terminal printed; holes where the head was given back",
        writers=("sink",),
        readers=("broker", "launcher", "sink"),
    )
    base = SessionFile(
        "out.base",
        "offset of the first byte of `out.raw`, where the file system knows no holes",
        writers=("sink",),
        readers=("broker", "launcher", "sink"),
    )
    keep = SessionFile(
        "out.keep",
        "the newest part of `out.raw` while that is emptied, where the file system knows no holes",
        writers=("sink",),
        readers=("broker", "sink"),
    )
    sink = SessionFile(
        "sink.pid", "process id and number of the sink", writers=("sink",), readers=("broker", "launcher")
    )

    timing = SessionFile("timing", "when how much had been printed, in blocks that are appended")
    timing_before = SessionFile("timing.1", "what was in `timing` before that was full")
    timing_lock = SessionFile("timing.lock", "nothing: held by the broker that writes `timing`")

    # ---- what happened, and how far readers have come ------------------------------------------

    meta = SessionFile("meta.json", "program, arguments, size, when it was made, whether it was destroyed")
    destroyed = SessionFile(
        "destroyed",
        "nothing: it tells that the session was destroyed by a broker that could not say so in a newer `meta.json`",
    )
    ended = SessionFile("ended.json", "why it was ended, by whom and when, if somebody or a limit ended it")
    lost = SessionFile("lost", "nothing: since when it is known that its pane is gone and that nobody tells of its end")
    pin = SessionFile("pinned", "nothing: it tells that the files of the session stay, however old they become")
    events = SessionFile(
        "events.jsonl",
        "one JSON object a line: input (sizes only), resize, gap, exit; with time and offset",
        writers=("broker", "sink", "launcher"),
    )
    checkpoint = SessionFile("marks.json", "what the shell's marks said up to an offset")
    screens = SessionFile("screens", "screens of the past, from which later ones are rebuilt")
    screens_lock = SessionFile("screens.lock", "nothing: held by the broker that makes such screens")
    levels = SessionFile(
        "levels.json", "the shells that were adopted in it, one in front of the other, and how far an adoption has come"
    )
    levels_lock = SessionFile(
        "levels.lock", "nothing: held by the broker that adopts a shell, or writes that one has ended"
    )
    commands = SessionFile(
        "commands.jsonl", "the commands that the shell has ended, and what callers typed where the terminal showed it"
    )
    commands_before = SessionFile("commands.1.jsonl", "what was in `commands.jsonl` before that was full")
    cursors = SessionFile("cursors", "a file for each caller: how far it has read", is_directory=True)
    told = SessionFile("told", "a file for each caller: numbers of the commands that it was told of", is_directory=True)
    handed = SessionFile("handed", "a file for each caller: of how many give-backs it was told", is_directory=True)
    matched = SessionFile(
        "matched", "a file for each caller: where the last match of a pattern ends that it was given", is_directory=True
    )
    queued = SessionFile("typed", "bytes that may wait for a program that does not read")

    stdin = SessionFile(
        "stdin",
        "what a command is given to read, until its shell has opened that",
        readers=("shell",),
        is_directory=True,
    )

    recordings = SessionFile(
        "recordings", "recordings and exports for which no other place was named", is_directory=True
    )
    recording = SessionFile(
        "recording.json",
        "the recording that is being made, or the last one that was: where it begins, what became of it",
    )
    recording_lock = SessionFile(
        "recording.lock", "nothing: held by the broker that changes `recording.json`, or makes the file of a recording"
    )

    requests = SessionFile(
        "requests",
        "what agents ask a person to type, and what became of it: two files for each request",
        is_directory=True,
    )

    # ---- the start of its program --------------------------------------------------------------

    spec = SessionFile("spec", "arguments and environment, until the program has started", readers=("step",))
    spec_within = SessionFile(
        "spec.within", "the same for the step within a sandbox of bubblewrap's", readers=("step",)
    )
    pid = SessionFile("pid", "process id of the program", writers=("step", "broker"))
    wrapper = SessionFile("wrapper", "process id of bwrap, when that is around the program", writers=("step",))
    report = SessionFile(
        "error",
        "why the program could not be started; `ready` or `begun` once it was, in a sandbox",
        writers=("step", "broker"),
        readers=("broker", "step"),
    )
    launcher_said = SessionFile(
        "launcher.err", "what the launcher's shell said", writers=("launcher",), readers=("launcher",)
    )

    go = SessionFile(
        "go",
        "a pipe for which the step of a pane waits that was made ahead, until it is a session's",
        readers=("step",),
    )
    unless_taken = SessionFile(
        "unless-taken", "how the step of such a pane has tmux end it, unless it is a session's", readers=("step",)
    )

    # ---- the session's own ---------------------------------------------------------------------

    history = SessionFile(
        "history",
        "the shell's own history, with the setting `history = session`",
        writers=("shell",),
        readers=("shell",),
    )
    nonce = SessionFile(
        "nonce",
        "the word in the marks of a shell that is about to begin, which empties the file",
        writers=("broker", "shell"),
        readers=("shell",),
    )
    given = SessionFile(
        "given",
        "a command that bash is about to run, under a name that a key tells it; bash empties the file",
        writers=("broker", "shell"),
        readers=("shell",),
        is_directory=True,
    )
    given_spare = SessionFile(
        "given/spare", "nothing: the file of a command that was read, for the next one", writers=("broker", "shell")
    )
    within = SessionFile(
        "within", "all of the directory that can be seen in a sandbox", readers=("shell",), is_directory=True
    )
    history_within = SessionFile(
        "within/history", "its history, when it is in a sandbox", writers=("shell",), readers=("shell",)
    )
    stdin_within = SessionFile(
        "within/stdin",
        "what a command is given to read, when the session is in a sandbox",
        readers=("shell",),
        is_directory=True,
    )
    nonce_within = SessionFile(
        "within/nonce", "that word, when it is in a sandbox", writers=("broker", "shell"), readers=("shell",)
    )
    given_within = SessionFile(
        "within/given",
        "such a command, when it is in a sandbox",
        writers=("broker", "shell"),
        readers=("shell",),
        is_directory=True,
    )
    given_spare_within = SessionFile(
        "within/given/spare", "such a file, when it is in a sandbox", writers=("broker", "shell")
    )
    temporary_within = SessionFile(
        "within/tmp",
        "temporary files, when it is in a sandbox",
        writers=("shell",),
        readers=("shell",),
        is_directory=True,
    )
    work_within = SessionFile(
        "within/work",
        "where a session in a sandbox works that has no other directory",
        writers=("shell",),
        readers=("shell",),
        is_directory=True,
    )

    @classmethod
    def of(cls, state_dir: Path, name: str) -> SessionDirectory:
        """The directory of a session, or of an earlier one of the same name: `ID.1`."""
        return cls(sessions_dir(state_dir) / name)

    def pinned(self) -> SessionDirectory:
        """The directory that is there now, whatever takes its path later."""
        return replace(self, inode=_inode(self.path))

    @property
    def is_there(self) -> bool:
        """No other session has taken its name, and so its path: what is written there is this session's."""
        return not self.inode or _inode(self.path) == self.inode

    @property
    def name(self) -> str:
        """The session's id; of an earlier session of that id with its generation behind a dot."""
        return self.path.name

    @property
    def is_earlier(self) -> bool:
        """It is kept of an earlier session, whose id another one has now."""
        return "." in self.name

    def beside(self, generation: int) -> SessionDirectory:
        """Where an earlier session of that name is kept."""
        return SessionDirectory(self.path.with_name(f"{self.name}.{generation}"))

    def resolved(self) -> SessionDirectory:
        """The same by its real path, without links."""
        return SessionDirectory(Path(os.path.realpath(self.path)))


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


DIRECTORY_ENTRIES: tuple[SessionFile, ...] = tuple(
    each for each in vars(SessionDirectory).values() if isinstance(each, SessionFile)
)
"""Everything that may lie in a session's directory."""


def sessions_dir(state_dir: Path) -> Path:
    """Where the directories of all sessions lie."""
    return state_dir / "sessions"


def making_lock(state_dir: Path) -> Path:
    """The lock that is held by who makes a session, or removes the files of one."""
    return state_dir / "sessions.lock"


@contextmanager
def open_directory(place: Path) -> Iterator[int]:
    """Open a directory for files in it; a link, which what runs in a sandbox can put there, is not followed.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def directories(state_dir: Path, holding: SessionFile) -> Iterator[SessionDirectory]:
    """The directories of all sessions, also of earlier ones, in which this file lies."""
    for path in sessions_dir(state_dir).glob(f"*/{holding.name}"):
        yield SessionDirectory(path.parent)


def earlier(directory: SessionDirectory) -> list[int]:
    """The generations of earlier sessions of a directory's name that are kept beside it."""
    ends = (path.name.rpartition(".")[2] for path in directory.path.parent.glob(f"{directory.name}.*"))
    return [int(end) for end in ends if end.isdecimal()]


def make_directory(state_dir: Path, session_id: str, generation: int = 0) -> SessionDirectory:
    """Make an empty directory for a new session; what an earlier one of that name left is kept beside it.

    Args:
        generation: of the earlier one; 0: that is not written down.

    Raises:
        IoError: it cannot be made.
    """
    directory = SessionDirectory.of(state_dir, session_id)
    if directory.path.exists():
        generation = max(generation, max(earlier(directory), default=0) + 1)
        directory.path.rename(directory.beside(generation).path)
    try:
        directory.path.mkdir(mode=0o700)
    except OSError as error:
        raise IoError(f"{directory.path} cannot be made: {error.strerror}.") from error
    return directory
