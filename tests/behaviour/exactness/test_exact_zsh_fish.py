"""As exact as in bash: `run` in zsh and fish, through MCP, from a real client over stdio."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import SLOW, no_first_run, until_exists
from tests.kit.agent import Agent, an_agent, eventually, refused
from tests.kit.exactness import (
    FISH,
    LONG_MS,
    OTHER_SHELLS,
    SOON_MS,
    THROUGH_OTHERS,
    ZSH,
    Run,
    answered,
    begin,
    in_shell,
    session_of,
)
from tests.kit.fixtures import of_file
from tests.kit.tmux import typed_by_script
from tmuxmcp.machine.launch.shells import shell_of

zsh_only = pytest.mark.parametrize("program", OTHER_SHELLS[:1], indirect=True)
fish_only = pytest.mark.parametrize("program", OTHER_SHELLS[1:], indirect=True)


agent = of_file(an_agent, "sh")


@pytest.fixture(scope="module", params=OTHER_SHELLS)
def program(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def home(tmp_path: Path) -> Path:
    no_first_run(tmp_path)
    return tmp_path


@pytest.fixture
def session_in(agent: Agent, home: Path) -> Iterator[Callable[..., str]]:
    """Make a session with a home directory of this test's own."""
    made: list[str] = []

    def make(program: str, *args: str, **env: str) -> str:
        variables = {"HOME": str(home), **env}
        made.append(agent.call("create_session", program=program, args=list(args), env=variables)["session_id"])
        return made[-1]

    yield make
    for session in made:
        agent.call("destroy_session", session_id=session, force=True)


def check(shared: Run, command: str, output: str | None, status: int) -> None:
    result = shared(command)
    assert (result["exit_code"], result["completed"], result["outcome"]) == (status, True, "ready"), result
    assert result["evidence"] == "marks"
    if output is not None:
        assert result["output"] == output
    assert not result["truncated"]


@zsh_only
@pytest.mark.parametrize(("command", "output", "status"), ZSH, ids=[repr(row[0])[:40] for row in ZSH])
def test_output_and_exit_code_in_zsh(shared: Run, command: str, output: str | None, status: int):
    check(shared, command, output, status)


@fish_only
@pytest.mark.parametrize(("command", "output", "status"), FISH, ids=[repr(row[0])[:40] for row in FISH])
def test_output_and_exit_code_in_fish(shared: Run, command: str, output: str | None, status: int):
    check(shared, command, output, status)


def test_long_command_of_many_lines(shared: Run, program: str):
    append = in_shell(program, zsh="many+=('{}')", fish="set -a many '{}'")
    count = in_shell(program, zsh="echo ${#many}", fish="count $many")
    script = "\n".join(append.format(f"line {i} of many, \twith  blanks in it") for i in range(1000))
    assert shared(f"{script}\n{count}")["output"] == "1000\n"
    last = in_shell(program, zsh="print -r -- $many[1000]", fish="echo $many[1000]")
    assert shared(last)["output"] == "line 999 of many, \twith  blanks in it\n"


def test_every_character_that_a_command_can_hold(shared: Run):
    for code in (*range(1, 32), 127):
        result = answered(lambda code=code: shared(f"printf %s 'a{chr(code)}b' | od -An -tx1"))
        if chr(code) in "\x03\x11\x13\x1a\x1c":
            assert result == "INVALID_ARGUMENT"
        elif chr(code) not in "\n\r":
            assert result["output"] == f" 61 {code:02x} 62\n", hex(code)


def test_state_persists(shell: Run, program: str):
    greet = in_shell(program, zsh="greet() { echo hello; }", fish="function greet; echo hello; end")
    assert shell(f"cd /usr/lib; export A=1 B='two words'; {greet}")["cwd"] == "/usr/lib"
    assert shell("pwd; echo $A $B; greet")["output"] == "/usr/lib\n1 two words\nhello\n"


def test_cwd_of_any_name(shell: Run, home: Path):
    odd = home / "ä b;c%d\ne"
    odd.mkdir()
    name = str(odd).replace("\n", "'\\n'")
    result = shell(f"cd '{name}'" if "'" not in name else f"cd {home}/ä*")
    assert result["exit_code"] == 0
    assert result["cwd"] == str(odd)


def test_the_status_is_the_commands_own(shell: Run, program: str):
    status = in_shell(program, zsh="$? $pipestatus", fish="$status $pipestatus")
    assert shell("sh -c 'exit 42'")["exit_code"] == 42
    assert shell(f"echo {status}")["output"] == "42 42\n"
    shell("false | true")
    assert shell(f"echo {status}")["output"] == "0 1 0\n"
    shell("false")
    assert shell("# nothing to do")["exit_code"] == 0


def test_background_jobs(shell: Run, program: str, tmp_path: Path):
    result = shell("sleep 30 & echo started")
    assert result["output"].endswith("started\n")
    assert result["duration_ms"] < 5000 * SLOW
    go, pid = tmp_path / "go", in_shell(program, zsh="$!", fish="$last_pid")
    shell(f"{until_exists(go)} &")
    ended = shell(f"touch {go}; sh -c 'while test -e /proc/$0; do sleep 0.05; done' {pid}")
    assert "sh -c" in ended["output"]  # both say there that it is done
    assert shell("kill %1; wait; echo gone")["output"].endswith("gone\n")
    assert shell("echo quiet")["output"] == "quiet\n"


