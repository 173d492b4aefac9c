"""The file of brokers: which machines a fleet has, and what an operator said of them.

    [[brokers]]
    name = "n1"
    url = "https://n1.example:8443"
    token_file = "n1.token"
    person_token_file = "n1.person"
    labels = { region = "eu" }
    ssh = "me@n1.example"

What an operator says of a machine (`tmuxmcp fleet drain`, `forget`) is added at its end as `[[marks]]`; of one machine
the last mark counts. Nothing else of the file is ever changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from tmuxmcp.contract.errors import InvalidArgument, IoError, PermissionDenied
from tmuxmcp.contract.value import field, value
from tmuxmcp.machine import ownfiles
from tmuxmcp.nodes.ids import check_node
from tmuxmcp.nodes.transport import Tombstone

Said = Literal["open", "drained", "forgotten"]

MAX_FILE = 1 << 20
MOST_MACHINES = 1000

MACHINE_KEYS = {"name", "url", "token_file", "person_token_file", "labels", "ssh"}


@value
class MachineEntry:
    """A machine as the file has it."""

    name: str
    url: str
    """Of its broker's HTTP service."""
    token_file: Path | None = None
    """Of the token that is sent there; None: none is."""
    labels: Mapping[str, str] = field(default_factory=dict)
    ssh: str = ""
    """Where a person's ssh finds it; empty: nobody said."""
    person_token_file: Path | None = None
    """Of the token for what a person does whom the gateway's page has let in; None: nobody is let in there."""


@value
class OperatorMark:
    """What an operator said of a machine."""

    said: Said
    tombstone: Tombstone
    """Of which machine, and when."""


@value
class FleetContents:
    """What a file says."""

    entries: Mapping[str, MachineEntry]
    marks: Mapping[str, OperatorMark]
    """The last of each machine."""


