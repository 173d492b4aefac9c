"""Where tests stand: beside the room that they prove, or in a folder that says what they are about."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.kit.sources import FILES, PACKAGE

TESTS = Path(__file__).parent
FOLDERS = {"adoption", "agents", "attacks", "behaviour", "benchmarks", "conformance", "faults", "kit"}
"""What spans rooms: by kind of harm, of caller, or of promise; and the kit with its own tests."""

GUARDS = {
    f"test_{name}.py"
    for name in (
        *("contract", "docs", "foreign", "golden", "guard", "layout", "packaging", "rooms", "skips", "where"),
        *("script_run", "script_test"),
    )
}
"""Tests of the project as a whole, which stand in no folder."""

UNNAMED = {"record/test_stored.py"}
"""Files for several modules of their room, of which they bear no name."""

ALIKE = {"test_commands.py"}
"""Names of files in two rooms, each of which has a module of that name."""

ROOMS = {
    folder.relative_to(TESTS): PACKAGE / folder.relative_to(TESTS)
    for folder in sorted(TESTS.rglob("*/"))
    if folder != TESTS and (PACKAGE / folder.relative_to(TESTS) / "__init__.py").exists()
}
PLACES = [file.relative_to(TESTS) for file in sorted(TESTS.rglob("test_*.py"))]


def modules_of(room: Path) -> set[str]:
    """The modules of a room and its packages, without those of rooms in it that have a folder of tests."""
    inner = [each for each in ROOMS.values() if room in each.parents]
    return {
        file.parent.name if file.stem == "__init__" else file.stem
        for file in FILES
        if file.is_relative_to(room) and not any(file.is_relative_to(each) for each in inner)
    }


def test_each_file_stands_in_a_room_or_says_what_it_is_about():
    for place in PLACES:
        assert place.parent in ROOMS or place.parts[0] in FOLDERS or str(place) in GUARDS, (
            f"tests/{place} stands in no room"
        )


def test_a_file_in_a_room_is_for_a_module_of_it():
    """Its name is that of the module, and may go on with the side of it that is tried."""
    modules = {folder: modules_of(room) for folder, room in ROOMS.items()}
    unnamed = {
        str(place)
        for place in PLACES
        if place.parent in ROOMS
        and not any(f"{place.stem}_".startswith(f"test_{module}_") for module in modules[place.parent])
    }
    assert unnamed <= UNNAMED


def test_no_two_files_have_one_name():
    assert {name for name, count in Counter(place.name for place in PLACES).items() if count > 1} <= ALIKE
