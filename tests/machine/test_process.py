from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import psutil
import pytest

from tests.conftest import SLOW, eventually
from tests.kit.processes import living
from tmuxmcp.contract.call import no_progress
from tmuxmcp.contract.errors import CwdNotFound, InvalidArgument, IoError, ProgramNotFound, ResourceLimit, TmuxMcpError
from tmuxmcp.contract.settings import Limits
from tmuxmcp.machine import process
from tmuxmcp.machine.cgroup import rlimits
from tmuxmcp.machine.process import PIPE_BYTES, carry

ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
FORK_AWAY = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0)"
"""What a daemon does."""


async def run(
    *argv: str,
    stdin: bytes = b"",
    timeout_s: float = 30,
    most: int = 65536,
    cwd: str = "/",
    limits: Limits | None = None,
    env: dict[str, str] | None = None,
    progress: Callable[[float, str], Awaitable[None]] = no_progress,
) -> process.ProcessEnd:
    program = process.find(argv, cwd=cwd, env=env or ENV, rlimits=rlimits(limits or Limits()))
    return await process.run(program, stdin=stdin, timeout_s=timeout_s, max_output_bytes=most, progress=progress)


def out(ended: process.ProcessEnd) -> str:
    encoding, (stdout, _) = carry([ended.stdout, ended.stderr])
    assert encoding == "utf-8"
    return stdout


@pytest.fixture
def mark(tmp_path: Path) -> str:
    """A word by which a test's processes are found."""
    return f"mark-{tmp_path.name}-{os.getpid()}"


