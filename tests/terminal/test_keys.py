"""Every notation gives the right tmux key names, and a real tmux gives the right bytes for every name."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count, product, repeat
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conftest import SLOW
from tests.kit.agent import eventually
from tests.kit.cases import for_each
from tmuxmcp.contract.errors import InvalidKey, NoInput
from tmuxmcp.terminal.keys import KEY_NAMES, MAX_REPEAT, parse_key, parse_keys

# What a program must read for each name, from xterm's control sequences and not from tmux:
# a modified key carries 1 + 1 Shift + 2 Alt + 4 Ctrl as its parameter.
PREFIXES = {"": 1, "S-": 2, "M-": 3, "M-S-": 4, "C-": 5, "C-S-": 6, "C-M-": 7, "C-M-S-": 8}
LETTER_KEYS = {"Up": "A", "Down": "B", "Right": "C", "Left": "D", "Home": "H", "End": "F"}
LETTER_KEYS |= {"F1": "P", "F2": "Q", "F3": "R", "F4": "S"}
TILDE_KEYS = {"IC": 2, "DC": 3, "PPage": 5, "NPage": 6, "F5": 15, "F6": 17, "F7": 18, "F8": 19}
TILDE_KEYS |= {"F9": 20, "F10": 21, "F11": 23, "F12": 24}
PLAIN = {"Home": "\x1b[1~", "End": "\x1b[4~", "F1": "\x1bOP", "F2": "\x1bOQ", "F3": "\x1bOR", "F4": "\x1bOS"}
ESCAPABLE = {"Enter": "\r", "Escape": "\x1b", "Tab": "\t", "BTab": "\x1b[Z", "BSpace": "\x7f", "Space": " "}
ESCAPABLE |= {f"KP{char}": char for char in "0123456789/*-+."}
ESCAPABLE |= {chr(code): chr(code) for code in range(0x21, 0x7F) if chr(code) != ";"}


def expected_bytes() -> dict[str, bytes]:
    expected = {"0x3b": ";"}
    for key, (prefix, number) in product(LETTER_KEYS, PREFIXES.items()):
        plain = PLAIN.get(key, f"\x1b[{LETTER_KEYS[key]}")
        expected[prefix + key] = plain if number == 1 else f"\x1b[1;{number}{LETTER_KEYS[key]}"
    for key, (prefix, number) in product(TILDE_KEYS, PREFIXES.items()):
        parameter = "" if number == 1 else f";{number}"
        expected[prefix + key] = f"\x1b[{TILDE_KEYS[key]}{parameter}~"
    for key, text in ESCAPABLE.items():
        expected |= {key: text, f"M-{key}": f"\x1b{text}"}
    for key in [*"abcdefghijklmnopqrstuvwxyz\\]^_?", "Space"]:
        control = {"?": "\x7f", "Space": "\0"}.get(key) or chr(ord(key) & 0x1F)
        expected |= {f"C-{key}": control, f"C-M-{key}": f"\x1b{control}"}
    return {name: text.encode() for name, text in expected.items()}


EXPECTED = expected_bytes()

PATIENCE_S = 20 * SLOW
SINK = """
import os, sys, tty
tty.setraw(0)
seen = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(seen, b"ready")
while data := os.read(0, 65536):
    os.write(seen, data)
"""
END = b"\xff\xfe"  # no key gives these bytes


class Pane:
    """A program in raw mode in a real tmux, and what it read."""

    def __init__(self, home: Path) -> None:
        self.argv = ["tmux", "-S", str(home / "s"), "-f", "/dev/null"]
        self.seen = home / "seen"
        self.env = {key: value for key, value in os.environ.items() if key not in ("TMUX", "TMUX_PANE")}
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", sys.executable, "-c", SINK, str(self.seen))
        eventually(lambda: self.seen.exists() and self.seen.read_bytes() == b"ready")

    def tmux(self, *args: str) -> None:
        subprocess.run([*self.argv, *args], env={**self.env, "LC_ALL": "C.UTF-8"}, check=True, timeout=PATIENCE_S)

    def press(self, presses: Sequence[Sequence[str]]) -> list[bytes]:
        """What the program reads for each press, a press being the names sent in one command."""
        start = self.seen.stat().st_size
        for names in presses:
            self.tmux("send-keys", "--", *names, ";", "send-keys", "-H", *(f"{byte:02x}" for byte in END))
        eventually(lambda: self.seen.read_bytes()[start:].count(END) == len(presses))
        return self.seen.read_bytes()[start:].split(END)[:-1]


@pytest.fixture(scope="module")
def pane() -> Iterator[Pane]:
    """A real tmux server of these tests' own; nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="tm-") as home:
        pane = Pane(Path(home))
        yield pane
        with contextlib.suppress(subprocess.CalledProcessError):
            pane.tmux("kill-server")


