"""Judges what an agent wants to do by the person's rules: allow, deny, or ask a person first.

A seat belt: it keeps an agent from what it would do by mistake. A terminal is arbitrary code, and a program that
wants to get round it can; the sandbox, the container and the user id are the boundary.

Pure: `judge` gets an action and the rules, and does nothing.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.value import field, replace, value
from tmuxmcp.gate.policy import effects
from tmuxmcp.gate.policy.effects import Match
from tmuxmcp.gate.policy.shelltext import SimpleCommand, Word, words_of
from tmuxmcp.gate.policy.wrappers import basename

Decision = Literal["allow", "deny", "confirm"]

NAMED_WORDS, NAMED_CHARS = 3, 60
"""So many words that cannot be told are named in a reason, and so much of each."""

STRICTNESS = {"allow": 0, "confirm": 1, "deny": 2}


@value
class Action:
    """What an agent wants to do, with what is known of where."""

    tool: str
    read_only: bool = False
    """The tool only looks."""
    commands: tuple[SimpleCommand, ...] = ()
    """What it would run, with what that runs in turn."""
    text: str | None = None
    """A shell text as it was written."""
    paths: tuple[Word, ...] = ()
    """Absolute paths that its arguments name."""
    hosts: tuple[Word, ...] = ()
    mode: str | None = None
    """What the session's terminal does."""
    keys: tuple[str, ...] = ()
    """Keys that it presses, by tmux's names."""
    secret: str = ""
    """Name of the secret that it types."""


@value
class Rule:
    """One rule; it matches when every condition that it has does."""

    action: Decision
    reason: str
    label: str
    """Its number from 1, or the tier that it belongs to."""
    tool: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    command: str = ""
    path: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    mode: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    does: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()


@value
class Policy:
    """Rules in order; the tier judges what no rule matches."""

    rules: tuple[Rule, ...] = ()
    tier: str = "full"
    standard: tuple[Rule, ...] = field(default=(), repr=False)
    """Rules of the tier."""

    @property
    def allows_everything(self) -> bool:
        """There is nothing to judge."""
        return not self.rules and self.tier == "full"

    @property
    def looks_at_modes(self) -> bool:
        """Some rule asks what a session's terminal does."""
        return any(rule.mode for rule in self.rules)


@value
class Ruling:
    """What becomes of an action, and why."""

    decision: Decision
    reason: str = ""
    rule: str = ""
    """The rule's number, or the tier's name; empty: nothing said otherwise."""


ALLOW = Ruling("allow")


# ---- judging -----------------------------------------------------------------------------------


def judge(action: Action, policy: Policy) -> Ruling:
    """The verdict on an action: the strictest of those on each command in it, each by the first rule that matches.

    A condition that cannot be told (an expansion, text that does not parse) counts as met in a rule that denies or
    asks, and as not met in one that allows.
    """
    verdict = ALLOW
    for command in action.commands or (SimpleCommand(()),):
        found = _of_command(action, command, policy)
        if STRICTNESS[found.decision] > STRICTNESS[verdict.decision] or verdict is ALLOW:
            verdict = found
    return verdict


def asking(verdict: Ruling, policy: Policy) -> Rule | None:
    """The rule by which a verdict asks; None: it does not ask, or several could be meant."""
    rules = (rule for rule in (*policy.rules, *policy.standard) if rule.action == verdict.decision == "confirm")
    found = [rule for rule in rules if rule.label == verdict.rule and verdict.reason.startswith(rule.reason)]
    return found[0] if len(found) == 1 else None


