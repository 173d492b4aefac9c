"""One look at a session: what it holds belongs together, and nothing else tells what a session does."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Literal

import anyio
import pytest

from tests.conftest import eventually
from tests.kit.sources import FILES, PACKAGE, nodes
from tmuxmcp.broker.broker import Broker
from tmuxmcp.machine.witness.kernel import KernelFacts
from tmuxmcp.machine.witness.tty import TtyWitness
from tmuxmcp.sessions.look import LogView, Look, Looks
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import ShellState

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this witness")


def using(name: str, kind: Literal["id", "attr"] = "id") -> set[str]:
    """Modules of the package whose code has this name, or an attribute of this name."""
    found = set()
    for path in FILES:
        if any(getattr(node, kind, "") == name for node in nodes(path)):
            found.add(path.relative_to(PACKAGE).as_posix())
    return found


def test_only_a_look_asks_the_kernel_about_a_terminal() -> None:
    assert using("TtyWitness") == {"machine/witness/relays.py"}
    assert using("DeepWitness") == {"sessions/look.py"}
    assert using("_terminal", "attr") == {"sessions/session.py"}


def test_what_the_marks_say_is_read_from_a_scan() -> None:
    assert using("ShellView") == {"sessions/session.py"}
    assert using("_shell", "attr") == {"sessions/session.py"}


def test_a_session_itself_does_not_say_what_it_does() -> None:
    judged = {"mode", "ready", "waiting", "secret", "at_prompt", "at_editor", "foreground", "cwd", "shell", "last_text"}
    judged |= {"relays", "terminal"}
    assert judged <= {*dir(Look), *Look.__value_fields__}
    assert not judged & set(dir(Session))


@linux
async def test_what_is_printed_while_the_kernel_answers_is_in_the_look(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_session("bash", name="a")
    session = broker.registry.sessions["a"]
    before = await session.look()
    ask = TtyWitness.look

    def answers_slowly(witness: TtyWitness, leader: int) -> KernelFacts | None:
        facts = ask(witness, leader)
        with session.log.path.open("ab") as log:
            log.write(b"\x1b]133;C;aid=%s;n=%d\x07" % (session.meta.nonce.encode(), before.shell.number))
        return facts

    monkeypatch.setattr(TtyWitness, "look", answers_slowly)
    look = await session.look()
    assert (before.shell.state, look.shell.state) == (ShellState.PROMPT, ShellState.RUNNING)
    assert look.size == os.stat(session.log.path).st_size > before.size


async def at_prompt(broker: Broker) -> Session:
    """A session of bash at its prompt."""
    await broker.create_session("bash", name="a")
    await broker.read(session_id="a", wait_for="ready")
    return broker.registry.sessions["a"]


def looked_at_processes(look: Look) -> bool:
    return look.facts is None or bool(look.facts.processes)


@linux
async def test_no_process_is_looked_at_where_the_shell_alone_is_at_its_prompt(broker: Broker) -> None:
    session = await at_prompt(broker)
    await broker.run("true", "a")
    await broker.read(session_id="a", wait_for="ready")
    await broker.send(text="x", session_id="a", enter=False, wait_for="none", read="none")

    async def is_enough() -> bool:
        look = await session.look_at_prompt()
        assert look.mode == "shell_prompt"
        return not looked_at_processes(look)

    await eventually(is_enough)


@linux
@pytest.mark.parametrize(
    ("typed", "mode"),
    [("cat &", "shell_prompt"), ("cat", "line_input"), ("read -rs", "password"), ("set +o emacs", "line_input")],
)
async def test_processes_are_looked_at_where_more_than_the_shell_is_there(
    broker: Broker, typed: str, mode: str
) -> None:
    session = await at_prompt(broker)
    await broker.send(text=typed, session_id="a", enter=True, wait_for="none", read="none")

    async def is_there() -> bool:
        look = await session.look()
        return (look.mode, look.last_text.count(typed)) == (mode, 1)

    await eventually(is_there)
    look = await session.look_at_prompt()
    assert looked_at_processes(look)
    assert look.mode == mode


@linux
async def test_a_stopped_shell_is_not_at_its_prompt(broker: Broker) -> None:
    session = await at_prompt(broker)
    assert session.pid
    os.kill(session.pid, signal.SIGSTOP)
    try:

        async def is_seen() -> bool:
            return (await broker.read("screen", "a")).mode == "stopped"

        await eventually(is_seen)
    finally:
        os.kill(session.pid, signal.SIGCONT)


@linux
async def test_an_end_that_anybody_can_print_has_processes_looked_at(broker: Broker) -> None:
    session = await at_prompt(broker)
    await broker.send(text="true", session_id="a", enter=True, wait_for="command", read="none")
    await broker.read(session_id="a", wait_for="ready")
    session.commands._sure = 0  # as if that had not been seen
    assert looked_at_processes(await session.look_at_prompt())


async def test_a_look_does_not_change(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    session = broker.registry.sessions["a"]
    look = await session.look()
    said = vars(look).copy()
    await broker.run("true", "a")
    assert (await session.look()).commands != look.commands
    assert {name: vars(look)[name] for name in said} == said
    with pytest.raises(AttributeError, match="frozen"):
        look.shell.number = 7  # type: ignore[misc]


async def test_the_last_line_is_that_of_the_look(broker: Broker) -> None:
    await broker.create_session("cat", name="a")
    session = broker.registry.sessions["a"]
    look = await session.look()
    with session.log.path.open("ab") as log:
        log.write(b"later")
    assert look.last_text == ""
    assert (await session.scan()).last_text == "later"


# ---- looking again and again ---------------------------------------------------------------------


class Growing:
    """Something that is seen, and changes."""

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.seen: list[float] = []

    def change(self) -> None:
        self.event.set()
        self.event = anyio.Event()

    async def see(self) -> LogView:
        self.seen.append(time.monotonic())
        return None  # type: ignore[return-value]

    def wakes(self, step_s: float, deadline: float) -> Looks[LogView]:
        return Looks(lambda: self.event, self.see, step_s, deadline)


async def test_a_change_wakes_at_once() -> None:
    growing = Growing()
    async with anyio.create_task_group() as tasks:
        async for _ in growing.wakes(3600, time.monotonic() + 60):
            if len(growing.seen) == 5:
                break
            tasks.start_soon(changed_by_another, growing)
    assert len(growing.seen) == 5


async def changed_by_another(growing: Growing) -> None:
    growing.change()


async def test_a_change_while_it_is_looked_at_is_not_missed() -> None:
    growing = Growing()

    async def see() -> LogView:
        growing.change()
        return await growing.see()

    with anyio.fail_after(60):
        async for _ in Looks(lambda: growing.event, see, 3600):
            if len(growing.seen) == 5:
                break


async def test_it_looks_after_each_step_until_the_deadline() -> None:
    growing = Growing()
    deadline = time.monotonic() + 0.5
    async for _ in growing.wakes(0.1, deadline):
        pass
    assert time.monotonic() >= deadline
    assert 2 <= len(growing.seen) <= 6


async def test_it_looks_once_when_the_deadline_is_over() -> None:
    growing = Growing()
    async for _ in growing.wakes(3600, time.monotonic() - 1):
        pass
    assert len(growing.seen) == 1


async def test_an_end_is_asked_of_tmux_when_the_launcher_has_gone(broker: Broker) -> None:
    await broker.create_session("cat", name="a")
    session = broker.registry.sessions["a"]
    session.live()
    await broker.send(key="C-d", session_id="a", wait_for="none")
    with session.watcher.waiting(session.log.path), anyio.fail_after(60):
        async for scan in session.scans(0.05):
            if scan.exited:
                break
    assert scan.exit_status == (0, None)
