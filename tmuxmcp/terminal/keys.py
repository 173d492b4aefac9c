r"""Key names: every notation people and models write, in; names that tmux takes as keys, out.

Pure: it reads and sends nothing. tmux types an unknown key name as text and says nothing, so what leaves here
is in `KEY_NAMES`, or is one printable character, or the call raises `InvalidKey`.

One key spec, in any of these notations, each of them with or without a repeat (`Down*5`):

    tmux         C-c  M-x  S-Up  C-M-x  BSpace  PPage  KP5     case matters only in a single character
    caret        ^C  ^[                                        `^` is Ctrl
    brackets     [UP]  [F1]  [CTRL-C]
    angle        <esc>  <ctrl-c>  <C-w>  <S-Tab>  <CR>
    underscore   ctrl_c  page_up  arrow_up  shift_tab
    plus         Ctrl+C  ctrl+shift+up
    character    a  A  ;  -  *  [  <  ^  (a space is `Space`)

The caller hands the names to `send-keys` after `--`, each through the function that quotes for a tmux command
line (`"`, `'`, `\`, `{`, `#` and `$` are among them), and those of one key in one command: a few keys are two
names, `Escape` and a character, that a program must read together. No name ends in `;`, which tmux would take
for the end of its command.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import product

from tmuxmcp.contract.errors import InvalidKey, NoInput

MAX_REPEAT = 1000
"""Most keys that one spec, and one call, may stand for."""

MAX_SPEC = 64
"""Characters of the longest spec looked at; `control+option+shift+arrow_right*1000` has 37."""

# What tmux 3.3a turns into the right bytes; the tests send every one of these to a real tmux and compare.
# The rest it drops (C-1, C-Tab, C-Enter), types as text (S-Enter, C-M-Tab) or sends without the modifier (C-é).

_FUNCTION = [f"F{n}" for n in range(1, 13)]
_KEYPAD = [f"KP{char}" for char in "0123456789/*-+."]  # not KPEnter: tmux sends LF for it
_CHARACTERS = [char for char in map(chr, range(0x21, 0x7F)) if char != ";"]
_CONTROL_CHARACTERS = [*string.ascii_lowercase, *"\\]^_?"]

_KEYS_WITH_MODIFIERS: list[tuple[list[str], list[str]]] = [
    (["", "C-", "M-", "S-", "C-M-", "C-S-", "M-S-", "C-M-S-"], ["Up", "Down", "Left", "Right", *_FUNCTION]),
    (["", "C-", "M-", "S-", "C-M-", "C-S-", "M-S-", "C-M-S-"], ["Home", "End", "PPage", "NPage", "IC", "DC"]),
    (["", "C-", "M-", "C-M-"], ["Space"]),
    (["", "M-"], ["Enter", "Escape", "Tab", "BTab", "BSpace", *_KEYPAD]),
    (["", "M-"], _CHARACTERS),
    (["C-", "C-M-"], _CONTROL_CHARACTERS),
]

KEY_NAMES = frozenset(
    prefix + key for prefixes, keys in _KEYS_WITH_MODIFIERS for prefix, key in product(prefixes, keys)
) | {"0x3b"}
"""Every name that `parse_key` returns, but for single printable characters beyond ASCII."""

# Combinations that have a name of their own, or share their byte with another one that tmux always knows.
_TMUX_SYNONYMS = {
    **{"S-Tab": "BTab", "M-S-Tab": "M-BTab", "S-BTab": "BTab", "M-S-BTab": "M-BTab", ";": "0x3b"},
    **{"C-@": "C-Space", "C-2": "C-Space", "C-6": "C-^", "C--": "C-_", "C-/": "C-_", "C-[": "Escape"},
    **{"C-M-@": "C-M-Space", "C-M-2": "C-M-Space", "C-M-6": "C-M-^", "C-M--": "C-M-_", "C-M-/": "C-M-_"},
    "C-M-[": "M-Escape",
}

_MODIFIERS = {
    **dict.fromkeys(["^", "c", "ctrl", "control", "ctl"], "C"),
    **dict.fromkeys(["m", "a", "alt", "meta", "option", "opt"], "M"),
    **dict.fromkeys(["s", "shift"], "S"),
}
_MODIFIER_WORDS = "|".join(word for word in _MODIFIERS if len(word) > 1)

_SPELLINGS = {
    "Up": "up arrow_up arrowup up_arrow uparrow",
    "Down": "down arrow_down arrowdown down_arrow downarrow",
    "Left": "left arrow_left arrowleft left_arrow leftarrow",
    "Right": "right arrow_right arrowright right_arrow rightarrow",
    "Home": "home",
    "End": "end",
    "PPage": "ppage pageup page_up pgup pg_up prior",
    "NPage": "npage pagedown page_down pgdn pgdown pg_dn pg_down next",
    "IC": "ic insert ins",
    "DC": "dc delete del",
    "Enter": "enter return cr ret",
    "Escape": "escape esc",
    "Space": "space spacebar space_bar spc",
    "Tab": "tab",
    "BTab": "btab backtab back_tab",
    "BSpace": "bspace backspace back_space bs",
    # Characters that a notation would swallow: `ctrl+plus`, `<lt>` (vim).
    **{"-": "minus hyphen dash", "+": "plus", "*": "asterisk star", "<": "lt", ">": "gt", "|": "bar pipe"},
    **{"\\": "backslash bslash", ";": "semicolon", "/": "slash", "_": "underscore", "^": "caret", "@": "at"},
}
_KEYPAD_WORDS = {"/": "divide", "*": "multiply", "-": "minus subtract", "+": "plus add", ".": "dot period decimal"}


def _named_keys() -> Iterator[tuple[str, str]]:
    for key, spellings in _SPELLINGS.items():
        yield from ((spelling, key) for spelling in spellings.split())
    yield from ((key.lower(), key) for key in _FUNCTION)
    for key in _KEYPAD:
        tails = [key[2:], *_KEYPAD_WORDS.get(key[2:], "").split()]
        yield from ((head + tail, key) for head, tail in product(["kp", "kp_", "numpad", "numpad_"], tails))


_KEY_BY_SPELLING = dict(_named_keys())

# Known to keyboards, not to tmux or not to terminals: the whole of why, and what to do instead.
_REFUSED_SPELLINGS: list[tuple[re.Pattern[str], str, str]] = [
    (re.compile(pattern, re.I | re.A), why, hint)
    for pattern, why, hint in [
        (r"(kp|numpad)_?enter", "tmux sends a line feed for the keypad's Enter", "Use `Enter`."),
        (r"f(1[3-9]|2[0-4])", "tmux has F1 to F12 only", "To terminfo F13 is `S-F1`, F14 `S-F2` and so on."),
        (r"((cmd|command|super|win|windows|hyper)[-+_ ]|d-).+", "a terminal has no such modifier", "Use C-, M- or S-."),
        (rf"({_MODIFIER_WORDS})[-+_]?|[cmas]-", "a modifier alone is no key", "Add the key, as in `C-c`."),
        (r"(caps|num|scroll)_?lock|print_?screen|pause|menu", "a terminal sends nothing for it", ""),
    ]
]

_REPEATED_KEY = re.compile(r"(.+?)\s*\*\s*([0-9]+)", re.S)
_BRACKETED_KEY = re.compile(r"<(.+)>|\[(.+)\]", re.S)
# re.A: else `ſ` (long s) and the Kelvin sign would match as s and k. The look-ahead keeps `C--` and `ctrl++` whole.
_MODIFIER = re.compile(rf"(?:(\^)|([cmas])-|({_MODIFIER_WORDS})[-+_ ])(?=.)", re.I | re.A | re.S)


def parse_keys(keys: Iterable[str]) -> list[str]:
    """Turn key specs into one flat list of tmux key names, repeats written out.

    Raises:
        NoInput: there are no specs at all.
        InvalidKey: a spec is wrong, or they stand for more than `MAX_REPEAT` keys together.
    """
    names: list[str] = []
    total = 0
    for spec in keys:
        one, count = _parse(spec, set())
        total += count
        if total > MAX_REPEAT:
            raise InvalidKey(f"More than {MAX_REPEAT} keys at once.", "Send them in several calls.", limit=MAX_REPEAT)
        names += one * count
    if not total:
        raise NoInput("No keys were given.", "Name at least one key, as in `Enter`.")
    return names


def parse_key(key: str, *, ctrl: bool = False, alt: bool = False, shift: bool = False) -> list[str]:
    """Turn one key spec, with modifiers beside those it names itself, into tmux key names.

    Raises:
        InvalidKey: no notation knows the key, or tmux cannot send it with these modifiers.
    """
    names, count = _parse(key, {letter for letter, held in zip("CMS", (ctrl, alt, shift), strict=True) if held})
    return names * count


def _parse(spec: str, modifiers: set[str]) -> tuple[list[str], int]:
    """The names of one press of the key, and how many presses."""
    if len(spec) > MAX_SPEC:
        raise InvalidKey(f"{spec[:20]!r}... is too long for a key.", "Send text as `text`.", limit=MAX_SPEC)
    if len(spec) != 1:
        spec = spec.strip()
    if not spec:
        raise _invalid(spec, "it is empty", "Name a key, as in `Enter`.")
    body, count = spec, 1
    if repeated := _REPEATED_KEY.fullmatch(spec):
        body, count = repeated[1], int(repeated[2])
    if not 1 <= count <= MAX_REPEAT:
        raise InvalidKey(f"{spec!r} repeats {count} times.", f"Repeat 1 to {MAX_REPEAT} times.", limit=MAX_REPEAT)
    return _names(spec, *_resolve(body, modifiers)), count


ALIKE_KEY = 0.7
"""How alike a wrong name and a key's are, of which the one is taken for the other; `ls` and `plus` are not."""