def test_output_sent_elsewhere_for_good(shell: Run, program: str, home: Path):
    if program != "zsh":
        pytest.skip("its exec takes a command")
    shell(f"exec >{home}/out 2>&1")
    assert shell("echo hidden; (exit 3)")["exit_code"] == 3
    shell("exec >/dev/tty 2>&1")
    assert shell(f"cat {home}/out")["output"] == "hidden\n"


@zsh_only
@pytest.mark.parametrize("others", THROUGH_OTHERS)
def test_a_zsh_that_prints_through_other_programs(shell: Run, home: Path, others: str):
    assert shell(f"cd {home}; {others}; echo first", timeout_ms=LONG_MS)["output"] == "first\n"
    for command, output in (("echo x", "x\n"), ("echo err >&2", "err\n"), ("seq 3", "1\n2\n3\n")):
        result = shell(f"{command}\n(exit 3)", timeout_ms=LONG_MS)
        assert (result["output"], result["exit_code"], result["note"]) == (output, 3, None), result
    shell("exec >/dev/tty 2>&1", timeout_ms=LONG_MS)
    assert shell("[[ -o prompt_sp ]] && printf y")["output"] == "y"


UNFINISHED = {
    "zsh": ["echo 'open", 'echo "open', "cat <<END\nx", "for i in 1 2; do", "echo $((1 +", "if true; then", "echo \\"],
    "fish": ["echo 'open", 'echo "open', "begin", "for i in 1 2", "echo (", "if true", "echo a |", "echo a &&"],
}


def test_an_unfinished_command(shell: Run, program: str):
    for command in UNFINISHED[os.path.basename(program)]:
        assert answered(lambda command=command: shell(command)) == "INCOMPLETE_COMMAND", command
        assert shell("echo usable")["output"] == "usable\n"


def test_a_half_typed_line_is_cleared_and_status_kept(agent: Agent, shell: Run, program: str):
    session = session_of(shell)
    status = in_shell(program, zsh="$?", fish="$status")
    for typed in ("rm -rf half typed", "\x1b[200~two\nlines\x1b[201~", "echo 'open\nand more"):
        shell("sh -c 'exit 5'")
        agent.call("send", session_id=session, text=typed, bracketed_paste="never", read="new")
        result = shell(f"echo {status}")
        # An unfinished command that was entered line by line has to be left by C-c.
        assert result["output"] in ("5\n", "130\n" if "open" in typed and program == "zsh" else "5\n")


def test_a_half_typed_line_in_vi_mode(agent: Agent, shell: Run, program: str):
    session = session_of(shell)
    shell(in_shell(program, zsh="bindkey -v; KEYTIMEOUT=1", fish="fish_vi_key_bindings"))
    agent.call("send", session_id=session, text="some words here", read="new")
    assert shell("echo one")["output"] == "one\n"
    agent.call("send", session_id=session, text="some words here", key="Escape", read="new")
    assert shell("echo two")["output"] == "two\n"
    agent.call("send", session_id=session, text="some words", keys=["Escape", "v", "b"], read="new")
    assert shell("echo three")["output"] == "three\n"


def test_another_shell_of_the_same_user_goes_over_to_vi_mode(shared: Run, shell: Run, program: str):
    """In fish, all of them do then."""
    shared("echo before")
    shell(in_shell(program, zsh="bindkey -v", fish="fish_vi_key_bindings"))
    assert shared("echo after")["output"] == "after\n"
    shell(in_shell(program, zsh="bindkey -e", fish="fish_default_key_bindings"))
    assert shared("echo again")["output"] == "again\n"


def test_a_person_in_the_middle_of_something(agent: Agent, shell: Run):
    session = session_of(shell)
    for keys in (["C-r", "e"], ["e", "Tab", "Tab"], ["Up"], ["M-x"], ["C-x"]):
        shell("echo earlier")
        agent.call("send", session_id=session, keys=keys, read="new", wait_for="idle", idle_ms=100)
        result = answered(lambda: shell("echo mine", timeout_ms=LONG_MS))
        if not isinstance(result, str):
            assert (result["output"], result["exit_code"]) == ("mine\n", 0), keys
        else:
            assert result in ("SESSION_BUSY", "NOT_A_SHELL"), keys
        agent.call("send", session_id=session, key="C-c", read="new")
        assert shell("echo next")["output"] == "next\n", keys


def test_a_command_that_came_in_pieces_is_not_run(agent: Agent, shell: Run, program: str):
    session = session_of(shell)
    log = agent.state_dir / "sessions" / session / "out.raw"

    def type_raw(data: bytes, answer: bytes) -> None:
        """By tmux, as a broker that somebody types over; the shell answers by a mark."""
        before = len(log.read_bytes())
        typed_by_script(agent.state_dir, "-H", *(f"{byte:02x}" for byte in data), session_id=session)
        eventually(lambda: b"\x1b]133;P;k=" + answer in log.read_bytes()[before:])

    for pieces in (b"j1\x008 8\x00echo lost more\x00", b"x\x00j1\x008 8\x00echo all\x00"):
        agent.call("read", session_id=session, wait_for="ready")
        type_raw(shell_of(program).key, b"g")
        type_raw(pieces, b"r")
        agent.call("send", session_id=session, key="C-c", read="new")
        assert shell("echo next")["output"] == "next\n"
    if program == "zsh":
        agent.call("send", session_id=session, text="echo 'open", enter=True, read="new")
        asked = len(log.read_bytes())
        type_raw(shell_of(program).key, b"r")
        assert b"P;k=g" not in log.read_bytes()[asked:]
    assert b"\r\nlost" not in log.read_bytes()
    assert shell("echo next")["output"] == "next\n"


