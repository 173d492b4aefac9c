"""Tasks of a developer, each a list of calls that a reader of the tool list alone would write, and no more of them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, an_agent
from tests.kit.fixtures import of_file
from tests.kit.programs import PATH, need
from tests.kit.steps import CLEAN

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this witness")

WAIT_MS = int(20_000 * SLOW)
GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "me", "GIT_AUTHOR_EMAIL": "me@x",
    "GIT_COMMITTER_NAME": "me", "GIT_COMMITTER_EMAIL": "me@x",
}  # fmt: skip


agent = of_file(an_agent, "bash", PATH=PATH)


class Task:
    """The calls of one task, in a session of its own."""

    def __init__(self, agent: Agent, directory: Path, name: str) -> None:
        self._agent, self.name, self.calls = agent, name, 0
        agent.call("create_session", name=name, program="bash", cwd=str(directory), env=CLEAN | GIT, rows=30, cols=100)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.calls += 1
        return self._agent.call(tool, **{"session_id": self.name} | arguments)

    def run(self, command: str, **arguments: Any) -> dict[str, Any]:
        return self.call("run", command=command, **arguments)

    def send(self, *steps: dict[str, Any] | str, **arguments: Any) -> dict[str, Any]:
        """Several sends in one call; a text alone is a line."""
        given = [{"text": each, "enter": True} if isinstance(each, str) else each for each in steps]
        answer = self.call("send", steps=[{"timeout_ms": WAIT_MS} | each for each in given], **arguments)
        assert answer["steps_done"] == len(steps), answer
        return answer["result"]


@pytest.fixture
def task(agent: Agent, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Task]:
    work = tmp_path / "work"
    work.mkdir()
    task = Task(agent, work, re.sub(r"[^\w]", "-", request.node.name)[:60])
    try:
        yield task
    finally:
        agent.call("destroy_session", session_id=task.name, force=True)


def needs(*names: str) -> None:
    need(*names)


REPOSITORY = (
    "git init -q -b main && printf 'one\\ntwo\\nthree\\n' > f && git add f && git commit -qm first"
    " && for n in 2 3; do echo $n >> f; git commit -qam c$n; done"
)


def test_a_merge_conflict(task: Task):
    needs("git")
    task.run(REPOSITORY)
    made = task.run("git switch -qc side && sed -i 1s/.*/SIDE/ f && git commit -qam side && git switch -q main")
    assert made["exit_code"] == 0
    task.run("sed -i 1s/.*/MAIN/ f && git commit -qam main")
    merge = task.run("git merge side; git --no-pager diff")
    assert "CONFLICT" in merge["output"]
    done = task.run("sed -i '/^[<=>]/d' f && git commit -qam merged && git log --oneline -1 | cat")
    assert done["output"].endswith("merged\n")
    assert task.calls <= 5


def test_a_log_in_the_pager(task: Task):
    """The pager's screen is in the answer of the run that opens it."""
    needs("git", "less")
    shown = task.run(f"{REPOSITORY}; clear; git log -p")
    assert (shown["completed"], shown["mode"]) == (False, "pager")
    assert "diff --git a/f b/f" in shown["output"]
    task.call("send", key="q", timeout_ms=WAIT_MS)
    assert task.calls <= 2


def test_a_log_where_no_pager_is_wanted(agent: Agent, tmp_path: Path):
    needs("git", "less")
    env = CLEAN | GIT | {"PAGER": "cat"}
    made = agent.call("create_session", program="bash", cwd=str(tmp_path), env=env)["session_id"]
    try:
        shown = agent.run(f"{REPOSITORY}; git log -p", session_id=made)
        assert (shown["exit_code"], "diff --git a/f b/f" in shown["output"]) == (0, True)
    finally:
        agent.call("destroy_session", session_id=made, force=True)


