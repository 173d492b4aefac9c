"""Questions that several people answer: the first answer counts, and who comes later is told so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tmuxmcp.gate.confirmations import Confirmation, Confirmations


class Interrupted(Confirmations):
    """Somebody else declines between the look at the question and what is done to it."""

    def all(self) -> Iterator[Confirmation]:
        found = list(super().all())
        for each in found:
            Confirmations(self.directory.parent).decline(each.id)
        yield from found


@pytest.fixture
def question(tmp_path: Path) -> str:
    return Confirmations(tmp_path).open("digest", "May it?", "client", "scope", "a")


def test_a_question_is_granted_once(tmp_path: Path, question: str):
    confirmations = Confirmations(tmp_path)
    assert confirmations.grant(question)
    assert not confirmations.grant(question, for_session=True)
    assert not confirmations.agreed("scope")
    assert confirmations.about("a") == []
    assert confirmations.take("digest")
    assert not confirmations.take("digest")
    assert list(confirmations.directory.iterdir()) == []


def test_what_was_declined_is_not_granted(tmp_path: Path, question: str):
    assert not Interrupted(tmp_path).grant(question, for_session=True)
    assert list(Confirmations(tmp_path).all()) == []
    assert not Confirmations(tmp_path).agreed("scope")


def test_a_question_is_declined_once(tmp_path: Path, question: str):
    assert not Interrupted(tmp_path).decline(question)
    assert not Confirmations(tmp_path).decline(question)