def test_a_builtin_that_reads_is_no_prompt(agent: Agent, shell: Run, program: str):
    session = session_of(shell)
    for command in in_shell(program, zsh="read x|vared HOME|select x in a b; do break; done", fish="read x").split("|"):
        agent.call("send", session_id=session, text=command, enter=True)
        assert answered(lambda: shell("echo no")) in ("NOT_A_SHELL", "SESSION_BUSY")
        agent.call("send", session_id=session, key="C-c", read="new")
    assert shell("echo next")["output"] == "next\n"


def test_busy_and_time_out_then_go_on_reading(agent: Agent, shell: Run, tmp_path: Path):
    first = shell("echo one; sleep 30", timeout_ms=SOON_MS)
    assert (first["outcome"], first["completed"], first["output"]) == ("timeout", False, "one\n")
    failed = refused("SESSION_BUSY", shell, "echo no")
    assert "sleep 30" in str(failed)
    agent.call("send", session_id=first["session_id"], key="C-c")
    assert shell("echo free")["output"] == "free\n"
    first = shell(f"echo one; {until_exists(tmp_path / 'go')}; echo two", timeout_ms=SOON_MS)
    (tmp_path / "go").touch()
    rest = agent.call("read", session_id=first["session_id"], wait_for="ready")
    assert (rest["outcome"], rest["content"][:4]) == ("ready", "two\n")


@pytest.mark.parametrize("before", ["", "zshexit_functions=()"])
def test_a_signal_that_ends_the_shell_gives_its_command_no_exit_code(agent: Agent, program: str, before: str):
    made = agent.call("create_session", program=program)
    session = made["session_id"]
    agent.run(in_shell(program, zsh=before, fish=""), session_id=session)
    running = begin(agent, session, "echo begun; sleep 60; echo over", "sleep 60")
    os.kill(made["pid"], signal.SIGHUP)
    result = running.result(10 * SLOW).structured_content
    assert (result["outcome"], result["completed"], result["exit_code"]) == ("exited", False, None)
    assert "signal" in result["note"]
    assert result["output"].startswith("begun\n")
    listed = agent.call("list_commands", session_id=session)["commands"][-1]
    assert (listed["text"], listed["exit_code"]) == ("echo begun; sleep 60; echo over", None)


ENDS = {"exit": 0, "false; exit": 1, "exit 1": 1, "sh -c 'exit 3'; exit": 3, "exec true": 0, "exec false": 1}


@pytest.mark.parametrize("command", ENDS)
def test_a_command_that_ends_the_shell_has_its_exit_code(agent: Agent, program: str, command: str):
    session = agent.call("create_session", program=program)["session_id"]
    result = agent.run(command, session_id=session)
    assert (result["outcome"], result["completed"], result["exit_code"]) == ("exited", True, ENDS[command])


BASH_EXITS = [
    ("trap 'exit 9' EXIT", "exit 4", None),
    ("f() { exit 9; }; trap f EXIT; IFS=xyz", "exit 4", None),
    ("trap 'exit 9' EXIT; set -e", "(exit 4)", None),
    ("trap 'echo bye' EXIT", "exit 4", 4),
    ("trap 'exit 9' EXIT", "cd /; exec sh -c 'exit 4'", 4),
    ("true", "trap 'exit 9' EXIT; exit 4", None),
]

ZSH_EXITS = [
    ("TRAPEXIT() { exit 9 }", "exit 4", None),
    ("trap 'exit 9' EXIT", "exit 4", None),
    ("zshexit() { exit 9 }", "exit 4", None),
    ("f() { exit 9 }; zshexit_functions+=(f)", "exit 4", None),
    ("TRAPEXIT() { echo bye }", "exit 4", 4),
    ("TRAPEXIT() { exit 9 }", "exec sh -c 'exit 4'", 4),
    ("true", "TRAPEXIT() { exit 9 }; exit 4", None),
]


@pytest.mark.parametrize(
    ("own", "before", "command", "code"),
    [("bash", *row) for row in BASH_EXITS]
    + [pytest.param("zsh", *row, marks=OTHER_SHELLS[0].marks) for row in ZSH_EXITS],
)
def test_what_a_trap_for_the_shells_end_exits_with_is_not_the_commands(
    agent: Agent, own: str, before: str, command: str, code: int | None
):
    session = agent.call("create_session", program=own)["session_id"]
    agent.run(before, session_id=session)
    result = agent.run(command, session_id=session)
    assert (result["outcome"], result["completed"], result["exit_code"]) == ("exited", code is not None, code), result
    assert code is not None or "or by a trap of its own" in result["note"]
    assert agent.call("list_commands", session_id=session)["commands"][-1]["exit_code"] in (code, None)


