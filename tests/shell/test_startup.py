"""Start-up files that ask, take long, start something else or end the shell: every answer says so."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import SLOW, TMUX, a_state_dir, no_first_run
from tests.kit.agent import Agent, ToolFailed, an_agent, eventually
from tests.kit.fixtures import of_file
from tests.kit.programs import need

FILES = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/config.fish"}

Made = tuple[str, dict]
Make = Callable[..., Made]


agent = of_file(an_agent, "sh")


@pytest.fixture
def make(agent: Agent, tmp_path: Path) -> Iterator[Make]:
    """Make a session whose home has one start-up file; its id, and what was said of it."""
    made: list[str] = []

    def make(program: str, text: str, *args: str, file: str = "", **more: object) -> Made:
        need(program)
        no_first_run(tmp_path)
        path = tmp_path / (file or FILES[program])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
        env = {"HOME": str(tmp_path), **more.pop("env", {})}  # type: ignore[dict-item]  # variables
        answer = agent.call("create_session", program=program, args=list(args), env=env, **more)
        made.append(answer["session_id"])
        return made[-1], answer

    yield make
    for session in made:
        with suppress(ToolFailed):
            agent.call("destroy_session", session_id=session, force=True)


def refused(agent: Agent, session: str, **more: object) -> ToolFailed:
    """Why no command is run there; nothing is typed."""
    with pytest.raises(ToolFailed) as failed:
        agent.run("echo hello", session_id=session, **more)
    return failed.value


def works(agent: Agent, session: str) -> None:
    """A command runs there, and is told exactly."""
    ran = agent.run("echo hello", session_id=session)
    assert (ran["output"], ran["exit_code"], ran["evidence"]) == ("hello\n", 0, "marks"), ran


# ---- questions -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    program: str
    text: str
    answer: dict
    args: tuple[str, ...] = ()
    file: str = ""
    who: str = ""
    """How the note calls who asks; empty: a start-up file of the shell."""
    secret: bool = False


LINE, KEY = {"text": "y", "key": "Enter"}, {"text": "y"}

QUESTIONS = {
    "bash read": Question("bash", 'read -p "Update now? " x', LINE),
    "bash read -n1": Question("bash", 'read -n1 -p "Update now? " x', KEY),
    "bash read -e": Question("bash", 'read -e -p "Update now? " x', LINE),
    "bash read -s": Question("bash", 'read -s -p "Token: " x', LINE, secret=True),
    "bash select": Question("bash", "select x in a b; do break; done", {"text": "1", "key": "Enter"}),
    "bash profile": Question("bash", 'read -p "Update now? " x', LINE, ("-l",), ".bash_profile"),
    "bash, a program": Question("bash", "sh -c 'printf \"Update now? \"; read x'", LINE, who="`sh`, which a start-up"),
    "bash, a secret": Question(
        "bash", "python3 -c 'import getpass; getpass.getpass()'", LINE, who="`python3`, which a start-up", secret=True
    ),
    "zsh read": Question("zsh", "read 'x?Update now? '", LINE),
    "zsh read -q": Question("zsh", "read -q 'x?Update now? '", KEY),
    "zsh read -k": Question("zsh", "read -k 'x?Update now? '", KEY),
    "zsh read -s": Question("zsh", "read -s 'x?Token: '", LINE, secret=True),
    "zsh vared": Question("zsh", "x=; vared -p 'Update now? ' x", LINE),
    "zsh select": Question("zsh", "select x in a b; do break; done", {"text": "1", "key": "Enter"}),
    "zshenv": Question("zsh", "read 'x?Update now? '", LINE, file=".zshenv"),
    "zprofile": Question("zsh", "read 'x?Update now? '", LINE, ("-l",), ".zprofile"),
    "zsh compinit": Question(
        "zsh", "mkdir -m 777 ~/open; chmod 777 ~/open; fpath=(~/open $fpath); autoload -Uz compinit; compinit", KEY
    ),
    "fish read": Question("fish", "read -P 'Update now? ' x", LINE),
    "fish read -n": Question("fish", "read -n 1 -P 'Update now? ' x", KEY),
    "fish conf.d": Question("fish", "read -P 'Update now? ' x", LINE, file=".config/fish/conf.d/ask.fish"),
    "fish, a program": Question("fish", "sh -c 'printf \"Update now? \"; read x'", LINE, who="`sh`, which a start-up"),
}


@pytest.mark.parametrize("asks", QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_of_a_start_up_file_is_told_until_it_is_answered(agent: Agent, make: Make, asks: Question):
    session, made = make(asks.program, asks.text, *asks.args, file=asks.file)
    who = asks.who or f"A start-up file of {asks.program}"
    assert made["mode"] == ("password" if asks.secret else "line_input")
    assert made["ready"]
    assert made["note"].startswith(who), made["note"]
    assert ("asks for a secret" if asks.secret else "asks for input") in made["note"]
    assert ("request_user_input" if asks.secret else "Answer it with send") in made["note"]
    for adopt in ("auto", "yes"):
        error = refused(agent, session, adopt=adopt)
        assert error.code == "NOT_A_SHELL"
        assert made["note"].split(", ")[0].split(" asks")[0][2:] in str(error), error  # the same of who asks
        assert ("request_user_input" if asks.secret else "Answer it with send") in str(error)
        assert "exec" not in str(error)
    assert agent.call("read", session_id=session, view="screen")["note"] == made["note"]
    assert made["note"].startswith(agent.call("get_session", session_id=session)["note"])
    answered = agent.call("send", session_id=session, **asks.answer)["result"]
    assert (answered["outcome"], answered["evidence"], answered["note"]) == ("ready", "marks", None), answered
    works(agent, session)


def test_a_screen_that_a_start_up_file_opens_is_told(agent: Agent, make: Make):
    session, made = make("bash", "vim -u NONE -i NONE x")
    assert (made["mode"], made["ready"]) == ("editor", True)
    assert made["note"].startswith("`vim`, which a start-up file of bash has started, draws on the whole screen")
    assert "`vim`" in str(refused(agent, session))
    agent.call("send", session_id=session, text=":q", key="Enter")
    works(agent, session)


def test_the_first_send_to_a_default_session_answers_no_question(agent: Agent):
    home = agent.state_dir / "asking"
    no_first_run(home)
    (home / ".bashrc").write_text('read -p "Remove all? " x; echo "got=[$x]"\n')
    with a_state_dir() as directory, Agent(directory, "bash", HOME=str(home)) as own:
        with pytest.raises(ToolFailed) as failed:
            own.call("send", text="ls", key="Enter")
        assert failed.value.code == "WRONG_MODE"
        assert "a start-up file of bash asks for input ('Remove all?'): nothing was typed" in str(failed.value)
        assert own.call("read", view="screen")["content"].strip() == "Remove all?"
        assert "got=[no]" in own.call("send", text="no", key="Enter")["result"]["content"]
        assert own.run("echo hello")["output"] == "hello\n"


# ---- work ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", FILES)
def test_start_up_files_that_take_long_are_waited_for_with_read(agent: Agent, make: Make, program: str, tmp_path: Path):
    go = tmp_path / "go"
    os.mkfifo(go)
    session, made = make(program, f"cat {go}", ready_timeout_ms=100)
    assert (made["mode"], made["ready"]) == ("running", False)
    assert made["note"].startswith(f"The start-up files of {program} still run")
    assert "wait_for=ready" in made["note"]
    eventually(lambda: f"`cat {go}`" in agent.call("read", session_id=session)["note"])
    error = refused(agent, session, timeout_ms=200)
    assert error.code == "SESSION_BUSY"
    assert f"`cat {go}`" in str(error)
    assert "Nothing was run" in str(error)
    waited = agent.call("read", session_id=session, wait_for="ready", timeout_ms=100)
    assert (waited["outcome"], waited["mode"]) == ("timeout", "running")
    go.write_text("")
    waited = agent.call("read", session_id=session, wait_for="ready", timeout_ms=int(10_000 * SLOW))
    assert (waited["outcome"], waited["evidence"], waited["note"]) == ("ready", "marks", None)
    works(agent, session)


# ---- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "text", "code", "args"),
    [
        ("bash", "exit 3", 3, ["--norc", "--noprofile"]),
        ("bash", "set -e; false", 1, ["--norc", "--noprofile"]),
        ("bash", "exec sh -c 'exit 4'", 4, ["--norc", "--noprofile"]),
        ("zsh", "exit 3", 3, ["-f"]),
        ("fish", "exec sh -c 'exit 4'", 4, ["--no-config"]),
    ],
)
def test_a_start_up_file_that_ends_the_shell(
    agent: Agent, make: Make, program: str, text: str, code: int, args: list[str]
):
    session, made = make(program, text)
    assert (made["mode"], made["ready"]) == ("exited", False)
    assert f"ended with exit code {code}" in made["note"]
    assert "That was before its first prompt: a start-up file may have done it" in made["note"]
    assert str(args).replace("'", '"') in made["note"]
    error = refused(agent, session)
    assert error.code == "SESSION_EXITED"
    assert "a start-up file may have done it" in str(error)
    session, made = make(program, text, *args)  # what the note names
    assert made["note"] is None
    works(agent, session)


# ---- other shells ----------------------------------------------------------------------------------

OTHERS = {
    "exec fish": ("bash", "exec fish", "`fish`, which a start-up file has put in the place of bash (exec), waits"),
    "exec zsh": ("bash", "exec zsh -f", "`zsh -f`, which a start-up file has put in the place of bash (exec), waits"),
    "exec dash": ("bash", "exec dash", "`dash`, which a start-up file has put in the place of bash (exec), waits"),
    "exec bash": ("bash", "exec bash --norc", "bash shows a prompt without our marks"),
    "exec bash in zsh": ("zsh", "exec bash --norc", "`bash --norc`, which a start-up file has put in the place of zsh"),
    "exec bash in fish": ("fish", "exec bash --norc", "`bash --norc`, which a start-up file has put in the place of"),
    "exec zsh in fish": ("fish", "exec zsh -f", "`zsh -f`, which a start-up file has put in the place of fish (exec)"),
    "fish": ("bash", "fish", "`fish`, which a start-up file of bash has started, waits at its prompt"),
    "bash in fish": ("fish", "bash --norc", "`bash --norc`, which a start-up file of fish has started, waits at its"),
    "fish in fish": ("fish", "set -q SECOND; or SECOND=1 fish", "`fish`, which a start-up file of fish has started"),
    "script": (
        "bash",
        "[ $S ] || { export S=1; exec script -qc 'bash --norc' /dev/null; }",
        "`bash`, which a start-up",
    ),
}


@pytest.mark.parametrize(("program", "text", "note"), OTHERS.values(), ids=OTHERS)
def test_run_works_in_another_shell_that_a_start_up_file_began(
    agent: Agent, make: Make, program: str, text: str, note: str
):
    if missing := [name for name in ("fish", "zsh", "dash", "script") if name in text and not shutil.which(name)]:
        pytest.skip(f"{missing} is not installed")
    session, made = make(program, text)
    assert (made["mode"], made["ready"]) == ("shell_prompt", True)
    assert made["note"].startswith(note), made["note"]
    works(agent, session)
    assert agent.call("get_session", session_id=session)["note"] is None
    works(agent, session)


@pytest.mark.parametrize(("program", "inner"), [("fish", "bash --norc"), ("zsh", "fish"), ("bash", "zsh -f")])
def test_behind_another_shell_the_start_up_files_go_on(agent: Agent, make: Make, program: str, inner: str):
    session, _ = make(program, inner)
    works(agent, session)
    assert agent.run("exit", session_id=session)["outcome"] == "left"
    ran = agent.run("echo hello", session_id=session)
    assert (ran["output"], ran["shell"]["kind"], ran["shell"]["level"]) == ("hello\n", program, 0)


def test_a_bash_that_a_profile_starts_takes_nothing_from_the_login_shell(agent: Agent, make: Make):
    session, made = make("bash", "bash --norc", "-l", file=".bash_profile")
    assert made["note"].startswith("`bash --norc`, which a start-up file of bash has started, waits at its prompt")
    ran = agent.run("echo hello", session_id=session)
    assert (ran["output"], ran["shell"]["level"]) == ("hello\n", 1)
    assert agent.run("exit", session_id=session)["outcome"] == "left"
    ran = agent.run("echo hello", session_id=session)
    assert (ran["output"], ran["shell"]["level"]) == ("hello\n", 0)


def test_a_login_shell_whose_profile_replaces_prompt_command(agent: Agent, make: Make):
    session, made = make("bash", "PROMPT_COMMAND=true", "-l", file=".bash_profile")
    assert (made["mode"], made["ready"]) == ("shell_prompt", True)
    assert "without our marks" in made["note"]
    works(agent, session)


def test_readonly_prompts_are_named(agent: Agent, make: Make):
    session, made = make("bash", "readonly PROMPT_COMMAND PS1")
    assert "without our marks" in made["note"]
    for _ in range(2):
        error = refused(agent, session)
        assert error.code == "NOT_A_SHELL"
        assert "a start-up file makes PROMPT_COMMAND readonly" in str(error)
    assert "PROMPT_COMMAND readonly" in agent.call("get_session", session_id=session)["note"]
    assert "command not found" not in agent.call("read", session_id=session, view="screen")["content"]


def test_a_program_in_the_place_of_the_shell_is_named(agent: Agent, make: Make):
    session, made = make("bash", "exec python3 -q")
    assert (made["mode"], made["ready"]) == ("line_input", True)
    assert "which a start-up file has put in the place of bash (exec), waits for input ('>>>')" in made["note"]
    assert "in the place of bash" in str(refused(agent, session))
    assert "in the place of bash" in str(refused(agent, session, adopt="yes"))


def test_a_line_editor_that_a_start_up_file_switches_off_is_told(agent: Agent, make: Make):
    session, made = make("bash", "set +o emacs; set +o vi")
    assert (made["mode"], made["ready"]) == ("line_input", True)
    assert "the line editor of bash is off. Switch it on: send `set -o emacs` and Enter." in made["note"]
    agent.call("send", session_id=session, text="set -o emacs", key="Enter")
    works(agent, session)


# ---- line editors ----------------------------------------------------------------------------------

EDITOR = r"""
exec {screen}>&1 {nothing}<> <(:)
between_keys() { until read -t 0; do read -t 0.02 -u "$nothing"; done; }
typed() {
  READLINE_LINE=${READLINE_LINE:0:READLINE_POINT}$1${READLINE_LINE:READLINE_POINT}
  ((READLINE_POINT++))
  printf %s "$1" >&"$screen"
  between_keys
}
for key in {a..z} {0..9} . / = - \; "' '" \$; do bind -x "\"$key\": typed '$key'"; done
bind -x '"\e[0n": between_keys'
shown() { exec 2>>~/readline; PS1=; printf '%s\e[5n' 'mine> ' >&"$screen"; }
PROMPT_COMMAND=shown
"""
"""A line editor written in bash, as ble.sh: a handler for each key draws the line, and sleeps until there is another.

