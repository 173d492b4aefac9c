"""The mouse in real programs: what a click, a drag and a wheel do in vim, less, mc, htop, fzf and dialog."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import InvalidArgument, SessionExited, Unsupported, WrongMode


async def start(broker: Broker, *words: str, **arguments: Any) -> None:
    await broker.create_session(words[0], list(words[1:]), name="a", wait_ready=True, **arguments)


async def screen(broker: Broker) -> r.ReadResult:
    return await broker.read("screen", "a")


async def shows(broker: Broker, text: str) -> r.ReadResult:
    async def probe() -> r.ReadResult | None:
        now = await screen(broker)
        return now if text in now.content else None

    return await eventually(probe)


@pytest.fixture
def numbers(tmp_path: Path) -> str:
    file = tmp_path / "numbers.txt"
    file.write_text("".join(f"number {number} end\n" for number in range(1, 201)))
    return str(file)


VIM = ("vim", "-u", "NONE", "-N", "-c", "set mouse=a ttymouse=sgr")


async def test_click_in_vim_moves_its_cursor(broker: Broker, numbers: str):
    await start(broker, *VIM, numbers)
    done = await broker.mouse("click", row=4, col=9, session_id="a")
    assert (done.sent, done.row, done.col) == (True, 4, 9)
    now = await broker.read("screen", "a", wait_for="ready")
    assert now.cursor
    assert (now.cursor.row, now.cursor.col) == (4, 9)
    await broker.mouse("click", on_text="number 17", session_id="a")
    now = await broker.read("screen", "a", wait_for="ready")
    assert now.cursor
    assert (now.cursor.row, now.cursor.col) == (16, 0)


async def test_drag_in_vim_selects(broker: Broker, numbers: str):
    await start(broker, *VIM, numbers)
    await broker.mouse("press", row=0, col=0, session_id="a")
    await broker.mouse("move", row=1, col=3, button="left", session_id="a")
    await broker.mouse("release", row=1, col=3, session_id="a")
    await broker.send("y", session_id="a")
    await broker.send("P", session_id="a", read="none")
    await shows(broker, "number 1 end\nnumbnumber 1 end\n")


async def test_wheel_in_vim_scrolls_without_a_place(broker: Broker, numbers: str):
    await start(broker, *VIM, numbers)
    await broker.mouse("scroll_down", session_id="a")
    now = await broker.read("screen", "a", wait_for="ready")
    assert now.content.startswith("number 4 end\n")
    await broker.mouse("scroll_up", session_id="a")
    assert (await broker.read("screen", "a", wait_for="ready")).content.startswith("number 1 end\n")


async def test_wheel_in_less_scrolls(broker: Broker, numbers: str):
    await start(broker, "less", "--mouse", "--wheel-lines=5", numbers)
    await broker.mouse("scroll_down", session_id="a")
    assert (await broker.read("screen", "a", wait_for="ready")).content.startswith("number 6 end\n")


async def test_click_in_mc_opens_a_menu(broker: Broker):
    await start(broker, "mc", "-u", "--nosubshell", "/", "/")
    await shows(broker, "Quit")
    await broker.mouse("click", on_text="Command", session_id="a")
    await shows(broker, "Directory tree")


async def test_click_in_htop_opens_its_setup(broker: Broker):
    await start(broker, "htop", env={"TERM": "xterm-256color"}, cols=100)
    await shows(broker, "Setup")
    await broker.mouse("click", on_text="F2Setup", session_id="a")
    await shows(broker, "Display options")


async def test_click_in_fzf_chooses(broker: Broker):
    await start(broker, "sh", "-c", "printf 'one\\ntwo\\nthree\\n' | fzf --layout=reverse")
    await shows(broker, "3/3")
    await broker.mouse("click", on_text="three", session_id="a")
    chosen = await shows(broker, "> three")
    assert "> one" not in chosen.content


async def test_click_in_dialog_presses_a_button(broker: Broker):
    await start(broker, "dialog", "--yesno", "Go on?", "6", "24", env={"TERM": "xterm-256color"})
    await shows(broker, "Go on?")
    await broker.mouse("click", on_text="No", session_id="a")
    ended = await broker.read("screen", "a", wait_for="exit")
    assert (ended.outcome, ended.exit_code) == ("exited", 1)


# ---- refused -----------------------------------------------------------------------------------


async def drawing(broker: Broker, sequence: str) -> None:
    script = f"stty -echo -icanon; printf %b {shlex.quote(sequence)}; echo drawn; exec cat -v"
    await broker.create_session("sh", ["-c", script], name="a")
    await shows(broker, "drawn")


async def test_no_mouse_mode(broker: Broker):
    await drawing(broker, "")
    with pytest.raises(WrongMode):
        await broker.mouse("click", row=0, col=0, session_id="a")
    assert (await screen(broker)).content == "drawn"


@pytest.mark.parametrize("modes", [r"\033[?1000h", r"\033[?1002;1005h", r"\033[?1003;1015h"])
async def test_other_encodings(broker: Broker, modes: str):
    await drawing(broker, modes)
    with pytest.raises(Unsupported, match="SGR"):
        await broker.mouse("click", row=0, col=0, session_id="a")


@pytest.mark.parametrize(
    ("mode", "button", "allowed"),
    [
        ("1000", None, False),
        ("1000", "left", False),
        ("1002", None, False),
        ("1002", "left", True),
        ("1003", None, True),
    ],
)
async def test_movements_go_to_who_asked_for_them(broker: Broker, mode: str, button: Any, allowed: bool):
    await drawing(broker, rf"\033[?{mode};1006h")
    if allowed:
        await broker.mouse("move", row=0, col=2, button=button, session_id="a")
        await shows(broker, f"^[[<{32 if button else 35};3;1M")
    else:
        with pytest.raises(WrongMode):
            await broker.mouse("move", row=0, col=2, button=button, session_id="a")


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({}, "Give row and col, or on_text"),
        ({"row": 3}, "Give row and col, or on_text"),
        ({"row": 24, "col": 0}, "row must be 0 to 23, not 24"),
        ({"row": 0, "col": 80}, "col must be 0 to 79, not 80"),
        ({"on_text": "nowhere"}, "'nowhere' is not on the screen"),
        ({"on_text": "two"}, "2 times: row 0 col 5, row 2 col 0"),
        ({"on_text": "two", "col": 1}, "Give col or on_text, not both"),
    ],
)
async def test_no_such_place(broker: Broker, where: dict[str, Any], says: str):
    await drawing(broker, r"\033[?1000;1006h\033[H日本 two\n\ntwo\n")
    with pytest.raises(InvalidArgument, match=says):
        await broker.mouse("click", session_id="a", **where)


async def test_row_tells_which_of_several_texts(broker: Broker):
    await drawing(broker, r"\033[?1000;1006h\033[H日本 two\n\ntwo\n")
    done = await broker.mouse("click", on_text="two", row=0, session_id="a")
    assert (done.row, done.col) == (0, 5)


async def test_ended_program(broker: Broker):
    await broker.create_session("true", name="a", wait_ready=False)
    await broker.read(session_id="a", wait_for="exit")
    with pytest.raises(SessionExited):
        await broker.mouse("click", row=0, col=0, session_id="a")