@zsh_only
@pytest.mark.parametrize(("command", "completed", "code"), [("kill -ALRM $$", False, None), ("exit 14", True, 14)])
def test_an_alarm_that_ends_zsh_is_no_exit_code(agent: Agent, program: str, command: str, completed: bool, code: int):
    session = agent.call("create_session", program=program)["session_id"]
    result = agent.run(command, session_id=session)
    assert (result["outcome"], result["completed"], result["exit_code"]) == ("exited", completed, code)


@zsh_only
def test_a_subshell_that_a_signal_ends_is_not_the_shell(shell: Run):
    result = shell("zmodload zsh/system; (kill -HUP $sysparams[pid]; sleep 60); echo over; exit 1", timeout_ms=LONG_MS)
    assert (result["output"], result["completed"], result["exit_code"]) == ("over\n", True, 1)


def test_a_shell_started_by_hand_is_never_answered_wrongly(agent: Agent, shell: Run):
    session = session_of(shell)
    for nested in ("zsh", "zsh -f", "fish", "fish --no-config", "bash", "bash --norc", "sh"):
        agent.call("send", session_id=session, text=nested, enter=True)
        result = answered(lambda: shell("echo inner 42"))
        refused = result in ("NOT_A_SHELL", "SESSION_BUSY")
        assert refused or (result["output"], result["exit_code"]) == ("inner 42\n", 0), nested
        agent.call("send", session_id=session, text="exit", enter=True)
        assert shell("echo outer")["output"] == "outer\n", nested


@pytest.mark.parametrize("other", ["zsh -f", "fish --no-config", "bash --norc"])
def test_another_shell_in_its_place_is_never_answered_wrongly(agent: Agent, shell: Run, other: str):
    agent.call("send", session_id=session_of(shell), text=f"exec {other}", enter=True)
    result = shell("echo inner; sh -c 'exit 3'")
    assert (result["output"], result["exit_code"]) == ("inner\n", 3)


def test_forged_marks_change_nothing(agent: Agent, shell: Run):
    session = session_of(shell)
    log = agent.state_dir / "sessions" / session / "out.raw"
    kinds = ("A", "B", "C", "E", "D;0", "P;k=s")
    forged = "".join(f"\\033]133;{kind};aid=x;n={n}\\007" for n in range(9) for kind in kinds)
    assert shell(f"printf '{forged}'; echo kept; sh -c 'exit 3'")["exit_code"] == 3
    for _ in range(3):
        result = shell(f"head -c {log.stat().st_size} {log}; echo; echo kept; sh -c 'exit 4'")
        assert (result["exit_code"], result["completed"]) == (4, True)
        behind = result["output"].rpartition("kept\n")[2]
        assert not behind or behind.startswith("^["), behind  # tmux answers once more what fish 4 asked its terminal
    assert shell("echo fine")["output"] == "fine\n"


# ---- zsh ---------------------------------------------------------------------------------------------


@zsh_only
@pytest.mark.parametrize(
    "before", ["readonly IFS", "IFS=:; readonly IFS", "readonly histchars", "readonly PROMPT", "readonly PS1"]
)
def test_what_the_user_has_made_readonly_in_zsh(shell: Run, before: str):
    shell(before)
    result = shell("echo 'two  words:'; (exit 7)")
    assert (result["output"], result["exit_code"], result["note"]) == ("two  words:\n", 7, None)
    assert shell(" echo 'ü€  \n x'")["output"] == "ü€  \n x\n"
    assert shell("echo " + "o" * 20_000)["exit_code"] == 0


@zsh_only
def test_set_e_and_u_and_x_persist_in_zsh(shell: Run):
    shell("set -u")
    assert shell("echo $nothing_here")["exit_code"] == 1
    assert shell("echo set")["output"] == "set\n"
    shell("set +u; set -x; PS4='+ '")
    assert shell("echo hi")["output"] == "+ echo hi\nhi\n"
    shell("set +x; set -e")
    assert shell("echo alive")["output"] == "alive\n"
    ended = shell("false")
    assert (ended["outcome"], ended["exit_code"]) == ("exited", 1)


@zsh_only
def test_options_are_the_users_again_when_a_command_runs(shell: Run):
    before = shell('setopt; echo "<$histchars>"')["output"]
    assert "<!^#>" in before
    assert "interactivecomments" not in before
    assert "promptsp" not in before
    shell("echo )")
    shell("setopt interactive_comments correct_all; histchars='@^#'")
    after = shell('setopt; echo "<$histchars>" # and\nslep() { echo never asked; }; slep')["output"]
    assert "<@^#>" in after
    assert {"interactivecomments", "correctall"} <= set(after.split())
    assert after.endswith("never asked\n")


