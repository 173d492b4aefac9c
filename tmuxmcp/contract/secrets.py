"""What the settings say of a secret that `send` may type: where its value is had from, and who may get it.

The value itself is never here.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Names of secrets: agents and the audit read them."""

FILE, COMMAND = "file:", "command:"


class Secret(BaseModel):
    """One secret of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source: Annotated[str | list[str], Field(union_mode="left_to_right")]
    """`file:PATH`; or a command that prints it: `command:WORDS`, or a list of its exact words."""
    programs: Annotated[list[str], Field(alias="for")] = []
    """Absolute paths: a program that runs one of these files is given it without a question."""
    session: str = ""
    """Pattern of the sessions in which it may be typed, with `*` and `?`; empty: any."""
    ask: bool = True
    """Another program is given it if a person agrees; False: none is."""

    @property
    def file(self) -> str:
        """The absolute path of the file that holds it; empty: a command prints it."""
        text = self.source if isinstance(self.source, str) else ""
        return os.path.expanduser(text.removeprefix(FILE)) if text.startswith(FILE) else ""

    @property
    def argv(self) -> list[str]:
        """The exact words of the command that prints it; empty: a file holds it."""
        if not isinstance(self.source, str):
            return self.source
        return shlex.split(self.source.removeprefix(COMMAND)) if self.source.startswith(COMMAND) else []

    def allows(self, session_id: str) -> bool:
        """Whether it may be typed in this session."""
        return not self.session or fnmatch.fnmatchcase(session_id, self.session)

    @field_validator("source")
    @classmethod
    def _known_source(cls, value: str | list[str]) -> str | list[str]:
        # What is wrong may be the secret itself: it is not repeated.
        if isinstance(value, str):
            kind = next((each for each in (FILE, COMMAND) if value.startswith(each)), "")
            if not kind:
                raise ValueError("source must be file:PATH, command:WORDS, or a list of a command's words")
            if kind == FILE and not os.path.isabs(os.path.expanduser(value.removeprefix(FILE))):
                raise ValueError("source: the path behind file: must begin with / or ~")
            if kind == COMMAND and not _words(value.removeprefix(COMMAND)):
                raise ValueError("source: behind command: stand words, quoted as for a shell; no shell runs them")
        elif not value or not value[0]:
            raise ValueError("source: a command has at least one word")
        if "\0" in "".join(value):
            raise ValueError("source cannot hold NUL")
        return value

    @field_validator("programs")
    @classmethod
    def _absolute(cls, value: list[str]) -> list[str]:
        if not all(os.path.isabs(each) and "\0" not in each for each in value):
            raise ValueError("for must be absolute paths of programs")
        return value


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def check_names(secrets: Mapping[str, Any]) -> None:
    """Refuse names that could not be told to anybody.

    Raises:
        ValueError
    """
    if not all(SECRET_NAME.fullmatch(name) for name in secrets):
        raise ValueError("a secret's name has letters, digits, _, . and -, at most 64, and begins with no sign")
