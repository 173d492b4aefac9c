"""What a `send` types, in order: its text, then keys and the texts between them. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.value import value
from tmuxmcp.terminal.keys import parse_key, parse_keys

TEXTS_BYTES = 4096
"""Bytes of all texts among the keys: they go to tmux byte by byte, in the same step as the keys."""

CONTROL_KEYS = {"\r": "Enter", "\n": "Enter", "\t": "Tab", "\x1b": "Escape", "\x7f": "BSpace", " ": "Space"}


@value
class KeySequence:
    """Keys that follow each other."""

    names: list[str]
    """tmux's names."""


ENTER = KeySequence(["Enter"])


@value
class Text:
    """Text that is typed."""

    text: str
    exact: bool = False
    """Its newlines are bytes like others, and not Enter."""

    @property
    def data(self) -> bytes:
        """Its bytes: a terminal sends CR for a newline."""
        return (self.text if self.exact else self.text.replace("\n", "\r")).encode("utf-8", "surrogateescape")


def one_newline(text: str) -> str:
    """The text with one character for each newline, whichever system wrote it."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _lines(text: str) -> tuple[Text, list[KeySequence]]:
    """A text, and the key Enter for its last newline."""
    lines = one_newline(text)
    return Text(lines.removesuffix("\n")), [ENTER] if lines.endswith("\n") else []


def text_of(request: q.Send) -> Text:
    """What is typed first: `text`, or the bytes of `data_base64`, of which those that are not UTF-8 stand escaped.

    The last newline of `text` is the first of `items_of`.

    Raises:
        InvalidArgument: it is no base64, or both are given.
    """
    if not request.data_base64:
        return _lines(request.text)[0]
    if request.text:
        raise InvalidArgument("text and data_base64 are two ways to say the same.", hint="Give one of them.")
    try:
        data = base64.b64decode(request.data_base64, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("data_base64 is not base64.", hint="Give text as `text`.") from None
    return Text(data.decode("utf-8", "surrogateescape"), exact=True)


def ends_with_newline(request: q.Send) -> bool:
    """Whether the last thing before `enter` is a text that ends with a newline."""
    last = request.keys[-1] if request.keys else request.key or {"text": request.text}
    return not isinstance(last, str) and one_newline(last["text"]).endswith("\n")


def items_of(request: q.Send) -> list[KeySequence | Text]:
    """What is typed after the text.

    Raises:
        InvalidKey, InvalidArgument: nothing of it can be typed.
    """
    found: list[KeySequence | Text] = [*_lines(request.text)[1]]
    if request.key:
        found.append(KeySequence(parse_key(request.key, ctrl=request.ctrl, alt=request.alt, shift=request.shift)))
    named: list[str] = []
    for item in request.keys:
        if isinstance(item, str):
            named.append(item)
            continue
        found += _keys(named)
        named = []
        text, newline = _lines(item["text"])
        found += [text, *newline] if text.text else newline
    found += _keys(named)
    if request.enter and not ends_with_newline(request):
        found.append(ENTER)
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
