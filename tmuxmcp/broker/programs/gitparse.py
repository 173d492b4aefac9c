"""What git prints for programs, as values. Pure."""

from __future__ import annotations

from typing import Any

STATES = {
    "M": "modified",
    "T": "type_changed",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "U": "unmerged",
}

COMMIT_FIELDS = ("commit", "parents", "author", "email", "date", "subject", "body")
COMMIT_FORMAT = "%H%x00%P%x00%an%x00%ae%x00%aI%x00%s%x00%b%x00"
"""The fields of a commit, each with a NUL behind it."""


def status(data: bytes) -> dict[str, Any]:
    """What `git status --porcelain=v2 --branch -z` says (git-status(1)); an entry that was cut off is left out."""
    words = iter(_words(data))
    head: dict[str, str] = {}
    files: list[dict[str, Any]] = []
    for word in words:
        match word[:2]:
            case "# ":
                name, _, value = word[2:].partition(" ")
                head[name] = value
            case "1 ":
                files.append(_file(word.split(" ", 8)))
            case "2 ":
                old = next(words, None)
                if old is not None:
                    files.append(_file(word.split(" ", 9)) | {"original_path": old})
            case "u ":
                path = word.split(" ", 10)[-1]
                files.append({"path": path, "staged": "unmerged", "unstaged": "unmerged", "original_path": None})
            case "? ":
                files.append({"path": word[2:], "staged": None, "unstaged": "untracked", "original_path": None})
    branch, commit = head.get("branch.head"), head.get("branch.oid")
    return {
        "branch": None if branch == "(detached)" else branch,
        "commit": None if commit == "(initial)" else commit,
        "files": files,
    }


def commits(data: bytes) -> list[dict[str, Any]]:
    """What `git log` prints in `COMMIT_FORMAT`; one that was cut off is left out."""
    words = _words(data)
    count = len(COMMIT_FIELDS)
    found = []
    for start in range(0, len(words) - count + 1, count):
        # A newline ends the commit before it.
        values = dict(zip(COMMIT_FIELDS, (words[start].lstrip("\n"), *words[start + 1 : start + count]), strict=True))
        found.append(values | {"parents": values["parents"].split()})
    return found


def _file(words: list[str]) -> dict[str, Any]:
    staged, unstaged = words[1][0], words[1][1]
    return {
        "path": words[-1],
        "staged": STATES.get(staged),
        "unstaged": STATES.get(unstaged),
        "original_path": None,
    }


def _words(data: bytes) -> list[str]:
    """Words that end with NUL; one that was cut off has none and is left out."""
    return [each.decode("utf-8", "surrogateescape") for each in data.split(b"\0")[:-1]]
