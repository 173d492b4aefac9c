"""What may be skipped in CI: `scripts/test` with CI=true fails where more is, so that no proof is lost unseen."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

MOST = {
    "needs radare2 or rizin, which Debian 12 does not have": 7,
    "fish reads with its line editor: to the kernel it waits for keys": 2,
    "its exec takes a command": 2,
    "root may write everywhere": 1,
    "takes over a minute; scripts/container runs it": 1,
    "expect is not installed": 1,
    "not installed": 1,
    "pinentry-tty is not installed": 1,
    "needs uv": 1,
    "the history is not here": 1,
    "before tmux 3.6 no option changes columns": 1,
    "needs Debian's newest fish: scripts/fish fetches it": 128,
}
"""Reasons, and how many tests each may skip."""


def too_many(reports: list[Any]) -> Counter[str]:
    """The reasons of skips that are more than allowed, and by how many."""
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports) - Counter(MOST)


def skipped(config: pytest.Config) -> list[Any]:
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("skipped", []) if reporter else []  # a worker has none


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == 0 and too_many(skipped(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if more := too_many(skipped(config)):
        terminalreporter.section("more is skipped than tests/skips.py allows")
        for reason, count in more.items():
            terminalreporter.line(f"{count} more: {reason}")
