"""What a type checker and a program know of the library's methods."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import tmuxmcp
from tmuxmcp.contract.operations import OPERATIONS

ROOT = Path(__file__).parents[2]

RIGHT = """
import tmuxmcp

async def use(broker: tmuxmcp.Broker) -> int | None:
    ran: tmuxmcp.results.RunResult = await broker.run("true", timeout_ms=5000)
    seen: tmuxmcp.results.ReadResult = await broker.by("me").read("screen", ran.session_id)
    async with tmuxmcp.open_broker(tmuxmcp.Settings(rows=30)) as other:
        facts: tmuxmcp.results.SessionFacts = await other.do(tmuxmcp.requests.GetSession("a"), tmuxmcp.Call("me"))
    return ran.exit_code or len(seen.content) or facts.pid
"""
WRONG = """
async def misuse(broker: tmuxmcp.Broker) -> None:
    await broker.run(1)
    await broker.run("true", timeout="5")
    await broker.read(view="everything")
    (await broker.run("true")).no_such_field
"""


def test_a_type_checker_knows_arguments_and_results(tmp_path: Path):
    (tmp_path / "program.py").write_text(RIGHT + WRONG)
    with suppress(FileNotFoundError):  # of scripts/check: what mypy knows of the package and of what it imports
        shutil.copytree(ROOT / ".mypy_cache", tmp_path / "cache")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "cache", "program.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    found = {int(line.split(":")[1]) for line in said.splitlines() if ": error: " in line}
    wrong = (RIGHT + WRONG).splitlines().index("async def misuse(broker: tmuxmcp.Broker) -> None:") + 1
    assert found == {wrong + line for line in (1, 2, 3, 4)}, said


def test_every_operation_is_a_method_with_its_words():
    for name, row in OPERATIONS.items():
        method = getattr(tmuxmcp.Operations, name)
        assert " ".join(method.__doc__.split()).startswith(row.description)


class Deaf(tmuxmcp.Operations):
    """Does nothing."""

    async def do(self, request, call=None):
        raise AssertionError


def test_help_tells_the_arguments_of_a_method():
    told = inspect.signature(Deaf().run)
    arguments = ["command", "session_id", "stdin", "timeout_ms", "idle_ms", "max_bytes", "wait_for", "adopt"]
    arguments += ["request_id", "pattern"]
    assert list(told.parameters) == arguments
    assert Deaf().run.__name__ == "run"


def test_public_names_are_there():
    for name in tmuxmcp.__all__:
        assert getattr(tmuxmcp, name) is not None
