"""The walls of the house: which room may import which, and that no import goes round in a circle."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.kit.sources import FILES, PACKAGE, nodes

STOREYS = (
    ("contract", "terminal"),
    ("machine", "tmux", "record"),
    ("sessions", "readiness", "shell"),
    ("gate", "broker"),
    ("nodes", "faces", "config", "app", "faces.cli"),
)
"""Rooms, the lowest storey first. A room imports what stands to its left in its own storey, and what is below it."""

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
    """The room a module stands in; the two that stand in none begin everything else."""
    words = module.split(".")[1:3]
    return "faces.cli" if words == ["faces", "cli"] else words[0] if words else "__init__"


def test_rooms_import_what_is_left_of_them_and_below():
    order = [room for storey in STOREYS for room in storey]
    for module, file in SOURCES.items():
        room = room_of(module)
        if room in ENTRANCES:
            continue
        # Everybody may ask for the version.
        may = {"__init__", *order[: order.index(room) + 1]}
        for imported in imports_of(file):
            assert room_of(imported) in may, f"{module} imports {imported}"


JUDGES = {
    "machine.witness": ("kernel", "remotekernel"),
    "readiness": ("judge",),
    "shell": ("promptjudge",),
}
"""By room: modules that say what facts mean."""


def test_who_judges_reads_nothing():
    """No file, no clock, no tmux; nothing of a room that does."""
    judges = [f"tmuxmcp.{room}.{name}" for room, names in JUDGES.items() for name in names]
    may = {"tmuxmcp.contract.value", *judges}
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


MODULES = {module: file for module, file in SOURCES.items() if file.name != "__init__.py"}


def test_modules_are_few_and_hold_an_idea_each():
    assert len(MODULES) <= 240
    small = [module for module, file in MODULES.items() if len(file.read_text().splitlines()) < 60]
    assert len(small) <= 20, small


def test_a_name_means_one_module():
    """In the broker a verb may be called as what it does."""
    rooms = {module: room_of(module) for module in MODULES}
    names = Counter(module.rpartition(".")[2] for module, room in rooms.items() if room != "broker")
    shared = [name for name, count in names.items() if count > 1]
    assert len(shared) <= 12, shared


def test_no_room_outgrows_the_house():
    """One that holds every sixth line is two rooms."""
    lines = Counter[str]()
    for module, file in SOURCES.items():
        lines[room_of(module)] += len(file.read_text().splitlines())
    assert max(lines.values()) < 0.17 * lines.total(), lines.most_common(3)


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


ENTRANCES = {"__init__", "__main__"}


def test_rooms_that_are_listed_exist():
    assert {room for storey in STOREYS for room in storey} == {room_of(module) for module in SOURCES} - ENTRANCES


def test_no_import_goes_round_in_a_circle():
    """Also not through imports inside functions, which only put a circle off, or for types alone."""
    graph = {module: {each for each in imports_of(file) if each != "tmuxmcp"} for module, file in SOURCES.items()}
    while leaves := [module for module, imported in graph.items() if not imported & graph.keys() - {module}]:
        for leaf in leaves:
            del graph[leaf]
    assert not graph, f"these import each other: {sorted(graph)}"


ARCHITECTURE = Path(__file__).parents[1].joinpath("docs", "explanation", "architecture.md").read_text()


def test_architecture_page_lists_the_rooms_that_are_there():
    listed = re.findall(
        r"^  (\w+)(?:/|\.py)\s", ARCHITECTURE.split("```text\ntmuxmcp/\n")[1].split("```")[0], re.MULTILINE
    )
    assert len(listed) == len(set(listed))
    assert set(listed) == {room.partition(".")[0] for storey in STOREYS for room in storey}


def test_architecture_page_draws_the_storeys():
    drawn = ARCHITECTURE.split("downwards only:\n\n```text\n")[1].split("```")[0]
    lines = [re.findall(r"[\w.]+", line.partition("  ")[0]) for line in drawn.splitlines()]
    assert lines == [list(storey) for storey in reversed(STOREYS)]


def test_files_that_the_architecture_page_names_exist():
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.(?:py|sh|md))`", ARCHITECTURE)
    assert named
    for name in named:
        assert any((root / name).exists() for root in (PACKAGE, PACKAGE.parent, *rooms())), f"there is no {name}"


def rooms() -> list[Path]:
    return [each for each in PACKAGE.iterdir() if each.is_dir()]
