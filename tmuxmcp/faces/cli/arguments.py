"""The words of the command line: verbs, options, and what they become. Imports nothing that takes time.

Options of a verb that takes a program or a command come before it, so that the program's own stay the program's.
They may also follow the first word directly (`tmuxmcp new bash --name a`); `--` ends them.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NoReturn, get_args, get_origin

from tmuxmcp import __version__
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.words import FILM_FORMATS, SIGNAL_NAMES, WAIT_FOR_WORDS, Adopt, RecordedAs, signal_name
from tmuxmcp.faces.cli.helptext import VERB_OF, Argument, Verb, age, help_of, help_of_program, point

ALIKE_WORD = 0.7
"""How alike a word and the command or option are that it is taken for."""

OTHER_NAMES = {
    "timeout_s": "timeout", "timeout_sec": "timeout", "timeout_secs": "timeout", "timeout_seconds": "timeout",
    "session_timeout": "idle_timeout_s", "session_timeout_s": "idle_timeout_s", "chdir": "cwd", "dir": "cwd",
}  # fmt: skip
"""Other names of options; before those that callers give to arguments."""

TABLE_SETTINGS = ("env", "limits")
"""Settings that are tables: a flag gives one entry."""

SETTING_COMPLETES = {"state_dir": "@directories", "cwd": "@directories", "program": "@commands"}
"""What a shell offers for the values of settings whose types do not say it."""

DESCRIPTION = """\
Terminal sessions for agents, on tmux.

Sessions live on when a command ends; they are shared with the MCP servers of the same state directory.
Where a session is not named, the command line's own default session is meant, made on first use."""


class HelpAll(argparse.Action):
    """Prints the help with every setting."""

    def __call__(self, parser: Any, *_: Any) -> None:
        print(help_of(parser.prog, parser.verb, everything=True), end="")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """Takes the arguments of a verb; raises what argparse would print."""

    def __init__(self, prog: str, verb: Verb) -> None:
        super().__init__(prog, allow_abbrev=False, add_help=False)
        self.verb, self.arguments = verb, verb.every_argument()
        self.options = {name: each for each in self.arguments if each.is_option for name in each.names}
        apart = {each.apart: self.add_mutually_exclusive_group() for each in self.arguments if each.apart}
        for each in self.arguments:
            apart.get(each.apart, self).add_argument(*each.names, **each.how)
        self.set_defaults(parser=self)

    def format_help(self) -> str:
        return help_of(self.prog, self.verb) if self.verb is not PROGRAM else help_of_program(PROGRAM, VERBS)

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
        found = re.search(r"(?:argument ([^:]+): invalid choice: '|unrecognized arguments: )([^' =]+)", message)
        chosen = next((each.choices for each in self.arguments if found and each.value == found[1]), ())
        known = chosen or [*self.options, *(VERBS if self.verb is PROGRAM else ())]
        return next(iter(get_close_matches(found[2], known, n=1, cutoff=ALIKE_WORD)), "") if found else ""

    def _known_elsewhere_as(self, name: str) -> str:
        """The option of ours for which another program, or our own tools, have this name; empty: there is none."""
        from tmuxmcp.contract import guesses

        verb = self.prog.rpartition(" ")[2]
        own = [guesses.ARGUMENT_NAMES.get(operation, {}) for operation, each in VERB_OF.items() if each == verb]
        names = [each[name] for each in (OTHER_NAMES, *own, guesses.COMMON_SYNONYMS) if name in each]
        options = ["--" + each.replace("_", "-") for each in names]
        return next((each for each in options if each in self.options), "")

    def _choices(self, message: str) -> str:
        """What there is to choose from for a word that is missing; empty: anything will do."""
        found = re.match(r"the following arguments are required: ([^,]+)", message)
        choices = next((each.choices for each in self.arguments if found and each.value == found[1]), ())
        return f"{found[1]} is one of {', '.join(map(str, choices))}. " if found and choices else ""

    def take_leading(self, options: argparse.Namespace, words: Sequence[str]) -> list[str]:
        """Take the options at the front of `words` into `options`; return the words behind them."""
        at = 0
        while at < len(words) and (option := self.options.get(words[at].split("=", 1)[0])):
            at += 2 if option.takes_value and "=" not in words[at] else 1
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
    """What the command line says; `parser` has the verb that does it.

    Raises:
        InvalidArgument: it says nothing sensible.
    """
    parser = Parser("tmuxmcp", PROGRAM)
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND")
    named = verb_of(words)
    for name, verb in VERBS.items():
        if named in (name, *verb.other_names):  # a parser costs more than a third of a millisecond
            verbs.add_parser(name, verb=verb, aliases=verb.other_names)
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


