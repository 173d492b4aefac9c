"""Shell scripts beside the broker, through plain tmux alone: the examples work, and the broker stays right."""

from __future__ import annotations

import base64
import os
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, ToolFailed, an_agent, eventually, refused
from tests.kit.fixtures import of_file
from tests.kit.person import press
from tests.kit.terminal import drain, watching
from tests.kit.tmux import plain_tmux

EXAMPLES = Path(__file__).parents[2] / "scripts" / "examples"
NAMES = sorted(path.name for path in EXAMPLES.iterdir())


agent = of_file(an_agent, "bash")


@pytest.fixture
def name(agent: Agent) -> Iterator[str]:
    """A fresh bash, and no tmux session but it; none at all afterwards."""
    yield agent.call("create_session", program="bash", name="s")["session_id"]
    for session in agent.call("list_sessions")["sessions"]:
        agent.call("destroy_session", session_id=session["session_id"], force=True)
    names = tmux(agent, "list-sessions", "-F", "#{session_name}").split("\n")
    for left in {*names} - {"_tmuxmcp", ""}:
        tmux(agent, "kill-session", "-t", f"={left}")


def tmux(agent: Agent, *words: str, check: bool = True) -> str:
    """What a script's plain tmux prints."""
    return plain_tmux(agent.state_dir, *words, check=check)


def environment(agent: Agent) -> dict[str, str]:
    """Bare, as cron's."""
    return {"PATH": os.environ["PATH"], "HOME": "/nowhere", "TMUXMCP_STATE_DIR": str(agent.state_dir)}


def script(agent: Agent, example: str, *words: str, status: int = 0) -> str:
    """What an example prints."""
    argv = [str(EXAMPLES / example), *words]
    done = subprocess.run(
        argv, env=environment(agent), check=False, capture_output=True, text=True, encoding="utf-8", timeout=20 * SLOW
    )
    assert done.returncode == status, done.stderr
    assert bool(done.stderr) == (status not in (0, 124))
    return done.stdout


def panes(agent: Agent, field: str = "pane_id") -> list[str]:
    """Of all panes that are not the broker's own: its client's, and one that it keeps for a default session."""
    listed = tmux(agent, "list-panes", "-a", "-f", "#{!=:#{=1:session_name},_}", "-F", f"#{{{field}}}")
    return listed.splitlines()


def rows(agent: Agent) -> dict[str, dict[str, object]]:
    """The sessions of this test: none is older than its first."""
    listed = agent.call("list_sessions")["sessions"]
    begun = next((row["created_at"] for row in listed if row["session_id"] == "s"), "")
    return {row["session_id"]: row for row in listed if row["created_at"] >= begun}


# ---- the examples ------------------------------------------------------------------------------


@pytest.mark.parametrize("example", NAMES)
def test_example_says_its_usage_and_needs_no_bash(example: str):
    path = EXAMPLES / example
    first, usage, *_ = path.read_text().splitlines()
    assert first == "#!/bin/sh"
    done = subprocess.run([path, "a", "b", "c", "d"] if example != "wait-for-mark" else [path], capture_output=True)
    assert (done.returncode, done.stderr.decode()) == (2, usage.removeprefix("# ") + "\n")
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", path], check=True)


@pytest.mark.parametrize("example", NAMES)
def test_example_starts_no_server(example: str, tmp_path: Path):
    words = {"type-line": ["s", "x"], "wait-for-mark": ["s", "1"], "list-sessions": []}.get(example, ["s"])
    done = subprocess.run([EXAMPLES / example, f"{tmp_path}/tmux.sock", *words], capture_output=True)
    assert done.returncode != 0
    assert done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("example", sorted({*NAMES} - {"list-sessions", "watch"}))
def test_example_takes_no_other_session_for_the_one_it_was_told(agent: Agent, name: str, example: str):
    agent.call("create_session", program="bash", name="longer")
    words = {"type-line": ["x"], "wait-for-mark": ["1"]}.get(example, [])
    script(agent, example, "long", *words, status=1)
    assert agent.run("echo :", session_id="longer")["output"] == ":\n"


