"""The two pages of a terminal, main and alternate, with its modes and saved cursors. Keeps no bytes, draws no cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tmuxmcp.terminal.emulator.grid import Grid, Row
from tmuxmcp.terminal.emulator.sheet import Sheet
from tmuxmcp.terminal.snapshot import SavedCursor

IRM, DECOM, DECAWM, DECTCEM = 4, 6 << 5, 7 << 5, 25 << 5
"""Modes; private ones are shifted left by 5, as in pyte."""

_MOUSE_MODES = frozenset(mode << 5 for mode in (1000, 1002, 1003))
"""Ways to report the mouse: one of them at most is on."""

_KEPT_MODES = frozenset({IRM, 34, *(mode << 5 for mode in (1, 6, 7, 12, 25, 1004, 1005, 1006, 2004)), *_MOUSE_MODES})
"""Modes that are remembered: the others mean nothing to tmux."""


class Pages(Sheet):
    """A sheet that can be laid aside for another one."""

    mode: set[int]
    title: str

    def __init__(self) -> None:
        super().__init__()
        self.bell_count = 0

    def reset(self) -> None:
        """Forget everything; pyte calls this before anything else."""
        self.reset_page()
        self.mode = {DECAWM, DECTCEM}
        self.title = self.icon_name = ""
        self.under: Grid | None = None
        """The main screen, while the alternate one is shown."""
        self._saved: SavedCursor | None = None
        self._saved_by_alternate: SavedCursor | None = None

    def hard_reset(self) -> None:
        """Do what `ESC c` says: tmux scrolls up what was shown, stays in the alternate screen and keeps the title."""
        self._keep_cleared()
        under, saved, title, shape = self.under, self._saved_by_alternate, self.title, self.cursor.shape
        self.reset()
        self.under, self._saved_by_alternate, self.title, self.cursor.shape = under, saved, title, shape

    @property
    def alternate(self) -> bool:
        return self.under is not None

    @property
    def main_rows(self) -> list[Row]:
        """The rows of the main screen, also while the alternate one is shown."""
        return (self.under or self.grid).rows

    # Erasing what was shown, which a scrollback keeps

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        y = self.cursor.y
        if how == 2 or (how == 0 and y == self.cursor.x == 0):
            if not self._keep_cleared():
                self.erase_rows(0, self.lines)
        elif how == 0:
            self.grid.erase(y, self.cursor.x, self.columns, self.pen.blank)
            self.erase_rows(y + 1, self.lines)
        elif how == 1:
            self.grid.erase(y, 0, self.cursor.x + 1, self.pen.blank)
            self.erase_rows(0, y)

    def _keep_cleared(self) -> bool:
        """Scroll all that is shown into the scrollback, as tmux does on `clear`; False: nobody wants a scrollback."""
        return False

    # Saved cursors

    def _snap(self) -> SavedCursor:
        cursor = self.cursor
        return SavedCursor(cursor.y, cursor.x, self.pen.style, self.origin, self.drawing, self.shifted)

    def _unsnap(self, saved: SavedCursor) -> None:
        self.to(saved.col, saved.row)
        self.pen = self.pens.get(saved.pen)
        self.drawing, self.shifted = saved.drawing, saved.shifted
        self._set_modes(self.mode | {DECOM} if saved.origin else self.mode - {DECOM})

    def save_cursor(self) -> None:
        self._saved = self._snap()  # one slot, not pyte's unbounded stack

    def restore_cursor(self) -> None:
        self._unsnap(self._saved or SavedCursor(0, 0))

    def end_links(self) -> None:
        """Have no address behind what is printed from now on, also after a saved cursor is restored."""
        self.set_link("")
        self._saved, self._saved_by_alternate = (
            saved and replace(saved, pen=saved.pen._replace(link=""))
            for saved in (self._saved, self._saved_by_alternate)
        )

    # Modes

    def _set_modes(self, modes: set[int]) -> None:
        self.mode = modes
        self.inserts, self.wraps, self.origin = IRM in modes, DECAWM in modes, DECOM in modes
        self.cursor.hidden = DECTCEM not in modes

    def set_mode(self, *modes: int, private: bool = False, **kwargs: Any) -> None:
        for mode in modes:
            self._switch(mode, private, on=True)

    def reset_mode(self, *modes: int, private: bool = False, **kwargs: Any) -> None:
        for mode in modes:
            self._switch(mode, private, on=False)

    def _switch(self, mode: int, private: bool, on: bool) -> None:
        if private and mode in (47, 1047, 1049):
            (self._enter_alternate if on else self._leave_alternate)(mode == 1049)
        elif private and mode == 3:  # a width of 132 columns is refused, but clears
            self.erase_in_display(2)
            self.to(0, 0)
        else:
            changed = {mode << 5 if private else mode} & _KEPT_MODES
            others = _MOUSE_MODES if private and (changed & _MOUSE_MODES or (mode == 1001 and not on)) else frozenset()
            self._set_modes((self.mode - changed - others) | (changed if on else set()))
            if private and mode == 6:
                self.cursor_position()

    def _enter_alternate(self, save_cursor: bool) -> None:
        if self.alternate:
            return
        if save_cursor:
            self._saved_by_alternate = SavedCursor(self.cursor.y, self.cursor.x, self.pen.style)
        elif self._saved_by_alternate:  # tmux saves the pen each time, the cursor only when asked to
            self._saved_by_alternate = replace(self._saved_by_alternate, pen=self.pen.style)
        self.under, self.grid = self.grid, self.new_grid()

    def _leave_alternate(self, restore_cursor: bool) -> None:
        if self.under:
            self.grid, self.under = self.under, None
            saved = self._saved_by_alternate
            self.grid.fit(self.columns, self.lines, min(saved.row, len(self.grid.rows) - 1) if saved else 0)
        self.to(self.cursor.x, self.cursor.y)  # no longer about to wrap
        if restore_cursor and self._saved_by_alternate:  # tmux does so on the main screen too
            self.to(self._saved_by_alternate.col, self._saved_by_alternate.row)
            self.pen = self.pens.get(self._saved_by_alternate.pen)

    def bell(self, *args: Any) -> None:
        self.bell_count += 1
