"""What is not known of a screen whose beginning is lost, and which bytes make it known again. Pure.

`Doubtful` is a screen that began with a guess. It keeps which parts of its state may be wrong. What a program sets
outright is known from then on; what is drawn, moved or erased with the help of a part that may be wrong may be wrong
itself. Where it is not plain, a part stays in doubt.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.snapshot import Doubt
from tmuxmcp.terminal.widths import counted_alike

D = Doubt

_POSITION_DOUBTS = frozenset({D.GRID, D.CURSOR})
_SAVED_CURSOR_DOUBTS = frozenset({D.CURSOR, D.PEN, D.ORIGIN, D.G0, D.G1, D.SHIFT})
_SCROLLING_NEEDS = frozenset({D.CURSOR, D.MARGINS, D.PEN})
_BY_RESET = frozenset({*_SAVED_CURSOR_DOUBTS, D.GRID, D.VISIBLE, D.LAST, D.INSERT, D.WRAP, D.MARGINS, D.TABS, D.MODES})

_NOTHING: frozenset[Doubt] = frozenset()

_MAY_BE_DRAWN_LINE = re.compile("[`-~+,.0-]")
"""What may be a line."""


_Method = TypeVar("_Method", bound=Callable[..., None])
_Doubts = frozenset[Doubt] | set[Doubt]


def _minding(
    method: _Method, needs: _Doubts = _NOTHING, spoils: _Doubts = _NOTHING, settles: _Doubts = _NOTHING
) -> _Method:
    """A method of a screen that keeps its doubts.

    Args:
        needs: with one of these in doubt, it puts in doubt what it `spoils`.
        settles: what is known behind it.
    """

    def minding(screen: Doubtful, *args: Any, **kwargs: Any) -> None:
        screen._needs(needs, spoils)
        method(screen, *args, **kwargs)
        screen.doubts -= settles

    return cast(_Method, minding)


class Doubtful(Screen):
    """A screen of which something may be wrong."""

    def __init__(self, columns: int, lines: int) -> None:
        self.doubts: set[Doubt] = set()
        super().__init__(columns, lines)

    repeat = _minding(Screen.repeat, {D.LAST}, _POSITION_DOUBTS)
    index = _minding(Screen.index, _SCROLLING_NEEDS, _POSITION_DOUBTS)
    reverse_index = _minding(Screen.reverse_index, _SCROLLING_NEEDS, _POSITION_DOUBTS)
    insert_lines = _minding(Screen.insert_lines, _SCROLLING_NEEDS, {D.GRID})
    delete_lines = _minding(Screen.delete_lines, _SCROLLING_NEEDS, {D.GRID})
    scroll_up = _minding(Screen.scroll_up, {D.MARGINS, D.PEN}, {D.GRID})
    scroll_down = _minding(Screen.scroll_down, {D.MARGINS, D.PEN}, {D.GRID})
    erase_in_line = _minding(Screen.erase_in_line, {D.CURSOR, D.PEN}, {D.GRID})
    erase_characters = _minding(Screen.erase_characters, {D.CURSOR, D.PEN}, {D.GRID})
    insert_characters = _minding(Screen.insert_characters, {D.CURSOR, D.PEN}, {D.GRID})
    delete_characters = _minding(Screen.delete_characters, {D.CURSOR, D.PEN}, {D.GRID})
    cursor_up = _minding(Screen.cursor_up, {D.MARGINS}, {D.CURSOR})
    cursor_down = _minding(Screen.cursor_down, {D.MARGINS}, {D.CURSOR})
    tab = _minding(Screen.tab, {D.TABS}, {D.CURSOR})
    tab_back = _minding(Screen.tab_back, {D.TABS}, {D.CURSOR})
    set_tab_stop = _minding(Screen.set_tab_stop, {D.CURSOR}, {D.TABS})
    alignment_display = _minding(Screen.alignment_display, settles={D.GRID, D.CURSOR, D.MARGINS})
    hard_reset = _minding(Screen.hard_reset, settles=_BY_RESET)
    set_title = _minding(Screen.set_title, settles={D.TITLE})
    set_shape = _minding(Screen.set_shape, settles={D.SHAPE})

    def _needs(self, needed: _Doubts, spoilt: _Doubts) -> None:
        """What is changed with the help of something doubtful is doubtful."""
        if self.doubts & needed:
            self.doubts |= spoilt

    @property
    def shifted(self) -> int:
        """The character set in use: 0 or 1."""
        return self._shifted

    @shifted.setter
    def shifted(self, charset: int) -> None:
        self._shifted = charset
        self.doubts.discard(D.SHIFT)

    @property
    def only_scrolls(self) -> bool:
        return not self.doubts and super().only_scrolls

    # Printing

    def set_link(self, address: str) -> None:
        super().set_link("" if D.PARSER in self.doubts else address)

    def draw(self, data: str) -> None:
        self._needs({D.CURSOR, D.PEN, D.INSERT}, _POSITION_DOUBTS)
        if self.cursor.x + len(data) * (1 if data.isascii() else 2) >= self.columns:
            self._needs({D.WRAP, D.MARGINS}, _POSITION_DOUBTS)
        if _MAY_BE_DRAWN_LINE.search(data) and self._charset_in_doubt():
            self.doubts.add(D.GRID)
        if D.WIDTHS in self.doubts and not counted_alike(data):
            self.doubts |= _POSITION_DOUBTS
        super().draw(data)
        self.doubts.discard(D.LAST)

    def _charset_in_doubt(self) -> bool:
        doubts = self.doubts & {D.G0, D.G1}
        if D.SHIFT in self.doubts:
            return bool(doubts) or self.drawing[0] != self.drawing[1]
        return (D.G0, D.G1)[self.shifted] in doubts

    def sgr(self, params: str) -> None:
        super().sgr(params)
        if params.split(";", 1)[0] in ("", "0"):
            self.doubts.discard(D.PEN)

    def set_charset(self, slot: int, drawing: bool) -> None:
        super().set_charset(slot, drawing)
        self.doubts.discard((D.G0, D.G1)[slot])

    # Moving and scrolling

    def backspace(self) -> None:
        self._needs({D.GRID} if self.cursor.x == 0 else set(), {D.CURSOR})  # it goes back where a row goes on
        super().backspace()

    def clear_tab_stop(self, how: int = 0) -> None:
        self._needs({D.CURSOR} if how == 0 else set(), {D.TABS})
        super().clear_tab_stop(how)
        if how == 3:
            self.doubts.discard(D.TABS)

    def cursor_to_line(self, line: int | None = None) -> None:
        super().cursor_to_line(line)
        if not self._rows_known():
            self.doubts.add(D.CURSOR)

    def cursor_position(self, line: int | None = None, column: int | None = None) -> None:
        super().cursor_position(line, column)
        if self._rows_known():
            self.doubts.discard(D.CURSOR)
        else:
            self.doubts.add(D.CURSOR)

    def _rows_known(self) -> bool:
        """Whether it is known from which row rows are counted."""
        if D.MARGINS in self.doubts:
            return D.ORIGIN not in self.doubts and not self.origin
        return self.margins is None or D.ORIGIN not in self.doubts

    def set_margins(  # type: ignore[override]  # pyte's says nothing
        self, top: int | None = None, bottom: int | None = None
    ) -> bool:
        possible = super().set_margins(top, bottom)
        if possible:
            self.doubts -= {D.MARGINS, D.CURSOR}
        return possible

    # Erasing and editing

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        home = how == 0 and D.CURSOR not in self.doubts and self.cursor.y == self.cursor.x == 0
        if (how == 2 or home) and D.PEN not in self.doubts:
            self.doubts.discard(D.GRID)
        elif how < 3:
            self._needs({D.CURSOR, D.PEN}, {D.GRID})
        super().erase_in_display(how, *args, **kwargs)

    # All the rest

    def save_cursor(self) -> None:
        super().save_cursor()
        self.doubts.discard(D.SAVED)
        self._needs(_SAVED_CURSOR_DOUBTS, {D.SAVED})

    def restore_cursor(self) -> None:
        saved_in_doubt = D.SAVED in self.doubts
        super().restore_cursor()
        self.doubts = self.doubts | _SAVED_CURSOR_DOUBTS if saved_in_doubt else self.doubts - _SAVED_CURSOR_DOUBTS

    def _switch(self, mode: int, private: bool, on: bool) -> None:
        known = {7: D.WRAP, 6: D.ORIGIN, 25: D.VISIBLE}.get(mode) if private else {4: D.INSERT}.get(mode)
        if known:
            self.doubts.discard(known)
        super()._switch(mode, private, on)
        if private and mode == 3:
            self.doubts.discard(D.CURSOR)

    def _enter_alternate(self, save_cursor: bool) -> None:
        if D.ALTERNATE in self.doubts:
            self.doubts |= {D.GRID, D.UNDER, D.SAVED_BY_ALTERNATE}
        elif not self.alternate:
            self._set_doubt(D.UNDER, D.GRID in self.doubts)
            self._set_doubt(D.GRID, False)
            if save_cursor:
                self._set_doubt(D.SAVED_BY_ALTERNATE, bool(self.doubts & {D.CURSOR, D.PEN}))
            else:
                self._needs({D.PEN}, {D.SAVED_BY_ALTERNATE})
        super()._enter_alternate(save_cursor)
        self.doubts.discard(D.ALTERNATE)

    def _leave_alternate(self, restore_cursor: bool) -> None:
        under = self.under
        fits = under is None or (under.cols, len(under.rows)) == (self.columns, self.lines)
        unsure = D.ALTERNATE in self.doubts
        saved = self._saved_by_alternate is not None
        super()._leave_alternate(restore_cursor)
        if unsure:
            self.doubts.add(D.GRID)
        elif under is not None:
            self._set_doubt(D.GRID, D.UNDER in self.doubts or not fits)
        if restore_cursor and D.SAVED_BY_ALTERNATE in self.doubts:
            self.doubts |= {D.CURSOR, D.PEN}
        elif restore_cursor and saved:
            self.doubts -= {D.CURSOR, D.PEN}
        if unsure or not fits or D.UNDER in self.doubts:  # tmux wraps the main screen anew, and moves the cursor
            self.doubts.add(D.CURSOR)
        self.doubts -= {D.ALTERNATE, D.UNDER}

    def _set_doubt(self, doubt: Doubt, doubtful: bool) -> None:
        (self.doubts.add if doubtful else self.doubts.discard)(doubt)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size; that of the main screen is for who knows what tmux makes of it."""
        before = self.columns, self.lines
        super().resize(lines, columns)
        if self.columns != before[0]:
            self.doubts.discard(D.TABS)
        if self.lines != before[1]:
            self.doubts.discard(D.MARGINS)
            self._needs({D.CURSOR}, {D.GRID})
