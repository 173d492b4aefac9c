"""Ray's faults, on real nodes of this machine: whatever dies, what runs in sessions goes on, and no answer is false.

Two nodes stand for two machines; each has a state directory of its own. Ray is in child processes alone. A gateway
starts two of them, which costs more than what is asked of it: one serves all tests, and another that lies.
"""

from __future__ import annotations

import filecmp
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import anyio
import psutil
import pytest

import tmuxmcp
from tests.conftest import SLOW, until_exists
from tests.nodes.raynodes import Cluster, cluster, make_doors
from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call, CallAgain, Question
from tmuxmcp.contract.errors import (
    InvalidArgument,
    NodeUnreachable,
    OutcomeUnknown,
    TmuxMcpError,
    Unauthorized,
    Unsupported,
)
from tmuxmcp.contract.follow import Exit, Output
from tmuxmcp.contract.value import replace, value
from tmuxmcp.nodes import fleetfile
from tmuxmcp.nodes.ray.transport import RayTransport

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'tmuxmcp[fleet]'"),
    pytest.mark.slow,
]

PERSON = Call("tests", person=True)
WORK = "seq 30000; sleep 4; echo last; (exit 7)"
PRINTED = "".join(f"{number}\n" for number in range(1, 30001)) + "last\n"
LONG_S = 60 * SLOW

T = TypeVar("T")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    """Machines n1 (the head) and n2, on which an older version of tmuxmcp is installed at first."""
    with cluster() as made:
        package = Path(tmuxmcp.__file__).parent
        old = shutil.copytree(package, made.directory / "old" / "tmuxmcp")
        (old / "__init__.py").write_text((package / "__init__.py").read_text().replace(tmuxmcp.__version__, "0.0.9"))
        shutil.copy(package.parent / "tmux.conf", old.parent)
        policy = [{"program": "touch", "action": "confirm", "reason": "it makes a file"}]
        made.start("n1", head=True, TMUXMCP_POLICY=json.dumps(policy))
        made.up("n1")
        made.start("n2", PYTHONPATH=str(old.parent))
        made.up("n2")
        said = make_doors(made)
        assert said["n1"] == "up, 0 sessions"
        assert said["n2"].startswith("tmuxmcp 0.0.9 is installed there")
        yield made


def renewed(nodes: Cluster) -> str:
    """Install this version on n2 as well; what is said of its door then."""
    shutil.copy(tmuxmcp.__file__, nodes.directory / "old" / "tmuxmcp")
    return make_doors(nodes)["n2"]


@pytest.fixture(scope="module")
def alike(nodes: Cluster) -> Cluster:
    """The same when both machines have this version."""
    if not filecmp.cmp(tmuxmcp.__file__, nodes.directory / "old" / "tmuxmcp" / "__init__.py", shallow=False):
        renewed(nodes)
    return nodes


@pytest.fixture(scope="module")
async def transport(nodes: Cluster, anyio_backend: str) -> AsyncIterator[RayTransport]:
    """The way to the machines."""
    known = fleetfile.read(nodes.secret_file)
    async with RayTransport.open(f"ray://{nodes.address}", known, nodes.secret_file) as opened:
        yield opened


@pytest.fixture(scope="module")
async def stranger(nodes: Cluster, anyio_backend: str) -> AsyncIterator[RayTransport]:
    """The same of somebody who does not know the secret."""
    async with RayTransport.open(f"ray://{nodes.address}", "x" * 64, nodes.secret_file) as opened:
        yield opened


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the machine answers."""
    with anyio.fail_after(LONG_S):
        while True:
            try:
                return await ask()
            except (NodeUnreachable, OutcomeUnknown, LookupError):
                await anyio.sleep(0.1)


@value
class Life:
    """What has to stay whatever dies."""

    shell: int
    tmux: int
    began: float


@value
class Worked:
    """A command that is under way in a session of its own."""

    transport: RayTransport
    state_dir: Path
    node: str
    name: str

    async def life(self) -> Life:
        """The session's shell and tmux server now."""
        facts = await patiently(lambda: self.transport.call(self.node, q.GetSession(self.name), PERSON))
        shell = psutil.Process(facts.pid)
        return Life(facts.pid, int((self.state_dir / "tmux.pid").read_text()), shell.create_time())

    async def check(self, life: Life) -> None:
        """The same shell in the same tmux, the whole output of the command, and its exit code."""
        assert await self.life() == life
        with anyio.fail_after(LONG_S):
            while True:
                listed = await patiently(lambda: self.transport.call(self.node, q.ListCommands(self.name), PERSON))
                if listed.commands and listed.commands[-1].exit_code is not None:
                    break
                await anyio.sleep(0.1)
        assert listed.commands[-1].exit_code == 7
        assert [each.text for each in listed.commands].count(WORK) == 1  # it was typed once
        read = q.Read(session_id=self.name, command=-1, max_bytes=1 << 20)
        told = await patiently(lambda: self.transport.call(self.node, read, PERSON))
        assert told.content.rstrip("\n") == PRINTED.rstrip("\n")


