"""Records of GDB/MI (GDB manual, "GDB/MI Output Syntax") as values, and commands as lines. Pure.

The grammar is short, and what gdb prints departs from it: a breakpoint's commands are a tuple without names, names
repeat within tuples. pygdbmi 0.11 raises TypeError at the first of these and keeps no names of results in lists.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any, Literal

from tmuxmcp.contract.latedataclass import dataclass

RecordType = Literal["result", "exec", "status", "notify", "console", "target", "log", "prompt", "other"]

RECORD_KINDS: dict[str, RecordType] = {"^": "result", "*": "exec", "+": "status", "=": "notify"}
STREAMS: dict[str, RecordType] = {"~": "console", "@": "target", "&": "log"}

RECORD = re.compile(r"(?P<token>\d*)(?P<mark>[\^*+=])(?P<name>[\w-]+)(?P<rest>,.*)?", re.DOTALL)
FIELD_NAME = re.compile(r"[^=,{}\[\]\"]+(?==)")
C_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
C_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
ESCAPED_LETTERS = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
    b"a": b"\a",
    b"e": b"\x1b",
}


@dataclass(frozen=True)
class MiRecord:
    """One line of gdb's."""

    kind: RecordType
    name: str = ""
    """Its class: `done`, `error`, `stopped`, ..."""
    token: int | None = None
    """Of the command that it answers."""
    results: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    """Of a stream; of what is no record the line itself."""


def parse(line: str) -> MiRecord:
    """One line, without its end; what is no record is kind `other`."""
    if line.rstrip() == "(gdb)":
        return MiRecord("prompt")
    try:
        if line[:1] in STREAMS and line:
            text, end = _string(line, 1)
            return MiRecord(STREAMS[line[0]], text=text) if end == len(line) else MiRecord("other", text=line)
        if found := RECORD.fullmatch(line):
            results, end = _results(line, found.end("name"))
            if end == len(line):
                token = int(found["token"]) if found["token"] else None
                return MiRecord(RECORD_KINDS[found["mark"]], found["name"], token, results)
    except (ValueError, RecursionError):
        pass
    return MiRecord("other", text=line)


def line_of(token: int, command: str) -> str:
    """A command as gdb reads it: one of MI's as it is, any other for the console."""
    if command.startswith("-"):
        return f"{token}{command}\n"
    escaped = command.replace("\\", "\\\\").replace('"', '\\"')
    return f'{token}-interpreter-exec console "{escaped}"\n'


def _results(line: str, at: int) -> tuple[dict[str, Any], int]:
    """`,name=value` as often as it comes."""
    results: dict[str, Any] = {}
    while line[at : at + 1] == ",":
        name, value, at = _result(line, at + 1)
        _add_value(results, name, value)
    return results, at


def _result(line: str, at: int) -> tuple[str, Any, int]:
    found = FIELD_NAME.match(line, at)
    if not found:
        raise ValueError(f"no name at {at}")
    value, at = _value(line, found.end() + 1)
    return found[0], value, at


def _add_value(results: dict[str, Any], name: str, value: Any) -> None:
    """A name that repeats gets a list of its values."""
    if name not in results:
        results[name] = value
    elif isinstance(results[name], list):
        results[name] = [*results[name], value]
    else:
        results[name] = [results[name], value]


def _value(line: str, at: int) -> tuple[Any, int]:
    match line[at : at + 1]:
        case '"':
            return _string(line, at)
        case "{":
            return _items(line, at + 1, "}")
        case "[":
            return _items(line, at + 1, "]")
        case _:
            raise ValueError(f"no value at {at}")


def _items(line: str, at: int, close: str) -> tuple[Any, int]:
    """A tuple or a list. Results in a list keep their names: each is an object of its own."""
    named: dict[str, Any] = {}
    values: list[Any] = []
    while line[at : at + 1] != close:
        if FIELD_NAME.match(line, at):
            name, value, at = _result(line, at)
            if close == "}":
                _add_value(named, name, value)
            else:
                values.append({name: value})
        else:
            value, at = _value(line, at)
            values.append(value)
        if line[at : at + 1] == ",":
            at += 1
        elif line[at : at + 1] != close:
            raise ValueError(f"no end at {at}")
    if close == "]" or (values and not named):
        return values, at + 1
    if values:
        raise ValueError("a tuple with and without names")
    return named, at + 1


def _string(line: str, at: int) -> tuple[str, int]:
    found = C_STRING.match(line, at)
    if not found:
        raise ValueError(f"no string at {at}")
    data = C_ESCAPE.sub(_unescaped, found[1].encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "backslashreplace"), found.end()


def _unescaped(found: re.Match[bytes]) -> bytes:
    what = found[1]
    return bytes([int(what, 8) & 0xFF]) if what.isdigit() else ESCAPED_LETTERS.get(what, what)
