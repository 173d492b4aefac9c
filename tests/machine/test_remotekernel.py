"""What the witness at a far end says -> the kernel's facts, and the verdict on them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.cases import for_each
from tmuxmcp.machine.witness.kernel import InputWait, judge
from tmuxmcp.machine.witness.remotekernel import facts_of

EDITOR = """tty 77 77 0 0 1 100.50
p 77 77 70 S poll_schedule_timeout.part.0 27 9000 - ,0,1,2,255 0100000000000000 270,0x1,0x7f,0x0,0x0,0x0,0x7f bash"""
PIPE_POLLED = EDITOR.replace("0100000000000000", "1000000000000000").replace("270,0x1", "270,0x5")
EPOLL = """tty 77 80 0 0 1 100.50
p 80 80 77 S ep_poll 27 9000 - ,0,1,2 ,0:19,9:1 232,0x5,0x7f,0x400,0xffffffff,0x0,0x7f node
p 80 81 77 S futex_wait_queue 27 9000 - ,0,1,2 - 202,0x5,0x7f,0x400,0xffffffff,0x0,0x7f node"""
LINE = """tty 77 80 1 1 1 100.50
p 80 80 77 S n_tty_read 1 9000 - ,0,1,2 - 0,0x0,0x7f,0x20000,0x0,0x0,0x7f my prog"""


@for_each(
    ("said", "waiting"),
    [
        (EDITOR, InputWait.EDITOR),
        (PIPE_POLLED, InputWait.BUSY),
        (EDITOR.replace(" ,0,1,2,255 ", " - "), InputWait.BUSY),
        (EDITOR + "\nchanging", InputWait.BUSY),
        (EPOLL, InputWait.EDITOR),
        (EPOLL.replace("0:19", "0:1c"), InputWait.BUSY),
        (EPOLL.replace("81 77 S futex_wait_queue", "81 77 R -"), InputWait.BUSY),
        (LINE, InputWait.LINE),
        (LINE.replace("80 1 1 1", "80 1 0 1"), InputWait.SECRET),
        (LINE.replace("0,0x0,", "0,0x4,"), InputWait.BUSY),  # it reads a socket
        (LINE.replace("n_tty_read", "0"), InputWait.UNKNOWN),  # another user's
        (LINE.replace("n_tty_read", "0").replace("0,0x0,0x7f,0x20000,0x0,0x0,0x7f", "running"), InputWait.BUSY),
        (LINE.replace("S n_tty_read", "T do_signal_stop"), InputWait.STOPPED),
        (LINE.replace("p 80", "q 80"), InputWait.UNKNOWN),
        (EDITOR.replace(" bash", " ssh"), InputWait.UNKNOWN),
    ],
)
def test_what_the_far_kernel_says_is_judged_as_ours(said: str, waiting: InputWait):
    assert judge(facts_of(said, "x86_64")).waiting is waiting


def test_a_far_process_is_none_of_ours():
    facts = facts_of(LINE, "x86_64")
    assert facts
    assert facts.foreground == -80
    assert [(each.pid, each.name, each.age_s) for each in facts.processes] == [(-80, "my prog", 10.5)]


def test_an_unknown_machine_s_calls_are_not_known():
    assert judge(facts_of(LINE, "riscv64")).waiting is InputWait.UNKNOWN


@given(st.text(alphabet="tyqp 0178,:-SR?x\ngone", max_size=80))
def test_nonsense_is_no_fact(said: str):
    facts = facts_of(said, "x86_64")
    assert facts is None or judge(facts).waiting in InputWait
    for cut in range(0, len(LINE), 7):
        facts_of(LINE[:cut], "x86_64")
