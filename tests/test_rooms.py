"""The walls of the house: which room may import which, and that no import goes round in a circle."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import FILES, PACKAGE, nodes

VALUES = {"contract", "errors"}
MACHINE = VALUES | {"drawing", "machine", "sandbox", "terminal"}
SESSIONS = MACHINE | {"launch", "readiness", "record", "sessions", "ssh", "tmux"}
ACTS = SESSIONS | {"input", "reading", "running", "waiting"}
BROKER = ACTS | {"gate", "people", "programs", "recording"}
MAY_IMPORT = {
    "latedataclass": set(),
    "errors": set(),
    "contract": {"errors"},
    "terminal": VALUES,
    "drawing": VALUES | {"terminal"},
    "sandbox": VALUES,
    "machine": MACHINE,
    "launch": {"errors"},
    "tmux": VALUES | {"machine", "terminal"},
    "readiness": VALUES | {"launch", "machine", "terminal"},
    "record": VALUES | {"drawing", "machine", "terminal"},
    "ssh": {"errors"},
    "sessions": SESSIONS - {"drawing"},
    "waiting": SESSIONS - {"drawing", "record", "sandbox"},
    "running": SESSIONS - {"drawing", "sandbox"} | {"waiting"},
    "reading": SESSIONS - {"launch", "sandbox"} | {"running", "waiting"},
    "input": ACTS - {"drawing", "launch", "sandbox"},
    "gate": SESSIONS | {"input", "waiting"},
    "people": ACTS | {"gate"},
    "git": {"errors", "launch", "machine", "sandbox"},
    "r2": {"errors", "machine"},
    "gdb": set(),
    "programs": SESSIONS | {"gdb", "git", "r2", "reading"},
    "recording": SESSIONS | {"programs", "waiting"},
    "broker": BROKER,
    "nodes": VALUES | {"broker", "gate", "machine", "reading", "recording", "sessions"},
    "page": VALUES | {"broker", "drawing", "gate", "input", "machine", "nodes", "people", "reading", "terminal"},
    "faces": VALUES | {"broker", "machine", "nodes", "page", "terminal"},
    "clients": {"errors", "jsonc"},
    "jsonc": set(),
    "config": VALUES | {"gate", "machine"},
    "traces": {"errors", "machine"},
    "app": VALUES | {"traces", "broker", "config", "faces", "gate", "machine", "nodes", "page", "programs"},
    "doctor": BROKER | {"app", "broker", "clients", "config", "faces", "nodes"},
    "stdout": {"errors"},
    "demo": {"contract", "stdout", "tmux"},
    "cli": BROKER - {"drawing", "launch", "sandbox", "readiness", "ssh", "tmux"}
    | {"app", "broker", "clients", "config", "demo", "doctor", "faces", "nodes", "page", "stdout"},
    "__init__": {"app", "broker", "config", "contract", "errors"},
    "__main__": {"cli", "machine"},
}
"""By room or module of the package: what else of the package it may import."""

SOURCES = {
    ".".join(("tmuxmcp", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in FILES
}


def typing_only(file: Path) -> set[ast.AST]:
    """Imports under `if TYPE_CHECKING`: they are not done when the program runs."""
    guarded = (node for node in nodes(file) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    return {each for node in guarded for statement in node.body for each in ast.walk(statement)}


def imports_of(file: Path, *, when_run: bool = False) -> Iterator[str]:
    """Modules of the package that a file imports, at its beginning or later; `from tmuxmcp import x` counts as x."""
    skipped = typing_only(file) if when_run else set()
    for node in nodes(file):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.partition(".")[0] == "tmuxmcp")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tmuxmcp":
            whole = [f"{node.module}.{each.name}" for each in node.names]
            yield from (name if name in SOURCES else node.module or "" for name in whole)
        assert not isinstance(node, ast.ImportFrom) or not node.level, f"{file} imports relatively"


def room_of(module: str) -> str:
    return module.removeprefix("tmuxmcp").removeprefix(".").partition(".")[0] or "__init__"


@pytest.mark.parametrize("room", sorted({room_of(module) for module in SOURCES}))
def test_room_imports_only_what_it_may(room: str):
    for module, file in SOURCES.items():
        if room_of(module) != room:
            continue
        for imported in imports_of(file):
            # Everybody may ask for the version, and have dataclasses.
            allowed = {room, *MAY_IMPORT[room], "__init__", "latedataclass"}
            assert room_of(imported) in allowed, f"{file.relative_to(PACKAGE)} imports {imported}"


JUDGES = {
    "readiness": ("kernel", "far", "weak", "facts", "settling", "asking"),
    "running": ("atprompt", "pacing"),
    "waiting": ("looking",),
}
"""By room: modules that say what facts mean."""


def test_who_judges_reads_nothing():
    """No file, no clock, no tmux; nothing of a room that does."""
    judges = [f"tmuxmcp.{room}.{name}" for room, names in JUDGES.items() for name in names]
    may = {"tmuxmcp.latedataclass", *judges}
    for name in judges:
        source = SOURCES[name]
        assert not any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in nodes(source))
        for imported in imports_of(source, when_run=True):
            assert imported in may or room_of(imported) == "terminal", f"{name} imports {imported}"
        theirs = {
            node.module if isinstance(node, ast.ImportFrom) else each.name
            for node in nodes(source)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for each in node.names
        }
        assert not theirs & {"anyio", "fcntl", "os", "pathlib", "subprocess", "termios", "time"}, name


def test_no_room_outgrows_the_house():
    """One that holds every seventh line is two rooms. The broker itself only finds who does what is asked of it."""
    lines = Counter[str]()
    for module, file in SOURCES.items():
        lines[room_of(module)] += len(file.read_text().splitlines())
    assert max(lines.values()) < 0.15 * lines.total(), lines.most_common(3)
    assert lines["broker"] < 2500


def parts_of_the_broker() -> set[str]:
    """What a broker is made of, as `__init__` names it."""
    made = (
        node
        for node in nodes(PACKAGE / "broker" / "broker.py")
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    targets = (target for node in ast.walk(next(made)) if isinstance(node, ast.Assign) for target in node.targets)
    return {target.attr for target in targets if isinstance(target, ast.Attribute)}


def is_broker(node: ast.AST) -> bool:
    """`broker`, `self._broker`, `await self._broker()`."""
    while isinstance(node, ast.Await | ast.Call):
        node = node.value if isinstance(node, ast.Await) else node.func
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in ("broker", "_broker")


def test_nobody_reaches_through_the_broker_to_its_parts():
    parts = parts_of_the_broker()
    assert {"registry", "watcher", "tmux", "settings"} <= parts
    found: set[tuple[str, str]] = set()
    for file in SOURCES.values():
        if file.relative_to(PACKAGE).parts[0] == "broker":
            continue
        for node in nodes(file):
            if isinstance(node, ast.Attribute) and node.attr in parts and is_broker(node.value):
                found.add((str(file.relative_to(PACKAGE)), node.attr))
    assert found == set()


def test_ray_is_imported_in_one_place():
    """The rest works without it, and no server has Ray in its own process."""
    own = {"bridge.py", "doors.py", "kv.py"}
    for file in SOURCES.values():
        for node in nodes(file):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "ray" for name in names):
                assert file.parent == PACKAGE / "nodes" / "ray"
                assert file.name in own


def test_rooms_that_are_listed_exist():
    assert set(MAY_IMPORT) == {room_of(module) for module in SOURCES}


def test_no_import_goes_round_in_a_circle():
    """Also not through imports inside functions, which only put a circle off."""
    graph = {
        module: {each for each in imports_of(file, when_run=True) if each != "tmuxmcp"}
        for module, file in SOURCES.items()
    }
    while leaves := [module for module, imported in graph.items() if not imported & graph.keys() - {module}]:
        for leaf in leaves:
            del graph[leaf]
    assert not graph, f"these import each other: {sorted(graph)}"


def test_no_two_rooms_import_each_other():
    pairs = {(room, each) for room, allowed in MAY_IMPORT.items() for each in allowed - {room}}
    assert not {pair for pair in pairs if pair[::-1] in pairs}


ARCHITECTURE = Path(__file__).parents[1].joinpath("docs", "explanation", "architecture.md").read_text()


def test_architecture_page_lists_the_rooms_that_are_there():
    listed = re.findall(
        r"^  (\w+)(?:/|\.py)\s", ARCHITECTURE.split("```text\ntmuxmcp/\n")[1].split("```")[0], re.MULTILINE
    )
    assert len(listed) == len(set(listed))
    assert set(listed) == {room_of(module) for module in SOURCES} - {"__init__", "__main__"}


def test_architecture_page_draws_only_arrows_that_are_allowed():
    """What stands to the right of an arrow imports nothing of what stands to its left."""
    drawn = ARCHITECTURE.split("downwards only:\n\n```text\n")[1].split("```")[0]
    ranks = [set(re.findall(r"\w+", rank)) for rank in drawn.split("->")]
    for number, rank in enumerate(ranks):
        above = set().union(*ranks[:number])
        for room in rank:
            assert room in MAY_IMPORT, f"architecture.md draws {room}, which is no room"
            assert not MAY_IMPORT[room] & above, f"{room} may import {sorted(MAY_IMPORT[room] & above)}"


def test_files_that_the_architecture_page_names_exist():
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.(?:py|sh|md))`", ARCHITECTURE)
    assert named
    for name in named:
        assert any((root / name).exists() for root in (PACKAGE, PACKAGE.parent, *rooms())), f"there is no {name}"


def rooms() -> list[Path]:
    return [each for each in PACKAGE.iterdir() if each.is_dir()]
