"""Text with a style for each character, as a string that can be cut and joined like any other. Pure.

A style is a letter: its number in the `StyleLetters` of the text, as a character. So the styles of a text are a string
as well, and cutting both is one step each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import mul
from typing import SupportsIndex

from tmuxmcp.terminal.emulator.grid import restyled
from tmuxmcp.terminal.emulator.redraw import RESET_STYLE, sgr
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Style
from tmuxmcp.terminal.widths import hidden, is_control, sanitize

UNSTYLED = "\0"
"""The letter of the terminal's own style."""

MAX_STYLES = 65_536
"""Styles of one text; what has one more is shown plain. A screenful of pixels, each of its own colour, has 4,000."""

_MAX_CHANGES = 4096
"""Remembered steps from style to style; programs print the same few over and over."""

_SAME_STYLE_STRETCH = re.compile(r"\0+|([^\0])\1*")


class StyledText(str):
    """Text, and a letter for the style of each character.

    What cuts, joins or fills it keeps the styles; other methods give plain text.
    """

    __slots__ = ("_letters", "_runs")

    _letters: str | None
    _runs: tuple[Sequence[str], Sequence[str]] | None

    def __new__(
        cls, text: str, letters: str | None, runs: tuple[Sequence[str], Sequence[str]] | None = None
    ) -> StyledText:
        made = super().__new__(cls, text)
        made._letters, made._runs = letters, runs
        return made

    @classmethod
    def of_runs(cls, letters: Sequence[str], parts: Sequence[str]) -> StyledText:
        """Make a text of parts, each of one style."""
        return cls("".join(parts), None, (letters, parts))

    @property
    def letters(self) -> str:
        """The letter of each character."""
        if self._letters is None:
            assert self._runs is not None
            letters, parts = self._runs
            self._letters = "".join(map(mul, letters, map(len, parts)))
        return self._letters

    def runs(self) -> Iterable[tuple[str, str]]:
        """Parts of one style each, some of them empty, with their letters."""
        if self._runs is not None:
            return zip(*self._runs, strict=True)
        bare, letters = str(self), self.letters
        spans = (stretch.span() for stretch in _SAME_STYLE_STRETCH.finditer(letters))
        return [(letters[start], bare[start:end]) for start, end in spans]

    def __getitem__(self, key: SupportsIndex | slice) -> StyledText:
        return StyledText(str.__getitem__(self, key), self.letters[key])

    def __iter__(self) -> Iterator[StyledText]:
        return map(StyledText, str.__iter__(self), self.letters)

    def __add__(self, other: str) -> StyledText:
        return StyledText(str.__add__(self, other), self.letters + letters_of(other))

    def __radd__(self, other: str) -> StyledText:
        return StyledText(str.__add__(other, self), letters_of(other) + self.letters)

    def ljust(self, width: SupportsIndex, fill: str = " ") -> StyledText:
        """Fill it up with blanks of the terminal's own style."""
        return StyledText(str.ljust(self, width, fill), self.letters.ljust(width, UNSTYLED))

    def rstrip(self, chars: str | None = None) -> StyledText:
        """Take characters off its end."""
        text = str.rstrip(self, chars)
        return StyledText(text, self.letters[: len(text)])

    def replace(self, old: str, new: str, count: SupportsIndex = -1) -> StyledText:
        """Put other text, in the terminal's own style, in place of some."""
        first, *rest = str.split(self, old, count)
        pos = len(first)
        made = self[:pos]
        for part in rest:
            start = pos + len(old)
            pos = start + len(part)
            made = made + new + self[start:pos]
        return made


def letters_of(text: str) -> str:
    """Give the letters of any text."""
    return text.letters if isinstance(text, StyledText) else UNSTYLED * len(text)


def styled(text: str, letter: str) -> str:
    """Give text one style."""
    return text if letter == UNSTYLED else StyledText(text, letter * len(text))


def joined(parts: Sequence[str], between: str = "") -> str:
    """Join texts, with the styles of each; what is put between them has none."""
    if len(parts) == 1:
        return parts[0]
    text = between.join(parts)
    if StyledText not in map(type, parts):
        return text
    return StyledText(text, (UNSTYLED * len(between)).join(map(letters_of, parts)))


