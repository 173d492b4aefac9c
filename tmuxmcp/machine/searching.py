"""Regular expressions of callers, searched for by a process of its own (`searcher.py`).

Nothing of what a pattern can do reaches the broker: it is refused, or searched for within a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tmuxmcp.contract.errors import InvalidPattern, IoError, TimedOut, shortage
from tmuxmcp.contract.value import value
from tmuxmcp.machine.helper import Helper
from tmuxmcp.terminal.patterns import MOST_PATTERN, is_wrong

SEARCHER_PATH = Path(__file__).with_name("searcher.py")
SEARCHER_PACKAGES = ("tmuxmcp", "regex")


@value
class CompiledPattern:
    """A regular expression that compiles."""

    source: str
    asker: str
    """In whose name it is searched for."""
    searching: Searching

    async def search(self, *texts: str) -> str | None:
        """What it matches in the first of the texts that it matches; an empty match counts.

        Raises:
            InvalidPattern: the search takes too long, or too much memory.
            TimedOut: the machine is too busy.
        """
        found: str | None = await self.searching.find(self.source, self.asker, texts=texts)
        return found

    async def spans(self, text: str, most: int = 1) -> list[tuple[int, int]]:
        """Where it matches, from the beginning: first character and the one behind the last, `most` times at the most.

        Raises:
            InvalidPattern, TimedOut: as `search`.
        """
        found = await self.searching.find(self.source, self.asker, spans=text, most=most)
        return [(start, end) for start, end in found]

    async def lines(self, text: str) -> list[tuple[int, int]]:
        """Numbers of the lines that match, from 0, with the column of the match. Every line ends with a newline.

        Raises:
            InvalidPattern, TimedOut: as `search`.
        """
        return [(line, column) for line, column in await self.searching.find(self.source, self.asker, lines=text)]

    async def count(self, text: str) -> int:
        """How many lines match. Every line ends with a newline.

        Raises:
            InvalidPattern, TimedOut: as `search`.
        """
        return int(await self.searching.find(self.source, self.asker, count=text))


class Searching(Helper):
    """The process that searches, one question at a time."""

    limit_s = 20.0  # a busy machine makes no pattern wrong

    def __init__(self) -> None:
        super().__init__(SEARCHER_PATH, SEARCHER_PACKAGES)

    async def pattern(self, source: str, asker: str = "") -> CompiledPattern:
        """A regular expression of a caller.

        Args:
            asker: in whose name; whose patterns take long waits behind others.

        Raises:
            InvalidPattern: it does not compile, or is longer than `MOST_PATTERN`.
            TimedOut: the machine is too busy.
        """
        if len(source) > MOST_PATTERN:
            raise InvalidPattern(
                f"The pattern has {len(source):,} characters, more than {MOST_PATTERN:,}.",
                hint="Look for a shorter part of the text.",
            )
        await self.find(source, asker, texts=[])
        return CompiledPattern(source, asker, self)

    async def find(self, source: str, asker: str, **where: Any) -> Any:
        """Have a pattern searched for; `texts`, `spans`, `lines` or `count` say where."""
        try:
            # A wait over many sessions cancels what it no longer needs: that must not cost a process each time.
            answer = await self.ask({"pattern": source, **where}, asker, whole=True)
            if not isinstance(answer, dict):
                self.close()  # it has run out of memory, for one
                raise ValueError(answer)
        except TimeoutError:
            raise TimedOut(
                f"The pattern {source!r} could not be searched for within {self.limit_s:g} s: the machine is busy.",
                hint="Try again.",
            ) from None
        except (ValueError, RecursionError):
            answer = {"slow": True}
        except (EOFError, OSError) as error:
            if shortage(error):
                raise
            raise IoError(f"The process that searches for patterns has ended: {error}.", hint="Try again.") from None
        if wrong := answer.get("wrong"):
            raise is_wrong(source, str(wrong))
        if answer.get("slow"):
            raise InvalidPattern(
                f"The pattern {source!r} takes too long to search for, or too much memory.",
                hint="Avoid nested repetition such as (a+)+, recursion and large counts.",
                pattern=source,
            )
        return answer["found"]
