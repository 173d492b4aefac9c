"""A stretch of a log as clean text of a bounded size: head and tail with one line between, or a first piece.

Cuts are made in the raw bytes, at a line's end where there is one, so that offsets name exactly what was left out
and another read can fetch it. Nothing here holds more than a bounded part of the stretch.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import count

from tmuxmcp.contract.value import replace, value
from tmuxmcp.contract.words import View
from tmuxmcp.record.log import BEGINNING_BYTES, LOG_READ_BYTES, RawLog, ResumePoint, ResumePoints
from tmuxmcp.terminal.emulator.capture import ShownScreen
from tmuxmcp.terminal.emulator.redraw import byte_length, shortened
from tmuxmcp.terminal.snapshot import PLAIN_STYLE
from tmuxmcp.terminal.text.plain import EDITING, PlainText, ends_full_screen, needs_grid, plain, style_behind

CLEANED_WHOLE_BYTES = 2 * 1024 * 1024
"""Bytes: a stretch up to this is cleaned as a whole (20-40 ms), so that a long progress bar becomes its one line."""

SCROLLBACK_BYTES = 16 * 1024 * 1024
"""Raw bytes, from the end, in which lines of scrollback are looked for."""

MOST_REREADS = 5
"""How often a stretch is read again when its head goes while it is read: a flood into a small log."""

RAW_BYTES_PER_TEXT_BYTE = 64
"""Raw bytes looked at for each byte of text that may be returned: drawing can be mostly escape sequences."""

LINE_END_BYTES = 32
"""Of a line that is too long no less is shown of either end."""

HALVED_BYTES = 64 * 1024
"""Of shorter data the longest part that fits is found by halving."""

MAX_GUESSES = 12
"""Most places that are guessed before halving goes on."""


JOINED_CHARS = 32
"""Characters that are kept together at most, as parts of one that is seen."""

FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
"""Two of them are a flag."""

COMMAND_END = re.compile(rb"\x1b\]133;D[^\x07\x1b]*(?:\x07|\x1b\\)")
"""The mark behind what a command has printed."""

BEGUN_ANEW_TRIED = 3
"""Of the places where such a line was begun anew, the last."""

CUTS_TRIED = 64
"""Places tried for a cut in a line that was edited."""

_TO_ROW = re.compile(rb"\x1b\[[0-9;]*[Hdf]")
_ALL_DRAWN_ANEW = re.compile(rb"\x1b(?:\[\?[0-9;]*(?:47|1047|1049)[0-9;]*h|\[[0-9;]*J|c)")


@value
class Excerpt:
    """The text of an answer: a piece of what was printed, or of a screen. It goes into the result as it is."""

    text: str
    next_offset: int
    """Behind the last raw byte that the text stands for."""
    omitted_bytes: int = 0
    """Bytes that are not in the text: raw ones of a log, those of the text of a screen."""
    sanitized: bool = False
    note: str | None = None
    """What is to be said of it."""
    lost_before: int = 0
    """Offset of the first byte that the log still has, if the stretch began before it."""
    drew_above: bool = False
    """Something was drawn above the row in which the text begins, and is none of it."""
    scattered: bool = False
    """It was drawn here and there on a screen of which nobody knows where it begins: no blank rows are around it."""
    view: View = "new"
    start: int = 0
    """Where in the log it begins."""
    is_new: bool = False
    """The caller has not seen it."""
    all_lines: int | None = None
    """Lines that there are, where the text is a part of them."""
    shown: ShownScreen | None = None
    """The screen in it."""
    changed_rows: list[int] | None = None
    """The rows of the screen that are in it; None: it is no part of a screen."""
    approximate: bool = False
    """Not all that made the screen is known."""


class LogReader:
    """Makes excerpts of one log for a pane of one size."""

    def __init__(
        self, log: RawLog, cols: int, rows: int, places: ResumePoints | None = None, *, colours: bool = False
    ) -> None:
        """`colours`: the text keeps its styles, as `CSI m`; all limits count them."""
        self.log, self.cols, self.rows, self._colours = log, cols, rows, colours
        self._places = places or ResumePoints(log)

    def coloured(self) -> LogReader:
        """The same of text that keeps its colours."""
        return LogReader(self.log, self.cols, self.rows, self._places, colours=True)

    def both_ends(self, start: int, end: int, max_bytes: int) -> Excerpt:
        """All of the stretch, or its head and its tail with a line between that says how to get the rest."""
        return self._while_kept(start, lambda: self._both_ends(start, end, max_bytes))

    def of_command(self, start: int, end: int, max_bytes: int) -> Excerpt:
        """The same of a command's output: what an earlier program draws, or did not stop drawing, is none of it."""
        return self._while_kept(start, lambda: self._both_ends(start, end, max_bytes, begins=True))

    def from_start(self, start: int, end: int, max_bytes: int) -> Excerpt:
        """The first piece of the stretch, up to a whole line where it can.

        Not even one character may fit: it is passed over, and counted as left out.
        """
        return self._while_kept(start, lambda: self._from_start(start, end, max_bytes))

    def _while_kept(self, start: int, make: Callable[[], Excerpt]) -> Excerpt:
        """Make it again when the log gave its head back meanwhile: what was read from there is nothing."""
        for _ in range(MOST_REREADS):
            excerpt = make()
            if self.log.head() <= max(start, excerpt.lost_before):
                break
        return excerpt

    def _both_ends(self, start: int, end: int, max_bytes: int, *, begins: bool = False) -> Excerpt:
        """`begins`: whatever was drawn before, at `start` a program begins to print."""
        start, lost = self._kept_begin(start, end)
        if begins and not lost:
            place, since = self._styled(ResumePoint(offset=start, begins=True), start), start
        else:
            start, place = self._behind_drawing(start, end)
            since = 0
        whole = self._whole(start, end, max_bytes, place)
        if whole:
            return _excerpt(whole, 0, end, lost, start)
        marker_room = min(160, max_bytes // 4)
        budget = max_bytes - marker_room
        head, head_end = self._first_fitting(start, end, budget // 2, place)
        room = budget // 2 - _size(head)
        if room >= LINE_END_BYTES and self._too_long(head_end, end, max_bytes):
            begun, head_end = self._first_fitting(head_end, end, room, self._place_at(head_end))
            head = _joined_texts(head, begun)
        tail, tail_start = self._last(head_end, end, budget - budget // 2, since)
        room = budget - budget // 2 - _size(tail)
        begin = self._line_before(head_end, tail_start, max_bytes)
        cut = begin == head_end < tail_start and not self._begins_line(begin)  # the head ends within it
        if room >= LINE_END_BYTES and (cut or self._too_long(begin, end, max_bytes)):
            ended, tail_start = self._last(head_end, tail_start, room, since)
            tail = _joined_texts(ended, tail)
        omitted = tail_start - head_end
        text = head.text + ("" if head.text.endswith("\n") or not head.text else "\n")
        text += f"[... {omitted:,} bytes left out; read since={head_end} gives them ...]\n" + tail.text
        both = replace(head, text=text, sanitized=head.sanitized or tail.sanitized)
        return _excerpt(both, omitted, end, lost, start)

    def _place_at(self, offset: int) -> ResumePoint:
        return self._styled(self._places.at(offset, self.cols), offset)

    def _line_before(self, start: int, end: int, max_bytes: int) -> int:
        """Where the line begins that ends at an offset, no further back than it takes to know that it is too long."""
        begin = max(start, end - _line_bytes(max_bytes))
        return begin + self.log.read(begin, max(end - 1 - begin, 0)).rfind(b"\n") + 1

    def _begins_line(self, offset: int) -> bool:
        return offset == 0 or self.log.read(offset - 1, 1) == b"\n"

    def _too_long(self, start: int, end: int, max_bytes: int) -> bool:
        """Whether the line that begins at an offset is longer than an excerpt may be; not what is drawn there."""
        line = self.log.read(start, min(_line_bytes(max_bytes), end - start)).partition(b"\n")[0]
        if len(line) <= max_bytes or not self._begins_line(start):
            return False
        place = self._place_at(start)
        return not place.inside and _size(self._clean(line, place)) > max_bytes

    def _from_start(self, start: int, end: int, max_bytes: int) -> Excerpt:
        start, lost = self._kept_begin(start, end)
        start, place = self._behind_drawing(start, end)
        whole = self._whole(start, end, max_bytes, place)
        if whole:
            return _excerpt(whole, 0, end, lost, start)
        text, stop = self._first_fitting(start, end, max_bytes, place)
        left_out = lost
        if stop == start:
            stop = start + _first_char_bytes(self.log.read(start, min(4 * JOINED_CHARS, end - start)))
            left_out += stop - start
        omitted = end - stop + left_out
        return _excerpt(text, omitted - lost, stop, lost, start)

    def draws_at(self, offset: int) -> bool:
        """Whether a full-screen program draws there that began before."""
        return self._places.inside(offset)

    def last_lines(self, end: int, count: int) -> list[str]:
        """The newest `count` lines before `end`, or as many of them as the newest `SCROLLBACK_BYTES` hold."""
        wanted = count + 1
        limit = max(self.log.head(), end - SCROLLBACK_BYTES)
        while True:
            start, newlines, data = self._back(end, limit, wanted)
            place = self._styled(ResumePoint(inside=self._places.inside(start)), start)
            lines = self._clean(data, place).text.splitlines()
            if len(lines) >= wanted or start <= limit:
                return lines[len(lines) - count :] if count < len(lines) else lines
            wanted = max(wanted, newlines) * 2  # many a line was drawn over another

    def _back(self, end: int, limit: int, newlines: int) -> tuple[int, int, bytes]:
        """So many newlines back from `end`: where that is, how many there were, and what is behind it."""
        start, found = end, 0
        pieces: list[bytes] = []
        while start > limit and found < newlines:
            begin = max(start - LOG_READ_BYTES, limit)
            piece = self.log.read(begin, start - begin)
            if not piece:
                break
            found += piece.count(b"\n")
            pieces.append(piece)
            start = begin
        return start, found, b"".join(reversed(pieces))

    def _kept_begin(self, start: int, end: int) -> tuple[int, int]:
        """Where the stretch can begin, and how many bytes before that are gone."""
        head = min(self.log.head(), end)
        return (head, head - start) if head > start else (start, 0)

    def _behind_drawing(self, start: int, end: int) -> tuple[int, ResumePoint]:
        """Where text begins, and how: what a full-screen program draws that was told before needs not be read."""
        place = self._places.at(start, self.cols)
        if not place.inside or end - start <= CLEANED_WHOLE_BYTES:
            return start, self._styled(place, start)
        behind, inside = self._places.behind_drawing(start, end)
        return behind, self._styled(ResumePoint(inside=inside), behind)

    def _styled(self, place: ResumePoint, offset: int) -> ResumePoint:
        return replace(place, style=self._places.style_at(offset)) if self._colours else place

    def _clean(self, data: bytes, place: ResumePoint) -> PlainText:
        data = place.cut + data
        row = self._places.row_of(place, self.cols, self.rows) if needs_grid(data) else 0
        text = plain(
            data,
            self.cols,
            self.rows,
            col=place.col,
            row=row or 0,
            inside=place.inside,
            style=place.style,
            version=self._places.version,
        )
        if row is None and not place.inside and _TO_ROW.search(data) and not _ALL_DRAWN_ANEW.search(data):
            return _between_blank_rows(text)
        return text

    def _whole(self, start: int, end: int, max_bytes: int, place: ResumePoint) -> PlainText | None:
        if end - start > max(CLEANED_WHOLE_BYTES, max_bytes):
            return None
        text = self._clean(b"".join(self.log.pieces(start, end)), place)
        return text if _size(text) <= max_bytes else None

    def _first_fitting(self, start: int, end: int, budget: int, place: ResumePoint) -> tuple[PlainText, int]:
        """The longest beginning that fits, and where it ends."""

        def clean(data: bytes) -> PlainText:
            return self._clean(data, place)

        data = _window(budget, end - start, lambda size: self.log.read(start, size), clean)

        def size_of(cut: int) -> int:
            return _size(clean(data[:cut]))

        lines = _FromFront(data, whole=len(data) == end - start)
        fits = _most(lines, budget, size_of)
        if not fits:
            fits = _sound_cut(data, _most(_Bytes(data), budget, size_of))
            fits = self._cut_edited(start, end, fits, budget, place) or fits
            if fits > len(data):
                data = self.log.read(start, fits)
        return _limited(clean(data[:fits]), budget), start + fits

    def _cut_edited(self, start: int, end: int, fits: int, budget: int, place: ResumePoint) -> int:
        """Where to cut a line that goes back over itself, so that both parts say what the line does; 0: nowhere known.

        A line editor draws what it has shown again, where the line wraps and where it was changed.
        """
        data = self.log.read(start, min(BEGINNING_BYTES, end - start))
        newline = data.find(b"\n") + 1
        line = data[:newline] if newline else data
        if place.inside or (not newline and end - start > len(data)) or not EDITING.search(line[:-2]):
            return 0

        def text_of(piece: bytes, place: ResumePoint) -> str:
            version = self._places.version
            return plain(place.cut + piece, self.cols, self.rows, col=place.col, inside=False, version=version).text

        over = COMMAND_END.search(line)
        if over and text_of(line[: over.start()], place):
            line = line[: over.end()]  # what a command printed stays, also where bash draws its prompt over it
            fits = min(fits, len(line))
        whole, silent = text_of(line, place), 0
        for cut in _cuts_tried(line, fits, budget):
            begun = text_of(line[:cut], place)
            if byte_length(begun) <= budget and whole.startswith(begun):
                after = self._places.at(start + cut, self.cols)
                if begun + text_of(line[cut:], after) == whole:
                    if begun:
                        return cut
                    silent = max(silent, cut)
        return silent

    def _last(self, start: int, end: int, budget: int, since: int) -> tuple[PlainText, int]:
        """The longest end that fits, and where it begins; `since`: what began to draw before counts for nothing."""
        before = ResumePoint(style=PLAIN_STYLE if self._colours else None)

        def clean(data: bytes, cut: int) -> PlainText:
            return self._clean(data[cut:], self._place_after(data[:cut], before))

        data = _window(budget, end - start, lambda size: self.log.read(end - size, size), lambda all: clean(all, 0))
        at = end - len(data)
        inside = self._places.inside_since(since, at) if since else self._places.inside(at)
        before = self._styled(ResumePoint(inside=inside), at)

        def size_of(cut: int) -> int:
            return _size(clean(data, len(data) - cut))

        fits = _most(_FromBack(data), budget, size_of)
        if fits == 0:
            fits = len(data) - _sound_cut(data, len(data) - _most(_Bytes(data), budget, size_of))
        text = clean(data, len(data) - fits)
        return (text if _size(text) <= 2 * budget else _limited(text, budget)), end - fits

    def _place_after(self, data: bytes, before: ResumePoint) -> ResumePoint:
        """The place behind some bytes, at a line's end or within what is drawn."""
        style = before.style
        if style is not None:
            style = style_behind(data, style, inside=before.inside)
        return ResumePoint(inside=ends_full_screen(data, before.inside), style=style)


def _between_blank_rows(text: PlainText) -> PlainText:
    """What was drawn at places of a screen: the rows that the cursor went by have what stood there before."""
    return replace(text, text=text.text.strip("\n"), scattered=True)


def _excerpt(text: PlainText, omitted: int, end: int, lost: int, start: int) -> Excerpt:
    omitted += lost
    return Excerpt(
        _with_lost(text.text, lost),
        end,
        omitted,
        text.sanitized,
        lost_before=start if lost else 0,
        drew_above=text.drew_above,
        scattered=text.scattered,
    )


def _size(text: PlainText) -> int:
    return byte_length(text.text)


def _line_bytes(max_bytes: int) -> int:
    """Raw bytes of a line that are looked at to see whether it is longer than an excerpt."""
    return min(RAW_BYTES_PER_TEXT_BYTE * max_bytes, max(2 * max_bytes, CLEANED_WHOLE_BYTES))


def _joined_texts(one: PlainText, other: PlainText) -> PlainText:
    return replace(other, text=one.text + other.text, sanitized=one.sanitized or other.sanitized)


def _window(budget: int, available: int, read: Callable[[int], bytes], clean: Callable[[bytes], PlainText]) -> bytes:
    """Enough raw bytes to fill the budget, if there are as many."""
    size = budget
    while True:
        size = min(size * 2, available, RAW_BYTES_PER_TEXT_BYTE * max(budget, 1024))
        data = read(size)
        if size >= min(available, RAW_BYTES_PER_TEXT_BYTE * max(budget, 1024)) or _size(clean(data)) > budget:
            return data


def _first_char_bytes(data: bytes) -> int:
    """Bytes of the first character, with those that are seen as a part of it."""
    size = 1
    while size < len(data) and data[0] >= 0xC0 and data[size] & 0xC0 == 0x80:
        size += 1
    text = data.decode("utf-8", "ignore") if size > 1 or data[1:2] >= b"\x80" else ""
    chars = next((at for at in range(1, len(text)) if not _joined(text, at)), len(text)) if text else 0
    return max(size, len(text[:chars].encode())) if data.startswith(text[:chars].encode()) else size


def _joined(text: str, at: int) -> bool:
    """Whether the characters before and behind an index are seen as one: emoji with joiners, accents, flags."""
    before, behind = text[at - 1], text[at]
    if before == "\u200d" or behind in "\u200c\u200d" or "\U0001f3fb" <= behind <= "\U0001f3ff":
        return not before.isspace()
    if "\U0001f1e6" <= behind <= "\U0001f1ff":
        flags = text[:at][::-1]
        return (len(flags) - len(flags.lstrip(FLAG_LETTERS))) % 2 == 1
    return behind > "\x7f" and unicodedata.category(behind) in ("Mn", "Me", "Mc")


def _with_lost(text: str, lost: int) -> str:
    return f"[... the first {lost:,} bytes are no longer kept ...]\n{text}" if lost else text


@value
class _Bytes:
    """Cuts between any two bytes, by how many of them are taken."""

    data: bytes

    def upto(self, at: int) -> int:
        """The last cut that takes no more."""
        return at

    def cut_after(self, at: int) -> int:
        """The first cut that takes more; more than there are: there is none."""
        return at + 1


@value
class _FromFront(_Bytes):
    """Cuts that break no line and take the first bytes."""

    whole: bool
    """The end of the data is such a cut, whatever stands there."""

    def upto(self, at: int) -> int:
        if self.whole and at >= len(self.data):
            return len(self.data)
        return self.data.rfind(b"\n", 0, at) + 1

    def cut_after(self, at: int) -> int:
        found = self.data.find(b"\n", at) + 1
        return found or len(self.data) + (at >= len(self.data) or not self.whole)


@value
class _FromBack(_Bytes):
    """Cuts that break no line and take the last bytes."""

    def upto(self, at: int) -> int:
        begin = len(self.data) - at
        found = self.data.find(b"\n", begin - 1) + 1 if begin > 0 else 0
        return len(self.data) - found if found or begin <= 0 else 0

    def cut_after(self, at: int) -> int:
        begin = len(self.data) - at
        return len(self.data) - (self.data.rfind(b"\n", 0, begin - 1) + 1 if begin > 0 else -1)


def _most(cuts: _Bytes, budget: int, size_of: Callable[[int], int]) -> int:
    """The cut that takes most of what fits; 0 when none does.

    Each try cleans all that it takes. Of short data the middle is tried; of long data the place at which the sizes so
    far let the text be as long as it may: for ordinary lines that is the right one.
    """
    length = len(cuts.data)
    fits, size = 0, 0
    over, over_size = length + 1, 0
    for tries in count():
        following = cuts.cut_after(fits)
        if following >= over:
            break
        at = (fits + (fits > 0) + over) // 2
        if length > HALVED_BYTES and tries < MAX_GUESSES:
            bytes_each = (over - fits) / (over_size - size) if over_size > size else fits / size if size else 1
            at = min(max(fits + int((budget - size) * bytes_each), fits), over - 1)
        cut = max(cuts.upto(at), following)
        found = size_of(cut)
        if found <= budget:
            fits, size = cut, found
        else:
            over, over_size = cut, found
    return fits


def _sound_cut(data: bytes, cut: int) -> int:
    """`cut`, moved back where it would split a character or an escape sequence."""
    if cut >= len(data):
        return cut
    escape = data.rfind(b"\x1b", max(0, cut - 32), cut)
    if escape > 0 and not any(0x40 <= byte <= 0x7E and byte != 0x5B for byte in data[escape + 1 : cut]):
        cut = escape
    char = cut
    while char > max(0, cut - 3) and data[char] & 0xC0 == 0x80:
        char -= 1
    cut = char if data[char] >= 0xC0 else cut
    return _before_joined(data, cut) if data[cut] >= 0x80 else cut


def _before_joined(data: bytes, cut: int) -> int:
    """`cut`, moved back where it would split what is seen as one character; where that is too long, it stays."""
    before = data[max(0, cut - 4 * JOINED_CHARS) : cut].decode("utf-8", "ignore")
    text = before + data[cut : cut + 4].decode("utf-8", "ignore")[:1]
    at = len(before)
    if at == len(text):
        return cut
    while at > 0 and _joined(text, at):
        at -= 1
    moved = cut - len(before[at:].encode())
    return moved if len(before) - at < JOINED_CHARS and data[moved:cut] == before[at:].encode() else cut


def _cuts_tried(line: bytes, fits: int, budget: int) -> Iterator[int]:
    """Where an edited line may be cut: near its end, before the edits, and behind where it was begun anew."""
    yield from _cuts_before(line, len(line))
    yield from _cuts_before(line, fits)
    begun = [each.end() for each in re.finditer(rb"\r(?!\r*\n)", line)]
    for at in reversed(begun[-BEGUN_ANEW_TRIED:]):
        yield from _cuts_before(line, min(at + budget, len(line)))


def _cuts_before(line: bytes, most: int) -> Iterator[int]:
    """Places for a cut in a line, the last first."""
    cut = most
    for _ in range(CUTS_TRIED):
        if cut <= 0:
            return
        yield cut
        cut = _sound_cut(line, cut - 1)


def _limited(text: PlainText, budget: int) -> PlainText:
    return replace(text, text=shortened(text.text, budget))
