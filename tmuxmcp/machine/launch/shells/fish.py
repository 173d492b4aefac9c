"""fish: listens for commands after our key; it draws its prompt after it has sent the marks, from an event."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from tmuxmcp.contract.words import fish_quoted
from tmuxmcp.machine.launch.shells.record import BARE_PROMPT, FUNCTION_KEY, START_UP, Integration, Shell, options

_WITH_VALUE = ("-C", "--init-command", "-d", "--debug", "-o", "--debug-output", "-f", "--features", "--profile")
_NOT_INTERACTIVE = ("--command", "--no-execute", "--help", "--version", "--print-")


_PROMPT = f"function fish_prompt; echo -n '{BARE_PROMPT}'; end; function fish_right_prompt; end"
_AGAIN = f"""\
set x (status fish-path); exec $x --no-config --private -i -C 'for i in 1 2; set x (eval true); end; true | source'\r\
function fish_prompt; echo -n '{BARE_PROMPT}'; end\r"""
"""Starts it another way, and gives it our prompt when it shows its own."""


def _integrate(args: Sequence[str], environment: Mapping[str, str]) -> Integration | None:
    words = iter(args)
    for word in words:
        if word in _WITH_VALUE:
            next(words, "")
        elif not _is_interactive(word):
            return None
    file = fish_quoted(str(START_UP / "marks.fish"))
    return Integration([*args, "--init-command", f"source {file}"], {}, True)


def _is_interactive(word: str) -> bool:
    """Whether fish(1) is still interactive with it: it is no script, and no option that ends at once."""
    if word in ("-", "--") or word[:1] != "-":
        return False
    if word.startswith("--"):
        return not word.startswith(_NOT_INTERACTIVE)
    return word[:2] in _WITH_VALUE or not set(word) & set("cnvh")


def _reads_from(command: bytes, path: str) -> bytes:
    return b"begin\n%b\nend < %b" % (command, os.fsencode(fish_quoted(path)))


FISH = Shell(
    "fish",
    _integrate,
    key=FUNCTION_KEY,
    reads_from=_reads_from,
    draws_after_mark=True,
    status_variable="$status",
    prompt_hook="fish_prompt",
    files=("fish",),
    valued=_WITH_VALUE,
    getopt="Cdof",
    keeps_file=True,
    has_helpers=True,
    keeps_broken_line=True,
    without_files=("--no-config",),
    bare=options("--no-config", "--private", "-i", "-C", _PROMPT),
    exercise=(
        b"",
        b"\r",
        b"function f; set x (true); end; f; for i in 1 2; eval true; end; true | true\r",
        b"read x </dev/null; cd /; test a = b; or string match -q a b\r",
        b"switch (echo /*); case '*'; echo ~ $x (math 1 + 1) >/dev/null; end; f\r",
        # What its start leaves behind on the stack of fish 4 stays there for good.
        _AGAIN.encode(),
    ),
)
