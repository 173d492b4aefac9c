"""git tools and `files_root`: no link in a repository leads them out of it, and nothing beneath it is refused."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.agent import Agent, ToolFailed, an_agent, refused
from tests.kit.repositories import git, made
from tmuxmcp.machine.sandbox import landlock

SECRET = "CANARY"
"""In all names and texts of what lies outside."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("root") / "root"
    place.mkdir()
    return place


@pytest.fixture(scope="module")
def agent(root: Path) -> Iterator[Agent]:
    with an_agent("--tools", "git", "--files-root", str(root)) as agent:
        yield agent


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of somebody else's: objects packed and loose, references packed and loose, a log, a submodule."""
    top: Path = tmp_path_factory.mktemp("outside") / "other"
    top.mkdir()
    git(top, "init", "-q", "-b", SECRET)
    (top / SECRET).write_text(f"{SECRET}\n")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", SECRET)
    git(top, "gc", "-q")
    git(top, "tag", "packed")
    git(top, "pack-refs", "--all")
    (top / "loose").write_text(f"{SECRET} loose\n")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", f"{SECRET} loose")
    git(top, "commit-graph", "write", "--reachable")
    for name in ("exclude", "attributes", "grafts", "sparse-checkout"):
        (top / ".git" / "info" / name).write_text(f"{SECRET}\n")
    return top


def led_out(inside: Path, outside: Path) -> None:
    """Put a link to something outside in the place of something inside."""
    if inside.is_dir() and not inside.is_symlink():
        shutil.rmtree(inside)
    inside.unlink(missing_ok=True)
    inside.parent.mkdir(parents=True, exist_ok=True)
    inside.symlink_to(outside)


def by_name(name: str) -> Callable[[Path, Path], None]:
    """What has this name in both git directories."""
    return lambda top, outside: led_out(top / ".git" / name, outside / ".git" / name)


def loose_directory(top: Path, outside: Path) -> None:
    commit = git(outside, "rev-parse", "HEAD").strip()
    led_out(top / ".git" / "objects" / commit[:2], outside / ".git" / "objects" / commit[:2])
    (top / ".git" / "refs" / "heads" / "x").write_text(commit + "\n")


def loose_object(top: Path, outside: Path) -> None:
    commit = git(outside, "rev-parse", "HEAD").strip()
    led_out(top / ".git" / "objects" / commit[:2] / commit[2:], outside / ".git" / "objects" / commit[:2] / commit[2:])


def packs(top: Path, outside: Path) -> None:
    led_out(top / ".git" / "objects" / "pack", outside / ".git" / "objects" / "pack")


def each_pack(top: Path, outside: Path) -> None:
    for pack in (outside / ".git" / "objects" / "pack").iterdir():
        led_out(top / ".git" / "objects" / "pack" / pack.name, pack)


def by_way_of_the_root(top: Path, outside: Path) -> None:
    beside = top.parent / f"{top.name}-pack"
    beside.mkdir()
    packs(top, outside)
    led_out(beside / "pack", outside / ".git" / "objects" / "pack")
    led_out(top / ".git" / "objects" / "pack", beside / "pack")


def relative(top: Path, outside: Path) -> None:
    pack = outside / ".git" / "objects" / "pack"
    led_out(top / ".git" / "objects" / "pack", Path(os.path.relpath(pack, top / ".git" / "objects")))


def alternates(line: str) -> Callable[[Path, Path], None]:
    def make(top: Path, outside: Path) -> None:
        objects = outside / ".git" / "objects"
        (top / ".git" / "objects" / "info" / "alternates").write_text(line.format(objects))

    return make


def linked_alternates(top: Path, outside: Path) -> None:
    (outside.parent / "names").write_text(f"{outside}/.git/objects\n")
    led_out(top / ".git" / "objects" / "info" / "alternates", outside.parent / "names")


def alternates_of_alternates(top: Path, outside: Path) -> None:
    beside = made(top.parent / f"{top.name}-beside")
    alternates(f"{beside}/.git/objects\n")(top, outside)
    alternates("{}\n")(beside, outside)


def one_reference(top: Path, outside: Path) -> None:
    led_out(top / ".git" / "refs" / "heads" / "main", outside / ".git" / "refs" / "heads" / SECRET)


def shared_index(top: Path, outside: Path) -> None:
    git(top, "update-index", "--split-index")
    shared = next((top / ".git").glob("sharedindex.*"))
    shutil.copy(shared, outside.parent / shared.name)
    led_out(shared, outside.parent / shared.name)


