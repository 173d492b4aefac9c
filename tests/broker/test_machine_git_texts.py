"""Text that a shell or git would run, as a revision and as a file's name, in a repository where it means something."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_injection import CANARY, corpus
from tests.kit.repositories import git, made
from tmuxmcp.broker.programs import gitwork
from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.operations import OPERATIONS


class Looks:
    """Looks at a repository as the process does that is made for each; none may run what a text says."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.top, self.number = directory, made(directory / "top"), 0

    def __call__(self, name: str, path: str, ref: str = "") -> dict[str, Any]:
        """What is answered; the code of an error as `error`."""
        place = self.directory / f"place{self.number}"
        place.mkdir()
        self.number += 1
        arguments = {"path": path} | ({"ref": ref} if ref else {})
        try:
            asked = vars(OPERATIONS[name].parse(arguments)) | {"work": name.removeprefix("git_"), "root": ""}
            usual = {"ref": "", "limit": 5, "max_bytes": 100_000, "PATH": os.environ["PATH"]}
            return gitwork._run(usual | asked, str(place))
        except TmuxMcpError as error:
            return {"error": error.code}
        finally:
            left = [each for each in (self.directory, self.top, place) if (each / CANARY).exists()]
            assert not left, (name, path, ref)


@pytest.fixture
def looks(tmp_path: Path) -> Looks:
    return Looks(tmp_path)


def test_no_text_of_a_revision_is_run(looks: Looks) -> None:
    for text in corpus(looks.directory / CANARY):
        for name in ("git_log", "git_diff"):
            told = looks(name, str(looks.top), text)
            assert told.get("error") in ("INVALID_ARGUMENT", "IO_ERROR") or text in ("", ".."), (name, text)
    assert git(looks.top, "status", "--porcelain") == ""


def test_no_text_of_a_name_is_run(looks: Looks) -> None:
    """Each of a file that has changed; a name holds no slash, so what would be run makes its file where git works."""
    names = [text for text in corpus(Path(CANARY)) if text.strip(".") and "/" not in text and len(text) < 200]
    for text in names:
        (looks.top / text).write_text("one\n")
    git(looks.top, "add", ".")
    git(looks.top, "commit", "-q", "-m", "Add")
    for text in names:
        (looks.top / text).write_text("one\ntwo\n")
    for text in names:
        path = str(looks.top / text)
        status, log, diff = (looks(f"git_{each}", path) for each in ("status", "log", "diff"))
        assert [(each["path"], each["unstaged"]) for each in status["files"]] == [(text, "modified")]
        assert [each["subject"] for each in log["commits"]] == ["Add"], text
        assert diff["text"].endswith("+two\n"), text
        assert diff["text"].count("diff --git") == 1, text