What readline would draw goes elsewhere. The terminal's answer to a question brings the first key.
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_a_line_editor_written_in_bash(agent: Agent, make: Make, tmp_path: Path):
    session, made = make("bash", EDITOR, ready_timeout_ms=int(10_000 * SLOW))
    assert (made["mode"], made["ready"], made["note"]) == ("shell_prompt", True, None)
    for code in (0, 3):
        ran = agent.run(f"echo hello; (exit {code})", session_id=session)
        assert (ran["output"], ran["exit_code"], ran["completed"]) == ("hello\n", code, True)
        assert "reset" not in (ran["note"] or "")
    assert all(each["started_at"] for each in agent.call("list_commands", session_id=session)["commands"])
    waited = agent.call("read", session_id=session, wait_for="ready", timeout_ms=int(10_000 * SLOW))
    assert (waited["outcome"], waited["evidence"]) == ("ready", "marks")
    assert agent.call("get_session", session_id=session)["ready"]
    for number, work in enumerate(("sleep 1", "read -t 1 -u $nothing")):
        sent = agent.call("send", session_id=session, text=f"{work}; touch {tmp_path}/did{number}", key="Enter")[
            "result"
        ]
        assert (tmp_path / f"did{number}").exists()
        assert (sent["outcome"], sent["evidence"]) == ("ready", "marks")


