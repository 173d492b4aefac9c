"""A program that prints lines at a steady pace until a file is there, and what it must have printed by then."""

from __future__ import annotations

import hashlib
import itertools
import random
from pathlib import Path

PROGRAM = """import hashlib, os, random, sys, time
rng, whole = random.Random(int(sys.argv[1])), hashlib.sha256()
sys.stdout.buffer.write(b"beg" b"in\\n")
while not os.path.exists(sys.argv[2]):
    piece = rng.randbytes(2000).hex("\\n", 37).encode() + b"\\n"
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    whole.update(piece.replace(b"\\n", b"\\r\\n"))
    time.sleep(0.004)
print("en" "d", whole.hexdigest(), flush=True)
"""
BEGIN, END = b"begin\r\n", b"end "


def write_program(directory: Path) -> Path:
    """The program as a file, so that no shell echoes what it prints."""
    path = directory / "flood.py"
    path.write_text(PROGRAM)
    return path


def is_whole(log: bytes) -> bool:
    """Whether a log holds all that the program printed, once and in order, up to its own sum."""
    start = log.index(BEGIN) + len(BEGIN)
    end = log.index(END, start)
    return hashlib.sha256(log[start:end]).hexdigest().encode() == log[end + len(END) :].split()[0]


def is_prefix(log: bytes, seed: int) -> bool:
    """Whether what a log holds is the first bytes of what the program prints, however many."""
    rng = random.Random(seed)
    rest = log[log.index(BEGIN) + len(BEGIN) :]
    for _ in itertools.count():
        piece = (rng.randbytes(2000).hex("\n", 37).encode() + b"\n").replace(b"\n", b"\r\n")
        if len(rest) <= len(piece):
            return piece.startswith(rest)
        if not rest.startswith(piece):
            return False
        rest = rest[len(piece) :]
    raise AssertionError
