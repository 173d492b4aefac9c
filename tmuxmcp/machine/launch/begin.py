"""Runs `step.py` from its cached bytecode: the text of a script that is named to Python is compiled at every start.

Run as `python -I -S begin.py SESSION_DIR`.
"""

import sys

sys.path.insert(0, __file__.rpartition("/")[0])

import step  # type: ignore[import-not-found]  # it lies beside this script

step.main(sys.argv[1])
