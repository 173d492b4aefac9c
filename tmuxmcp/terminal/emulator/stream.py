"""Bytes, cut anywhere -> what a screen is to do: the terminal's parser. Never raises, keeps a few KiB.

Text and complete, usual sequences are matched by one expression each; the rest is read step by step, as tmux does.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from tmuxmcp.terminal.emulator.capture import address_of_command
from tmuxmcp.terminal.emulator.grid import number, obeyed
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.terminal.widths import JOINS_CELLS, ZERO_WIDTH_JOINER

if TYPE_CHECKING:
    from tmuxmcp.terminal.emulator.screen import Screen

MAX_TITLE = 4096
"""Characters kept of a string that may be a title."""

MAX_SEQUENCE = 4096
"""Characters of the longest unfinished sequence kept."""

# What is complete and usual; the rest of the escapes goes to `_escape`.
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]++)(?P<end>\r\n)?"
    r"|(?P<newline>\r\n)"
    r"|\x1b\[(?P<sgr>[0-9;:]{0,63}+)m"
    r"|\x1b\[(?P<prefix>[<=>?]?)(?P<params>[0-9;]{0,63}+)(?P<final>[@-~])"
    r"|(?P<control>[\x07-\x0f])"
    r"|(?P<ignored>[\x00-\x06\x10-\x1a\x1c-\x1f\x80-\x9f]+)"  # C1 in UTF-8 is nothing to tmux
    r"|\x7f"
)
_ESCAPE_SEQUENCE = re.compile(r"\x1b([^\x18\x1a\x1b0-~]*+)([0-~\x18\x1a\x1b])")
_CSI_REST = re.compile(r"([^\x18\x1a\x1b@-~]*+)([@-~\x18\x1a\x1b])")
_CSI_BODY = re.compile(r"([<=>?]?)([0-9;:]*+)([ -/]*+)\Z")

# Inside a string: all of it that is there. tmux ends a DCS at `ESC \` only, the others at any escape too.
_STRING_BODIES = {
    "P": re.compile(r"(?:[^\x1b]|\x1b[^\\])*+", re.DOTALL),
    "]": re.compile(r"[^\x07\x18\x1a\x1b]*+"),
    "[": re.compile(r"[^\x18\x1a\x1b@-~]*+"),  # a control sequence too long to obey
    **dict.fromkeys("X^_k", re.compile(r"[^\x18\x1a\x1b]*+")),
}

# What a title is in, and what of it: an operating system command, and for tmux any application program command.
_TITLE_COMMANDS = {
    "]": re.compile(r"0*[02](?:;|(?![0-9]))([^\x7f-\x9f]*)\Z"),
    "_": re.compile(r"([^\x7f-\x9f]*)\Z"),
}
OUTPUT_MARK = "133;C"
"""How the command begins with which a shell says that its command begins to print (OSC 133)."""

_UNPRINTED = re.compile(r"[\x00-\x1f]+")

# Text that can only go down and scroll, at any size.
_PRINTABLE_LINE = re.compile(r"(?:[^\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]++|\x1b\[[0-9;]*+[mK])*+")
_SIMPLE_SGR = re.compile(r"\x1b\[([0-9;]*)m")

_WITHOUT_EFFECT = frozenset({"c", ">c", ">m", "n", ">n", "t", ">q"})
"""Sequences that tmux knows, and that change nothing here: questions, keys, windows."""

_MAX_ORDERS = 512

_SKIP_FROM = 2048
"""Characters of linear text from which looking for the part to skip pays."""


class Stream:
    """Feed bytes to a screen, cut anywhere."""

    def __init__(self, screen: Screen, errors: str = "ignore") -> None:
        """Attach to a screen; invalid UTF-8 is dropped, as tmux does, or replaced with `errors="replace"`."""
        self._screen = screen
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)
        self._pending = ""
        """A joiner, or the start of an escape sequence, at most `MAX_SEQUENCE` characters."""
        self._string = ""
        """The opener of the string that we are in."""
        self._body = ""
        self._controls = _controls(screen)
        self._escapes = _escapes(screen)
        self._sequences = _sequences(screen)
        self._orders: dict[str, tuple[Callable[[tuple[int | None, ...]], None], tuple[int | None, ...]]] = {}
        """What some sequences ask for: programs print the same ones over and over."""

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Obey bytes; `final`: what begins a character at their end is none."""
        text, self._pending = self._pending + self._decoder.decode(data, final), ""
        pos = self._in_string(text, 0) if self._string else 0
        screen, match = self._screen, _TOKEN.match
        draw, sgr, index = screen.draw, screen.sgr, screen.index
        next_skip = pos
        while pos < len(text):
            if pos >= next_skip:
                pos = self._skip(text, pos)
                next_skip = pos + 4 * _SKIP_FROM
            token = match(text, pos)
            if token is None:
                pos = self._escape(text, pos)
                continue
            pos = token.end()
            kind = token.lastgroup
            if kind == "end":
                draw(token["text"])
                screen.cursor.x = 0
                index()
                screen.last_char = ""
            elif kind == "text":
                draw(token["text"])
                if pos == len(text) and text[-1] == ZERO_WIDTH_JOINER and screen.version < JOINS_CELLS:
                    self._pending = ZERO_WIDTH_JOINER  # what it joins is still to come
            elif kind == "sgr":
                sgr(token["sgr"])
                screen.last_char = ""
            elif kind == "newline":
                screen.cursor.x = 0
                index()
                screen.last_char = ""
            elif kind == "final":
                if order := self._orders.get(token[0]):
                    order[0](order[1])
                    screen.last_char = ""
                else:
                    self._sequence(token["prefix"] + token["final"], token["params"], token[0])
            elif kind == "control":
                self._control(token["control"])
            elif kind == "ignored":
                screen.last_char = ""

    @property
    def unfinished(self) -> bytes:
        """What was fed and not obeyed yet; fed to a new stream, it leaves it as this one is."""
        opener = "\x1b" + self._string + self._body if self._string else ""
        if self._string == "[":  # whatever it was, it is too long
            opener = "\x1b[" + "0" * (MAX_SEQUENCE + 1)
        return (opener + self._pending).encode() + self._decoder.getstate()[0]

    def snapshot(self, offset: int = 0) -> Snapshot:
        """Give the screen at this offset as a value, with what was not obeyed yet."""
        return self._screen.snapshot(offset, self.unfinished)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        self._decoder.reset()
        self._pending = self._string = self._body = ""
        self._screen.restore(snapshot)
        self.feed(snapshot.state.unfinished)
        self._screen.last_char = snapshot.state.last_char

    def _skip(self, text: str, pos: int) -> int:
        """Leave out what will have scrolled off: of text that only scrolls, the last rows alone are seen."""
        screen = self._screen
        if len(text) - pos < _SKIP_FROM or screen.keeps_scrolled or not screen.only_scrolls:
            return pos
        linear = _PRINTABLE_LINE.match(text, pos)
        assert linear is not None  # it matches the empty text
        cut = linear.end()
        for _ in range(screen.lines):
            cut = text.rfind("\n", pos, cut)
            if cut < 0:
                return pos
        if cut - pos < _SKIP_FROM // 2 or text[cut - 1] != "\r":
            return pos
        since = max(text.rfind("\x1b[0m", pos, cut), text.rfind("\x1b[m", pos, cut), pos)
        for change in _SIMPLE_SGR.finditer(text, since, cut):
            screen.sgr(change[1])
        screen.start_over()
        return cut + 1

    def _control(self, char: str) -> None:
        self._screen.last_char = ""
        if handler := self._controls.get(char):
            handler()

    def _escape(self, text: str, pos: int) -> int:
        """Obey the escape sequence at `pos` and say where it ends."""
        escape = _ESCAPE_SEQUENCE.match(text, pos)
        if escape is None:
            self._pending = text[pos : pos + MAX_SEQUENCE]
            return len(text)
        body, final = escape.groups()
        intermediates = self._obey_controls(body)
        if final == "\x1b":
            return escape.end() - 1
        if final == "[" and not intermediates:
            return self._csi(text, escape.end())
        if final in _STRING_BODIES and not intermediates:
            self._string, self._screen.last_char = final, ""
            return self._in_string(text, escape.end())
        if handler := self._escapes.get(intermediates + final):
            self._screen.last_char = ""
            handler()
        return escape.end()

    def _csi(self, text: str, pos: int) -> int:
        """Obey the control sequence whose parameters begin at `pos`."""
        sequence = _CSI_REST.match(text, pos)
        if sequence is None:
            if len(text) - pos > MAX_SEQUENCE:
                self._string = "["
            else:
                self._pending = "\x1b[" + text[pos:]
            return len(text)
        body, final = sequence.groups()
        if len(body) <= MAX_SEQUENCE:
            parts = _CSI_BODY.match(self._obey_controls(body))
            if final >= "@" and parts is not None:
                prefix, params, intermediates = parts.groups()
                self._sequence(prefix + intermediates + final, params)
        return sequence.end() - (final == "\x1b")

    def _obey_controls(self, body: str) -> str:
        """Obey control characters inside a sequence and give the rest of it."""
        if body.isascii() and body.isprintable():
            return body
        for char in body:
            if char < " ":
                self._control(char)
        return "".join([char for char in body if " " <= char < "\x7f"])

    def _in_string(self, text: str, pos: int) -> int:
        """Swallow the string that we are in, as far as it goes."""
        inside = _STRING_BODIES[self._string].match(text, pos)
        assert inside is not None  # it matches the empty text
        end = inside.end()
        if self._string in _TITLE_COMMANDS:
            self._body = (self._body + text[pos:end])[:MAX_TITLE]
        if end == len(text):
            return end
        if text[end] != "\x1b":
            end += 1
        elif end + 1 == len(text):
            self._pending = "\x1b"
            return end + 1
        elif text[end + 1] == "\\" and self._string != "[":
            end += 2
        self._leave_string()
        return end

    def _leave_string(self) -> None:
        found = (
            _TITLE_COMMANDS[self._string].match(_UNPRINTED.sub("", self._body))
            if self._string in _TITLE_COMMANDS
            else None
        )
        if found:
            self._screen.set_title(found[1])
        elif self._string == "]" and (address := address_of_command(self._body)) is not None:
            self._screen.set_link(address)
        elif self._string == "]" and self._body.startswith(OUTPUT_MARK):
            self._screen.begin_output()
        self._string = self._body = ""

    def _sequence(self, name: str, params: str, whole: str = "") -> None:
        if name == "m":
            self._screen.sgr(params)
        elif (handler := self._sequences.get(name)) and (numbers := _numbers(params)):
            handler(numbers)
            if whole and len(self._orders) < _MAX_ORDERS:
                self._orders[whole] = handler, numbers
        elif not (handler or name in _WITHOUT_EFFECT):
            return  # what tmux does not know does not come between a character and `CSI b`
        self._screen.last_char = ""


