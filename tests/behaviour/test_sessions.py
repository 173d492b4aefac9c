"""Sessions as an agent uses them, over stdio: create, look, type, read, wait, resize, signal, destroy."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import SLOW, until_exists
from tests.kit.agent import Agent, ToolFailed, an_agent, eventually, refused
from tests.kit.tmux import plain_tmux
from tmuxmcp.broker.broker import Broker
from tmuxmcp.readiness import finding

READY_MS = int(10_000 * SLOW)


both_eras = pytest.mark.parametrize("agent", ["auto", "legacy"], indirect=True)
"""For one test of each tool: what follows from a tool's arguments, the protocol's era does not change."""


@pytest.fixture(scope="module")
def agent_of() -> Iterator[Callable[[str], Agent]]:
    """The one agent of a protocol era; each has a server of its own."""
    with ExitStack() as stack:
        yield cache(lambda mode: stack.enter_context(an_agent("bash", mode=mode)))


@pytest.fixture
def agent(request: pytest.FixtureRequest, agent_of: Callable[[str], Agent]) -> Agent:
    return agent_of(getattr(request, "param", "auto"))


@pytest.fixture
def name(agent: Agent) -> Iterator[str]:
    """A fresh bash."""
    session_id = agent.call("create_session", program="bash")["session_id"]
    yield session_id
    agent.call("destroy_session", session_id=session_id, force=True)


# ---- create, list, get, destroy ----------------------------------------------------------------


@both_eras
def test_create_answers_with_every_field(agent: Agent):
    more = {"cwd": "/usr", "env": {"A": "b c"}, "ready_timeout_ms": READY_MS}
    made = agent.call("create_session", program="bash", name="full", rows=30, cols=100, **more)
    assert made["session_id"] == "full"
    assert (made["program"], made["args"], made["cwd"]) == ("bash", [], "/usr")
    assert (made["rows"], made["cols"], made["mode"], made["ready"]) == (30, 100, "shell_prompt", True)
    assert made["attach_command"] == f"tmux -S {agent.state_dir}/tmux.sock attach -r -t '=full'"
    assert agent.run("echo $A $$ $LINES $COLUMNS; stty size", session_id="full")["output"].splitlines() == [
        f"b c {made['pid']} 30 100",
        "30 100",
    ]
    agent.call("destroy_session", session_id="full")


@both_eras
def test_session_facts_are_complete(agent: Agent, name: str):
    agent.run("printf '\\033]2;my title\\007'", session_id=name)
    agent.call("read", session_id=name, wait_for="ready")  # not while a machine under load still draws the prompt
    facts = agent.call("get_session", session_id=name)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", facts["created_at"])
    assert facts["title"] == "my title"
    assert facts["foreground"]["pid"] == facts["pid"]
    assert facts["ready"] is True
    assert (facts["exited"], facts["exit_code"], facts["exit_signal"], facts["healthy"]) == (False, None, None, True)
    assert (facts["alternate_screen"], facts["recording"], facts["taken_over"]) == (False, False, None)
    assert facts["output_bytes"] > 0
    assert facts["usage"]["processes"] >= 1
    assert facts["usage"]["rss_bytes"] > 100_000
    assert set(facts["cursor"]) == {"row", "col", "visible"}
    assert facts["watch_url"] is None


async def test_facts_between_a_command_s_end_and_the_prompt_are_those_of_a_shell_at_rest(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    """`run` answers when the command is over; the shell then draws its prompt, which takes a moment."""
    monkeypatch.setattr(finding, "UNMARKED_S", READY_MS / 1000)  # the moment of a busy machine is longer
    await broker.create_session("bash", name="a")
    await broker.run("PROMPT_COMMAND='sleep 0.02'", "a")
    for _ in range(3):
        await broker.run("true", "a")
        facts = await broker.get_session("a")
        assert facts.foreground
        assert (facts.ready, facts.mode, facts.foreground.pid) == (True, "shell_prompt", facts.pid)


def test_argv_is_exact_and_no_shell_splits_it(agent: Agent):
    words = ["a b", "$HOME", "", "x;", "#(id)", "`id`", "new\nline", "-x", "ü", "'\""]
    made = agent.call(
        "create_session",
        program="python3",
        args=["-c", "import sys,time; print(ascii(sys.argv[1:])); time.sleep(60)", *words],
        wait_ready=False,
        cols=300,
    )
    found = agent.call("read", session_id=made["session_id"], wait_for="pattern", pattern=r"\['a b'.*\n")
    assert found["matched"] == ascii(words) + "\n"
    agent.call("destroy_session", session_id=made["session_id"], force=True)


@both_eras
def test_destroy_says_how_it_ended(agent: Agent):
    agent.call("create_session", program="sleep", args=["1000"], name="sleeper", wait_ready=False)
    gone = agent.call("destroy_session", session_id="sleeper")
    assert (gone["destroyed"], gone["exit_code"], gone["exit_signal"]) == (True, None, "TERM")
    assert gone["survivors"] == []
    assert agent.call("get_session", session_id="sleeper")["exit_signal"] == "TERM"
    assert gone["note"] is None
    again = agent.call("destroy_session", session_id="sleeper")
    assert again == gone | {"duration_ms": 0, "note": again["note"]}
    assert again["note"].startswith("Nothing was done. Session sleeper was destroyed by ")


def test_destroy_of_an_idle_shell_waits_for_no_grace(agent: Agent):
    made = agent.call("create_session", program="bash")
    gone = agent.call("destroy_session", session_id=made["session_id"], grace_ms=40_000)
    assert gone["duration_ms"] < 5000 * SLOW


def test_a_shell_with_a_script_is_not_waited_for(agent: Agent):
    begun = time.monotonic()
    made = agent.call("create_session", program="sh", args=["-c", "sleep 60"], ready_timeout_ms=50_000)
    assert (made["ready"], made["mode"]) == (False, "running")
    assert time.monotonic() - begun < 30 * SLOW
    agent.call("destroy_session", session_id=made["session_id"], force=True)


def test_destroy_kills_what_ignores_the_signal(agent: Agent):
    made = agent.call(
        "create_session", program="sh", args=["-c", "trap '' TERM HUP; echo armed; while :; do sleep 1; done"]
    )
    agent.call("read", session_id=made["session_id"], wait_for="pattern", pattern="armed")
    gone = agent.call("destroy_session", session_id=made["session_id"], grace_ms=200)
    assert (gone["exit_signal"], gone["survivors"]) == ("KILL", [])


@both_eras
def test_list_has_a_row_for_each(agent: Agent, name: str):
    agent.call("create_session", program="sh", args=["-c", "exit 4"], name="four", wait_ready=False)
    eventually(lambda: agent.call("get_session", session_id="four")["exited"])
    listed = agent.call("list_sessions")
    rows = {row["session_id"]: row for row in listed["sessions"]}
    assert listed["count"] == len(rows)
    assert (rows["four"]["mode"], rows["four"]["exit_code"]) == ("exited", 4)
    assert rows[name]["mode"] == "shell_prompt"
    assert "four" not in {row["session_id"] for row in agent.call("list_sessions", include_exited=False)["sessions"]}
    gone = agent.call("destroy_session", session_id="four")
    assert (gone["destroyed"], gone["exit_code"]) == (True, 4)
    assert gone["note"].startswith("Nothing ran in it any more. The program of session four ended with exit code 4 at ")
    assert agent.call("destroy_session", session_id="four")["note"].startswith("Nothing was done. ")
    refused("SESSION_NOT_FOUND", agent.call, "destroy_session", session_id="five")


def test_fast_program_loses_nothing(agent: Agent):
    agent.call("create_session", program="printf", args=["%s", "x" * 5000], name="fast", wait_ready=False)
    answer = agent.call("read", session_id="fast", wait_for="exit", since=0)
    assert (answer["outcome"], answer["exited"], answer["exit_code"]) == ("exited", True, 0)
    assert answer["content"] == "x" * 5000
    agent.call("destroy_session", session_id="fast")


# ---- send --------------------------------------------------------------------------------------


@both_eras
def test_send_types_and_answers_when_the_program_is_done(agent: Agent, name: str):
    answer = agent.call("send", session_id=name, text="sleep 0.3; echo $((6*7))", enter=True)
    assert answer["sent_bytes"] == len("sleep 0.3; echo $((6*7))") + 1
    result = answer["result"]
    assert (result["outcome"], result["mode"]) == ("ready", "shell_prompt")
    assert result["evidence"] in ("marks", "kernel")
    assert "\n42\n" in result["content"]


def test_send_read_none_does_not_wait(agent: Agent, name: str):
    begun = time.monotonic()
    assert agent.call("send", session_id=name, text="sleep 60", enter=True, read="none")["result"] is None
    assert time.monotonic() - begun < 30 * SLOW
    agent.call("send", session_id=name, key="c", ctrl=True)


def test_a_python_session_step_by_step(agent: Agent):
    made = agent.call("create_session", program="python3", args=["-q"], wait_ready=True, ready_timeout_ms=READY_MS)
    assert made["ready"]
    session = made["session_id"]
    one = agent.call("send", session_id=session, text="x = 20 + 1", enter=True)
    assert one["result"]["outcome"] == "ready"
    two = agent.call("send", session_id=session, text="import time; time.sleep(0.3); x * 2", enter=True)
    assert "42" in two["result"]["content"]
    three = agent.call("send", session_id=session, text="input('name? ')", enter=True)
    assert three["result"]["mode"] == "line_input"
    assert "'bob'" in agent.call("send", session_id=session, text="bob", enter=True)["result"]["content"]
    last = agent.call("send", session_id=session, key="C-d", wait_for="exit")["result"]
    assert (last["outcome"], last["exit_code"]) == ("exited", 0)
    agent.call("destroy_session", session_id=session)


def test_vim_writes_a_file(agent: Agent, name: str, tmp_path: Path):
    file = tmp_path / "note.txt"
    opened = agent.call("send", session_id=name, text=f"vim -u NONE -N {file}", enter=True)["result"]
    assert (opened["view"], opened["mode"]) == ("screen", "editor")
    typed = agent.call("send", session_id=name, text="ihello from vim", key="Escape")["result"]
    assert typed["content"].startswith("  0| hello from vim\n")
    agent.call("send", session_id=name, text=":wq", enter=True)
    assert file.read_text() == "hello from vim\n"
    assert agent.run("echo back", session_id=name)["output"] == "back\n"


def test_a_password_prompt_is_recognised(agent: Agent, name: str):
    asked = agent.call("send", session_id=name, text="read -s -p 'Password: ' secret; echo", enter=True)["result"]
    assert (asked["outcome"], asked["mode"]) == ("ready", "password")
    agent.call("send", session_id=name, text="hunter2", enter=True)
    assert agent.run("echo ${#secret}", session_id=name)["output"] == "7\n"
    facts = agent.call("send", session_id=name, text="echo Password:", enter=True)["result"]
    assert facts["mode"] == "shell_prompt"


def test_input_arrives_exactly(agent: Agent, name: str):
    text = "".join(chr(code) for code in range(32, 127)) + " äß漢🙂;"
    agent.call("send", session_id=name, text="IFS= read -r line", enter=True)
    agent.call("send", session_id=name, text=text, enter=True)
    assert agent.run("printf '%s' \"$line\"", session_id=name)["output"] == text


def test_every_control_character_arrives(agent: Agent):
    program = "import sys,tty,os\ntty.setraw(0)\nprint('go',end='',flush=True)\n"
    program += "d=b''\nwhile len(d)<39: d+=os.read(0,99)\nprint(d.hex(),end='\\r\\n',flush=True)"
    made = agent.call("create_session", program="python3", args=["-c", program], cols=200, wait_ready=False)
    session = made["session_id"]
    agent.call("read", session_id=session, wait_for="pattern", pattern="go")
    text = "".join(map(chr, range(32))) + "\x7f;-x ü"
    agent.call("send", session_id=session, text=text, read="none")
    wanted = text.replace("\n", "\r").encode().hex()
    found = agent.call("read", session_id=session, wait_for="pattern", pattern=r"[0-9a-f]{60,}\n")
    assert found["matched"] == wanted + "\n"
    agent.call("destroy_session", session_id=session, force=True)


@both_eras
def test_one_megabyte_of_text(agent: Agent, name: str, tmp_path: Path):
    line = "0123456789abcdef" * 60 + "\n"
    text = line * (1_000_000 // len(line))
    agent.call("send", session_id=name, text=f"cat > {tmp_path}/got; echo end of cat", enter=True)
    agent.call("send", session_id=name, text=text, read="none")
    eventually(lambda: (tmp_path / "got").stat().st_size == len(text), 30)
    agent.call("send", session_id=name, key="C-d", wait_for="pattern", pattern="end of cat")
    assert (tmp_path / "got").read_text() == text


def test_text_reaches_a_pane_in_which_somebody_scrolls(agent: Agent, name: str):
    plain_tmux(agent.state_dir, "copy-mode", "-t", f"={name}:")
    assert agent.run("echo through", session_id=name)["output"] == "through\n"
    plain_tmux(agent.state_dir, "copy-mode", "-t", f"={name}:")
    assert "typed" in agent.call("send", session_id=name, text="echo typed", enter=True)["result"]["content"]


KEYS = [
    ({"key": "C-c"}, "^C"),
    ({"key": "c", "ctrl": True}, "^C"),
    ({"key": "^C"}, "^C"),
    ({"key": "<ctrl-c>"}, "^C"),
    ({"keys": ["ctrl_c"]}, "^C"),
    ({"keys": ["x", "BSpace", "C-c"]}, "^C"),
]


@pytest.mark.parametrize(("keys", "shown"), KEYS, ids=[str(row[0]) for row in KEYS])
def test_key_notations(agent: Agent, name: str, keys: dict, shown: str):
    agent.call("send", session_id=name, text="sleep 100", enter=True, read="none")
    eventually(lambda: agent.in_front(name) == "sleep 100")
    result = agent.call("send", session_id=name, **keys)["result"]
    assert shown in result["content"]
    assert result["mode"] == "shell_prompt"


# ---- read --------------------------------------------------------------------------------------


@both_eras
def test_cursors_belong_to_the_caller(agent: Agent, name: str):
    agent.call("send", session_id=name, text="echo first", enter=True)
    again = agent.call("read", session_id=name)
    assert (again["content"], again["has_new_content"]) == ("", False)
    agent.call("send", session_id=name, text="echo second", enter=True, read="none")
    new = agent.call("read", session_id=name, wait_for="ready")
    assert "second" in new["content"]
    assert "first" not in new["content"]
    everything = agent.call("read", session_id=name, since=0)
    assert "first" in everything["content"]
    assert everything["next_offset"] >= new["next_offset"]


@both_eras
def test_raw_view_is_the_logs_bytes(agent: Agent, name: str):
    agent.run("printf '\\001\\377raw'", session_id=name)
    log = (agent.state_dir / "sessions" / name / "out.raw").read_bytes()
    first = agent.call("read", session_id=name, view="raw", since=0, max_bytes=10)
    assert (first["encoding"], first["next_offset"]) == ("base64", 10)
    assert base64.b64decode(first["content"]) == log[:10]
    rest = agent.call("read", session_id=name, view="raw", since=10)
    assert base64.b64decode(rest["content"])[: len(log) - 10] == log[10:]


def test_screen_view(agent: Agent, name: str):
    agent.run("clear; printf 'one\\n\\033[7mtwo\\033[0m three\\n'", session_id=name)
    agent.call("read", session_id=name, wait_for="ready")
    screen = agent.call("read", session_id=name, view="screen")
    assert screen["content"].splitlines()[:2] == ["one", "two three"]
    assert screen["highlights"] == [{"row": 1, "col": 0, "text": "two"}]
    assert (screen["rows"], screen["cols"], screen["encoding"]) == (24, 80, None)
    colours = agent.call("read", session_id=name, view="screen", format="ansi")
    assert re.search(r"\x1b\[7mtwo(\x1b\[\d*m)+ three", colours["content"])


@both_eras
def test_wait_for_idle_pattern_exit_and_time_out(agent: Agent, name: str):
    agent.call("send", session_id=name, text="echo begin; sleep 0.6; echo the end", enter=True, read="none")
    found = agent.call("read", session_id=name, wait_for="pattern", pattern=r"^the (\w+)\n")
    assert (found["outcome"], found["matched"]) == ("matched", "the end\n")
    idle = agent.call("read", session_id=name, wait_for="idle", idle_ms=200)
    assert (idle["outcome"], idle["evidence"]) == ("idle", "quiet")
    assert idle["waited_ms"] >= 150
    never = agent.call("read", session_id=name, wait_for="exit", timeout_ms=300)
    assert (never["outcome"], never["exited"]) == ("timeout", False)
    assert 250 <= never["waited_ms"] < 3000 * SLOW


def test_the_echo_of_what_was_typed_matches_nothing(agent: Agent, name: str):
    for text, pattern in (("sleep 0.5; echo need''le", "needle"), ("sleep 0.5; echo haystack", "haystack")):
        begun = time.monotonic()
        arguments = {"wait_for": "pattern", "pattern": pattern}
        result = agent.call("send", session_id=name, text=text, enter=True, **arguments)["result"]
        assert result["outcome"] == "matched"
        assert time.monotonic() - begun >= 0.5


def test_ready_of_a_busy_program_is_waited_for(agent: Agent, name: str):
    begun = time.monotonic()
    agent.call("send", session_id=name, text="sleep 0.5", enter=True, read="none")
    answer = agent.call("read", session_id=name, wait_for="ready")
    assert answer["outcome"] == "ready"
    assert time.monotonic() - begun >= 0.5


def test_waits_are_clamped_and_say_so(agent: Agent, state_dir: Path):
    with Agent(state_dir, "bash", TMUXMCP_MAX_WAIT_MS="300") as hasty:
        name = hasty.call("create_session", program="bash")["session_id"]
        eventually(lambda: hasty.call("get_session", session_id=name)["ready"])
        result = hasty.run("sleep 600", session_id=name, timeout_ms=60_000)
        assert (result["outcome"], result["effective_timeout_ms"]) == ("timeout", 300)
        eventually(lambda: hasty.in_front(name) == "sleep 600")
        answer = hasty.call("read", session_id=name, wait_for="ready", timeout_ms=60_000)
        assert (answer["outcome"], answer["effective_timeout_ms"]) == ("timeout", 300)


@both_eras
def test_long_waits_send_progress(agent: Agent, name: str, tmp_path: Path):
    seen: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    go = tmp_path / "go"
    arguments = {"command": f"echo step one; {until_exists(go)}", "session_id": name, "timeout_ms": 50_000}
    running = agent.portal.start_task_soon(
        lambda: agent.client.call_tool("run", arguments, progress_callback=on_progress)
    )
    eventually(lambda: len(seen) >= 2)
    go.touch()
    assert running.result(10 * SLOW).structured_content["completed"]
    assert [one[0] for one in seen] == sorted(one[0] for one in seen)
    assert any("step" in (one[1] or "") for one in seen)


@both_eras
def test_cancellation_stops_the_wait_and_not_the_command(agent: Agent, name: str, tmp_path: Path):
    go = tmp_path / "go"
    arguments = {"command": f"{until_exists(go)}; touch {tmp_path}/done", "session_id": name}
    call = agent.portal.start_task_soon(lambda: agent.client.call_tool("run", arguments))
    eventually(lambda: agent.in_front(name).startswith("sh -c until"))
    call.cancel()
    eventually(lambda: code_or_none(agent, name) == "SESSION_BUSY")
    go.touch()
    eventually(lambda: (tmp_path / "done").exists())
    eventually(lambda: code_or_none(agent, name) is None)


def code_or_none(agent: Agent, name: str) -> str | None:
    try:
        agent.run("true", session_id=name)
    except ToolFailed as failed:
        return failed.code
    return None


# ---- resize, signal, health ----------------------------------------------------------------------


@both_eras
def test_resize_tells_the_program(agent: Agent, name: str):
    assert agent.call("resize", session_id=name, rows=40, cols=132) == {
        "session_id": name,
        "rows": 40,
        "cols": 132,
        "scrollback_lines": 5000,
        "handed_back": None,
    }
    assert agent.run("stty size", session_id=name)["output"] == "40 132\n"


def test_resize_changes_only_what_is_given(agent: Agent, name: str):
    assert agent.call("resize", session_id=name, cols=100)["rows"] == 24
    changed = agent.call("resize", session_id=name, scrollback_lines=7)
    assert (changed["rows"], changed["cols"], changed["scrollback_lines"]) == (24, 100, 7)
    refused("INVALID_ARGUMENT", agent.call, "resize", session_id=name)


def test_scrollback_by_lines(agent: Agent, name: str):
    agent.run("seq 1 3000", session_id=name)
    agent.call("read", session_id=name, wait_for="ready")
    last = agent.call("read", session_id=name, view="scrollback", limit=5)
    assert last["content"].splitlines()[:4] == ["2997", "2998", "2999", "3000"]
    first = agent.call("read", session_id=name, view="scrollback", offset=0, limit=2)
    assert first["content"].splitlines()[1] == "1"
    agent.call("resize", session_id=name, scrollback_lines=10)
    kept = agent.call("read", session_id=name, view="scrollback", offset=0)
    assert kept["content"].splitlines()[0] == "2992"
    agent.call("resize", session_id=name, scrollback_lines=2000)
    assert len(agent.call("read", session_id=name, view="scrollback")["content"].splitlines()) == 1000


@both_eras
def test_signal_reaches_the_foreground_or_all(agent: Agent, name: str):
    agent.run("sleep 100 &", session_id=name)
    agent.call("send", session_id=name, text="sleep 200", enter=True, read="none")
    eventually(lambda: agent.in_front(name) == "sleep 200")
    told = agent.call("signal", session_id=name, signal="TERM")
    assert told["delivered"]
    assert len(told["pids"]) == 1
    answer = agent.call("read", session_id=name, wait_for="ready")
    assert answer["mode"] == "shell_prompt"
    everyone = agent.call("signal", session_id=name, signal="TERM", target="session")
    assert len(everyone["pids"]) >= 2
    ended = agent.run("wait; jobs", session_id=name)
    assert ended["completed"]
    assert ended["output"].count("Running") == 0


@both_eras
def test_health(agent: Agent):
    health = agent.call("health")
    assert health["version"].count(".") == 2
    assert health["tmux_version"]
    assert health["uptime_s"] > 0
    assert health["limits"]["max_sessions"] == 32
    assert all(check["ok"] for check in health["checks"]), health["checks"]


@both_eras
def test_invisible_text_is_shown(agent: Agent, name: str):
    result = agent.run("printf 'a\\u202eb\\u200bc\\n'", session_id=name)
    assert result["output"] == "a<U+202E>b<U+200B>c\n"
    assert result["sanitized"] is True


# ---- bad input -----------------------------------------------------------------------------------

BAD = [
    ("run", {"command": 5}, "INVALID_ARGUMENT"),
    ("run", {}, "INVALID_ARGUMENT"),
    ("run", {"command": "true", "nonsense": 1}, "INVALID_ARGUMENT"),
    ("run", {"command": "true", "timeout_ms": "5"}, "INVALID_ARGUMENT"),
    ("run", {"command": "true", "timeout_ms": -1}, "INVALID_ARGUMENT"),
    ("run", {"command": "true", "max_bytes": 0}, "INVALID_ARGUMENT"),
    ("run", {"command": "true", "max_bytes": 17 * 1024 * 1024}, "INVALID_ARGUMENT"),
    ("run", {"command": "a\0b"}, "INVALID_ARGUMENT"),
    ("run", {"command": "x\x1b[201~y"}, "INVALID_ARGUMENT"),
    ("run", {"command": "x" * 1_100_000}, "RESOURCE_LIMIT"),
    ("run", {"command": "true", "session_id": "nosuch"}, "SESSION_NOT_FOUND"),
    *(
        (tool, {"session_id": bad, **more}, "SESSION_NOT_FOUND")
        for tool, more in (("get_session", {}), ("run", {"command": "id"}), ("send", {"text": "x"}), ("read", {}))
        for bad in (
            "a:b",
            "#{pid}",
            "$(id)",
            "../x",
            "=x",
            "%0",
            "@0",
            "$0",
            "-t",
            "{last}",
            "a.1",
            "x\ny",
            "*",
            "_tmuxmcp",
        )
    ),
    ("create_session", {"program": "no-such-program"}, "PROGRAM_NOT_FOUND"),
    ("create_session", {"program": "/etc/passwd"}, "PROGRAM_NOT_FOUND"),
    ("create_session", {"program": "/tmp"}, "PROGRAM_NOT_FOUND"),
    ("create_session", {"program": "bash", "cwd": "/no/such/place"}, "CWD_NOT_FOUND"),
    ("create_session", {"program": "bash", "cwd": "/etc/passwd"}, "CWD_NOT_FOUND"),
    *(
        ("create_session", {"name": bad}, "INVALID_ARGUMENT")
        for bad in ("a:b", "#{pid}", "$(id)", "../x", "-x", "a" * 65)
    ),
    ("create_session", {"program": "bash", "rows": 0}, "INVALID_ARGUMENT"),
    ("create_session", {"program": "bash", "cols": 501}, "INVALID_ARGUMENT"),
    ("create_session", {"program": "bash", "args": ["a\0b"]}, "INVALID_ARGUMENT"),
    ("create_session", {"program": "bash", "args": "ls"}, "INVALID_ARGUMENT"),
    ("create_session", {"program": "bash", "env": {"A=B": "c"}}, "INVALID_ARGUMENT"),
    ("create_session", {"program": "bash", "env": {"A": 1}}, "INVALID_ARGUMENT"),
    ("send", {}, "NO_INPUT"),
    ("send", {"text": ""}, "NO_INPUT"),
    ("send", {"key": "Entr"}, "INVALID_KEY"),
    ("send", {"text": "typed", "keys": ["Up", "Nope"]}, "INVALID_KEY"),
    ("send", {"ctrl": True}, "INVALID_ARGUMENT"),
    ("send", {"text": "x", "wait_for": "pattern"}, "INVALID_ARGUMENT"),
    ("send", {"text": "x", "wait_for": "pattern", "pattern": "("}, "INVALID_PATTERN"),
    ("send", {"text": "x" * 1_100_000}, "RESOURCE_LIMIT"),
    ("send", {"text": "x", "wait_for": "never"}, "INVALID_ARGUMENT"),
    ("read", {"pattern": "[", "wait_for": "pattern"}, "INVALID_PATTERN"),
    ("read", {"since": 10**12}, "INVALID_ARGUMENT"),
    ("read", {"since": -1}, "INVALID_ARGUMENT"),
    ("read", {"view": "everything"}, "INVALID_ARGUMENT"),
    ("resize", {"rows": 0, "cols": 80}, "INVALID_ARGUMENT"),
    ("resize", {"rows": 24, "cols": 501}, "INVALID_ARGUMENT"),
    ("signal", {"signal": "SEGV"}, "INVALID_ARGUMENT"),
    ("destroy_session", {}, "INVALID_ARGUMENT"),
    ("destroy_session", {"session_id": ""}, "INVALID_ARGUMENT"),
    ("no_such_tool", {}, "INVALID_ARGUMENT"),
]


@both_eras
@pytest.mark.parametrize("tool", sorted({tool for tool, _, _ in BAD}))
def test_bad_input_has_its_code_and_a_hint(agent: Agent, name: str, tool: str):
    def written() -> dict[str, int]:
        return {row["session_id"]: row["output_bytes"] for row in agent.call("list_sessions")["sessions"]}

    agent.call("read", session_id=name, wait_for="ready")
    before = written()
    for arguments, code in ((arguments, code) for each, arguments, code in BAD if each == tool):
        what = str(arguments)[:60]
        with pytest.raises(ToolFailed) as failed:
            agent.call(tool, **arguments)
        assert failed.value.code == code, what
        assert failed.value.error["hint"], f"{what}: it must say what to do next"
    after = written()
    assert {each: after.get(each) for each in before} == before, "another session was touched"


def test_an_exponential_pattern_does_not_hang(agent: Agent, name: str):
    agent.run("printf 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'", session_id=name)
    begun = time.monotonic()
    with pytest.raises(ToolFailed) as failed:
        agent.call("read", session_id=name, since=0, wait_for="pattern", pattern=r"(a|a|b)*(a|aa)+$c")
    assert failed.value.code == "INVALID_PATTERN"
    assert time.monotonic() - begun < 5 * SLOW


def test_a_wrong_key_sends_nothing_at_all(agent: Agent, name: str):
    with pytest.raises(ToolFailed):
        agent.call("send", session_id=name, text="typed", keys=["Up", "Nope"])
    assert "typed" not in agent.call("read", session_id=name, view="screen")["content"]


def test_a_line_too_long_for_a_line_reader_is_refused_not_cut(agent: Agent, name: str):
    agent.call("send", session_id=name, text="cat", enter=True)
    failed = refused("INVALID_ARGUMENT", agent.call, "send", session_id=name, text="x" * 5000, enter=True)
    assert "4095" in str(failed)
    agent.call("send", session_id=name, key="C-c")


@both_eras
def test_input_to_an_ended_program_is_refused(agent: Agent):
    agent.call("create_session", program="true", name="over", wait_ready=False)
    eventually(lambda: agent.call("get_session", session_id="over")["exited"])
    for tool, arguments in (
        ("send", {"text": "x"}),
        ("run", {"command": "id"}),
        ("signal", {"signal": "INT"}),
        ("resize", {"rows": 30, "cols": 90}),
    ):
        refused("SESSION_EXITED", agent.call, tool, session_id="over", **arguments)
    agent.call("destroy_session", session_id="over")


def test_too_many_sessions(state_dir: Path):
    with Agent(state_dir, TMUXMCP_MAX_SESSIONS="2") as agent:
        for name in ("a", "b"):
            agent.call("create_session", program="cat", name=name, wait_ready=False)
        with pytest.raises(ToolFailed) as failed:
            agent.call("create_session", program="cat")
        assert (failed.value.code, failed.value.error["retryable"]) == ("MAX_SESSIONS", True)
        assert "max_sessions" in str(failed.value)
