"""The audit of a real server: a line for each call, strict where that is asked for, and no secrets."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import end_server
from tests.kit.agent import Agent, ToolFailed, eventually, refused
from tests.kit.agent import audit_lines as lines
from tests.kit.canaries import Canaries, person_at

BASH = {"TMUXMCP_PROGRAM": "bash"}

FIELDS = [
    *("time", "call_id", "client", "tool", "session_id", "cwd", "env", "bytes_in", "bytes_out", "duration_ms"),
    *("exit_code", "outcome", "error_code", "policy"),
]


def test_one_line_for_each_call(state_dir: Path):
    with Agent(state_dir, **BASH) as agent:
        said = agent.raw("run", command="echo hi")
        agent.call("create_session", name="a", program="cat", args=["-u"], env={"X": "1"}, cwd="/")
        agent.call("send", session_id="a", text="private words", keys=["Space", "x"], enter=True)
        with pytest.raises(ToolFailed):
            agent.call("read", session_id="nothing")
        with pytest.raises(ToolFailed):
            agent.call("run", comand="true")
        ran, made, sent, failed, wrong = lines(state_dir)
        agent.call("send", session_id="a", keys=["Home", {"text": "hunter2"}])
        for words in ({"keys": ["hunter2"]}, {"key": "hunter2"}, {"keys": list("hunter2")}):
            agent.raw("send", session_id="a", **words)
        assert [(line["keys"], line["bytes_in"]) for line in lines(state_dir)[5:]] == [(["Home"], 7), *3 * [([], 0)]]
    assert stat.S_IMODE((state_dir / "audit.jsonl").stat().st_mode) == 0o600
    for line in (ran, made, sent, failed, wrong):
        assert set(FIELDS) <= set(line)
    assert ran["call_id"] == said.meta["tmuxmcp/call"]
    assert (ran["tool"], ran["command"], ran["outcome"]) == ("run", "echo hi", "ok")
    assert (ran["bytes_in"], ran["bytes_out"]) == (7, 3)
    assert ran["session_id"] == said.structured_content["session_id"]
    assert (made["argv"], made["env"], made["cwd"]) == (["cat", "-u"], ["X"], "/")
    assert (ran["exit_code"], sent["exit_code"]) == (0, None)
    assert sent["keys"] == ["Space", "Enter"]
    assert sent["bytes_in"] == len("private words")
    assert "private" not in json.dumps(sent)
    assert (failed["outcome"], failed["error_code"]) == ("error", "SESSION_NOT_FOUND")
    assert (wrong["outcome"], wrong["error_code"]) == ("error", "INVALID_ARGUMENT")
    assert ran["client"] == made["client"]


def test_how_it_ended_and_where_is_told(state_dir: Path):
    with Agent(state_dir, **BASH) as agent:
        agent.call("run", command="cd /usr; (exit 3)")
        agent.call("run_process", argv=["sh", "-c", "exit 4"], cwd="/")
        agent.call("run_process", argv=["true"])
        agent.call("create_session", program="sh", args=["-c", "exit 5"], name="a")
        agent.call("read", session_id="a", wait_for="exit")
        agent.call("destroy_session", session_id="a")
        by_tool = [(line["tool"], line["exit_code"], line["cwd"]) for line in lines(state_dir)]
        assert [each for each in by_tool if each[0] == "run"] == [("run", 3, "/usr")]
        assert [each[1:] for each in by_tool if each[0] == "run_process"] == [(4, "/"), (0, str(state_dir / "home"))]
        assert [each[1] for each in by_tool if each[0] == "destroy_session"] == [5]


def test_call_that_finds_no_tmux_has_its_line(state_dir: Path):
    with Agent(state_dir, **BASH) as agent:
        agent.run("true")
        end_server(state_dir)
        (state_dir / "tmux.sock").unlink(missing_ok=True)
        (state_dir / "tmux.sock").mkdir()
        with pytest.raises(ToolFailed):
            agent.call("read")
        assert (lines(state_dir)[-1]["tool"], lines(state_dir)[-1]["outcome"]) == ("read", "error")


def test_cancelled_call_has_its_line(state_dir: Path):
    with Agent(state_dir, **BASH) as agent:
        agent.run("true")
        call = agent.portal.start_task_soon(lambda: agent.client.call_tool("run", {"command": "sleep 30"}))
        eventually(lambda: agent.in_front() == "sleep 30")
        call.cancel()
        eventually(lambda: lines(state_dir)[-1]["tool"] == "run" and lines(state_dir)[-1]["outcome"] == "cancelled")
        assert lines(state_dir)[-1]["error_code"] == "CANCELLED"


def test_strict_does_nothing_that_it_cannot_write_down(state_dir: Path):
    with Agent(state_dir, TMUXMCP_AUDIT="strict", **BASH) as agent:
        assert agent.run("echo hi; touch a")["exit_code"] == 0
        assert [line["outcome"] for line in lines(state_dir)] == ["ok"]
        (state_dir / "audit.jsonl").rename(state_dir / "kept")
        (state_dir / "audit.jsonl").mkdir()
        refused("IO_ERROR", agent.run, "touch b")
        (state_dir / "audit.jsonl").rmdir()
        assert agent.run("ls")["output"] == "a\n"


def test_strict_leaves_a_trace_of_what_never_ended(state_dir: Path):
    with Agent(state_dir, TMUXMCP_AUDIT="strict", **BASH) as agent:
        agent.run("true")
        agent.portal.start_task_soon(lambda: agent.client.call_tool("run", {"command": "sleep 30"}))
        eventually(lambda: lines(state_dir)[-1].get("command") == "sleep 30")
        agent.kill()
    assert lines(state_dir)[-1]["outcome"] == "started"


def test_best_effort_goes_on_without_it(state_dir: Path):
    (state_dir / "audit.jsonl").mkdir()
    with Agent(state_dir, **BASH) as agent:
        assert agent.run("echo hi")["output"] == "hi\n"


def test_off_writes_nothing(state_dir: Path):
    with Agent(state_dir, TMUXMCP_AUDIT="off", **BASH) as agent:
        agent.run("true")
    assert not (state_dir / "audit.jsonl").exists()


@pytest.mark.parametrize("audit", ["best-effort", "strict"])
def test_command_that_may_be_a_password_is_not_written(state_dir: Path, audit: str):
    with Agent(state_dir, TMUXMCP_AUDIT=audit, **BASH) as agent:
        agent.call("send", text="read -s x", enter=True, read="none")
        agent.call("read", wait_for="ready")
        with pytest.raises(ToolFailed):
            agent.run("hunter2-hunter2")
        agent.call("send", text="hunter2-hunter2", key="a", enter=True)
    assert "hunter2" not in (state_dir / "audit.jsonl").read_text()


# ---- canaries ------------------------------------------------------------------------------------


def test_secrets_stay_where_they_belong(state_dir: Path):
    """The server's own, one that a session is given, and passwords that a person and an agent type."""
    canary = Canaries()
    errors = state_dir / "stderr"
    own = {"GITHUB_TOKEN": canary["own"], "XDG_API_KEY": canary["allowed"], "LC_PASSWORD": canary["pattern"]}
    settings = {"TMUXMCP_ENV_ALLOW": "LC_*,GITHUB_*", "TMUXMCP_TOOLS": "all", **BASH}
    with Agent(state_dir, "--log-level", "debug", errors=errors, **own, **settings) as agent:
        agent.call("create_session", name="a", program="bash")
        agent.run("unset x; env >/dev/null", session_id="a")
        agent.call("create_session", name="given", program="bash", env={"DB_PASSWORD": canary["given"]})
        agent.run("cd /; true", session_id="given")
        # errors that repeat what they were given
        for arguments in ({"program": canary["own"]}, {"cwd": f"/{canary['own']}"}, {"name": f"{canary['own']}/"}):
            with pytest.raises(ToolFailed) as caught:
                agent.call("create_session", **arguments)
            assert canary["own"] not in str(caught.value) + json.dumps(caught.value.error)
        # the agent types one where echo is off, then a person does, in a terminal of theirs
        for who in ("agent", "person"):
            agent.call("send", session_id="a", text="read -s x", enter=True)
            assert agent.call("get_session", session_id="a")["mode"] == "password"
            if who == "agent":
                agent.call("send", session_id="a", text=canary["agent"], enter=True)
            else:
                with person_at(state_dir, "a") as person:
                    person.type(canary["person"])
                    eventually(lambda: agent.call("get_session", session_id="a")["mode"] != "password")
            eventually(lambda: agent.call("get_session", session_id="a")["mode"] == "shell_prompt")
            assert agent.run('echo "${#x}"', session_id="a")["output"] == f"{len(canary[who])}\n"
        agent.call("read", session_id="a", view="screen")
        tools = {tool.name for tool in agent.portal.call(agent.client.list_tools).tools}
        for tool in ("start_recording", "screenshot", "stop_recording"):
            if tool in tools:
                shown = agent.raw(tool, session_id="a", **({"format": "svg"} if tool == "screenshot" else {}))
                assert canary.found_in(shown.model_dump_json().encode()) == []
        if "run_process" in tools:
            secrets = {"env": {"API_KEY": canary["process"]}, "stdin": canary["stdin"]}
            assert agent.call("run_process", argv=["sh", "-c", "cat >/dev/null"], **secrets)["rc"] == 0
        places = dict(where_secrets_could_be(state_dir, agent))
        assert {name: found for name, data in places.items() if (found := canary.found_in(data))} == {}
    for path in state_dir.rglob("*"):
        if path.is_file():
            assert canary.found_in(path.read_bytes()) == [], path


