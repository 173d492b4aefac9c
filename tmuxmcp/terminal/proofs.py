"""Proofs: what only a shell can say of a command, and only once that command is over.

`run` gives a shell a proof with each command. The shell keeps it to itself, and shows its first half where the output
ends (E) and its second half with the exit status (D). What was promised before, the hash of each half, is no secret:
it tells the shell's marks from copies that programs print. A proof counts once, so what is copied later is nothing new.
"""

from __future__ import annotations

import hashlib
import secrets

from tmuxmcp.contract.latedataclass import dataclass

PROOF_DIGITS = 32
"""Hexadecimal digits of each half: 128 bits, which nobody guesses."""


@dataclass(frozen=True)
class Promise:
    """The hashes of a proof's halves."""

    over: str
    """Of the half that comes with E."""
    done: str
    """Of the half that comes with D."""


def new_proof() -> str:
    """A proof, both halves one after the other."""
    return secrets.token_hex(PROOF_DIGITS)


def promise_of(proof: str) -> Promise:
    """What may be told of a proof beforehand."""
    return Promise(hash_of(proof[:PROOF_DIGITS]), hash_of(done_half(proof)))


def done_half(proof: str) -> str:
    """The half that comes with D."""
    return proof[PROOF_DIGITS:]


def hash_of(half: str) -> str:
    """By which half a proof is known."""
    return hashlib.sha256(half.encode("utf-8", "replace")).hexdigest()
