"""One stream for each sequence that xterm, tmux and kitty document: a name, and the bytes.

Each is printed on a screen that holds some lines, with the cursor in the middle; what comes after it shows the modes.
"""

from __future__ import annotations

COLS, ROWS = 20, 8
START = b"".join(b"%d23456789 abcdefgh%d\r\n" % (row, row) for row in range(6)) + b"\x1b[3;6H"
END = b"X" + b"w" * 24 + b"\nn\x1b[2;3Ho\bp"

CSI, OSC, DCS, ST = b"\x1b[", b"\x1b]", b"\x1bP", b"\x1b\\"


def _csi(*sequences: str) -> list[tuple[str, bytes]]:
    return [(f"CSI {sequence}", CSI + sequence.encode()) for sequence in sequences]


CONTROLS = [(f"C0 {code:02x}", bytes([code])) for code in range(0x20) if code != 0x1B] + [
    (f"C1 as UTF-8 {code:02x}", chr(code).encode()) for code in (0x84, 0x85, 0x88, 0x8D, 0x90, 0x9B, 0x9C, 0x9D, 0x9F)
]

ESCAPES = [
    (f"ESC {chr(code)}", b"\x1b" + bytes([code])) for code in range(0x30, 0x7F) if chr(code) not in "[]PX^_k"
] + [
    (f"ESC {name}", b"\x1b" + name.encode())
    for name in [
        *(" F", " G", " L", " M", " N", "#3", "#4", "#5", "#6", "#8", "%@", "%G"),
        *("(0", "(A", "(B", "(1", "(4", "(<", ")0", ")B", "*0", "+0", "-A", ".A", "/A"),
        *("(0\x0e", ")0\x0e", "*0\x1bn", "*0\x1bN", "+0\x1bO", "(%5", '("?'),
    ]
]

MOVES = [
    *_csi("A", "2A", "0A", "99A", "B", "2B", "99B", "C", "4C", "0C", "99C", "D", "4D", "99D", "E", "2E", "99E", "F"),
    *_csi("2F", "99F", "G", "8G", "0G", "99G", "H", "2H", "2;4H", ";4H", "0;0H", "99;99H", "f", "4;7f", "d", "2d"),
    *_csi("99d", "`", "9`", "a", "3a", "e", "2e", "I", "2I", "Z", "2Z", "99Z", "s", "u", "s\x1b[Hq\x1b[u", "j", "k"),
]