def test_an_interactive_rebase_in_vim(task: Task):
    needs("git", "vim")
    task.run(f"{REPOSITORY}; export GIT_EDITOR='vim -Nu NONE'")
    todo = task.run("git rebase -i HEAD~2")
    assert todo["mode"] == "editor"
    assert todo["output"].count("pick ") >= 2
    task.send({"text": "jcwsquash"}, {"key": "Escape"}, {"text": ":wq\n", "wait_for": "pattern",
              "pattern": "combination of 2 commits"})  # fmt: skip
    # It has drawn the text, and may not wait for keys yet.
    assert task.call("read", view="screen", wait_for="ready", timeout_ms=WAIT_MS)["mode"] == "editor"
    done = task.send({"text": "ggdGiboth together"}, {"key": "Escape"}, {"text": ":wq\n", "wait_for": "command"})
    assert done["command"]["exit_code"] == 0
    log = task.run("git log --format=%s | cat")
    assert log["output"] == "both together\nfirst\n"
    assert task.calls <= 6


def test_adding_by_hunks(task: Task):
    needs("git")
    task.run(f"{REPOSITORY}; seq 40 > f; git commit -qam many; sed -i '1s/^/A/; 30s/^/B/' f")
    asked = task.run("git add -p")
    assert (asked["completed"], asked["mode"]) == (False, "line_input")
    assert "Stage this hunk" in asked["output"]
    answered = task.send("y", {"text": "n\n", "wait_for": "command"})
    assert answered["command"]["exit_code"] == 0
    assert "+A1" in task.run("git diff --cached | cat")["output"]
    assert task.calls <= 4


def test_tests_from_red_to_green(task: Task):
    test = "from unittest import TestCase\nfrom m import add\nclass T(TestCase):\n def test(self): " \
        "self.assertEqual(add(2, 2), 4)\n"  # fmt: skip
    task.run(f"cat > test_m.py <<'EOF'\n{test}EOF\necho 'def add(a, b): return a - b' > m.py")
    red = task.run("python3 -B -m unittest -q")
    assert (red["exit_code"], "0 != 4" in red["output"]) == (1, True)
    green = task.run("sed -i s/-/+/ m.py && python3 -B -m unittest -q")
    assert green["exit_code"] == 0
    assert task.calls <= 4


CRASH = "int g(int *p) { return *p; }\nint main(void) { return g(0); }\n"


def test_a_crash_in_the_debugger(task: Task):
    needs("gdb", "gcc")
    built = task.run(f"cat > c.c <<'EOF'\n{CRASH}EOF\ngcc -g -O0 -o c c.c && ./c")
    assert built["exit_code"] == 139
    begun = task.run("gdb -q -nx -iex 'set debuginfod enabled off' ./c")
    assert begun["mode"] == "line_input"
    seen = task.send("run", "bt", "p p")
    for shown in ("SIGSEGV", "#1 ", "$1 = (int *) 0x0"):
        assert shown in seen["content"]
    asks = {"text": "kill\n", "wait_for": "pattern", "pattern": r"\(y or n\) "}
    ended = task.send(asks, "y", {"text": "quit\n", "wait_for": "command"})
    assert ended["command"]["exit_code"] == 0
    assert task.calls <= 7


def test_a_build_that_outlives_its_timeout(task: Task):
    """Its exit code is the next call's: no `echo $?`."""
    needs("make")
    rules = "all: a b\\na b:\\n\\t@sleep 1; echo made $@; test $@ = a\\n"
    began = task.run(f"printf '{rules}' > Makefile; make -k -j2", timeout_ms=300)
    assert (began["completed"], began["outcome"]) == (False, "timeout")
    ended = task.call("read", wait_for="command", timeout_ms=WAIT_MS)
    assert ended["command"]["exit_code"] == 2
    assert "made b" in ended["content"]
    assert task.calls <= 2


