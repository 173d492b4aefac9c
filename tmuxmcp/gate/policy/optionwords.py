"""Options and operands among the words of a command, and what is known of a match. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tmuxmcp.gate.policy.shelltext import Word

Match = bool | None
"""None: it cannot be told."""


def options(words: Sequence[Word], valued: frozenset[str] = frozenset()) -> Iterator[Word]:
    """The options among words, and what may be one; operands may stand between them."""
    for word, is_operand in _told_apart(words, valued):
        if not is_operand:
            yield word


def operands(words: Sequence[Word], valued: frozenset[str] = frozenset()) -> Iterator[Word]:
    for word, is_operand in _told_apart(words, valued):
        if is_operand:
            yield word


def _told_apart(words: Sequence[Word], valued: frozenset[str]) -> Iterator[tuple[Word, bool]]:
    """Each word, and whether it is an operand for sure, known or not; values of options are left out."""
    at, ended = 0, False
    while at < len(words):
        word = words[at]
        if ended:
            yield word, True
        elif word == "--":
            ended = True
        elif word is None:
            yield None, False
        elif word in valued:
            at += 1
        else:
            yield word, not (word.startswith("-") and len(word) > 1)
        at += 1


def is_option(word: Word, letters: str, long: str) -> Match:
    """Whether a word has one of the letters in a cluster, or is a long option, perhaps cut short."""
    if word is None:
        return None
    if word.startswith("--"):
        given = word.partition("=")[0]
        return len(given) > 2 and long.startswith(given)
    return any(letter in word[1:] for letter in letters)


def either(one: Match, other: Match) -> Match:
    return True if one is True or other is True else (None if one is None or other is None else False)


def both(one: Match, other: Match) -> Match:
    return False if one is False or other is False else (None if one is None or other is None else True)
