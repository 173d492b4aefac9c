"""Agents with our server, offline: a scripted model, and what it was shown.

`tmuxmcp install` writes the configuration, as a person would have it written.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.agents.model import Model, Step, served
from tests.conftest import SLOW, end_server
from tests.kit import forks
from tests.kit.clients import NODE, program
from tests.kit.service import TOKENS, a_service
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.settings import DEFAULT_SETTINGS
from tmuxmcp.faces.cli import main
from tmuxmcp.faces.mcp import select

pytestmark = pytest.mark.slow


class Person:
    """Somebody with an agent: a home, a project, and a state directory for the sessions."""

    def __init__(self, home: Path, state_dir: Path) -> None:
        self.home, self.project, self.state_dir = home / "home", home / "project", state_dir
        self.at_url: tuple[str, ...] = ()
        """Options of `tmuxmcp install` that name a server; empty: the agent starts one."""
        self.home.mkdir()
        self.project.mkdir()
        self.env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm",
                    "NO_PROXY": "127.0.0.1"}  # fmt: skip

    def install(self, client: str, scope: str) -> None:
        """Have the client's own file name our server, which finds out what that client shows.

        What it names runs the server as a fork; tests/faces/cli/test_install.py has clients start it as it is
        installed.
        """
        options = self.at_url or ("--", "--state-dir", str(self.state_dir), "--program", "bash", "--results", "auto")
        words = ["install", client, "--no-start", "--scope", scope, *options]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.project)
            patch.setenv("HOME", str(self.home))
            patch.setattr(sys, "executable", str(forks.command(self.home).with_name("python")))
            assert main(words) == 0

    def go(self, *command: str | Path, **variables: str) -> str:
        """Run the agent to its end; give what it printed."""
        done = subprocess.run(
            command, env=self.env | variables, cwd=self.project, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=90 * SLOW,
        )  # fmt: skip
        said = (done.stdout + done.stderr)[-3000:]
        assert done.returncode == 0, said
        return said

    def kill_server(self) -> None:
        """End the server as a crash does; the client is left as it is."""
        killed = 0
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            is_its_way_to_tmux = "-C" in words and any(str(self.state_dir) in word for word in words)
            if is_its_way_to_tmux and (server := process.parent()):
                server.kill()
                killed += 1
        assert killed == 1


@pytest.fixture
def person(tmp_path: Path, state_dir: Path) -> Iterator[Person]:
    yield Person(tmp_path, state_dir)
    end_server(state_dir)


def with_claude(person: Person, *steps: Step) -> Model:
    """Claude Code through one conversation."""
    agent = program("claude")
    person.install("claude-code", "project")
    with served(*steps) as model:
        said = person.go(
            agent, "-p", "go", "--allowedTools", "mcp__tmuxmcp", "--strict-mcp-config", "--mcp-config", ".mcp.json",
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{model.port}", ANTHROPIC_API_KEY="none", ENABLE_TOOL_SEARCH="false",
            DISABLE_AUTOUPDATER="1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            MCP_TIMEOUT=str(int(60_000 * SLOW)),
        )  # fmt: skip
    assert model.requests, f"it asked the model nothing: {said}"
    return model


def with_codex(person: Person, *steps: Step) -> Model:
    """Codex through one conversation."""
    agent = program("codex")
    person.install("codex", "user")
    with served(*steps) as model:
        provider = {"name": "mock", "base_url": f"http://127.0.0.1:{model.port}/v1", "wire_api": "responses"}
        settings = {
            "model": "mock",
            "model_provider": "mock",
            "approval_policy": "never",
            "sandbox_mode": "danger-full-access",
            "mcp_servers.tmuxmcp.required": True,
            **{f"model_providers.mock.{name}": value for name, value in provider.items()},
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={json.dumps(value)}")]
        person.go(agent, "exec", "--skip-git-repo-check", *words, "go")
    return model


def with_opencode(person: Person, *steps: Step) -> Model:
    """opencode through one conversation."""
    agent = program("opencode")
    with served(*steps) as model:
        options = {"baseURL": f"http://127.0.0.1:{model.port}/v1", "apiKey": "none"}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "Mock", "options": options, "models": {"mock": {}}}
        (person.project / "opencode.json").write_text(
            json.dumps({"provider": {"mock": provider}, "model": "mock/mock", "small_model": "mock/mock"})
        )
        person.install("opencode", "project")
        person.go(agent, "run", "go", OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_AUTOUPDATE="1")
    return model


def with_gemini(person: Person, *steps: Step) -> Model:
    """Gemini CLI through one conversation."""
    agent = program("gemini")
    folder = person.home / ".gemini"
    folder.mkdir(exist_ok=True)
    (folder / "trustedFolders.json").write_text(json.dumps({str(person.project): "TRUST_FOLDER"}))
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": False}}
    (folder / "settings.json").write_text(json.dumps(settings | {"privacy": {"usageStatisticsEnabled": False}}))
    person.install("gemini", "user")
    with served(*steps) as model:
        person.go(
            NODE, agent, "-p", "go", "-y", "-m", "gemini-2.5-flash", GEMINI_API_KEY="none",
            GOOGLE_GEMINI_BASE_URL=f"http://127.0.0.1:{model.port}",
        )  # fmt: skip
    return model


def with_qwen(person: Person, *steps: Step) -> Model:
    """Qwen Code through one conversation."""
    agent = program("qwen")
    folder = person.home / ".qwen"
    folder.mkdir(exist_ok=True)
    # It would list the names of the tools alone; what it has from the server then is what it would find.
    (folder / "settings.json").write_text(json.dumps({"tools": {"toolSearch": {"enabled": False}}}))
    person.install("qwen-code", "user")
    with served(*steps) as model:
        person.go(
            NODE, agent, "go", "-y", "--auth-type", "openai", "--openai-api-key", "none", "-m", "mock",
            "--openai-base-url", f"http://127.0.0.1:{model.port}/v1",
        )  # fmt: skip
    return model


AGENTS = {"claude": with_claude, "codex": with_codex}
OTHERS = {"opencode": with_opencode, "gemini": with_gemini, "qwen": with_qwen}


PROGRAM = "int main(void) { return answer(); }"
FIXED = "int answer(void) { return 42; } int main(void) { return answer() != 42; }"
ASK = "read -rsp 'Password: ' secret; echo; echo ${#secret} letters"


COMMAND = "printf '%s\\n' '\"a\"' 'b\\c' 'é 界'"


def check_texts_and_tools(model: Model, ran: str, failed: str) -> None:
    """The model was shown each text once, as that of COMMAND and of a call in vain, and all tools."""
    assert ran.count('"a"\nb\\c\né 界\n') == 1  # as the terminal has it, not as a string in JSON
    assert ran.count("é 界") == 1
    assert "exit_code=0" in ran
    assert "SESSION_NOT_FOUND: " in failed
    assert set(select(["core", "process", "human"])) <= set(model.tools), model.tools
    for name, tool in model.tools.items():
        if name in OPERATIONS:
            assert tool["description"].startswith(OPERATIONS[name].description[:60])
            offered = OPERATIONS[name].schema(DEFAULT_SETTINGS, whole=False)["properties"]
            assert set(offered) <= set(tool["schema"].get("properties", {})), name  # Gemini CLI adds one of its own


@pytest.mark.parametrize("agent", OTHERS)
def test_model_is_shown_each_text_once_and_all_tools(person: Person, agent: str) -> None:
    model = OTHERS[agent](person, ("run", {"command": COMMAND}), ("run", {"session_id": "no", "command": "x"}))
    (_, ran), (_, failed) = model.shown
    check_texts_and_tools(model, ran, failed)


@pytest.mark.parametrize("agent", AGENTS)
def test_days_of_work(agent: str, person: Person) -> None:
    """A build that fails and is mended, vim, a password; the next days go on there, also past a killed server."""
    source = person.project / "a.c"
    source.write_text(PROGRAM + "\n")
    build = {"command": "cc -Werror=implicit-function-declaration -o a a.c && ./a && echo it works"}
    one: dict[str, Any] = {"session_id": "one"}
    where = one | {"command": "echo $PWD in $SEASON"}
    first = AGENTS[agent](
        person,
        ("create_session", {"name": "one", "cwd": str(person.project)}),
        ("run", {"command": COMMAND}),
        ("run", one | build),
        ("send", one | {"text": "vim -u NONE a.c", "enter": True, "wait_for": "idle"}),
        ("send", one | {"text": f":%s/.*/{FIXED}/", "enter": True, "wait_for": "idle"}),
        ("read", one | {"view": "screen"}),
        ("send", one | {"text": ":wq", "enter": True}),
        ("run", one | build),
        ("run", one | {"command": ASK}),
        ("send", one | {"key": "C-c"}),
        ("run", {"session_id": "nowhere", "command": "true"}),
        ("run", one | {"command": "cd /usr; export SEASON=autumn"}),
    )
    texts = [text for _, text in first.shown]
    assert len(texts) == 12, texts
    assert "one" in texts[0]
    check_texts_and_tools(first, texts[1], texts[10])
    assert "error:" in texts[2]
    assert "exit_code=1" in texts[2]
    assert "mode=editor" in texts[3], texts[3]
    assert FIXED in texts[5]
    assert "it works\n" in texts[7]
    assert "mode=password" in texts[8]
    assert "mode=shell_prompt" in texts[9]
    assert "Hint: " in texts[10]
    assert "cwd=/usr" in texts[11]
    assert source.read_text() == FIXED + "\n"

    def killed() -> tuple[str, dict[str, Any]]:
        person.kill_server()
        return "run", one | {"command": "echo again $SEASON"}

    second = AGENTS[agent](person, ("run", where), ("search", one | {"pattern": "^/usr in autumn"}), killed)
    texts = [text for _, text in second.shown]
    assert "/usr in autumn\n" in texts[0]
    assert "total=1" in texts[1]
    # The call fails, or the agent starts the server anew; in no client it looks as if the command had failed.
    assert re.search("closed|again autumn", texts[2])
    third = AGENTS[agent](person, ("run", where), ("destroy_session", one))
    texts = [text for _, text in third.shown]
    assert "/usr in autumn\n" in texts[0]
    assert "destroyed" in texts[1]


def test_codex_calls_a_server_at_a_url(person: Person) -> None:
    """Its own list of servers does not connect to them."""
    program("codex")
    with a_service() as service:
        token = person.home / "token"
        token.touch(mode=0o600)
        token.write_text(TOKENS["agent"])
        person.at_url = ("--http", service.url, "--token-file", str(token))
        model = with_codex(person, ("run", {"command": "echo $((6*7))"}))
    assert "42\n" in model.shown[0][1]
    assert "exit_code=0" in model.shown[0][1]
