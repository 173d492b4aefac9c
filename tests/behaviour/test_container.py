"""The image, built and run by a real engine: what an agent and a person do with it, under the hardening flags."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from tests.conftest import SLOW
from tests.kit.agent import ANEW, Agent, eventually

ROOT = Path(__file__).parents[2]
PLACE = Path(os.environ.get("TMUXMCP_TEST_CONTAINER_DIR", "/var/tmp/tmuxmcp-container"))
BUILD_S = 600
HARDENING = [
    *("--read-only", "--tmpfs=/tmp", "--tmpfs=/home/agent:mode=0777", "--network=none"),
    *("--cap-drop=ALL", "--security-opt=no-new-privileges", "--memory=512m", "--pids-limit=200"),
]

pytestmark = pytest.mark.slow


class Engine:
    """A container engine that answers: docker, or podman as `scripts/container engine` sets it up."""

    def __init__(self) -> None:
        self.env = dict(os.environ)
        self.name = ""
        if shutil.which("docker") and not subprocess.run(["docker", "info"], capture_output=True).returncode:
            self.name = "docker"
        elif (PLACE / "ready").exists():
            for line in (PLACE / "env.sh").read_text().removeprefix("export ").split():
                key, _, value = line.partition("=")
                self.env[key] = value
            self.name = "podman"

    def __call__(self, *words: str, status: int | None = 0, timeout: float = 60, **kwargs: Any) -> str:
        done = subprocess.run(
            [self.name, *words], env=self.env, capture_output=True, text=True, timeout=timeout * SLOW, **kwargs
        )
        assert status is None or done.returncode == status, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout


@pytest.fixture(scope="module")
def engine() -> Engine:
    engine = Engine()
    if not engine.name:
        pytest.skip("no container engine answers; `scripts/container engine` sets one up")
    return engine


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    """The image, built from this checkout."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = "localhost/tmuxmcp:test"
    engine("build", "-q", "--build-arg", f"PYTHON={version}", "-t", name, str(ROOT), timeout=BUILD_S)
    return name


@pytest.fixture
def volume(engine: Engine) -> Iterator[str]:
    name = f"tmuxmcp-{uuid.uuid4().hex[:8]}"
    engine("volume", "create", name)
    yield name
    engine("volume", "rm", "-f", name)


class Contained(Agent):
    """An agent whose server is `run -i --rm IMAGE`, hardened."""

    def __init__(self, engine: Engine, image: str, volume: str, place: Path, *flags: str) -> None:
        self.engine, self.container = engine, f"tmuxmcp-{uuid.uuid4().hex[:8]}"
        super().__init__(place / self.container, start=ANEW)
        words = ["run", "-i", "--rm", "--name", self.container, *HARDENING, "-v", f"{volume}:/state", *flags, image]
        self._parameters = StdioServerParameters(command=engine.name, args=words, env=engine.env)
        self.state_dir = Path(self.container)  # how the process is found among ours

    def execute(self, *words: str) -> str:
        """Run something in the container, as its user."""
        return self.engine("exec", self.container, *words)


@pytest.fixture
def agent(engine: Engine, image: str, volume: str, tmp_path: Path) -> Iterator[Contained]:
    with Contained(engine, image, volume, tmp_path) as agent:
        yield agent


def test_image_holds_what_it_needs_and_no_build_tools(engine: Engine, image: str) -> None:
    wanted, unwanted = "tmux bash zsh vim less git ps tini", "gcc make pip pip3 hatchling"
    script = f"id -u; for name in {wanted} {unwanted}; do command -v $name >/dev/null && echo $name; done; true"
    lines = engine("run", "--rm", "--entrypoint", "sh", image, "-c", script).splitlines()
    assert lines == ["10001", *wanted.split()]


@pytest.mark.skipif("TMUXMCP_TEST_WORKBENCH" not in os.environ, reason="takes over a minute; scripts/container runs it")
def test_workbench_holds_what_programmers_expect(engine: Engine, image: str) -> None:
    """`image` has built the layers that both share."""
    name = "localhost/tmuxmcp:test-workbench"
    version = f"PYTHON={sys.version_info.major}.{sys.version_info.minor}"
    engine("build", "-q", "--target", "workbench", "--build-arg", version, "-t", name, str(ROOT), timeout=BUILD_S)
    program = '#include <stdio.h>\nint main(void) { puts("compiled"); }'
    work = f"cd /tmp && printf '%s' '{program}' > a.c && make -s a && ./a && echo '[1]' | jq -c . && rg -c put a.c"
    said = engine("run", "--rm", "--entrypoint", "sh", name, "-c", f"id -u; {work}; curl -V >&2 && ssh -V")
    assert said.split() == ["10001", "compiled", "[1]", "1"]


