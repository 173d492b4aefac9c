"""The official conformance suite against `tmuxmcp serve --http`, alone and with the fixtures that it calls by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.baseline import PRODUCT, UNSCORED, names
from tests.kit.clients import MODULES, node
from tests.kit.service import Service

pytestmark = pytest.mark.slow

REVISIONS = ("2025-11-25", "2026-07-28")
RUNS = {
    **{revision: ("conformance-next", "--requirements", revision) for revision in REVISIONS},
    "stable": ("conformance-stable", "--suite", "all"),
}
"""What is run: a revision's own set of scenarios, frozen at its release, and all of the suite's stable version."""

Outcomes = dict[str, dict[str, bool]]


@pytest.fixture
def outcomes(state_dir: Path, tmp_path: Path) -> Iterator[Callable[..., Outcomes]]:
    services: list[Service] = []

    def run(module: str, *runs: str) -> Outcomes:
        service = Service(state_dir, "--no-token", module=module)
        services.append(service)
        with ThreadPoolExecutor(len(runs)) as pool:
            return dict(zip(runs, pool.map(lambda run: suite(run, service.url, tmp_path), runs), strict=True))

    yield run
    for service in services:
        service.stop()


def suite(run: str, url: str, home: Path) -> dict[str, bool]:
    """Whether each scenario passed."""
    package, *words = RUNS[run]
    script = MODULES / package / "dist" / "index.js"
    said = node(script, "server", "--url", f"{url}/mcp", *words, home=home).stdout
    summary = said.partition("=== SUMMARY ===")[2]
    found = re.findall(r"^([✓✗]) (\S+): \d+ passed", re.sub(r"\x1b\[[0-9;]*m", "", summary), re.MULTILINE)
    assert len(found) > 20, said[-3000:]
    return {name: sign == "✓" for sign, name in found}


def failed(outcomes: dict[str, bool]) -> set[str]:
    return {name for name, passed in outcomes.items() if not passed}


def test_with_fixtures_all_that_is_required_passes(outcomes: Callable[..., Outcomes]) -> None:
    found = outcomes("tests.conformance.server", *RUNS)
    for run, each in found.items():
        assert failed(each) == names(UNSCORED) & each.keys(), run
    assert names(UNSCORED) <= {name for each in found.values() for name in each}


def test_the_product_fails_only_where_nothing_can_apply(outcomes: Callable[..., Outcomes]) -> None:
    found = outcomes("tmuxmcp", *REVISIONS)
    for run, each in found.items():
        assert failed(each) == names(PRODUCT, UNSCORED) & each.keys(), run
    assert names(PRODUCT) <= {name for each in found.values() for name in each}
