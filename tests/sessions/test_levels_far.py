"""When the far end of a session is asked, and when the kernel here has the last word."""

from __future__ import annotations

import pytest

from tmuxmcp.machine.witness.kernel import InputWait, KernelFacts, Process, Verdict, judge
from tmuxmcp.sessions.levels import RemoteEnd

SSH = Process(7, "ssh", "S", "poll_schedule_timeout", True)


class Unanswering:
    """A channel that is open, and whose far end says nothing."""

    open, why_not, answered_at, machine = True, "", 0.0, "x86_64"

    def __init__(self) -> None:
        self.asked = self.closed = 0

    async def ask(self) -> None:
        self.asked += 1

    def close(self) -> None:
        self.closed += 1


def facts(process: Process = SSH, **more: object) -> KernelFacts:
    given = {"canonical": False, "echo": False, "unread": 0, "writing": False, "foreground": 7, **more}
    return KernelFacts(processes=(process,), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("here", "asks", "closes"),
    [
        (facts(), True, False),
        (facts(Process(7, "ssh", "R", None)), True, False),  # it passes our questions on
        (facts(unread=3), False, False),
        (facts(writing=True), False, False),
        (facts(changing=True), False, False),
        (facts(Process(7, "ssh", "T", None)), False, False),
        (facts(canonical=True, echo=True), False, True),  # the far end is over, or ssh itself asks
        (None, False, False),
    ],
)
async def test_the_far_end_is_asked_when_ssh_has_passed_on_all_that_was_typed(
    here: KernelFacts | None, asks: bool, closes: bool
):
    far, channel = RemoteEnd("/nowhere"), Unanswering()
    far._channel = channel  # type: ignore[assignment]
    verdict = judge(here)
    _, judged = await far.look(here, verdict)
    assert (channel.asked, channel.closed) == (asks, closes)
    if asks:
        assert (judged.waiting, judged.hidden) == (InputWait.UNKNOWN, True)
    else:
        assert judged == verdict
    assert isinstance(judged, Verdict)
