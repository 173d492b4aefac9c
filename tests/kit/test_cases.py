"""A table of cases as one test: each case is tried, and each that failed is told."""

from __future__ import annotations

import pytest

from tests.kit.cases import for_each


def test_every_case_that_fails_is_told():
    tried = []

    @for_each(("one", "other"), [(1, 1), (1, 2), (3, 3), (4, 5)])
    def check(one: int, other: int):
        tried.append(one)
        assert one == other

    with pytest.raises(BaseExceptionGroup, match="2 of 4 cases") as caught:
        check()
    assert tried == [1, 1, 3, 4]
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["case: {'one': 1, 'other': 2}"],
        ["case: {'one': 4, 'other': 5}"],
    ]


def test_a_case_that_raises_nothing_or_is_skipped_has_failed():
    @for_each("skipped", [True, False])
    def check(skipped: bool):
        if skipped:
            pytest.skip("not here")
        with pytest.raises(ValueError, match="none"):
            pass

    with pytest.raises(BaseExceptionGroup, match="2 of 2 cases"):
        check()


@for_each("case", "ab")
@for_each("number", [1, 2])
def test_fixtures_are_given_as_ever(tmp_path_factory: pytest.TempPathFactory, case: str, number: int):
    assert tmp_path_factory.getbasetemp().is_dir()
    assert (case in "ab", number in (1, 2)) == (True, True)


def test_a_table_has_rows():
    with pytest.raises(AssertionError, match="no cases"):
        for_each("case", [])
