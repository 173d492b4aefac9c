"""What an agent sees of the live screen: rows, highlights, cursor, title, and what has changed since its last look."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.operations import Operations
from tmuxmcp.faces.text import render
from tmuxmcp.terminal.widths import version_of


async def draw(broker: Broker, sequence: str) -> None:
    """Have the screen drawn on, without a shell's echo and prompts: `cat` in raw mode, without an echo."""
    if "a" not in broker.registry.sessions:
        await broker.create_session("sh", ["-c", "stty raw -echo; echo here; exec cat"], name="a")
        await broker.read(session_id="a", wait_for="pattern", pattern="here")
    drawn, log = "\x1b[s\x1b[u", broker.registry.sessions["a"].log

    def times() -> int:
        return log.read(0, log.size()).count(drawn.encode())

    before = times()
    await broker.send(sequence, session_id="a", read="none")
    await broker.by("drawing").send(drawn, session_id="a", read="none")
    await eventually(lambda: times() > before)  # then all before it has been drawn, too


async def diff(broker: Operations, **arguments: Any) -> r.ReadResult:
    return await broker.read("diff", "a", **arguments)


async def test_diff_gives_the_rows_changed_since_the_last_look(broker: Broker):
    await draw(broker, "\x1b[2J\x1b[3;1Hthird\x1b[10;1Htenth")
    first = await diff(broker)
    assert (first.view, first.changed_rows) == ("diff", None)
    assert first.content.splitlines()[2] == "third"
    assert "no earlier look" in (first.note or "")
    await draw(broker, "\x1b[3;3Hirst\x1b[24;1Hlast")
    second = await diff(broker)
    assert second.changed_rows == [2, 23]
    assert second.content == "  2| thirst\n 23| last"
    third = await diff(broker)
    assert (third.changed_rows, third.content, third.has_new_content) == ([], "", False)
    assert third.screen_id == second.screen_id != first.screen_id


async def test_diff_since_a_given_screen_and_of_an_unknown_one(broker: Broker):
    await draw(broker, "\x1b[2J\x1b[1;1Hone")
    seen = (await broker.read("screen", "a")).screen_id or ""
    await draw(broker, "\x1b[2;1Htwo")
    await diff(broker)
    await draw(broker, "\x1b[3;1Hthree")
    assert (await diff(broker, screen_id=seen)).changed_rows == [1, 2]
    unknown = await diff(broker, screen_id="0123456789ab")
    assert unknown.changed_rows is None
    assert unknown.content == "one\ntwo\nthree"
    assert "0123456789ab is not known" in (unknown.note or "")


async def test_each_caller_has_a_last_look_of_its_own(broker: Broker):
    await draw(broker, "\x1b[2J\x1b[1;1Hone")
    await broker.by("early").read("screen", "a")
    await draw(broker, "\x1b[2;1Htwo")
    await broker.by("late").read("screen", "a")
    await draw(broker, "\x1b[3;1Hthree")
    assert (await diff(broker.by("early"))).changed_rows == [1, 2]
    assert (await diff(broker.by("late"))).changed_rows == [2]


async def test_a_row_whose_look_alone_changed_is_a_changed_row(broker: Broker):
    await draw(broker, "\x1b[2J\x1b[1;1Hopen\x1b[2;1Hsave\x1b[3;1H\x1b[7mquit\x1b[m")
    await broker.read("screen", "a")
    await draw(broker, "\x1b[2;1H\x1b[7msave\x1b[m\x1b[3;1Hquit")
    now = await diff(broker)
    assert now.changed_rows == [1, 2]
    assert [(each.row, each.col, each.text) for each in now.highlights] == [(1, 0, "save")]
    await draw(broker, "\x1b[1;1H\x1b[31mopen\x1b[m")
    coloured = await diff(broker, format="ansi")
    assert coloured.content == "  0| \x1b[31mopen\x1b[0m"


async def test_the_whole_screen_when_most_of_it_changed_or_its_size(broker: Broker):
    await draw(broker, "\x1b[2J")
    await broker.read("screen", "a")
    await draw(broker, "".join(f"\x1b[{row};1Hrow {row}" for row in range(1, 14)))
    most = await diff(broker)
    assert most.changed_rows is None
    assert most.content.startswith("row 1\nrow 2\n")
    await broker.resize(rows=30, session_id="a")
    assert "size" in ((await diff(broker)).note or "")


async def test_text_alone_tells_all_of_a_diff(broker: Broker):
    await draw(broker, "\x1b[2J\x1b[1;1Hone\x1b]2;my editor\x07")
    await broker.read("screen", "a")
    await draw(broker, "\x1b[5;1Hfive")
    now = await diff(broker)
    text = render(now)
    assert text.startswith("  4| five\n[")
    assert f"screen_id={now.screen_id}" in text
    assert 'title="my editor"' in text
    assert "cursor=4,4" in text
    assert "No row has changed" in render(await diff(broker))