EDITS = [
    *_csi("@", "3@", "99@", "J", "0J", "1J", "2J", "3J", "4J", "?J", "?1J", "?2J", "K", "0K", "1K", "2K", "3K", "?K"),
    *_csi("L", "2L", "99L", "M", "2M", "99M", "P", "3P", "99P", "X", "3X", "99X", "S", "2S", "99S", "T", "2T", "99T"),
    *_csi("1;2;3;4;5T", "^", "2^", "b", "3b", " @", "3 @", " A", "'}", "2'}", "'~", "2'~", "#P", "#Q", "#R"),
    *_csi("1$r", "1;1;3;5;7$r", "1;1;3;5$z", "1;1;3;5${", "42;1;1;3;5$x", "1;1;2;3;1;4;4;1$v", "1;1;3;5$t"),
    *_csi("1;1;3;5;1$y", "1*x", "1;1;1;1;1;1*y", "1#y", "3;4r", "r", "0;0r", "4;3r", "3;99r", "1;4s", "?r", "?s"),
    ("REP after a character", b"q\x1b[4b"),
    ("REP of line drawing", b"\x1b(0q\x1b[5b\x1b(B"),
    ("REP of line drawing, then text", b"\x1b)0\x0eq\x1b[2bxq\x1b[2b\x0f"),
    ("REP after a wide one", "日\x1b[4b".encode()),
    ("soft reset of a pen, a region and modes", b"\x1b[41m\x1b[2;4r\x1b[4h\x1b[?7l\x1b[?6h\x1b[?25l\x1b[!px"),
    ("alternate screen not left, about to wrap", b"\x1b[1;20Hx\x1b[?1049l"),
    ("alternate screen 47 left, about to wrap", b"\x1b[?47h\x1b[1;20Hx\x1b[?47l"),
    ("alternate screen leaves character sets", b"\x1b[?1049h\x1b(0\x1b)0\x0e\x1b[?1049lq"),
    ("alternate screen leaves origin mode", b"\x1b[3;5r\x1b[?6h\x1b[?1049h\x1b[?6l\x1b[?1049l"),
    ("alternate screen restores the last pen", b"\x1b[31m\x1b[?1049h\x1b[?47l\x1b[32m\x1b[?47h\x1b[m\x1b[?1049l"),
    ("tab stop about to wrap", b"\x1b[1;20Hx\x1bH"),
    ("tab back about to wrap", b"\x1b[1;20H\x1bHx\x1b[Z"),
    ("tab stop removed about to wrap", b"\x1b[1;20H\x1bHx\x1b[g"),
    ("mouse modes exclude each other", b"\x1b[?1000h\x1b[?1002h"),
    ("mouse modes in another order", b"\x1b[?1003h\x1b[?1006h\x1b[?1000h"),
    ("mouse modes off by another", b"\x1b[?1003h\x1b[?1005h\x1b[?1001l"),
    ("mouse highlight mode", b"\x1b[?1002h\x1b[?1001h"),
    ("over the right half in colour", "\x1b[41m日本\x1b[m\x1b[3;7Hx".encode()),
    ("over the left half in colour", "\x1b[41m日本\x1b[m\x1b[3;8Hé".encode()),
    ("wide over two halves in colour", "\x1b[41m日本\x1b[m\x1b[3;7H語".encode()),
    ("wrapped at the bottom in colour", b"\x1b[44m\x1b[8;1H" + b"x" * 30 + b"\x1b[m\x1b[8;20H|\x1b[3;6H"),
    ("wide wrapped, inserted in colour", "\x1b[44m\x1b[4h\x1b[8;20H日\x1b[m\x1b[7;20H|\x1b[8;20H|\x1b[3;6H".encode()),
    ("wide in insert mode without wrapping", "\x1b[4h\x1b[?7l\x1b[2;20H日\x1b[4l\x1b[?7h".encode()),
    ("reset in the alternate screen", b"\x1b[?1049halt\x1bcafter"),
    ("reset in the alternate screen, left", b"\x1b[?1049halt\x1bcafter\x1b[?1049l"),
    ("erase in colour", b"\x1b[41m\x1b[K\x1b[m"),
    ("scroll in colour", b"\x1b[41m\x1b[2S\x1b[m"),
    ("insert in colour", b"\x1b[41m\x1b[3@\x1b[L\x1b[m"),
    ("delete in colour", b"\x1b[41m\x1b[3P\x1b[M\x1b[m"),
    ("erased characters in colour", b"\x1b[41m\x1b[3X\x1b[m"),
    ("index at the bottom in colour", b"\x1b[41m\x1b[8;1H\x1bD\x1b[m\x1b[3;6H"),
    ("reverse index at the top in colour", b"\x1b[41m\x1b[1;1H\x1bM\x1b[m\x1b[3;6H"),
]

REPORTS = [
    *_csi("c", "0c", ">c", ">0c", "=c", "5n", "6n", "?6n", "?15n", "?25n", "?26n", "?53n", "?55n", "?62n", "?75n"),
    *_csi("?996n", "x", "1x", ">q", ">0q", "4$p", "?1$p", "?25$p", "?2026$p", "?u", "14t", "16t", "18t", "19t", "20t"),
    *_csi("21t", "1t", "2t", "3;0;0t", "4;100;100t", "8;10;40t", "22;0t", "23;0t", "22t", "9;1t", "?1;1;0S", ">0t"),
    *_csi("1;2'w", "'z", "1'{", "'|", "1$w", "2$w", '"v', "&u", "$u"),
]

