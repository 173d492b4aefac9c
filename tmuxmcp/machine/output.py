"""The first and the last bytes of a stream in bounded memory, and as what JSON can carry. Pure."""

from __future__ import annotations

import base64
import codecs
from dataclasses import field
from typing import Literal

from tmuxmcp.contract.latedataclass import dataclass

PIPE_BYTES = 64 * 1024
"""Bytes read at once: what a pipe holds (pipe(7))."""

Encoding = Literal["utf-8", "base64"]

MARKER_ROOM = 48
"""Bytes of the line that stands for what was left out."""

LAST_LINE_BYTES = 4096
"""Bytes from the end in which the last line is looked for."""


@dataclass
class HeadAndTail:
    """Keeps the head and the tail of what it is fed: all of it up to `most` bytes."""

    most: int
    size: int = 0
    """Bytes fed in all."""
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """Take more of the stream."""
        self.size += len(data)
        self._head += data[: self.most - len(self._head)]
        self._tail += data
        del self._tail[: -max(self.most // 2, LAST_LINE_BYTES)]

    @property
    def truncated(self) -> bool:
        """Whether something has to be left out."""
        return self.size > self.most

    def pieces(self, room: int) -> tuple[bytes, bytes]:
        """Head and tail, together `room` bytes; the whole as head if nothing has to be left out."""
        if not self.truncated:
            return bytes(self._head), b""
        first = (room + 1) // 2
        return bytes(self._head[:first]), bytes(self._tail[len(self._tail) - (room - first) :])

    def last_line(self) -> str:
        """The newest line that says something, shortened."""
        lines = bytes(self._tail[-LAST_LINE_BYTES:]).decode(errors="replace").split("\n")
        return next((line.strip()[-200:] for line in reversed(lines) if line.strip()), "")

    def text(self, *, cut_off: bool = False) -> str | None:
        """The stream as text; `None` if it is not UTF-8.

        Args:
            cut_off: its writer was ended, perhaps in the middle of a character, which is then left out.
        """
        if not self.truncated:
            return decode(bytes(self._head), partial=cut_off)
        marked = self.most >= 2 * MARKER_ROOM
        head, tail = self.pieces(self.most - MARKER_ROOM if marked else self.most)
        start = 0
        while start < min(3, len(tail)) and tail[start] & 0xC0 == 0x80:  # the rest of a character
            start += 1
        first, last = decode(head, partial=True), decode(tail[start:], partial=cut_off)
        if first is None or last is None:
            return None
        omitted = self.size - len(first.encode()) - len(last.encode())
        return first + (f"\n[... {omitted:,} bytes left out ...]\n" if marked else "") + last

    def base64(self) -> str:
        """The stream's head and tail, one after the other; in each as many bytes as in the other, or one more."""
        return base64.b64encode(b"".join(self.pieces(self.most))).decode()


def carry(streams: list[HeadAndTail], *, cut_off: bool = False) -> tuple[Encoding, list[str]]:
    """Streams as text if all of them are UTF-8, else all of them as base64."""
    texts = [stream.text(cut_off=cut_off) for stream in streams]
    if all(text is not None for text in texts):
        return "utf-8", [text or "" for text in texts]
    return "base64", [stream.base64() for stream in streams]


def decode(data: bytes, *, partial: bool) -> str | None:
    """Bytes as text, `None` if they are not UTF-8; `partial`: a character that lacks its end is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not partial)
    except UnicodeDecodeError:
        return None
