from __future__ import annotations

import os
import random
import resource
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path

import anyio
import psutil
import pytest

from tests.conftest import SLOW, eventually
from tmuxmcp.gate.policy import parsing as module
from tmuxmcp.gate.policy.parsing import Parsing
from tmuxmcp.gate.policy.shelltext import UNKNOWN_COMMAND, SimpleCommand
from tmuxmcp.machine import helper

CRASHES = "{\U000e0d2e"
"""Ends a fresh tree-sitter-bash with SIGSEGV."""

SLOW_TEXT = "<<a\n" * 16_000
"""Keeps it busy for longer than the limit."""

HERE_DOCUMENT = "cat <<'E'\n" + "some text $x\n" * 80_000 + "E\nrm"
"""A megabyte that is read in no time."""


@pytest.fixture
async def parsing(anyio_backend: str) -> AsyncIterator[Parsing]:
    """Its process has started; afterwards it is gone."""
    before = parser_processes()
    with closing(Parsing()) as parsing:
        assert await programs(parsing, "ls") == ["ls"]
        yield parsing
    assert set(parser_processes()) <= set(before)


def parser_processes() -> list[psutil.Process]:
    """The children of ours that parse, zombies too."""
    found = []
    for each in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # one of another test ends just now
            if each.status() == psutil.STATUS_ZOMBIE or "/parser.py" in str(each.cmdline()):
                found.append(each)
    return found


def process_of(parsing: Parsing) -> psutil.Process:
    assert parsing.process
    return psutil.Process(parsing.process.pid)


async def programs(parsing: Parsing, text: str) -> list[str | None]:
    with anyio.fail_after(100 * SLOW):
        return [each.program for each in await parsing.of_text(text, "/w", "/h")]


async def test_answers_of_a_text_and_of_a_program(parsing: Parsing):
    found = await parsing.of_text("cd ~/x; bash -c 'a >y' | b \udcff", "/w", "/h")
    assert found == [
        SimpleCommand(("cd", "/h/x"), (), ("/w",)),
        SimpleCommand(("bash", "-c", "a >y"), (), ("/w", "/h/x")),
        SimpleCommand(("a",), ("y",), ("/w", "/h/x"), written=("y",)),
        SimpleCommand(
            ("b", "\udcff"), (), ("/w", "/h/x"), True, (SimpleCommand(("bash",)), SimpleCommand(("a",), ("y",)))
        ),
    ]
    assert await parsing.of_program(["env", "rm"], None) == [SimpleCommand(("env", "rm")), SimpleCommand(("rm",))]
    assert await parsing.of_text("", "/w", "/h") == []
    assert await parsing.of_text(None, "/w", "/h") == [UNKNOWN_COMMAND]


async def test_text_that_crashes_the_parser_is_not_understood(parsing: Parsing):
    assert UNKNOWN_COMMAND in await parsing.of_text(CRASHES, "/w", "/h")
    assert await programs(parsing, "ls") == ["ls"]
    argv = ["bash", "-c", CRASHES]
    assert await parsing.of_program(argv, "/w") == [SimpleCommand(tuple(argv), cwds=("/w",)), UNKNOWN_COMMAND]
    assert await programs(parsing, "ls") == ["ls"]


async def test_text_that_is_no_unicode_is_not_understood(parsing: Parsing, caplog: pytest.LogCaptureFixture):
    assert await programs(parsing, "ls \ud800") == [None]
    assert caplog.messages == ["the parser of shell text gave no answer: UnicodeEncodeError"]


async def test_texts_of_that_plane_have_answers(parsing: Parsing):
    rng = random.Random(1)
    for _ in range(100):
        far = chr(rng.randrange(0xE0000, 0xE1000))
        text = "".join(rng.choices(["{", "$", "a", " ", ";", "(", "[", far], k=rng.randrange(2, 8)))
        await parsing.of_text(text, "/w", "/h")
        assert await programs(parsing, "ls; rm") == ["ls", "rm"]


async def test_parser_that_dies_over_a_text_is_replaced(parsing: Parsing):
    process = process_of(parsing)
    async with anyio.create_task_group() as tg:

        async def kill() -> None:
            busy_s = process.cpu_times().user + 0.1
            await eventually(lambda: process.cpu_times().user > busy_s)
            process.send_signal(signal.SIGSEGV)

        tg.start_soon(kill)
        assert await programs(parsing, SLOW_TEXT) == [None]
    assert await programs(parsing, "ls") == ["ls"]


