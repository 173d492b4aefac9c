"""How the program ends."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import atexit
from tmuxmcp import __main__

class Held:
    def __del__(self):
        print("freed")

def main():
    global held
    held = Held()
    atexit.register(print, "told")
    print("said")
    return 3

__main__.main = main
__main__.run()
"""


def test_a_program_ends_with_its_status_and_frees_nothing():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "said\ntold\n", "")


def test_output_that_nobody_can_take_is_told():
    buffered = os.environ | {"PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-c", PROGRAM]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, env=buffered, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 120
    assert b"No space left on device" in done.stderr
