"""Real programs, step by step: after each, is it done, what does it want, and who says so?

No prompt is described anywhere here and nothing sleeps: `send` has to know by itself. Every step's output must be
there when it answers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, an_agent, eventually
from tests.kit.fixtures import of_file
from tests.kit.programs import PATH, missing, need
from tests.kit.steps import CLEAN, Case, Step, Terminal, first, keys, line, over
from tmuxmcp.broker.broker import Broker
from tmuxmcp.machine.witness import tty

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this witness")

ASK = "printf 'Do you want to continue? [Y/n] '; read -r a; echo \"got <$a>\"; sleep 0.2; echo end"
BAR = "for i in 1 2 3 4 5 6 7 8; do printf '\\r%d0%%' $i; sleep 0.05; done; echo; cat"

CASES = [
    # shells
    Case(
        "bash",
        ["bash"],
        [
            first("shell_prompt", evidence="marks"),
            line("sleep 0.2; echo $((6*7))", "shell_prompt", "\n42\n", "marks"),
            line("read -r x", "line_input"),
            line("yes", "shell_prompt", evidence="marks"),
            line("read -rs y", "password"),
            line("hunter2", "shell_prompt", evidence="marks"),
            line('echo "$x ${#y}"', "shell_prompt", "\nyes 7\n", "marks"),
            line("cat", "line_input"),
            keys("C-z", mode="shell_prompt", shows="Stopped", evidence="marks"),
            line("fg", "line_input", "cat"),
            line("again", "line_input", "again\nagain\n"),
            keys("C-d", mode="shell_prompt", evidence="marks"),
            line("(sleep 0.3; echo from behind) & wait", "shell_prompt", "from behind", "marks"),
            line("yes | head -n 20000 | tail -n 1", "shell_prompt", "\ny\n", "marks"),
            line("sleep 0.2 | cat", "shell_prompt", evidence="marks"),
            line("echo 'Password:'", "shell_prompt", "Password:", "marks"),
            line("bash --norc", "shell_prompt"),  # no marks of ours in there as yet: `run` adopts it
            line("sleep 0.2; echo inner", "shell_prompt", "\ninner\n"),
        ],
    ),
    Case(
        "zsh",
        ["zsh", "-f"],
        [
            first("shell_prompt", evidence="marks"),
            line("sleep 0.2; echo $((6*7))", "shell_prompt", "\n42\n", "marks"),
            line("read -s x", "password"),
            line("hunter2", "shell_prompt", evidence="marks"),
        ],
        ("zsh",),
    ),
    Case(
        "fish",
        ["fish", "-N"],
        [
            first("shell_prompt", evidence="marks"),
            line("sleep 0.2; echo (math 6 x 7)", "shell_prompt", "\n42\n", "marks"),
            line("cat", "line_input"),
            keys("C-c", mode="shell_prompt", evidence="marks"),
        ],
        ("fish",),
    ),
    Case(
        "dash",
        ["dash", "-i"],
        [
            first("shell_prompt"),
            line("sleep 0.2; echo $((6*7))", "shell_prompt", "\n42\n"),
            line("stty -echo", "password"),
        ],
        ("dash",),
    ),
    # read-eval-print loops
    Case(
        "python",
        ["python3", "-q"],
        [
            first("line_input", ">>> "),
            line("x = 20 + 1", "line_input", ">>> "),
            line("import time; time.sleep(0.3); x * 2", "line_input", "\n42\n>>> "),
            line("sum(range(3 * 10**6))", "line_input", "\n4499998500000\n>>> "),
            line("input('name? ')", "line_input", "name? "),
            line("bob", "line_input", "'bob'\n>>> "),
            line("import getpass; getpass.getpass()", "password", "Password: "),
            line("hunter2", "line_input", "'hunter2'\n>>> "),
            line("print('Password:')", "line_input", "\nPassword:\n>>> "),
            over(text="exit(3)", enter=True),
        ],
    ),
    Case(
        "node",
        ["node"],
        [
            first("line_input", "> "),
            line("20 * 2 + 2", "line_input", "\n42\n>"),
            line("let s = 0; for (let i = 0; i < 1e8; i++) s += i; s", "line_input", "\n4999999950000000\n>"),
            over(text=".exit", enter=True),
        ],
        ("node",),
    ),
    Case(
        "ipython",
        [sys.executable, "-m", "IPython", "--no-banner", "--no-confirm-exit", "--colors=nocolor"],
        [
            first("line_input", "In [1]: "),
            line("20 * 2 + 2", "line_input", "Out[1]: 42"),
            line("import time; time.sleep(0.3); 'do' 'ne'", "line_input", "Out[2]: 'done'"),
            line("input('name? ')", "line_input", "name? "),
            line("bob", "line_input", "Out[3]: 'bob'"),
            line("import getpass; getpass.getpass()", "password", "Password:"),
            line("hunter2", "line_input", "Out[4]: 'hunter2'"),
            over(text="exit", enter=True),
        ],
        env={"IPYTHONDIR": "{tmp}/ipython"},
    ),
    Case(
        "sqlite3",
        ["sqlite3"],
        [
            first("line_input", "sqlite> "),
            line("select 6 * 7;", "line_input", "\n42\nsqlite> "),
            line("with recursive c(x) as (select 1 union all select x+1 from c where x<500000)", "line_input", "...> "),
            line("select count(*) from c;", "line_input", "\n500000\nsqlite> "),
            over(text=".quit", enter=True),
        ],
        ("sqlite3",),
    ),
    # pagers
    Case(
        "less",
        ["less", "{tmp}/long"],
        [
            first("pager", "line 1\n"),
            keys("Space", mode="pager", shows="line 40"),
            line("/line 77", "pager", "line 77"),
            keys("G", mode="pager", shows="line 200\n(END)"),
            keys("g", mode="pager", shows="line 1\n"),
            over(key="q"),
        ],
        ("less",),
    ),
    Case(
        "find into less",
        ["bash", "-c", "while :; do echo more; done | less"],
        [first("pager", "more"), keys("Space", mode="pager", shows="more")],
        ("less",),
    ),
    Case(
        "more",
        ["more", "{tmp}/long"],
        [first("pager", "line 1\n"), keys("Space", mode="pager", shows="line 40"), over(key="q")],
        ("more",),
    ),
    Case("man", ["man", "{tmp}/page.1"], [first("pager", "PAGE"), over(key="q")], ("man", "less")),
    # editors
    Case(
        "vim",
        ["vim", "-u", "NONE", "-N", "{tmp}/new"],
        [
            first("editor", "~"),
            Step("editor", {"text": "ihello"}, "hello"),
            keys("Escape", mode="editor", shows="hello"),
            Step("editor", {"text": ":set ruler"}, ":set ruler"),
            keys("Enter", mode="editor", shows="1,5"),
            Step("editor", {"text": "vh"}, "hello"),
            keys("Escape", mode="editor", shows="hello"),
            line(":!sleep 0.2; cat", "line_input"),
            keys("C-d", mode="editor", shows="ENTER"),
            keys("Enter", mode="editor", shows="hello"),
            over(text=":q!", enter=True),
        ],
        ("vim",),
    ),
    Case(
        "nano",
        ["nano", "-I", "{tmp}/new"],
        [
            first("editor", "^X"),
            Step("editor", {"text": "hello"}, "hello"),
            keys("C-x", mode="editor", shows="Save modified"),
            over(text="n"),
        ],
        ("nano",),
    ),
    Case(
        "emacs",
        ["emacs", "-nw", "-Q", "{tmp}/new"],
        [
            first("editor", "new"),
            Step("editor", {"text": "hello"}, "hello"),
            keys("M-x", mode="editor", shows="M-x"),
            line("count-words", "editor", "1 word"),
            keys("C-x", "C-s", mode="editor", shows="Wrote "),
            over(keys=["C-x", "C-c"]),
        ],
        ("emacs",),
    ),
    # what fills the screen
    Case("top", ["top"], [first("fullscreen", "PID"), keys("h", mode="fullscreen", shows="Help")], ("top",)),
    Case("htop", ["htop"], [first("fullscreen", "PID"), keys("h", mode="fullscreen", shows="htop")], ("htop",)),
    Case("mc", ["mc", "-d", "-u"], [first("fullscreen", "Name"), keys("F9", mode="fullscreen", shows="File")], ("mc",)),
    Case(
        "dialog",
        ["dialog", "--menu", "choose", "10", "40", "3", "a", "alpha", "b", "beta"],
        [first("fullscreen", "choose"), keys("Down", mode="fullscreen"), over(key="Enter")],
        ("dialog",),
    ),
    Case(
        "fzf",
        ["bash", "-c", "seq 1000 | fzf"],
        [first("fullscreen", "1000/1000"), Step("fullscreen", {"text": "777"}, "1/1000"), over(key="Enter")],
        ("fzf",),
    ),
    # lines and secrets
    Case("cat", ["cat"], [first("line_input"), line("hello", "line_input", "hello\nhello\n"), over(key="C-d")]),
    Case("a question", ["sh", "-c", ASK], [first("line_input", "[Y/n] "), over(text="Y", enter=True)]),
    Case(
        "apt-get",  # nothing can come of it, whatever is answered
        ["apt-get", "-o", "Debug::NoLocking=1", "-o", "Dir::Bin::dpkg=/bin/false", "remove", "nano"],
        [first("line_input", "Do you want to continue? [Y/n] "), over(text="n", enter=True)],
        ("apt-get", "dpkg", "nano"),
    ),
    Case("progress bar", ["sh", "-c", BAR], [first("line_input", "80%\n"), over(key="C-d")]),
    Case(
        "a poll of the terminal",
        ["python3", "-c", "import select,sys; select.select([0],[],[]); print(input()); input()"],
        [first("line_input"), line("hello", "line_input", "hello\nhello\n")],
    ),
    Case(
        "single keys",
        ["python3", "-c", "import os, tty; tty.setraw(0); [print(os.read(0, 9), end='\\r\\n') for _ in range(3)]"],
        [first("line_input"), Step("line_input", {"text": "x"}, "b'x'"), keys("Up", mode="line_input", shows="[A'")],
    ),
    Case("printed Password", ["sh", "-c", "printf 'Password: '; cat"], [first("line_input", "Password:")]),
    Case(
        "a terminal inside",
        ["script", "-q", "-c", "sh", "/dev/null"],
        [first("shell_prompt"), line("echo $((6*7))", "shell_prompt", "\n42\n")],
        ("script",),
    ),
    # others in front of the program
    Case(
        "git log",
        ["git", "-C", "{tmp}/repo", "log", "-p"],
        [first("pager", "commit"), over(key="q")],
        ("git", "less"),
        {"GIT_PAGER": "less"},
    ),
    Case(
        "git commit",
        ["git", "-C", "{tmp}/repo", "commit", "--allow-empty"],
        [
            first("editor", "# On branch"),
            Step("editor", {"text": "ia subject"}),
            over(keys=["Escape", ":", "x", "Enter"]),
        ],
        ("git", "vim"),
        {"GIT_EDITOR": "vim -u NONE -N"},
    ),
]


agent = of_file(an_agent, "bash", PATH=PATH)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """What the cases read."""
    (tmp_path / "long").write_text("".join(f"line {number}\n" for number in range(1, 201)))
    (tmp_path / "page.1").write_text(".TH PAGE 1\n.SH NAME\npage\n" + ".PP\nParagraph.\n" * 60)
    return tmp_path


def repository(path: Path) -> None:
    path.mkdir()
    (path / "file").write_text("".join(f"line {number}\n" for number in range(100)))
    git = ["git", "-C", str(path), "-c", "user.name=A", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["config", "user.name", "A"], ["config", "user.email", "a@b"]):
        subprocess.run([*git, *words], check=True, env={"PATH": PATH, "HOME": str(path)})
    for words in (["add", "file"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True, env={"PATH": PATH, "HOME": str(path)})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_program(agent: Agent, files: Path, case: Case):
    need(*case.needs)
    if "git" in case.needs:
        repository(files / "repo")
    argv = [word.replace("{tmp}", str(files)) for word in case.argv]
    terminal = Terminal(agent, argv, {name: value.replace("{tmp}", str(files)) for name, value in case.env.items()})
    try:
        for step in case.steps:
            terminal.step(step)
    finally:
        terminal.close()


BURSTS = """
import signal, time
def work(*_):
    end = time.monotonic() + 0.03
    while time.monotonic() < end: pass
