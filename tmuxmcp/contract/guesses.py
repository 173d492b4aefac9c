"""What callers write who guess at a tool or an argument, and the right call for each. Pure.

Nothing is done by a guess: a wrong unit or a word taken for another would be a wrong call that looks like a right one.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

REPEATED_CHARS = 200
"""Characters of what was given that an answer repeats."""

COMMON_SYNONYMS = {
    "session": "session_id", "session_name": "session_id", "sessionid": "session_id", "id": "session_id",
    "name": "session_id", "terminal_id": "session_id", "pane": "session_id", "target": "session_id",
    "timeout": "timeout_ms", "timeout_s": "timeout_ms", "timeout_sec": "timeout_ms", "timeout_seconds": "timeout_ms",
    "wait_ms": "timeout_ms", "yield_time_ms": "timeout_ms", "max_wait": "timeout_ms",
    "cmd": "command", "working_dir": "cwd", "working_directory": "cwd", "workdir": "cwd", "directory": "cwd",
    "environment": "env", "input": "stdin", "regex": "pattern", "query": "pattern", "until": "pattern",
    "expect": "pattern", "max_chars": "max_bytes", "max_output": "max_bytes", "max_results": "limit",
    "wait_idle_ms": "idle_ms", "wait": "wait_for", "columns": "cols", "width": "cols", "height": "rows",
    "since_seq": "since", "stdin_base64": "data_base64", "data": "text", "input_text": "text",
}  # fmt: skip
"""Other names of arguments, wherever an operation has the argument."""

ARGUMENT_NAMES: Mapping[str, Mapping[str, str]] = {
    "create_session": {
        "session_id": "name", "session": "name", "id": "name", "title": "name", "session_name": "name",
        "shell": "program", "arguments": "args", "timeout_ms": "ready_timeout_ms", "timeout": "ready_timeout_ms",
    },
    "run": {"script": "command", "code": "command", "input": "stdin", "text": "command"},
    "run_process": {"max_bytes": "max_output_bytes", "data_base64": "stdin_base64", "text": "stdin"},
    "send": {
        "input": "text", "string": "text", "content": "text", "press_enter": "enter", "submit": "enter",
        "newline": "enter", "view": "read", "special_keys": "keys", "special": "keys",
    },
    "wait": {"session": "session_ids", "session_id": "session_ids", "sessions": "session_ids", "pattern": "patterns"},
    "search": {"text": "pattern", "lines": "context"},
    "list_commands": {"count": "limit", "n": "limit", "last": "limit"},
    "signal": {"name": "signal", "sig": "signal"},
    "mouse": {"x": "col", "y": "row", "text": "on_text", "column": "col", "event": "action"},
    "request_user_input": {"prompt": "message", "question": "message", "text": "message", "password": "secret"},
    "screenshot": {"type": "format"},
}  # fmt: skip
"""Other names of an operation's own arguments; before those of `COMMON_SYNONYMS`."""

INSTEAD_OF_ARGUMENT: Mapping[str, Mapping[str, str]] = {
    "run": {
        "cwd": 'run has no cwd: give command="cd DIR && ..."; cd persists.',
        "env": 'run has no env: give command="NAME=value ..."; export persists.',
        "args": "Arguments stand in command, as in a shell; run_process takes an exact argv.",
        "argv": "run takes one text as command; run_process takes an argv.",
        "background": "Nothing is needed for that: at timeout_ms the command goes on; read wait_for=command waits on.",
        "description": "Leave it out.",
        "shell": "A session has a shell of its own: create_session program=zsh, then run with its session_id.",
    },
    "create_session": {
        "host_name": 'Give host="user@box".',
        "url": 'Give host="user@box".',
    },
    "run_process": {
        "shell": "There is no shell here: run has one.",
        "session_id": "It runs beside all sessions; run and send act in a session.",
    },
    "send": {
        "command": "Give text and enter=true; for a shell's command use run: it gives the exit code.",
        "secrets": "Have a person type it: request_user_input secret=true.",
        "wait_ready": "Give wait_for=ready.",
    },
    "read": {
        "lines": "For the last N lines: view=scrollback, limit=N; for the screen: view=screen.",
        "tail": "For the last N lines: view=scrollback, limit=N.",
        "max_lines": "For the last N lines: view=scrollback, limit=N.",
        "clear": "Leave it out: view=new gives only what you have not read.",
        "strip_ansi": "Leave it out: text is clean; format=ansi keeps colours.",
        "include_colors": "Give format=ansi.",
        "full": "Give view=scrollback.",
    },
    "get_session": {"view": "read with view=screen shows the screen."},
    "screenshot": {"path": "It is in the answer; no file is written."},
    "resize": {"size": "Give rows and cols."},
    "wait": {"wait_for_text": "Give wait_for=pattern and patterns=[...]."},
}
"""What to do instead of giving an argument that there is not, by operation."""

INSTEAD_SYNONYMS = {
    "run_in_background": "background",
    "lines_count": "lines",
    "last_n_lines": "lines",
    "num_lines": "lines",
}
"""Other names of what `INSTEAD_OF_ARGUMENT` has."""

WAIT_FOR_SYNONYMS = {
    "prompt": "ready", "input": "ready", "completion": "command", "done": "command", "finished": "command",
    "exit_code": "command", "text": "pattern", "regex": "pattern", "output": "pattern", "match": "pattern",
    "silence": "idle", "quiet": "idle", "stable": "idle", "ended": "exit", "exited": "exit",
}  # fmt: skip
"""Other words for what to wait for."""

