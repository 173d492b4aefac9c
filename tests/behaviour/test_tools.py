"""A developer's tools from end to end: make, pip, psql, gdb. What came of a step is in the answer of its `send`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, an_agent, eventually
from tests.kit.fixtures import of_file
from tests.kit.programs import PATH, missing, need
from tests.kit.steps import Step, Terminal, first, line, over

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this witness")


agent = of_file(an_agent, "bash", PATH=PATH)


def test_make_with_jobs(agent: Agent, tmp_path: Path):
    need("make")
    (tmp_path / "Makefile").write_text("all: a b c\n\ta\nb c a:\n\t@sleep 0.2; echo made $@\n".replace("\n\ta\n", "\n"))
    terminal = Terminal(agent, ["bash"])
    try:
        terminal.step(first("shell_prompt", evidence="marks"))
        answer = terminal.step(line(f"make -j2 -C {tmp_path}; echo end of it", "shell_prompt", "end of it\n", "marks"))
        assert answer["content"].count("made ") == 3
    finally:
        terminal.close()


def a_python_with_pip() -> str:
    for python in (sys.executable, shutil.which("python3") or ""):
        asked = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False) if python else None
        if asked and asked.returncode == 0:
            return python
    pytest.skip("no Python here has pip")


def test_pip_install(agent: Agent, tmp_path: Path):
    """A wheel of our own, from the disk."""
    python = a_python_with_pip()
    about = "wheely-1.0.dist-info"
    with zipfile.ZipFile(tmp_path / "wheely-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("wheely.py", "print('it rolls')\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: wheely\nVersion: 1.0\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", f"wheely.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    terminal = Terminal(agent, ["bash"], cols=200)
    pip = f"{python} -m pip --disable-pip-version-check install --no-index --target {tmp_path}/to {tmp_path}/*.whl"
    try:
        terminal.step(first("shell_prompt", evidence="marks"))
        terminal.step(line(pip, "shell_prompt", "Successfully installed wheely-1.0\n", "marks"))
        terminal.step(line(f"PYTHONPATH={tmp_path}/to python3 -m wheely", "shell_prompt", "\nit rolls\n", "marks"))
    finally:
        terminal.close()


# ---- psql ----------------------------------------------------------------------------------------


@pytest.fixture
def database() -> Iterator[Path]:
    """The socket directory of a PostgreSQL server of our own."""
    places = [*Path("/usr/lib/postgresql").glob("*/bin"), *map(Path, os.environ["PATH"].split(":"))]
    found = next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)
    if found is None or missing(("psql", "setpriv")):
        pytest.skip("PostgreSQL is not installed")
    directory = Path(tempfile.mkdtemp(prefix="tm-pg-", dir="/tmp"))  # another user has to get there
    before = []
    if os.geteuid() == 0:  # as which it refuses to run
        before = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        os.chown(directory, 65534, 65534)
    data = str(directory / "data")
    make = [*before, str(found / "initdb"), "-D", data, "-U", "me", "-A", "trust", "--no-sync", "--no-instructions"]
    serve = [*before, str(found / "postgres"), "-D", data, "-k", str(directory), "-c", "listen_addresses="]
    env = {"PATH": PATH, "LC_ALL": "C.UTF-8"}
    server = None
    try:
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL, env=env)
        server = subprocess.Popen([*serve, "-F"], stderr=subprocess.DEVNULL, env=env)
        eventually(lambda: (directory / ".s.PGSQL.5432").exists())
        yield directory
    finally:
        if server:
            server.send_signal(signal.SIGINT)
            server.wait(10 * SLOW)
        shutil.rmtree(directory, ignore_errors=True)


def test_psql(agent: Agent, database: Path):
    """Its line editor is readline's; a query that takes its time is awaited, also one that the server sleeps over."""
    argv = ["psql", "-X", "-h", str(database), "-U", "me", "-d", "postgres"]
    terminal = Terminal(agent, argv, {"PSQL_HISTORY": "/dev/null", "PAGER": "less"})
    try:
        terminal.step(first("line_input", "postgres=# "))
        terminal.step(line("select 6 * 7 as answer;", "line_input", "42\n(1 row)\n"))
        terminal.step(line("select pg_sleep(0.4), 'done' as slept;", "line_input", "done\n(1 row)\n"))
        terminal.step(line("select", "line_input", "postgres-# "))
        terminal.step(line("count(*) from generate_series(1, 300000);", "line_input", "300000\n(1 row)\n"))
        terminal.step(line("select * from generate_series(1, 99);", "pager", "generate_series"))
        terminal.step(Step("line_input", {"text": "q"}))
        terminal.step(line("\\password", "password", 'new password for user "me": '))
        terminal.step(line("hunter2", "password", "Enter it again: "))
        terminal.step(line("hunter2", "line_input", "postgres=# "))
        terminal.step(over(text="\\q", enter=True))
    finally:
        terminal.close()


