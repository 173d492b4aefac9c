"""What is read of a terminal, of real programs at real ones; and that nothing is known where nothing can be read."""

from __future__ import annotations

import os
import pty
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.kit.agent import eventually
from tmuxmcp.machine import proc
from tmuxmcp.machine.witness import tty as witness
from tmuxmcp.machine.witness.kernel import POLL_WAIT_CHANNELS, TTY_READ, InputWait, Process, judge
from tmuxmcp.machine.witness.tty import TtyWitness, on_terminal


def test_without_proc_nothing_is_known(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(witness.sys, "platform", "darwin")
    assert TtyWitness("/dev/tty").look(1) is None


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
        eventually(lambda path=path: Path(path, "wchan").read_text().split(".")[0] in TTY_READ)
        found[name] = on_terminal(os.getpid(), path, "wait_woken", proc.device(near))
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
            eventually(lambda: Path(path, "wchan").read_text().split(".")[0] in POLL_WAIT_CHANNELS)
            found = on_terminal(os.getpid(), path, "do_epoll_wait", proc.device(near))
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
    eventually(lambda: Path(path, "wchan").read_text().split(".")[0] in TTY_READ)
    waits = on_terminal(os.getpid(), path, "wait_woken", proc.device(near))
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
    assert seen == {InputWait.BUSY}


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
    original = witness.proc.system_call

    def counting(path: str) -> list[str]:
        looked_into.append(path)
        return original(path)

    monkeypatch.setattr(witness.proc, "system_call", counting)
    pid, master = pty.fork()
    if pid == 0:
        os.execvp(sys.executable, [sys.executable, "-S", "-c", SLEEPS])
    eventually(lambda: os.readlink(f"/proc/{pid}/fd/0").startswith("/dev/pts/"))
    tty = TtyWitness(os.readlink(f"/proc/{pid}/fd/0"))
    try:

        def waiting(time_out_s: float | None) -> Process | None:
            facts = tty.look(pid)
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
            assert (again.wakes, again.wait_channel, again.parent) == (first.wakes, first.wait_channel, first.parent)
            assert again.age_s > first.age_s
            os.write(master, b"\n")
    finally:
        tty.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)


def test_a_sink_sleeps_when_it_and_its_children_do():
    with subprocess.Popen(["sleep", "600"]) as resting:
        eventually(lambda: witness.sleeps(resting.pid))
        resting.kill()
    code = "sh -c 'echo $$; while :; do :; done' & wait"  # it tells its id when it has begun to work
    with subprocess.Popen(["sh", "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        try:
            eventually(lambda: psutil.Process(parent.pid).status() == psutil.STATUS_SLEEPING)
            assert not witness.sleeps(parent.pid)
        finally:
            os.kill(child, signal.SIGKILL)
    assert witness.sleeps(child)  # it has ended
