from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Parsed
from tests.kit.cases import for_each
from tmuxmcp.gate.policy.shelltext import MOST_CWDS, UNKNOWN_COMMAND, SimpleCommand


def argvs(commands: list[SimpleCommand]) -> list[tuple[str | None, ...]]:
    return [each.argv for each in commands]


RM = [
    "rm",
    "a && rm -rf /",
    "a || rm",
    "a; rm",
    "a\nrm",
    "a & rm",
    "a | rm",
    "a |& rm",
    "! rm",
    "(rm)",
    "{ rm; }",
    "echo $(rm)",
    "echo `rm`",
    'echo "x $(rm) y"',
    "echo ${a:-$(rm)}",
    "echo $((1 + $(rm)))",
    "cat <(rm)",
    "cat > $(rm)",
    "a=$(rm)",
    "a=(1 $(rm))",
    "export a=$(rm)",
    "[[ -f $(rm) ]]",
    "cat <<E\n$(rm)\nE",
    'cat <<< "$(rm)"',
    "if rm; then a; fi",
    "if a; then b; elif rm; then c; fi",
    "while a; do rm; done",
    "for i in 1 2; do rm; done",
    "for ((i=0; i<1; i++)); do rm; done",
    "case x in x) rm ;; esac",
    "f() { rm; }",
    "function f { rm; }",
    "A=1 rm",
    "/bin/rm",
    r"\rm",
    r"r\m",
    "'rm'",
    'r"m"',
    r"$'\x72\155'",
    '$"rm"',
    "command rm",
    "builtin command -- rm",
    "exec -a x rm",
    "coproc rm",
    "time -p rm",
    "env rm",
    "env -i -u X A=1 rm",
    "env -S 'rm -f' x",
    "/usr/bin/env rm",
    "sudo rm",
    "sudo -u root -E A=1 -- rm",
    "doas -u x rm",
    "nohup nice -n 5 ionice -c 3 rm",
    "timeout -s KILL 5 rm",
    "timeout $T rm",
    "stdbuf -oL setsid rm",
    "flock /l rm",
    "flock /l -c rm",
    "xargs -n 1 rm",
    "a | xargs -0 rm",
    "find . -exec rm {} +",
    r"find . -name x -execdir sh -c 'rm x' \;",
    "fd x -x rm",
    "watch -n 1 rm",
    "bash -c rm",
    "bash -xec 'a; rm'",
    "bash -c -- rm",
    "fish -C rm",
    "runuser -u x -- rm",
    "runuser -c rm",
    "bash --norc -o pipefail -c 'rm' name",
    "sh -c 'bash -c \"rm\"'",
    "eval rm",
    "eval 'a;' 'rm'",
    "trap rm EXIT",
    "alias ls=rm",
    "su -c rm",
    "su root -c rm",
    "script -qc rm /dev/null",
    "ssh host rm",
    "ssh -p 22 me@host 'a && rm'",
    "ssh $H rm",
    "busybox rm",
    "strace -f -o /x rm",
    "unshare -r rm",
    "# a comment\nrm # x",
    "a;rm;",
    "rm<x",
    "a>x;rm",
    "r\\\nm",
    "a \\\n x; rm",
    "# x \\\nrm",
    "a\\\\\nrm",
    "cat <<E | rm\nx\nE",
    "cat <<E && rm\nx\nE",
    "echo (rm)",
]


@for_each("text", RM)
def test_programs_are_seen_through(commands: Parsed, text: str):
    assert "rm" in [argv[0].rsplit("/", 1)[-1] for argv in argvs(commands(text)) if argv and argv[0]]
    assert UNKNOWN_COMMAND not in commands(text)


UNKNOWABLE = [
    "$X a",
    "${X} a",
    "$(echo rm) a",
    "r$X a",
    "/bin/r? a",
    "~nobody/rm",
    "{rm,-rf,/}",
    "{r,}m",
    "=rm a",
    "!rm",
    "!!",
    "rm )",
    "if a",
    "echo 'a",
    "a <<",
    "curl x | sh",
    "curl x | sudo bash -s",
    "bash < x",
    "bash <<< rm",
    "bash <<E\nrm\nE",
    "bash -c $X",
    "bash $X",
    "eval $X",
    'eval "$(x)"',
    "env $X rm",
    "sudo $X",
    "env -S $X",
    "xargs $X",
    "a\x1bb",
    "begin; rm; end)",
    "^a^rm",
    "fc -s",
    "a | sh /dev/stdin",
    "a | . /dev/stdin",
    "a | ssh h",
    "a | xargs env",
    "coproc NAME { rm; }",
    " ".join(["env"] * 20) + " rm",
]


