"""Random streams of all that programs print, for comparing our screen with tmux's. The same seed, the same stream."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

SIZES = ((80, 25), (40, 10), (20, 6), (9, 4))
"""Columns and rows."""

TITLE = b"\x1b]2;first title\x1b\\"
"""Begins each stream: tmux calls a new pane after its machine."""

WIDE = ("日", "語", "👍", "한")
NARROW = ("é", "ß", "─", "Ж", "€")
MARKS = ("\u0301", "\u0308", "\ufe0f", "\u200b")
JOINED = ("👩\u200d💻", "👍🏽", "🇩🇪", "❤\ufe0f", "e\u0301", "a\u200d👍")
WORDS = (b"a", b"be", b"sea", b"deep", b" ", b"  ", b"two words", b"0123456789", b"x" * 18, b"qqq")
STRINGS = [
    *(b"\x1b]0;a title\x07", b"\x1b]2;another\x1b\\", b"\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\", b"\x1b]7;/\x07"),
    *(b"\x1b]133;A\x07", b"\x1b]52;c;eA==\x07", b"\x1bPq#0\x1b\\", b"\x1b_by APC\x1b\\", b"\x1b^private\x1b\\"),
    *(b"\x1bXstring\x1b\\", b"\x1bkwindow\x1b\\"),
]
ODD = [
    *(
        b"\x1b#8",
        b"\x1bc",
        b"\x1b[!p",
        b"\x1b[?3h",
        b"\x1b=",
        b"\x1b>",
        b"\x1b[c",
        b"\x1b[6n",
        b"\x1b[?1$p",
        b"\x1b[3 q",
    ),
    *(b"\x1b[>4;1m", b"\x1b[22;0;0t", b"\x1b[3?C", b"\x1b[2\x08C", b"\x1b[3\x18", b"\xc3x", b"\xff", b"\x1b[1:2C"),
    *(b"\x1b[;;H", b"\x1b%G", b"\x1b[5i", b"\x1b[2I", b"\x1b[?J"),
]

Token = Callable[[Random, int, int], bytes]


def _text(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice(WORDS)


def _line(rng: Random, cols: int, rows: int) -> bytes:
    return bytes(rng.choices(b"abcdefgh  ", k=rng.randint(1, cols + 3)))


def _unicode(rng: Random, cols: int, rows: int) -> bytes:
    return "".join(rng.choices(NARROW, k=rng.randint(1, 4))).encode()


def _wide(rng: Random, cols: int, rows: int) -> bytes:
    return "".join(rng.choices(WIDE, k=rng.randint(1, 3))).encode()


def _joined(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice([*MARKS, *JOINED]).encode()


def _end(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\x0b", b"\0", b"\x7f", b"\x07"])


def _tab(rng: Random, cols: int, rows: int) -> bytes:
    stops = [b"\x1b[3g", b"\x1b[g", b"\x1bH", b"\x1bH"]
    return rng.choice([b"\t", b"\t", b"\t", b"\x1b[Z", b"\x1b[%dZ" % rng.randint(0, 3), *stops])


def _sgr(rng: Random, cols: int, rows: int) -> bytes:
    simple = [0, 0, 1, 2, 3, 4, 5, 7, 8, 9, 21, 22, 23, 24, 25, 27, 28, 29, 39, 49, 53, 55, 59]
    codes = [str(rng.choice([*simple, *range(30, 38), *range(40, 48), 91, 102])) for _ in range(rng.randint(1, 3))]
    longer = ["38;5;200", "48;5;20", "38;2;1;2;3", "48;2;4;5;6", "4:3", "58:5:9", "48:2::7:8:9", ""]
    return f"\x1b[{rng.choice([';'.join(codes), ';'.join(codes), rng.choice(longer)])}m".encode()


def _plain(rng: Random, cols: int, rows: int) -> bytes:
    return b"\x1b[m"


def _count(rng: Random, most: int) -> bytes:
    """What stands before the final character: mostly small, now and then nothing, zero or far too much."""
    return rng.choices([b"", b"0", b"%d" % rng.randint(1, 4), b"%d" % rng.randint(1, most), b"999"], [6, 1, 6, 2, 1])[0]


def _move(rng: Random, cols: int, rows: int) -> bytes:
    return b"\x1b[" + _count(rng, cols) + rng.choice([b"A", b"B", b"C", b"D", b"E", b"F", b"G", b"`", b"d"])


def _place(rng: Random, cols: int, rows: int) -> bytes:
    return b"\x1b[%d;%d%s" % (rng.randint(1, rows), rng.randint(1, cols), rng.choice([b"H", b"H", b"f"]))


def _step(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice([b"\b", b"\b", b"\x1bD", b"\x1bE", b"\x1bM", b"\x1b7", b"\x1b8", b"\x1b[s", b"\x1b[u"])


def _erase(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice([b"\x1b[K", b"\x1b[K", b"\x1b[1K", b"\x1b[2K", b"\x1b[J", b"\x1b[1J", b"\x1b[2J", b"\x1b[3J"])


def _edit(rng: Random, cols: int, rows: int) -> bytes:
    return b"\x1b[" + _count(rng, cols) + rng.choice([b"X", b"P"])


def _insert(rng: Random, cols: int, rows: int) -> bytes:
    return b"\x1b[" + rng.choices([b"", b"1", b"%d" % rng.randint(2, cols)], [40, 20, 1])[0] + b"@"


def _lines(rng: Random, cols: int, rows: int) -> bytes:
    return b"\x1b[" + _count(rng, rows) + rng.choice([b"L", b"M", b"S", b"T"])


def _region(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice([b"\x1b[r", b"\x1b[r", b"\x1b[%d;%dr" % (rng.randint(1, rows), rng.randint(1, rows))])


def _charset(rng: Random, cols: int, rows: int) -> bytes:
    on = [b"\x1b(0", b"\x1b)0", b"\x0e"]
    off = [b"\x1b(B", b"\x1b(B", b"\x1b)B", b"\x0f", b"\x0f"]
    return rng.choice([*on, *off, b"\x1b(0lqqk\x1b(B", b"\x1b(0x\x1b[3bx\x1b(B"])


def _repeat(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice([b"", b"-", b"q", "日".encode(), b"=\x1b[1m"]) + b"\x1b[" + _count(rng, cols) + b"b"


def _alternate(rng: Random, cols: int, rows: int) -> bytes:
    return b"\x1b[?%d%s" % (rng.choice([1049, 1049, 1047, 47]), rng.choice([b"h", b"l"]))


def _mode(rng: Random, cols: int, rows: int) -> bytes:
    private = [1, 6, 7, 12, 25, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 2004, 2026]
    switch = rng.choice([b"h", b"l"])
    return rng.choice([b"\x1b[4" + switch, b"\x1b[?%d%s" % (rng.choice(private), switch), b"\x1b[?25;1000" + switch])


def _modes_off(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice([b"\x1b[4l", b"\x1b[?7h", b"\x1b[?6l\x1b[?25h"])


def _string(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice(STRINGS)


def _odd(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice(ODD)


def _wrong(rng: Random, cols: int, rows: int) -> bytes:
    """What tmux is known to get wrong."""
    return rng.choice([b"\x1b[%d@" % rng.randint(2, cols), b"\x1b[%dL" % rng.randint(2, rows), "日\u200d".encode()])


def _rarely_wrong(rng: Random, cols: int, rows: int) -> bytes:
    return _wrong(rng, cols, rows) if rng.random() < 0.01 else b""


TOKENS: list[tuple[int, Token]] = [
    *((72, _text), (24, _line), (16, _unicode), (2, _wide), (2, _joined), (48, _end), (16, _tab), (32, _sgr)),
    *((20, _plain), (32, _move), (20, _place), (20, _step), (16, _erase), (8, _edit), (8, _insert), (6, _lines)),
    *((12, _region), (12, _charset), (12, _repeat), (8, _alternate), (12, _mode), (8, _modes_off), (12, _string)),
    *((4, _odd), (4, _rarely_wrong)),
]
"""How often each kind comes, and what makes it: about as programs print them."""

HARD = [*TOKENS, (30, _wide), (30, _joined), (30, _wrong), (30, _edit), (30, _insert), (30, _lines)]
"""More of what is hard to get right, for tmux too."""


def _line_end(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice([b"\r\n", b"\r\n", b"\r\n", b"\r\r\n", b"\r", b"\x0b", b"\0", b"\x7f", b"\x07"])


def _back(rng: Random, cols: int, rows: int) -> bytes:
    finals = [b"D", b"D", b"G", b"`", b"Z", b"C"]
    counted = b"\x1b[" + _count(rng, cols) + rng.choice(finals)
    return rng.choice(
        [b"\b", b"\r", b"\x1b7", b"\x1b[s", counted, counted, b"\x1b[%s" % _count(rng, 3) + rng.choice([b"A", b"F"])]
    )


def _restore(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice([b"\x1b8", b"\x1b[u", b"\x1bM"])


def _erase_part(rng: Random, cols: int, rows: int) -> bytes:
    return b"\x1b[" + rng.choice([b"", b"0", b"1", b"2"]) + rng.choice([b"K", b"K", b"K", b"J"])


def _edit_cells(rng: Random, cols: int, rows: int) -> bytes:
    return b"\x1b[" + _count(rng, cols) + rng.choice([b"X", b"P", b"@"])


def _clusters(rng: Random, cols: int, rows: int) -> bytes:
    return rng.choice(["e\u0301", "a\u0308", "👍🏽", "❤\ufe0f"]).encode()


def _state(rng: Random, cols: int, rows: int) -> bytes:
    switches = [b"\x1b[?7l", b"\x1b[?7h", b"\x1b[?6h", b"\x1b[?6l", b"\x1b[4h", b"\x1b[4l", b"\x1b[?3h", b"\x1bc"]
    return rng.choice([*switches, *[each for each in ODD if each not in LEFT_OUT]])


LEFT_OUT = [b"\x1b#8", b"\xc3x", b"\xff"]
"""Fills 500 rows; is not dropped, in text."""
_TEXT: list[tuple[int, Token]] = [(40, _text), (20, _line), (8, _unicode), (6, _wide), (6, _tab), (10, _sgr)]
LINES_ONLY: list[tuple[int, Token]] = [*_TEXT, (40, _line_end), (4, _string)]
MOVES_BACK: list[tuple[int, Token]] = [
    *_TEXT,
    (20, _line_end),
    (30, _back),
    (20, _erase_part),
    (6, _repeat),
    (3, _place),
]
MOVES_ABOUT: list[tuple[int, Token]] = [
    *[*MOVES_BACK, (6, _restore), (5, _place), (6, _edit_cells), (3, _lines), (3, _region), (3, _charset)],
    *[(4, _state), (3, _clusters), (4, _string), (4, _step), (6, _move)],
]
"""What clean text is made of: lines, what goes back over them, and all there is but the alternate screen."""


def text_stream(seed: int, tokens: list[tuple[int, Token]], cols: int) -> bytes:
    """The stream of a seed, of some rows."""
    rng = Random(seed)
    kinds = rng.choices([token for _, token in tokens], [weight for weight, _ in tokens], k=rng.randint(3, 40))
    return b"".join(kind(rng, cols, 14) for kind in kinds)


def stream(seed: int, tokens: list[tuple[int, Token]] = TOKENS) -> tuple[bytes, int, int]:
    """The stream of a seed, and the columns and rows to print it at."""
    rng = Random(seed)
    cols, rows = SIZES[seed % len(SIZES)]
    kinds = rng.choices([token for _, token in tokens], [weight for weight, _ in tokens], k=rng.randint(5, 150))
    return (
        TITLE + b"".join(kind(rng, cols, rows) for kind in kinds) + rng.choice([b"", _reveal(cols, rows)]),
        cols,
        rows,
    )


def _reveal(cols: int, rows: int) -> bytes:
    """Print in each row's last column: tmux tells the colours of blanks only before some text."""
    ends = b"".join(b"\x1b[%d;%dH|" % (row, cols) for row in range(1, rows + 1))
    return b"\x1b[4l\x1b[?6l\x1b[r\x1b[m" + ends
