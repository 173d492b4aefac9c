"""Readiness behind relays: real ones, each with a shell behind it, and what is asked there."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import SLOW, TMUX
from tests.kit.agent import Agent, an_agent, eventually, refused, refused_for_good
from tests.kit.fixtures import of_file
from tests.kit.programs import PATH, need
from tests.kit.steps import Terminal, first, keys, line, over
from tmuxmcp.machine import proc
from tmuxmcp.machine.sandbox.sandbox import best
from tmuxmcp.machine.witness.relays import MOST_RELAYS, DeepWitness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this witness")

TIMES = 12 if os.environ.get("TMUXMCP_TEST_MANY") else 1
"""How often the steps are gone through."""

BASH = ["env", "PS1=in$ ", "bash", "--norc", "--noprofile"]
"""The shell behind a relay."""

Relay = Callable[[list[str]], list[str]]
"""From the words of a command to those of a relay that runs it."""


def script(argv: list[str]) -> list[str]:
    return ["script", "-qc", shlex.join(argv), "/dev/null"]


def expect(argv: list[str]) -> list[str]:
    return ["expect", "-c", f"spawn -noecho {' '.join(f'{{{word}}}' for word in argv)}; interact"]


def su(argv: list[str]) -> list[str]:
    return ["su", "-P", "-c", f"exec {shlex.join(argv)}"]


def spawn(argv: list[str]) -> list[str]:
    return [sys.executable, "-c", f"import pty; pty.spawn({argv!r})"]


def sudo(argv: list[str]) -> list[str]:
    """sudo with a terminal of its own, whatever this machine's settings say; among mounts of its own."""
    steps = [
        "d=$(mktemp -d)",
        "mount -t tmpfs none $d",
        r"printf 'Defaults use_pty\nroot ALL=(ALL) ALL\n' >$d/sudoers",
        "chmod 440 $d/sudoers",
        "mount --bind $d/sudoers /etc/sudoers",
        "umount -l $d",
        "rmdir $d",
        'exec sudo "$@"',
    ]
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", " && ".join(steps), "sh", *argv]


def tmux(argv: list[str]) -> list[str]:
    return [TMUX, "-f", "/dev/null", "-L", "inner", "new-session", "--", *argv]


RELAYS: dict[str, tuple[Relay, tuple[str, ...]]] = {
    "script": (script, ("script",)),
    "expect": (expect, ("expect",)),
    "su": (su, ("su",)),
    "pty": (spawn, ()),
    "sudo": (sudo, ("sudo", "unshare")),
    "script, sudo, script": (lambda argv: script(sudo(script(argv))), ("script", "sudo", "unshare")),
    "tmux": (tmux, ()),
    "tmux, script": (lambda argv: tmux(script(argv)), ("script",)),
}
ONLY_ROOT = {"su", "sudo", "script, sudo, script"}
"""Relays that ask others for a password."""

TYPE_THERE = {"expect", "pty"}
"""Relays that may type there by themselves: `run` adopts nothing behind them unasked."""


agent = of_file(an_agent, "bash", PATH=PATH)


