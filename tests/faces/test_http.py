from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from tests.conftest import SLOW
from tmuxmcp.contract.errors import Cancelled, SessionBusy
from tmuxmcp.faces.http import unless


class Question(BaseException):
    """What is no error either: an answer that is a question."""


@pytest.mark.parametrize("raised", [SessionBusy("x"), Question(), KeyError("x")])
async def test_what_is_raised_inside_comes_out_as_it_is(raised: BaseException):
    with pytest.raises(type(raised)) as found:
        async with unless({anyio.Event(): "never"}):
            raise raised
    assert found.value is raised


async def test_a_client_that_leaves_cancels_what_is_inside():
    gone, ended = anyio.Event(), anyio.Event()

    async def call() -> None:
        async with unless({anyio.Event(): "never", gone: "It has left."}):
            gone.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()

    with anyio.fail_after(5 * SLOW), pytest.raises(Cancelled, match="It has left"):
        await call()
    assert ended.is_set()


async def test_a_call_that_is_cancelled_from_outside_is_not_taken_for_that():
    with anyio.move_on_after(0.01) as scope:
        async with unless({anyio.Event(): "never"}):
            await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_what_is_done_is_done():
    async with unless({anyio.Event(): "never"}):
        await anyio.lowlevel.checkpoint()


async def test_what_was_done_before_the_event_is_not_called_cancelled():
    event = anyio.Event()
    async with unless({event: "too late"}):
        event.set()
