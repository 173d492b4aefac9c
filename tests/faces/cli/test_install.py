"""`tmuxmcp install`: the client's file, and that the client itself then reaches us."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.conftest import SLOW, end_server
from tests.kit.agent import eventually
from tests.kit.clients import NODE
from tests.kit.fixtures import of_file
from tests.kit.service import TOKENS, Service, a_service
from tmuxmcp.contract.errors import IoError
from tmuxmcp.faces.cli import main
from tmuxmcp.faces.cli.clients import CLIENTS
from tmuxmcp.faces.cli.clients import servers as servers_in
from tmuxmcp.faces.cli.install import try_command

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
        said = io.TextIOWrapper(io.BytesIO())
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
            patch.chdir(self.project)
            for name in os.environ:
                patch.delenv(name)
            for name, value in self.env.items():
                patch.setenv(name, value)
            ended = main(["install", *words])
        said.seek(0)
        text = said.read()
        assert ended == status, text
        return text

    def json(self, *words: str) -> dict[str, Any]:
        """Write, or say what would be written; the server is not tried."""
        told: dict[str, Any] = json.loads(self(words[0], "--json", "--no-start", *words[1:]))
        return told


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


@pytest.fixture
def trying(person: Person, state_dir: Path) -> Iterator[Person]:
    """Somebody whose server may start."""
    person.env["TMUXMCP_STATE_DIR"] = str(state_dir)
    yield person
    end_server(state_dir)


def servers(path: Path, client: str, scope: str, project: Path) -> dict[str, Any]:
    return servers_in(path.read_text(), path, CLIENTS[client].keys(scope, project))


@pytest.mark.parametrize(("client", "scope"), SCOPES)
def test_entry_comes_and_goes(person: Person, client: str, scope: str) -> None:
    words = (client, "--scope", scope)
    tried = person.json(*words, "--dry-run")
    path = Path(tried["path"])
    assert (tried["changed"], path.exists()) == (True, False)
    assert path.is_relative_to(person.project if scope == "project" else person.home)
    assert person.json(*words)["backup"] is None
    assert servers(path, client, scope, person.project) == {"tmuxmcp": tried["entry"]}
    command = tried["entry"].get("command") or tried["entry"]["cmd"]
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
    person("codex", "--no-start")
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
    assert f"It holds {holds.format(person.project)}.\n" in person("claude-code", "--no-start", *words)
    assert "It holds" not in person("claude-code", *words, "--remove")


@pytest.mark.parametrize(("client", "scope"), SCOPES)
def test_what_a_client_asks_first_is_told(person: Person, client: str, scope: str) -> None:
    asks = CLIENTS[client].asks.get(scope)  # type: ignore[call-overload]  # of the client's own scopes
    sentence = asks.format(name="term") if asks else None
    words = (client, "--scope", scope, "--name", "term")
    assert person.json(*words, "--dry-run")["asks"] == sentence
    for said in (person(*words, "--dry-run"), person(*words, "--no-start")):
        assert not sentence or f"  {sentence}\n" in said
    assert "asks" not in person.json(*words, "--remove")


@pytest.mark.parametrize(
    ("rules", "said"),
    [("{{}}", "is not trusted yet ({file}): no server starts there until you agree."),
     ('{{"{project}": "TRUST_FOLDER"}}', "is trusted ({file})."),
     ('{{"{project}": "DO_NOT_TRUST"}}',
      "is not trusted ({file}): no server starts there until `/permissions` in `gemini` changes it."),
     ("{{", "is trusted is not known: {file} cannot be read: ")],
)  # fmt: skip
def test_whether_the_folder_is_trusted_is_told(person: Person, rules: str, said: str) -> None:
    file = person.home / ".gemini" / "trustedFolders.json"
    file.parent.mkdir()
    file.write_text(before := rules.format(project=person.project))
    told = person("gemini", "--no-start")
    assert "It holds for you, in every directory that the client trusts.\n" in told
    assert f"{person.project} {said.format(file=file)}" in told
    assert file.read_text() == before


def test_linked_file_stays_a_link(person: Person) -> None:
    kept = person.home / "dotfiles.json"
    kept.write_text("{}")
    link = person.home / ".claude.json"
    link.symlink_to(kept)
    person("claude-code", "--scope", "user", "--no-start")
    assert link.is_symlink()
    assert "tmuxmcp" in kept.read_text()


@pytest.mark.parametrize("text", ["{", "// c\n{", "[]", '{"mcpServers": 3}'])
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


def test_difference_is_shown_and_nothing_done(person: Person) -> None:
    said = person("cursor", "--dry-run")
    assert '+        "serve"' in said
    assert f"It would try `{Path(sys.executable).with_name('tmuxmcp')} serve` in {person.project}.\n" in said
    assert list(person.home.iterdir()) == []
    person("cursor", "--no-start")
    again = person("cursor", "--dry-run")
    assert "as it should be" in again
    assert '"serve"' not in again
    assert "as it should be" in person("cursor", "--no-start")


def test_server_is_started_as_the_client_does(trying: Person, state_dir: Path) -> None:
    said = trying("claude-code")
    assert re.search(r"Tried `\S+ serve --results text` in \S+: tmuxmcp \S+ on tmux \S+ answers with \d+ tools\.", said)
    assert "Next: Start a new `claude`, and ask it to run `pwd` in a terminal session.\n" in said
    assert (state_dir / "tmux.sock").exists()  # it had the variable, as Claude Code hands it on


def test_server_gets_no_more_than_the_client_hands_on(trying: Person, state_dir: Path) -> None:
    trying.env["TMUXMCP_MAX_SESSIONS"] = "nonsense"
    assert "max_sessions" in trying("gemini", status=2)  # it would be started with that
    trying.env |= {"TMUXMCP_STATE_DIR": "/nowhere"}
    del trying.env["TMUXMCP_MAX_SESSIONS"]
    said = trying("codex", "--", "--state-dir", str(state_dir))
    assert "with HOME, LANG, PATH, TERM of the environment: tmuxmcp" in said


def test_server_that_cannot_work_is_told_and_nothing_written(trying: Person, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = trying("cursor", "--", "--state-dir", str(tmp_path / "file" / "state"), status=1)
    assert "The server starts, and cannot work: " in said
    assert "Nothing was changed." in said
    assert not (trying.home / ".cursor").exists()


def test_last_words_of_a_server_that_ends_at_once(tmp_path: Path) -> None:
    with pytest.raises(IoError, match=r"does not start: no luck\n?.*Nothing was changed\. Run it yourself"):
        try_command(["sh", "-c", "echo no luck >&2; exit 3"], os.environ, tmp_path)


async def test_what_was_installed_starts(person: Person, state_dir: Path) -> None:
    entry = person.json("cursor", "--name", "t", "--", "--state-dir", str(state_dir), "--program", "bash")["entry"]
    server = StdioServerParameters(command=entry["command"], args=entry["args"], env=person.env)
    async with Client(server) as client:
        ran = await client.call_tool("run", {"command": "echo $((6*7))"})
    assert ran.structured_content["output"] == "42\n"


# ---- settings with comments --------------------------------------------------------------------


def test_comments_of_zed_stay(person: Person) -> None:
    path = person.home / ".config" / "zed" / "settings.json"
    path.parent.mkdir(parents=True)
    table = '"context_servers": {\n    "mine": { "command": "x" },\n  },'
    text = f'// Zed settings\n{{\n  "theme": "One", // dark\n  {table}\n}}\n'
    path.write_text(text)
    told = person.json("zed")
    assert '"theme": "One", // dark\n' in path.read_text()
    assert list(servers(path, "zed", "user", person.project)) == ["tmuxmcp", "mine"]
    assert Path(told["backup"]).read_text() == text
    assert person.json("zed")["changed"] is False
    person("zed", "--remove")
    assert path.read_text() == text


GOOSE = """\
# mine
active_provider: anthropic
slash_commands:
- command: run-tests