def agreeing(policy: Policy, agreed: Rule) -> Policy:
    """The policy in which one rule allows what it asks about."""

    def changed(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return tuple(replace(rule, action="allow") if rule is agreed else rule for rule in rules)

    return replace(policy, rules=changed(policy.rules), standard=changed(policy.standard))


def _of_command(action: Action, command: SimpleCommand, policy: Policy) -> Ruling:
    for rule in policy.rules:
        if (verdict := _apply(rule, action, command)) is not None:
            return verdict
    if policy.tier == "read-only" and not action.read_only:
        return Ruling("deny", f"{action.tool} changes something, and only reading is allowed", "read-only")
    for rule in policy.standard:
        if (verdict := _apply(rule, action, command)) is not None:
            return verdict
    return Ruling("allow", rule=policy.tier if policy.tier != "full" else "")


def _apply(rule: Rule, action: Action, command: SimpleCommand) -> Ruling | None:
    match = matches(rule, action, command)
    if match is False or (match is None and rule.action == "allow"):
        return None
    reason = rule.reason
    if match is None:
        reason += f" ({_not_told(command)})"
    return Ruling(rule.action, reason, rule.label)


def _not_told(command: SimpleCommand) -> str:
    """What cannot be told of a command, and what would be."""
    if not command.untold:
        return "what the command would do cannot be told from its text: write it as plain commands, one a line"
    words = ", ".join(f"`{_shortened(word)}`" for word in command.untold[:NAMED_WORDS])
    return f"what {words} stands for cannot be told from the text of the command: write the value itself in its place"


def _shortened(word: str) -> str:
    return word if len(word) <= NAMED_CHARS else f"{word[: NAMED_CHARS - 1]}…"


def matches(rule: Rule, action: Action, command: SimpleCommand) -> Match:
    """Whether every condition of a rule is met; None when that hangs on what cannot be told."""
    verdict: Match = True
    for name, check in CONDITION_CHECKS.items():
        if getattr(rule, name):
            match = check(rule, action, command)
            if match is False:
                return False
            verdict = verdict and match
    return verdict


def _tool(rule: Rule, action: Action, command: SimpleCommand) -> Match:
    return any(fnmatch.fnmatchcase(action.tool, pattern) for pattern in rule.tool)


def _mode(rule: Rule, action: Action, command: SimpleCommand) -> Match:
    return action.mode is not None and any(fnmatch.fnmatchcase(action.mode, pattern) for pattern in rule.mode)


def _program(rule: Rule, action: Action, command: SimpleCommand) -> Match:
    if command.program is None:
        return None
    name = basename(command.program)
    whole = command.program
    return any(fnmatch.fnmatchcase(whole if "/" in pattern else name or "", pattern) for pattern in rule.program)


def _argv(rule: Rule, action: Action, command: SimpleCommand) -> Match:
    if not command.argv:
        return False
    name = command.program if "/" in rule.argv[0] else basename(command.program)
    return match_words(rule.argv, (name, *command.argv[1:]))


def match_words(patterns: Sequence[str], words: Sequence[Word]) -> Match:
    """Whether words match patterns one by one; `**` stands for any number of words, none included."""
    if words == (None,):
        return None
    row: list[Match] = [True, *(False for _ in words)]
    for pattern in patterns:
        last, row = row, [row[0] if pattern == "**" else False]
        for at, word in enumerate(words):
            if pattern == "**":
                row.append(effects.either(last[at + 1], row[at]))
            else:
                row.append(effects.both(last[at], None if word is None else fnmatch.fnmatchcase(word, pattern)))
    return row[-1]


def _command(rule: Rule, action: Action, command: SimpleCommand) -> Match:
    import regex

    if action.text is None:
        return False
    find = regex.fullmatch if rule.action == "allow" else regex.search
    try:
        return find(rule.command, action.text, flags=regex.DOTALL, timeout=0.2) is not None
    except TimeoutError:
        return None


def _path(rule: Rule, action: Action, command: SimpleCommand) -> Match:
    match = effects.is_path if rule.action == "allow" else effects.may_be_path
    return _several(rule, [*action.paths, *effects.paths_of(command)], rule.path, match)


def _host(rule: Rule, action: Action, command: SimpleCommand) -> Match:
    values = [*action.hosts, *effects.hosts_of(command)]
    return _several(rule, values, rule.host, lambda value, pattern: fnmatch.fnmatchcase(value.lower(), pattern.lower()))


def _keys(rule: Rule, action: Action, command: SimpleCommand) -> Match:
    return _several(rule, list[Word](action.keys), rule.keys, fnmatch.fnmatchcase)


def _secret(rule: Rule, action: Action, command: SimpleCommand) -> Match:
    return bool(action.secret) and any(fnmatch.fnmatchcase(action.secret, pattern) for pattern in rule.secret)


def _does(rule: Rule, action: Action, command: SimpleCommand) -> Match:
    match: Match = False
    for name in rule.does:
        match = effects.either(match, effects.match_meaning(name, command))
    return match


def _several(rule: Rule, values: Iterable[Word], patterns: Sequence[str], match: Callable[[str, str], bool]) -> Match:
    """A rule that allows must know all of the values; one that denies or asks matches by any."""
    found = [_match_word(value, patterns, match) for value in values]
    if rule.action == "allow":
        return bool(found) and all(found)
    return True if True in found else (None if None in found else False)


def _match_word(value: Word, patterns: Sequence[str], match: Callable[[str, str], bool]) -> Match:
    return None if value is None else any(match(value, pattern) for pattern in patterns)


CONDITION_CHECKS: dict[str, Callable[[Rule, Action, SimpleCommand], Match]] = {
    "tool": _tool,
    "mode": _mode,
    "program": _program,
    "argv": _argv,
    "command": _command,
    "path": _path,
    "host": _host,
    "keys": _keys,
    "does": _does,
    "secret": _secret,
}


# ---- Reads the setting `policy` --------------------------------------------------------------------------------------
#
# Tables that are rules, and the name of a tier. What is wrong is told by its number.

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
        if pattern not in effects.MEANINGS:
            raise _wrong(
                number, f"nothing is known that does {pattern!r}", f"There are: {', '.join(effects.MEANINGS)}."
            )
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
