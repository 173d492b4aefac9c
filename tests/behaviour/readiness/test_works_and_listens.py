"""Programs that look as if they waited while they work: an old screen, no echo, words or boxes on the screen."""

from __future__ import annotations

import os
import sys

import pytest

from tests.conftest import SLOW
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.results import ReadResult

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this witness"),
    pytest.mark.skipif(os.geteuid() != 0, reason="others may not be let see what a poll waits for"),
]

LIMIT = int(20_000 * SLOW)

LEFT_ITS_SCREEN = """
import os, select, subprocess, termios, threading, tty
terminal = os.open('/dev/tty', os.O_RDWR)
lines = termios.tcgetattr(terminal)
loop = select.epoll()
loop.register(terminal, select.EPOLLIN | select.EPOLLET)
threading.Thread(target=lambda: [loop.poll() for _ in iter(int, 1)], daemon=True).start()
def draw():
    tty.setraw(terminal)
    os.write(terminal, b'\\033[?1049h\\033[H\\033[2Jcmd> ')
draw()
while True:
    while os.read(terminal, 1) != b'\\r': pass
    os.write(terminal, b'\\033[?1049l')
    termios.tcsetattr(terminal, termios.TCSANOW, lines)
    subprocess.run('sleep 60', shell=True)
    draw()
"""
"""It draws a full screen, and works on the other one, as file managers do."""

WORKER = """
import os, select, subprocess, sys, termios
{modes}
worker = subprocess.Popen([sys.executable, '-uc', 'import sys, time\\nfor _ in sys.stdin: time.sleep(60)'],
    stdin=-1, stdout=-1, start_new_session={apart})
os.write(1, b'cmd> ')
while True:
    readable = select.select([0, worker.stdout], [], [])[0]
    if 0 in readable:
        line = os.read(0, 99)
        os.write(1, {says})
        worker.stdin.write(line)
        worker.stdin.flush()
"""

NO_ECHO = "modes = termios.tcgetattr(0); modes[3] &= ~termios.ECHO; termios.tcsetattr(0, termios.TCSANOW, modes)"

BOX_BELOW = """
import os, select, time, tty
tty.setraw(0)
os.write(1, b'cmd> ')
until = 0
while True:
    if select.select([0], [], [], max(until - time.time(), 0) if until else 3600)[0] and b'\\r' in os.read(0, 99):
        until = time.time() + 60
        os.write(1, b'\\r\\nworking\\r\\nhelp>\\033[A\\r\\033[7C')
"""

DRAWS_LATER = """
import asyncio, os, tty
tty.setraw(0)
os.write(1, b'\\033[?1049h\\033[2J\\033[Hcmd> ')
async def main():
    async def work():
        await asyncio.sleep(60)
    def key():
        if b'\\r' in os.read(0, 99):
            os.write(1, b'\\033[Hthinking\\r\\n> ')
            asyncio.ensure_future(work())
    asyncio.get_running_loop().add_reader(0, key)
    await asyncio.sleep(600)
asyncio.run(main())
"""

SAYS_NOTHING = """
import os, select, threading, time, tty
tty.setraw(0)
came, tell = os.pipe()
os.write(1, b'cmd> ')
while True:
    if 0 in select.select([0, came], [], [])[0] and b'\\r' in os.read(0, 99):
        threading.Thread(target=select.select, args=([came], [], [], 60), daemon=True).start()
"""
"""Its prompt stands there all the time."""

WORKING = {
    "a prompt that was not taken away": SAYS_NOTHING,
    "a full screen that says that it works": DRAWS_LATER,
    "a screen that was left": LEFT_ITS_SCREEN,
    "no echo": WORKER.format(modes=NO_ECHO, apart=False, says="b'working\\n'"),
    "no echo, and its worker is elsewhere": WORKER.format(modes=NO_ECHO, apart=True, says="b'working\\n'"),
    "words at the cursor": WORKER.format(modes="", apart=True, says="b'sending ... '"),
    "words at the cursor, no echo": WORKER.format(modes=NO_ECHO, apart=True, says="b'sending ... '"),
    "a box below the cursor": BOX_BELOW,
}


@pytest.mark.parametrize("code", WORKING.values(), ids=WORKING.keys())
async def test_what_works_is_not_ready(broker: Broker, code: str):
    session = await begun(broker, code)
    await broker.read(session_id=session, wait_for="pattern", pattern="cmd> ", timeout_ms=LIMIT)
    answer = await entered(broker, session)
    assert answer.outcome in ("idle", "timeout"), answer
    assert answer.mode != "password"
    again = await broker.read(session_id=session, wait_for="ready", timeout_ms=500)
    assert again.outcome in ("idle", "timeout"), again


