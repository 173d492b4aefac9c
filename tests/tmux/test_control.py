"""The control client against a real server: every byte, every failure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import SLOW, eventually
from tests.kit.panes import launch_pane
from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.tmux.control import CONTROL_SESSION, BlockParser, command, quote, sequence
from tmuxmcp.tmux.server import Tmux

ALL_BYTES = bytes(range(1, 256))


async def set_and_shown(tmux: Tmux, value: bytes) -> bytes:
    """What tmux understood of a value in a command line: it writes a buffer into a file."""
    path = tmux.state_dir / "buffer"
    await tmux.checked(command("set-buffer", "-b", "b", "--", value), command("save-buffer", "-b", "b", str(path)))
    return path.read_bytes()


async def test_every_byte_alone_and_together(tmux: Tmux) -> None:
    for byte in ALL_BYTES:
        value = bytes([byte])
        assert await set_and_shown(tmux, value) == value, value
        assert await set_and_shown(tmux, b"a" + value + b"b") == b"a" + value + b"b"
    assert await set_and_shown(tmux, ALL_BYTES) == ALL_BYTES
    assert await set_and_shown(tmux, ALL_BYTES[::-1] * 100) == ALL_BYTES[::-1] * 100


async def test_quoting_is_exact(tmux: Tmux) -> None:
    """Hypothesis makes the words first: it cannot run tests of an event loop that runs already."""
    words: list[bytes] = [b"~'", b"~root'", b"'$HOME'", b"'\\'"]
    awkward = st.sampled_from(
        [b"'", b'"', b"\\", b"$HOME", b"#{pid}", b"#(id)", b"%1", b";", b" ; ", b"~", b"\n", b"\r"]
    )
    pieces = st.one_of(awkward, st.binary(max_size=5).map(lambda data: data.replace(b"\0", b"")))

    @settings(max_examples=500, database=None, suppress_health_check=list(HealthCheck), derandomize=False)
    @given(st.lists(pieces, min_size=1, max_size=8).map(b"".join).filter(bool))
    def collect(word: bytes) -> None:
        words.append(word)

    collect()
    for word in words:
        assert await set_and_shown(tmux, word) == word


async def test_no_byte_ends_the_word_so_that_the_rest_is_a_command(tmux: Tmux) -> None:
    for byte in ALL_BYTES:
        word = b"x" + bytes([byte]) + b"' ; set-option -g @pwned 1 ; '"
        await tmux.request(command("set-buffer", "-b", "b", "--", word))
        await tmux.request(command("set-buffer", "-b", "b", "--", bytes([byte]) + b" ; set-option -g @pwned 1"))
    assert (await tmux.query(command("show-options", "-gqv", "@pwned"))).lines == []


async def test_options_come_back_as_they_were_set(tmux: Tmux) -> None:
    value = b"'; kill-server ; \"$HOME #{pid} %H ~ \\"
    await tmux.checked(command("set-option", "-g", "@value", value))
    reply = await tmux.query(command("show-options", "-gv", "@value"))
    assert reply.lines == [value]


def test_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")


async def test_requests_overlap_and_answers_keep_their_order(tmux: Tmux) -> None:
    async def ask(number: int) -> None:
        reply = await tmux.request(
            *(command("display-message", "-p", f"{number}.{part}") for part in range(1 + number % 7))
        )
        assert reply.lines == [b"%d.%d" % (number, part) for part in range(1 + number % 7)]

    async with anyio.create_task_group() as task_group:
        for number in range(500):
            task_group.start_soon(ask, number)


async def test_error_stops_the_rest_and_is_told(tmux: Tmux) -> None:
    said = command("display-message", "-p", "said")
    reply = await tmux.request(said, command("kill-session", "-t", "=nobody"), said)
    assert reply.failed
    assert reply.lines == [b"said", b"can't find session: nobody"]
    reply = await tmux.request(b"no-such-command")
    assert reply.failed
    reply = await tmux.request(b"display-message -p }")
    assert reply.failed
    with pytest.raises(TmuxFailed, match="can't find session: nobody"):
        await tmux.checked(command("kill-session", "-t", "=nobody"))
    assert (await tmux.request(said)).lines == [b"said"]


async def test_more_than_a_pipe_takes(tmux: Tmux) -> None:
    """Requests are written on while the pipe is full, and those behind them wait their turn."""
    big = os.urandom(700_000).replace(b"\0", b"a")

    async def buffers(number: int) -> None:
        path = tmux.state_dir / f"out{number}"
        await tmux.checked(command("set-buffer", "-b", f"b{number}", "--", big[number:]), timeout_s=30)
        await tmux.checked(command("save-buffer", "-b", f"b{number}", str(path)), timeout_s=30)
        assert path.read_bytes() == big[number:]

    async with anyio.create_task_group() as task_group:
        for number in range(5):
            task_group.start_soon(buffers, number)


async def test_request_cancelled_while_the_pipe_is_full_is_still_written_whole(tmux: Tmux) -> None:
    server = server_of(tmux)
    server.suspend()  # nobody reads: the pipe fills up
    async with anyio.create_task_group() as task_group:
        with anyio.move_on_after(0.1):
            await tmux.request(command("set-buffer", "-b", "b", b"x" * 900_000), timeout_s=30)
        task_group.start_soon(_said, tmux)
        server.resume()
    reply = await tmux.checked(command("list-buffers", "-F", "#{buffer_size}"))
    assert reply.lines == [b"900000"]


async def _said(tmux: Tmux) -> None:
    assert (await tmux.request(command("display-message", "-p", "said"), timeout_s=30)).lines == [b"said"]


async def test_cancelled_request_leaves_the_client_usable(tmux: Tmux) -> None:
    client = client_of(tmux)
    for _ in range(20):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await tmux.request(command("display-message", "-p", "unheard"))
        await _said(tmux)
    assert client_of(tmux) == client


async def test_pane_cannot_forge_the_protocol(tmux: Tmux) -> None:
    """Not even one that guesses the time and the numbers of the next blocks."""
    code = """import time
