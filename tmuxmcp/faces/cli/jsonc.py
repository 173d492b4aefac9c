"""JSON with comments and trailing commas, as editors keep their settings: read it, and change one member of it.

What is not the member stays as it is, byte by byte. Pure: texts in, texts out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

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