def test_a_package_by_questions(task: Task):
    needs("npm")
    asked = task.run("npm init", timeout_ms=WAIT_MS)
    if "package name" not in asked["output"]:
        asked = task.call("read", wait_for="pattern", pattern="package name", timeout_ms=WAIT_MS)

    def answer(text: str, following: str) -> dict[str, Any]:
        return {"text": f"{text}\n", "wait_for": "pattern", "pattern": following}

    follow = [
        "description: ",
        "entry point: ",
        "test command: ",
        "git repository: ",
        "keywords: ",
        "author: ",
        "license: ",
    ]
    last = task.send(
        answer("thing", "version: "), *(answer("", each) for each in follow), answer("", "Is this OK|type: ")
    )
    if "type" in last["matched"]:
        task.send(answer("", "Is this OK"))
    assert task.send({"text": "yes\n", "wait_for": "command"})["command"]["exit_code"] == 0
    assert '"name": "thing"' in task.run("cat package.json")["output"]
    assert task.calls <= 10


def test_a_python_debugger(task: Task):
    task.run("printf 'def f(x):\\n    y = x * 2\\n    return y\\nprint(f(21))\\n' > p.py")
    assert task.run("python3 -m pdb p.py")["mode"] == "line_input"
    seen = task.send("b 3", "c", "p y", "c")
    for shown in ("Breakpoint 1 at", "-> return y", "\n42\n", "The program finished"):
        assert shown in seen["content"]
    assert task.send({"text": "q\n", "wait_for": "command"})["command"]["text"] == "python3 -m pdb p.py"
    assert task.call("read", wait_for="ready", timeout_ms=WAIT_MS)["mode"] == "shell_prompt"
    assert task.calls <= 6


def test_a_database(task: Task):
    needs("sqlite3")
    assert task.run("sqlite3 -batch -interactive x.db")["mode"] == "line_input"
    seen = task.send("create table t(a, b);", "insert into t values (1, 'x'), (2, 'y');", "select sum(a) from t;")
    assert "\n3\n" in seen["content"]
    assert task.send({"text": ".quit\n", "wait_for": "command"})["command"]["exit_code"] == 0
    assert task.calls <= 5


def test_five_questions(task: Task):
    asks = 'for n in 1 2 3 4 5; do read -p "q$n? " x; all="$all$x,"; done; echo "all: $all"'
    assert task.run(asks)["mode"] == "line_input"
    done = task.send(*(f"a{number}" for number in range(1, 5)), {"text": "a5\n", "wait_for": "command"})
    assert "all: a1,a2,a3,a4,a5," in done["content"]
    assert task.calls <= 2


def test_a_password_is_known_as_one(task: Task):
    asked = task.run("python3 -c 'import getpass; print(len(getpass.getpass()))'")
    assert (asked["completed"], asked["mode"]) == (False, "password")
    done = task.send({"text": "S3cretly\n", "wait_for": "command"})
    assert "\n8\n" in f"\n{done['content']}"
    assert task.call("search", pattern="S3cretly")["total"] == 0
    assert task.calls <= 3


def test_a_process_ended_from_htop(task: Task):
    needs("htop")
    task.run("sleep 987.6 & echo $!")
    assert task.run("htop -d 100")["mode"] == "fullscreen"
    found = task.send({"key": "F4"}, {"text": "sleep 987.6", "wait_for": "pattern", "pattern": r"sleep 987\.6.*\n"})
    assert "sleep 987.6" in found["content"]
    task.send({"key": "Enter"}, {"key": "F9"}, {"key": "Enter"}, {"key": "q"})
    assert "Terminated" in task.run("wait %1")["output"] + task.call("read", view="screen")["content"]
    assert task.calls <= 8


def test_a_look_at_top(task: Task):
    needs("top")
    shown = task.run("top")
    assert shown["mode"] == "fullscreen"
    assert "load average" in shown["output"]
    assert task.call("send", key="q", timeout_ms=WAIT_MS)["result"]["mode"] == "shell_prompt"
    assert task.calls <= 7