def print_help(options: argparse.Namespace) -> int:
    """What `tmuxmcp` alone does."""
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


# ---- values ------------------------------------------------------------------------------------


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


# ---- the verbs ---------------------------------------------------------------------------------


def _argument(names: str, value: str, text: str, *, completes: str = "", apart: str = "", **how: Any) -> Argument:
    """An option with a value, or a word, which has one name without `-`."""
    return Argument(tuple(names.split()), text, {"metavar": value, **how}, completes, apart)


def _choice(names: str, choices: Sequence[str], text: str, **how: Any) -> Argument:
    return Argument(tuple(names.split()), text, {"choices": choices, **how})


def _switch(names: str, text: str, apart: str = "", **how: Any) -> Argument:
    return Argument(tuple(names.split()), text, {"action": "store_true", **how}, "", apart)


def _words(value: str, text: str, completes: str = "") -> Argument:
    """A program or a command, with all that stands behind it."""
    return _argument("words", value, text, completes=completes, nargs=argparse.REMAINDER)


def _session(text: str = "session id; left out: the default session", completes: str = "@sessions") -> list[Argument]:
    """How a session is named; `text` says what a word ID means, empty: there is none."""
    names, how = "-s --session --session-id", {"completes": "@sessions", "dest": "session"}
    if not text:
        return [_argument(names, "ID", "session id; left out: the default session", **how)]
    word = _argument("id", "ID", text, completes=completes, nargs="?")
    return [word, _argument(names, "ID", "ID, given as an option", **how)]


def _timeout(text: str) -> list[Argument]:
    return [
        _argument("--timeout", "SECONDS", text, apart="timeout", type=_seconds, dest="timeout_ms"),
        _argument("--timeout-ms", "MS", "--timeout in milliseconds", apart="timeout", type=_count),
    ]


def _wait(text: str) -> list[Argument]:
    words = sorted(WAIT_FOR_WORDS, key="none".__eq__)
    return [
        _choice("--wait --wait-for", words, text, dest="wait_for"),
        _argument("--pattern", "REGEX", "what --wait pattern waits for"),
        _argument("--idle-ms", "MS", "silence that counts as idle (300)", type=_count),
        *_timeout("longest wait; exit status 124 if a --wait ends so"),
        _argument("--max-bytes", "N", "most bytes of text (16 MiB)", type=_count),
    ]


def few_settings() -> list[Argument]:
    """Options for the settings that concern every verb."""
    place, levels = "directory of the socket and the logs", "trace debug info warning error"
    return [
        _argument("--state-dir", "DIR", place, completes="@directories", dest="set_state_dir"),
        _argument("--fleet", "FLEET", "many machines: a file of brokers, ...", dest="set_fleet"),
        _argument("--log-level", "LEVEL", "trace, debug, info, warning or error", completes=levels,
                  dest="set_log_level"),
    ]  # fmt: skip


def all_settings() -> list[Argument]:
    """Options for every setting."""
    from tmuxmcp.config import Settings
    from tmuxmcp.contract.settings import TOOL_SETS

    known = {**SETTING_COMPLETES, "tools": " ".join([*TOOL_SETS, "all"])}
    how: dict[str, Any] = {"nargs": 0, "action": HelpAll, "default": argparse.SUPPRESS}
    found = [Argument(("--help-all",), "print every setting, too", how)]
    for name, field in Settings.model_fields.items():
        pairs: dict[str, Any] = {"type": _pair, "action": "append"} if name in TABLE_SETTINGS else {}
        value = "NAME=VALUE" if pairs else name.rsplit("_", 1)[-1].upper()
        completes = known.get(name) or _values_of(field.annotation)
        names, text = "--" + name.replace("_", "-"), field.description or ""
        found.append(_argument(names, value, text, completes=completes, dest=f"set_{name}", **pairs))
    return found


def _values_of(annotation: Any) -> str:
    """The values of a setting that has few."""
    if annotation is bool:
        return "true false"
    return " ".join(get_args(annotation)) if get_origin(annotation) is Literal else ""