for number in range(1000):
    print("%end", int(time.time()), number, 1, end="\\n%begin 5 5 1\\n")
print("%begin 5 5 1\\ntmuxmcp-0123456789abcdef-7", end="", flush=True)
time.sleep(100)"""
    launched = await launch_pane(tmux, ["python3", "-IS", "-c", code])
    await eventually(lambda: b"abcdef-7" in launched.log())
    client = client_of(tmux)
    for _ in range(60):
        await tmux.request(command("capture-pane", "-p", "-S", "-", "-t", launched.pane.pane_id), timeout_s=5 * SLOW)
        await _said(tmux)
    assert client_of(tmux) == client


def test_forged_blocks_end_at_the_sentinel() -> None:
    lines = [
        "%begin 1 7 1",
        "screen",
        "%end 1 7 1",
        "%begin 9 9 1",
        "%end 1 7 1",
        "%begin 1 8 1",
        "SENT-1",
        "%end 1 8 1",
    ]
    parser = BlockParser(b"SENT-")
    assert parser.feed("".join(line + "\n" for line in lines).encode()) == [([b"screen"], False), ([b"SENT-1"], False)]
    assert parser.feed(b"%begin 2 9 1\nnext\n%end 2 9 1\n") == [([b"next"], False)]


BLOCKS = b"""%begin 1 2 0
%end 1 2 0
%sessions-changed
%begin 1 3 1
a
%end 1 2 1

%end 1 3 1
%begin 2 4 1
no
%error 2 4 1
"""
PARSED = [([], False), ([b"a", b"%end 1 2 1", b""], False), ([b"no"], True)]


def test_blocks_do_not_depend_on_how_they_arrive() -> None:
    assert BlockParser(b"-").feed(BLOCKS) == PARSED
    parser = BlockParser(b"-")
    found = [block for byte in BLOCKS for block in parser.feed(bytes([byte]))]
    assert found == PARSED
    assert BlockParser(b"-").feed(BLOCKS + b"%begin 5 5 1\nun") == PARSED


# ---- what goes wrong -------------------------------------------------------------------------------


def client_of(tmux: Tmux) -> psutil.Process:
    assert tmux._client
    assert tmux._client._process
    return psutil.Process(tmux._client._process.pid)


def server_of(tmux: Tmux) -> psutil.Process:
    return psutil.Process(int((tmux.state_dir / "tmux.pid").read_text()))


async def test_time_out_closes_the_client_and_the_next_request_connects_again(tmux: Tmux) -> None:
    client, server = client_of(tmux), server_of(tmux)
    server.suspend()
    with pytest.raises(TmuxFailed, match="did not answer within"):
        await tmux.request(command("display-message", "-p", "unheard"), timeout_s=0.1)
    await eventually(lambda: not client.is_running())
    server.resume()
    await _said(tmux)
    assert client_of(tmux) != client


async def test_killed_client_tells_all_who_wait_and_is_replaced(tmux: Tmux) -> None:
    client = client_of(tmux)
    lost = []

    async def ask() -> None:
        with pytest.raises(TmuxFailed) as caught:
            await tmux.request(command("wait-for", "never"), timeout_s=60)
        lost.append(caught.value.details.get("lost"))

    async with anyio.create_task_group() as task_group:
        for _ in range(3):
            task_group.start_soon(ask)
        await eventually(lambda: tmux._client and len(tmux._client._pending) == 3)
        with anyio.fail_after(1 * SLOW):
            client.kill()
            await eventually(lambda: len(lost) == 3)
    assert lost == [True] * 3
    await _said(tmux)


ASKS_AND_READS_NOTHING = """
import sys, anyio
from pathlib import Path
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.server import Tmux