def test_list_sessions(agent: Agent, name: str):
    agent.call("create_session", program="sh", args=["-c", "exit 3"], name="three", rows=30, cols=100)
    agent.call("create_session", program="sleep", args=["1000"], name="killed")
    agent.call("signal", session_id="killed", signal="KILL")
    eventually(lambda: all(rows(agent)[each]["exited"] for each in ("three", "killed")))
    listed = script(agent, "list-sessions")
    wanted = {
        "killed": ["exited signal 9", "80x24", '"sleep"'],
        "s": ["running", "80x24", '"bash"'],
        "three": ["exited 3", "100x30", '"sh"'],
    }
    assert [line.split("\t") for line in listed.splitlines()] == [
        [each, pane, *values, f'"{agent.state_dir}/sessions/{each}/out.raw"']
        for pane, (each, values) in zip(panes(agent), wanted.items(), strict=True)
    ]
    assert script(agent, "list-sessions", f"{agent.state_dir}/tmux.sock") == listed


@pytest.mark.parametrize(
    "text",
    ["plain", "ends;", r"ends\;", ";", "-l", "--", "", "ü 漢", "#{pane_id} #(id) %d $HOME `id`", "a  b", "Enter"],
)
def test_type_line_arrives_as_it_is(agent: Agent, text: str):
    session = agent.call("create_session", program="cat", name="cat")["session_id"]
    script(agent, "type-line", session, text)
    script(agent, "type-line", session, "end")
    # The terminal's echo and what cat prints may come in turns.
    wanted = [f"{text}\n" * 2 + "end\n" * 2, f"{text}\nend\n" * 2]
    eventually(lambda: agent.call("read", session_id=session, since=0)["content"] in wanted)
    agent.call("destroy_session", session_id=session, force=True)


def test_type_line_ends_copy_mode(agent: Agent, name: str):
    tmux(agent, "copy-mode", "-t", f"={name}:")
    assert script(agent, "wait-for-mark", name, "10", str(EXAMPLES / "type-line"), name, "(exit 7)") == "7\n"


def test_type_line_to_an_ended_program_says_so(agent: Agent, name: str):
    agent.run("exit 3", session_id=name)
    script(agent, "type-line", name, "x", status=1)


def test_capture(agent: Agent, name: str):
    agent.run(f"printf '%s\\n' {'x' * 100} ünï", session_id=name)
    assert f"\n{'x' * 100}\nünï\n" in script(agent, "capture", name)


def test_wait_for_mark_prints_the_status(agent: Agent, name: str):
    line = [str(EXAMPLES / "type-line"), name]
    assert script(agent, "wait-for-mark", name, "10", *line, "sleep 0.3; (exit 5)") == "5\n"
    assert script(agent, "wait-for-mark", name, "10", *line, "seq 20000; false") == "1\n"
    started = time.monotonic()
    assert script(agent, "wait-for-mark", name, "1", *line, "printf '\\e]133;D;0;aid=1;n=1\\a'; cat", status=124) == ""
    assert time.monotonic() - started < 5 * SLOW
    tmux(agent, "send-keys", "-t", f"={name}:", "C-c")
    # Before the key arrives, cat waits for input as well.
    eventually(lambda: agent.call("get_session", session_id=name)["mode"] == "shell_prompt")
    assert agent.run("echo exact", session_id=name)["output"] == "exact\n"
    script(agent, "wait-for-mark", name, "10", *line, "exit", status=1)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_wait_for_mark_in_other_shells(agent: Agent, name: str, shell: str):
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    agent.call("create_session", program=shell, name=shell)
    line = [str(EXAMPLES / "type-line"), shell]
    assert script(agent, "wait-for-mark", shell, "10", *line, "sh -c 'exit 5'") == "5\n"
    assert agent.run("echo exact", session_id=shell)["output"] == "exact\n"


def test_wait_for_exit_prints_the_status(agent: Agent, name: str):
    assert script(agent, "wait-for-exit", name, "0", status=124) == ""
    script(agent, "type-line", name, "sleep 0.2; exit 9")
    assert script(agent, "wait-for-exit", name, "10") == "9\n"
    agent.call("create_session", program="sleep", args=["1000"], name="killed")
    agent.call("signal", session_id="killed", signal="KILL")
    assert script(agent, "wait-for-exit", "killed") == "signal 9\n"


