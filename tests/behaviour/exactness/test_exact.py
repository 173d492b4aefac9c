"""Exact means exact: `run` in bash, through MCP, from a real client over stdio."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import PATIENCE_S, SLOW, attempts, until_exists
from tests.kit.agent import Agent, ToolFailed, an_agent, eventually, refused
from tests.kit.exactness import BASH, LONG_MS, SOON_MS, THROUGH_OTHERS, Run, answered, session_of
from tests.kit.fixtures import of_file
from tests.kit.programs import need

agent = of_file(an_agent, "bash")


@pytest.fixture
def session_of_bash(agent: Agent) -> Iterator[Callable[..., str]]:
    """Make a bash with arguments and variables; gives its session's id."""
    made: list[str] = []

    def make(*args: str, **env: str) -> str:
        made.append(agent.call("create_session", program="bash", args=list(args), env=env)["session_id"])
        return made[-1]

    yield make
    for session in made:
        agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.parametrize(("command", "output", "status"), BASH, ids=[repr(row[0])[:40] for row in BASH])
def test_output_and_exit_code(agent: Agent, command: str, output: str | None, status: int):
    result = agent.run(command)
    assert (result["exit_code"], result["completed"], result["outcome"]) == (status, True, "ready"), result
    assert result["evidence"] == "marks"
    if output is not None:
        assert result["output"] == output
    assert not result["truncated"]


def test_long_lines_are_not_broken_at_the_panes_width(agent: Agent):
    lines = [chr(ord("a") + i % 26) * 300 for i in range(20)]
    result = agent.run("for i in {a..t}; do printf \"%300s\\n\" | tr ' ' $i; done")
    assert result["output"].splitlines() == lines
    wide = "漢" * 150
    assert agent.run(f"echo {wide}")["output"] == wide + "\n"


def test_long_command_of_many_lines(agent: Agent):
    script = "\n".join(f"y[{i}]='line {i} of many, with some text in it'" for i in range(2000))
    result = agent.run(script + "\necho ${#y[@]}")
    assert (result["output"], result["exit_code"]) == ("2000\n", 0)


@pytest.mark.parametrize("char", "\x03\x11\x13\x1a\x1c", ids=ascii)
def test_characters_on_which_the_terminal_acts_are_refused(agent: Agent, char: str):
    assert answered(lambda: agent.run(f"echo 'a{char}b; echo no'")) == "INVALID_ARGUMENT"


def test_state_persists(shell: Run):
    assert shell("cd /usr/lib; export A=1 B='two words'; alias greet='echo hello'")["cwd"] == "/usr/lib"
    assert shell("pwd; echo $A $B; greet")["output"] == "/usr/lib\n1 two words\nhello\n"


def test_set_e_and_u_and_x_persist(shell: Run):
    shell("set -u")
    assert shell("echo $nothing_here")["exit_code"] == 1
    shell("set +u; set -x")
    assert shell("echo hi")["output"] == "+ echo hi\nhi\n"
    shell("set +x; set -e")
    assert shell("echo alive")["output"] == "alive\n"
    ended = shell("false")
    assert (ended["outcome"], ended["exit_code"]) == ("exited", 1)


def test_dollar_question_is_the_commands_own(shell: Run):
    assert shell("(exit 42)")["exit_code"] == 42
    assert shell("echo $?")["output"] == "42\n"


@pytest.mark.parametrize("rows", [24, 500])
def test_output_is_what_stands_in_its_rows(agent: Agent, rows: int):
    """Wherever on the screen it begins, and however it was drawn."""
    session = agent.call("create_session", program="bash", rows=rows, ready_timeout_ms=int(10_000 * SLOW))["session_id"]
    agent.run("seq 5", session_id=session)
    for command, output, above in [
        ("printf 'Downloading 10%%\\033[1G\\033[0Kok\\n'", "ok\n", False),
        ("printf 'spin\\033[1G\\033[0K'", "", False),
        ("printf 'x\\033[1G\\033[0K\\ty\\n'", "        y\n", False),
        ("printf 'one\\ntwo\\n\\033[2A\\033[J1\\n\\033[Kthree\\n'", "1\nthree\n", False),
        ("printf 'one\\n\\033[3Atop\\033[3B\\rtwo\\n'", "one\ntwo\n", True),
        ("printf 'one\\ntwo\\n\\0337\\033[1;1Hxyz\\0338three\\n'", "one\ntwo\nthree\n", True),
        ("printf 'one\\n\\0337\\033[2;1H\\033[K\\0338two\\n'", "one\ntwo\n", False),
    ]:
        before = agent.call("read", session_id=session, view="screen")["cursor"]["row"]
        result = agent.run(command, session_id=session)
        screen = agent.call("read", session_id=session, view="screen", max_bytes=1 << 20)["content"].split("\n")
        assert result["output"] == output, command
        if rows == 500:  # else the screen has scrolled
            assert screen[before + 1 :][: output.count("\n")] == output.split("\n")[:-1], command
        assert bool(result["note"] and "above" in result["note"]) == above, result["note"]
        told = agent.call("read", session_id=session, command=-1)
        assert (told["content"], told["note"]) == (output, result["note"])
    agent.call("destroy_session", session_id=session, force=True)


def test_what_is_typed_and_drawn_above_it(agent: Agent, shell: Run):
    session = session_of(shell)
    text = "printf 'one\\n\\0337\\033[1;1Hxyz\\0338two\\n'"
    sent = agent.call("send", session_id=session, text=text, enter=True, wait_for="ready")["result"]
    assert sent["content"].splitlines()[1:3] == ["one", "two"]
    assert text in sent["content"].splitlines()[0]
    assert "above" in sent["note"]


def test_a_silent_command_is_waited_for(agent: Agent):
    result = agent.run("sleep 2")
    assert (result["output"], result["exit_code"], result["completed"]) == ("", 0, True)
    assert result["duration_ms"] >= 1990


def test_background_jobs_do_not_hold_the_answer(shell: Run):
    result = shell("sleep 30 & echo started")
    assert "started" in result["output"]
    assert result["duration_ms"] < 5000 * SLOW
    assert shell("kill %1; wait 2>/dev/null; echo gone")["output"].endswith("gone\n")


