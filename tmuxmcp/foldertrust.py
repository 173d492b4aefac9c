"""Which folders the user of a client trusts, by the client's own files: elsewhere some clients start no MCP server.

Looks, and never writes: trust is what a person answers the client.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from tmuxmcp import jsonc
from tmuxmcp.latedataclass import dataclass

Trust = Literal["yes", "no", "unasked", "off", "unknown"]
"""`unasked`: nothing is said of this folder, which counts as no until the person is asked; `off`: all are trusted."""


@dataclass(frozen=True)
class TrustFound:
    """Whether a folder is trusted, and what says so."""

    trust: Trust
    by: str
    """What says so: a file, a variable, a setting; or what keeps us from knowing."""


@dataclass(frozen=True)
class FolderRules:
    """A file of rules for folders, and a setting that has the client look into it."""

    directory: str
    """Where both files are; `~` is the home directory."""
    asked: bool
    """Whether the client looks where no setting says."""
    file_variable: str
    """Variable that moves the file of rules."""
    variable: str = ""
    """Variable that stands above the rules; empty: there is none."""
    system_settings: str = ""
    """Settings of the machine, which stand above the user's."""

    def find(self, folder: Path, home: Path, environ: Mapping[str, str]) -> TrustFound:
        """Whether a folder is trusted."""
        told = environ.get(self.variable) if self.variable else None
        if told in ("true", "false"):
            return TrustFound("yes" if told == "true" else "no", self.variable)
        own = home / self.directory.removeprefix("~/")
        rules = Path(environ.get(self.file_variable) or own / "trustedFolders.json")
        path = rules
        try:
            for path in [Path(self.system_settings)] * bool(self.system_settings) + [own / "settings.json"]:
                if (asked := _setting(_read(path))) is not None:
                    break
            if not (self.asked if asked is None else asked):
                return TrustFound("off", "`security.folderTrust.enabled` is off")
            path = rules
            return TrustFound(_ruled(folder, _read(rules)), str(rules))
        except (OSError, ValueError) as error:
            return TrustFound("unknown", f"{path} cannot be read: {_why(error)}")


@dataclass(frozen=True)
class TrustedProjects:
    """Codex: a table of projects in its configuration."""

    def find(self, folder: Path, home: Path, environ: Mapping[str, str]) -> TrustFound:
        """Whether a folder is trusted: by its own entry, or by that of one above it in its repository."""
        import tomllib

        path = Path(environ.get("CODEX_HOME") or home / ".codex", "config.toml")
        try:
            projects = tomllib.loads(_text(path)).get("projects", {})
        except (OSError, ValueError) as error:
            return TrustFound("unknown", f"{path} cannot be read: {_why(error)}")
        for at in _up_to_repository(Path(os.path.realpath(folder))):
            entry = projects.get(str(at)) if isinstance(projects, dict) else None
            if isinstance(entry, dict) and "trust_level" in entry:
                return TrustFound("yes" if entry["trust_level"] == "trusted" else "no", str(path))
        return TrustFound("unasked", str(path))


def _read(path: Path) -> dict[str, Any]:
    """The object in a file of JSON with comments; an empty one where there is no file.

    Raises:
        OSError, ValueError: it cannot be read, or holds something else.
    """
    found = jsonc.loads(_text(path))
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found


def _text(path: Path) -> str:
    """A file's text; empty where there is none."""
    if not path.exists():
        return ""
    if not path.is_file():  # a pipe would be waited for
        raise ValueError("it is no file")
    return path.read_text(encoding="utf-8")


def _setting(settings: Any) -> bool | None:
    for key in ("security", "folderTrust", "enabled"):
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings if isinstance(settings, bool) else None


def _ruled(folder: Path, rules: Mapping[str, Any]) -> Trust:
    """What the rule says that reaches the folder most closely."""
    here, closest, trust = os.path.realpath(folder), -1, "unasked"
    for name, level in rules.items():
        if level not in ("TRUST_FOLDER", "TRUST_PARENT", "DO_NOT_TRUST"):
            raise ValueError(f"{level!r} is no level of trust")
        at = os.path.realpath(os.path.dirname(name) if level == "TRUST_PARENT" else name)
        if len(name) > closest and os.path.commonpath([at, here]) == at:
            closest, trust = len(name), "no" if level == "DO_NOT_TRUST" else "yes"
    return trust  # type: ignore[return-value]  # one of the words above


def _up_to_repository(folder: Path) -> list[Path]:
    """A folder and those above it as far as the root of its repository; the folder alone where there is none."""
    above = [folder, *folder.parents]
    root = next((number for number, each in enumerate(above) if (each / ".git").exists()), 0)
    return above[: root + 1]


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