def test_tmux_gives_the_right_bytes_for_every_allowed_name(pane: Pane) -> None:
    read = pane.press([[name] for name in EXPECTED])
    assert dict(zip(EXPECTED, read, strict=True)) == EXPECTED


def test_every_allowed_name_is_among_those_measured() -> None:
    assert frozenset(EXPECTED) == KEY_NAMES


PRESSES = {
    "Up": b"\x1b[A",
    "F5": b"\x1b[15~",
    "ctrl_c": b"\x03",
    "M-x": b"\x1bx",
    "Ctrl+Up": b"\x1b[1;5A",
    "shift_tab": b"\x1b[Z",
    ";": b";",
    "M-;": b"\x1b;",
    "M-;*2": b"\x1b;\x1b;",
    "é": b"\xc3\xa9",
    "日": "日".encode(),
    "🙂": "🙂".encode(),
    "M-é": b"\x1b\xc3\xa9",
    '"': b'"',
    "C-/": b"\x1f",
    "C-M-[": b"\x1b\x1b",
    "Down*3": b"\x1b[B\x1b[B\x1b[B",
}


def test_a_spec_reaches_the_program_as_its_bytes(pane: Pane) -> None:
    read = pane.press([parse_key(spec) for spec in PRESSES])
    assert dict(zip(PRESSES, read, strict=True)) == PRESSES


def test_alt_and_its_character_are_read_together(pane: Pane) -> None:
    names = parse_keys(repeat("M-;", 200))
    assert pane.press([names]) == [b"\x1b;" * 200]


REFUSED = [
    *["C-1", "C-;", "C-!", "C-`", "C-~", "C-é", "C-Tab", "C-BTab", "C-Enter", "C-Escape", "C-BSpace", "C-KP5"],
    *["S-1", "S-Enter", "S-Escape", "S-BSpace", "S-Space", "S-KP5", "C-S-c", "C-S-Tab", "C-S-Space", "M-S-Enter"],
    *["C-M-1", "C-M-Tab", "C-M-Enter", "C-M-BSpace", "C-M-S-c", "F13", "KPEnter"],
]


def test_what_is_refused_tmux_drops_or_types_or_strips(pane: Pane) -> None:
    """None of them has bytes of its own in tmux, which has nothing, the name as text or the bare key for it."""
    read = pane.press([[name.replace(";", "\\;")] for name in REFUSED])
    for name, data in zip(REFUSED, read, strict=True):
        bare = name.rsplit("-", 1)[-1]
        line_feed = b"\n" if name == "KPEnter" else b""
        assert data in (b"", line_feed, name.encode(), bare.encode(), EXPECTED.get(bare)), name


@for_each("name", REFUSED)
def test_what_tmux_cannot_send_is_refused(name: str) -> None:
    with pytest.raises(InvalidKey, match="cannot be sent"):
        parse_key(name)


