"""The words of the command line: verbs, options, and what they become. Imports nothing that takes time.

Options of a verb that takes a program or a command come before it, so that the program's own stay the program's.
They may also follow the first word directly (`tmuxmcp new bash --name a`); `--` ends them.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn, get_args

from tmuxmcp import __version__
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.words import FILM_FORMATS, SIGNAL_NAMES, WAIT_FOR_WORDS, Adopt, RecordedAs, signal_name
from tmuxmcp.faces.cli.helptext import age, help_of, point, usage_of

ALIKE_WORD = 0.7
"""How alike a word and the command or option are that it is taken for."""

OTHER_NAMES = {
    "timeout_s": "timeout", "timeout_sec": "timeout", "timeout_secs": "timeout", "timeout_seconds": "timeout",
    "session_timeout": "idle_timeout_s", "session_timeout_s": "idle_timeout_s", "chdir": "cwd", "dir": "cwd",
}  # fmt: skip
"""Other names of options; before those that callers give to arguments."""

TABLE_SETTINGS = ("env", "limits")
"""Settings that are tables: a flag gives one entry."""

DESCRIPTION = """\
Terminal sessions for agents, on tmux.

Sessions live on when a command ends; they are shared with the MCP servers of the same state directory.
Where a session is not named, the command line's own default session is meant, made on first use."""

EXIT_STATUS = """\
Exit status: 0 done, 1 error, 2 usage, 3 not found, 4 denied, 124 timed out. `tmuxmcp run` exits with the command's
own status, and with 125 for errors of ours."""


class HelpAll(argparse.Action):
    """Prints the help with every setting."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(help_of(parser, everything=True), end="")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """Raises what argparse would print."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        super().__init__(prog, **kwargs | {"allow_abbrev": False, "add_help": False})
        # Made here and shown last: argparse's own would be the first.
        self.add_argument("-h", "--help", action="help", help="print this help")

    def format_help(self) -> str:
        return help_of(self)

    def format_usage(self) -> str:
        return usage_of(self) + "\n"

    def error(self, message: str) -> NoReturn:
        near = self._meant(message)
        hint = (f"Did you mean `{near}`? " if near else "") + self._choices(message) + f"See `{self.prog} --help`."
        if found := re.match(r"argument COMMAND: invalid choice: '([^']*)'", message):
            message = f"there is no command `{found[1]}`"  # argparse would name all there are
        raise InvalidArgument(f"{message[0].upper()}{message[1:]}.", hint=hint)

    def _meant(self, message: str) -> str:
        """The command, option or choice that is like the word that argparse does not know; empty: none is."""
        found = re.match(r"unrecognized arguments: --([^ =]+)", message)
        if found and (option := self._known_elsewhere_as(found[1].replace("-", "_").lower())):
            return option
        if found := re.match(r"argument ([^:]+): invalid choice: '([^']*)'", message):
            words = [str(choice) for each in self._actions if each.metavar == found[1] for choice in each.choices or ()]
            if words and found[1] != "COMMAND":
                return next(iter(get_close_matches(found[2], words, n=1, cutoff=ALIKE_WORD)), "")
        found = re.search(r"(?:invalid choice: '|unrecognized arguments: )([^' =]+)", message)
        known = [*self._option_string_actions, *(() if " " in self.prog else VERBS)]
        return next(iter(get_close_matches(found[1], known, n=1, cutoff=ALIKE_WORD)), "") if found else ""

    def _known_elsewhere_as(self, name: str) -> str:
        """The option of ours for which another program, or our own tools, have this name; empty: there is none."""
        from tmuxmcp.contract import guesses
        from tmuxmcp.faces.cli import helptext

        verb = self.prog.rpartition(" ")[2]
        own = [
            guesses.ARGUMENT_NAMES.get(operation, {}) for operation, each in helptext.VERB_OF.items() if each == verb
        ]
        names = [each[name] for each in (OTHER_NAMES, *own, guesses.COMMON_SYNONYMS) if name in each]
        options = ["--" + each.replace("_", "-") for each in names]
        return next((each for each in options if each in self._option_string_actions), "")

    def _choices(self, message: str) -> str:
        """What there is to choose from for a word that is missing; empty: anything will do."""
        found = re.match(r"the following arguments are required: ([^,]+)", message)
        chosen = next((each for each in self._actions if found and each.metavar == found[1]), None)
        return (
            f"{found[1]} is one of {', '.join(map(str, chosen.choices))}. "
            if found and chosen and chosen.choices
            else ""
        )

    def take_leading(self, options: argparse.Namespace, words: Sequence[str]) -> list[str]:
        """Take the options at the front of `words` into `options`; return the words behind them."""
        at = 0
        while at < len(words) and (action := self._option_string_actions.get(words[at].split("=", 1)[0])):
            at += 1 if "=" in words[at] or action.nargs == 0 else 2
        options.words = []
        self.parse_args(words[:at], options)
        return list(words[at:])


