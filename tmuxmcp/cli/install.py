"""`tmuxmcp install`: puts this server into a client's configuration, or takes it out again.

The file as it was is kept beside it; the new one takes its place at once, whole, with the same permissions.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import stat
import sys
from datetime import datetime
from pathlib import Path

from tmuxmcp.cli import output
from tmuxmcp.cli.arguments import parse
from tmuxmcp.cli.service import effective
from tmuxmcp.clients import CLIENTS, Client, Entry, edited
from tmuxmcp.errors import IoError
from tmuxmcp.host.atomically import write_atomically

NOT_INSTALLED = ("/archive-v0/", "/builds-v0/")
"""Parts of a path in uv's cache, where `uvx` runs programs from: nothing there lasts."""


def install(options: argparse.Namespace) -> int:
    """`tmuxmcp install`."""
    client, cwd = CLIENTS[options.client], Path.cwd()
    scope = options.scope or next(iter(client.files))
    path = client.path(scope, Path.home(), cwd, os.environ)
    entry = None if options.remove else _entry(client, options)
    before = _text_of(path)
    after = edited(before, path, client.keys(scope, cwd), options.name, entry)
    changed = _means(before, path) != _means(after, path)
    backup = None
    if changed and not options.dry_run:
        backup = _back_up(path)
        _replace(path, after)
    if options.json:
        told = {"client": options.client, "scope": scope, "path": str(path), "name": options.name, "entry": entry}
        output.write_json(told | {"changed": changed, "dry_run": options.dry_run, "backup": backup and str(backup)})
    elif options.dry_run:
        output.write(_difference(before, after if changed else before, path))
    else:
        _tell(client, path, changed, backup, options.remove)
        if not options.remove:
            output.write(f"  It holds {_where(scope, cwd)}.\n")
    return 0


def _where(scope: str, cwd: Path) -> str:
    """Where a configuration holds, for people."""
    match scope:
        case "user":
            return "for you, in every directory"
        case "local":
            return f"for you, in {cwd} alone"
        case _:
            return f"for everybody, in {cwd} alone"


def own_command() -> list[str]:
    """How a client starts us: absolute, because programs started from a desktop have a short PATH."""
    script = Path(sys.executable).with_name("tmuxmcp")
    uvx = shutil.which("uvx")
    if uvx and any(part in sys.executable for part in NOT_INSTALLED):
        return [os.path.abspath(uvx), "tmuxmcp"]
    return [str(script)] if script.exists() else [sys.executable, "-m", "tmuxmcp"]


def _entry(client: Client, options: argparse.Namespace) -> Entry:
    words: list[str] = options.words[options.words[:1] == ["--"] :]
    # Checked here: a client shows its user little of a server that does not start.
    settings, _ = effective(parse(["serve", *words]))
    return client.entry([*own_command(), "serve", *_serve_words(client, words)], settings.max_wait_ms)


def _serve_words(client: Client, words: list[str]) -> list[str]:
    if client.results == "both" or any(word.startswith("--results") for word in words):
        return words
    return ["--results", client.results, *words]


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise IoError(f"{path} cannot be read: {error}.") from None


def _means(text: str, path: Path) -> object:
    """What a configuration says, whatever its form."""
    import json
    import tomllib

    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text or "{}")


def _back_up(path: Path) -> Path | None:
    if not path.exists():
        return None
    copy = path.with_name(f"{path.name}.{datetime.now():%Y%m%d-%H%M%S}.bak")
    try:
        shutil.copy2(path, copy)
    except OSError as error:
        raise IoError(f"{path} cannot be copied to {copy}: {error.strerror}.", hint="Nothing was changed.") from error
    return copy


def _replace(path: Path, text: str) -> None:
    target = Path(os.path.realpath(path))  # a link to where somebody keeps their files stays one
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        write_atomically(target, text, mode=mode, to_disk=True)
    except OSError as error:
        raise IoError(f"{path} cannot be written: {error.strerror}.") from error


def _difference(before: str, after: str, path: Path) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _tell(client: Client, path: Path, changed: bool, backup: Path | None, removed: bool) -> None:
    if not changed:
        output.write(f"{client.title}: {path} is as it should be.\n")
        return
    output.write(f"{client.title}: {'removed from' if removed else 'added to'} {path}\n")
    if backup:
        output.write(f"  as it was: {backup}\n")
    output.write("  Restart the client to see it.\n")
