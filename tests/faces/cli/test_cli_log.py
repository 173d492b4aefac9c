"""`tmuxmcp log`: everything that was printed, of sessions in every state, once and as it comes."""

from __future__ import annotations

import base64
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import end_server
from tests.kit.cli import CommandLine, CommandTerminal
from tests.kit.terminal import SOON_S
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import RawLog
from tmuxmcp.sessions import registry
from tmuxmcp.terminal.text import logtext
from tmuxmcp.terminal.text.plain import plain


def begun(cli: CommandLine, name: str, script: str) -> None:
    """A session that runs a script and stays; behind env, since `new` waits for the prompt of a shell."""
    cli("new", "--name", name, "env", "sh", "-c", f"{script}; echo done; sleep 600")
    cli("read", name, "--pattern", r"^done\n", "--since", "0")


class Following:
    """A `tmuxmcp log --follow` and what it has printed."""

    def __init__(self, cli: CommandLine, *words: str) -> None:
        self.process = cli.start("log", "--follow", *words)
        self.seen = b""

    def until(self, text: bytes) -> None:
        deadline = time.monotonic() + SOON_S
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                data = os.read(self.process.stdout.fileno(), 1 << 16)
                assert data, (self.seen, self.process.stderr.read())
                self.seen += data

    def end(self, status: int = 0) -> bytes:
        output, errors = self.process.communicate(timeout=SOON_S)
        assert (self.process.returncode, errors) == (status, b"")
        self.seen += output
        return self.seen


# ---- once ----------------------------------------------------------------------------------------


def test_log_prints_all_of_it_clean(cli):
    begun(cli, "x", r"seq 3; printf '\033[31mred\033[0m\n50%%\r100%%\n'")
    assert cli.out("log", "x") == cli.out("log", "-s", "x") == "1\n2\n3\nred\n100%\ndone\n"
    assert cli.out("read", "x") != ""  # it moved nobody's cursor


def test_log_raw_gives_the_bytes(cli):
    begun(cli, "x", r"printf 'a\033[1mb\377\n'")
    assert cli("log", "x", "--raw").stdout == b"a\x1b[1mb\xff\r\ndone\r\n"
    assert cli("log", "x", "--raw", "--since", "1").stdout == b"\x1b[1mb\xff\r\ndone\r\n"


def test_log_from_an_offset_and_of_the_last_lines(cli):
    begun(cli, "x", "seq 9")
    assert cli.out("log", "x", "--since", "21") == "8\n9\ndone\n"
    for words in (["--tail", "2"], ["--tail", "2", "--raw"]):
        assert cli.out("log", "x", *words).split() == ["9", "done"]
    assert cli.out("log", "x", "--tail", "0") == ""
    assert len(cli.out("log", "x", "--tail", "99").split()) == 10
    assert "behind the end" in cli.error("log", "x", "--since", "999", status=2)
    cli.error("log", "x", "--since", "1", "--tail", "1", status=2)


def test_log_as_json(cli):
    begun(cli, "x", "seq 2")
    result = cli.json("log", "x")
    assert result == {
        "session_id": "x", "start_offset": 0, "end_offset": 12, "encoding": None, "content": "1\n2\ndone\n",
    }  # fmt: skip
    result = cli.json("log", "x", "--raw", "--since", "3")
    assert (result["encoding"], base64.b64decode(result["content"])) == ("base64", b"2\r\ndone\r\n")
    cli("log", "x", "--follow", "--json", status=2)


def test_log_of_what_is_gone(cli):
    """Ended, killed, an earlier one of the same name, lost; and no server is started for it."""
    cli("new", "--name", "x", "env", "sh", "-c", "echo first")
    cli("read", "x", "--wait", "exit")
    assert cli.out("log", "x") == "first\n"
    cli("new", "--name", "x", "env", "sh", "-c", "echo second; sleep 600")
    cli("read", "x", "--pattern", r"second\n", "--since", "0")
    cli("kill", "x", "--force")
    cli("new", "--name", "y", "env", "sh", "-c", "echo third; sleep 600")
    cli("read", "y", "--pattern", r"third\n", "--since", "0")
    end_server(cli.state)
    assert [cli.out("log", name) for name in ("x", "x.1", "y")] == ["second\n", "first\n", "third\n"]
    assert cli.out("log", "y", "--follow") == "third\n"
    assert cli.tmux("list-sessions").returncode != 0
    message = cli.error("log", "z", status=3)
    assert message.startswith("SESSION_NOT_FOUND: ")
    assert "x, x.1, y" in message


def test_log_of_the_default_session(cli):
    cli.error("log", status=3)
    cli("run", "echo mine")
    assert "\nmine\n" in cli.out("log")


def test_log_reads_nothing_else(cli):
    begun(cli, "x", "seq 2")
    for name in ("../sessions/x", str(cli.state / "sessions" / "x"), "x/", "."):
        assert cli.error("log", name, status=3).startswith("SESSION_NOT_FOUND: "), name


def test_log_tells_what_is_no_longer_kept(cli):
    cli.env["TMUXMCP_LOG_MAX_BYTES"] = str(1 << 20)
    begun(cli, "x", "seq 399999")
    done = cli("log", "x", "--since", "5")
    assert b"are no longer kept" in done.stderr
    assert done.stdout.endswith(b"399998\n399999\ndone\n")
    assert b"are no longer kept" in cli("log", "x").stderr
    assert b"are no longer kept" not in cli("log", "x", "--tail", "2").stderr
    assert b"are no longer kept" in cli("export", "x", "--format", "txt", "--path", "-").stderr


