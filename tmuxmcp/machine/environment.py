"""What a program is started with: its executable found, its working directory, its environment put together."""

from __future__ import annotations

import fnmatch
import os
import pwd
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence

from tmuxmcp.contract.errors import CwdNotFound, InvalidArgument, ProgramNotFound

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
