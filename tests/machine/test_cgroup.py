"""Groups: where they can be made, what they count, that nothing gets out of them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tmuxmcp.contract.settings import Limits
from tmuxmcp.machine import cgroup, processes
from tmuxmcp.machine.cgroup import ParentGroup

GROUPS = cgroup.places()

V2 = "30 23 0:26 / {} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "40 31 0:32 {root} {} rw,relatime shared:9 - cgroup cgroup rw,{names}\n"


def machine(tmp_path: Path, own: str, *mounts: str) -> Path:
    """A stand-in for /proc; cgroup directories are plain ones."""
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(own)
    (proc / "self" / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/vda rw\n" + "".join(mounts))
    return proc


def group(path: Path, controllers: str = "", switched_on: str = "") -> Path:
    path.mkdir(parents=True)
    (path / "cgroup.procs").touch()
    (path / "cgroup.controllers").write_text(controllers)
    (path / "cgroup.subtree_control").write_text(switched_on)
    return path


def test_nearest_group_whose_children_have_the_controllers(tmp_path: Path) -> None:
    """As systemd lays them out: processes are in a leaf, the slice above has the controllers."""
    top = group(tmp_path / "fs", "cpu memory pids io", "cpu memory pids")
    slice_ = group(top / "user.slice", "cpu memory pids", "memory pids")
    scope = group(slice_ / "x.scope", "memory pids", "memory pids")
    (scope / "cgroup.subtree_control").write_text("")
    (scope / "cgroup.controllers").write_text("")
    (slice_ / "cgroup.subtree_control").write_text("cpu memory pids")
    proc = machine(tmp_path, "0::/user.slice/x.scope\n", V2.format(top))
    assert cgroup.places(proc=proc) == [ParentGroup(slice_, frozenset({"cpu", "memory", "pids"}), True)]


def test_version_1_has_a_place_for_each_controller(tmp_path: Path) -> None:
    memory = group(tmp_path / "memory" / "a")
    cpu = group(tmp_path / "cpu" / "a" / "b")
    own = "4:memory:/docker/1/a\n3:cpu,cpuacct:/a/b\n2:devices:/\n1:name=systemd:/\n"
    mounts = (
        V1.format(tmp_path / "memory", root="/docker/1", names="memory"),
        V1.format(tmp_path / "cpu", root="/", names="cpu,cpuacct"),
    )
    assert cgroup.places(proc=machine(tmp_path, own, *mounts)) == [
        ParentGroup(memory, frozenset({"memory"}), False),
        ParentGroup(cpu, frozenset({"cpu"}), False),
    ]


@pytest.mark.parametrize("own", ["0::/../outside\n", "0::/not/there\n", "", "4:memory:/elsewhere\n"])
def test_nowhere(tmp_path: Path, own: str) -> None:
    mounts = (V2.format(tmp_path / "fs"), V1.format(tmp_path / "memory", root="/docker", names="memory"))
    assert cgroup.places(proc=machine(tmp_path, own, *mounts)) == []


def test_without_proc_there_are_none(tmp_path: Path) -> None:
    assert cgroup.places(proc=tmp_path) == []
    assert cgroup.make([], "x", Limits(memory_mb=1)) == cgroup.Groups((), frozenset())


@pytest.fixture
def made() -> cgroup.Groups:
    if not GROUPS:
        pytest.skip("no cgroup can be made here")
    return cgroup.make(GROUPS, f"test-{os.getpid()}", Limits(memory_mb=100, processes=50))


def test_killed_group_is_empty_and_goes(made: cgroup.Groups) -> None:
    join = "".join(f"echo 0 >{directory}/cgroup.procs; " for directory in made.directories)
    script = join + "for i in 1 2 3; do setsid sleep 600 & done; echo; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        assert len(cgroup.members(made.directories)) == 4
        assert not cgroup.remove(made.directories)
        cgroup.kill(made.directories)
        assert child.wait(5 * SLOW) == -9
    assert cgroup.members(made.directories) == []
    assert cgroup.remove(made.directories)
    assert not any(map(os.path.exists, made.directories))


def test_sweep_takes_old_groups_in_which_nothing_is(made: cgroup.Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ParentGroup(Path(made.directories[0]), frozenset(), True)
    (left,) = cgroup.make([place], "left", Limits()).directories
    cgroup.sweep([place])
    assert os.path.exists(left)  # too young
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * cgroup.GROUP_YOUNG_S)
    cgroup.sweep([place])
    assert not os.path.exists(left)
    assert cgroup.remove(made.directories)


def test_marks_are_inherited_and_differ() -> None:
    # Others may run this test at the same time, on the same machine.
    one, other = (processes.mark_of(f"{name} of {os.getpid()}") for name in ("one", "other"))
    if processes.NO_MARK in (one, other):
        pytest.skip("the limits here are too low to be lowered")
    assert one != other
    begun = processes.now_s()
    limits = "; ".join(f"resource.setrlimit({which}, ({soft}, {hard}))" for which, soft, hard in processes.rlimits(one))
    code = f"import os, resource; {limits}; os.execve('/bin/sh', ['sh', '-c', 'sleep 600 & echo $!; wait'], {{}})"
    with subprocess.Popen(["python3", "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout
        grandchild = int(child.stdout.readline())
        census = processes.Census.take(b"A", begun)
        assert {row.pid for row in census.marked(b"A=B", one, begun)} == {child.pid, grandchild}
        assert census.marked(b"A=B", other, begun) == []
        for pid in (grandchild, child.pid):
            os.kill(pid, 9)
