"""Calls with a `request_id`: asked for again they are done once, whatever was killed in between."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.broker.killed_call import POINTS
from tests.conftest import SLOW, eventually
from tests.kit import forks
from tests.kit.adopted import SHELLS as ADOPTED
from tests.kit.adopted import begin
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, NotAShell, OutcomeUnknown, SessionBusy, Unauthorized
from tmuxmcp.contract.value import replace
from tmuxmcp.record.notedcalls import LONGEST_RESULT

ROOT = Path(__file__).parents[2]
KILLED_CALL = "tests.broker.killed_call"


async def killed(state_dir: Path, point: str, operation: str, **arguments: Any) -> None:
    """Have a broker make a call, and be killed."""
    words = [str(state_dir), point, json.dumps([operation, arguments])]
    make = partial(forks.run, words, forks.environment(), ROOT, 60 * SLOW, module=KILLED_CALL)
    ended = await anyio.to_thread.run_sync(make)
    assert ended.returncode == -signal.SIGKILL or point not in POINTS, ended.stderr.decode()


def lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


async def test_a_command_is_run_once_wherever_its_broker_was_killed(broker: Broker, state_dir: Path, tmp_path: Path):
    """The first caller had a default session of its own; who asks again names none."""
    side = tmp_path / "side"
    for number, point in enumerate([*POINTS, *(f"{random.Random(seed).uniform(0.02, 0.4):.3f}" for seed in range(6))]):
        call = {
            "command": f"echo {number} >> {side}; printf 'out %s' {number}; (exit 7)",
            "request_id": f"call-{number:04}",
        }
        await killed(state_dir, point, "run", **call)
        before = lines(side)
        result = await broker.run(**call)
        assert (result.completed, result.exit_code, result.output) == (True, 7, f"out {number}"), point
        assert lines(side) == number + 1, point
        if point in POINTS:
            acted = POINTS.index(point) >= POINTS.index("after typing")
            assert result.replayed == acted or point == "sent to tmux", point
            assert before == number + acted or point in ("sent to tmux", "after typing"), point
        again = await broker.run(**call)
        assert again == replace(result, replayed=True), point
    assert len((await broker.list_sessions()).sessions) <= 2, "two callers, a default session each"


async def run_once(broker: Broker, state_dir: Path, side: Path, points: Sequence[str]) -> None:
    """In session `a`, wherever the broker was killed that was asked first."""
    for number, point in enumerate(points):
        command = f"echo {number} >> {side}; printf 'out %s' {number}; sh -c 'exit 7'"
        call = {"command": command, "session_id": "a", "request_id": f"call-{number:04}"}
        await killed(state_dir, point, "run", **call)
        result = await broker.run(**call)
        assert (result.completed, result.exit_code, result.output) == (True, 7, f"out {number}"), point
        assert lines(side) == number + 1, point
        assert await broker.run(**call) == replace(result, replayed=True), point


@pytest.mark.parametrize("program", ["zsh", "fish"])
async def test_a_shell_that_is_asked_by_key_runs_it_once(broker: Broker, state_dir: Path, tmp_path: Path, program: str):
    """Killed before the note, the first broker leaves a shell that listens, at a prompt that is claimed."""
    await broker.create_session(program, name="a")
    await run_once(broker, state_dir, tmp_path / "side", POINTS)
    await killed(state_dir, "before the note", "run", command="true", session_id="a", request_id="never-run")
    sent = await broker.send("echo sent", enter=True, session_id="a")
    assert sent.result
    assert "\nsent\n" in sent.result.content, "a shell that listens would swallow it"


@pytest.mark.parametrize(("shell", "kind"), ADOPTED)
async def test_an_adopted_shell_runs_it_once(broker: Broker, state_dir: Path, tmp_path: Path, shell: str, kind: str):
    await begin(broker, shell)
    await broker.run("true", "a", adopt="yes")
    await run_once(broker, state_dir, tmp_path / "side", ["before the note", "after the note", "after typing"])


async def test_a_command_whose_broker_died_is_waited_for(broker: Broker, state_dir: Path, tmp_path: Path):
    side, gate = tmp_path / "side", tmp_path / "gate"
    command = f"echo x >> {side}; echo begun; until test -e {gate}; do sleep 0.02; done; echo over; (exit 4)"
    call = {"command": command, "request_id": "under-way"}
    async with anyio.create_task_group() as task_group:
        words = [str(state_dir), "600", json.dumps(["run", call])]
        with forks.PipedFork(words, forks.environment(), ROOT, KILLED_CALL) as first:
            try:
                await eventually(side.exists)
                early = await broker.run(**call, timeout_ms=50)  # while another broker waits for it
                assert (early.outcome, early.completed, early.replayed) == ("timeout", False, True)
            finally:
                first.kill()
        early = await broker.run(**call, timeout_ms=50)
        assert (early.outcome, early.completed, early.replayed) == ("timeout", False, True)
        assert early.output == "begun\n"
        found = []

        async def ask() -> None:
            found.append(await broker.run(**call))

        task_group.start_soon(ask)
        gate.touch()
    [result] = found
    assert (result.exit_code, result.output, result.replayed) == (4, "begun\nover\n", True)
    assert lines(side) == 1
    [command_] = (await broker.list_commands(result.session_id)).commands
    assert (command_.number, command_.start_offset) == (result.command_number, result.start_offset)
    for number in range(3):  # its mark is no longer the last one
        await broker.run(f"echo {number}", result.session_id)
    async with Broker.open(broker.settings, "later") as later:
        assert (await later.run(**call)).output == "begun\nover\n"


@pytest.mark.parametrize("point", ["before the result", "after the result"])
async def test_a_result_too_long_to_be_kept_is_made_of_the_log_anew(
    broker: Broker, state_dir: Path, tmp_path: Path, point: str
):
    side, most = tmp_path / "side", 1024 * 1024
    await broker.create_session("bash", name="a")
    call = {"command": f"echo x >> {side}; seq 50000; (exit 5)", "session_id": "a", "request_id": "long-result"}
    await killed(state_dir, point, "run", **call, max_bytes=most)
    file = state_dir / "request_ids" / "person" / "long-result"
    whole = "".join(f"{number}\n" for number in range(1, 50001))
    assert len(whole) > LONGEST_RESULT
    for _ in range(2):
        again = await broker.run(**call, max_bytes=most)
        assert (again.output == whole, again.exit_code, again.replayed, again.truncated) == (True, 5, True, False)
        assert file.stat().st_size < LONGEST_RESULT
    assert (await broker.run(**call)).truncated, "max_bytes may differ"
    await broker.destroy_session("a", force=True)
    assert (await broker.run(**call, max_bytes=most)).output == whole
    assert lines(side) == 1


async def test_a_command_that_was_told_a_secret_is_waited_for(broker: Broker, state_dir: Path, tmp_path: Path):
    side = tmp_path / "side"
    await broker.create_session("bash", name="a")
    command = f"echo x >> {side}; read -rs x; echo got ${{#x}}; (exit 4)"
    call = {"command": command, "session_id": "a", "request_id": "asks-a-secret"}
    await killed(state_dir, "after typing", "run", **call)
    asks = await broker.run(**call)
    assert (asks.completed, asks.mode, asks.replayed) == (False, "password", True)
    await broker.send("orange", enter=True, session_id="a", wait_for="command")
    for _ in range(2):
        over = await broker.run(**call)
        assert (over.output, over.exit_code, over.replayed) == ("got 6\n", 4, True)
    assert lines(side) == 1
    assert "orange" not in (state_dir / "request_ids" / "person" / "asks-a-secret").read_text()


async def test_what_ended_unseen_is_found_behind_other_commands(broker: Broker, state_dir: Path, tmp_path: Path):
    side = tmp_path / "side"
    call = {"command": f"echo x >> {side}; echo out; (exit 3)", "request_id": "ended-unseen"}
    await killed(state_dir, "before the result", "run", **call)
    [session] = (await broker.list_sessions()).sessions
    for number in range(70):  # more than a broker remembers of the marks
        await broker.run(f"echo {number}", session.session_id)
    async with Broker.open(broker.settings, "later") as later:
        result = await later.run(**call)
        assert (result.exit_code, result.output, result.command_number) == (3, "out\n", 1)
    assert lines(side) == 1


async def test_of_many_at_once_over_two_brokers_one_acts(broker: Broker, tmp_path: Path):
    side, results = tmp_path / "side", []
    session = (await broker.create_session("bash", request_id="for-all-of-us")).session_id
    call = {"command": f"echo x >> {side}; sleep 0.2; echo out", "request_id": "many-at-once"}
    async with Broker.open(broker.settings, "another") as other, anyio.create_task_group() as task_group:

        async def ask(which: Broker) -> None:
            results.append(await which.run(**call, session_id=session))

        for number in range(20):
            task_group.start_soon(ask, (broker, other)[number % 2])
    assert lines(side) == 1
    assert sorted(each.replayed for each in results) == [False] + [True] * 19
    assert {each.output for each in results} == {"out\n"}
    assert len({each.start_offset for each in results}) == 1


async def test_a_session_is_made_once(broker: Broker, state_dir: Path):
    made = set()
    for number, point in enumerate(POINTS):
        call: Mapping[str, Any] = {"program": "bash", "request_id": f"make-{number:04}"}
        await killed(state_dir, point, "create_session", **call)
        result = await broker.create_session(**call)
        assert result.ready, point
        assert (await broker.run("echo works", result.session_id)).output == "works\n", point
        again = await broker.create_session(**call)
        assert again == replace(result, replayed=True), point
        made.add(result.session_id)
        assert {each.session_id for each in (await broker.list_sessions()).sessions} == made, point
    named = {"program": "bash", "name": "named", "request_id": "make-named"}
    await killed(state_dir, "after typing", "create_session", **named)
    assert (await broker.create_session(**named)).session_id == "named"
    with pytest.raises(InvalidArgument):
        await broker.create_session("bash", name="other", request_id="make-named")
    await broker.destroy_session("named", force=True)
    assert (await broker.create_session(**named)).replayed, "it is not made again because it is gone"


async def test_text_is_typed_once(broker: Broker, state_dir: Path, tmp_path: Path):
    session = (await broker.create_session("cat", wait_ready=False)).session_id
    for number, point in enumerate(POINTS):
        call = {"text": f"line {number}", "enter": True, "session_id": session, "request_id": f"send-{number:04}"}
        await killed(state_dir, point, "send", **call)
        result = await broker.send(**call)
        assert result.sent_bytes == len(f"line {number}") + 1, point
        assert result.result is not None
        assert result.result.outcome == "ready", point
        shown = (await broker.read("scrollback", session)).content
        assert shown.count(f"line {number}") == 2, f"{point}: the echo, and what cat says: {shown}"
    # Escape goes in a second step: whether that was typed is told as it is.
    steps = [{"text": "one", "enter": True}, {"text": "two", "enter": True}]
    both = await broker.send(steps=steps, session_id=session, request_id="in-steps")
    assert (both.steps_done, both.replayed) == (2, False)
    again = await broker.send(steps=steps, session_id=session, request_id="in-steps")
    assert again == replace(both, replayed=True)
    await killed(state_dir, "after typing", "send", steps=steps, session_id=session, request_id="half-steps")
    half = await broker.send(steps=steps, session_id=session, request_id="half-steps")
    assert (half.steps_done, half.replayed) == (1, True)
    assert "Not typed: steps 2 to 2." in (half.note or "")
    shown = (await broker.read("scrollback", session)).content
    assert (shown.count("one"), shown.count("two")) == (4, 2)


async def test_what_was_refused_is_not_kept(broker: Broker, state_dir: Path):
    session = (await broker.create_session("cat", wait_ready=False)).session_id
    with pytest.raises(NotAShell):
        await broker.run("true", session, request_id="not-a-shell")
    shell = (await broker.create_session("bash")).session_id
    with pytest.raises(InvalidArgument):
        await broker.run("a\x03b", shell, request_id="bad-character")
    await broker.send("sleep 3", enter=True, session_id=shell, read="none")
    await eventually(lambda: broker_runs(broker, shell))
    with pytest.raises(SessionBusy):
        await broker.run("true", shell, request_id="busy-shell")
    assert list((state_dir / "request_ids").rglob("*-*")) == []
    await broker.signal("INT", session_id=shell)
    await broker.read("new", shell, wait_for="ready")
    result = await broker.run("echo now", shell, request_id="busy-shell")
    assert (result.output, result.replayed) == ("now\n", False)
    reads = Call("reader", scopes=frozenset({"read"}))
    with pytest.raises(Unauthorized):
        await broker.by(reads).run("echo now", shell, request_id="busy-shell")


async def broker_runs(broker: Broker, session: str) -> bool:
    return (await broker.get_session(session)).mode == "running"


async def test_an_id_is_for_one_call_of_one_client(broker: Broker):
    first = await broker.run("echo one", request_id="the-same-id")
    for wrong in (
        {"command": "echo two"},
        {"command": "echo one", "stdin": ""},
        {"command": "echo one", "session_id": "x"},
    ):
        with pytest.raises(InvalidArgument, match="another call had this one"):
            await broker.run(**wrong, request_id="the-same-id")
    with pytest.raises(InvalidArgument, match="another call had this one"):
        await broker.send("echo one", request_id="the-same-id")
    # How long and how much are no part of what is done; its own session may be named.
    for same in ({"timeout_ms": 1}, {"max_bytes": 5}, {"session_id": first.session_id}):
        assert (await broker.run("echo one", **same, request_id="the-same-id")).replayed
    token = Call("http", client="somebody")
    assert not (await broker.by(token).run("echo mine", request_id="the-same-id")).replayed
    for bad in ("short", "x" * 65, "with space", "a/../../b"):
        with pytest.raises(InvalidArgument):
            await broker.run("true", request_id=bad)


async def test_what_nobody_can_tell_is_said_and_not_typed(broker: Broker, state_dir: Path, tmp_path: Path):
    side = tmp_path / "side"
    session = (await broker.create_session("bash", name="a")).session_id
    call = {"text": f"echo x >> {side}", "enter": True, "session_id": session, "request_id": "nobody-knows"}
    await killed(state_dir, "after the note", "send", **call)
    await broker.send("true", enter=True, session_id=session, request_id="somebody-else")  # tmux forgets the other
    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            await broker.send(**call)
    assert not side.exists()
    call = {"command": f"echo x >> {side}", "session_id": session, "request_id": "session-gone"}
    await killed(state_dir, "after the note", "run", **call)
    await broker.destroy_session(session, force=True)
    with pytest.raises(OutcomeUnknown):
        await broker.run(**call)
    assert not side.exists()


async def test_tmux_decides_whether_a_call_typed(broker: Broker):
    """Once it is said that a call did not type, what its broker may still have on the way to tmux types nothing."""
    from tmuxmcp.tmux import panes  # beside the broker: as the broker that was taken for dead

    session_id = (await broker.create_session("cat", wait_ready=False)).session_id
    session = broker.registry.sessions[session_id]
    pane, stamp = session.live(), panes.Stamp("", "late-call-1-aaaaaaaa")
    assert await panes.never_types(broker.tmux, pane, stamp)
    assert not await panes.type_input(broker.tmux, pane, b"late\n", stamp=stamp)
    assert "late" not in (await broker.read("screen", session_id)).content
    later = panes.Stamp(stamp.void, "late-call-2-aaaaaaaa")
    assert await panes.type_input(broker.tmux, pane, b"late\n", stamp=later)
    assert not await panes.never_types(broker.tmux, pane, later)
    assert await panes.stamped(broker.tmux, pane) == later.after


async def test_what_took_a_shells_place_is_over_when_it_has_ended(broker: Broker, tmp_path: Path):
    await broker.create_session("bash", name="a")
    await broker.run("bash --norc", "a")
    go = tmp_path / "go"
    call = {"command": f"exec sh -c 'until [ -e {go} ]; do sleep 0.01; done; exit 3'", "request_id": "call-exec"}
    assert (await broker.run(session_id="a", adopt="yes", **call)).completed is False
    assert (await broker.run(session_id="a", adopt="yes", **call)).completed is False
    go.touch()
    assert (await broker.read(session_id="a", wait_for="ready")).outcome == "ready"
    again = await broker.run(session_id="a", adopt="yes", **call)
    assert (again.outcome, again.completed) == ("left", True)