ZSH_FILES = {
    "empty": "",
    "prompt made by precmd": 'precmd() { PROMPT="<$?> $RANDOM " }',
    "precmd that prints": "precmd() { echo from precmd }; unsetopt prompt_sp",
    "hooks that print": "autoload -Uz add-zsh-hook; a() { print a }; add-zsh-hook precmd a; add-zsh-hook preexec a",
    "preexec that prints": 'preexec() { print -r -- "run: $1" }',
    "two-line prompt": "PROMPT=$'%F{green}%n@%m\\n%# %f'",
    "right prompt": "RPROMPT='%T'; setopt transient_rprompt",
    "substituted prompt": "setopt prompt_subst; x() { print -n '%F{red}x%f' }; PROMPT='$(x) ${PWD} %(?..%?) '",
    "no prompt_sp": "unsetopt prompt_sp",
    "no prompt_cr": "unsetopt prompt_cr",
    "end of line mark": "PROMPT_EOL_MARK='%S<%s'",
    "vi mode": "bindkey -v; KEYTIMEOUT=1; zle-keymap-select() { zle reset-prompt }; zle -N zle-keymap-select",
    "line hooks": "zle-line-init() { zle reset-prompt }; zle -N zle-line-init; zle -N zle-line-finish zle-line-init",
    "own widgets": 'accept-line() { BUFFER="echo no"; zle .accept-line }; zle -N accept-line',
    "pasting widgets": "autoload -Uz bracketed-paste-magic; zle -N bracketed-paste bracketed-paste-magic",
    "highlighting": "zle-line-pre-redraw() { region_highlight=('0 3 fg=red') }; zle -N zle-line-pre-redraw",
    "own keymap": "bindkey -N mine emacs; bindkey -A mine main",
    "no bracketed paste": "unset zle_bracketed_paste",
    "correction": "setopt correct_all",
    "history": "HISTFILE=~/h HISTSIZE=9 SAVEHIST=9; setopt share_history hist_verify hist_ignore_space hist_no_store",
    "options": "setopt ksh_arrays sh_word_split no_unset no_clobber glob_subst extended_glob all_export",
    "no functions of zsh": "unset fpath",
    "aliases": "alias print='echo no' local='echo no' builtin='echo no' zle='echo no'; alias -g true=no",
    "functions of our words": "print() { echo no }; zle() { builtin zle $@ }",
    "debug trap": "trap ':' DEBUG",
    "new hook arrays": "precmd_functions=(true) preexec_functions=()",
    "an error": "nosuchcommand; false; [[",
    "exported prompt": "export PROMPT PROMPT_EOL_MARK PS2",
    "C locale": "LC_ALL=C",
}


@zsh_only
@pytest.mark.parametrize("file", ZSH_FILES.values(), ids=ZSH_FILES.keys())
def test_the_users_own_zshrc(agent: Agent, session_in: Callable[..., str], home: Path, program: str, file: str):
    (home / ".zshrc").write_text("FROM_RC=yes\n" + file + "\n")
    session = session_in("zsh")
    assert agent.run("echo $FROM_RC # read", session_id=session)["output"] == "yes\n"
    assert agent.run("printf '%s' 'é  x'; (exit 6)", session_id=session)["exit_code"] == 6
    assert agent.run("echo $?", session_id=session)["output"] == "6\n"
    result = agent.run("for i in 1 2\ndo echo $i\ndone; printf x", session_id=session)
    assert (result["output"], result["exit_code"]) == ("1\n2\nx", 0)
    assert agent.run("zsh -fc 'echo inner'; echo )", session_id=session)["exit_code"] == 1
    assert answered(lambda: agent.run("echo 'open", session_id=session)) == "INCOMPLETE_COMMAND"
    assert agent.run("echo äé", session_id=session)["output"] == "äé\n"


@zsh_only
@pytest.mark.parametrize(
    ("args", "read"),
    [
        ([], "env rc"),
        (["-l"], "env profile rc login"),
        (["--login", "-i"], "env profile rc login"),
        (["-i", "-o", "extendedglob"], "env rc"),
        (["-f"], ""),
        (["-fi"], ""),
        (["-o", "NO_RCS"], ""),
    ],
    ids=str,
)
def test_other_ways_to_start_zsh(
    agent: Agent, session_in: Callable[..., str], home: Path, program: str, args: list[str], read: str
):
    own = home / "own"
    own.mkdir()
    for name in ("shenv", "profile", "shrc", "login"):
        (own / f".z{name}").write_text(f"READ+=({name.removeprefix('sh')}); SEEN+=$ZDOTDIR\n")
    session = session_in("zsh", *args, ZDOTDIR=str(own))
    result = agent.run("echo $READ; (exit 3)", session_id=session)
    assert (result["output"], result["exit_code"], result["evidence"]) == (read + "\n", 3, "marks")
    if read:
        assert set(agent.run("echo $SEEN", session_id=session)["output"].split(str(own))) <= {"", "\n"}
    assert agent.run("env | grep ZDOTDIR; zsh -c 'echo $READ'", session_id=session)["output"] == f"ZDOTDIR={own}\nenv\n"


@zsh_only
def test_a_zshenv_may_move_the_other_files(agent: Agent, session_in: Callable[..., str], home: Path, program: str):
    (home / ".zshenv").write_text("export ZDOTDIR=$HOME/moved\n")
    (home / "moved").mkdir()
    (home / "moved/.zshrc").write_text("MOVED=yes\n")
    session = session_in("zsh")
    assert agent.run("echo $MOVED $ZDOTDIR", session_id=session)["output"] == f"yes {home}/moved\n"