@asynccontextmanager
async def working(
    transport: RayTransport, nodes: Cluster, node: str, name: str, *, broken: bool = True
) -> AsyncIterator[tuple[Worked, Life]]:
    """A command under way on a machine; its caller is told that nobody knows what became of it, if the door breaks."""
    work = Worked(transport, nodes.state_dir(node), node, name)
    await patiently(lambda: transport.call(node, q.CreateSession(name=name), PERSON))
    life = await work.life()
    told: list[Any] = []

    async def run() -> None:
        try:
            told.append(await transport.call(node, q.Run(WORK, name, timeout_ms=600_000), PERSON))
        except TmuxMcpError as error:
            told.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        with anyio.fail_after(LONG_S):
            while b"\n30000\r\n" not in (nodes.state_dir(node) / "sessions" / name / "out.raw").read_bytes():
                await anyio.sleep(0.02)
        yield work, life
        if not broken:
            return
        with anyio.fail_after(LONG_S):
            while not told:
                await anyio.sleep(0.05)
        assert isinstance(told[0], OutcomeUnknown), told
    await work.check(life)


def door_of(nodes: Cluster, key: str) -> psutil.Process:
    """The process of a machine's door."""
    found = nodes.processes(key, "ray::Door")
    assert found, [each.cmdline() for each in psutil.Process(nodes.nodes[key].pid).children(recursive=True)]
    return found[0]


async def test_calls_are_answered_and_errors_are_answers(
    nodes: Cluster, transport: RayTransport, stranger: RayTransport
) -> None:
    assert await transport.names() == ["n1", "n2"]
    made = await transport.call("n1", q.CreateSession(name="a"), PERSON)
    assert made.ready
    done = await transport.call("n1", q.Run("echo $RAY_AUTH_TOKEN_PATH-$(nice)-$PWD", "a"), PERSON)
    assert (done.output, done.exit_code) == (f"-0-{nodes.directory / 'home'}\n", 0)
    with pytest.raises(TmuxMcpError) as caught:
        await transport.call("n1", q.CreateSession(name="a"), PERSON)
    assert caught.value.code == "SESSION_EXISTS"
    with pytest.raises(LookupError):
        await transport.call("n9", q.Run("true", "a"), PERSON)
    machines = {each.name: each for each in await transport.machines()}
    assert (machines["n1"].live, machines["n1"].free, machines["n1"].alive) == (1, 31, True)
    assert machines["n1"].machine_id
    assert machines["n1"].machine_id != machines["n2"].machine_id
    # Another caller, and one with fewer rights.
    reader = replace(PERSON, scopes=frozenset({"read"}), person=False)
    with pytest.raises(Unauthorized):
        await transport.call("n1", q.Run("true", "a"), reader)
    with pytest.raises(Unauthorized, match="secret"):
        await stranger.call("n1", q.Run("true", "a"), PERSON)


async def test_a_call_tells_and_asks_while_it_goes_on_and_is_given_up_at_the_door(
    transport: RayTransport, tmp_path: Path
) -> None:
    asked: list[str] = []
    told: list[str] = []
    go, made, waits = tmp_path / "go", tmp_path / "made", q.Wait(["t"], "exit", timeout_ms=40_000)

    async def progress(elapsed_s: float, last_line: str) -> None:
        told.append(last_line)
        if last_line == "half":
            go.touch()

    async def agree(question: Question) -> bool:
        asked.append(question.message)
        return True

    async def again(question: Question) -> bool:
        raise CallAgain

    agent = replace(PERSON, person=False)

    async def waiting(number: int) -> None:
        with anyio.fail_after(LONG_S):
            while True:
                health = await transport.call("n1", q.Health(), agent)
                if health.going_on and health.going_on.waits == number:
                    return
                await anyio.sleep(0.05)

    await transport.call("n1", q.CreateSession(name="t"), PERSON)
    half = q.Run(f"echo half; {until_exists(go)}", "t")
    assert (await transport.call("n1", half, replace(agent, progress=progress))).exit_code == 0
    assert told[-1] == "half"
    touch = q.Run(f"touch {made}; echo once >>{made}", "t")
    with pytest.raises(CallAgain):
        await transport.call("n1", touch, replace(agent, ask=again))
    assert not made.exists()
    assert (await transport.call("n1", touch, replace(agent, ask=agree))).exit_code == 0
    assert made.read_text() == "once\n"
    assert ["It makes a file" in each for each in asked] == [True]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(transport.call, "n1", waits, agent)
        await waiting(1)
        tasks.cancel_scope.cancel()
    await waiting(0)


