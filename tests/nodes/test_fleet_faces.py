"""What callers see of a fleet: MCP on stdio and HTTP, JSON-RPC, the command line."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.kit.agent import ToolFailed, an_agent, command_line, run_command_line
from tests.kit.service import TOKENS, Service, a_service
from tests.nodes.brokers import Brokers
from tmuxmcp.faces.cli.attached import TAKE_KNOWN_TYPE


def test_an_agent_has_many_machines_as_one(brokers: Brokers):
    with an_agent("--fleet", str(brokers.file), "bash") as agent:
        first = agent.call("run", command="cd /tmp; echo $$")
        assert first["output"].strip().isdecimal()
        again = agent.call("run", command="pwd; echo $$")
        assert (again["session_id"], again["output"]) == (first["session_id"], "/tmp\n" + first["output"])
        named = [agent.call("create_session", name="a", program="bash", placement={"node": n})["session_id"]
                 for n in ("n1", "n2")]  # fmt: skip
        assert named == ["a@n1", "a@n2"]
        for name in named:
            assert agent.call("run", command="echo hi", session_id=name)["output"] == "hi\n"
        listed = agent.call("list_sessions")
        assert ({*named, first["session_id"]} <= {each["session_id"] for each in listed["sessions"]}) is True
        assert (listed["missing"], listed["default_session_id"]) == ([], first["session_id"])
        with pytest.raises(ToolFailed) as missing:
            agent.call("run", command="true", session_id="a@n9")
        assert (missing.value.code, missing.value.error["details"]["node"]) == ("SESSION_NOT_FOUND", "n9")
        brokers.kill("n2")
        with pytest.raises(ToolFailed) as away:
            agent.call("run", command="true", session_id="a@n2")
        assert (away.value.code, away.value.error["retryable"]) == ("NODE_UNREACHABLE", True)
        assert agent.call("list_sessions")["missing"] == ["n2"]
        brokers.start_again("n2")
        assert agent.call("run", command="echo back", session_id="a@n2")["output"] == "back\n"
        for name in (*named, first["session_id"]):
            agent.call("destroy_session", session_id=name, force=True)


def test_a_gateway_serves_http(brokers: Brokers, state_dir: Path):
    with Service(state_dir, "--fleet", str(brokers.file)) as gateway:
        made = gateway.result("create_session", name="web", program="bash", placement={"labels": {"zone": "a"}})
        assert made["session_id"] == "web@n1"
        assert gateway.result("run", command="echo hi", session_id="web@n1")["output"] == "hi\n"
        mine = gateway.result("run", command="echo $$")
        theirs = gateway.result("run", "other", command="echo $$")
        assert mine["session_id"] != theirs["session_id"]
        assert gateway.rpc("run", "viewer", command="true")["error"]["data"]["code"] == "UNAUTHORIZED"
        seen = gateway.result("read", "viewer", view="screen", session_id="web@n1")
        assert "echo hi" in seen["content"]
        with gateway.http("") as client:
            assert client.get("/healthz").json()["status"] == "ok"
            assert "tmuxmcp" in client.get("/").text
        assert gateway.metric('tmuxmcp_sessions{mode="shell_prompt"}') >= 3
        # Each token's client can end what is its own.
        gateway.result("destroy_session", session_id="web@n1", force=True)
        gateway.result("destroy_session", session_id=mine["session_id"], force=True)
        gateway.result("destroy_session", "other", session_id=theirs["session_id"], force=True)


async def _updates(client, uri: str) -> str:
    found = await client.read_resource(uri)
    return found.contents[0].text


async def test_resources_are_read_where_they_are(brokers: Brokers, state_dir: Path):
    with Service(state_dir, "--fleet", str(brokers.file)) as gateway:
        gateway.result("create_session", name="res", program="bash", placement={"node": "n3"})
        gateway.result("run", command="echo shown", session_id="res@n3")
        async with gateway.mcp("legacy") as client:
            assert "shown" in await _updates(client, "tmux://sessions/res@n3/screen")
            commands = json.loads(await _updates(client, "tmux://sessions/res@n3/history"))["commands"]
            assert commands[-1]["text"] == "echo shown"
            recording = (await client.read_resource("tmux://sessions/res@n3/recording")).contents[0]
            head, *events = map(json.loads, recording.text.splitlines())
            assert (head["version"], "shown" in "".join(each[2] for each in events if each[1] == "o")) == (3, True)
            assert recording.meta["tmuxmcp/recording"]["cut"] is False
            listed = json.loads(await _updates(client, "tmux://sessions"))
            assert ("res@n3", []) in [(each["session_id"], listed["missing"]) for each in listed["sessions"]]
        gateway.result("destroy_session", session_id="res@n3", force=True)


def test_a_recording_is_refused_to_whom_the_machine_refuses_it(brokers: Brokers, state_dir: Path):
    with Service(state_dir, "--fleet", str(brokers.file)) as gateway:
        mine = gateway.result("run", command="echo mine")["session_id"]
        wrong = [{}, {"session_id": mine}, {"session_id": mine, "most_bytes": 0}, {"session_id": 1, "most_bytes": 9}]
        for asked in wrong:
            assert gateway.rpc("rpc.asciicast", **asked)["error"]["data"]["code"] == "INVALID_ARGUMENT"
        asked = {"session_id": mine, "most_bytes": 1 << 20}
        assert "mine" in gateway.result("rpc.asciicast", "viewer", **asked)["text"]
        gone = gateway.rpc("rpc.asciicast", session_id="gone@n1", most_bytes=1 << 20)["error"]["data"]
        assert (gone["code"], gone["details"]["session_id"]) == ("SESSION_NOT_FOUND", "gone@n1")
        node = mine.rpartition("@")[2]
        brokers.kill(node)
        away = gateway.rpc("rpc.asciicast", **asked)["error"]["data"]
        brokers.start_again(node)
        assert (away["code"], away["details"]["node"]) == ("NODE_UNREACHABLE", node)
        gateway.result("destroy_session", session_id=mine, force=True)


def test_an_export_is_made_on_the_sessions_machine(brokers: Brokers, state_dir: Path):
    with Service(state_dir, "--fleet", str(brokers.file), "--tools", "all") as gateway:
        gateway.result("create_session", name="film", program="bash", placement={"node": "n2"})
        gateway.result("run", session_id="film@n2", command="echo filmed")
        made = gateway.result("export_recording", session_id="film@n2", format="txt")
        assert (made["session_id"], "filmed" in Path(made["path"]).read_text()) == ("film@n2", True)
        assert Path(made["path"]).is_relative_to(brokers.services["n2"].state_dir)
        read = gateway.result("start_recording", session_id="film@n2")
        gateway.result("run", session_id="film@n2", command="echo the second")
        stopped = gateway.result("stop_recording", session_id="film@n2")
        assert (read["session_id"], "the second" in Path(stopped["path"]).read_text()) == ("film@n2", True)
        gateway.result("destroy_session", session_id="film@n2", force=True)


def test_callers_behind_a_token_can_do_no_more_than_it(brokers: Brokers):
    service = brokers.services["n1"]

    def ask(method: str, headers: dict[str, str], **params) -> httpx2.Response:
        with service.http("viewer", **headers) as client:
            return client.post("/rpc", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    refused = ask("run", {"tmuxmcp-caller": "a", "tmuxmcp-scopes": "read,write,admin"}, command="true")
    assert refused.json()["error"]["data"]["code"] == "UNAUTHORIZED"
    assert ask("list_sessions", {"tmuxmcp-caller": "a b"}).status_code == 400
    assert ask("list_sessions", {"tmuxmcp-client": "a/b"}).status_code == 400
    assert "result" in ask("list_sessions", {"tmuxmcp-caller": "a-1_B", "tmuxmcp-client": "c"}).json()


def test_the_command_line_reaches_all_machines(brokers: Brokers, state_dir: Path):
    (state_dir / "home").mkdir(exist_ok=True)

    def tmuxmcp(verb: str, *words: str, status: int = 0, **variables: str):
        return run_command_line(state_dir, verb, "--fleet", str(brokers.file), *words, status=status, **variables)

    assert tmuxmcp("new", "--name", "cli", "--node", "n2", "bash").stdout == "cli@n2\n"
    assert tmuxmcp("run", "cli@n2", "echo", "a  b").stdout == "a  b\n"
    tmuxmcp("run", "-s", "cli@n2", "exit_with() { return 7; }; exit_with", status=7)
    assert "typed" in tmuxmcp("send", "cli@n2", "echo typed", "--enter").stdout
    assert "typed" in tmuxmcp("read", "--view", "screen", "cli@n2").stdout
    assert "typed" in tmuxmcp("view", "cli@n2").stdout
    assert tmuxmcp("search", "cli@n2", "^a  b$").stdout.endswith(": a  b\n")
    assert "cli@n2" in tmuxmcp("list").stdout
    status = json.loads(tmuxmcp("fleet", "--json").stdout)
    assert [(each["name"], each["alive"]) for each in status["machines"]] == [("n1", True), ("n2", True), ("n3", True)]
    checks = {each["name"]: each for each in json.loads(tmuxmcp_doctor(state_dir, brokers))["checks"]}
    assert (checks["fleet"]["ok"], checks["fleet"]["message"]) == (True, "3 of 3 machines answer")
    assert "HOST" in tmuxmcp("attach", "cli@n2", status=1).stderr
    tmuxmcp("fleet", "drain", "n2")
    assert "drained" in tmuxmcp("fleet").stdout
    tmuxmcp("fleet", "undrain", "n2")
    tmuxmcp("fleet", "drain", "n9", status=2)
    without = run_command_line(state_dir, "read", "cli@n2", status=2)
    assert "--fleet" in without.stderr
    tmuxmcp("kill", "--force", "cli@n2")
    assert "cli@n2" not in tmuxmcp("list").stdout


def tmuxmcp_doctor(state_dir: Path, brokers: Brokers) -> str:
    argv, env = command_line(state_dir, "doctor", "--json", "--fleet", str(brokers.file))
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False).stdout


def test_what_works_on_a_machine_alone_is_run_there_by_ssh(brokers: Brokers, state_dir: Path, tmp_path: Path):
    (state_dir / "home").mkdir(exist_ok=True)
    brokers.file.write_text(brokers.file.read_text().replace('name = "n1"', 'name = "n1"\nssh = "me@there"'))
    ssh = tmp_path / "ssh"  # what ssh does with its words, on this machine
    ssh.write_text(f'#!/bin/sh\necho "$1 $2" >>{tmp_path}/hosts\nshift 2\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    ours = tmp_path / "tmuxmcp"
    ours.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tmuxmcp "$@"\n')
    ours.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    fleet = ("--fleet", str(brokers.file))
    try:
        run_command_line(state_dir, "new", *fleet, "--name", "far", "--node", "n1", "bash")
        run_command_line(state_dir, "run", *fleet, "far@n1", "echo logged")
        logged = run_command_line(state_dir, "log", *fleet, "far@n1", PATH=path)
        assert "logged" in logged.stdout
        listed = run_command_line(state_dir, "history", "far@n1", f"--fleet={brokers.file}", "--json", PATH=path)
        assert [each["text"] for each in json.loads(listed.stdout)["commands"]] == ["echo logged"]
        assert "logged" in run_command_line(state_dir, "log", *fleet, "far", PATH=path).stdout
        assert (tmp_path / "hosts").read_text() == "-- me@there\n" * 3
        nobody = run_command_line(state_dir, "log", *fleet, "gone@n1", status=3, PATH=path)
        assert "SESSION_NOT_FOUND" in nobody.stderr
        attach = json.loads(run_command_line(state_dir, "attach", *fleet, "--json", "far@n1").stdout)
        assert attach["argv"][:3] == ["ssh", "--", "me@there"]
        shell, option, line = shlex.split(attach["argv"][3])
        assert (shell, option) == ("sh", "-c")
        assert line.startswith(f"{TAKE_KNOWN_TYPE}; exec tmux -S ")
        run_command_line(state_dir, "kill", *fleet, "--force", "far@n1")
    finally:
        brokers.write()


@pytest.mark.parametrize(("term", "taken"), [("xterm-of-nobody", "xterm-256color"), ("xterm", "xterm")])
def test_a_machine_that_lacks_a_terminal_type_takes_another_for_it(term: str, taken: str):
    variables = {"PATH": os.environ["PATH"], "TERM": term}
    said = subprocess.run(["sh", "-c", f'{TAKE_KNOWN_TYPE}; sh -c "echo \\$TERM"'], env=variables, capture_output=True)
    assert (said.stdout, said.stderr) == (f"{taken}\n".encode(), b"")


def test_the_command_line_waits_on_where_a_machine_waits_no_longer(state_dir: Path, tmp_path: Path):
    (state_dir / "home").mkdir(exist_ok=True)
    with a_service("--max-wait-ms", "500") as service:
        (tmp_path / "token").touch(mode=0o600)
        (tmp_path / "token").write_text(TOKENS["agent"])
        file = tmp_path / "brokers.toml"
        file.write_text(f'[[brokers]]\nname = "n1"\nurl = "{service.url}"\ntoken_file = "token"\n')
        fleet = ("--fleet", str(file))
        run_command_line(state_dir, "new", *fleet, "--name", "slow", "bash")
        words = ("slow@n1", "echo first; sleep 1.5; echo late; (exit 4)")
        assert run_command_line(state_dir, "run", *fleet, *words, status=4).stdout == "first\nlate\n"
        run_command_line(state_dir, "run", *fleet, "--timeout", "1", "slow@n1", "sleep 600", status=124)
        run_command_line(state_dir, "send", *fleet, "slow@n1", "--key", "C-c")

        def long(verb: str, *words: str, status: int = 0) -> str:
            wait = ("--timeout", "1" if status else "30")
            return run_command_line(state_dir, verb, *fleet, "slow@n1", *wait, *words, status=status).stdout

        # The session's exit code is the command's only where nothing says that it may be another one.
        for each, status in (("exit 3", 3), ("trap 'exit 4' TERM; kill -TERM $$", 125)):
            run_command_line(state_dir, "new", *fleet, "--name", "ends", "bash")
            run_command_line(state_dir, "run", *fleet, "ends@n1", f"sleep 0.7; {each}", status=status)
            run_command_line(state_dir, "kill", *fleet, "--force", "ends@n1")

        asks = "echo begun; sleep 1.2; printf 'how ma'; sleep 1; read -p 'ny? ' x"
        sent = long("send", asks, "--enter", "--wait", "ready")
        assert sent.endswith("begun\nhow many? ")
        assert sent.count("begun") == 2  # as typed, and as printed
        long("read", "--wait", "command", status=124)
        long("send", "3", "--enter")
        run_command_line(state_dir, "send", *fleet, "slow@n1", asks, "--enter", "--wait", "none")
        assert "how many? " in long("read", "--pattern", "how many[?] $")  # in two parts, with a call's end in between
        long("send", "4", "--enter")
        run_command_line(state_dir, "send", *fleet, "slow@n1", "sleep 1.2; (exit 3)", "--enter", "--wait", "none")
        ended = json.loads(long("read", "--wait", "command", "--json"))
        assert ended["outcome"] == "command", ended
        assert (ended["command"]["exit_code"], ended["effective_timeout_ms"]) == (3, None)