@lru_cache(maxsize=4096)  # programs move to the same places over and over
def _numbers(params: str) -> tuple[int | None, ...]:
    """Read parameters; none at all of what tmux does not obey."""
    if ":" in params or not obeyed(params):
        return ()
    return tuple([number(field) if field else None for field in params.split(";")])


def _controls(screen: Screen) -> dict[str, Callable[[], None]]:
    def shift(charset: int) -> Callable[[], None]:
        return lambda: setattr(screen, "shifted", charset)

    return {
        **dict.fromkeys("\n\x0b\x0c", screen.index),
        "\x07": screen.bell,
        "\b": screen.backspace,
        "\t": screen.tab,
        "\r": screen.carriage_return,
        "\x0e": shift(1),
        "\x0f": shift(0),
    }


def _escapes(screen: Screen) -> dict[str, Callable[[], None]]:
    def charset(slot: int, drawing: bool) -> Callable[[], None]:
        return lambda: screen.set_charset(slot, drawing)

    return {
        "7": screen.save_cursor,
        "8": screen.restore_cursor,
        "D": screen.index,
        "E": screen.next_line,
        "H": screen.set_tab_stop,
        "M": screen.reverse_index,
        **dict.fromkeys("=>\\", lambda: None),  # keypad, string terminator
        "c": screen.hard_reset,
        "#8": screen.alignment_display,
        "(0": charset(0, True),
        "(B": charset(0, False),
        ")0": charset(1, True),
        ")B": charset(1, False),
    }