extensions:
  # tools
  developer:
    type: builtin  # the best
    enabled: true
GOOSE_MODE: auto
"""


@pytest.mark.parametrize(
    "text", [GOOSE, GOOSE.partition("extensions")[0], "extensions: {}\nGOOSE_MODE: auto\n", "---\n# empty\n",
             GOOSE.replace("  developer:", "    developer:")],
)  # fmt: skip
def test_extensions_of_goose_come_and_go_as_one_line(person: Person, text: str) -> None:
    path = person.home / ".config" / "goose" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    entry = person.json("goose")["entry"]
    lines = path.read_text().splitlines()
    (ours,) = (line for line in lines if line.strip().startswith("tmuxmcp: "))
    assert json.loads(ours.partition(": ")[2]) == entry
    assert lines[lines.index(ours) - 1] == "extensions:"
    below = lines[lines.index("extensions:") + 1 :]
    indents = {len(line) - len(line.lstrip()) for line in below if re.match(r" +(tmuxmcp|developer):", line)}
    assert len(indents) == 1
    assert [line for line in lines if line != ours and line != "extensions:"] == [
        line for line in text.splitlines() if not line.startswith("extensions:")
    ]
    assert person.json("goose")["changed"] is False
    person("goose", "--remove")
    assert path.read_text().replace("extensions: {}\n", "") in (text, text.replace("extensions: {}\n", ""))


@pytest.mark.parametrize(
    "text", ["extensions:\n  tmuxmcp:\n    type: stdio\n", "extensions: {a: {}}\n", "- a\n", "{}\n",
             '"extensions":\n  a: 1\n', "a: |\n  x\n...\nb: 1\n"],
)  # fmt: skip
def test_yaml_of_another_shape_is_left_alone_and_the_entry_shown(person: Person, text: str) -> None:
    path = person.home / ".config" / "goose" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    said = person("goose", "--no-start", status=2)
    assert 'Hint: Add this to its servers yourself: {"tmuxmcp": {"name": "tmuxmcp", "enabled": true' in said
    assert (path.read_text(), len(list(path.parent.iterdir()))) == (text, 1)


# ---- over HTTP ---------------------------------------------------------------------------------

URL = "http://127.0.0.1:9/mcp"
BEARER = {"Authorization": "Bearer 6f1c-secret"}
AT_URL: dict[str, dict[str, Any]] = {
    "claude-code": {"type": "http", "url": URL, "headers": BEARER},
    "codex": {"url": URL, "http_headers": BEARER, "required": True, "startup_timeout_sec": 30, "tool_timeout_sec": 60},
    "cursor": {"url": URL, "headers": BEARER},
    "vscode": {"type": "http", "url": URL, "headers": BEARER},
    "gemini": {"httpUrl": URL, "headers": BEARER},
    "qwen-code": {"httpUrl": URL, "headers": BEARER},
    "goose": {"name": "tmuxmcp", "enabled": True, "type": "streamable_http", "uri": URL, "headers": BEARER, "envs": {},
              "env_keys": [], "timeout": 300},
    "opencode": {"type": "remote", "enabled": True, "oauth": False, "url": URL, "headers": BEARER},
    "windsurf": {"serverUrl": URL, "headers": BEARER},
    "zed": {"url": URL, "headers": BEARER},
}  # fmt: skip


@pytest.fixture
def token(person: Person) -> str:
    file = person.project / "token"
    file.write_text("# mine\nagent write 6f1c-secret\n")
    file.chmod(0o600)
    return str(file)


@pytest.mark.parametrize("client", CLIENTS)
def test_client_calls_a_server_at_a_url(person: Person, client: str, token: str) -> None:
    words = (client, "--http", "http://127.0.0.1:9", "--token-file", token)
    if client not in AT_URL:
        assert "has no servers at a URL" in person(*words, status=2)
        return
    path = CLIENTS[client].path("user", person.home, person.project, {})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o644)
    said = person(*words, "--dry-run")
    assert "Bearer TOKEN" in said
    told = person.json(*words)
    assert servers(path, client, "user", person.project) == {"tmuxmcp": AT_URL[client]}
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(Path(told["backup"]).stat().st_mode) == 0o600
    path.chmod(0o644)
    again = person(*words, "--no-start")
    assert "as it should be" in again
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    removed = person(*words[:1], "--remove", "--dry-run")
    assert "Bearer TOKEN" in removed
    assert "6f1c" not in said + json.dumps(told) + again + removed


def test_what_cannot_be_over_http_is_told(person: Person, token: str) -> None:
    assert "a project is shared" in person(
        "cursor", "--scope", "project", "--http", URL, "--token-file", token, status=2
    )
    assert "belongs to --http" in person("cursor", "--token-file", token, status=2)
    assert "at that URL" in person("cursor", "--http", URL, "--", "--max-sessions", "8", status=2)
    for wrong in ("127.0.0.1:9", "ftp://x/", "http://me:secret@x/"):
        assert "no address of a server" in person("cursor", "--http", wrong, status=2)
    Path(token).chmod(0o644)
    assert "chmod 600" in person("cursor", "--http", URL, "--token-file", token, status=4)
    path = person.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text("{")
    Path(token).chmod(0o600)
    said = person("cursor", "--http", URL, "--token-file", token, "--no-start", status=2)
    assert "Bearer TOKEN" in said
    assert "6f1c" not in said


def test_server_at_a_url_is_called(person: Person, token: str) -> None:
    assert "does not answer" in person("cursor", "--http", URL, "--token-file", token, status=1)
    with a_service() as service:
        own = str(service.state_dir / "own")
        Path(own).touch(mode=0o600)
        Path(own).write_text(f"{TOKENS['agent']}\n")
        said = person("gemini", "--http", service.url, "--token-file", own)
        assert re.search(rf"Tried {service.url}/mcp: tmuxmcp \S+ on tmux \S+ answers with \d+ tools\.", said)
        assert "does not take this token" in person("cursor", "--http", service.url, "--token-file", token, status=4)
        assert "asks for a token" in person("cursor", "--http", service.url, status=4)
        assert "holds 5 tokens" in person(
            "cursor", "--http", service.url, "--token-file", str(service.state_dir / "tokens"), status=2
        )
    assert not (person.home / ".cursor").exists()


# ---- the clients themselves --------------------------------------------------------------------

LISTS = {"claude-code": ("claude", "Connected"), "codex": ("codex", "enabled"), "gemini": ("gemini", "Connected"),
         "opencode": ("opencode", "connected"), "qwen-code": ("qwen", "Connected")}  # fmt: skip


def told_by(person: Person, client: str) -> str:
    """What a client says of its servers, without colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", listed_by(person, client))