def made_outside(name: str) -> Callable[[Path, Path], None]:
    """A link to a file that git makes only now and then."""

    def make(top: Path, outside: Path) -> None:
        (outside.parent / SECRET).write_text(f"{SECRET}\n")
        led_out(top / ".git" / name, outside.parent / SECRET)

    return make


def common_directory(top: Path, outside: Path) -> None:
    (top / ".git" / "commondir").write_text(f"{outside}/.git\n")


def file_that_names_it(top: Path, outside: Path) -> None:
    shutil.rmtree(top / ".git")
    (top / ".git").write_text(f"gitdir: {outside}/.git\n")


def link_to_a_file_that_names_it(top: Path, outside: Path) -> None:
    shutil.move(top / ".git", top.parent / f"{top.name}.git")
    (outside.parent / "names").write_text(f"gitdir: {top.parent}/{top.name}.git\n")
    led_out(top / ".git", outside.parent / "names")


def submodules(top: Path, outside: Path) -> None:
    """What is outside plays a submodule."""
    git(top, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(outside), "sub")
    git(top, "commit", "-q", "-m", "Add sub")
    git(outside, "commit", "-q", "--allow-empty", "-m", SECRET)


def submodule_by_link(top: Path, outside: Path) -> None:
    submodules(top, outside)
    led_out(top / "sub" / ".git", outside / ".git")


def submodule_by_file(top: Path, outside: Path) -> None:
    submodules(top, outside)
    (top / "sub" / ".git").write_text(f"gitdir: {outside}/.git\n")


def submodule_with_references_outside(top: Path, outside: Path) -> None:
    submodules(top, outside)
    led_out(top / ".git" / "modules" / "sub" / "refs", outside / ".git" / "refs")


def submodule_in_modules(top: Path, outside: Path) -> None:
    submodules(top, outside)
    led_out(top / ".git" / "modules" / "sub", outside / ".git")


def names_of_submodules(top: Path, outside: Path) -> None:
    (outside / "modules").write_text(f'[submodule "{SECRET}"]\n\tignore = {SECRET}\n')
    led_out(top / ".gitmodules", outside / "modules")


LINKS: dict[str, Callable[[Path, Path], None]] = {
    **{name: by_name(name) for name in ("HEAD", "config", "index", "refs", "refs/heads", "logs", "logs/HEAD")},
    **{name: by_name(name) for name in ("objects", "objects/info", "objects/info/commit-graph", "packed-refs")},
    **{f"info/{name}": by_name(f"info/{name}") for name in ("exclude", "attributes", "grafts", "sparse-checkout")},
    "info": by_name("info"),
    "git directory": by_name(""),
    "one reference": one_reference,
    **{name: made_outside(name) for name in ("shallow", "ORIG_HEAD", "MERGE_HEAD", "FETCH_HEAD")},
    "objects/info/commit-graphs": made_outside("objects/info/commit-graphs"),
    "objects/info/packs": made_outside("objects/info/packs"),
    "objects/pack/multi-pack-index": made_outside("objects/pack/multi-pack-index"),
    "sharedindex": shared_index,
    "directory of loose objects": loose_directory,
    "loose object": loose_object,
    "objects/pack": packs,
    "each pack": each_pack,
    "objects/pack by another link": by_way_of_the_root,
    "objects/pack by a relative link": relative,
    "objects/info/alternates": linked_alternates,
    "alternates": alternates("{}\n"),
    "alternates behind a comment": alternates("# x\n\n{}"),
    "alternates in quotes": alternates('"{}"\n'),
    "alternates with a very long line": alternates("#" * 70000 + "\n{}\n"),
    "alternates of alternates": alternates_of_alternates,
    "commondir": common_directory,
    ".git is a file": file_that_names_it,
    ".git is a link to a file": link_to_a_file_that_names_it,
    "submodule by a link": submodule_by_link,
    "submodule by a file": submodule_by_file,
    "submodule whose references are outside": submodule_with_references_outside,
    "submodule in modules": submodule_in_modules,
    ".gitmodules": names_of_submodules,
}


