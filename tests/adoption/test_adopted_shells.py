"""Real shells, each on a terminal of its own, take the marks in, use them, and give them back."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.adoption.terminals import NONCE, REFUSAL, Terminal
from tests.conftest import no_first_run
from tmuxmcp.machine.launch.shells import adoption

ARGV = {
    "bash": ["bash", "--norc", "--noprofile"],
    "rbash": ["bash", "--norc", "--noprofile", "-r"],
    "zsh": ["zsh", "-f"],
    "fish": ["fish", "--no-config"],
    "dash": ["dash"],
    "ash": ["busybox", "ash"],
    "mksh": ["mksh"],
    "ksh93": ["ksh93"],
}
NAMES = {"dash": "sh"}
SHELLS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(argv[0]) is None, reason=f"{name} is not installed"))
    for name, argv in ARGV.items()
]
LIKE_SH = [each for each in SHELLS if each.values[0] != "fish"]

MANY = bool(os.environ.get("TMUXMCP_TEST_MANY"))

Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a shell that knows nothing of us and waits at its prompt."""
    terminals = []
    home = tmp_path / "home"
    no_first_run(home)

    def make(name: str, *more: str, first: str = "", **env: str) -> Terminal:
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8", **env}
        terminal = Terminal([*ARGV[name], *more], environment, home)
        terminals.append(terminal)
        terminal.until(lambda: terminal.log, "a prompt", 20)
        terminal.at_rest()
        for line in first.splitlines():
            terminal.type(line)
        return terminal

    yield make
    for terminal in terminals:
        terminal.close()


def status_of(name: str) -> str:
    return "echo $status" if name == "fish" else "echo $?"


@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_is_adopted_and_runs_commands(start: Start, name: str) -> None:
    shell = start(name)
    shell.type("false")
    kind = shell.adopt(first_number=41)
    assert kind.name == NAMES.get(name, name)
    assert kind.pid == shell.pid
    assert shell.run(status_of(name)) == ("1\n", 0)
    assert " echo " in shell.run("stty -a")[0]
    assert shell.run("printf 'no newline'") == ("no newline", 0)
    assert shell.run("echo one\necho 'äöü 漢字 !x'\n\tfalse") == ("one\näöü 漢字 !x\n", 1)
    assert shell.run("echo " + "x" * 20_000) == ("x" * 20_000 + "\n", 0)
    if name != "fish":
        assert shell.run("cat <<'END'\n$x `y` 'z'\nEND") == ("$x `y` 'z'\n", 0)
        shell.run("x='a b'; set -- q r; typeset y=7 || y=7")
        assert shell.run('echo "$x $1 $# $y"') == ("a b q 2 7\n", 0)
    if name != "rbash":
        shell.run("cd /tmp")
        assert shell.marks.finished[-1].cwd == "/tmp"
    assert [each.number for each in shell.marks.finished] == list(range(41, 41 + len(shell.marks.finished)))


@pytest.mark.parametrize("name", SHELLS)
def test_a_syntax_error_ends_a_command(start: Start, name: str) -> None:
    shell = start(name)
    shell.adopt()
    assert shell.run("echo )")[1] != 0
    assert shell.run("echo fine") == ("fine\n", 0)
    if name not in ("bash", "zsh", "fish"):  # which ask for the rest
        assert shell.run("echo 'never")[1] != 0
        assert shell.run("echo fine") == ("fine\n", 0)


def sleeps(pid: int) -> bool:
    """Whether a child of the shell has become `sleep 30`; in ksh93 it is no program."""
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            if child.cmdline()[-2:] == ["sleep", "30"]:
                return True
    return False


@pytest.mark.parametrize("name", SHELLS)
def test_an_interrupted_command_tells_its_status(start: Start, name: str) -> None:
    shell = start(name)
    shell.adopt()
    shell.give("printf 'be%s\\n' gun; sleep 30; echo never")
    # Between fork and exec a child handles the signal as its shell does, which drops it.
    shell.until(lambda: b"begun" in shell.log and (name == "ksh93" or sleeps(shell.pid)), "it runs")
    shell.at_rest(0.1)
    shell.write(b"\x03")
    shell.until(lambda: shell.marks.finished, "done")
    assert shell.marks.finished[0].status == (258 if name == "ksh93" else 130)
    assert shell.run("echo fine") == ("fine\n", 0)


