"""gdb through a real client: a program is stopped, looked at, fed and ended; nothing of it is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kit.agent import Agent, ToolFailed, an_agent, eventually
from tests.kit.fixtures import of_file

pytestmark = pytest.mark.skipif(not (shutil.which("gdb") and shutil.which("gcc")), reason="needs gdb and gcc")

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int check(const char *word)
{
    return strcmp(word, "open sesame") == 0;
}

int main(int argc, char **argv)
{
    char word[64];
    if (argc > 1 && strcmp(argv[1], "crash") == 0) abort();
    if (argc > 1 && strcmp(argv[1], "loop") == 0) for (;;) usleep(1000);
    for (int i = 1; i < argc; i++) printf("<%s>\n", argv[i]);
    printf("Word? ");
    fflush(stdout);
    if (!fgets(word, sizeof word, stdin)) return 2;
    word[strcspn(word, "\n")] = 0;
    int ok = check(word);
    puts(ok ? "It opens." : "No.");
    return ok ? 12 : 1;
}
"""


def built(place: Path) -> Path:
    """The program, made there of its source."""
    (place / "door.c").write_text(SOURCE)
    options = ["-g", "-O0", "-fno-pie", "-no-pie"]
    subprocess.run(["gcc", *options, "-o", "door", "door.c"], cwd=place, check=True, timeout=60)
    return place / "door"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("program")
    (place / "door-gdb.gdb").write_text(f"shell touch {place}/auto-loaded\n")
    return built(place)


agent = of_file(an_agent, "--tools", "core,gdb", "bash")


def ask(agent: Agent, opened: dict[str, Any], command: str, **arguments: Any) -> dict[str, Any]:
    return agent.call("gdb_cmd", gdb_id=opened["gdb_id"], command=command, **arguments)