@zsh_only
@pytest.mark.parametrize(("file", "found"), [("", False), ("setopt bang_hist", True)])
def test_an_exclamation_mark_is_itself_in_zsh(
    agent: Agent, session_in: Callable[..., str], home: Path, program: str, file: str, found: bool
):
    (home / ".zshrc").write_text(file)
    sent = agent.call("send", session_id=session_in("zsh"), text='echo "a!nosuch"', enter=True)
    assert ("event not found" in sent["result"]["content"]) is found


@zsh_only
@pytest.mark.parametrize(
    "before",
    [
        "precmd_functions=()",
        "unset precmd_functions",
        "precmd_functions=() preexec_functions=()",
        "precmd_functions=(); PROMPT='> '",
    ],
)
def test_a_zsh_whose_hooks_were_taken_away_is_asked(shell: Run, tmp_path: Path, before: str):
    gone = shell(f"{before}; echo ran >>{tmp_path}/did; echo out; false", timeout_ms=LONG_MS)
    assert (gone["output"], gone["exit_code"], gone["completed"]) == ("out\n", 1, True), gone
    assert "precmd_functions" in gone["note"]
    result = shell(f"echo ran >>{tmp_path}/did; echo next; sh -c 'exit 4'", timeout_ms=LONG_MS)
    assert (result["output"], result["exit_code"], result["note"]) == ("next\n", 4, None), result
    assert (tmp_path / "did").read_text() == "ran\nran\n"


@zsh_only
def test_a_line_that_zsh_refuses_has_no_earlier_commands_exit_code(shell: Run):
    assert shell("sh -c 'exit 3'")["exit_code"] == 3
    result = shell("echo )")
    assert (result["output"], result["exit_code"]) == ("zsh: parse error near `)'\n", 1)


def test_a_command_that_fills_its_row_is_shown(shared: Run):
    for width in range(60, 80):
        assert shared("echo " + "x" * (width - len("echo ")))["note"] is None, width


SLOW_TO_LEAVE = "zmodload zsh/zselect; TRAPDEBUG() { [[ ${funcstack[2]-} != __tmuxmcp_run ]] || zselect -t 30 }"
"""Each step of our widget takes 0.3 s: also that from its word that it took no command to its leaving the prompt."""


@zsh_only
def test_a_zsh_that_was_asked_leaves_its_prompt_before_the_next_command(shell: Run):
    gone = shell(f"{SLOW_TO_LEAVE}; unset precmd_functions; false", timeout_ms=LONG_MS)
    assert (gone["exit_code"], gone["completed"]) == (1, True), gone
    result = shell("echo next", timeout_ms=LONG_MS)
    assert (result["output"], result["exit_code"], result["note"]) == ("next\n", 0, None), result


LEFT_BEHIND = [
    "stty -echo",
    "stty raw -echo",
    "stty -opost",
    "printf '\\033[?1049h'",
    "printf '\\033[?1000h\\033[?2004l'",
]


@pytest.mark.parametrize("left", LEFT_BEHIND)
def test_what_a_program_left_of_the_terminal(shell: Run, tmp_path: Path, left: str):
    shell(left)
    for number in range(2):
        result = shell(f"echo ran >>{tmp_path}/did; echo one; echo two; sh -c 'exit 3'", timeout_ms=LONG_MS)
        assert (result["output"], result["exit_code"], result["completed"]) == ("one\ntwo\n", 3, True), result
        assert ("printf" in left) <= ("left the terminal changed" in (result["note"] or ""))
        assert (tmp_path / "did").read_text() == "ran\n" * (number + 1)


@zsh_only
def test_the_persons_zsh_history_is_left_alone(agent: Agent, session_in: Callable[..., str], home: Path, program: str):
    history = home / ".zsh_history"
    history.write_text("the person's own\n" * 5)
    (home / ".zshrc").write_text(
        "HISTFILE=~/.zsh_history HISTSIZE=3 SAVEHIST=3; setopt share_history; unsetopt append_history\n"
    )
    session = session_in("zsh")
    agent.run("echo agents command", session_id=session)
    seen = agent.run("history 1; echo $HISTFILE; env | grep -c HISTFILE", session_id=session)["output"]
    assert "agents command" in seen
    assert "person" not in seen
    assert seen.endswith(f"/{session}/history\n0\n")
    agent.run("exit", session_id=session)
    assert history.read_text() == "the person's own\n" * 5
    assert "agents command" in (agent.state_dir / "sessions" / session / "history").read_text()


# ---- fish --------------------------------------------------------------------------------------------

FISH_FILES = {
    "empty": "",
    "own prompt": "function fish_prompt; echo 'own> '; end",
    "two-line prompt": "function fish_prompt; echo one; echo 'two> '; end; function fish_right_prompt; date; end",
    "slow prompt": "function fish_prompt; sleep 0.2; echo 'slow> '; end",
    "very long prompt": "function fish_prompt; string repeat -n 200 x; end",
    "vi mode": "fish_vi_key_bindings",
    "events that print": "\n".join(
        f"function on_{event} --on-event fish_{event}; echo on {event}; end"
        for event in ("prompt", "preexec", "postexec")
    ),
    "Enter of one's own": "function enter; commandline -r 'echo no'; commandline -f execute; end; bind \\r enter",
    "no paste": "bind --preset -e -M default \\e\\[200~; bind -M default \\e\\[200~ true",
    "abbreviations": "abbr -a true 'echo no'; abbr -a read 'echo no'; abbr -a 6 7",
    "no greeting": "set -g fish_greeting",
    "functions of our words": "function printf; builtin printf $argv; end; function string; builtin string $argv; end",
    "title": "function fish_title; echo my title; end",
    "an error": "nosuchcommand; false; echo (",
}


