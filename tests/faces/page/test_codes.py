"""Who gets to the page: codes, tokens, headers; a real server and a real browser."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from tests.conftest import SLOW, end_server
from tests.kit import browser, forks
from tests.kit.service import Service, bearer
from tests.kit.visits import a_code, enter, let_in
from tmuxmcp.faces.page import codes


def cli(state_dir: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(state_dir / "home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"} | variables
    words = ("page", "--state-dir", str(state_dir), *words)
    done = forks.run(words, environment, Path.cwd(), 30 * SLOW)
    out, err = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(words, done.returncode, out, err)


def test_a_code_is_good_once(service: Service, state_dir: Path):
    code = a_code(service, state_dir)
    assert enter(service, code).status_code == 200
    again = enter(service, code)
    assert (again.status_code, again.json()["error"]["code"]) == (401, "UNAUTHORIZED")


def test_a_code_is_good_for_a_minute(service: Service, state_dir: Path):
    code = a_code(service, state_dir)
    (file,) = (state_dir / "page" / "codes").iterdir()
    os.utime(file, (time.time() - codes.CODE_S - 1,) * 2)
    assert enter(service, code).status_code == 401


@pytest.mark.parametrize("code", ["", "x" * 43, "../../tokens", "\0", "é" * 43])
def test_what_is_no_code_is_refused(service: Service, code: str):
    assert enter(service, code).status_code == 401


def test_a_code_is_for_one_port(service: Service, state_dir: Path):
    assert enter(service, codes.make_code(state_dir, service.port + 1)).status_code == 401
    token = codes.AccessSecrets(state_dir, service.port + 1).enter(codes.make_code(state_dir, service.port + 1)).token
    assert leave(service, {"Authorization": f"Bearer {token}"}) == 401


def leave(service: Service, headers: dict[str, str]) -> int:
    return httpx2.post(f"{service.url}/page/leave", json={}, headers=headers, timeout=20 * SLOW).status_code


def test_only_digests_are_kept(service: Service, state_dir: Path):
    code = a_code(service, state_dir)
    token = enter(service, code).json()["token"]
    kept = [file for file in (state_dir / "page").rglob("*") if file.is_file()]
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in kept)
    said = " ".join(f"{file} {file.read_text()}" for file in kept)
    assert code not in said
    assert token not in said


def test_without_a_persons_token_nothing_is_told(service: Service, state_dir: Path):
    for headers in ({}, bearer("boss"), bearer("agent"), {"Authorization": "Bearer x"}):
        assert leave(service, headers) == 401
    headers = let_in(service, state_dir)
    assert leave(service, headers) == 200
    assert leave(service, headers) == 401  # it left


def test_a_persons_token_opens_no_tool(service: Service, state_dir: Path):
    headers = let_in(service, state_dir)
    call = {"jsonrpc": "2.0", "id": 1, "method": "list_sessions", "params": {}}
    with httpx2.Client(base_url=service.url, headers=headers, timeout=20 * SLOW) as client:
        assert client.post("/rpc", json=call).status_code == 401
        assert client.post("/mcp", json=call).status_code == 401
        assert client.get("/metrics").status_code == 401


@pytest.mark.parametrize("scopes", ["write,person", "person,read", "person,person"])
def test_a_persons_scope_stands_alone(state_dir: Path, scopes: str):
    file = state_dir / "wrong-tokens"
    file.touch(mode=0o600)
    file.write_text(f"me {scopes} 0123456789abcdef\n")
    words = ["serve", "--state-dir", str(state_dir), "--http", "0", "--token-file", str(file)]
    done = forks.run(words, forks.environment(), Path.cwd(), 30 * SLOW)
    assert done.returncode == 2
    assert b"not understood" in done.stderr


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/style.css", "/page/icon.svg"])
def test_files_come_with_headers_that_let_a_browser_do_little(service: Service, path: str):
    answer = httpx2.get(service.url + path, timeout=20 * SLOW)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers


def test_other_names_and_origins_are_refused(service: Service, state_dir: Path):
    headers = let_in(service, state_dir)
    assert httpx2.get(service.url, headers={"Host": "evil.example"}, timeout=20 * SLOW).status_code == 421
    for origin in ("http://evil.example", f"http://localhost:{service.port}", "null", "http://127.0.0.1"):
        assert leave(service, headers | {"Origin": origin}) == 403
        assert enter(service, a_code(service, state_dir), Origin=origin).status_code == 403
    assert enter(service, a_code(service, state_dir), Origin=service.url).status_code == 200


def test_what_a_stranger_sends_is_bounded(service: Service):
    answer = httpx2.post(f"{service.url}/page/enter", json={"code": "x" * 2000}, timeout=20 * SLOW)
    assert answer.status_code == 413
    assert httpx2.post(f"{service.url}/page/enter", content=b"{}", timeout=20 * SLOW).status_code == 400


def test_a_token_outlives_its_server(state_dir: Path):
    with Service(state_dir) as first:
        headers = let_in(first, state_dir)
    with Service(state_dir, "--http", f"127.0.0.1:{first.port}") as second:
        assert leave(second, headers) == 200


def test_number_of_tokens_is_bounded(tmp_path: Path):
    keys = codes.AccessSecrets(tmp_path, 1)
    tokens = [keys.enter(codes.make_code(tmp_path, 1)).token for _ in range(codes.MAX_CODES + 1)]
    assert len(list((tmp_path / "page" / "tokens").iterdir())) == codes.MAX_CODES
    assert keys.knows(tokens[-1])


def test_a_server_proves_to_a_page_that_it_is_the_one(service: Service, state_dir: Path):
    given = enter(service, a_code(service, state_dir)).json()
    asked = {"digest": hashlib.sha256(given["token"].encode()).hexdigest(), "nonce": "once"}
    proof = httpx2.post(f"{service.url}/page/prove", json=asked, timeout=20 * SLOW).json()["proof"]
    wanted = hmac.new(given["seal"].encode(), b"once", hashlib.sha256)
    assert proof == wanted.hexdigest()
    for wrong in ({"digest": "0" * 64}, {"digest": "../port"}, {"nonce": "x" * 101}):
        assert httpx2.post(f"{service.url}/page/prove", json=asked | wrong, timeout=20 * SLOW).status_code == 401


# ---- the command line --------------------------------------------------------------------------


def test_command_line_gives_an_address_that_lets_in(service: Service, state_dir: Path):
    done = cli(state_dir, "build", "--no-open")
    assert done.returncode == 0, done.stderr
    url = urlsplit(done.stdout.strip())
    assert f"http://{url.netloc}" == service.url
    words = parse_qs(url.fragment)
    assert words["session"] == ["build"]
    assert enter(service, words["code"][0]).status_code == 200


class Shown:
    """`tmuxmcp page` where no server shows it, as a process of its own."""

    def __init__(self, state_dir: Path, *words: str, browser: str = "") -> None:
        environment = {"HOME": str(state_dir / "home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self.state_dir = state_dir
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tmuxmcp", "page", "--state-dir", str(state_dir), *words],
            env=environment | ({"BROWSER": browser} if browser else {}), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def address(self) -> str:
        """The next line of stdout."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """End it as Ctrl-C does; its exit status and what it said."""
        self.process.send_signal(number)
        try:
            return self.process.wait(20 * SLOW), self.process.communicate()[1]
        finally:
            self.process.kill()
            self.process.communicate()


def let_in_by(address: str) -> dict[str, str]:
    """The headers of a page that is let in by an address."""
    base, _, code = address.partition("/#code=")
    answer = httpx2.post(f"{base}/page/enter", json={"code": code}, timeout=20 * SLOW)
    assert answer.status_code == 200, answer.text
    return {"Authorization": f"Bearer {answer.json()['token']}"}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    """A state directory that is not there yet, nor what it lies in."""
    with tempfile.TemporaryDirectory(prefix="tm-") as directory:
        state_dir = Path(directory, "state", "tmuxmcp")
        yield state_dir
        end_server(state_dir)


def test_where_no_server_shows_the_page_the_command_does(fresh: Path):
    shown = Shown(fresh, "--no-open")
    base = (address := shown.address()).partition("/#")[0]
    assert urlsplit(base).hostname == "127.0.0.1"
    assert {stat.S_IMODE(each.stat().st_mode) for each in (fresh, fresh.parent)} == {0o700}
    assert cli(fresh, "--no-open").stdout.startswith(f"{base}/#code=")  # of the same server; comes back
    headers = let_in_by(address)
    words = ["new", "--state-dir", str(fresh), "--name", "one", "bash"]
    made = forks.run(words, {"HOME": "/", "PATH": "/usr/bin:/bin"}, Path("/"), 30 * SLOW)
    assert made.returncode == 0, made.stderr
    asked = {"json": {"session": "one"}, "timeout": 20 * SLOW}
    assert httpx2.post(f"{base}/page/commands", headers=headers, **asked).status_code == 200
    assert httpx2.post(f"{base}/page/commands", headers=headers | {"Host": "evil.example"}, **asked).status_code == 421
    for path in ("/rpc", "/mcp", "/metrics"):  # a page, and nothing else
        assert httpx2.post(f"{base}{path}", headers=headers, json={}, timeout=20 * SLOW).status_code in (401, 404)
    status, said = shown.end()
    assert (status, base in said, "until you press Ctrl-C" in said) == (0, True, True)
    assert codes.running(fresh) == []
    again = Shown(fresh, "--json")
    told = json.loads(again.address())
    assert told["url"].startswith(f"{base}/#code=")  # pages that are open find it
    answer = httpx2.post(f"{base}/page/commands", headers=headers, **asked)  # the session went on
    assert answer.status_code == 200
    assert again.end(signal.SIGTERM)[0] == 0


def test_without_a_browser_the_address_is_told(fresh: Path):
    shown = Shown(fresh, browser="/bin/false %s")
    let_in_by(shown.address())
    assert "There is no browser to open" in shown.end()[1]


def test_the_browser_is_opened_and_the_page_shown_on(fresh: Path, tmp_path: Path):
    opener = tmp_path / "opener"
    opener.write_text('#!/bin/sh\ncp "${1#file://}" "$0.page"\n')
    opener.chmod(0o700)
    shown, page = Shown(fresh, browser=f"{opener} %s"), tmp_path / "opener.page"
    assert until(lambda: page.exists() and "</a>" in page.read_text())
    let_in_by(page.read_text().partition("url=")[2].partition('"')[0])
    assert until(lambda: not list((fresh / "page").glob("open-*")))
    assert shown.process.poll() is None
    assert shown.end()[0] == 0


def test_port_that_somebody_has_is_told(fresh: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli(fresh, "--no-open", "--port", str(port))
    assert done.returncode == 1
    assert f"127.0.0.1 port {port} cannot be listened on: Address already in use" in done.stderr
    shown = Shown(fresh, "--no-open", "--port", str(port))
    assert urlsplit(shown.address()).port == port
    assert shown.end()[0] == 0


def test_command_line_knows_a_server_that_was_killed(service: Service, state_dir: Path):
    left = state_dir / "page" / "servers" / "1"
    left.write_text(json.dumps({"url": "http://127.0.0.1:1"}))
    assert [each.port for each in codes.running(state_dir)] == [service.port]
    done = cli(state_dir, "--no-open", "--port", "1")
    assert str(service.port) in done.stderr
    left.unlink()


def test_an_agent_in_a_session_gets_no_code(service: Service, state_dir: Path):
    command = f"{sys.executable} -m tmuxmcp page --no-open --state-dir {state_dir}"
    result = service.result("run", session_id="one", command=f"PYTHONPATH={Path.cwd()} {command}", timeout_ms=30_000)
    assert "Only a person opens the page" in result["output"]
    assert result["exit_code"] == 4


def test_code_is_not_among_the_words_a_browser_is_started_with(service: Service, state_dir: Path, tmp_path: Path):
    opener = tmp_path / "opener"
    opener.write_text('#!/bin/sh\nprintf %s "$1" >"$0.words"\n')
    opener.chmod(0o700)
    process = subprocess.Popen(
        [sys.executable, "-m", "tmuxmcp", "page", "--state-dir", str(state_dir)],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "BROWSER": f"{opener} %s"},
        stderr=subprocess.PIPE,
        text=True,
    )
    words = tmp_path / "opener.words"
    try:
        assert until(lambda: words.exists() and words.read_text().endswith(".html"))
        file = Path(urlsplit(words.read_text()).path)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        code = file.read_text().partition("#code=")[2].partition('"')[0]
        assert enter(service, code).status_code == 200
        assert process.wait(20 * SLOW) == 0
        assert not file.exists()
    finally:
        process.kill()
        process.communicate()


def until(probe) -> bool:
    deadline = time.monotonic() + 20 * SLOW
    while not probe() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(probe())


# ---- in a browser ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strange() -> Iterator[browser.Page]:
    """A page of a browser that knows no server; what it keeps, it keeps for a server's address."""
    if not browser.CHROMIUM:
        pytest.skip("needs Chromium: scripts/browser installs it")
    with browser.page() as page:
        yield page


