"""Files of ours and of the person's, when something else is in their place: an error that names it, at once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tmuxmcp.config import read_file
from tmuxmcp.contract.errors import InvalidArgument, IoError
from tmuxmcp.faces.tokens import load_tokens
from tmuxmcp.machine.ownfiles import open_file, read_bytes
from tmuxmcp.nodes import fleetfile
from tmuxmcp.nodes.fleetfile import FleetFile


def put_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made, tempfile.TemporaryDirectory() as short:
        made.bind(f"{short}/s")  # its path must be short
        os.rename(f"{short}/s", path)


def written(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": lambda path: os.mkfifo(path, 0o600),
    "socket": put_socket,
    "directory": lambda path: path.mkdir(),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
}
NO_TEXTS: dict[str, Callable[[Path], object]] = {
    "no UTF-8": written(b"rows = 30 # caf\xe9\n"),
    "too large": written(b"# much\n" * 160_000),
}
NO_TOML: dict[str, Callable[[Path], object]] = {
    "deep lists": written(b"rows = " + b"[" * 50_000),
    "deep tables": written(b"rows = " + b"{a=" * 50_000),
    "deep names": written(b"a." * 100_000 + b"a = 1\n"),
    "many deep names": written((b"a." * 500 + b"a = 1\n") * 1000),
    "deep names in quotes": written(b"'a=' . " * 100_000 + b"a = 1\n"),
    "deep headers": written(b"[" + b"a." * 400_000 + b"a]\n"),
    "deep names within": written(b"rows = {" + b"a." * 400_000 + b"a = 1}\n"),
    "a long number": written(b"rows = " + b"9" * 5000 + b"\n"),
}

READERS: dict[str, Callable[[Path], object]] = {
    "settings": read_file,
    "brokers": lambda path: FleetFile(path).read(),
    "tokens": lambda path: load_tokens(path, None),
    "secret": fleetfile.read,
}


@pytest.mark.parametrize(
    ("reader", "kind"),
    [(reader, kind) for reader in READERS for kind in (*NO_FILES, *NO_TEXTS)]
    + [(reader, kind) for reader in ("settings", "brokers") for kind in NO_TOML],
)
def test_what_is_no_such_file_is_named_and_not_waited_for(tmp_path: Path, reader: str, kind: str):
    path = tmp_path / "f"
    (NO_FILES | NO_TEXTS | NO_TOML)[kind](path)
    if not path.is_symlink():
        path.chmod(0o600)
    with pytest.raises(IoError if kind == "directory" else InvalidArgument) as failed:
        READERS[reader](path)
    assert str(path) in failed.value.message
    assert failed.value.hint or kind == "directory"


@pytest.mark.parametrize("kind", [*NO_FILES, *NO_TEXTS, *NO_TOML])
def test_every_command_says_so_of_the_settings(tmp_path: Path, kind: str):
    path = tmp_path / ".config" / "tmuxmcp" / "config.toml"
    path.parent.mkdir(parents=True)
    (NO_FILES | NO_TEXTS | NO_TOML)[kind](path)
    done = subprocess.run(
        [sys.executable, "-m", "tmuxmcp", "config"],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=20 * SLOW,
    )
    assert done.stderr.startswith(f"tmuxmcp: {'IO_ERROR' if kind == 'directory' else 'INVALID_ARGUMENT'}: ")
    assert str(path) in done.stderr


def test_a_person_may_put_a_link_to_the_settings(tmp_path: Path):
    (tmp_path / "dotfiles").write_text("rows = 31\n")
    (tmp_path / "f").symlink_to(tmp_path / "dotfiles")
    assert read_file(tmp_path / "f") == {"rows": 31}
    assert read_file(Path("/dev/null")) == {}


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_CREAT | os.O_APPEND])
def test_nothing_but_a_regular_file_is_opened(tmp_path: Path, flags: int):
    outside = tmp_path / "outside"
    outside.write_text("x")
    kinds = {
        **NO_FILES,
        "link": lambda path: path.symlink_to(outside),
        "dangling link": lambda path: path.symlink_to(tmp_path / "nothing"),
    }
    for kind, make in kinds.items():
        path = tmp_path / kind.replace(" ", "-")
        make(path)
        with pytest.raises(OSError) as failed:  # noqa: PT011 - of which number is the system's business
            open_file(path, flags)
        assert failed.value.filename == str(path)
    assert not (tmp_path / "nothing").exists()
    os.close(open_file(outside, flags))
    with pytest.raises(OSError, match="more than 0 bytes"):
        read_bytes(outside, 0)
