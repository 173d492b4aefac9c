"""What a shell text would run, found by a parser: simple commands with their words. Nothing is ever run.

A word that only the shell can know (an expansion, a substitution) is None. Text that the parser does not understand
adds a command of which nothing is known: a rule that could have matched it then counts as matched. The grammar is
bash's, which sh and zsh share for the most part; fish's own syntax mostly counts as not understood.

Pure: text in, commands out. The parser (tree-sitter, with its bash grammar) is imported at first use, and there are
texts that crash it: `parse` runs in a process of its own alone (`parser.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from tmuxmcp.contract.value import replace, value

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Word = str | None


def words_of(text: str) -> frozenset[str]:
    """A set of words."""
    return frozenset(text.split())


TEXT_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "yash"})
"""Programs that run the commands of a text, as `sh -c TEXT` does."""

TEXT_OPTIONS = {
    "fish": re.compile(r"(?:--co[a-z]*|--init?(?:-[a-z]*)?|-C|-c(?=.))(?:=?(.+))?", re.DOTALL),
}
"""A shell's own options that take commands; names may be cut short, the value may stand in the same word."""

NO_OPTION = re.compile(r"(?!)")

EXPANDED_WORD = re.compile(r"(?<!\\)\{[^}]*(?:,|\.\.)|^=")
"""Words that are not what they say: braces with alternatives, and `=name`, which is a path in zsh."""

GLOB = re.compile(r"(?<!\\)[*?\[]")
HISTORY_EXPANSION = re.compile(r"(?<!\\)!(?=[\w!$?#*^:{-])")
"""What an interactive shell replaces by an earlier command; so it does a line that begins with `^`."""

LINE_GOES_ON = re.compile(r"(?<!\\)((?:\\\\)*)\\\n")
"""A line that goes on: an odd number of backslashes at its end."""

CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Characters that do something in a line editor instead of standing in the text."""

ANSI_C_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}

GRAMMAR_COMMANDS = {"declaration_command": "", "unset_command": "unset", "test_command": "["}
"""Commands for which the grammar has types of their own; without a name it is their first word."""

MOST_CWDS = 16
"""So many directories that a text may be in; with more, where it runs cannot be known."""

MOST_GOT = 16
"""So many commands are known of which one gets the output."""

MOST_UNTOLD = 8
"""So many words that cannot be known are kept as they were written."""

MOST_DEPTH = 100
"""Deeper nesting counts as not understood: it would exhaust our own stack."""


@value
class SimpleCommand:
    """A simple command."""

    argv: tuple[Word, ...]
    """Its words; None for one that cannot be known beforehand. `(None,)`: nothing is known."""
    files: tuple[Word, ...] = ()
    """What its redirections open."""
    cwds: tuple[str | None, ...] = (None,)
    """Where it may run: where the text starts, and where a `cd` before it goes. None: cannot be known."""
    fed: bool = False
    """Its standard input is a pipe, a file or text of the command line."""
    gets: tuple[SimpleCommand, ...] = ()
    """Commands whose output it gets: by a pipe, or by a substitution in its words or redirections."""
    assigned: Word = ""
    """Of an assignment, `NAME=`: the value."""
    written: tuple[Word, ...] = ()
    """Those of `files` that are opened to be written."""
    untold: tuple[str, ...] = ()
    """How the words were written that cannot be known, those of redirections included."""

    @property
    def program(self) -> Word:
        """Word one."""
        return self.argv[0] if self.argv else ""


UNKNOWN_COMMAND = SimpleCommand((None,))


def merged(*several: Iterable[SimpleCommand]) -> tuple[SimpleCommand, ...]:
    """Commands whose output is got, each once and without what they get themselves; too many are not told apart."""
    found: dict[int, SimpleCommand] = {}
    for each in chain(*several):
        found.setdefault(id(each.argv), each)  # not by its words, which may be a hundred thousand
        if len(found) > MOST_GOT:
            return (UNKNOWN_COMMAND,)
    return tuple(replace(each, gets=()) if each.gets else each for each in found.values())


def parse(text: str, cwds: tuple[str | None, ...] = (None,), home: str = "") -> list[SimpleCommand]:
    """The simple commands of a shell text, in its order, those of substitutions included.

    An assignment counts as a command `NAME=`: what is assigned may change what the next one does.

    Args:
        cwds: where the text may run; None: not known.
        home: what `~` stands for.
    """
    found = _parse(text, cwds, home)
    if LINE_GOES_ON.search(text):
        # The grammar takes it for a blank, bash for nothing at all, but not in a comment: so both are seen.
        found += _parse(LINE_GOES_ON.sub(r"\1", text), cwds, home)
    return found


def _parse(text: str, cwds: tuple[str | None, ...], home: str) -> list[SimpleCommand]:
    root = _parser().parse(text.encode("utf-8", "surrogateescape")).root_node
    walk = _Walk(cwds, home)
    walk.visit(root)
    if root.has_error or walk.too_deep or CONTROL_CHARACTER.search(text):
        walk.found.append(UNKNOWN_COMMAND)
    return walk.found


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class _Opened(NamedTuple):
    """What redirections open, and what stands behind them."""

    files: list[Word]
    written: list[Word]
    untold: list[str]
    behind: list[Node]


class _Walk:
    """One pass over the tree, in the order of the text."""

    def __init__(self, cwds: tuple[str | None, ...], home: str) -> None:
        self.cwds, self.home = cwds, home
        self.found: list[SimpleCommand] = []
        self.too_deep = False

    def visit(self, node: Node, depth: int = 0) -> None:
        if depth > MOST_DEPTH:
            self.too_deep = True
            return
        before = len(self.found)
        if node.type == "command":
            self._command(node)
        elif node.type in GRAMMAR_COMMANDS:
            self.found.append(SimpleCommand((GRAMMAR_COMMANDS[node.type] or _text(node.children[0]),), cwds=self.cwds))
        elif node.type == "variable_assignment":
            value = self._word(node.named_children[1]) if len(node.named_children) > 1 else ""
            self.found.append(SimpleCommand((_text(node.named_children[0]) + "=",), cwds=self.cwds, assigned=value))
        ends: list[int] = []
        for child in node.named_children:
            self.visit(child, depth + 1)
            ends.append(len(self.found))
        if node.type == "command":
            inside = merged(self.found[before].gets, self.found[before + 1 :])
            self.found[before] = replace(self.found[before], gets=inside)
        elif node.type == "redirected_statement":
            self._redirect(node, before, ends)
        elif node.type == "pipeline":
            # All but the first read a pipe; what cannot be told apart here counts as fed, too.
            self.found[before + 1 :] = [replace(each, fed=True) for each in self.found[before + 1 :]]
            self._pipe(before, ends)

    def _command(self, node: Node) -> None:
        words = [child for child in node.named_children if not _is_redirect(child)]
        words = [child for child in words if child.type != "variable_assignment"]
        argv = tuple(self._word(child) for child in words)
        first = _text(words[0]) if argv else ""
        if argv and isinstance(argv[0], str) and (GLOB.search(first) or first.startswith("^")):
            argv = (None, *argv[1:])
        inside = [child for child in node.named_children if _is_redirect(child)]
        fed = any(self._feeds(child) for child in inside)
        opened = self._opened(inside)
        untold = [_text(child) for child, word in zip(words, argv, strict=True) if word is None] + opened.untold
        self.found.append(
            SimpleCommand(
                argv,
                tuple(opened.files),
                self.cwds,
                fed,
                written=tuple(opened.written),
                untold=tuple(untold[:MOST_UNTOLD]),
            )
        )
        if argv and argv[0] in ("cd", "pushd", "popd"):
            self._change_directory(argv)

    def _change_directory(self, argv: tuple[Word, ...]) -> None:
        """What follows may run there, or where it was before: behind `&&` or in a subshell, who knows."""
        where = [word for word in argv[1:] if word not in ("-L", "-P", "--", "-e")]
        path = where[0] if where else self.home
        if argv[0] == "popd" or len(where) > 1 or not path or path[0] in "-+" or GLOB.search(path):
            new: set[str | None] = {None}
        else:
            new = {os.path.normpath(os.path.join(cwd, path)) if cwd else None for cwd in self.cwds}
            if os.path.isabs(path):
                new = {os.path.normpath(path)}
        self.cwds = (*self.cwds, *(new - set(self.cwds)))[:MOST_CWDS]
        if len(self.cwds) == MOST_CWDS:
            self.cwds = (None,)

    def _pipe(self, before: int, ends: list[int]) -> None:
        """What stands behind a `|` gets what all before it print."""
        printed: tuple[SimpleCommand, ...] = ()
        for start, end in pairwise([before, *ends]):
            stage = self.found[start:end]
            self.found[start:end] = [replace(each, gets=merged(printed, each.gets)) for each in stage]
            printed = merged(printed, stage)

    def _redirect(self, node: Node, before: int, ends: list[int]) -> None:
        """What stands behind a statement concerns every command in it."""
        body = next(
            (end for child, end in zip(node.named_children, ends, strict=True) if not _is_redirect(child)), before
        )
        first, rest = self.found[before:body], self.found[body:]
        # A pipe behind `<<END` belongs to the redirection, as the grammar has it.
        self.found[before:body] = [replace(each, gets=merged(each.gets, rest)) for each in first]
        self.found[body:] = [replace(each, gets=merged(each.gets, first)) for each in rest]
        redirects = [child for child in node.named_children if _is_redirect(child)]
        opened = self._opened(redirects)
        fed = any(self._feeds(child) for child in redirects)
        inside = self.found[before:] or [SimpleCommand((), cwds=self.cwds)]
        self.found[before:] = [
            replace(
                each,
                files=(*each.files, *opened.files),
                written=(*each.written, *opened.written),
                untold=(*each.untold, *opened.untold)[:MOST_UNTOLD],
                fed=each.fed or fed,
            )
            for each in inside
        ]
        if opened.behind:
            self._words_behind(opened.behind, before, node.named_children[0].type == "command")

    def _words_behind(self, nodes: list[Node], before: int, one: bool) -> None:
        """`rm >file -rf x`: words behind a redirection are the command's, or the last one's of several."""
        words = tuple(map(self._word, nodes))
        untold = [_text(node) for node, word in zip(nodes, words, strict=True) if word is None]
        for at in range(before, before + 1 if one else len(self.found)):
            each = self.found[at]
            self.found[at] = replace(each, argv=(*each.argv, *words), untold=(*each.untold, *untold)[:MOST_UNTOLD])
            if each.program in ("cd", "pushd", "popd"):
                self.cwds = (None,)

    def _feeds(self, node: Node) -> bool:
        return node.type != "file_redirect" or any(child.type.startswith("<") for child in node.children)

    def _opened(self, redirects: list[Node]) -> _Opened:
        """What redirections open; `2>&1` opens nothing."""
        opened = _Opened([], [], [], [])
        for node in redirects:
            inner = self._opened([child for child in node.named_children if _is_redirect(child)])
            opened.files.extend(inner.files)
            opened.written.extend(inner.written)
            opened.untold.extend(inner.untold)
            opened.behind.extend(inner.behind)
            words = [child for child in node.named_children if child.type != "file_descriptor"]
            if node.type == "heredoc_redirect":
                opened.behind.extend(node.children_by_field_name("argument"))
            if node.type != "file_redirect" or not words:
                continue
            opened.behind.extend(words[1:])  # the grammar takes them for files, too
            duplicates = any(child.type in (">&", "<&") for child in node.children)
            if not (duplicates and re.match(r"\d*-?\Z", _text(words[0]))):
                word = self._word(words[0])
                opened.files.append(word)
                opened.written.extend([word] if any(">" in child.type for child in node.children) else [])
                opened.untold.extend([_text(words[0])] if word is None else [])
        return opened

    # ---- words ---------------------------------------------------------------------------------

    def _word(self, node: Node) -> Word:
        """What a word is to the program; a glob stays as it is written."""
        match node.type:
            case "command_name" | "translated_string":
                return self._joined(node)
            case "concatenation":
                whole = _text(node)
                return None if EXPANDED_WORD.search(whole) else self._joined(node)
            case "word" | "number" | "extglob_pattern" | "regex" | "test_operator" | "variable_name":
                return self._plain(_text(node))
            case "raw_string":
                return _text(node)[1:-1]
            case "ansi_c_string":
                return _ansi_c(_text(node)[2:-1])
            case "string":
                return self._string(node)
            case "simple_expansion" if _text(node) in ("$?", "$#", "$$"):
                return "0"  # some number
            case _:
                return None

    def _joined(self, node: Node) -> Word:
        parts = [self._word(child) for child in node.named_children]
        return None if None in parts or not parts else "".join(part or "" for part in parts)

    def _plain(self, text: str) -> Word:
        if EXPANDED_WORD.search(text) or HISTORY_EXPANSION.search(text):
            return None
        if text.startswith("~"):
            name, slash, rest = text[1:].partition("/")
            if name or not self.home:
                return None
            text = self.home + slash + rest
        return re.sub(r"\\(\n|.)", lambda found: "" if found[1] == "\n" else found[1], text, flags=re.DOTALL)

    def _string(self, node: Node) -> Word:
        inside = _text(node)[1:-1]
        if HISTORY_EXPANSION.search(inside) or any(child.type != "string_content" for child in node.named_children):
            return None
        return re.sub(r'\\([\\$`"\n])', lambda found: "" if found[1] == "\n" else found[1], inside)


def _is_redirect(node: Node) -> bool:
    """Whether a part of a redirected statement is no part of the statement."""
    return "redirect" in node.type


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "surrogateescape")


def _ansi_c(text: str) -> Word:
    """What `$'...'` stands for."""

    def one(found: re.Match[str]) -> str:
        escape = found[1]
        if escape[0] in "xuU":
            return chr(min(int(escape[1:], 16), 0x10FFFF))
        if escape[0] in "01234567":
            return chr(int(escape, 8) & 0xFF)
        if escape[0] == "c":
            return chr(ord(escape[1]) & 0x1F)
        return ANSI_C_ESCAPES.get(escape, escape)

    hexadecimal = r"x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}"
    return re.sub(rf"\\({hexadecimal}|[0-7]{{1,3}}|c.|.)", one, text, flags=re.DOTALL)
