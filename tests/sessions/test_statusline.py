"""What the status line of an attached person says: the session, what it does, who has taken it, how to leave."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import until_exists
from tests.kit.agent import Agent, an_agent, eventually
from tests.kit.fixtures import of_file
from tests.kit.terminal import drain, watching
from tests.kit.tmux import plain_tmux
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream

Says = Callable[[str], None]


agent = of_file(an_agent, "bash")


def tmux(agent: Agent, *words: str) -> str:
    return plain_tmux(agent.state_dir, *words)


def connections(agent: Agent) -> str:
    """Process ids of the brokers' control clients."""
    return tmux(agent, "list-clients", "-t", "=_tmuxmcp", "-F", "#{client_pid}").strip()


@contextmanager
def reading(made: dict[str, Any], cols: int = 100) -> Iterator[Says]:
    """Somebody is attached; gives a check that their status line comes to be this regular expression."""
    screen = Screen(cols, 10)
    stream = Stream(screen)
    with watching(made["attach_command"], 10, cols) as (_, master):

        def says(pattern: str) -> None:
            def probe() -> bool:
                stream.feed(drain(master))
                return re.fullmatch(pattern, screen.display[-1].strip()) is not None

            try:
                eventually(probe)
            except AssertionError:
                raise AssertionError(f"{screen.display[-1]!r} is not {pattern}") from None

        yield says


def test_mode_and_command_are_said_while_they_are_so(agent: Agent, tmp_path: Path):
    made = agent.call("create_session", program="bash", name="said")
    with reading(made) as says:
        says(r"said  shell_prompt +C-b d leaves")
        agent.call("send", session_id="said", text=until_exists(tmp_path / "go"), enter=True, read="none")
        says(r"said  running  sh -c 'until test -e /.*\.\.\. +C-b d leaves")
        with reading(made) as second:
            second(r"said  running  sh -c .*")
        (tmp_path / "go").touch()
        says(r"said  shell_prompt +C-b d leaves")
        agent.call("send", session_id="said", text="exec sh -c 'exit 3'", enter=True, read="none")
        says(r"said  exited 3 +C-b d leaves")


def test_what_was_said_is_taken_back_when_the_last_one_leaves(agent: Agent):
    made = agent.call("create_session", program="bash", name="gone")
    kept = ("show-environment", "-h", "-t", "=gone")
    with reading(made) as says:
        says(r"gone  shell_prompt +C-b d leaves")
        assert "TMUXMCP_SHOWN=shell_prompt" in tmux(agent, *kept)
    eventually(lambda: "TMUXMCP_SHOWN=" not in tmux(agent, *kept))


def test_nothing_that_tmux_would_read_gets_into_it(agent: Agent, tmp_path: Path):
    made = agent.call("create_session", program="bash", name="hostile")
    evil = f"#(touch {tmp_path}/pwned) #[fg=red]#{{pid}} %H é"
    command = f"printf '\\033]2;%s\\007' '{evil}'; {until_exists(tmp_path / 'go')} # {evil}"
    with reading(made) as says:
        agent.call("send", session_id="hostile", text=command, enter=True, read="none")
        says(r"hostile  running  printf '\\033\]2;\?s\\007' '\?\(touch .*")
        (tmp_path / "go").touch()
        says(r"hostile  shell_prompt +C-b d leaves")
    assert not (tmp_path / "pwned").exists()


def test_who_has_taken_it_is_said(agent: Agent):
    made = agent.call("create_session", program="bash", name="held")
    with reading(made) as says:
        says(r"held  shell_prompt +C-b d leaves")
        tmux(agent, "set-option", "-p", "-t", "=held:", "@tmuxmcp_taken", "1700000000000-cli-0-anna.b")
        says(r"held  taken by anna.b  shell_prompt +C-b d leaves")
        tmux(agent, "set-option", "-p", "-t", "=held:", "@tmuxmcp_taken", "#[fg=red]me")
        says(r"held  taken  shell_prompt +C-b d leaves")
        tmux(agent, "set-option", "-p", "-u", "-t", "=held:", "@tmuxmcp_taken")
        tmux(agent, "set-option", "-p", "-t", "=held:", "@tmuxmcp_paused", "1700000000000-cli-0-pause")
        says(r"held  paused  shell_prompt +C-b d leaves")


def test_a_killed_control_client_is_replaced_and_it_is_said_again(agent: Agent):
    made = agent.call("create_session", program="bash", name="client")
    with reading(made) as says:
        says(r"client  shell_prompt +C-b d leaves")
        killed = connections(agent)
        os.kill(int(killed), signal.SIGKILL)
        eventually(lambda: agent.call("list_sessions") and connections(agent) not in ("", killed))
        said_by = ("show-environment", "-h", "-t", "=client", "TMUXMCP_SHOWN_BY")
        eventually(lambda: tmux(agent, *said_by) == f"TMUXMCP_SHOWN_BY=client-{connections(agent)}\n")
        says(r"client  shell_prompt +C-b d leaves")


def test_a_killed_tmux_server_ends_no_broker(state_dir: Path):
    with Agent(state_dir, "bash") as agent:
        made = agent.call("create_session", program="bash", name="first")
        with reading(made) as says:
            says(r"first  shell_prompt +C-b d leaves")
            tmux(agent, "kill-server")
        again = agent.call("create_session", program="bash", name="second")
        with reading(again) as says:
            says(r"second  shell_prompt +C-b d leaves")


def test_a_narrow_terminal_shows_a_part(agent: Agent):
    made = agent.call("create_session", program="bash", name="narrow")
    with reading(made, cols=20) as says:
        says(r"narrow  shell_pro\S*")


def test_what_nobody_knows_any_more_is_said_no_longer_and_the_next_server_says_it(state_dir: Path):
    with Agent(state_dir, "bash") as first:
        made = first.call("create_session", program="bash", name="left")
        with reading(made) as says:
            says(r"left  shell_prompt +C-b d leaves")
            first.kill()
            says(r"left +C-b d leaves")
            with Agent(state_dir, "bash"):
                says(r"left  shell_prompt +C-b d leaves")
            says(r"left +C-b d leaves")
