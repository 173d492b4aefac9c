"""Writes the pages of docs/reference that the code's own tables can tell: tools, settings, errors, command line.

`pages()` gives them as text, which the tests compare with the files; run as a program, it writes the files.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tmuxmcp.config import VARIABLE_PREFIX, Settings, home
from tmuxmcp.contract import errors, results
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.request import Operation, Seldom
from tmuxmcp.contract.settings import DEFAULT_SETTINGS, TOOL_SETS
from tmuxmcp.faces import rpc
from tmuxmcp.faces.cli import arguments
from tmuxmcp.faces.cli.helptext import EXIT_STATUS, Argument, Verb, word_of
from tmuxmcp.faces.mcp import select
from tmuxmcp.faces.metrics import METRICS
from tmuxmcp.terminal.keys import parse_keys

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
MEANINGS = {
    "session_id": "The session's id.",
    "program": "As it was asked for.",
    "args": "Its arguments.",
    "pid": "Process id of the program.",
    "cwd": "Working directory of its shell or program.",
    "rows": "Rows of its terminal.",
    "tmux_version": "Of the tmux that it uses.",
    "python_version": "Of the Python that it runs on.",
    "cols": "Columns of its terminal.",
    "row": "Row, from 0.",
    "col": "Column, from 0.",
    "mode": "What the terminal does.",
    "ready": "It waits for input.",
    "attach_command": "How a person watches it.",
    "note": "What else the caller should know.",
    "exited": "Its program has ended.",
    "exit_code": "Exit code of what ended; null: by a signal, or not known.",
    "exit_signal": "Name of the signal that ended it, without SIG.",
    "duration_ms": "How long it took.",
    "destroyed": "It is gone.",
    "title": "What its program set as title.",
    "created_at": "ISO 8601, UTC.",
    "last_activity_at": "When it last printed something; ISO 8601, UTC.",
    "output_bytes": "Raw bytes that it has printed.",
    "cursor": "Where the cursor is.",
    "foreground": "The program in front.",
    "alternate_screen": "A full-screen program has switched to a screen of its own.",
    "recording": "A recording of it is being made.",
    "usage": "What its processes use.",
    "watch_url": "Page on which a person can watch, where there is one.",
    "completed": "The command is done.",
    "outcome": "Why the wait ended.",
    "evidence": "What said so.",
    "truncated": "Something was left out.",
    "omitted_bytes": "Raw bytes left out.",
    "start_offset": "Where the output begins in the log.",
    "end_offset": "Where it ends.",
    "output": "What the command printed, as clean text.",
    "view": "As asked for; `auto` has become `new`, `screen` or `diff`.",
    "waited_ms": "How long the wait took.",
    "effective_timeout_ms": "Set when the time asked for was shortened to `max_wait_ms`.",
    "has_new_content": "Something was printed since the last read, or since `since`; for `diff`, something changed.",
    "encoding": "`base64` for `view=raw`.",
    "sanitized": "Invisible characters were replaced by `<U+XXXX>`.",
    "highlights": "What stands in reverse video on the screen.",
    "content": "The text.",
    "format": "What the picture is.",
    "mime_type": "The same as a media type.",
    "width": "In pixels; of a page, null.",
    "height": "In pixels; of a page, null.",
    "sent": "The program was given it.",
    "sent_bytes": "Bytes of text, and one for each key.",
    "scrollback_lines": "Lines that its scrollback keeps.",
    "result": "As `read` gives it; null with `read=none`.",
    "delivered": "Somebody got it.",
    "pids": "Who got it.",
    "count": "How many.",
    "sessions": "The sessions; for `health`, how many are running.",
    "version": "Of tmuxmcp.",
    "limits": "The settings that limit calls, by name.",
    "checks": "What was looked at, and whether it is well.",
    "uptime_s": "Seconds since this server started.",
    "healthy": "False when something is wrong; `note` says what.",
    "visible": "It is shown.",
    "command": "Command line.",
    "text": "The text.",
    "name": "What was looked at.",
    "ok": "It is well.",
    "message": "What was found.",
    "cpu_ms": "Processor time.",
    "rss_bytes": "Resident memory.",
    "processes": "How many there are.",
    "value": "What it is.",
    "kept_by": "Who sees to it; `nobody`: this system cannot.",
}
"""Fields that mean the same wherever they stand; a docstring below a field in the code goes first."""

ARGUMENTS = {
    "rows": "Rows of the terminal.",
    "cols": "Columns of the terminal.",
    "ready_timeout_ms": "Longest wait for that.",
    "scrollback_lines": "Lines that the scrollback keeps.",
    "signal": "Name of the signal, without SIG.",
    "limits": "Limits of its own, no higher than those of the settings: `memory_mb`, `cpu_seconds`, `cpu_percent`, "
    "`processes`, `open_files`, `file_mb`, `duration_s`.",
    "sandbox": "Put it into a sandbox: the best one there is, or one with namespaces of its own, else `UNSUPPORTED`.",
    "timeout_s": "When the request is over, in seconds, however often it is taken up.",
    "record": "Not offered yet: anything but false is `UNSUPPORTED`.",
    "host": "Not offered yet: anything but an empty text is `UNSUPPORTED`.",
    "include_exited": "Also sessions whose program has ended.",
    "ctrl": "`key` with Ctrl held.",
    "alt": "`key` with Alt held.",
    "shift": "`key` with Shift held.",
    "bracketed_paste": "Mark `text` as a paste, but for a last newline, which is Enter; auto: several lines, for a "
    "line editor that asked for it and takes them as lines.",
    "format": "`plain` text or with its colours; of a picture, what it is made as.",
    "action": "What the mouse does; a click is a press and a release.",
    "row": "Row, from 0; for scroll_up and scroll_down, the middle if left out.",
    "col": "Column, from 0.",
    "button": "left if left out; for move none: no button is held.",
    "wait_for": "What to wait for first; `changed`: another screen than `screen_id`, or your last look.",
    "stdin": "What the process reads, as text.",
    "path": "Where it is.",
    "data": "The whole new content.",
    "max_bytes": "Most bytes of it to return.",
    "stdin_base64": "The same as base64.",
}
"""Arguments that a model understands by their names alone, and a reader may not."""

KEYS = [
    ("tmux", ["C-c", "M-x", "Up", "F5", "S-Up"]),
    ("caret", ["^C"]),
    ("brackets", ["[UP]", "[F1]", "[PGUP]"]),
    ("angles", ["<ctrl-c>", "<esc>", "<enter>"]),
    ("words", ["ctrl_c", "alt-x", "shift+tab", "pageup"]),
    ("a character", ["a", ":", "é"]),
    ("repeated", ["Down*3"]),
]
"""Notations of keys, with examples."""

HTTP_PATHS = [
    ("`/mcp`", "POST, GET, DELETE", "yes", "MCP over streamable HTTP, in both protocol eras."),
    ("`/rpc`", "POST", "yes", "JSON-RPC 2.0."),
    ("`/metrics`", "GET", "yes", "Metrics for Prometheus."),
    ("`/fleet/...`", "POST", "yes", "For gateways of [many machines](../howto/many-machines.md)."),
    ("`/healthz`", "GET", "no", "200 while tmux answers, else 503."),
    ("`/`", "GET", "no", "[The page](../howto/page.md) for a person's browser; it asks below `/page/`."),
    ("`/page/enter`", "POST", "no", "Exchanges a code of `tmuxmcp page` for a person's token."),
    ("`/page/...`", "GET, POST", "a person's", "What the page asks for; no other token is good there."),
]
HTTP_STATUS = [
    (
        "400",
        "`INVALID_ARGUMENT`",
        "Host, Origin or Authorization is there more than once, Content-Length beside Transfer-Encoding; no HTTP, or "
        "a line of the head without CR; on `/mcp`, a body that is not JSON.",
    ),
    ("401", "`UNAUTHORIZED`", "No token came, or none that is accepted."),
    ("403", "`PERMISSION_DENIED`", "A page of another site asks (Origin)."),
    ("404", "`INVALID_ARGUMENT`", "There is no such path."),
    ("405", "`INVALID_ARGUMENT`", "The path does not take this method."),
    ("406", "`INVALID_ARGUMENT`", "On `/mcp`: Accept does not name `application/json` and `text/event-stream`."),
    ("408", "`TIMEOUT`", "The body did not arrive in 30 s; without a token, in 5 s."),
    ("413", "`RESOURCE_LIMIT`", "The body is over 16 MiB; without a token, over 1 KiB."),
    ("415", "`INVALID_ARGUMENT`", "On `/rpc`: the Content-Type is not `application/json`."),
    ("421", "`PERMISSION_DENIED`", "The Host is neither a loopback name nor in `allowed_hosts`."),
    ("431", "`RESOURCE_LIMIT`", "The head is over 32 KiB."),
    ("500", "`INTERNAL`", "A defect of ours; the log has it."),
    ("503", "`CANCELLED`", "The server stops. Sessions go on."),
    ("503", "`RESOURCE_LIMIT`", "More than 512 connections of clients with a token, or 128 MiB of bodies at once."),
]
RPC_NUMBERS = [
    ("-32700", "The body is not JSON."),
    ("-32600", "It is no request, or a batch that is empty or too long."),
    ("-32601", "There is no such method."),
    ("-32602", "An argument is missing, unknown or wrong."),
    ("-32603", "`INTERNAL`."),
    ("-32000", "Every other error; `data.code` says which."),
]
SCOPES = [
    ("`read`", "To look at sessions and their resources, always with a `session_id`; `health`, `/metrics`."),
    ("`write`", "All operations, and a default session of its own."),
    ("`admin`", "Also to act in the default sessions of other clients, and to end them."),
    ("`person`", "Alone: what a gateway's page passes on, below `/page/`; no operation."),
]

VALUES: dict[str, dict[str, str]] = {
    "Mode": {
        "shell_prompt": "A shell waits at its prompt.",
        "running": "A program works; it does not wait for input.",
        "line_input": "A program waits for a line or a key.",
        "password": "A program waits for a line and does not echo it: a secret.",
        "pager": "A pager waits, such as less.",
        "editor": "An editor waits, such as vim.",
        "fullscreen": "Another full-screen program.",
        "stopped": "The program in front is stopped (Ctrl-Z).",
        "exited": "The session's program has ended; screen and log can be read.",
        "lost": "The tmux server ended; the log can be read.",
        "unknown": "Nothing says what it does, as behind ssh.",
    },
    "Outcome": {
        "ready": "The program waits for input.",
        "command": "A command has ended: `command` tells of it.",
        "idle": "Nothing was printed for `idle_ms`; it may still be working.",
        "matched": "The pattern was found, `matched` has the text; or, for `changed`, the screen has changed.",
        "output": "Something was printed that you have not read; of `wait` alone.",
        "needs_you": "A secret or a person is asked for something, or a session was given back; of `wait` alone.",
        "taken": "A person took the session over meanwhile; what runs goes on.",
        "exited": "The session's program has ended.",
        "timeout": "The time was up; what runs goes on.",
        "immediate": "There was no wait; for `wait_for=command`, no command runs.",
    },
    "Evidence": {
        "marks": "The session's own shell said so.",
        "kernel": "The kernel says what the program sleeps in.",
        "prompt": "The last line matches `prompt_pattern`.",
        "quiet": "Nothing was printed for `idle_ms`: that is no readiness.",
    },
}
"""What the values of the named types mean."""

HEAD = "<!-- Written by scripts/reference from the code. Change the code, then run it. -->\n\n"


def pages() -> dict[str, str]:
    """The pages by file name."""
    made = {"tools.md": tools(), "settings.md": settings(), "errors.md": error_codes(), "cli.md": command_line()}
    made["http.md"] = http()
    return {name: HEAD + "\n".join(lines) + "\n" for name, lines in made.items()}


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown; a bar in a cell is escaped, a line end becomes a blank."""
    lines = [heading, ["---"] * len(heading), *rows]
    return ["| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines] + [""]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", r"\|").split())


