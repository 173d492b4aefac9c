"""`tmuxmcp completion`: scripts by which bash, zsh and fish complete our words, made from the parser itself.

The scripts ask `tmuxmcp completion --sessions` for ids. That reads directory names and nothing else: a person who
presses Tab waits for it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.value import value
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import VERBS, Parser
from tmuxmcp.machine.ownfiles import read_toml
from tmuxmcp.record.directory import SessionDirectory, directories
from tmuxmcp.record.meta import Meta

WHAT_FOLLOWS = {
    "session": "@sessions",
    "id": "@sessions",
    "more": "@sessions",
    "ids": "@logs",
    "config": "@files",
    "cwd": "@directories",
    "path": "@files",
    "set_state_dir": "@directories",
    "set_cwd": "@directories",
    "set_program": "@commands",
}
"""What to offer for an argument, by its name in the parser."""

FIRST_WORDS = {
    "policy": "test pending confirm decline",
    "run": "@sessions",
    "send": "@sessions",
    "search": "@sessions",
    "log": "@logs",
    "export": "@logs",
    "replay": "@logs",
    "history": "@logs",
    "pin": "@logs",
    "script": "@logs",
    "new": "@commands",
    "serve": "@commands",
}
"""What to offer for the first word of a verb where the parser's own name of it does not say."""


def completion(options: argparse.Namespace) -> int:
    """`tmuxmcp completion`."""
    if options.sessions or options.logs:
        output.write("".join(f"{name}\n" for name in sorted(_session_ids(_state_dir(options), options.logs))))
        return 0
    if options.shell is None:
        options.parser.error("there is no SHELL")
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](_verbs())
    if options.json:
        output.write_json({"shell": options.shell, "script": script})
    else:
        output.write(script)
    return 0


# ---- session ids ---------------------------------------------------------------------------------


def _state_dir(options: argparse.Namespace) -> Path:
    """As `config` finds it, without what takes time."""
    from tmuxmcp.machine.ownfiles import own_directory

    named = options.set_state_dir or os.environ.get("TMUXMCP_STATE_DIR")
    home = Path(os.path.expanduser("~"))
    if not named:
        file = Path(options.config).expanduser() if options.config else home / ".config" / "tmuxmcp" / "config.toml"
        with suppress(OSError, TmuxMcpError):
            named = read_toml(file, "The settings file", lambda _: None).get("state_dir")
    return own_directory(Path(named).expanduser()) if isinstance(named, str) else home / ".local" / "state" / "tmuxmcp"


def _session_ids(state_dir: Path, gone: bool) -> Iterator[str]:
    """Ids of sessions; with `gone` also of those of which only a log is left."""
    for directory in directories(state_dir, SessionDirectory.meta):
        meta = None if gone or directory.is_earlier else Meta.load(directory)
        if gone or (meta and not meta.destroyed):
            yield directory.name


# ---- what there is to complete -------------------------------------------------------------------


@value
class Flag:
    """An option of a verb."""

    names: list[str]
    text: str
    follows: str | None
    """What follows it: words, or `@sessions` and the like; None: nothing does."""


@value
class Verb:
    """A verb, or another name of it."""

    name: str
    text: str
    first: str
    """What its first word is; empty: it has none."""
    flags: list[Flag]


def _verbs() -> list[Verb]:
    verbs: Any = Parser("tmuxmcp").add_subparsers()
    for name, add in VERBS.items():
        add(verbs, name, True)
    texts = {action.dest.split(" ")[0]: action.help or "" for action in verbs._choices_actions}
    return [
        Verb(name, texts.get(name, "the same as list"), _first_word(name, parser), list(_flags(parser)))
        for name, parser in verbs.choices.items()
    ]


def _first_word(name: str, parser: argparse.ArgumentParser) -> str:
    words = [action for action in parser._actions if not action.option_strings]
    if not words:
        return ""
    return FIRST_WORDS.get(name) or " ".join(words[0].choices or []) or WHAT_FOLLOWS.get(words[0].dest, "@any")