def _sequences(screen: Screen) -> dict[str, Callable[[tuple[int | None, ...]], None]]:
    def first(method: Callable[[int | None], None]) -> Callable[[tuple[int | None, ...]], None]:
        return lambda params: method(params[0])

    def margins(params: tuple[int | None, ...]) -> None:
        screen.set_margins(*params[:2])

    def kind(method: Callable[[int], None]) -> Callable[[tuple[int | None, ...]], None]:
        return lambda params: method(params[0] or 0)

    return {
        "@": first(screen.insert_characters),
        "A": first(screen.cursor_up),
        "B": first(screen.cursor_down),
        "C": first(screen.cursor_forward),
        "D": first(screen.cursor_back),
        "E": first(screen.cursor_down1),
        "F": first(screen.cursor_up1),
        "G": first(screen.cursor_to_column),
        "H": lambda params: screen.cursor_position(*params[:2]),
        "J": kind(screen.erase_in_display),
        "K": kind(screen.erase_in_line),
        "L": first(screen.insert_lines),
        "M": first(screen.delete_lines),
        "P": first(screen.delete_characters),
        "S": first(screen.scroll_up),
        "T": first(screen.scroll_down),
        "X": first(screen.erase_characters),
        "Z": first(screen.tab_back),
        "`": first(screen.cursor_to_column),
        "b": first(screen.repeat),
        "d": first(screen.cursor_to_line),
        "f": lambda params: screen.cursor_position(*params[:2]),
        "g": kind(screen.clear_tab_stop),
        "h": lambda params: screen.set_mode(*filter(None, params)),
        "l": lambda params: screen.reset_mode(*filter(None, params)),
        "?h": lambda params: screen.set_mode(*filter(None, params), private=True),
        "?l": lambda params: screen.reset_mode(*filter(None, params), private=True),
        "r": margins,
        "s": lambda params: screen.save_cursor(),
        "u": lambda params: screen.restore_cursor(),
        " q": kind(screen.set_shape),
    }
