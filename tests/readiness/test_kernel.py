"""What the kernel's facts mean, as a table of recorded ones; and what is said where they cannot be had."""

from __future__ import annotations

import os
import pty
import random
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.agent import eventually
from tmuxmcp.readiness import kernel as readiness
from tmuxmcp.readiness.kernel import KernelFacts, Process, TtyWitness, Waiting, judge, on_terminal

READ, POLL, EPOLL = "wait_woken", "poll_schedule_timeout", "do_epoll_wait"
LINES, SECRETS, KEYS = (True, True), (True, False), (False, False)
"""Of the terminal: canonical, echo."""


def process(name: str, channel: str | None = None, at: bool | None = None, state: str = "S", **more: object) -> Process:
    return Process(1, name, state, channel, at, **more)  # type: ignore[arg-type]


def at_tty(name: str, channel: str = READ, **more: object) -> Process:
    return process(name, channel, True, **more)


def asleep(name: str, channel: str = "do_wait") -> Process:
    return process(name, channel, False)


def computing(name: str, state: str = "R") -> Process:
    return process(name, state=state)


RECORDED = [
    # line editors and what draws the screen
    ("bash", KEYS, [at_tty("bash", POLL)], "editor", "bash"),
    ("zsh", KEYS, [at_tty("zsh")], "editor", "zsh"),
    ("node", KEYS, [at_tty("node", EPOLL)], "editor", "node"),
    ("man", KEYS, [asleep("man"), at_tty("less")], "editor", "less"),
    ("git log", KEYS, [asleep("git"), at_tty("less")], "editor", "less"),
    ("git commit", KEYS, [asleep("git"), asleep("sh"), at_tty("vim", POLL)], "editor", "vim"),
    ("find | less", KEYS, [computing("find"), at_tty("less")], "editor", "less"),
    ("fzf reads in a thread", KEYS, [asleep("seq", "pipe_write"), at_tty("fzf", main=False)], "editor", "fzf"),
    ("fzf still matches", KEYS, [computing("fzf")], "busy", "fzf"),
    ("who polls is not known", KEYS, [process("less", POLL)], "editor", "less"),
    ("mc has a terminal inside", KEYS, [at_tty("mc", POLL, relay=True)], "editor", "mc"),
    ("raw mode, a timer", KEYS, [asleep("watch", "hrtimer_nanosleep")], "busy", "watch"),
    ("raw mode, a socket", KEYS, [asleep("game", POLL)], "busy", "game"),
    ("raw mode, waits for a child", KEYS, [asleep("python3")], "busy", "python3"),
    # lines
    ("cat", LINES, [at_tty("cat")], "line", "cat"),
    ("read -t", LINES, [at_tty("bash", POLL)], "line", "bash"),
    ("node without line editing", LINES, [at_tty("node", EPOLL)], "line", "node"),
    ("cat | sort", LINES, [at_tty("cat"), asleep("sort", "anon_pipe_read")], "line", "cat"),
    ("cat | something that computes", LINES, [at_tty("cat"), computing("python3")], "busy", "python3"),
    ("tail -f: inotify", LINES, [asleep("tail", READ)], "busy", "tail"),
    ("nc: a socket", LINES, [asleep("nc", READ)], "busy", "nc"),
    ("the terminal or a socket", LINES, [process("python3", READ)], "unknown", "python3"),
    ("curl polls, whoever knows what", LINES, [process("curl", POLL)], "busy", "curl"),
    # secrets
    ("getpass", SECRETS, [at_tty("python3")], "secret", "python3"),
    ("su, read by its child", SECRETS, [asleep("su"), at_tty("su")], "secret", "su"),
    ("sudo, not ours to look at", SECRETS, [process("sudo", "0")], "secret", "sudo"),
    ("tar | gpg -c", SECRETS, [computing("tar"), at_tty("gpg")], "secret", "gpg"),
    ("echo is off for another reason", SECRETS, [asleep("sleep", "hrtimer_nanosleep")], "busy", "sleep"),
    ("sudo computes", SECRETS, [computing("sudo")], "busy", "sudo"),
    # another terminal behind it
    ("ssh asks for a password", SECRETS, [at_tty("ssh")], "secret", "ssh"),
    ("ssh asks about a host key", LINES, [at_tty("ssh")], "line", "ssh"),
    ("ssh connects", LINES, [asleep("ssh", POLL)], "busy", "ssh"),
    ("ssh runs a command without a terminal", LINES, [at_tty("ssh", POLL)], "unknown", "ssh"),
    ("ssh polls, whoever knows what", LINES, [process("ssh", POLL)], "unknown", "ssh"),
    ("sudo waits for its child", LINES, [asleep("sudo", POLL), asleep("sleep", "hrtimer_nanosleep")], "busy", "sleep"),
    ("a tmux in it, which hands its terminal over", KEYS, [asleep("tmux: client", EPOLL)], "unknown", "tmux: client"),
    ("ssh runs a shell", KEYS, [at_tty("ssh", POLL)], "unknown", "ssh"),
    ("docker run -i", LINES, [at_tty("docker", main=False)], "unknown", "docker"),
    ("docker run -it", KEYS, [at_tty("docker", main=False)], "unknown", "docker"),
    ("a tmux in it", KEYS, [at_tty("tmux: client", EPOLL)], "unknown", "tmux: client"),
    ("dtach: its server has the terminal inside", KEYS, [at_tty("dtach", POLL)], "unknown", "dtach"),
    ("sudo with a terminal of its own", KEYS, [process("sudo", "0")], "unknown", "sudo"),
    ("somebody's relay", KEYS, [at_tty("mytool", POLL, relay=True)], "unknown", "mytool"),
    ("the shell of su", KEYS, [at_tty("bash", POLL)], "editor", "bash"),
    # work
    ("sleep", LINES, [asleep("sleep", "hrtimer_nanosleep")], "busy", "sleep"),
    ("sleep | cat", LINES, [asleep("sleep", "hrtimer_nanosleep"), asleep("cat", "anon_pipe_read")], "busy", "cat"),
    ("yes | head", LINES, [computing("yes"), asleep("head", "anon_pipe_read")], "busy", "yes"),
    ("waits for a disk", LINES, [computing("dd", "D")], "busy", "dd"),
    ("make -j", LINES, [asleep("make"), computing("cc1"), asleep("sh")], "busy", "cc1"),
    ("make -j, between two", LINES, [asleep("make", POLL)], "busy", "make"),
    ("traced", LINES, [process("a.out", state="t")], "busy", "a.out"),
    ("stopped", LINES, [process("vim", state="T")], "stopped", "vim"),
    ("stopped, its child ended", LINES, [process("make", state="T"), process("cc", state="Z")], "stopped", "make"),
    ("half of it stopped", LINES, [process("a", state="T"), asleep("b", "pipe_read")], "busy", "b"),
    ("only ended ones", LINES, [process("true", state="Z")], "busy", None),
    # what the kernel does not say
    ("another user's", LINES, [process("passwd", "0")], "unknown", "passwd"),
    ("another user's, raw", KEYS, [process("vim", "0")], "unknown", "vim"),
    ("not to be opened", LINES, [process("x", None)], "unknown", "x"),
    ("part of it cannot be read", LINES, [asleep("sh"), process("su", "0")], "unknown", "su"),
    ("nobody to be seen", LINES, [], "unknown", None),
]


