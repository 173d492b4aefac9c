"""Format numbers of the files that brokers of several versions share: `meta.json`, `marks.json`, `events.jsonl`.

The number is the key `format`. A file without one is of format 1, and is written without one: brokers from before the
numbers refuse a `meta.json` with a key that they do not know.

A file of a newer format is read as far as it is understood: keys that are not known are passed over, and those that
are known mean what they always did. It is never replaced, which would lose the rest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tmuxmcp.machine.ownfiles import read_text

FORMAT_KEY = "format"


def read_values(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty when there is none that can be read."""
    try:
        values = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def is_newer(values: dict[str, Any], known: int) -> bool:
    """Whether values are of a format above the one that is known here."""
    number = values.get(FORMAT_KEY, 1)
    return not isinstance(number, int) or number > known


def numbered(known: int) -> dict[str, int]:
    """What a writer of this format puts beside its values."""
    return {FORMAT_KEY: known} if known > 1 else {}
