"""Blocks of the timing index: when how much had been printed, a few bytes a moment. Pure.

A file is a line that names its format, and blocks that are appended to it:

    0xF5 | length of the body | CRC-32 of that length and the body | body

A body begins with offset and time of the moment before its first step, so that a block that is missing before it shows.
Each step follows as two differences: of the time, doubled, plus one where it is not `known`, and of the offset. Numbers
are written seven bits a byte, the lowest first, with the eighth bit where more follows.

A block is believed only whole: what is torn, overwritten or of another format is no block, and the next one is found by
its first byte and its checksum.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence

from tmuxmcp.contract.latedataclass import dataclass

TIMING_FORMAT = 1
"""The newest format that is known here."""

TIMING_HEADER = b"tmuxmcp timing %d\n" % TIMING_FORMAT

_ANY_HEADER = re.compile(rb"tmuxmcp timing ([0-9]{1,9})\n")

BLOCK_MARK = b"\xf5"
"""First byte of each block."""

BLOCK_BODY_BYTES = 1024
"""Longest body; a quarter of a second has 25 steps of at most ten bytes."""

NUMBER_BYTES = 9
"""Longest number: 63 bits."""

BLOCK_BYTES = len(BLOCK_MARK) + 2 + 4 + BLOCK_BODY_BYTES
"""Longest block."""


@dataclass(frozen=True)
class TimingStep:
    """So many bytes had been printed, and when."""

    offset: int
    """After the first so many bytes of the log."""
    ms: int
    """Since the session was made."""
    known: bool = True
    """The bytes since the step before came just then; False: at some time between the two, nobody knows when."""


FIRST_STEP = TimingStep(0, 0)
"""Nothing was printed before a session was made."""


@dataclass(frozen=True)
class Block:
    """Some steps, one after the other."""

    start: TimingStep
    """The moment before the first of them."""
    steps: tuple[TimingStep, ...]
    length: int
    """Bytes that it takes in the file."""

    @property
    def end(self) -> TimingStep:
        """The last moment that it tells."""
        return self.steps[-1] if self.steps else self.start


def format_of(beginning: bytes) -> int | None:
    """The format of the file that begins like this; None: it is no timing index."""
    found = _ANY_HEADER.match(beginning)
    return int(found[1]) if found else None


def encode(start: TimingStep, steps: Sequence[TimingStep]) -> bytes:
    """Write a block; `steps` rise in time and offset from `start` on, and are few enough for one block."""
    body = bytearray(_number(start.offset) + _number(start.ms))
    before = start
    for step in steps:
        body += _number((step.ms - before.ms) << 1 | (not step.known))
        body += _number(step.offset - before.offset)
        before = step
    assert len(body) <= BLOCK_BODY_BYTES
    sized = _number(len(body)) + body
    return BLOCK_MARK + _number(len(body)) + zlib.crc32(sized).to_bytes(4, "little") + body


def decode(data: bytes, at: int) -> Block | None:
    """The block that begins there; None: there is none, or it is not whole."""
    if data[at : at + 1] != BLOCK_MARK:
        return None
    size, begin = _read(data, at + 1)
    end = begin + 4 + size
    if not 0 < size <= BLOCK_BODY_BYTES or end > len(data):
        return None
    body = data[begin + 4 : end]
    if zlib.crc32(data[at + 1 : begin] + body) != int.from_bytes(data[begin : begin + 4], "little"):
        return None
    return _parse(body, end - at)


def blocks_in(data: bytes, stop: int) -> Iterator[tuple[int, Block]]:
    """All blocks that begin before `stop`, each with its place; what is none is passed over."""
    at = data.find(BLOCK_MARK)
    while 0 <= at < stop:
        block = decode(data, at)
        if block:
            yield at, block
        at = data.find(BLOCK_MARK, at + (block.length if block else 1))


def _parse(body: bytes, length: int) -> Block | None:
    numbers: list[int] = []
    at = 0
    while 0 <= at < len(body):
        value, at = _read(body, at)
        numbers.append(value)
    if at < 0 or len(numbers) < 2 or len(numbers) % 2:
        return None
    before = start = TimingStep(numbers[0], numbers[1])
    steps = []
    for time, more in zip(numbers[2::2], numbers[3::2], strict=True):
        before = TimingStep(before.offset + more, before.ms + (time >> 1), not time & 1)
        steps.append(before)
    return Block(start, tuple(steps), length)


def _number(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _read(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends: -1 where it does not."""
    value = shift = 0
    for place in range(at, min(at + NUMBER_BYTES, len(data))):
        value |= (data[place] & 0x7F) << shift
        if data[place] < 0x80:
            return value, place + 1
        shift += 7
    return 0, -1