def supervisors() -> list[psutil.Process]:
    """Those of ours that run."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # one of another test has ended
            if "supervisor.py" in " ".join(child.cmdline()):
                found.append(child)
    return found


def sleeper(mark: str, seconds: int = 1000, before: str = "") -> list[str]:
    return [sys.executable, "-I", "-S", "-c", f"{before or 'import time'}; time.sleep({seconds})", mark]


# ---- what it is given and what it gives ---------------------------------------------------------


async def test_streams_stay_apart_and_the_exit_code_is_exact():
    ended = await run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert (ended.rc, ended.signal, ended.timed_out) == (7, None, False)
    assert bytes(ended.stdout.pieces(99)[0]) == b"out\n"
    assert bytes(ended.stderr.pieces(99)[0]) == b"err\n"


@pytest.mark.parametrize("word", ["", " ", "$HOME", "*", "a\nb", "'\"\\", "-n", "\u20ac", "\udcff", "x" * 100_000])
async def test_arguments_arrive_as_they_are(word: str):
    code = "import os, sys; sys.stdout.buffer.write(os.fsencode(sys.argv[1]))"
    ended = await run(sys.executable, "-c", code, word, most=200_000)
    assert ended.stdout.pieces(200_000)[0] == os.fsencode(word)


async def test_the_environment_is_what_was_given_and_nothing_else():
    ended = await run("env", env={"PATH": ENV["PATH"], "B": "2\n3"})
    assert sorted(out(ended).splitlines()) == sorted([f"PATH={ENV['PATH']}", "B=2", "3"])


async def test_cwd_and_umask(tmp_path: Path):
    ended = await run("sh", "-c", "pwd; umask", cwd=str(tmp_path))
    value = os.umask(0o022)
    os.umask(value)
    assert out(ended).split() == [str(tmp_path), f"{value:04o}"]


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_000])
async def test_stdin_arrives_whole_and_ends(size: int):
    data = os.urandom(size)
    ended = await run("cat", stdin=data, most=4_000_000)
    assert (ended.rc, ended.stdout.pieces(4_000_000)[0]) == (0, data)


async def test_a_program_that_does_not_read_its_stdin():
    assert (await run("true", stdin=b"x" * 1_000_000)).rc == 0


async def test_a_signal_has_its_name():
    ended = await run("sh", "-c", "kill -SEGV $$")
    assert (ended.rc, ended.signal) == (None, "SEGV")
    ended = await run("sh", "-c", f"kill -{signal.SIGRTMIN + 3} $$")
    assert (ended.rc, ended.signal) == (None, "RTMIN+3")


async def test_much_output_is_read_to_its_end_in_bounded_memory():
    ended = await run("sh", "-c", "head -c 50000000 /dev/zero; echo end", most=1000)
    assert ended.stdout.size == 50_000_004
    assert ended.stdout.pieces(1000)[1].endswith(b"\0end\n")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a pipe has the size that it has")
@pytest.mark.parametrize("stream", [1, 2])
async def test_what_lies_in_a_pipe_at_the_end_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stream: int):
    """We may be stopped while the program ends, for longer than its pipes are read on."""
    monkeypatch.setattr(process, "PIPES_DRAIN_S", 0)
    large = f"import fcntl, os; fcntl.fcntl({stream}, fcntl.F_SETPIPE_SZ, 1 << 20); open('begun', 'w')"
    large += f"; os.write({stream}, bytes(1_000_000))"

    async def stop() -> None:
        await eventually((tmp_path / "begun").exists)
        time.sleep(0.5)  # noqa: ASYNC251 - nobody reads meanwhile

    async with anyio.create_task_group() as tg:
        tg.start_soon(stop)
        ended = await run(sys.executable, "-c", large, cwd=str(tmp_path))
    assert ended.stdout.size + ended.stderr.size == 1_000_000


async def test_no_terminal_no_foreign_descriptor_and_default_signals():
    ended = await run("sh", "-c", "tty; ls /proc/self/fd | tr '\\n' ' '; grep Sig[BI] /proc/self/status; exit 0")
    tty, *rest = out(ended).splitlines()
    assert tty == "not a tty"
    assert rest == ["0 1 2 3 SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"]  # 3 is the directory


async def test_usage_counts_descendants():
    busy = "import time\nwhile time.process_time() < 0.3: pass\nx = bytearray(60_000_000)"
    ended = await run("sh", "-c", f'"{sys.executable}" -c "{busy}"; true')
    assert ended.cpu_ms >= 300
    assert ended.max_rss_kb > 60_000


@pytest.mark.parametrize(
    ("argv", "cwd", "error"),
    [
        ([], "/", InvalidArgument),
        ([""], "/", InvalidArgument),
        (["echo", "a\0b"], "/", InvalidArgument),
        (["echo", "\ud800"], "/", InvalidArgument),
        (["no-such-program"], "/", ProgramNotFound),
        (["/etc/passwd"], "/", ProgramNotFound),
        (["true"], "/no/such/directory", CwdNotFound),
        (["true"], "/etc/passwd", CwdNotFound),
        (["true", *(["x" * 100_000] * 100)], "/", ResourceLimit),
    ],
)
async def test_what_cannot_be_started_says_why(argv: list[str], cwd: str, error: type[TmuxMcpError]):
    with pytest.raises(error):
        await run(*argv, cwd=cwd)


async def test_a_script_without_its_interpreter(tmp_path: Path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(ProgramNotFound, match="No such file"):
        await run(str(script))


async def test_progress_tells_the_last_line_and_not_too_often():
    told: list[tuple[float, str]] = []

    async def progress(elapsed_s: float, last_line: str) -> None:
        told.append((elapsed_s, last_line))

    await run("sh", "-c", "echo one; echo two >&2; echo three; exec sleep 1.5", progress=progress)
    assert told
    assert told[0][1] == "three"
    assert [int(elapsed) for elapsed, _ in told] == sorted({int(elapsed) for elapsed, _ in told})


# ---- the whole tree -----------------------------------------------------------------------------


async def test_time_up_ends_the_program(mark: str):
    ended = await run(*sleeper(mark), timeout_s=0.3)
    assert (ended.rc, ended.signal, ended.timed_out) == (None, "TERM", True)
    assert not living(mark)


async def test_time_up_lets_the_program_say_a_last_word():
    ended = await run("sh", "-c", "trap 'echo bye; exit 3' TERM; echo hi; while :; do sleep 0.01; done", timeout_s=SLOW)
    assert (ended.rc, ended.timed_out, out(ended)) == (3, True, "hi\nbye\n")


async def test_time_up_ends_daemons_and_who_ignores_term(mark: str, tmp_path: Path):
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('deaf', 'w')"
    code = f"import os, subprocess, sys, time; subprocess.Popen({sleeper(mark, before=deaf)!r}, start_new_session=True)"
    daemon = sleeper(mark, before=FORK_AWAY)
    code += f"; subprocess.run({daemon!r}); open('up', 'w'); time.sleep(1000)"
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tg:
            ended: list[process.ProcessEnd] = []

            async def go() -> None:
                ended.append(await run(sys.executable, "-c", code, mark, cwd=str(tmp_path), timeout_s=3 * SLOW))

            tg.start_soon(go)
            await eventually(lambda: (tmp_path / "up").exists() and (tmp_path / "deaf").exists(), 3)
            await eventually(lambda: len(living(mark)) >= 3)  # the daemon is about to fork once more
    assert (ended[0].signal, ended[0].timed_out, ended[0].survivors) == ("TERM", True, [])
    assert not living(mark)


async def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_answer(mark: str):
    holder = " ".join(f"'{word}'" for word in sleeper(mark))
    ended = await run("sh", "-c", f"{holder} & echo hi")
    assert (ended.rc, ended.timed_out, out(ended), ended.left) == (0, False, "hi\n", 1)
    assert not living(mark)


async def test_a_grandchild_that_has_something_to_write_may_write_it():
    ended = await run("bash", "-c", "echo hi > >(sleep 0.02; cat)")
    assert (out(ended), ended.left) == ("hi\n", 0)


async def test_cancelled_it_ends_and_leaves_nothing(mark: str):
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tg:
            tg.start_soon(run, *sleeper(mark, before=FORK_AWAY + "; import time"))
            tg.start_soon(run, *sleeper(mark))
            await eventually(lambda: len(living(mark)) >= 2)
            scope.cancel()
    assert not living(mark)
    assert not supervisors()


async def test_no_zombie_and_no_descriptor_is_left():
    await run("true")
    before, children = os.listdir("/proc/self/fd"), psutil.Process().children()
    for argv in (["true"], ["sh", "-c", "sleep 1000 & exit 1"]):
        await run(*argv)
    with suppress(ProgramNotFound):
        await run("no-such-program")
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    assert set(psutil.Process().children()) <= set(children)  # of other tests, zombies too


async def test_a_killed_broker_leaves_nothing(mark: str):
    code = (
        "import anyio, sys; from tests.machine.test_process import run, sleeper\n"
        "anyio.run(lambda: run(*sleeper(sys.argv[1])))"
    )
    broker = await anyio.open_process([sys.executable, "-c", code, mark], cwd=Path(__file__).parents[2])
    await eventually(lambda: len(living(mark)) == 2, 20)
    broker.kill()
    await broker.aclose()
    await eventually(lambda: not living(mark), 20)


async def test_a_killed_supervisor_is_told_and_leaves_nothing(mark: str):
    with pytest.raises(IoError, match="killed the supervisor"):
        await run("sh", "-c", 'kill -KILL $PPID; exec "$@"', "sh", *sleeper(mark))
    assert not living(mark)


@pytest.fixture
def busy_core() -> Iterator[int]:
    """A core that has no time for a process of the lowest priority."""
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", code]) as busy:
        yield core
        busy.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="other schedulers")
async def test_what_a_killed_supervisor_left_is_gone_when_that_is_told(mark: str, busy_core: int):
    """Also when it needs a while to end."""
    late = f"import os, time; os.sched_setaffinity(0, {{{busy_core}}}); "
    late += "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))"
    with pytest.raises(IoError, match="killed the supervisor"):
        await run("sh", "-c", '"$@" & sleep 1; kill -KILL $PPID; wait', "sh", *sleeper(mark, before=late))
    assert not living(mark)


async def test_the_event_loop_stays_free():
    """Others get their turn while much is read."""
    turns = 0
    async with anyio.create_task_group() as tg:

        async def others() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        tg.start_soon(others)
        ended = await run("head", "-c", "20000000", "/dev/zero")
        tg.cancel_scope.cancel()
    assert turns > ended.stdout.size / PIPE_BYTES / 2


# ---- limits -------------------------------------------------------------------------------------


async def test_limits_hold():
    shown = await run("sh", "-c", "ulimit -n; ulimit -f", limits=Limits(open_files=33, file_mb=1))
    assert out(shown).split() == ["33", "2048"]  # blocks of 512 bytes
    hungry = [sys.executable, "-c", "x = bytearray(400_000_000)"]
    assert (await run(*hungry, limits=Limits(memory_mb=300))).rc == 1
    busy = await run("sh", "-c", "while :; do :; done", limits=Limits(cpu_seconds=1))
    assert busy.signal in ("XCPU", "KILL")


async def test_a_limit_over_ours_is_ours():
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = await run("sh", "-c", "ulimit -Hn", limits=Limits(open_files=2**31 - 1))
    assert out(shown).split() == [str(min(hard, 2**31 - 1))]


async def test_more_children_than_can_be_counted_one_by_one_end(mark: str):
    """Many processes that make others all the time; bounded, so that a failure does not end the machine."""
    code = "import os, time\nfor _ in range(6):\n os.fork(); time.sleep(0.01)\nwhile True:\n"
    code += " pid = os.fork()\n if pid: os.waitpid(pid, 0)\n else: os._exit(0)"
    ended = await run(sys.executable, "-I", "-S", "-c", code, mark, timeout_s=0.5)
    assert (ended.timed_out, ended.survivors) == (True, [])
    assert not living(mark)


# ---- ahead of its work ------------------------------------------------------------------------------


async def test_supervisor_that_waited_does_what_one_of_its_own_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ahead = process.PrestartedSupervisor()

    async def run_ahead(*argv: str, stdin: bytes = b"") -> tuple[int | None, bytes, psutil.Process]:
        (waiting,) = supervisors()
        program = process.find(argv, cwd=str(tmp_path), env=ENV)
        ended = await process.run(
            program, stdin=stdin, timeout_s=20, max_output_bytes=9999, progress=no_progress, ahead=ahead
        )
        assert not supervisors()
        return ended.rc, ended.stdout.pieces(9999)[0], waiting

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ahead.get)
        await eventually(lambda: ahead._child)  # a moment after its process is there
        assert (await run_ahead("sh", "-c", "readlink /proc/self/fd/0; pwd; exit 3"))[:2] == (
            3,
            f"/dev/null\n{tmp_path}\n".encode(),
        )
        tasks.start_soon(ahead.get)
        await eventually(lambda: ahead._child)
        assert (await run_ahead("cat", stdin=b"given"))[:2] == (0, b"given")
        tasks.start_soon(ahead.get)  # one that was killed while it waited is not used
        await eventually(lambda: ahead._child)
        (killed,) = supervisors()
        killed.kill()
        await eventually(lambda: killed.status() == psutil.STATUS_ZOMBIE)
        ended = await process.run(
            process.find(["true"], cwd="/", env=ENV),
            **{"stdin": b"", "timeout_s": 20, "max_output_bytes": 99, "progress": no_progress, "ahead": ahead},
        )
        assert ended.rc == 0
        monkeypatch.setattr(process, "AHEAD_S", 0.0)
        tasks.cancel_scope.cancel()
    await ahead.get()  # its time is up at once
    assert not supervisors()
    await ahead.close()