@pytest.mark.parametrize(
    ("flags", "processes", "waiting", "name"), [row[1:] for row in RECORDED], ids=[r[0] for r in RECORDED]
)
def test_recorded_facts(flags: tuple[bool, bool], processes: list[Process], waiting: str, name: str | None):
    verdict = judge(KernelFacts(*flags, 0, False, 1, tuple(processes)))
    assert (verdict.waiting.value, verdict.process and verdict.process.name) == (waiting, name), verdict.why
    assert verdict.ready is (waiting in ("editor", "line", "secret"))
    assert verdict.hidden is ("hides" in verdict.why)


READY = [row for row in RECORDED if row[3] in ("editor", "line", "secret")]


@pytest.mark.parametrize(("flags", "processes"), [row[1:3] for row in READY], ids=[row[0] for row in READY])
@pytest.mark.parametrize("more", [{"unread": 1}, {"writing": True}, {"changing": True}], ids=str)
def test_who_waits_is_busy_with(more: dict, flags: tuple[bool, bool], processes: list[Process]):
    """Input that it has not read, output that is held up, or somebody else coming to the front."""
    facts = {"unread": 0, "writing": False, "foreground": 1, "processes": tuple(processes)} | more
    assert judge(KernelFacts(*flags, **facts)).waiting is Waiting.BUSY


