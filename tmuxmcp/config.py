"""The one settings table: flags, variables, file, help and documentation come from it.

Order: flags, then `TMUXMCP_*` variables, then the settings file, then defaults. Nothing is read from the
working directory: a cloned repository must not change policy or run commands.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from tmuxmcp.contract.errors import InvalidArgument, IoError, PermissionDenied
from tmuxmcp.contract.settings import TOOL_SETS, Limits, Secret, check_names
from tmuxmcp.machine.ownfiles import own_directory, read_toml

VARIABLE_PREFIX = "TMUXMCP_"
Words = Annotated[list[str], NoDecode]


PERSON_KEY = re.compile(
    r"C-b (?:[CM]-){0,2}[A-Za-z0-9]"  # behind tmux's prefix
    r"|(?:C-b )?(?:[CMS]-){0,3}F(?:1[0-2]|[1-9])"
    r"|(?:C-M|M|C)-[A-Za-z0-9]"
)
"""Keys by which an attached person may say something: none that types a character."""


def home() -> Path:
    """The user's home directory; from the user database when HOME is not set."""
    return Path(os.path.expanduser("~"))


def default_config_file() -> Path:
    """Where settings are read from when `--config` does not say."""
    return home() / ".config" / "tmuxmcp" / "config.toml"


class Settings(BaseSettings):
    """Every setting: name, type, default, one sentence with its unit."""

    model_config = SettingsConfigDict(env_prefix=VARIABLE_PREFIX, extra="forbid", frozen=True, validate_default=False)

    state_dir: Path = Field(
        default_factory=lambda: home() / ".local" / "state" / "tmuxmcp",
        description="Directory of the socket, the logs and what is known of each session",
    )
    program: str = Field(default="", description="Program of a default session; empty: the login shell")
    program_args: Words = Field(default=[], description="Its arguments")
    cwd: str = Field(default="", description="Working directory of new sessions; empty: the broker's own")
    rows: int = Field(default=24, ge=1, le=500, description="Rows of a new session's terminal")
    cols: int = Field(default=80, ge=1, le=500, description="Columns of a new session's terminal")
    term: str = Field(default="tmux-256color", pattern=r"^[A-Za-z0-9._+-]+$", description="TERM inside sessions")
    tools: Words = Field(
        default=["core", "process", "human"],
        description="Sets of tools to offer: core, process, human, files, recording, git, helpers, gdb, r2, all",
    )
    results: Literal["auto", "both", "text", "structured"] = Field(
        default="auto", description="What a tool result holds; auto: what the client shows its model, each text once"
    )
    on_exit: Literal["keep", "destroy"] = Field(
        default="keep", description="What becomes of the sessions that a server made when it ends in good order"
    )
    history: Literal["session", "user", "none"] = Field(
        default="session",
        description="Where shells keep history: a file of the session's own, the user's own file, nowhere",
    )
    history_expansion: bool = Field(
        default=False, description="Have bash and zsh replace `!` in a line by earlier commands, as they do by default"
    )
    prompt_pattern: str = Field(
        default="", description="Regex of a prompt that counts as ready where nothing else can tell"
    )
    integration: bool = Field(default=True, description="Load the start-up files by which shells mark commands")
    record: Literal["off", "always", "on_failure"] = Field(
        default="off",
        description="Record each session from its start: no, always, or keep the recording only if something failed",
    )
    max_sessions: int = Field(default=32, ge=1, le=1000, description="Most live sessions at once")
    idle_timeout_s: float = Field(
        default=86_400, ge=0, description="Seconds after which a session that waits for input is ended; 0: never"
    )
    max_duration_s: float = Field(default=0, ge=0, description="Seconds that a session may live; 0: no limit")
    retention_days: float = Field(default=7, ge=0, description="Days that logs of ended sessions are kept; 0: for ever")
    state_max_bytes: int = Field(
        default=2 * 1024 * 1024 * 1024,
        ge=0,
        description="Most bytes of the state directory: the oldest logs of ended sessions go first; 0: no limit",
    )
    max_wait_ms: int = Field(default=50_000, ge=1, description="Longest wait of one call, in milliseconds")
    max_bytes: int = Field(default=8192, ge=1, le=16 * 1024 * 1024, description="Most bytes of text in a result")
    log_max_bytes: int = Field(
        default=256 * 1024 * 1024, ge=1024 * 1024, description="Most bytes of raw output kept for each session"
    )
    scrollback_lines: int = Field(default=5000, ge=0, le=1_000_000, description="Lines of scrollback of a new session")
    max_input_bytes: int = Field(default=1024 * 1024, ge=1, description="Most bytes typed by one call")
    env_allow: Words = Field(
        default=[], description="Variables passed to sessions beside the usual ones; NAME or PREFIX*"
    )
    env: dict[str, str] = Field(default={}, description="Variables set in every session")
    limits: Limits = Field(
        default=Limits(),
        description="What a session may use at most: memory_mb, cpu_seconds, cpu_percent, processes, open_files, "
        "file_mb, duration_s; a caller can only ask for less",
    )
    sandbox: Literal["none", "auto", "required"] = Field(
        default="none",
        description="What sessions run in: nothing, the best sandbox that this machine can do, or namespaces of "
        "their own (bubblewrap) and else no session; a caller can only ask for more",
    )
    sandbox_network: bool = Field(default=True, description="Whether there is a network in a sandbox")
    sandbox_roots: Words = Field(
        default=[],
        description="Directories in which, or beneath which, sessions in the sandbox of the settings work; empty: "
        "the setting cwd, else the directory that the server starts in",
    )
    sandbox_write: Words = Field(
        default=[], description="Directories that can be written to in a sandbox, beside the cwd"
    )
    hosts_allow: Words = Field(
        default=[],
        description="Hosts on which sessions may be made: [USER@]HOST[:PORT], with * and ? in each part; empty: all, "
        "but none with a sandbox",
    )
    answer_key: str = Field(
        default="C-b a",
        description="Key by which an attached person answers what an agent asks for, in a popup, and says that what "
        "they typed is done; as take_key, and another one; the program never gets it",
    )
    notify_command: Annotated[list[str], NoDecode] = Field(
        default=[],
        description="Program, with its arguments, that is run when something waits for a person; TMUXMCP_ID and "
        "TMUXMCP_KIND in its environment tell what",
    )
    take_timeout_s: float = Field(
        default=1800, ge=0, description="Seconds without a key after which what a person took is given back; 0: never"
    )
    take_key: str = Field(
        default="C-b g",
        description="Key by which a person gives a session back: C-b and a key, or a function key or one with C- or "
        "M- alone; empty: none",
    )
    request_id_days: float = Field(
        default=1, gt=0, description="Days for which it is known what became of a call that had a request_id"
    )
    max_calls: int = Field(default=64, ge=1, description="Most calls of one client at once")
    policy: Annotated[list[Any], NoDecode] = Field(
        default=[], description="Rules for what agents may do, and a tier: read-only, standard, careful or full"
    )
    secrets: Annotated[dict[str, Secret], NoDecode] = Field(
        default={},
        description="Secrets that agents may have typed by name, where a program asks for one without showing it; "
        "of each: source, for, session, ask",
    )
    audit: Literal["best-effort", "strict", "off"] = Field(
        default="best-effort", description="One line for each call in audit.jsonl; strict: nothing is done without it"
    )
    http: str = Field(
        default="off", description="Where serve listens for HTTP: HOST:PORT; off: it speaks on stdin and stdout"
    )
    token_file: Path | None = Field(
        default=None,
        description="File of the tokens that HTTP clients send; only you may read it. None: on loopback one is made",
    )
    allowed_hosts: Words = Field(
        default=[], description="Names beside the loopback ones that HTTP answers to: NAME or NAME:PORT, exact"
    )
    fleet: str = Field(
        default="off",
        description="Many machines: a file of brokers, ray://HOST:PORT, or auto for the Ray cluster of this machine; "
        "off: this machine alone",
    )
    page: bool = Field(
        default=False, description="Have servers on stdin and stdout show the page, each on a loopback port of its own"
    )
    fleet_secret: Path = Field(
        default_factory=lambda: home() / ".config" / "tmuxmcp" / "fleet-secret",
        description="File of the secret that all machines of a fleet have; only you may read it. Ray needs it; over "
        "HTTP, machines believe a gateway that knows it that you call, and what you answer",
    )
    files_root: str = Field(default="", description="Directory beneath which the file tools stay; empty: no such bound")
    log_level: Literal["trace", "debug", "info", "warning", "error"] = Field(
        default="info",
        description="How much is logged to stderr; trace: also commands to tmux and looks of waits, not what they say",
    )
    log_format: Literal["text", "json"] = Field(default="text", description="Form of the log")
    traces: bool = Field(
        default=False,
        description="Send a span of OpenTelemetry for each call, without its content, to where `OTEL_*` variables say; "
        "needs tmuxmcp[otel]",
    )

    _file: Path = PrivateAttr(default_factory=default_config_file)

    @property
    def own_files(self) -> list[Path]:
        """The settings file, the file of tokens, the fleet's secret and file, and those of secrets."""
        secrets = [Path(each.file) for each in self.secrets.values() if each.file]
        brokers = [Path(self.fleet)] if os.path.isabs(self.fleet) else []
        return [self._file, *([self.token_file] if self.token_file else []), self.fleet_secret, *secrets, *brokers]

    @field_validator("take_key", "answer_key")
    @classmethod
    def _is_key(cls, value: str, info: ValidationInfo) -> str:
        key = " ".join(value.split())
        if not key and info.field_name == "take_key":
            return key
        last = key.rpartition(" ")[2]
        if not PERSON_KEY.fullmatch(key) or last in ("d", "C-b"):
            raise ValueError(f"{value!r} is no key that can be given: take C-b and a letter other than d, or F1 to F12")
        return key

    @model_validator(mode="after")
    def _keys_differ(self) -> Self:
        if self.take_key == self.answer_key:
            raise ValueError(f"take_key and answer_key are both {self.take_key!r}: take another for one of them")
        return self

    @field_validator("fleet")
    @classmethod
    def _where(cls, value: str) -> str:
        if value in ("", "off"):
            return "off"
        return value if value == "auto" or value.startswith("ray://") else os.path.abspath(os.path.expanduser(value))

    @field_validator("files_root")
    @classmethod
    def _absolute_root(cls, value: str) -> str:
        return os.path.abspath(os.path.expanduser(value)) if value else ""

    @field_validator("state_dir")
    @classmethod
    def _own(cls, value: Path) -> Path:
        return own_directory(Path(os.path.abspath(value.expanduser())))

    @field_validator("fleet_secret")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        """tmux and the programs that keep the logs work in other directories than ours."""
        return Path(os.path.abspath(value.expanduser()))

    @field_validator("token_file", mode="before")
    @classmethod
    def _no_file(cls, value: Any) -> Any:
        """An empty variable or flag means none."""
        return os.path.abspath(os.path.expanduser(value)) if value else None

    @field_validator(
        *("program_args", "tools", "env_allow", "allowed_hosts", "sandbox_roots", "sandbox_write", "hosts_allow"),
        mode="before",
    )
    @classmethod
    def _split_words(cls, value: Any) -> Any:
        """A variable or flag is a text with commas; a file gives a list."""
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @field_validator("notify_command", mode="before")
    @classmethod
    def _split_command(cls, value: Any) -> Any:
        """A variable or flag is a text with blanks and quotes; no shell reads it."""
        return shlex.split(value) if isinstance(value, str) else value

    @field_validator("sandbox_roots", "sandbox_write")
    @classmethod
    def _absolute_words(cls, value: list[str]) -> list[str]:
        return [os.path.abspath(os.path.expanduser(path)) for path in value]

    @field_validator("limits", mode="before")
    @classmethod
    def _read_limits(cls, value: Any) -> Any:
        """A flag gives texts."""
        if not isinstance(value, dict):
            return value
        return Limits.model_validate_strings({name: str(each) for name, each in value.items() if each is not None})

    @field_serializer("limits")
    def _show_limits(self, value: Limits) -> dict[str, Any]:
        return value.model_dump(exclude_none=True)

    @field_validator("policy", mode="before")
    @classmethod
    def _rules(cls, value: Any) -> Any:
        """A variable or flag is the name of a tier, or the rules as JSON; wrong rules are refused here."""
        if isinstance(value, str):
            text = value.strip()
            try:
                value = json.loads(text) if text.startswith(("[", "{")) else [text] if text else []
            except ValueError as error:
                raise ValueError(f"it is no JSON: {error}") from None
        if isinstance(value, dict):
            value = [value]
        if isinstance(value, list) and value:
            from tmuxmcp.gate.policy.judge import parse_policy

            try:
                parse_policy(value)
            except InvalidArgument as error:
                raise ValueError(f"{error.message} {error.hint}") from None
        return value

    @field_validator("secrets", mode="before")
    @classmethod
    def _read_secrets(cls, value: Any) -> Any:
        """A variable or flag is JSON; the tables hold no values of secrets, but somebody may have put one there."""
        if isinstance(value, str):
            try:
                value = json.loads(value) if value.strip() else {}
            except ValueError:
                raise ValueError("it is no JSON") from None
        if isinstance(value, dict):
            check_names(value)
        return value

    @field_serializer("secrets")
    def _show_secrets(self, value: dict[str, Secret]) -> dict[str, Any]:
        return {name: each.model_dump(by_alias=True) for name, each in value.items()}

    @field_validator("tools")
    @classmethod
    def _known_sets(cls, value: list[str], info: ValidationInfo) -> list[str]:
        unknown = sorted(set(value) - {*TOOL_SETS, "all"})
        if unknown:
            raise ValueError(f"unknown tool set {unknown[0]!r}; there are: {', '.join(TOOL_SETS)}, all")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags and the file come in through `load_settings`; variables directly; no `.env`, no secrets folder."""
        return (init_settings, env_settings)


def read_file(path: Path | None) -> dict[str, Any]:
    """Read a settings file; `None` means the default place, where a missing file is no error.

    Raises:
        IoError: the file cannot be read, or a link on the way to it leads nowhere.
        PermissionDenied: others can write to it.
        InvalidArgument: it is no regular file, too large, not TOML, or holds a setting that does not exist.
    """
    where = path or default_config_file()
    if str(where) == os.devnull:  # for no settings at all: what others write to it is gone
        return {}
    try:
        values = read_toml(where, "The settings file", partial(_check_owner, where))
    except FileNotFoundError:
        dangling = next((each for each in (where, *where.parents) if each.is_symlink() and not each.exists()), None)
        if dangling:  # with the policy that it should give, and nobody would notice
            raise IoError(f"{dangling} is a link that leads nowhere.", hint="Mend the link, or remove it.") from None
        if path is None:
            return {}
        raise IoError(f"There is no settings file {where}.", hint="Check --config.") from None
    unknown = sorted(set(values) - set(Settings.model_fields))
    if unknown:
        raise InvalidArgument(
            f"The settings file {where} holds an unknown setting {unknown[0]!r}.",
            hint=f"Settings are: {', '.join(Settings.model_fields)}.",
        )
    return values


def _check_owner(file: Path, state: os.stat_result) -> None:
    """Who can write settings says what agents may do, and what is run.

    Raises:
        PermissionDenied: somebody else than the user and root can.
    """
    if state.st_uid not in (os.geteuid(), 0):
        raise PermissionDenied(
            f"The settings file {file} belongs to another user.", hint=f"Take it over: chown {os.geteuid()} {file}"
        )
    if state.st_mode & stat.S_IWOTH or (state.st_mode & stat.S_IWGRP and not _is_private(state.st_gid)):
        raise PermissionDenied(
            f"Others can write to the settings file {file} (mode {stat.S_IMODE(state.st_mode):o}).",
            hint=f"chmod go-w {file}",
        )
    for directory in {file.absolute().parent, file.resolve().parent}:
        mode = directory.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise PermissionDenied(
                f"Others can put another file in place of the settings file {file}.", hint=f"chmod o-w {directory}"
            )


def _is_private(group: int) -> bool:
    """Whether a group is the user's own, as many systems give one to each user: files are then made with its rights."""
    import grp
    import pwd

    try:
        entry, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return entry.gr_gid == user.pw_gid and set(entry.gr_mem) <= {user.pw_name} and entry.gr_name == user.pw_name


