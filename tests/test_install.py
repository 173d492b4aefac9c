"""`tmuxmcp install`: the client's file, and that the client itself then reaches us."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests import forks
from tests.conftest import SLOW, end_server
from tmuxmcp.clients import CLIENTS

AGENTS = Path(os.environ.get("TMUXMCP_CLIENTS_DIR", "/var/tmp/tmuxmcp-clients")) / "node_modules" / ".bin"
SCOPES = [(client, scope) for client in CLIENTS for scope in CLIENTS[client].files]


class Person:
    """Somebody's home and project, and the command they give there."""

    def __init__(self, home: Path) -> None:
        self.home, self.project = home / "home", home / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm"}

    def __call__(self, *words: str, status: int = 0) -> str:
        done = forks.run(["install", *words], self.env, self.project, 60 * SLOW)
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == status, said
        return said

    def json(self, *words: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self(words[0], "--json", *words[1:]))
        return told


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def servers(path: Path, client: str, scope: str, project: Path) -> dict[str, Any]:
    text = path.read_text()
    table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    for key in CLIENTS[client].keys(scope, project):
        table = table.get(key, {})  # TOML has no empty table of tables
    return table


@pytest.mark.parametrize(("client", "scope"), SCOPES)
def test_entry_comes_and_goes(person: Person, client: str, scope: str) -> None:
    words = (client, "--scope", scope)
    tried = person.json(*words, "--dry-run")
    path = Path(tried["path"])
    assert (tried["changed"], path.exists()) == (True, False)
    assert path.is_relative_to(person.project if scope == "project" else person.home)
    assert person.json(*words)["backup"] is None
    assert servers(path, client, scope, person.project) == {"tmuxmcp": tried["entry"]}
    command = tried["entry"]["command"]
    assert os.path.isabs(command if isinstance(command, str) else command[0])
    assert person.json(*words)["changed"] is False
    removed = person.json(*words, "--remove")
    assert (removed["changed"], removed["entry"]) == (True, None)
    assert servers(path, client, scope, person.project) == {}
    assert person.json(*words, "--remove")["changed"] is False
    assert len(list(path.parent.glob(f"{path.name}.*.bak"))) == 1


def test_what_else_is_in_the_file_stays(person: Person) -> None:
    path = person.home / ".claude.json"
    before = {"other": [1, {"é": None}], "mcpServers": {"mine": {"command": "x"}}, "projects": {}}
    text = json.dumps(before, indent=4, ensure_ascii=False)
    path.write_text(text)
    path.chmod(0o600)
    backup = Path(person.json("claude-code", "--scope", "user")["backup"])
    after = json.loads(path.read_text())
    assert list(after["mcpServers"]) == ["mine", "tmuxmcp"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert backup.read_text() == text
    person("claude-code", "--scope", "user", "--remove")
    assert path.read_text() == text + "\n"


def test_comments_of_toml_stay(person: Person) -> None:
    path = person.home / ".codex" / "config.toml"
    path.parent.mkdir()
    text = '# mine\nmodel = "m"  # the best\n\n[mcp_servers.other]\ncommand = "x"\n'
    path.write_text(text)
    person("codex")
    assert path.read_text().startswith(text)
    assert tomllib.loads(path.read_text())["mcp_servers"]["tmuxmcp"]["args"][0] == "serve"
    person("codex", "--remove")
    assert path.read_text().rstrip("\n") == text.rstrip("\n")


def test_codex_waits_for_the_server_and_for_its_longest_wait(person: Person) -> None:
    entry = person.json("codex", "--dry-run")["entry"]
    assert (entry["required"], entry["startup_timeout_sec"], entry["tool_timeout_sec"]) == (True, 30, 60)
    longer = person.json("codex", "--dry-run", "--", "--max-wait-ms", "200000")["entry"]
    assert longer["tool_timeout_sec"] == 210


@pytest.mark.parametrize(
    ("words", "holds"),
    [((), "for you, in every directory"), (("--scope", "local"), "for you, in {} alone"),
     (("--scope", "project"), "for everybody, in {} alone")],
)  # fmt: skip
def test_where_an_entry_holds_is_told(person: Person, words: tuple[str, ...], holds: str) -> None:
    assert f"It holds {holds.format(person.project)}.\n" in person("claude-code", *words)
    assert "It holds" not in person("claude-code", *words, "--remove")


def test_linked_file_stays_a_link(person: Person) -> None:
    kept = person.home / "dotfiles.json"
    kept.write_text("{}")
    link = person.home / ".claude.json"
    link.symlink_to(kept)
    person("claude-code", "--scope", "user")
    assert link.is_symlink()
    assert "tmuxmcp" in kept.read_text()


@pytest.mark.parametrize("text", ["{", "// c\n{}", "[]", '{"mcpServers": 3}'])
def test_file_that_cannot_be_edited_is_left_alone(person: Person, text: str) -> None:
    path = person.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(text)
    said = person("cursor", status=2)
    assert said.startswith(f"tmuxmcp: INVALID_ARGUMENT: {path}")
    assert "Hint: " in said
    assert (path.read_text(), len(list(path.parent.iterdir()))) == (text, 1)


def test_wrong_words_are_told(person: Person) -> None:
    assert "Scopes: user" in person("claude-desktop", "--scope", "project", status=2)
    assert "nowhere" in person("nowhere", status=2)
    assert "--nonsense" in person("cursor", "--", "--nonsense", status=2)
    assert list(person.home.iterdir()) == []


def test_difference_is_shown(person: Person) -> None:
    assert '+        "serve"' in person("cursor", "--dry-run")
    person("cursor")
    assert person("cursor", "--dry-run") == ""
    assert "as it should be" in person("cursor")


@pytest.mark.anyio
async def test_what_was_installed_starts(person: Person, state_dir: Path) -> None:
    entry = person.json("cursor", "--name", "t", "--", "--state-dir", str(state_dir), "--program", "bash")["entry"]
    server = StdioServerParameters(command=entry["command"], args=entry["args"], env=person.env)
    async with Client(server) as client:
        ran = await client.call_tool("run", {"command": "echo $((6*7))"})
    assert ran.structured_content["output"] == "42\n"


# ---- the clients themselves --------------------------------------------------------------------

LISTS = {"claude-code": ("claude", "Connected"), "codex": ("codex", "enabled"), "gemini": ("gemini", "Connected"),
         "opencode": ("opencode", "connected")}  # fmt: skip


@pytest.fixture
def connected(person: Person, state_dir: Path) -> Iterator[Person]:
    person.env |= {"TMUXMCP_STATE_DIR": str(state_dir), "GEMINI_API_KEY": "none", "DISABLE_AUTOUPDATER": "1"}
    trusted = person.home / ".gemini" / "trustedFolders.json"
    trusted.parent.mkdir()
    trusted.write_text(json.dumps({str(person.project): "TRUST_FOLDER"}))
    yield person
    end_server(state_dir)


@pytest.mark.slow
@pytest.mark.parametrize("client", LISTS)
def test_real_client_finds_us(connected: Person, client: str) -> None:
    name, word = LISTS[client]
    program = shutil.which(name, path=f"{AGENTS}:{os.environ['PATH']}")
    if not program:
        pytest.skip(f"needs {name}: scripts/clients installs it")
    connected(client)
    command = [program, "mcp", "list"]
    done = subprocess.run(
        command, env=connected.env, cwd=connected.project, capture_output=True, text=True, timeout=60 * SLOW,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "tmuxmcp" in said, said
    assert word.lower() in said.lower(), said
