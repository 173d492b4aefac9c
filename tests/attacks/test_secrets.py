"""The secrets of a server: its variables, its memory, its tokens and settings are out of reach, and still of use."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.conftest import a_state_dir
from tests.kit.agent import ANEW, Agent, ToolFailed, eventually, refused
from tests.kit.service import SLOW, TOKEN_FILE, TOKENS, Service
from tmuxmcp.machine.sandbox import landlock
from tmuxmcp.machine.sandbox.sandbox import best

CANARIES = {
    name: f"canary-{number}-of-ours"
    for number, name in enumerate(
        (
            *("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "SENTRY_DSN", "MY_KEY"),
            *("DATABASE_URL", "SOME_WORD", "TMUXMCP_NO_SETTING", "TMUXMCP_TOKEN"),
        )
    )
}
"""Ten secrets; the names of two of them do not look like it, and two are in our own name."""

NAMED = {"NAMED_TOKEN": "canary-named-by-the-person", "TMUXMCP_ENV_ALLOW": "NAMED_TOKEN"}


def holds_canary(data: bytes | str) -> bool:
    return b"canary" in (data if isinstance(data, bytes) else data.encode())


def processes_of(pid: int, state_dir: Path) -> Iterator[psutil.Process]:
    """A server, its tmux server, and what both have started."""
    for each in (pid, int((state_dir / "tmux.pid").read_text())):
        yield from (top := psutil.Process(each), *top.children(recursive=True))


def shown(process: psutil.Process) -> bytes:
    """What the kernel shows of a process to others: its words and its variables."""
    said = b""
    for name in ("cmdline", "environ"):
        with suppress(OSError):  # it has ended
            said += Path(f"/proc/{process.pid}/{name}").read_bytes()
    return said


# ---- variables -----------------------------------------------------------------------------------


def test_no_process_of_a_server_on_stdio_shows_its_secrets(state_dir: Path) -> None:
    with Agent(state_dir, "--program", "bash", "--policy", "standard", start=ANEW, **CANARIES) as agent:
        assert agent.run("echo works")["output"] == "works\n"  # judged by the parser's process
        told = agent.call("run_process", argv=["sh", "-c", "cat /proc/$PPID/environ /proc/$PPID/cmdline; env"])
        assert "PATH=" in told["stdout"]  # of the supervisor, and of what it runs
        assert not holds_canary(told["stdout"])
        seen = {process.pid: shown(process) for process in processes_of(agent.server.pid, state_dir)}
        assert len(seen) >= 5  # server, parser, control client, tmux server, a session's launcher and its shell
        assert not [psutil.Process(pid).cmdline() for pid, said in seen.items() if holds_canary(said)]


def test_no_process_of_a_server_on_http_shows_its_secrets(state_dir: Path) -> None:
    with Service(state_dir, start=ANEW, **CANARIES) as service:
        ran = service.result("run", command=f"cat /proc/{service.process.pid}/environ | tr '\\0' '\\n'; env")
        assert "PATH=" in ran["output"]
        assert not holds_canary(ran["output"])
        seen = [shown(process) for process in processes_of(service.process.pid, state_dir)]
        assert len(seen) >= 4
        assert not any(map(holds_canary, seen))
        with service.http("") as client:  # the token that was in a variable is accepted
            head = {"Authorization": f"Bearer {CANARIES['TMUXMCP_TOKEN']}"}
            assert client.get("/metrics", headers=head).status_code == 200
            assert client.get("/metrics").status_code == 401


@pytest.mark.parametrize("words", [["list", "--watch"], ["serve"]])
def test_no_command_that_stays_shows_its_secrets(state_dir: Path, words: list[str]) -> None:
    """As of a person who looks at the sessions of a container, with all variables of that."""
    env = {"HOME": str(state_dir), "PATH": os.environ["PATH"], "TERM": "xterm", **CANARIES}
    argv = [sys.executable, "-m", "tmuxmcp", *words, "--state-dir", str(state_dir)]
    person, terminal = os.openpty()
    process = subprocess.Popen(argv, env=env, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    try:
        ours = psutil.Process(process.pid)
        eventually(lambda: b"PATH=" in shown(ours) and not holds_canary(shown(ours)))
    finally:
        process.kill()
        process.wait()
        os.close(person)


AS_PROCESS_1 = ["unshare", "--pid", "--fork", "--mount-proc"]

SHOWN_BY_PROCESS_1 = (
    "tr '\\0' '\\n' </proc/1/environ; cat /proc/1/fd/* </dev/null & sleep 0.3; kill $!; echo ${#GITHUB_TOKEN}"
)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root makes a process 1")
def test_process_1_hands_its_variables_on(state_dir: Path, tmp_path: Path) -> None:
    """As in a container, with the shell as its init (tests/behaviour/test_container.py has the real one)."""
    if subprocess.run([*AS_PROCESS_1, "true"], check=False, capture_output=True).returncode:
        pytest.skip("there are no new process ids here")
    init = tmp_path / "tini"
    init.write_text('#!/bin/sh\nshift 2\n"$@"\nexit $?\n')
    init.chmod(0o755)
    env = CANARIES | {"HOME": str(state_dir), "PATH": f"{tmp_path}:{os.environ['PATH']}", "TERM": "xterm"}
    env |= {"TMUXMCP_ENV_ALLOW": "GITHUB_TOKEN", "OPENED_WITH": "x" * 100_000}
    words = [*AS_PROCESS_1, sys.executable, "-m", "tmuxmcp", "run", SHOWN_BY_PROCESS_1, "--state-dir", str(state_dir)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60 * SLOW, check=True)
    assert "PATH=" in done.stdout
    assert not holds_canary(done.stdout)
    assert "OPENED_WITH" not in done.stdout
    assert done.stdout.endswith(f"{len(CANARIES['GITHUB_TOKEN'])}\n")


def test_secrets_of_processes_above_are_told(state_dir: Path) -> None:
    """They are not ours to hide, and sessions read them."""
    env = {"HOME": str(state_dir), "PATH": os.environ["PATH"], "SSH_AUTH_SOCK": "/tmp/agent", **CANARIES}
    serve = shlex.join([sys.executable, "-m", "tmuxmcp", "serve", "--state-dir", str(state_dir)])

    def said(*more: str) -> str:
        script = f"{serve} {shlex.join(more)} </dev/null; true"  # the shell stays
        return subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=True).stderr

    told = said()
    assert "OPENAI_API_KEY of process" in told
    assert "(sh)" in told
    assert "SSH_AUTH_SOCK" not in told
    assert not holds_canary(told)
    assert "of process" not in said("--sandbox", "auto")


def test_what_is_withheld_is_still_known(state_dir: Path) -> None:
    """A variable that the person has named reaches sessions, settings hold, and secrets are taken out of the audit."""
    variables = CANARIES | NAMED | {"TMUXMCP_MAX_SESSIONS": "2", "TMUXMCP_ENV": '{"OF_SETTINGS": "given"}'}
    with Agent(state_dir, "--program", "bash", **variables) as agent:
        assert agent.run("echo $NAMED_TOKEN $OF_SETTINGS $HOME")["output"] == (
            f"{NAMED['NAMED_TOKEN']} given {state_dir}/home\n"
        )
        told = agent.call("run_process", argv=["sh", "-c", "echo $NAMED_TOKEN $OF_SETTINGS"])
        assert told["stdout"] == f"{NAMED['NAMED_TOKEN']} given\n"
        agent.call("create_session")
        refused("MAX_SESSIONS", agent.call, "create_session")
        secret = CANARIES["GITHUB_TOKEN"]
        with pytest.raises(ToolFailed) as failed:
            agent.call("run_process", argv=["true", secret], cwd=f"/{secret}")
        assert "[redacted]" in str(failed.value)
        assert secret not in str(failed.value)
    audit = (state_dir / "audit.jsonl").read_text()
    assert "run_process" in audit
    assert secret not in audit


# ---- memory and descriptors ----------------------------------------------------------------------

UNPRIVILEGED = """
import os, sys
words = [sys.executable, "-m", "tmuxmcp", *sys.argv[1:]]
os.execvp("setpriv", ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--", *words])
"""
"""Starts a server with the user's rights alone: root's capabilities let it look into every process."""


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv")
def test_nobody_looks_into_a_server(state_dir: Path) -> None:
    """Not even a program of its own user outside of every sandbox, unless it has root's capabilities."""
    start = ("-c", UNPRIVILEGED) if os.geteuid() == 0 else ("-m", "tmuxmcp")
    with Agent(state_dir, "--program", "bash", "--tools", "all", start=start, **CANARIES) as agent:
        pid = agent.server.pid
        for name in ("environ", "mem", "maps", "auxv", "fd/0", "syscall"):
            ran = agent.run(f"head -c 1 /proc/{pid}/{name}")
            assert ran["exit_code"] == 1, name
            assert "denied" in ran["output"] or "not permitted" in ran["output"], name

        # All that the server itself reaches by way of /proc still works.
        long = "x" * 20_000
        assert agent.run(f"printf %s {long} | wc -c")["output"].strip() == "20000"
        assert agent.run("wc -c", stdin=long)["output"].strip() == "20000"
        assert agent.call("run_process", argv=["wc", "-c"], stdin=long)["stdout"].strip() == "20000"
        agent.call("write_file", path=f"{state_dir}/home/made", data="text\n")
        assert agent.call("read_file", path=f"{state_dir}/home/made")["data"] == "text\n"
        sent = agent.call("send", text="cat", enter=True, read="screen", wait_for="ready")
        assert (sent["result"]["outcome"], sent["result"]["evidence"]) == ("ready", "kernel")


# ---- tokens and settings -------------------------------------------------------------------------

LEVELS = [
    pytest.param("bubblewrap", marks=pytest.mark.skipif(best() != "bubblewrap", reason="bubblewrap does not run here")),
    pytest.param("landlock", marks=pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")),
]

WITHOUT_BUBBLEWRAP = """
import sys
from tmuxmcp.machine.sandbox import bubblewrap
bubblewrap.find = lambda: None
from tmuxmcp.__main__ import main
sys.exit(main())
"""
"""Starts a server as on a machine that has no bubblewrap."""


@dataclass
class Sealed:
    """A service with a sandbox that is required, and where its secrets lie."""

    service: Service
    project: Path
    kept: list[Path]
    """Files that hold a canary."""

    def run(self, command: str) -> str:
        return str(self.service.result("run", command=command)["output"])


@pytest.fixture(scope="module", params=LEVELS)
def sealed(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Sealed]:
    """One that does not change; `sealed_in` says where what lies."""
    with a_state_dir() as state_dir, sealed_in(state_dir, tmp_path_factory.mktemp("sealed"), request.param) as sealed:
        yield sealed


@contextmanager
def sealed_in(state_dir: Path, tmp_path: Path, level: str) -> Iterator[Sealed]:
    """Its tokens and settings lie in directories of their own, and in the state directory; one is reached by a link."""
    shown, project = tmp_path / "shown", tmp_path / "project"
    settings, tokens, linked = (shown / name for name in ("settings", "tokens", "linked"))
    for directory in (shown, project, settings, tokens, linked):
        directory.mkdir()
    (shown / "file").write_text("shown\n")  # what lies beside them can be seen within
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    kept = [settings / "config.toml", tokens / "real", state_dir / "canary", secrets / "value"]
    kept[0].write_text("# canary-of-settings\nmax_sessions = 9\n")
    kept[1].write_text(f"# canary-of-tokens\n{TOKEN_FILE}")
    kept[2].write_text("canary-of-state")
    kept[3].write_text("canary-of-secrets")
    for path in (*kept, project):
        path.chmod(0o700)
    (linked / "tokens").symlink_to(kept[1])
    best = level == "bubblewrap"
    start = ("-m", "tmuxmcp") if best else ("-c", WITHOUT_BUBBLEWRAP)
    words = [
        "--sandbox",
        "required" if best else "auto",
        "--sandbox-roots",
        str(project),
        "--cwd",
        str(project),
        "--tools",
        "all",
    ]
    words += ["--sandbox-write", str(shown)]
    words += ["--config", str(kept[0]), "--token-file", str(linked / "tokens")]
    words += ["--secrets", json.dumps({"db": {"source": f"file:{kept[3]}"}})]
    with Service(state_dir, *words, start=start, **CANARIES) as service:
        sealed = Sealed(service, project, [*kept, linked / "tokens"])
        sealed.run("true")
        assert sealed.service.result("get_session")["sandbox"] == level
        yield sealed


def test_a_sandbox_keeps_tokens_settings_and_the_server_apart(sealed: Sealed) -> None:
    pid = sealed.service.process.pid
    ways = [*map(str, sealed.kept), *(f"/proc/{pid}/{name}" for name in ("environ", "mem", "fd/0", "root/etc/passwd"))]
    ways += [f"/proc/{pid}/cwd/../../{path.name}" for path in sealed.kept]
    for path in ways:
        assert sealed.run(f"cat {path} >/dev/null && echo was read").strip() != "was read", path
    for path in sealed.kept[:2]:  # written anew, as editors do: another file by the same name
        beside = path.with_name("beside")
        beside.write_text(path.read_text())
        beside.chmod(0o600)
        beside.rename(path)
        assert not holds_canary(sealed.run(f"cat {path} {path.parent}/*")), path
    assert not holds_canary(sealed.run(f"cat /proc/[0-9]*/environ /proc/{pid}/cmdline 2>/dev/null"))
    assert sealed.run(f"echo x >made && cat made {sealed.project.parent}/shown/file").endswith("x\nshown\n")
    assert (sealed.project / "made").read_text() == "x\n"


def test_with_a_sandbox_a_write_token_does_not_become_admin(sealed: Sealed) -> None:
    """By no tool: those that act outside are refused, and what the others answer holds no token."""
    service, tokens = sealed.service, str(sealed.kept[1])
    for method, arguments in (
        ("run_process", {"argv": ["cat", tokens]}),
        ("read_file", {"path": tokens}),
        ("list_directory", {"path": str(sealed.kept[1].parent)}),
        ("write_file", {"path": tokens, "data": "boss admin mine-0123456789abcdef"}),
        ("create_session", {"program": "cat", "args": [tokens], "sandbox": "none", "name": "cat"}),
        ("create_session", {"cwd": str(sealed.kept[1].parent), "name": "there"}),
        ("run", {"command": f"cat {tokens}; cat < {tokens}; cp {tokens} made", "adopt": "no"}),
        ("send", {"text": f"exec cat {tokens}", "enter": True}),
        ("read", {"session_id": "cat"}),
        ("read", {}),
        ("search", {"pattern": "boss"}),
        ("list_sessions", {}),
        ("list_commands", {}),
        ("health", {}),
    ):
        answer = json.dumps(service.rpc(method, **arguments))
        assert TOKENS["boss"] not in answer, method
        assert "canary-of-tokens" not in answer, method
    assert sealed.kept[1].read_text().endswith(TOKEN_FILE)
    assert service.rpc("health", token="boss")["result"]  # the token itself is of use


def test_tokens_that_no_sandbox_can_keep_apart_end_the_start(state_dir: Path) -> None:
    (state_dir / "home").mkdir(mode=0o700)
    tokens = state_dir / "home" / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(TOKEN_FILE)
    words = ["serve", "--state-dir", str(state_dir), "--http", "127.0.0.1:0", "--token-file", str(tokens)]
    environment = {"HOME": str(state_dir / "home"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "tmuxmcp", *words, "--sandbox", "auto"],
        env=environment,
        cwd=state_dir,
        capture_output=True,
        text=True,
        timeout=60 * SLOW,
    )
    assert done.returncode == 2
    assert "cannot be kept from a sandbox" in done.stderr
