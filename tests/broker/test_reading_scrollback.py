"""`view=scrollback`: the lines that tmux has in its history, by number, of logs of any size."""

from __future__ import annotations

import re
import tracemalloc

from tests.kit.tmux import plain_tmux
from tests.terminal.conftest import trimmed
from tmuxmcp.broker.broker import Broker


def history(broker: Broker, name: str) -> list[str]:
    """Scrollback and screen as tmux has them."""
    words = ("capture-pane", "-p", "-J", "-S", "-", "-t", f"={name}:")
    return trimmed(plain_tmux(broker.settings.state_dir, *words).split("\n"))


async def scrollback(broker: Broker, **arguments: int) -> list[str]:
    result = await broker.read("scrollback", "a", max_bytes=16 << 20, **arguments)
    return result.content.split("\n")[:-1]


PRINTED = [
    "seq 700",
    "seq -s ' ' 3000",
    r"for n in $(seq 200); do printf '\r%d%%' $n; done; echo",
    r"for n in $(seq 200); do printf '\e[1A\e[2K%d\n' $n; done",
    r"printf '\e[31m%s\e[0m\n' red green 日本語",
]


async def test_lines_are_those_of_tmux(broker: Broker):
    await broker.create_session("bash", name="a", cols=60)
    await broker.run("PS1='$ '", "a")  # no line fills its row: tmux joins to that what the command prints
    for command in PRINTED:
        await broker.run(command, "a")
    await broker.send("", key="Enter", session_id="a")
    lines = history(broker, "a")
    assert len(lines) > 700
    assert trimmed(await scrollback(broker, offset=0, limit=100_000)) == lines
    assert trimmed(await scrollback(broker, offset=300, limit=7)) == lines[300:307]
    assert trimmed(await scrollback(broker, limit=5)) == lines[-5:]


async def test_only_the_last_lines_are_kept(broker: Broker):
    await broker.create_session("bash", name="a", scrollback_lines=50)
    await broker.run("seq 10000", "a")
    await broker.read("screen", "a", wait_for="ready")  # its prompt is a line as well
    lines = await scrollback(broker, offset=0)
    assert len(lines) == 50
    assert lines[:-1] == [str(number) for number in range(9952, 10001)]
    assert await scrollback(broker, offset=60) == []


async def test_lines_drawn_over_count_once(broker: Broker):
    """A bar of two lines, drawn again and again, is many newlines and two lines."""
    await broker.create_session("bash", name="a", scrollback_lines=100)
    drawn = r"\033[2A\033[2Ka %d\n\033[2Kb %d\n"
    bar = f"""printf '\\n\\n'; awk 'BEGIN {{ for (n = 1; n <= 50000; n++) printf "{drawn}", n, n }}'"""
    await broker.run(f"seq 500; {bar}", "a", timeout_ms=50_000)
    await broker.read("screen", "a", wait_for="ready")  # its prompt is a line as well
    lines = await scrollback(broker, offset=0)
    assert len(lines) == 100
    assert lines[-3:-1] == ["a 50000", "b 50000"]
    assert lines[-4] == "500"


async def test_memory_does_not_grow_with_the_log(broker: Broker):
    await broker.create_session("bash", name="a")
    await broker.run("seq 2000000", "a", timeout_ms=50_000)
    tracemalloc.start()
    try:
        assert len(await scrollback(broker, offset=0, limit=10)) == 10
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


async def test_of_a_line_longer_than_max_bytes_both_ends_are_shown(broker: Broker):
    await broker.create_session("sh", ["-c", "echo a; printf '<%05000d>\\n' 0; echo b"], name="a", wait_ready=False)
    new = (await broker.read(session_id="a", wait_for="exit", max_bytes=600)).content
    for where in ({"offset": 1}, {"offset": 1, "limit": 1}):
        shown = await broker.read("scrollback", "a", max_bytes=600, **where)
        assert shown.content.startswith("<000")
        assert shown.content.endswith("000>\n")
        assert len(shown.content) <= 600
        assert (shown.truncated, "line 1 of 3" in (shown.note or "")) == (True, True)
        found = re.search(r"view=scrollback offset=(\d+) limit=(\d+) max_bytes=(\d+) gives it whole", shown.content)
        assert found
        offset, limit, most = map(int, found.groups())
        whole = await broker.read("scrollback", "a", offset=offset, limit=limit, max_bytes=most)
        assert whole.content == f"<{'0' * 5000}>\n"
    assert new.startswith("a\n<000")
    assert new.endswith("000>\nb\n")
