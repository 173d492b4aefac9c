"""Where a session runs, as a caller names it: `user@box:port`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tmuxmcp.contract.errors import InvalidArgument, Unsupported
from tmuxmcp.contract.latedataclass import dataclass

THIS_MACHINE = ("", "local")
"""What names this machine."""

LONGEST_DESTINATION = 320
"""Characters: a user of 64, a name of 255."""

_USER_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*\Z")
_HOST_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*\Z")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]*\Z")
_URL_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+-]*):(?![-\d]*\Z)")

DESTINATION_HINT = "Write user@box, user@box:port or user@[IPv6]:port; all else stands in ~/.ssh/config."


@dataclass(frozen=True)
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
