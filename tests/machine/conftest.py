"""A terminal for tests of what the kernel says of one; panes with launcher and sink, without a broker."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator

import pytest

from tests.kit.panes import tmux

__all__ = ["tmux"]


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal."""
    ends = pty.openpty()
    yield ends
    for fd in ends:
        os.close(fd)