SETTINGS = [
    *_csi(" q", "0 q", "2 q", "3 q", "4 q", "6 q", "7 q", "!p", '"p', '61"p', '62;1"p', '"q', '1"q', "0q", "1q"),
    *_csi("i", "5i", "4i", "?5i", "?4i", "?1i", ">1u", "<u", "<1u", "=1u", "=1;1u", ">4;2m", ">4m", ">4;1m", "?4m"),
    *_csi(">4n", ">1p", ">3p", ">2T", ">2t", "1$}", "1$~", "2*|", "36*|", "1,|", "1,~", "0$|", "80$|", " t", "2 t"),
    *_csi(" u", "2 u", "5;1 v", "1)p", "?1;2;3;4;5h", "g", "0g", "3g", "?5W", "W", "0W", "2W", "5W", "1;2#{", "#}"),
    *_csi("#p", "#q", "#|", ">0;1s", ">0s", "38;5z", "1 z"),
]

_PRIVATE = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 18, 19, 25, 30, 34, 35, 38, 40, 41, 42, 43, 44, 45, 46, 47, 66, 67),
    *(69, 80, 95, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1010, 1011, 1014, 1015, 1016, 1034, 1035, 1036),
    *(1037, 1039, 1040, 1041, 1042, 1043, 1044, 1045, 1046, 1047, 1048, 1049, 1050, 1051, 1052, 1053, 1060, 1061),
    *(1070, 2004, 2005, 2006, 2026, 2027, 2031, 2048, 5522, 7727, 8452, 9001, 19997),
)
MODES = [
    *_csi(*(f"?{mode}h" for mode in _PRIVATE), *(f"?{mode}l" for mode in _PRIVATE)),
    *_csi(*(f"{mode}{final}" for mode in (2, 3, 4, 12, 20, 33, 34) for final in "hl")),
    *_csi("?47h\x1b[Hq\x1b[?47l", "?1047h\x1b[Hq\x1b[?1047l", "?1048h\x1b[Hq\x1b[?1048l", "?1049h\x1b[Hq\x1b[?1049l"),
    *_csi("?7;25l", "?1049;1049h", "?1049h\x1b[?47l", "?47h\x1b[?1049l", "3;5r\x1b[?6h", "3;5r\x1b[?6h\x1b[9B"),
    *_csi("3;5r\x1b[3;1H\x1b[2L", "3;5r\x1b[3;1H\x1bM", "3;5r\x1b[5;1H\n", "3;5r\x1b[2T", "3;5r\x1b[7;1H\x1b[M"),
    *_csi("3;5r\x1b[?1049hq", "?69h\x1b[3;9s\x1b[2;1Hqqqqqqqqqqqqqqqqqqqq", "4h日", "?1;7s\x1b[?1;7r", "?7$p"),
]