VOLATILE = re.compile(
    r"^(_|LINENO|RANDOM|SRANDOM|SECONDS|EPOCH\w*|BASH_(ARG|LINENO|COMMAND)\w*|BASHOPTS|PIPESTATUS|pipestatus|HISTCMD|\?|!|0|"
    r"histchars|history|historywords|TTYIDLE|funcstack|status|\.sh\.\w+|.*OPTIND|COLUMNS|LINES|PPID|OLDPWD|FUNCNAME|"
    r"KSH_MATCH|_AST_FEATURES|dirstack|jobstates|jobtexts|jobdirs|hist\w*|.*CMD_DURATION|parameters|functions\w*|dis_\w*|commands|modules|"
    r"options|usergroups|userdirs|nameddirs|widgets|keymaps|builtins|reswords|\w*_git_\w*)\b"
)
STATE = {
    "fish": "set -S | string match -rv '^.(history|hist|status|pipestatus|CMD_DURATION|_)'; functions -an; bind; trap",
    "zsh": "typeset -p; functions; alias; bindkey; bindkey -M vicmd; setopt; trap; zle -la",
    "bash": "declare -p; declare -f; alias; bind -p; bind -X; bind -v; shopt; set -o; trap; history",
    "rbash": "declare -p; declare -f; alias; set -o; shopt; trap",
}


def state(shell: Terminal, name: str, file: Path) -> list[str]:
    """What a shell has: parameters, functions, aliases, keys, options."""
    commands = STATE.get(name, "set; alias; set -o; trap")
    if name == "rbash":
        printed = shell.type(f"echo; {commands}; printf 'E%s\\n' ND", rb"END")
        text = printed.decode("utf-8", "replace").replace("\r", "")
    else:
        opening = "begin;" if name == "fish" else "{"
        closing = "end" if name == "fish" else "}"
        shell.type(f" {opening} {commands}; {closing} >{file} 2>&1; printf 'E%s\\n' ND", rb"END")
        text = file.read_text(errors="replace")
    words = ("declare", "typeset", "export", "-x", "--", "-i", "-r", "-g", "-a", "-A")
    kept = []
    for line in text.splitlines():
        bare = " ".join(
            itertools.dropwhile(lambda word: word in words or word.startswith("-"), line.lstrip("$").split())
        )
        if not VOLATILE.match(bare) and not re.match(r"\s*\d+\s", line):
            kept.append(line)
    return kept


HOOKS = {
    "bash": "hook() { printf '<%s>' $?; }\nPROMPT_COMMAND=hook",
    "bash, several": "hook() { printf '<%s>' $?; }\nother() { :; }\nPROMPT_COMMAND=(hook other)\ntrap : DEBUG",
    "zsh": "precmd() { printf '<%s>' $?; }\nprecmd_functions=(other)\nother() { :; }\nPROMPT_EOL_MARK=x",
    "fish": "function fish_prompt; printf '<%s> ' $status; end",
    "mksh": "PS1='<$?># '",
    "ksh93": "PS1='<$?># '",
    "dash": "PS1='<$?># '",
    "ash": "PS1='<$?># '",
}


@pytest.mark.parametrize("name", [each for each in HOOKS if shutil.which(ARGV[each.split(",")[0]][0])])
def test_what_the_user_has_run_before_prompts_sees_the_status(start: Start, name: str, tmp_path: Path) -> None:
    hooks, name = HOOKS[name], name.split(",")[0]
    shell = start(name, first=hooks)
    before = state(shell, name, tmp_path / "before")
    shell.type("false")
    shell.adopt()
    shell.run("sh -c 'exit 3'")
    shell.until(lambda: b"<3>" in shell.log[shell.log.rindex(b"133;D;3") :], "its hook saw the status")
    shell.at_rest()
    shell.run("sh -c 'exit 4'")
    shell.undo()
    shell.type("sh -c 'exit 5'", rb"<5>")
    assert state(shell, name, tmp_path / "after") == before


OPTIONS = {
    "bash": "set -a,set -e,set -u,set -C,set -f,set -k,set -o vi,set -o posix,IFS=:,shopt -u promptvars",
    "zsh": "set -u,set -a,set -e,set -C,setopt ksh_arrays,setopt no_unset err_return,emulate sh,bindkey -v,IFS=:",
    "mksh": "IFS=:,set -a,set -e,set -u,set -C,set -o vi",
    "ksh93": "IFS=:,set -a,set -e,set -u,set -C,set -o vi",
    "ash": "set -e,set -a,set -u,set -C,IFS=:",
    "dash": "set -u,set -a,set -e,set -C,IFS=:,unalias -a",
}
WITH_OPTIONS = [
    (name, option)
    for name, options in OPTIONS.items()
    for option in options.split(",")[: None if MANY else 1]
    if shutil.which(ARGV[name][0])
]


