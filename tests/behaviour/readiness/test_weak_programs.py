"""Programs that listen to the terminal while they work: never `ready` before they are, and ready at once when they ask.

Each takes lines. After `quick` it shows its prompt again, if it has one. After `slow` it works for longer than any test
takes, and goes on listening.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass

import pytest

from tests.conftest import SLOW
from tests.kit.programs import need
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.results import ReadResult

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this witness"),
    pytest.mark.skipif(os.geteuid() != 0, reason="others may not be let see what a poll waits for"),
]

LIMIT = int(20_000 * SLOW)

ASYNCIO = """
import asyncio, sys
async def main():
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while True:
        print('cmd> ', end='', flush=True)
        if await lines.readline() == b'slow\\n': await asyncio.sleep(60)
asyncio.run(main())
"""

READER_THREAD = """
import queue, sys, threading, time
lines = queue.Queue()
threading.Thread(target=lambda: [lines.put(line) for line in sys.stdin], daemon=True).start()
while True:
    print('cmd> ', end='', flush=True)
    if lines.get() == 'slow\\n': time.sleep(60)
"""

WORKER_THREAD = """
import queue, sys, threading, time
lines = queue.Queue()
def work():
    while True:
        print('cmd> ', end='', flush=True)
        if lines.get() == 'slow\\n': time.sleep(60)
threading.Thread(target=work, daemon=True).start()
for line in sys.stdin: lines.put(line)
"""

WORKER_CHILD = """
import os, select, subprocess
done, child = os.pipe()
print('cmd> ', end='', flush=True)
while True:
    readable = select.select([0, done], [], [])[0]
    if 0 in readable:
        slow = os.read(0, 100) == b'slow\\n'
        worker = subprocess.Popen(['sh', '-c', ('sleep 60; ' if slow else '') + 'echo >&%d' % child], pass_fds=[child])
    if done in readable:
        os.read(done, 100)
        worker.wait()
        print('cmd> ', end='', flush=True)
"""

TICKS = """
import os, select, time
print('cmd> ', end='', flush=True)
until = None
while True:
    if 0 in select.select([0], [], [], 0.01 if until else None)[0]:
        until = time.monotonic() + 60 * (os.read(0, 100) == b'slow\\n')
    if until and time.monotonic() > until:
        until = None
        print('cmd> ', end='', flush=True)
"""

SPINNER = """
import itertools, os, select, time
print('cmd> ', end='', flush=True)
until, frames = None, itertools.cycle('-/|')
while True:
    if 0 in select.select([0], [], [], 0.08 if until else None)[0]:
        until = time.monotonic() + 60 * (os.read(0, 100) == b'slow\\n')
    if until and time.monotonic() > until:
        until = None
        print('\\rcmd> ', end='', flush=True)
    elif until:
        print('\\r' + next(frames), end='', flush=True)
"""

THEN_BUSY = """
import os, select, time
while True:
    print('cmd> ', end='', flush=True)
    slow = os.read(0, 100) == b'slow\\n'
    if slow:
        select.select([0], [], [], 0.5)
        time.sleep(60)
"""

LISTENS_ALWAYS = """
import os, select
loop = select.epoll()
loop.register(0, select.EPOLLIN)
quiet, _ = os.pipe()
loop.register(quiet, select.EPOLLIN)
print('cmd> ', end='', flush=True)
while True:
    loop.poll()
    if os.read(0, 100) != b'slow\\n': print('cmd> ', end='', flush=True)
"""

NODE = """
const rl = require('readline').createInterface({input: process.stdin, output: process.stdout});
const ask = () => rl.question('cmd> ', line => line == 'slow' ? setTimeout(ask, 60000) : ask());
ask();
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@dataclass
class Listens:
    argv: list[str]
    prompt: str = "cmd> "
    slow: str = "slow"
    needs: str = ""


