"""What tests of many machines share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.nodes.brokers import Brokers, three_brokers


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers over HTTP."""
    with three_brokers(tmp_path_factory.mktemp("fleet")) as three:
        yield three