async def test_what_a_session_prints_is_followed_over_a_break(nodes: Cluster, transport: RayTransport) -> None:
    await transport.call("n1", q.CreateSession(name="f"), PERSON)
    seen, ends = bytearray(), []

    async def follow() -> None:
        async for change in transport.follow("n1", "f", 0, PERSON):
            if isinstance(change, Output):
                assert change.offset == len(seen)
                seen.extend(change.data)
            else:
                ends.append(change)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        await transport.call("n1", q.Run("seq 1000", "f"), PERSON)
        with anyio.fail_after(LONG_S):
            while b"\n1000\r\n" not in seen:
                await anyio.sleep(0.02)
        door_of(nodes, "n1").kill()
        await patiently(lambda: transport.call("n1", q.Run("seq 1001 2000", "f"), PERSON))
        await transport.call("n1", q.Send("exit 3", session_id="f", enter=True, read="none"), PERSON)
    assert seen == (nodes.state_dir("n1") / "sessions" / "f" / "out.raw").read_bytes()[: len(seen)]
    assert b"\n2000\r\n" in seen
    assert ends == [Exit(3, None)]


async def test_an_older_version_is_refused_and_replaced(nodes: Cluster, transport: RayTransport) -> None:
    with pytest.raises(Unsupported, match=r"0\.0\.9"):
        await transport.call("n2", q.Run("true"), PERSON)
    machine = (await transport.machines())[1]
    assert (machine.version, machine.alive) == ("0.0.9", True)
    assert "fleet up" in machine.note
    # A session of that version, with a command under way: made beside its door.
    env = nodes.env("n2", PYTHONPATH=str(nodes.directory / "old"), TMUXMCP_FLEET="off")
    tmuxmcp_ = [sys.executable, "-P", "-m", "tmuxmcp"]
    new = [*tmuxmcp_, "new", "--name", "u", "bash"]
    await anyio.run_process(new, env=env)
    run = subprocess.Popen(  # noqa: ASYNC220 # it goes on beside us
        [*tmuxmcp_, "run", "-s", "u", WORK], env=env, stdout=subprocess.PIPE
    )
    log = nodes.state_dir("n2") / "sessions" / "u" / "out.raw"
    with anyio.fail_after(LONG_S):
        while b"\n30000\r\n" not in log.read_bytes():
            await anyio.sleep(0.02)
    tmux = int((nodes.state_dir("n2") / "tmux.pid").read_text())
    assert "in place of one of 0.0.9" in await anyio.to_thread.run_sync(renewed, nodes)
    work = Worked(transport, nodes.state_dir("n2"), "n2", "u")
    life = await work.life()
    assert life.tmux == tmux
    assert psutil.Process(life.shell).create_time() < run_began(run)
    await work.check(life)
    printed, _ = run.communicate(timeout=LONG_S)
    assert (printed.decode(), run.returncode) == (PRINTED, 7)
    assert (await transport.machines())[1].version == tmuxmcp.__version__


def run_began(process: subprocess.Popen[bytes]) -> float:
    return psutil.Process(process.pid).create_time() if process.poll() is None else time.time()


async def test_a_killed_worker_costs_one_answer(alike: Cluster, transport: RayTransport) -> None:
    async with working(transport, alike, "n2", "w"):
        door_of(alike, "n2").kill()


async def nothing_is_sent(transport: RayTransport, node: str) -> None:
    """Once it is known that a machine is away, a call that changes something says that nothing was done."""
    with anyio.fail_after(LONG_S):
        while True:
            try:
                await transport.call(node, q.Send(text="x", session_id="s", read="none"), PERSON)
            except NodeUnreachable:
                return
            except OutcomeUnknown:
                await anyio.sleep(0.1)


async def test_a_raylet_that_was_stopped_and_called_dead_comes_back(alike: Cluster, transport: RayTransport) -> None:
    async with working(transport, alike, "n2", "s", broken=False) as (work, life):
        raylet = alike.processes("n2", "raylet")[0]
        raylet.send_signal(signal.SIGSTOP)
        # Calls go from worker to worker: nobody notices.
        done = await transport.call("n2", q.ListSessions(), PERSON)
        assert "s" in {each.session_id for each in done.sessions}
        with anyio.fail_after(LONG_S):
            while (await transport._known_machines())["n2"]["alive"]:
                await anyio.sleep(0.2)
        raylet.send_signal(signal.SIGCONT)
        await anyio.to_thread.run_sync(psutil.wait_procs, [raylet], 10 * SLOW)
        alike.end("n2")
        await nothing_is_sent(transport, "n2")
        alike.start("n2")
        await anyio.to_thread.run_sync(alike.up, "n2")
    await work.check(life)


