"""The plain values that the broker works with; `app` makes them from the settings."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Any, Literal, get_args

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.limits import Limits, SandboxWish
from tmuxmcp.contract.secrets import Secret

ToolSet = Literal["core", "process", "human", "files", "recording", "git", "helpers", "gdb", "r2"]
TOOL_SETS: tuple[ToolSet, ...] = get_args(ToolSet)
"""Names of the sets in which tools are offered. A set whose operations do not exist yet offers nothing."""


@dataclass(frozen=True)
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