@pytest.mark.slow
def test_gemini_starts_servers_where_we_say_that_it_does(untrusting: Person) -> None:
    file = untrusting.home / ".gemini" / "trustedFolders.json"
    untrusting("gemini", "--no-start")
    for rules, trust, shown in (
        ({}, "unasked", "Disabled"),
        ({str(untrusting.project.parent): "TRUST_FOLDER", str(untrusting.project): "DO_NOT_TRUST"}, "no", "Disabled"),
        ({str(untrusting.home): "TRUST_PARENT"}, "yes", "Connected"),
    ):
        file.write_text(json.dumps(rules))
        assert untrusting.json("gemini")["trust"] == {"trust": trust, "by": str(file)}
        wanted = re.compile(rf"tmuxmcp: .* - {shown}$", re.MULTILINE)
        # It gives a server five seconds, in which a busy machine may not have started it.
        eventually(lambda wanted=wanted: wanted.search(told_by(untrusting, "gemini")))


@pytest.mark.slow
@pytest.mark.parametrize("repository", [False, True])
def test_codex_reads_a_project_where_we_say_that_it_does(untrusting: Person, repository: bool) -> None:
    config = untrusting.home / ".codex" / "config.toml"
    config.parent.mkdir()
    if repository:
        subprocess.run(["git", "init", "-q", untrusting.project.parent], check=True)
    words = ("codex", "--scope", "project")
    assert untrusting.json(*words)["trust"]["trust"] == "unasked"
    assert "No MCP servers" in told_by(untrusting, "codex")
    config.write_text(f'[projects."{untrusting.project.parent}"]\ntrust_level = "trusted"\n')
    assert (untrusting.json(*words)["trust"]["trust"] == "yes") is repository
    assert ("enabled" in told_by(untrusting, "codex")) is repository


