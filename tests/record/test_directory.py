"""The files of a session's directory: one place spells their names, and the scripts and the page agree with it."""

from __future__ import annotations

import ast
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SLOW, eventually
from tests.kit.sources import FILES, PACKAGE, nodes
from tmuxmcp.broker.broker import Broker
from tmuxmcp.machine.launch import step
from tmuxmcp.record import directory as owner
from tmuxmcp.record import meta
from tmuxmcp.record.directory import (
    DIRECTORY_ENTRIES,
    Party,
    SessionDirectory,
    SessionFile,
    directories,
    make_directory,
    sessions_dir,
)

SCRIPTS = PACKAGE / "machine" / "launch"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "files.md"
BY_NAME = {entry.name: entry for entry in DIRECTORY_ENTRIES}

WITHOUT_PACKAGE = {"machine/launch/step.py", "machine/launch/confine.py"}
"""Scripts that run without the package: they spell names themselves."""

NOT_A_SESSIONS = {
    ("faces/cli/demo.py", "work"),
    ("broker/programs/inside.py", "work"),
    ("broker/programs/inside.py", "tmp"),
}
"""Paths of another directory, with a part of the same name."""


def test_an_entry_is_a_row_of_the_class_and_a_path_of_a_directory(tmp_path: Path) -> None:
    directory = SessionDirectory.of(tmp_path, "a")
    assert SessionDirectory.log.name == "out.raw"
    assert directory.log == tmp_path / "sessions" / "a" / "out.raw"
    assert directory.history_within == directory.within / "history"
    assert len(BY_NAME) == len(DIRECTORY_ENTRIES)


# ---- nobody else spells a name -----------------------------------------------------------------------

Nodes = tuple[ast.AST, ...]


def docstrings(of: Nodes) -> set[ast.AST]:
    """Strings that are statements: they only tell."""
    return {node.value for node in of if isinstance(node, ast.Expr)}


def strings(of: Nodes) -> Iterator[str]:
    told = docstrings(of)
    for node in of:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in told:
            yield node.value


def parts_of_paths(of: Nodes) -> Iterator[str]:
    """Strings that become a part of a path: `path / "pid"`, `os.path.join(path, "pid")`, `path.glob("pid")`."""
    for node in of:
        parts: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in ("join", "joinpath", "Path", "glob", "rglob", "with_name"):
                parts = node.args
        for part in parts:
            yield from (value for value in strings(tuple(ast.walk(part))) if value)


ORDINARY = {entry.name for entry in DIRECTORY_ENTRIES if "." not in entry.name and "/" not in entry.name}
"""Names that are words: as such they may mean anything else."""

PARTS = {part for entry in DIRECTORY_ENTRIES for part in entry.name.split("/")} | {"sessions"}


def spelt_in(file: Path) -> set[str]:
    """Names of a session's files that a module spells."""
    unmistakable = {value for value in strings(nodes(file)) if any(each in value for each in BY_NAME.keys() - ORDINARY)}
    relative = [value for value in parts_of_paths(nodes(file)) if not value.startswith("/")]
    return unmistakable | {part for value in relative for part in value.split("/") if part in PARTS}


def test_nobody_else_spells_a_name() -> None:
    modules = {str(file.relative_to(PACKAGE)): file for file in FILES}
    del modules[str(Path(owner.__file__).relative_to(PACKAGE))]
    found = {(name, each) for name in modules.keys() - WITHOUT_PACKAGE for each in spelt_in(modules[name])}
    assert found == NOT_A_SESSIONS


# ---- the scripts -------------------------------------------------------------------------------------


def in_shell_script(name: str) -> set[str]:
    """Files of the session's directory in a script for sh; `NAME.new` is about to replace NAME."""
    found = re.findall(r"\$dir/([\w.]+)", (SCRIPTS / name).read_text())
    return {each.removesuffix(".new") for each in found}


def in_step() -> set[str]:
    """Strings of `step.py` that stand where a path is put together."""
    return set(parts_of_paths(nodes(SCRIPTS / "step.py"))) - {"/"}


def of(party: Party) -> set[str]:
    return {entry.name for entry in DIRECTORY_ENTRIES if party in entry.writers + entry.readers}


def test_shell_scripts_use_the_files_that_the_table_says() -> None:
    assert in_shell_script("launcher.sh") == of("launcher")
    assert in_shell_script("sink.sh") == of("sink")


def test_step_uses_the_files_that_the_table_says() -> None:
    by_argument = {SessionDirectory.spec_within.name}  # told as a path (`hand` in confine.py)
    assert in_step() == of("step") - by_argument
    words = set(strings(nodes(SCRIPTS / "confine.py")))
    assert not words & (BY_NAME.keys() - ORDINARY)


def test_step_and_broker_agree_on_the_words_of_the_report() -> None:
    source = Path(step.__file__).read_text()
    assert f'b"{meta.READY}"' in source
    assert f'b"{meta.BEGUN}"' in source


# ---- the page and a real session ---------------------------------------------------------------------


def test_page_names_every_file() -> None:
    named = set(re.findall(r"`([^`]+)`", PAGE.read_text().split("## A session's directory")[1].split("\n#")[0]))
    assert {each.name for each in DIRECTORY_ENTRIES} <= {
        each.removesuffix("/").removesuffix("/CALLER") for each in named
    }


@pytest.mark.parametrize("sandbox", ["none", "auto"])
async def test_a_session_has_the_files_of_the_table_and_no_others(broker: Broker, sandbox: str, home: Path) -> None:
    project = home / "project"
    project.mkdir()
    await broker.create_session("bash", name="a", sandbox=sandbox, cwd=str(project))  # type: ignore[arg-type]
    await broker.run("true", "a")
    await broker.send("exit", session_id="a", enter=True, wait_for="exit", timeout_ms=int(20_000 * SLOW))
    directory = broker.registry.directory("a")
    await eventually(directory.events.exists)
    for path in directory.path.rglob("*"):
        name = str(path.relative_to(directory.path))
        if path.parent in (directory.cursors, directory.told, directory.handed):
            continue
        entry = BY_NAME[name]
        mode = 0o700 if entry.is_directory else 0o600
        assert (path.is_dir(), stat.S_IMODE(path.stat().st_mode)) == (entry.is_directory, mode), name


def test_directory_of_an_earlier_session_is_kept(tmp_path: Path) -> None:
    sessions_dir(tmp_path).mkdir()
    for _ in range(3):
        made = make_directory(tmp_path, "a")
        assert list(made.path.iterdir()) == []
        made.meta.touch()
    found = {each.name: each.is_earlier for each in directories(tmp_path, SessionDirectory.meta)}
    assert found == {"a": False, "a.1": True, "a.2": True}
    assert list(directories(tmp_path, SessionFile("other", "", (), ()))) == []