def follows(pid: int, log: Path) -> bool:
    """Whether a process has a log open and is at its end."""
    found = [file for file in psutil.Process(pid).open_files() if file.path == str(log)]
    return any(file.position == log.stat().st_size for file in found)  # type: ignore[attr-defined]


def test_follow_log_prints_all_from_now_on(agent: Agent, name: str):
    agent.run("echo before", session_id=name)
    agent.call("read", session_id=name, wait_for="ready")  # its prompt comes before as well
    log = Path(agent.state_dir, "sessions", name, "out.raw")
    with subprocess.Popen([EXAMPLES / "follow-log", name], env=environment(agent), stdout=subprocess.PIPE) as following:
        try:
            eventually(lambda: follows(following.pid, log))
            start = agent.call("get_session", session_id=name)["output_bytes"]
            agent.run("seq 5000", session_id=name)
            agent.call("read", session_id=name, wait_for="ready")
            wanted = log.read_bytes()[start:]
            assert following.stdout
            assert following.stdout.read(len(wanted)) == wanted
        finally:
            following.kill()


def test_watch_shows_and_types_nothing(agent: Agent, name: str):
    agent.run("clear; echo something to see", session_id=name)
    size = agent.call("get_session", session_id=name)["output_bytes"]
    command = shlex.join([str(EXAMPLES / "watch"), str(agent.state_dir / "tmux.sock"), name])
    seen = b""
    with watching(f"env TMUX=/nested,1,0 {command}", 30, 100) as (_, master):

        def shown(what: bytes) -> bool:
            nonlocal seen
            seen += drain(master)
            return what in seen

        eventually(lambda: shown(b"something to see"))
        os.write(master, b"echo no\r")
        assert agent.run("echo still", session_id=name)["output"] == "still\n"
        press(master, b"\x02d")
        eventually(lambda: shown(b"detached"))
    with_it = agent.call("read", session_id=name, since=size)["content"]
    assert "echo no" not in with_it


def test_page_does_what_it_says(agent: Agent):
    agent.call("create_session", program="bash", name="build")
    page = EXAMPLES.parent.parent / "docs" / "howto" / "script-sessions-with-tmux.md"
    blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    printed = [
        subprocess.check_output(
            ["bash", "-euc", block], env=environment(agent), cwd=EXAMPLES.parent.parent, text=True, timeout=20 * SLOW
        )
        for block in blocks
    ]
    assert printed[0].startswith("3\n")
    assert "\ncompiling\n" in printed[0]
    screen = agent.call("read", session_id="build", wait_for="pattern", pattern=r"-n: .*not found", view="screen")
    assert screen["outcome"] == "matched"
    assert re.search(r"-n is typed as it is\n.*-n.*", screen["content"])
    assert set(re.findall(r"^\| `([a-z-]+)[ `]", page.read_text(), re.MULTILINE)) == {*NAMES}
    agent.call("destroy_session", session_id="build")


# ---- what scripts do, and the broker stays right -----------------------------------------------


def test_run_is_exact_after_a_script_typed(agent: Agent, name: str):
    tmux(agent, "send-keys", "-t", f"={name}:", "-l", "--", "half a line")
    assert agent.run("echo exact", session_id=name)["output"] == "exact\n"
    tmux(agent, "send-keys", "-t", f"={name}:", "-l", "--", "echo 'open")
    tmux(agent, "send-keys", "-t", f"={name}:", "Enter")
    agent.call("read", session_id=name, wait_for="ready")
    ran = agent.run("echo exact", session_id=name)
    assert (ran["output"], ran["exit_code"]) == ("exact\n", 0)


def test_session_is_busy_while_a_script_s_command_runs(agent: Agent, name: str):
    script(agent, "type-line", name, "sleep 1000; echo theirs")
    eventually(lambda: agent.in_front(name) == "sleep 1000")
    refused("SESSION_BUSY", agent.call, "run", session_id=name, command="echo ours")
    tmux(agent, "send-keys", "-t", f"={name}:", "C-c")
    assert agent.call("read", session_id=name, wait_for="ready")["outcome"] == "ready"
    assert agent.run("echo ours", session_id=name)["output"] == "ours\n"