@pytest.mark.slow
@pytest.mark.parametrize("client", ["claude-code", "qwen-code"])
def test_server_of_a_project_waits_for_approval(untrusting: Person, client: str) -> None:
    untrusting(client, "--scope", "project", "--no-start")
    assert "Pending approval" in told_by(untrusting, client)


@pytest.fixture
def untrusting(person: Person, state_dir: Path) -> Iterator[Person]:
    """Somebody whose clients were not asked about any folder yet."""
    person.env |= {"TMUXMCP_STATE_DIR": str(state_dir), "GEMINI_API_KEY": "none", "DISABLE_AUTOUPDATER": "1"}
    (person.home / ".gemini").mkdir()
    yield person
    end_server(state_dir)


@pytest.fixture
def connected(untrusting: Person) -> Person:
    trusted = untrusting.home / ".gemini" / "trustedFolders.json"
    trusted.write_text(json.dumps({str(untrusting.project): "TRUST_FOLDER"}))
    return untrusting


def listed_by(person: Person, client: str) -> str:
    """What a client says of its servers; it connects to them for it."""
    name, _ = LISTS[client]
    program = shutil.which(name, path=f"{AGENTS}:{os.environ['PATH']}")
    if not program:
        pytest.skip(f"needs {name}: scripts/clients installs it")
    done = subprocess.run(
        [*([NODE] if client == "qwen-code" else []), program, "mcp", "list"],
        env=person.env, cwd=person.project, capture_output=True, text=True, timeout=60 * SLOW, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout + done.stderr


service = of_file(a_service)


@pytest.mark.slow
@pytest.mark.parametrize("client", LISTS)
def test_real_client_finds_us_and_a_server_at_a_url(connected: Person, client: str, service: Service) -> None:
    """All of them but Codex connect to what they list."""
    connected(client, "--no-start")
    own = connected.home / "token"
    own.touch(mode=0o600)
    own.write_text(f"{TOKENS['agent']}\n")
    connected(client, "--name", "far", "--http", service.url, "--token-file", str(own), "--no-start")
    said = ""

    def reached() -> bool:
        nonlocal said
        said = told_by(connected, client)
        print(said)
        return all(
            re.search(rf"^\W*{name}\b.*\b{LISTS[client][1]}\b", said, re.MULTILINE) for name in ("tmuxmcp", "far")
        )

    eventually(reached)  # some give a server five seconds, in which a busy machine may not have started it
    assert service.url in said
    assert TOKENS["agent"] not in said
