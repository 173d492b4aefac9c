"""Programs as they find themselves, and what is left of them when they end: a real server, launcher and sink."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import psutil
import pytest

from tests.conftest import SLOW, eventually, stop_with_children
from tests.kit.panes import ENVIRONMENT, Launched, launch_pane
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import iso
from tmuxmcp.record.events import ExitedEvent, decode, encode
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.server import Tmux

SHELLS = [
    ["/bin/sh"],
    *([shutil.which(words[0]) or "", *words[1:]] for words in (["bash", "--posix"], ["busybox", "sh"])),
]
"""What /bin/sh may be."""

MILLISECONDS = subprocess.run(["date", "+%3N"], capture_output=True, text=True).stdout.strip().isdecimal()
"""Whether date(1) tells them, as GNU's does."""


@pytest.fixture(params=[shell for shell in SHELLS if shell[0]], ids=lambda words: os.path.basename(words[0]))
def shell(request: pytest.FixtureRequest) -> list[str]:
    return request.param


# ---- how it ends ---------------------------------------------------------------------------------


async def test_exit_code_is_the_programs_own(tmux: Tmux, shell: list[str]) -> None:
    for code in (0, 1, 2, 7, 126, 127, 128, 129, 130, 137, 139, 141, 143, 200, 255):
        launched = await launch_pane(tmux, ["sh", "-c", f"exit {code}"], shell=shell)
        pane = await launched.ended()
        assert (pane.exit_code, pane.exit_signal, launched.output()) == (code, None, b"")


@pytest.mark.parametrize(("end", "code", "name"), [("exit 3", 3, None), ("kill -9 $$", None, "KILL")])
async def test_end_is_written_down_as_an_event(
    tmux: Tmux, shell: list[str], end: str, code: int | None, name: str | None
) -> None:
    before = iso(time.time())
    launched = await launch_pane(tmux, ["sh", "-c", f"echo out; {end}"], shell=shell)
    await launched.ended()
    (line,) = (launched.directory / "events.jsonl").read_bytes().splitlines(keepends=True)
    event = decode(line)
    assert isinstance(event, ExitedEvent)
    assert (event.offset, event.exit_code, event.exit_signal) == (len(launched.log()), code, name)
    assert event.time.startswith("20")
    assert not MILLISECONDS or before <= event.time <= iso(time.time())
    assert encode(event) == line


async def test_death_by_signal_is_told_and_prints_nothing(tmux: Tmux, shell: list[str]) -> None:
    for number in (1, 3, 6, 9, 10, 11, 14, 15, 35):
        code = f"import os, signal; signal.signal({number}, 0) if {number} != 9 else 0; os.kill(os.getpid(), {number})"
        if number == 3 and shell[0].endswith("busybox"):
            continue  # it says nothing about SIGQUIT either
        launched = await launch_pane(tmux, [sys.executable, "-IS", "-c", code], shell=shell)
        pane = await launched.ended()
        assert (pane.exit_code, pane.exit_signal, launched.output()) == (None, number, b"")


@pytest.mark.parametrize(
    ("program", "code", "expected"),
    [
        ("bash", "exit 130", (130, None)),
        ("bash", "exit 141", (141, None)),
        ("python3", "import signal; signal.signal(13, 0); signal.raise_signal(13)", (None, "PIPE")),
        ("python3", "import signal; signal.signal(2, 0); signal.raise_signal(2)", (None, "INT")),
        ("python3", "import os; os.kill(os.getpid(), 36)", (None, "RTMIN+2")),
        ("python3", "raise SystemExit(3)", (3, None)),
    ],
)
async def test_exit_status_of_a_session(broker: Broker, program: str, code: str, expected: object) -> None:
    await broker.create_session(program=program, args=["-c", code], name="a", wait_ready=False)
    await broker.read(session_id="a", wait_for="exit", timeout_ms=int(10_000 * SLOW))
    facts = await broker.get_session("a")
    assert (facts.exit_code, facts.exit_signal) == expected


async def test_stopped_terminal_does_not_hold_up_the_end(tmux: Tmux) -> None:
    """Ctrl-S stops output; the program, which prints nothing more, ends."""
    launched = await launch_pane(tmux, ["sh", "-c", "read line; exit 3"])
    await launched.started()
    await launched.type(b"\x13")
    await launched.type(b"\n")  # with IXANY off this starts nothing
    assert (await launched.ended(3)).exit_code == 3


