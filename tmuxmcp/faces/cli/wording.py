"""Hints and notes in the words of the command line: `tmuxmcp kill`, where the broker says destroy_session.

The broker's texts name operations and arguments, as clients call them. Here they become verbs and options, at the one
place where a text is printed for a person; with `--json` they stay as every face has them.
"""

from __future__ import annotations

import re

VERB_OF = {
    "create_session": "new",
    "destroy_session": "kill",
    "list_sessions": "list",
    "list_commands": "history",
    "read": "read",
    "run": "run",
    "search": "search",
    "send": "send",
}
"""The verb of each operation that the command line calls with arguments of a person's own."""

_WORDING: list[tuple[str, str]] = [
    # The operations, each in the phrases in which our texts name it.
    *((rf"\b{name} needs a session_id\b", f"`tmuxmcp {verb}` needs an ID") for name, verb in VERB_OF.items()),
    (r"\bneeds a session_id\b", "needs an ID"),
    (r"\bwith create_session\b", "with `tmuxmcp new`"),
    (r"\blist_sessions (?=gives|lists)", "`tmuxmcp list` "),
    (r"\blist_sessions with after=\S+ goes on\b", "`tmuxmcp list` has them all"),
    (r"\bwith read or list_commands\b", "with `tmuxmcp view ID` or `tmuxmcp history ID`"),
    (r"\blist_commands (?=has)", "`tmuxmcp history ID` "),
    (r"\bstop_recording (?=ends)", "`tmuxmcp record ID --stop` "),
    (r"\bstart_recording (?=begins)", "`tmuxmcp record ID` "),
    (r"\bexport_recording (?=makes)", "`tmuxmcp export ID` "),
    (r"\bget_session and read know them\b", "`tmuxmcp log ID` prints what is kept of them"),
    (r"`?\bread view=(screen|scrollback)\b`?", r"`tmuxmcp read ID --view \1`"),
    (r"`?\bread wait_for=(\w+)\b`?", r"`tmuxmcp read ID --wait \1`"),
    (r"`?\bread since=(\d+)\b`?", r"`tmuxmcp read ID --since \1`"),
    (r"`read` (?=gives)|\bread (?=still gives)", "`tmuxmcp read` "),
    (r"\bor read again\b", "or `tmuxmcp read` again"),
    (r"\b([Aa]nswer(?: it)?) with send\b", r"\1 with `tmuxmcp send ID TEXT --enter`"),
    (r"\b([Uu]se|with) send\b", r"\1 `tmuxmcp send`"),
    (r"\bsend `([^`']+)` and Enter\b", r"`tmuxmcp send ID '\1' --enter`"),
    (r"\bwith (?:key C-c|signal INT)(?!\w)", "with `tmuxmcp send ID --key C-c`"),
    (r"\(key C-c, or signal\)", "(`tmuxmcp send ID --key C-c`)"),
    (r"\bread (?=shows)", "`tmuxmcp view ID` "),
    (r"\bforce still ends it\b", "`tmuxmcp release ID` does that, `tmuxmcp kill ID --force` still ends it"),
    (r"\bOnly a person can resume it\b", "`tmuxmcp resume` ends that"),
    (r"\bdestroy it first\b", "end it with `tmuxmcp kill ID` first"),
    (r"\blist_directory shows what is there\b", "Check the path"),
    (r"\bmake a session with program (\w+)", r"make a session by `tmuxmcp new \1`"),
    # The arguments.
    (r"\barguments go into args\b", "arguments are words of their own"),
    (r"\bOne key an element, as in `C-c`", "One key for each --key, as in `--key C-c`"),
    (r"\bas cwd\b", "as --cwd"),
    (r"\bwait_for=(\w+)", r"--wait \1"),
    (r"\bview=(\w+)", r"--view \1"),
    (r"\bformat=(\w+)", r"--format \1"),
    (r"\bmax_bytes\b", "--max-bytes"),
    (r"\bgive prompt_pattern\b", "set TMUXMCP_PROMPT_PATTERN"),
    (r"\bGive a session_id\b", "Give an ID"),
    (r"\ba next_offset\b", "an offset"),
    (r"\b(as|with) `text`", r"\1 TEXT"),
    (r"\bsince=(\d+)", r"--since \1"),
    (r"\bGive text, key, keys or enter\b", "Give TEXT, --key or --enter"),
    (r"\bexpression as pattern\b", "expression as --pattern"),
]
_RULES = [(re.compile(rf"(?<!tmuxmcp )(?:{pattern})"), words) for pattern, words in _WORDING]
_QUOTED = re.compile(r"((?<!\w)'[^']*'(?!\w))")
"""What a person gave, as errors show it: it stays as it is."""


def in_cli_words(text: str) -> str:
    """A text for a person at the command line."""
    pieces = _QUOTED.split(text)
    return "".join(piece if at % 2 else _reworded(piece) for at, piece in enumerate(pieces))


def _reworded(text: str) -> str:
    for pattern, words in _RULES:
        text = pattern.sub(words, text)
    return text
