"""Facts about a session -> its mode. Pure."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from tmuxmcp.contract.value import value

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
    | {"micro", "helix", "hx", "kak", "joe", "jmacs", "jpico", "jstar", "rjoe", "jed", "ne", "mcedit", "mg", "zile"}
    | {"nvi", "vis", "tilde", "dte", "ed", "editor", "sensible-editor"}
)
FULLSCREEN = frozenset({"top", "htop", "btop", "mc", "dialog", "whiptail", "watch", "fzf", "elinks", "links"})
"""Programs that draw the screen, some without asking for the alternate one."""

_SECRET_WORD = r"(?i)\b(?:password|passphrase|passcode|passwd|verification code|pin|otp|secret|token|api key)\b"
_STARS = r"[*•●▪∙]"
_ASKS_SECRET = re.compile(rf"{_SECRET_WORD}[^\n]*?(?:[:?>›»]\s*{_STARS}*|\s{_STARS}+|\[[\w ]*hidden\])\s*$")
_NO_WORD = re.compile(r"[\W_]*")


def asks_secret(text: str) -> bool:
    """Whether the end of a text asks for a secret: its last line, or the one above where that shows no word."""
    above, _, line = text.rpartition("\n")
    if _NO_WORD.fullmatch(line):
        return bool(_ASKS_SECRET.search(line) or _ASKS_SECRET.search(above.rpartition("\n")[2]))
    return bool(_ASKS_SECRET.search(line))


@value
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


# ---- The shape of a prompt: what of its line stays the same from one command to the next -----------------------------
#
# Digits, times, paths, the working directory and what stands in parentheses before the prompt's sign (a branch, its
# counters, a virtual environment) change; everything else has to be equal. A line that may be a question, a progress
# bar or half a command has no shape. Pure.

LONGEST_PROMPT = 512
"""Characters of a prompt's last line that are looked at; a longer line is none."""

PROMPT_SIGNS = "$#%>❯❮›»λ▶▸⟩⇒→∴➜✗✘✔±⚡"
"""With one of these a shell's prompt ends, or with a character of a private use area, as arrows of fonts are."""

_STYLE = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|[\x00-\x1f\x7f]")
_PRIVATE = r"\ue000-\uf8ff\U000f0000-\U0010ffff"
_SIGN_CLASS = rf"[{re.escape(PROMPT_SIGNS)}{_PRIVATE}]"
_ENDS_IN_SIGN = re.compile(rf"{_SIGN_CLASS}$")
_WORD_IN_BRACKETS = re.compile(r"\([\w.:/@+-]+\)$")
_IPYTHON = re.compile(r"In \[\d+\]:$")
_PROGRESS_DISPLAY = re.compile(
    r"(?:^|[^\w.-])\d{1,3}(?:[.,]\d+)?\s?%|[=#*.█▉░▒-]{3,}\s*>?$|(?:^|[^\w])\d+\s?/\s?\d+\s*>?$"
)
_ASKS_CHOICE = re.compile(r"\?|\((?:y|n|yes|no)\W|[\[(]\w/\w[\])]", re.IGNORECASE)
_PATH = re.compile(r"(?:\.\.\.|…)?(?:~[\w.-]*(?:/[\w.+,=@~-]*)*|(?<![\w.~-])[\w.-]*(?:/[\w.+,=@~-]*)+)")
_GROUP = re.compile(r" ?(?:\bgit:)?\([^()@<>]*\)(?=.*[^\s()])")
_DIGITS = re.compile(r"\d+")


def plain_line(line: str) -> str:
    """The line without colours, controls and the blanks at its end."""
    return _STYLE.sub("", line).rstrip()


def shape(line: str, cwd: str | None = None) -> str:
    """What of a prompt's line stays; empty where it cannot be a prompt's.

    Args:
        line: the last line of the screen up to the cursor, as it is or without colours.
        cwd: the working directory, where it is known: its name may stand there alone.
    """
    text = plain_line(line)
    if not may_be_prompt(text):
        return ""
    return _skeleton(text, cwd)


def _skeleton(text: str, cwd: str | None) -> str:
    for name in (cwd, os.path.basename(cwd)) if cwd and cwd.strip("/") else ():
        found = list(re.finditer(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text))
        if found:  # the last: a person or a machine may have the same name
            text = text[: found[-1].start()] + "/" + text[found[-1].end() :]
            break
    grouped = _GROUP.sub("", text)
    if _ENDS_IN_SIGN.search(grouped):
        text = grouped
    text = _PATH.sub("/", text)
    return re.sub(r"\s+", " ", _DIGITS.sub("0", text)).strip()


def may_be_prompt(line: str) -> bool:
    """Whether a line can be learnt as a prompt: it ends as prompts do, and is no question, progress or empty line.

    That it ends as a prompt does not make it one: `Overwrite>` does too.
    """
    text = plain_line(line)
    if not text or len(text) > LONGEST_PROMPT:
        return False
    if _IPYTHON.fullmatch(text):
        return True
    if _ASKS_CHOICE.search(text) or _PROGRESS_DISPLAY.search(text):
        return False
    return bool(_ENDS_IN_SIGN.search(text) or _WORD_IN_BRACKETS.fullmatch(text))


_ENDS_SO = re.compile(r"[$#%>:?)\]]\s*$")
PROGRESS_LINE = re.compile(r"\d\s?%|\d\s?/\s?\d+\W*$|[\[(][\s=#*.>█-]*[\])]\s*$")
"""How far something has come."""


def may_ask(line: str) -> bool:
    """Whether a line ends as prompts and questions do: `Resolving: ` does too, and is neither."""
    return bool(_ENDS_SO.search(line)) and not PROGRESS_LINE.search(line)
