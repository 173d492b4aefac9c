"""Fixtures for all tests of a file, made in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest


def of_file(make: Callable[..., AbstractContextManager[Any]], *arguments: Any, **named: Any) -> Any:
    """A fixture under the name to which this is assigned: what `make` gives, once for the file."""

    @pytest.fixture(scope="module")
    def fixture() -> Iterator[Any]:
        with make(*arguments, **named) as made:
            yield made

    return fixture