@pytest.mark.parametrize("kill", ["kill-session", "kill-pane", "kill-window"])
def test_killed_session_is_lost_and_its_log_stays(agent: Agent, name: str, kill: str):
    agent.run("echo kept", session_id=name)
    tmux(agent, kill, "-t", f"={name}:" if kill != "kill-session" else f"={name}")
    facts = agent.call("get_session", session_id=name)
    assert (facts["mode"], facts["exited"], facts["ready"], facts["exit_code"]) == ("lost", True, False, None)
    assert rows(agent)[name]["mode"] == "lost"
    for tool, arguments in [("run", {"command": "echo x"}), ("send", {"text": "x"}), ("resize", {"rows": 30})]:
        with pytest.raises(ToolFailed, match=r"SESSION_EXITED: .*pane is gone"):
            agent.call(tool, session_id=name, **arguments)
    assert "kept" in agent.call("read", session_id=name, since=0)["content"]
    assert b"kept" in base64.b64decode(agent.call("read", session_id=name, view="raw", since=0)["content"])
    assert "echo kept\nkept\n" in agent.call("read", session_id=name, view="screen")["content"]
    agent.call("create_session", program="bash", name=name)
    assert agent.run("echo anew", session_id=name)["output"] == "anew\n"


def test_waits_end_when_a_script_kills_the_session(agent: Agent, name: str):
    agent.call("create_session", program="bash", name="other")
    answers = {}
    waits = [
        threading.Thread(target=lambda: answers.update(run=agent.run("echo begun; sleep 1000", session_id=name))),
        threading.Thread(target=lambda: answers.update(read=agent.call("read", session_id="other", wait_for="exit"))),
    ]
    for wait in waits:
        wait.start()
    eventually(lambda: agent.in_front(name) == "sleep 1000")
    for each in (name, "other"):
        tmux(agent, "kill-pane", "-t", f"={each}:")
    for wait in waits:
        wait.join(10 * SLOW)
    assert (answers["run"]["outcome"], answers["run"]["completed"]) == ("exited", False)
    assert (answers["run"]["output"], answers["run"]["mode"]) == ("begun\n", "lost")
    assert (answers["read"]["outcome"], answers["read"]["exited"]) == ("exited", True)


def test_resized_window_is_reported(agent: Agent, name: str):
    tmux(agent, "resize-window", "-t", f"={name}:", "-x", "101", "-y", "31")
    facts = agent.call("get_session", session_id=name)
    assert (facts["rows"], facts["cols"]) == (31, 101)
    for view in ("new", "screen"):
        read = agent.call("read", session_id=name, view=view)
        assert (read["rows"], read["cols"]) == (31, 101)
    assert agent.run("stty size", session_id=name)["output"] == "31 101\n"


def steal_pipe(agent: Agent, name: str, number: int, command: str = "") -> None:
    """Steal it; the broker takes it back with a sink of this number, and tells the gap."""
    sink = Path(agent.state_dir, "sessions", name, "sink.pid")
    (pane,) = tmux(agent, "list-panes", "-a", "-f", f"#{{==:#{{@tmuxmcp_id}},{name}}}", "-F", "#{pane_id}").split()
    assert agent.call("read", session_id=name, wait_for="ready")["outcome"] == "ready"
    before = agent.call("get_session", session_id=name)["output_bytes"]
    tmux(agent, "pipe-pane", "-t", pane, command)
    # The second time it waits a moment, and for an old sink that still writes: 2 s each time it looks.
    eventually(lambda: sink.read_text().split()[1:] == [str(number)], 5)
    assert agent.call("get_session", session_id=name)["healthy"]
    ran = agent.run("echo recorded", session_id=name)
    assert ran["output"] == "recorded\n"
    told = re.search(r"lost at offset (\d+):", agent.call("read", session_id=name, since=before)["note"])
    assert told
    # A shell draws its prompt anew when its pane has changed its size: that may be recorded before the pipe is stolen.
    assert before <= int(told[1]) < ran["start_offset"]


