"""A session's life: the table of what can happen to it, and the same with real tmux."""

from __future__ import annotations

import itertools
import shlex
import typing

import pytest

from tests.conftest import SLOW, end_server, eventually
from tests.kit.tmux import plain_tmux
from tmuxmcp.broker.broker import Broker
from tmuxmcp.sessions.life import (
    OVER_STATES,
    TRANSITIONS,
    DestroyedOnDisk,
    EndCause,
    EndRequested,
    Event,
    ImpossibleEvent,
    Life,
    OtherProgramRuns,
    PaneDied,
    PaneGone,
    ProgramRuns,
    ProgramStarted,
    SessionStarting,
    State,
    Told,
)
from tmuxmcp.sessions.session import Session

# ---- the table -----------------------------------------------------------------------------------

EVENTS: dict[type, Event] = {
    type(event): event
    for event in (
        SessionStarting(),
        ProgramStarted(),
        ProgramRuns(),
        OtherProgramRuns(),
        PaneDied(3),
        PaneGone(),
        EndRequested(EndCause.IDLE),
        DestroyedOnDisk(),
    )
}

WAYS: dict[State, list[Event]] = {
    State.UNSEEN: [],
    State.STARTING: [SessionStarting()],
    State.RUNNING: [ProgramRuns()],
    State.REPLACED: [OtherProgramRuns()],
    State.ENDED: [PaneDied(0)],
    State.LOST: [PaneGone()],
    State.DESTROYED: [ProgramRuns(), DestroyedOnDisk()],
}
"""How a session comes into each state."""


def life(*events: Event) -> Life:
    lived = Life()
    for event in events:
        lived.apply(event)
    return lived


def test_every_state_and_every_event_stands_in_the_table() -> None:
    assert set(TRANSITIONS) == set(State) == set(WAYS)
    assert set(EVENTS) == set(typing.get_args(Event))
    assert {event for row in TRANSITIONS.values() for event in row} == set(EVENTS)


@pytest.mark.parametrize(("state", "kind"), [*itertools.product(State, EVENTS)])
def test_an_event_leads_where_the_table_says_or_is_an_error(state: State, kind: type[Event]) -> None:
    lived = life(*WAYS[state])
    assert lived.state is state
    if kind in TRANSITIONS[state]:
        lived.apply(EVENTS[kind])
        assert lived.state is TRANSITIONS[state][kind]
    else:
        with pytest.raises(ImpossibleEvent):
            lived.apply(EVENTS[kind])
        assert lived.state is state


@pytest.mark.parametrize("state", [*State])
def test_whatever_tmux_tells_can_come(state: State) -> None:
    assert set(typing.get_args(Told)) <= set(TRANSITIONS[state])


@pytest.mark.parametrize("state", [*State])
def test_what_is_over_has_an_end_and_nothing_else_has(state: State) -> None:
    lived = life(*WAYS[state])
    assert (lived.end is not None) == lived.over == (state in OVER_STATES)


ENDS: dict[str, tuple[list[Event], tuple[EndCause, str] | None]] = {
    "a status": ([ProgramRuns(), PaneDied(3)], (EndCause.EXIT, "")),
    "a signal": ([ProgramRuns(), PaneDied(None, "KILL")], (EndCause.SIGNAL, "")),
    "tmux learns of the signal later": ([ProgramRuns(), PaneDied(), PaneDied(None, "KILL")], (EndCause.SIGNAL, "")),
    "the pane is gone": ([ProgramRuns(), PaneGone()], (EndCause.LOST, "")),
    "the pane goes after the end": ([ProgramRuns(), PaneDied(3), PaneGone()], (EndCause.EXIT, "")),
    "destroyed": (
        [ProgramRuns(), EndRequested(EndCause.DESTROYED, "c"), PaneDied(None, "HUP"), DestroyedOnDisk()],
        (EndCause.DESTROYED, "c"),
    ),
    "for being idle": (
        [ProgramRuns(), EndRequested(EndCause.IDLE), PaneGone(), DestroyedOnDisk()],
        (EndCause.IDLE, ""),
    ),
    "destroyed after its end": (
        [ProgramRuns(), PaneDied(3), EndRequested(EndCause.DESTROYED, "c"), DestroyedOnDisk()],
        (EndCause.EXIT, ""),
    ),
    "by another broker": ([ProgramRuns(), DestroyedOnDisk()], (EndCause.DESTROYED, "")),
    "by another broker, told late": ([ProgramRuns(), PaneGone(), DestroyedOnDisk()], (EndCause.DESTROYED, "")),
    "lives again": ([ProgramRuns(), PaneDied(3), OtherProgramRuns()], None),
    "ends again": (
        [ProgramRuns(), EndRequested(EndCause.IDLE), PaneDied(3), OtherProgramRuns(), PaneDied(4)],
        (EndCause.EXIT, ""),
    ),
}


