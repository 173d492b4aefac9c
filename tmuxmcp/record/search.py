"""`search`: a regular expression over the clean text of all that a session printed, not only its scrollback.

The log is cleaned a piece at a time, in a thread: nothing here holds more than a few megabytes, and the event loop
goes on. A line matches or does not, as in grep. Most patterns are put to many lines at once, which is what makes 100 MB
a matter of seconds; those that could match beyond a line's end are put to each line.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator
from itertools import pairwise

import anyio
from anyio import from_thread

from tmuxmcp.contract.call import joined_notes
from tmuxmcp.contract.results import Match, SearchResult
from tmuxmcp.contract.value import field, value
from tmuxmcp.machine.searching import CompiledPattern
from tmuxmcp.record.log import RawLog
from tmuxmcp.terminal.text.plain import MAX_HELD_BYTES, TextPart, ends_full_screen, needs_grid, parts
from tmuxmcp.terminal.widths import sanitize

SEARCH_PIECE_BYTES = 1 << 20
"""Bytes read at once."""

SEARCH_S = 30.0
"""Longest time of a search; 100 MB of plain text take about one second."""

PART_CHARS = 128 * 1024
"""Characters that are searched at once, and the rest of a line: others want to search, too."""

SHOWN_LINE_CHARS = 400
"""Characters of a line that are shown."""

MATCHES_CHARS = 256 * 1024
"""Characters of all lines that are shown."""


async def search(
    log: RawLog, cols: int, rows: int, session_id: str, pattern: CompiledPattern, limit: int, context: int
) -> SearchResult:
    """Search all that is kept of a session's log.

    Args:
        cols, rows: size of its terminal.

    Raises:
        InvalidPattern, TimedOut: the pattern takes too long.
    """
    job = _LogSearch(log, cols, rows, pattern, limit, context)
    try:
        await anyio.to_thread.run_sync(job.run, abandon_on_cancel=True)
    finally:
        job.stopped = True
    return SearchResult(
        session_id=session_id,
        total=job.total,
        context=context,
        truncated=job.truncated,
        note=job.note(),
        matches=[Match(line=each.line, offset=each.offset, text="\n".join(each.lines)) for each in job.found],
    )


@value(frozen=False)
class _FoundLine:
    line: int
    offset: int
    lines: list[str]
    wanted: int
    """Lines after it that are still to come."""


@value(frozen=False)
class _LogSearch:
    """One search; `run` in a thread, `stopped` set from outside."""

    log: RawLog
    cols: int
    rows: int
    pattern: CompiledPattern
    limit: int
    context: int
    found: list[_FoundLine] = field(default_factory=list)
    total: int = 0
    stopped: bool = False
    out_of_time_at: int | None = None
    shown: int = 0
    line: int = 0
    """Number of the next line."""

    def run(self) -> None:
        self.before: deque[str] = deque(maxlen=self.context)
        deadline = time.monotonic() + SEARCH_S
        for start, raw, part in _parts_of(self.log, self.cols, self.rows):
            if self.stopped:
                return
            if time.monotonic() > deadline:
                self.out_of_time_at = start
                return
            self._search(start, raw, part)

    @property
    def truncated(self) -> bool:
        return self.total > len(self.found) or self.out_of_time_at is not None

    def note(self) -> str | None:
        notes = []
        head = self.log.head()
        if head:
            notes.append(f"Offsets before {head} are no longer kept; lines are counted from there.")
        if self.out_of_time_at is not None:
            notes.append(f"Stopped after {SEARCH_S:.0f} s at offset {self.out_of_time_at}: total counts up to there.")
        if self.total > len(self.found):
            notes.append(f"The first {len(self.found)} of {self.total} are shown: narrow the pattern or raise limit.")
        return joined_notes(*notes)

    @property
    def _full(self) -> bool:
        return len(self.found) >= self.limit or self.shown >= MATCHES_CHARS

    def _search(self, start: int, raw: bytes, part: TextPart) -> None:
        text = sanitize(part.text)[0]
        text += "" if text.endswith("\n") else "\n"
        if self._full and not any(found.wanted for found in self.found[-self.context - 1 :]):
            self.total += sum(from_thread.run(self.pattern.count, lines) for lines in self._pieces_until_stopped(text))
            return
        hits = self._hits(text)
        if hits or self.context:
            self._keep(text, hits, _Offsets(start, raw, part, text))
        self.total += len(hits)
        self.line += text.count("\n")

    def _keep(self, text: str, hits: dict[int, int], offsets: _Offsets) -> None:
        lines = text[:-1].split("\n")
        numbers = range(len(lines)) if self.context else sorted(hits)
        for number in numbers:
            line = lines[number]
            for found in self.found[-self.context :] if self.context else ():
                if found.wanted and self.shown < MATCHES_CHARS:
                    found.lines.append(self._cut(line))
                found.wanted = max(found.wanted - 1, 0)
            if number in hits and not self._full:
                before = [self._cut(each) for each in self.before]
                shown = [*before, self._cut(line, hits[number])]
                self.found.append(_FoundLine(self.line + number, offsets.of(number), shown, self.context))
            self.before.append(line)

    def _cut(self, line: str, match: int = 0) -> str:
        """A line of a bounded length; of a long one that matches, the part around the match, which begins there."""
        self.shown += min(len(line), SHOWN_LINE_CHARS) + 1
        if len(line) <= SHOWN_LINE_CHARS:
            return line
        begin = max(min(match - SHOWN_LINE_CHARS // 4, len(line) - SHOWN_LINE_CHARS), 0)
        return "…" * (begin > 0) + line[begin : begin + SHOWN_LINE_CHARS] + "…" * (begin + SHOWN_LINE_CHARS < len(line))

    def _hits(self, text: str) -> dict[int, int]:
        """The lines that match, from 0, and the column of the match in each."""
        hits: dict[int, int] = {}
        line = 0
        for lines in self._pieces_until_stopped(text):
            hits.update((line + number, column) for number, column in from_thread.run(self.pattern.lines, lines))
            line += lines.count("\n")
        return hits

    def _pieces_until_stopped(self, text: str) -> Iterator[str]:
        """Text in pieces that are searched at once, until the search is over."""
        start = 0
        while start < len(text) and not self.stopped:
            end = text.find("\n", start + PART_CHARS) + 1 or len(text)
            yield text[start:end]
            start = end


class _Offsets:
    """Where the lines of a part begin in the log."""

    def __init__(self, start: int, raw: bytes, part: TextPart, text: str) -> None:
        self._start, self._raw = start, raw
        self._at, self._line = part.start, 0
        # Lines that were moved about, or stand in a string that is left out, are found where the part begins.
        newlines = raw.count(b"\n", part.start, part.end)
        self._known = not part.drawn and text.count("\n") - newlines in (0, 1)

    def of(self, line: int) -> int:
        """Of one of the rising line numbers."""
        while self._known and self._line < line:
            self._at = self._raw.find(b"\n", self._at) + 1
            self._line += 1
        return self._start + self._at


def _parts_of(log: RawLog, cols: int, rows: int) -> Iterator[tuple[int, bytes, TextPart]]:
    """The clean text of all that is kept: offset of a piece, the piece, a part of its text."""
    start = at = log.head()
    end, rest, inside = log.size(), b"", False
    while at < end:
        data = log.read(at, min(SEARCH_PIECE_BYTES, end - at))
        if not data:  # its head was given back meanwhile
            if log.head() <= at:
                return
            start = at = log.head()
            rest = b""
            continue
        rest, at = rest + data, at + len(data)
        cut = len(rest) if at >= end else _whole(rest)
        if cut:
            piece, rest = rest[:cut], rest[cut:]
            yield from _parts_of_piece(start, piece, cols, rows, inside)
            inside, start = ends_full_screen(piece, inside), start + cut


def _whole(data: bytes) -> int:
    """Where it can be cut: behind a line, and not between what may move up and down."""
    if len(data) < MAX_HELD_BYTES and needs_grid(data):
        return 0
    cut = data.rfind(b"\n") + 1
    return cut or (len(data) if len(data) >= MAX_HELD_BYTES else 0)


_END_MARK = re.compile(rb"\x1b\]133;[DE];")


def _unended_lines(piece: bytes) -> Iterator[int]:
    """Where a command's output ends within a line: bash draws its prompt over that line."""
    for mark in _END_MARK.finditer(piece):
        before = piece[max(mark.start() - 2, 0) : mark.start()]
        if before and before != b"\x1b\\" and before[-1:] not in (b"\r", b"\n", b"\x07"):
            yield mark.start()


def _parts_of_piece(
    start: int, piece: bytes, cols: int, rows: int, inside: bool
) -> Iterator[tuple[int, bytes, TextPart]]:
    ends = [0, *_unended_lines(piece), len(piece)]
    for begin, end in pairwise(ends):
        some = piece[begin:end]
        yield from _lines_of(start + begin, some, cols, rows, inside)
        inside = ends_full_screen(some, inside)


def _lines_of(start: int, piece: bytes, cols: int, rows: int, inside: bool) -> Iterator[tuple[int, bytes, TextPart]]:
    ended = True
    for part in parts(piece, cols, rows, inside=inside):
        if part.text and (ended or part.text != "\n"):
            yield start, piece, part
            ended = part.text.endswith("\n")
        else:
            ended = True  # the end of a line that was given without