def test_stolen_pipe_is_taken_back_and_the_gap_is_told(agent: Agent, name: str, tmp_path: Path):
    steal_pipe(agent, name, 2, f"cat >>{tmp_path}/stolen")
    steal_pipe(agent, name, 3)


@pytest.mark.parametrize("mode", ["copy-mode", "copy-mode -u", "clock-mode", "choose-tree"])
def test_input_arrives_in_a_pane_left_in_a_mode(agent: Agent, name: str, mode: str):
    agent.run("seq 100", session_id=name)
    tmux(agent, *mode.split(), "-t", f"={name}:")
    assert agent.run("echo arrived", session_id=name)["output"] == "arrived\n"
    tmux(agent, *mode.split(), "-t", f"={name}:")
    assert "seen\n" in agent.call("send", session_id=name, text="echo seen", enter=True)["result"]["content"]


@pytest.mark.parametrize("other", ["other", "two words", "$9", "it's|", "-x", "ü"])
def test_renamed_session_is_found_and_its_attach_command_leads_to_it(agent: Agent, name: str, other: str):
    agent.call("create_session", program="bash", name="decoy")
    tmux(agent, "rename-session", "-t", f"={name}", "--", other)
    assert agent.run("echo here", session_id=name)["output"] == "here\n"
    assert rows(agent)[name]["exited"] is False
    command = agent.call("get_session", session_id=name)["attach_command"]
    target = shlex.split(command)[-1]
    wanted = tmux(agent, "list-panes", "-a", "-f", f"#{{==:#{{@tmuxmcp_id}},{name}}}", "-F", "#{session_id}")
    clients = ("list-clients", "-F", "#{session_id}")
    with watching(command, 24, 80):
        eventually(lambda: wanted in tmux(agent, *clients).splitlines(keepends=True))
    assert target == (f"={other}" if other in ("other", "-x") else wanted.strip())
    agent.call("destroy_session", session_id=name)
    assert panes(agent, "@tmuxmcp_id") == ["decoy"]


def test_attach_command_leads_to_our_pane_behind_others(agent: Agent, name: str):
    ours = panes(agent)
    tmux(agent, "split-window", "-t", f"={name}:", "sleep", "1000")
    tmux(agent, "new-window", "-t", f"={name}:", "sleep", "1000")
    command = agent.call("get_session", session_id=name)["attach_command"]
    with watching(command, 24, 80):
        clients = ("list-clients", "-F", "#{pane_id}")
        eventually(lambda: ours[0] in tmux(agent, *clients).splitlines())
    assert agent.call("get_session", session_id=name)["attach_command"].endswith(f" -t '={name}'")


def test_pane_keeps_its_session_beside_others_and_all_end_together(agent: Agent, name: str):
    pid = agent.call("get_session", session_id=name)["pid"]
    tmux(agent, "split-window", "-t", f"={name}:", "sleep", "1000")
    tmux(agent, "new-window", "-t", f"={name}:", "sleep", "1000")
    facts = agent.call("get_session", session_id=name)
    assert (facts["pid"], facts["rows"]) == (pid, 12)
    assert agent.run("echo $$; stty size", session_id=name)["output"] == f"{pid}\n12 80\n"
    assert set(rows(agent)) == {name}
    agent.call("destroy_session", session_id=name)
    assert panes(agent) == []


@pytest.mark.parametrize("move", ["move-pane", "join-pane -h", "swap-pane", "move-window", "link-window"])
def test_pane_moved_to_another_session_is_still_ours(agent: Agent, name: str, move: str):
    agent.call("create_session", program="bash", name="other")
    agent.run("echo $$", session_id=name)
    words = move.split()
    tmux(agent, *words, "-d", "-s", f"={name}:", "-t", "=other:" if "window" not in move else "=other:5")
    for each in (name, "other"):
        pid = agent.call("get_session", session_id=each)["pid"]
        assert agent.run("echo $$", session_id=each)["output"] == f"{pid}\n"
        assert rows(agent)[each]["exited"] is False
    assert agent.call("resize", session_id=name, rows=30, cols=100)["cols"] <= 100
    agent.call("destroy_session", session_id=name)
    assert panes(agent, "@tmuxmcp_id") == ["other"]
    assert agent.run("echo $$", session_id="other")["output"] == f"{pid}\n"
    agent.call("destroy_session", session_id="other")
    assert panes(agent) == []


