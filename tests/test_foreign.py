"""What is used of other packages though they promise it to nobody: listed here, and bounded in pyproject.toml.

After an upgrade, look at each name below in the new version, try `scripts/test`, then raise the bound and run
`scripts/lock`.
"""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.kit.sources import FILES, nodes

ROOT = Path(__file__).parents[1]

PRIVATE = {
    "mcp": {"_connection"},  # ServerSession's: when a client is gone, by its `exit_stack` (faces/subscriptions.py)
    "ray": {  # ray.experimental.internal_kv: small values that the whole cluster shares (nodes/ray/kv.py)
        "_internal_kv_get",
        "_internal_kv_put",
        "_internal_kv_del",
        "_internal_kv_list",
    },
}
"""Names with an underscore, by package."""

OVERRIDDEN = {
    # faces/listener.py: connections with time limits, and a server that leaves the signals alone
    ("uvicorn", "uvicorn.protocols.http.h11_impl", "H11Protocol"): {
        "app",
        "config",
        "conn",
        "connection_lost",
        "connection_made",
        "cycle",
        "data_received",
        "loop",
        "pause_writing",
        "resume_writing",
        "send_400_response",
        "timeout_keep_alive",
        "transport",
    },
    ("uvicorn", "uvicorn.server", "Server"): {"capture_signals", "force_exit", "should_exit", "shutdown", "startup"},
    # faces/listener.py: stricter about what two readers could take for different requests
    ("h11", "h11", "Connection"): {"next_event", "send", "their_state", "trailing_data"},
    ("pyte", "pyte", "Screen"): {"columns", "lines", "reset", "set_title"},  # and see tests/terminal/test_screen.py
}
"""Classes of which we make our own, and what of them these need, by package and module."""

MOVES_SELDOM = {"ray"}
"""Packages of which any release of the same major version is taken."""

PYTHONS_OWN = {"_replace", "_asdict", "_fields", "_exit"}
"""Of named tuples and `os`: documented in spite of the underscore."""


def bounds() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    return {each.name: each for each in map(Requirement, [*project["dependencies"], *extras])}


def defined(file: Path) -> Iterator[str]:
    for node in nodes(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def test_every_private_name_of_others_is_listed():
    ours = {name for file in FILES for name in defined(file)} | PYTHONS_OWN
    used = {
        node.attr
        for file in FILES
        for node in nodes(file)
        if isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr)
    }
    listed = {name for names in PRIVATE.values() for name in names}
    assert used - ours <= listed <= used


@pytest.mark.parametrize("package", sorted({*PRIVATE, *(package for package, _, _ in OVERRIDDEN)}))
def test_version_is_one_that_was_looked_at(package: str):
    bound = bounds()[package]
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:  # an extra
        return
    major, minor = (int(number) for number in version.split(".")[:2])
    later = f"{major + 1}.0" if package in MOVES_SELDOM else f"{major}.{minor + 1}.0"
    assert not bound.specifier.contains(later), (
        f"pyproject.toml must not take {package} {later}: nobody has looked at it"
    )
    assert bound.specifier.contains(version), (
        f"{package} {version} is installed, {bound.specifier} was looked at. "
        f"See in {Path(__file__).name} what is used of it, and whether it still is there and means the same."
    )


def source_of(module: str, name: str) -> str:
    bases = getattr(import_module(module), name).__mro__
    return "".join(
        inspect.getsource(base) for base in bases if base.__module__.partition(".")[0] == module.split(".")[0]
    )


@pytest.mark.parametrize(("package", "module", "name"), OVERRIDDEN, ids=lambda each: each)
def test_what_our_own_classes_need_is_there(package: str, module: str, name: str):
    source = source_of(module, name)
    gone = {
        each
        for each in OVERRIDDEN[package, module, name]
        if not re.search(rf"\bdef {each}\b|\bself\.{each}\b|^    {each}:", source, re.MULTILINE)
    }
    assert not gone, f"{package} has changed: {module}.{name} has no {', '.join(sorted(gone))} any more"


def test_private_names_are_there():
    from mcp.server.session import ServerSession

    assert "self._connection" in inspect.getsource(ServerSession), "mcp has changed: see faces/subscriptions.py"


def test_pins_keep_to_the_bounds():
    for name in ("run", "test", "fleet"):
        pinned = dict(
            re.findall(r"^([\w.-]+)==([^ ;\\]+)", (ROOT / "requirements" / f"{name}.txt").read_text(), re.MULTILINE)
        )
        asked = (ROOT / "requirements" / f"{name}.in").read_text().splitlines()
        for each in map(Requirement, (line for line in asked if line[:1] not in "#-")):
            version = pinned[each.name.lower()]
            assert each.specifier.contains(version), (
                f"requirements/{name}.txt pins {each.name} {version}: run scripts/lock"
            )
            assert each.name not in bounds() or each.specifier == bounds()[each.name].specifier, "run scripts/lock"
