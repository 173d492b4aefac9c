"""MCP clients and their configuration files: where each keeps its servers, and how our entry looks there.

Edits texts; `install.py` reads and writes the files. JSON keeps its indentation, TOML also its comments. What a
client does not keep in such a file is not touched. Of files it only looks which folders the person trusts.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.value import field, value

# ---- which folders a person trusts -----------------------------------------------------------------

Trust = Literal["yes", "no", "unasked", "off", "unknown"]
"""`unasked`: nothing is said of this folder, which counts as no until the person is asked; `off`: all are trusted."""


@value
class TrustFound:
    """Whether a folder is trusted, and what says so."""

    trust: Trust
    by: str
    """What says so: a file, a variable, a setting; or what keeps us from knowing."""


@value
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


@value
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
    found = loads(_text(path))
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


Scope = Literal["user", "project", "local"]
ServerEntry = dict[str, Any]


STARTUP_S = 30
"""How long Codex may wait until the server greets it: ten seconds, its own default, are short on a busy machine."""

REPLY_S = 10
"""How much longer than the longest wait a call may take, on its way there and back."""

URL_KEYS = ("url", "httpUrl", "serverUrl", "uri")
"""Keys of an entry that make it one of a server at a URL."""

EVERY_VARIABLE = ("*",)
"""Stands for every variable."""
SDK_VARIABLES = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""What the protocol's own libraries give a server they start."""


@value
class StartedServer:
    """A server that the client starts."""

    name: str
    command: Sequence[str]
    max_wait_ms: int
    """How long one call may wait."""


@value
class HttpServer:
    """A server that the client calls over HTTP."""

    name: str
    url: str
    token: str = field(repr=False)
    """Empty: the server asks for none."""
    max_wait_ms: int

    @property
    def headers(self) -> dict[str, str]:
        """What each request carries."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def plain(start: StartedServer) -> ServerEntry:
    """The entry that most clients read."""
    return {"command": start.command[0], "args": list(start.command[1:])}


def with_type(start: StartedServer) -> ServerEntry:
    """The same with the transport's name."""
    return {"type": "stdio", **plain(start)}


def for_codex(start: StartedServer) -> ServerEntry:
    """Codex cuts a call off at `tool_timeout_sec`; `codex exec` begins without a server that is not `required`."""
    return {**plain(start), **_codex_times(start.max_wait_ms)}


def _codex_times(max_wait_ms: int) -> ServerEntry:
    times = {"startup_timeout_sec": STARTUP_S, "tool_timeout_sec": math.ceil(max_wait_ms / 1000) + REPLY_S}
    return {"required": True, **times}


def for_opencode(start: StartedServer) -> ServerEntry:
    """opencode has the whole command in one list."""
    return {"type": "local", "command": list(start.command), "enabled": True}


def for_goose(start: StartedServer) -> ServerEntry:
    """goose calls a server an extension."""
    run = {"cmd": start.command[0], "args": list(start.command[1:]), "envs": {}, "env_keys": []}
    return {"name": start.name, "enabled": True, "type": "stdio", **run, **_goose_time(start.max_wait_ms)}


def _goose_time(max_wait_ms: int) -> ServerEntry:
    return {"timeout": max(300, math.ceil(max_wait_ms / 1000) + REPLY_S)}


def remote(url_key: str, **fixed: object) -> Callable[[HttpServer], ServerEntry]:
    """The entry of a server at a URL, as most clients read it: the URL under a key of theirs, and headers."""
    return lambda at: {**fixed, url_key: at.url} | ({"headers": at.headers} if at.headers else {})


def codex_remote(at: HttpServer) -> ServerEntry:
    """Codex ignores `headers`, and refuses a token that is not in a variable or a header."""
    return {"url": at.url, **({"http_headers": at.headers} if at.headers else {}), **_codex_times(at.max_wait_ms)}


def goose_remote(at: HttpServer) -> ServerEntry:
    """goose calls a server an extension."""
    where = {"uri": at.url, "headers": at.headers, "envs": {}, "env_keys": []}
    return {"name": at.name, "enabled": True, "type": "streamable_http", **where, **_goose_time(at.max_wait_ms)}


