"""Commands whose echo ends at the right margin: what they print is on lines of its own, in every shell."""

from __future__ import annotations

import pytest

from tmuxmcp.broker.broker import Broker

OUT = "; echo out"


@pytest.mark.parametrize("how", ["run", "send"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_output_is_not_joined_to_an_echo_that_fills_its_row(broker: Broker, shell: str, how: str):
    await broker.create_session(shell, name="a", cols=40)
    session = await broker.registry.existing("a")
    shown = (await broker.read("screen", "a")).content
    room = 40 - len(shown.rsplit("\n", 1)[-1])
    for length in (*range(room - 2, room + 3), *range(room + 39, room + 42)):
        command = ": " + "x" * (length - 2 - len(OUT)) + OUT
        start = session.log.size()
        if how == "run":
            await broker.run(command, "a")
        else:
            await broker.send(command, enter=True, session_id="a")
        since_then = (await broker.read("new", "a", since=start)).content.split("\n")
        in_all = (await broker.read("new", "a", since=0, max_bytes=1 << 20)).content.split("\n")
        for lines in (since_then, in_all):
            assert "out" in lines, (length, lines[-5:])
            # zsh erases the row behind one that its line fills: for tmux that row does not go on the one above.
            assert "".join(command.split()) in "".join("".join(lines).split()), (length, lines[-5:])