def code(value: object) -> str:
    """A value in code type; nothing for nothing."""
    return f"`{value}`" if value not in ("", None) else ""


# ---- tools -------------------------------------------------------------------------------------


def tools() -> list[str]:
    """Each operation: what it does, its arguments, its result, its errors."""
    lines = [
        "# Tools",
        "",
        "Each operation is an MCP tool and a method of the [library](../howto/use-from-python.md), with the same",
        "arguments and the same result. Unknown arguments are refused.",
        "",
        "- Sizes are bytes. `_ms` are milliseconds. Offsets are byte offsets into the session's log.",
        "- Rows and columns of positions count from 0. A field that is not known is `null`; no field is left out.",
        "- Where a [setting](settings.md) has an argument's name, the setting gives the default. An empty `program`",
        "  or `cwd` means the setting too.",
        "- `timeout_ms` is cut to the setting `max_wait_ms`; `effective_timeout_ms` says so.",
        "- Every tool can answer [`POLICY_DENIED`](errors.md#policy_denied) or",
        "  [`CONFIRMATION_DECLINED`](errors.md#confirmation_declined) where there is a",
        "  [policy](../howto/set-a-policy.md), and [`IO_ERROR`](errors.md#io_error) where the audit is strict.",
        "- `run`, `send` and `create_session` with a `request_id`, also in `_meta` as `tmuxmcp/request_id`, can be",
        "  [asked for again](../howto/retry-safely.md): nothing is done twice, and `replayed` says so.",
        "- Over MCP every result and every error has in `_meta` a correlation id, `tmuxmcp/call`, and how long the",
        "  call took, `tmuxmcp/duration_ms`.",
        "",
        "Sets of tools, for the setting `tools`: "
        + "; ".join(f"`{name}`: {', '.join(map(code, names))}" for name in TOOL_SETS if (names := select([name])))
        + ".",
        "The other names that the setting knows add nothing in this version.",
        "",
    ]
    for operation in OPERATIONS.values():
        lines += _operation(operation)
    lines += [
        "## Keys",
        "",
        "`key` and `keys` take these notations, in any case of letters but for single characters. A key that is not",
        "understood sends nothing at all. A single character is typed as it is.",
        "",
        *table(("notation", "examples", "tmux's names"), _keys()),
    ]
    lines += ["## Values", "", *table(("field", "value", "meaning"), _values())]
    lines += ["## Objects inside results", ""]
    for model in _inner_models():
        lines += [f"### {model.__name__}", "", _first_line(model), "", *_fields(model)]
    return lines[:-1]


