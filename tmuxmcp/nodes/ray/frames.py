"""How we speak with a child process: a line of JSON, then as many bytes as it says. Pure.

{"id": 7, "do": "call", "node": "n1", "bytes": 120}\\n<120 bytes>
"""

from __future__ import annotations

import json
from typing import Any

Head = dict[str, Any]

MOST_HEAD = 1 << 20
"""Bytes of a head: a watcher's tells of every machine."""

FRAME_BODY_BYTES = 64 << 20
"""Bytes of a body: the largest result is 16 MiB, which as base64 in JSON is 22."""


def frame(head: Head, body: bytes = b"") -> bytes:
    """A frame as it is sent."""
    return json.dumps(head | {"bytes": len(body)}).encode() + b"\n" + body


def head_of(line: bytes) -> Head:
    """The head of a frame; its body has `bytes` bytes.

    Raises:
        ValueError: it is none, or the body is too long.
    """
    head = json.loads(line)
    if not isinstance(head, dict) or not 0 <= head.get("bytes", -1) <= FRAME_BODY_BYTES:
        raise ValueError("not a frame")
    return head