def take_own(options: argparse.Namespace) -> list[str]:
    """Take the verb's own options out of `options.words`, wherever they stand before `--`; return the others."""
    rest: list[str] = []
    words: list[str] = options.words
    while words and words[0] != "--":
        behind: list[str] = options.parser.take_leading(options, words)
        if len(behind) == len(words):
            rest.append(words[0])
            behind = words[1:]
        words = behind
    return rest + words[1:]


def parse(words: Sequence[str]) -> argparse.Namespace:
    """What the command line says; `handler` is the function that does it.

    Raises:
        InvalidArgument: it says nothing sensible.
    """
    # The settings table is only imported for the verbs that show all of it.
    verb = verb_of(words)
    parser = Parser("tmuxmcp", description=DESCRIPTION, epilog=EXIT_STATUS)
    parser.add_argument("--version", action="version", version=f"tmuxmcp {__version__}")
    parser.add_argument("--config", metavar="FILE", help="settings file; may also follow the command")
    parser.set_defaults(handler=_help, parser=parser)
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", title="commands")
    # A parser costs more than a third of a millisecond: the others are made where help may list them.
    for name in [verb] if verb in VERBS and words[0] == verb else VERBS:
        VERBS[name](verbs, name, name == verb)
    options, more = parser.parse_known_args(words)
    if more and not _take_late_words(options, more):
        options.parser.error(f"unrecognized arguments: {' '.join(more)}")
    return options