@pytest.fixture(params=[False, True], ids=["", "SIGCHLD ignored"])
def _children(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whoever starts us may ignore SIGCHLD: then the kernel forgets what became of children."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN) if request.param else None
    yield
    if before is not None:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("_children")
async def test_parser_that_dies_between_two_texts_is_not_missed(parsing: Parsing):
    before = len(parser_processes())
    for _ in range(5):
        process_of(parsing).kill()
        assert await programs(parsing, "ls; rm") == ["ls", "rm"]
        assert len(parser_processes()) == before


async def test_stopped_parser_costs_the_limit(parsing: Parsing, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parsing, "limit_s", 0.3)
    process_of(parsing).suspend()
    begun = time.monotonic()
    assert await programs(parsing, "ls") == [None]
    assert time.monotonic() - begun < 0.3 + 1 * SLOW
    monkeypatch.undo()
    assert await programs(parsing, "ls") == ["ls"]


async def test_endless_text_costs_its_limit_and_holds_up_nobody(
    parsing: Parsing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Its own limit, which is one of processor time."""
    monkeypatch.setattr(parsing, "limit_s", 60 * SLOW)
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0.01)
            turns += 1

    async with anyio.create_task_group() as tg:
        tg.start_soon(turn)
        assert await programs(parsing, SLOW_TEXT) == [None]
        tg.cancel_scope.cancel()
    assert turns > 20
    assert "the text ended it" in caplog.text
    assert await programs(parsing, "ls") == ["ls"]


async def test_text_that_needs_too_much_memory_is_not_understood(parsing: Parsing):
    process = process_of(parsing)
    limit = process.rlimit(resource.RLIMIT_AS)
    assert 0 < limit[0] == limit[1] <= 1 << 30
    text = "echo a b c;\n" * 3000
    less = process.memory_info().vms + (1 << 20)
    process.rlimit(resource.RLIMIT_AS, (less, less))
    assert await programs(parsing, text) == [None]
    assert await programs(parsing, text) == ["echo"] * 3000


async def test_long_texts_and_long_answers_pass(parsing: Parsing):
    assert await programs(parsing, HERE_DOCUMENT) == ["cat", "rm"]
    assert await programs(parsing, "echo a b c;\n" * 3000) == ["echo"] * 3000


async def test_what_is_too_long_is_not_even_asked(parsing: Parsing, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(helper, "MESSAGE_BYTES", 1000)
    assert await programs(parsing, f"#{'x' * 900}") == []
    assert await programs(parsing, f"#{'x' * 1000}") == [None]


async def test_cancelled_question_leaves_nothing_behind(parsing: Parsing):
    for text, after_s in ((SLOW_TEXT, 0.1), (HERE_DOCUMENT, 0.001), ("rm", 0)):
        with anyio.move_on_after(after_s):
            await programs(parsing, text)
        assert await programs(parsing, "ls") == ["ls"]


async def test_questions_at_once_get_their_own_answers(parsing: Parsing):
    async def ask(number: int) -> None:
        assert await programs(parsing, f"a{number}") == [f"a{number}"]

    async with anyio.create_task_group() as tg:
        for number in range(20):
            tg.start_soon(ask, number)


async def test_parser_has_nothing_of_ours(parsing: Parsing):
    process = process_of(parsing)
    assert process.environ() == {}
    assert process.children() == []
    assert process.cwd() == "/"
    assert process.num_fds() == 3
    assert os.getsid(process.pid) == process.pid, "an interrupt of ours would reach it"
    assert not any("tmuxmcp/broker" in each.path or "pydantic" in each.path for each in process.memory_maps())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "it has ended"),
        (b"\n\xff\xff\xff\xff", "it is too long"),
        (b"\n\0\0\0\5[", "the text ended it"),
        (b"\n\0\0\0\2x]", "Expecting value"),
        (b"\n\0\0\0\2[]x", "Extra data"),
        (b"\n\0\0\0\4null", "not iterable"),
        (b"\n\0\0\0\5[[1]]", "not enough values"),
        (b"\n\0\1\0\0" + b"[" * 0x10000, "recursion"),
    ],
    ids=["nothing", "a lot", "half", "no JSON", "more", "no list", "no commands", "deep"],
)
async def test_nonsense_is_no_answer(
    said: bytes, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    program = tmp_path / "parser.py"
    program.write_text(
        "import os, sys\n"
        r"os.write(1, b'\n\0\0\0\2[]')"
        "\n"
        "sys.stdin.buffer.read(4)\n"
        f"sys.stdout.buffer.write({said!r})\n"
    )
    before = parser_processes()
    with closing(Parsing()) as parsing:
        monkeypatch.setattr(parsing, "script", program)
        assert await programs(parsing, "ls") == [None]
        assert reason in caplog.text
        assert parsing.process is None
        monkeypatch.undo()
        assert await programs(parsing, "ls") == ["ls"]
    assert set(parser_processes()) <= set(before)


async def test_parser_that_never_gets_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "parser.py"
    program.write_text("import sys; sys.stdin.read()")
    monkeypatch.setattr(module, "PARSER_PATH", program)
    monkeypatch.setattr(helper, "HELPER_START_S", 0.5)
    before = parser_processes()
    with closing(Parsing()) as parsing:
        assert await programs(parsing, "ls") == [None]
    assert set(parser_processes()) <= set(before)