def test_a_command_killed_by_a_signal(agent: Agent, shell: Run):
    session = session_of(shell)
    call = {"command": "sleep 60", "session_id": session}
    running = agent.portal.start_task_soon(lambda: agent.client.call_tool("run", call))
    eventually(lambda: agent.in_front(session) == "sleep 60")
    assert agent.call("signal", session_id=session, signal="TERM")["delivered"]
    assert running.result(10 * SLOW).structured_content["exit_code"] == 143
    eventually(lambda: agent.call("get_session", session_id=session)["mode"] == "shell_prompt")
    assert shell("echo $?")["output"] == "143\n"


def test_an_open_quote(shell: Run):
    for unfinished in ("echo 'open", 'echo "open', "cat <<END\nx", "for i in 1 2; do", "echo $((1 +", "if true; then"):
        refused("INCOMPLETE_COMMAND", shell, unfinished)
        assert shell("echo usable")["output"] == "usable\n"


@pytest.mark.parametrize("unfinished", ["if true; then", "echo 'open", "cat <<END\nx"])
def test_an_open_quote_behind_a_line_that_runs(agent: Agent, shell: Run, unfinished: str):
    result = shell(f"echo first\n{unfinished}", timeout_ms=LONG_MS)
    assert (result["completed"], result["outcome"], result["evidence"]) == (False, "ready", "kernel"), result
    assert "first lines have run, and `bash` wants more" in result["note"]
    assert result["output"].startswith("first\n")
    with pytest.raises(ToolFailed, match=r"NOT_A_SHELL.*wants more.*key C-c"):
        shell("echo no")
    agent.call("send", session_id=result["session_id"], key="C-c")
    assert shell("echo usable")["output"] == "usable\n"
    assert "cannot be told" in shell("read -ep '> '", timeout_ms=LONG_MS)["note"]


@pytest.mark.parametrize("args", [[], ["--norc"], ["--login"]], ids=str)
def test_an_exclamation_mark_is_itself(agent: Agent, session_of_bash: Callable[..., str], args: list[str]):
    session = session_of_bash(*args)
    assert agent.run('echo "wow!x"; echo "feat!: y"', session_id=session)["output"] == "wow!x\nfeat!: y\n"
    assert (
        agent.run("env | grep HISTEXPAND; shopt -po histexpand", session_id=session)["output"] == "set +o histexpand\n"
    )


def test_history_expansion_that_the_user_switches_on_never_hangs_and_is_told(shell: Run):
    shell("set -H")
    result = shell('echo "hi!there"')
    assert not result["completed"]
    assert result["exit_code"] is None
    assert "event not found" in result["output"]
    assert "single quotes" in result["note"]
    assert shell("echo 'hi!there'")["output"] == "hi!there\n"


HOOKS_GONE = [
    "unset PROMPT_COMMAND",
    'PROMPT_COMMAND=("echo pc1")',
    "PROMPT_COMMAND=()",
    "unset PROMPT_COMMAND; unset PS0",
    "set -eu; unset PROMPT_COMMAND",
]


@pytest.mark.parametrize("before", HOOKS_GONE)
def test_a_shell_whose_hooks_were_taken_away_is_asked(shell: Run, tmp_path: Path, before: str):
    gone = shell(f"{before}; echo ran >>{tmp_path}/did; echo out; ! :", timeout_ms=LONG_MS)
    more = "pc1\n" if "pc1" in before else ""
    assert (gone["output"], gone["exit_code"], gone["completed"]) == ("out\n" + more, 1, True), gone
    assert "PROMPT_COMMAND" in gone["note"]
    assert (gone["mode"], gone["cwd"]) == ("shell_prompt", shell("pwd")["output"].strip())
    result = shell(f"echo ran >>{tmp_path}/did; echo next; (exit 0)", timeout_ms=LONG_MS)
    assert (result["output"], result["exit_code"], result["note"]) == ("next\n", 0, None), result
    assert (tmp_path / "did").read_text() == "ran\nran\n"


FAILS = "f() { echo hooked; ls /nonexistent 2>/dev/null; }; "

HOOKS_ADDED = [
    'PROMPT_COMMAND="f;$PROMPT_COMMAND"',
    'PROMPT_COMMAND="f${PROMPT_COMMAND:+;$PROMPT_COMMAND}"',
    'PROMPT_COMMAND="${PROMPT_COMMAND:+$PROMPT_COMMAND; }f"',
    'PROMPT_COMMAND+=";f"',
    "PROMPT_COMMAND+=(f)",
    "PROMPT_COMMAND=f",
    "PROMPT_COMMAND=",
    'export PROMPT_COMMAND="f;$PROMPT_COMMAND"',
    'OLD=$PROMPT_COMMAND; g() { f; eval "$OLD"; }; PROMPT_COMMAND=g',
    'set -o posix; PROMPT_COMMAND="f;$PROMPT_COMMAND"',
    'IFS=01f; PROMPT_COMMAND="f;$PROMPT_COMMAND"',
    "PS0='[\\t]\\n'",
]


@pytest.mark.parametrize("added", HOOKS_ADDED)
def test_what_a_command_adds_to_the_prompts_hooks_is_not_its_own(shell: Run, added: str):
    for command in (f"{FAILS}{added}; echo own; (exit 5)", "echo own; (exit 5)", "echo own; (exit 5)"):
        result = shell(command)
        assert (result["output"], result["exit_code"], result["note"]) == ("own\n", 5, None), result
    assert "tmuxmcp" not in shell('echo "$PROMPT_COMMAND"')["output"]


HOOKS_BEFORE_OURS = [
    'PROMPT_COMMAND=(f "${PROMPT_COMMAND[@]}")',
    'PROMPT_COMMAND=("f; ${PROMPT_COMMAND[@]}")',
    'OLD=("${PROMPT_COMMAND[@]}"); g() { f; for c in "${OLD[@]}"; do eval "$c"; done; }; PROMPT_COMMAND=(g)',
    "unset PROMPT_COMMAND; PROMPT_COMMAND=f",
]


@pytest.mark.parametrize("added", HOOKS_BEFORE_OURS)
def test_what_ran_before_the_shell_told_the_end_is_noted(shell: Run, added: str):
    result = shell(f"{FAILS}{added}; echo own; (exit 5)", timeout_ms=LONG_MS)
    assert (result["output"], result["exit_code"]) == ("own\nhooked\n", 5), result
    assert "output may end with what PROMPT_COMMAND printed" in result["note"]
    result = shell("echo own; (exit 6)")
    assert (result["output"], result["exit_code"], result["note"]) == ("own\n", 6, None), result