# ---- gdb -----------------------------------------------------------------------------------------

PROGRAM = """
#include <stdio.h>
static int twice(int x) { return 2 * x; }
int main(void) {
    int n = twice(21);
    printf("n is %d\\n", n);
    char name[20];
    if (scanf("%19s", name) == 1) printf("hello %s\\n", name);
    return 3;
}
"""


def test_a_debugger_from_end_to_end(agent: Agent, tmp_path: Path):
    """Each step is one `send`; what it printed is in its answer."""
    need("gdb", "gcc")
    (tmp_path / "prog.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-g", "-O0", "-o", "prog", "prog.c"], cwd=tmp_path, check=True)
    options = ["-iex", "set debuginfod enabled off", "-iex", "set pagination off"]
    terminal = Terminal(agent, ["gdb", "-q", "-nx", *options, str(tmp_path / "prog")], rows=50)
    try:
        terminal.step(first("line_input", "(gdb) "))
        for text, shows in (
            ("break main", "Breakpoint 1 at"),
            ("run", "int n = twice(21);"),
            ("info registers", "rip" if os.uname().machine == "x86_64" else "pc"),
            ("disassemble", "End of assembler dump."),
            ("backtrace", "#0  main () at"),
            ("step", "return 2 * x;"),
            ("backtrace", "#1 "),
            ("finish", "Value returned is $1 = 42"),
        ):
            answer = terminal.step(line(text, "line_input", shows))
            assert answer["content"].endswith("(gdb) "), answer
        terminal.step(line("continue", "line_input", "n is 42\n"))  # the program itself asks
        answer = terminal.step(line("world", "line_input", "exited with code 03]\n(gdb) "))
        assert "hello world\n" in answer["content"]
        terminal.step(over(text="quit", enter=True))
    finally:
        terminal.close()


LOOPS = """
#include <stdio.h>
#include <unistd.h>
int main(void) {
    puts("on the other terminal");
    for (int n = 0; n < 600; n++) sleep(1);
    return 0;
}
"""


def test_the_page_on_gdb_is_right(agent: Agent, tmp_path: Path):
    """Its calls in their order, with the terminal of the second session put in."""
    need("gdb", "gcc")
    (tmp_path / "prog.c").write_text(LOOPS)
    subprocess.run(["gcc", "-g", "-O0", "-o", "prog", "prog.c"], cwd=tmp_path, check=True)
    page = Path(__file__).resolve().parents[2] / "docs" / "howto" / "debug-with-gdb.md"
    blocks = [
        json.loads(each) for each in re.findall(r"^```json\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    ]
    blocks = [each for each in blocks if not each["tool"].startswith("gdb_")]
    make, ready, steps, interrupt, screen, tty, hand_over, crash, end = blocks
    calls = {"create_session": {"cwd": str(tmp_path)}}

    def do(block: dict[str, Any]) -> dict[str, Any]:
        return agent.call(
            block["tool"], **(calls.get(block["tool"], {}) | {k: v for k, v in block.items() if k != "tool"})
        )

    try:
        do(make)
        assert do(ready)["mode"] == "line_input"
        went = do(steps)
        assert went["steps_done"] == len(steps["steps"])
        assert "Breakpoint 1, main" in went["result"]["content"]
        assert "#0  main" in went["result"]["content"]
        went = agent.call("send", session_id="dbg", text="continue\n", timeout_ms=300)
        assert went["result"]["outcome"] == "timeout"
        assert do(interrupt)["result"]["mode"] == "line_input"
        do(screen)
        found = re.search(r"/dev/\S+", do(tty)["output"])
        assert found
        do(hand_over | {"text": f"set inferior-tty {found[0]}"})
        agent.call("send", session_id="dbg", steps=[{"text": "delete\n"}, {"text": "run\n", "wait_for": "none"}])
        shown = agent.call("read", session_id="screen", wait_for="pattern", pattern="on the other terminal")
        assert shown["outcome"] == "matched"
        do(interrupt)
        assert do(crash)["completed"]
        assert do(end)["result"]["outcome"] == "exited"
    finally:
        for name in ("dbg", "screen"):
            agent.call("destroy_session", session_id=name, force=True)