def verb_of(words: Sequence[str]) -> str:
    """The command among the words of a command line; empty: there is none."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] == "--config" else 1
    return words[at] if at < len(words) else ""


def _help(options: argparse.Namespace) -> int:
    options.parser.print_help()
    return 0


def _take_late_words(options: argparse.Namespace, more: list[str]) -> bool:
    """argparse takes all positional words at once; those behind an option are left over."""
    if options.verb not in ("send", "search", "install") or (
        more[0] != "--" and any(word.startswith("-") for word in more)
    ):
        return False
    options.words += more[more[0] == "--" :]
    return True


# ---- the verbs ---------------------------------------------------------------------------------

Verbs = Any  # argparse's own type of them is private


def _verb(verbs: Verbs, name: str, summary: str, handler: str, **kwargs: Any) -> Parser:
    """A verb with what all verbs take; `handler` is `module.function` of this package."""

    def call(options: argparse.Namespace) -> int:
        module, function = handler.split(".")
        status: int = getattr(import_module(f"tmuxmcp.faces.cli.{module}"), function)(options)
        return status

    description = kwargs.pop("description", summary[0].upper() + summary[1:] + ".")
    parser: Parser = verbs.add_parser(name, help=summary, description=description, **kwargs)
    parser.set_defaults(handler=call, parser=parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    # Left out here, it is what stands before the verb.
    parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="settings file")
    return parser


def _add_settings(parser: Parser, everything: bool, leave_out: Sequence[str] = ()) -> None:
    """A flag for each setting; without `everything`, for those that concern every verb."""
    group = parser.add_argument_group("settings")
    if not everything:
        group.add_argument(
            "--state-dir", dest="set_state_dir", metavar="DIR", help="directory of the socket and the logs"
        )
        group.add_argument("--fleet", dest="set_fleet", metavar="FLEET", help="many machines: a file of brokers, ...")
        group.add_argument(
            "--log-level", dest="set_log_level", metavar="LEVEL", help="trace, debug, info, warning or error"
        )
        return
    from tmuxmcp.config import Settings

    parser.add_argument(
        "--help-all", nargs=0, action=HelpAll, default=argparse.SUPPRESS, help="print every setting, too"
    )
    for name, field in Settings.model_fields.items():
        if name in leave_out:
            continue
        pairs: dict[str, Any] = {"type": _pair, "action": "append"} if name in TABLE_SETTINGS else {}
        metavar = "NAME=VALUE" if pairs else name.rsplit("_", 1)[-1].upper()
        flag, text = "--" + name.replace("_", "-"), (field.description or "").replace("%", "%%")
        group.add_argument(flag, dest=f"set_{name}", metavar=metavar, help=text, **pairs)


def _add_session(parser: Parser, positional: str = "session id; left out: the default session") -> None:
    """How a session is named; `positional` says what a word ID means, empty: there is none."""
    text = "ID, given as an option" if positional else "session id; left out: the default session"
    if positional:
        parser.add_argument("id", nargs="?", metavar="ID", help=positional)
    parser.add_argument("-s", "--session", "--session-id", dest="session", metavar="ID", help=text)


def _add_timeout(parser: Parser, text: str) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--timeout", type=_seconds, dest="timeout_ms", metavar="SECONDS", help=text)
    group.add_argument("--timeout-ms", type=_count, dest="timeout_ms", metavar="MS", help="--timeout in milliseconds")


def _add_wait(parser: Parser, text: str) -> None:
    parser.add_argument(
        "--wait", "--wait-for", choices=sorted(WAIT_FOR_WORDS, key="none".__eq__), dest="wait_for", help=text
    )
    parser.add_argument("--pattern", metavar="REGEX", help="what --wait pattern waits for")
    parser.add_argument("--idle-ms", type=_count, metavar="MS", help="silence that counts as idle (300)")
    _add_timeout(parser, "longest wait; exit status 124 if a --wait ends so")
    parser.add_argument("--max-bytes", type=_count, metavar="N", help="most bytes of text (16 MiB)")


def _serve(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Serve MCP on stdin and stdout, as clients start it, or over HTTP with --http HOST:PORT, until Ctrl-C.\n"
        "Sessions go on when it ends."
    )
    parser = _verb(verbs, name, "serve MCP on stdin and stdout, or over HTTP", "service.serve", description=description)
    parser.add_argument("--no-token", action="store_true", help="HTTP asks for no token; on loopback, for tests")
    _add_settings(parser, chosen)
    _add_words(parser, "PROGRAM", "program of the default session, and its arguments")


def _demo(verbs: Verbs, name: str, chosen: bool) -> None:
    parser = _verb(verbs, name, "show what tmuxmcp does, in ten seconds", "service.demo")
    parser.add_argument("--keep", action="store_true", help="leave the demo's session running, to attach to")
    _add_settings(parser, chosen, leave_out=("state_dir",))


def _log(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Print all that a session has printed, as clean text. Also of sessions that have ended, are lost or were\n"
        "killed, as long as their logs are kept; `ID.1`, `ID.2` ... are earlier sessions of the same name.\n\n"
        "TIME is how long ago that was (90s, 10m, 12h, 7d), or ISO 8601 such as 2026-01-31T12:00:00Z, which is local\n"
        "without a zone."
    )
    parser = _verb(verbs, name, "print a session's log, also when it is gone", "log.log", description=description)
    _add_session(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on, a line at a time, until the session ends")
    parser.add_argument("--raw", action="store_true", help="the bytes as they were printed")
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--since", type=point, metavar="OFFSET|TIME", help="start there")
    start.add_argument("--tail", type=_count, metavar="LINES", help="start so many lines before the end")
    parser.add_argument("--until", type=point, metavar="OFFSET|TIME", help="end there")
    parser.add_argument("--command", type=int, metavar="N", help="only this command's output; -1: the last one's")
    parser.add_argument("--timestamps", action="store_true", help="before each line when it was complete; ~: or before")
    parser.add_argument("--events", action="store_true", help="instead what happened: input, sizes, commands, ends")
    _add_settings(parser, False)


def _history(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Print the commands that a session's shell ran, newest last, whoever typed them. EXIT is `-` while one runs,\n"
        "and BY says who typed it: an agent's or this program's call, or somebody else. What is not known is `-`.\n"
        "Also of sessions that have ended, are lost or were killed; `ID.1` is an earlier session of the same name."
    )
    parser = _verb(verbs, name, "list a session's commands with their exit codes", "log.history",
                   description=description)  # fmt: skip
    _add_session(parser)
    parser.add_argument("-n", "--limit", type=_count, metavar="N", help="the newest so many (20)")
    parser.add_argument("--before", type=_count, metavar="NUMBER", help="only those with lower numbers")
    parser.add_argument("--failed", action="store_true", help="only those whose exit code is not 0")
    _add_settings(parser, False)


def _export(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Write what a session did to a file: a recording for asciinema (cast), its text (txt, ansi, html), a picture\n"
        "that moves (svg, gif) or lines of JSON (jsonl). Also of sessions that have ended, as long as their logs are\n"
        "kept. Nothing is overwritten.\n\n"
        "Times count from the session's beginning; negative ones are before now, or before its end."
    )
    parser = _verb(verbs, name, "write what a session did to a file", "record.export", description=description)
    _add_session(parser)
    parser.add_argument("--format", choices=FILM_FORMATS, help="(by the ending of FILE, else cast)")
    parser.add_argument("--path", metavar="FILE", help="- is stdout; left out: in the session's own directory")
    parser.add_argument("--from", dest="begin", type=_moment, metavar="SECONDS", help="begin there (its beginning)")
    parser.add_argument("--to", dest="until", type=_moment, metavar="SECONDS", help="end there (now)")
    parser.add_argument("--command", type=int, metavar="N", help="only this command's output; -1: the last one's")
    parser.add_argument("--speed", type=_speed, metavar="FACTOR", help="2: twice as fast")
    parser.add_argument("--idle-limit", type=_seconds, metavar="SECONDS", help="no pause is longer")
    _add_settings(parser, False)


def _record(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Record what a session prints from now on until `tmuxmcp record ID --stop` or its end. Its file is made then;\n"
        "its place is kept until then. `tmuxmcp export` makes a file of what a session did before."
    )
    parser = _verb(verbs, name, "record a session from now on", "record.record", description=description)
    _add_session(parser)
    parser.add_argument("--stop", action="store_true", help="end the recording, and write its file")
    parser.add_argument("--path", metavar="FILE", help="a new file; left out: in the session's own directory")
    parser.add_argument("--format", choices=get_args(RecordedAs), help="(by the ending of FILE, else cast)")
    parser.add_argument("--input", action="store_true", help="also what is typed, where the terminal shows it")
    parser.add_argument("--idle-limit", type=_seconds, metavar="SECONDS", help="no pause is longer")
    _add_settings(parser, False)


def _replay(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Play what a session did, or an asciicast of version 2 or 3, in this terminal, which is left as it was.\n"
        "Also of sessions that have ended, as long as their logs are kept.\n\n"
        "Keys: space pauses, . is one step, left and right are 5 seconds, home and end, + and - the speed, i cuts\n"
        "silence or not, n and p go to the end of the next and the previous command, f to that of the next that\n"
        "failed, q ends."
    )
    parser = _verb(verbs, name, "play what a session did, or a recording", "replay.replay", description=description)
    _add_session(parser, "session id, or a file: with a / in it, or .cast")
    parser.add_argument("--speed", type=_speed, metavar="FACTOR", help="2: twice as fast")
    parser.add_argument("--idle-limit", type=_seconds, metavar="SECONDS", help="no pause is longer (2); 0: all of it")
    parser.add_argument("--from", dest="begin", type=_moment, metavar="SECONDS", help="begin there (its beginning)")
    parser.add_argument("--command", type=int, metavar="N", help="begin where this command does; -1: the last one")
    _add_settings(parser, False)


def _script(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Print the commands that a session's shell ran as a script for that shell. What failed is a comment with its\n"
        "exit code, and so is what still runs, what ran in a shell inside or was given stdin, and what is not wholly\n"
        "known. `cd` stands where the shell was elsewhere than these commands lead. Of each session, as `tmuxmcp log`."
    )
    parser = _verb(verbs, name, "print what a session ran as a shell script", "log.script", description=description)
    _add_session(parser)
    _add_settings(parser, False)


def _restore(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Make sessions again that are lost, as after a reboot: same name, program, arguments, directory, size,\n"
        "sandbox, limits and host. The log of before becomes `ID.1`. Each program is started anew; no command that\n"
        "ran in a shell is run again, and no shell is made again that was given a command or a script.\n"
        "Without ID and --all, print which there are. What ended or was killed is made again only if it is named."
    )
    parser = _verb(verbs, name, "make lost sessions again", "retention.restore", description=description)
    parser.add_argument("ids", nargs="*", metavar="ID", help="these sessions")
    parser.add_argument("--all", action="store_true", help="every session that is lost")
    _add_settings(parser, False)


def _pin(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Keep the files of a session, however old they become and whatever room all of it takes. `tmuxmcp list` shows\n"
        "which are pinned. `ID.1`, `ID.2` ... are earlier sessions of the same name."
    )
    parser = _verb(verbs, name, "keep a session's log for ever", "retention.pin", description=description)
    _add_session(parser)
    parser.add_argument("--remove", action="store_true", help="let it go with the others again")
    _add_settings(parser, False)


def _prune(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Remove the files of sessions that are over: what the settings retention_days and state_max_bytes say; with\n"
        "IDs or --older-than that alone. What runs, has its pane still or is pinned stays. The audit says what went."
    )
    parser = _verb(verbs, name, "remove logs of sessions that are over", "retention.prune", description=description)
    parser.add_argument("ids", nargs="*", metavar="ID", help="of these sessions; `ID.1` is an earlier one of that name")
    parser.add_argument("--older-than", type=age, metavar="TIME", help="silent for longer: 90s, 15m, 12h or 7d")
    parser.add_argument("--dry-run", action="store_true", help="only print what would go")
    _add_settings(parser, False)


def _doctor(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Look at what sessions need of this machine; say what to do about what is not there. Exit status 1 then.\n\n"
        "Changes nothing. Shells are tried in a state directory of their own, which is gone afterwards."
    )
    parser = _verb(verbs, name, "check tmux, shells, limits and settings", "service.doctor", description=description)
    _add_settings(parser, False)


def _install(verbs: Verbs, name: str, chosen: bool) -> None:
    from tmuxmcp.faces.cli.clients import CLIENTS

    description = (
        "Put this server into a client's configuration. The file as it was is kept beside it.\n\n"
        "The server is tried first, as the client would use it: started with the same command, environment and\n"
        "directory, or called at the URL. If it does not answer, nothing is written.\n\n"
        "Words behind the client are options of `tmuxmcp serve`, behind `--`."
    )
    parser = _verb(verbs, name, "put this server into a client's configuration", "install.install",
                   description=description)  # fmt: skip
    parser.add_argument("client", metavar="CLIENT", choices=tuple(CLIENTS), help=", ".join(CLIENTS))
    parser.add_argument("--scope", choices=("user", "project", "local"), help="whose configuration (the first it has)")
    parser.add_argument("--name", default="tmuxmcp", metavar="NAME", help="what the client calls it (tmuxmcp)")
    parser.add_argument("--http", metavar="URL", help="of a server that runs already; left out: the client starts one")
    parser.add_argument("--token-file", metavar="FILE", help="holds the token that the server at URL wants")
    parser.add_argument("--dry-run", action="store_true", help="print what would change; write and start nothing")
    parser.add_argument("--no-start", action="store_true", help="write without trying the server")
    parser.add_argument("--remove", action="store_true", help="take it out again")
    parser.add_argument("words", nargs="*", default=[], metavar="[-- OPTION ...]", help="options of `tmuxmcp serve`")


def _config(verbs: Verbs, name: str, chosen: bool) -> None:
    parser = _verb(verbs, name, "print each setting and where it came from", "service.config")
    _add_settings(parser, chosen)


def _add_request_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--request-id",
        metavar="ID",
        default="",
        help="a name for this call, of 8 to 64 characters: the same again does nothing twice",
    )


def _new(verbs: Verbs, name: str, chosen: bool) -> None:
    parser = _verb(verbs, name, "start a program in a session of its own", "sessions.new")
    parser.add_argument("--name", metavar="NAME", help="becomes the session id")
    parser.add_argument("--rows", type=_count, metavar="N", help="rows of its terminal")
    parser.add_argument("--cols", type=_count, metavar="N", help="columns of its terminal")
    parser.add_argument("--cwd", metavar="DIR", help="its working directory")
    parser.add_argument("--env", type=_pair, action="append", metavar="NAME=VALUE", help="added to its environment")
    parser.add_argument("--sandbox", choices=("none", "auto", "required"), help="put it into a sandbox")
    parser.add_argument("--host", metavar="USER@BOX[:PORT]", help="run it on another machine, by ssh")
    parser.add_argument("--record", choices=("always", "on_failure"), help="record it, or keep that only if it fails")
    parser.add_argument(
        "--limit", type=_pair, action="append", metavar="NAME=VALUE", help="memory_mb=512, ...; again for each"
    )
    parser.add_argument("--node", metavar="NODE", help="of many machines: on this one")
    parser.add_argument(
        "--label", type=_pair, action="append", metavar="NAME=VALUE", help="of many machines: on one that has this"
    )
    _add_request_id(parser)
    _add_settings(parser, False)
    _add_words(parser, "PROGRAM", "program and its arguments, exact; left out: the login shell")


def _run(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Run a command in a session's live shell: its output on stdout, its exit status as ours.\n\n"
        "One word is shell text as it is; several words are one command with exactly these arguments.\n"
        "Without -s, the first of several words may name a session: `tmuxmcp run ID COMMAND`. A word that is both\n"
        "session and command is refused, and so is one that looks like a session; behind -- there is no session.\n"
        "Ctrl-C interrupts the command; twice leaves it running. At a terminal, a command that waits for input offers\n"
        "to connect you; elsewhere it is left waiting, and the exit status is 125."
    )
    parser = _verb(verbs, name, "run a command in a session's shell", "run.run", description=description)
    _add_session(parser, positional="")
    _add_timeout(parser, "wait no longer than this (no limit); the command goes on, exit status 124")
    parser.add_argument(
        "--adopt",
        choices=get_args(Adopt),
        default="auto",
        help="yes: a shell's prompt stands there, as behind ssh: have run work in it (auto: where that is certain)",
    )
    _add_request_id(parser)
    _add_settings(parser, False)
    _add_words(parser, "COMMAND", "the command, behind all options")


def _send(verbs: Verbs, name: str, chosen: bool) -> None:
    parser = _verb(verbs, name, "type text and press keys, and print what came back", "sessions.send")
    _add_session(parser, positional="")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[ID] TEXT",
        help="session id (unless -s gives it), text to type; a newline is Enter",
    )
    parser.add_argument("--key", "--keys", action="append", metavar="KEY", help="after the text: Up, C-c, F5, Down*5")
    parser.add_argument("--enter", action="store_true", help="press Enter at the end")
    parser.add_argument("--secret", metavar="NAME", default="", help="a secret of the settings, and Enter")
    _add_request_id(parser)
    _add_wait(parser, "when to come back (ready)")
    _add_settings(parser, False)


def _read(verbs: Verbs, name: str, chosen: bool) -> None:
    parser = _verb(verbs, name, "print what a session printed since the last read", "sessions.read")
    _add_session(parser)
    views = ("new", "screen", "scrollback", "raw")
    parser.add_argument("--command", type=int, metavar="N", help="all output of this command; -1: of the last one")
    parser.add_argument("--view", choices=views, help="new text, the screen, lines of scrollback, or raw bytes")
    parser.add_argument("--offset", type=_count, metavar="LINE", help="scrollback: first line, 0 the oldest")
    parser.add_argument("--limit", type=_count, metavar="LINES", help="scrollback: most lines (1000)")
    parser.add_argument("--since", type=_count, metavar="OFFSET", help="start at this offset of the log")
    parser.add_argument("--format", choices=("plain", "ansi"), help="ansi: with colours")
    _add_wait(parser, "wait for this first (none)")
    _add_settings(parser, False)


def _search(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Find a regular expression in everything that a session printed, also what scrolled away.\n\n"
        "Each match is printed as `LINE @OFFSET: TEXT`; `tmuxmcp read --since OFFSET` goes on from there."
    )
    parser = _verb(verbs, name, "search a session's whole log", "sessions.search", description=description)
    _add_session(parser, positional="")
    parser.add_argument("words", nargs="+", metavar="[ID] PATTERN", help="session id (unless -s gives it), regex")
    parser.add_argument("-C", "--context", type=_count, metavar="LINES", help="lines around each match (0)")
    parser.add_argument("-n", "--limit", type=_count, metavar="N", help="most matches to print (100)")
    _add_settings(parser, False)


def _list(verbs: Verbs, name: str, chosen: bool) -> None:
    parser = _verb(verbs, name, "list the sessions", "sessions.list_", aliases=["ls"])
    parser.add_argument("--all", action="store_true", help="also those whose program has ended")
    parser.add_argument("--watch", action="store_true", help="again every second, in place; q ends")
    _add_settings(parser, False)


def _view(verbs: Verbs, name: str, chosen: bool) -> None:
    parser = _verb(verbs, name, "print a session's screen", "sessions.view")
    _add_session(parser)
    _add_settings(parser, False)


def _watch(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Follow a session's screen in place; several side by side. q or C-c ends; nothing is typed, and each session\n"
        "keeps its size. Where stdout is no terminal, each screen of one session is printed below the other."
    )
    parser = _verb(verbs, name, "follow a session's screen", "watch.watch", description=description)
    _add_session(parser)
    parser.add_argument("more", nargs="*", metavar="ID", help="others beside it")
    parser.add_argument("--once", action="store_true", help="print the screen once, as plain text")
    _add_settings(parser, False)


def _attach(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Watch a session live; leave with C-b d. With --take you hold it and type, and agents do not. C-b g (setting\n"
        "take_key) gives it back, and you go on watching. Leaving gives it back too, and so does a closed window."
    )
    parser = _verb(verbs, name, "watch a session live; leave with C-b d", "sessions.attach", description=description)
    _add_session(parser)
    parser.add_argument("--take", action="store_true", help="take it over and type into it")
    _add_settings(parser, False)


def _page(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Open the page in your browser: all sessions, live, and what they did. Servers with --http show it, and those\n"
        "of MCP clients with the setting page. Where there is none, this command shows it itself, on loopback, until\n"
        "you press Ctrl-C; sessions go on. The page is let in by a code that is good once, for a minute."
    )
    parser = _verb(verbs, name, "open the page with all sessions in your browser", "page.page", description=description)
    _add_session(parser, "session whose page is opened; left out: all")
    parser.add_argument("--no-open", action="store_true", help="only print the address, with the code in it")
    parser.add_argument(
        "--port", type=_count, metavar="PORT", help="of the server, where several show the page or none"
    )
    _add_settings(parser, False)


def _take(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Hold a session, so that agents do not type into it: they are told SESSION_TAKEN, and what runs goes on.\n"
        "Type into it by `tmuxmcp attach --take ID`, which takes it too; `tmuxmcp release ID` gives it back."
    )
    parser = _verb(verbs, name, "keep agents from typing into a session", "people.take", description=description)
    _add_session(parser)
    _add_settings(parser, False)


def _release(verbs: Verbs, name: str, chosen: bool) -> None:
    description = "Give a session back that was taken; agents are told what was done in it meanwhile."
    parser = _verb(verbs, name, "give a session back to agents", "people.release", description=description)
    _add_session(parser)
    _add_settings(parser, False)


def _answer(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Show what agents wait for you to do, and do it. ID is that of a request, or of a session: its first one.\n"
        "For a secret, one line is read that nobody sees, and typed only while the program shows nothing of what is\n"
        "typed. For all else you are attached to the session until you press C-b a (setting answer_key): done. Leave\n"
        "with C-b d, or hang up, and the request waits on. In a terminal that is attached and may type, C-b a opens a\n"
        "popup with what waits first in the session."
    )
    parser = _verb(verbs, name, "do what an agent asks you for", "answer.answer", description=description)
    parser.add_argument("id", nargs="?", metavar="ID", help="which request; left out: each that waits")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--text", metavar="TEXT", help="type this and Enter; not for a secret")
    how.add_argument("--decline", action="store_true", help="tell the agent that you will not")
    how.add_argument("--client", type=_count, metavar="PID", help="what runs in the popup of this tmux client")
    _add_settings(parser, False)


def _pause(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Stop agents at once: what would type into the session, signal or resize it answers SESSION_TAKEN. What runs\n"
        "in it goes on. With --all it holds for every session, also for those that are made before `resume --all`."
    )
    parser = _verb(verbs, name, "stop agents from typing, in one session or all", "people.pause",
                   description=description)  # fmt: skip
    _add_session(parser, "session id")
    parser.add_argument("--all", action="store_true", help="every session, also those made later")
    _add_settings(parser, False)


def _resume(verbs: Verbs, name: str, chosen: bool) -> None:
    parser = _verb(verbs, name, "let agents type again where they were paused", "people.resume")
    _add_session(parser, "session id")
    parser.add_argument("--all", action="store_true", help="every session, also those paused one by one")
    _add_settings(parser, False)


def _kill(verbs: Verbs, name: str, chosen: bool) -> None:
    parser = _verb(verbs, name, "end a session and every process in it", "sessions.kill")
    _add_session(parser, "session id")
    parser.add_argument("--force", action="store_true", default=None, help="kill at once")
    parser.add_argument("--signal", type=signal_name, choices=SIGNAL_NAMES, help="what to ask it with (TERM)")
    parser.add_argument("--grace-ms", type=_count, metavar="MS", help="time to end before it is killed (2000)")
    _add_settings(parser, False)


def _policy(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "test COMMAND: say what the policy makes of a command, without running it; exit status 0: allowed, 4: not.\n"
        "pending: show what agents may only do when you confirm it.\n"
        "confirm ID, decline ID: answer one of these; a confirmation is for one call, exactly as shown.\n\n"
        "One word of COMMAND is shell text as it is; several words are one command with exactly these arguments."
    )
    parser = _verb(
        verbs, name, "judge a command, or confirm one of an agent's", "policy.policy", description=description
    )
    parser.add_argument("--tool", metavar="NAME", default="run", help="test: the tool that is called (run)")
    parser.add_argument("--cwd", metavar="DIR", help="test: where it would run (here)")
    parser.add_argument("--mode", metavar="MODE", default="shell_prompt", help="test: of the session (shell_prompt)")
    parser.add_argument("--policy", dest="set_policy", metavar="POLICY", help="test: another policy than the settings'")
    _add_settings(parser, False)
    _add_words(parser, "ACTION", "test COMMAND, pending, confirm ID or decline ID")


def _fleet(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Show the machines of a fleet, and say what is to become of them. FLEET is the setting fleet: a file of\n"
        "brokers, ray://HOST:PORT or auto.\n\n"
        "status: each machine, and what it has room for; exit status 1 if one does not answer.\n"
        "drain NODE: no new sessions there; those that are there go on. undrain NODE takes it back.\n"
        "forget NODE: it is gone for good, and its sessions with it: from now on they are NODE_LOST. undrain takes\n"
        "that back as well.\n\n"
        "With Ray: up NODE starts a cluster, of which this machine is the first. join NODE has this machine be one of\n"
        "the cluster of --fleet. up gives each machine of a cluster a door of this version; sessions do not notice."
    )
    parser = _verb(verbs, name, "show and manage many machines", "fleetup.fleet", description=description)
    parser.add_argument(
        "action", nargs="?", default="status", metavar="ACTION",
        choices=("status", "drain", "undrain", "forget", "up", "join"),
        help="status, drain, undrain, forget, up or join",
    )  # fmt: skip
    parser.add_argument("node", nargs="?", metavar="NODE", help="name of the machine")
    parser.add_argument("--label", action="append", metavar="NAME=VALUE", help="up NODE, join: a label of the machine")
    parser.add_argument(
        "--ray", metavar="OPTIONS", help="up NODE, join: more of `ray start`, as --ray='--num-cpus=4 ...'"
    )
    parser.add_argument("--dry-run", action="store_true", help="up NODE, join: print what would be run")
    parser.add_argument("--block", action="store_true", help="up NODE, join: stay until Ray ends here, for a service")
    parser.add_argument("--force", action="store_true", help="forget: also a machine that answers")
    _add_settings(parser, False)


def _completion(verbs: Verbs, name: str, chosen: bool) -> None:
    description = (
        "Print a script by which a shell completes commands, options, session ids and values of settings.\n\n"
        'bash, zsh: eval "$(tmuxmcp completion bash)" in the start-up file, in zsh after compinit.\n'
        "fish: tmuxmcp completion fish >~/.config/fish/completions/tmuxmcp.fish"
    )
    parser = _verb(verbs, name, "print a script for Tab in bash, zsh or fish", "completion.completion",
                   description=description)  # fmt: skip
    parser.add_argument("shell", nargs="?", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    parser.add_argument("--sessions", action="store_true", help="print session ids instead, as the scripts need them")
    parser.add_argument("--logs", action="store_true", help="--sessions, and those of which only the log is left")
    _add_settings(parser, False)


VERBS: dict[str, Callable[[Verbs, str, bool], None]] = {
    "serve": _serve,
    "demo": _demo,
    "new": _new,
    "run": _run,
    "send": _send,
    "read": _read,
    "search": _search,
    "list": _list,
    "view": _view,
    "watch": _watch,
    "attach": _attach,
    "page": _page,
    "take": _take,
    "release": _release,
    "answer": _answer,
    "pause": _pause,
    "resume": _resume,
    "kill": _kill,
    "log": _log,
    "history": _history,
    "record": _record,
    "export": _export,
    "replay": _replay,
    "script": _script,
    "restore": _restore,
    "pin": _pin,
    "prune": _prune,
    "policy": _policy,
    "fleet": _fleet,
    "doctor": _doctor,
    "install": _install,
    "config": _config,
    "completion": _completion,
}


# ---- the words ---------------------------------------------------------------------------------


def _add_words(parser: Parser, metavar: str, text: str) -> None:
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar=metavar, help=text)


def program_words(options: argparse.Namespace) -> list[str]:
    """The program and its arguments."""
    if options.words[:1] == ["--"]:
        return list(options.words[1:])
    first: list[str] = options.words[:1]
    rest: list[str] = options.words[1:]
    rest = options.parser.take_leading(options, rest)
    return first + rest[rest[:1] == ["--"] :]


def session_id(options: argparse.Namespace) -> str:
    """The session that is meant; empty: the default session."""
    if options.session is not None and options.id is not None and options.session != options.id:
        raise InvalidArgument(f"Two sessions are named: {options.session} and {options.id}.")
    return options.session or options.id or ""


def _count(word: str) -> int:
    number = int(word)
    if number < 0:
        raise ValueError
    return number


def _seconds(word: str) -> int:
    number = float(word)
    if not 0 <= number < 1e9:
        raise ValueError
    return int(number * 1000)


def _moment(word: str) -> int:
    seconds = float(word)
    if not -1e9 < seconds < 1e9:
        raise ValueError
    return round(seconds * 1000)


def _speed(word: str) -> float:
    factor = float(word)
    if not 0.01 <= factor <= 1000:
        raise ValueError
    return factor


def _pair(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"{word!r} is not NAME=VALUE")
    return name, value


_count.__name__, _seconds.__name__, age.__name__ = "number", "number of seconds", "time"  # argparse says these
_moment.__name__, _speed.__name__ = "number of seconds", "factor from 0.01 to 1000"
point.__name__ = "offset or time"
