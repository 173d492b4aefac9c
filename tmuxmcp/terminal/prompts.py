"""The shape of a prompt: what of its line stays the same from one command to the next.

Digits, times, paths, the working directory and what stands in parentheses before the prompt's sign (a branch, its
counters, a virtual environment) change; everything else has to be equal. A line that may be a question, a progress
bar or half a command has no shape. Pure.
"""

from __future__ import annotations

import os
import re

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
