"""What a shell ran as a script: nothing in a comment can leave it."""

from __future__ import annotations

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.cases import for_each
from tmuxmcp.contract.results import ListedCommand
from tmuxmcp.terminal.film.formats import script


def ran(
    text: str | None,
    code: int | None = 0,
    *,
    over: bool = True,
    level: int = 0,
    cwd: str | None = "/w",
    stdin: bool = False,
) -> ListedCommand:
    return ListedCommand(
        number=7,
        text=text,
        exit_code=code,
        started_at=None,
        duration_ms=None,
        cwd=cwd,
        start_offset=0,
        end_offset=9 if over else None,
        by="agent",
        level=level,
        stdin=stdin,
    )


def body(*commands: ListedCommand, shell: str = "bash", start: str = "/w") -> list[str]:
    return script(shell, ["head"], start, commands).splitlines()[2:]


@for_each(
    ("command", "line"),
    [
        (ran("make -j4"), "make -j4"),
        (ran("make", 2), "# 7, exit code 2: make"),
        (ran("exit", None), "# 7, exit code not known: exit"),
        (ran("sleep 9", None, over=False), "# 7, still running: sleep 9"),
        (ran("id", level=1), "# 7, in a shell inside (level 1), exit code 0: id"),
        (ran(None), "# 7, its text is not known"),
        (ran("long" + "…"), "# 7, only its beginning is known: long" + "…"),
        (ran("a\u2028b", 1), r"# 7, exit code 1: a\u2028b"),
        (ran("a\rb", 1), r"# 7, exit code 1: a\rb"),
        (ran("echo <U+202E>"), "# 7, it holds characters that cannot be shown: echo <U+202E>"),
        (ran("cat", stdin=True), "# 7, it read what it was given as stdin: cat"),
        (ran("echo \\"), "# 7, its end is not known: echo \\"),
    ],
)
def test_what_is_run_and_what_is_a_comment(command: ListedCommand, line: str):
    assert body(command) == ["cd /w", line]


def test_directories_are_those_in_which_the_commands_ran():
    went = body(ran("cd /x"), ran("cd /y; false", 1, cwd="/y y"), ran("ls", cwd="/y y"), ran("cd z", level=1, cwd="/z"))
    assert went[0] == "cd /w"
    assert went[2:5] == ["# 7, exit code 1: cd /y; false", "cd '/y y'", "ls"]
    assert body(ran("ls"), shell="fish", start="/it's")[0] == r"cd '/it\'s'"
    assert body(ran("ls"), start="/a\x1bb")[0].startswith("# ")


@given(st.text(), st.sampled_from(["bash", "fish", "other"]))
def test_no_text_leaves_a_comment(text: str, shell: str):
    for command in (ran(text, 1, cwd=None), ran(text, level=2), ran(text, None, over=False, cwd=None)):
        made = script(shell, [text], "", [command])
        assert all(line.startswith("#") for line in made[:-1].split("\n"))
        assert all(char.isprintable() or char in "\n\t" for char in made)


def test_a_shell_runs_no_comment():
    evil = "false\ntouch /nonexistent/x; echo out\r\n$(echo out)`echo out`\x00\x1b\\\necho out"
    made = script("bash", [evil], "", [ran(evil, 1, cwd=None), ran("echo done", cwd=None)])
    done = subprocess.run(["bash"], input=made.encode(), capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"done\n", b"")
