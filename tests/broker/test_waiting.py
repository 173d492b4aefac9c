"""One wait over several sessions."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import pytest

from tests.conftest import SLOW, eventually, until_exists
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import InvalidArgument, InvalidPattern, SessionExited, SessionNotFound
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.machine.witness.tty import TtyWitness
from tmuxmcp.sessions import inputrequests
from tmuxmcp.sessions.session import Session

LONG_MS = int(20_000 * SLOW)
SOON_MS = 500


@pytest.fixture
async def three(broker: Broker) -> list[str]:
    """Three shells at their prompts, all of which the caller has read."""
    for name in ("a", "b", "c"):
        await broker.create_session("bash", name=name)
        await broker.run("true", name)
        await broker.read("new", name, wait_for="ready")
        await eventually(lambda name=name: waits_for_keys(broker, name))  # type: ignore[misc]
    return ["a", "b", "c"]


async def waits_for_keys(broker: Broker, session_id: str) -> bool:
    """A shell that has drawn its prompt may do something for itself for a moment."""
    return (await broker.registry.sessions[session_id].look()).waiting is InputWait.EDITOR


async def while_waiting(
    wait: Callable[[], Awaitable[r.WaitResult]], act: Callable[[], Awaitable[object]]
) -> r.WaitResult:
    """What a wait answers when something happens about when it begins."""
    found: list[r.WaitResult] = []

    async def waits() -> None:
        found.append(await wait())

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(waits)
        await act()
    return found[0]


async def test_how_things_stand(broker: Broker, three: list[str]):
    await broker.send("read -s x", enter=True, session_id="b")
    await broker.send("sleep 600", enter=True, session_id="c", read="none")
    await eventually(lambda: mode_is(broker, "c", "running"))
    stands = await broker.wait(three, timeout_ms=0)
    assert (stands.session_id, stands.outcome, stands.waited_ms < 1000 * SLOW) == ("a", "ready", True)
    assert stands.evidence == "marks"
    assert [(row.mode, row.outcome) for row in stands.sessions] == [
        ("shell_prompt", "ready"),
        ("password", "ready"),
        ("running", None),
    ]
    needs = await broker.wait(wait_for="needs_you", timeout_ms=0)
    assert (needs.session_id, needs.outcome, needs.evidence) == ("b", "needs_you", "kernel")
    assert {row.session_id for row in needs.sessions} == set(three)


async def test_a_shell_that_is_busy_at_its_prompt_is_not_ready(broker: Broker, three: list[str], tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    await broker.run(f"bind -x '\"\\C-t\": read x <{tmp_path}/fifo'", "b")
    await broker.read("new", "b", wait_for="ready")
    await broker.send(key="C-t", session_id="b", read="none")
    await eventually(lambda: is_busy(broker, "b"))

    async def others_are_ready() -> bool:
        """On a busy machine a shell may not be certainly ready within the time that such an answer takes."""
        stands = await broker.wait(three, timeout_ms=0)
        first, busy, last = (row.outcome for row in stands.sessions)
        assert busy is None
        return first == last == "ready"

    await eventually(others_are_ready, 30)


async def is_busy(broker: Broker, session_id: str) -> bool:
    return (await broker.registry.sessions[session_id].look()).waiting is InputWait.BUSY


async def test_what_is_printed_already_matches_at_once(broker: Broker, three: list[str]):
    await broker.by("another").run("echo 4$((1+1))", "c")
    stands = await broker.wait(three, "pattern", ["never", "4[0-9]$"], timeout_ms=0)
    assert (stands.session_id, stands.outcome, stands.matched, stands.pattern) == ("c", "matched", "42", "4[0-9]$")
    none = await broker.wait(three, "pattern", ["never"], timeout_ms=0)
    assert (none.session_id, none.outcome) == (None, "immediate")


async def mode_is(broker: Broker, session_id: str, mode: str) -> bool:
    return (await broker.get_session(session_id)).mode == mode


async def test_what_the_caller_has_read_is_no_news(broker: Broker, three: list[str]):
    for wait_for in ("ready", "output", "needs_you", "exit"):
        quiet = await broker.wait(three, wait_for, timeout_ms=SOON_MS)
        assert (quiet.session_id, quiet.outcome) == (None, "timeout"), wait_for
        assert quiet.waited_ms >= SOON_MS


async def test_of_several_conditions_each_has_its_own_news(broker: Broker, three: list[str]):
    quiet = await broker.wait(three, ["ready", "needs_you"], timeout_ms=SOON_MS)
    assert (quiet.session_id, quiet.outcome) == (None, "timeout")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(broker.by("another").request_user_input, "type", session_id="b"))
        await eventually(lambda: inputrequests.waiting(broker.registry.sessions["b"]))
        await broker.wait(three, "ready", timeout_ms=SOON_MS)  # it tells nothing of the request
        asked = await broker.wait(three, ["ready", "needs_you"], timeout_ms=LONG_MS)
        assert (asked.session_id, asked.outcome) == ("b", "needs_you")
        tasks.cancel_scope.cancel()


async def test_what_the_caller_has_seen_on_the_screen_is_no_news(broker: Broker, three: list[str]):
    await broker.by("another").run("echo seen; read -s x", "b")
    assert (await broker.wait(three, "output", timeout_ms=LONG_MS)).session_id == "b"
    assert "seen" in (await broker.read("screen", "b")).content
    for wait_for in ("ready", "output", "needs_you"):
        quiet = await broker.wait(three, wait_for, timeout_ms=SOON_MS)
        assert (quiet.session_id, quiet.outcome) == (None, "timeout"), wait_for
    stood = await broker.wait(three, "pattern", ["seen"], timeout_ms=LONG_MS)
    assert (stood.session_id, stood.matched, stood.fresh) == ("b", "seen", False)
    again = await broker.wait(three, "pattern", ["seen"], timeout_ms=SOON_MS)
    assert (again.outcome, again.matched) == ("timeout", None)
    assert "seen" in (await broker.read("new", "b")).content


async def test_a_secret_that_the_caller_has_seen_asked_for_is_no_news(broker: Broker, three: list[str]):
    await broker.send("read -s x", enter=True, session_id="b")
    await broker.read("new", "b")
    quiet = await broker.wait(three, "needs_you", timeout_ms=SOON_MS)
    assert (quiet.session_id, quiet.outcome) == (None, "timeout")
    assert [row.outcome for row in quiet.sessions] == [None, "needs_you", None]


async def test_the_first_that_is_ready(broker: Broker, three: list[str], tmp_path: Path):
    for name in three:
        await broker.send(until_exists(tmp_path / name), enter=True, session_id=name, read="none")
        await eventually(lambda name=name: mode_is(broker, name, "running"))  # type: ignore[misc]
        await broker.read("new", name)

    async def let_go() -> None:
        (tmp_path / "b").touch()

    answer = await while_waiting(lambda: broker.wait(three, timeout_ms=LONG_MS), let_go)
    assert (answer.session_id, answer.outcome, answer.evidence) == ("b", "ready", "marks")
    assert [row.outcome for row in answer.sessions] == [None, "ready", None]


async def test_a_command_that_ends(broker: Broker, three: list[str]):
    none = await broker.wait(three, "command", timeout_ms=LONG_MS)
    assert (none.outcome, none.session_id) == ("immediate", None)
    await broker.run("sleep 1; echo done", "b", timeout_ms=1)
    answer = await broker.wait(three, "command", timeout_ms=LONG_MS)
    assert (answer.session_id, answer.outcome) == ("b", "command")
    assert answer.command
    assert (answer.command.text, answer.command.exit_code) == ("sleep 1; echo done", 0)
    told = await broker.read("new", "b", wait_for="command", timeout_ms=0)
    assert told.outcome == "immediate"


async def test_any_of_several_patterns(broker: Broker, three: list[str]):
    async def prints() -> None:
        await broker.by("another").send("echo it is 4$((1+1))", enter=True, session_id="c", read="none")

    answer = await while_waiting(
        lambda: broker.wait(three, "pattern", ["never", "4[0-9]$"], timeout_ms=LONG_MS), prints
    )
    assert (answer.session_id, answer.outcome, answer.matched, answer.pattern) == ("c", "matched", "42", "4[0-9]$")


async def test_output_a_secret_and_an_end(broker: Broker, three: list[str]):
    other = broker.by("another")
    cases: list[tuple[str, str, str]] = [("output", "echo x", "output"), ("exit", "exit 3", "exited")]
    for wait_for, text, outcome in [*cases[:1], ("needs_you", "read -s x", "needs_you"), *cases[1:]]:
        session = "b" if wait_for == "needs_you" else "c"

        async def types(text: str = text, session: str = session) -> None:
            await other.send(text, enter=True, session_id=session, read="none")

        answer = await while_waiting(lambda w=wait_for: broker.wait(three, w, timeout_ms=LONG_MS), types)  # type: ignore[misc,arg-type]
        assert (answer.session_id, answer.outcome) == (session, outcome)
        await broker.read("new", session)
    again = await broker.wait(three, timeout_ms=LONG_MS)  # one that has ended is told of
    assert (again.session_id, again.outcome) == ("c", "exited")


async def test_an_end_between_two_waits_is_told_once(broker: Broker, three: list[str]):
    running = await broker.wait(wait_for="exit", timeout_ms=0)
    assert [row.session_id for row in running.sessions] == three
    await broker.by("another").run("exit 3", "b")
    told = await broker.wait(wait_for="exit", timeout_ms=LONG_MS)
    assert (told.session_id, told.outcome) == ("b", "exited")
    again = await broker.wait(wait_for="exit", timeout_ms=SOON_MS)
    assert (again.session_id, again.outcome) == (None, "timeout")
    later = await broker.by("a newcomer").wait(wait_for="exit", timeout_ms=0)
    assert [row.session_id for row in later.sessions] == ["a", "c"]


async def test_an_end_that_another_answer_told_is_no_news(broker: Broker, three: list[str]):
    await broker.run("exit", "a")
    await broker.by("another").run("exit", "b")
    with pytest.raises(SessionExited):
        await broker.run("true", "b")
    await broker.by("another").run("exit", "c")
    assert (await broker.read("new", "c")).exited
    answer = await broker.wait(wait_for="exit", timeout_ms=LONG_MS)
    assert (answer.outcome, answer.sessions) == ("immediate", [])


async def test_it_is_bounded_and_checked(broker: Broker, three: list[str]):
    with pytest.raises(SessionNotFound):
        await broker.wait(["a", "nobody"])
    with pytest.raises(InvalidArgument, match="needs patterns"):
        await broker.wait(three, "pattern")
    with pytest.raises(InvalidPattern):
        await broker.wait(three, "pattern", ["("])
    begun = time.monotonic()
    cut = await broker.wait(["a"], "exit", timeout_ms=100)
    assert cut.outcome == "timeout"
    assert time.monotonic() - begun < 5 * SLOW


async def test_a_wait_that_runs_out_is_never_called_immediate(broker: Broker, three: list[str]):
    for timeout_ms in [*range(1, 9)] * 6:
        assert (await broker.wait(["a"], "exit", timeout_ms=timeout_ms)).outcome == "timeout"


async def test_nothing_to_wait_for_is_said(broker: Broker):
    answer = await broker.wait(timeout_ms=LONG_MS)
    assert (answer.outcome, answer.sessions) == ("immediate", [])
    assert "no session" in (answer.note or "")


async def test_idle_sessions_are_hardly_looked_at(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    names = [f"s{number}" for number in range(12)]
    for name in names:
        await broker.create_session("cat", name=name)
    looks, asked = [], []
    look, refresh = TtyWitness.look, Session.refresh

    def counted(witness: TtyWitness, leader: int) -> object:
        looks.append(time.monotonic())
        return look(witness, leader)

    async def counted_refresh(session: Session) -> object:
        asked.append(session)
        return await refresh(session)

    monkeypatch.setattr(TtyWitness, "look", counted)
    monkeypatch.setattr(Session, "refresh", counted_refresh)
    await broker.wait(names, "pattern", ["never"], timeout_ms=3000)
    assert len(looks) == len(names)  # how they stand at the end
    assert len(asked) <= 2 * len(names)  # tmux is not asked meanwhile
    looks.clear()
    await broker.wait(names, "output", timeout_ms=3000)
    assert len(looks) <= 6 * len(names)


async def test_waits_that_nothing_happens_to_share_their_looks_and_are_told_of_the_end(
    broker: Broker, three: list[str], monkeypatch: pytest.MonkeyPatch
):
    looks, scans, answers = 0, 0, []
    look, scan = TtyWitness.look, Session.scan

    def counted(witness: TtyWitness, leader: int) -> object:
        nonlocal looks
        looks += 1
        return look(witness, leader)

    async def counted_scan(session: Session) -> object:
        nonlocal scans
        scans += 1
        return await scan(session)

    async def wait(name: str, wait_for: Literal["ready", "exit"]) -> None:
        answers.append((await broker.wait([name], wait_for, timeout_ms=LONG_MS)).outcome)

    async def read(name: str) -> None:
        answers.append((await broker.read("new", name, wait_for="exit", timeout_ms=LONG_MS)).outcome)

    monkeypatch.setattr(TtyWitness, "look", counted)
    monkeypatch.setattr(Session, "scan", counted_scan)
    async with anyio.create_task_group() as task_group:
        for name in three * 20:
            task_group.start_soon(wait, name, "ready")
        await anyio.sleep(3)
        assert looks < 500, "sixty waits that looked by themselves, twenty times a second, would need 3600"
        for name in three * 20:
            task_group.start_soon(read, name)
            task_group.start_soon(wait, name, "exit")
        await anyio.sleep(0.5)
        scans = 0
        await anyio.sleep(3)
        assert scans < 1000, "the end is told: those that wait for it hardly look, and sixty wait for ready"
        assert answers == []
        for name in three:
            await broker.send("exit 3", enter=True, session_id=name, read="none")
    assert answers.count("exited") == len(answers) == 180
