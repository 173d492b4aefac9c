"""What a pane runs: the program found, its environment put together.

The launcher gets all this by a file in the session's directory, which its step removes after reading.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import pwd
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tmuxmcp.errors import CwdNotFound, InvalidArgument, ProgramNotFound

PACKAGE = Path(__file__).parent
WITHIN = "spec.within"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

ALLOWED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "EDITOR", "VISUAL"),
    *("PAGER", "LESS", "XDG_*", "VIRTUAL_ENV", "CONDA_*", "PYENV_ROOT", "NVM_DIR", "GOPATH", "GOROOT", "CARGO_HOME"),
    *("RUSTUP_HOME", "JAVA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
)
"""Variables that sessions inherit; everything else must be named."""

SECRET = re.compile(
    r"(?i)TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH|BEARER|COOKIE|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SESSION_?KEY"
    r"|(?:^|_)(?:KEYS?|PASS|PAT|DSN)$|(?<!^OLD)_PWD$"
)
"""Names that never pass unless they are named exactly."""


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret, as far as a name can tell."""
    return bool(SECRET.search(name))


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
    allowed = any(fnmatch.fnmatchcase(name, pattern) for pattern in (*ALLOWED, *named))
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


def find_cwd(cwd: str) -> str:
    """The absolute path of a working directory.

    Raises:
        CwdNotFound: it is not a directory.
    """
    path = os.path.abspath(os.path.expanduser(cwd or os.getcwd()))
    if "\0" in path or not os.path.isdir(path):
        raise CwdNotFound(f"There is no directory {path!r}.", hint="Give an existing directory as cwd.", cwd=path)
    return path


def write_spec(
    directory: Path,
    *,
    executable: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    umask: int,
    confine: Sequence[tuple[str, str]] = (),
    name: str = "spec",
) -> None:
    """Write what the launcher's step reads: fields that end with NUL, in a file for the owner alone.

    Args:
        confine: what the step does to itself before, as words and values of `confine.py`.
        name: of the file.

    Raises:
        InvalidArgument: an argument holds NUL.
    """
    if any("\0" in word for word in argv):
        raise InvalidArgument("An argument cannot hold NUL.", hint="Send such text with send.")
    fields = [cwd, str(umask), executable]
    for words in (argv, _pairs(env.items()), _pairs(confine)):
        fields += [str(len(words)), *words]
    fd = os.open(directory / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(b"".join(os.fsencode(field) + b"\0" for field in fields))


def write_wrapped_spec(
    directory: Path,
    wrapper: Sequence[str],
    *,
    executable: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    umask: int,
    confine: Sequence[tuple[str, str]],
    within: Sequence[tuple[str, str]],
) -> None:
    """Write what the step reads that becomes a wrapper, and what the step within reads that becomes the program.

    Args:
        wrapper: its words; the last of them start the step within.
        confine: what the first of them does to itself.
        within: what the second does.

    Raises:
        InvalidArgument: an argument holds NUL.
    """
    write_spec(directory, executable=executable, argv=argv, env=env, cwd=cwd, umask=umask, confine=within, name=WITHIN)
    outer = [*confine, ("report", str(directory / "error")), ("keep_report", ""), ("hand", str(directory / WITHIN))]
    # Nothing of the caller's variables: by LD_PRELOAD the wrapper would run his code, outside.
    marked = session_mark(directory)
    write_spec(directory, executable=wrapper[0], argv=wrapper, env=marked, cwd="/", umask=umask, confine=outer)


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name}={value}" for name, value in pairs]


def session_mark(directory: Path) -> dict[str, str]:
    """The variable that all processes of a session inherit, by which those are found that left its terminal."""
    return {"TMUXMCP_KEY": hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}


def launcher_argv(directory: Path, token: str) -> list[str]:
    """Word one of a pane and its arguments."""
    return ["/bin/sh", str(PACKAGE / "launcher.sh"), sys.executable, str(PACKAGE / "step.py"), str(directory), token]


def sink_argv(directory: Path, log_max_bytes: int, number: int = 1) -> list[str]:
    """The command behind pipe-pane; every sink of a session but the first writes down that there was a gap."""
    return ["exec", "/bin/sh", str(PACKAGE / "sink.sh"), str(directory), str(log_max_bytes), str(number)]
