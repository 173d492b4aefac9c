"""Shells that we never start with marks, and adopt where somebody started them: dash, busybox's ash, mksh, ksh93."""

from __future__ import annotations

from collections.abc import Callable

from tmuxmcp.machine.launch.shells.record import Shell, options

SH = Shell("sh", files=("sh",), reads_lines=True, reads_lines_afar=True)
"""One that goes by no other name."""

DASH = Shell("dash", files=("dash",), edits=False, reads_lines=True, reads_lines_afar=True, bare=options("-i"))

ASH = Shell(
    "ash",
    files=("ash",),
    called=("busybox",),
    applets=("ash", "sh"),
    lines_ask=True,
    reads_lines_afar=True,
    bare=options("-i"),
)
"""Busybox's has a line editor; one of another system may have none."""


def _bare(*editors: tuple[str, ...]) -> Callable[[bool], list[tuple[str, ...]]]:
    """With the options for each of its line editors."""
    lines = ("-i", "+o", "emacs", "+o", "gmacs", "+o", "vi")
    return lambda reads_lines: [lines] if reads_lines else [("-i", *editor) for editor in editors]


MKSH = Shell(
    "mksh",
    files=("mksh", "lksh", "mksh-static"),
    reads_lines=True,
    keeps_file=True,
    bare=_bare((), ("-o", "vi")),
)

KSH93 = Shell(
    "ksh93",
    files=("ksh", "ksh93", "rksh", "rksh93"),
    reads_lines=True,
    keeps_file=True,
    bare=_bare(("-o", "emacs"), ("-o", "vi"), ("-o", "gmacs")),
)