def _settings_of_demo() -> list[Argument]:
    """All but the one that a demo chooses."""
    return [each for each in all_settings() if each.dest != "set_state_dir"]


def client_words() -> list[Argument]:
    """The words of `install`."""
    from tmuxmcp.faces.cli.clients import CLIENTS

    clients = tuple(CLIENTS)
    return [
        _argument("client", "CLIENT", ", ".join(clients), choices=clients),
        _argument("words", "[-- OPTION ...]", "options of `tmuxmcp serve`", nargs="*", default=[]),
    ]


HELP = Argument(("-h", "--help"), "print this help", {"action": "help"})

VERSION_SHOWN = {"action": "version", "version": f"tmuxmcp {__version__}"}

PROGRAM = Verb(
    "",
    "arguments.print_help",
    DESCRIPTION,
    (
        HELP,
        Argument(("--version",), "show program's version number and exit", VERSION_SHOWN),
        _argument("--config", "FILE", "settings file; may also follow the command"),
    ),
    tuple,
)
"""What stands before the verb, and what is done without one."""

OF_EVERY_VERB = (
    HELP,
    _switch("--json", "print the result as JSON"),
    # Left out here, it is what stands before the verb.
    _argument("--config", "FILE", "settings file", completes="@files", default=argparse.SUPPRESS),
)

REQUEST_ID = _argument(
    "--request-id", "ID", "a name for this call, of 8 to 64 characters: the same again does nothing twice", default=""
)


def _verb(
    summary: str,
    handler: str,
    description: str = "",
    *arguments: Argument,
    late: Callable[[], list[Argument]] = few_settings,
    other_names: tuple[str, ...] = (),
) -> Verb:
    description = description or f"{summary[0].upper()}{summary[1:]}."
    return Verb(summary, handler, description, (*OF_EVERY_VERB, *arguments), late, other_names)


