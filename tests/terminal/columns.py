"""What tmux of several versions was seen to do with characters that not all count alike, on a screen of 20 by 6.

By the name of a sample: what is printed, and by the version from which on it is so: the text then shown, and the
cursor's row and column. Measured with tmux 3.3a, 3.5a and 3.8 as Debian has them, and 3.4, 3.6, 3.6b and 3.7c built.
"""

from __future__ import annotations

COLS, ROWS = 20, 6

SAMPLES: dict[str, tuple[str, dict[str, tuple[str, int, int]]]] = {
    "vs16 warning": (
        "\u26a0\ufe0f W",
        {"3.3a": ("\u26a0\ufe0f W", 0, 3), "3.4": ("\u26a0\ufe0f  W", 0, 4), "3.5a": ("\u26a0\ufe0f W", 0, 4)},
    ),
    "vs16 heart x2": (
        "\u2764\ufe0f\u2764\ufe0f|",
        {
            "3.3a": ("\u2764\ufe0f\u2764\ufe0f|", 0, 3),
            "3.4": ("\u2764\ufe0f \u2764\ufe0f |", 0, 5),
            "3.5a": ("\u2764\ufe0f\u2764\ufe0f|", 0, 5),
        },
    ),
    "keycap": (
        "1\ufe0f\u20e3|",
        {"3.3a": ("1\ufe0f\u20e3|", 0, 2), "3.4": ("1\ufe0f \u20e3|", 0, 3), "3.5a": ("1\ufe0f\u20e3|", 0, 3)},
    ),
    "vs16 letter": ("a\ufe0fb", {"3.3a": ("a\ufe0fb", 0, 2), "3.4": ("a\ufe0f b", 0, 3), "3.5a": ("a\ufe0fb", 0, 3)}),
    "vs16 wide": ("\u65e5\ufe0fb", {"3.3a": ("\u65e5\ufe0fb", 0, 3)}),
    "vs16 col0": ("\ufe0fb", {"3.3a": ("b", 0, 1)}),
    "vs15": ("\u26a0\ufe0e|", {"3.3a": ("\u26a0\ufe0e|", 0, 2)}),
    "vs16 blank": (
        "a \ufe0f|",
        {"3.3a": ("a \ufe0f|", 0, 3), "3.4": ("a \ufe0f |", 0, 4), "3.5a": ("a \ufe0f|", 0, 4)},
    ),
    "vs16 over wide": (
        "ab\u65e5\r\u26a0\ufe0f",
        {"3.3a": ("\u26a0\ufe0fb\u65e5", 0, 1), "3.4": ("\u26a0\ufe0fb", 0, 2), "3.5a": ("\u26a0\ufe0f\u65e5", 0, 2)},
    ),
    "vs16 over text": (
        "abcdef\r\u26a0\ufe0f",
        {"3.3a": ("\u26a0\ufe0fbcdef", 0, 1), "3.4": ("\u26a0\ufe0fbdef", 0, 2), "3.5a": ("\u26a0\ufe0fcdef", 0, 2)},
    ),
    "vs16 move": ("\u26a0\ufe0f\x1b[5G#", {"3.3a": ("\u26a0\ufe0f   #", 0, 5), "3.4": ("\u26a0\ufe0f  #", 0, 5)}),
    "vs16 move far": (
        "abcdefgh\r\u26a0\ufe0f\x1b[5G#",
        {
            "3.3a": ("\u26a0\ufe0fbcd#fgh", 0, 5),
            "3.4": ("\u26a0\ufe0fbd#fgh", 0, 5),
            "3.5a": ("\u26a0\ufe0fcd#fgh", 0, 5),
        },
    ),
    "vs16 last col": (
        "aaaaaaaaaaaaaaaaaaa\u26a0\ufe0fb",
        {
            "3.3a": ("aaaaaaaaaaaaaaaaaaa\u26a0\ufe0f\nb", 1, 1),
            "3.4": ("aaaaaaaaaaaaaaaaaaab", 0, 20),
            "3.7c": ("aaaaaaaaaaaaaaaaaaa\u26a0\ufe0f\nb", 1, 1),
        },
    ),
    "vs16 last col stays": (
        "aaaaaaaaaaaaaaaaaaa\u26a0\ufe0f",
        {
            "3.3a": ("aaaaaaaaaaaaaaaaaaa\u26a0\ufe0f", 0, 20),
            "3.4": ("aaaaaaaaaaaaaaaaaaa\u26a0\ufe0f", 0, 19),
            "3.7c": ("aaaaaaaaaaaaaaaaaaa\u26a0\ufe0f", 0, 20),
        },
    ),
    "vs16 last-1": (
        "aaaaaaaaaaaaaaaaaa\u26a0\ufe0fb",
        {"3.3a": ("aaaaaaaaaaaaaaaaaa\u26a0\ufe0fb", 0, 20), "3.4": ("aaaaaaaaaaaaaaaaaa\u26a0\ufe0f\nb", 1, 1)},
    ),
    "vs16 moved back": (
        "\u26a0x\x1b[2G\ufe0fy",
        {"3.3a": ("\u26a0\ufe0fy", 0, 2), "3.4": ("\u26a0\ufe0fxy", 0, 3), "3.5a": ("\u26a0\ufe0fy", 0, 3)},
    ),
    "skin after hand": (
        "\U0001f44b\U0001f3fd|",
        {
            "3.3a": ("\U0001f44b\U0001f3fd|", 0, 5),
            "3.4": ("\U0001f44b\U0001f3fd|", 0, 3),
            "3.6": ("\U0001f44b\U0001f3fd|", 0, 5),
            "3.6b": ("\U0001f44b\U0001f3fd|", 0, 3),
        },
    ),
    "skin alone": ("\U0001f3fd|", {"3.3a": ("\U0001f3fd|", 0, 3)}),
    "skin after letter": ("a\U0001f3fd|", {"3.3a": ("a\U0001f3fd|", 0, 4)}),
    "skin after é": (
        "\u00e9\U0001f3fd|",
        {
            "3.3a": ("\u00e9\U0001f3fd|", 0, 4),
            "3.4": ("\u00e9\U0001f3fd |", 0, 3),
            "3.5a": ("\u00e9\U0001f3fd|", 0, 3),
            "3.6": ("\u00e9\U0001f3fd|", 0, 4),
        },
    ),
    "skin after warning": (
        "\u261d\U0001f3fd|",
        {"3.3a": ("\u261d\U0001f3fd|", 0, 4), "3.4": ("\u261d\U0001f3fd|", 0, 3), "3.6": ("\u261d\U0001f3fd|", 0, 5)},
    ),
    "skin after cjk": (
        "\u65e5\U0001f3fd|",
        {"3.3a": ("\u65e5\U0001f3fd|", 0, 5), "3.4": ("\u65e5\U0001f3fd|", 0, 3), "3.6": ("\u65e5\U0001f3fd|", 0, 5)},
    ),
    "hand after skin": (
        "\U0001f3fd\U0001f44b|",
        {"3.3a": ("\U0001f3fd\U0001f44b|", 0, 5), "3.6": ("\U0001f3fd\U0001f44b|", 0, 3)},
    ),
    "skin twice": (
        "\U0001f44b\U0001f3fd\U0001f3fd|",
        {
            "3.3a": ("\U0001f44b\U0001f3fd\U0001f3fd|", 0, 7),
            "3.4": ("\U0001f44b\U0001f3fd\U0001f3fd|", 0, 3),
            "3.6": ("\U0001f44b\U0001f3fd\U0001f3fd|", 0, 7),
            "3.6b": ("\U0001f44b\U0001f3fd\U0001f3fd|", 0, 3),
        },
    ),
    "flag": ("\U0001f1e9\U0001f1ea|", {"3.3a": ("\U0001f1e9\U0001f1ea|", 0, 3)}),
    "two flags": (
        "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7|",
        {
            "3.3a": ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7|", 0, 5),
            "3.4": ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7|", 0, 3),
            "3.7c": ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7|", 0, 5),
        },
    ),
    "three ri": (
        "\U0001f1e9\U0001f1ea\U0001f1eb|",
        {
            "3.3a": ("\U0001f1e9\U0001f1ea\U0001f1eb|", 0, 4),
            "3.4": ("\U0001f1e9\U0001f1ea\U0001f1eb|", 0, 3),
            "3.7c": ("\U0001f1e9\U0001f1ea\U0001f1eb|", 0, 4),
        },
    ),
    "ri": ("\U0001f1e9|", {"3.3a": ("\U0001f1e9|", 0, 2), "3.4": ("\U0001f1e9|", 0, 3), "3.6": ("\U0001f1e9|", 0, 2)}),
    "ri after letter": (
        "a\U0001f1e9|",
        {"3.3a": ("a\U0001f1e9|", 0, 3), "3.4": ("a\U0001f1e9|", 0, 4), "3.6": ("a\U0001f1e9|", 0, 3)},
    ),
    "ri after é": (
        "\u00e9\U0001f1e9\U0001f1ea|",
        {
            "3.3a": ("\u00e9\U0001f1e9\U0001f1ea|", 0, 4),
            "3.4": ("\u00e9\U0001f1e9 \U0001f1ea|", 0, 5),
            "3.5a": ("\u00e9\U0001f1e9\U0001f1ea|", 0, 3),
            "3.6": ("\u00e9\U0001f1e9\U0001f1ea|", 0, 4),
        },
    ),
    "ri after cjk": (
        "\u65e5\U0001f1e9\U0001f1ea|",
        {
            "3.3a": ("\u65e5\U0001f1e9\U0001f1ea|", 0, 5),
            "3.4": ("\u65e5\U0001f1e9\U0001f1ea|", 0, 3),
            "3.6": ("\u65e5\U0001f1e9\U0001f1ea|", 0, 5),
        },
    ),
    "family": (
        "\U0001f468\u200d\U0001f469\u200d\U0001f467|",
        {"3.3a": ("\U0001f468\u200d\U0001f469\u200d\U0001f467|", 0, 3)},
    ),
    "zwj heart": (
        "\U0001f469\u200d\u2764\ufe0f\u200d\U0001f468|",
        {"3.3a": ("\U0001f469\u200d\u2764\ufe0f\u200d\U0001f468|", 0, 3)},
    ),
    "rainbow": (
        "\U0001f3f3\ufe0f\u200d\U0001f308|",
        {
            "3.3a": ("\U0001f3f3\ufe0f\u200d\U0001f308|", 0, 2),
            "3.4": ("\U0001f3f3\ufe0f \u200d\U0001f308|", 0, 3),
            "3.5a": ("\U0001f3f3\ufe0f\u200d\U0001f308|", 0, 3),
        },
    ),
    "zwj 1wide": ("x\u26a0\u200d\u2665|", {"3.3a": ("x\u26a0\u200d\u2665|", 0, 3)}),
    "combining": ("e\u0301|", {"3.3a": ("e\u0301|", 0, 2)}),
    "combining col0": ("\u0301a|", {"3.3a": ("a|", 0, 2)}),
    "combining after move": ("abc\x1b[2G\u0301x", {"3.3a": ("a\u0301xc", 0, 2)}),
    "jamo": ("\u1112\u1161\u11ab|", {"3.3a": ("\u1112\u1161\u11ab|", 0, 3)}),
    "jamo V alone": ("a\u1161|", {"3.3a": ("a\u1161|", 0, 2)}),
    "jamo T after L": ("\u1112\u11ab|", {"3.3a": ("\u1112\u11ab|", 0, 3)}),
    "jamo V col0": ("\u1161|", {"3.3a": ("|", 0, 1)}),
    "jamo ext": ("\ua960\ud7b0\ud7cb|", {"3.3a": ("\ua960\ud7b0\ud7cb|", 0, 3)}),
    "jamo filler": ("\u115f\u1160|", {"3.3a": ("\u115f\u1160|", 0, 3)}),
    "jamo LL": ("\u1112\u1112\u1161|", {"3.3a": ("\u1112\u1112\u1161|", 0, 5)}),
    "syllable T": ("\ud558\u11ab|", {"3.3a": ("\ud558\u11ab|", 0, 3)}),
    "cjk V": ("\u65e5\u1161|", {"3.3a": ("\u65e5\u1161|", 0, 3)}),
    "soft hyphen": ("a\u00adb|", {"3.3a": ("a\u00adb|", 0, 4)}),
    "zwsp": ("a\u200bb|", {"3.3a": ("a\u200bb|", 0, 3)}),
    "zwnj": ("a\u200cb|", {"3.3a": ("a\u200cb|", 0, 3)}),
    "lrm": ("a\u200eb|", {"3.3a": ("a\u200eb|", 0, 3)}),
    "bom": ("a\ufeffb|", {"3.3a": ("a\ufeffb|", 0, 3)}),
    "wj": ("a\u2060b|", {"3.3a": ("a\u2060b|", 0, 3)}),
    "tag": ("\U0001f3f4\U000e0067\U000e007f|", {"3.3a": ("\U0001f3f4\U000e0067\U000e007f|", 0, 3)}),
    "hourglass": ("\u231b|\u231a|\u23e9|", {"3.3a": ("\u231b|\u231a|\u23e9|", 0, 9)}),
    "viet": ("\U00016ff0|", {"3.3a": ("\U00016ff0|", 0, 3)}),
    "person list": (
        "\U0001f9d1\U0001f3fd\u200d\U0001f91d\u200d\U0001f9d1\U0001f3ff|",
        {
            "3.3a": ("\U0001f9d1\U0001f3fd\u200d\U0001f91d\u200d\U0001f9d1\U0001f3ff|", 0, 7),
            "3.4": ("\U0001f9d1\U0001f3fd\u200d\U0001f91d\u200d\U0001f9d1\U0001f3ff|", 0, 5),
            "3.6": ("\U0001f9d1\U0001f3fd\u200d\U0001f91d\u200d\U0001f9d1\U0001f3ff|", 0, 7),
            "3.6b": ("\U0001f9d1\U0001f3fd\u200d\U0001f91d\u200d\U0001f9d1\U0001f3ff|", 0, 3),
        },
    ),
    "devanagari": ("\u0915\u094d\u0937\u093f|", {"3.3a": ("\u0915\u094d\u0937\u093f|", 0, 4)}),
    "thai": ("\u0e01\u0e33|", {"3.3a": ("\u0e01\u0e33|", 0, 3)}),
    "arabic": ("\u0644\u0627|", {"3.3a": ("\u0644\u0627|", 0, 3)}),
    "tamil": ("\u0ba8\u0bbf|", {"3.3a": ("\u0ba8\u0bbf|", 0, 3)}),
    "vs16 split by move": (
        "\u26a0\x1b[2G\ufe0f|",
        {"3.3a": ("\u26a0\ufe0f|", 0, 2), "3.4": ("\u26a0\ufe0f |", 0, 3), "3.5a": ("\u26a0\ufe0f|", 0, 3)},
    ),
    "nowrap vs16": (
        "\x1b[?7laaaaaaaaaaaaaaaaaaa\u26a0\ufe0fb",
        {
            "3.3a": ("aaaaaaaaaaaaaaaaaaa\ufe0fb", 0, 19),
            "3.4": ("aaaaaaaaaaaaaaaaaaa\ufe0f\u26a0", 0, 20),
            "3.5a": ("aaaaaaaaaaaaaaaaaaa\ufe0f", 0, 20),
        },
    ),
    "ri vs": ("\U0001f1e9\ufe0f|", {"3.3a": ("\U0001f1e9\ufe0f|", 0, 2), "3.4": ("\U0001f1e9\ufe0f|", 0, 3)}),
}
