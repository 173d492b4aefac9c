"""Clean text: tables of bytes and the text they leave."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kit.cases import for_each
from tests.terminal.conftest import RealTmux, trimmed
from tmuxmcp.terminal.text.plain import needs_grid, plain, sanitize

EXACT = [
    ("nothing", b"", ""),
    ("a line", b"hi\r\n", "hi\n"),
    ("no final newline", b"hi", "hi"),
    ("bare newlines", b"a\nb\n", "a\nb\n"),
    ("two carriage returns", b"hi\r\r\n", "hi\n"),
    ("trailing spaces", b"a  \r\nb \r\n", "a  \nb \n"),
    ("trailing spaces, two carriage returns", b"a  \r\r\nb\r\n", "a  \nb\n"),
    ("tabs", b"\ta\tb\t\r\n", "\ta\tb\t\n"),
    ("empty lines", b"\r\n\r\na\r\n\r\n", "\n\na\n\n"),
    ("longer than the pane", b"x" * 250 + b"\r\n", "x" * 250 + "\n"),
    ("UTF-8", "héé 日本 e\u0301\r\n".encode(), "héé 日本 e\u0301\n"),
    ("invalid UTF-8", b"a\xff\xfeb\r\n", "a\ufffd\ufffdb\n"),
    ("leading carriage return", b"\x1b[?2004l\ra \r\n", "a \n"),
    ("form feed, bell, NUL, DEL", b"a\x0cb\x07c\0d\x7fe\r\n", "a\n bcde\n"),
]

SEQUENCES = [
    ("ls --color", b"\x1b[0m\x1b[01;34mdir\x1b[0m  \x1b[01;32ma.sh\x1b[0m\r\n", "dir  a.sh\n"),
    ("grep --color", b"\x1b[35m\x1b[Kf\x1b[m\x1b[K:\x1b[01;31m\x1b[Kx\x1b[m\x1b[K \r\n", "f:x \n"),
    ("gcc, beside a bar", b"\x1b[01m\x1b[Kf.c:\x1b[m\x1b[K bad \r\n1\r2\r\n", "f.c: bad \n2\n"),
    ("zsh erases below its prompt", b"\x1b[0m\x1b[J% \x1b[K", "% "),
    ("colon colours", b"\x1b[38:2::1:2:3mred\x1b[4:3mcurl\x1b[0m", "redcurl"),
    ("hyperlink", b"\x1b]8;id=1;http://x/\x1b\\link\x1b]8;;\x1b\\\r\n", "link\n"),
    ("OSC, bell", b"\x1b]0;title\x07a\x1b]133;A\x07b\x1b]7;file://h/\x07c", "abc"),
    ("OSC, string terminator", b"\x1b]2;t\x1b\\a\x1b]52;c;aGk=\x1b\\b\x1b]777;notify;x\x1b\\c", "abc"),
    ("OSC, cancelled", b"\x1b]0;t\x18a\x1b]0;t\x1ab\x1b]0;t\x1b[mc", "abc"),
    ("DCS", b"a\x1bPq#0;1;2\x1b\\b", "ab"),
    ("DCS passthrough", b"a\x1bPtmux;\x1b\x1b]0;x\x07\x1b\x1b\\y\x1b\\b", "ab"),
    ("APC, PM, SOS, title", b"a\x1b_Gi=1;x\x1b\\b\x1b^x\x1b\\c\x1bXx\x1b\\d\x1bktitle\x1b\\e", "abcde"),
    ("charsets", b"\x1b(Ba\x1b)B\x0eb\x0fc\x1b*Bd", "abcd"),
    ("modes and keypad", b"\x1b[?1h\x1b=\x1b[?25l\x1b[?2004ha\x1b[?1l\x1b>\x1b[?2026$p", "a"),
    ("private, intermediates", b'\x1b[>4;2ma\x1b[?4mb\x1b[!pc\x1b[1"qd\x1b[>1ue\x1b[<uf\x1b[2 qg', "abcdefg"),
    ("unfinished CSI", b"a\x1b[38;5", "a"),
    ("unfinished escape", b"a\x1b", "a"),
    ("unfinished OSC", b"a\x1b]0;tit", "a"),
    ("unfinished DCS", b"a\x1bPq#0\x1b", "a"),
    ("broken CSI", b"a\x1b[12\x18b\x1b[3\r\nc", "ab\n"),
    ("unknown escape", b"\x1b%Ga\x1b#3b\x1b ~c", "abc"),
]

BARS = [
    ("bar", b" 10%\r 50%\r100%\r\n", "100%\n"),
    ("shorter state", b"working...\rdone\r\n", "doneing...\n"),
    ("shorter state, erased", b"working...\r\x1b[Kdone\r\n", "done\n"),
    ("erased afterwards", b"working...\rdone\x1b[K\r\n", "done\n"),
    ("whole line erased", b"working...\x1b[2K\rdone \r\n", "done\n"),
    ("left erased", b"abcdef\x1b[3D\x1b[1K\r\n", "    ef\n"),
    ("unfinished bar", b" 10%\r 50%\r", " 50%"),
    *(
        (f"erased behind a move to the left: {move!r}", b"abcdef" + move + b"\x1b" + erase + b"x\r\nz\r\n", text)
        for erase in (b"[K", b"[0K", b"[J", b"[0J")
        for move, text in (
            (b"\x1b[6D", "x\nz\n"),
            (b"\x1b[2D", "abcdx\nz\n"),
            (b"\x1b[1G", "x\nz\n"),
            (b"\x1b[G", "x\nz\n"),
            (b"\x1b[3`", "abx\nz\n"),
            (b"\t\x1b[2Z", "x\nz\n"),
        )
    ),
    ("erased with nothing behind it", b"spin\x1b[1G\x1b[0K", ""),
    ("erased, then a tab", b"x\x1b[1G\x1b[0K\ty\r\n", "        y\n"),
    ("lines around a bar are exact", b"a \r\n1\r2 \r\nb \r\n", "a \n2\nb \n"),
    ("bell in a bar", b"abc\rx\x07y\r\n", "xyc\n"),
    ("spinner", b"x |\b/\b-\b\\\b \r\n", "x\n"),
    ("overstrike", b"N\bNA\bAM\bM\r\n", "NAM\n"),
    ("typed and corrected", b"$ lss\b\x1b[K -l\r\n", "$ ls -l\n"),
    ("typed in the middle", b"$ ac\b\x1b[1@b\x1b[C\r\n", "$ abc\n"),
    ("deleted in the middle", b"$ abbc\b\b\x1b[P\r\n", "$ abc\n"),
    ("erased characters", b"abcd\r\x1b[2X\r\n", "  cd\n"),
    ("columns", b"\x1b[5Gx\x1b[2Gy\x1b[3`z\r\n", " yz x\n"),
    ("forward", b"a\x1b[3Cb\r\n", "a   b\n"),
    ("back over the edge", b"abc\x1b[99Dx\r\n", "xbc\n"),
    ("tab back", b"0123456789\x1b[Zx\x1b[2Zy\r\n", "y1234567x9\n"),
    ("repeat", b"ab\x1b[3bc\r\n", "abbbbc\n"),
    ("tab in an edited line", b"a\tb\rx\r\n", "x       b\n"),
    ("zsh marks a partial line", b"a\x1b[7m%\x1b[27m" + b" " * 19 + b"\r \r\r\n", "a%\n"),
    ("zsh marks a full line", b"\x1b[7m%\x1b[27m" + b" " * 19 + b"\r \r\x1b[J$ ", "$"),
    ("wide characters", "日本語\r\x1b[2Cx\r\n".encode(), "日x 語\n"),
    ("half a wide character", "日本\r\x1b[3Cx\r\n".encode(), "日 x\n"),
    ("combining", "e\u0301a\bb\r\n".encode(), "e\u0301b\n"),
    ("joined emoji", "👩\u200d💻a\bb\r\n".encode(), "👩\u200d💻b\n"),
    ("joiner after ASCII", "日\u200db\u200d日\rc\r\n".encode(), "c b<U+200D>日\n"),
    ("wider than the pane", b"x" * 30 + b"\r" + b"y" * 5 + b"\r\n", "x" * 20 + "y" * 5 + "x" * 5 + "\n"),
    ("exactly the pane", b"x" * 20 + b"\r" + b"y" * 5 + b"\r\n", "y" * 5 + "x" * 15 + "\n"),
    ("backspace over the edge", b"x" * 22 + b"\b \b" * 4 + b"y\r\n", "x" * 18 + "y\n"),
    ("row erased whole", b"x" * 25 + b"\r\x1b[Kabc\r\n", "x" * 20 + "\nabc\n"),
    ("row of a blank erased whole", b"x" * 20 + b" \r\x1b[Kabc\r\n", "x" * 20 + "\nabc\n"),
    ("backspace at the edge", b"x" * 20 + b"\by\r\n", "x" * 19 + "y\n"),
]

CLEAR = b"\x1b[H\x1b[2J\x1b[3J"
CLEAR_IN_TMUX = b"\x1b[H\x1b[J\x1b[3J"  # what `clear` prints there
MANY = b"".join(b"%d\t \r\n" % number for number in range(100))
EXACT_MANY = MANY.decode().replace("\r", "")
ALL_BUT_3 = EXACT_MANY[: EXACT_MANY.index("97")] + "97\n98\n99\n"
ALL_BUT_4 = EXACT_MANY[: EXACT_MANY.index("96")] + "96\n97\n98\n99\n"
LAYERS = b"l0: 10%\r\nl1: 10%\r\n" + b"".join(
    b"\x1b[2A\x1b[2K\rl0: %d%%\r\n\x1b[2K\rl1: %d%%\r\n" % (percent, percent) for percent in range(100)
)
BAR_BELOW = b"\x1b7\x1b[0;5r\x1b8\x1b[1A" + b"".join(
    b"pkg%d\r\n\x1b7\x1b[6;1f[%d%%]\x1b8" % (number, number) for number in range(9)
)

MOVED = [
    ("cleared", b"one\r\ntwo\r\n" + CLEAR + b"three \r\n", "one\ntwo\nthree \n"),
    ("cleared in tmux", b"one\r\ntwo\r\n" + CLEAR_IN_TMUX + b"three\t\r\n", "one\ntwo\nthree\t\n"),
    ("cleared last", b"one\r\n" + CLEAR, "one\n"),
    ("cleared first", CLEAR + b"one \r\n", "one \n"),
    ("cleared after an unfinished line", b"$ clear" + CLEAR + b"$ ", "$ clear\n$ "),
    ("cleared again and again", (b"one\r\n" + CLEAR) * 3, "one\none\none\n"),
    ("cleared in long output", MANY + CLEAR + MANY, EXACT_MANY + EXACT_MANY),
    ("exact but a screenful before", MANY + b"a\r\n\x1b[A\x1b[Kb \r\n" + MANY, ALL_BUT_4 + "b\n" + EXACT_MANY),
    ("bars in layers", LAYERS + b"done \r\n", "l0: 99%\nl1: 99%\ndone \n"),
    ("layers and long output", MANY + LAYERS + MANY, ALL_BUT_3 + "l0: 99%\nl1: 99%\n" + EXACT_MANY),
    ("bar in the last row", BAR_BELOW, "".join(f"pkg{number}\n" for number in range(9)) + "\n[8%]"),
    ("repainted from the top", b"\x1b[Ha\x1b[K\r\nb\x1b[K\r\n\x1b[J" * 5, "a\nb\n"),
    ("reset", b"one\r\n\x1bc\x1b[!p\x1b[?3;4l\x1b[4l\x1b>\r\x1b[3g        \x1bH        \x1bH\rtwo\r\n", "one\ntwo\n"),
    ("wrapped lines in the grid", b"x" * 50 + b"\r\n\x1b[A\x1b[5C\x1b[Ky\r\n", "x" * 45 + "y\n"),
    ("line drawing repeated", b"\x1b(0lq\x1b[5bk\x1b(B\r\n", "┌──────┐\n"),
    ("line drawing", b"\x1b(0lqk\x1b(B\r\nq\r\n", "┌─┐\nq\n"),
    ("insert mode", b"bc\r\x1b[4ha\x1b[4l\r\n", "abc\n"),
    ("invisible in the grid", "a\u202eb\r\n\x1b[A\x1b[2Cx".encode(), "a<U+202E>bx"),
    ("moves above the piece", b"\x1b[3Aone\r\ntwo\r\n", "one\ntwo\n"),
    ("unfinished move", b"one\r\ntwo\x1b[2A", "one\ntwo"),
]

FULL_SCREEN = [
    ("vim", b"$ vi\r\n\x1b[?1049h\x1b[1;1H~~~\x1b[?1049l\x1b[?25h$ ", "$ vi\n{9}$ "),
    ("still open", b"$ vi\r\n\x1b[?1049h\x1b[1;1H~~~", "$ vi\n{9}"),
    ("begun before", b"\x1b[1;1H~~~\x1b[?1049l\r\x1b[K$ ", "{9}$ "),
    ("left, but never entered", b"one\r\n\x1b[?1049ltwo", "one\ntwo"),
    ("in the middle of a line", b"$ fz\x1b[?1049habc\x1b[?1049l\r$ x \r\n", "$ fz\n{3}$ x \n"),
    ("twice, with text between", b"\x1b[?47ha\x1b[?47lb\r\n\x1b[?1;1047hcd\x1b[?1047l", "{1}b\n{2}"),
    ("entered twice", b"\x1b[?1049ha\x1b[?1049hb\x1b[?1049lc", "{10}c"),
    ("nothing drawn", b"a\x1b[?1049h\x1b[?1049lb", "ab"),
    ("ended by a reset", b"\x1b[?1049habc\x1bcd", "{3}d"),
    ("much drawn", b"\x1b[?1049h" + b"x" * 12345 + b"\x1b[?1049l", "{12,345}"),
]


def full_screen(text: str) -> str:
    return re.sub(r"\{([0-9,]+)\}", r"[full-screen program: \1 bytes of screen drawing left out]\n", text)


@for_each(("data", "text"), [pytest.param(*row[1:], id=row[0]) for row in MOVED])
def test_plain_text_of_what_moves_up_and_down(data: bytes, text: str) -> None:
    assert plain(data, cols=20, rows=6).text == text


@for_each(("data", "text"), [pytest.param(*row[1:], id=row[0]) for row in FULL_SCREEN])
def test_plain_text_around_full_screen_programs(data: bytes, text: str) -> None:
    assert plain(data, cols=20, rows=6).text == full_screen(text)


@for_each(("data", "text"), [pytest.param(*row[1:], id=row[0]) for row in EXACT + SEQUENCES + BARS])
def test_plain_text_of(data: bytes, text: str) -> None:
    assert plain(data, cols=20).text == text


HIDDEN = [
    ("plain", "abc é 日本\n\t", "abc é 日本\n\t", False),
    ("control characters vanish", "a\x00\x07\x1b[m\x7fb", "a[mb", False),
    ("right-to-left override", "a\u202eb", "a<U+202E>b", True),
    ("C1", "a\u009bb", "a<U+009B>b", True),
    ("isolates and marks", "\u2066\u2069\u200e\u200f\u061c", "<U+2066><U+2069><U+200E><U+200F><U+061C>", True),
    ("zero width", "a\u200bb\u2060\u2064\ufeff", "a<U+200B>b<U+2060><U+2064><U+FEFF>", True),
    ("soft hyphen", "so\u00adft", "so<U+00AD>ft", True),
    ("tags", "x\U000e0041\U000e007f", "x<U+E0041><U+E007F>", True),
    ("selectors supplement", "x\U000e0100\U000e01ef", "x<U+E0100><U+E01EF>", True),
    ("annotations", "\ufff9a\ufffb", "<U+FFF9>a<U+FFFB>", True),
    ("emoji family", "👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧", False),
    ("heart on fire", "❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥", False),
    ("keycap", "1\ufe0f\u20e3", "1\ufe0f\u20e3", False),
    ("Persian", "می\u200cخواهم", "می\u200cخواهم", False),
    ("Indic", "क्\u200dष", "क्\u200dष", False),
    ("joiner in ASCII", "a\u200db", "a<U+200D>b", True),
    ("joiner at the end", "é\u200c", "é<U+200C>", True),
    ("two joiners", "é\u200c\u200dé", "é<U+200C><U+200D>é", True),
    ("joiner beside something hidden", "é\u200b\u200dé", "é<U+200B><U+200D>é", True),
    ("two selectors", "x\ufe0f\ufe0e", "x\ufe0f<U+FE0E>", True),
    ("selector after a blank", " \ufe0f", " <U+FE0F>", True),
    ("other selectors", "x\ufe00\ufe0d", "x<U+FE00><U+FE0D>", True),
]


@for_each(("text", "shown", "sanitized"), [pytest.param(*row[1:], id=row[0]) for row in HIDDEN])
def test_sanitized_text_of(text: str, shown: str, sanitized: bool) -> None:
    assert sanitize(text) == (shown, sanitized)


def test_plain_says_that_it_sanitized() -> None:
    assert plain("a\u202eb\r\n".encode(), cols=80).sanitized
    assert not plain("aéb\r\n".encode(), cols=80).sanitized


@given(st.text())
def test_sanitizing_twice_changes_nothing(text: str) -> None:
    once, _ = sanitize(text)
    assert sanitize(once) == (once, False)


VERTICAL = [
    *[
        f"\x1b[{body}".encode()
        for body in ("A", "3B", "E", "F", "H", "1;2H", "2J", "1J", "L", "M", "S", "T", "5d", "f")
    ],
    *[f"\x1b[{body}".encode() for body in ("r", "2;5r", "s", "u", "4h", "?1049h", "?47l", "?25;1047h")],
    *[f"\x1b{body}".encode() for body in ("7", "8", "D", "E", "M", "c", "(0", ")0")],
]
LEVEL = [
    b"",
    b"a\r\n",
    b"\x1b[m",
    b"\x1b[J",
    b"\x1b[0J",
    b"\x1b[K",
    b"\x1b[2K",
    b"\x1b[5C",
    b"\x1b[>1u",
    b"\x1b[?25l",
    b"\x1b[4l",
]


def test_needs_grid_only_for_text_that_moves_up_or_down() -> None:
    assert [data for data in VERTICAL if not needs_grid(b"x" + data + b"y")] == []
    assert [data for data in LEVEL if needs_grid(b"x" + data + b"y")] == []


ESCAPES = st.sampled_from([b"\x1b", b"\x1b[", b"\x1b]", b"\x1bP", b"\r", b"\b", b"\n", b"\x9b", *VERTICAL, *LEVEL])
HOSTILE = st.lists(st.one_of(st.binary(max_size=8), ESCAPES), max_size=40).map(b"".join)


@given(HOSTILE, st.integers(-1, 12), st.integers(-1, 6))
def test_plain_text_of_any_bytes_holds_no_control_character(data: bytes, cols: int, rows: int) -> None:
    text = plain(data, cols, rows).text
    assert {char for char in text if unicodedata.category(char) == "Cc"} <= {"\n", "\t"}


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E) | st.sampled_from("\n\t")))
def test_plain_ascii_text_is_kept_exactly(text: str) -> None:
    assert plain(text.encode().replace(b"\n", b"\r\n"), cols=7).text == text


def test_importing_it_costs_no_emulator() -> None:
    script = "import sys, tmuxmcp.terminal.text.plain; sys.exit(bool({'pyte', 'wcwidth'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


# Printed by a real tmux of 40x10: scrollback and screen, joined, must be our text.
LIKE_TMUX = [
    ("lines", b"".join(b"line %d\r\n" % number for number in range(200))),
    ("long lines", b"".join(b"%d:" % number + b"x" * number + b"\r\n" for number in range(0, 300, 7))),
    ("wide characters", "".join(f"{'日本語' * number}x\r\n" for number in range(25)).encode()),
    ("combining and emoji", "e\u0301 👩\u200d💻 ❤\ufe0f 🇩🇪 👍🏽 हिन्दी\r\n".encode() * 30),
    ("joiners in edited lines", "👩\u200d💻 日\u200dx\u200d\rx\r\nend\r\n".encode()),
    ("colours", b"".join(b"\x1b[1;3%dmx\x1b[m\x1b[K y\x1b[K\r\n" % (number % 8) for number in range(40))),
    (
        "progress bar",
        b"".join(b"\r[%-20s] %d%%" % (b"#" * (number // 5), number) for number in range(101)) + b"\r\nok\r\n",
    ),
    ("erased bar", b"".join(b"%s\r\x1b[K" % (b"x" * (40 - number)) for number in range(40)) + b"done\r\n"),
    ("bar wider than the pane", b"".join(b"\r%s>" % (b"=" * number) for number in range(0, 130, 13)) + b"\r\nok\r\n"),
    ("spinner", b"wait |" + b"\b/\b-\b\\\b|" * 30 + b"\bok\r\n"),
    ("typed", b"$ ecko hi\b\b\b\b\b\x1b[1Ph\x1b[1@o\x1b[Ki\x1b[3D\x1b[Cx\r\nhi\r\n"),
    ("typed over the edge", b"$ " + b"x" * 60 + b"\r" + b"y" * 5 + b"\x1b[K\r\n"),
    ("columns", b"a\x1b[20Gb\x1b[5Gc\x1b[3Xd\x1b[Ze\x1b[10`f\x1b[3bg\r\n" * 20),
    ("tabs in edited lines", b"a\tb\tc\rx\r\n" * 20),
    ("layers", b"before\r\n" + LAYERS + b"after\r\n"),
    ("layers in long output", b"x\r\n" * 50 + LAYERS + b"y\r\n" * 50 + LAYERS + b"z\r\n" * 5),
    ("moves near each other", b"".join(b"l\r\n" * gap + b"\x1b[7A\r%d\x1b[7B\r\n" % gap for gap in range(3, 30))),
    ("layers wider than the pane", (b"x" * 60 + b"\r\n") * 3 + b"\x1b[4A\x1b[20C12\x1b[K\r\n\r\n\r\n\r\nend\r\n"),
    ("saved cursor", b"".join(b"\x1b7%d%%\x1b8" % number for number in range(101)) + b"\r\nok\r\n"),
    ("bar in the last row", b"\r\n" * 9 + b"\x1b[1A" + BAR_BELOW.replace(b"5r", b"9r").replace(b"6;1f", b"10;1f")),
    ("scrolled up", b"".join(b"%d\r\n" % number for number in range(8)) + b"\x1b[3S\x1b[HX"),
    ("lines taken out", b"".join(b"%d\r\n" % number for number in range(30)) + b"\x1b[3A\x1b[2M\x1b[LX\r\n"),
    ("strings", b"\x1b]0;title\x07a\x1bPq\x1b\\b\x1b_x\x1b\\c\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\r\n" * 12),
]


EDITS = [b"two words", b"x" * 7, b"y" * 19, b"z" * 20, b"q" * 21, "é".encode(), "日本".encode(), b"\x1b[31m", b"\x1b[m"]
EDITS += [b"\r\n", b"\r\n", b"\r", b"\r\x1b[K", b"\x1b[2K\r", b"a\b", b"\x1b[3C", b"\x1b[5D", b"\x1b[K", b"\x1b[10G"]


@settings(deadline=None, max_examples=50, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.sampled_from(EDITS), min_size=5, max_size=60))
def test_edited_lines_are_what_tmux_has_in_its_history(edits: list[bytes], real_tmux: RealTmux) -> None:
    data = b"".join(edits) + b"\r\nend\r\n"
    assert trimmed(plain(data, cols=20, rows=6).text.split("\n")) == real_tmux.show(data, cols=20, rows=6).history


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in LIKE_TMUX])
def test_plain_text_is_what_tmux_has_in_its_history(data: bytes, real_tmux: RealTmux) -> None:
    shown = real_tmux.show(data, cols=40, rows=10)
    assert trimmed(plain(data, cols=40, rows=10).text.split("\n")) == shown.history