@fish_only
@pytest.mark.parametrize("file", FISH_FILES.values(), ids=FISH_FILES.keys())
def test_the_users_own_config_fish(agent: Agent, session_in: Callable[..., str], home: Path, program: str, file: str):
    (home / ".config/fish").mkdir(parents=True)
    (home / ".config/fish/config.fish").write_text(file + "\n")
    session = session_in(program)
    assert agent.run("echo read # it", session_id=session)["output"] == "read\n"
    assert agent.run("true", session_id=session)["output"] == ""
    assert agent.run("printf '%s' 'é  x'; sh -c 'exit 6'", session_id=session)["exit_code"] == 6
    assert agent.run("echo $status 6", session_id=session)["output"] == "6 6\n"
    result = agent.run("for i in 1 2\necho $i\nend; printf x", session_id=session)
    assert (result["output"], result["exit_code"]) == ("1\n2\nx", 0)
    assert agent.run("echo )", session_id=session)["exit_code"] == 127
    assert answered(lambda: agent.run("echo 'open", session_id=session)) == "INCOMPLETE_COMMAND"
    assert agent.run("echo äé", session_id=session)["output"] == "äé\n"


@fish_only
@pytest.mark.parametrize("args", [["--no-config"], ["-N"], ["-l"], ["-i"], ["-P"], ["-C", "set -g mine 1"]], ids=str)
def test_other_ways_to_start_fish(agent: Agent, session_in: Callable[..., str], program: str, args: list[str]):
    session = session_in(program, *args)
    result = agent.run("echo mine=\"$mine\"; sh -c 'exit 3'", session_id=session)
    assert result["output"] == ("mine=1\n" if args[0] == "-C" else "mine=\n")
    assert (result["exit_code"], result["evidence"]) == (3, "marks")


@fish_only
def test_prompt_functions_and_variables_are_the_users_own(shell: Run):
    shell("function fish_prompt; echo 'new> '; end")
    assert shell("functions fish_prompt | tail -n 3")["output"] == "function fish_prompt\n    echo 'new> '\nend\n" or (
        "echo 'new> '" in shell("functions fish_prompt")["output"]
    )
    assert "tmuxmcp" not in shell("functions fish_prompt; set -U; set -x")["output"].replace("TMUXMCP_SESSION", "")


@fish_only
def test_the_persons_fish_history_is_left_alone(agent: Agent, session_in: Callable[..., str], home: Path, program: str):
    history = home / ".local/share/fish/fish_history"
    history.write_text("- cmd: echo persons\n  when: 1700000000\n")
    session = session_in(program)
    agent.run("echo agents", session_id=session)
    seen = agent.run("history | cat", session_id=session)["output"]
    assert "echo agents" in seen
    assert "persons" not in seen
    agent.run("exit", session_id=session)
    assert history.read_text() == "- cmd: echo persons\n  when: 1700000000\n"
    assert [path.name for path in history.parent.glob("*history*")] == ["fish_history"]


# ---- both --------------------------------------------------------------------------------------------


def test_the_prompt_is_as_it_was(agent: Agent, session_in: Callable[..., str], home: Path, program: str):
    (home / ".zshrc").write_text("PROMPT='my own> ' RPROMPT='right'\n")
    (home / ".config/fish").mkdir(parents=True)
    (home / ".config/fish/config.fish").write_text(
        "set -g fish_greeting; function fish_prompt; printf 'my own> '; end\n"
        "function fish_right_prompt; echo right; end\n"
    )
    session = session_in(program)
    screen: dict = {}

    def drawn() -> bool:
        """The cursor goes back from behind the right prompt."""
        screen.update(agent.call("read", session_id=session, view="screen"))
        return "right" in screen["content"] and screen["cursor"] == {"row": 0, "col": 8, "visible": True}

    eventually(drawn)
    assert screen["content"].split() == ["my", "own>", "right"]
    assert screen["content"].startswith("my own> ")
    variables = agent.run("env", session_id=session)["output"]
    assert "aid" not in variables
    assert "NONCE" not in variables
    agent.run("printf 'no newline'", session_id=session)
    eventually(lambda: screen_of(agent, session)[-1].startswith("my own>"))
    assert any(line.startswith("no newline") for line in screen_of(agent, session))


@zsh_only
@pytest.mark.parametrize("more", ["", "unsetopt prompt_sp"])
def test_a_prompt_made_anew_is_shown(agent: Agent, session_in: Callable[..., str], home: Path, program: str, more: str):
    (home / ".zshrc").write_text(f'precmd() {{ PROMPT="<$?> " }}\n{more}\n')
    session = session_in("zsh")
    for status in (6, 7):
        agent.run(f"(exit {status})", session_id=session)
        eventually(lambda status=status: screen_of(agent, session)[-1].strip() == f"<{status}>")
    agent.run("unfunction precmd; PROMPT='new> '; PROMPT2='more> '", session_id=session)
    agent.call("send", session_id=session, text="echo 'a", enter=True, read="none")
    eventually(lambda: [line.strip() for line in screen_of(agent, session)[-2:]] == ["new> echo 'a", "more>"])


