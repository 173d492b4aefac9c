"""The programs of docs/howto/use-from-a-framework.md, run as they stand: the real packages, a scripted model."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.model import Model, served
from tests.conftest import SLOW, end_server
from tests.kit import forks
from tests.kit.clients import MODULES, PLACE

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "use-from-a-framework.md"
PROGRAMS = dict(re.findall(r"^## ([^\n]+)\n.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE))
VENVS = {"OpenAI Agents SDK": "agents", "LangChain": "langchain", "Pydantic AI": "agents", "Claude Agent SDK": "agents"}


@pytest.fixture
def home() -> Iterator[Path]:
    # A short name: socket paths are. The server, a fork of ours, may still write down how its sessions stand.
    with tempfile.TemporaryDirectory(prefix="tm-", ignore_cleanup_errors=True) as home:
        yield Path(home)
        end_server(Path(home, ".local", "state", "tmuxmcp"))


def run(title: str, home: Path, model: Model) -> str:
    """Run a program of the page to its end; give what it printed."""
    python = PLACE / f"frameworks-{VENVS[title]}" / "bin" / "python"
    if not python.exists():
        pytest.skip("needs the frameworks: scripts/clients installs them")
    if title == "Claude Agent SDK" and not (MODULES / ".bin" / "claude").exists():
        pytest.skip("needs claude: scripts/clients installs it")
    url = f"http://127.0.0.1:{model.port}"
    path = [str(forks.command(home).parent), str(MODULES / ".bin"), os.environ["PATH"]]
    env = {"HOME": str(home), "PATH": ":".join(path), "LANG": "C.UTF-8", "TERM": "xterm", "SHELL": "/bin/bash",
           "NO_PROXY": "127.0.0.1", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none", "ANTHROPIC_BASE_URL": url,
           "ANTHROPIC_API_KEY": "none", "OPENAI_AGENTS_DISABLE_TRACING": "1", "DISABLE_AUTOUPDATER": "1",
           "ENABLE_TOOL_SEARCH": "false", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}  # fmt: skip
    done = subprocess.run(
        [python, "-c", PROGRAMS[title]], env=env, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60 * SLOW,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_page_has_a_program_for_each_framework() -> None:
    assert set(PROGRAMS) == set(VENVS)


@pytest.mark.parametrize("title", [title for title in VENVS if title != "LangChain"])
def test_agent_of_a_framework_works_in_a_terminal(home: Path, title: str) -> None:
    with served(("run", {"command": "uname -s; echo '\"é\"'"})) as model:
        model.any_tools = True
        printed = run(title, home, model)
    assert printed == "done\n"
    (_, shown), *_ = model.shown
    assert f'{os.uname().sysname}\n"é"\n' in shown  # as the terminal has it
    assert "exit_code=0" in shown


def test_tools_of_langchain(home: Path) -> None:
    with served() as model:
        printed = run("LangChain", home, model)
    assert os.uname().sysname in printed
    assert "exit_code=0" in printed
