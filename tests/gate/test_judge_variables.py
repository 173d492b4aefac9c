"""Variables that a caller gives with a program: those that run something are judged, all others pass."""

from __future__ import annotations

from tests.conftest import Parsed
from tmuxmcp.gate.policy.judge import Action, judge, parse_policy

RUNS = [
    {"PROMPT_COMMAND": "touch x"},
    {"PROMPT_COMMAND": "history -a; sudo touch x"},
    {"PS1": "\\u $(touch x) \\$ "},
    {"PS1": "`touch x`"},
    {"PS4": '"$(touch x)"'},
    {"EDITOR": "touch"},
    {"GIT_SSH_COMMAND": "sh -c 'touch x'"},
    {"LESSOPEN": "|touch %s"},
    {"BASH_ENV": "/tmp/rc"},
    {"BASH_ENV": "rc"},
    {"ENV": "/tmp/rc"},
    {"ENV": "$HOME/rc"},
    {"ZDOTDIR": "/tmp"},
    {"HOME": "/tmp"},
    {"XDG_CONFIG_HOME": "/tmp"},
    {"LD_PRELOAD": "./x.so"},
    {"LD_AUDIT": "./x.so"},
    {"DYLD_INSERT_LIBRARIES": "x"},
    {"PYTHONSTARTUP": "x.py"},
    {"PERL5OPT": "-Mx"},
    {"RUBYOPT": "-rx"},
    {"NODE_OPTIONS": "--require ./x.js"},
    {"JAVA_TOOL_OPTIONS": "-javaagent:x.jar"},
    {"MAKEFLAGS": "--eval=$(shell touch x)"},
    {"INPUTRC": "x"},
    {"VIMINIT": "!touch x"},
    {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.pager", "GIT_CONFIG_VALUE_0": "touch x"},
    {"BASH_FUNC_ls%%": "() { touch x; }"},
    {"GOOD": "1", "LD_PRELOAD": "x.so"},
]
PASSES: list[dict[str, str]] = [
    {},
    {"DEBUG": "1", "DATABASE_URL": "postgres://x/touch"},
    {"PATH": "/opt/bin:/usr/bin", "LD_LIBRARY_PATH": "/opt/lib", "PYTHONPATH": "src"},
    {"PS1": "\\u@\\h \\$ "},
    {"PROMPT_COMMAND": "history -a"},
    {"EDITOR": "vim -f", "PAGER": "cat", "GIT_SSH_COMMAND": "ssh -i ~/.ssh/id"},
    {"ENV": "production"},
    {"NODE_OPTIONS": "--max-old-space-size=4096"},
    {"JAVA_TOOL_OPTIONS": "-Xmx1g"},
    {"MAKEFLAGS": "-j4"},
    {"BASH_ENV": "", "LD_PRELOAD": ""},
    {"LANG": "C.UTF-8", "TZ": "UTC"},
]


def judged(commands: Parsed, env: dict[str, str], *argv: str, rules: object) -> str:
    found = commands.portal.call(commands.parsing.of_program, argv or ("bash",), "/w", env)
    return judge(Action("create_session", commands=tuple(found)), parse_policy(rules)).decision  # type: ignore[arg-type]


def test_variables_that_run_something_are_judged(commands: Parsed):
    rules = [{"program": "touch", "action": "deny"}]
    assert {str(env): judged(commands, env, rules=rules) for env in RUNS} == {str(env): "deny" for env in RUNS}
    assert {str(env): judged(commands, env, rules=rules) for env in PASSES} == {str(env): "allow" for env in PASSES}


def test_every_value_of_env_is_a_file_for_a_posix_shell(commands: Parsed):
    rules = [{"program": "touch", "action": "deny"}]
    assert judged(commands, {"ENV": "production"}, "/bin/sh", rules=rules) == "deny"
    assert judged(commands, {"ENV": "production"}, "node", rules=rules) == "allow"


def test_what_is_allowed_by_name_is_not_found_elsewhere(commands: Parsed):
    """A rule that allows `git` means that git, and not one in a directory that the caller puts into PATH."""
    rules = [{"program": "git", "action": "allow"}, {"action": "deny"}]
    for env in ({"PATH": "/tmp"}, {"LD_LIBRARY_PATH": "/tmp"}, {"LD_PRELOAD": "x"}, {"GIT_PAGER": "touch x"}):
        assert judged(commands, env, "git", "status", rules=rules) == "deny"
    for env in ({}, {"GIT_TERMINAL_PROMPT": "0", "LANG": "C"}):
        assert judged(commands, env, "git", "status", rules=rules) == "allow"


def test_assignments_in_shell_text_are_judged_alike(commands: Parsed):
    policy = parse_policy([{"program": "touch", "action": "deny"}])
    texts = {
        "PROMPT_COMMAND='touch x'": "deny",
        "export PROMPT_COMMAND='touch x'": "deny",
        "declare -x PROMPT_COMMAND=touch": "deny",
        "PROMPT_COMMAND+='; touch x'": "deny",
        "PROMPT_COMMAND=(touch)": "deny",
        "PROMPT_COMMAND=$X": "deny",
        "env PROMPT_COMMAND='touch x' bash": "deny",
        "env -i LD_PRELOAD=x.so ls": "deny",
        "BASH_ENV=/tmp/rc bash x.sh": "deny",
        "LD_PRELOAD=./x.so ls": "deny",
        "PS1='$(touch x)'": "deny",
        "sudo EDITOR=touch crontab -e": "deny",
        "PS1='\\u \\$ '": "allow",
        "ENV=production npm start": "allow",
        "export EDITOR=vim PATH=$PATH:/opt/bin": "allow",
        "X=$(date) make": "allow",
        "HOME=/tmp make": "allow",
        "env A=1 B=2 make": "allow",
        "PROMPT_COMMAND=": "allow",
        "unset PROMPT_COMMAND": "allow",
    }
    found = {each: judge(Action("run", commands=tuple(commands(each))), policy).decision for each in texts}
    assert found == texts
