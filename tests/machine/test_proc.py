"""What the kernel says of processes is read as it says it, whatever they call themselves."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.kit.agent import eventually as soon
from tmuxmcp.machine import proc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

OWN = f"/proc/{os.getpid()}"
GONE = 2**22 + 1
"""No process has this id: the kernel's largest is 2**22."""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A sleeping program with a session of its own and an odd name, which ignores USR1."""
    code = "import signal, time; signal.signal(signal.SIGUSR1, signal.SIG_IGN)"
    code += "; open('/proc/self/comm', 'w').write(') R 1 (x\\n'); print(flush=True); time.sleep(600)"
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, env={"NAME": "a=b"}, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


def test_own_stat_is_what_the_system_says():
    stat = proc.stat(OWN)
    assert (stat.state, stat.parent, stat.group, stat.session) == ("R", os.getppid(), os.getpgrp(), os.getsid(0))
    soon(lambda: proc.stat(OWN).threads == len(os.listdir("/proc/self/task")))  # one may end in between
    assert 0 < stat.born_s <= time.clock_gettime(time.CLOCK_BOOTTIME)


async def _asleep(pid: int) -> None:
    await eventually(lambda: proc.stat(f"/proc/{pid}").state == "S")


async def test_name_cannot_pass_for_other_fields(child: subprocess.Popen[bytes]) -> None:
    await _asleep(child.pid)
    assert proc.name(child.pid) == ") R 1 (x"
    stat = proc.stat(f"/proc/{child.pid}")
    assert (stat.state, stat.parent, stat.session) == ("S", os.getpid(), child.pid)
    assert stat.foreground == -1
    assert dict(proc.all_stats())[child.pid] == stat


def test_a_line_break_of_old_in_a_name_makes_no_field():
    code = "open('/proc/self/comm', 'w').write('a\\rPPid: 1'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert proc.name(process.pid) == "a\rPPid: 1"
        assert proc.status(f"/proc/{process.pid}", "PPid") == str(os.getpid())
        process.kill()


def test_a_long_file_is_read_whole(monkeypatch: pytest.MonkeyPatch):
    whole = proc.status(OWN, "nonvoluntary_ctxt_switches"), proc.name(os.getpid()), proc.stat(OWN).born_s
    monkeypatch.setattr(proc, "PIECE_BYTES", 7)
    assert int(proc.status(OWN, "nonvoluntary_ctxt_switches")) >= int(whole[0])  # the last line
    assert (proc.name(os.getpid()), proc.stat(OWN).born_s) == whole[1:]


def test_child_is_among_its_parents_children(child: subprocess.Popen[bytes]):
    assert child.pid in proc.children(os.getpid(), proc.threads(os.getpid()))


def test_thread_is_found_and_read():
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    assert thread.native_id in proc.threads(os.getpid())
    assert proc.stat(f"{OWN}/task/{thread.native_id}").session == os.getsid(0)
    ended.set()
    thread.join()


def test_status_has_the_field_of_exactly_that_name(child: subprocess.Popen[bytes]):
    ignored = int(proc.status(f"/proc/{child.pid}", "SigIgn"), 16)
    assert ignored >> (signal.SIGUSR1 - 1) & 1
    assert not ignored >> (signal.SIGUSR2 - 1) & 1
    soon(lambda: proc.stat(f"/proc/{child.pid}").state == "S")
    text = Path(f"/proc/{child.pid}/status").read_text()
    switches = proc.status(f"/proc/{child.pid}", "voluntary_ctxt_switches")
    assert f"\nvoluntary_ctxt_switches:\t{switches}\n" in text
    with pytest.raises(ProcessLookupError):
        proc.status(OWN, "ctxt_switches")


def test_environment_and_limits_are_those_it_began_with(child: subprocess.Popen[bytes]):
    assert b"NAME=a=b" in proc.environment(child.pid)
    told = ["unlimited" if each < 0 else str(each) for each in resource.getrlimit(resource.RLIMIT_NOFILE)]
    titles = ["Max open files", "Max pending signals", "Max realtime timeout", "Max open"]
    limits = proc.limits(child.pid, titles)
    assert (list(limits), list(limits["Max open files"])) == (titles[:3], told)


@pytest.mark.parametrize(
    "read",
    [
        lambda: proc.stat(f"/proc/{GONE}"),
        lambda: proc.threads(GONE),
        lambda: proc.name(GONE),
        lambda: proc.wait_channel(f"/proc/{GONE}"),
        lambda: proc.status(f"/proc/{GONE}", "SigIgn"),
        lambda: proc.environment(GONE),
        lambda: proc.limits(GONE, ["Max open files"]),
    ],
)
def test_process_that_is_gone_is_an_error_of_the_system(read):
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        read()
    assert proc.children(GONE, [GONE]) == []


def test_process_that_ends_while_it_is_read_is_an_error_of_the_system(tmp_path: Path):
    (tmp_path / "stat").write_bytes(b"")
    with pytest.raises(ProcessLookupError):
        proc.stat(str(tmp_path))