def screen_of(agent: Agent, session: str) -> list[str]:
    return agent.call("read", session_id=session, view="screen")["content"].splitlines()


def test_scripts_and_commands_are_left_alone(agent: Agent, program: str):
    made = agent.call("create_session", program=program, args=["-c", "env; exit 4"])
    eventually(lambda: agent.call("get_session", session_id=made["session_id"])["exited"])
    facts = agent.call("get_session", session_id=made["session_id"])
    assert facts["exit_code"] == 4
    assert "NONCE" not in agent.call("read", session_id=made["session_id"], since=0)["content"]


ERASED = [
    "__tmuxmcp_preexec __tmuxmcp_postexec",
    "__tmuxmcp_preexec",
    "__tmuxmcp_prompt",
    "(functions --all --names | string match '__tmuxmcp_*')",
]


@fish_only
@pytest.mark.parametrize("erased", ERASED)
def test_fish_whose_functions_were_erased_has_them_again(shell: Run, erased: str):
    gone = shell(f"functions --erase {erased}; echo own; sh -c 'exit 5'", timeout_ms=LONG_MS)
    assert (gone["exit_code"], gone["completed"]) == (5, True), gone
    assert gone["output"] == "own\n" or "output may end with what fish_prompt printed" in gone["note"]
    result = shell("echo next; sh -c 'exit 7'", timeout_ms=LONG_MS)
    assert (result["output"], result["exit_code"], result["note"]) == ("next\n", 7, None), result


ZSH_HOOKS = [
    "precmd_functions=(f $precmd_functions)",
    "precmd_functions+=(f)",
    "preexec_functions+=(f)",
    "preexec_functions=(f)",
    "unset preexec_functions",
    "precmd() { f; }",
    "preexec() { f; }",
    "autoload -U add-zsh-hook; add-zsh-hook precmd f; add-zsh-hook preexec f",
    "readonly precmd_functions preexec_functions",
    "setopt ksh_arrays; precmd_functions+=(f)",
]

FISH_HOOKS = [
    "function g --on-event fish_postexec; f; end",
    "function g --on-event fish_prompt; f; end",
    "function g --on-event fish_preexec; f; end",
    "function fish_preexec --on-event fish_preexec; f; end",
    "function fish_right_prompt; f; end",
]


def hooks_added(shell: Run, function: str, added: str, before: str = "true") -> None:
    shell(before)
    for command in (f"{function}; {added}; echo own; sh -c 'exit 5'", "echo own; sh -c 'exit 5'"):
        result = shell(command)
        assert (result["output"], result["exit_code"]) == ("own\n", 5), result
        assert result["cwd"] == shell("pwd")["output"].strip()


@zsh_only
@pytest.mark.parametrize("added", ZSH_HOOKS)
def test_what_a_command_adds_to_zshs_hooks_is_not_its_own(shell: Run, added: str):
    hooks_added(shell, "f() { echo hooked; false; }", added)


@fish_only
@pytest.mark.parametrize("added", FISH_HOOKS)
def test_what_a_command_adds_to_fishs_hooks_is_not_its_own(shell: Run, added: str):
    hooks_added(shell, "function f; echo hooked; false; end", added)


@zsh_only
@pytest.mark.parametrize("added", ["precmd_functions=(f $precmd_functions)", "precmd_functions=(f)", "precmd() { f; }"])
def test_what_ran_before_zsh_told_the_end_is_noted(shell: Run, added: str):
    shell("unsetopt prompt_sp; f() { echo hooked; false; }")
    result = shell(f"{added}; echo own; sh -c 'exit 5'", timeout_ms=LONG_MS)
    assert (result["output"], result["exit_code"]) == ("own\nhooked\n", 5), result
    assert "output may end with what precmd_functions printed" in result["note"]
    result = shell("echo own; sh -c 'exit 6'")
    assert (result["output"], result["exit_code"], result["note"]) == ("own\n", 6, None), result


@zsh_only
@pytest.mark.parametrize("gone", ["unfunction __tmuxmcp_precmd", "unfunction -m '__tmuxmcp_*'"])
def test_zsh_without_our_functions_is_said_to_tell_no_more_and_begins_anew(agent: Agent, shell: Run, gone: str):
    untold = shell(f"{gone}; sh -c 'exit 5'", timeout_ms=LONG_MS)
    assert (untold["exit_code"], untold["outcome"]) == (None, "ready"), untold
    assert "`exec zsh`, sent to it, gives a new shell" in untold["note"]
    session = untold["session_id"]
    assert "refused" not in untold["note"]
    agent.call("send", session_id=session, text="exec zsh", enter=True)
    anew = shell("echo next; sh -c 'exit 4'", timeout_ms=LONG_MS)
    assert (anew["output"], anew["exit_code"]) == ("next\n", 4), anew