class FleetFile:
    """The file, read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path.expanduser()))
        self._seen: tuple[int, int, int] | None = None
        self._contents = FleetContents({}, {})

    def read(self) -> FleetContents:
        """What it says now.

        Raises:
            IoError: it cannot be read.
            PermissionDenied: others can write to it.
            InvalidArgument: it is not understood.
        """
        try:
            with ownfiles.closing(ownfiles.open_file(self.path, links=True)) as fd:
                state = os.fstat(fd)
                seen = (state.st_ino, state.st_size, state.st_mtime_ns)
                if seen != self._seen:
                    _check_owner(self.path, state)
                    self._contents = parse(ownfiles.read_part(fd, MAX_FILE + 1), self.path)
                    self._seen = seen
        except OSError as error:
            raise ownfiles.not_read(error, "The file of brokers", self.path) from error
        return self._contents

    def mark(self, node: str, said: Said, machine_id: str = "") -> OperatorMark:
        """Add what an operator says of a machine; it is on the disk when this returns.

        Raises:
            InvalidArgument: the file has no such machine, or is not understood.
            IoError: it cannot be written.
        """
        at = datetime.now(UTC).isoformat(timespec="seconds")
        lines = ["", "[[marks]]", f'node = "{node}"', f'is = "{said}"', f'machine_id = "{machine_id}"', f'at = "{at}"']
        try:
            with ownfiles.closing(ownfiles.open_file(self.path, os.O_RDWR | os.O_APPEND, links=True)) as fd:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if node not in self.read().entries:
                    known = ", ".join(self._contents.entries)
                    raise InvalidArgument(f"{self.path} has no machine {node!r}.", hint=f"Machines are: {known}.")
                size = os.fstat(fd).st_size
                ends = not size or os.pread(fd, 1, size - 1) == b"\n"
                os.write(fd, ("" if ends else "\n").encode() + "\n".join([*lines, ""]).encode())
                os.fsync(fd)
        except OSError as error:
            raise IoError(f"The file of brokers {self.path} cannot be written: {error.strerror}.") from error
        return OperatorMark(said, Tombstone(node, machine_id, at))


def parse(data: bytes, path: Path) -> FleetContents:
    """What the text of a file says; other files are named relative to it.

    Raises:
        InvalidArgument: it is not understood.
    """
    if len(data) > MAX_FILE:
        raise InvalidArgument(f"{path} has more than {MAX_FILE:,} bytes.", hint="Make it shorter.")
    values = ownfiles.toml_values(data, str(path))
    if unknown := sorted(values.keys() - {"brokers", "marks"}):
        raise InvalidArgument(f"{path}: there is no {unknown[0]!r}.", hint="It has [[brokers]], and [[marks]] of ours.")
    entries: dict[str, MachineEntry] = {}
    for number, table in enumerate(_tables(values, "brokers", path), 1):
        entry = _entry(table, f"{path}, broker {number}", path.parent)
        if entry.name in entries:
            raise InvalidArgument(f"{path}: two brokers are called {entry.name!r}.", hint="Give each its own name.")
        entries[entry.name] = entry
    if len(entries) > MOST_MACHINES:
        raise InvalidArgument(f"{path} has {len(entries)} brokers; {MOST_MACHINES} are the most.")
    marks = {mark.tombstone.node: mark for mark in (_mark(each, path) for each in _tables(values, "marks", path))}
    return FleetContents(dict(sorted(entries.items())), marks)


def _tables(values: Mapping[str, Any], name: str, path: Path) -> list[dict[str, Any]]:
    tables = values.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise InvalidArgument(f"{path}: {name} is a list of tables.", hint=f"Begin each with [[{name}]].")
    return tables


def _entry(table: Mapping[str, Any], where: str, directory: Path) -> MachineEntry:
    hint = "A broker has name, url, and as you like token_file, person_token_file, labels and ssh."
    if unknown := sorted(table.keys() - MACHINE_KEYS):
        raise InvalidArgument(f"{where}: there is no {unknown[0]!r}.", hint=hint)
    labels = table.get("labels", {})
    texts = [table.get(name, "") for name in ("name", "url", "token_file", "person_token_file", "ssh")]
    if not isinstance(labels, dict) or not all(isinstance(each, str) for each in (*texts, *labels.values())):
        raise InvalidArgument(f"{where}: names, labels and files are texts in quotes.", hint=hint)
    name, url, *token_files, ssh = texts
    if not url.startswith(("http://", "https://")):
        raise InvalidArgument(f"{where}: {url[:200]!r} is no URL of HTTP.", hint="Such as http://127.0.0.1:8000.")
    if ssh.startswith("-"):
        raise InvalidArgument(f"{where}: {ssh[:200]!r} is no host for ssh.", hint="Such as me@n1.example.")
    token, person = (directory / os.path.expanduser(each) if each else None for each in token_files)
    return MachineEntry(check_node(name), url.rstrip("/"), token, labels, ssh, person)


def _mark(table: Mapping[str, Any], path: Path) -> OperatorMark:
    node = table.get("node")
    said: Said | None = next((each for each in get_args(Said) if each == table.get("is")), None)
    if said is None or not isinstance(node, str):
        raise InvalidArgument(f"{path}: a mark is not understood.", hint="Marks are written by `tmuxmcp fleet`.")
    return OperatorMark(said, Tombstone(check_node(node), str(table.get("machine_id", "")), str(table.get("at", ""))))


def _check_owner(path: Path, state: os.stat_result) -> None:
    """Who can write the file says where commands are sent, and with which tokens.

    Raises:
        PermissionDenied: somebody else than the user and root can.
    """
    if state.st_uid not in (os.geteuid(), 0) or state.st_mode & stat.S_IWOTH:
        raise PermissionDenied(f"Others can write to the file of brokers {path}.", hint=f"chmod go-w {path}")


# ---- The fleet's secret ----------------------------------------------------------------------------------------------
#
# A file that all its machines have. Doors want it with each call, Ray with each connection.
#
# Over HTTP it does not travel itself: what a gateway sends is good together with that machine's token alone.

MIN_SECRET_CHARS = 32
"""Characters of a secret."""


def read(file: Path) -> str:
    """The secret.

    Raises:
        IoError: there is no such file, or it cannot be read.
        PermissionDenied: others than its owner may read it.
        InvalidArgument: it is no regular file, not UTF-8, or too short.
    """
    try:
        found = ownfiles.read_written(file, "The fleet's secret", partial(_check_secret_owner, file)).strip()
    except FileNotFoundError:
        hint = "`tmuxmcp fleet up` makes it on the first machine; copy it to the others, mode 600."
        raise IoError(f"There is no secret of the fleet in {file}.", hint=hint) from None
    if len(found) < MIN_SECRET_CHARS:
        raise InvalidArgument(
            f"The secret in {file} has fewer than {MIN_SECRET_CHARS} characters.", hint="Remove the file."
        )
    return found


def _check_secret_owner(file: Path, state: os.stat_result) -> None:
    if state.st_mode & 0o077 or state.st_uid not in (os.getuid(), 0):
        raise PermissionDenied(f"Others may read or own {file}.", hint=f"chmod 600 {file}")


def read_secret(file: Path) -> str:
    """The secret; empty where there is no such file.

    Raises:
        IoError, PermissionDenied, InvalidArgument: as `read`.
    """
    return read(file) if file.exists() else ""


def proof(secret: str, token: str) -> str:
    """What shows that somebody who sends a token knows the secret, too."""
    return hmac.new(secret.encode(), b"tmuxmcp fleet 1\n" + token.encode(), hashlib.sha256).hexdigest()


def proves(said: str, secret: str, token: str) -> bool:
    """Whether this shows it."""
    return hmac.compare_digest(said.encode(), proof(secret, token).encode())


def make(file: Path) -> str:
    """The secret, made where there is none yet.

    Raises:
        IoError, PermissionDenied, InvalidArgument: as `read`.
    """
    ownfiles.make_directory(file.parent, links=True)
    ownfiles.write_once(file, secrets.token_hex(32) + "\n")
    return read(file)


def environment(variables: Mapping[str, str], file: os.PathLike[str]) -> dict[str, str]:
    """Variables with which Ray asks for the fleet's secret and shows it, unless they say how Ray authenticates."""
    if any(name.startswith("RAY_AUTH_") for name in variables):
        return dict(variables)
    return {**variables, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": os.fspath(file)}