def gdbs(agent: Agent) -> list[psutil.Process]:
    found = []
    for each in psutil.Process(agent.server.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            found += [each] if each.name() == "gdb" else []
    return found


def debugged(gdb: psutil.Process) -> psutil.Process | None:
    """The program that gdb has started; None: it is about to."""
    return next((each for each in gdb.children(recursive=True) if each.name() == "door"), None)


def close(agent: Agent, opened: dict[str, Any]) -> None:
    assert agent.call("gdb_close", gdb_id=opened["gdb_id"])["closed"] is True
    assert gdbs(agent) == []


def test_a_program_is_stopped_looked_at_and_fed(agent: Agent, program: Path):
    opened = agent.call("gdb_open", path=str(program), args=["a  b", "$HOME'\""])
    assert not (program.parent / "auto-loaded").exists()
    assert "Breakpoint 1" in ask(agent, opened, "break main")["text"]
    ran = ask(agent, opened, "run")
    assert (ran["stopped"]["reason"], ran["stopped"]["frame"]["func"]) == ("breakpoint-hit", "main"), ran
    assert ran["running"] is False
    assert "main" in ask(agent, opened, "info registers rip")["text"]
    assert "=>" in ask(agent, opened, "x/4i $pc")["text"]
    wrong = ask(agent, opened, "print no_such_thing")
    assert (wrong["records"][-1]["name"], wrong["stopped"]) == ("error", None)
    assert "No symbol" in wrong["text"]
    ask(agent, opened, "break check")

    asked = ask(agent, opened, "continue", timeout_ms=300)
    assert (asked["stopped"], asked["running"]) == (None, True)
    screen = agent.call("read", session_id=opened["session_id"], view="screen", wait_for="pattern", pattern="Word")
    assert "<a  b>\n<$HOME'\">\nWord?" in screen["content"]
    agent.call("send", session_id=opened["session_id"], text="open sesame", enter=True, wait_for="none")
    stopped = ask(agent, opened, "")
    assert stopped["stopped"]["frame"]["func"] == "check"
    frames = ask(agent, opened, "-stack-list-frames")["records"][-1]["results"]["stack"]
    assert [each["frame"]["func"] for each in frames[:2]] == ["check", "main"]
    assert '"open sesame"' in ask(agent, opened, "print word")["text"]

    ended = ask(agent, opened, "continue")
    assert (ended["stopped"]["reason"], ended["stopped"]["exit_code"]) == ("exited", 12), ended
    assert ended["stopped"]["frame"] is None
    # Its end is told by gdb, and what it printed before comes through its terminal.
    eventually(lambda: "It opens." in agent.call("read", session_id=opened["session_id"], view="screen")["content"])
    close(agent, opened)
    with pytest.raises(ToolFailed, match="INVALID_ARGUMENT"):
        ask(agent, opened, "bt")


def test_what_runs_on_is_interrupted(agent: Agent, program: Path):
    opened = agent.call("gdb_open", path=str(program), args=["loop"])
    ran = ask(agent, opened, "run", timeout_ms=700)
    assert (ran["stopped"], ran["running"]) == (None, True)
    assert "interrupt" in ran["note"]
    stopped = ask(agent, opened, "-exec-interrupt")
    assert (stopped["stopped"]["signal"], stopped["running"]) == ("SIGINT", False), stopped
    with pytest.raises(ToolFailed, match="break-commands"):
        ask(agent, opened, "commands 1")
    much = ask(agent, opened, "python print('x' * 30 + '\\n' * 1, end='') or [print('y' * 1000) for _ in range(200)]")
    assert much["truncated"] is True
    assert len(much["text"]) <= 65_536
    # What is sent is answered, however late; an empty command waits for that.
    assert "not answered" in ask(agent, opened, "shell sleep 1; echo slept", timeout_ms=0)["note"]
    late = ask(agent, opened, "")
    assert (late["note"], [each["name"] for each in late["records"] if each["type"] == "result"]) == (None, ["done"])

    def fill() -> None:
        for _ in range(40):
            ask(agent, opened, "echo " + "x" * 3900, timeout_ms=0)

    # A line that gdb does not read is sent whole or not at all.
    ask(agent, opened, "shell sleep 600", timeout_ms=0)
    with pytest.raises(ToolFailed, match="was not sent"):
        fill()
    # Its session ends, and it with that.
    agent.call("destroy_session", session_id=opened["session_id"], force=True)
    eventually(lambda: gdbs(agent) == [])


def test_a_core_a_process_and_what_is_not_there(agent: Agent, program: Path, tmp_path: Path):
    opened = agent.call("gdb_open", path=str(program), args=["crash"])
    assert ask(agent, opened, "run")["stopped"]["signal"] == "SIGABRT"
    ask(agent, opened, f"generate-core-file {tmp_path}/core")
    close(agent, opened)
    opened = agent.call("gdb_open", path=str(program), core=str(tmp_path / "core"))
    assert "SIGABRT" in opened["text"]
    assert " main (" in ask(agent, opened, "backtrace")["text"]
    close(agent, opened)
    for arguments in ({}, {"pid": 2**30}, {"args": ["a"], "pid": os.getpid()}):
        with pytest.raises(ToolFailed, match="INVALID_ARGUMENT"):
            agent.call("gdb_open", **arguments)
    with pytest.raises(ToolFailed, match="FILE_NOT_FOUND"):
        agent.call("gdb_open", path=str(tmp_path / "none"))
    assert gdbs(agent) == []


def test_gdb_that_is_killed_and_a_broker_that_ends(program: Path):
    with an_agent("--tools", "core,gdb", "--files-root", str(program.parent), "bash") as agent:
        with pytest.raises(ToolFailed, match="PATH_OUTSIDE_ROOT"):
            agent.call("gdb_open", path="/bin/true")
        opened = agent.call("gdb_open", path="door", args=["loop"])
        ask(agent, opened, "run", timeout_ms=300)
        [gdb] = gdbs(agent)
        target = eventually(lambda: debugged(gdb))
        gdb.kill()
        eventually(lambda: not target.is_running())
        with pytest.raises(ToolFailed):
            ask(agent, opened, "bt")
        opened = agent.call("gdb_open", path=str(program), args=["loop"])
        ask(agent, opened, "run", timeout_ms=300)
        [gdb] = gdbs(agent)
        left = [gdb, eventually(lambda: debugged(gdb))]
        psutil.Process(agent.server.pid).kill()
        eventually(lambda: not any(each.is_running() for each in left))