def test_pane_broken_out_leaves_the_script_s_own_session_alone(agent: Agent, name: str):
    tmux(agent, "new-session", "-d", "-s", "mine", "sleep", "1000")
    tmux(agent, "break-pane", "-d", "-s", f"={name}:", "-t", "=mine:3")
    assert agent.run("stty size", session_id=name)["output"] == "24 80\n"
    agent.call("destroy_session", session_id=name)
    assert panes(agent, "session_name") == ["mine"]


def test_session_of_a_group_is_destroyed_in_all_of_it(agent: Agent, name: str):
    tmux(agent, "new-session", "-d", "-t", f"={name}", "-s", "also")
    assert set(rows(agent)) == {name}
    assert agent.run("echo here", session_id=name)["output"] == "here\n"
    agent.call("destroy_session", session_id=name)
    assert panes(agent) == []


def test_options_set_for_all_panes_make_none_ours(agent: Agent, name: str):
    try:
        tmux(agent, "set-option", "-g", "@tmuxmcp_id", "all")
        assert set(rows(agent)) == {name}
        agent.run("exit 3", session_id=name)
        assert rows(agent)[name]["exit_code"] == 3
        tmux(agent, "kill-session", "-t", f"={name}")
        assert agent.call("get_session", session_id=name)["mode"] == "lost"
        refused("SESSION_EXITED", agent.call, "run", session_id=name, command="echo x")
    finally:
        tmux(agent, "set-option", "-gu", "@tmuxmcp_id")


def test_pane_that_claims_to_be_ours_takes_nothing_away(agent: Agent, name: str):
    tmux(agent, "split-window", "-t", f"={name}:", "sleep", "1000")
    for option, value in (("id", name), ("log", '"x"'), ("sink", "|"), ("nonce", "x"), ("args", "x")):
        tmux(agent, "set-option", "-p", "-t", f"={name}:", f"@tmuxmcp_{option}", value)
    assert set(rows(agent)) == {name}
    tmux(agent, "kill-pane", "-t", f"={name}:")
    # It gets its lines back, and its shell draws its prompt anew for that.
    eventually(lambda: agent.run("stty size", session_id=name)["output"] == "24 80\n")
    steal_pipe(agent, name, 2)  # it is still looked after


@pytest.mark.parametrize("option", ["home", "owner", "sink", "scrollback", "program"])
@pytest.mark.parametrize("value", [None, "junk }#{,"])
def test_session_does_not_need_every_option(agent: Agent, name: str, option: str, value: str | None):
    tmux(agent, "new-session", "-d", "-s", "mine", "sleep", "1000")
    change = ["-pu", f"@tmuxmcp_{option}"] if value is None else ["-p", f"@tmuxmcp_{option}", value]
    tmux(agent, "set-option", "-t", f"={name}:", *change)
    assert rows(agent)[name]["exited"] is False
    assert agent.run("echo here", session_id=name)["output"] == "here\n"
    assert "here" in agent.call("read", session_id=name, view="scrollback")["content"]
    if option == "sink":
        steal_pipe(agent, name, 2)
        steal_pipe(agent, name, 3)
    with Agent(agent.state_dir, "bash") as later:
        assert rows(later)[name]["exited"] is False
    agent.call("destroy_session", session_id=name)
    assert panes(agent, "session_name") == ["mine"]