class StyleLetters:
    """The styles of one text, each with its letter."""

    def __init__(self) -> None:
        self._styles = [PLAIN_STYLE]
        self._letters = {PLAIN_STYLE: UNSTYLED}
        self._after: dict[str, dict[str, str]] = {}
        self._known = 0
        """How many steps `_after` holds."""

    def style(self, letter: str) -> Style:
        """The style of a letter."""
        return self._styles[ord(letter)]

    def letter(self, style: Style) -> str:
        """The letter of a style."""
        letter = self._letters.get(style)
        if letter is None:
            if len(self._styles) >= MAX_STYLES:
                return UNSTYLED
            letter = self._letters[style] = chr(len(self._styles))
            self._styles.append(style)
        return letter

    def blank(self, letter: str) -> str:
        """The letter of what erasing leaves: the background alone."""
        background = self.style(letter).bg
        return UNSTYLED if background is None else self.letter(Style(bg=background))

    def after(self, letter: str, changes: Iterable[str]) -> list[str]:
        """The letters of the styles that `CSI params m` makes of one, each of the one before."""
        found, after = list[str](), self._after
        for params in changes:
            try:
                letter = after[letter][params]
            except KeyError:
                letter = self._letter_after(letter, params)
            found.append(letter)
        return found

    def _letter_after(self, letter: str, params: str) -> str:
        if self._known >= _MAX_CHANGES:
            self._after.clear()
            self._known = 0
        self._known += 1
        changed = self.letter(restyled(self.style(letter), params))
        self._after.setdefault(letter, {})[params] = changed
        return changed

    def drawn(self, text: str) -> str:
        """Write a text with sequences: each line begins and ends in the terminal's own style."""
        if not isinstance(text, StyledText):
            return text
        steps, made, before = _Steps(self._styles), list[str](), UNSTYLED
        for letter, part in text.runs():
            if not part:
                continue
            if letter != UNSTYLED and "\n" in part:
                first, last = (UNSTYLED if part[end] == "\n" else letter for end in (0, -1))
                made += steps[before + first], _on_each_line(part, steps[UNSTYLED + letter])
                before = last
                continue
            if letter != before:
                made.append(steps[before + letter])
                before = letter
            made.append(part)
        return "".join([*made, steps[before + UNSTYLED]])


class _Steps(dict[str, str]):
    """The sequence that leads from one style to the next, by their two letters."""

    def __init__(self, styles: list[Style]) -> None:
        self._styles = styles

    def __missing__(self, pair: str) -> str:
        if len(self) >= _MAX_CHANGES:
            self.clear()
        self[pair] = sgr(self._styles[ord(pair[0])], self._styles[ord(pair[1])])
        return self[pair]


def _on_each_line(text: str, step: str) -> str:
    """Let each line that is not empty begin and end a style: `step`. It has begun already before a first one."""
    begun = step if text[0] == "\n" else ""
    lines = (begun + text.replace("\n", f"{RESET_STYLE}\n{step}") + RESET_STYLE).replace(step + RESET_STYLE, "")
    return lines if text[-1] == "\n" else lines.removesuffix(RESET_STYLE)


def sanitized(text: str) -> tuple[str, bool]:
    """Do what `sanitize` does, and keep the styles."""
    clean, found = sanitize(text)
    if not isinstance(text, StyledText):
        return clean, found
    if not found and len(clean) == len(text):
        return text, False
    letters = "".join([letter for char, letter in zip(str(text), text.letters, strict=True) if not is_control(char)])
    return StyledText(clean, _stretched(letters, hidden(str(text)))), found


def _stretched(letters: str, shown: list[tuple[int, str]]) -> str:
    """The letters, where some characters are shown as more than one."""
    pieces, pos = list[str](), 0
    for at, name in shown:
        pieces += letters[pos:at], letters[at] * len(name)
        pos = at + 1
    return "".join([*pieces, letters[pos:]])
