"""Takes the values of known secrets out of text that is written down or shown: audit, events, logs, errors.

What a session prints is not touched: it is the program's, and its log is true to the byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tmuxmcp.machine.environment import is_secret_name

HARMLESS_VALUE = re.compile(r"(?:true|false|yes|no|on|off|none|null|enabled|disabled|default|\d{1,5})\Z", re.IGNORECASE)
SHORTEST_VALUE = 5
"""Shorter values are not taken out: they would be found everywhere."""

VALUE_PIECE_CHARS = 100
"""Longer values, such as private keys, are taken out in pieces of so many characters."""

MOST_SECRETS = 300
"""So many pieces are known; the oldest go first."""

REDACTED_TEXT = "[redacted]"

SECRET_OPTION = re.compile(
    r"(?i)(?P<name>--?[\w-]*(?:passw(?:or)?d|passphrase|token|secret|api-?key)|\b\w*(?:PASSW(?:OR)?D|TOKEN|SECRET|_KEY))"
    r"(?P<sign>=|\s+)(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\";&|)]+)"
)
"""`--token VALUE`, `API_KEY=VALUE` in a command line."""

USER_INFO = re.compile(r"(?P<scheme>\b[A-Za-z][\w+.-]*://[^/\s:@]*):(?P<value>[^/\s@]+)@")
BEARER = re.compile(r"(?i)(?P<name>\bAuthorization:\s*\w+\s+)(?P<value>[^\s'\"]+)")

LINE_BREAK = r"(?:\\?\r?\n[ \t]*)?"
"""Where a terminal or a shell has broken a long line inside of a secret."""


class Redactor:
    """Knows the secrets of one broker."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._secrets: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None
        self.learn_environment(environment or {})

    def learn_environment(self, environment: Mapping[str, str]) -> None:
        """Take in the values of the variables whose names look like secrets."""
        self.learn(value for name, value in environment.items() if is_secret_name(name))

    def learn(self, values: Iterable[str]) -> None:
        """Take in secrets; the oldest of more than `MOST_SECRETS` are forgotten."""
        new = [piece for value in values for piece in _pieces(value.strip())]
        new = [
            each
            for each in new
            if len(each) >= SHORTEST_VALUE and not HARMLESS_VALUE.match(each) and each not in self._secrets
        ]
        if not new:
            return
        self._secrets |= dict.fromkeys(new)
        self._secrets |= dict.fromkeys(json.dumps(each)[1:-1] for each in new)  # as a log in JSON has it
        for old in list(self._secrets)[:-MOST_SECRETS]:
            del self._secrets[old]
        # The longest first: one secret may be the beginning of another.
        longest = sorted(self._secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(LINE_BREAK.join(map(re.escape, each)) for each in longest))

    def text(self, text: str) -> str:
        """The text without secrets, also those that a line break has split."""
        return self._pattern.sub(REDACTED_TEXT, text) if self._pattern else text

    def value(self, value: Any) -> Any:
        """The same of a value as JSON has it, its keys included."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(str(key)): self.value(each) for key, each in value.items()}
            case list() | tuple():
                return [self.value(each) for each in value]
            case _:
                return value


def _pieces(value: str) -> list[str]:
    """A value in pieces; the last one is never short, so that it is found, too."""
    if len(value) <= 2 * VALUE_PIECE_CHARS:
        return [value]
    whole = len(value) // VALUE_PIECE_CHARS * VALUE_PIECE_CHARS - VALUE_PIECE_CHARS
    return [*(value[at : at + VALUE_PIECE_CHARS] for at in range(0, whole, VALUE_PIECE_CHARS)), value[whole:]]


def hide_options(text: str) -> str:
    """A command line without what its options, assignments, URLs and headers call a secret themselves."""

    def hidden(found: re.Match[str]) -> str:
        assigned = found["sign"] == "=" or found["name"].startswith("-")
        return f"{found['name']}{found['sign']}{REDACTED_TEXT}" if assigned else found[0]

    text = SECRET_OPTION.sub(hidden, text)
    return BEARER.sub(rf"\g<name>{REDACTED_TEXT}", USER_INFO.sub(rf"\g<scheme>:{REDACTED_TEXT}@", text))


def hide_arguments(argv: Sequence[str]) -> list[str]:
    """The same of exact arguments: the one behind `--token`, too."""
    found = [hide_options(each) for each in argv]
    for at, each in enumerate(argv[:-1]):
        if each.startswith("-") and "=" not in each and hide_options(f"{each} x") != f"{each} x":
            found[at + 1] = REDACTED_TEXT
    return found