def _resolve(spec: str, modifiers: set[str]) -> tuple[set[str], str]:
    """Peel brackets and modifiers off, in whatever order they stand, down to the key."""
    while len(spec) > 1:
        if wrapped := _BRACKETED_KEY.fullmatch(spec):
            spec = wrapped[1] or wrapped[2]
        elif modifier := _MODIFIER.match(spec):
            modifiers = modifiers | {_MODIFIERS[modifier[modifier.lastindex or 0].lower()]}
            spec = spec[modifier.end() :]
        else:
            return modifiers, _named(spec)
    return modifiers, _character(spec)


def _named(spec: str) -> str:
    lowered = spec.lower()
    key = _KEY_BY_SPELLING.get(lowered) or _KEY_BY_SPELLING.get(lowered.replace("-", "_").replace(" ", "_"))
    if key is not None:
        return key
    for pattern, why, hint in _REFUSED_SPELLINGS:
        if pattern.fullmatch(spec):
            raise _invalid(spec, why, hint)
    near = get_close_matches(lowered, _KEY_BY_SPELLING, n=1, cutoff=ALIKE_KEY)
    meant = f"Did you mean `{_KEY_BY_SPELLING[near[0]]}`? " if near else ""
    raise _invalid(spec, "no key has this name", meant + "One key an element, as in `C-c`; send text as `text`.")