def test_respawned_pane_is_seen_with_its_new_program(agent: Agent, name: str):
    answers = {}
    running = threading.Thread(target=lambda: answers.update(agent.run("echo begun; sleep 1000", session_id=name)))
    running.start()
    eventually(lambda: agent.in_front(name) == "sleep 1000")
    log = agent.state_dir / "sessions" / name / "out.raw"
    eventually(lambda: b"begun\r\n" in log.read_bytes())  # what tmux has not handed on yet, it forgets
    tmux(agent, "respawn-pane", "-k", "-t", f"={name}:", "exec cat")
    running.join(10 * SLOW)
    assert (answers["outcome"], answers["completed"], answers["output"]) == ("exited", False, "begun\n")
    eventually(lambda: agent.call("get_session", session_id=name)["mode"] == "line_input")
    facts = agent.call("get_session", session_id=name)
    assert (facts["exited"], facts["healthy"], facts["foreground"]["command"]) == (False, True, "cat")
    assert facts["pid"] == facts["foreground"]["pid"]
    assert "respawn-pane" in facts["note"]
    refused("NOT_A_SHELL", agent.call, "run", session_id=name, command="echo x")
    sent = agent.call("send", session_id=name, text="to cat", enter=True)["result"]
    assert (sent["outcome"], sent["content"].count("to cat\n")) == ("ready", 2)
    with Agent(agent.state_dir, "bash") as later:
        refused("NOT_A_SHELL", later.call, "run", session_id=name, command="echo x")
    gone = agent.call("destroy_session", session_id=name)
    assert (gone["exit_signal"], gone["survivors"]) == ("TERM", [])
    assert panes(agent) == []


def test_prompt_of_the_old_shell_is_not_the_new_program_s(agent: Agent, name: str):
    agent.call("read", session_id=name, wait_for="ready")
    tmux(agent, "respawn-pane", "-k", "-t", f"={name}:", "exec cat")
    eventually(lambda: agent.call("get_session", session_id=name)["mode"] == "line_input")
    refused("NOT_A_SHELL", agent.call, "run", session_id=name, command="echo x")
    assert "echo x" not in agent.call("read", session_id=name, since=0)["content"]


def test_a_shell_that_a_script_respawned_runs_commands(agent: Agent, name: str):
    tmux(agent, "respawn-pane", "-k", "-t", f"={name}:", "bash --norc")
    eventually(lambda: agent.call("get_session", session_id=name)["mode"] == "line_input")
    for number in range(5):
        ran = agent.run(f"sleep 0.1; echo {number}", session_id=name)
        assert (ran["output"], ran["exit_code"], ran["outcome"]) == (f"{number}\n", 0, "ready")


def test_respawned_without_a_command_it_has_ended(agent: Agent, name: str):
    """Our launcher finds nothing to start again."""
    tmux(agent, "respawn-pane", "-k", "-t", f"={name}:")
    eventually(lambda: agent.call("get_session", session_id=name)["exited"])
    assert agent.call("get_session", session_id=name)["exit_code"] == 127
    refused("SESSION_EXITED", agent.call, "run", session_id=name, command="echo x")


def test_ended_session_respawned_by_a_script_lives_again(agent: Agent, name: str):
    agent.run("exit 3", session_id=name)
    tmux(agent, "respawn-pane", "-t", f"={name}:", "exec cat")
    eventually(lambda: agent.call("get_session", session_id=name)["mode"] == "line_input")
    sent = agent.call("send", session_id=name, text="to cat", enter=True)["result"]
    assert sent["content"].count("to cat\n") == 2


def test_input_that_a_script_switched_off_is_refused_and_not_lost(agent: Agent, name: str):
    tmux(agent, "select-pane", "-d", "-t", f"={name}:")
    for tool, arguments in [("run", {"command": "echo x"}), ("send", {"text": "x"}), ("send", {"key": "Enter"})]:
        with pytest.raises(ToolFailed, match="select-pane -e") as failed:
            agent.call(tool, session_id=name, **arguments)
        assert failed.value.code == "TMUX_ERROR"
    subprocess.run(failed.value.error["hint"].partition(": ")[2], shell=True, check=True)
    assert agent.run("echo on", session_id=name)["output"] == "on\n"


