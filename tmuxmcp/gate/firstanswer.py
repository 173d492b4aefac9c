"""A question that a person sees in two places, in the client and at the command line: the first answer counts.

The other place is told nothing more. Who declines after having agreed elsewhere has declined, as long as nothing was
done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from tmuxmcp.contract.call import Call, CallAgain, Question
from tmuxmcp.contract.errors import ConfirmationDeclined, TmuxMcpError
from tmuxmcp.gate.confirmations import Confirmations

ANSWER_LOOK_S = 0.2
"""How often the command line's answer is looked for while the client asks: a person takes longer than that."""

Agreed = bool | None


async def first_answer(question: Question, confirmations: Confirmations, call: Call) -> Agreed:
    """Ask in the client, and look for an answer at the command line meanwhile.

    Returns:
        whether a person agrees; None: the client cannot ask, and the question waits at the command line.

    Raises:
        CallAgain: the client asks, and makes the call again.
        ConfirmationDeclined: the answer is to another question.
    """
    if call.answers:  # the client brings its answer: nothing is waited for
        try:
            answer = await call.ask(question)
        except TmuxMcpError:
            confirmations.forget(question.digest)
            confirmations.forget(call.answers)
            raise
        return _in_client(question, confirmations, answer)
    told: list[Agreed | CallAgain | TmuxMcpError] = []
    async with anyio.create_task_group() as task_group:

        async def first(what: Callable[[], Awaitable[Agreed]]) -> None:
            try:
                told.append(await what())
            except (CallAgain, TmuxMcpError) as error:  # not through the task group, which would make a group of it
                told.append(error)
            task_group.cancel_scope.cancel()

        async def in_client() -> Agreed:
            return _in_client(question, confirmations, await call.ask(question))

        task_group.start_soon(first, in_client)
        task_group.start_soon(first, partial(_at_command_line, question, confirmations))
    result = told[0]
    if isinstance(result, BaseException):
        raise result
    return result


def _in_client(question: Question, confirmations: Confirmations, answer: Agreed) -> Agreed:
    """What the client's answer comes to; where it could not ask, the question stays.

    Raises:
        ConfirmationDeclined: it comes too late.
    """
    if answer is None:
        return None
    if not confirmations.forget(question.digest) and answer:
        raise ConfirmationDeclined(
            "The question was declined elsewhere before, or forgotten after ten minutes: the answer is void.",
            hint="Ask the person what they want; if they agree, make the call again.",
        )
    return answer


async def _at_command_line(question: Question, confirmations: Confirmations) -> Agreed:
    while True:
        await anyio.sleep(ANSWER_LOOK_S)
        if confirmations.take(question.digest):
            return True
        if confirmations.of(question.digest) is None:
            return False
