"""What a program is started with: its executable found, its working directory, its environment put together."""

from __future__ import annotations

import fnmatch
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

import anyio

from tmuxmcp.contract.errors import CwdNotFound, InvalidArgument, ProgramNotFound
from tmuxmcp.machine.proc import environment

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

INHERITED_NAMES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "EDITOR", "VISUAL"),
    *("PAGER", "LESS", "XDG_*", "VIRTUAL_ENV", "CONDA_*", "PYENV_ROOT", "NVM_DIR", "GOPATH", "GOROOT", "CARGO_HOME"),
    *("RUSTUP_HOME", "JAVA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
)
"""Variables that sessions inherit; everything else must be named."""

SERVER_NAMES = ("PYTHON*", "LD_*", "TERM")
"""Variables that a server needs beside those, for itself and what it starts."""

SESSION_KEY = "TMUXMCP_KEY"
"""By this one the processes of a session are known; a server may have been started in one."""

SECRET_VARIABLE = re.compile(
    r"(?i)TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH|BEARER|COOKIE|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SESSION_?KEY"
    r"|(?:^|_)(?:KEYS?|PASS|PAT|DSN)$|(?<!^OLD)_PWD$"
)
"""Names that never pass unless they are named exactly."""


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret, as far as a name can tell."""
    return bool(SECRET_VARIABLE.search(name))


def is_usual(name: str) -> bool:
    """Whether a variable may stay in the environment of a server: nobody is told anything by it."""
    return name == SESSION_KEY or _passes(name, SERVER_NAMES)


def user_shell() -> str:
    """The user's login shell, from the user database; `/bin/sh` if that names none."""
    try:
        shell = pwd.getpwuid(os.geteuid()).pw_shell
    except KeyError:
        shell = ""
    return shell if shell and os.access(shell, os.X_OK) else "/bin/sh"


def session_environment(
    own: Mapping[str, str], *, allow: Iterable[str], settings_env: Mapping[str, str], env: Mapping[str, str], term: str
) -> dict[str, str]:
    """The environment of a session: what the allow-list passes of ours, the settings' and the caller's on top.

    Raises:
        InvalidArgument: a name or value that no environment can hold.
    """
    named = list(allow)
    try:
        user = pwd.getpwuid(os.geteuid())
        base = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
    except KeyError:
        base = {"HOME": "/"}
    base |= {"PATH": DEFAULT_PATH, "SHELL": user_shell(), "LANG": "C.UTF-8"}
    base |= {name: value for name, value in own.items() if _passes(name, named)}
    base |= {"TERM": term, "COLORTERM": "truecolor"}
    base |= {**settings_env, **env}
    for name, value in base.items():
        if not name or "=" in name or "\0" in name + value:
            raise InvalidArgument(f"{name!r} cannot be an environment variable.", hint="A name has no '=' and no NUL.")
    return base


def _passes(name: str, named: Sequence[str]) -> bool:
    if name.startswith(("TMUX", "BASH_FUNC_")):
        return False
    if name in named:
        return True
    allowed = any(fnmatch.fnmatchcase(name, pattern) for pattern in (*INHERITED_NAMES, *named))
    return allowed and not is_secret_name(name)


def find_program(program: str, path: str, cwd: str) -> str:
    """The absolute path of a program's executable.

    Raises:
        ProgramNotFound: there is none, or it cannot be executed.
        InvalidArgument: it is no name of a program.
    """
    if not program or "\0" in program:
        raise InvalidArgument("program must be a name or a path.", hint="For a shell command use run.")
    if "/" in program:
        candidate = os.path.join(cwd, os.path.expanduser(program))
        found = candidate if os.path.isfile(candidate) and os.access(candidate, os.X_OK) else None
    else:
        found = shutil.which(program, path=path)
    if found is None:
        hint = "Check the spelling and PATH; arguments go into args."
        raise ProgramNotFound(f"There is no program {program!r} to run.", hint=hint, program=program)
    return os.path.abspath(found)


def leave_removed_directory() -> bool:
    """Go home if our working directory has been removed; whether it had been."""
    try:
        os.getcwd()
    except FileNotFoundError:
        os.chdir(os.path.expanduser("~"))
        return True
    return False


def find_cwd(cwd: str) -> str:
    """The absolute path of a working directory.

    Raises:
        CwdNotFound: it is not a directory.
    """
    try:
        path = os.path.abspath(os.path.expanduser(cwd or os.getcwd()))
    except FileNotFoundError:
        raise CwdNotFound("Our own working directory was removed.", hint="Give an absolute path as cwd.") from None
    if "\0" in path or not os.path.isdir(path):
        raise CwdNotFound(f"There is no directory {path!r}.", hint="Give an existing directory as cwd.", cwd=path)
    return path


# ---- What Home and End send on a terminal type -----------------------------------------------------------------------
#
# As the programs that were started with it expect it (terminfo(5)).
#
# tmux sends what its own types name, whatever TERM the program was given; xterm's types name other sequences.

TMUX_SENDS = {"Home": b"\x1b[1~", "End": b"\x1b[4~"}

LOOKUP_S = 5
"""Longest time that one type's look-up may take; then tmux's own sequences are sent."""

MOST_TYPES = 64
"""Types that are remembered: a program may give itself any."""

_TERMINAL_TYPE = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_KEY_SEQUENCE = re.compile(rb"\x1b[\x20-\x7e]{1,8}")
# A process of its own: curses reads one type in its life.
_CURSES_CODE = """\
import curses, sys
curses.setupterm(sys.argv[1], 1)
for name in ("khome", "kend"):
    print((curses.tigetstr(name) or b"").hex())
"""
_known: dict[bytes, Mapping[str, bytes]] = {}


def type_of(pid: int) -> bytes:
    """The terminal type that a process was started with; empty where it cannot be told."""
    try:
        variables = environment(pid)
    except OSError:
        return b""
    return next((each[5:] for each in variables if each.startswith(b"TERM=")), b"")


async def home_and_end(term: bytes) -> Mapping[str, bytes]:
    """The sequences of Home and End that differ from what tmux sends, by tmux's names of the keys."""
    if not _TERMINAL_TYPE.fullmatch(term):
        return {}
    if term not in _known:
        found = await _looked_up(term.decode())
        if len(_known) >= MOST_TYPES:
            _known.clear()
        _known[term] = found
    return _known[term]


async def _looked_up(term: str) -> Mapping[str, bytes]:
    words = [sys.executable, "-I", "-c", _CURSES_CODE, term]
    try:
        with anyio.fail_after(LOOKUP_S):
            done = await anyio.run_process(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    except (OSError, TimeoutError):
        return {}
    lines = done.stdout.decode().split("\n")[:2] if done.returncode == 0 else []
    named = dict(zip(TMUX_SENDS, map(bytes.fromhex, lines), strict=False))
    return {key: data for key, data in named.items() if data != TMUX_SENDS[key] and _KEY_SEQUENCE.fullmatch(data)}