def test_agent_works_in_a_hardened_container(agent: Contained) -> None:
    assert agent.run("cd /work && export A=1; id -un")["output"] == "agent\n"
    again = agent.run('echo "$A $PWD"; exit_with() { return 3; }; exit_with')
    assert (again["output"], again["exit_code"], again["evidence"]) == ("1 /work\n", 3, "marks")
    assert agent.run("touch /etc/x")["exit_code"] == 1  # read-only
    assert agent.run("seq 100000 | tail -1")["output"] == "100000\n"
    # tini is process 1, so nothing stays as a zombie.
    assert agent.execute("cat", "/proc/1/comm") == "tini\n"


SECRETS = {name: f"canary-{name}" for name in ("TMUXMCP_TOKEN", "OPENAI_API_KEY", "DATABASE_URL", "SOME_WORD")}
GIVEN = [word for pair in SECRETS.items() for word in ("-e", "=".join(pair))]

SHOWN = """
for each in /proc/[0-9]*; do
    cat $each/environ $each/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -o 'can[a]ry.*' | sed "s|^|$(cat $each/comm) |"
done 2>/dev/null
for each in /proc/1/fd/*; do timeout 0.2 cat $each </dev/null; done 2>/dev/null | grep -a 'can[a]ry'
cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c ^PATH=
"""
"""Prints what shows one of the secrets, and then how many processes show their variables at all."""

USERS = [
    pytest.param([], id="the image's user"),
    pytest.param(["--user", "4321:8765"], id="any user"),
    pytest.param(["--user", "0:0"], id="root"),
]
"""Who the container runs as."""


@pytest.mark.parametrize("user", USERS)
def test_no_process_shows_the_containers_secrets(
    engine: Engine, image: str, volume: str, tmp_path: Path, user: list[str]
) -> None:
    """Neither process 1, nor the server, nor a person's terminal that was attached for long."""
    with Contained(engine, image, volume, tmp_path, *GIVEN, *user) as agent:
        agent.call("create_session", name="shared")
        for words in (["attach", "shared"], ["attach", "--take", "shared"], ["watch", "shared"], ["list", "--watch"]):
            engine("exec", "-dt", agent.container, "tmuxmcp", *words)
        begun = "pgrep -fc 'tmuxmcp (watch|list)|attach( -r)? -t'"
        eventually(lambda: int(agent.run(begun)["output"]) >= 4, 20)
        *shown, count = agent.run(SHOWN)["output"].splitlines()
        assert not shown
        assert int(count) >= 9
        assert agent.run("tr '\\0' '\\n' </proc/1/environ | grep -c ^PATH=")["output"] == "1\n"  # it can be read
        refused = agent.run("cat /proc/[0-9]*/environ 2>&1 >/dev/null | grep -c 'Permission denied'")["output"]
        # The server; and what `exec` started, from its first instant on.
        assert int(refused) == 3


@pytest.mark.parametrize("user", USERS)
def test_what_the_container_was_given_is_still_known(
    engine: Engine, image: str, volume: str, tmp_path: Path, user: list[str]
) -> None:
    flags = [*GIVEN, "-e", "TMUXMCP_ENV_ALLOW=OPENAI_API_KEY,SOME_WORD", "-e", "TMUXMCP_COLS=100"]
    with Contained(engine, image, volume, tmp_path, *flags, *user) as agent:
        assert agent.run("echo $OPENAI_API_KEY/$SOME_WORD/$DATABASE_URL")["output"] == (
            "canary-OPENAI_API_KEY/canary-SOME_WORD/\n"
        )
        assert agent.run("stty size")["output"] == "24 100\n"


def health_check() -> list[str]:
    """The words of the image's, as the engine starts them."""
    words = next(line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("    CMD ["))
    return list(json.loads(words.strip().removeprefix("CMD ")))