async def test_wait_for_changed(broker: Broker):
    await draw(broker, "\x1b[2J\x1b[1;1Hone")
    looked = await broker.read("screen", "a")
    same = await diff(broker, wait_for="changed", timeout_ms=100)
    assert (same.outcome, same.changed_rows) == ("timeout", [])
    found: list[r.ReadResult] = []

    async def wait() -> None:
        found.append(await diff(broker, wait_for="changed"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await draw(broker, "\x1b[2;1Htwo")
    assert (found[0].outcome, found[0].changed_rows) == ("matched", [1])
    at_once = await diff(broker, wait_for="changed", screen_id=looked.screen_id)
    assert (at_once.outcome, at_once.changed_rows) == ("matched", [1])


async def test_send_waits_for_a_change_of_the_screen_as_it_was_before(broker: Broker):
    await draw(broker, "\x1b[2J\x1b[1;1Hone")
    await broker.read("screen", "a")
    await draw(broker, "\x1b[2;1Htwo")
    sent = await broker.send("\x1b[3;1Hthree", session_id="a", wait_for="changed", read="diff")
    assert sent.result
    assert (sent.result.outcome, sent.result.changed_rows) == ("matched", [1, 2])
    moved = await broker.send("\x1b[1;1H", session_id="a", wait_for="changed", read="diff")
    assert moved.result
    assert (moved.result.outcome, moved.result.changed_rows) == ("matched", [])


async def test_wait_for_changed_ends_with_the_program(broker: Broker):
    await broker.create_session("sleep", ["0.2"], name="a", wait_ready=False)
    assert (await broker.read("screen", "a", wait_for="changed")).outcome in ("exited", "matched")
    assert (await broker.read("screen", "a", wait_for="changed")).outcome == "exited"


async def test_auto_gives_changed_rows_in_vim_and_new_text_in_the_shell(broker: Broker, tmp_path: Path):
    file = tmp_path / "note.txt"
    file.write_text("".join(f"line {number}\n" for number in range(40)))
    await broker.create_session("bash", name="a")
    vim = f"vim -u NONE -N {shlex.quote(str(file))}"
    opened = (await broker.send(vim, session_id="a", enter=True)).result
    assert opened
    assert (opened.view, opened.mode, opened.changed_rows) == ("screen", "editor", None)
    typed = (await broker.send("ihello ", key="Escape", session_id="a")).result
    assert typed
    assert (typed.view, typed.changed_rows) == ("diff", [0, 23])  # and its message is gone
    assert typed.content == "  0| hello line 0\n 23|"
    left = (await broker.send(":q!", session_id="a", enter=True)).result
    assert left
    assert (left.view, left.screen_id, left.changed_rows) == ("new", None, None)
    again = (await broker.send(vim, session_id="a", enter=True)).result
    assert again
    assert again.view == "screen"  # another vim: nothing was seen of this one


LINES = ("screen", "screen-256color", "xterm", "xterm-256color", "tmux-256color", "vt100", "linux")


@pytest.mark.parametrize("term", LINES)
async def test_line_drawing_is_right_whatever_the_terminal_is_called(broker: Broker, term: str):
    """As letters between shifts, as Unicode, or with the terminal's own sequences."""
    box = "dialog --title Question --yesno 'Go on?' 6 24"
    await broker.create_session("bash", name="a")
    shown = (await broker.send(f"clear; TERM={term} {box}", session_id="a", enter=True, read="screen")).result
    assert shown
    rows = [row.strip() for row in shown.content.splitlines() if row.strip()]
    top = next(row for row in rows if "Question" in row)
    assert top.startswith("┌──")
    assert top.rstrip().endswith("──┐")
    assert any(row.startswith("│") and "Go on?" in row for row in rows)
    assert not any("qqq" in row for row in rows)
    coloured = await broker.read("screen", "a", format="ansi")
    assert "┌─" in coloured.content
    assert not {"\x0e", "\x0f"} & set(coloured.content)


async def test_printed_text_has_its_colours_if_asked_for(broker: Broker):
    await broker.create_session("bash", ["--norc"], name="a", wait_ready=True)
    asked: dict[str, Any] = {"session_id": "a", "format": "ansi"}
    sent = (await broker.send(r"printf 'a \033[31mred\033[m\n'", enter=True, read="new", **asked)).result
    assert sent
    given = [
        sent,
        await broker.read("new", since=0, **asked),
        await broker.read("scrollback", **asked),
        await broker.read(command=-1, **asked),
        await broker.read("screen", **asked),
    ]
    for result in given:
        assert "a \x1b[31mred\x1b[0m" in result.content
        assert result.content.count("\x1b") == 2
    assert given[3].content == "a \x1b[31mred\x1b[0m\n"
    assert given[3].note is None
    assert (await broker.read(command=-1, session_id="a")).content == "a red\n"


async def test_limits_count_colours_too(broker: Broker):
    await broker.create_session("bash", ["--norc"], name="a", wait_ready=True)
    command = r"printf '\033[31m'; seq 1000 2999; printf '\033[m'"
    await broker.run(command, "a", max_bytes=100)
    await broker.read(session_id="a", wait_for="ready")  # its next prompt is one line more
    asked: dict[str, Any] = {"session_id": "a", "format": "ansi"}
    ends = await broker.read(command=-1, max_bytes=500, **asked)
    assert 300 < len(ends.content) <= 500
    assert ends.truncated
    assert ends.content.startswith("\x1b[31m1000\x1b[0m\n")
    assert ends.content.endswith("\x1b[31m2999\x1b[0m\n")
    assert (await broker.read(command=-1, session_id="a", max_bytes=20_000)).lines == 2000
    assert (await broker.read(command=-1, max_bytes=40_000, **asked)).lines == 2000
    lines = await broker.read("scrollback", offset=1000, limit=3, **asked)
    plain = await broker.read("scrollback", "a", offset=1000, limit=3)
    assert lines.content == "".join(f"\x1b[31m{line}\x1b[0m\n" for line in plain.content.split())
    assert lines.note == plain.note
    least = await broker.read("scrollback", offset=1000, limit=3, max_bytes=30, **asked)
    assert least.content.count("\n") == 2


async def test_a_row_of_a_screen_that_does_not_fit_is_cut_between_sequences(broker: Broker):
    await draw(broker, "\x1b[2J\x1b[H" + "\x1b[31mred\x1b[32mgreen" * 8 + "\x1b[m\x1b[H")
    for limit in range(10, 40):
        content = (await broker.read("screen", "a", format="ansi", max_bytes=limit)).content
        assert len(content) <= limit
        assert content == "" or content.endswith("\x1b[0m")


async def test_raw_bytes_are_not_given_in_colours(broker: Broker):
    await draw(broker, "x")
    with pytest.raises(InvalidArgument, match="format=ansi does not go with view=raw") as refused:
        await broker.read("raw", "a", format="ansi")
    assert "All other views have colours" in refused.value.hint


async def test_a_screen_over_its_limit_keeps_the_rows_around_the_cursor(broker: Broker):
    rows = "".join(f"\x1b[{number + 1};1Hrow {number}" for number in range(20))
    await draw(broker, f"\x1b[2J{rows}\x1b[20;7H")
    last = await broker.read("screen", "a", max_bytes=27)
    assert last.content == "row 16\nrow 17\nrow 18\nrow 19"
    assert (last.truncated, last.omitted_bytes) == (True, 10 * 6 + 6 * 7)
    assert last.note == "The screen is larger than max_bytes: this is rows 16 to 19 of 24, around the cursor."
    await draw(broker, "\x1b[5;3H")
    assert (await broker.read("screen", "a", max_bytes=20)).content == "row 3\nrow 4\nrow 5"
    assert (await broker.read("screen", "a", max_bytes=3)).content == "row"
    await draw(broker, "\x1b[1;1HROW\x1b[6;1HROW\x1b[20;1HROW\x1b[7;1H")
    changed = await broker.read("diff", "a", max_bytes=15)
    assert (changed.changed_rows, changed.content) == ([0, 5, 19], "  5| ROW 5")
    assert "this is row 5 of 24" in (changed.note or "")


async def test_a_prompt_at_the_bottom_is_kept(broker: Broker):
    made = await broker.create_session("bash")
    await broker.run("PS1='here> '", made.session_id)
    await broker.run("seq 1 20", made.session_id)
    shown = await broker.read("screen", made.session_id, wait_for="pattern", pattern="here> $", max_bytes=30)
    assert shown.content.endswith("19\n20\nhere>")


async def test_past_screen_has_the_columns_of_the_live_one(broker: Broker):
    """Signs with a selector, skins and flags have other columns in tmux 3.3, in 3.4, and from 3.5 on."""
    drawn = (
        "\x1b[H\x1b[2Jx\u26a0\ufe0f Warn\x1b[10G#\x1b[2Hx\u26a0\ufe0f\x1b[6G|\x1b[3H\u2764\ufe0f\u2764\ufe0f| \u261d"
    )
    await draw(broker, drawn + " \U0001f1e9\U0001f1ea \U0001f44b\U0001f3fd 1\ufe0f\u20e3 \x1b[7mbar\x1b[m here")
    live = await broker.read("screen", "a")
    past = await broker.read("screen", "a", at_offset=broker.registry.sessions["a"].log.size())
    assert (past.content, past.cursor, past.highlights) == (live.content, live.cursor, live.highlights)
    assert not past.approximate
    (bar,) = live.highlights
    assert past.cursor
    assert past.cursor.col == bar.col + len("bar here")


async def test_past_screen_is_approximate_where_somebody_changed_the_columns(broker: Broker):
    tmux = broker.registry.tmux
    if (version_of(tmux.version) or (0, 0, "")) < (3, 6):
        pytest.skip("before tmux 3.6 no option changes columns")
    await draw(broker, "\u26a0\ufe0f W")
    end = broker.registry.sessions["a"].log.size()
    for option, value in (("codepoint-widths", "U+2713=2"), ("variation-selector-always-wide", "off")):
        assert not (await broker.read("screen", "a", at_offset=end)).approximate
        tmux.run("set-option", "-s", option, value)
        assert (await broker.read("screen", "a", at_offset=end)).approximate
        tmux.run("set-option", "-su", option)
