"""Patterns, and where they are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SLOW, eventually, until_exists
from tests.kit.programs import need
from tests.kit.tmux import typed_by_script
from tests.readiness.test_wait_awaited import begin
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import InvalidPattern
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.readiness import finding

LONG_MS = int(20_000 * SLOW)
SHORT_MS = 400
"""Time in which nothing comes that is not there already."""


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
    need(program)
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


@pytest.mark.parametrize("program", ["bash", "zsh", "fish", "cat"])
async def test_an_echo_matches_nothing_however_long_it_stands(broker: Broker, program: str):
    """Neither where it is whole nor where it goes on behind what the pattern matches."""
    need(program)
    made = await broker.create_session(program=program, wait_ready=True)
    sent = await broker.send(
        "echo haystack", session_id=made.session_id, wait_for="pattern", pattern="hay|stack", timeout_ms=1500
    )
    assert sent.result
    assert sent.result.outcome == "timeout", sent.result


# ---- what counts: printed since one typed, and not shown by a line editor ---------------------------


async def patterned(broker: Broker, pattern: str, timeout_ms: int = 0, **more: object) -> r.ReadResult:
    """What a wait for a pattern in session `a` answers."""
    given = {"session_id": "a", "wait_for": "pattern", "pattern": pattern, "timeout_ms": timeout_ms or LONG_MS} | more
    return await broker.read(**given)  # type: ignore[arg-type]


def found(answer: r.ReadResult | r.WaitResult) -> tuple[str, str | None, bool | None]:
    return answer.outcome, answer.matched, answer.fresh


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_what_stood_there_before_is_no_answer(broker: Broker, shell: str, tmp_path: Path):
    """Neither what an earlier command printed nor the line that was typed."""
    need(shell)
    await broker.create_session(shell, name="a")
    (tmp_path / "serve").write_text("echo Listening on 1\n")
    command = f"sh {tmp_path}/serve"
    await broker.run(command, "a")
    await begin(broker, f"{until_exists(tmp_path / 'go')}; {command}; cat")
    for _ in range(2):
        waited = await broker.wait(["a"], "pattern", ["Listening|serve"], timeout_ms=SHORT_MS)
        assert (waited.outcome, waited.matched) == ("timeout", None)
        assert found(await patterned(broker, "Listening|serve", SHORT_MS)) == ("timeout", None, None)
    (tmp_path / "go").touch()
    answer = await patterned(broker, "Listening.*|serve")
    assert found(answer) == ("matched", "Listening on 1", True)
    assert answer.command is None
    assert found(await patterned(broker, "Listening", SHORT_MS)) == ("timeout", None, None)


async def test_the_same_marker_is_waited_for_twice(broker: Broker):
    await broker.create_session("bash", name="a")
    for _ in range(2):
        text = "sleep 1; echo BUILD-''OK; sleep 600"
        await broker.send(text, enter=True, session_id="a", read="none")
        assert found(await patterned(broker, "BUILD-OK", SHORT_MS)) == ("timeout", None, None)
        assert found(await patterned(broker, "BUILD-OK")) == ("matched", "BUILD-OK", True)
        await broker.send(key="C-c", session_id="a", wait_for="command")


async def test_what_was_printed_since_one_typed_counts_though_it_was_shown(broker: Broker):
    await broker.create_session("bash", name="a")
    ran = await broker.run("echo ready to serve; sleep 600", "a", idle_ms=500)
    assert "ready" in ran.output
    assert found(await patterned(broker, "ready")) == ("matched", "ready", False)
    assert found(await patterned(broker, "serve")) == ("matched", "serve", False)
    assert found(await patterned(broker, "ready", SHORT_MS)) == ("timeout", None, None)
    other = broker.by("other")
    assert "ready" in (await other.read("new", "a")).content
    waited = await other.wait(["a"], "pattern", ["ready"], timeout_ms=SHORT_MS)
    assert (waited.outcome, waited.matched) == ("timeout", None)


async def test_each_of_two_matches_in_one_line_is_given_once(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.run("printf 'OK 1 OK 2 OK'; sleep 600", "a", idle_ms=500)
    for number in range(3):
        assert (await patterned(broker, "OK")).matched == "OK", number
    assert (await patterned(broker, "OK", SHORT_MS)).outcome == "timeout"


async def test_a_match_outlives_the_broker(state_dir: Path, home: Path):
    settings = BrokerSettings(state_dir=state_dir, program="bash")
    async with Broker.open(settings) as first:
        await first.create_session("bash", name="a")
        await first.run("echo up; sleep 1; echo up again; sleep 600", "a", timeout_ms=SHORT_MS)
        assert (await patterned(first, "up")).matched == "up"
    async with Broker.open(settings) as later:
        assert (await patterned(later, "up.*")).matched == "up again"
        assert (await patterned(later, "up", SHORT_MS)).outcome == "timeout"


@pytest.mark.parametrize("program", ["dash", "python3"])
async def test_elsewhere_the_line_that_was_typed_does_not_count(broker: Broker, program: str):
    await broker.create_session(program, name="a", wait_ready=True)
    line = "sleep 1; echo FI''NI; sleep 600"
    if program == "python3":
        line = "import time; time.sleep(1); print('FI' 'NI'); time.sleep(600)"
    await broker.send(line, enter=True, session_id="a", read="none")
    assert found(await patterned(broker, "sleep", SHORT_MS)) == ("timeout", None, None)
    assert found(await patterned(broker, "FINI|sleep")) == ("matched", "FINI", True)


# ---- the command that was to print it has ended -----------------------------------------------------


@pytest.mark.parametrize("tool", ["read", "send", "wait", "run"])
async def test_a_wait_ends_when_the_command_has_that_was_to_print(broker: Broker, tool: str):
    await broker.create_session("bash", name="a")
    await broker.run("true", "a")
    line = "sleep 0.7; echo crashed; (exit 4)"
    if tool == "run":
        ran = await broker.run(line, "a", pattern="Listening")
        assert (ran.outcome, ran.completed, ran.exit_code, ran.matched) == ("ready", True, 4, None)
        return
    if tool == "send":
        sent = await broker.send(
            line, enter=True, session_id="a", wait_for="pattern", pattern="Listening", timeout_ms=LONG_MS
        )
        assert sent.result
        answer: r.ReadResult | r.WaitResult = sent.result
    else:
        await begin(broker, line)
        if tool == "read":
            answer = await patterned(broker, "Listening")
        else:
            answer = await broker.wait(["a"], "pattern", ["Listening", "Error"], timeout_ms=LONG_MS)
    assert (answer.outcome, answer.matched) == ("command", None)
    assert answer.command
    assert (answer.command.text, answer.command.exit_code) == (line, 4)


async def has_ended(broker: Broker) -> bool:
    """The job that was begun last has printed, and ended."""
    session = broker.registry.sessions["a"]
    return b"UP 0.01\r\n" in session.log.read(0, 1 << 16) and session.usage().processes == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("tool", ["send", "run", "read"])
async def test_a_job_that_prints_it_last_of_all_is_heard(broker: Broker, tool: str, shell: str):
    need(shell)
    await broker.create_session(shell, name="a")
    for delay in ("0.01", "0.1", "0.3"):
        line = f"sh -c 'sleep {delay}; echo U''P {delay}' &"
        if tool == "run":
            assert (await broker.run(line, "a", pattern=f"UP {delay}")).matched == f"UP {delay}"
            continue
        given = {"session_id": "a", "wait_for": "pattern", "pattern": f"UP {delay}", "timeout_ms": LONG_MS}
        if tool == "send":
            sent = (await broker.send(line, enter=True, **given)).result  # type: ignore[arg-type]
        else:
            await broker.send(line, enter=True, session_id="a", read="none")
            if delay == "0.01":
                await eventually(lambda: has_ended(broker))
            sent = await broker.read(**given)  # type: ignore[arg-type]
        assert sent
        assert (sent.outcome, sent.matched) == ("matched", f"UP {delay}")


async def test_what_a_person_has_typed_at_the_prompt_is_no_output(broker: Broker, state_dir: Path):
    await broker.create_session("bash", name="a")
    typed_by_script(state_dir, "-l", "echo FINI")
    session = broker.registry.sessions["a"]
    await eventually(lambda: b"FINI" in session.log.read(0, 4096))
    assert found(await patterned(broker, "FINI", SHORT_MS)) == ("timeout", None, None)


@pytest.mark.parametrize("tool", ["send", "run"])
async def test_a_job_behind_it_may_still_print(broker: Broker, tool: str):
    await broker.create_session("bash", name="a")
    line = "(sleep 1; echo Listen''ing; sleep 600) &"
    if tool == "run":
        ran = await broker.run(line, "a", pattern="Listening")
        assert (ran.outcome, ran.matched, ran.completed, ran.exit_code) == ("matched", "Listening", True, 0)
        late = await broker.run("(sleep 600) &", "a", pattern="never", timeout_ms=1000)
        assert (late.outcome, late.completed) == ("timeout", True)
        assert "still has the terminal" in (late.note or "")
        await broker.destroy_session("a", force=True)
        return
    given = {"enter": True, "session_id": "a", "wait_for": "pattern", "pattern": "Listening", "timeout_ms": LONG_MS}
    sent = await broker.send(line, **given)  # type: ignore[arg-type]
    assert sent.result
    assert (sent.result.outcome, sent.result.matched) == ("matched", "Listening")
    assert "still has the terminal" in (sent.result.note or "")
    await broker.destroy_session("a", force=True)


async def test_lines_that_are_typed_ahead_may_still_print(broker: Broker):
    await broker.create_session("bash", name="a")
    sent = await broker.send(
        "false\nsleep 0.5; echo o''ver\n",
        bracketed_paste="never",
        session_id="a",
        wait_for="pattern",
        pattern="over",
        timeout_ms=LONG_MS,
    )
    assert sent.result
    assert (sent.result.outcome, sent.result.matched) == ("matched", "over")


async def test_run_comes_back_when_its_pattern_is_printed(broker: Broker):
    await broker.create_session("bash", name="a")
    line = "echo pre''pares; sleep 0.5; echo Listening on 80; sleep 600"
    ran = await broker.run(line, "a", pattern="Listening on [0-9]+|prepares", timeout_ms=LONG_MS)
    assert (ran.outcome, ran.matched, ran.completed, ran.exit_code) == ("matched", "prepares", False, None)
    assert ran.output.startswith("prepares\n")
    assert found(await patterned(broker, "Listening on [0-9]+")) == ("matched", "Listening on 80", True)
    await broker.send(key="C-c", session_id="a", wait_for="command")
    done = await broker.run("echo Listening", "a", pattern="Listening")
    assert done.matched == "Listening"
    with pytest.raises(InvalidPattern):
        await broker.run("true", "a", pattern="(")


# ---- full-screen programs -------------------------------------------------------------------------

CURSES = 'python3 -c \'import curses; curses.wrapper(lambda s: (s.addstr(3, 3, "RE" + "ADY"), s.getch()))\''
DRAWN = {
    "vim": ("vim -u NONE lines", "line 7"),
    "less": ("less lines", "line 7"),
    "curses": (CURSES, "READY"),
    "printf": (r"printf '\033[?1049h\033[H\033[2JRE''ADY '; sleep 60", "^READY"),
}


@pytest.mark.parametrize(("command", "pattern"), DRAWN.values(), ids=DRAWN.keys())
async def test_a_program_that_this_very_send_starts_is_seen(broker: Broker, home: Path, command: str, pattern: str):
    """Its screen is no text of the log, and tmux was last asked before it began."""
    need(command.split()[0])
    (home / "lines").write_text("".join(f"line {number}\n" for number in range(100)))
    made = await broker.create_session(program="bash", cwd=str(home))
    sent = await broker.send(
        command, enter=True, session_id=made.session_id, wait_for="pattern", pattern=pattern, timeout_ms=LONG_MS
    )
    assert sent.result
    assert (sent.result.outcome, sent.result.matched) == ("matched", pattern.lstrip("^")), sent.result
    assert pattern.lstrip("^") in sent.result.content


async def test_what_stood_in_the_same_cells_ends_no_send(broker: Broker, home: Path):
    (home / "lines").write_text("".join(f"line {number}\n" for number in range(100)))
    await broker.create_session("bash", name="a", cwd=str(home))
    await broker.send(
        "less lines", enter=True, session_id="a", wait_for="pattern", pattern="line 7", timeout_ms=LONG_MS
    )
    assert found(await patterned(broker, "line 7")) == ("matched", "line 7", False)  # what stands there
    given = {"session_id": "a", "wait_for": "pattern"}
    still = await broker.send(key="=", **given, pattern="line 7$", timeout_ms=SHORT_MS)  # type: ignore[arg-type]
    assert still.result
    assert found(still.result) == ("timeout", "line 7", False)
    down = await broker.send(key="Down", **given, pattern="line 7$", timeout_ms=LONG_MS)  # type: ignore[arg-type]
    assert down.result
    assert found(down.result) == ("matched", "line 7", True)


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


async def test_a_screen_is_not_looked_at_again_while_nothing_is_printed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    drawn = r"printf '\033[?1049hdrawn'; sleep 60"
    made = await broker.create_session(program="sh", args=["-c", drawn], wait_ready=False)
    session = broker.registry.sessions[made.session_id]
    await eventually(lambda: b"drawn" in session.log.read(0, 100))
    looks, shown_by = [], finding.shown_by

    async def counted(session: object) -> object:
        looks.append(session)
        return await shown_by(session)  # type: ignore[arg-type]

    monkeypatch.setattr(finding, "shown_by", counted)
    await broker.read(session_id=made.session_id, wait_for="pattern", pattern="never", timeout_ms=1000)
    assert 1 <= len(looks) <= 5


# ---- blanks at the end ----------------------------------------------------------------------------


async def test_a_prompt_on_the_screen_ends_with_its_blank(broker: Broker):
    made = await broker.create_session(program="sh", args=["-c", "printf 'first\nname: '; read x"], wait_ready=True)
    answer = await broker.read(session_id=made.session_id, wait_for="pattern", pattern="name: $", timeout_ms=LONG_MS)
    assert answer.matched == "name: "
    asked_again = {"session_id": made.session_id, "wait_for": "pattern", "pattern": "name:"}
    assert (await broker.read(**asked_again, timeout_ms=300)).outcome == "timeout"  # type: ignore[arg-type]
    from_the_start = await broker.read(**asked_again, since=0)  # type: ignore[arg-type]
    assert (from_the_start.matched, from_the_start.fresh) == ("name:", False)


@pytest.mark.parametrize(("program", "prompt"), [("bash", "here> "), ("zsh", "here> "), ("python3", ">>> ")])
async def test_a_prompt_that_was_edited_ends_with_its_blank(broker: Broker, program: str, prompt: str):
    """zsh and readline draw their prompt again over itself."""
    need(program)
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