@for_each("text", UNKNOWABLE)
def test_what_cannot_be_known_is_said(commands: Parsed, text: str):
    assert None in [argv[0] for argv in argvs(commands(text)) if argv]


def test_options_of_what_runs_commands_are_followed(commands: Parsed):
    """By the rules of each program: values of other options between, names cut short, env's own splitting."""
    runs = [
        "bash -c -o pipefail 'rm x'",
        "bash -cO extglob 'rm x'",
        "bash -norc -c 'rm x'",
        "bash -c - 'rm x'",
        "zsh --emulate sh -c 'rm x'",
        "fish --command='rm x'",
        "fish --com 'rm x'",
        "fish --init-command='rm x' y.fish",
        "fish -c'rm x'",
        "env -S 'rm x'",
        "env -iS 'rm x'",
        "env -S'A=1 rm x'",
        "env -u S -S 'bash -c' 'rm x'",
        "env --split='rm x'",
        "env - rm x",
        "su --comm='rm x'",
        "script --comm 'rm x' y",
        "ssh -o ProxyCommand='rm x' h",
        "scp -oLocalCommand='rm x' h:a b",
    ]
    unknowable = [
        "bash --rcfile x",
        "bash --init-file x -i",
        "bash -rcfile x -i",
        "sudo bash --rcfile x",
        "env -S 'BASH_ENV=x bash y'",
        "env -S 'a\\_b'",
        "env -S '${X} a'",
        "bash -c -o pipefail",
        "BASH_ENV=x bash -c :",
        "read PROMPT_COMMAND <<< x",
        "printf -v BASH_ENV %s x",
    ]
    keeps = [
        "bash -norc",
        "bash -norc -i",
        "env ls -S rm",
        "bash -c ls rm",
        "env -u S ls rm",
        "fish -C ls rm.fish",
        "printf rm",
    ]
    programs = {text: [argv[0] for argv in argvs(commands(text)) if argv] for text in (*runs, *unknowable, *keeps)}
    assert not [text for text in runs if "rm" not in programs[text] or None in programs[text]]
    assert not [text for text in unknowable if None not in programs[text]]
    assert not [text for text in keeps if {"rm", None} & {*programs[text]}]


@for_each(
    ("text", "words"),
    [
        (r"a b\ c 'd e' \"f\" g\"h", ("a", "b c", "d e", '"f"', 'g"h')),
        ('a "b c" "d\\"e" "f\\g"', ("a", "b c", 'd"e', "f\\g")),
        (r"a $'\n\t\x41\u00e9\'\\'", ("a", "\n\tAé'\\")),
        ("a ~ ~/x x~", ("a", "/home/me", "/home/me/x", "x~")),
        ("a *.o [ab]", ("a", "*.o", "[ab]")),
        ("a $? $# -- -x", ("a", "0", "0", "--", "-x")),
        ('a $x "$x" x$x $(b) $((1))', ("a", None, None, None, None, None)),
        ("a b\\ c", ("a", "b c")),
        ("a 1 2.5 héé '😀'", ("a", "1", "2.5", "héé", "😀")),
        ("a ''", ("a", "")),
        ("a != b", ("a", "!=", "b")),
        ("git commit -m 'x !y'", ("git", "commit", "-m", "x !y")),
    ],
)
def test_words(commands: Parsed, text: str, words: tuple[str | None, ...]):
    assert argvs(commands(text))[0] == words


@for_each(
    ("text", "files"),
    [
        ("a > x", ("x",)),
        ("a >> x 2> y < z", ("x", "y", "z")),
        ("a &> x", ("x",)),
        ("a > $x", (None,)),
        ("a 2>&1 >&2", ()),
        ("> x", ("x",)),
        ("{ a; } > x", ("x",)),
        ("if a; then b; fi < x", ("x",)),
        ("a <<E > x\nb\nE", ("x",)),
    ],
)
def test_files_of_redirections(commands: Parsed, text: str, files: tuple[str | None, ...]):
    assert commands(text)[0].files == files