async def test_a_machine_that_is_stopped_is_given_up_and_does_nothing_later(
    alike: Cluster, transport: RayTransport, tmp_path: Path
) -> None:
    await patiently(lambda: transport.call("n2", q.CreateSession(name="z"), PERSON))
    mark, codes, took = tmp_path / "mark", [], []

    async def told(request: q.Run | q.GetSession) -> None:
        begun = time.monotonic()
        try:
            await transport.call("n2", request, PERSON)
        except TmuxMcpError as error:
            codes.append(error.code)
        took.append(time.monotonic() - begun)

    processes = [*alike.processes("n2", "raylet"), door_of(alike, "n2")]
    for each in processes:
        each.suspend()
    try:
        await told(q.Run(f"touch {mark}", "z", timeout_ms=1000))
        await told(q.GetSession("z"))
        await told(q.Run(f"touch {mark}", "z"))
    finally:
        for each in processes:
            each.resume()
    assert codes == ["OUTCOME_UNKNOWN", "NODE_UNREACHABLE", "NODE_UNREACHABLE"]
    assert (took[0] < 3 + SLOW, took[1] < 1 + SLOW, took[2] < 1 + SLOW) == (True, True, True), took
    assert (await patiently(lambda: transport.call("n2", q.Run("echo here", "z"), PERSON))).output == "here\n"
    assert not mark.exists()


async def test_a_label_stays_with_the_first_of_two_machines(alike: Cluster, transport: RayTransport) -> None:
    alike.start("o", node="n2")  # short: socket paths are
    await anyio.to_thread.run_sync(alike.up, "o")
    async with working(transport, alike, "n2", "l") as (work, life):
        alike.processes("n2", "raylet")[0].kill()
        alike.end("n2")
        # Ray hangs the door on the other one, which is not the machine that the name means.
        with anyio.fail_after(LONG_S):
            while True:
                try:
                    await transport.call("n2", q.GetSession("l"), PERSON)
                except (NodeUnreachable, OutcomeUnknown) as error:
                    if "same label" in error.message:
                        break
                await anyio.sleep(0.1)
        alike.end("o")
        alike.start("n2")
        await anyio.to_thread.run_sync(alike.up, "n2")
        assert await work.life() == life


async def test_a_machines_page_is_reached_by_its_door(transport: RayTransport, stranger: RayTransport) -> None:
    await patiently(lambda: transport.call("n1", q.CreateSession("bash", name="page"), PERSON))
    await transport.call("n1", q.Run("echo on the page", session_id="page"), PERSON)
    wish, told = {"session": "page", "page": 0, "beat_s": 2}, b""
    with anyio.fail_after(LONG_S):
        async with transport.visit("n1", "stream", wish, LONG_S) as visited:
            async for piece in visited.pieces:
                told += piece
                if b'"session_id":"page"' in told and b'"kind":"screen"' in told:
                    break
    async with transport.visit("n1", "export", {"session": "page", "format": "txt"}, LONG_S) as visited:
        text = b"".join([piece async for piece in visited.pieces])
    assert (visited.status, visited.length, b"on the page" in text) == (200, len(text), True)
    cast = await transport.asciicast("n1", "page", 1 << 20, PERSON)
    assert b"on the page" in cast.text
    with pytest.raises(Unauthorized):
        async with stranger.visit("n1", "commands", {"session": "page"}, LONG_S):
            pass
    await transport.call("n1", q.DestroySession("page", force=True), PERSON)


async def test_operators_drain_and_give_up_machines(transport: RayTransport, stranger: RayTransport) -> None:
    await transport.drain("n2", True)
    assert [each.drained for each in await transport.machines()] == [False, True]
    await transport.drain("n2", False)
    tomb = await transport.forget("n2")
    assert tomb.machine_id
    assert await transport.names() == ["n1"]
    with pytest.raises(LookupError):
        await transport.call("n2", q.ListSessions(), PERSON)
    with pytest.raises(InvalidArgument):
        await transport.forget("n2")
    assert [each.node for each in await transport.tombstones()] == ["n2"]
    with anyio.fail_after(LONG_S):
        while await stranger.names() != ["n1"]:
            await anyio.sleep(0.1)
