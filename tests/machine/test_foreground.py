"""What the arguments of a shell say, and where shells wait on their stack."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from pathlib import Path

import anyio

from tests.conftest import eventually
from tests.kit.cases import for_each
from tests.kit.sources import FILES, PACKAGE, nodes
from tmuxmcp.machine.launch.shells import KNOWN
from tmuxmcp.machine.witness.foreground import Front, Proven, Stack, not_interactive, stack_of

SHOWS_PROMPT = [
    ("bash", []),
    ("bash", ["-i"]),
    ("bash", ["--rcfile", "file", "-i"]),
    ("bash", ["-o", "vi", "+O", "extglob"]),
    ("bash", ["-eo", "pipefail"]),
    ("bash", ["-s", "word"]),
    ("bash", ["--"]),
    ("zsh", ["-f", "+Z", "-o", "vi"]),
    ("fish", ["--init-command", "echo; read"]),
    ("fish", ["-C", "c"]),
    ("fish", ["-Cecho"]),
    ("dash", ["-i", "-o", "vi"]),
    ("mksh", ["-l"]),
]
RUNS = [
    ("bash", ["file"]),
    ("bash", ["-c", "read x"]),
    ("bash", ["-ic", "read x"]),
    ("bash", ["--norc", "-i", "file"]),
    ("bash", ["--", "file"]),
    ("bash", ["-o", "vi", "file"]),
    ("zsh", ["-f", "file"]),
    ("fish", ["-c", "read x"]),
    ("fish", ["--command=read"]),
    ("dash", ["-", "file"]),
    ("ash", ["file"]),
    ("ksh93", ["-ic", "read x"]),
]


@for_each(("kind", "options"), SHOWS_PROMPT)
def test_arguments_of_a_shell_with_a_prompt(kind: str, options: list[str]):
    assert not_interactive(KNOWN[kind], options) == ""


@for_each(("kind", "options"), RUNS)
def test_arguments_of_a_shell_that_runs_something(kind: str, options: list[str]):
    assert not_interactive(KNOWN[kind], options)


def test_a_stack_fits_by_its_depth_and_most_of_its_returns():
    words = frozenset((at * 8, "sh", at) for at in range(10))
    place = Stack(0, 100, words)
    assert place.fits(place)
    assert place.fits(Stack(0, 100, frozenset(list(words)[:8])))
    assert place.fits(Stack(0, 100, frozenset(list(words)[:5]))) is None
    assert place.fits(Stack(7, 100, words)) is None
    assert place.fits(Stack(0, 116, words)) is False
    assert Stack(0, 100, frozenset()).fits(place) is None


def test_a_program_that_is_not_of_the_system_is_not_started(tmp_path: Path):
    """It is not found out where `./dash` shows its prompt: whoever made it could have it run outside a sandbox."""
    own = tmp_path / "dash"
    shutil.copy2("/bin/sh", own)
    for path, known in ((Path("/bin/sh").resolve(), True), (own, False)):
        with subprocess.Popen([path, "-c", "read x"], stdin=subprocess.PIPE) as shell:

            def waits(pid: int = shell.pid, path: Path = path) -> Stack | None:
                return stack_of(pid) if os.readlink(f"/proc/{pid}/exe") == str(path) else None

            async def ask(pid: int = shell.pid) -> bool | None:
                await eventually(waits)
                return await Proven().is_at_prompt(Front(pid, 0.0, KNOWN["dash"], "dash", (), True, "sh"))

            found = anyio.run(ask)
            assert found is (False if known else None)
            shell.kill()


def test_what_input_leaves_behind_is_said_wherever_it_is_typed():
    """`type_input` takes it for a line that was entered unless it is told otherwise."""
    silent = set[str]()
    for file in FILES:
        for node in nodes(file):
            called = node.func if isinstance(node, ast.Call) else None
            name = called.attr if isinstance(called, ast.Attribute) else ""
            if (
                isinstance(node, ast.Call)
                and name == "type_input"
                and "left" not in {word.arg for word in node.keywords}
            ):
                silent.add(str(file.relative_to(PACKAGE)))
    assert silent <= {"shell/adopting.py", "shell/typing.py"}, "say what is left behind: `left=`"