def where_secrets_could_be(state_dir: Path, agent: Agent) -> Any:
    """All that other programs can see: command lines, environments of panes, what tmux keeps, what is on screens."""
    import subprocess

    import psutil

    from tests.conftest import TMUX

    def tmux(*words: str) -> bytes:
        argv = [TMUX, "-S", str(state_dir / "tmux.sock"), *words]
        return subprocess.run(argv, capture_output=True, check=False).stdout

    yield "ps", subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, check=True).stdout
    server = psutil.Process(int((state_dir / "tmux.pid").read_text()))
    for process in [server, *server.children(recursive=True)]:
        try:
            yield f"cmdline of {process.name()}", Path(f"/proc/{process.pid}/cmdline").read_bytes()
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
            name = f"environment of {process.name()} {process.pid}"
        except (OSError, psutil.Error):
            continue
        if b"TMUXMCP_SESSION=given\0" not in environment:  # it was given to this one
            yield name, environment
    for words in (["show-messages"], ["list-buffers"], ["show-environment", "-g"], ["show-options", "-s"]):
        yield " ".join(words), tmux(*words)
    yield "panes", tmux("list-panes", "-a", "-F", "#{pane_start_command} #{pane_title} #{pane_current_path}")
    for session in ("a", "given"):
        yield f"environment of {session}", tmux("show-environment", "-t", f"={session}")
        yield f"options of {session}", tmux("show-options", "-p", "-t", f"={session}:")
        yield f"screen of {session}", tmux("capture-pane", "-p", "-S", "-", "-t", f"={session}:")
    for resource in ("list_sessions", "health"):
        yield resource, agent.raw(resource).model_dump_json().encode()


def test_known_secrets_are_taken_out_of_the_audit(state_dir: Path):
    with Agent(state_dir, GITHUB_TOKEN="ghp-0123456789", **BASH) as agent:
        agent.run("true ghp-0123456789")
        agent.run("true ghp-01234\\\n56789")
        agent.call("create_session", program="true", args=["--token=given-secret"], env={"A_TOKEN": "given-secret"})
        agent.run("true given-secret")
    text = (state_dir / "audit.jsonl").read_text()
    assert "ghp-01234" not in text
    assert "given-secret" not in text
    assert [line.get("command") for line in lines(state_dir)][:2] == ["true [redacted]"] * 2