def test_hooks_of_a_start_up_file_that_is_read_again(agent: Agent, session_of_bash: Callable[..., str], tmp_path: Path):
    (tmp_path / ".bashrc").write_text(FAILS + 'PROMPT_COMMAND="f;${PROMPT_COMMAND}"\n')
    session = session_of_bash(HOME=str(tmp_path))
    for command, status in (("source ~/.bashrc", 0), ("source ~/.bashrc; sh -c 'exit 4'", 4)):
        result = agent.run(command, session_id=session)
        assert (result["output"], result["exit_code"], result["note"]) == ("", status, None), result


def test_a_persons_command_that_took_the_hooks_away(agent: Agent, shell: Run):
    session = session_of(shell)
    sent = agent.call("send", session_id=session, text="unset PROMPT_COMMAND; echo out", enter=True)
    assert sent["result"]["mode"] == "shell_prompt"
    seen = agent.call("read", session_id=session, command=-1)
    assert seen["content"] == "out\n"
    assert "The command may be over" in seen["note"]
    assert shell("echo next")["output"] == "next\n"
    ended = agent.call("list_commands", session_id=session)["commands"][-2]
    assert (ended["text"], ended["exit_code"]) == ("unset PROMPT_COMMAND; echo out", 0)


@pytest.mark.parametrize(("command", "answer"), [("read -e x", "x"), ("unset PROMPT_COMMAND; PS1='> '", "exit 3")])
def test_where_neither_prompt_nor_hooks_tell_the_end_it_is_not_said_to_go_on(
    agent: Agent, shell: Run, command: str, answer: str
):
    result = shell(command, timeout_ms=LONG_MS)
    assert (result["completed"], result["outcome"], result["evidence"]) == (False, "ready", "kernel"), result
    assert "cannot be told whether it is over" in result["note"]
    with pytest.raises(ToolFailed, match=f"NOT_A_SHELL.*cannot be told whether `{re.escape(command)}` is over"):
        shell("echo no")
    agent.call("send", session_id=result["session_id"], text=answer, enter=True, read="none")
    if answer == "x":
        assert shell("echo $x")["output"] == "x\n"


def test_that_a_shell_without_our_functions_waits_is_known_from_the_kernel(agent: Agent, shell: Run):
    gone = shell("unset -f $(compgen -A function __tmuxmcp_)", timeout_ms=LONG_MS)
    assert (gone["outcome"], gone["evidence"]) == ("ready", "kernel"), gone
    assert (gone["completed"], gone["exit_code"]) == (False, None)
    assert "cannot be told whether it is over" in gone["note"]
    assert "`exec bash`, sent to it, gives a new shell" in gone["note"]
    session = gone["session_id"]
    with pytest.raises(ToolFailed, match=r"no longer tells where its commands end.*`exec bash`, sent to it"):
        shell("echo no")
    agent.call("send", session_id=session, text="exec bash --norc", enter=True)
    anew = shell("echo next; (exit 4)", timeout_ms=LONG_MS)
    assert (anew["output"], anew["exit_code"]) == ("next\n", 4), anew


READONLY = {
    "prompt command": ("readonly PROMPT_COMMAND='history -a'", ""),
    "no prompt command": ("readonly PROMPT_COMMAND", ""),
    "array": ("PROMPT_COMMAND=('echo a' 'echo b'); readonly PROMPT_COMMAND", "a\nb\n"),
    "prompts": ("readonly PS1 PS0 PS2", ""),
    "all": ("readonly PS1 PS0 PS2 PROMPT_COMMAND", None),
}
"""Start-up file of a hardened machine, and what it adds to the output; None: nothing can tell ends there."""


@pytest.mark.parametrize("late", [False, True], ids=["in the start-up file", "later"])
@pytest.mark.parametrize(("file", "more"), READONLY.values(), ids=READONLY.keys())
def test_readonly_prompts_and_prompt_commands(
    agent: Agent, session_of_bash: Callable[..., str], tmp_path: Path, file: str, more: str | None, late: bool
):
    (tmp_path / ".bashrc").write_text("" if late else file)
    session = session_of_bash(HOME=str(tmp_path))
    if late:
        agent.run(file, session_id=session)
        more = "" if "=" not in file else more
    for number in range(3):
        call = {"command": f"echo ran >>{tmp_path}/did; echo one; (exit 3)", "session_id": session}
        if more is None and not late:
            assert answered(lambda call=call: agent.run(**call)) == "NOT_A_SHELL"
            assert not (tmp_path / "did").exists()
            continue
        result = agent.run(**call)
        assert (result["output"], result["exit_code"], result["completed"]) == (f"one\n{more}", 3, True), result
        assert (tmp_path / "did").read_text() == "ran\n" * (number + 1)


def test_a_shell_that_repeats_what_it_reads(shell: Run):
    assert shell("set -v")["output"] == ""
    for command, output, status in (("echo a; (exit 3)", "a\n", 3), ("printf a", "a", 0), ("# none", "", 0)):
        result = shell(command)
        assert (result["output"], result["exit_code"], result["completed"]) == (output, status, True), result
    assert "syntax error" in shell(")")["output"].splitlines()[-1]


@pytest.mark.parametrize("elsewhere", ["exec 2>err", "exec 2>&-", "exec 2>/dev/null"])
def test_stderr_of_the_shell_elsewhere(agent: Agent, shell: Run, tmp_path: Path, elsewhere: str):
    shell(f"cd {tmp_path}; {elsewhere}")
    for status in (3, 4):
        result = shell(f"echo out; echo err >&2; (exit {status})", timeout_ms=LONG_MS)
        assert (result["output"], result["exit_code"], result["completed"]) == ("out\n", status, True), result
        assert "stderr is not the terminal" in result["note"]
    agent.call("send", session_id=result["session_id"], text="echo sent; (exit 7)", enter=True)
    assert agent.call("list_commands", session_id=result["session_id"])["commands"][-1]["exit_code"] == 7
    shell(result["note"].split("`")[1])
    both = shell("echo both >&2")
    assert (both["output"], both["note"]) == ("both\n", None)


