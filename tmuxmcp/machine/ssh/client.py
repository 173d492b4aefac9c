"""The words of ssh: for a session's terminal, and for the second channel of its connection.

The person's configuration says how a host is reached. Said here is only what a session needs: no escape character, as
a line may begin with `~.`; one control socket of its own; and what would keep a terminal from being one is switched
off where the configuration has it on.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio

from tmuxmcp.contract.errors import HostUnreachable, InvalidArgument, ProgramNotFound, Unsupported
from tmuxmcp.contract.value import value

SSH_PROGRAM = "ssh"

ASKED_S = 5.0
"""How long the person's configuration may take: it can run programs of its own (`Match exec`)."""

CONFIGURATION_BYTES = 256 * 1024
"""Bytes of configuration that are read."""

SSH_FAILED = 255
"""Exit status of ssh when it is the connection that ended; and when a far program ended with just that."""

CONNECTION_CLOSED = re.compile(r"(?:Shared )?[Cc]onnection to \S+ closed\.")
CLOSED_THERE = re.compile(r"[Cc]onnection to \S+ closed by remote host\.")
"""What ssh says last, on a terminal, when it ends in order; and before that, where the host had not."""

SOCKET_BYTES = 107
"""The longest path of a socket."""

SSH_ADDS = 17
"""Bytes that ssh puts behind the path of its socket while it makes it."""

OPTIONS_TURNED_OFF = {
    "forkafterauthentication": ("yes", "ForkAfterAuthentication=no"),
    "stdinnull": ("yes", "StdinNull=no"),
    "sessiontype": ("none", "SessionType=default"),
    "loglevel": ("quiet fatal error", "LogLevel=INFO"),
}
"""Options with which there would be no terminal, or no word of why a connection ended; each is switched off."""

PASSED_VARIABLES = ("SSH_AUTH_SOCK",)
"""Variables that ssh is given beside a session's: the person's agent."""


def passed(own: Mapping[str, str]) -> dict[str, str]:
    """What ssh needs of our environment."""
    return {name: own[name] for name in PASSED_VARIABLES if own.get(name)}


async def configuration(executable: str, destination: Destination, environment: Mapping[str, str]) -> dict[str, str]:
    """What the person's configuration says of a host: small words, the last of each.

    Raises:
        HostUnreachable: ssh does not understand it, or does not answer.
    """
    argv, said, problem = [executable, "-G", *destination.ssh_words], b"", "it does not answer"
    with anyio.move_on_after(ASKED_S):
        try:
            done = await anyio.run_process(argv, env=environment, stdin=subprocess.DEVNULL, check=False)
        except OSError as error:
            raise ProgramNotFound(f"{executable} cannot be run: {error.strerror}.", hint="Install OpenSSH.") from None
        said, problem = done.stdout[:CONFIGURATION_BYTES], done.stderr.decode("utf-8", "replace").strip()
        if done.returncode == 0:
            pairs = (line.partition(" ") for line in said.decode("utf-8", "replace").splitlines())
            return {name.lower(): value for name, _, value in pairs}
    raise HostUnreachable(
        f"ssh does not understand the host {destination}: {problem[:500]}",
        hint=f"Try `ssh -G {destination.host}`, and mend ~/.ssh/config.",
        host=str(destination),
    )


def terminal_argv(
    destination: Destination, control: Path, said: Mapping[str, str], command: Sequence[str] = ()
) -> list[str]:
    """The words of the ssh of a session's terminal.

    Args:
        control: where its control socket is to be.
        said: what the person's configuration says of the host.
        command: what is run there, exactly these words; nothing: the login shell.
    """
    options = [
        "EscapeChar=none",
        "ControlMaster=yes",
        f"ControlPath={_no_tokens(control)}",
        "ControlPersist=no",
        # As the configuration says, and nothing that it does not say.
        f"ForwardAgent={_one_word(said.get('forwardagent', 'no'))}",
    ]
    options += [option for name, (values, option) in OPTIONS_TURNED_OFF.items() if said.get(name) in values.split()]
    if command and said.get("remotecommand", "none") != "none":
        options.append("RemoteCommand=none")
    words = [word for option in options for word in ("-o", option)]
    return [SSH_PROGRAM, "-t", *words, *destination.ssh_words, *([quoted(command)] if command else [])]


def channel_argv(executable: str, control: Path, script: str) -> list[str]:
    """The words of a second channel of a session's connection, which runs a script of `sh`.

    No configuration is read for it: all that it uses is the connection. Where that is gone it makes none of its own.
    """
    options = ("BatchMode=yes", "ControlMaster=no", "ProxyCommand=false", "EscapeChar=none", "LogLevel=QUIET")
    words = [word for option in options for word in ("-o", option)]
    command = "exec sh -c " + quote(script)
    return [executable, "-F", "none", "-S", _no_tokens(control), *words, "-T", "-x", "-a", "--", "session", command]


def quoted(words: Iterable[str]) -> str:
    """A command that any login shell runs as exactly these words."""
    return "exec " + " ".join(map(quote, words))


def quote(word: str) -> str:
    """A word for a shell, be it POSIX or fish: backslashes stand outside of quotes, where both read them alike."""
    parts = re.split(r"(['\\])", word)
    return "".join(f"\\{part}" if part in ("'", "\\") else f"'{part}'" for part in parts if part) or "''"


def _no_tokens(path: Path) -> str:
    return str(path).replace("%", "%%")


def _one_word(value: str) -> str:
    """An option's value that is a path with blanks is given in quotes."""
    return f'"{value}"' if " " in value else value


