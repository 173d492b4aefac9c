"""Reads the setting `policy`: tables that are rules, and the name of a tier. What is wrong is told by its number."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.gate.policy.judge import STRICTNESS, Policy, Rule
from tmuxmcp.gate.policy.meanings import MEANINGS
from tmuxmcp.gate.policy.shelltext import words_of

TIERS = ("read-only", "standard", "careful", "full")
CONDITIONS = ("tool", "program", "argv", "command", "path", "host", "mode", "keys", "does", "secret")
RULE_TOOLS = frozenset(OPERATIONS) | words_of("start_recording stop_recording request_user_input")
"""What a rule may name: all that there is, and what is still to come."""

RULE_MODES = words_of("shell_prompt running line_input password pager editor fullscreen stopped exited lost unknown")

SYSTEM_DIRECTORIES = (
    *("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "opt", "root", "sbin", "srv", "usr", "var"),
    *("Applications", "Library", "System", "Users"),  # of macOS
)

STANDARD_RULES: list[dict[str, Any]] = [
    {
        "program": ["sudo", "su", "doas", "pkexec", "run0", "runuser", "machinectl"],
        "action": "deny",
        "reason": "another user's rights are not for agents; ask the person to do this step",
    },
    {
        "program": ["insmod", "rmmod", "modprobe"],
        "action": "deny",
        "reason": "this changes the machine itself",
    },
    {
        "does": "end-machine",
        "action": "deny",
        "reason": "this ends the machine or puts it to sleep",
    },
    {
        "does": "write-disk",
        "action": "deny",
        "reason": "this writes to a disk past its file system",
    },
    {
        "program": ["rm", "chmod", "chown", "chgrp"],
        "path": [
            "/",
            "/[*]",
            "~",
            "~/[*]",
            *(f"/{each}{behind}" for each in SYSTEM_DIRECTORIES for behind in ("", "/[*]")),
        ],
        "action": "deny",
        "reason": "this would take away the system or the whole home directory; name the files inside it",
    },
    {
        "does": "run-download",
        "action": "deny",
        "reason": "nobody has read what would run; save it to a file and read that first",
    },
]
"""What no agent needs; everything else is allowed."""


def parse_policy(entries: Sequence[Any]) -> Policy:
    """The policy that the setting describes: tables that are rules, and at most one tier, by name or as a table.

    Raises:
        InvalidArgument: naming the rule by its number, from 1.
    """
    rules, tier = [], ""
    for number, entry in enumerate(entries, 1):
        named = entry.get("tier") if isinstance(entry, Mapping) and "tier" in entry else entry
        if isinstance(named, str):
            extra = [key for key in entry if key != "tier"] if isinstance(entry, Mapping) else []
            if named not in TIERS or extra or tier:
                wrong = f"unknown tier {named!r}" if named not in TIERS else "a tier stands alone, and there is one"
                raise _wrong(number, wrong, f"Tiers are {', '.join(TIERS)}.")
            tier = named
        elif isinstance(entry, Mapping):
            rules.append(_rule(number, str(number), entry))
        else:
            raise _wrong(number, "it is neither a table nor the name of a tier")
    return Policy(tuple(rules), tier or "full", _rules_of(tier))


def _rules_of(tier: str) -> tuple[Rule, ...]:
    """What a tier says of single commands: `standard` denies, and `careful` asks about the same."""
    if tier not in ("standard", "careful"):
        return ()
    action = {} if tier == "standard" else {"action": "confirm"}
    return tuple(_rule(0, tier, entry | action) for entry in STANDARD_RULES)


def _wrong(number: int, problem: str, hint: str = "") -> InvalidArgument:
    hint = hint or f"A rule has action, reason and any of {', '.join(CONDITIONS)}."
    return InvalidArgument(f"Rule {number} of the policy: {problem}.", hint=hint, rule=number)


def _rule(number: int, label: str, entry: Mapping[str, Any]) -> Rule:
    unknown = sorted(set(entry) - {*CONDITIONS, "action", "reason"})
    if unknown:
        raise _wrong(number, f"unknown key {unknown[0]!r}")
    action, reason = entry.get("action"), entry.get("reason", "")
    if action not in STRICTNESS:
        raise _wrong(number, f"action must be allow, deny or confirm, not {action!r}")
    if not isinstance(reason, str):
        raise _wrong(number, "reason must be text")
    command = entry.get("command", "")
    if not isinstance(command, str) or ("command" in entry and not command):
        raise _wrong(number, "command must be a regular expression")
    _check_regex(number, command)
    lists = {name: _patterns(number, name, entry[name]) for name in CONDITIONS if name in entry and name != "command"}
    for pattern in lists.get("does", ()):
        if pattern not in MEANINGS:
            raise _wrong(number, f"nothing is known that does {pattern!r}", f"There are: {', '.join(MEANINGS)}.")
    for name, known in (("tool", RULE_TOOLS), ("mode", RULE_MODES)):
        for pattern in lists.get(name, ()):
            if not any(fnmatch.fnmatchcase(each, pattern) for each in known):
                raise _wrong(number, f"no {name} is called {pattern!r}", f"There are: {', '.join(sorted(known))}.")
    lists["path"] = tuple(_path_pattern(number, each) for each in lists.get("path", ()))
    return Rule(action, reason or _default_reason(number, entry), label, command=command, **lists)


def _default_reason(number: int, entry: Mapping[str, Any]) -> str:
    conditions = ", ".join(name for name in CONDITIONS if name in entry)
    return f"rule {number} of the policy ({conditions or 'everything'})"


def _patterns(number: int, name: str, value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if (
        not isinstance(values, (list, tuple))
        or not values
        or not all(isinstance(each, str) and each for each in values)
    ):
        raise _wrong(number, f"{name} must be a pattern or a list of patterns")
    return tuple(values)


def _path_pattern(number: int, pattern: str) -> str:
    if pattern.startswith("~"):
        pattern = os.path.expanduser(pattern)
    if not pattern.startswith(("/", "*")):
        raise _wrong(number, f"path {pattern!r} must begin with /, ~ or *")
    return pattern


def _check_regex(number: int, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise _wrong(number, f"command is no regular expression: {error}") from None
