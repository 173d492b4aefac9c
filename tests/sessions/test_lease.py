"""When a lease is over by itself, and how tmux's options tell of leases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.config import Settings
from tmuxmcp.contract.value import replace
from tmuxmcp.sessions.lease import ATTACHES_S, lapsed
from tmuxmcp.tmux.leaseoptions import Lease, NotedGiveBack
from tmuxmcp.tmux.leases import AttachedClient

NOW = 1_800_000_000.0
LONG = 1800.0
BY_HAND = Lease("ann", "cli", NOW - 3600)
AT_A_TERMINAL = Lease("ann", "attach", NOW - 3600, pid=7)
IN_A_PAGE = Lease("ann", "page", NOW - 3600, pid=5_294_967_295)


def terminal(pid: int, idle_s: float, *, may_type: bool = True) -> AttachedClient:
    return AttachedClient("/dev/pts/1", pid, may_type, NOW - idle_s, "held")


@pytest.mark.parametrize(
    ("lease", "held_at_s", "attached", "reason"),
    [
        (BY_HAND, 0, [], "timeout"),
        (BY_HAND, NOW - 60, [], None),  # taken again
        (BY_HAND, 0, [terminal(9, 60)], None),
        (BY_HAND, 0, [terminal(9, 60, may_type=False)], "timeout"),
        (AT_A_TERMINAL, 0, [], "detach"),
        (AT_A_TERMINAL, NOW - ATTACHES_S + 1, [], None),  # about to attach
        (AT_A_TERMINAL, 0, [terminal(9, 0)], "detach"),
        (AT_A_TERMINAL, 0, [terminal(7, 60)], None),
        (AT_A_TERMINAL, 0, [terminal(7, LONG + 1), terminal(9, 0)], "timeout"),
        (IN_A_PAGE, NOW - 60, [], None),
        (IN_A_PAGE, NOW - LONG - 1, [terminal(9, 0)], "timeout"),  # keys pressed elsewhere are not the page's
    ],
)
def test_it_is_over_when_who_took_it_is_gone(
    lease: Lease, held_at_s: float, attached: list[AttachedClient], reason: str
):
    assert lapsed(lease, held_at_s, attached, NOW, LONG) == reason


def test_without_a_limit_it_lasts():
    assert lapsed(BY_HAND, 0, [], NOW, 0) is None


@given(st.integers(0, 10**13), st.sampled_from([BY_HAND, AT_A_TERMINAL, IN_A_PAGE]))
def test_an_option_read_is_the_same_option(since_ms: int, lease: Lease):
    lease = replace(lease, since_s=since_ms / 1000)
    assert Lease.parse(lease.option) == lease


def test_give_backs_are_read_in_their_order():
    option = f"{BY_HAND.option} 1800000000 key;by hand 1800000001.250 release;torn"
    assert NotedGiveBack.parse(option) == [
        NotedGiveBack(BY_HAND, NOW, "key"),
        NotedGiveBack(Lease("unknown", "cli", None), NOW + 1.25, "release"),
    ]


@pytest.mark.parametrize("key", ["C-b g", "F9", "M-g", "C-b C-g", "C-M-x", "C-b F2", ""])
def test_a_key_that_no_text_has_can_be_given(key: str):
    assert Settings(take_key=key).take_key == key
    assert not key or Settings(answer_key=key, take_key="").answer_key == key


@pytest.mark.parametrize("key", ["g", "C-b d", "C-b C-b", "C-b ;", "S-g", "C-b g g", "#{x}"])
def test_another_key_is_refused(key: str):
    with pytest.raises(ValueError, match="no key"):
        Settings(take_key=key)
    with pytest.raises(ValueError, match="no key"):
        Settings(answer_key=key)


def test_two_keys_that_are_the_same_are_refused():
    with pytest.raises(ValueError, match="both"):
        Settings(answer_key="C-b g")