def test_nothing_of_the_shell_goes_to_the_terminal(shell: Run):
    for closed in ("exec >&- 2>&-", "exec >/dev/null 2>&1"):
        shell(closed)
        result = shell("echo out; echo err >&2; (exit 3)", timeout_ms=LONG_MS)
        assert (result["output"], result["exit_code"], result["completed"]) == ("", 3, True), result
        shell("exec >/dev/tty 2>&1")
        assert shell("echo back")["output"] == "back\n"


@pytest.mark.parametrize("others", THROUGH_OTHERS)
def test_a_shell_that_prints_through_other_programs(shell: Run, tmp_path: Path, others: str):
    assert shell(f"cd {tmp_path}; {others}; echo first", timeout_ms=LONG_MS)["output"] == "first\n"
    for command, output in (("echo x", "x\n"), ("echo err >&2", "err\n"), ("seq 3", "1\n2\n3\n"), (":", "")):
        result = shell(f"{command}; (exit 3)", timeout_ms=LONG_MS)
        assert (result["output"], result["exit_code"]) == (output, 3), result


def test_a_start_up_file_that_has_the_shell_print_through_another_program(
    agent: Agent, session_of_bash: Callable[..., str], tmp_path: Path
):
    (tmp_path / ".bashrc").write_text(f"exec > >(tee -a {tmp_path}/log) 2>&1\n")
    session = session_of_bash(HOME=str(tmp_path))
    for status in (3, 4):
        result = agent.run(f"echo x; (exit {status})", session_id=session)
        assert (result["output"], result["exit_code"], result["note"]) == ("x\n", status, None), result


def test_a_program_that_passes_nothing_on(shell: Run):
    shell("exec > >(exec sleep 1000)", timeout_ms=LONG_MS)
    result = shell("echo x; (exit 3)", timeout_ms=LONG_MS)
    assert (result["output"], result["exit_code"], result["completed"]) == ("", 3, True), result
    assert "cannot be told whether all of this output has come" in result["note"]
    shell(result["note"].split("`")[3])
    mended = shell("echo x")
    assert (mended["output"], mended["note"]) == ("x\n", None)
    shell("pkill -P $$ -x sleep")


def test_prompts_made_from_prompts_do_not_grow(shell: Run):
    shell('activate() { OLD=$PS1; PS1="(venv) $PS1"; }; deactivate() { PS1=$OLD; }')
    sizes = []
    for _ in range(4):
        shell("activate")
        shell("deactivate")
        sizes.append(shell("echo ${#PS1} ${#PS0} ${#PS2}")["output"])
    assert len(set(sizes)) == 1, sizes


LONG = "echo " + " ".join(f"word{number}" for number in range(60))

UNUSUAL = [
    "stty -echo",
    "export TERM=dumb",
    "export TERM=dumb; stty -echo",
    "bind 'set horizontal-scroll-mode on'",
    "bind 'set enable-bracketed-paste off'",
]
"""What makes the line editor show less of a command, or none of it, or take pastes for keys."""


SHOWN_OR_NOT = [
    ("echo a; (exit 3)", "a\n", 3),
    (LONG, LONG[5:] + "\n", 0),
    ("echo a\necho b\n(exit 4)", "a\nb\n", 4),
    ("for i in 1 2\ndo\n  echo $i\ndone", "1\n2\n", 0),
    ("cat <<'END'\n\ttab ' \" \\ \\n !x $y\nEND", "\ttab ' \" \\ \\n !x $y\n", 0),
    ("echo 'a\tb'", "a\tb\n", 0),
    ("echo \u00e9\u6f22", "\u00e9\u6f22\n", 0),
    ("# nothing", "", 0),
    ("nosuchcommand", "bash: nosuchcommand: command not found\n", 127),
]
"""Command, output, status."""


@pytest.mark.parametrize("before", UNUSUAL)
def test_what_a_line_editor_shows_does_not_decide(shell: Run, before: str):
    shell(before)
    for command, output, status in SHOWN_OR_NOT:
        result = shell(command, timeout_ms=LONG_MS)
        assert (result["output"], result["exit_code"], result["completed"]) == (output, status, True), result
        unseen = "-echo" in before and not command.startswith("#")
        assert ("echo is off" in (result["note"] or "")) is unseen, result


CRASHED = """python3 -c 'import curses; curses.initscr(); curses.noecho(); curses.cbreak(); raise SystemExit("boom")'"""

LEFT_BEHIND = {
    "a crashed full-screen program": (CRASHED, "echo is off"),
    "no echo": ("stty -echo", "echo is off"),
    "raw": ("stty raw", "newlines do not return"),
    "raw without echo": ("stty raw -echo", "echo is off"),
    "single keys": ("stty -icanon", None),
    "no signals": ("stty -isig", None),
    "no carriage returns": ("stty -onlcr", "newlines do not return"),
    "nothing done to output": ("stty -opost", "newlines do not return"),
    "pastes without brackets": ("printf '\\033[?2004l'", None),
    "pastes in brackets": ("printf '\\033[?2004h'", None),
    "the mouse": ("printf '\\033[?1000h\\033[?1006h'", "the mouse"),
    "the alternate screen": ("printf '\\033[?1049h'", "the alternate screen is on"),
}
"""What a program does to the terminal and leaves so, and what the next answer says of it."""


@pytest.mark.parametrize(("left", "told"), LEFT_BEHIND.values(), ids=LEFT_BEHIND.keys())
def test_what_a_program_left_of_the_terminal(shell: Run, tmp_path: Path, left: str, told: str | None):
    shell(left)
    for number in range(2):
        result = shell(f"echo ran >>{tmp_path}/did; echo one; echo two; (exit 3)", timeout_ms=LONG_MS)
        assert (result["output"], result["exit_code"], result["completed"]) == ("one\ntwo\n", 3, True), result
        assert (told or "") in (result["note"] or "")
        assert (result["note"] is None) == (told is None), result
        assert (tmp_path / "did").read_text() == "ran\n" * (number + 1)
    if told:
        assert "To mend that, run " in result["note"]
        shell(result["note"].split("`")[1])
        assert shell("echo mended")["note"] is None


def test_a_question_where_nothing_is_echoed(agent: Agent, shell: Run):
    shell("stty -echo")
    asked = shell("read -r x; echo got $x", timeout_ms=LONG_MS)
    assert (asked["completed"], asked["outcome"], asked["evidence"]) == (False, "ready", "kernel"), asked
    answer = agent.call("send", session_id=asked["session_id"], text="this", enter=True)
    assert "got this" in answer["result"]["content"]