def test_what_the_engine_starts_is_not_looked_into(agent: Contained) -> None:
    """It is started with all that the container has: who may not read its program does not see its variables."""
    agent.run("true")
    assert agent.execute(*health_check()) == "ok\n"
    assert agent.execute(health_check()[0], "-i", "env") == ""
    for name in (health_check()[0], "unseen-python"):
        assert agent.run(f'program=$(command -v {name}) && test -x "$program" && cat "$program"')["exit_code"] == 1
    assert agent.execute("sh", "-c", 'head -1 "$(command -v tmuxmcp)"') == "#!/opt/tmuxmcp/bin/unseen-python\n"
    # What sessions and the server start goes by the usual one: it is looked at, to tell when a program is ready.
    told = agent.call("run_process", argv=["python", "-c", "import sys; print(sys.executable)"])
    assert told["stdout"] == "/opt/tmuxmcp/bin/python\n"


def test_a_volume_of_an_earlier_image_stays_in_use(engine: Engine, image: str, volume: str, tmp_path: Path) -> None:
    """There `/state` was the user's own."""
    earlier = "rm -f /state/tmux.sock; chown 10001 /state; chmod 700 /state"
    as_root = ["run", "--rm", "--user=0", "-v", f"{volume}:/state", "--entrypoint", "sh", image]
    engine(*as_root, "-c", earlier)
    with Contained(engine, image, volume, tmp_path) as agent:
        agent.run("true")
        assert agent.execute("tmux", "-N", "-S", "/state/tmux.sock", "display-message", "-p", "ok") == "ok\n"
        assert agent.execute(*health_check()) == "ok\n"
    assert engine(*as_root, "-c", "cd /state; ls -d [0-9]* sessions 2>/dev/null; true") == "sessions\n"


MOUNTS = [
    pytest.param(HARDENING, id="hardened"),
    pytest.param(["--network=none"], id="plain"),
    pytest.param([*HARDENING, "--tmpfs=/state"], id="state in memory"),
]


@pytest.mark.parametrize("flags", MOUNTS)
@pytest.mark.parametrize("owner", [0, 1000, 10001, 77777])
def test_a_project_is_written_as_its_owner(
    engine: Engine, image: str, volume: str, tmp_path: Path, owner: int, flags: list[str]
) -> None:
    """What a person types first: `-v PROJECT:/work --user "$(id -u):$(id -g)"`."""
    if os.geteuid():
        owner = os.geteuid()
    project = tmp_path / "project"
    project.mkdir(mode=0o755)
    os.chown(project, owner, -1 if os.geteuid() else owner)
    mounts = [] if "--tmpfs=/state" in flags else ["-v", f"{volume}:/state"]
    words = ["run", "--rm", *flags, *mounts, "-v", f"{project}:/work", "--user", f"{owner}:{owner}", image, "run"]
    said = engine(
        *words, "touch made && stat -c %u:%g made && cd && touch x && git config --global user.name me && pwd"
    )
    assert said == f"{owner}:{owner}\n/home/agent\n"
    assert (project / "made").stat().st_uid == owner
    if mounts:  # it is found again, also by another who works on the same volume
        again = [*words[:-1], "list", "--json"]
        assert json.loads(engine(*again))["count"] == 0
        engine(*[*again[:-4], "5555:5555", image, "run", "true"])


def test_kernel_tells_readiness_inside(agent: Contained) -> None:
    session = agent.call("create_session", name="v", program="vim", args=["-u", "NONE", "/tmp/text"], wait_ready=True)
    assert (session["ready"], session["mode"]) == (True, "editor")
    agent.call("send", session_id="v", text="ihello", keys=["Escape"])
    saved = agent.call("send", session_id="v", text=":wq", enter=True, wait_for="exit")
    assert saved["result"]["exit_code"] == 0
    assert agent.execute("cat", "/tmp/text") == "hello\n"
    asked = agent.run('read -rsp "Password: " secret; echo "${#secret}"')
    assert (asked["completed"], asked["mode"], asked["evidence"]) == (False, "password", "kernel")
    assert "6" in agent.call("send", text="secret", enter=True)["result"]["content"]


def test_person_attaches_with_exec(agent: Contained, engine: Engine) -> None:
    agent.call("create_session", name="shared", program="bash")
    pid, master = pty.fork()
    if pid == 0:
        os.environ.update(engine.env, TERM="xterm-256color")
        os.execvp(engine.name, [engine.name, "exec", "-it", agent.container, "tmuxmcp", "attach", "--take", "shared"])
    seen = bytearray()
    os.set_blocking(master, False)

    def shows(text: bytes) -> bool:
        with suppress(BlockingIOError):
            seen.extend(os.read(master, 65536))
        return text in seen

    try:
        agent.run("echo by-the-agent", session_id="shared")
        eventually(lambda: shows(b"by-the-agent"), 20)
        for byte in b"echo by-a-pers''on\r":  # one at a time, as a person types
            os.write(master, bytes([byte]))
            time.sleep(0.01)
        read = agent.call("read", session_id="shared", wait_for="pattern", pattern="^by-a-person", timeout_ms=20_000)
        assert read["outcome"] == "matched"
    finally:
        agent.execute("tmux", "-N", "-S", "/state/tmux.sock", "detach-client", "-s", "=shared")
        os.waitpid(pid, 0)
        os.close(master)