def _operation(operation: Operation) -> Iterator[str]:
    hints = {"read only": operation.read_only, "destructive": operation.destructive}
    hints |= {"idempotent": operation.repeatable, "open world": operation.open_world}
    said = [hint for hint, is_so in hints.items() if is_so]
    yield from (f"## {operation.name}", "", operation.description, "")
    if said:
        yield from (f"Acts on: {operation.acts}. Hints to clients: {', '.join(said)}.", "")
    rows = list(_arguments(operation))
    if rows:
        yield from table(("argument", "type", "default", "range", "meaning"), rows)
    else:
        yield from ("No arguments.", "")
    yield from ("Result:", "", *_fields(operation.result))
    codes = _raised(operation.request)
    if codes:
        links = ", ".join(f"[`{each}`](errors.md#{each.lower()})" for each in codes)
        yield from (f"Errors: {links}.", "")


def _arguments(operation: Operation) -> Iterator[tuple[str, ...]]:
    properties = operation.schema(DEFAULT_SETTINGS)["properties"]
    for name, field in operation.arguments.items():
        schema = properties[name]
        default = "required" if field.is_required() else code(json.dumps(schema["default"]))
        meaning = field.description or schema.get("description") or ARGUMENTS.get(name, "")
        if name in operation.marks(Seldom):
            meaning = "; ".join(filter(None, (meaning, "in the schema with `tools = all`")))
        yield code(name), _type(schema), default, _range(schema), meaning


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " ".join(code(each) for each in schema.get("enum", [schema.get("const")]))
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema['items'])}"
        case "object" if "properties" in schema:
            return code(json.dumps(dict.fromkeys(schema["properties"], "...")))
        case "object" if schema["additionalProperties"] is True:
            return "object"
        case "object":
            return f"object of {_type(schema['additionalProperties'])}"
        case None:
            return "any JSON"
        case kind:
            return str(kind)