def test_a_half_typed_line_is_cleared_and_status_kept(agent: Agent, shell: Run):
    session = session_of(shell)
    shell("(exit 5)")
    agent.call("send", session_id=session, text="rm -rf half typed", read="new")
    assert shell("echo $?")["output"] == "5\n"


def test_a_half_typed_line_in_vi_mode(agent: Agent, shell: Run):
    session = session_of(shell)
    shell("set -o vi")
    agent.call("send", session_id=session, text="some words here", read="new")
    assert shell("echo one")["output"] == "one\n"
    agent.call("send", session_id=session, text="some words here", key="Escape", read="new")
    assert shell("echo two")["output"] == "two\n"


@pytest.mark.parametrize("keys", [["C-v"], ["C-x"], ["C-r", "e"], ["M-5"], ["C-]"], ["Escape"]], ids=str)
def test_a_person_in_the_middle_of_something(agent: Agent, shell: Run, keys: list[str]):
    session = session_of(shell)
    for mode in ("emacs", "vi"):
        shell(f"set -o {mode}; echo earlier")
        agent.call("send", session_id=session, keys=keys, read="none")
        result = shell("echo mine\necho too")
        assert (result["output"], result["exit_code"]) == ("mine\ntoo\n", 0)


@pytest.mark.parametrize("nested", ["bash --norc", "zsh -f", "fish --no-config", "busybox sh", "dash"])
def test_mode_is_shell_prompt_only_where_run_works(agent: Agent, shell: Run, nested: str):
    session = session_of(shell)
    sent = agent.call("send", session_id=session, text=nested, enter=True)["result"]
    facts = agent.call("get_session", session_id=session)
    # Some wake once more behind their prompt (fish for its threads): until a wait looks anew, somebody may have typed.
    for _ in attempts("the mode is that of a prompt", PATIENCE_S):
        if sent["mode"] == facts["mode"] == "shell_prompt":
            break
        assert facts["mode"] in ("shell_prompt", "line_input", "running")
        sent = agent.call("read", session_id=session, wait_for="ready")
        facts = agent.call("get_session", session_id=session)
    assert (sent["outcome"], sent["mode"]) == ("ready", "shell_prompt")
    assert (facts["mode"], facts["foreground"]["command"]) == ("shell_prompt", nested.removeprefix("busybox "))
    asked = agent.call("send", session_id=session, text="read x", enter=True)
    assert asked["result"]["mode"] == "line_input"
    with pytest.raises(ToolFailed, match=f"`{facts['foreground']['command']}`") as failed:
        shell("echo no")
    assert failed.value.code == "NOT_A_SHELL"
    agent.call("send", session_id=session, text="an answer", enter=True)
    assert shell("echo inner")["mode"] == "shell_prompt"
    assert shell("exit 3")["outcome"] == "left"
    assert shell("echo outer")["mode"] == "shell_prompt"


def test_a_shell_without_its_line_editor(agent: Agent, shell: Run):
    session = session_of(shell)
    shell("set +o emacs")
    with pytest.raises(ToolFailed, match=r"line editor of bash is off.*set -o emacs") as failed:
        shell("echo no")
    assert failed.value.code == "NOT_A_SHELL"
    assert agent.call("get_session", session_id=session)["mode"] == "line_input"
    agent.call("send", session_id=session, text="set -o emacs", enter=True)
    assert shell("echo yes")["output"] == "yes\n"


def test_a_question_of_the_shell_itself_is_named(agent: Agent, shell: Run):
    asked = shell("read -p 'name? ' x")
    assert "waits for a line" in asked["note"]
    with pytest.raises(ToolFailed, match=r"`read -p 'name\? ' x` is not over") as failed:
        shell("ls")
    assert failed.value.code == "NOT_A_SHELL"
    agent.call("send", session_id=asked["session_id"], text="me", enter=True)
    assert shell("echo $x")["output"] == "me\n"


@pytest.mark.parametrize(
    ("command", "name"), [("python3 -q", "python3"), ("gdb -q -nx", "gdb"), ("sqlite3 -interactive", "sqlite3")]
)
def test_a_program_that_waits_at_its_prompt(agent: Agent, shell: Run, command: str, name: str):
    need(name)
    result = shell(command)
    assert f"`{name}` waits at its prompt" in result["note"]
    assert result["mode"] == "line_input"


def test_a_name_that_a_program_gives_itself_has_no_blanks_around_it(agent: Agent, shell: Run):
    session = session_of(shell)
    code = "with open('/proc/self/comm', 'w') as f: f.write('npm init   ')"
    result = shell(f'(exec -a "npm init            " python3 -qic "{code}")')
    assert "`npm init` waits" in result["note"], result
    agent.call("send", session_id=session, key="C-d", read="none")


def test_busy_says_what_runs_and_since_when(agent: Agent, shell: Run):
    first = shell("sleep 30", timeout_ms=SOON_MS)
    assert (first["outcome"], first["completed"], first["exit_code"]) == ("timeout", False, None)
    failed = refused("SESSION_BUSY", shell, "echo no")
    assert "sleep 30" in str(failed)
    assert failed.error["details"]["since"].startswith("20")
    agent.call("send", session_id=first["session_id"], key="C-c")
    assert shell("echo free")["output"] == "free\n"


def test_time_out_then_go_on_reading(agent: Agent, shell: Run, tmp_path: Path):
    go = tmp_path / "go"
    lines = f"for i in 1 2 3 4 5 6; do echo line $i; [ $i != 2 ] || {until_exists(go)}; sleep 0.1; done"
    first = shell(lines, timeout_ms=SOON_MS)
    assert (first["outcome"], first["mode"]) == ("timeout", "running")
    assert first["output"] == "line 1\nline 2\n"
    go.touch()
    rest = agent.call("read", session_id=first["session_id"], wait_for="ready", since=first["end_offset"])
    assert rest["outcome"] == "ready"
    assert (first["output"] + rest["content"]).splitlines()[:6] == [f"line {i}" for i in range(1, 7)]


