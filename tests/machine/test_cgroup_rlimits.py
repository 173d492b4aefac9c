from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tmuxmcp.contract.settings import Limits
from tmuxmcp.machine.cgroup import rlimits

NAMES = tuple(Limits.model_fields)
LIMITS = st.fixed_dictionaries({}, optional={name: st.integers(3, 10_000) for name in NAMES}).map(
    lambda values: Limits(**values)
)


def test_none_is_limited_by_default():
    assert rlimits(Limits()) == []
    assert set(Limits().model_dump().values()) == {None}


def test_each_row_is_what_setrlimit_takes():
    rows = rlimits(Limits(memory_mb=64, cpu_seconds=2, processes=9, open_files=20, file_mb=1))
    assert rows == [
        (resource.RLIMIT_AS, 64 << 20, 64 << 20),
        (resource.RLIMIT_CPU, 2, 3),
        (resource.RLIMIT_NPROC, 9, 9),
        (resource.RLIMIT_NOFILE, 20, 20),
        (resource.RLIMIT_FSIZE, 1 << 20, 1 << 20),
    ]


def test_the_kernel_takes_the_largest_values():
    rows = rlimits(Limits(memory_mb=2**31 - 1, cpu_seconds=2**31 - 1, file_mb=2**31 - 1))
    assert len(rows) == 3
    for which, soft, hard in rows:
        present = resource.getrlimit(which)[1]
        if present == resource.RLIM_INFINITY:
            code = f"import resource; resource.setrlimit({which}, ({soft}, {hard}))"
            subprocess.run([sys.executable, "-c", code], check=True)


def test_what_only_a_cgroup_or_a_clock_keeps_is_no_rlimit():
    assert rlimits(Limits(cpu_percent=50, duration_s=0.5)) == []


@pytest.mark.parametrize(
    "values",
    [
        {"memory_mb": 0},
        {"memory_mb": "64"},
        {"memory_mb": 1.5},
        {"processes": True},
        {"open_files": 2},
        {"duration_s": 0},
        {"duration_s": float("inf")},
        {"cpu_percent": -1},
        {"memory": 64},
    ],
)
def test_wrong_limits_are_refused(values):
    with pytest.raises(ValidationError):
        Limits.model_validate(values)


def test_a_dictionary_of_json_will_do():
    assert Limits.model_validate({"memory_mb": 64, "duration_s": 3}).duration_s == 3


@given(LIMITS, LIMITS)
def test_the_tighter_of_two_is_within_both(one: Limits, other: Limits):
    both = one.within(other)
    assert both == other.within(one) == both.within(one)
    for name in NAMES:
        values = [value for value in (getattr(one, name), getattr(other, name)) if value is not None]
        assert getattr(both, name) == (min(values) if values else None)