@for_each(
    ("text", "cwds"),
    [
        ("a", {"/w"}),
        ("cd x; a", {"/w", "/w/x"}),
        ("cd /x && cd .. && a", {"/w", "/x", "/"}),
        ("cd; a", {"/w", "/home/me"}),
        ("cd $X; a", {"/w", None}),
        ("cd -; a", {"/w", None}),
        ("(cd /x); a", {"/w", "/x"}),
        (f"{'cd x;' * MOST_CWDS} a", {None}),
    ],
)
def test_directories_that_a_text_may_be_in(commands: Parsed, text: str, cwds: set[str | None]):
    assert set(commands(text)[-1].cwds) == cwds


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("A=1 a", "A="),
        ("A=$x", "A="),
        ("export A=1", "export"),
        ("unset A", "unset"),
        ("[[ -f x ]]", "["),
        ("a[1]=2", "a[1]="),
    ],
)
def test_assignments_and_declarations_are_commands(commands: Parsed, text: str, first: str):
    assert (first,) in argvs(commands(text))


def test_deep_nesting_is_not_understood_and_ends(commands: Parsed):
    assert UNKNOWN_COMMAND in commands("$(" * 5000 + "a" + ")" * 5000)
    assert UNKNOWN_COMMAND in commands("(" * 3000 + "rm" + ")" * 3000)


FAR = st.text(st.sampled_from("{$([;'\" a") | st.characters(min_codepoint=0xE0000, max_codepoint=0xE0FFF), max_size=8)
"""With characters that crash tree-sitter-bash now and then."""


@given(st.text() | FAR)
def test_no_text_is_too_much_for_us(commands: Parsed, text: str):
    """For the parser it may be, but then it ends without a word."""
    commands.reasons.seen.clear()
    commands(text)
    assert commands.reasons.seen <= {"the text ended it"}


PIECES = ["rm", "a", " ", "  ", ";", "&&", "|", "\n", "'", '"', "$(", ")", "`", "{ ", "; }", "\\", "<", ">x", "#"]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
@settings(max_examples=60, deadline=None)
def test_nothing_runs_unseen(commands: Parsed, pieces: list[str]):
    """bash runs it in an empty directory with an `rm` of ours: what it ran, we have seen or not understood.

    No `(` stands alone among the pieces: a function that calls itself would be no joke.
    """
    import tempfile

    text = "".join(pieces)
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory, "rm")
        program.write_text("#!/bin/sh\n: >$MARK\n")
        program.chmod(0o700)
        mark = Path(directory, "mark")
        subprocess.run(
            [shutil.which("bash") or "bash", "-c", text],
            env={"PATH": directory, "MARK": str(mark)},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=20,
        )
        if mark.exists():
            assert {"rm", None} & {argv[0] for argv in argvs(commands(text)) if argv}


@for_each(
    ("text", "argv", "files"),
    [
        ("tee < a b c", ("tee", "b", "c"), ("a",)),
        ("rm >a -rf <b x", ("rm", "-rf", "x"), ("a", "b")),
        ("rm 2>&1 x", ("rm", "x"), ()),
        ("rm >&2 -rf x", ("rm", "-rf", "x"), ()),
        (">a rm x", ("rm", "x"), ("a",)),
        ("rm <<E -rf\nb\nE", ("rm", "-rf"), ()),
        ("rm <<<b >a -rf /", ("rm", "-rf", "/"), ("a",)),
        ("rm >a $X -rf", ("rm", None, "-rf"), ("a",)),
    ],
)
def test_words_behind_a_redirection_are_the_commands(commands: Parsed, text: str, argv: tuple[str], files: tuple[str]):
    (found,) = commands(text)
    assert (found.argv, found.files) == (argv, files)


def test_words_behind_a_redirection_of_several_are_the_last_ones(commands: Parsed):
    assert ("rm", "-rf", "/") in argvs(commands("a | rm >x -rf /"))
    assert ("rm", "x") in argvs(commands("bash 2>&1 -c 'rm x'"))
    assert commands("cd >/dev/null /etc; rm x")[-1].cwds == (None,)
