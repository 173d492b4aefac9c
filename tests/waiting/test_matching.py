"""Patterns, and where they are looked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tmuxmcp.broker.broker import Broker
from tmuxmcp.waiting import matching


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("program", "first", "then"),
    [
        *((shell, ["sleep 1", "echo o''ver"], "sleep 0.1; echo haystack") for shell in ("bash", "zsh", "fish")),
        (
            "gdb",
            ["python import time; time.sleep(1)", "python print('o' 'ver')"],
            "python time.sleep(0.1); print('haystack')",
        ),
    ],
)
async def test_what_is_typed_while_a_command_runs_matches_only_what_it_prints(
    broker: Broker, program: str, first: list[str], then: str
):
    """It is echoed at once, and again behind the prompt at which it is read."""
    if shutil.which(program) is None:
        pytest.skip("it is not installed")
    made = await broker.create_session(program=program, args=["-q"] if program == "gdb" else [], wait_ready=True)
    for each in first:
        await broker.send(each, enter=True, session_id=made.session_id, read="none")
    sent = await broker.send(
        then,
        enter=True,
        session_id=made.session_id,
        wait_for="pattern",
        pattern=r"(?m)^.*haystack.*$",
        timeout_ms=LONG_MS,
    )
    assert sent.result
    assert (sent.result.outcome, sent.result.matched) == ("matched", "haystack")
    assert "over" in sent.result.content


UNSHOWN = {
    # a program that does not show what is typed, that, what it then prints, and the pattern
    "a secret is printed": ("read -s x; echo yes; cat", "yes", "yes"),
    "a key": ("read -rsn1; echo yes; cat", "y", "yes"),
    "a key, and the pattern goes on": ("read -rsn1; echo it says yes sir; cat", "y", "yes sir"),
    "the first letters, at the end": (
        "stty -echo; read -rsn8; printf 'now your pass'; read -rsn9 x",
        "password",
        "pass",
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("script", "typed", "pattern"), UNSHOWN.values(), ids=UNSHOWN)
async def test_what_is_printed_is_no_echo_of_what_nobody_showed(broker: Broker, script: str, typed: str, pattern: str):
    made = await broker.create_session(program="bash", args=["-c", script])
    await broker.read(session_id=made.session_id, wait_for="ready")
    sent = await broker.send(
        typed,
        enter="read -s " in script,
        session_id=made.session_id,
        wait_for="pattern",
        pattern=pattern,
        timeout_ms=LONG_MS,
    )
    assert sent.result
    assert (sent.result.outcome, sent.result.matched) == ("matched", pattern), sent.result


@pytest.mark.anyio
@pytest.mark.parametrize("program", ["bash", "zsh", "fish", "cat"])
async def test_an_echo_matches_nothing_however_long_it_stands(broker: Broker, program: str):
    """Neither where it is whole nor where it goes on behind what the pattern matches."""
    if shutil.which(program) is None:
        pytest.skip("it is not installed")
    made = await broker.create_session(program=program, wait_ready=True)
    sent = await broker.send(
        "echo haystack", session_id=made.session_id, wait_for="pattern", pattern="hay|stack", timeout_ms=1500
    )
    assert sent.result
    assert sent.result.outcome == "timeout", sent.result


# ---- full-screen programs -------------------------------------------------------------------------

LONG_MS = int(20_000 * SLOW)

CURSES = 'python3 -c \'import curses; curses.wrapper(lambda s: (s.addstr(3, 3, "RE" + "ADY"), s.getch()))\''
DRAWN = {
    "vim": ("vim -u NONE lines", "line 7"),
    "less": ("less lines", "line 7"),
    "curses": (CURSES, "READY"),
    "printf": (r"printf '\033[?1049h\033[H\033[2JRE''ADY '; sleep 60", "^READY"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("command", "pattern"), DRAWN.values(), ids=DRAWN.keys())
async def test_a_program_that_this_very_send_starts_is_seen(broker: Broker, home: Path, command: str, pattern: str):
    """Its screen is no text of the log, and tmux was last asked before it began."""
    if shutil.which(command.split()[0]) is None:
        pytest.skip("it is not installed")
    (home / "lines").write_text("".join(f"line {number}\n" for number in range(100)))
    made = await broker.create_session(program="bash", cwd=str(home))
    sent = await broker.send(
        command, enter=True, session_id=made.session_id, wait_for="pattern", pattern=pattern, timeout_ms=LONG_MS
    )
    assert sent.result
    assert (sent.result.outcome, sent.result.matched) == ("matched", pattern.lstrip("^")), sent.result
    assert pattern.lstrip("^") in sent.result.content


@pytest.mark.anyio
async def test_what_stands_for_drawing_matches_nothing(broker: Broker):
    made = await broker.create_session(program="bash")
    command = r"printf '\033[?1049hdrawn\033[?1049l'; echo over"
    sent = await broker.send(
        command,
        enter=True,
        session_id=made.session_id,
        wait_for="pattern",
        pattern="full-screen|over",
        timeout_ms=LONG_MS,
    )
    assert sent.result
    assert sent.result.matched == "over"


@pytest.mark.anyio
async def test_a_screen_is_not_looked_at_again_while_nothing_is_printed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    made = await broker.create_session(program="cat")
    looks, shown_by = [], matching.shown_by

    async def counted(session: object) -> object:
        looks.append(session)
        return await shown_by(session)  # type: ignore[arg-type]

    monkeypatch.setattr(matching, "shown_by", counted)
    await broker.read(session_id=made.session_id, wait_for="pattern", pattern="never", timeout_ms=1000)
    assert 1 <= len(looks) <= 5


# ---- blanks at the end ----------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_prompt_on_the_screen_ends_with_its_blank(broker: Broker):
    made = await broker.create_session(program="sh", args=["-c", "printf 'first\nname: '; read x"], wait_ready=True)
    await broker.read(session_id=made.session_id, wait_for="pattern", pattern="name: ", timeout_ms=LONG_MS)
    for pattern in ("name: $", "name:$"):  # nothing is new; the second one goes by what a caller is shown
        answer = await broker.read(session_id=made.session_id, wait_for="pattern", pattern=pattern, timeout_ms=LONG_MS)
        assert answer.outcome == "matched", pattern


@pytest.mark.anyio
@pytest.mark.parametrize(("program", "prompt"), [("bash", "here> "), ("zsh", "here> "), ("python3", ">>> ")])
async def test_a_prompt_that_was_edited_ends_with_its_blank(broker: Broker, program: str, prompt: str):
    """zsh and readline draw their prompt again over itself."""
    if shutil.which(program) is None:
        pytest.skip("it is not installed")
    made = await broker.create_session(program=program, env={"PS1": prompt}, wait_ready=True)
    if program != "python3":
        await broker.run(f"PS1='{prompt}'", session_id=made.session_id)
    sent = await broker.send(
        "1+1",
        keys=["BSpace*3", "Enter"],
        session_id=made.session_id,
        wait_for="pattern",
        pattern=f"^{prompt}$",
        timeout_ms=LONG_MS,
    )
    assert sent.result
    assert sent.result.outcome == "matched", sent.result
