"""Regular expressions of callers: compiled, and made fit for a whole text of lines. Pure.

One search over a megabyte costs little; twenty thousand searches over its lines cost fifty times as much. But in a
whole text `\\s`, `[^x]` and their like match line ends, which no line has: they are rewritten so that they do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tmuxmcp.contract.errors import InvalidPattern

MOST_PATTERN = 4096
"""Characters of a pattern."""

_TOKEN = re.compile(
    r"""\\(?P<escape>.)
      | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])
      | \(\?(?P<flags>[^)P<:=!>#]*)
      | (?P<fuzzy>\{(?![0-9,]+\}))
      | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_WITHOUT_LINE_END = {"s": r"[^\S\n]", "W": r"[^\w\n]", "D": r"[^\d\n]", "A": "^", "Z": "$"}
_LINE_HAS = frozenset("dwSbBt")
_SAFE_FLAGS = frozenset("imua-")


def compile_pattern(pattern: str) -> Any:
    """A compiled regular expression. This can take for ever, as a search can: the broker has it done elsewhere.

    Raises:
        InvalidPattern: it does not compile.
    """
    import regex

    try:
        return regex.compile(pattern, regex.MULTILINE)
    except regex.error as error:
        raise is_wrong(pattern, str(error)) from None


def is_wrong(pattern: str, why: str) -> InvalidPattern:
    """What a caller is told whose pattern does not compile."""
    return InvalidPattern(
        f"The pattern {pattern!r} is no regular expression: {why}.",
        hint="Escape special characters: ( ) [ ] { } . * + ? ^ $ | \\",
        pattern=pattern,
        why=why,
    )


def whole_text_pattern(pattern: str) -> str | None:
    """A pattern that matches once in each line of a text in which `pattern` matches, up to the line's end and with it.

    Every line of that text must end with a newline, and the pattern be compiled with MULTILINE.

    Returns:
        None where it is not plain that this can be done: then the lines have to be searched one by one.
    """
    tokens = list(_rewritten(pattern))
    if None in tokens:
        return None
    return f"(?:{''.join(filter(None, tokens))}).*\n"


def _rewritten(pattern: str) -> Iterator[str | None]:
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if escape := token["escape"]:
            known = escape in _LINE_HAS or not escape.isalpha() or not escape.isascii()
            yield _WITHOUT_LINE_END.get(escape) or (text if known and escape >= " " else None)
        elif token["set"]:
            yield _set(text)
        elif token["flags"] is not None:
            yield text if _SAFE_FLAGS.issuperset(token["flags"]) and "-m" not in text else None
        else:
            yield None if token["fuzzy"] or text < " " else text


def _set(text: str) -> str | None:
    if "[:" in text or text.count("[") > 1 + text.count(r"\["):
        return None  # classes by name, sets in sets
    if text.startswith("[^"):
        return text[:-1] + r"\n]"
    risky = re.search(r"\\[^dwSt\W]|[\x00-\x1f]|\\t-", text)
    return None if risky else text