def test_read_takes_up_what_run_left(agent: Agent, shell: Run, tmp_path: Path):
    first = shell(f"echo one; {until_exists(tmp_path / 'go')}; echo two", timeout_ms=SOON_MS)
    (tmp_path / "go").touch()
    rest = agent.call("read", session_id=first["session_id"], wait_for="ready")
    assert first["output"] == "one\n"
    assert rest["content"].startswith("two\n")


def test_a_shell_that_ends_before_the_command_begins_gives_it_no_status(agent: Agent, tmp_path: Path):
    session, side = agent.call("create_session", program="bash")["session_id"], tmp_path / "side"
    agent.run("""bind -x '"\\e[7775~": exit 4'""", session_id=session)
    result = agent.run(f"touch {side}", session_id=session)
    assert (result["outcome"], result["completed"], result["exit_code"]) == ("exited", False, None)
    assert "ended" in result["note"]
    assert not side.exists()


def test_a_command_that_the_shell_does_not_take_never_runs(agent: Agent, shell: Run, tmp_path: Path):
    session = session_of(shell)
    shell("""bind -r '\\e[7777~'; bind '"\\e[7777~": redraw-current-line'""")
    for _ in range(2):
        assert answered(lambda: shell(f"echo ran >>{tmp_path}/did", timeout_ms=5000)) == "SESSION_BUSY"
    assert not list((agent.state_dir / "sessions" / session / "given").iterdir())
    mend = """bind '"\\e[7777~": "\\e[7775~\\e[7776~"'"""
    agent.call("send", session_id=session, key="C-u", read="none")
    agent.call("send", session_id=session, text=mend, enter=True)
    assert shell("echo again")["output"] == "again\n"
    assert not (tmp_path / "did").exists()


def test_a_command_whose_name_bash_tells_only_at_its_end(agent: Agent, shell: Run, tmp_path: Path):
    shell("shopt -u promptvars")
    result = shell(f"echo begun; {until_exists(tmp_path / 'go')}; (exit 4)", timeout_ms=SOON_MS)
    (tmp_path / "go").touch()
    assert (result["outcome"], result["completed"], result["output"]) == ("timeout", False, "begun\n")
    assert "typed" not in (result["note"] or "")
    agent.call("read", session_id=result["session_id"], wait_for="ready")
    shell("shopt -s promptvars")
    assert shell("echo $PS0 | grep -c tmuxmcp_job")["output"] == "1\n"


@pytest.mark.parametrize("text", ["echo a", "true"])
def test_the_last_word_is_the_users_own(shell: Run, text: str):
    shell(f"{text} lastword")
    assert shell('echo "$_"')["output"] == "lastword\n"


def test_two_sessions_in_parallel(agent: Agent):
    names = [agent.call("create_session", program="bash")["session_id"] for _ in range(2)]
    place = agent.state_dir / "meeting"
    place.mkdir()
    # Each waits until the other has begun.
    meet = "cd {place}; touch {name}; until [ -e {other} ]; do sleep 0.01; done; echo {name}"
    calls = [
        agent.portal.start_task_soon(
            lambda name=name, other=other: agent.client.call_tool(
                "run", {"command": meet.format(place=place, name=name, other=other), "session_id": name}
            )
        )
        for name, other in (names, names[::-1])
    ]
    for name, call in zip(names, calls, strict=True):
        assert call.result(20 * SLOW).structured_content["output"] == f"{name}\n"


def test_a_second_run_in_the_same_session_is_refused_at_once(agent: Agent, shell: Run, tmp_path: Path):
    session, go = session_of(shell), tmp_path / "go"
    call = {"command": f"{until_exists(go)}; echo done", "session_id": session}
    first = agent.portal.start_task_soon(lambda: agent.client.call_tool("run", call))
    eventually(lambda: agent.in_front(session).startswith("sh -c until"))
    failed = refused("SESSION_BUSY", shell, "echo no")
    assert f"until test -e {go}" in str(failed)
    go.touch()
    assert first.result(10 * SLOW).structured_content["output"] == "done\n"


@pytest.mark.parametrize("nested", ["bash", "bash --norc", "sh", "bash --login"])
def test_a_shell_started_by_hand_is_never_answered_wrongly(agent: Agent, shell: Run, nested: str):
    session = session_of(shell)
    agent.call("send", session_id=session, text=nested, enter=True)
    result = answered(lambda: shell("echo inner $((6*7))"))
    refused = result in ("NOT_A_SHELL", "SESSION_BUSY")
    assert refused or (result["output"], result["exit_code"]) == ("inner 42\n", 0)
    agent.call("send", session_id=session, text="exit", enter=True)
    assert shell("echo outer")["output"] == "outer\n"


@pytest.mark.parametrize("args", [["--noediting"], ["+o", "emacs"]], ids=str)
def test_without_a_line_editor_it_is_no_shell_for_run(agent: Agent, args: list[str]):
    session = agent.call("create_session", program="bash", args=args)["session_id"]
    assert answered(lambda: agent.run("echo hi", session_id=session)) == "NOT_A_SHELL"


def test_exec_bash_is_never_answered_wrongly(agent: Agent, shell: Run):
    session = session_of(shell)
    agent.call("send", session_id=session, text="exec bash --norc", enter=True)
    result = shell("echo inner; (exit 3)")
    assert (result["output"], result["exit_code"]) == ("inner\n", 3)


def test_forged_marks_change_nothing(agent: Agent, shell: Run):
    session = session_of(shell)
    log = agent.state_dir / "sessions" / session / "out.raw"
    forged = "".join(f"\\033]133;{kind};aid=x;n={n}\\007" for n in range(9) for kind in ("A", "B", "C", "D;0"))
    assert shell(f"printf '{forged}'; echo kept; (exit 3)")["exit_code"] == 3
    for _ in range(3):
        result = shell(f"head -c {log.stat().st_size} {log}; echo; echo kept; (exit 4)")
        assert (result["exit_code"], result["completed"]) == (4, True)
        assert result["output"].endswith("kept\n")
    assert shell("echo fine")["output"] == "fine\n"


@pytest.mark.parametrize("names", ["IFS", "REPLY", "IFS REPLY"])
def test_what_read_uses_is_readonly_in_bash(shell: Run, names: str):
    shell(f"readonly {names}")
    result = shell("echo 'two  words'; (exit 7)")
    assert (result["output"], result["exit_code"], result["note"]) == ("two  words\n", 7, None)
    assert shell(" echo 'ü€  \n x'")["output"] == "ü€  \n x\n"
    assert shell("set -ae; false || declare -p | grep -c '^declare -x.*__tmuxmcp'; set +ae")["output"] == "0\n"


