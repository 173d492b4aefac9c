"""`python -m tmuxmcp` and the `tmuxmcp` script."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Run the command line; the collector rests until the imports are done.

    Importing the SDK builds about a thousand pydantic models; collecting meanwhile costs 40 % of the start.
    """
    gc.disable()
    from tmuxmcp.cli import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