def test_without_proc_nothing_is_known(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(readiness.sys, "platform", "darwin")
    assert TtyWitness("/dev/tty").look(1) is None
    assert judge(None).waiting is Waiting.UNKNOWN
    assert judge(KernelFacts(True, True, 0, False, None, ())).waiting is Waiting.UNKNOWN


# ---- the real kernel -----------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_a_read_of_the_terminal_is_told_from_one_of_a_socket(terminal: tuple[int, int]):
    far, near = terminal
    ours, theirs = socket.create_server(("127.0.0.1", 0)), socket.socket()
    theirs.connect(ours.getsockname())
    accepted, _ = ours.accept()
    reads = {"terminal": lambda: os.read(near, 1), "socket": lambda: accepted.recv(1)}
    found: dict[str, bool | None] = {}
    for name, read in reads.items():
        thread = threading.Thread(target=read)
        thread.start()
        path = f"/proc/{os.getpid()}/task/{thread.native_id}"
        eventually(lambda path=path: Path(path, "wchan").read_text().split(".")[0] in readiness.TTY_READ)
        found[name] = on_terminal(os.getpid(), path, "wait_woken", os.fstat(near).st_rdev)
        os.write(far, b"\n")
        theirs.send(b"x")
        thread.join()
        if name == "terminal":
            accepted.recv(1)
    for each in (ours, theirs, accepted):
        each.close()
    # Where the system call is not to be seen, the open socket leaves it open.
    assert found["socket"] is not True
    assert found["terminal"] is not False
    if os.geteuid() == 0:
        assert found == {"terminal": True, "socket": False}


@pytest.mark.skipif(not hasattr(select, "epoll") or os.geteuid() != 0, reason="only root surely sees system calls")
@pytest.mark.parametrize(
    ("events", "nested", "waits"),
    [("EPOLLIN", False, True), ("EPOLLIN", True, True), ("EPOLLPRI", False, False), ("EPOLLONESHOT", False, False)],
)
def test_who_polls_with_epoll_waits_for_what_it_asked_for(
    terminal: tuple[int, int], events: str, nested: bool, waits: bool
):
    """ghci keeps the terminal in its set while it works, and has the kernel tell it of nothing."""
    _, near = terminal
    out, wake = os.pipe()
    with select.epoll() as inner, select.epoll() as outer:
        polled = outer if nested else inner
        inner.register(near, getattr(select, events))
        outer.register(inner.fileno(), select.EPOLLIN)
        polled.register(out, select.EPOLLIN)
        thread = threading.Thread(target=polled.poll)
        thread.start()
        try:
            path = f"/proc/{os.getpid()}/task/{thread.native_id}"
            eventually(lambda: Path(path, "wchan").read_text().split(".")[0] in readiness.POLLING)
            found = on_terminal(os.getpid(), path, "do_epoll_wait", os.fstat(near).st_rdev)
        finally:
            os.write(wake, b"x")
            thread.join()
    os.close(out)
    os.close(wake)
    assert found is waits


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_who_is_held_up_writing_does_not_wait_for_input(terminal: tuple[int, int]):
    """A write to a terminal sleeps where a read does."""
    far, near = terminal
    thread = threading.Thread(target=lambda: os.write(near, b"x" * 20_000))
    thread.start()
    path = f"/proc/{os.getpid()}/task/{thread.native_id}"
    eventually(lambda: Path(path, "wchan").read_text().split(".")[0] in readiness.TTY_READ)
    waits = on_terminal(os.getpid(), path, "wait_woken", os.fstat(near).st_rdev)
    while thread.is_alive():
        if select.select([far], [], [], 0.01)[0]:
            os.read(far, 65536)
    assert waits is (False if os.geteuid() == 0 else None)


WRITES = "import os\nwhile True: os.write(1, b'x' * 5000)"


@contextmanager
def running(code: str) -> Iterator[tuple[int, int, TtyWitness]]:
    """A Python program that has printed something: its process id, the far end of its terminal, and who looks at it."""
    pid, far = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])
    os.read(far, 1)
    witness = TtyWitness(os.readlink(f"/proc/{pid}/fd/1"))
    try:
        yield pid, far, witness
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        witness.close()  # the far end ends when nobody has the terminal open


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_a_flood_never_looks_ready():
    """It is held up and goes on, again and again, also between the first fact of a look and the last."""
    seen, rng = set[str](), random.Random(1)
    with running(WRITES) as (pid, far, witness):

        def drain() -> None:
            with suppress(OSError):
                while os.read(far, 65536):
                    time.sleep(rng.random() * 0.002)

        reader = threading.Thread(target=drain)
        reader.start()
        for _ in range(2000):
            verdict = judge(witness.look(pid))
            seen |= {verdict.why} if verdict.ready else set()
    reader.join()
    os.close(far)
    assert not seen


