"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.cli import CommandLine, a_command_line


@pytest.fixture
def cli() -> Iterator[CommandLine]:
    """A command line of the test's own; nothing of its tmux server is left."""
    with a_command_line() as cli:
        yield cli
