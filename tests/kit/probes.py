"""What a probe asked and what was there, for the message of a test that waited in vain."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from contextlib import suppress
from types import FunctionType
from typing import Any

LONGEST = 2000
"""Characters of one value."""


def explained(probe: object) -> str:
    """The text of a lambda and what each part of it gives now; of another function, its name and its place."""
    if not isinstance(probe, FunctionType):
        return str(probe)
    body = _body(probe)
    if body is None:
        return f"{probe.__qualname__}, {probe.__code__.co_filename}:{probe.__code__.co_firstlineno}"
    lines = [ast.unparse(body)]
    for part in _parts(body):
        with suppress(Exception):  # what it asks may be gone
            lines.append(f"    {ast.unparse(part)} is {_value(part, probe)!r:.{LONGEST}}")
    return "\n".join(lines)


def _body(probe: FunctionType) -> ast.expr | None:
    """What a lambda gives; None: it is none, or not the only one in its line."""
    text = "".join(linecache.getlines(probe.__code__.co_filename))
    lambdas = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Lambda) and node.lineno == probe.__code__.co_firstlineno
    ]
    return lambdas[0].body if probe.__name__ == "<lambda>" and len(lambdas) == 1 else None


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """What is compared or must be true."""
    match node:
        case ast.Compare():
            yield from (each for each in (node.left, *node.comparators) if not isinstance(each, ast.Constant))
        case ast.BoolOp():
            for each in node.values:
                yield from _parts(each)
        case ast.UnaryOp(op=ast.Not()):
            yield from _parts(node.operand)
        case _:
            yield node


def _value(part: ast.expr, probe: FunctionType) -> Any:
    defaults = zip(probe.__code__.co_varnames, probe.__defaults__ or (), strict=False)
    names = {**inspect.getclosurevars(probe).nonlocals, **dict(defaults)}
    value = eval(compile(ast.Expression(part), "<probe>", "eval"), {**probe.__globals__, **names})
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("it would have to be awaited")
    return value