@pytest.mark.parametrize(("events", "expected"), ENDS.values(), ids=ENDS.keys())
def test_the_reason_of_its_end(events: list[Event], expected: tuple[EndCause, str] | None) -> None:
    end = life(*events).end
    assert (end and (end.reason, end.by)) == expected


def test_the_time_of_its_end_is_when_it_was_first_told() -> None:
    lived = life(ProgramRuns(), PaneDied())
    first = lived.end
    lived.apply(PaneDied(3))
    assert first
    assert lived.end
    assert lived.end.at_s == first.at_s


def test_a_status_is_known_while_tmux_knows_it() -> None:
    assert life(ProgramRuns(), PaneDied(3)).exit_status == (3, None)
    assert life(ProgramRuns(), PaneDied(3), DestroyedOnDisk()).exit_status == (3, None)
    for later in (PaneGone(), OtherProgramRuns()):
        assert life(ProgramRuns(), PaneDied(3), later).exit_status == (None, None)
    assert life(PaneGone(), PaneDied(3)).exit_status == (None, None)  # an answer that was on its way


# ---- with tmux -----------------------------------------------------------------------------------


@pytest.fixture
async def session(broker: Broker) -> Session:
    await broker.create_session("cat", name="a")
    made = broker.registry.sessions["a"]
    assert made.life.state is State.RUNNING
    return made


def script(broker: Broker, words: str) -> None:
    """What a script does to the tmux server."""
    plain_tmux(broker.settings.state_dir, *shlex.split(words))


async def told(session: Session) -> tuple[State, EndCause | None]:
    await session.refresh()
    return session.life.state, session.life.end.reason if session.life.end else None


async def test_a_program_that_exits_has_ended(broker: Broker, session: Session) -> None:
    await broker.send(key="C-d", session_id="a", wait_for="exit", timeout_ms=int(20_000 * SLOW))
    assert await told(session) == (State.ENDED, EndCause.EXIT)
    assert session.life.exit_status == (0, None)


async def test_a_program_that_a_signal_ends_has_ended(broker: Broker, session: Session) -> None:
    await broker.signal("KILL", session_id="a")

    async def ended() -> bool:
        return await told(session) == (State.ENDED, EndCause.SIGNAL)

    await eventually(ended)
    assert session.life.exit_status == (None, "KILL")


async def test_a_session_whose_pane_was_killed_is_lost(broker: Broker, session: Session) -> None:
    script(broker, "kill-pane -t =a:")
    assert await told(session) == (State.LOST, EndCause.LOST)
    assert session.pane is None
    await broker.list_sessions()
    assert broker.registry.sessions["a"].life.state is State.LOST


async def test_a_session_whose_server_was_killed_is_lost(broker: Broker, session: Session) -> None:
    end_server(broker.settings.state_dir)
    assert (await broker.list_sessions()).sessions[0].mode == "lost"
    assert session.life.state is broker.registry.sessions["a"].life.state is State.LOST


async def test_a_pane_that_a_script_respawns_has_another_program(broker: Broker, session: Session) -> None:
    script(broker, "respawn-pane -k -t =a: 'exec sleep 600'")
    assert await told(session) == (State.REPLACED, None)
    script(broker, "respawn-pane -k -t =a: 'exit 4'")

    async def ended() -> bool:
        return await told(session) == (State.ENDED, EndCause.EXIT)

    await eventually(ended)
    assert session.life.exit_status == (4, None)
    script(broker, "respawn-pane -t =a: 'exec sleep 600'")
    assert await told(session) == (State.REPLACED, None)


async def test_a_destroyed_session_knows_who_wanted_it(broker: Broker, session: Session) -> None:
    await broker.by("c").destroy_session("a")
    assert session.life.state is State.DESTROYED
    assert session.life.end
    assert (session.life.end.reason, session.life.end.by) == (EndCause.DESTROYED, "c")


async def test_a_session_that_another_broker_destroys_is_not_lost(broker: Broker, session: Session) -> None:
    async with Broker.open(broker.settings) as other:
        await other.destroy_session("a")
    assert not (await broker.list_sessions(include_exited=False)).sessions
    assert session.life.state is State.DESTROYED
    assert session.life.end
    assert session.life.end.reason is EndCause.DESTROYED


async def test_a_session_that_another_broker_finds_runs(broker: Broker, session: Session) -> None:
    async with Broker.open(broker.settings) as other:
        assert other.registry.sessions["a"].life.state is State.RUNNING
