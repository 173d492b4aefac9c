"""Searches texts for the regular expressions of callers, in a process of its own (`serving.py`).

A pattern of 40 characters can take for ever to compile or to search for, or all memory; the engine's own limit of time
does not hold everywhere. Here it takes nothing with it. Run as `python -I -S searcher.py DIRECTORY...`.
"""

import sys
import time
from functools import lru_cache
from itertools import islice
from typing import Any

SOFT_S = 0.5
"""For one request, in processor time. 100 KiB of text take some 2 ms."""

SEARCH_CPU_S = 1.0
"""The same where the engine does not look at the time: then this process ends."""

FIRST_REQUEST = {"pattern": "a", "texts": ["a"]}


@lru_cache(maxsize=100)
def compiled(pattern: str) -> tuple[Any, Any]:
    """The pattern for a text, and the one for all lines of a text; the second None where there is none."""
    from tmuxmcp.terminal.patterns import compile_pattern, whole_text_pattern

    whole = whole_text_pattern(pattern)
    return compile_pattern(pattern), whole and compile_pattern(whole)


def first_match(pattern: str, texts: list[str]) -> str | None:
    one, _ = compiled(pattern)
    end = time.process_time() + SOFT_S
    for text in texts:
        if match := one.search(text, timeout=seconds_left(end)):
            found: str = match.group(0)
            return found
    return None


def spans_of(pattern: str, text: str, most: int) -> list[tuple[int, int]]:
    """Where the pattern matches in `text`, from the beginning: `most` places at the most."""
    one, _ = compiled(pattern)
    return [match.span() for match in islice(one.finditer(text, timeout=SOFT_S), most)]


def lines_of(pattern: str, text: str) -> list[tuple[int, int]]:
    """Lines of `text`, each ended by a newline, in which the pattern matches; from which column."""
    one, whole = compiled(pattern)
    end = time.process_time() + SOFT_S
    if whole is None:
        matches = (
            (number, one.search(line, timeout=seconds_left(end))) for number, line in enumerate(text[:-1].split("\n"))
        )
        return [(number, match.start()) for number, match in matches if match]
    found, number, at = [], 0, 0
    for match in whole.finditer(text, timeout=SOFT_S):
        number, at = number + text.count("\n", at, match.start()), match.start()
        found.append((number, at - text.rfind("\n", 0, at) - 1))
    return found


def count_lines(pattern: str, text: str) -> int:
    """How many lines match; of many lines this takes a tenth of the time of `lines_of`."""
    _, whole = compiled(pattern)
    return len(lines_of(pattern, text) if whole is None else whole.findall(text, timeout=SOFT_S))


def seconds_left(end: float) -> float:
    seconds = end - time.process_time()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def find(request: dict[str, Any]) -> dict[str, Any]:
    """`found` in the texts or the lines; else why the pattern is `wrong`, or that it is too `slow`."""
    from tmuxmcp.contract.errors import InvalidPattern

    try:
        if "count" in request:
            return {"found": count_lines(request["pattern"], request["count"])}
        if "lines" in request:
            return {"found": lines_of(request["pattern"], request["lines"])}
        if "spans" in request:
            return {"found": spans_of(request["pattern"], request["spans"], request["most"])}
        compiled(request["pattern"])
        return {"found": first_match(request["pattern"], request["texts"])}
    except InvalidPattern as error:
        return {"wrong": error.details["why"]}
    except RecursionError:
        return {"wrong": "it is nested too deeply"}
    except TimeoutError:
        return {"slow": True}


if __name__ == "__main__":
    sys.path += sys.argv[1:]
    from tmuxmcp.machine.serving import serve

    serve(find, FIRST_REQUEST, SEARCH_CPU_S)