signal.signal(signal.SIGALRM, work); signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
print("begun", flush=True); input()
"""


def test_a_program_that_works_beside_waiting_is_in_the_mode_in_which_it_was_ready(agent: Agent):
    """As node does, which tidies up behind its prompt."""
    terminal = Terminal(agent, [sys.executable, "-c", BURSTS])
    try:
        for _ in range(20):
            answer = agent.call("read", session_id=terminal.id, wait_for="ready")
            assert (answer["outcome"], answer["mode"]) == ("ready", "line_input")
    finally:
        terminal.close()


# ---- busy ----------------------------------------------------------------------------------------

RECV = """
import socket, threading
a = socket.create_server(("127.0.0.1", 0)); b = socket.create_connection(a.getsockname()); c, _ = a.accept()
print("begun", flush=True); b.recv(1)
"""

BUSY = {
    "sleep": ["sh", "-c", "echo begun; sleep 60"],
    "busy loop": ["python3", "-c", "print('begun', flush=True)\nwhile True: pass"],
    "a thread computes": [
        "python3",
        "-c",
        "import threading; print('begun', flush=True)\ndef f():\n while True: pass\n"
        "threading.Thread(target=f, daemon=True).start(); input()",
    ],
    "sleep | cat": ["sh", "-c", "echo begun; sleep 60 | cat"],
    "yes | head": ["sh", "-c", "echo begun; yes | head -n 100000000000 > /dev/null"],
    "reads a pipe": ["sh", "-c", "echo begun; mkfifo {tmp}/fifo; cat {tmp}/fifo"],
    "reads a socket": ["python3", "-c", RECV],
    "follows a file": ["tail", "-f", "{tmp}/begun"],
    "waits for jobs": ["bash", "-c", "echo begun; sleep 60 & wait"],
    "echo is off and it works": ["sh", "-c", "stty -echo; echo begun; sleep 60"],
    "prints without end": ["sh", "-c", "echo begun; while :; do echo; done"],
    "a timer": ["watch", "echo begun"],  # it waits for time, and looks at keys in between
}


@pytest.mark.parametrize("argv", BUSY.values(), ids=BUSY.keys())
def test_busy(agent: Agent, tmp_path: Path, argv: list[str]):
    """Not ready, however long it is silent."""
    (tmp_path / "begun").write_text("begun\n")
    terminal = Terminal(agent, [word.replace("{tmp}", str(tmp_path)) for word in argv])
    try:
        agent.call("read", session_id=terminal.id, wait_for="pattern", pattern="begun")
        answer = agent.call("read", session_id=terminal.id, wait_for="ready", timeout_ms=600)
        assert (answer["outcome"], answer["evidence"]) == ("timeout", None), answer
        assert answer["mode"] == ("fullscreen" if argv[0] == "watch" else "running")
    finally:
        terminal.close()


def test_a_stopped_program(agent: Agent):
    terminal = Terminal(agent, ["cat"])
    try:
        terminal.step(first("line_input"))
        pid = agent.call("get_session", session_id=terminal.id)["pid"]
        agent.call("signal", session_id=terminal.id, signal="TSTP")
        eventually(lambda: agent.call("get_session", session_id=terminal.id)["mode"] == "stopped")
        os.kill(pid, signal.SIGCONT)
        terminal.step(first("line_input"))
    finally:
        terminal.close()


# ---- run: commands that ask ----------------------------------------------------------------------

PYTHON = "python3 -c 'import sys; x = input(\"name? \"); sys.exit(len(x))'"
SECRET = "python3 -c 'import sys, getpass; sys.exit(len(getpass.getpass()))'"

ASKING = [
    ("cat", "line_input", "", {"keys": ["C-d"]}, 0),
    (PYTHON, "line_input", "name? ", {"text": "bob", "enter": True}, 3),
    (SECRET, "password", "Password: ", {"text": "hunter2", "enter": True}, 7),
    (f"echo before; {PYTHON}", "line_input", "before\nname? ", {"text": "bob", "enter": True}, 3),
    ("read -r x", "line_input", "", {"text": "bob", "enter": True}, 0),
    ("read -rs x", "password", "", {"text": "bob", "enter": True}, 0),
    ("cat | wc -l", "line_input", "", {"keys": ["C-d"]}, 0),
    ("less {tmp}/long", "pager", "", {"key": "q"}, 0),
    ("vim -u NONE -N", "editor", "", {"text": ":cq", "enter": True}, 1),
]


@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(("command", "mode", "output", "answer", "code"), ASKING, ids=[row[0] for row in ASKING])
def test_run_comes_back_when_the_command_asks(
    agent: Agent,
    files: Path,
    shells: dict[str, str],
    program: str,
    command: str,
    mode: str,
    output: str,
    answer: dict,
    code: int,
):
    if program == "fish" and command.startswith("read"):
        pytest.skip("fish reads with its line editor: to the kernel it waits for keys")
    session = shells[program]
    ran = agent.run(command.replace("{tmp}", str(files)), session_id=session, timeout_ms=int(20_000 * SLOW))
    assert (ran["outcome"], ran["completed"], ran["exit_code"]) == ("ready", False, None), ran
    assert (ran["evidence"], ran["mode"]) == ("kernel", mode), ran
    if output:
        assert ran["output"] == output
    ask = "tmuxmcp attach --take" if mode == "password" else "send"
    assert ask in ran["note"]
    assert "read wait_for=command gives its exit code" in ran["note"]
    after = agent.call("send", session_id=session, **answer)["result"]
    assert (after["outcome"], after["mode"]) == ("ready", "shell_prompt"), after
    assert (after["command"]["number"], after["command"]["exit_code"]) == (ran["command_number"], code)


@pytest.fixture(scope="module")
def shells(agent: Agent) -> dict[str, str]:
    """One live session of each shell."""
    found = {}
    for name in ("bash", "zsh", "fish"):
        if missing((name,)):
            continue
        found[name] = agent.call("create_session", program=name, env=CLEAN)["session_id"]
    return found


NOT_ASKING = [
    "sleep 0.5",
    "sleep 0.4 | cat",
    "(sleep 0.4; echo x) | cat",
    "true < /dev/tty; sleep 0.4",
    "stty -echo; sleep 0.4; stty echo",
    "timeout 0.5 tail -f /etc/passwd > /dev/null; true",
    "python3 -c 'import time; t = time.time() + 0.4\nwhile time.time() < t: pass'",
    "python3 -c 'import select; select.select([], [], [], 0.4)'",
    f"python3 -c '{RECV}' & sleep 0.4; kill $!",
    "sleep 0.4 & wait",
    "yes | head -n 3000000 > /dev/null",
]


@pytest.mark.parametrize("command", NOT_ASKING)
def test_run_waits_for_what_only_works(agent: Agent, shells: dict[str, str], command: str):
    ran = agent.run(command, session_id=shells["bash"])
    assert (ran["outcome"], ran["completed"]) == ("ready", True), ran


# ---- where the kernel says nothing ---------------------------------------------------------------

IDLE_MS = int(700 * SLOW)
"""Silence that is longer than any program here takes to print."""


async def test_without_proc_marks_and_silence_remain(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tty.sys, "platform", "freebsd14")
    made = await broker.create_session(program="python3", args=["-q"], wait_ready=True)
    assert (made.mode, made.ready) == ("unknown", False)
    assert "the kernel does not say. Wait for a text" in (made.note or "")
    answer = (await broker.send(text="6 * 7", enter=True, session_id=made.session_id, idle_ms=IDLE_MS)).result
    assert answer is not None
    assert (answer.outcome, answer.evidence, answer.mode) == ("idle", "quiet", "unknown")
    assert "\n42\n>>> " in answer.content
    assert f"Nothing was printed for {IDLE_MS} ms" in (answer.note or "")
    shell = await broker.create_session(program="bash")
    assert (shell.mode, shell.ready) == ("shell_prompt", True)
    answer = (await broker.send(text="sleep 0.3; echo hi", enter=True, session_id=shell.session_id)).result
    assert answer is not None
    assert (answer.outcome, answer.evidence, answer.mode) == ("ready", "marks", "shell_prompt")


async def test_without_proc_the_prompt_before_what_was_typed_is_no_word_on_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tty.sys, "platform", "freebsd14")
    shell = await broker.create_session(program="bash")
    held = psutil.Process(shell.pid)
    held.suspend()
    typed = {"text": "echo h''i", "enter": True, "session_id": shell.session_id}
    answer = (await broker.send(**typed, idle_ms=200)).result
    assert answer is not None
    assert (answer.outcome, answer.evidence) == ("idle", "quiet")
    held.resume()
    answer = await broker.read(session_id=shell.session_id, wait_for="ready", idle_ms=IDLE_MS)
    assert (answer.outcome, answer.evidence) == ("ready", "marks")
    assert "\nhi\n" in answer.content


async def test_a_wait_channel_that_cannot_be_read_is_unknown(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    """As in a container, or another user's program."""
    monkeypatch.setattr(tty, "_channel", lambda path: "0")
    made = await broker.create_session(program="cat", wait_ready=True)
    assert (made.mode, made.ready) == ("unknown", False)
    answer = (await broker.send(text="hello", session_id=made.session_id, idle_ms=IDLE_MS)).result
    assert answer is not None
    assert (answer.outcome, answer.evidence, answer.content) == ("idle", "quiet", "hello")


async def test_an_empty_line_after_enter_is_no_rest(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    """The command that was entered works, silently, as `sleep` does over there."""
    monkeypatch.setattr(tty, "_channel", lambda path: "0")
    far = "printf '$ '; while read x; do sleep 3; printf 'late\\n$ '; done"
    made = await broker.create_session(program="sh", args=["-c", far], wait_ready=True)
    await broker.read(session_id=made.session_id, wait_for="pattern", pattern=r"\$ $")
    answer = (await broker.send("x", enter=True, session_id=made.session_id, idle_ms=1000, timeout_ms=50_000)).result
    assert answer is not None
    assert (answer.outcome, answer.content) == ("idle", "x\nlate\n$ ")
