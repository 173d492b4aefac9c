"""What a `send` types, in order: its text, then keys and the texts between them. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from tmuxmcp.contract import requests as q
from tmuxmcp.errors import InvalidArgument
from tmuxmcp.latedataclass import dataclass
from tmuxmcp.terminal.keys import parse_key, parse_keys

TEXTS_BYTES = 4096
"""Bytes of all texts among the keys: they go to tmux byte by byte, in the same step as the keys."""

CONTROL_KEYS = {"\r": "Enter", "\n": "Enter", "\t": "Tab", "\x1b": "Escape", "\x7f": "BSpace", " ": "Space"}


@dataclass(frozen=True)
class KeySequence:
    """Keys that follow each other."""

    names: list[str]
    """tmux's names."""


@dataclass(frozen=True)
class Text:
    """Text that is typed between keys."""

    text: str

    @property
    def data(self) -> bytes:
        """Its bytes, as they were given."""
        return self.text.encode("utf-8", "surrogateescape")


def text_of(request: q.Send) -> str:
    """What is typed first: `text`, or the bytes of `data_base64`, of which those that are not UTF-8 stand escaped.

    Raises:
        InvalidArgument: it is no base64, or both are given.
    """
    if not request.data_base64:
        return request.text
    if request.text:
        raise InvalidArgument("text and data_base64 are two ways to say the same.", hint="Give one of them.")
    try:
        data = base64.b64decode(request.data_base64, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("data_base64 is not base64.", hint="Give text as `text`.") from None
    return data.decode("utf-8", "surrogateescape")


def items_of(request: q.Send) -> list[KeySequence | Text]:
    """What is typed after the text.

    Raises:
        InvalidKey, InvalidArgument: nothing of it can be typed.
    """
    found: list[KeySequence | Text] = []
    if request.key:
        found.append(KeySequence(parse_key(request.key, ctrl=request.ctrl, alt=request.alt, shift=request.shift)))
    named: list[str] = []
    for item in request.keys:
        if isinstance(item, str):
            named.append(item)
            continue
        found += _keys(named)
        named = []
        found.append(Text(item["text"]))
    found += _keys(named)
    if request.enter:
        found.append(KeySequence(["Enter"]))
    between = sum(len(item.data) for item in found if isinstance(item, Text))
    if between > TEXTS_BYTES:
        hint = "Type what is longer with `text`, in a call of its own."
        raise InvalidArgument(f"Texts among keys may have {TEXTS_BYTES:,} bytes, not {between:,}.", hint=hint)
    return found


def _keys(named: Sequence[str]) -> list[KeySequence | Text]:
    return [KeySequence(parse_keys(named))] if named else []


def pressed(items: Sequence[KeySequence | Text]) -> list[str]:
    """Each key and each character of a text, as the key that it is."""
    found: list[str] = []
    for item in items:
        found += item.names if isinstance(item, KeySequence) else map(key_of, item.text)
    return found


def key_of(char: str) -> str:
    """The key that types a character."""
    if char in CONTROL_KEYS:
        return CONTROL_KEYS[char]
    return char if char >= " " else f"C-{chr(ord(char) + 0x60)}" if char != "\0" else "C-Space"
