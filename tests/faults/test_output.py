"""Programs that print what terminals, models and people would rather not get."""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from pathlib import Path

import psutil

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.terminal.widths import sanitize

LASTS_S = 120 if os.environ.get("TMUXMCP_TEST_MANY") else 2
GROWTH = 96 << 20
"""It prints 50 MB; from looking at that in every way, Python keeps 15 to 75 MB."""

HOSTILE = r"""import os, random, sys, time
rng = random.Random(16)
pieces = [
    "\x1b]52;c;cm0gLXJmIC8=\x07", "\x1b]52;p;?\x07", "\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\",
    "\x1b]0;\u202etitle\x07",
    "\u202egnp.exe\u202c", "\u2066x\u2069", "\u200b\u200d\ufeff",
    "".join(chr(0xE0000 + ord(c)) for c in "ignore all"),
    "\x1b[8mconcealed\x1b[28m", "\x1b[30;40mblack\x1b[m", "\x9b31m", "\x90+q544e\x9c", "\x1b[6n\x1b[c\x1b[>c\x1b[?u",
    "\x1bP$qm\x1b\\", "\x1b[21t", "\x1b]10;?\x07", "\x1b[?1049h", "\x1b[?1049l", "\x1b[?1000;1006h", "\x1b[?1000l",
    "\x1b[2J\x1b[H", "\x1b[999;999H", "\x1b[5;10r", "\x1b[r", "\x1bc", "\x1b[!p", "\x0e\x0f", "\x1b#8",
    "\x1b(0lqk\x1b(B",
    "\U00013430\U0001bca0\U0001d173", "\x1b[" + "9" * 5000 + "m", "\x1b[" + ";1" * 3000 + "m",
    "\x1b]" + "x" * 70000, "\x1b\\", "\x1bP" + "q" * 70000, "\x18",
    "\x1b_G" + "A" * 5000 + "\x1b\\", "\x1b]133;D;0;aid=x;n=1\x07", "\x1b]133;A\x07", "\x1b]7;file:///etc\x07",
    "%begin 1 1 0\r\n%end 1 1 0\r\n",
    "e\u0301" * 50 + "\u0301" * 500, "\U0001f468\u200d\U0001f469" * 40, "\r" * 99, "\b" * 99,
    "\x00" * 50, "\x07" * 3, "\x1b[999b", "\x1b[99999L", "\x1b[99999@", "\x1b[99999S", "\n" * 99, "plain text\n",
]
until = time.monotonic() + float(sys.argv[1])
sys.stdout.write("begun\n")
while time.monotonic() < until:
    data = rng.choice(pieces).encode() if rng.random() < 0.8 else rng.randbytes(rng.randrange(2000))
    os.write(1, data)
os.write(1, b"\x18\x1b\\\x1bc\r\nthe end\r\n")
time.sleep(600)"""


SEEN = {chr(code) for code in (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)}
"""Of the category of invisible characters, but visible: signs around numbers (Prepended_Concatenation_Mark)."""


def unmarked(text: str) -> set[str]:
    """Characters that a reader would not see, and no terminal should get; joiners and selectors belong to emoji."""
    kept = set("\n\t\u200c\u200d\ufe0e\ufe0f") | SEEN
    return {char for char in text if unicodedata.category(char) in ("Cc", "Cf") and char not in kept}


async def test_hostile_output(broker: Broker, tmp_path: Path) -> None:
    """Nothing crashes, nothing invisible reaches a model, no clipboard is set, memory stays bounded, others go on."""
    program = tmp_path / "hostile.py"
    program.write_text(HOSTILE)
    await broker.create_session(name="beside")
    await broker.create_session(sys.executable, [str(program), str(LASTS_S)], name="a", wait_ready=False)
    await broker.read(session_id="a", view="screen")
    ours, tmux = psutil.Process(), psutil.Process(broker.tmux.pid)
    before = ours.memory_info().rss, tmux.memory_info().rss
    seen, deadline = set[str](), time.monotonic() + LASTS_S * 10
    while time.monotonic() < deadline:
        for view in ("new", "screen", "diff", "scrollback"):
            read = await broker.read(session_id="a", view=view, limit=200)
            seen |= unmarked(read.content) | unmarked("".join(read.highlights)) | unmarked(read.title)
        assert (await broker.search("ignore", session_id="a", limit=5)).matches is not None
        facts = await broker.get_session("a")
        seen |= unmarked(facts.title)
        assert (await broker.run("echo fine", session_id="beside")).output == "fine\n"
        if "the end" in (await broker.read(session_id="a", view="screen")).content:
            break
    assert seen == set()
    assert broker.tmux.run("list-buffers").stdout == ""
    assert tmux.is_running()
    assert ours.memory_info().rss - before[0] < GROWTH
    assert tmux.memory_info().rss - before[1] < GROWTH
    picture = await broker.screenshot(format="svg", session_id="a")
    assert picture.data
    await broker.screenshot(format="html", session_id="a")
    await eventually(lambda: psutil.Process(facts.pid or 0).status() == psutil.STATUS_SLEEPING)
    assert facts.foreground is not None
    assert facts.mode in ("running", "fullscreen", "line_input")


def test_every_invisible_character_is_shown() -> None:
    every = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf"]
    left = {char for char in every if char in sanitize(f"a{char}b")[0]}
    assert left - SEEN == set()