def test_a_browser_is_let_in_and_stays_in(service: Service, state_dir: Path, strange: browser.Page):
    page = strange
    page.go(f"{service.url}/")
    page.until("document.body.innerText.includes('tmuxmcp page')")
    page.go(f"{service.url}/?x#code={a_code(service, state_dir)}")
    page.until("sessionStorage.getItem('tmuxmcp-token')")
    assert "code" not in page.value("location.href")
    assert page.value("document.cookie") == ""
    page.call("Page.reload")
    page.wait("Page.loadEventFired")
    page.until("sessionStorage.getItem('tmuxmcp-token') && !document.body.innerText.includes('tmuxmcp page')")


def test_a_page_does_not_send_its_token_to_another_program_at_its_port(state_dir: Path, strange: browser.Page):
    first, page = Service(state_dir), strange
    page.go(f"{first.url}/#code={a_code(first, state_dir)}")
    page.until("document.querySelector('.link')?.dataset.state == 'live'")
    token = page.value("sessionStorage.getItem('tmuxmcp-token')")
    first.stop()
    heard: list[str] = []

    class Squatter(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            heard.append(f"{self.path} {self.headers} {body!r}")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"proof": "00"}')

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", first.port), Squatter) as squatter:
        Thread(target=squatter.serve_forever, daemon=True).start()
        page.until("document.querySelector('.link').title.includes('Another program')")
        squatter.shutdown()
    assert heard
    assert all(each.startswith("/page/prove") and token not in each for each in heard)
