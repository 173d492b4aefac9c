"""Facts about a session -> its mode. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tmuxmcp.contract.latedataclass import dataclass

if TYPE_CHECKING:
    from tmuxmcp.contract.results import Mode

PROMPT_SHELLS = frozenset(
    {"bash", "zsh", "fish", "sh", "dash", "ash", "ksh", "ksh93", "mksh", "busybox", "tcsh", "csh", "nu", "xonsh"}
)
"""Programs whose line editor is a prompt for commands, whoever started them."""

PAGERS = frozenset({"less", "more", "most", "man", "pg", "bat", "moar", "pager", "sensible-pager", "delta"})
EDITORS = frozenset(
    {"vim", "vi", "nvim", "view", "vimdiff", "vim.basic", "vim.tiny", "rvim", "ex", "nano", "rnano", "pico", "emacs"}
    | {"emacs-nox", "emacs-gtk", "emacs-x", "emacsclient"}
    | {"micro", "helix", "hx", "kak", "joe", "jed", "ne", "mcedit", "ed", "editor", "sensible-editor"}
)
FULLSCREEN = frozenset({"top", "htop", "btop", "mc", "dialog", "whiptail", "watch", "fzf", "elinks", "links"})
"""Programs that draw the screen, some without asking for the alternate one."""

ASKS_SECRET = re.compile(r"(?i)(?:password|passphrase|passcode|passwd|verification code)[^\n]*: ?$")
"""The last line of a far terminal whose facts cannot be had: it is told of, and makes no mode."""


@dataclass(frozen=True)
class ModeFacts:
    """What a mode follows from."""

    lost: bool = False
    exited: bool = False
    at_prompt: bool = False
    """The marks say that the session's own shell waits at its prompt."""
    waiting: str = "unknown"
    """`editor line secret busy stopped unknown`: the kernel's word."""
    alternate_screen: bool = False
    command: str = ""
    """Name of the program that waits, or of the foreground program."""


def mode_of(facts: ModeFacts) -> Mode:
    """The mode; the first row that fits."""
    if facts.lost:
        return "lost"
    if facts.exited:
        return "exited"
    if facts.waiting == "stopped":
        return "stopped"
    if facts.waiting == "secret":
        return "password"
    if facts.at_prompt:
        return "shell_prompt"
    if facts.alternate_screen:
        return _drawn(facts.command, "fullscreen")
    if facts.waiting == "line":
        return "line_input"
    if facts.waiting == "editor":
        return _drawn(facts.command, "line_input")  # a shell without our marks too: `run` does not work in it
    return "running" if facts.waiting == "busy" else "unknown"


def _drawn(command: str, otherwise: Mode) -> Mode:
    if command in PAGERS:
        return "pager"
    if command in EDITORS:
        return "editor"
    return "fullscreen" if command in FULLSCREEN else otherwise
