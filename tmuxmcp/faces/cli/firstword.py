"""The first word of `tmuxmcp run WORD ...`: a session, a command, or a typing error that is neither."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from tmuxmcp.contract.errors import InvalidArgument, SessionNotFound
from tmuxmcp.contract.words import EVERY_SESSION
from tmuxmcp.faces.cli.calling import CLI_CALLER, exists
from tmuxmcp.sessions import registry as kept

if TYPE_CHECKING:
    from tmuxmcp.nodes.fleet import AnyBroker

MAYBE_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What can be a session's id; any other word begins a command."""

_OF_BASH = """alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs
disown echo enable eval exec exit export false fc fg for function getopts hash help history if jobs kill let local
logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend test time
times trap true type typeset ulimit umask unalias unset until wait while"""
_OF_OTHERS = """abbr and autoload begin bindkey chdir compdef contains emit emulate functions math noglob nocorrect not
or print rehash set_color setopt string unsetopt whence where which zmodload"""
IN_SHELLS = frozenset(f"{_OF_BASH} {_OF_OTHERS}".split())
"""Commands of shells that are no programs."""


async def session_meant(broker: AnyBroker, words: Sequence[str], state_dir: Path) -> str | None:
    """The session that the first word names; None: it begins a command.

    Raises:
        InvalidArgument: it is a session and a command, or a session without a command.
        SessionNotFound: it is no command, and looks like a session or would make the default session.
    """
    word = words[0]
    if not MAYBE_SESSION_ID.fullmatch(word):
        return None
    is_command = word in IN_SHELLS or shutil.which(word) is not None
    as_command = f"`tmuxmcp run -- {word} ...` runs it as a command."
    if await exists(broker, word):
        if len(words) == 1 and is_command:
            return None
        if len(words) == 1:
            raise InvalidArgument(f"'{word}' is a session; there is no COMMAND.", hint=as_command)
        if is_command:
            raise InvalidArgument(
                f"'{word}' is a session and a command.",
                hint=f"`tmuxmcp run -s {word} ...` means the session. {as_command}",
            )
        return word
    if is_command:
        return None
    rows = (await broker.list_sessions(include_exited=True, limit=EVERY_SESSION)).sessions
    ids = [each.session_id for each in rows if not each.ended or each.ended.reason != "destroyed"]
    if near := get_close_matches(word, ids, n=1, cutoff=0.7):
        raise SessionNotFound(
            f"There is no session '{word}'.",
            hint=f"Did you mean `tmuxmcp run {near[0]} ...`? {as_command}",
            session_id=word,
        )
    if len(words) > 1 and not _default_runs(state_dir):
        raise SessionNotFound(
            f"There is no session '{word}', and no command of that name.", hint=as_command, session_id=word
        )
    return None


def _default_runs(state_dir: Path) -> bool:
    """Whether the command line's default session is there: its shell may know commands that we do not."""
    try:
        return kept.seems_running(kept.find(state_dir, "", CLI_CALLER))
    except SessionNotFound:
        return False