SET_IN_A_POLL = """
import os, select
loop = select.epoll()
loop.register(0, select.EPOLLIN)
poll = select.poll()
poll.register(loop.fileno(), select.POLLIN)
while os.write(1, b'cmd> '):
    poll.poll()
    os.read(0, 99)
"""

TOOLBAR = """
import os, tty
tty.setraw(0)
while True:
    os.write(1, b'\\r\\n>>> \\r\\n\\033[K[F2] Menu\\033[A\\r\\033[4C')
    while b'\\r' not in os.read(0, 99): pass
"""

LOOP_WITH_TOOLBAR = """
import asyncio, os, tty
tty.setraw(0)
async def main():
    typed = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, lambda: b'\\r' in os.read(0, 99) and typed.set())
    while True:
        os.write(1, b'\\r\\n\\033[J>>> \\r\\n[F2] Menu\\033[A\\r\\033[4C')
        await typed.wait()
        typed.clear()
asyncio.run(main())
"""

ASKS = """
import os, termios, threading
modes = termios.tcgetattr(0)
modes[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, modes)
def ask():
    while True:
        os.write(1, b'Password: ')
        os.read(0, 99)
        os.write(1, b'\\n')
threading.Thread(target=ask).start()
"""
"""Go's programs read a password in whatever thread comes."""

POLLS_KEYS = """
import os, select, subprocess, tty
tty.setraw(0)
beside = subprocess.Popen(['sleep', '600'])
os.write(1, b'\\033[?1049h\\033[2J\\033[Hmenu')
while True:
    select.select([0], [], [])
    os.read(0, 99)
    os.write(1, b'\\033[Hagain')
"""

READY = {
    "a full screen that polls nothing but the terminal": (POLLS_KEYS, "fullscreen"),
    "a poll of a set": (SET_IN_A_POLL, "line_input"),
    "a toolbar below the prompt": (TOOLBAR, "line_input"),
    "an event loop with a toolbar": (LOOP_WITH_TOOLBAR, "line_input"),
    "a thread asks for a secret": (ASKS, "password"),
}


@pytest.mark.parametrize(("code", "mode"), READY.values(), ids=READY.keys())
async def test_what_waits_is_ready(broker: Broker, code: str, mode: str):
    session = await begun(broker, code)
    first = await broker.read(session_id=session, wait_for="ready", timeout_ms=LIMIT)
    assert (first.outcome, first.evidence, first.mode) == ("ready", "kernel", mode), first
    for _ in range(2):
        answer = await entered(broker, session)
        assert (answer.outcome, answer.evidence, answer.mode) == ("ready", "kernel", mode), answer


STARS = """
import os, sys, tty
tty.setcbreak(0)
os.write(1, sys.argv[1].encode())
while key := os.read(0, 1): os.write(1, b'*' if key != b'\\n' else b'\\n')
"""

QUESTIONS = ["Password: ", "? Enter a token: ", "Passphrase? ", "? Your PIN › ", "◆  Password:\n│  "]


@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_secret_that_is_read_key_by_key_has_a_note(broker: Broker, question: str):
    made = await broker.create_session(program=sys.executable, args=["-c", STARS, question], wait_ready=False)
    asked = await broker.read(session_id=made.session_id, wait_for="ready", timeout_ms=LIMIT)
    assert asked.outcome == "ready", asked
    assert "asks for a secret" in (asked.note or ""), asked
    typed = (await broker.send("abc", session_id=made.session_id, timeout_ms=LIMIT)).result
    assert typed
    assert "asks for a secret" in (typed.note or ""), typed


async def test_run_says_that_a_secret_seems_to_be_asked_for(broker: Broker):
    session = (await broker.create_session(program="bash")).session_id
    ran = await broker.run("stty cbreak -echo; printf 'Token: '; dd bs=1 count=9 status=none", session_id=session)
    assert (ran.outcome, ran.completed) == ("ready", False), ran
    assert "By its last line alone, `dd` asks for a secret" in (ran.note or ""), ran
    await broker.send(keys="C-c", session_id=session)


async def begun(broker: Broker, code: str) -> str:
    made = await broker.create_session(program=sys.executable, args=["-c", code], wait_ready=False)
    return made.session_id


async def entered(broker: Broker, session: str) -> ReadResult:
    answer = (await broker.send("x", enter=True, session_id=session, timeout_ms=LIMIT)).result
    assert answer
    return answer
