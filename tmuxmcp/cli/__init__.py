"""The command line. It holds no logic of its own: it reads words, calls the library and prints.

Nothing heavy is imported before it is needed: `--version`, `--help` and the shell's completion of a line come at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tmuxmcp.cli import output
from tmuxmcp.cli.arguments import parse
from tmuxmcp.errors import TmuxMcpError, shortage


def _is_elsewhere(words: Sequence[str]) -> bool:
    """Whether one of the words may name a session of another machine, before that is looked at closely."""
    return any("@" in word for word in words)


def _on_its_machine(options: argparse.Namespace, words: Sequence[str]) -> int:
    """Do what names a session of another machine and can only be done there; all else as ever."""
    from tmuxmcp.cli import elsewhere

    status: int = elsewhere.run(options, words) if elsewhere.meant(options) else options.handler(options)
    return status


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        options = parse(words)
        status: int = _on_its_machine(options, words) if _is_elsewhere(words) else options.handler(options)
        sys.stdout.flush()
        return status
    except TmuxMcpError as error:
        return output.report(error, words)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        output.forget_stdout()
        return 141  # what a shell says of a program that SIGPIPE ended
    except Exception as error:
        if told := shortage(error):  # a full disk, say: the machine's, and no defect of ours
            return output.report(told, words)
        return output.report_defect(error, words)
