"""Which files and hosts a simple command names, as far as its words tell. Pure."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator

from tmuxmcp.gate.policy.shelltext import GLOB, SimpleCommand, Word, words_of
from tmuxmcp.gate.policy.wrapped import basename

NOT_FILES = words_of(
    "echo printf test [ [[ export set unset local declare typeset readonly return exit shift read true false : let "
    "wait jobs kill pwd type hash alias unalias eval trap expr seq sleep date"
)
"""Programs whose words are no files: an expansion among them is no reason to ask."""

NETWORK_PROGRAMS = words_of(
    "ssh scp sftp rsync mosh telnet ftp nc ncat netcat socat curl wget ping dig host nslookup git lftp http https xh "
    "openssl rclone kubectl"
)
"""Programs of which a word that cannot be known may be a host."""

FIRST_OPERAND = words_of("ssh mosh telnet ftp sftp nc ncat netcat ping")
"""Programs whose first operand is a host, perhaps as USER@HOST."""

URL_OPERAND_PROGRAMS = words_of("curl wget http https xh dig host nslookup")
"""Programs whose operands are URLs, where the scheme may be left out."""

OPTIONS_WITH_VALUE = words_of("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -P -Q -R -S -W -w -B -H -d -X -u -A -x")
"""Options of these programs that take the next word."""

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@\s]*@)?(\[[^\]]+\]|[^/:?#\s]+)")
REMOTE_PATH = re.compile(r"(?:[\w.-]+@)?(\[[^\]]+\]|[\w.-]+):(?!//)")
NETWORK_DEVICE = re.compile(r"/dev/(?:tcp|udp)/([^/]+)/")


def paths_of(command: SimpleCommand) -> Iterator[Word]:
    """Absolute paths that a command names; None for one that cannot be known.

    Any word may be a file: of an option what stands behind `=`, or from its first slash on.
    """
    words: list[Word] = list(command.files)
    if command.argv == (None,):
        yield None
    if command.program and "/" in command.program:
        words.append(command.program)
    if basename(command.program) not in NOT_FILES:
        for word in command.argv[1:]:
            words += [None] if word is None else _files_in(word)
    for word in words:
        yield from absolute(word, command.cwds)


def absolute(word: Word, cwds: tuple[str | None, ...]) -> Iterator[Word]:
    """The absolute paths that a word can name; None: not known."""
    if word is None:
        yield None
    elif os.path.isabs(word):
        yield os.path.normpath(word).replace("//", "/")
    else:
        yield from (os.path.normpath(os.path.join(cwd, word)) if cwd else None for cwd in cwds)


def _files_in(word: str) -> list[Word]:
    if URL.match(word) or not word:
        return []
    _, equals, value = word.partition("=")
    if word.startswith("-"):
        return [value] if equals and value else [word[word.index("/") :]] if "/" in word else []
    return [word, value] if equals and value else [word]


def is_path(value: str, pattern: str) -> bool:
    """A pattern that ends with `/*` means the directory, too."""
    return fnmatch.fnmatchcase(value, pattern) or (pattern.endswith("/*") and value == pattern[:-2])


def may_be_path(value: str, pattern: str) -> bool:
    """The same, where a glob of the shell's may stand for anything that begins and ends as it does."""
    if is_path(value, pattern):
        return True
    if not GLOB.search(value):
        return False
    begin, end = _literal_ends(value)
    first, last = _literal_ends(pattern.replace("[*]", "\\*"))
    if first == last and not GLOB.search(first):  # the pattern is no glob itself
        return first.startswith(begin) and first.endswith(end)
    return (first.startswith(begin) or begin.startswith(first)) and (last.endswith(end) or end.endswith(last))


def _literal_ends(pattern: str) -> tuple[str, str]:
    """What stands before the first and behind the last special character."""
    parts = GLOB.split(pattern)
    return parts[0].replace("\\", ""), parts[-1].rpartition("]")[2].replace("\\", "")


def hosts_of(command: SimpleCommand) -> Iterator[Word]:
    """Hosts that a command names; None for one that cannot be known."""
    name = basename(command.program)
    if name is None:
        yield None
        return
    for word in (*command.files, *command.argv[1:]):
        if word is None:
            if name in NETWORK_PROGRAMS:
                yield None
            continue
        for found in (URL.match(word), URL.search(word.partition("=")[2]), NETWORK_DEVICE.match(word)):
            if found:
                yield found[1]
    yield from _named_hosts(name, command.argv[1:])


def _named_hosts(name: str, words: tuple[Word, ...]) -> Iterator[str]:
    operands = _operands(words)
    if name in FIRST_OPERAND:
        operands = operands[:1]
    elif name in ("scp", "rsync", "git", "sftp"):
        yield from (found[1] for word in operands if (found := REMOTE_PATH.match(word)))
        return
    elif name not in URL_OPERAND_PROGRAMS:
        return
    for word in operands:
        if not URL.match(word):
            yield re.split(r"[/:?#]", word.rpartition("@")[2])[0]


def _operands(words: tuple[Word, ...]) -> list[str]:
    found, skip = [], False
    for word in words:
        if skip or word is None:
            skip = False
        elif word in OPTIONS_WITH_VALUE:
            skip = True
        elif not word.startswith(("-", "+", "@")):
            found.append(word)
    return found