NOTATIONS = [
    # tmux
    *[("C-c", "C-c"), ("M-x", "M-x"), ("C-M-x", "C-M-x"), ("M-C-x", "C-M-x"), ("S-Up", "S-Up"), ("C-S-Up", "C-S-Up")],
    *[("Up", "Up"), ("UP", "Up"), ("uP", "Up"), ("F5", "F5"), ("f12", "F12"), ("BSpace", "BSpace"), ("DC", "DC")],
    *[("IC", "IC"), ("PPage", "PPage"), ("NPage", "NPage"), ("PgUp", "PPage"), ("PageDown", "NPage"), ("End", "End")],
    *[("BTab", "BTab"), ("Enter", "Enter"), ("Escape", "Escape"), ("Space", "Space"), ("Home", "Home"), ("Tab", "Tab")],
    *[
        ("KP0", "KP0"),
        ("KP/", "KP/"),
        ("KP*", "KP*"),
        ("KP-", "KP-"),
        ("KP.", "KP."),
        ("kp+", "KP+"),
        ("M-KP*", "M-KP*"),
    ],
    *[("C-A", "C-a"), ("c-a", "C-a"), ("M-a", "M-a"), ("M-A", "M-A"), ("C-?", "C-?"), ("C-Space", "C-Space")],
    # caret
    *[("^C", "C-c"), ("^c", "C-c"), ("^[", "Escape"), ("^?", "C-?"), ("^^", "C-^"), ("^@", "C-Space"), ("^Up", "C-Up")],
    # brackets
    *[("[UP]", "Up"), ("[F1]", "F1"), ("[PGUP]", "PPage"), ("[CTRL-C]", "C-c"), ("[ENTER]", "Enter"), ("[^C]", "C-c")],
    # angle, and vim
    *[("<ctrl-c>", "C-c"), ("<esc>", "Escape"), ("<enter>", "Enter"), ("<CR>", "Enter"), ("<C-w>", "C-w")],
    *[("<S-Tab>", "BTab"), ("<A-x>", "M-x"), ("<BS>", "BSpace"), ("<Del>", "DC"), ("<lt>", "<"), ("C-<Up>", "C-Up")],
    # underscore, hyphen, space
    *[("ctrl_c", "C-c"), ("pageup", "PPage"), ("page_up", "PPage"), ("arrow_up", "Up"), ("shift_tab", "BTab")],
    *[("page-down", "NPage"), ("Arrow Left", "Left"), ("ctrl_alt_x", "C-M-x"), ("numpad_add", "KP+"), (" Up ", "Up")],
    # plus
    *[("Ctrl+C", "C-c"), ("ctrl+shift+up", "C-S-Up"), ("Alt+F4", "M-F4"), ("ctrl+alt+delete", "C-M-DC")],
    *[("alt++", "M-+"), ("Alt+plus", "M-+"), ("Control+[", "Escape"), ("option-x", "M-x")],
    # a character is itself, whatever it means in a notation
    *[(char, char) for char in "aAzZ0-*[]<>^+_#${}~\"'\\é日🙂"],
    *[(" ", "Space"), (";", "0x3b"), ("<", "<"), ("[;]", "0x3b"), ("<->", "-")],
    # Shift makes the capital or the key's own name
    *[("S-a", "A"), ("shift+A", "A"), ("S-é", "É"), ("M-S-a", "M-A"), ("M-S-Tab", "M-BTab"), ("S-BTab", "BTab")],
    # one byte, one name
    *[("C-@", "C-Space"), ("C-2", "C-Space"), ("C-6", "C-^"), ("C--", "C-_"), ("C-/", "C-_"), ("C-M-/", "C-M-_")],
]


@for_each(("spec", "name"), NOTATIONS)
def test_every_notation_gives_the_tmux_name(spec: str, name: str) -> None:
    assert parse_key(spec) == [name]


REPEATS = [
    ("Down*5", ["Down"] * 5),
    ("<down>*3", ["Down"] * 3),
    ("[UP]*2", ["Up"] * 2),
    ("C-c * 2", ["C-c"] * 2),
    ("a*1", ["a"]),
    ("**2", ["*"] * 2),
    ("KP**2", ["KP*"] * 2),
    (" *2", None),
    ("Up*1000", ["Up"] * MAX_REPEAT),
    ("Up*0", None),
    ("Up*1001", None),
    ("Up*" + "9" * 50, None),
    ("Up*" + "9" * 5000, None),
    ("Up*٣", None),
    ("Up*-1", None),
    ("Up*", None),
    ("*5", None),
]


@for_each(("spec", "names"), REPEATS)
def test_repeat(spec: str, names: list[str] | None) -> None:
    if names is not None:
        assert parse_key(spec) == names
        return
    with pytest.raises(InvalidKey):
        parse_key(spec)


WITH_MODIFIERS = [
    ("c", "C", ["C-c"]),
    ("C", "C", ["C-c"]),
    ("x", "M", ["M-x"]),
    ("x", "CM", ["C-M-x"]),
    ("x", "S", ["X"]),
    ("x", "MS", ["M-X"]),
    ("Tab", "S", ["BTab"]),
    ("up", "CS", ["C-S-Up"]),
    ("C-Up", "M", ["C-M-Up"]),
    ("C-Up", "C", ["C-Up"]),
    ("<down>*2", "S", ["S-Down", "S-Down"]),
    (" ", "C", ["C-Space"]),
    (";", "M", ["Escape", "0x3b"]),
    ("é", "M", ["Escape", "é"]),
]


