"""Dataclasses that are completed when they are first used are dataclasses in all that can be seen of them."""

from __future__ import annotations

import dataclasses
import inspect
import os
import subprocess
import sys
import threading
import time
from dataclasses import field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

import tmuxmcp
from benchmarks.wire import Wire
from tests.conftest import SLOW
from tmuxmcp.contract import latedataclass
from tmuxmcp.terminal.marks import Finished, Mark, Numbers, ShellTrack


def point(dataclass: Any, **how: Any) -> Any:
    """The same two classes, one made of the other, by either decorator."""

    @dataclass(**how)
    class Point:
        """A place."""

        x: int
        y: int = 2
        names: list[str] = field(default_factory=list)
        unset: int = field(init=False, default=7)

    @dataclass(**how)
    class Named(Point):
        label: str = field(default="p", kw_only=True)
        made: list[int] = field(init=False, default_factory=lambda: [1])

        def __post_init__(self) -> None:
            object.__setattr__(self, "posted", True)

    return Named


USES: list[Any] = [
    lambda cls: repr(cls(1)).partition("<locals>")[2],
    lambda cls: repr(cls(1, 3, ["a"], label="q")).partition("<locals>")[2],
    lambda cls: (cls(1) == cls(1), cls(1) == cls(2), cls(1) != cls(1, label="o"), cls(1).posted),
    lambda cls: [(each.name, each.default, each.type, each.kw_only, each.init) for each in dataclasses.fields(cls)],
    lambda cls: (dataclasses.is_dataclass(cls), cls.__match_args__ if cls(1) else None),
    lambda cls: dataclasses.asdict(dataclasses.replace(cls(1), y=5)),
    lambda cls: str(inspect.signature(cls(1).__init__)),
    lambda cls: cls.__mro__[1].__doc__,
    lambda cls: vars(cls(1)),
    lambda cls: cls(),
    lambda cls: cls(1, 2, [], "label"),
    lambda cls: cls(1, unset=2),
    lambda cls: setattr(cls(1), "x", 2),
    lambda cls: setattr(cls(1), "other", 2),
    lambda cls: delattr(cls(1), "x"),
    lambda cls: len({cls(1, names=()), cls(1, names=())}),
]


def outcome(cls: Any, use: Any) -> object:
    try:
        return use(cls)
    except (TypeError, AttributeError) as error:
        return type(error), str(error).rpartition("<locals>.")[2]


@pytest.mark.parametrize("how", [{}, {"frozen": True}, {"eq": False}, {"frozen": True, "eq": False}, {"order": True}])
def test_it_is_as_the_standard_library_makes_it(how: dict[str, Any]):
    for use in USES:  # each the first use of a class
        assert outcome(point(latedataclass.dataclass, **how), use) == outcome(point(dataclasses.dataclass, **how), use)


def test_two_threads_may_need_a_class_at_once():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            cls, made, begin = point(latedataclass.dataclass, frozen=True), [], threading.Barrier(4)

            def make(cls: Any = cls, made: list[Any] = made, begin: threading.Barrier = begin) -> None:
                begin.wait()
                made.append(cls(1))

            threads = [threading.Thread(target=make) for _ in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            assert made == [cls(1)] * 4
    finally:
        sys.setswitchinterval(interval)


def test_every_class_of_the_package_can_be_completed():
    found = 0
    for module in walk_packages(tmuxmcp.__path__, "tmuxmcp."):
        if module.name in ("tmuxmcp.__main__", "tmuxmcp.machine.launch.begin"):  # which act where they are imported
            continue
        try:
            loaded = import_module(module.name)
        except ModuleNotFoundError as missing:
            if missing.name != "ray":  # an extra
                raise
            continue
        for each in vars(loaded).values():
            if isinstance(each, type) and each.__module__ == module.name and dataclasses.is_dataclass(each):
                assert inspect.signature(each), each
                found += 1
    assert found > 200


def test_what_is_not_used_is_not_made():
    code = """
import tmuxmcp.sessions.session, dataclasses
late = vars(tmuxmcp.sessions.session)["Pane"]
assert isinstance(vars(late)["__dataclass_fields__"], tmuxmcp.contract.latedataclass._DataclassMarker)
assert len(dataclasses.fields(late)) > 20
assert isinstance(vars(late)["__dataclass_fields__"], dict)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_changed_copy_is_as_replace_makes_it() -> None:
    mark = Mark("C", 10, 20, 4, job="j1")
    assert latedataclass.changed(mark, number=5, job="") == dataclasses.replace(mark, number=5, job="")
    assert mark == Mark("C", 10, 20, 4, job="j1")


def test_classes_of_marks_lose_nothing_when_they_are_copied_and_changed() -> None:
    for each in (Mark, Finished, ShellTrack, Numbers):
        own = vars(each)
        assert "__post_init__" not in own
        assert "__slots__" not in own
        assert not any(isinstance(value, cached_property) for value in own.values())


def test_what_is_made_ready_need_not_be_made_at_the_first_use(monkeypatch: pytest.MonkeyPatch):
    made = point(latedataclass.dataclass)
    for _ in latedataclass.make_ready():
        pass
    monkeypatch.setattr(latedataclass._Late, "complete", None)
    assert made(1, label="q").y == 2


COUNTING = """
import os
from tmuxmcp.contract import latedataclass
from tmuxmcp.__main__ import main
made = open(os.environ["MADE"], "a", buffering=1)
complete, make_ready = latedataclass._Late.complete, latedataclass.make_ready
def counted(late):
    if not late._done:
        print(late._cls.__qualname__, file=made)
    return complete(late)
def told():
    yield from make_ready()
    print("READY", file=made)
latedataclass._Late.complete, latedataclass.make_ready = counted, told
main()
"""


def test_server_makes_them_ready_before_its_client_calls(state_dir: Path, home: Path, tmp_path: Path):
    made = tmp_path / "made"
    env = os.environ | {"TMUXMCP_STATE_DIR": str(state_dir), "SHELL": "/bin/bash", "MADE": str(made)}
    wire = Wire([sys.executable, "-c", COUNTING, "serve"], env)
    try:
        deadline = time.monotonic() + 20 * SLOW
        while "READY" not in made.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        wire.call("run", command="true")
        assert set(made.read_text().partition("READY\n")[2].split()) <= {"Spare"}  # not made while the client waits
    finally:
        wire.close()
