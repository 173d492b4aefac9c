"""A fleet of three brokers over HTTP: the same calls as with one, and what comes of it when one is killed or stops."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

import tmuxmcp
from tests.conftest import eventually, until_exists
from tests.kit.service import a_service
from tests.nodes.brokers import NODES, Brokers
from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import (
    FleetFull,
    NodeLost,
    NodeUnreachable,
    OutcomeUnknown,
    SessionBusy,
    SessionNotFound,
    TmuxMcpError,
)
from tmuxmcp.contract.follow import Exit, Output
from tmuxmcp.contract.request import Request
from tmuxmcp.nodes import gateway as gateway_module
from tmuxmcp.nodes import remote as remote_module
from tmuxmcp.nodes.fleet import Fleet
from tmuxmcp.nodes.transport import Transport


async def make(fleet: Fleet, node: str, name: str = "", **arguments) -> str:
    placement = q.Placement(node=node)
    return (await fleet.create_session("bash", name=name, placement=placement, **arguments)).session_id


async def test_the_same_calls_work_on_all_machines(fleet: Fleet, brokers: Brokers):
    for node in NODES:
        name = await make(fleet, node, "build")
        assert name == f"build@{node}"
        done = await fleet.run("cd /usr; seq 3000; (exit 3)", name)
        assert (done.session_id, done.exit_code, done.cwd) == (name, 3, "/usr")
        assert (await fleet.run("seq 1 60000", name, max_bytes=16 << 20)).output.splitlines()[-1] == "60000"
        assert (await fleet.send("sleep 0.1; echo hi", enter=True, session_id=name)).result.session_id == name
        assert (await fleet.search("^2999$", name)).total == 2
        assert [each.exit_code for each in (await fleet.list_commands(name)).commands][:2] == [3, 0]
        facts = await fleet.get_session(name)
        assert (facts.node, facts.attach_command) == (node, f"tmuxmcp attach {name}")
    listed = await fleet.list_sessions()
    assert ({each.session_id for each in listed.sessions} >= {f"build@{n}" for n in NODES}, listed.missing) == (
        True,
        [],
    )
    with pytest.raises(SessionNotFound):
        await fleet.get_session("nothing@n1")
    with pytest.raises(TmuxMcpError) as wrong:
        await fleet.create_session("no-such-program", placement=q.Placement(node="n1"))
    assert (wrong.value.code, wrong.value.details["node"]) == ("PROGRAM_NOT_FOUND", "n1")
    health = await fleet.health()
    assert [(each.name, each.ok) for each in health.checks] == [(node, True) for node in NODES]


async def test_callers_behind_one_token_have_default_sessions_of_their_own(fleet: Fleet, brokers: Brokers):
    ours, theirs = fleet.by("alice"), fleet.by("bob")
    first = await ours.run("cd /tmp; echo $$")
    other = await theirs.run("pwd; echo $$")
    assert first.session_id != other.session_id
    again = await ours.run("pwd; echo $$")
    assert (again.session_id, again.output) == (first.session_id, f"/tmp\n{first.output}")
    async with tmuxmcp.open_fleet(brokers.file) as another:
        assert (await another.by("alice").run("pwd")).session_id == first.session_id
        assert (await another.by("alice").list_sessions()).default_session_id == first.session_id
    with pytest.raises(TmuxMcpError) as refused:
        await theirs.destroy_session(first.session_id, True)
    assert refused.value.code == "UNAUTHORIZED"
    await ours.destroy_session(first.session_id, True)
    await theirs.destroy_session(other.session_id, True)
    viewer = Call("eve", frozenset({"read"}))
    with pytest.raises(TmuxMcpError) as refused:
        await fleet.do(q.Run("true", "any@n1"), viewer)
    assert refused.value.code == "UNAUTHORIZED"


async def test_a_killed_broker_loses_nothing(fleet: Fleet, brokers: Brokers, tmp_path: Path):
    name = await make(fleet, "n1", "lives")
    shell = (await fleet.run("echo $$", name)).output
    go = tmp_path / "go"
    command = f"seq 1000; {until_exists(go)}; seq 1001 2000; (exit 7)"
    failed: list[TmuxMcpError] = []

    async def run() -> None:
        try:
            await fleet.run(command, name)
        except TmuxMcpError as error:
            failed.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await eventually(lambda: _running(fleet, name), timeout=15)
        brokers.kill("n1")
    assert isinstance(failed[0], OutcomeUnknown)
    assert failed[0].details["session_id"] == name
    assert "list_commands of lives@n1" in failed[0].hint
    with pytest.raises(NodeUnreachable) as away:
        await fleet.run("true", name)
    assert away.value.retryable
    begun = (await fleet.list_sessions()).missing
    assert begun == ["n1"]
    brokers.start_again("n1")
    go.touch()
    ended = await eventually(lambda: _ended(fleet, name), timeout=30)
    assert (ended.exit_code, ended.text.startswith("seq 1000")) == (7, True)
    whole = await fleet.read("new", name, command=ended.number, max_bytes=1 << 20)
    assert whole.content.split() == [str(number) for number in range(1, 2001)]
    assert (await fleet.run("echo $$", name)).output == shell


async def _running(fleet: Fleet, name: str) -> bool:
    return (await fleet.search("^1000$", name)).total > 0


async def _ended(fleet: Fleet, name: str):
    commands = (await fleet.list_commands(name)).commands
    return next((each for each in commands if each.exit_code == 7), None)


async def test_asking_again_says_what_became_of_a_call(fleet: Fleet, brokers: Brokers, tmp_path: Path):
    name, ran, go = await make(fleet, "n2", "asked"), tmp_path / "ran", tmp_path / "go"
    command = f"echo once >>{ran}; {until_exists(go)}; (exit 5)"
    failed: list[TmuxMcpError] = []

    async def run() -> None:
        try:
            await fleet.run(command, name, request_id="deploy-4711")
        except TmuxMcpError as error:
            failed.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await eventually(ran.exists, timeout=15)
        brokers.kill("n2")
    assert isinstance(failed[0], OutcomeUnknown)
    assert "same request_id" in failed[0].hint
    brokers.start_again("n2")
    go.touch()
    again = await fleet.run(command, name, request_id="deploy-4711", timeout_ms=30_000)
    assert (again.exit_code, again.session_id, ran.read_text()) == (5, name, "once\n")
    once = await fleet.create_session("bash", request_id="create-4711")
    twice = await fleet.create_session("bash", request_id="create-4711")
    assert once.session_id == twice.session_id
    pinned = q.Placement(node="n3")
    once_there = await fleet.create_session("bash", placement=pinned, request_id="create-4712")
    twice_there = await fleet.create_session("bash", placement=pinned, request_id="create-4712")
    assert (once_there.session_id, twice_there.replayed) == (twice_there.session_id, True)
    async with tmuxmcp.open_fleet(brokers.file) as another:
        assert (await another.create_session("bash", request_id="create-4711")).session_id == once.session_id


async def test_a_stopped_broker_holds_nobody_up(fleet: Fleet, brokers: Brokers, monkeypatch: pytest.MonkeyPatch):
    name = await make(fleet, "n2", "frozen")
    shell = (await fleet.run("echo $$", name)).output
    monkeypatch.setattr(gateway_module, "LIST_S", 0.5)
    monkeypatch.setattr(remote_module, "GRACE_S", 0.5)
    monkeypatch.setattr(remote_module, "ASK_S", 0.5)
    process = brokers.process("n2")
    process.suspend()
    try:
        listed = await fleet.list_sessions()
        assert listed.missing == ["n2"]
        with pytest.raises(OutcomeUnknown):
            await fleet.run("echo once >>$HOME/ran", name, timeout_ms=100)
        await fleet.machines()
        made = [each.session_id for each in await fleet.create_many(4, "bash") if not isinstance(each, TmuxMcpError)]
        assert len(made) == 4
        assert not [each for each in made if each.endswith("@n2")]
    finally:
        process.resume()
    monkeypatch.undo()

    async def shell_now() -> str | None:
        with suppress(SessionBusy):
            return (await fleet.run("echo $$", name, timeout_ms=20_000)).output
        return None

    # What it was sent it may do now, or not: but not twice.
    assert await eventually(shell_now) == shell
    assert (await fleet.run("cat $HOME/ran 2>/dev/null", name)).output in ("", "once\n")


async def test_a_wait_ends_with_the_first_of_several_machines(fleet: Fleet, brokers: Brokers):
    names = [await make(fleet, node, "waits") for node in NODES]
    for name in names[:2]:
        await fleet.send("sleep 600", enter=True, session_id=name, read="none")
    await fleet.send("sleep 0.3", enter=True, session_id=names[2], read="none")
    answer = await fleet.wait(names, "command")
    assert (answer.session_id, answer.outcome) == (names[2], "command")
    assert [each.session_id for each in answer.sessions] == names
    assert [each.mode for each in answer.sessions[:2]] == ["running", "running"]


class Late:
    """A way on which the answer of one machine to a wait arrives when the gateway has that of another one."""

    def __init__(self, transport: Transport, node: str) -> None:
        self._transport, self._node = transport, node
        self.answered = anyio.Event()

    def __getattr__(self, name: str):
        return getattr(self._transport, name)

    async def call(self, node: str, request: Request, call: Call):
        answer = await self._transport.call(node, request, call)
        if node == self._node and isinstance(request, q.Wait) and request.timeout_ms:
            self.answered.set()
            assert call.enough
            await call.enough()
        return answer


async def test_what_two_machines_tell_at_the_same_moment_is_told(fleet: Fleet, brokers: Brokers, tmp_path: Path):
    first, second = await make(fleet, "n1", "first"), await make(fleet, "n2", "second")
    late = Late(fleet.transport, "n2")
    fleet.transport = late
    answers = []

    async def wait() -> None:
        answers.append(await fleet.wait(wait_for="exit"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await fleet.send("exit 4", enter=True, session_id=second, read="none")
        await late.answered.wait()  # the machine has told it, and tells it once
        await fleet.send("exit 3", enter=True, session_id=first, read="none")
    told = {each.session_id: each.outcome for each in answers[0].sessions}
    assert (answers[0].session_id, told[first], told[second]) == (first, "exited", "exited")
    assert answers[0].missing == []


async def test_many_sessions_are_made_at_once_and_spread(fleet: Fleet, brokers: Brokers):
    room = sum(each.free for each in await fleet.machines())
    made = await fleet.create_many(room + 2, "cat", name="many", labels={"kind": "test"})
    good = [each for each in made if not isinstance(each, TmuxMcpError)]
    full = [each for each in made if isinstance(each, FleetFull)]
    assert (len(good), len(full)) == (room, 2)
    assert {each.session_id.rpartition("@")[2] for each in good} == set(NODES)
    assert full[0].details["full"] == list(NODES)
    assert len({each.session_id for each in good}) == room
    done = await fleet.run_many([each.session_id for each in good[:3]], "true")
    assert [each.code for each in done if isinstance(each, TmuxMcpError)] == ["NOT_A_SHELL"] * 3


async def test_labels_and_draining_say_where_sessions_go(fleet: Fleet, brokers: Brokers):
    placed = q.Placement(labels={"zone": "b"})
    for _ in range(2):
        assert (await fleet.create_session("cat", placement=placed)).session_id[-3:] in ("@n2", "@n3")
    await fleet.drain("n3")
    async with tmuxmcp.open_fleet(brokers.file) as another:  # it is in the file
        for _ in range(2):
            assert (await another.create_session("cat", placement=placed)).session_id.endswith("@n2")
        assert [each.drained for each in await another.machines()] == [False, False, True]
    await fleet.undrain("n3")
    assert (await fleet.create_session("cat", placement=q.Placement(node="n3"))).session_id.endswith("@n3")


async def test_a_machine_is_lost_when_an_operator_says_so_and_not_before(fleet: Fleet, brokers: Brokers):
    name = await make(fleet, "n3", "left")
    brokers.kill("n3")
    with pytest.raises(NodeUnreachable):
        await fleet.run("true", name)
    given_up = await fleet.forget("n3")
    assert given_up.machine_id
    async with tmuxmcp.open_fleet(brokers.file) as another:
        with pytest.raises(NodeLost):
            await another.run("true", name)
        assert [each.node for each in await another.tombstones()] == ["n3"]
        assert (await another.list_sessions()).missing == []
    brokers.start_again("n3")
    with pytest.raises(NodeLost):  # said is said
        await fleet.get_session(name)
    await fleet.undrain("n3")
    assert (await fleet.run("echo here", name)).output == "here\n"


async def test_another_machine_under_the_name_of_a_lost_one_is_taken(
    fleet: Fleet, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
):
    await fleet.forget("n3")
    old = brokers.services["n3"]
    with a_service("--tools", "all") as other:
        monkeypatch.setitem(brokers.services, "n3", other)
        text = brokers.file.read_text().replace(old.url, other.url)
        brokers.file.write_text(text)
        await eventually(lambda: _has(fleet, "n3"))
        name = await make(fleet, "n3", "new")
        assert (await fleet.get_session(name)).node == "n3"
        await fleet.destroy_session(name, True)


async def _has(fleet: Fleet, node: str) -> bool:
    return node in [each.name for each in await fleet.machines()]


async def test_files_go_in_and_out(fleet: Fleet, brokers: Brokers, tmp_path: Path):
    name = await make(fleet, "n2", "files")
    data = bytes(range(256)) * 40_000  # more than one piece
    there = tmp_path / "there"
    assert await fleet.upload(data, name, str(there), mode="0750") == len(data)
    assert there.read_bytes() == data
    assert there.stat().st_mode & 0o777 == 0o750
    assert await fleet.download(name, str(there), tmp_path / "back") == data
    assert (tmp_path / "back").read_bytes() == data
    assert sorted(path for path in os.listdir(tmp_path) if "there" in path) == ["there"]
    with pytest.raises(TmuxMcpError) as missing:
        await fleet.download(name, str(tmp_path / "nothing"))
    assert missing.value.code == "FILE_NOT_FOUND"


async def test_a_session_is_reset_where_it_is(fleet: Fleet, brokers: Brokers):
    name = await make(fleet, "n2", "again", rows=30, cols=100)
    before = await fleet.run("x=1; echo $$", name)
    made = await fleet.reset(name)
    assert (made.session_id, made.rows, made.cols) == (name, 30, 100)
    after = await fleet.run('echo "$x" $$', name)
    assert after.output.strip() not in ("", before.output.strip())
    await fleet.destroy_session(name, True)
    assert (await fleet.reset(name)).session_id == name


async def test_what_a_session_prints_is_followed_over_a_restart(fleet: Fleet, brokers: Brokers, tmp_path: Path):
    go = tmp_path / "go"
    placement = q.Placement(node="n1")
    script = f"seq 1 5000; {until_exists(go)}; seq 5001 9000; exit 4"
    name = (await fleet.create_session("sh", ["-c", script], name="prints", placement=placement)).session_id
    data, end = b"", None
    async with anyio.create_task_group() as tasks:

        async def restart() -> None:
            await eventually(lambda: b"\n5000\r" in data, timeout=20)
            await anyio.to_thread.run_sync(brokers.kill, "n1")
            await anyio.to_thread.run_sync(brokers.start_again, "n1")
            go.touch()

        tasks.start_soon(restart)
        async for event in fleet.follow(name):
            if isinstance(event, Output):
                assert event.offset == len(data)
                data += event.data
            else:
                end = event
    assert data.partition(b"\x1b")[0].split() == [str(number).encode() for number in range(1, 9001)]
    assert end == Exit(4, None)


async def test_a_token_that_is_wrong_is_no_machine_that_is_away(fleet: Fleet, brokers: Brokers, tmp_path: Path):
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text("0123456789abcdef0123\n")
    (tmp_path / "open").touch(mode=0o644)
    (tmp_path / "f.toml").write_text(
        f'[[brokers]]\nname = "n1"\nurl = "{brokers.services["n1"].url}"\ntoken_file = "token"\n'
        f'[[brokers]]\nname = "n2"\nurl = "{brokers.services["n2"].url}"\ntoken_file = "open"\n'
        '[[brokers]]\nname = "n3"\nurl = "http://127.0.0.1:9"\n'
    )
    async with tmuxmcp.open_fleet(tmp_path / "f.toml") as other:
        with pytest.raises(TmuxMcpError) as refused:
            await other.get_session("a@n1")
        assert refused.value.code == "UNAUTHORIZED"
        states = {each.name: (each.alive, each.note) for each in await other.machines()}
        assert not any(alive for alive, _ in states.values())
        assert "UNAUTHORIZED" in states["n1"][1]
        assert "chmod 600" in states["n2"][1]
        assert "does not answer" in states["n3"][1]


async def test_a_process_is_run_on_the_machine_of_its_directory(fleet: Fleet, brokers: Brokers):
    done = await fleet.run_process(["sh", "-c", "echo $HOME"], cwd="n2:/")
    assert done.stdout.strip() == str(brokers.services["n2"].state_dir / "home")
