"""Past screens of real programs through changes of size are what tmux showed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.sessions.test_screens_past import looked, same
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r

SIZES = [(80, 24), (60, 12), (40, 20), (100, 30), (80, 24)]

Seen = list[tuple[int, r.ReadResult]]


async def press(broker: Broker, *keys: str) -> None:
    await broker.send(keys=list(keys), session_id="a", read="none")
    await broker.read(session_id="a", wait_for="ready", timeout_ms=int(10_000 * SLOW))


async def through_sizes(broker: Broker, do: Callable[[int], list[str]]) -> Seen:
    """Look before and after each change of size, and after keys that are pressed then."""
    seen = [await looked(broker)]
    for number, (cols, rows) in enumerate(SIZES[1:]):
        await broker.resize(cols=cols, rows=rows, session_id="a")
        seen.append(await looked(broker))
        await press(broker, *do(number))
        seen.append(await looked(broker))
    return seen


async def all_the_same(broker: Broker, seen: Seen) -> None:
    resizes = {each.offset: (each.cols, each.rows) for each in broker.registry.sessions["a"].events.resizes()}
    # Of several sizes that it had while nothing was printed, the last one counts.
    last = {
        offset: live for offset, live in seen if (live.cols, live.rows) == resizes.get(offset, (live.cols, live.rows))
    }
    assert len(last) >= len(SIZES)
    for offset, live in random.Random(1).sample(sorted(last.items(), key=lambda each: each[0]), len(last)):
        same(await broker.read(session_id="a", view="screen", at_offset=offset, format="ansi"), live)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Lines that are longer than the terminal is wide."""
    path = tmp_path / "text"
    path.write_text("".join(f"{number} " + "words and more words " * (number % 9) + "\n" for number in range(300)))
    return path


async def test_of_bash(broker: Broker, text: Path) -> None:
    await broker.create_session("bash", name="a")
    await broker.run(f"head -40 {text}", "a")
    await broker.read(session_id="a", wait_for="ready")
    await all_the_same(
        broker,
        await through_sizes(broker, lambda number: [{"text": f"head -{number * 7 + 3} {text}"}, "Enter"]),  # type: ignore[list-item]
    )


@pytest.mark.parametrize("program", ["vim", "less", "top"])
async def test_of_full_screen_programs(broker: Broker, text: Path, program: str) -> None:
    words = {"vim": f"vim -u NONE {text}", "less": f"less {text}", "top": "top -d 1000"}[program]
    keys = {"vim": ["C-f", "j", "d", "d"], "less": ["f", "b", "j"], "top": ["h", "q"]}[program]
    await broker.create_session("bash", name="a")
    await broker.run(f"head -40 {text}", "a")
    await broker.send(words, enter=True, session_id="a", timeout_ms=int(10_000 * SLOW))
    seen = await through_sizes(broker, lambda _: keys)
    await press(broker, *{"vim": [":", "q", "!", "Enter"]}.get(program, ["q"]))
    seen.append(await looked(broker))
    await all_the_same(broker, seen)
