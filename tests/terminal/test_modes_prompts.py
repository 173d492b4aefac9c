"""Lines of real prompts, and lines that are none."""

from __future__ import annotations

import pytest

from tests.kit.cases import for_each
from tmuxmcp.terminal.modes import may_be_prompt, shape

SAME = [
    ("joe@box:~$ ", "joe@box:/usr/share/doc$"),
    ("root@box:/tmp# ", "root@box:~/a/b-c.d# "),
    ("\x1b[01;32mjoe@box\x1b[00m:\x1b[01;34m~\x1b[00m$ ", "joe@box:/etc$ "),
    ("\x1b]0;joe@box: ~\x07joe@box:~$ ", "joe@box:~$ "),
    ("box1% ", "box1%"),
    ("[12:30:05] joe ~ > ", "[01:00:59] joe /srv > "),
    ("12:30 $", "9:05 $"),
    ("joe@box ~/src (main *+2)> ", "joe@box ~/src (feature/x)> "),
    ("joe@box ~/src> ", "joe@box ~/src (main)> "),
    ("(venv) joe@box:~$ ", "joe@box:~$ "),
    ("➜  src git:(main) ✗ ", "➜  src git:(other) ✗ "),
    (">>> ", ">>>"),
    ("(gdb) ", "(gdb)"),
    ("In [1]: ", "In [12]: "),
    ("sqlite> ", "sqlite>"),
    ("irb(main):001:0> ", "irb(main):002:0> "),
    ("❯ ", "❯"),
    ("…/long/way > ", "~ > "),
]

OTHER = [
    ("joe@box:~$ ", "ann@box:~$ "),
    ("joe@box:~$ ", "joe@far:~$ "),
    ("joe@box:~$ ", "root@box:~# "),
    ("joe@box:~$ ", "joe@box:~$ rm -rf $"),
    ("joe@box:~$ ", "joe@box:~$ (main) $"),
    ("joe@box:~$ ", "joe@box:~$ (cd /)"),
    ("joe@box:~$ ", "joe@box:~$ >"),
    ("joe@box:~$ ", "> "),
    ("$ ", "$ /tmp"),
    ("$ ", "$ $"),
    ("$ ", "name$"),
    ("$ ", "# "),
    ("(gdb) ", "(Pdb) "),
    (">>> ", "> "),
    ("box1% ", "45%"),
    ("> ", "[y] >"),
    ("[joe@box] > ", "[joe@far] > "),
    ("(joe@box) > ", "(joe@far) > "),
]

NONE = [
    "",
    "   ",
    "\x1b[0m",
    "45%",
    " 45 %",
    "download: 45.5%",
    "[#####     ] 50%",
    "[=====>",
    "12/45",
    "Password:",
    "Continue? [y/N]",
    "Continue (y/n) > ",
    "Are you sure you want to continue connecting (yes/no/[fingerprint])?",
    "Overwrite? >",
    "Do you want this? (Y/n) $",
    "Name:",
    "Enter your name",
    "joe@box:~$ echo hel",
    "Loading...",
    "-- INSERT --",
    "x" * 600 + "$",
]


@for_each(("one", "other"), SAME)
def test_prompts_of_one_shape(one: str, other: str):
    assert shape(one) == shape(other) != ""


@for_each(("one", "other"), OTHER)
def test_lines_of_two_shapes(one: str, other: str):
    assert shape(one) != shape(other)


@for_each("line", NONE)
def test_a_line_that_cannot_be_a_prompt(line: str):
    assert not may_be_prompt(line)
    assert shape(line) == ""


@pytest.mark.parametrize("name", ["src", "two words", "a$b", "ähm"])
def test_a_known_directory_may_stand_there_by_its_name(name: str):
    before, after = "[joe@box joe]$ ", f"[joe@box {name}]$ "
    assert shape(before) != shape(after)
    assert shape(before, "/home/joe") == shape(after, f"/home/{name}")


def test_a_line_is_compared_without_its_colours_and_in_bounded_time():
    hostile = "\x1b[" * 5000 + "(" * 5000 + "/" * 5000 + "$"
    assert shape(hostile) == ""
    assert shape("(" * 500 + "$") == "(" * 500 + "$"