PROGRAMS = {
    "asyncio": Listens(python(ASYNCIO)),
    "a thread reads": Listens(python(READER_THREAD)),
    "a thread works": Listens(python(WORKER_THREAD)),
    "a child works": Listens(python(WORKER_CHILD)),
    "ticks": Listens(python(TICKS)),
    "a spinner": Listens(python(SPINNER)),
    "listens, then works": Listens(python(THEN_BUSY)),
    "an event loop without a timer": Listens(python(LISTENS_ALWAYS)),
    "node asks": Listens(["node", "-e", NODE], needs="node"),
    "node's prompt": Listens(["node"], "> ", "await new Promise(r => setTimeout(r, 60000))", needs="node"),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
async def test_a_program_that_listens_while_it_works_is_not_ready(broker: Broker, program: Listens):
    if program.needs and shutil.which(program.needs) is None:
        pytest.skip(f"{program.needs} is not installed")
    session = await begun(broker, program.argv)
    first = await broker.read(session_id=session, wait_for="ready", timeout_ms=LIMIT)
    assert told(first) == ("ready", "kernel")
    assert first.content.rstrip().endswith(program.prompt.rstrip())
    quick = await entered(broker, session, "1")
    assert told(quick) == ("ready", "kernel")
    assert quick.content.rstrip().endswith(program.prompt.rstrip())
    slow = await entered(broker, session, program.slow, timeout_ms=800)
    assert slow.outcome in ("idle", "timeout"), slow
    assert slow.evidence in ("quiet", None), slow
    again = await broker.read(session_id=session, wait_for="ready", timeout_ms=400)
    assert again.outcome in ("idle", "timeout"), again


ASKS_TWICE = """
const rl = require('readline').createInterface({input: process.stdin, output: process.stdout});
setTimeout(() => process.exit(0), 60000);
rl.question('name: (demo) ', () => rl.question('version: (1.0.0) ', () => 0));
"""


async def test_what_an_editor_of_lines_draws_is_a_question(broker: Broker):
    need("node")
    session = await begun(broker, ["node", "-e", ASKS_TWICE])
    assert told(await broker.read(session_id=session, wait_for="ready", timeout_ms=LIMIT)) == ("ready", "kernel")
    answer = await entered(broker, session, "mine")
    assert told(answer) == ("ready", "kernel")
    assert "version" in answer.content


RESOLVES = """
import asyncio, sys
async def main():
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print('cmd> ', end='', flush=True)
    await lines.readline()
    print('Resolving: ', end='', flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


async def test_words_before_the_work_are_no_question(broker: Broker):
    session = await begun(broker, python(RESOLVES))
    assert told(await broker.read(session_id=session, wait_for="ready", timeout_ms=LIMIT)) == ("ready", "kernel")
    assert told(await entered(broker, session, "x")) == ("idle", "quiet")


async def test_the_rest_of_a_pipeline_may_work(broker: Broker):
    """The first of them reads the terminal, and the others do not."""
    session = await begun(broker, ["sh", "-c", "cat | while read x; do test $x != slow || sleep 60; echo got $x; done"])
    assert told(await broker.read(session_id=session, wait_for="ready", timeout_ms=LIMIT)) == ("ready", "kernel")
    assert (await entered(broker, session, "slow", timeout_ms=800)).outcome in ("idle", "timeout")


async def test_what_only_reads_is_ready_whatever_its_children_do(broker: Broker):
    session = await begun(broker, ["sh", "-c", "sleep 60 & while read x; do sleep 60 & done"])
    assert told(await broker.read(session_id=session, wait_for="ready", timeout_ms=LIMIT)) == ("ready", "kernel")
    assert told(await entered(broker, session, "x")) == ("ready", "kernel")


async def test_what_listens_and_may_work_is_silent_with_a_note(broker: Broker):
    session = await begun(broker, python(ASYNCIO))
    await broker.read(session_id=session, wait_for="ready", timeout_ms=LIMIT)
    slow = await entered(broker, session, "slow")
    assert told(slow) == ("idle", "quiet")
    assert "listens for" in (slow.note or "")
    assert "wait_for=pattern" in (slow.note or "")


async def test_text_that_is_not_entered_does_not_make_a_program_doubtful(broker: Broker):
    need("node")
    session = await begun(broker, ["node"])
    await broker.read(session_id=session, wait_for="ready", timeout_ms=LIMIT)
    answer = (await broker.send("let x = 3", session_id=session, timeout_ms=LIMIT)).result
    assert answer
    assert told(answer) == ("ready", "kernel")


async def begun(broker: Broker, argv: list[str]) -> str:
    env = {"NODE_REPL_HISTORY": "", "NO_COLOR": "1"}
    made = await broker.create_session(program=argv[0], args=argv[1:], wait_ready=False, env=env)
    return made.session_id


async def entered(broker: Broker, session: str, text: str, timeout_ms: int = LIMIT) -> ReadResult:
    answer = (await broker.send(text, enter=True, session_id=session, timeout_ms=timeout_ms)).result
    assert answer
    return answer


def told(answer: ReadResult) -> tuple[str, str | None]:
    return answer.outcome, answer.evidence


DRAWS = """
import asyncio, os, tty
tty.setraw(0)
os.write(1, b'\\033[?1049h\\033[2J\\033[Hmenu')
async def main():
    asyncio.get_running_loop().add_reader(0, os.read, 0, 10)
    await asyncio.sleep(60)
asyncio.run(main())
"""


async def test_a_screen_on_which_nothing_was_drawn_for_a_key_is_doubtful_where_a_timer_runs(broker: Broker):
    session = await begun(broker, python(DRAWS))
    await broker.read(session_id=session, wait_for="pattern", pattern="menu", timeout_ms=LIMIT)
    first = await broker.read(session_id=session, wait_for="ready", timeout_ms=LIMIT)
    assert (*told(first), first.mode) == ("ready", "kernel", "fullscreen")
    answer = (await broker.send("j", session_id=session, timeout_ms=800)).result
    assert answer
    assert answer.outcome == "timeout"


async def test_a_new_session_is_not_said_to_be_ready_before_its_event_loop_asks(broker: Broker):
    listens = "import select, time\nwhile True: select.select([0], [], [], 60)"
    made = await broker.create_session(
        program=sys.executable, args=["-c", listens], wait_ready=True, ready_timeout_ms=LIMIT
    )
    assert not made.ready
    assert "may wait for input or still work" in (made.note or "")
    assert not (await broker.get_session(session_id=made.session_id)).ready


PAUSED = """
process.stdin.resume()
setTimeout(() => process.stdin.pause(), 500)
setTimeout(() => { console.log('done'); process.exit(3) }, 1500)
"""
"""It listens for half a second, and then only works."""


async def test_run_does_not_come_back_for_an_event_loop_that_only_listens(broker: Broker):
    need("node")
    session = await begun(broker, ["bash"])
    ran = await broker.run(f"node -e {shlex.quote(PAUSED)}", session_id=session, timeout_ms=LIMIT)
    assert (ran.outcome, ran.completed, ran.exit_code) != ("ready", False, None), ran


async def test_run_of_what_listens_and_is_silent_is_idle(broker: Broker):
    session = await begun(broker, ["bash"])
    listens = shlex.join(python("import select\nwhile True: select.select([0], [], [], 60)"))
    ran = await broker.run(listens, session_id=session, timeout_ms=LIMIT)
    assert (ran.outcome, ran.evidence, ran.completed) == ("idle", "quiet", False), ran
    assert "may wait for input, or still work" in (ran.note or "")


async def test_run_can_wait_for_the_end_of_what_listens(broker: Broker):
    session = await begun(broker, ["bash"])
    listens = shlex.join(python("import select, sys\nselect.select([0], [], [], 2)\nsys.exit(3)"))
    ran = await broker.run(listens, session_id=session, timeout_ms=LIMIT, wait_for="command")
    assert (ran.outcome, ran.completed, ran.exit_code) == ("ready", True, 3), ran


async def test_run_comes_back_at_the_prompt_of_an_event_loop(broker: Broker):
    session = await begun(broker, ["bash"])
    ran = await broker.run(shlex.join(python(ASYNCIO)), session_id=session, timeout_ms=LIMIT)
    assert (ran.outcome, ran.evidence, ran.completed) == ("ready", "kernel", False), ran
