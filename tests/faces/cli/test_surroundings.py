"""What `tmuxmcp doctor` says of the HTTP service, tokens, containers and clients."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.kit.agent import eventually
from tmuxmcp.config import Settings, load_settings
from tmuxmcp.faces.cli.doctor import check_sandbox, surroundings
from tmuxmcp.faces.cli.doctor.surroundings import (
    DoctorCheck,
    check_clients,
    check_container,
    check_http,
    check_tokens,
    container_kind,
)

SECRET = "0123456789abcdef0123456789abcdef"


def settings(**values: object) -> Settings:
    return load_settings(values, Path("/dev/null"))


@contextmanager
def taken() -> Iterator[str]:
    """An address that another program listens on and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


# ---- HTTP and tokens -----------------------------------------------------------------------------


def test_service_that_is_off_needs_nothing() -> None:
    assert check_http(settings()).message == "off"
    assert check_tokens(settings(), {}).ok


def test_address_that_is_free_or_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with taken() as where:
        monkeypatch.setattr(surroundings, "SERVICE_ANSWER_S", 0.1)
        check = check_http(settings(http=where))
    assert (check.ok, "another port" in str(check.fix)) == (False, True)
    assert "is free" in check_http(settings(http=where)).message


def test_own_service_is_known(tmp_path: Path, state_dir: Path) -> None:
    with taken() as where:
        pass
    command = [sys.executable, "-m", "tmuxmcp", "serve", "--http", where, "--no-token", "--state-dir", str(state_dir)]
    service = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
    try:
        eventually(lambda: "answers" in check_http(settings(http=where)).message, 20)
    finally:
        service.terminate()
        service.wait(20 * SLOW)


@pytest.mark.parametrize(
    ("values", "fix"),
    [
        ({"http": "nonsense"}, "Give HOST:PORT, such as 127.0.0.1:7433."),
        ({"http": "203.0.113.1:7433"}, "Set allowed_hosts to the names that clients use, each with its port."),
        ({"http": "no.such.host.invalid:7433"}, "Change http."),
        ({"http": "0.0.0.0:0"}, "Set allowed_hosts to the names that clients use, each with its port."),
    ],
)
def test_address_that_is_wrong(values: dict[str, str], fix: str) -> None:
    check = check_http(settings(**values))
    assert (check.ok, check.fix) == (False, fix)


OPEN = "; without a sandbox that keeps files apart, who may write can do what admin can"


def test_tokens_are_named_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"agent write {SECRET}\n")
    file.chmod(0o600)
    check = check_tokens(settings(token_file=str(file)), {"TMUXMCP_TOKEN": SECRET[::-1]})
    assert (check.ok, check.message) == (True, f"agent (read/write), default (admin/read/write){OPEN}")
    check = check_tokens(settings(token_file=str(file), sandbox="required"), {})
    assert check.message == "agent (read/write)"
    assert check_tokens(settings(), {"TMUXMCP_TOKEN": SECRET}).message == "default (admin/read/write)"
    file.chmod(0o644)
    check = check_tokens(settings(token_file=str(file)), {})
    assert (check.ok, check.fix) == (False, f"chmod 600 {file}")
    check = check_tokens(settings(), {"TMUXMCP_TOKEN": "guess"})
    assert not check.ok
    assert "guess" not in check.message.replace("guessed", "")
    assert not check_tokens(settings(http="0.0.0.0:7433"), {}).ok
    assert not check_tokens(settings(http="no.such.host.invalid:7433"), {}).ok


@pytest.mark.parametrize("http", ["7433", "127.0.0.1:7433", "localhost:7433", "[::1]:7433"])
def test_service_of_this_machine_alone_makes_its_token(tmp_path: Path, http: str) -> None:
    own, file = settings(http=http, state_dir=str(tmp_path)), tmp_path / "http_token"
    assert check_tokens(own, {}) == DoctorCheck("token", True, f"the service makes its own, in {file}")
    assert not file.exists()
    file.write_text(SECRET)
    file.chmod(0o600)
    assert check_tokens(own, {}) == DoctorCheck("token", True, f"its own, in {file}")
    file.chmod(0o644)
    assert check_tokens(own, {}).fix == f"chmod 600 {file}"


def test_tokens_that_no_sandbox_keeps_apart_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "own").mkdir()
    for file, ok in ((tmp_path / "tokens", False), (Path("/etc/tokens"), False), (tmp_path / "own" / "tokens", True)):
        check = check_sandbox("auto", [Path("/dev/null"), file])
        assert (check.ok, check.fix) == (ok, None if ok else "Move it into a directory of its own.")
    assert "sessions read and write all that you can" in check_sandbox("none", [tmp_path / "tokens"]).message


