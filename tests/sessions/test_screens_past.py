"""Past screens: what tmux showed when so much had been printed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW, TMUX, eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import InvalidArgument, IoError, NotRetained, TimedOut
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind, packed_screen
from tmuxmcp.record.past.replaying import Past
from tmuxmcp.sessions import screens
from tmuxmcp.sessions.screens import screen_at


def done(*argv: str) -> None:
    subprocess.run(argv, check=True)


async def looked(broker: Broker, session_id: str = "a") -> tuple[int, r.ReadResult]:
    """The size of the log, and what tmux shows of it: nothing is printed in between."""
    session = broker.registry.sessions[session_id]

    async def look() -> tuple[int, r.ReadResult] | None:
        size = session.log.size()
        shown = await broker.read(session_id=session_id, view="screen", format="ansi")
        return (size, shown) if await session.log_complete(size) else None

    return await eventually(look, 20)


def same(then: r.ReadResult, live: r.ReadResult) -> None:
    for name in ("content", "cursor", "rows", "cols", "highlights", "title", "lines", "sanitized"):
        assert getattr(then, name) == getattr(live, name), name
    assert not then.approximate


async def test_a_past_screen_is_what_tmux_showed(broker: Broker) -> None:
    await broker.create_session("bash", name="a", rows=12, cols=60)
    seen = []
    for command in (
        r"printf 'one\r\n\033[1;31mred\033[4mline\033[m\033]2;title\007\033[5;9Hplace\n'",
        r"printf '\033[?1049h\033[2J\033[3;3Hfull \033[7mscreen\033[m'; seq 3",
        r"printf '\033[?1049l'; seq 40; printf '\033[38;5;200mcolour\033[48;2;1;2;3m深い\033[m\n'",
    ):
        await broker.run(command, "a")
        await broker.read(session_id="a", wait_for="ready")
        seen.append(await looked(broker))
    assert len({offset for offset, _ in seen}) == 3
    for offset, live in reversed(seen):
        same(await broker.read(session_id="a", view="screen", at_offset=offset, format="ansi"), live)
        plain = await broker.read(session_id="a", view="screen", at_offset=offset)
        assert "\x1b" not in plain.content
    blank = await broker.read(session_id="a", view="screen", at_offset=0)
    assert (blank.content, blank.cursor) == ("", r.CursorPosition(row=0, col=0, visible=True))


async def test_the_cursor_behind_the_last_column(broker: Broker) -> None:
    await broker.create_session("bash", name="a", cols=20)
    await broker.send(r"clear; printf '%020d' 7; read", enter=True, session_id="a")
    offset, live = await looked(broker)
    assert live.cursor
    assert live.cursor.col == 20
    same(await broker.read(session_id="a", view="screen", at_offset=offset, format="ansi"), live)


@pytest.mark.parametrize("printed", [17, 20])
async def test_the_cursor_stays_on_a_screen_that_becomes_narrower(broker: Broker, printed: int) -> None:
    """tmux leaves it beyond the edge of an alternate screen, until something is printed."""
    await broker.create_session("bash", name="a", cols=20)
    line = f"clear; printf '\\033[?1049h%0{printed}d' 7; read"
    await broker.send(line, enter=True, session_id="a", timeout_ms=int(10_000 * SLOW))
    await broker.resize(cols=15, rows=24, session_id="a")
    offset, live = await looked(broker)
    assert live.cursor
    assert live.cursor.col == 15
    same(await broker.read(session_id="a", view="screen", at_offset=offset, format="ansi"), live)


async def test_it_tells_facts_of_then(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    end = (await broker.run("echo one; exit 3", "a")).end_offset
    await broker.read(session_id="a", wait_for="exit")
    then = await broker.read(session_id="a", view="screen", at_offset=end - 1)
    assert (then.mode, then.exited, then.exit_code, then.ended, then.command, then.screen_id) == (None,) * 6
    assert (then.outcome, then.waited_ms, then.next_offset, then.has_new_content) == ("immediate", 0, end - 1, False)
    assert "one" in then.content


async def test_the_screen_at_the_end_of_a_command(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    await broker.run("clear; echo first", "a")
    await broker.run("clear; echo second", "a")
    assert (await broker.read(session_id="a", view="screen", command=1)).content == "first"
    last = await broker.read(session_id="a", view="screen", command=-1)
    assert (last.content, last.cursor) == ("second", r.CursorPosition(row=1, col=0, visible=True))
    with pytest.raises(InvalidArgument, match="no command 9"):
        await broker.read(session_id="a", view="screen", command=9)


async def test_nobody_is_taken_to_have_seen_it(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    ran = await broker.run("echo one", "a")
    await broker.read(session_id="a", wait_for="ready")
    first = await broker.read(session_id="a", view="screen")
    new = await broker.read(session_id="a")
    await broker.read(session_id="a", view="screen", at_offset=ran.start_offset)
    assert (await broker.read(session_id="a", view="diff")).changed_rows == []
    assert (await broker.read(session_id="a")).next_offset >= new.next_offset
    assert (await broker.read(session_id="a", view="screen")).screen_id == first.screen_id


@pytest.mark.parametrize(
    "arguments",
    [
        {"view": "new", "at_offset": 0},
        {"view": "diff", "at_offset": 0},
        {"at_offset": 0, "wait_for": "ready"},
        {"at_offset": 0, "since": 0},
        {"at_offset": 0, "command": 1},
        {"command": 1, "wait_for": "ready"},
        {"at_offset": 0, "screen_id": "0" * 12},
    ],
)
async def test_what_does_not_go_with_it_is_refused(broker: Broker, arguments: dict[str, Any]) -> None:
    await broker.create_session("cat", name="a")
    with pytest.raises(InvalidArgument, match="does not go with"):
        await broker.read(**{"session_id": "a", "view": "screen"} | arguments)


async def test_what_was_not_printed_yet_has_no_screen(broker: Broker) -> None:
    await broker.create_session("cat", name="a")
    with pytest.raises(InvalidArgument, match="behind the end"):
        await broker.read(session_id="a", view="screen", at_offset=10**9)


async def test_sessions_that_are_gone_have_a_past(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    end = (await broker.run("clear; echo earlier", "a")).end_offset
    await broker.destroy_session("a", force=True)
    assert "earlier" in (await broker.read(session_id="a", view="screen", at_offset=end)).content
    await broker.create_session("bash", name="a")
    later = (await broker.run("clear; echo later", "a")).end_offset
    assert "earlier" in (await broker.read(session_id="a", view="screen", at_offset=end, generation=1)).content
    assert "later" in (await broker.read(session_id="a", view="screen", at_offset=later)).content
    socket = str(broker.settings.state_dir / "tmux.sock")
    done(TMUX, "-N", "-S", socket, "kill-session", "-t", "=a")
    assert "later" in (await broker.read(session_id="a", view="screen", at_offset=later)).content
    assert (await broker.get_session("a")).mode == "lost"


async def test_without_the_head_it_is_approximate_or_not_kept(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    end = (await broker.run("clear; seq 100000", "a")).end_offset
    await broker.read(session_id="a", wait_for="ready")
    session = broker.registry.sessions["a"]
    head = 64 * 1024
    done("fallocate", "-p", "-o", "0", "-l", str(head), str(session.log.path))
    assert session.log.head() == head
    with pytest.raises(NotRetained) as refused:
        await broker.read(session_id="a", view="screen", at_offset=head - 1)
    assert refused.value.details == {"first_offset": head, "first_ms": None}
    then = await broker.read(session_id="a", view="screen", at_offset=end)
    assert then.approximate
    assert "99999" in then.content


async def test_with_a_checkpoint_the_head_is_not_missed(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    ran = await broker.run(r"printf '\033[2J\033[Hstays'; seq 20000 | tr '\n' '\r'; echo end", "a")
    session = broker.registry.sessions["a"]
    exact, middle = await screen_at(session, ran.end_offset), ran.start_offset + 70_000
    between = await screen_at(session, middle)
    Checkpoints(session.directory).add(RecordKind.SCREEN, middle, packed_screen(between), cost_ms=1, happened=0)
    broker.registry.past.close()
    broker.registry.past = session.past = Past()
    done("fallocate", "-p", "-o", "0", "-l", "65536", str(session.log.path))
    again = await screen_at(session, ran.end_offset)
    assert again == exact
    assert not again.approximate
    done("fallocate", "-p", "-o", "0", "-l", "73728", str(session.log.path))
    assert await screen_at(session, middle) == between
    with pytest.raises(NotRetained):
        await screen_at(session, middle + 1)


async def test_lost_output_makes_it_approximate(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    end = (await broker.run("clear; echo one", "a")).end_offset
    session = broker.registry.sessions["a"]
    assert not (await screen_at(session, end)).approximate
    with session.directory.events.open("ab") as file:
        file.write(b'{"time":"","offset":%d,"event":"gap"}\n' % end)
    assert (await screen_at(session, end)).approximate
    assert not (await screen_at(session, end - 1)).approximate


async def test_a_size_that_somebody_else_set_makes_it_approximate(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    first = (await broker.run("echo one", "a")).end_offset
    assert not (await broker.read(session_id="a", view="screen", at_offset=first)).approximate
    done(TMUX, "-S", str(broker.settings.state_dir / "tmux.sock"), "resize-window", "-t", "=a:", "-x", "50")
    assert (await broker.read(session_id="a", view="screen", at_offset=first)).approximate
    await broker.resize(cols=60, session_id="a")
    assert (await broker.read(session_id="a", view="screen", at_offset=first)).approximate
    end = (await broker.run("clear", "a")).end_offset
    assert not (await broker.read(session_id="a", view="screen", at_offset=end)).approximate


async def test_a_second_look_needs_no_process(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    end = (await broker.run("seq 100", "a")).end_offset
    session = broker.registry.sessions["a"]
    first = await screen_at(session, end)
    broker.registry.past.close()
    assert await screen_at(session, end) == first
    assert not broker.registry.past.busy


async def test_a_look_that_takes_long_goes_on_at_the_next_one(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    await broker.create_session("bash", name="a")
    end = (await broker.run("seq 200000", "a", timeout_ms=int(60_000 * SLOW))).end_offset
    session = broker.registry.sessions["a"]
    monkeypatch.setattr(screens, "STRETCH_S", 0)
    monkeypatch.setattr(screens, "PAST_LOOK_S", 0.01)
    tries = 0
    written = Checkpoints(session.directory)

    async def look() -> bool:
        nonlocal tries
        tries += 1
        try:
            return bool(await screen_at(session, end))
        except TimedOut:
            return False

    await eventually(look, 60)
    assert tries > 1
    offsets = [each.offset for each in written.records()]
    assert offsets
    assert offsets[-1] < end


async def test_a_process_that_dies_is_an_error_and_not_a_hang(broker: Broker, tmp_path: Path) -> None:
    await broker.create_session("bash", name="a")
    end = (await broker.run("seq 100", "a")).end_offset
    session = broker.registry.sessions["a"]
    crash = tmp_path / "crash.py"
    crash.write_text("raise SystemExit")
    broker.registry.past.close()
    broker.registry.past.replaying.script = crash
    with pytest.raises(IoError, match="cannot be replayed"):
        await screen_at(session, end)