# ---- tmux ------------------------------------------------------------------------------------------


@pytest.fixture
def persons_tmux(tmp_path: Path) -> Iterator[list[str]]:
    """The tmux of a person, with a shell in it: the words before its commands."""
    words = [TMUX, "-S", str(tmp_path / "own"), "-f", "/dev/null"]
    subprocess.run([*words, "new-session", "-d", "-s", "mine", "sh"], check=True)
    yield words
    subprocess.run([*words, "kill-server"], check=True)


@pytest.mark.parametrize(
    ("program", "how"),
    [("bash", "exec {} attach"), ("bash", "{}"), ("zsh", "exec {}"), ("fish", "{} new-session -A -s mine")],
)
def test_a_tmux_that_a_start_up_file_starts_is_told_with_what_avoids_it(
    agent: Agent, make: Make, persons_tmux: list[str], program: str, how: str
):
    start = how.format(" ".join(persons_tmux))
    text = f'test -z "$TMUX"; and {start}' if program == "fish" else f'if [ -z "$TMUX" ]; then {start}; fi'
    session, made = make(program, text)
    assert (made["mode"], made["ready"]) == ("fullscreen", True)
    assert made["note"].startswith(f"A start-up file of {program} has started `tmux`, which is in front")
    assert 'env={"TMUX": "/nonexistent/tmux,0,0"}' in made["note"]
    for adopt in ("auto", "yes"):
        error = refused(agent, session, adopt=adopt)
        assert error.code == "NOT_A_SHELL"
        assert "/nonexistent/tmux,0,0" in str(error)
    shown = subprocess.run([*persons_tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout
    assert "hello" not in shown
    session, made = make(program, text, env={"TMUX": "/nonexistent/tmux,0,0"})
    assert (made["mode"], made["note"]) == ("shell_prompt", None)
    works(agent, session)


def test_the_first_send_to_a_default_session_reaches_no_tmux_of_a_person(agent: Agent, persons_tmux: list[str]):
    home = agent.state_dir / "attaching"
    no_first_run(home)
    (home / ".bashrc").write_text(f'[ -z "$TMUX" ] && exec {" ".join(persons_tmux)} attach\n')
    with a_state_dir() as directory, Agent(directory, "bash", HOME=str(home)) as own:
        with pytest.raises(ToolFailed) as failed:
            own.call("send", text="echo typed", key="Enter")
        assert failed.value.code == "WRONG_MODE"
        assert "nothing was typed" in str(failed.value)
    shown = subprocess.run([*persons_tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout
    assert "typed" not in shown


def test_tmux_that_an_agent_types_is_a_tmux_as_anywhere(agent: Agent, make: Make, tmp_path: Path):
    """Which is why TMUX is not set in every session: with it tmux refuses to nest, and finds no server."""
    session, _ = make("bash", "")
    tmux = f"{TMUX} -L startup-{tmp_path.name} -f /dev/null"
    ran = agent.run(f'echo "[$TMUX]"; {tmux} new-session -d -s x sh && {tmux} list-sessions', session_id=session)
    assert ran["output"].startswith("[]\nx: 1 windows"), ran
    nested = agent.run(f"{tmux} new-session -s y sh", session_id=session)
    assert nested["mode"] == "fullscreen"
    agent.call("send", session_id=session, text=f"{tmux} kill-server", key="Enter")
    works(agent, session)