def test_editing_with_nano(task: Task):
    needs("nano")
    shown = task.run("nano -I n.txt")
    assert (shown["mode"], "GNU nano" in shown["output"]) == ("editor", True)
    task.send({"text": "hello nano"}, {"key": "C-o"}, {"key": "Enter"}, {"key": "C-x", "wait_for": "command"})
    assert task.run("cat n.txt")["output"] == "hello nano\n"
    assert task.calls <= 5


def test_a_macro_in_vim(task: Task):
    needs("vim")
    task.run("seq 5 > v.txt; vim -Nu NONE v.txt")
    task.send({"text": "qaIx"}, {"key": "Escape"}, {"text": "jq3@a"}, {"text": ":wq\n", "wait_for": "command"})
    assert task.run("cat v.txt")["output"] == "x1\nx2\nx3\nx4\n5\n"
    assert task.calls <= 3


def test_searching_in_less(task: Task):
    needs("less")
    assert task.run("seq 1000 | less")["mode"] == "pager"
    found = task.send({"text": "/777\n"})
    assert found["content"].startswith("777") or "777" in found["content"]
    task.send({"key": "q", "wait_for": "command"})
    assert task.calls <= 3


def test_choosing_with_fzf(task: Task):
    needs("fzf")
    shown = task.run("picked=$(printf 'alpha\\nbeta\\ngamma\\n' | fzf)")
    assert shown["mode"] == "fullscreen" or "alpha" in shown["output"]
    task.send({"text": "gam"}, {"key": "Enter", "wait_for": "command"})
    assert task.run("echo $picked")["output"] == "gamma\n"
    assert task.calls <= 3


def test_a_server_and_a_client(task: Task, agent: Agent):
    """Two sessions: each goes on while the other works."""
    needs("curl")
    began = task.run("echo hello > index.html; python3 -u -m http.server 0 --bind 127.0.0.1", timeout_ms=500)
    if "port " not in began["output"]:
        began = {"output": task.call("read", wait_for="pattern", pattern=r"port \d+", timeout_ms=WAIT_MS)["content"]}
    port = re.search(r"port (\d+)", began["output"])
    assert port
    got = task.call("run", session_id="", command=f"curl -s http://127.0.0.1:{port[1]}/")
    assert got["output"] == "hello\n"
    log = task.call("read", wait_for="pattern", pattern="GET / ", timeout_ms=WAIT_MS)
    assert "200" in log["content"]
    stopped = task.call("send", key="C-c", wait_for="command", timeout_ms=WAIT_MS)
    assert stopped["result"]["command"]["text"].endswith("--bind 127.0.0.1")  # its end; the prompt may come after it
    assert task.calls <= 5


def test_following_a_file(task: Task):
    assert task.run("touch l; tail -f l", timeout_ms=300)["outcome"] == "timeout"
    task.call("run", session_id="", command=f"echo event 42 >> {os.path.join(_cwd(task), 'l')}")
    seen = task.call("read", wait_for="pattern", pattern="event [0-9]+", timeout_ms=WAIT_MS)
    assert seen["matched"] == "event 42"
    assert task.call("send", key="C-c", wait_for="command", timeout_ms=WAIT_MS)["result"]["command"]["exit_code"] == 130
    assert task.calls <= 4


def _cwd(task: Task) -> str:
    return str(task._agent.call("get_session", session_id=task.name)["cwd"])


def test_a_line_in_much_output(task: Task):
    shown = task.run("seq 800000 | sed 's/^654321$/needle &/'", timeout_ms=WAIT_MS)
    assert (shown["exit_code"], shown["truncated"]) == (0, True)
    assert len(shown["output"]) < 10_000
    found = task.call("search", pattern="needle [0-9]+$", context=1)
    assert found["matches"][0]["text"] == "654320\nneedle 654321\n654322"
    assert task.calls <= 2
