"""What start-up files do before the first prompt."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.agent import Agent, ToolFailed, an_agent
from tests.conftest import no_first_run

FILES = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/config.fish"}

Made = tuple[str, dict]
Make = Callable[..., Made]


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with an_agent("sh") as agent:
        yield agent


@pytest.fixture
def make(agent: Agent, tmp_path: Path) -> Iterator[Make]:
    """Make a session whose home has one start-up file; its id, and what was said of it."""
    made: list[str] = []

    def make(program: str, text: str, *args: str, file: str = "", **more: object) -> Made:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
        no_first_run(tmp_path)
        path = tmp_path / (file or FILES[program])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
        env = {"HOME": str(tmp_path), **more.pop("env", {})}  # type: ignore[dict-item]  # variables
        answer = agent.call("create_session", program=program, args=list(args), env=env, **more)
        made.append(answer["session_id"])
        return made[-1], answer

    yield make
    for session in made:
        with suppress(ToolFailed):
            agent.call("destroy_session", session_id=session, force=True)


def works(agent: Agent, session: str) -> None:
    """A command runs there, and is told exactly."""
    ran = agent.run("echo hello", session_id=session)
    assert (ran["output"], ran["exit_code"], ran["evidence"]) == ("hello\n", 0, "marks"), ran


# ---- other shells ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("program", "inner"), [("fish", "bash --norc"), ("zsh", "fish"), ("bash", "zsh -f")])
def test_behind_another_shell_the_start_up_files_go_on(agent: Agent, make: Make, program: str, inner: str):
    session, _ = make(program, inner)
    works(agent, session)
    assert agent.run("exit", session_id=session)["outcome"] == "left"
    ran = agent.run("echo hello", session_id=session)
    assert (ran["output"], ran["shell"]["kind"], ran["shell"]["level"]) == ("hello\n", program, 0)


def test_a_bash_that_a_profile_starts_takes_nothing_from_the_login_shell(agent: Agent, make: Make):
    session, _ = make("bash", "bash --norc", "-l", file=".bash_profile")
    ran = agent.run("echo hello", session_id=session)
    assert (ran["output"], ran["shell"]["level"]) == ("hello\n", 1)
    assert agent.run("exit", session_id=session)["outcome"] == "left"
    ran = agent.run("echo hello", session_id=session)
    assert (ran["output"], ran["shell"]["level"]) == ("hello\n", 0)