def _character(char: str) -> str:
    if char == " ":
        return "Space"
    if char.isprintable():
        return char
    named = {"\r": "Enter", "\n": "Enter", "\t": "Tab", "\x1b": "Escape", "\x7f": "BSpace", "\0": "C-Space"}
    control = named.get(char) or (f"C-{chr(ord(char) | 0x40).lower()}" if char < " " else "")
    raise _invalid(char, "it is not a printable character", f"Write `{control}`." if control else "Name a key.")


def _names(spec: str, modifiers: set[str], key: str) -> list[str]:
    """The names for `key` with `modifiers`, each of them allowed."""
    if "C" in modifiers and key.isascii() and len(key) == 1:
        key = key.lower()
    elif "S" in modifiers and len(key) == 1 and key.isalpha():
        modifiers, key = modifiers - {"S"}, _capital(spec, key)
    prefix = "".join(f"{letter}-" for letter in "CMS" if letter in modifiers)
    name = _TMUX_SYNONYMS.get(prefix + key, prefix + key)
    if name in KEY_NAMES:
        return [name]
    if len(key) == 1 and prefix == "M-":
        # `M-;` ends in `;`; `M-é` some builds of tmux type as text. ESC and the character are the same bytes.
        return ["Escape", _TMUX_SYNONYMS.get(key, key)]
    if len(key) == 1 and not prefix:
        return [key]
    raise _cannot_send(spec, modifiers, key, name)


def _capital(spec: str, letter: str) -> str:
    upper = letter.upper()
    if len(upper) != 1 or upper == letter.lower():
        raise _invalid(spec, f"{letter!r} has no capital letter", "Send the character that you mean.")
    return upper


def _cannot_send(spec: str, modifiers: set[str], key: str, name: str) -> InvalidKey:
    """Say why tmux cannot send a key that exists, and which combinations of it there are."""
    if len(key) > 1:
        can = [prefix + key for prefixes, keys in _KEYS_WITH_MODIFIERS if key in keys for prefix in prefixes]
        return _invalid(spec, f"a terminal has no bytes for `{name}`", f"There are: {', '.join(can)}.")
    if "C" not in modifiers:
        return _invalid(spec, f"what Shift makes of {key!r} depends on the keyboard", "Send the character itself.")
    if "S" in modifiers:
        return _invalid(spec, "a terminal has no bytes for Ctrl and Shift with a character", "Leave out Shift.")
    return _invalid(
        spec, f"a terminal has no byte for Ctrl and {key!r}", r"Ctrl goes with a-z, Space and @ [ \ ] ^ _ ? only."
    )


def _invalid(spec: str, why: str, hint: str) -> InvalidKey:
    return InvalidKey(f"{spec!r} cannot be sent: {why}.", hint, key=spec)


# ---- Mouse events as programs read them, in the SGR encoding (DEC private mode 1006). Pure ---------------------------

BUTTONS = {"left": 0, "middle": 1, "right": 2}
NO_BUTTON = 3
MOTION_BIT = 32
SCROLL_BUTTONS = {"scroll_up": 64, "scroll_down": 65}


def encode(action: str, row: int, col: int, button: str = "") -> bytes:
    """Give the bytes of one event; a click is two.

    Args:
        action: `click press release move scroll_up scroll_down`.
        row, col: from 0.
        button: `left middle right`; empty: the left one, and for `move` none.
    """
    number = BUTTONS.get(button, NO_BUTTON if action == "move" else BUTTONS["left"])
    match action:
        case "click":
            return _event(number, row, col) + _event(number, row, col, "m")
        case "release":
            return _event(number, row, col, "m")
        case "move":
            return _event(MOTION_BIT + number, row, col)
        case "press":
            return _event(number, row, col)
        case _:
            return _event(SCROLL_BUTTONS[action], row, col)


def _event(number: int, row: int, col: int, end: str = "M") -> bytes:
    return f"\x1b[<{number};{col + 1};{row + 1}{end}".encode("ascii")
