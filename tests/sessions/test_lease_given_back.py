"""A person gives a session back, and several brokers notice."""

from __future__ import annotations

import os
import time

import anyio

from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import iso
from tmuxmcp.machine import locks
from tmuxmcp.record.events import Events, GivenBackEvent
from tmuxmcp.sessions import lease
from tmuxmcp.tmux import leases, panes
from tmuxmcp.tmux.leaseoptions import NotedGiveBack


async def test_of_brokers_that_notice_a_give_back_together_one_writes_it_down(broker: Broker):
    made = await broker.create_session(program="cat")
    session = broker.registry.sessions[made.session_id]
    taken = await lease.take(session, "cli")
    fd = locks.open_lock(session.directory.events)
    assert locks.take(fd)
    assert await leases.release(session.tmux, session.live(), taken, "release", time.time())
    pane = await panes.find_pane(session.tmux, session.live().pane_id, session.id)
    assert pane
    [given] = NotedGiveBack.parse(pane.given)
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(session.refresh)
        await anyio.sleep(0.1)  # time to do it wrongly
        written = GivenBackEvent(iso(time.time()), 0, taken.by, taken.since or "", iso(given.until_s), "release")
        Events(session.directory).append(written)
        os.close(fd)
    assert [each for each in session.events.leases() if isinstance(each, GivenBackEvent)] == [written]
