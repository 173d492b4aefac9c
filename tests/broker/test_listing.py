"""The list of sessions: pages, their order, and what they cost."""

from __future__ import annotations

import itertools
import re

import anyio
import anyio.lowlevel
import pytest

from tmuxmcp.broker import listing
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.results import ListSessionsResult
from tmuxmcp.faces.cli.watch import table_of
from tmuxmcp.machine.witness.tty import TtyWitness
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux.control import ControlClient
from tmuxmcp.tmux.leaseoptions import user_name


def ids(page: ListSessionsResult) -> list[str]:
    return [row.session_id for row in page.sessions]


@pytest.fixture
async def five(broker: Broker) -> Broker:
    """Sessions a to e, of which b is over."""
    for name in "abcde":
        await broker.create_session("cat", name=name)
    await broker.send(key="C-d", session_id="b", wait_for="exit")
    return broker


async def test_pages_have_each_session_once_and_those_that_run_first(five: Broker):
    whole = await five.list_sessions()
    assert (ids(whole), whole.count, whole.next_after, whole.note) == (list("acdeb"), 5, None, None)
    first = await five.list_sessions(limit=2)
    assert (ids(first), first.count) == (["a", "c"], 5)
    assert first.note == f"3 more are not shown: list_sessions with after={first.next_after} goes on."
    # One that ends meanwhile, one that begins, and the one where the page ended: nobody is left out or told twice.
    await five.send(key="C-d", session_id="d", wait_for="exit")
    await five.destroy_session("c", force=True)
    await five.create_session("cat", name="f")
    second = await five.list_sessions(limit=2, after=first.next_after or "")
    last = await five.list_sessions(after=second.next_after or "")
    assert ids(second) == ["e", "f"]
    assert (ids(last), last.next_after) == (["b", "c", "d"], None)
    beside = await five.list_sessions(include_exited=False, limit=2, after=first.next_after or "")
    assert (ids(beside), beside.count, beside.next_after) == (["e", "f"], 3, None)
    for wrong in ("a", "2/x/a", "0/x"):
        with pytest.raises(InvalidArgument, match="no place in the list"):
            await five.list_sessions(after=wrong)


async def test_a_list_asks_only_for_the_rows_that_it_shows(five: Broker, monkeypatch: pytest.MonkeyPatch):
    looked: list[str] = []
    asked: list[bytes] = []
    look, request = TtyWitness.look, ControlClient.request
    monkeypatch.setattr(TtyWitness, "look", lambda self, leader: looked.append(self.tty) or look(self, leader))
    monkeypatch.setattr(
        ControlClient, "request", lambda self, line, timeout_s=5.0: asked.append(line) or request(self, line, timeout_s)
    )
    await five.list_sessions(limit=2)
    assert len(looked) == len(set(looked)) == 2
    assert len(asked) == 1


async def test_other_calls_have_their_turn_after_each_row(five: Broker, monkeypatch: pytest.MonkeyPatch):
    rows, turns = 0, []
    summary = listing.summary

    def counted(*arguments: object) -> object:
        nonlocal rows
        rows += 1
        return summary(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(listing, "summary", counted)

    async def others() -> None:
        while rows < 15:
            turns.append(rows)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as task_group:
        for _ in range(3):  # also of several lists at once
            task_group.start_soon(five.list_sessions)
        task_group.start_soon(others)
    assert max(after - before for before, after in itertools.pairwise(turns)) == 1


async def test_the_table_of_a_person_asks_for_no_facts_that_it_does_not_show(
    five: Broker, monkeypatch: pytest.MonkeyPatch
):
    await five.take("a")
    asked: list[str] = []
    monkeypatch.setattr(Session, "usage", lambda self: asked.append(f"usage of {self.id}"))
    request = ControlClient.request
    monkeypatch.setattr(
        ControlClient,
        "request",
        lambda self, line, timeout_s=5.0: asked.append(str(line)) or request(self, line, timeout_s),
    )
    lines = await table_of(five, await five.list_sessions(), None)
    cells = {line.split()[0]: re.split(r" {2,}", line) for line in lines[1:]}
    assert cells["a"][1].endswith(f", taken by {user_name()}")
    assert [cells[name][3] for name in "acdeb"] == ["cat", "cat", "cat", "cat", "-"]
    assert not [each for each in asked if each.startswith("usage")]
    assert sum("'list-" in each for each in asked) == 1  # by the list itself