def _flags(parser: argparse.ArgumentParser) -> Iterator[Flag]:
    for action in parser._actions:
        if action.option_strings:
            text = " ".join((action.help or "").replace("%%", "%").split())
            yield Flag(list(action.option_strings), text, _follows(action))


def _follows(action: argparse.Action) -> str | None:
    if action.nargs == 0:
        return None
    if action.choices:
        return " ".join(map(str, action.choices))
    return WHAT_FOLLOWS.get(action.dest) or _setting_values(action.dest.removeprefix("set_")) or "@any"


def _setting_values(name: str) -> str:
    """The values of a setting that has few."""
    from tmuxmcp.config import Settings
    from tmuxmcp.contract.settings import TOOL_SETS

    field = Settings.model_fields.get(name)
    if name == "tools":
        return " ".join([*TOOL_SETS, "all"])
    if field is None:
        return ""
    if field.annotation is bool:
        return "true false"
    return " ".join(get_args(field.annotation)) if get_origin(field.annotation) is Literal else ""


# ---- bash and zsh --------------------------------------------------------------------------------


def _values(verbs: list[Verb]) -> str:
    """A function of bash and zsh: `_tmuxmcp_value VERB FLAG` puts what follows the flag into REPLY."""
    lines = ["_tmuxmcp_value() {", '    case "$1 $2" in']
    for verb in verbs:
        for flag in verb.flags:
            if flag.follows:
                names = "|".join(f'"{verb.name} {name}"' for name in flag.names)
                lines.append(f"        {names}) REPLY={_quoted(flag.follows)} ;;")
        if verb.first:
            lines.append(f'        "{verb.name} word") REPLY={_quoted(verb.first)} ;;')
    return "\n".join([*lines, "        *) REPLY=; return 1 ;;", "    esac", "}"])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _bash(verbs: list[Verb]) -> str:
    names = " ".join(verb.name for verb in verbs)
    flags = "\n".join(
        f"        {verb.name}) REPLY={_quoted(' '.join(name for flag in verb.flags for name in flag.names))} ;;"
        for verb in verbs
    )
    return f"""\
# bash completion of tmuxmcp. In ~/.bashrc:  eval "$(tmuxmcp completion bash)"

{_values(verbs)}

_tmuxmcp_flags() {{
    case "$1" in
{flags}
        *) REPLY= ;;
    esac
}}

_tmuxmcp() {{
    local IFS=$' \\t\\n' cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} verb='' place=0 i REPLY
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ -z $verb ]]; then
            [[ ${{COMP_WORDS[i]}} == -* ]] || verb=${{COMP_WORDS[i]}}
        elif [[ ${{COMP_WORDS[i]}} == -* ]]; then
            # a value of its own, or behind =
            if _tmuxmcp_value "$verb" "${{COMP_WORDS[i]}}"; then
                [[ ${{COMP_WORDS[i+1]}} != = ]] || i=$((i + 1))
                i=$((i + 1))
            fi
        else
            place=$((place + 1))
        fi
    done
    if [[ $cur == = ]]; then
        cur=''
    elif [[ $prev == = ]]; then
        prev=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    COMPREPLY=()
    if [[ -z $verb ]]; then
        REPLY='{names} --help --version'
    elif [[ $prev == -* ]] && _tmuxmcp_value "$verb" "$prev"; then
        :
    elif [[ $cur == -* ]]; then
        _tmuxmcp_flags "$verb"
    elif ((place > 0)) || ! _tmuxmcp_value "$verb" word; then
        REPLY='@files'
    fi
    case $REPLY in
        @sessions | @logs) REPLY=$(command tmuxmcp completion "--${{REPLY#@}}" 2>/dev/null) ;;
        @directories) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ; compopt -o filenames 2>/dev/null; return ;;
        @files) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ; compopt -o filenames 2>/dev/null; return ;;
        @commands) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ; return ;;
        @any) return ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$REPLY" -- "$cur")
}}

complete -F _tmuxmcp tmuxmcp
"""


