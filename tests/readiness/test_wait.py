"""One wait for real programs: what it takes for ready, what it costs, a described prompt."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import AsyncIterator

import anyio
import pytest

from tests.conftest import SLOW, eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import InvalidPattern
from tmuxmcp.machine.witness.tty import TtyWitness
from tmuxmcp.readiness import judge
from tmuxmcp.readiness import wait as waits
from tmuxmcp.readiness.judge import SETTLE_S
from tmuxmcp.readiness.wait import WaitCondition, wait_for
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import panes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this witness")


async def started(broker: Broker, *argv: str, ready: bool = True) -> Session:
    made = await broker.create_session(
        program=argv[0], args=list(argv[1:]), wait_ready=ready, ready_timeout_ms=int(10_000 * SLOW)
    )
    assert made.ready or not ready
    return broker.registry.sessions[made.session_id]


async def mode_is(session: Session, mode: str) -> bool:
    return (await session.look()).mode == mode


async def test_a_program_that_has_not_woken_for_what_was_sent_is_not_ready(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    """What was sent is still on its way to it, for longer than a program settles."""
    monkeypatch.setattr(judge, "UNMOVED_S", 60.0)  # it may be on its way for long on a busy machine
    session = await started(broker, "cat")
    pane, look = session.live(), await session.look()

    async def type_later() -> None:
        await anyio.sleep(SETTLE_S * 5)
        await panes.type_input(session.tmux, pane, b"hello\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(type_later)
        answer = await wait_for(session, WaitCondition("ready", 10_000, sent_at=look.size, before=look.verdict.process))
    assert answer.outcome == "ready"
    assert session.log.read(look.size, 100) == b"hello\r\nhello\r\n"


PRINTS = "import sys\nfor line in sys.stdin: sys.stdout.write('x' * int(line) + '\\nend\\n'); sys.stdout.flush()"


async def test_an_answer_holds_all_that_was_printed_before_it(broker: Broker):
    """Each is longer than a pipe and tmux's own buffers hold."""
    session = await started(broker, "python3", "-c", PRINTS)
    for _ in range(15):
        answer = (await broker.send(text="300000", enter=True, session_id=session.id, timeout_ms=20_000)).result
        assert answer is not None
        assert answer.outcome == "ready"
        size = session.log.size()
        assert session.log.read(size - 7, 7) == b"x\r\nend\r\n"[-7:]


# ---- what a wait costs ---------------------------------------------------------------------------