RC_FILES = {
    "PROMPT_COMMAND": "PROMPT_COMMAND='history -a; echo -n'",
    "PROMPT_COMMAND array": "PROMPT_COMMAND=('true' 'false')",
    "PS0": "PS0='starting\\n'",
    "set -u": "set -u",
    "two-line prompt": "PS1='\\[\\e[32m\\]\\u@\\h\\n\\$ \\[\\e[0m\\]'",
    "prompt made by a command": "PROMPT_COMMAND='PS1=\"<$?> $(date +%s) \"'",
    "bracketed paste off": "bind 'set enable-bracketed-paste off'",
    "vi mode": "set -o vi",
    "aliases of our words": "alias printf='echo no' local='echo no' builtin='echo no' return='echo no'",
    "functions of our words": "printf() { echo no; }; bind() { echo no; }; unset() { echo no; }",
    "history control": "HISTCONTROL=ignoreboth:erasedups; HISTSIZE=5",
    "noclobber and nounset": "set -o noclobber -o nounset",
    "debug trap": "trap ':' DEBUG",
    "extdebug-like xtrace": "PS4='+ '",
    "history expansion": "set -H",
}


@pytest.mark.parametrize("rc", RC_FILES.values(), ids=RC_FILES.keys())
def test_the_users_own_rc_file(agent: Agent, rc: str, tmp_path: Path):
    (tmp_path / ".bashrc").write_text(rc + "\nFROM_RC=yes\n")
    made = agent.call("create_session", program="bash", env={"HOME": str(tmp_path)})
    session = made["session_id"]
    assert agent.run("echo $FROM_RC", session_id=session)["output"] == "yes\n"
    assert agent.run("(exit 6)", session_id=session)["exit_code"] == 6
    assert agent.run("echo $?", session_id=session)["output"] == "6\n"
    result = agent.run("for i in 1 2\ndo echo $i\ndone", session_id=session)
    assert (result["output"], result["exit_code"]) == ("1\n2\n", 0)
    agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.parametrize("traced", ["true", "set -T"])
def test_a_trap_prints_for_the_users_commands_alone(shell: Run, traced: str):
    shell(f"{traced}; trap 'echo debug' DEBUG; trap 'echo return' RETURN")
    assert shell("true")["output"] == "debug\n"
    assert shell("! :; echo $?")["output"] == "debug\ndebug\n1\n"


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(
    "before",
    [
        "preexec() { unfunction preexec; kill -INT $$ }",
        "preexec() { unfunction preexec; print -n '^C'; kill -INT $$ }",
        "functions[__tmuxmcp_preexec]=${functions[__tmuxmcp_preexec]/&& __tmuxmcp/&& kill -INT $$ && __tmuxmcp}",
        "zle-line-finish() { zle -D zle-line-finish; kill -INT $$ }; zle -N zle-line-finish",
    ],
    ids=["preexec", "with its echo", "behind the mark", "line finish"],
)
def test_what_is_interrupted_before_it_begins_has_no_status(agent: Agent, before: str, tmp_path: Path):
    session, side = agent.call("create_session", program="zsh")["session_id"], tmp_path / "side"
    agent.run(before + "; (exit 27)", session_id=session)
    result = agent.run(f"touch {side}", session_id=session)
    assert (result["completed"], result["exit_code"], result["command_number"]) == (False, None, None)
    assert result["output"] == ""
    assert "C-c" in result["note"]
    assert not side.exists()
    if "__tmuxmcp_preexec" not in before:
        assert agent.run("echo after", session_id=session)["output"] == "after\n"
    agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_what_ran_has_its_status_though_the_mark_of_its_beginning_was_discarded(agent: Agent, tmp_path: Path):
    session, side = agent.call("create_session", program="zsh")["session_id"], tmp_path / "side"
    discarded = "${functions[__tmuxmcp_preexec]/\\/dev\\/tty/\\/dev\\/null}"
    agent.run(f"functions[__tmuxmcp_preexec]={discarded}", session_id=session)
    result = agent.run(f"touch {side}; (exit 9)", session_id=session)
    assert side.exists()
    assert (result["completed"], result["exit_code"]) == (True, 9)
    assert "not recorded" in result["note"]
    agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.parametrize("step", range(1, 41, 3))
def test_an_interrupt_while_bash_tells_of_the_end_takes_no_command_away(agent: Agent, step: int):
    session = agent.call("create_session", program="bash")["session_id"]
    trap = "[[ ${FUNCNAME-} == __tmuxmcp_* ]] && ((--steps == 0)) && { trap - DEBUG; set +T; kill -INT $$; }"
    told = agent.run(f"steps={step}; set -T; trap '{trap}' DEBUG", session_id=session)
    assert told["completed"]
    assert told["exit_code"] in (0, 130)
    after = agent.run("echo after; (exit 7)", session_id=session)
    assert (after["output"], after["exit_code"]) == ("after\n", 7)
    agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_an_interrupt_while_zsh_tells_of_the_end_takes_no_command_away(agent: Agent):
    session = agent.call("create_session", program="zsh")["session_id"]
    told = agent.run("unset() { unfunction unset; kill -INT $$ }", session_id=session)
    assert (told["completed"], told["exit_code"]) == (True, 0)
    after = agent.run("echo after; (exit 7)", session_id=session)
    assert (after["output"], after["exit_code"]) == ("after\n", 7)
    agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize("mark", ["D;0", "A", "B"])