STRINGS = [
    *(
        (f"OSC {body}", OSC + body.encode() + end)
        for body, end in [
            *((f"{code};text", b"\x07") for code in (0, 1, 2, 3, 6, 9, 46, 50, 77, 99, 176, 555, 777, 1337, 6969)),
            *((f"{code};?", ST) for code in (4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 22, 52)),
            *((f"{code}", b"\x07") for code in (104, 105, 106, 110, 111, 112, 113, 114, 117, 119)),
            *((f"4;{n};rgb:11/22/33", ST) for n in (1, 255, 256)),
            ("4;1;red;2;blue", ST),
            ("10;#123456", ST),
            ("12;green", b"\x07"),
            ("7;file://host/tmp", ST),
            ("8;;http://example.org", ST),
            ("8;id=1;http://example.org", ST),
            ("8;;", ST),
            ("9;4;1;50", ST),
            ("52;c;aGVsbG8=", b"\x07"),
            ("52;;!", b"\x07"),
            ("133;A", ST),
            ("133;B", b"\x07"),
            ("133;C", b"\x07"),
            ("133;D;1", ST),
            ("133;A;k=i", ST),
            ("633;A", ST),
            ("1337;CurrentDir=/tmp", b"\x07"),
            ("1337;File=inline=1:AAAA", b"\x07"),
            ("5522;type=read;", ST),
            ("66;s=2;large", ST),
            ("21;fg=?", ST),
            ("99;i=1:d=0;title", ST),
            ("L;icon", ST),
            ("I;icon", ST),
            ("l;title", ST),
            ("", ST),
            (";", ST),
            ("é日;x", ST),
            ("2;日本語", ST),
            ("2;", ST),
        ]
    ),
    *(
        (f"DCS {body!r}", DCS + body + ST)
        for body in [
            *(b"q", b'0;1;0q"1;1;10;10#0;2;0;0;0#0~~@@vv@@~~$-', b"q#1~", b"$qm", b"$qr", b"$q q", b'$q"p', b'$q"q'),
            *(b"$qs", b"+q544e", b"+p544e", b"1$tx", b"2$tx", b"0;1|17/17", b"1;2!uA", b"0;0;1;10;1;0;2;0{ @~", b"="),
            *(
                b"=1s",
                b"=2s",
                b">|version",
                b"tmux;\x1b\x1b[31mred\x1b\x1b\\",
                b"@kitty-cmd{}",
                b"@kitty-print|AA",
                b"1000p",
            ),
            *(b"tmux;", b"", b"\xe6\x97\xa5", b"a\x07b", b"a\x18b", b"a\nb", b"?1q", b" 1q", b"1;2;3:4q", b">1q"),
        ]
    ),
    *(
        (f"{kind} {body!r}", b"\x1b" + opener + body + ST)
        for kind, opener in [("APC", b"_"), ("PM", b"^"), ("SOS", b"X"), ("name", b"k")]
        for body in [b"", b"text", b"Ga=T,f=100;AAAA", b"a\x07b", b"a\x18", b"a\x1a", b"\xe6\x97\xa5", b"a\nb\r"]
    ),
    ("OSC ended by C1 ST in UTF-8", OSC + "2;t\u009cx".encode() + ST),
    ("OSC ended by CAN", OSC + b"2;t\x18"),
    ("OSC ended by SUB", OSC + b"2;t\x1a"),
    ("OSC cut by a sequence", OSC + b"2;t\x1b[31m"),
    ("OSC with controls", OSC + b"2;a\nb\tc\x08d" + ST),
    ("ST alone", ST),
]

SGR = [
    *_csi(*(f"{code}m" for code in (*range(0, 30), 30, 37, 38, 39, 40, 47, 48, 49, *range(50, 66), 73, 74, 75))),
    *_csi("90m", "97m", "98m", "100m", "107m", "108m", "m", ";m", "1;m", ";1m", "1;2;3m", "01m", "001;031m"),
    *_csi("38;5;0m", "38;5;7m", "38;5;8m", "38;5;15m", "38;5;16m", "38;5;255m", "38;5;256m", "38;5m", "38;5;m", "38;m"),
    *_csi("48;5;196m", "48;2;1;2;3m", "38;2;1;2;3m", "38;2;1;2m", "38;2;256;0;0m", "38;2;;;m", "38;3;1m", "38;1m"),
    *_csi("58;5;9m", "58;2;1;2;3m", "58;5;9;4m", "4;58:5:9m", "4;58;5;9;59m", "4;58:2::1:2:3m", "4:58m"),
    *_csi("38:5:9m", "38:5m", "38:5:m", "38:2:1:2:3m", "38:2::1:2:3m", "38:2:1:1:2:3m", "38:2::1:2:3:4m", "38:2:1:2m"),
    *_csi("48:5:9m", "48:2::1:2:3m", "38:6:1m", "38:m", ":m", "1:2m", "4:m", "4:0m", "4:1m", "4:2m", "4:3m", "4:4m"),
    *_csi("4:5m", "4:6m", "4:3:1m", "4;4:3m", "4:3;24m", "4:3;21m", "21;4m", "31;4:3;1m", "1;31;42;0m", "7;27m"),
    *_csi("1;22m", "2;22m", "3;23m", "5;25m", "6;25m", "8;28m", "9;29m", "53;55m", "1;2;22m", "31;39m", "41;49m"),
    *_csi("1;" * 22 + "3m", "1;" * 23 + "3m", "0" * 62 + "3m", "0" * 63 + "3m", "99999999999m", "31;99999999999m"),
    *_csi("38;5;9;1m", "1;38;5;9;3m", "38;2;1;2;3;1m", "31;48;5;2;4m", "31 m", "31!m", "=31m", "<31m", "?31m"),
]

