"""git through a real client: what is told of a repository; a hostile one has nothing run and stays as it is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.kit.agent import Agent, an_agent, refused
from tests.kit.fixtures import of_file
from tests.kit.repositories import ENV, digest, git, made

RUN_BY_CONFIGURATION = [
    "core.fsmonitor",
    "core.editor",
    "core.pager",
    "core.askPass",
    "core.sshCommand",
    "core.gitProxy",
    "core.alternateRefsCommand",
    "sequence.editor",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "difftool.evil.cmd",
    "merge.evil.driver",
    "mergetool.evil.cmd",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "gpg.program",
    "gpg.ssh.program",
    "gpg.ssh.defaultKeyCommand",
    "gpg.x509.program",
    "credential.helper",
    "pager.log",
    "pager.diff",
    "pager.status",
    "interactive.diffFilter",
    "uploadpack.packObjectsHook",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "trailer.sign.command",
    "trailer.sign.cmd",
    "tar.tgz.command",
    "browser.evil.cmd",
    "man.evil.cmd",
    "guitool.evil.cmd",
    "hook.evil.command",
]
"""What git-config(1) says is a program, of all versions to date."""

HOOKS = ("post-index-change", "fsmonitor-watchman", "reference-transaction", "query-watchman", "pre-auto-gc")


agent = of_file(an_agent, "--tools", "git")


def test_status_log_and_diff(agent: Agent, tmp_path: Path):
    top = made(tmp_path / "repository")
    (top / "kept").write_text("one\nzwei \N{LATIN SMALL LETTER U WITH DIAERESIS}\n")
    git(top, "mv", "moved", "new name")
    (top / "unknown").write_text("")
    status = agent.call("git_status", path=str(top))
    nothing = {"staged": None, "unstaged": None, "original_path": None}
    assert status["files"] == [
        nothing | {"path": "kept", "unstaged": "modified"},
        nothing | {"path": "new name", "staged": "renamed", "original_path": "moved"},
        nothing | {"path": "unknown", "unstaged": "untracked"},
    ]
    head = git(top, "rev-parse", "HEAD").strip()
    facts = (status["root"], status["branch"], status["commit"], status["truncated"], status["note"])
    assert facts == (str(top), "main", head, False, None)
    text = agent.call("git_diff", path=str(top))["text"]
    assert text == git(top, "diff", "HEAD")
    assert agent.call("git_diff", path=str(top), ref="HEAD~1..HEAD")["text"] == git(top, "diff", "HEAD~1", "HEAD")
    only = agent.call("git_diff", path=str(top / "new name"))["text"]
    assert "new name" in only
    assert "kept" not in only
    short = agent.call("git_diff", path=str(top), max_bytes=20)
    assert (short["truncated"], short["text"]) == (True, text[:20])
    newest, first = agent.call("git_log", path=str(top))["commits"]
    assert (newest["commit"], newest["parents"], newest["subject"], newest["body"]) == (
        head, [first["commit"]], "Add two", "Because.\n",
    )  # fmt: skip
    assert (first["author"], first["email"]) == ("A. Person", "a@example.org")
    assert [each["subject"] for each in agent.call("git_log", path=str(top), limit=1, ref="main")["commits"]] == [
        "Add two"
    ]
    git(top, "checkout", "-q", "--detach")
    assert agent.call("git_status", path=str(top))["branch"] is None


def test_other_forms_of_repositories(agent: Agent, tmp_path: Path):
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q", "--object-format=sha256")
    assert agent.call("git_log", path=str(empty))["commits"] == []
    (empty / "a").write_text("x\n")
    git(empty, "add", "a")
    assert agent.call("git_status", path=str(empty))["files"][0]["staged"] == "added"
    assert "+x" in agent.call("git_diff", path=str(empty))["text"]
    top = made(tmp_path / "top")
    git(top, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    (tmp_path / "tree" / "kept").write_text("")
    status = agent.call("git_status", path=str(tmp_path / "tree"))
    assert (status["branch"], [each["path"] for each in status["files"]]) == ("other", ["kept"])
    git(tmp_path, "clone", "-q", "--bare", str(top), "bare")
    assert len(agent.call("git_log", path=str(tmp_path / "bare"))["commits"]) == 2
    refused("INVALID_ARGUMENT", agent.call, "git_status", path=str(tmp_path / "bare"))


def test_mistakes_say_what_to_do(agent: Agent, tmp_path: Path):
    top = made(tmp_path / "top")
    refused("FILE_NOT_FOUND", agent.call, "git_status", path=str(tmp_path / "nowhere"))
    assert "git init" in str(refused("INVALID_ARGUMENT", agent.call, "git_status", path=str(tmp_path)))
    assert "branch" in str(refused("INVALID_ARGUMENT", agent.call, "git_log", path=str(top), ref="no-such"))
    for ref in ("--output=x", "-p", "a\nb", " x"):
        refused("INVALID_ARGUMENT", agent.call, "git_diff", path=str(top), ref=ref)
    os.mkfifo(top / ".git" / "commondir")
    assert agent.call("git_status", path=str(top))["files"] == []
    (top / ".git" / "HEAD").unlink()
    os.mkfifo(top / ".git" / "HEAD")
    refused("INVALID_ARGUMENT", agent.call, "git_status", path=str(top))


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Path, Path]:
    """A repository that names every program that it can, and the file that each of them makes."""
    top, canary, evil = made(tmp_path / "hostile"), tmp_path / "canary", tmp_path / "evil"
    evil.write_text(f'#!/bin/sh\necho "$0 $*" >>{canary}\ncat 2>/dev/null\n')
    evil.chmod(0o755)
    inner = made(tmp_path / "inner")
    git(top, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    (top / ".gitattributes").write_text("* filter=evil diff=evil merge=evil text\n")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "Attributes")
    (top / ".git" / "info" / "attributes").write_text("kept filter=evil diff=evil\n")
    for where in (top / ".git", top / ".git" / "modules" / "sub"):
        for hook in HOOKS:
            (where / "hooks" / hook).write_text(evil.read_text())
            (where / "hooks" / hook).chmod(0o755)
        for name in RUN_BY_CONFIGURATION:
            subprocess.run(["git", "config", "--file", str(where / "config"), name, str(evil)], check=True)
        more = {
            "filter.evil.required": "true", "log.showSignature": "true", "submodule.recurse": "true",
            "diff.submodule": "diff", "status.submoduleSummary": "true", "alias.status": f"!{evil}",
            "submodule.sub.update": f"!{evil}", "remote.origin.promisor": "true", "extensions.partialClone": "origin",
            "core.repositoryFormatVersion": "1", "remote.origin.url": f"ext::{evil}", "core.hooksPath": "hooks",
            "include.path": str(tmp_path / "included"), "core.untrackedCache": "true", "core.worktree": str(top),
        }  # fmt: skip
        more["core.worktree"] = str(top if where.name == ".git" else top / "sub")
        for name, value in more.items():
            subprocess.run(["git", "config", "--file", str(where / "config"), name, value], check=True)
    (tmp_path / "included").write_text(f"[core]\nfsmonitor = {evil}\n")
    (top / "kept").write_text("other\n")
    os.utime(top / "moved")  # git wants to read it again, and to write that into the index
    (top / "sub" / "kept").write_text("other\n")
    return top, canary


def test_a_hostile_repository_has_nothing_run_and_stays_as_it_is(agent: Agent, hostile: tuple[Path, Path]):
    top, canary = hostile
    before = digest(top)
    status = agent.call("git_status", path=str(top))
    assert [each["path"] for each in status["files"]] == ["kept"]
    assert "not run" in status["note"]
    diff = agent.call("git_diff", path=str(top))
    assert "+other" in diff["text"]
    assert "not run" in diff["note"]
    assert agent.call("git_diff", path=str(top), ref="HEAD~1")["text"]
    assert len(agent.call("git_log", path=str(top), ref="HEAD")["commits"]) == 3
    assert agent.call("git_status", path=str(top / "sub"))["files"][0]["path"] == "kept"
    objects = top / ".git" / "objects"
    blob = git(top, "--no-optional-locks", "-c", "core.fsmonitor=false", "rev-parse", "HEAD:kept").strip()
    canary.unlink(missing_ok=True)  # of this git, which is as everybody's
    assert digest(top) == before
    (objects / blob[:2] / blob[2:]).unlink()
    refused("IO_ERROR", agent.call, "git_diff", path=str(top))  # it is not fetched
    assert not canary.exists(), canary.read_text()
    # That the traps work at all.
    subprocess.run(["git", "-C", str(top), "status"], env=ENV, check=False, capture_output=True)
    assert canary.exists()


def test_files_root_holds_for_all_of_a_repository(tmp_path: Path):
    root = tmp_path / "root"
    top, elsewhere = made(root / "top"), made(tmp_path / "elsewhere")
    (root / "named").mkdir()
    (root / "named" / ".git").write_text(f"gitdir: {elsewhere}/.git\n")
    (root / "linked").symlink_to(elsewhere)
    git(root, "clone", "-q", "--shared", str(elsewhere), "shared")
    with an_agent("--tools", "git", "--files-root", str(root)) as agent:
        assert agent.call("git_status", path="top")["root"] == str(top)
        for path in ("named", "linked", "shared", str(elsewhere), ".."):
            refused("PATH_OUTSIDE_ROOT", agent.call, "git_log", path=path)


def test_without_git_it_says_what_to_install(tmp_path: Path):
    top = made(tmp_path / "top")
    with an_agent("--tools", "git", "--env", f"PATH={tmp_path}") as agent:
        assert "apt install git" in str(refused("PROGRAM_NOT_FOUND", agent.call, "git_status", path=str(top)))