def test_restarted_container_has_the_history(engine: Engine, image: str, volume: str, tmp_path: Path) -> None:
    with Contained(engine, image, volume, tmp_path) as first:
        first.call("create_session", name="kept", program="bash")
        first.run("echo before the restart", session_id="kept")
    with Contained(engine, image, volume, tmp_path) as second:
        facts = second.call("get_session", session_id="kept")
        assert (facts["mode"], facts["exited"]) == ("lost", True)
        assert "before the restart" in second.call("read", session_id="kept", since=0)["content"]
        assert second.run("echo and after")["output"] == "and after\n"


def test_command_line_is_the_same_inside(engine: Engine, image: str, volume: str) -> None:
    words = ["run", "--rm", *HARDENING, "-v", f"{volume}:/state", image]
    assert json.loads(engine(*words, "list", "--json"))["count"] == 0
    engine(*words, "run", "exit_with() { return 7; }; exit_with", status=7)
    assert all(check["ok"] for check in json.loads(engine(*words, "doctor", "--json"))["checks"])


TOKEN = uuid.uuid4().hex
TOKENS_INSIDE = "/run/secrets/tokens"


@pytest.fixture
def service(engine: Engine, image: str, volume: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A broker for many, as compose.yaml starts it, with its file of tokens; gives its container and its address."""
    tokens, user = tmp_path / "tokens", os.geteuid() or 10001
    tokens.touch(mode=0o600)
    tokens.write_text(f"agent write sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
    os.chown(tokens, user, -1)
    name = f"tmuxmcp-{uuid.uuid4().hex[:8]}"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    flags = [flag for flag in HARDENING if not flag.startswith("--network")]
    settings = ["-e", f"TMUXMCP_ALLOWED_HOSTS={address}", "--user", f"{user}:{user}"]
    where = ["-p", f"{address}:7433", "-v", f"{volume}:/state", "-v", f"{tokens}:{TOKENS_INSIDE}:ro"]
    serve = ["serve", "--http", "0.0.0.0:7433", "--token-file", TOKENS_INSIDE]
    engine("run", "-d", "--name", name, *flags, *settings, *where, image, *serve)
    eventually(lambda: said(f"http://{address}/healthz"), 20)
    yield name, address
    engine("rm", "-f", name)


def user_of(engine: Engine, container: str) -> list[str]:
    return ["--user", engine("inspect", "-f", "{{.Config.User}}", container).strip()]


def said(url: str, body: object = None, **headers: str) -> Any:
    """The JSON that a service answers with; `None` while it does not."""
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def test_service_answers_with_a_token_and_a_watcher_sees_it(
    engine: Engine, image: str, volume: str, service: tuple[str, str]
) -> None:
    container, address = service
    call = {"jsonrpc": "2.0", "id": 1, "method": "run", "params": {"command": f"echo $((6*7)); cat {TOKENS_INSIDE}"}}
    headers = {"Content-Type": "application/json"}
    assert said(f"http://{address}/rpc", call, **headers) == 401
    answer = said(f"http://{address}/rpc", call, Authorization=f"Bearer {TOKEN}", **headers)
    output = answer["result"]["output"]
    assert output.startswith("42\nagent write sha256:")  # a session has the rights of the server
    assert said(f"http://{address}/rpc", call, Authorization=f"Bearer {output.split()[-1]}", **headers) == 401
    words = [
        "run",
        "--rm",
        *HARDENING,
        *user_of(engine, container),
        f"--pid=container:{container}",
        "-v",
        f"{volume}:/state",
        image,
    ]
    seen = json.loads(engine(*words, "list", "--json"))
    assert [each["session_id"] for each in seen["sessions"]] == [answer["result"]["session_id"]]
    begun = time.monotonic()
    engine("stop", "-t", "10", container)
    assert time.monotonic() - begun < 8 * SLOW
    # It ended by itself, in good order.
    assert engine("inspect", "-f", "{{.State.ExitCode}}", container) == "0\n"
