"""What the launcher's step does to itself before it becomes the program; imported by `step.py` alone.

Each thing to do is a word and a value of text. Nothing here is decided: the broker has put together the list.
"""

import os
import resource


class Refused(Exception):
    """The system does not let us; what is to be started would have more rights than was said."""


def confine(things: list[tuple[str, str]]) -> None:
    """Do all of them, in order.

    Raises:
        Refused: one of them failed.
    """
    for name, value in things:
        try:
            DO[name](value)
        except (OSError, ValueError) as error:
            raise Refused(f"{name} {value[:80]}: {error}") from None


def join_group(directory: str) -> None:
    """Join a control group."""
    with open(os.path.join(directory, "cgroup.procs"), "w") as file:
        file.write("0")


def limit(value: str) -> None:
    """Set a resource limit, clamped to the hard one that we have: `RESOURCE SOFT HARD`."""
    which, soft, hard = (int(word) for word in value.split())
    own = resource.getrlimit(which)[1]
    if own != resource.RLIM_INFINITY:
        soft, hard = min(soft, own), min(hard, own)
    resource.setrlimit(which, (soft, hard))


DO = {"group": join_group, "limit": limit}