@pytest.fixture
def inner(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a tmux inside, which is gone afterwards."""
    variables = {"TMUX": "", "TMUX_TMPDIR": str(tmp_path), "TERM": "screen"}
    yield variables
    words = [TMUX, "-L", "inner", "kill-server"]
    subprocess.run(words, env=os.environ | variables, capture_output=True, check=False, timeout=10 * SLOW)


STEPS = [
    ("sleep 0.4; echo do''ne", "shell_prompt", ("done\nin$",)),
    ("read -p 'who? ' x; echo hello $x", "line_input", ("who?",)),
    ("bob", "shell_prompt", ("hello\nbob",)),
    ("sh -c 'sleep 0.3; read x'", "line_input", ()),
    ("", "shell_prompt", ()),
    ("read -s -p 'secret: ' x", "password", ("secret:",)),
    ("hunter2", "line_input", ()),
    ("sh -c 'stty -echo; sleep 0.3; read x; stty echo'", "password", ()),
    ("", "shell_prompt", ()),
]
"""What is typed into the shell, the mode that it leads to, and what is shown by then."""


@pytest.mark.parametrize("name", RELAYS)
def test_what_is_asked_behind_a_relay_is_seen(agent: Agent, inner: dict[str, str], name: str):
    relay, needs = RELAYS[name]
    need(*needs)
    if name in ONLY_ROOT and os.geteuid():
        pytest.skip("asks for a password, unless root runs it")
    terminal = Terminal(agent, relay(BASH), env=inner)
    modes = {}
    if name.startswith("tmux"):  # it draws the alternate screen
        modes = {"line_input": "fullscreen", "shell_prompt": "fullscreen"}
    elif name in TYPE_THERE:
        modes = {"shell_prompt": "line_input"}
    try:
        come(agent, terminal, r"in\$")
        agent.call("read", session_id=terminal.id, wait_for="ready")  # its prompt is learnt while it rests there
        for _ in range(TIMES):
            for text, mode, shows in STEPS:
                answer = terminal.step(line(text, modes.get(mode, mode), read="screen"))
                assert any(each in "\n".join(answer["content"].split()) for each in shows or [""]), answer
        terminal.step(over(text="exit", enter=True))  # nobody but the relay holds the terminal behind it
    finally:
        terminal.close()


def come(agent: Agent, terminal: Terminal, pattern: str) -> None:
    """Wait until that is shown."""
    limit = int(10_000 * SLOW)
    agent.call("read", session_id=terminal.id, wait_for="pattern", pattern=pattern, timeout_ms=limit)


TAKES_NUMBERS = """
import os, sys, time
kept = [os.openpty() for _ in range(int(sys.argv[1]))]
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
"""
"""Opens so many terminals for some time, so that the next one has that number where there were none before."""


@pytest.mark.skipif(best() != "bubblewrap", reason="bubblewrap does not run here")
@pytest.mark.parametrize("equal", [True, False], ids=["the same number", "another number"])
def test_a_terminal_inside_a_sandbox_may_have_the_number_of_the_one_outside(agent: Agent, tmp_path: Path, equal: bool):
    """A sandbox counts its terminals from 0, as the machine does: their numbers do not tell two of them apart."""
    words = ["bash", "--norc", "--noprofile"]
    terminal = Terminal(agent, words, {"PS1": "out$ "}, sandbox="auto", cwd=str(tmp_path))
    try:
        pid = agent.call("get_session", session_id=terminal.id)["pid"]
        number = os.minor(proc.stat(f"/proc/{pid}").terminal) + (not equal)
        agent.run(
            f"{shlex.join([sys.executable, '-c', TAKES_NUMBERS, str(number)])} >/dev/null 2>&1", session_id=terminal.id
        )
        inner = agent.run("script -qc tty /dev/null", session_id=terminal.id)["output"]
        assert inner.strip() == f"/dev/pts/{number}"
        sleeps = shlex.join(script(["sh", "-c", "printf compiling:; sleep 1; echo done"]))
        terminal.step(line(sleeps, "shell_prompt", "done", evidence="marks"))
        terminal.step(line(shlex.join(script(["sh", "-c", "read -p 'who? ' x"])), "line_input", "who?"))
        terminal.step(line("bob", "shell_prompt", evidence="marks"))
        terminal.step(line(shlex.join(script(BASH)), "shell_prompt", "in$"))
        terminal.step(line("read -s -p 'secret: ' x", "password", "secret:"))
    finally:
        terminal.close()


LISTENS_TO_NOBODY = """
import os, select, sys
held = [os.openpty() for _ in range(int(sys.argv[1]) + 1)]
os.system("stty raw -echo; printf listens")
select.select([0, held[-1][0]], [], [])
"""
"""Listens to the far end of the terminal with this number, which nobody is known to have."""


@pytest.mark.skipif(best() != "bubblewrap", reason="bubblewrap does not run here")
@pytest.mark.parametrize("more", [0, 1], ids=["the same number", "another number"])
def test_nobody_is_known_behind_a_terminal_of_the_same_number(agent: Agent, tmp_path: Path, more: int):
    terminal = Terminal(agent, ["bash", "--norc", "--noprofile"], sandbox="auto", cwd=str(tmp_path))
    try:
        pid = agent.call("get_session", session_id=terminal.id)["pid"]
        number = os.minor(proc.stat(f"/proc/{pid}").terminal) + more
        listens = shlex.join([sys.executable, "-c", LISTENS_TO_NOBODY, str(number)])
        terminal.step(line(listens, "unknown", evidence="quiet"))
    finally:
        terminal.close()


# ---- what relays nothing, and what cannot be seen through --------------------------------------------


def test_who_only_holds_a_far_end_relays_nothing(agent: Agent):
    """It was left by a program of before, and others have the terminal behind it or nobody has."""
    holds = "import os, pty; pid, far = pty.fork(); pid or os.execvp('cat', ['cat']); os.set_inheritable(far, True)"
    reads = "input('who? '); input('and? ')"
    terminal = Terminal(agent, [sys.executable, "-c", f"{holds}; os.execv({sys.executable!r}, ['x', '-c', {reads!r}])"])
    try:
        terminal.step(first("line_input", "who?"))
        terminal.step(line("bob", "line_input", "and?"))
    finally:
        terminal.close()


LISTENS_LATER = """
import os, pty, sys, time
pid, far = pty.fork()
if not pid:
    os.execvp("sh", ["sh", "-c", "printf 'who? '; read x; printf 'and? '; read x"])
os.write(1, os.read(far, 100))
time.sleep(0.5)
os.write(far, b"I\\n")
time.sleep(0.5)
pty._copy(far)
"""
"""Answers a question by itself, works, and only then passes on what is typed."""


PASSES_ON_LATE = """
import os, pty, select, time, tty
pid, far = pty.fork()
if not pid:
    os.execvp("bash", ["bash", "--norc", "--noprofile"])
tty.setraw(0)
held, due = b"", None
while True:
    left = None if due is None else max(due - time.monotonic(), 0)
    came = select.select([0, far], [], [], left)[0]
    if due and time.monotonic() >= due:
        os.write(far, held)
        held, due = b"", None
    if far in came:
        os.write(1, os.read(far, 1000))
    if 0 in came:
        typed = os.read(0, 1000)
        until = time.monotonic() + 0.7 * (typed == b"\\a")
        while time.monotonic() < until:
            pass
        held, due = held + typed.strip(b"\\a"), time.monotonic() + 0.07
        os.write(1, b"*")
"""
"""Prints something of its own for what is typed, and passes that on a little later, as on a busy machine.

After a C-g, it works for a while.
"""


def test_what_a_relay_prints_is_no_answer_to_what_was_typed(agent: Agent):
    terminal = Terminal(agent, [sys.executable, "-c", PASSES_ON_LATE], env={"PS1": "in$ "})
    try:
        come(agent, terminal, r"in\$ $")
        terminal.step(line("read -s -p 'secret: ' x", "password", "secret:"))
        terminal.step(line("x", "line_input"))
        agent.call("send", session_id=terminal.id, key="C-g", read="none")  # at work, it hides who waits for the line
        terminal.step(line("read -s -p 'another: ' x", "password", "another:"))
    finally:
        terminal.close()


def test_a_relay_that_does_something_for_itself_is_not_ready(agent: Agent):
    terminal = Terminal(agent, [sys.executable, "-c", LISTENS_LATER])
    try:
        terminal.step(first("line_input", "and? "))
    finally:
        terminal.close()


def test_more_relays_than_are_seen_through_are_silent(agent: Agent):
    argv = BASH
    for _ in range(MOST_RELAYS + 1):
        argv = spawn(argv)
    terminal = Terminal(agent, argv)
    try:
        come(agent, terminal, r"in\$")
        agent.call("send", session_id=terminal.id, text="read -p 'who? ' x", enter=True, read="none")
        come(agent, terminal, r"who\? $")  # silence before it would say nothing either
        answer = terminal.step(first("unknown", "who? ", "quiet"))
        assert "hides" in answer["note"]
    finally:
        terminal.close()


def test_a_tmux_inside_is_asked_again_when_it_shows_another_pane(agent: Agent, inner: dict[str, str]):
    terminal = Terminal(agent, tmux(BASH), env=inner)
    try:
        come(agent, terminal, r"in\$")
        terminal.step(line("read -s x", "password"))
        terminal.step(keys("C-b", "c", mode="fullscreen"))
        assert agent.call("get_session", session_id=terminal.id)["mode"] == "fullscreen"
        terminal.step(keys("C-b", "n", mode="password"))
        answer = terminal.step(keys("C-b", "[", mode="fullscreen", evidence="quiet"))
        assert "keeps what is typed for itself" in answer["note"]
    finally:
        terminal.close()


def test_a_tmux_inside_that_is_confined_is_not_asked(agent: Agent, inner: dict[str, str]):
    """What runs for it outside of its sandbox would be of its choice."""
    need("setpriv")
    terminal = Terminal(agent, ["setpriv", "--no-new-privs", *tmux(BASH)], env=inner)
    try:
        come(agent, terminal, r"in\$")
        answer = terminal.step(line("read -s x", "fullscreen", evidence="quiet"))
        assert "may not be asked" in answer["note"]
    finally:
        terminal.close()


LOOKS = """
import sys
from tmuxmcp.machine.witness.relays import DeepWitness
sight = DeepWitness(sys.argv[1]).look(int(sys.argv[2]))
print(sight.verdict.waiting.value, sight.verdict.process.name, sight.judged, *sight.relays)
"""


BUSY = "ulimit -t 60; while :; do :; done"
"""For a while only: where whoever starts the tests ignores hang-ups, this does as well, and outlives its terminal."""


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root can")
@pytest.mark.parametrize(
    ("does", "waiting"), [("read x", "unknown"), ("stty -echo; read x", "unknown"), (BUSY, "busy")]
)
def test_of_a_relay_of_another_user_is_known_who_works(tmp_path: Path, does: str, waiting: str):
    """A question for a secret, a shell at its prompt and one that waits for others look the same there."""
    need("script", "setpriv")
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", LOOKS]
    pid, far = pty.fork()
    if pid == 0:
        os.execvp("script", script(["sh", "-c", f"echo begun; {does}"]))
    try:
        begun = b""
        while b"begun" not in begun:
            begun += os.read(far, 1000)
        tty = os.readlink(f"/proc/{pid}/fd/0")
        assert tty.startswith("/dev/pts/")
        os.chown(tty, 65534, 65534)
        said = ""

        def looked() -> bool:
            nonlocal said
            seen = subprocess.run([*words, tty, str(pid)], capture_output=True, text=True, check=False, cwd="/")
            if "ModuleNotFoundError" in seen.stderr or "Permission" in seen.stderr:
                pytest.skip("another user cannot read this checkout")
            said = seen.stdout
            return said == f"{waiting} sh None script\n"

        with suppress(AssertionError):
            eventually(looked)
        assert said == f"{waiting} sh None script\n"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(far)


# ---- what follows from it ------------------------------------------------------------------------


def test_run_works_in_a_shell_behind_a_relay(agent: Agent):
    terminal = Terminal(agent, spawn(BASH))
    try:
        terminal.step(first("line_input", "in$"))
        refused = refused_for_good(lambda: agent.run("echo hi", session_id=terminal.id))
        assert "may type there by itself" in str(refused)
        long = int(10_000 * SLOW)
        ran = agent.run("echo hi; (exit 3)", session_id=terminal.id, timeout_ms=long, adopt="yes")
        assert (ran["output"], ran["exit_code"], ran["shell"]["where"]) == ("hi\n", 3, "nested")
    finally:
        terminal.close()


def test_run_types_nothing_into_a_tmux_inside(agent: Agent, inner: dict[str, str]):
    terminal = Terminal(agent, tmux(BASH), env=inner)
    try:
        come(agent, terminal, r"in\$")
        terminal.step(first("fullscreen"))
        refused(("NOT_A_SHELL", "SESSION_BUSY"), agent.run, "echo hi", session_id=terminal.id)
        assert "echo" not in terminal.step(first("fullscreen"))["content"]
    finally:
        terminal.close()


def test_a_relay_that_ends_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch):
    """What is gone relays nothing, and raises nothing, whichever of its files is looked for first."""
    pid, far = pty.fork()
    if pid == 0:
        os.execvp(sys.executable, spawn(["sh", "-c", "echo begun; read x"]))
    begun = b""
    while b"begun" not in begun:
        begun += os.read(far, 1000)
    witness = DeepWitness(os.readlink(f"/proc/{pid}/fd/0"))
    eventually(lambda: witness.look(pid).relays)
    threads, left = proc.threads, [0]

    def ends(each: int) -> list[int]:
        left[0] -= 1
        if left[0] < 0:
            raise FileNotFoundError(each)
        return threads(each)

    monkeypatch.setattr(proc, "threads", ends)
    try:
        for count in range(8):
            left[0] = count
            sight = witness.look(pid)
            assert sight.relays or not sight.verdict.ready, count
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        witness.close()
        os.close(far)