def load_settings(flags: Mapping[str, Any] | None = None, file: Path | None = None) -> Settings:
    """The effective settings.

    Args:
        flags: settings given on the command line or by a caller of the library, by name.
        file: the settings file; `None`: the default one, if it is there.

    Raises:
        InvalidArgument: a value is wrong; the message names the setting and where it came from.
    """
    return load_with_origins(flags, file)[0]


def load_with_origins(
    flags: Mapping[str, Any] | None = None, file: Path | None = None
) -> tuple[Settings, dict[str, str]]:
    """The effective settings, and for each where it came from: `flag`, a variable's name, a file, `default`."""
    given = dict(flags or {})
    from_file = read_file(file)
    from_env = {name for name in Settings.model_fields if VARIABLE_PREFIX + name.upper() in os.environ}
    origins = dict.fromkeys(Settings.model_fields, "default")
    origins |= dict.fromkeys(from_file, str(file or default_config_file()))
    origins |= {name: VARIABLE_PREFIX + name.upper() for name in from_env}
    origins |= dict.fromkeys(given, "flag")
    merged = {name: value for name, value in from_file.items() if name not in from_env} | given
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        raise InvalidArgument(
            f"Setting {name} (from {origins.get(name, 'the settings')}): {first['msg']}.",
            hint="`tmuxmcp config` lists all settings.",
        ) from None
    except SettingsError as error:
        raise InvalidArgument(f"A {VARIABLE_PREFIX}* variable cannot be read: {error}.") from None
    if file:
        settings._file = file.absolute()
    return settings, origins
