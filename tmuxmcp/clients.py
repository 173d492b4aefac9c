"""MCP clients and their configuration files: where each keeps its servers, and how our entry looks there.

Edits texts and nothing else; `cli/install.py` reads and writes the files. JSON keeps its indentation, TOML also its
comments. What a client does not keep in such a file is not touched.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tmuxmcp.errors import InvalidArgument

Scope = Literal["user", "project", "local"]
Entry = dict[str, Any]


STARTUP_S = 30
"""How long Codex may wait until the server greets it: ten seconds, its own default, are short on a busy machine."""

REPLY_S = 10
"""How much longer than the longest wait a call may take, on its way there and back."""


def plain(command: Sequence[str], max_wait_ms: int) -> Entry:
    """The entry that most clients read."""
    return {"command": command[0], "args": list(command[1:])}


def with_type(command: Sequence[str], max_wait_ms: int) -> Entry:
    """The same with the transport's name."""
    return {"type": "stdio", **plain(command, max_wait_ms)}


def for_codex(command: Sequence[str], max_wait_ms: int) -> Entry:
    """Codex cuts a call off at `tool_timeout_sec`; `codex exec` begins without a server that is not `required`."""
    times = {"startup_timeout_sec": STARTUP_S, "tool_timeout_sec": math.ceil(max_wait_ms / 1000) + REPLY_S}
    return {**plain(command, max_wait_ms), "required": True, **times}


def for_opencode(command: Sequence[str], max_wait_ms: int) -> Entry:
    """opencode has the whole command in one list."""
    return {"type": "local", "command": list(command), "enabled": True}


@dataclass(frozen=True)
class Client:
    """A client, and where it keeps its servers."""

    title: str
    files: Mapping[Scope, str]
    """Configuration file by scope, the usual one first; `~` is the home directory, other paths lie in the working
    directory."""
    table: str = "mcpServers"
    entry: Callable[[Sequence[str], int], Entry] = plain
    """`entry(command, max_wait_ms)`: how the client starts us, who may wait so long in one call."""
    results: Literal["both", "text"] = "both"
    """`text` where the model would else see the terminal's text escaped, as part of a JSON object, or twice."""
    darwin: str = ""
    """The user's file on macOS, where that is another one."""
    home_variable: str = ""
    """Variable that moves the directory of the user's file."""

    def path(self, scope: Scope, home: Path, cwd: Path, environ: Mapping[str, str]) -> Path:
        """The configuration file.

        Raises:
            InvalidArgument: this client has no such scope.
        """
        if scope not in self.files:
            raise InvalidArgument(
                f"{self.title} has no servers of scope {scope}.", hint=f"Scopes: {', '.join(self.files)}."
            )
        name = self.files[scope]
        if scope == "user" and self.darwin and sys.platform == "darwin":
            name = self.darwin
        if scope == "user" and environ.get(self.home_variable):
            return Path(environ[self.home_variable], os.path.basename(name))
        return home / name[2:] if name.startswith("~/") else cwd / name

    def keys(self, scope: Scope, cwd: Path) -> list[str]:
        """The way to the table of servers in the file."""
        return ["projects", str(cwd), self.table] if scope == "local" else [self.table]


CLIENTS: dict[str, Client] = {
    "claude-code": Client(
        "Claude Code",
        {"user": "~/.claude.json", "local": "~/.claude.json", "project": ".mcp.json"},
        entry=with_type,
        results="text",
    ),
    "claude-desktop": Client(
        "Claude Desktop",
        {"user": "~/.config/Claude/claude_desktop_config.json"},
        darwin="~/Library/Application Support/Claude/claude_desktop_config.json",
    ),
    "codex": Client(
        "Codex",
        {"user": "~/.codex/config.toml", "project": ".codex/config.toml"},
        table="mcp_servers",
        entry=for_codex,
        results="text",
        home_variable="CODEX_HOME",
    ),
    "cursor": Client("Cursor", {"user": "~/.cursor/mcp.json", "project": ".cursor/mcp.json"}),
    "vscode": Client(
        "VS Code",
        {"user": "~/.config/Code/User/mcp.json", "project": ".vscode/mcp.json"},
        table="servers",
        entry=with_type,
        darwin="~/Library/Application Support/Code/User/mcp.json",
    ),
    "gemini": Client("Gemini CLI", {"user": "~/.gemini/settings.json", "project": ".gemini/settings.json"}),
    "opencode": Client(
        "opencode",
        {"user": "~/.config/opencode/opencode.json", "project": "opencode.json"},
        table="mcp",
        entry=for_opencode,
        results="text",
    ),
}


def servers(text: str, path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """The table of servers in a configuration; empty where there is none.

    Raises:
        InvalidArgument: the text is not what the path's suffix says.
    """
    import tomllib

    try:
        table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text or "{}")
    except ValueError as error:
        raise InvalidArgument(f"{path} cannot be read: {error}.") from None
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def edited(text: str, path: Path, keys: Sequence[str], name: str, entry: Entry | None) -> str:
    """The configuration with the server `name` set to `entry`, or without it where `entry` is `None`.

    Args:
        path: whose text it is; its suffix says whether that is TOML.
        keys: the way to the table of servers.

    Raises:
        InvalidArgument: the text is not what the suffix says, or holds something else where the servers belong.
    """
    return (_edited_toml if path.suffix == ".toml" else _edited_json)(text, path, keys, name, entry)


def _edited_json(text: str, path: Path, keys: Sequence[str], name: str, entry: Entry | None) -> str:
    try:
        document = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise _unreadable(path, "JSON", error, name, entry) from None
    _put(document, path, keys, name, entry)
    indent = re.search(r"\n([ \t]+)\S", text)
    return json.dumps(document, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"


def _edited_toml(text: str, path: Path, keys: Sequence[str], name: str, entry: Entry | None) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise _unreadable(path, "TOML", error, name, entry) from None
    _put(document, path, keys, name, entry, new=lambda: tomlkit.table(is_super_table=True))
    return tomlkit.dumps(document)


def _put(
    document: Any, path: Path, keys: Sequence[str], name: str, entry: Entry | None, new: Callable[[], Any] = dict
) -> None:
    table = document
    for key in (*keys, None):
        if not isinstance(table, dict):
            where = ".".join(keys)
            raise InvalidArgument(f"{path} holds something else where its table {where} belongs.", hint="Mend it.")
        if key is None:
            break
        if key not in table:
            if entry is None:
                return
            table[key] = new()
        table = table[key]
    if entry is None:
        table.pop(name, None)
    else:
        table[name] = entry


def _unreadable(path: Path, kind: str, error: Exception, name: str, entry: Entry | None) -> InvalidArgument:
    hint = f"Add this yourself: {json.dumps({name: entry})}" if entry else f"Remove the server {name} yourself."
    return InvalidArgument(f"{path} is not plain {kind}: {error}.", hint=hint)
