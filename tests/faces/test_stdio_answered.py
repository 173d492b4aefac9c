"""Answers that a client cancels while they are on the way."""

from __future__ import annotations

from tmuxmcp.contract.call import Call
from tmuxmcp.faces.stdio import MOST_ANSWERED, RecentAnswers


class Told:
    """A call whose answer told something."""

    def __init__(self) -> None:
        self.call, self.put_back = Call(), 0
        self.call.undo.append(self._put_back)

    def _put_back(self) -> None:
        self.put_back += 1


def test_an_answer_that_is_cancelled_tells_nothing() -> None:
    answered, told = RecentAnswers(), Told()
    answered.begins(1)
    answered.add(1, told.call)
    answered.cancelled(2)
    assert told.put_back == 0
    for _ in range(2):
        answered.cancelled(1)
        assert told.put_back == 1


def test_an_answer_to_what_was_cancelled_before_tells_nothing() -> None:
    answered, told = RecentAnswers(), Told()
    answered.begins(1)
    answered.cancelled(1)
    answered.add(1, told.call)
    assert told.put_back == 1


def test_a_number_may_be_used_again() -> None:
    answered, first, second = RecentAnswers(), Told(), Told()
    answered.add(1, first.call)
    answered.cancelled(1)
    answered.cancelled(1)
    answered.begins(1)
    answered.add(1, second.call)
    assert (first.put_back, second.put_back) == (1, 0)


def test_few_answers_are_remembered() -> None:
    answered, all_told = RecentAnswers(), [Told() for _ in range(MOST_ANSWERED + 1)]
    for number, told in enumerate(all_told):
        answered.add(number, told.call)
    for number in range(len(all_told)):
        answered.cancelled(number)
    assert [told.put_back for told in all_told] == [0] + [1] * MOST_ANSWERED
