"""On which machine a new session is made. Pure.

Of two machines, taken at random of those that fit, the one with more room: that is good without a count that all
gateways share. The word of the machine's own broker is the last; if it has no room, the next two are looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from tmuxmcp.nodes.transport import Machine

Sample = Callable[[Sequence[Machine], int], Sequence[Machine]]
"""`sample(machines, count)`: so many of them at random, as `random.sample`."""


def fitting(machines: Sequence[Machine], labels: Mapping[str, str]) -> list[Machine]:
    """The machines that have these labels and take new sessions."""
    return [each for each in machines if not each.drained and labels.items() <= each.labels.items()]


def in_turn(machines: Sequence[Machine], sample: Sample) -> Iterator[Machine]:
    """The machines in the order in which they are to be asked; those that are known to be full come last."""
    left = [each for each in machines if each.free != 0]
    full = [each for each in machines if each.free == 0]
    while left or full:
        of = left or full
        chosen = max(sample(of, min(2, len(of))), key=_room)
        of.remove(chosen)
        yield chosen


def _room(machine: Machine) -> float:
    """Sessions that it has room for; what is not known is less than what is."""
    return 0.5 if machine.free is None else machine.free


def ranked(names: Sequence[str], key: str) -> list[str]:
    """Names of machines in an order of this key's own: another machine more or less changes no other's place."""

    return sorted(names, key=lambda name: digest(f"{key}\n{name}"))


def digest(text: str) -> str:
    """Eight letters that are a text's own."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