# ---- containers ------------------------------------------------------------------------------------


OVERLAY = "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/x"


@pytest.mark.parametrize(
    ("environ", "files", "kind"),
    [
        ({}, {}, ""),
        ({}, {"proc/1/environ": "PATH=/bin\0", "proc/1/cgroup": "0::/init.scope\n"}, ""),
        ({}, {"proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:9 / /a rw - overlay x rw\n"}, ""),
        ({"container": "podman"}, {}, "podman"),
        ({}, {"proc/1/environ": "PATH=/bin\0container=podman\0A=b\0"}, "podman"),
        ({}, {".dockerenv": ""}, "docker"),
        ({}, {"run/.containerenv": ""}, "podman"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, {}, "kubernetes"),
        ({}, {"proc/1/cgroup": "0::/../../kubepods-burstable.slice\n"}, "kubernetes"),
        ({}, {"proc/self/cgroup": "2:cpu:/docker/0123\n"}, "docker"),
        ({}, {"proc/self/mountinfo": OVERLAY}, "probably a container (its root is an overlay)"),
    ],
)
def test_signs_of_a_container(tmp_path: Path, environ: dict[str, str], files: dict[str, str], kind: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert container_kind(environ, tmp_path) == kind


def test_container_is_told_from_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "container_kind", lambda _: "")
    assert check_container(tmp_path).message == "no sign of one"
    monkeypatch.setattr(surroundings, "container_kind", lambda _: "docker")
    assert check_container(tmp_path).message.startswith("docker")
    assert "volume" in check_container(Path("/")).message


def test_zombies_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the process that inherits orphans and does not collect them; in a process of its own."""
    code = """
import ctypes, sys
from pathlib import Path
from tmuxmcp.faces.cli.doctor import surroundings
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
surroundings.container_kind = lambda _: "docker"
surroundings.SERVICE_ANSWER_S = 0.5
print(surroundings.check_container(Path("/")))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "stays as zombies" in said
    assert "--init" in said


# ---- clients -----------------------------------------------------------------------------------------


def install(home: Path, client: str, *options: str) -> Path:
    command = [sys.executable, "-m", "tmuxmcp", "install", client, "--no-start", "--scope", "user", "--json", *options]
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    return Path(json.loads(subprocess.run(command, env=env, capture_output=True, check=True).stdout)["path"])


def test_client_that_calls_us_is_not_looked_for_as_a_program(tmp_path: Path) -> None:
    install(tmp_path, "cursor", "--http", "http://127.0.0.1:9")
    assert check_clients(tmp_path, {}) == DoctorCheck("clients", True, "known to Cursor")


def test_client_that_does_not_trust_the_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rules = tmp_path / ".gemini" / "trustedFolders.json"
    for server in ((), ("--http", "http://127.0.0.1:9")):
        install(tmp_path, "gemini", *server)
        rules.unlink(missing_ok=True)
        said = f"known to Gemini CLI (not in {tmp_path}, which it does not trust: {rules})"
        assert check_clients(tmp_path, {}) == DoctorCheck("clients", True, said)
        rules.write_text(json.dumps({str(tmp_path): "TRUST_FOLDER"}))
        assert check_clients(tmp_path, {}).message == f"known to Gemini CLI (it trusts {tmp_path})"
        rules.write_text("[")
        assert "whether it trusts" in check_clients(tmp_path, {}).message


@pytest.mark.parametrize("client", ["claude-code", "codex", "opencode", "goose", "zed"])
def test_client_that_starts_us(tmp_path: Path, client: str) -> None:
    assert "none knows us" in check_clients(tmp_path, {}).message
    path = install(tmp_path, client)
    assert check_clients(tmp_path, {}).message.startswith("known to ")
    text = path.read_text()
    command = next(word for word in (str(Path(sys.executable).with_name("tmuxmcp")), sys.executable) if word in text)
    path.write_text(text.replace(command, "/gone/tmuxmcp"))
    check = check_clients(tmp_path, {})
    assert (check.ok, check.fix) == (False, f"`tmuxmcp install {client} --scope user`.")
    assert "'/gone/tmuxmcp' is not there" in check.message
    path.write_text("{[")
    assert not check_clients(tmp_path, {}).ok or client == "goose"  # YAML is not parsed, only searched for our line
