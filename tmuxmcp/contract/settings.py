"""The plain values that the broker works with; `app` makes them from the settings."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tmuxmcp.contract.value import field, value

# ---- What a program may use and what it runs in ----------------------------------------------------------------------
#
# The limits and sandbox levels that callers name and are told.

SandboxLevel = Literal["none", "limits", "landlock", "bubblewrap"]
"""The sandbox that a session runs in."""

WRAPPER_LEVELS: frozenset[SandboxLevel] = frozenset({"bubblewrap"})
"""Levels in which a wrapper runs the program: process ids and a terminal of its own, deaths told as exit codes."""

SHORTCOMINGS: dict[SandboxLevel, str] = {
    "limits": "The best sandbox here keeps no files apart: the session can read and write what you can.",
    "landlock": "The best sandbox here is Landlock: the session has no namespaces of its own.",
}
"""What a caller is told who relies on a sandbox of this level."""

SandboxWish = Literal["none", "auto", "required"]
"""What a caller or the settings ask for."""

Count = Annotated[int | None, Field(ge=1, le=2**31 - 1)]


class Limits(BaseModel):
    """Bounds of a program and all that it starts; what is null is not limited."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    memory_mb: Count = None
    """MiB; of the address space of each process, or of all together where there is a cgroup."""
    cpu_seconds: Count = None
    """Seconds of processor time of each process."""
    cpu_percent: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Percent of one core, all together; only a cgroup can keep it."""
    processes: Count = None
    """Most processes; without a cgroup all of the user's count, and root has no such limit."""
    open_files: Annotated[int | None, Field(ge=3, le=2**31 - 1)] = None
    """Most descriptors of each process."""
    file_mb: Count = None
    """MiB of the largest file that may be written."""
    duration_s: Annotated[float | None, Field(gt=0, le=1e9, allow_inf_nan=False)] = None
    """Seconds until the whole tree is ended."""

    def within(self, bounds: Limits) -> Limits:
        """The tighter of the two for each."""
        names = type(self).model_fields
        pairs = {name: (getattr(self, name), getattr(bounds, name)) for name in names}
        known = {name: [value for value in pair if value is not None] for name, pair in pairs.items()}
        return Limits(**{name: min(values) for name, values in known.items() if values})


# ----------------------------------------------------------------------------------------------------------------------

ToolSet = Literal["core", "process", "human", "files", "recording", "git", "helpers", "gdb", "r2"]
TOOL_SETS: tuple[ToolSet, ...] = get_args(ToolSet)
"""Names of the sets in which tools are offered. A set whose operations do not exist yet offers nothing."""


@value
class BrokerSettings:
    """What `config.Settings` says, as far as the broker needs it."""

    state_dir: Path
    program: str = ""
    program_args: tuple[str, ...] = ()
    cwd: str = ""
    rows: int = 24
    cols: int = 80
    term: str = "tmux-256color"
    on_exit: str = "keep"
    history: str = "session"
    history_expansion: bool = False
    prompt_pattern: str = ""
    integration: bool = True
    record: Literal["off", "always", "on_failure"] = "off"
    max_sessions: int = 32
    idle_timeout_s: float = 86_400
    max_duration_s: float = 0
    retention_days: float = 7
    state_max_bytes: int = 2 * 1024 * 1024 * 1024
    max_wait_ms: int = 50_000
    max_bytes: int = 8192
    log_max_bytes: int = 256 * 1024 * 1024
    scrollback_lines: int = 5000
    max_input_bytes: int = 1024 * 1024
    env_allow: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    request_id_days: float = 1
    max_calls: int = 64
    take_timeout_s: float = 1800
    take_key: str = "C-b g"
    policy: tuple[Any, ...] = ()
    """Rules as the settings file has them; `host.policy` reads them."""
    secrets: dict[str, Secret] = field(default_factory=dict)
    """What `send` may type by name; without the values."""
    audit: str = "best-effort"
    files_root: str = ""
    sandbox: SandboxWish = "none"
    sandbox_network: bool = True
    sandbox_roots: tuple[str, ...] = ()
    sandbox_write: tuple[str, ...] = ()
    hosts_allow: tuple[str, ...] = ()
    answer_key: str = "C-b a"
    notify_command: tuple[str, ...] = ()
    traces: bool = False
    own_files: tuple[Path, ...] = ()
    """Settings, tokens and secrets: no sandbox lets anybody write to them."""


DEFAULT_SETTINGS = BrokerSettings(state_dir=Path())
"""As they are where nothing is set; they name no state directory."""


# ---- What the settings say of a secret that `send` may type ----------------------------------------------------------
#
# Where its value is had from, and who may get it.
#
# The value itself is never here.

SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Names of secrets: agents and the audit read them."""

FILE, COMMAND = "file:", "command:"


class Secret(BaseModel):
    """One secret of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source: Annotated[str | list[str], Field(union_mode="left_to_right")]
    """`file:PATH`; or a command that prints it: `command:WORDS`, or a list of its exact words."""
    programs: Annotated[list[str], Field(alias="for")] = []
    """Absolute paths: a program that runs one of these files is given it without a question."""
    session: str = ""
    """Pattern of the sessions in which it may be typed, with `*` and `?`; empty: any."""
    ask: bool = True
    """Another program is given it if a person agrees; False: none is."""

    @property
    def file(self) -> str:
        """The absolute path of the file that holds it; empty: a command prints it."""
        text = self.source if isinstance(self.source, str) else ""
        return os.path.expanduser(text.removeprefix(FILE)) if text.startswith(FILE) else ""

    @property
    def argv(self) -> list[str]:
        """The exact words of the command that prints it; empty: a file holds it."""
        if not isinstance(self.source, str):
            return self.source
        return shlex.split(self.source.removeprefix(COMMAND)) if self.source.startswith(COMMAND) else []

    def allows(self, session_id: str) -> bool:
        """Whether it may be typed in this session."""
        return not self.session or fnmatch.fnmatchcase(session_id, self.session)

    @field_validator("source")
    @classmethod
    def _known_source(cls, value: str | list[str]) -> str | list[str]:
        # What is wrong may be the secret itself: it is not repeated.
        if isinstance(value, str):
            kind = next((each for each in (FILE, COMMAND) if value.startswith(each)), "")
            if not kind:
                raise ValueError("source must be file:PATH, command:WORDS, or a list of a command's words")
            if kind == FILE and not os.path.isabs(os.path.expanduser(value.removeprefix(FILE))):
                raise ValueError("source: the path behind file: must begin with / or ~")
            if kind == COMMAND and not _words(value.removeprefix(COMMAND)):
                raise ValueError("source: behind command: stand words, quoted as for a shell; no shell runs them")
        elif not value or not value[0]:
            raise ValueError("source: a command has at least one word")
        if "\0" in "".join(value):
            raise ValueError("source cannot hold NUL")
        return value

    @field_validator("programs")
    @classmethod
    def _absolute(cls, value: list[str]) -> list[str]:
        if not all(os.path.isabs(each) and "\0" not in each for each in value):
            raise ValueError("for must be absolute paths of programs")
        return value


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def check_names(secrets: Mapping[str, Any]) -> None:
    """Refuse names that could not be told to anybody.

    Raises:
        ValueError
    """
    if not all(SECRET_NAME.fullmatch(name) for name in secrets):
        raise ValueError("a secret's name has letters, digits, _, . and -, at most 64, and begins with no sign")