async def test_program_that_closes_its_terminal_runs_on(tmux: Tmux, tmp_path: Path) -> None:
    done = tmp_path / "done"
    code = f"exec </dev/null >/dev/null 2>&1; while ! [ -e {tmp_path}/go ]; do sleep 0.01; done; echo 1 >{done}; exit 5"
    launched = await launch_pane(tmux, ["sh", "-c", code])
    pid = await launched.started()
    await eventually(lambda: os.readlink(f"/proc/{pid}/fd/0") == "/dev/null")
    assert not (await launched.look()).dead
    (tmp_path / "go").touch()
    assert (await launched.ended()).exit_code == 5
    assert done.exists()


async def test_background_child_that_prints_on_does_not_hold_up_the_end(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["sh", "-c", "yes & sleep 0.1; exit 4"])
    assert (await launched.ended(8)).exit_code == 4


async def sink_of(launched: Launched) -> int:
    return int((await eventually((launched.directory / "sink.pid").read_text)).split()[0])


async def test_stopped_sink_gets_its_time_and_no_more(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["sh", "-c", "read line; echo last; exit 4"])
    await launched.started()
    sinks = stop_with_children(await sink_of(launched))
    await launched.type(b"\n")
    await eventually(lambda: not psutil.pid_exists(launched.pid))
    with anyio.move_on_after(0.5):
        await launched.ended()
        pytest.fail("the end did not wait for the sink")
    for process in sinks:
        process.resume()
    assert (await launched.ended()).exit_code == 4
    assert launched.output().endswith(b"last\n")


async def test_killed_sink_does_not_hold_up_the_end(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["sh", "-c", "read line; exit 4"])
    await launched.started()
    sink = await sink_of(launched)
    for process in [psutil.Process(sink), *psutil.Process(sink).children()]:
        process.kill()
    await launched.type(b"\n")
    assert (await launched.ended(3)).exit_code == 4


# ---- what it finds -------------------------------------------------------------------------------


async def printed(launched: Launched) -> bytes:
    await launched.ended()
    return launched.output()


AWKWARD = [
    *(
        "",
        " ",
        "two words",
        "$HOME",
        "`id`",
        "$(id)",
        "#(id)",
        "#{pid}",
        "%H%%",
        "a;",
        ";",
        "\\;",
        "\\",
        "'",
        '"',
        "'\"'",
    ),
    *(
        "new\nline",
        "\n",
        "tab\t",
        "\r",
        "-x",
        "--",
        "*",
        "~",
        "é",
        "日本",
        "\x1b[0m",
        "\x7f",
        "\x01",
        "\udcff\udcfe",
        "{",
        "}",
    ),
]


async def test_arguments_arrive_exactly(tmux: Tmux) -> None:
    code = "import sys, os; print([os.fsencode(a) for a in sys.argv[1:]])"
    launched = await launch_pane(tmux, [sys.executable, "-c", code, *AWKWARD])
    assert ast.literal_eval((await printed(launched)).decode()) == [os.fsencode(word) for word in AWKWARD]


async def test_word_zero_is_the_name_given(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["-odd name", "-c", 'echo "$0"'], executable="/bin/sh")
    assert await printed(launched) == b"-odd name\n"


async def test_environment_is_exactly_what_was_put_together(tmux: Tmux) -> None:
    env = {**ENVIRONMENT, "ODD": "a=b\n'\"$HOME;", "BYTES": "\udcff", "EMPTY": ""}
    launched = await launch_pane(tmux, ["cat", "/proc/self/environ"], env=env)
    found = dict(pair.split(b"=", 1) for pair in (await printed(launched)).split(b"\0")[:-1])
    assert found == {os.fsencode(name): os.fsencode(value) for name, value in env.items()}


@pytest.mark.parametrize("name", ["plain", "two words", "#(touch pwned)", "%H", "é\udcff"])
async def test_working_directory(tmux: Tmux, tmp_path: Path, name: str) -> None:
    where = tmp_path / name
    where.mkdir()
    launched = await launch_pane(tmux, ["readlink", "-n", "/proc/self/cwd"], cwd=str(where))
    assert await printed(launched) == os.fsencode(where)
    assert list(where.iterdir()) == []


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
async def test_umask(tmux: Tmux, umask: int) -> None:
    launched = await launch_pane(tmux, ["sh", "-c", "umask"], umask=umask)
    assert int(await printed(launched), 8) == umask


