"""Repositories of git."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

WHO = {"GIT_AUTHOR_NAME": "A. Person", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "C"}

ENV = os.environ | WHO | {"GIT_COMMITTER_EMAIL": "c@example.org", "GIT_CONFIG_GLOBAL": "/dev/null"}


def git(top: Path, *words: str) -> str:
    """git as a person runs it."""
    done = subprocess.run(["git", "-C", str(top), *words], env=ENV, check=True, capture_output=True, text=True)
    return done.stdout


def made(top: Path) -> Path:
    """A repository with two commits."""
    top.mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    (top / "kept").write_text("one\n")
    (top / "moved").write_text("a long enough text\nto be found again\n")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "Begin")
    (top / "kept").write_text("one\ntwo\n")
    git(top, "commit", "-q", "-a", "-m", "Add two\n\nBecause.")
    return top


def digest(directory: Path) -> str:
    """Of all names, contents, modes and times of modification below a directory."""
    found = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        facts = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found.update(repr((str(path), facts.st_mode, facts.st_mtime_ns, content)).encode())
    return found.hexdigest()
