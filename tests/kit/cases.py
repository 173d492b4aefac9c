"""One test for a table of cases, where a test each would take longer than what it tries."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

ParameterSet = type(pytest.param())


def for_each(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, but one test; it tries all rows and then fails with those that failed.

    For functions without effects: the rows share what else the test is given.
    """
    keys = [names] if isinstance(names, str) else list(names)
    table = [_named(row, keys) for row in rows]
    assert table, "no cases"

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        assert not inspect.iscoroutinefunction(check), "nobody would await it"

        @functools.wraps(check)
        def test(**shared: Any) -> None:
            failed: list[BaseException] = []
            for name, arguments in table:
                try:
                    check(**shared, **arguments)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    error.add_note(f"case: {name or arguments}")
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(table)} cases", failed)

        signature = inspect.signature(check)
        shared = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        test.__signature__ = signature.replace(parameters=shared)  # type: ignore[attr-defined]
        return test

    return decorate


def _named(row: Any, keys: list[str]) -> tuple[str | None, dict[str, Any]]:
    """A row's name, if it has one, and its values by the arguments that they are for."""
    if isinstance(row, ParameterSet):
        assert not row.marks, "a case has no marks of its own"
        return row.id, dict(zip(keys, row.values, strict=True))
    return None, dict(zip(keys, (row,) if len(keys) == 1 else row, strict=True))