VERBS: dict[str, Verb] = {
    "serve": _verb(
        "serve MCP on stdin and stdout, or over HTTP",
        "service.serve",
        "Serve MCP on stdin and stdout, as clients start it, or over HTTP with --http HOST:PORT, until Ctrl-C.\n"
        "Sessions go on when it ends.",
        _switch("--no-token", "HTTP asks for no token; on loopback, for tests"),
        _words("PROGRAM", "program of the default session, and its arguments", "@commands"),
        late=all_settings,
    ),
    "demo": _verb(
        "show what tmuxmcp does, in ten seconds",
        "service.demo",
        "",
        _switch("--keep", "leave the demo's session running, to attach to"),
        late=_settings_of_demo,
    ),
    "new": _verb(
        "start a program in a session of its own",
        "sessions.new",
        "",
        _argument("--name", "NAME", "becomes the session id"),
        _argument("--rows", "N", "rows of its terminal", type=_count),
        _argument("--cols", "N", "columns of its terminal", type=_count),
        _argument("--cwd", "DIR", "its working directory", completes="@directories"),
        _argument("--env", "NAME=VALUE", "added to its environment", type=_pair, action="append"),
        _choice("--sandbox", ("none", "auto", "required"), "put it into a sandbox"),
        _argument("--host", "USER@BOX[:PORT]", "run it on another machine, by ssh"),
        _choice("--record", ("always", "on_failure"), "record it, or keep that only if it fails"),
        _argument("--limit", "NAME=VALUE", "memory_mb=512, ...; again for each", type=_pair, action="append"),
        _argument("--node", "NODE", "of many machines: on this one"),
        _argument("--label", "NAME=VALUE", "of many machines: on one that has this", type=_pair, action="append"),
        REQUEST_ID,
        _words("PROGRAM", "program and its arguments, exact; left out: the login shell", "@commands"),
    ),
    "run": _verb(
        "run a command in a session's shell",
        "run.run",
        "Run a command in a session's live shell: its output on stdout, its exit status as ours.\n\n"
        "One word is shell text as it is; several words are one command with exactly these arguments.\n"
        "Without -s, the first of several words may name a session: `tmuxmcp run ID COMMAND`. A word that is both\n"
        "session and command is refused, and so is one that looks like a session; behind -- there is no session.\n"
        "Ctrl-C interrupts the command; twice leaves it running. At a terminal, a command that waits for input offers\n"
        "to connect you; elsewhere it is left waiting, and the exit status is 125.",
        *_session(""),
        *_timeout("wait no longer than this (no limit); the command goes on, exit status 124"),
        _choice(
            "--adopt",
            get_args(Adopt),
            "yes: a shell's prompt stands there, as behind ssh: have run work in it (auto: where that is certain)",
            default="auto",
        ),
        REQUEST_ID,
        _words("COMMAND", "the command, behind all options", "@sessions"),
    ),
    "send": _verb(
        "type text and press keys, and print what came back",
        "sessions.send",
        "",
        *_session(""),
        _argument(
            "words",
            "[ID] TEXT",
            "session id (unless -s gives it), text to type; a newline is Enter",
            nargs="*",
            completes="@sessions",
        ),
        _argument("--key --keys", "KEY", "after the text: Up, C-c, F5, Down*5", action="append"),
        _switch("--enter", "press Enter at the end"),
        _argument("--secret", "NAME", "a secret of the settings, and Enter", default=""),
        REQUEST_ID,
        *_wait("when to come back (ready)"),
    ),
    "read": _verb(
        "print what a session printed since the last read",
        "sessions.read",
        "",
        *_session(),
        _argument("--command", "N", "all output of this command; -1: of the last one", type=int),
        _choice(
            "--view", ("new", "screen", "scrollback", "raw"), "new text, the screen, lines of scrollback, or raw bytes"
        ),
        _argument("--offset", "LINE", "scrollback: first line, 0 the oldest", type=_count),
        _argument("--limit", "LINES", "scrollback: most lines (1000)", type=_count),
        _argument("--since", "OFFSET", "start at this offset of the log", type=_count),
        _choice("--format", ("plain", "ansi"), "ansi: with colours"),
        *_wait("wait for this first (none)"),
    ),
    "search": _verb(
        "search a session's whole log",
        "sessions.search",
        "Find a regular expression in everything that a session printed, also what scrolled away.\n\n"
        "Each match is printed as `LINE @OFFSET: TEXT`; `tmuxmcp read --since OFFSET` goes on from there.",
        *_session(""),
        _argument("words", "[ID] PATTERN", "session id (unless -s gives it), regex", nargs="+", completes="@sessions"),
        _argument("-C --context", "LINES", "lines around each match (0)", type=_count),
        _argument("-n --limit", "N", "most matches to print (100)", type=_count),
    ),
    "list": _verb(
        "list the sessions",
        "sessions.list_",
        "",
        _switch("--all", "also those whose program has ended"),
        _switch("--watch", "again every second, in place; q ends"),
        other_names=("ls",),
    ),
    "view": _verb(
        "print a session's screen",
        "sessions.view",
        "",
        *_session(),
    ),
    "watch": _verb(
        "follow a session's screen",
        "watch.watch",
        "Follow a session's screen in place; several side by side. q or C-c ends; nothing is typed, and each session\n"
        "keeps its size. Where stdout is no terminal, each screen of one session is printed below the other.",
        *_session(),
        _argument("more", "ID", "others beside it", nargs="*"),
        _switch("--once", "print the screen once, as plain text"),
    ),
    "attach": _verb(
        "watch a session live; leave with C-b d",
        "sessions.attach",
        "Watch a session live; leave with C-b d. With --take you hold it and type, and agents do not. C-b g (setting\n"
        "take_key) gives it back, and you go on watching. Leaving gives it back too, and so does a closed window.",
        *_session(),
        _switch("--take", "take it over and type into it"),
    ),
    "page": _verb(
        "open the page with all sessions in your browser",
        "page.page",
        "Open the page in your browser: all sessions, live, and what they did. Servers with --http show it, and those\n"
        "of MCP clients with the setting page. Where there is none, this command shows it itself, on loopback, until\n"
        "you press Ctrl-C; sessions go on. The page is let in by a code that is good once, for a minute.",
        *_session("session whose page is opened; left out: all"),
        _switch("--no-open", "only print the address, with the code in it"),
        _argument("--port", "PORT", "of the server, where several show the page or none", type=_count),
    ),
    "take": _verb(
        "keep agents from typing into a session",
        "people.take",
        "Hold a session, so that agents do not type into it: they are told SESSION_TAKEN, and what runs goes on.\n"
        "Type into it by `tmuxmcp attach --take ID`, which takes it too; `tmuxmcp release ID` gives it back.",
        *_session(),
    ),
    "release": _verb(
        "give a session back to agents",
        "people.release",
        "Give a session back that was taken; agents are told what was done in it meanwhile.",
        *_session(),
    ),
    "answer": _verb(
        "do what an agent asks you for",
        "answer.answer",
        "Show what agents wait for you to do, and do it. ID is that of a request, or of a session: its first one.\n"
        "For a secret, one line is read that nobody sees, and typed only while the program shows nothing of what is\n"
        "typed. For all else you are attached to the session until you press C-b a (setting answer_key): done. Leave\n"
        "with C-b d, or hang up, and the request waits on. In a terminal that is attached and may type, C-b a opens a\n"
        "popup with what waits first in the session.",
        _argument("id", "ID", "which request; left out: each that waits", completes="@sessions", nargs="?"),
        _argument("--text", "TEXT", "type this and Enter; not for a secret", apart="how"),
        _switch("--decline", "tell the agent that you will not", apart="how"),
        _argument("--client", "PID", "what runs in the popup of this tmux client", type=_count, apart="how"),
    ),
    "pause": _verb(
        "stop agents from typing, in one session or all",
        "people.pause",
        "Stop agents at once: what would type into the session, signal or resize it answers SESSION_TAKEN. What runs\n"
        "in it goes on. With --all it holds for every session, also for those that are made before `resume --all`.",
        *_session("session id"),
        _switch("--all", "every session, also those made later"),
    ),
    "resume": _verb(
        "let agents type again where they were paused",
        "people.resume",
        "",
        *_session("session id"),
        _switch("--all", "every session, also those paused one by one"),
    ),
    "kill": _verb(
        "end a session and every process in it",
        "sessions.kill",
        "",
        *_session("session id"),
        _switch("--force", "kill at once", default=None),
        _choice("--signal", SIGNAL_NAMES, "what to ask it with (TERM)", type=signal_name),
        _argument("--grace-ms", "MS", "time to end before it is killed (2000)", type=_count),
    ),
    "log": _verb(
        "print a session's log, also when it is gone",
        "log.log",
        "Print all that a session has printed, as clean text. Also of sessions that have ended, are lost or were\n"
        "killed, as long as their logs are kept; `ID.1`, `ID.2` ... are earlier sessions of the same name.\n\n"
        "TIME is how long ago that was (90s, 10m, 12h, 7d), or ISO 8601 such as 2026-01-31T12:00:00Z, which is local\n"
        "without a zone.",
        *_session(completes="@logs"),
        _switch("-f --follow", "go on, a line at a time, until the session ends"),
        _switch("--raw", "the bytes as they were printed"),
        _argument("--since", "OFFSET|TIME", "start there", type=point, apart="start"),
        _argument("--tail", "LINES", "start so many lines before the end", type=_count, apart="start"),
        _argument("--until", "OFFSET|TIME", "end there", type=point),
        _argument("--command", "N", "only this command's output; -1: the last one's", type=int),
        _switch("--timestamps", "before each line when it was complete; ~: or before"),
        _switch("--events", "instead what happened: input, sizes, commands, ends"),
    ),
    "history": _verb(
        "list a session's commands with their exit codes",
        "log.history",
        "Print the commands that a session's shell ran, newest last, whoever typed them. EXIT is `-` while one runs,\n"
        "and BY says who typed it: an agent's or this program's call, or somebody else. What is not known is `-`.\n"
        "Also of sessions that have ended, are lost or were killed; `ID.1` is an earlier session of the same name.",
        *_session(completes="@logs"),
        _argument("-n --limit", "N", "the newest so many (20)", type=_count),
        _argument("--before", "NUMBER", "only those with lower numbers", type=_count),
        _switch("--failed", "only those whose exit code is not 0"),
    ),
    "record": _verb(
        "record a session from now on",
        "record.record",
        "Record what a session prints from now on until `tmuxmcp record ID --stop` or its end. Its file is made then;\n"
        "its place is kept until then. `tmuxmcp export` makes a file of what a session did before.",
        *_session(),
        _switch("--stop", "end the recording, and write its file"),
        _argument("--path", "FILE", "a new file; left out: in the session's own directory", completes="@files"),
        _choice("--format", get_args(RecordedAs), "(by the ending of FILE, else cast)"),
        _switch("--input", "also what is typed, where the terminal shows it"),
        _argument("--idle-limit", "SECONDS", "no pause is longer", type=_seconds),
    ),
    "export": _verb(
        "write what a session did to a file",
        "record.export",
        "Write what a session did to a file: a recording for asciinema (cast), its text (txt, ansi, html), a picture\n"
        "that moves (svg, gif) or lines of JSON (jsonl). Also of sessions that have ended, as long as their logs are\n"
        "kept. Nothing is overwritten.\n\n"
        "Times count from the session's beginning; negative ones are before now, or before its end.",
        *_session(completes="@logs"),
        _choice("--format", FILM_FORMATS, "(by the ending of FILE, else cast)"),
        _argument("--path", "FILE", "- is stdout; left out: in the session's own directory", completes="@files"),
        _argument("--from", "SECONDS", "begin there (its beginning)", dest="begin", type=_moment),
        _argument("--to", "SECONDS", "end there (now)", dest="until", type=_moment),
        _argument("--command", "N", "only this command's output; -1: the last one's", type=int),
        _argument("--speed", "FACTOR", "2: twice as fast", type=_speed),
        _argument("--idle-limit", "SECONDS", "no pause is longer", type=_seconds),
    ),
    "replay": _verb(
        "play what a session did, or a recording",
        "replay.replay",
        "Play what a session did, or an asciicast of version 2 or 3, in this terminal, which is left as it was.\n"
        "Also of sessions that have ended, as long as their logs are kept.\n\n"
        "Keys: space pauses, . is one step, left and right are 5 seconds, home and end, + and - the speed, i cuts\n"
        "silence or not, n and p go to the end of the next and the previous command, f to that of the next that\n"
        "failed, q ends.",
        *_session("session id, or a file: with a / in it, or .cast", completes="@logs"),
        _argument("--speed", "FACTOR", "2: twice as fast", type=_speed),
        _argument("--idle-limit", "SECONDS", "no pause is longer (2); 0: all of it", type=_seconds),
        _argument("--from", "SECONDS", "begin there (its beginning)", dest="begin", type=_moment),
        _argument("--command", "N", "begin where this command does; -1: the last one", type=int),
    ),
    "script": _verb(
        "print what a session ran as a shell script",
        "log.script",
        "Print the commands that a session's shell ran as a script for that shell. What failed is a comment with its\n"
        "exit code, and so is what still runs, what ran in a shell inside or was given stdin, and what is not wholly\n"
        "known. `cd` stands where the shell was elsewhere than these commands lead. Of each session, as `tmuxmcp log`.",
        *_session(completes="@logs"),
    ),
    "restore": _verb(
        "make lost sessions again",
        "retention.restore",
        "Make sessions again that are lost, as after a reboot: same name, program, arguments, directory, size,\n"
        "sandbox, limits and host. The log of before becomes `ID.1`. Each program is started anew; no command that\n"
        "ran in a shell is run again, and no shell is made again that was given a command or a script.\n"
        "Without ID and --all, print which there are. What ended or was killed is made again only if it is named.",
        _argument("ids", "ID", "these sessions", completes="@logs", nargs="*"),
        _switch("--all", "every session that is lost"),
    ),
    "pin": _verb(
        "keep a session's log for ever",
        "retention.pin",
        "Keep the files of a session, however old they become and whatever room all of it takes. `tmuxmcp list` shows\n"
        "which are pinned. `ID.1`, `ID.2` ... are earlier sessions of the same name.",
        *_session(completes="@logs"),
        _switch("--remove", "let it go with the others again"),
    ),
    "prune": _verb(
        "remove logs of sessions that are over",
        "retention.prune",
        "Remove the files of sessions that are over: what the settings retention_days and state_max_bytes say; with\n"
        "IDs or --older-than that alone. What runs, has its pane still or is pinned stays. The audit says what went.",
        _argument(
            "ids", "ID", "of these sessions; `ID.1` is an earlier one of that name", completes="@logs", nargs="*"
        ),
        _argument("--older-than", "TIME", "silent for longer: 90s, 15m, 12h or 7d", type=age),
        _switch("--dry-run", "only print what would go"),
    ),
    "policy": _verb(
        "judge a command, or confirm one of an agent's",
        "policy.policy",
        "test COMMAND: say what the policy makes of a command, without running it; exit status 0: allowed, 4: not.\n"
        "pending: show what agents may only do when you confirm it.\n"
        "confirm ID, decline ID: answer one of these; a confirmation is for one call, exactly as shown.\n\n"
        "One word of COMMAND is shell text as it is; several words are one command with exactly these arguments.",
        _argument("--tool", "NAME", "test: the tool that is called (run)", default="run"),
        _argument("--cwd", "DIR", "test: where it would run (here)", completes="@directories"),
        _argument("--mode", "MODE", "test: of the session (shell_prompt)", default="shell_prompt"),
        _argument("--policy", "POLICY", "test: another policy than the settings'", dest="set_policy"),
        _words("ACTION", "test COMMAND, pending, confirm ID or decline ID", "test pending confirm decline"),
    ),
    "fleet": _verb(
        "show and manage many machines",
        "fleetup.fleet",
        "Show the machines of a fleet, and say what is to become of them. FLEET is the setting fleet: a file of\n"
        "brokers, ray://HOST:PORT or auto.\n\n"
        "status: each machine, and what it has room for; exit status 1 if one does not answer.\n"
        "drain NODE: no new sessions there; those that are there go on. undrain NODE takes it back.\n"
        "forget NODE: it is gone for good, and its sessions with it: from now on they are NODE_LOST. undrain takes\n"
        "that back as well.\n\n"
        "With Ray: up NODE starts a cluster, of which this machine is the first. join NODE has this machine be one of\n"
        "the cluster of --fleet. up gives each machine of a cluster a door of this version; sessions do not notice.",
        _argument(
            "action",
            "ACTION",
            "status, drain, undrain, forget, up or join",
            nargs="?",
            default="status",
            choices=("status", "drain", "undrain", "forget", "up", "join"),
        ),
        _argument("node", "NODE", "name of the machine", nargs="?"),
        _argument("--label", "NAME=VALUE", "up NODE, join: a label of the machine", action="append"),
        _argument("--ray", "OPTIONS", "up NODE, join: more of `ray start`, as --ray='--num-cpus=4 ...'"),
        _switch("--dry-run", "up NODE, join: print what would be run"),
        _switch("--block", "up NODE, join: stay until Ray ends here, for a service"),
        _switch("--force", "forget: also a machine that answers"),
    ),
    "doctor": _verb(
        "check tmux, shells, limits and settings",
        "service.doctor",
        "Look at what sessions need of this machine; say what to do about what is not there. Exit status 1 then.\n\n"
        "Changes nothing. Shells are tried in a state directory of their own, which is gone afterwards.",
    ),
    "install": _verb(
        "put this server into a client's configuration",
        "install.install",
        "Put this server into a client's configuration. The file as it was is kept beside it.\n\n"
        "The server is tried first, as the client would use it: started with the same command, environment and\n"
        "directory, or called at the URL. If it does not answer, nothing is written.\n\n"
        "Words behind the client are options of `tmuxmcp serve`, behind `--`.",
        _choice("--scope", ("user", "project", "local"), "whose configuration (the first it has)"),
        _argument("--name", "NAME", "what the client calls it (tmuxmcp)", default="tmuxmcp"),
        _argument("--http", "URL", "of a server that runs already; left out: the client starts one"),
        _argument("--token-file", "FILE", "holds the token that the server at URL wants"),
        _switch("--dry-run", "print what would change; write and start nothing"),
        _switch("--no-start", "write without trying the server"),
        _switch("--remove", "take it out again"),
        late=client_words,
    ),
    "config": _verb(
        "print each setting and where it came from",
        "service.config",
        late=all_settings,
    ),
    "completion": _verb(
        "print a script for Tab in bash, zsh or fish",
        "completion.completion",
        "Print a script by which a shell completes commands, options, session ids and values of settings.\n\n"
        'bash, zsh: eval "$(tmuxmcp completion bash)" in the start-up file, in zsh after compinit.\n'
        "fish: tmuxmcp completion fish >~/.config/fish/completions/tmuxmcp.fish",
        _argument("shell", "SHELL", "bash, zsh or fish", nargs="?", choices=("bash", "zsh", "fish")),
        _switch("--sessions", "print session ids instead, as the scripts need them"),
        _switch("--logs", "--sessions, and those of which only the log is left"),
    ),
}


# ---- the words ---------------------------------------------------------------------------------


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