def _zsh(verbs: list[Verb]) -> str:
    names = "\n".join(f"        {_quoted(f'{verb.name}:{verb.text}')}" for verb in verbs)
    flags = "\n".join(
        f"        {verb.name}) reply=({' '.join(_described(flag) for flag in verb.flags)}) ;;" for verb in verbs
    )
    return f"""\
#compdef tmuxmcp
# zsh completion of tmuxmcp. In ~/.zshrc, after compinit:  eval "$(tmuxmcp completion zsh)"

{_values(verbs)}

_tmuxmcp_flags() {{
    case "$1" in
{flags}
        *) reply=() ;;
    esac
}}

_tmuxmcp() {{
    local prev=$words[CURRENT-1] verb='' REPLY=''
    local -i place=0 i
    local -a commands reply
    commands=(
{names}
    )
    for ((i = 2; i < CURRENT; i++)); do
        if [[ -z $verb ]]; then
            [[ $words[i] == -* ]] || verb=$words[i]
        elif [[ $words[i] == -* ]]; then
            _tmuxmcp_value "$verb" "$words[i]" && i+=1
        else
            place+=1
        fi
    done
    if [[ -z $verb ]]; then
        _describe -t commands command commands
        return
    fi
    if [[ $words[CURRENT] == --*=* ]]; then
        prev=${{words[CURRENT]%%=*}}
        compset -P '*='
    elif [[ $words[CURRENT] == -* ]]; then
        _tmuxmcp_flags "$verb"
        _describe -o -t options option reply
        return
    fi
    if [[ $prev == -* ]] && _tmuxmcp_value "$verb" "$prev"; then
        :
    elif ((place > 0)) || ! _tmuxmcp_value "$verb" word; then
        REPLY='@files'
    fi
    case $REPLY in
        @sessions | @logs) compadd -- ${{(f)"$(command tmuxmcp completion "--${{REPLY#@}}" 2>/dev/null)"}} ;;
        @directories) _files -/ ;;
        @files) _files ;;
        @commands) _command_names -e ;;
        @any) ;;
        *) compadd -- ${{=REPLY}} ;;
    esac
}}

if [[ $funcstack[1] == _tmuxmcp ]]; then
    _tmuxmcp "$@"
else
    compdef _tmuxmcp tmuxmcp
fi
"""


def _described(flag: Flag) -> str:
    return " ".join(_quoted(f"{name}:{flag.text}") for name in flag.names)


# ---- fish ----------------------------------------------------------------------------------------

FISH_COMPLETERS = {
    "@sessions": "-x -a '(command tmuxmcp completion --sessions 2>/dev/null)'",
    "@logs": "-x -a '(command tmuxmcp completion --logs 2>/dev/null)'",
    "@directories": "-x -a '(__fish_complete_directories)'",
    "@commands": "-x -a '(__fish_complete_command)'",
    "@files": "-r -F",
    "@any": "-x",
}


def _fish(verbs: list[Verb]) -> str:
    lines = [
        "# fish completion of tmuxmcp. Once:  tmuxmcp completion fish >~/.config/fish/completions/tmuxmcp.fish",
        "complete -c tmuxmcp -f",
        "complete -c tmuxmcp -n __fish_use_subcommand -l version -d 'print the version'",
    ]
    for verb in verbs:
        lines.append(f"complete -c tmuxmcp -n __fish_use_subcommand -a {verb.name} -d {_fish_quoted(verb.text)}")
        here = f"complete -c tmuxmcp -n '__fish_seen_subcommand_from {verb.name}'"
        if verb.first:
            lines.append(f"{here} {_fish_follows(verb.first).removeprefix('-x ')}")
        for flag in verb.flags:
            for name in flag.names:
                spelled = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                follows = f" {_fish_follows(flag.follows)}" if flag.follows else ""
                lines.append(f"{here} {spelled}{follows} -d {_fish_quoted(flag.text)}")
    return "\n".join(lines) + "\n"


def _fish_follows(what: str) -> str:
    return FISH_COMPLETERS.get(what) or f"-x -a {_fish_quoted(what)}"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
