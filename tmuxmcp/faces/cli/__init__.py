"""The command line. It holds no logic of its own: it reads words, calls the library and prints.

Nothing heavy is imported before it is needed: `--version`, `--help` and the shell's completion of a line come at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from tmuxmcp.contract.errors import TmuxMcpError, shortage
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import parse

LOCAL_VERBS = frozenset({"run", "page"})
"""Verbs that are not run elsewhere, as those are not whose work is operations: the page is this machine's."""

CO_COROUTINE = 0x80
"""Of the flags of a function's code: it is an `async def` (`inspect.CO_COROUTINE`, which takes long to import)."""


def _do(options: argparse.Namespace, words: Sequence[str]) -> int:
    """Do what the words say; on the session's own machine, if it is another one and it can only be done there."""
    module, name = options.parser.verb.handler.split(".")
    handler = getattr(import_module(f"tmuxmcp.faces.cli.{module}"), name)
    if handler.__code__.co_flags & CO_COROUTINE:
        from tmuxmcp.faces.cli.calling import with_any

        return with_any(options, handler)
    if hasattr(options, "session") and options.verb not in LOCAL_VERBS:
        from tmuxmcp.faces.cli import attached

        if attached.is_elsewhere(options):
            return attached.run(options, words)
    status: int = handler(options)
    return status


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        options = parse(words)
        status = _do(options, words)
        output.flush()
        return status
    except TmuxMcpError as error:
        return output.report(error, words)
    except KeyboardInterrupt:
        sys.unraisablehook = lambda _: None  # of an event loop that was half made, say, when it struck
        return 130
    except BrokenPipeError:
        output.forget()
        return 141  # what a shell says of a program that SIGPIPE ended
    except Exception as error:
        if told := shortage(error):  # a full disk, say: the machine's, and no defect of ours
            return output.report(told, words)
        return output.report_defect(error, words)
