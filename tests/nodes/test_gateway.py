"""The gateway over machines that are not there: where calls go, what is told when one is away, what is made again."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.conftest import SLOW, eventually
from tests.nodes.fake import FakeMachine, FakeTransport
from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import (
    FleetFull,
    InvalidArgument,
    MaxSessions,
    NodeLost,
    NodeUnreachable,
    OutcomeUnknown,
    SessionExists,
    SessionNotFound,
    TmuxMcpError,
    Unauthorized,
    Unsupported,
)
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.nodes import gateway as gateway_module
from tmuxmcp.nodes import ids
from tmuxmcp.nodes.callnews import may_repeat
from tmuxmcp.nodes.gateway import Gateway


def a_fleet(*names: str, patience_s: float = 0.0, **options) -> tuple[Gateway, FakeTransport]:
    transport = FakeTransport(*(FakeMachine(each, **options) for each in names), patience_s=patience_s)
    return Gateway(transport, BrokerSettings(state_dir=Path("/nowhere"))), transport


async def test_a_call_goes_to_the_machine_of_its_id_and_comes_back_with_it():
    fleet, machines = a_fleet("n1", "n2")
    made = await fleet.create_session(name="build", placement=q.Placement(node="n2"))
    assert made.session_id == "build@n2"
    assert made.attach_command == "tmuxmcp attach build@n2"
    facts = await fleet.get_session("build@n2")
    assert (facts.session_id, facts.node) == ("build@n2", "n2")
    assert (await fleet.signal("INT", session_id="build@n2")).session_id == "build@n2"
    assert [type(each).__name__ for each in machines.there["n2"].asked] == ["CreateSession", "GetSession", "Signal"]
    assert machines.there["n2"].asked[-1] == q.Signal("INT", session_id="build")
    assert not machines.there["n1"].asked
    with pytest.raises(SessionNotFound) as missing:
        await fleet.get_session("other@n2")
    assert missing.value.details == {"session_id": "other@n2", "node": "n2"}


async def test_who_calls_travels_with_the_call():
    fleet, machines = a_fleet("n1")
    call = Call("agent-1", frozenset({"read", "write"}), person=False)
    await fleet.do(q.CreateSession(name="a"), call)
    assert machines.there["n1"].calls == [call]
    with pytest.raises(Unauthorized):
        await fleet.do(q.CreateSession(name="b"), Call("viewer", frozenset({"read"})))


async def test_a_machine_that_is_not_there_is_told_from_one_that_was_given_up():
    fleet, machines = a_fleet("n1", "n2")
    with pytest.raises(SessionNotFound, match="no machine n9"):
        await fleet.get_session("build@n9")
    with pytest.raises(InvalidArgument):
        await fleet.create_session(placement=q.Placement(node="n9"))
    machines.there["n2"].away = True
    with pytest.raises(NodeUnreachable):
        await fleet.get_session("build@n2")
    await machines.forget("n2")
    with pytest.raises(NodeLost) as lost:
        await fleet.signal("INT", session_id="build@n2")
    assert lost.value.details["session_id"] == "build@n2"


async def test_a_name_alone_is_looked_for_on_all_machines():
    fleet, machines = a_fleet("n1", "n2", "n3")
    machines.there["n2"].owners["build"] = ""
    assert (await fleet.get_session("build")).session_id == "build@n2"
    with pytest.raises(SessionNotFound):
        await fleet.get_session("other")
    machines.there["n3"].away = True
    assert (await fleet.get_session("build")).session_id == "build@n2"
    with pytest.raises(NodeUnreachable) as may_be_there:  # and it may be another one
        await fleet.signal("INT", session_id="build")
    assert may_be_there.value.details["missing"] == ["n3"]
    with pytest.raises(NodeUnreachable):
        await fleet.get_session("other")
    machines.there["n1"].owners["build"] = ""
    with pytest.raises(InvalidArgument, match="n1, n2"):
        await fleet.get_session("build")


async def test_what_changes_something_is_never_sent_twice():
    fleet, machines = a_fleet("n1", patience_s=10.0)
    there = machines.there["n1"]
    there.owners["a"] = ""
    there.breaks = 1
    with pytest.raises(OutcomeUnknown) as unknown:
        await fleet.signal("INT", session_id="a@n1")
    assert unknown.value.details == {"node": "n1", "session_id": "a@n1"}
    assert len(there.asked) == 1
    there.breaks = 1
    with pytest.raises(OutcomeUnknown, match="get_session of b@n1"):
        await fleet.create_session(name="b")
    assert [type(each) for each in there.asked].count(q.CreateSession) == 1
    assert (await fleet.get_session("b@n1")).session_id == "b@n1"
    there.away = True
    with pytest.raises(NodeUnreachable):  # at once: it is for the caller to try again
        await fleet.signal("INT", session_id="a@n1")


async def test_a_look_is_asked_for_again_within_patience():
    fleet, machines = a_fleet("n1", patience_s=10.0)
    there = machines.there["n1"]
    there.owners["a"] = ""
    there.breaks = 2
    assert (await fleet.search("x", "a@n1")).session_id == "a@n1"
    assert len(there.asked) == 3
    machines.patience_s, there.breaks = 0.0, 9
    with pytest.raises(NodeUnreachable):  # nothing was changed, so that is no unknown outcome
        await fleet.search("x", "a@n1")


REPEATED = {
    "list_sessions", "get_session", "list_commands", "search", "screenshot", "read_file", "list_directory",
    "git_status", "git_log", "git_diff", "health",
}  # fmt: skip


def test_every_operation_says_whether_it_may_be_made_again():
    needed = {
        "path": "a", "command": "a", "session_id": "a", "pattern": "a", "argv": ["a"], "data": "a", "r2_id": "a",
        "gdb_id": "a", "signal": "INT", "action": "click", "rows": 24, "cols": 80,
    }  # fmt: skip
    for name, row in OPERATIONS.items():
        action = {"editor_action": "save", "pager_action": "next"}.get(name, "click")
        given = {each: needed[each] for each in row.arguments if each not in row.defaults} | (
            {"action": action} if "action" in row.arguments else {}
        )
        assert may_repeat(row.parse(given)) == (name in REPEATED), name
    for request, again in (
        (q.Read("new"), False),
        (q.Read("screen"), False),
        (q.Read("raw", since=0), True),
        (q.Read("new", since=5, wait_for="command"), False),
        (q.Read("screen", at_ms=0), True),
        (q.Read("screen", at_offset=1), True),
    ):
        assert may_repeat(request) == again, request


async def test_sessions_go_where_there_is_room_and_labels_fit():
    fleet, machines = a_fleet("n1", "n2", "n3", room=4)
    machines.there["n3"].labels = {"gpu": "yes"}
    for _ in range(4):
        assert (await fleet.create_session(placement=q.Placement(labels={"gpu": "yes"}))).session_id.endswith("@n3")
    with pytest.raises(FleetFull) as full:
        await fleet.create_session(placement=q.Placement(labels={"gpu": "yes"}))
    assert full.value.details == {"labels": {"gpu": "yes"}, "full": ["n3"], "missing": []}
    with pytest.raises(FleetFull):
        await fleet.create_session(placement=q.Placement(labels={"gpu": "no"}))
    machines.there["n2"].drained = True
    fleet._looked_at = -1e9
    with pytest.raises(FleetFull, match="drained"):
        await fleet.create_session(placement=q.Placement(node="n2"))
    for _ in range(4):
        assert (await fleet.create_session()).session_id.endswith("@n1")
    with pytest.raises(FleetFull):
        await fleet.create_session()


async def test_the_broker_has_the_last_word_on_room():
    fleet, machines = a_fleet("n1", "n2", room=2)
    await fleet.machines()
    for number in range(2):  # another gateway was faster
        machines.there["n1"].owners[f"theirs{number}"] = ""
    assert {(await fleet.create_session()).session_id.rpartition("@")[2] for _ in range(2)} == {"n2"}


async def test_a_machine_that_is_away_gets_no_sessions():
    fleet, machines = a_fleet("n1", "n2")
    await fleet.machines()
    machines.there["n1"].away = True
    assert (await fleet.create_session()).session_id.endswith("@n2")
    machines.there["n2"].away = True
    with pytest.raises(NodeUnreachable):
        await fleet.create_session()


async def test_two_choices_spread_sessions():
    fleet, machines = a_fleet(*(f"n{number}" for number in range(8)), room=1000)
    for _ in range(200):
        await fleet.create_session()
    placed = machines.placed()
    assert sum(placed.values()) == 200
    assert max(placed.values()) - min(placed.values()) <= 5
    assert machines.looks < 100  # what it made itself, it counts itself


async def test_a_list_that_is_not_whole_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateway_module, "LIST_S", 0.05)
    fleet, machines = a_fleet("n1", "n2", "n3")
    for name, there in machines.there.items():
        there.owners[f"on-{name}"] = ""
    whole = await fleet.list_sessions()
    assert (whole.count, whole.missing, whole.note) == (3, [], None)
    machines.there["n2"].hangs = machines.there["n3"].away = True
    part = await fleet.list_sessions()
    assert [(each.session_id, each.node) for each in part.sessions] == [("on-n1@n1", "n1")]
    assert part.missing == ["n2", "n3"]
    assert "n2, n3" in (part.note or "")


async def test_pages_of_a_list_have_each_session_once():
    fleet, machines = a_fleet("n1", "n2", "n3")
    names = {"n1": "abcd", "n2": "ax", "n3": "abz"}
    for node, own in names.items():
        machines.there[node].owners.update(dict.fromkeys(own, ""))
    for limit in (1, 2, 3, 4, 100):
        found, after = [], ""
        for _ in range(12):
            page = await fleet.list_sessions(limit=limit, after=after)
            assert page.count == 9
            found += [each.session_id for each in page.sessions]
            after = page.next_after or ""
            if not after:
                break
        assert sorted(found) == sorted(f"{name}@{node}" for node, own in names.items() for name in own), limit


async def test_the_default_session_is_placed_once_and_found_again():
    fleet, machines = a_fleet("n1", "n2", "n3")
    first = (await fleet.get_session()).session_id
    assert (await fleet.get_session()).session_id == first
    another = Gateway(machines, BrokerSettings(state_dir=Path("/nowhere")))
    assert (await another.get_session()).session_id == first
    assert (await another.list_sessions()).default_session_id == first
    assert (await another.by("somebody-else").get_session()).session_id != first
    # A machine more does not move it, and a drained one keeps it.
    machines.there["n0"] = FakeMachine("n0")
    machines.there[first.rpartition("@")[2]].drained = True
    third = Gateway(machines, BrokerSettings(state_dir=Path("/nowhere")))
    assert (await third.get_session()).session_id == first


async def test_no_second_default_session_is_made_while_its_machine_is_away():
    for caller in ("a", "b", "c", "d"):
        fleet, machines = a_fleet("n1", "n2", "n3")
        first = (await fleet.by(caller).get_session()).session_id
        machines.there[first.rpartition("@")[2]].away = True
        for gateway in (fleet, Gateway(machines, BrokerSettings(state_dir=Path("/nowhere")))):
            with pytest.raises(NodeUnreachable):
                await gateway.by(caller).get_session()
        assert sum(machines.placed().values()) == 1


async def test_no_second_default_session_is_made_where_there_is_room_again():
    fleet, machines = a_fleet("n1", "n2", "n3", room=1)
    first, second, _ = ids.ranked(["n1", "n2", "n3"], "a")
    machines.there[first].owners["full"] = ""
    own = (await fleet.by("a").get_session()).session_id
    assert own.endswith(f"@{second}")
    del machines.there[first].owners["full"]
    machines.there[second].away = True
    with pytest.raises(NodeUnreachable) as away:
        await Gateway(machines, BrokerSettings(state_dir=Path("/nowhere"))).by("a").get_session()
    assert away.value.details["missing"] == [second]
    assert not machines.there[first].owners
    await machines.forget(second)  # an operator says that it is lost
    another = Gateway(machines, BrokerSettings(state_dir=Path("/nowhere")))
    assert (await another.by("a").get_session()).session_id.endswith(f"@{first}")


async def test_a_wait_ends_with_the_first_machine_and_the_others_are_told_to_end(monkeypatch: pytest.MonkeyPatch):
    fleet, machines = a_fleet("n1", "n2", "n3")
    monkeypatch.setattr(gateway_module, "ENOUGH_S", 0.3 * SLOW)
    machines.there["n3"].hears = False
    for there in machines.there.values():
        there.owners["a"], there.ready_after_s = "", 1000.0
    machines.there["n2"].ready_after_s = 0.01
    answer = await fleet.wait(["a@n1", "a@n2", "a@n3"])
    assert (answer.session_id, answer.outcome, answer.missing) == ("a@n2", "ready", [])
    assert [(each.session_id, each.outcome) for each in answer.sessions] == [
        ("a@n1", None),
        ("a@n2", "ready"),
        ("a@n3", None),
    ]
    assert (machines.there["n1"].ended, machines.there["n1"].cancelled) == (1, 0)
    assert (machines.there["n3"].ended, machines.there["n3"].cancelled) == (0, 1)


async def test_a_wait_goes_on_without_a_machine_that_is_away():
    fleet, machines = a_fleet("n1", "n2")
    for there in machines.there.values():
        there.owners["a"] = ""
    machines.there["n1"].away = True
    answer = await fleet.wait(["a@n1", "a@n2"])
    assert (answer.session_id, answer.missing) == ("a@n2", ["n1"])
    machines.there["n2"].away = True
    with pytest.raises(NodeUnreachable):
        await fleet.wait(["a@n1", "a@n2"])
    with pytest.raises(NodeUnreachable):
        await fleet.wait()


async def test_a_call_that_is_given_up_is_cancelled_there():
    fleet, machines = a_fleet("n1")
    machines.there["n1"].owners["a"], machines.there["n1"].hangs = "", True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fleet.get_session, "a@n1")
        await eventually(lambda: machines.there["n1"].asked)
        tasks.cancel_scope.cancel()
    assert machines.there["n1"].cancelled == 1


async def test_who_waits_is_told_that_time_passes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateway_module, "PROGRESS_EVERY_S", 0.01)
    fleet, machines = a_fleet("n1")
    machines.there["n1"].owners["a"], machines.there["n1"].ready_after_s = "", 0.1
    told = []

    async def progress(elapsed_s: float, last_line: str) -> None:
        told.append(elapsed_s)

    call = Call("a", progress=progress)
    assert (await fleet.do(q.Wait(["a@n1"]), call)).session_id == "a@n1"
    assert told
    with pytest.raises(TmuxMcpError, match="None"):
        await fleet.do(q.GetSession("b@n1"), call)


async def test_paths_say_on_which_machine_they_are_meant():
    fleet, machines = a_fleet("n1", "n2")
    for node in ("n1", "n2"):
        await fleet.read_file(f"{node}:/etc/hosts")
        assert machines.there[node].asked[-1] == q.ReadFile("/etc/hosts")
    home = (await fleet.get_session()).session_id.rpartition("@")[2]
    await fleet.read_file("/etc/hosts")
    assert machines.there[home].asked[-1] == q.ReadFile("/etc/hosts")


async def test_a_name_is_used_again_on_another_machine_only():
    fleet, machines = a_fleet("n1", "n2")
    await fleet.create_session(name="build", placement=q.Placement(node="n1"))
    await fleet.create_session(name="build", placement=q.Placement(node="n2"))
    with pytest.raises(SessionExists) as exists:
        await fleet.create_session(name="build", placement=q.Placement(node="n1"))
    assert exists.value.details == {"session_id": "build@n1", "node": "n1"}
    assert machines.placed() == {"n1": 1, "n2": 1}


async def test_who_subscribed_is_told_of_changes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateway_module, "CHANGES_LOOK_S", 0.01)
    fleet, machines = a_fleet("n1", "n2")
    told = []

    async def changed() -> None:
        told.append(fleet.session_ids)

    async with anyio.create_task_group() as tasks:
        await tasks.start(fleet.notify, changed)
        assert fleet.listeners == 1
        machines.there["n2"].owners["new"] = ""
        await eventually(lambda: told)
        machines.there["n1"].away = True  # a look that fails is no change by itself
        await eventually(lambda: machines.there["n2"].asked[-1:] and len(machines.there["n2"].asked) > 5)
        tasks.cancel_scope.cancel()
    assert told[0] == {"new@n2"}
    assert fleet.listeners == 0


async def test_a_default_session_for_which_there_is_no_room_is_placed_elsewhere_the_next_time():
    fleet, machines = a_fleet("n1", "n2", room=1)
    first = ids.ranked(["n1", "n2"], "library")[0]
    await fleet.machines()
    machines.there[first].full_for_default = True
    with pytest.raises(MaxSessions):
        await fleet.get_session()
    machines.there[first].owners["other"] = ""
    fleet._looked_at = -1e9
    assert not (await fleet.get_session()).session_id.endswith(f"@{first}")


async def test_a_fleet_gives_no_panes_and_says_where_one_is_to_be_had():
    fleet, _ = a_fleet("n1")
    with pytest.raises(Unsupported) as refused:
        await fleet.pane("a@n1")
    assert "open_broker()" in refused.value.hint