def test_log_on_a_terminal_leaves_the_prompt_a_line(cli):
    cli("new", "--name", "x", "env", "sh", "-c", "printf unended; sleep 600")
    cli("read", "x", "--pattern", "unended", "--since", "0")
    with CommandTerminal(cli, "log", "x") as terminal:
        assert terminal.to_the_end() == "unended\r\n"
    assert cli.out("log", "x") == "unended"


# ---- as it comes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["--raw"]], ids=str)
def test_follow_prints_what_comes_until_the_end(cli, words):
    cli(
        "new",
        "--name",
        "x",
        "env",
        "sh",
        "-c",
        'stty -echo; echo begun; while read -r line; do echo "$line"; done; seq 5000',
    )
    following = Following(cli, "x", *words)
    following.until(b"begun")
    cli("send", "x", "one", "--enter", "--wait", "none")
    following.until(b"one")
    cli("send", "x", "--key", "C-d", "--wait", "none")
    text = re.sub(rb"\x1b\]7777;[^\x07]*\x07|\r", b"", following.end()).decode()  # without the launcher's last word
    assert text == "begun\none\n" + "".join(f"{number}\n" for number in range(1, 5001))


def test_follow_from_the_last_lines(cli):
    cli("new", "--name", "x", "env", "sh", "-c", "seq 5; printf half; read -r _; echo; echo end")
    cli("read", "x", "--pattern", "half", "--since", "0")
    following = Following(cli, "x", "--tail", "2")
    following.until(b"4\n5\n")
    cli("send", "x", "--enter", "--wait", "none")
    assert following.end().split() == [b"4", b"5", b"half", b"end"]


def test_follow_ends_when_the_session_is_killed_and_at_ctrl_c(cli):
    begun(cli, "x", "seq 2")
    following, other = Following(cli, "x"), Following(cli, "x")
    for each in (following, other):
        each.until(b"done\n")
    other.process.send_signal(signal.SIGINT)
    other.end(status=130)
    cli("kill", "x", "--force")
    assert following.end() == b"1\n2\ndone\n"


INTERRUPTED = """
import os, signal, sys
import tmuxmcp.__main__, tmuxmcp.{module}
text = "os.kill(os.getpid(), signal.SIGINT)\\nfor _ in range(1000): pass"
{where}
sys.exit(tmuxmcp.__main__.main())
"""


@pytest.mark.parametrize(
    ("module", "where"),
    [
        ("faces.cli", "tmuxmcp.faces.cli.parse = lambda words: exec(text)"),
        ("contract.errors", "sys.meta_path.insert(0, type('Finder', (), {'find_spec': lambda *_: exec(text)}))"),
        (
            "faces.cli",
            "from asyncio.selector_events import BaseSelectorEventLoop as Loop\n"
            "Loop._make_self_pipe = lambda _: exec(text)\n"
            "sys.argv[1:] = ['policy', 'test', 'true']",
        ),
    ],
    ids=["a dataclass is made", "the command line is imported", "an event loop is made"],
)
def test_an_interrupt_at_a_bad_moment(tmp_path: Path, module: str, where: str):
    """CPython would end with the signal after all; only with -m, hence a module."""
    (tmp_path / "interrupted.py").write_text(INTERRUPTED.replace("{module}", module).replace("{where}", where))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-m", "interrupted"], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


# ---- the pieces ----------------------------------------------------------------------------------

STREAM = b"a\r\n\x1b[31mb\x1b[0m\r\nc\x1b[?1049h\x1b[5;5Hdrawn\r\nmore\r\n\x1b[?1049ld\r\ne\rf\r\nend"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_text_does_not_depend_on_how_it_came(size):
    text = logtext.LogText(80, 24)
    made = "".join(text.feed(STREAM[at : at + size]) for at in range(0, len(STREAM), size)) + text.end()
    assert made == plain(STREAM, 80, 24).text


def test_text_of_a_long_full_screen_program_is_bounded(monkeypatch):
    monkeypatch.setattr(logtext, "MAX_HELD_BYTES", 1000)
    text = logtext.LogText(80, 24)
    made = text.feed(b"a\n\x1b[?1049h")
    for _ in range(100):
        made += text.feed(b"\x1b[5;5Hdrawn\r\n" * 10)
        assert len(text._rest) <= 1200
    made += text.feed(b"\x1b[?1049lb\n") + text.end()
    assert "drawn" not in made
    assert made.startswith("a\n[full-screen program: ")
    assert made.endswith("left out]\nb\n")


@pytest.mark.parametrize("ended", [b"", b"\n"])
def test_start_of_tail(tmp_path: Path, ended: bytes):
    lines = [b"%d" % number * (number % 50) for number in range(5000)]
    data = b"\n".join(lines) + ended
    log = RawLog(SessionDirectory(tmp_path))
    log.path.write_bytes(data)
    for count in (0, 1, 2, 1000, 4999, 5000, 6000):
        start = registry.start_of_tail(log, len(data), count)
        assert data[start:] == (b"\n".join(lines[max(len(lines) - count, 0) :]) + ended if count else b""), count


def test_a_terminal_gets_its_prompt_on_a_line_of_its_own(cli):
    cli("new", "--name", "x", "sh", "-c", "printf 'one\\ntwo'; sleep 600")
    cli("read", "x", "--wait", "pattern", "--pattern", "two", "--since", "0")
    for words, shown in (
        (["log", "x"], "one\ntwo\n"),
        (["log", "x", "--tail", "1"], "two\n"),
        (["log", "x", "--raw"], "one\ntwo\n"),
        (["read", "x", "--since", "0"], "one\ntwo\n"),
        (["read", "x", "--view", "raw", "--since", "0"], "one\ntwo\n"),
    ):
        with CommandTerminal(cli, *words) as terminal:
            assert terminal.to_the_end().replace("\r", "") == shown, words
        assert not cli(*words).stdout.endswith(b"\n"), words
