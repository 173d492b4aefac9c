"""Where on its stack a process waits: a shell at its prompt waits at a place of its own, whatever it asks elsewhere.

A shell's prompt, its builtin `read`, a file that it sources and a subshell can sleep in the same system call on the
same terminal in the same mode. They do not do so in the same functions: how deep the stack is, and which return
addresses lie on it, tells them apart (proc(5): `stat`, `syscall`, `mem`). Linux tells that to root and, where Yama does
not forbid it, to the same user.
"""

from __future__ import annotations

import os
import struct
from functools import cached_property

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine import proc

DEEPEST_BYTES = 256 * 1024
"""Of a stack that is looked at: a shell that is deeper is not at its prompt."""

SHARED_ADDRESSES = 0.7
"""How many of a proven prompt's return addresses another stack of the same depth must have.

The rest is left over from calls that have returned. Prompts were measured to have 83-100 %, other places 15-55 %.
"""

_WORD_BYTES = struct.calcsize("P")


@dataclass(frozen=True)
class Stack:
    """Where one process waits."""

    call: int
    """Number of the system call."""
    depth: int
    """Bytes from where the stack began to where it is now."""
    returns: frozenset[tuple[int, str, int]]
    """What may be return addresses: the depth at which each lies, the program's file or library, the offset in it."""

    def common(self, other: Stack) -> Stack:
        """What two looks at the same place share."""
        return Stack(self.call, self.depth, self.returns & other.returns)

    @cached_property
    def is_known(self) -> bool:
        """Some return addresses could be read."""
        return bool(self.returns)

    def fits(self, other: Stack) -> bool | None:
        """Whether a process waits at this place; None: as deep, and the rest does not tell."""
        if self.depth != other.depth:
            return False
        if not self.is_known or self.call != other.call:
            return None
        return len(self.returns & other.returns) >= SHARED_ADDRESSES * len(self.returns) or None


def stack_of(pid: int) -> Stack | None:
    """Where the main thread of a process waits; None: it does not wait, or waits too deep.

    Raises:
        OSError: it is gone, or not ours to look at.
    """
    seen = proc.waits_in(pid)
    if seen is None:
        return None
    call, pointer = seen
    start = proc.stack_start(pid)
    depth = start - pointer
    if not 0 < depth <= DEEPEST_BYTES:
        return None
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        data = os.pread(file.fileno(), depth, pointer)
    code = list(proc.code_of(pid))
    found = set[tuple[int, str, int]]()
    for at, (word,) in enumerate(struct.iter_unpack("P", data[: len(data) // _WORD_BYTES * _WORD_BYTES])):
        for low, high, name, base in code:
            if low <= word < high:
                found.add((depth - at * _WORD_BYTES, name, word - base))
                break
    return Stack(call, depth, frozenset(found)) if proc.waits_in(pid) == seen else None
