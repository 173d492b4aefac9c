"""Directories of any name and variables of any value: in each shell `run` tells the true status and directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest

from tests import conftest
from tests.kit.agent import Agent, an_agent, eventually
from tests.kit.fixtures import of_file
from tests.kit.programs import need
from tmuxmcp.broker.broker import Broker
from tmuxmcp.machine.launch.shells import bash, record

ALL = pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
LIKE_SH = pytest.mark.parametrize("program", ["bash", "zsh"])

DIRECTORIES = [
    *(b"two words", b" leading", b"trailing ", b"tab\there", b"line\nof two\n", b"return\rhere"),
    *(b"x path=..", b"x LC_ALL=xx", b"x status=9 IFS=.", b"-n", b"--", b"~", b"=ls", b"#c", b"..."),
    *(b"a*b", b"[!a]?", b"{a,b}", b"back\\slash\\n", b"%41%", b"$HOME", b"`id`$(id)", b"'\"", b"!!", b"&"),
    *(b"semi;aid=x;cwd=%2Fetc", b"bel\x07", b"esc\x1b]133;D;0\x07\x1b\\"),
    "ä 漢字 🙂".encode(),
    *(b"\xff\xfe \x80\x83\xa0", bytes(range(1, 47)), bytes(range(48, 128)), bytes(range(128, 256)), b"x" * 255),
]

SEPARATORS = [b"/", b"e", b"0123456789", b"abcdefghijklmnopqrstuvwxyz_;=", b"", b" ", b"\n", None]


def quoted(text: bytes, program: str) -> str:
    """One word, every byte of it escaped."""
    if program == "fish":
        return "".join(f"\\X{byte:02x}" for byte in text) or "''"
    return "$'" + "".join(f"\\x{byte:02x}" for byte in text) + "'"


agent = of_file(an_agent, "sh")


class Shell:
    """A fresh shell, and a directory for the odd ones."""

    def __init__(self, agent: Agent, program: str, top: Path) -> None:
        self.program, self.top = program, top
        self._agent = agent
        self.session = agent.call("create_session", program=program)["session_id"]
        self.log = agent.state_dir / "sessions" / self.session / "out.raw"

    def run(self, command: str) -> dict:
        result = self._agent.run(command, session_id=self.session)
        assert (result["completed"], result["outcome"], result["evidence"]) == (True, "ready", "marks"), result
        return result

    def enter(self, name: bytes) -> None:
        """Change into a directory; the result and OSC 7 must name it."""
        path = os.fsencode(self.top) + b"/" + name
        os.makedirs(path, exist_ok=True)
        result = self.run(f"cd {quoted(path, self.program)}")
        assert (result["exit_code"], result["cwd"]) == (0, path.decode("utf-8", "replace"))
        eventually(lambda: self.told().partition(b"/")[2] == path[1:])

    def told(self) -> bytes:
        """What the last OSC 7 says, host and path."""
        found = re.findall(rb"\x1b\]7;file://([^\x00-\x1f\x7f]*)\x07", self.log.read_bytes())
        return unquote_to_bytes(found[-1])

    def exact(self) -> None:
        for command, output, status in [("sh -c 'exit 127'", "", 127), ("echo 'ab  c;d=e 120'", "ab  c;d=e 120\n", 0)]:
            result = self.run(command)
            assert (result["output"], result["exit_code"]) == (output, status)


@pytest.fixture
def shell(agent: Agent, program: str, tmp_path: Path) -> Iterator[Shell]:
    need(program)
    shell = Shell(agent, program, tmp_path)
    yield shell
    agent.call("destroy_session", session_id=shell.session, force=True)


@ALL
def test_directories_of_any_name(shell: Shell):
    (shell.top / "aXb").mkdir()
    for name in DIRECTORIES:
        shell.enter(name)


@ALL
def test_fields_separated_by_anything(shell: Shell):
    for separators in SEPARATORS:
        if separators is None:
            shell.run("set -e IFS" if shell.program == "fish" else "unset IFS")
        else:
            assign = "set -g IFS " if shell.program == "fish" else "IFS="
            shell.run(assign + quoted(separators, shell.program))
        shell.exact()
        shell.enter(b"two words/e 01=;")


@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("bash", "set -f"),
        ("bash", "set -u; set -C"),
        ("bash", "shopt -s failglob nocasematch extglob"),
        ("zsh", "setopt sh_word_split glob_subst ksh_arrays"),
    ],
)
def test_shells_with_other_options(shell: Shell, options: str):
    shell.run(options)
    shell.exact()
    shell.enter(b"a*b [x] ?")


@LIKE_SH
def test_names_that_the_user_made_readonly(shell: Shell):
    names = "path out char i done_mark tag first last own count each code old map given MATCH MBEGIN MEND"
    shell.run("readonly " + " ".join(f"{name}=7" for name in names.split() if (name, shell.program) != ("path", "zsh")))
    if shell.program == "bash":  # elsewhere it is the shell's own
        shell.run("readonly status=7")
    shell.exact()
    shell.enter(b"two words")


@LIKE_SH
def test_a_name_of_the_machine_cannot_end_the_sequence(shell: Shell):
    name = "HOSTNAME" if shell.program == "bash" else "HOST"
    shell.run(f"{name}=" + quoted(b"box\x07\x1b\\\n%41/../etc 1", shell.program))
    shell.enter(b"two words")
    assert shell.told().split(b"/")[0] == b"box41..etc1"


@ALL
def test_a_directory_that_was_renamed_or_is_another_one_now(shell: Shell):
    for name in ("old", "v1", "v2"):
        (shell.top / name).mkdir()
    shell.run(f"cd '{shell.top}/old'")
    assert shell.run("mv ../old ../new")["cwd"] == f"{shell.top}/new"
    (shell.top / "old").mkdir()
    assert shell.run("true")["cwd"] == f"{shell.top}/new"
    (shell.top / "now").symlink_to("v1")
    assert shell.run(f"cd '{shell.top}/now'")["cwd"] == f"{shell.top}/now"
    assert shell.run("ln -sfn v2 ../now")["cwd"] == f"{shell.top}/v1"


@LIKE_SH
def test_a_directory_that_the_user_only_says(shell: Shell):
    shell.run("cd /usr/lib")
    assert shell.run("PWD=/etc")["cwd"] == "/usr/lib"
    assert shell.run("unset PWD; set -u")["cwd"] == "/usr/lib"


@pytest.mark.parametrize("program", ["bash"])
def test_a_locale_that_the_user_made_readonly_in_bash(shell: Shell):
    (shell.top / "ä").mkdir()
    shell.run("readonly LC_ALL=C.UTF-8; set -e")
    assert shell.run(f"cd {shell.top}/ä")["cwd"] == f"{shell.top}/ä"


@pytest.mark.parametrize("program", ["zsh"])
def test_options_come_back_in_zsh_whatever_separates_fields(shell: Shell):
    shell.run("setopt correct correct_all; IFS=_o")
    assert set(shell.run("setopt")["output"].split()) >= {"correct", "correctall"}
    assert "interactivecomments" not in shell.run("setopt")["output"]


def test_files_of_zsh_where_words_are_split(agent: Agent, tmp_path: Path):
    need("zsh")
    home = tmp_path / "two words"
    home.mkdir()
    (home / ".zshrc").write_text("MINE=yes\n")
    made = agent.call("create_session", program="zsh", args=["-o", "sh_word_split"], env={"ZDOTDIR": str(home)})
    seen = agent.run('echo "$MINE $ZDOTDIR"', session_id=made["session_id"])
    assert (seen["output"], seen["evidence"]) == (f"yes {home}\n", "marks")
    agent.call("destroy_session", session_id=made["session_id"], force=True)


async def test_prompt_commands_of_bash_before_5_1(
    broker: Broker, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = (record.START_UP / "bash.sh").read_text()
    assert "< 501" in text
    (tmp_path / "bash.sh").write_text(text.replace("< 501", "< 999"))
    monkeypatch.setattr(bash, "START_UP", tmp_path)
    seen = tmp_path / "seen"
    (home / ".bashrc").write_text(f"PROMPT_COMMAND='echo \"two  words * $?\" >>{seen}'\n")
    await broker.create_session("bash", name="old")
    for command, status in (("sh -c 'exit 3'", 3), ("cd /usr/lib", 0)):
        result = await broker.run(command, session_id="old")
        assert (result.exit_code, result.evidence) == (status, "marks")
    assert result.cwd == "/usr/lib"
    shown = await broker.run("echo ${#PROMPT_COMMAND[@]}", session_id="old")
    assert shown.output == "1\n"
    expected = [f"two  words * {status}" for status in (0, 3, 0, 0)]
    # The last one is on its way: the mark that ends a command comes before it.
    await conftest.eventually(lambda: len(seen.read_text().splitlines()) >= len(expected))
    assert seen.read_text().splitlines() == expected