@pytest.mark.parametrize(("name", "option"), WITH_OPTIONS)
def test_a_shell_keeps_its_options(start: Start, name: str, option: str) -> None:
    shell = start(name, first=option)
    shell.adopt()
    assert shell.run("x=5; cd /tmp") == ("", 0)
    assert shell.run('echo "$x $PWD" \'!z\'; sh -c "exit 3" || true; echo "it\'s"') == ("5 /tmp !z\nit's\n", 0)
    environment, code = shell.run("env")
    assert code == 0
    assert NONCE not in environment
    shell.undo()
    shell.type("echo pl${x}ain", rb"pl5ain")


@pytest.mark.parametrize("name", SHELLS)
def test_where_there_are_no_devices_the_marks_go_to_the_standard_input(start: Start, name: str) -> None:
    shell = start(name)
    shell.adopt(has_devices=False)
    assert shell.run("echo one") == ("one\n", 0)
    shell.undo()
    kind = shell.kind
    assert kind is not None
    assert b"/dev/tty" not in adoption.body(kind, NONCE, 1)


@pytest.mark.parametrize("name", SHELLS)
def test_undone_a_shell_is_as_it_was(start: Start, name: str, tmp_path: Path) -> None:
    shell = start(name)
    shell.type("false")
    before = state(shell, name, tmp_path / "before")
    shell.type("false")
    shell.adopt()
    shell.run("true")
    shell.undo()
    assert b"\x1b]133;" not in shell.type("echo pl''ain", rb"plain")
    after = state(shell, name, tmp_path / "after")
    assert after == before


@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_is_adopted_again(start: Start, name: str) -> None:
    shell = start(name)
    shell.adopt()
    shell.run("true")
    shell.adopt(first_number=9)
    assert shell.run("echo again") == ("again\n", 0)
    assert [each.number for each in shell.marks.finished] == [9]
    marks = [mark.kind + mark.why for mark in shell.marks.all if mark.number == 9]
    assert marks.count("A") == (2 if name == "bash" else 1)  # bash draws it again after the key
    shell.undo()
    assert b"133;" not in shell.type("echo pl''ain", rb"plain")


@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_that_gets_no_body_gives_up_by_itself(start: Start, name: str) -> None:
    shell = start(name)
    shell.ask(adoption.line(NONCE).replace(b"time 100", b"time 5").replace(b"-t10", b"-t1"))
    shell.goes_on()
    assert shell.is_free()
    assert b"133;A" not in shell.log
    assert b"-echo " not in shell.type("stty -a", rb"\becho ")


@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_is_told_to_stop_waiting(start: Start, name: str) -> None:
    shell = start(name)
    kind = shell.ask()
    shell.write(adoption.stop(kind))
    shell.goes_on()
    assert shell.is_free()
    shell.adopt()
    assert shell.run("echo fine") == ("fine\n", 0)


@pytest.mark.parametrize("name", SHELLS)
def test_a_command_that_is_refused_is_not_run(start: Start, name: str) -> None:
    shell = start(name)
    shell.adopt()
    shell.type("false")
    giving = adoption.give(shell.kind, shell.key, "0badcafe", b"echo never")
    shell.write(giving.key)
    shell.until(lambda: any(mark.why == "g" for mark in shell.marks.all), "listens")
    shell.write(adoption.refuse(shell.kind, "0badcafe"))
    shell.until(lambda: any(mark.why == "r" for mark in shell.marks.all), "refused")
    shell.at_rest()
    assert shell.run("echo next") == ("next\n", 0)
    assert b"never" not in shell.log


READONLY = [
    ("bash", "PS1"),
    ("bash", "PROMPT_COMMAND"),
    ("zsh", "PROMPT"),
    *[(name, "PS1") for name in ("rbash", "dash", "ash", "mksh", "ksh93")],
]


@pytest.mark.parametrize(("name", "variable"), READONLY)
def test_a_readonly_prompt_is_refused_at_once(start: Start, name: str, variable: str) -> None:
    shell = start(name, first=f"readonly {variable}='> '")
    kind = shell.ask()
    shell.write(adoption.body(kind, NONCE, 1))
    shell.until(lambda: REFUSAL.search(shell.log), "it says so")
    assert shell.is_free()
    assert b"133;A" not in shell.log
    assert b"__tmuxmcp" not in shell.type("set; printf 'E%s' ND", rb"END")