@for_each(("key", "held", "names"), WITH_MODIFIERS)
def test_modifiers_beside_the_key(key: str, held: str, names: list[str]) -> None:
    assert parse_key(key, ctrl="C" in held, alt="M" in held, shift="S" in held) == names


ERRORS = [
    ("Entr", "`Enter`"),
    ("Escpae", "`Escape`"),
    ("page_upp", "`PPage`"),
    ("C-Dwon", "`Down`"),
    ("<dwon>*3", "`Down`"),
    ("hello world", "`text`"),
    ("C-x C-c", "One key an element"),
    ("d c", "`text`"),
    ("", "empty"),
    ("  ", "empty"),
    ("<>", "`text`"),
    ("\n", "`Enter`"),
    ("\x03", "`C-c`"),
    ("\x1b", "`Escape`"),
    ("\x1c", r"`C-\`"),
    ("\x85", "printable"),
    ("\ud800", "printable"),
    ("\x1b[A", "`text`"),
    ("x" * 5000, "too long"),
    ("F13", "S-F1"),
    ("KPEnter", "`Enter`"),
    ("ctrl", "modifier alone"),
    ("C-", "modifier alone"),
    ("cmd+c", "no such modifier"),
    ("PrintScreen", "sends nothing"),
    ("C-1", "Ctrl goes with"),
    ("ctrl++", "Ctrl goes with"),
    ("C-é", "Ctrl goes with"),
    ("C-\u212a", "Ctrl goes with"),  # the Kelvin sign, whose small letter is k
    ("C-S-c", "Leave out Shift"),
    ("S-1", "Send the character itself"),
    ("S-ß", "no capital"),
    ("S-日", "no capital"),
    ("S-Enter", "There are: Enter, M-Enter"),
    ("C-Tab", "There are: Tab, M-Tab"),
    ("C-S-Space", "There are: Space, C-Space, M-Space, C-M-Space"),
    ("ſ-Up", "no key"),
]


@for_each(("spec", "says"), ERRORS)
def test_a_wrong_key_is_refused_and_says_what_is_right(spec: str, says: str) -> None:
    with pytest.raises(InvalidKey) as caught:
        parse_key(spec)
    assert says in f"{caught.value.message} {caught.value.hint}"


def test_keys_are_one_flat_list() -> None:
    assert parse_keys(["^C", "Down*2", "M-;", ":", "q", "<CR>"]) == [
        *["C-c", "Down", "Down", "Escape", "0x3b", ":", "q", "Enter"]
    ]


def test_one_wrong_key_among_right_ones_gives_no_names() -> None:
    with pytest.raises(InvalidKey):
        parse_keys(["Up", "Entr", "Down"])


def test_no_keys_are_no_input() -> None:
    with pytest.raises(NoInput):
        parse_keys([])


def test_a_thousand_presses_and_no_more() -> None:
    assert len(parse_keys(["Up*999", "M-;"])) == 1001  # presses are counted, not names
    for keys in (["Up*1000", "Up"], repeat("Up"), (f"F1*{n}" for n in count(1))):
        with pytest.raises(InvalidKey, match="1000"):
            parse_keys(keys)


PIECES = st.sampled_from(
    [
        *[
            "C-",
            "M-",
            "S-",
            "ctrl+",
            "shift_",
            "alt-",
            "^",
            "<",
            ">",
            "[",
            "]",
            "*",
            "*3",
            "-",
            "+",
            "_",
            " ",
            ";",
            "KP",
        ],
        *["Up", "tab", "F1", "enter", "page_up", "a", "A", "é", "ß", "1", "\n", "\x1b", "\u0301"],
    ]
)
SPECS = st.text() | st.lists(PIECES, max_size=6).map("".join) | st.characters()


@settings(deadline=None)
@given(SPECS, st.booleans(), st.booleans(), st.booleans())
@example("İ", False, False, True)
@example("\u212a", True, False, False)
def test_any_text_gives_known_names_or_invalid_key(spec: str, ctrl: bool, alt: bool, shift: bool) -> None:
    try:
        names = parse_key(spec, ctrl=ctrl, alt=alt, shift=shift)
    except InvalidKey:
        return
    assert names
    for name in names:
        assert name in EXPECTED or (len(name) == 1 and name.isprintable() and not name.isascii())
        assert not name.endswith(";")


@given(st.sampled_from(sorted(KEY_NAMES - {"0x3b"})))
def test_a_name_that_came_out_goes_in_again(name: str) -> None:
    assert parse_key(name) == [name]