@pytest.mark.parametrize("kind", LINKS)
def test_no_link_leads_out(agent: Agent, root: Path, outside: Path, kind: str):
    top = made(root / re.sub(r"\W", "-", kind))
    commit = git(outside, "rev-parse", "HEAD").strip()
    LINKS[kind](top, outside)
    calls = [("git_status", {}), ("git_diff", {})]
    if "module" not in kind:
        calls += [("git_log", {}), ("git_log", {"ref": commit}), ("git_diff", {"ref": commit})]
    for tool, arguments in calls:
        assert SECRET not in str(refused("PATH_OUTSIDE_ROOT", agent.call, tool, path=str(top), **arguments))


def test_what_lies_beneath_the_root_is_read_by_whatever_links(agent: Agent, root: Path):
    top, base = made(root / "whole" / "top"), made(root / "whole" / "base")
    git(base, "gc", "-q")
    git(top, "worktree", "add", "-q", "-b", "other", str(root / "whole" / "tree"))
    git(top, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(base), "sub")
    git(root / "whole", "clone", "-q", "--shared", str(base), "shared")
    git(root / "whole", "clone", "-q", "--shared", "shared", "shared-again")
    git(root / "whole", "clone", "-q", "--depth=1", f"file://{base}", "shallow")
    git(root / "whole", "clone", "-q", "--bare", str(base), "bare")
    linked = made(root / "whole" / "linked")
    shutil.move(linked / ".git" / "objects", root / "whole" / "objects")
    (linked / ".git" / "objects").symlink_to("../../objects")
    (linked / ".git" / "hooks").rename(linked / ".git" / "no hooks")
    (linked / ".git" / "hooks").symlink_to("/usr/share")  # of what is not read it does not matter
    (root / "whole" / "way").symlink_to(linked)
    alternate = base / ".git" / "objects" / "info" / "alternates"
    alternate.write_text(f"# nothing\n../../../linked/.git/objects\n\n{base}/.git/objects\n{root}/nowhere\n")
    counts = {"top": 2, "tree": 2, "shared": 2, "shared-again": 2, "shallow": 1, "bare": 2, "linked": 2, "way": 2}
    for name, count in (counts | {"top/sub": 2, "base": 2}).items():
        assert len(agent.call("git_log", path=f"whole/{name}")["commits"]) == count, name
    (top / "sub" / "new").write_text("")
    git(top / "sub", "add", "new")
    git(top / "sub", "commit", "-q", "-m", "Third")
    git(top, "commit", "-q", "-m", "Sub")
    changed = [("sub", "modified")]
    assert [(f["path"], f["unstaged"]) for f in agent.call("git_status", path="whole/top")["files"]] == changed
    assert "+Subproject commit" in agent.call("git_diff", path="whole/top")["text"]
    shutil.rmtree(top / "sub")  # one that was never cloned
    (top / "sub").mkdir()
    assert agent.call("git_status", path="whole/top")["files"] == []


@pytest.mark.skipif(not landlock.version(), reason="the kernel has no Landlock")
@pytest.mark.parametrize("kind", ["objects/pack", "packed-refs", "index", "config", "git directory"])
def test_a_link_that_is_made_meanwhile_leads_nowhere(tmp_path: Path, outside: Path, kind: str):
    """git is held each time that it starts, which is after all was looked at; then the link is made."""
    top = made(tmp_path / "root" / "top")
    held = tmp_path / "bin" / "held"
    held.parent.mkdir()
    os.mkfifo(held)
    program = held.with_name("git")
    program.write_text(f'#!/bin/sh\nread -r word <{held}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    commit = git(outside, "rev-parse", "packed").strip()
    over = False

    def let_go() -> None:
        while not over:
            fd = os.open(held, os.O_WRONLY)  # git has begun
            LINKS[kind](top, outside)
            with suppress(BrokenPipeError):  # that was the one before, which has gone on by now
                os.write(fd, b"go\n")
            os.close(fd)

    letting = threading.Thread(target=let_go)
    letting.start()
    path = f"PATH={held.parent}:{os.environ['PATH']}"
    with an_agent("--tools", "git", "--files-root", str(tmp_path / "root"), "--env", path) as agent:
        for tool, arguments in (("git_log", {"ref": commit}), ("git_diff", {"ref": commit}), ("git_status", {})):
            try:
                answer = str(agent.call(tool, path="top", **arguments))
            except ToolFailed as failed:
                answer = str(failed)
            assert SECRET not in answer
            shutil.rmtree(top)
            made(top)
    over = True
    os.close(os.open(held, os.O_RDONLY | os.O_NONBLOCK))
    letting.join()