async def test_a_wait_looks_the_less_the_longer_nothing_happens(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    session = await started(broker, "sleep", "600", ready=False)
    await eventually(lambda: mode_is(session, "running"))
    looks, look = [], TtyWitness.look

    def counted(witness: TtyWitness, leader: int) -> object:
        looks.append(time.monotonic())
        return look(witness, leader)

    monkeypatch.setattr(TtyWitness, "look", counted)
    assert (await wait_for(session, WaitCondition("ready", int(1500 * SLOW)))).outcome == "timeout"
    late = [at for at in looks if at - looks[0] > 0.8][:-1]  # the last step ends with the wait
    gaps = [after - before for before, after in itertools.pairwise(late)]
    assert gaps
    assert min(gaps) > waits.WAIT_LONGEST_LOOK_S * 0.9  # a loaded machine only makes them longer


# ---- create_session ------------------------------------------------------------------------------


async def test_a_program_that_only_works_is_not_ready_when_the_time_is_over(broker: Broker):
    made = await broker.create_session(program="sleep", args=["600"], wait_ready=True, ready_timeout_ms=300)
    assert (made.ready, made.mode) == (False, "running")


async def test_a_program_that_ends_is_not_waited_for_any_longer(broker: Broker):
    with anyio.fail_after(60):
        made = await broker.create_session(program="true", wait_ready=True, ready_timeout_ms=50_000)
    assert (made.ready, made.mode) == (False, "exited")


async def test_only_shells_are_waited_for_unless_told(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    waited: list[str] = []
    wait = broker.services.targets.wait_ready

    async def noted(session: Session, *arguments: object) -> object:
        waited.append(session.meta.program)
        return await wait(session, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(broker.services.targets, "wait_ready", noted)
    await broker.create_session(program="cat")
    await broker.create_session(program="bash", wait_ready=False)
    assert waited == []
    await broker.create_session(program="bash")
    await broker.create_session(program="cat", wait_ready=True)
    assert waited == ["bash", "cat"]


# ---- a described prompt --------------------------------------------------------------------------


HIDES = """
import os, pty, select, subprocess, sys, tty
far, near = pty.openpty()
tty.setraw(0)
subprocess.Popen(["sh", "-c", sys.argv[1]], stdin=near, stdout=near, stderr=near)
os.close(near)
while True:
    for fd in select.select([0, far], [], [])[0]:
        os.write(1 if fd == far else far, os.read(fd, 4096))
"""
"""Passes on to a terminal that is nobody's controlling terminal: it cannot be told who is there."""


@pytest.fixture
async def hides(broker: Broker) -> AsyncIterator[list[str]]:
    """Words before a shell command that hide it in another terminal."""
    yield [sys.executable, "-c", HIDES]
    for session in [*broker.registry.sessions]:  # it may outlive its terminal
        await broker.destroy_session(session, force=True)


LONG = 1500
"""Milliseconds of silence that nothing here takes."""


async def prompted(broker: Broker, argv: list[str], shown: bytes = b"far$ ", **more: object) -> tuple[str, str | None]:
    session = await started(broker, *argv, ready=False)
    await eventually(lambda: shown in session.log.read(0, 1000), 10)
    answer = await broker.read(session_id=session.id, wait_for="ready", since=0, prompt_pattern=r"far\$ $", **more)  # type: ignore[arg-type]
    return answer.outcome, answer.evidence


async def test_a_described_prompt_counts_where_the_kernel_cannot_tell(broker: Broker, hides: list[str]):
    found = await prompted(broker, [*hides, "printf 'far$ '; sleep 60"], idle_ms=60_000)
    assert found == ("ready", "prompt")


async def test_a_described_prompt_counts_in_the_last_line_alone(broker: Broker, hides: list[str]):
    """And silence does not count instead."""
    argv = [*hides, "printf 'far$ \\nworks'; sleep 60"]
    found = await prompted(broker, argv, b"works", idle_ms=100, timeout_ms=600)
    assert found == ("timeout", None)


async def test_a_described_prompt_counts_where_all_sleep(broker: Broker):
    """As before who reads the terminal from another session of processes."""
    found = await prompted(broker, ["sh", "-c", "printf 'far$ '; sleep 60"], idle_ms=60_000)
    assert found == ("ready", "prompt")


async def test_a_described_prompt_does_not_count_while_its_program_computes(broker: Broker):
    argv = ["sh", "-c", "printf 'far$ '; while :; do :; done"]
    assert await prompted(broker, argv, idle_ms=100, timeout_ms=600) == ("timeout", None)


async def test_a_described_prompt_is_needed_where_only_the_kernel_says_ready(broker: Broker):
    session = await started(broker, "sh", "-c", "printf 'name: '; read x; printf 'far$ '; read x")
    read = {"session_id": session.id, "wait_for": "ready", "prompt_pattern": r"far\$ $"}
    answer = await broker.read(**read, timeout_ms=600)  # type: ignore[arg-type]
    assert (answer.outcome, answer.mode) == ("timeout", "line_input")
    sent = await broker.send("me", enter=True, session_id=session.id, prompt_pattern=r"far\$ $")
    assert sent.result
    assert (sent.result.outcome, sent.result.evidence) == ("ready", "prompt")
    again = await broker.read(**read)  # type: ignore[arg-type]  # nothing is new: the prompt still stands there
    assert (again.outcome, again.evidence) == ("ready", "prompt")


async def test_marks_need_no_described_prompt(broker: Broker):
    session = await started(broker, "bash")
    answer = await broker.read(session_id=session.id, wait_for="ready", prompt_pattern="never this")
    assert (answer.outcome, answer.evidence) == ("ready", "marks")


async def test_a_described_prompt_may_stand_on_a_screen(broker: Broker, hides: list[str]):
    drawn = r"printf '\033[?1049h\033[2J\033[5;5Hfar$ '; sleep 60"
    session = await started(broker, *hides, drawn, ready=False)
    answer = await broker.read(session_id=session.id, wait_for="ready", prompt_pattern=r"far\$ $", timeout_ms=50_000)
    assert (answer.outcome, answer.evidence) == ("ready", "prompt")


async def test_what_was_typed_is_no_prompt(broker: Broker, hides: list[str]):
    session = await started(broker, *hides, "echo begun; cat", ready=False)
    await eventually(lambda: b"begun" in session.log.read(0, 1000), 10)
    answer = (await broker.send(text="far$ ", session_id=session.id, prompt_pattern=r"far\$ $", timeout_ms=LONG)).result
    assert answer is not None
    assert (answer.outcome, answer.evidence) == ("timeout", None)
    assert answer.content.rstrip().endswith("far$")


async def test_a_described_prompt_must_be_a_regular_expression(broker: Broker):
    with pytest.raises(InvalidPattern):
        await broker.read(session_id=(await started(broker, "cat")).id, wait_for="ready", prompt_pattern="(")
