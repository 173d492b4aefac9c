"""The package's own source, parsed once for all tests of a worker that read it."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

import tmuxmcp

PACKAGE = Path(tmuxmcp.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, its module first."""
    gc.disable()  # nothing of a tree is garbage, and looking for it takes four times as long as parsing
    try:
        return tuple(ast.walk(ast.parse(file.read_text())))
    finally:
        gc.enable()
