"""Sets of epoll(7), of this process: which of their files are listened to."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tmuxmcp.machine.witness.tty import NESTED_EPOLLS, watched_descriptors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="epoll is of Linux")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


@pytest.mark.parametrize(
    ("events", "listens"),
    [
        (select.EPOLLIN, True),
        (select.EPOLLRDNORM, True),
        (select.EPOLLIN | select.EPOLLONESHOT, True),
        (select.EPOLLIN | select.EPOLLET, True),
        (select.EPOLLPRI, False),
        (select.EPOLLHUP, False),
        (select.EPOLLONESHOT, False),
        (0, False),
    ],
)
def test_a_file_is_listened_to_where_input_is_asked_for(pipe: tuple[int, int], events: int, listens: bool):
    with select.epoll() as polled:
        polled.register(pipe[0], events)
        assert watched_descriptors(os.getpid(), polled.fileno()) == [pipe[0]] * listens


def test_an_event_that_was_asked_for_once_and_came_is_asked_for_no_more(pipe: tuple[int, int]):
    with select.epoll() as polled:
        polled.register(pipe[0], select.EPOLLIN | select.EPOLLONESHOT)
        os.write(pipe[1], b"x")
        assert polled.poll(1)
        assert watched_descriptors(os.getpid(), polled.fileno()) == []
        polled.modify(pipe[0], select.EPOLLIN | select.EPOLLONESHOT)
        assert watched_descriptors(os.getpid(), polled.fileno()) == [pipe[0]]


def test_a_set_within_a_set_is_followed(pipe: tuple[int, int]):
    polled = [select.epoll() for _ in range(NESTED_EPOLLS)]
    polled[0].register(pipe[0], select.EPOLLIN)
    for inner, outer in pairwise(polled):
        outer.register(inner.fileno(), select.EPOLLIN)
    assert pipe[0] in watched_descriptors(os.getpid(), polled[-1].fileno())
    polled[-1].modify(polled[-2].fileno(), select.EPOLLHUP)
    assert watched_descriptors(os.getpid(), polled[-1].fileno()) == []
    for each in polled:
        each.close()


def test_a_set_that_is_not_there_raises():
    with pytest.raises(FileNotFoundError):
        watched_descriptors(os.getpid(), 987654)