OTHER_TOOL_NAMES = {
    "bash": "run", "shell": "run", "exec": "run", "execute": "run", "execute_command": "run", "run_command": "run",
    "terminal": "run", "shell_run": "run_process", "spawn": "create_session", "new_session": "create_session",
    "open": "create_session", "launch": "create_session", "pty_launch": "create_session", "pty_open": "create_session",
    "kill_session": "destroy_session", "close_session": "destroy_session", "delete_session": "destroy_session",
    "pty_kill": "destroy_session", "pty_close": "destroy_session", "kill": "signal", "interrupt": "signal",
    "pty_signal": "signal", "send_keys": "send", "send_text": "send", "send_input": "send", "type": "send",
    "write": "send", "write_stdin": "send", "write_to_terminal": "send", "pty_send": "send", "pty_send_keys": "send",
    "read_output": "read", "read_screen": "read", "get_screen": "read", "get_output": "read", "capture_pane": "read",
    "capture": "read", "read_terminal_output": "read", "pty_read": "read", "pty_get_screen": "read",
    "pty_get_cursor": "get_session", "get_info": "get_session", "session_info": "get_session", "list": "list_sessions",
    "pty_list": "list_sessions", "resize_terminal": "resize", "pty_resize": "resize", "pty_set_scrollback": "resize",
    "history": "list_commands", "grep": "search", "wait_for": "wait", "pty_request_user_input": "request_user_input",
    "ask_user": "request_user_input", "health_info": "health", "pty_start_capture": "start_recording",
    "pty_stop_capture": "stop_recording", "fs_readfile": "read_file", "fs_writefile": "write_file",
    "fs_list": "list_directory",
}  # fmt: skip
"""Other names of tools."""


def right_tool(name: str) -> str:
    """The tool that somebody means who calls `name`; empty: nobody knows."""
    word = name.lower().replace("-", "_").replace(".", "_")
    return OTHER_TOOL_NAMES.get(word) or OTHER_TOOL_NAMES.get(word.rpartition("__")[2], "")


def argument_meant(operation: str, arguments: Mapping[str, Any], name: str) -> str:
    """The argument of an operation that is known by `name` elsewhere; empty: none is."""
    word = name.lower().replace("-", "_")
    found = ARGUMENT_NAMES.get(operation, {}).get(word) or COMMON_SYNONYMS.get(word, "")
    return found if found in arguments else ""


def advice(operation: str, arguments: Mapping[str, Any], name: str, value: Any) -> str:
    """What to do instead of giving an argument that there is not; empty: nothing is known."""
    word = name.lower().replace("-", "_")
    right = argument_meant(operation, arguments, name)
    if operation in ("create_session", "run_process") and word in ("command", "cmd", "argv", "program"):
        return _words(operation, value)
    if said := INSTEAD_OF_ARGUMENT.get(operation, {}).get(INSTEAD_SYNONYMS.get(word, word)):
        return said
    return did_you_mean(right, name, value) if right else ""


def did_you_mean(right: str, name: str, value: Any) -> str:
    """The question whether an argument was meant by `name`; of a time, with its unit."""
    said = right.endswith("_ms") and name.lower().endswith("ms")
    unit = f" {_unit(right, value)}" if right.endswith(("timeout_ms", "timeout_s")) and not said else ""
    return f"Did you mean {right} by {name}?{unit}"


def of_value(operation: str, name: str, value: Any, kind: str) -> str:
    """The right way to give an argument whose value is of a wrong kind; empty: the problem says it."""
    if value is None:
        return f"Leave {name} out."
    if name.startswith("steps"):
        return 'Give steps=[{"text": "ls", "enter": true}, {"key": "q"}].'
    if isinstance(value, str) and kind == "sequence_str":
        words = _split(value) if name in ("argv", "args") else [value]
        return f"Give {name}={_quoted(words)}." if words else ""
    if (operation, name) == ("run", "command") and isinstance(value, list | tuple):
        if all(isinstance(each, str) for each in value):
            return f"Give command={_quoted(shlex.join(value))}; run_process takes an argv."
        return ""
    if name == "wait_for" and isinstance(value, str) and value.lower() in WAIT_FOR_SYNONYMS:
        return f"Did you mean wait_for={WAIT_FOR_SYNONYMS[value.lower()]}?"
    if name == "wait_for" and isinstance(value, bool):
        return f"Give wait_for={'ready' if value else 'none'}."
    if name == "env" and isinstance(value, list | tuple):
        return 'Give env={"NAME": "value"}.'
    if isinstance(value, str) and value.strip().isdecimal() and kind.startswith("int"):
        return f"Give {name}={int(value)}, without quotes."
    return ""


def _unit(right: str, value: Any) -> str:
    """What a time is in milliseconds and in seconds: the caller says which was meant."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if right.endswith("_s"):
        return f"It is in seconds: {right}=N" + (f"; {value} ms are {value / 1000:g} s." if number else ".")
    if not number:
        return "It is in milliseconds: 30000 for 30 s."
    return f"It is in milliseconds: {right}={round(value * 1000)} for {value} s, {right}={round(value)} for {value} ms."


def _words(operation: str, value: Any) -> str:
    """How a command line is given to an operation that takes a program and its arguments."""
    words = _split(value) if isinstance(value, str) else value if isinstance(value, list | tuple) else None
    if not words or not all(isinstance(each, str) for each in words):
        words = ["PROGRAM", "ARGUMENT"]
    if operation == "run_process":
        return f"Give argv={_quoted(list(words))}; for shell text use run."
    program, *args = words
    given = f"program={_quoted(program)}" + (f", args={_quoted(args)}" if args else "")
    return f"Give {given}; for a shell's command use run: it makes a session by itself."


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote is open
        return text.split()


def _quoted(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= REPEATED_CHARS else f"{text[:REPEATED_CHARS]}..."
