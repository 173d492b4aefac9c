"""Calls timed in turn, so that a machine whose speed drifts is the same for all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """How long one call took, over and over, in milliseconds."""

    taken: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.taken)

    @property
    def spread(self) -> tuple[float, float]:
        """The 10th and the 90th percentile."""
        tenths = statistics.quantiles(self.taken, n=10, method="inclusive")
        return tenths[0], tenths[-1]


def in_turn(calls: Sequence[Callable[[], object]], count: int, pause_s: float = 0.0) -> list[Times]:
    """Make each call `count` times, one after the other: A B C, A B C; the first tenth is not counted.

    Args:
        pause_s: before each call, in seconds: a client thinks between two calls.
    """
    taken: list[list[float]] = [[] for _ in calls]
    for number in range(count + count // 10):
        for call, found in zip(calls, taken, strict=True):
            time.sleep(pause_s)
            begun = time.perf_counter()
            call()
            if number >= count // 10:
                found.append((time.perf_counter() - begun) * 1000)
    return [Times(found) for found in taken]