WAKES_OFTEN = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.0005)"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_who_wakes_up_at_the_moment_of_a_look_is_still_known():
    """It has no wait channel then, although it slept a moment before."""
    with running(WAKES_OFTEN) as (pid, far, witness):
        seen = {judge(witness.look(pid)).waiting for _ in range(5000)}
    os.close(far)
    assert seen == {Waiting.BUSY}


LISTENS_FOR_MOMENTS = "import select\nprint('begun', flush=True)\nwhile True: select.select([0], [], [], 0.0005)"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
@pytest.mark.skipif(os.geteuid() != 0, reason="others may not be let see system calls")
def test_who_goes_on_by_itself_at_the_moment_of_a_look_never_waits_for_ever():
    """A look is many facts: those from before it woke up and from behind are no picture of it."""
    with running(LISTENS_FOR_MOMENTS) as (pid, far, witness):
        ready = [verdict for _ in range(5000) if (verdict := judge(witness.look(pid))).ready]
    os.close(far)
    assert ready
    assert not [verdict for verdict in ready if not verdict.weak]


SLEEPS = "import os, select; os.read(0, 9); select.select([0], [], [], 60); os.read(0, 9); os.read(0, 9)"


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root surely sees system calls")
def test_a_sleep_is_looked_into_once(monkeypatch: pytest.MonkeyPatch):
    """The next one, also in the same call, is looked into anew."""
    looked_into: list[str] = []
    original = readiness.proc.system_call

    def counting(path: str) -> list[str]:
        looked_into.append(path)
        return original(path)

    monkeypatch.setattr(readiness.proc, "system_call", counting)
    pid, master = pty.fork()
    if pid == 0:
        os.execvp(sys.executable, [sys.executable, "-S", "-c", SLEEPS])
    eventually(lambda: os.readlink(f"/proc/{pid}/fd/0").startswith("/dev/pts/"))
    witness = TtyWitness(os.readlink(f"/proc/{pid}/fd/0"))
    try:

        def waiting(time_out_s: float | None) -> Process | None:
            facts = witness.look(pid)
            found = facts.processes[0] if facts and facts.processes else None
            return found if found and found.on_terminal and found.time_out_s == time_out_s else None

        for time_out_s in (None, 60.0, None):
            eventually(lambda time_out_s=time_out_s: waiting(time_out_s) is not None)
            first = waiting(time_out_s)
            looked_into.clear()
            again = waiting(time_out_s)
            assert first
            assert again
            assert not looked_into
            assert (again.wakes, again.channel, again.parent) == (first.wakes, first.channel, first.parent)
            assert again.age_s > first.age_s
            os.write(master, b"\n")
    finally:
        witness.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)