def _range(schema: dict[str, Any]) -> str:
    schema = next((each for each in schema.get("anyOf", []) if "minimum" in each), schema)
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and high is None:
        return ""
    return f"{low:,} to {high:,}" if high is not None else f"{low:,} or more"


def _fields(model: type[results.Result]) -> list[str]:
    said = field_docs()[model.__name__]
    properties = model.adapter().json_schema(mode="serialization")["properties"]
    aliases = {json.dumps(_values_of(alias)): name for name, alias in _aliases().items()}
    rows = []
    for name, schema in properties.items():
        named = next((aliases.get(json.dumps(_enum(part))) for part in schema.get("anyOf", [schema])), None)
        kind = f"[{named}](#values)" if named else _type(schema)
        if named and "anyOf" in schema:
            kind += " or null"
        rows.append((code(name), kind, said.get(name) or MEANINGS.get(name, "")))
    return table(("field", "type", "meaning"), rows)


def field_docs() -> dict[str, dict[str, str]]:
    """The docstrings below the fields of all result models, by class and field; also those of the class it extends."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(results))):
        if isinstance(node, ast.ClassDef):
            pairs = zip(node.body, node.body[1:], strict=False)
            above = [found[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in found]
            found[node.name] = {name: text for fields in above for name, text in fields.items()} | {
                field.target.id: below.value.value
                for field, below in pairs
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            }
    return found


def _aliases() -> dict[str, Any]:
    """The named sets of values that results use."""
    return {name: getattr(results, name) for name in VALUES}


def _values_of(alias: Any) -> list[str]:
    return list(alias.__args__)


def _enum(schema: dict[str, Any]) -> Any:
    return schema.get("enum")


def _keys() -> Iterator[tuple[str, str, str]]:
    for notation, examples in KEYS:
        yield notation, " ".join(map(code, examples)), " ".join(map(code, parse_keys(examples)))


def _values() -> Iterator[tuple[str, str, str]]:
    for name, alias in _aliases().items():
        for value in _values_of(alias):
            yield name, code(value), VALUES[name].get(value, "")


def _inner_models() -> list[type[results.Result]]:
    names = {name for row in OPERATIONS.values() for name in row.result_schema.get("$defs", ())}
    return [getattr(results, name) for name in sorted(names)]


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n")[0]


def _raised(function: Callable[..., Any]) -> list[str]:
    """Codes of the errors that a docstring names."""
    _, _, raises = (inspect.getdoc(function) or "").partition("Raises:")
    found = [getattr(errors, name, None) for name in re.findall(r"\b[A-Z][A-Za-z]+\b", raises)]
    return sorted({each.code for each in found if isinstance(each, type)})


# ---- settings ----------------------------------------------------------------------------------


def settings() -> list[str]:
    """Each setting: default, variable, flag, meaning."""
    lines = [
        "# Settings",
        "",
        "A value comes from the first of these that has one: a flag, a `TMUXMCP_*` variable, the settings file, the",
        "default. The settings file is `~/.config/tmuxmcp/config.toml`, or what `--config FILE` names; one that others",
        "can write to is refused, and so is a link that leads nowhere. Nothing is read",
        "from the working directory. `tmuxmcp config` prints each setting and where its value came from.",
        "",
        "`serve`, `demo` and `config` take every flag (`demo` has a state directory of its own). The other commands",
        "take `--state-dir` and `--log-level`.",
        "",
        "A list is words with commas between them in a flag or variable, and an array in the file. `env` and `limits`",
        "are given as `--env NAME=VALUE` (again for each), as a JSON object in the variable, and as a table in the",
        "file. `secrets` is a JSON object in a flag or variable, and [tables](../howto/passwords.md) in the file:",
        "",
        "```toml",
        'program = "bash"',
        "max_sessions = 8",
        'env_allow = ["AWS_PROFILE", "DOCKER_*"]',
        "",
        "[env]",
        'PAGER = "cat"',
        "```",
        "",
        *table(("setting", "default", "range", "meaning"), _settings()),
        "## Names",
        "",
        *table(("setting", "variable", "flag"), _setting_names()),
    ]
    return lines[:-1]


def _settings() -> Iterator[tuple[str, ...]]:
    properties = Settings.model_json_schema()["properties"]
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            default = default.model_dump(exclude_none=True)
        if isinstance(default, Path):
            shown = code(str(default).replace(str(home()), "~"))
        elif isinstance(default, list):
            shown = code(",".join(default)) or "none"
        elif default is None or (isinstance(default, (dict, str)) and not default):
            shown = "none"
        else:
            shown = code(default if isinstance(default, str) else json.dumps(default))
        schema = properties[name]
        allowed = _type(schema) if "enum" in schema else _range(schema)
        yield code(name), shown, allowed, f"{field.description}."


def _setting_names() -> Iterator[tuple[str, ...]]:
    for name in Settings.model_fields:
        yield code(name), code(VARIABLE_PREFIX + name.upper()), code("--" + name.replace("_", "-"))


# ---- errors ------------------------------------------------------------------------------------


def error_codes() -> list[str]:
    """Each error code."""
    lines = [
        "# Errors",
        "",
        "A code never changes its meaning and is never used again for another. The message says what happened, the",
        "hint what to do next. A wait that ends is an answer with an `outcome`, not an error.",
        "",
        "| where | form |",
        "| --- | --- |",
        "| MCP | `isError`; text `CODE: message Hint: ...`; the object below in `_meta` under `tmuxmcp/error` |",
        '| command line | one line on stderr and the exit status; with `--json` also `{"error": ...}` on stdout |',
        "| JSON-RPC | `error.data` is the object below; [numbers](http.md#json-rpc) |",
        '| HTTP | the status below where no call was made; the body is `{"error": ...}` |',
        "| library | `TmuxMcpError` with `code`, `message`, `hint`, `retryable`, `details` |",
        "",
        "The object is `{code, message, retryable, hint, details}`. `details` holds values for programs, such as",
        "`session_id`. Retryable means: the same call may succeed later.",
        "",
        "`tmuxmcp run` exits with the command's own status, and with 125 for every error of this table.",
        "The column HTTP has the status of the same meaning; JSON-RPC answers 200 and says the error in the body.",
        "",
    ]
    lines += table(("code", "exit status", "HTTP", "retryable"), map(_error_row, errors.all_errors()))
    for each in errors.all_errors():
        lines += [f"## {each.code}", "", _first_line(each), ""]
    return lines[:-1]


def _error_row(error: type[errors.TmuxMcpError]) -> tuple[str, ...]:
    link = f"[`{error.code}`](#{error.code.lower()})"
    return link, str(error.exit_status), str(error.http_status), "yes" if error.retryable else "no"


# ---- HTTP --------------------------------------------------------------------------------------


def http() -> list[str]:
    """Paths, methods of JSON-RPC with their scopes, numbers of errors, metrics."""
    lines = [
        "# HTTP and JSON-RPC",
        "",
        "`tmuxmcp serve --http HOST:PORT` serves one application. [How to run it](../howto/serve-over-http.md).",
        "",
        *table(("path", "method", "token", "does"), HTTP_PATHS),
        'Every refusal is JSON: `{"error": ...}` with [the object of all errors](errors.md). What `/mcp` itself says',
        "of a message that it does not take is a JSON-RPC error, as MCP has it.",
        "",
        *table(("status", "code", "means"), HTTP_STATUS),
        "## JSON-RPC",
        "",
        "`POST /rpc` with `Content-Type: application/json`. JSON-RPC 2.0: the method is the name of an operation,",
        "`params` an object with its arguments by name, `result` its result. Arguments and results are those of",
        "[the tools](tools.md), whatever the setting `tools` says. `rpc.discover` gives an OpenRPC document;",
        "`rpc.asciicast`, with `session_id` and `most_bytes`, what MCP's resource of a recording is made of.",
        "",
        f"A batch has 1 to {rpc.MAX_BATCH} calls, which are done one after the other in their order. Once their",
        f"answers have more than {rpc.MAX_BATCH_BYTES >> 20} MiB, the next is refused, and nothing behind it is done.",
        "Notifications are done and not answered; where there are only notifications, the status is 204. The header",
        "`tmuxmcp-call` has the correlation ids of the calls, as the log has them.",
        "",
        "A client that calls for several callers names the one in the header `tmuxmcp-caller` (letters, digits,",
        "`_` and `-`): each has a default session and read cursors of its own. `tmuxmcp-client` says whose",
        "`request_id`s are meant, and `tmuxmcp-scopes` (`read,write`) takes scopes away.",
        "",
        *table(
            ("method", "scope"), [(f"[`{row.name}`](tools.md#{row.name})", row.scope) for row in OPERATIONS.values()]
        ),
        "`error.data` is the object of all errors; `error.code` is a number:",
        "",
        *table(("number", "when"), RPC_NUMBERS),
        "## Tokens",
        "",
        "A line of the token file, or of the variable `TMUXMCP_TOKEN`, is `NAME SCOPES TOKEN`, or a single token,",
        "which is named `default` and has the scope `admin`. In place of TOKEN its hash may stand: `sha256:` and the",
        "64 hexadecimal digits that `printf %s TOKEN | sha256sum` prints. Lines that begin with `#` are comments.",
        "",
        *table(("scope", "allows"), SCOPES),
        "A service on loopback that is given no token makes one with the scope `admin`, in [`http_token`](files.md);",
        "on other addresses it does not start.",
        "",
        "## Metrics",
        "",
        *table(("metric", "labels", "counts"), _metrics()),
    ]
    return lines[:-1]


def _metrics() -> Iterator[tuple[str, str, str]]:
    for each in METRICS:
        yield code(each.name), ", ".join(map(code, each.labels)), f"{each.counts}."


# ---- command line ------------------------------------------------------------------------------


def command_line() -> list[str]:
    """Each command with its words and options."""
    lines = [
        "# Command line",
        "",
        *(line.strip() for line in arguments.DESCRIPTION.splitlines()),
        "",
        *(line.strip() for line in EXIT_STATUS.splitlines()),
        "",
    ]
    rows = [(f"[`{name}`](#tmuxmcp-{name})", verb.summary) for name, verb in arguments.VERBS.items()]
    lines += table(("command", "does"), rows)
    for name, verb in arguments.VERBS.items():
        lines += [f"## tmuxmcp {name}", "", *verb.description.split("\n"), "", *_verb(name, verb)]
    return lines[:-1]


def _verb(name: str, verb: Verb) -> list[str]:
    every = verb.every_argument()
    positional = [each for each in every if not each.is_option]
    words = " ".join(map(word_of, positional))
    lines = ["```text", f"tmuxmcp {name} [OPTIONS] {words}".rstrip(), "```", ""]
    if verb.other_names:
        lines += [f"Also: {', '.join(map(code, verb.other_names))}.", ""]
    rows = [(code(word_of(each)), each.text) for each in positional]
    options = [each for each in every if each.is_option and each.dest != "help"]
    has_all = any(each.dest == "set_rows" for each in options)
    shown = [each for each in options if not (has_all and each.dest.startswith("set_"))]
    rows += [(_option(each), each.text) for each in shown]
    lines += table(("word or option", "meaning"), rows)
    if len(shown) < len(options):
        left_out = sorted(set(Settings.model_fields) - {each.dest.removeprefix("set_") for each in options})
        but = f" but {', '.join(map(code, left_out))}" if left_out else ""
        lines += [f"And a flag for every [setting](settings.md#names){but}.", ""]
    return lines


def _option(option: Argument) -> str:
    value = f" {option.value or '|'.join(option.choices)}" if option.takes_value else ""
    return ", ".join(code(name + value) for name in option.names)


# ---- files -------------------------------------------------------------------------------------


def main(words: Sequence[str]) -> int:
    """Write the pages; with `--check` only say which are out of date."""
    check = list(words) == ["--check"]
    if words and not check:
        print("usage: scripts/reference [--check]", file=sys.stderr)
        return 2
    old = 0
    for name, text in pages().items():
        path = REFERENCE / name
        if path.exists() and path.read_text() == text:
            continue
        if check:
            print(f"{path} is out of date", file=sys.stderr)
            old = 1
        else:
            path.write_text(text)
            print(path)
    return old


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