@value
class McpClient:
    """A client, and where it keeps its servers."""

    title: str
    files: Mapping[Scope, str]
    """Configuration file by scope, the usual one first; `~` is the home directory, other paths lie in the working
    directory."""
    table: str = "mcpServers"
    entry: Callable[[StartedServer], ServerEntry] = plain
    """How the client starts us."""
    at_url: Callable[[HttpServer], ServerEntry] | None = None
    """How it calls us over HTTP; none: its configuration has no such servers."""
    environment: tuple[str, ...] = EVERY_VARIABLE
    """Variables that it hands on to the servers it starts; `EVERY_VARIABLE`: its whole environment."""
    then: str = "Restart it"
    """What makes it read its configuration again."""
    results: Literal["both", "text"] = "both"
    """`text` where the model would else see the terminal's text escaped, as part of a JSON object, or twice."""
    darwin: str = ""
    """The user's file on macOS, where that is another one."""
    home_variable: str = ""
    """Variable that moves the directory of the user's file."""
    asks: Mapping[Scope, str] = field(default_factory=dict)
    """By scope, what the person has to agree to before this client starts the server `{name}`; none: nothing."""
    trust: FolderRules | TrustedProjects | None = None
    """Where it keeps which folders the person trusts; none: we cannot read that, or it does not matter."""
    trusted_scopes: tuple[Scope, ...] = ("user", "project")
    """Scopes whose servers it starts in trusted folders alone."""
    trust_again: str = ""
    """How the person changes what they answered about a folder."""

    def entry_of(self, server: StartedServer | HttpServer) -> ServerEntry:
        """What its configuration says of a server; `at_url` is there for one that it calls."""
        if isinstance(server, StartedServer):
            return self.entry(server)
        assert self.at_url
        return self.at_url(server)

    def trust_in(self, folder: Path, scope: Scope, home: Path, environ: Mapping[str, str]) -> TrustFound | None:
        """Whether the person trusts a folder, where servers of this scope need that; `None`: it is not known to."""
        return self.trust.find(folder, home, environ) if self.trust and scope in self.trusted_scopes else None

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

    def handed_on(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment in which it starts a server."""
        return {
            name: value
            for name, value in environ.items()
            if self.environment == EVERY_VARIABLE or name in self.environment
        }

    def keys(self, scope: Scope, cwd: Path) -> list[str]:
        """The way to the table of servers in the file."""
        return ["projects", str(cwd), self.table] if scope == "local" else [self.table]


CLIENTS: dict[str, McpClient] = {
    "claude-code": McpClient(
        "Claude Code",
        {"user": "~/.claude.json", "local": "~/.claude.json", "project": ".mcp.json"},
        entry=with_type,
        at_url=remote("url", type="http"),
        results="text",
        then="Start a new `claude`",
        asks={
            "project": "Claude Code starts the server of a project once you approve it, which the next `claude` there"
            " asks; until then `claude mcp list` says Pending approval."
        },
    ),
    "claude-desktop": McpClient(
        "Claude Desktop",
        {"user": "~/.config/Claude/claude_desktop_config.json"},
        environment=SDK_VARIABLES,
        darwin="~/Library/Application Support/Claude/claude_desktop_config.json",
        then="Quit Claude Desktop and open it again",
    ),
    "codex": McpClient(
        "Codex",
        {"user": "~/.codex/config.toml", "project": ".codex/config.toml"},
        table="mcp_servers",
        entry=for_codex,
        at_url=codex_remote,
        environment=("HOME", "LANG", "PATH", "TERM"),
        results="text",
        home_variable="CODEX_HOME",
        then="Start a new `codex`",
        asks={
            "project": "Codex reads the configuration of a project only in a folder that you trust, which `codex` asks"
            " at its first start there; elsewhere it does not mention the server."
        },
        trust=TrustedProjects(),
        trusted_scopes=("project",),
        trust_again="`trust_level` in that file changes it",
    ),
    "cursor": McpClient(
        "Cursor",
        {"user": "~/.cursor/mcp.json", "project": ".cursor/mcp.json"},
        at_url=remote("url"),
        then="Restart Cursor",
        asks=dict.fromkeys(
            ("user", "project"),
            "Cursor may show a new server as Disabled: enable it in its settings, under MCPs, and for its command line"
            " with `agent mcp enable {name}`.",
        ),
    ),
    "vscode": McpClient(
        "VS Code",
        {"user": "~/.config/Code/User/mcp.json", "project": ".vscode/mcp.json"},
        table="servers",
        entry=with_type,
        at_url=remote("url", type="http"),
        darwin="~/Library/Application Support/Code/User/mcp.json",
        then="In VS Code, run `MCP: List Servers` and start it",
        asks={
            "user": "VS Code's agents, and so their servers, work only in a workspace that you trust.",
            "project": "VS Code asks whether you trust the server when it first starts it and when its entry has"
            " changed; its agents work only in a workspace that you trust.",
        },
    ),
    "gemini": McpClient(
        "Gemini CLI",
        {"user": "~/.gemini/settings.json", "project": ".gemini/settings.json"},
        at_url=remote("httpUrl"),
        then="Start a new `gemini`",
        asks=dict.fromkeys(
            ("user", "project"),
            "Gemini CLI starts MCP servers only in a folder that you trust, which `gemini` asks at its first start"
            " there; elsewhere it shows them as Disabled.",
        ),
        trust=FolderRules(
            "~/.gemini",
            asked=True,
            file_variable="GEMINI_CLI_TRUSTED_FOLDERS_PATH",
            variable="GEMINI_CLI_TRUST_WORKSPACE",
            system_settings="/etc/gemini-cli/settings.json",
        ),
        trust_again="`/permissions` in `gemini` changes it",
    ),
    "qwen-code": McpClient(
        "Qwen Code",
        {"user": "~/.qwen/settings.json", "project": ".qwen/settings.json"},
        at_url=remote("httpUrl"),
        then="Start a new `qwen`",
        asks={
            "user": "Qwen Code starts no MCP server in a folder that you do not trust, where its setting"
            " `security.folderTrust.enabled` is on.",
            "project": "Qwen Code starts the server of a project once you approve it, with `qwen mcp approve {name}`"
            " there; until then `qwen mcp list` says Pending approval.",
        },
        trust=FolderRules("~/.qwen", asked=False, file_variable="QWEN_CODE_TRUSTED_FOLDERS_PATH"),
        trust_again="`/trust` in `qwen` changes it",
    ),
    "goose": McpClient(
        "goose",
        {"user": "~/.config/goose/config.yaml"},
        table="extensions",
        entry=for_goose,
        at_url=goose_remote,
        then="Start a new goose session",
    ),
    "opencode": McpClient(
        "opencode",
        {"user": "~/.config/opencode/opencode.json", "project": "opencode.json"},
        table="mcp",
        entry=for_opencode,
        at_url=remote("url", type="remote", enabled=True, oauth=False),
        results="text",
        then="Start a new `opencode`",
    ),
    "windsurf": McpClient(
        "Windsurf",
        {"user": "~/.codeium/windsurf/mcp_config.json"},
        at_url=remote("serverUrl"),
        then="Press the refresh button of its MCP servers",
        asks={"user": "With an Enterprise plan MCP has to be turned on in Windsurf's settings first."},
    ),
    "zed": McpClient(
        "Zed",
        {"user": "~/.config/zed/settings.json"},
        table="context_servers",
        at_url=remote("url"),
        then="Look for the green dot beside tmuxmcp in the settings of Zed's Agent Panel",
    ),
}


def read(text: str, path: Path) -> Any:
    """What a configuration says, whatever its form; of YAML the text itself.

    Raises:
        ValueError: the text is not what the path's suffix says.
    """
    import tomllib

    if path.suffix == ".toml":
        return tomllib.loads(text)
    return text if path.suffix == ".yaml" else loads(text)


def servers(text: str, path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """The table of servers in a configuration; empty where there is none. Of YAML, what we wrote ourselves.

    Raises:
        InvalidArgument: the text is not what the path's suffix says.
    """
    if path.suffix == ".yaml":
        return {found["name"]: json.loads(found["entry"]) for found in OUR_LINE.finditer(text)}
    try:
        table = read(text, path)
    except ValueError as error:
        raise InvalidArgument(f"{path} cannot be read: {error}.") from None
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def edited(text: str, path: Path, keys: Sequence[str], name: str, entry: ServerEntry | None) -> str:
    """The configuration with the server `name` set to `entry`, or without it where `entry` is `None`.

    Args:
        path: whose text it is; its suffix says whether that is TOML, YAML or JSON, with comments or without.
        keys: the way to the table of servers.

    Raises:
        InvalidArgument: the text is not what the suffix says, or holds something else where the servers belong.
    """
    editors = {".toml": _edited_toml, ".yaml": _edited_yaml}
    return editors.get(path.suffix, _edited_json)(text, path, keys, name, entry)


def _edited_json(text: str, path: Path, keys: Sequence[str], name: str, entry: ServerEntry | None) -> str:
    try:
        wanted = loads(text)
    except ValueError as error:
        raise _unreadable(path, "JSON", error, name, entry) from None
    _put_server(wanted, path, keys, name, entry)
    try:
        json.loads(text or "{}")
    except ValueError:
        return _edited_jsonc(text, path, keys, name, entry, wanted)
    indent = re.search(r"\n([ \t]+)\S", text)
    return json.dumps(wanted, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"


def _edited_jsonc(text: str, path: Path, keys: Sequence[str], name: str, entry: ServerEntry | None, wanted: Any) -> str:
    """As `_edited_json`, around the comments; no text that does not say what is wanted."""
    try:
        edited = drop(text, keys, name) if entry is None else put(text, keys, name, entry)
        if loads(edited) == wanted:
            return edited
        error = ValueError("its comments are in the way")
    except ValueError as found:
        error = found
    raise _unreadable(path, "JSON", error, name, entry)


OUR_LINE = re.compile(r"^ +(?P<name>[\w.-]+): (?P<entry>\{\".*\})$", re.MULTILINE)
"""An entry as we write it into YAML, of which JSON is a part."""

PLAIN_YAML = re.compile(r"\A(?:(?:#.*|---|[ \t]*)\n)*(?:\Z|[A-Za-z_][\w.-]*:(?:[ \t].*)?\n"
                        r"(?:(?:#.*|[ \t].*|-(?: .*)?|[A-Za-z_][\w.-]*:(?:[ \t].*)?|)\n)*\Z)")  # fmt: skip
"""A file in which a key that stands at the beginning of a line is a key of the whole."""


def _edited_yaml(text: str, path: Path, keys: Sequence[str], name: str, entry: ServerEntry | None) -> str:
    """An entry is one line of its own; nothing else is touched, so that comments stay.

    What needs a parser of YAML is refused: a file of another shape, an entry that somebody else wrote.
    """
    lines, table = text.splitlines(), keys[-1]
    ours = next((at for at, line in enumerate(lines) if (found := OUR_LINE.match(line)) and found["name"] == name), -1)
    others = any(re.match(rf"\s+[\"']?{re.escape(name)}[\"']?\s*:", line) for line in lines[:ours] + lines[ours + 1 :])
    heads = [at for at, line in enumerate(lines) if line.startswith(f"{table}:")]
    plain_head = not heads or re.fullmatch(rf"{table}:\s*(?:\{{\s*\}}\s*)?(?:#.*)?", lines[heads[0]])
    if len(heads) > 1 or not plain_head or (ours < 0 and others) or not PLAIN_YAML.match("\n".join([*lines, ""])):
        raise _unreadable(path, "YAML of a simple shape", None, name, entry)
    if entry is None and ours < 0:
        return text
    if entry is None:
        del lines[ours]
        if not _children_indent(lines, heads[0]):
            lines[heads[0]] = f"{table}: {{}}"
    else:
        if not heads:
            heads, lines = [len(lines)], [*lines, f"{table}:"]
        lines[heads[0]] = re.sub(r"\{\s*\}\s*", "", lines[heads[0]]).rstrip()
        indent = _children_indent(lines, heads[0]) or "  "
        line = f"{indent}{name}: {json.dumps(entry, ensure_ascii=False)}"
        lines[heads[0] + 1 if ours < 0 else ours : heads[0] + 1 if ours < 0 else ours + 1] = [line]
    return "".join(f"{line}\n" for line in lines)


def _children_indent(lines: Sequence[str], head: int) -> str:
    """The blanks before what stands below a key; empty: nothing does."""
    below = (line for line in lines[head + 1 :] if line.strip() and not line.lstrip().startswith("#"))
    found = re.match(r" *", next(below, ""))
    return found[0] if found else ""


def _edited_toml(text: str, path: Path, keys: Sequence[str], name: str, entry: ServerEntry | None) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise _unreadable(path, "TOML", error, name, entry) from None
    _put_server(document, path, keys, name, entry, new=lambda: tomlkit.table(is_super_table=True))
    return tomlkit.dumps(document)


def _put_server(
    document: Any, path: Path, keys: Sequence[str], name: str, entry: ServerEntry | None, new: Callable[[], Any] = dict
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


def _unreadable(
    path: Path, kind: str, error: Exception | None, name: str, entry: ServerEntry | None
) -> InvalidArgument:
    hint = f"Remove the server {name} yourself."
    if entry:
        hint = f"Add this to its servers yourself: {masked(json.dumps({name: entry}, ensure_ascii=False))}"
    return InvalidArgument(f"{path} is not plain {kind}{f': {error}' if error else ''}.", hint=hint)


def masked(text: str) -> str:
    """A text of a configuration without the tokens in it."""
    return re.sub(r"Bearer [^\s\"']+", "Bearer TOKEN", text)


# ---- JSON with comments and trailing commas --------------------------------------------------------------------------
#
# As editors keep their settings: read it, and change one member of it.
#
# What is not the member stays as it is, byte by byte. Pure: texts in, texts out.

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


class Member(NamedTuple):
    """A member of an object: where its key begins, and its value from its first character to behind its last."""

    key: str
    start: int
    value: int
    end: int


def loads(text: str) -> Any:
    """The value of a text; an empty one is an empty object.

    Raises:
        ValueError: it is no JSON, apart from comments and trailing commas.
    """
    return json.loads(_plain(text)) if text.strip() else {}


def put(text: str, keys: Sequence[str], name: str, value: Any) -> str:
    """The text with `value` as the member `name` of the object that `keys` lead to; objects that are missing are made.

    Raises:
        ValueError: the text is no JSON with comments, or something else than an object is on the way.
    """
    for depth, key in enumerate([*keys, name]):
        found = _members(text, keys[:depth])
        member = next((each for each in reversed(found) if each.key == key), None)
        if member is None:
            for missing in reversed([*keys, name][depth + 1 :]):
                value = {missing: value}
            return _inserted(text, keys[:depth], key, value)
    assert member is not None
    return text[: member.value] + _encoded(value, _indent(text, member.start)) + text[member.end :]


def drop(text: str, keys: Sequence[str], name: str) -> str:
    """The text without the member `name` of the object that `keys` lead to, if there is one.

    Raises:
        ValueError: as of `put`.
    """
    for depth, key in enumerate(keys):
        if key not in [each.key for each in _members(text, keys[:depth])]:
            return text
    found = _members(text, keys)
    index = next((index for index, each in enumerate(found) if each.key == name), None)
    if index is None:
        return text
    member, plain = found[index], _plain(text, commas=True)
    start, end = member.start, member.end
    comma = re.compile(r"\s*,").match(plain, end)
    if comma:
        end = comma.end()
    elif index:
        # The last one: the comma before it goes, what stands between them stays.
        before = plain.index(",", found[index - 1].end)
        return text[:before] + text[before + 1 : start].rstrip() + text[end:]
    blank = re.compile(r"[ \t]*\n").match(text, end)
    line = text.rfind("\n", 0, start) + 1
    return text[:line] + text[blank.end() :] if blank and not text[line:start].strip() else text[:start] + text[end:]


def _plain(text: str, *, commas: bool = False) -> str:
    """The text as JSON of the same length: blanks for comments, and for trailing commas unless they are kept."""
    plain = _TOKEN.sub(lambda found: _blank(found[0]) if found[0][0] == "/" else found[0], text)
    return plain if commas else _COMMA.sub(lambda found: " " if found[0] == "," else found[0], plain)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _members(text: str, keys: Sequence[str]) -> list[Member]:
    """The members of the object that `keys` lead to."""
    plain = _plain(text)
    json.loads(plain)
    found = _members_at(plain, _skip(plain, 0))
    for key in keys:
        found = _members_at(plain, next(each.value for each in reversed(found) if each.key == key))
    return found


def _members_at(plain: str, start: int) -> list[Member]:
    if plain[start] != "{":
        raise ValueError("there is no object where one is needed")
    found, at, decoder = [], _skip(plain, start + 1), json.JSONDecoder()
    while plain[at] != "}":
        key, behind = decoder.raw_decode(plain, at)
        value = _skip(plain, _skip(plain, behind) + 1)
        _, end = decoder.raw_decode(plain, value)
        found.append(Member(key, at, value, end))
        at = _skip(plain, end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)
    return found


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _inserted(text: str, keys: Sequence[str], key: str, value: Any) -> str:
    """The text with one more member, the first of its object: there no comma before it can be missing."""
    plain = _plain(text)
    start = _skip(plain, 0)
    found = _members_at(plain, start)
    for each in keys:
        start = next(member.value for member in reversed(found) if member.key == each)
        found = _members_at(plain, start)
    outer = _indent(text, start)
    inner = _indent(text, found[0].start) if found and "\n" in text[start : found[0].start] else outer + _step(text)
    shown = f"\n{inner}{json.dumps(key, ensure_ascii=False)}: {_encoded(value, inner)}"
    rest = text[start + 1 :]
    if found:
        return text[: start + 1] + shown + "," + (rest if "\n" in text[start : found[0].start] else f"\n{inner}{rest}")
    return text[: start + 1] + shown + ("" if rest.lstrip(" \t").startswith(("\n", "\r")) else f"\n{outer}") + rest


def _encoded(value: Any, indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + indent)


def _indent(text: str, at: int) -> str:
    """The blanks at the beginning of a line."""
    line = text.rfind("\n", 0, at) + 1
    blanks = re.compile(r"[ \t]*").match(text, line)
    return blanks[0] if blanks else ""


def _step(text: str) -> str:
    first = re.search(r"\n([ \t]+)\S", text)
    return first[1] if first else "  "