def test_an_interrupt_while_fish_tells_of_the_end_takes_no_command_away(agent: Agent, mark: str):
    session = agent.call("create_session", program="fish")["session_id"]
    interrupts = f"if test $argv[1] = '{mark}'; functions -e __tmuxmcp_mark; functions -c own __tmuxmcp_mark; "
    interrupts += "kill -INT $fish_pid; else; own $argv; end"
    told = agent.run(f"functions -c __tmuxmcp_mark own; function __tmuxmcp_mark; {interrupts}; end", session_id=session)
    assert (told["completed"], told["exit_code"]) == (True, 0)
    after = agent.run("echo after; sh -c 'exit 7'", session_id=session)
    assert (after["output"], after["exit_code"]) == ("after\n", 7)
    agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_an_end_that_no_event_of_fish_tells_is_asked_for(agent: Agent):
    session = agent.call("create_session", program="fish")["session_id"]
    untold = "functions -c __tmuxmcp_prompt own; functions -e __tmuxmcp_prompt __tmuxmcp_postexec; "
    untold += "function __tmuxmcp_prompt; own; end; sh -c 'exit 7'"
    told = agent.run(untold, session_id=session)
    assert (told["completed"], told["exit_code"]) == (True, 7)
    agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize("trap", ["trap 'echo debug' DEBUG", "TRAPDEBUG() { echo debug }"])
def test_a_trap_of_zsh_prints_for_the_users_commands_alone(agent: Agent, trap: str):
    session = agent.call("create_session", program="zsh")["session_id"]
    agent.run(trap, session_id=session)
    assert agent.run("true", session_id=session)["output"] == "debug\n"
    assert agent.run("echo a; false; echo b", session_id=session)["output"] == "debug\na\ndebug\ndebug\nb\n"
    agent.call("destroy_session", session_id=session, force=True)


@pytest.mark.parametrize(
    "args", [["--norc"], ["-l"], ["--login"], ["--noprofile", "--norc"], ["-i"], ["--posix"]], ids=str
)
def test_other_ways_to_start_bash(agent: Agent, args: list[str], tmp_path: Path):
    (tmp_path / ".bashrc").write_text("MY_RC=read\n")
    (tmp_path / ".bash_profile").write_text('MY_PROFILE=read; PROMPT_COMMAND="${PROMPT_COMMAND:+$PROMPT_COMMAND;}:"\n')
    made = agent.call("create_session", program="bash", args=args, env={"HOME": str(tmp_path)})
    session = made["session_id"]
    result = agent.run("echo rc=$MY_RC profile=$MY_PROFILE; (exit 3)", session_id=session)
    login = args[0] in ("-l", "--login")
    assert result["output"] == f"rc={'read' if args == ['-i'] else ''} profile={'read' if login else ''}\n"
    assert (result["exit_code"], result["evidence"]) == (3, "marks")
    agent.call("destroy_session", session_id=session, force=True)


def test_the_persons_history_file_is_left_alone(agent: Agent, tmp_path: Path):
    history = tmp_path / ".bash_history"
    history.write_text("the person's own\n")
    (tmp_path / ".bashrc").write_text("PROMPT_COMMAND='history -a'\n")
    made = agent.call("create_session", program="bash", env={"HOME": str(tmp_path)})
    agent.run("echo agents command", session_id=made["session_id"])
    assert "agents command" in agent.run("history", session_id=made["session_id"])["output"]
    agent.run("exit", session_id=made["session_id"])
    assert history.read_text() == "the person's own\n"


def test_the_prompt_is_as_it_was(agent: Agent, tmp_path: Path):
    (tmp_path / ".bashrc").write_text("PS1='my own> '\n")
    made = agent.call("create_session", program="bash", env={"HOME": str(tmp_path)})
    screen = agent.call("read", session_id=made["session_id"], view="screen")
    assert screen["content"] == "my own>"
    assert screen["cursor"] == {"row": 0, "col": 8, "visible": True}
    variables = agent.run("env; declare -p | grep -c TMUXMCP_NONCE", session_id=made["session_id"])["output"]
    assert "aid" not in variables
    assert "NONCE" not in variables
    assert variables.endswith("\n0\n")


def test_no_shell_in_the_environment(state_dir: Path):
    with Agent(state_dir, SHELL="", TERM="dumb") as bare:
        assert bare.run("echo $((1+1))")["output"] == "2\n"


def test_truncated_output_keeps_both_ends_and_says_how_to_get_the_rest(agent: Agent):
    result = agent.run("seq 1 100000", max_bytes=2000)
    assert result["truncated"]
    assert len(result["output"].encode()) <= 2000
    assert result["output"].startswith("1\n2\n3\n")
    assert result["output"].endswith("\n99999\n100000\n")
    assert result["output_bytes"] == result["end_offset"] - result["start_offset"]
    marker = next(line for line in result["output"].splitlines() if line.startswith("["))
    offset = int(marker.split("since=")[1].split()[0])
    assert f"{result['omitted_bytes']:,}" in marker
    head = result["output"].split("[")[0]
    more = agent.call("read", session_id=result["session_id"], since=offset, max_bytes=1000)
    assert more["content"].splitlines()[0] == str(int(head.splitlines()[-1]) + 1)
    everything, since = "", result["start_offset"]
    while since < result["end_offset"]:
        piece = agent.call("read", session_id=result["session_id"], since=since, max_bytes=200_000)
        everything += piece["content"]
        since = piece["next_offset"]
    assert everything.startswith("".join(f"{i}\n" for i in range(1, 100_001)))


@pytest.mark.slow
def test_40_mb_leave_the_brokers_memory_alone(agent: Agent, shell: Run):
    shell("seq 1 100000 >/dev/null")
    process = psutil.Process(agent.server.pid)
    before, peak = process.memory_info().rss, 0
    session = session_of(shell)
    command = "yes 0123456789012345678901234567890123456789012345678 | head -c 40000000"
    running = agent.portal.start_task_soon(
        lambda: agent.client.call_tool("run", {"command": command, "session_id": session, "timeout_ms": 50_000})
    )
    while not running.done():
        peak = max(peak, process.memory_info().rss)
        time.sleep(0.02)
    result = running.result().structured_content
    while not result["completed"] and result["outcome"] == "timeout":
        agent.call("read", session_id=session, wait_for="ready", timeout_ms=50_000)
        result = {**result, "completed": True, "exit_code": int(shell("echo ${PIPESTATUS[1]}")["output"])}
    assert result["exit_code"] == 0
    assert result["end_offset"] - result["start_offset"] >= 40_000_000 or result["outcome"] == "timeout"
    assert peak - before < 24 * 1024 * 1024


def test_stray_signals_of_the_client_do_not_end_a_session(agent: Agent):
    result = agent.run("trap 'echo got it' USR1; kill -USR1 $$; echo after")
    assert result["output"] == "got it\nafter\n"
    assert agent.call("signal", session_id=result["session_id"], signal="USR1")["pids"]