TEXT = [
    ("wide at the edge", b"\x1b[20G" + "日".encode()),
    ("wide over a wide one", "日本\x1b[3D語".encode()),
    ("combining", "e\u0301\u0323".encode()),
    ("combining at column 0", "\r\u0301".encode()),
    ("combining after a move", b"\x1b[4G" + "\u0301".encode()),
    ("emoji, wide", "👍".encode()),
    ("skin tone", "👍🏽".encode()),
    ("ZWJ", "👩\u200d💻".encode()),
    ("family", "👨\u200d👩\u200d👧".encode()),
    ("VS15", "❤\ufe0e".encode()),
    ("VS16", "❤\ufe0f".encode()),
    ("keycap", "1\ufe0f\u20e3".encode()),
    ("flag", "🇩🇪".encode()),
    ("tag flag", "🏴\U000e0067\U000e0062\U000e007f".encode()),
    ("Hangul jamo", "\u1112\u1161\u11ab".encode()),
    ("Arabic", "عربى".encode()),
    ("Thai", "ภาษาไทย".encode()),
    ("Devanagari", "नमस्ते".encode()),
    ("Tamil", "தமிழ்".encode()),
    ("ambiguous", "½∑│■★".encode()),
    ("private use", "\ue0b0\uf015".encode()),
    ("zero width", "a\u200bb\u2060c\ufeffd".encode()),
    ("bidi marks", "a\u200eb\u202ac\u2066d".encode()),
    ("no-break space", "a\u00a0b".encode()),
    ("soft hyphen", "a\u00adb".encode()),
    ("line separator", "a\u2028b\u2029c".encode()),
    ("noncharacters", "a\ufffeb\uffffc\U0001ffffd\ufdd0e".encode()),
    ("unassigned", "a\u0378b".encode()),
    ("fillers", "a\u115fb\u3164c\uffa0d".encode()),
    ("surrogates", b"a\xed\xa0\x80b"),
    ("overlong", b"a\xc0\xafb\xe0\x80\xafc"),
    ("too large", b"a\xf4\x90\x80\x80b\xf5\x80\x80\x80c"),
    ("stray bytes", b"a\x80b\xbfc\xfed\xffe"),
    ("cut short", b"a\xe6\x97 b\xf0\x9f\x91\r\nc\xe6"),
    ("line drawing", b"\x1b(0`abcdefghijklmno\x1b(B"),
    ("more line drawing", b"\x1b(0pqrstuvwxyz{|}~_\x1b(B"),
    ("blocks", "▀▁▂▃▄▅▆▇█▏▎▍▌".encode()),
    ("braille", "⠁⠃⡇⣿".encode()),
    ("CJK punctuation", "「日本」、。".encode()),
    ("half width", "ｱｲｳﾞ".encode()),
    ("full width", "ＡＢ".encode()),
    ("musical", "𝄞𝅘𝅥".encode()),
    ("insert mode, combining", "\x1b[4he\u0301".encode()),
]

FEATURES = [*CONTROLS, *ESCAPES, *MOVES, *EDITS, *REPORTS, *SETTINGS, *MODES, *STRINGS, *SGR, *TEXT]