def was_cut(status: int | None, said: str) -> bool:
    """Whether it is the connection that ended, not what ran at its far end.

    Args:
        status: exit code of ssh.
        said: the end of what its terminal shows.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    in_order = bool(lines and CONNECTION_CLOSED.fullmatch(lines[-1])) and not CLOSED_THERE.fullmatch(
        "".join(lines[-2:-1])
    )
    return status == SSH_FAILED and not in_order


# ---- the directory of the control socket ---------------------------------------------------------


def make_control(state_dir: Path) -> Path:
    """Where a session's control socket will be: in a directory of its own, which only the owner may enter.

    Raises:
        InvalidArgument: the path is longer than a socket's can be.
    """
    home = state_dir / "ssh"
    path = home / secrets.token_hex(4) / "c"
    if len(os.fsencode(path)) + SSH_ADDS > SOCKET_BYTES:
        raise InvalidArgument(
            f"The state directory {state_dir} has too long a path for sessions on other hosts.",
            hint=f"Set state_dir to a path of at most {SOCKET_BYTES - SSH_ADDS - 15} bytes.",
        )
    home.mkdir(mode=0o700, exist_ok=True)
    path.parent.mkdir(mode=0o700)
    return path


def remove_control(control: Path) -> None:
    """Remove a session's control socket and its directory, if they are there."""
    with suppress(OSError):
        control.unlink(missing_ok=True)
    with suppress(OSError):
        control.parent.rmdir()


def sweep_controls(state_dir: Path, used: Iterable[Path]) -> None:
    """Remove what ended sessions left: every directory that no session uses."""
    home, keep = state_dir / "ssh", {path.parent.name for path in used}
    with suppress(OSError):
        for entry in list(os.scandir(home)):
            if entry.name not in keep and stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode):
                remove_control(home / entry.name / "c")


# ---- Where a session runs, as a caller names it: `user@box:port`. Pure -----------------------------------------------

THIS_MACHINE = ("", "local")
"""What names this machine."""

LONGEST_DESTINATION = 320
"""Characters: a user of 64, a name of 255."""

_USER_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*\Z")
_HOST_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*\Z")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]*\Z")
_URL_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+-]*):(?![-\d]*\Z)")

DESTINATION_HINT = "Write user@box, user@box:port or user@[IPv6]:port; all else stands in ~/.ssh/config."


@value
class Destination:
    """A far machine, and who one is there."""

    host: str
    """A name of the person's configuration, a name of the network or an address; never begins with `-`."""
    user: str = ""
    """Empty: as the person's configuration says."""
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and self.port else self.host
        return (f"{self.user}@" if self.user else "") + host + (f":{self.port}" if self.port else "")

    @property
    def ssh_words(self) -> list[str]:
        """The words of ssh that name it, and that come last before a command."""
        port = ["-p", str(self.port)] if self.port else []
        return [*port, "--", f"{self.user}@{self.host}" if self.user else self.host]


def parse(text: str) -> Destination:
    """What a caller means by a host that is not this machine.

    Raises:
        Unsupported: another kind of host than one behind ssh.
        InvalidArgument: no host can be called so.
    """
    user, at, rest = text.rpartition("@")
    kind = _URL_SCHEME.match(text)
    if kind and "::" not in text:
        raise Unsupported(
            f"Sessions cannot be made on hosts of the kind {kind[1]!r}: only behind ssh.",
            hint="Write user@box[:port], or make a local session whose program leads there.",
            host=text,
        )
    if len(text) > LONGEST_DESTINATION or (at and not _USER_NAME.match(user)):
        raise _wrong(text)
    host, port = _split(rest)
    named = _is_ipv6(host) if ":" in host else _HOST_NAME.match(host)
    if not named or (port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536)):
        raise _wrong(text)
    return Destination(host, user, int(port) if port else None)


def matches_any(destination: Destination, patterns: Iterable[str]) -> bool:
    """Whether one of some patterns names a destination: `box`, `*@box`, `me@*.example.org:*`.

    User, host and port are compared each with its own part, so that `dev*` is no user at another host. What a pattern
    leaves out has to be left out: the person's configuration says it.
    """
    return any(_matches(destination, pattern) for pattern in patterns)


def _matches(destination: Destination, pattern: str) -> bool:
    user, _, rest = pattern.rpartition("@")
    host, port = _split(rest)
    given = (destination.user, destination.host, str(destination.port or ""))
    return all(_is_like(*each) for each in zip(given, (user, host, port), strict=True))


def _is_like(text: str, pattern: str) -> bool:
    """Whether `*` (any characters) and `?` (one) make a text of a pattern; what is empty is like nothing else."""
    if not text or not pattern:
        return text == pattern
    parts = (".*" if each == "*" else "." if each == "?" else re.escape(each) for each in pattern)
    return re.fullmatch("".join(parts), text) is not None


def _split(rest: str) -> tuple[str, str]:
    """Host and port, which may be empty; an address in brackets loses them."""
    if bracketed := re.fullmatch(r"\[([^\[\]]*:[^\[\]]*)\](?::([0-9]{1,5}))?", rest):
        return bracketed[1], bracketed[2] or ""
    if rest.count(":") > 1:
        return rest, ""
    host, colon, port = rest.partition(":")
    return host, port or ("none" if colon else "")


def _is_ipv6(text: str) -> bool:
    return text.count(":") > 1 and bool(_IPV6.match(text))


def _wrong(text: str) -> InvalidArgument:
    return InvalidArgument(f"{text[:LONGEST_DESTINATION]!r} cannot be a host.", hint=DESTINATION_HINT)