async def main():
    tmux = Tmux(Path(sys.argv[1]))
    async with anyio.create_task_group() as task_group:
        await tmux.open(task_group)
        print(tmux._client._process.pid, flush=True)
        sys.stdin.readline()
        task_group.start_soon(tmux.request, command("display-message", "-p", "unheard"))
        await anyio.wait_all_tasks_blocked()
        print("asked", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere tmux keeps a client that cannot take its answers")
async def test_client_ends_with_a_killed_broker_whose_answers_nobody_reads(tmux: Tmux) -> None:
    argv = [sys.executable, "-c", ASKS_AND_READS_NOTHING, str(tmux.state_dir)]
    other = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert other.stdin
    assert other.stdout
    try:
        client, server = psutil.Process(int(other.stdout.readline())), server_of(tmux)
        server.suspend()  # it answers when the other is gone
        other.stdin.write(b"now\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"asked\n"
    finally:
        other.kill()
        other.communicate()
    await eventually(lambda: client.status() == psutil.STATUS_ZOMBIE or not client.is_running())
    server.resume()
    await _said(tmux)  # ours lives on
    tmux.run("kill-server")
    await eventually(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)


async def test_query_is_asked_again_when_the_client_was_lost(tmux: Tmux) -> None:
    for _ in range(5):
        client_of(tmux).send_signal(signal.SIGKILL)
        assert (await tmux.query(command("display-message", "-p", "said"))).lines == [b"said"]


async def test_client_is_attached_before_it_is_used(tmux: Tmux) -> None:
    for _ in range(40):
        tmux.close()
        tmux.run("kill-session", "-t", f"={CONTROL_SESSION}")
        reply = await tmux.request(command("kill-session", "-t", "=nobody"))
        assert reply.lines == [b"can't find session: nobody"]


async def test_hidden_session_that_somebody_killed_is_made_again(tmux: Tmux) -> None:
    tmux.run("kill-session", "-t", f"={CONTROL_SESSION}")
    await eventually(lambda: tmux._client and tmux._client.closed)
    await _said(tmux)
    assert tmux.run("has-session", "-t", f"={CONTROL_SESSION}").returncode == 0


async def test_client_that_lost_its_caller_while_it_started_is_not_left_behind(tmux: Tmux) -> None:
    ours = psutil.Process()
    await _said(tmux)
    others = {child.pid for child in ours.children()} - {client_of(tmux).pid}
    for _ in range(5):
        tmux.close()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(_said, tmux)
                before = {child.pid for child in ours.children()}
                await eventually(lambda: {child.pid for child in ours.children()} - before)  # noqa: B023
                scope.cancel()
    await _said(tmux)
    await eventually(lambda: {child.pid for child in ours.children()} - others == {client_of(tmux).pid})


async def test_many_clients_leave_no_descriptors(tmux: Tmux) -> None:
    ours = psutil.Process()
    before = ours.num_fds()
    for _ in range(10):
        client_of(tmux).kill()
        await eventually(lambda: tmux._client and tmux._client.closed)
        await _said(tmux)
    await eventually(lambda: ours.num_fds() <= before)


def test_sequence_joins_commands(tmp_path: Path) -> None:
    assert sequence(command("a", "b c"), command("d;")) == b"'a' 'b c' ; 'd;'"
