"""Every row of the settings table has its effect; from variables, files and flags, in that order from the weakest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.kit import forks
from tests.kit.agent import Agent, ToolFailed, eventually, refused
from tmuxmcp.config import VARIABLE_PREFIX, Settings, load_settings, load_with_origins
from tmuxmcp.contract.errors import InvalidArgument, IoError, PermissionDenied
from tmuxmcp.tmux.server import check_private_directory


def term(agent: Agent) -> bool:
    return agent.run("echo $TERM $COLORTERM")["output"] == "screen-256color truecolor\n"


def size(agent: Agent) -> bool:
    return agent.run("stty size")["output"] == "30 100\n"


def input_limit(agent: Agent) -> bool:
    with pytest.raises(ToolFailed, match="max_input_bytes") as failed:
        agent.call("send", text="x" * 101)
    return failed.value.code == "RESOURCE_LIMIT"


def log_limit(agent: Agent) -> bool:
    result = agent.run("seq 500000", timeout_ms=50_000)
    used = (agent.state_dir / "sessions" / result["session_id"] / "out.raw").stat().st_blocks * 512
    old = agent.call("read", since=0)
    return result["output_bytes"] > 3_000_000 > used and "no longer kept" in (old["note"] or "")


def history(wanted: str) -> Callable[[Agent], bool]:
    def check(agent: Agent) -> bool:
        value = agent.run('echo "${HISTFILE-unset}"')["output"].strip()
        return {"user": value.endswith("/home/.bash_history"), "none": value == "unset"}[wanted]

    return check


def expansion(program: str) -> Callable[[Agent], bool]:
    def check(agent: Agent) -> bool:
        session = agent.call("create_session", program=program)["session_id"]
        sent = agent.call("send", session_id=session, text='echo "a!nosuch"', enter=True)
        return "event not found" in sent["result"]["content"]

    return check


def no_integration(agent: Agent) -> bool:
    with pytest.raises(ToolFailed) as failed:
        agent.run("true")
    return failed.value.code == "NOT_A_SHELL"


def only_text(agent: Agent) -> bool:
    answer = agent.raw("run", command="echo hi")
    return answer.structured_content is None and answer.content[0].text.startswith("hi\n[")


def only_process(agent: Agent) -> bool:
    return [tool.name for tool in agent.portal.call(agent.client.list_tools).tools] == ["run_process"]


def waits(agent: Agent) -> bool:
    session = agent.call("create_session", program="bash")["session_id"]
    # On a slow machine its first prompt takes longer than the longest wait.
    eventually(lambda: agent.call("read", session_id=session, wait_for="ready")["outcome"] == "ready")
    return agent.run("sleep 5", session_id=session, timeout_ms=9999)["effective_timeout_ms"] == 200


def too_many(agent: Agent) -> bool:
    agent.call("create_session", program="cat", wait_ready=False)
    with pytest.raises(ToolFailed) as failed:
        agent.call("create_session", program="cat", wait_ready=False)
    return failed.value.code == "MAX_SESSIONS"


def ended(agent: Agent) -> bool:
    agent.call("create_session", program="bash", name="gone")
    eventually(lambda: all(row["ended"] for row in agent.call("list_sessions")["sessions"]))
    return True


def boxed(agent: Agent) -> bool:
    for tool, arguments in (("run_process", {"argv": ["true"]}), ("create_session", {})):
        refused("POLICY_DENIED", agent.call, tool, **arguments, cwd="~")
    ran = agent.call("run_process", argv=["grep", "NoNewPrivs", "/proc/self/status"])
    assert (ran["stdout"], ran["sandbox"] == "none") == ("NoNewPrivs:\t1\n", False)
    return agent.run("grep NoNewPrivs /proc/self/status")["output"] == "NoNewPrivs:\t1\n"


def scrollback(agent: Agent) -> bool:
    agent.run("seq 100")
    return len(agent.call("read", view="scrollback", offset=0)["content"].splitlines()) == 7


EFFECTS: list[tuple[dict[str, str], Callable[[Agent], bool]]] = [
    ({"term": "screen-256color"}, term),
    ({"rows": "30", "cols": "100"}, size),
    ({"cwd": "/usr"}, lambda agent: agent.run("pwd")["output"] == "/usr\n"),
    (
        {"program": "bash", "program_args": "--norc,-x"},
        lambda agent: "+ echo hi\nhi\n" in agent.run("echo hi")["output"],
    ),
    ({"env": '{"A_SETTING": "b c"}'}, lambda agent: agent.run("echo $A_SETTING")["output"] == "b c\n"),
    ({"env_allow": "MY_OWN,XX_*"}, lambda agent: agent.run("echo $MY_OWN $XX_1 $YY")["output"] == "one two\n"),
    ({"tools": "process"}, only_process),
    ({"results": "text"}, only_text),
    ({"history": "user"}, history("user")),
    ({"history": "none"}, history("none")),
    ({"history_expansion": "true"}, expansion("bash")),
    ({"history_expansion": "true"}, expansion("zsh")),
    ({"integration": "false"}, no_integration),
    ({"max_wait_ms": "200"}, waits),
    ({"max_bytes": "300"}, lambda agent: len(agent.run("seq 1000")["output"]) <= 300),
    ({"max_input_bytes": "100"}, input_limit),
    ({"max_sessions": "1"}, too_many),
    ({"log_max_bytes": "1048576"}, log_limit),
    ({"scrollback_lines": "7"}, scrollback),
    ({"limits": '{"open_files": 77}'}, lambda agent: agent.run("ulimit -n")["output"] == "77\n"),
    ({"sandbox": "auto"}, boxed),
    ({"max_calls": "7"}, lambda agent: agent.call("health")["limits"]["max_calls"] == 7),
    ({"idle_timeout_s": "0.5"}, ended),
    ({"max_duration_s": "0.5"}, ended),
]

ELSEWHERE = {
    "state_dir": "every test",
    "on_exit": "behaviour/test_outlives.py",
    "record": "broker/test_recorder_runs.py",
    "sandbox_network": "machine/test_sandbox.py",
    "sandbox_roots": "attacks/test_boundary.py",
    "sandbox_write": "machine/test_sandbox.py",
    "hosts_allow": "attacks/test_hosts.py",
    "retention_days": "sessions/test_retention_reap.py",
    "state_max_bytes": "sessions/test_retention_reap.py",
    "files_root": "broker/test_machine.py",
    "policy": "behaviour/test_policy.py",
    "answer_key": "faces/cli/test_answer.py",
    "notify_command": "faces/cli/test_answer.py",
    "take_key": "behaviour/people/test_handed_back.py",
    "take_timeout_s": "behaviour/people/test_handed_back.py",
    "audit": "behaviour/test_audited.py",
    "secrets": "broker/test_send_secret.py",
    "http": "faces/test_http_service.py",
    "token_file": "faces/test_http_service.py",
    "fleet_secret": "nodes/test_remotecalls_talking.py",
    "allowed_hosts": "faces/test_http_service.py",
    "page": "faces/page/test_page_beside.py",
    "fleet": "nodes/test_fleet_faces.py",
    "request_id_days": "broker/test_again.py",
    "traces": "faces/test_metrics_traces.py",
    "log_level": "below",
    "log_format": "below",
    "prompt_pattern": "below",
}


@pytest.mark.parametrize(("values", "holds"), EFFECTS, ids=[",".join(row[0]) for row in EFFECTS])
def test_setting_has_its_effect(state_dir: Path, values: dict[str, str], holds: Callable[[Agent], bool]):
    variables = {VARIABLE_PREFIX + name.upper(): value for name, value in values.items()}
    variables = {VARIABLE_PREFIX + "PROGRAM": "bash", **variables}
    with Agent(state_dir, MY_OWN="one", XX_1="two", YY="three", **variables) as agent:
        assert holds(agent)


def test_no_row_is_forgotten():
    tested = {name for row in EFFECTS for name in row[0]} | set(ELSEWHERE)
    assert tested == set(Settings.model_fields)


def test_prompt_pattern_tells_where_nothing_else_can(state_dir: Path):
    """Behind ssh another terminal begins; a program of that name stands for it."""
    (state_dir / "ssh").write_text("#!/bin/sh\nstty -icanon -echo; printf 'remote> '; cat >/dev/null\n")
    (state_dir / "ssh").chmod(0o755)
    with Agent(state_dir, TMUXMCP_PROMPT_PATTERN="^remote> $", TMUXMCP_PROGRAM="bash") as agent:
        made = agent.call("create_session", program=str(state_dir / "ssh"), wait_ready=False)
        answer = agent.call("read", session_id=made["session_id"], wait_for="ready", since=0)
        assert (answer["outcome"], answer["content"]) == ("ready", "remote> ")
        assert answer["evidence"] in ("prompt", "kernel")


def test_the_log_goes_to_stderr_in_the_form_that_was_asked_for(state_dir: Path):
    words = ["serve", "--state-dir", str(state_dir), "--log-format", "json"]
    done = forks.run([*words, "--log-level", "debug"], forks.environment(), Path.cwd(), 30 * SLOW)
    assert (done.returncode, done.stdout) == (0, b"")
    entries = [json.loads(line) for line in done.stderr.splitlines()]
    assert {"time", "level", "logger", "message"} <= set(entries[0])
    done = forks.run([*words, "--log-level", "error"], forks.environment(), Path.cwd(), 30 * SLOW)
    assert (done.returncode, done.stderr) == (0, b"")


def test_flags_beat_variables_beat_the_file_beats_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "config.toml"
    file.write_text('rows = 31\ncols = 101\nterm = "xterm"\nenv = { A = "b" }\ntools = ["core"]\n')
    monkeypatch.setenv("TMUXMCP_COLS", "102")
    monkeypatch.setenv("TMUXMCP_TERM", "vt100")
    settings, origins = load_with_origins({"term": "linux"}, file)
    assert (settings.rows, settings.cols, settings.term, settings.env) == (31, 102, "linux", {"A": "b"})
    assert (origins["rows"], origins["cols"], origins["term"]) == (str(file), "TMUXMCP_COLS", "flag")
    assert origins["max_bytes"] == "default"


def test_nothing_is_read_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("config.toml", "tmuxmcp.toml", ".env"):
        (tmp_path / name).write_text("rows = 99\nTMUXMCP_ROWS=99\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    assert load_settings().rows == 24


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("rows = 0", InvalidArgument, "rows"),
        ("rows = ", InvalidArgument, "TOML"),
        ("no_such = 1", InvalidArgument, "no_such"),
        ('tools = ["everything"]', InvalidArgument, "everything"),
        ("[limits]\nmemory_mb = -1", InvalidArgument, "limits"),
        ("[limits]\nmemory = 1", InvalidArgument, "limits"),
        ('results = "all"', InvalidArgument, "results"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, text: str, error: type[Exception], said: str):
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(error, match=said):
        load_settings(file=file)


def test_the_null_device_and_a_pipe_are_files_of_settings():
    assert load_settings(file=Path(os.devnull)).rows == 24
    ours, theirs = os.pipe()
    with open(ours, "rb"):
        with open(theirs, "wb") as written:
            written.write(b"rows = 31")
        assert load_settings(file=Path(f"/dev/fd/{ours}")).rows == 31


def test_a_state_directory_that_is_everybodys_holds_one_of_each_user(tmp_path: Path):
    """As in a container that runs as any user; what somebody else put there is refused as ever."""
    own = tmp_path / str(os.geteuid())
    for mode, found in ((0o1777, own), (0o777, tmp_path), (0o1770, tmp_path), (0o700, tmp_path)):
        tmp_path.chmod(mode)
        assert load_settings({"state_dir": str(tmp_path)}).state_dir == found, oct(mode)
    tmp_path.chmod(0o1777)
    check_private_directory(load_settings({"state_dir": str(tmp_path)}).state_dir)
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o755)
    with pytest.raises(PermissionDenied, match="open to other users"):
        check_private_directory(own)
    assert load_settings({"state_dir": str(tmp_path / "none")}).state_dir == tmp_path / "none"


def test_a_file_that_others_can_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".config" / "tmuxmcp" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("rows = 31")
    for mode in (0o600, 0o644, 0o444):
        file.chmod(mode)
        assert load_settings().rows == 31
    for mode in (0o666, 0o602):
        file.chmod(mode)
        for named in (None, file):
            with pytest.raises(PermissionDenied, match=f"Others can write to the settings file .* {mode:o}") as caught:
                load_settings(file=named)
            assert "chmod go-w" in caught.value.hint
    file.chmod(0o600)
    file.parent.chmod(0o777)
    with pytest.raises(PermissionDenied, match="put another file in place"):
        load_settings()
    file.parent.chmod(0o1777)
    assert load_settings().rows == 31


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_or_group_is_refused(tmp_path: Path):
    file = tmp_path / "config.toml"
    file.write_text("rows = 31")
    file.chmod(0o660)
    assert load_settings(file=file).rows == 31  # the group is the user's own
    os.chown(file, 0, 12345)
    with pytest.raises(PermissionDenied, match="Others can write"):
        load_settings(file=file)
    file.chmod(0o640)
    assert load_settings(file=file).rows == 31
    os.chown(file, 12345, 0)
    with pytest.raises(PermissionDenied, match="belongs to another user"):
        load_settings(file=file)


@pytest.mark.parametrize("link", ["config.toml", "tmuxmcp", ".config"])
def test_a_link_that_leads_nowhere_is_no_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str):
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".config" / "tmuxmcp" / "config.toml"
    at = next(each for each in (file, *file.parents) if each.name == link)
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(tmp_path / "nowhere")
    with pytest.raises(IoError, match="leads nowhere"):
        load_settings()
    done = subprocess.run(
        [sys.executable, "-m", "tmuxmcp", "serve"],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60 * SLOW,
    )
    assert done.returncode != 0
    assert "leads nowhere" in done.stderr


def test_a_missing_file_is_only_an_error_when_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    load_settings()
    with pytest.raises(IoError):
        load_settings(file=tmp_path / "none.toml")


def test_the_same_socket_with_a_bare_environment(tmp_path: Path):
    """XDG variables do not move it: agents start servers with next to nothing."""
    code = "from tmuxmcp.config import load_settings; print(load_settings().state_dir)"
    bare = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    rich = bare | {"XDG_STATE_HOME": "/elsewhere", "XDG_RUNTIME_DIR": "/run/x", "TMUX_TMPDIR": "/y", "TMUX": "a,1,2"}
    found = {subprocess.check_output([sys.executable, "-c", code], env=env, text=True) for env in (bare, rich)}
    assert found == {f"{tmp_path}/.local/state/tmuxmcp\n"}
