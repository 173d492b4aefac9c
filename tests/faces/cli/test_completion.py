"""`tmuxmcp completion`: what bash, zsh and fish themselves make of the scripts."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.kit.cli import COMMAND, a_command_line
from tests.kit.programs import need
from tests.kit.terminal import SOON_S
from tmuxmcp.faces.cli.arguments import VERBS

SHELLS = ["bash", "zsh", "fish"]

# Words as bash splits them: = is one of its own.
BASH = """
source "$1"; shift
line="$*"
IFS=$SEPARATORS
COMP_WORDS=(); for word; do
    if [[ $word == --*=* ]]; then COMP_WORDS+=("${word%%=*}" =); [[ -z ${word#*=} ]] || COMP_WORDS+=("${word#*=}")
    else COMP_WORDS+=("$word"); fi
done
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_tmuxmcp
printf '%s\\n' "${COMPREPLY[@]}"
"""

# What is offered is caught where it is added: zsh shows it on a terminal only.
ZSH = r"""
zmodload zsh/zpty
script=$1; shift
zpty z zsh -f -i
for each in "PROMPT=; autoload -Uz compinit; compinit -u -C -d ~/.zcompdump; source ${(q)script}" \
    'compadd() { local -a hits; builtin compadd -O hits "$@"; print -rl -- "<${^hits[@]}>"; builtin compadd "$@" }' \
    'finished() { print -r -- "<<"END">>" }; zle -N finished; bindkey "^X" finished; bindkey "^I" complete-word' \
    'IFS=$SEPARATORS' \
    'setopt no_beep; print -r -- "<<"READY">>"'
do zpty -w z "$each"; done
zpty -r -m z ready '*<<READY>>*'
zpty -w -n z "${(j: :)@}"$'\t\x18'
zpty -r -m z seen '*<<END>>*'
zpty -d z
print -r -- "$seen"
"""


@pytest.fixture(scope="module")
def cli():
    with a_command_line() as command_line:
        script = command_line.home / "bin" / "tmuxmcp"
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
        script.chmod(0o700)
        command_line.env["PATH"] = f"{script.parent}:{command_line.env['PATH']}"
        for shell in SHELLS:
            (command_line.home / f"complete.{shell}").write_text(command_line.out("completion", shell))
        for name in ("alpha", "beta", "gone"):
            command_line("new", "--name", name, "cat")
        command_line("kill", "gone", "--force")
        (command_line.work / "some-file").touch()
        yield command_line


def offered(cli, shell: str, *words: str, separators: str = " \t\n") -> set[str]:
    """What Tab offers behind these words; the last one is begun. `separators`: the user's IFS."""
    script = str(cli.home / f"complete.{shell}")
    line = ["tmuxmcp", *words]
    if shell == "bash":
        argv = ["bash", "--norc", "-c", BASH, "bash", script, *line]
    elif shell == "fish":
        argv = ["fish", "--no-config", "-c", 'source $argv[1]; complete -C "$argv[2]"', script, " ".join(line)]
    else:
        argv = ["zsh", "-f", "-c", ZSH, "zsh", script, *line]
    env = cli.env | {"TERM": "xterm", "SEPARATORS": separators}
    done = subprocess.run(argv, env=env, cwd=cli.work, capture_output=True, text=True,
                          timeout=SOON_S, check=False, stdin=subprocess.DEVNULL)  # fmt: skip
    assert done.stderr == "", done
    if shell == "zsh":
        return set(re.findall(r"<([^<>\r\n]+)>\r?\n", done.stdout))
    return {each.split("\t")[0] for each in done.stdout.splitlines() if each}


@pytest.fixture(params=SHELLS)
def shell(request):
    need(request.param)
    return request.param


def test_verbs(cli, shell):
    assert offered(cli, shell, "") >= set(VERBS) | {"ls"}
    assert offered(cli, shell, "re") & {"read", "run"} == {"read"}


@pytest.mark.parametrize(
    "words",
    [["read", ""], ["kill", "--force", ""], ["run", ""], ["read", "-s", ""], ["view", "--session", ""]],
    ids=str,
)
def test_session_ids(cli, shell, words):
    assert offered(cli, shell, *words) == {"alpha", "beta"}


def test_log_knows_what_is_gone(cli, shell):
    assert offered(cli, shell, "log", "") == {"alpha", "beta", "gone"}


def test_flags_and_their_values(cli, shell):
    assert offered(cli, shell, "kill", "--") >= {"--force", "--signal", "--grace-ms"}
    assert offered(cli, shell, "read", "--view", "") == {"new", "screen", "scrollback", "raw"}
    assert offered(cli, shell, "completion", "") == set(SHELLS)


def test_values_of_settings(cli, shell):
    assert offered(cli, shell, "serve", "--history", "") == {"session", "user", "none"}
    assert offered(cli, shell, "config", "--integration", "") == {"true", "false"}
    assert {each.removeprefix("--results=") for each in offered(cli, shell, "serve", "--results=")} == {
        "auto", "both", "text", "structured",
    }  # fmt: skip


def test_fields_separated_by_something_else(cli, shell):
    views = offered(cli, shell, "read", "--view", "")
    for separators in ("/", "e", ""):
        assert offered(cli, shell, "read", "", separators=separators) == {"alpha", "beta"}
        assert offered(cli, shell, "read", "--view", "", separators=separators) == views


def test_files_where_nothing_better_is_known(cli, shell):
    assert "some-file" in {each.strip() for each in offered(cli, shell, "list", "--config", "some")}


def test_ids_are_those_of_list(cli):
    rows = cli.json("list", "--all")["sessions"]
    found = {each["session_id"] for each in rows if not each["ended"] or each["ended"]["reason"] != "destroyed"}
    assert set(cli.out("completion", "--sessions").split()) == found
    assert cli.out("completion", "--sessions", "--state-dir", str(cli.home / "none")) == ""
    file = cli.home / "other.toml"
    file.write_text(f'state_dir = "{cli.state}"\n')
    env = {name: value for name, value in cli.env.items() if name != "TMUXMCP_STATE_DIR"}
    assert cli.out("completion", "--sessions", env=env) == ""
    assert set(cli.out("completion", "--sessions", "--config", str(file), env=env).split()) == found


def test_ids_come_fast(cli):
    code = "import sys, tmuxmcp.faces.cli\ntmuxmcp.faces.cli.main(['completion', '--sessions'])\n"
    code += "print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=cli.env, capture_output=True, text=True, check=True)
    for heavy in ("pydantic", "mcp", "anyio", "asyncio"):
        assert f"'{heavy}'" not in done.stdout


def test_wrong_usage(cli):
    cli.error("completion", status=2)
    cli.error("completion", "tcsh", status=2)
    assert os.path.basename(cli.json("completion", "bash")["shell"]) == "bash"