async def test_signals_are_as_at_a_login(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["cat", "/proc/self/status"])
    facts = dict(line.split(":\t", 1) for line in (await printed(launched)).decode().splitlines())
    assert int(facts["SigBlk"], 16) == int(facts["SigIgn"], 16) == int(facts["SigPnd"], 16) == 0


async def test_descriptors_are_the_three_of_the_terminal(tmux: Tmux) -> None:
    code = """import os
fds = [fd for fd in range(100) if os.path.exists(f"/proc/self/fd/{fd}")]
print([os.readlink(f"/proc/self/fd/{fd}") for fd in fds])"""
    launched = await launch_pane(tmux, [sys.executable, "-IS", "-c", code])
    pane = await launched.ended()
    assert ast.literal_eval(launched.output().decode()) == [pane.tty] * 3


async def test_group_is_its_own_and_in_the_foreground(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["cat", "/proc/self/stat"])
    pane = await launched.ended()
    pid, _, _, parent, group, session, _, foreground, *_ = launched.output().split()
    assert int(pid) == int(group) == int(foreground) == launched.pid
    assert int(parent) == int(session) == pane.leader


async def test_keys_reach_the_program_and_not_the_launcher(tmux: Tmux) -> None:
    # Not by print, which a signal may meet in the middle of another print.
    code = """import os, signal, sys, time
signal.signal(2, lambda *_: (os.write(1, b"interrupted"), sys.exit(9)))
print("go", flush=True)
time.sleep(60)"""
    launched = await launch_pane(tmux, [sys.executable, "-IS", "-c", code])
    await eventually(lambda: b"go" in launched.log())
    await launched.type(b"\x03")
    assert (await launched.ended()).exit_code == 9
    assert b"interrupted" in launched.output()


async def test_stop_key_stops_the_program_alone(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["sleep", "60"])
    program = psutil.Process(await launched.started())
    await eventually(lambda: program.name() == "sleep")
    await launched.type(b"\x1a")
    await eventually(lambda: program.status() == psutil.STATUS_STOPPED)
    assert psutil.Process(launched.pane.leader).status() != psutil.STATUS_STOPPED
    program.send_signal(signal.SIGCONT)
    program.terminate()
    assert (await launched.ended()).exit_signal == signal.SIGTERM


async def test_tostop_holds_up_neither_program_nor_end(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["sh", "-c", "stty tostop; echo in front; exit 6"])
    assert (await launched.ended(5)).exit_code == 6
    assert launched.output() == b"in front\n"


async def test_nothing_of_the_launcher_lies_about(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["sleep", "60"], env={**ENVIRONMENT, "CANARY": "in-no-argv"})
    pid = await launched.started()
    await eventually(lambda: psutil.Process(pid).name() == "sleep")
    assert not (launched.directory / "spec").exists()
    for process in (psutil.Process(launched.pane.leader), psutil.Process(pid)):
        assert "in-no-argv" not in " ".join(process.cmdline())
    children = psutil.Process(launched.pane.leader).children(recursive=True)
    assert [child.pid for child in children] == [pid]


# ---- what cannot start ---------------------------------------------------------------------------


async def error_of(launched: Launched) -> list[str]:
    pane = await launched.ended()
    assert pane.exit_code == 127
    return (launched.directory / "error").read_text().split("\n", 1)


async def test_program_that_vanished(tmux: Tmux) -> None:
    code, reason = await error_of(await launch_pane(tmux, ["x"], executable="/nowhere/x"))
    assert code == "PROGRAM_NOT_FOUND"
    assert "No such file" in reason


async def test_program_that_cannot_be_executed(tmux: Tmux, tmp_path: Path) -> None:
    file = tmp_path / "script\udcff"
    file.write_bytes(b"\0not a program")
    file.chmod(0o755)
    code, reason = await error_of(await launch_pane(tmux, ["x"], executable=str(file)))
    assert code == "PROGRAM_NOT_FOUND"
    assert "format" in reason


async def test_working_directory_that_vanished(tmux: Tmux) -> None:
    code, _ = await error_of(await launch_pane(tmux, ["cat"], cwd="/nowhere", executable="/bin/cat"))
    assert code == "CWD_NOT_FOUND"


async def test_status_is_known_when_the_pane_is_seen_dead(tmux: Tmux) -> None:
    """tmux with libutempter can miss the SIGCHLD of a pane that ends."""
    for _ in range(30):
        launched = await launch_pane(tmux, ["true"])

        async def dead(launched: Launched = launched) -> panes.Pane | None:
            pane = await launched.look()
            return pane if pane.dead else None

        assert (await eventually(dead)).exit_code == 0
