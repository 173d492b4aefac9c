"""What we ask of panes, and what never happens to the wrong one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from tests.conftest import eventually
from tests.kit.panes import Launched, launch_pane
from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.terminal.emulator.capture import SCREEN_STATE_FORMAT
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.server import Tmux

ALL_BYTES = bytes(range(256))


async def raw_reader(tmux: Tmux, count: int, name: str = "got") -> Launched:
    """A program that writes down the next `count` bytes as they reach it."""
    code = f"stty raw -echo; echo ready; head -c {count} >{name}"
    launched = await launch_pane(tmux, ["sh", "-c", code], cwd=str(tmux.state_dir))
    await eventually(lambda: b"ready" in launched.log())
    return launched


async def test_pane_is_as_it_was_asked_for(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["cat"], session_id="a")
    pane = await launched.look()
    assert (pane.id, pane.cols, pane.rows, pane.dead, pane.piped) == ("a", 80, 24, False, True)
    assert pane.leader == launched.pane.leader
    assert [each.id for each in await panes.list_panes(tmux)] == ["a"], "the hidden session is not listed"


async def test_two_of_one_name_are_refused_and_the_first_lives(tmux: Tmux) -> None:
    first = await launch_pane(tmux, ["cat"], session_id="a")
    with pytest.raises(TmuxFailed, match="duplicate session"):
        await panes.new_session(
            tmux,
            panes.NewPane(options={"id": "a"}, argv=["/bin/sh", "-c"], pipe=["cat"], cols=80, rows=24, history_limit=1),
        )
    assert not (await first.look()).dead


async def test_options_hold_what_a_line_of_format_cannot_break(tmux: Tmux) -> None:
    args = ["tab\t", "a|b", "new\nline", "#{pid}#(id)", "é\udcff", "'\"$HOME"]
    launched = await launch_pane(tmux, ["echo", *args])
    (pane,) = await panes.list_panes(tmux)
    assert pane.options == launched.pane.options
    given = {name: value for name, value in pane.options.items() if name not in panes.BORN_WITH}
    assert given == panes.options_of(
        session_id=pane.id,
        program="echo",
        args=args,
        created="",
        owner="",
        log=str(launched.directory / "out.raw"),
        scrollback=100,
        nonce="",
    )


async def test_title_of_a_program_breaks_no_line(tmux: Tmux) -> None:
    title = "t\tt #(touch pwned) #{pid} é"
    launched = await launch_pane(tmux, ["sh", "-c", f"printf '\\033]2;{title}\\007ready'; cat"])
    await eventually(lambda: b"ready" in launched.log())

    async def titled() -> panes.Pane | None:
        pane = await launched.look()
        return pane if "touch" in pane.title else None

    pane = await eventually(titled)
    assert pane
    assert pane.id == launched.pane.id


@pytest.mark.parametrize("data", [ALL_BYTES, b";", b"a;", b"-x", b"\n", b"\r", b"\xff", b"#{pid}", b"x" * 100_000])
async def test_typed_bytes_arrive_as_they_are(tmux: Tmux, data: bytes) -> None:
    launched = await raw_reader(tmux, len(data))
    await launched.type(data)
    await launched.ended()
    assert (tmux.state_dir / "got").read_bytes() == data


async def test_few_bytes_and_keys_go_around_the_text(tmux: Tmux) -> None:
    launched = await raw_reader(tmux, 6)
    pane = launched.pane
    before, after = [panes.raw(pane, b"\0;")], [panes.keys(pane, ["C-a", "Enter"])]
    assert await panes.type_input(tmux, pane, b"xy", before=before, after=after)
    await launched.ended()
    assert (tmux.state_dir / "got").read_bytes() == b"\0;xy\x01\r"


async def test_words_among_bytes_are_typed_as_they_are(tmux: Tmux) -> None:
    data = b"\x1b[7777~01234567\0\xffEnter\x01abcdEnter"
    launched = await raw_reader(tmux, len(data))
    typed = panes.raw_words(launched.pane, data)
    assert [b"'-l'" in each for each in typed] == [False, True, False, True]
    assert await panes.type_input(tmux, launched.pane, b"", after=typed)
    await launched.ended()
    assert (tmux.state_dir / "got").read_bytes() == data


async def test_person_in_copy_mode_swallows_nothing(tmux: Tmux) -> None:
    launched = await raw_reader(tmux, 3)
    await tmux.checked(command("copy-mode", "-t", launched.pane.pane_id))
    assert (await launched.look()).in_mode
    assert await panes.type_input(tmux, launched.pane, b"xy", after=[panes.keys(launched.pane, ["z"])])
    await launched.ended()
    assert (tmux.state_dir / "got").read_bytes() == b"xyz"


async def test_nothing_is_typed_into_a_dead_pane_and_the_server_lives(tmux: Tmux) -> None:
    """tmux 3.3a would crash."""
    launched = await launch_pane(tmux, ["true"])
    await launched.ended()
    for data in (b"text", b""):
        assert not await panes.type_input(tmux, launched.pane, data, after=[panes.keys(launched.pane, ["a"])])
    assert (await tmux.query(command("list-buffers"))).lines == []
    assert (await launched.look()).exit_code == 0


async def test_nothing_happens_to_a_pane_that_is_not_ours_any_more(tmux: Tmux) -> None:
    launched = await raw_reader(tmux, 1)
    await tmux.checked(command("set-option", "-p", "-t", launched.pane.pane_id, "@tmuxmcp_id", "another"))
    pane = launched.pane
    assert await panes.find_pane(tmux, pane.pane_id, pane.id) is None
    assert not await panes.type_input(tmux, pane, b"x")
    assert not await panes.resize_window(tmux, pane, 100, 30, SCREEN_STATE_FORMAT)
    assert not await panes.kill_session(tmux, pane)
    assert await panes.capture_pane(tmux, pane) is None
    assert not await panes.pipe_again(tmux, pane, ["true"], 2)


async def test_pane_that_is_gone(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["cat"])
    other = await launch_pane(tmux, ["cat"])
    assert await panes.kill_session(tmux, launched.pane)
    assert not await panes.kill_session(tmux, launched.pane)
    assert await panes.find_pane(tmux, launched.pane.pane_id, launched.pane.id) is None
    assert await panes.capture_pane(tmux, launched.pane) is None
    assert not await panes.type_input(tmux, launched.pane, b"x")
    assert not (await other.look()).dead


async def test_size_is_ours_alone(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["cat"])
    looks = await panes.resize_window(tmux, launched.pane, 133, 50, SCREEN_STATE_FORMAT)
    assert looks
    assert [(len(look) > int(look[0].split()[1]), look[0].split()[:2]) for look in looks] == [
        (True, ["80", "24"]),
        (True, ["133", "50"]),
    ]
    pane = await launched.look()
    assert (pane.cols, pane.rows) == (133, 50)


async def test_capture_gives_the_pane_and_its_rows_of_one_moment(tmux: Tmux) -> None:
    launched = await launch_pane(tmux, ["sh", "-c", r"printf '\033[31mred\033[0m\nsecond  '; cat"])
    await eventually(lambda: b"second" in launched.log())

    async def shown() -> list[str] | None:
        captured = await panes.capture_pane(tmux, launched.pane)
        assert captured
        assert len(captured[1]) == captured[0].rows
        return captured[1] if "second  " in captured[1][1] else None

    rows = await eventually(shown)
    assert rows
    assert rows[0].startswith("\x1b[31mred")


async def test_conditions_are_checked_in_the_same_step(tmux: Tmux) -> None:
    launched = await raw_reader(tmux, 1)
    assert not await panes.set_option(tmux, launched.pane, "owner", "x", condition="#{==:#{@tmuxmcp_owner},y}")
    assert await panes.set_option(tmux, launched.pane, "owner", "x", condition="#{==:#{@tmuxmcp_owner},}")
    assert (await launched.look()).options["owner"] == "x"


async def test_input_lies_in_no_file(tmux: Tmux) -> None:
    launched = await raw_reader(tmux, 5)
    await launched.type(b"s3cre")
    await launched.ended()
    os.unlink(tmux.state_dir / "got")
    assert [path for path in files_under(tmux.state_dir) if b"s3cre" in path.read_bytes()] == []


def files_under(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


async def test_pane_is_found_by_a_tmux_that_answers_late(tmux: Tmux, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for the exit status, not for tmux's answer."""
    launched = await launch_pane(tmux, ["cat"])
    server = int((tmux.state_dir / "tmux.pid").read_text())
    monkeypatch.setattr(panes, "STATUS_S", 0.05)
    os.kill(server, signal.SIGSTOP)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake, server)
            assert (await launched.look()).pane_id == launched.pane.pane_id
    finally:
        os.kill(server, signal.SIGCONT)


async def wake(pid: int) -> None:
    await anyio.sleep(0.2)
    os.kill(pid, signal.SIGCONT)


async def test_long_texts_at_once_arrive_whole_and_none_stays_in_memory(tmux: Tmux) -> None:
    texts = {name: name.encode() * 50_000 for name in "abcd"}
    readers = {name: await raw_reader(tmux, len(text), name) for name, text in texts.items()}
    async with anyio.create_task_group() as tasks:
        for name, text in texts.items():
            tasks.start_soon(readers[name].type, text)
    for name, text in texts.items():
        await readers[name].ended()
        assert (tmux.state_dir / name).read_bytes() == text
    for text in (b"x", b""):
        async with tmux.readable(text) as path:
            assert await anyio.Path(path).read_bytes() == text
