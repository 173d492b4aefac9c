"""Real programs, and such that print without end, in a real browser: it shows what tmux shows, and stays awake."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.kit import browser
from tests.kit.agent import eventually
from tests.kit.service import Service
from tests.kit.visits import TEXT, show

pytestmark = pytest.mark.skipif(not browser.CHROMIUM, reason="needs Chromium: scripts/browser installs it")

WIDEST_ANSWER_S = 1.0
"""A page that takes longer to answer is not awake."""


def shows_what_tmux_shows(page: browser.Page, service: Service, session: str) -> None:
    """Wait until the page has the text that a caller gets."""

    def same() -> bool:
        told = service.result("read", session_id=session, view="screen")["content"].split("\n")
        shown = page.value(TEXT).split("\n")
        return [row.rstrip() for row in shown] == told + [""] * (len(shown) - len(told))

    eventually(same)


def begin(page: browser.Page, service: Service, name: str, **arguments: object) -> None:
    service.result("create_session", name=name, **arguments)
    show(page, name)


def test_vim(page: browser.Page, service: Service, state_dir: Path):
    file = state_dir / "home" / "text.py"
    file.write_text("def wide():\n    return '漢字 👩‍👩‍👧 é'  # a comment\n" * 30)
    begin(page, service, "vim", program="vim", args=["-u", "NONE", "-c", "syntax on | set number ruler", str(file)])
    page.until(f"{TEXT}.includes('def wide')")
    shows_what_tmux_shows(page, service, "vim")
    service.result("send", session_id="vim", text="Gobelow")
    page.until(f"{TEXT}.includes('61 below')")
    shows_what_tmux_shows(page, service, "vim")


@pytest.mark.skipif(not shutil.which("htop"), reason="needs htop")
def test_htop(page: browser.Page, service: Service):
    begin(page, service, "htop", program="htop", args=["-d", "100"], cols=100, rows=30)
    page.until(f"{TEXT}.includes('F10')")
    colours = page.value("new Set([...document.querySelectorAll('.screen .row span')].map((e) => e.style.color)).size")
    assert colours > 4
    assert page.value("document.querySelectorAll('.screen .row').length") == 30


COLOURS = "for i in {0..255}; do printf '\\033[48;5;%dm%3d\\033[0m' $i $i; (( i % 16 == 15 )) && echo; done"


def test_all_256_colours_true_ones_and_wide_characters(page: browser.Page, service: Service):
    begin(page, service, "looks")
    service.result(
        "run", session_id="looks", command=f"clear; {COLOURS}; printf '\\033[38;2;1;200;3mtrue\\033[0m 漢👩‍👩‍👧é│\\n'"
    )
    page.until(f"{TEXT}.includes('true 漢')")
    shows_what_tmux_shows(page, service, "looks")
    ground = (
        "[...document.querySelectorAll('.screen .row span')].find((e) => e.textContent == '%s').style.backgroundColor"
    )
    assert page.value(ground % "196") == "rgb(255, 0, 0)"
    assert page.value(ground % "255") == "rgb(238, 238, 238)"
    assert page.value("document.querySelectorAll('.screen .row .ground').length") == 256
    true = "[...document.querySelectorAll('.screen .row span')].find((e) => e.textContent == 'true').style.color"
    assert page.value(true) == "rgb(1, 200, 3)"


def storm() -> bytes:
    """Sequences of every kind, whole, cut short and nested, with markup in them."""
    chosen = random.Random(7)
    begins = [
        b"\x1b[",
        b"\x1b]",
        b"\x1bP",
        b"\x1b_",
        b"\x1b^",
        b"\x1b#",
        b"\x1b(",
        b"\x9b",
        b"\x1b]8;;javascript:x",
        b"\x1b]2;",
    ]
    words = [
        b"<script>window.bad=1</script>",
        b"<img src=x onerror=window.bad=1>",
        b"\xe2\x80\xae",
        b"\xff\xfe",
        b"9" * 30,
    ]
    ends = [b"\x07", b"\x1b\\", b"m", b"H", b"h", b"l", b"\x18", b"", b"\n"]
    made = bytearray()
    for _ in range(20_000):
        middle = (
            chosen.choice(words) if chosen.random() < 0.2 else b"%d;%d" % (chosen.randrange(99), chosen.randrange(99))
        )
        made += chosen.choice(begins) + middle + chosen.choice(ends) + b"%c" % chosen.randrange(32, 127)
    return bytes(made)


def test_a_storm_of_sequences_does_nothing_to_the_page(page: browser.Page, service: Service, state_dir: Path):
    file = state_dir / "home" / "storm"
    file.write_bytes(storm())
    begin(page, service, "storm")
    service.result(
        "send", session_id="storm", text=f"cat {file}; printf '\\033\\\\\\033c'; clear; echo it is' 'over", enter=True
    )
    page.until(f"{TEXT}.includes('it is over')")
    shows_what_tmux_shows(page, service, "storm")
    assert page.value("window.bad") is None
    assert page.value("document.querySelectorAll('#app :is(script, img, style, iframe)').length") == 0
    assert page.value("document.querySelectorAll('.screen .row').length") == 24


def longest_answer_s(page: browser.Page, until: str) -> float:
    """How long the page took at most to answer a question, until something is true."""
    longest, deadline = 0.0, time.monotonic() + 60 * SLOW
    while True:
        begun = time.monotonic()
        done = page.value(until)
        longest = max(longest, time.monotonic() - begun)
        if done:
            return longest
        assert begun < deadline, page.value(TEXT)
        time.sleep(0.02)  # asked without a pause, the browser would do little else


@pytest.mark.slow
def test_a_page_stays_awake_beside_a_flood(page: browser.Page, service: Service):
    begin(page, service, "flood")
    made = page.value("document.querySelectorAll('*').length")
    command = "yes '<b>flood</b> 0123456789' | head -c 15000000; echo; echo the flood is' 'over"
    service.result("send", session_id="flood", text=command, enter=True)
    page.until(f"{TEXT}.includes('<b>flood</b>')")
    assert longest_answer_s(page, f"{TEXT}.includes('the flood is over')") < WIDEST_ANSWER_S * SLOW
    assert page.value("document.querySelectorAll('*').length") < made + 100