def test_name_that_a_tmux_session_has_is_in_use(agent: Agent, name: str):
    tmux(agent, "new-session", "-d", "-s", "theirs", "sleep", "1000")
    tmux(agent, "rename-session", "-t", f"={name}", "moved")
    for taken in ("theirs", "moved", name):
        refused("SESSION_EXISTS", agent.call, "create_session", program="bash", name=taken)
    assert agent.run("echo here", session_id=name)["output"] == "here\n"
    assert set(rows(agent)) == {name}
    assert "theirs" in panes(agent, "session_name")


def test_session_without_its_id_is_lost_and_can_be_given_back(agent: Agent, name: str):
    agent.run("echo kept", session_id=name)
    tmux(agent, "set-option", "-pu", "-t", f"={name}:", "@tmuxmcp_id")
    assert rows(agent)[name]["mode"] == "lost"
    refused("SESSION_EXITED", agent.call, "run", session_id=name, command="echo x")
    assert "kept" in agent.call("read", session_id=name, since=0)["content"]
    refused("SESSION_EXISTS", agent.call, "create_session", program="bash", name=name)
    tmux(agent, "set-option", "-p", "-t", f"={name}:", "@tmuxmcp_id", name)
    assert agent.run("echo back", session_id=name)["output"] == "back\n"
    assert "kept" in agent.call("read", session_id=name, since=0)["content"]


def test_options_of_their_own_change_nothing(agent: Agent, name: str):
    before = tmux(agent, "show-options", "-g")
    try:
        tmux(agent, "set-option", "-g", "remain-on-exit", "off")
        for words in (["status", "off"], ["base-index", "1"], ["pane-base-index", "1"], ["default-command", "exit 1"]):
            tmux(agent, "set-option", "-g", *words)
        tmux(agent, "set-option", "-p", "-t", f"={name}:", "@theirs", "1")
        tmux(agent, "set-option", "-t", f"={name}:", "key-table", "none")
        assert agent.run("echo here", session_id=name)["output"] == "here\n"
        agent.call("create_session", program="bash", name="later")
        assert agent.run("echo there", session_id="later")["output"] == "there\n"
        for each in (name, "later"):
            assert agent.run("exit 3", session_id=each)["exit_code"] == 3
            assert rows(agent)[each]["exit_code"] == 3
    finally:
        for line in before.splitlines():
            option, _, value = line.partition(" ")
            if option in ("status", "base-index", "default-command"):
                tmux(agent, "set-option", "-g", option, value.strip("'"))
        tmux(agent, "set-option", "-g", "remain-on-exit", "on")
        tmux(agent, "set-option", "-gu", "pane-base-index")


def test_cleared_and_reset_screens_take_nothing_from_the_log(agent: Agent, name: str):
    agent.run("seq 100", session_id=name)
    agent.call("read", session_id=name, wait_for="ready")  # else its prompt comes when the screen is cleared
    tmux(agent, "clear-history", "-t", f"={name}:")
    tmux(agent, "send-keys", "-R", "-t", f"={name}:")
    assert agent.call("read", session_id=name, view="screen")["content"] == ""
    assert "\n1\n2\n3\n" in agent.call("read", session_id=name, view="scrollback")["content"]
    assert agent.run("echo here", session_id=name)["output"] == "here\n"


def test_keys_to_an_ended_session_do_no_harm(agent: Agent, name: str):
    agent.run("exit 3", session_id=name)
    tmux(agent, "send-keys", "-t", f"={name}:", "echo x", "Enter")
    tmux(agent, "copy-mode", "-t", f"={name}:")
    assert agent.call("get_session", session_id=name)["exit_code"] == 3
    refused("SESSION_EXITED", agent.call, "send", session_id=name, text="x")
    assert agent.call("read", session_id=name, view="screen")["exited"]


def test_broker_s_own_tmux_session_comes_back(agent: Agent, name: str):
    for _ in range(3):
        tmux(agent, "kill-session", "-t", "=_tmuxmcp")
        eventually(lambda: answered(agent, name))
        assert agent.run("echo here", session_id=name)["output"] == "here\n"
    assert set(rows(agent)) == {name}


def answered(agent: Agent, name: str) -> bool:
    """A call that meets the end of the broker's client may fail; the next one connects again."""
    try:
        return bool(agent.call("get_session", session_id=name))
    except ToolFailed:
        return False
