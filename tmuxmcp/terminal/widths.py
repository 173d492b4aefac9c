"""How many columns tmux gives a character, and what it joins in one cell: each version in its own way.

The tables of characters are wcwidth's; all that is not in them was seen in the versions that are named here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

ZERO_WIDTH_JOINER = "\u200d"
VARIATION_SELECTOR = "\ufe0f"
"""Asks for the picture of a character that is text by itself."""

MAX_CELL = 32
"""Characters of the longest cluster kept in one cell; the longest emoji family has 11."""

TmuxVersion = tuple[int, int, str]
"""Such as (3, 6, "b")."""

OLDEST_VERSION: TmuxVersion = (3, 2, "")
"""What a screen is drawn as where nothing is known."""

JOINS_CELLS = (3, 4)
"""From here on, a character joins what stands in the cell before the cursor, and may make it wide."""

_REGIONAL = range(0x1F1E6, 0x1F200)
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_HANGUL_FILLER = 0x3164

_WIDTHS = {0xAD: 1, 0x302E: 2, 0x302F: 2, 0x16FF0: 2, 0x16FF1: 2, **dict.fromkeys(range(0x3248, 0x3250), 2)}
"""Soft hyphen, tone marks, numbers in circles: where the C library says something else than wcwidth."""

_UNICODE_16_WIDE = (range(0x2630, 0x2638), range(0x268A, 0x2690), range(0x1D300, 0x1D357), range(0x1D360, 0x1D377))
"""Signs that are wide since Unicode 16: for the C libraries that tmux before 3.5 comes with, they are not."""

_MADE_WIDE = {0x261D, 0x26F9, 0x270C, 0x270D, 0x1F3CB, 0x1F3CC, 0x1F574, 0x1F575, 0x1F590}
"""Emoji with a skin, which tmux has made wide since 3.4."""

_WITH_SKIN = re.compile(
    "[\U0001f44b-\U0001f450\U0001f466-\U0001f469\U0001f46e\U0001f470-\U0001f478\U0001f47c\U0001f481-\U0001f483"
    "\U0001f485-\U0001f487\U0001f4aa\U0001f575\U0001f57a\U0001f590\U0001f595\U0001f596\U0001f645-\U0001f647"
    "\U0001f64b-\U0001f64f\U0001f6b4-\U0001f6b6\U0001f926\U0001f937-\U0001f939\U0001f93d\U0001f93e\U0001f9b5\U0001f9b6"
    "\U0001f9b8\U0001f9b9\U0001f9cd-\U0001f9cf\U0001f9d1-\U0001f9df]"
)
"""What a skin tone joins, since 3.6."""

_HANGUL = {
    **dict.fromkeys((*range(0x1100, 0x1160), *range(0xA960, 0xA97D)), "initial"),
    **dict.fromkeys((*range(0x1160, 0x11A8), *range(0xD7B0, 0xD7C7)), "vowel"),
    **dict.fromkeys((*range(0x11A8, 0x1200), *range(0xD7CB, 0xD7FC)), "final"),
}


def version_of(said: str) -> TmuxVersion | None:
    """The version in what tmux says, such as `3.6b` or `next-3.8`; None: there is none in it."""
    found = re.search(r"(\d+)\.(\d+)([a-z]?)", said)
    return (int(found[1]), int(found[2]), found[3]) if found else None


def is_dropped(char: str, version: TmuxVersion = OLDEST_VERSION) -> bool:
    """Whether tmux shows nothing of this character: line separators and what is none; since 3.6, a filler."""
    code = ord(char)
    if version >= JOINS_CELLS:
        return code == _HANGUL_FILLER and version >= (3, 6)
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF or code in (0x2028, 0x2029)


@lru_cache(maxsize=16384)
def char_width(char: str, version: TmuxVersion = OLDEST_VERSION) -> int:
    """Columns of one character: 0 joins the cell before it, 1, or 2."""
    code = ord(char)
    if code < 0x7F:
        return 1 if code >= 0x20 else 0
    if code in _WIDTHS:
        return _WIDTHS[code]
    if code in _REGIONAL:
        return 2 if JOINS_CELLS <= version < (3, 6) else 1
    if code in (_HANGUL_FILLER, 0xFFA0):  # nothing, for newer C libraries
        return 0 if version >= JOINS_CELLS else 2 if code == _HANGUL_FILLER else 1
    if code in _MADE_WIDE:
        return 2 if version >= JOINS_CELLS else 1
    if any(code in signs for signs in _UNICODE_16_WIDE):
        return 2 if version >= (3, 5) else 1
    if is_dropped(char):
        return 1 if version >= JOINS_CELLS else 0
    if unicodedata.category(char) == "Mc":  # spacing vowel signs
        return 1
    from wcwidth import wcwidth  # late: its tables are not needed for ASCII

    return max(0, int(wcwidth(char)))


@lru_cache(maxsize=16384)
def stands_alone(char: str, version: TmuxVersion = OLDEST_VERSION) -> bool:
    """Whether a character has one column, and joins no other but behind a joiner."""
    return char_width(char, version) == 1 and ord(char) not in _REGIONAL


def counted_alike(text: str) -> bool:
    """Whether all versions of tmux give each character of a text the same columns, and join the same ones."""
    return text.isascii() or not any(map(_counted_differently, text))


@lru_cache(maxsize=16384)
def _counted_differently(char: str) -> bool:
    code = ord(char)
    return (
        char in (VARIATION_SELECTOR, ZERO_WIDTH_JOINER)
        or code in _REGIONAL
        or code in _SKIN_TONES
        or code in _HANGUL
        or len({(char_width(char, version), is_dropped(char, version)) for version in _DIFFERENT}) > 1
    )


_DIFFERENT: tuple[TmuxVersion, ...] = (OLDEST_VERSION, (3, 4, ""), (3, 5, ""), (3, 6, "a"), (3, 7, ""))
"""The first versions that count in a way of their own."""


def is_full(cell: str, char: str, version: TmuxVersion) -> bool:
    """Whether a cell has no room for a character; before 3.4 that is not looked at here."""
    return len((cell + char).encode("utf-8", "surrogatepass")) > (32 if version >= (3, 6) else 21)


def joins(cell: str, char: str, version: TmuxVersion) -> bool | None:
    """Whether a character that has columns joins the cell before it, since 3.4; None: it is lost."""
    code = ord(char)
    if version < (3, 6):
        widens = (code in _REGIONAL or code in _SKIN_TONES) and not (len(cell) == 1 and cell.isascii())
        return widens or cell.endswith(ZERO_WIDTH_JOINER)
    hangul, before = _HANGUL.get(code), _HANGUL.get(ord(cell[-1]))
    if hangul == "initial":
        return False
    if hangul:
        return True if before == {"vowel": "initial", "final": "vowel"}[hangul] else None
    return makes_wide(cell, char, version) or cell.endswith(ZERO_WIDTH_JOINER)


def makes_wide(cell: str, char: str, version: TmuxVersion) -> bool:
    """Whether the cell that a character joins is wide from then on, since 3.4."""
    code, first = ord(char), ord(cell[0])
    if char == VARIATION_SELECTOR:
        return True
    if version < (3, 6):
        return code in _REGIONAL or code in _SKIN_TONES
    if code in _REGIONAL and first in _REGIONAL:
        return version < (3, 7) or sum(ord(each) in _REGIONAL for each in cell) == 1
    if first in _SKIN_TONES and _WITH_SKIN.match(char):
        return True
    return code in _SKIN_TONES and bool(_WITH_SKIN.match(cell)) and version >= (3, 6, "a")


def text_width(text: str, version: TmuxVersion = OLDEST_VERSION) -> int:
    """Columns of a text."""
    return len(text) if text.isascii() else sum(width for _, width in clusters(text, version))


def clusters(text: str, version: TmuxVersion = OLDEST_VERSION) -> Iterator[tuple[str, int]]:
    """What stands in the cells of a text, each with its columns: a character and all that joins it."""
    cluster, width = "", 0
    for char in text:
        own = char_width(char, version)
        if cluster and (own == 0 or _goes_in(cluster, char, version)):
            if version >= (3, 5) and makes_wide(cluster, char, version):  # 3.4 prints the other half, too
                width = 2
            cluster += char
            continue
        if cluster:
            yield cluster, width
        cluster, width = (char, own) if own else (" " + char, 1)
    if cluster:
        yield cluster, width


def _goes_in(cluster: str, char: str, version: TmuxVersion) -> bool:
    if version < JOINS_CELLS:
        return cluster.endswith(ZERO_WIDTH_JOINER)
    return not char.isascii() and bool(joins(cluster, char, version))


# ---- Control and invisible characters --------------------------------------------------------------------------------
#
# What must never reach a reader of terminal text. Pure: text in, text out.

_CONTROL_BYTES = bytes(code for code in range(0x20) if code not in b"\t\n") + b"\x7f"
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f"
_INVISIBLE = (
    "\x80-\x9f\u00ad\u061c\u180e"
    "\u200b\u200e\u200f\u2028-\u202e"  # zero-width space, direction marks, line separators, embeddings
    "\u2060-\u206f\ufeff\ufff9-\ufffb"  # word joiner, isolates, byte order mark, annotations
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # joins of hieroglyphs, shorthand, music
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef"  # tags, variation selectors supplement
)
_MAYBE_HIDDEN_CHARACTER = re.compile(f"[{_INVISIBLE}{_JOINERS}{_SELECTORS}]")
_VISIBLE = f"[^\x00-\x20{_INVISIBLE}{_JOINERS}{_SELECTORS}]"
_VISIBLE_NOT_ASCII = f"[^\x00-\x7f{_INVISIBLE}{_JOINERS}{_SELECTORS}]"
# Joiners stay inside emoji, Persian and Indic words; one selector of text or emoji style stays after a character.
_HIDDEN_CHARACTER = re.compile(
    f"[{_INVISIBLE}\ufe00-\ufe0d]"
    f"|(?<!{_VISIBLE})[\ufe0e\ufe0f]"
    f"|(?<!{_VISIBLE_NOT_ASCII})(?<![\ufe0e\ufe0f])[{_JOINERS}]"
    f"|[{_JOINERS}](?!{_VISIBLE_NOT_ASCII})"
)


def sanitize(text: str) -> tuple[str, bool]:
    """Drop control characters but newline and tab, and show invisible ones as `<U+202E>`.

    Returns:
        the text, and whether an invisible character was shown.
    """
    if text.isascii() and text.isprintable():
        return text, False
    text = _without_control(text)
    if text.isascii() or not _MAYBE_HIDDEN_CHARACTER.search(text):
        return text, False
    text, count = _HIDDEN_CHARACTER.subn(_name, text)
    return text, count > 0


def hidden(text: str) -> list[tuple[int, str]]:
    """Where in the text, without its control characters, an invisible character stands, and what is shown there."""
    return [(match.start(), _name(match)) for match in _HIDDEN_CHARACTER.finditer(_without_control(text))]


def is_control(char: str) -> bool:
    """Whether it is a control character that is dropped."""
    return char.isascii() and ord(char) in _CONTROL_BYTES


def _without_control(text: str) -> str:
    # As bytes: four times as fast as a regex over the text.
    return text.encode("utf-8", "surrogatepass").translate(None, _CONTROL_BYTES).decode("utf-8", "surrogatepass")


def _name(match: re.Match[str]) -> str:
    return f"<U+{ord(match[0]):04X}>"
