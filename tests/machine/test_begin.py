"""What the scripts import that run at each start: modules in C, `os` and each other. Anything else costs every call."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tmuxmcp.machine import process
from tmuxmcp.machine.launch import launch

TELL = """
import sys
sys.path.insert(0, {directory!r})
import os
before = set(sys.modules)
import {names}
for name in set(sys.modules) - before:
    file = getattr(sys.modules[name], "__file__", None) or ""
    if file.endswith((".py", ".pyc")) and not file.startswith({directory!r}):
        print(name)
"""


@pytest.mark.parametrize(
    ("directory", "names"),
    [(launch.LAUNCH_ROOM, "step, confine"), (process.SUPERVISOR_PATH.parent, "supervisor")],
    ids=["step", "supervisor"],
)
def test_scripts_of_each_start_import_nothing_but_c_and_os(directory: object, names: str) -> None:
    code = TELL.format(directory=str(directory), names=names)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_nothing_beside_the_step_hides_a_module_of_pythons_own() -> None:
    beside = {path.stem for path in launch.LAUNCH_ROOM.iterdir() if path.suffix == ".py"}
    assert "step" in beside
    assert not beside & sys.stdlib_module_names
