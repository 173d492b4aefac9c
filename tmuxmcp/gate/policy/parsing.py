"""What a shell text or a program with its arguments would run, asked of a process that parses (`parser.py`).

A text that gets no answer counts as not understood.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tmuxmcp.contract.errors import shortage
from tmuxmcp.gate.policy.shelltext import UNKNOWN_COMMAND, SimpleCommand
from tmuxmcp.machine.helper import Helper

log = logging.getLogger(__name__)

PARSER_PATH = Path(__file__).with_name("parser.py")
PARSER_PACKAGES = ("tmuxmcp", "tree_sitter", "tree_sitter_bash")


class Parsing(Helper):
    """The process that parses, one question at a time."""

    def __init__(self) -> None:
        super().__init__(PARSER_PATH, PARSER_PACKAGES)

    async def of_text(self, text: str | None, cwd: str | None, home: str, *, fed: bool = False) -> list[SimpleCommand]:
        """Every command that a shell text would run, as far as it tells.

        Args:
            text: None: not known.
            cwd: where it would run; None: not known.
            home: what `~` stands for.
            fed: it reads what the caller gives it.
        """
        found = (
            await self._answer_to({"text": text, "cwd": cwd, "home": home, "fed": fed}) if text is not None else None
        )
        return [UNKNOWN_COMMAND] if found is None else found

    async def of_program(
        self, argv: Sequence[str], cwd: str | None, env: Mapping[str, str] | None = None, *, fed: bool = False
    ) -> list[SimpleCommand]:
        """A program with its arguments, and every command that it or a variable of the caller's would run in turn.

        Args:
            fed: it reads what the caller gives it.
        """
        found = await self._answer_to({"argv": argv, "cwd": cwd, "env": dict(env or {}), "fed": fed})
        return [SimpleCommand(tuple(argv), cwds=(cwd,)), UNKNOWN_COMMAND] if found is None else found

    async def _answer_to(self, question: dict[str, Any]) -> list[SimpleCommand] | None:
        """The answer; None if there is none."""
        try:
            return self._commands(await self.ask(question))
        except (EOFError, OSError, ValueError, TypeError, RecursionError) as error:
            if shortage(error):
                raise
            log.warning("the parser of shell text gave no answer: %s", str(error) or type(error).__name__)
            return None

    def _commands(self, answer: Any) -> list[SimpleCommand]:
        if isinstance(answer, str):
            self.close()
            raise ValueError(answer)
        try:
            return [
                SimpleCommand(
                    tuple(argv),
                    tuple(files),
                    tuple(cwds),
                    fed,
                    tuple(SimpleCommand(tuple(a), tuple(f)) for a, f in gets),
                    written=tuple(written),
                    untold=tuple(untold),
                )
                for argv, files, cwds, fed, written, untold, gets in answer
            ]
        except (ValueError, TypeError):
            self.close()
            raise
