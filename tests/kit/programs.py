"""Which programs of others are installed here."""

from __future__ import annotations

import os
import shutil

import pytest

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin:/usr/games"


def missing(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if shutil.which(name, path=PATH) is None]


def need(*names: str) -> None:
    """Skip the test where one of them is not installed."""
    if absent := missing(names):
        pytest.skip(f"{absent[0]} is not installed")


def where_installed(*names: str) -> list:
    """Parameters: programs, each skipped where it is not installed."""
    return [
        pytest.param(name, marks=pytest.mark.skipif(bool(missing((name,))), reason=f"{name} is not installed"))
        for name in names
    ]


SHELLS = where_installed("bash", "zsh", "fish")
every_shell = pytest.mark.parametrize("shell", SHELLS)
