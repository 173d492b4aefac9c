"""Runs a program's text as `python -W error -c` does; what it imports may be there already."""

from __future__ import annotations

import sys
import warnings

if __name__ == "__main__":
    warnings.simplefilter("error")
    exec(compile(sys.argv[1], "<string>", "exec"), {"__name__": "__main__"})
