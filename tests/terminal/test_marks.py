"""The mark scanner: the same marks however the bytes are cut, and none that are not ours."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.cases import for_each
from tmuxmcp.terminal.marks import (
    LONGEST_MARK,
    Finished,
    Mark,
    MarkScanner,
    Numbers,
    ShellState,
    ShellTrack,
    new_proof,
    promise_of,
)

NONCE = "n0nce"


def mark(kind: str, number: int, *fields: str, end: str = "\a", aid: str = NONCE) -> bytes:
    return ("\x1b]133;" + ";".join([kind, *fields, f"aid={aid}", f"n={number}"]) + end).encode()


A1, B1, C1 = mark("A", 1), mark("B", 1), mark("C", 1)
D1 = b"\x1b]133;D;3;aid=n0nce;n=1;cwd=/a%20b\a"
STREAM = b"x" + A1 + b"$ " + B1 + b"ls\r\n" + C1 + b"out\x1b[0m\r\n" + D1 + mark("A", 2, end="\x1b\\") + b"$ "


def found(*pieces: bytes) -> list[Mark]:
    scanner = MarkScanner(NONCE)
    return [each for piece in pieces for each in scanner.feed(piece)]


def test_marks_have_kind_offsets_number_status_and_directory():
    marks = found(STREAM)
    assert [(m.kind, m.number, m.status, m.cwd) for m in marks] == [
        ("A", 1, None, None),
        ("B", 1, None, None),
        ("C", 1, None, None),
        ("D", 1, 3, "/a b"),
        ("A", 2, None, None),
    ]
    assert STREAM[marks[0].start : marks[0].end] == A1
    assert STREAM[marks[3].start : marks[3].end] == D1


def test_marks_tell_time_and_command_where_the_shell_does():
    (began,) = found(mark("C", 1, "t=1700000000,250000", "cmdline_url=echo%20%C3%A4%0Atrue"))
    assert (began.time, began.uptime, began.text) == (1700000000.25, None, "echo ä\ntrue")
    (ended,) = found(mark("D", 1, "0", "up=12.34"))
    assert (ended.time, ended.uptime, ended.text) == (None, 12.34, None)


@for_each("time", ["", "x", "${EPOCHREALTIME-}", "-1", "1e9", "nan", "1.", "9" * 13, "1.2.3", "\u0661"])
def test_a_time_that_is_none_is_not_known(time: str):
    (began,) = found(mark("C", 1, f"t={time}", f"up={time}"))
    assert (began.kind, began.time, began.uptime) == ("C", None, None)


def test_a_shell_says_that_a_signal_ends_it_in_the_middle_of_a_command():
    ended = (A1, B1, C1, mark("E", 1, "k=h"))
    assert (track(*ended).state, track(*ended).broken_off) == (ShellState.RUNNING, True)
    assert not track(A1, B1, C1, mark("E", 1)).broken_off
    assert not track(A1, B1, C1, mark("E", 2, "k=h")).broken_off
    assert not track(*ended, mark("B", 2), mark("C", 2)).broken_off
    assert ShellTrack.from_dict(track(*ended).as_dict()) == track(*ended)


def test_a_shell_says_that_a_trap_may_end_it_in_the_middle_of_a_command():
    for trapped in (track(A1, B1, mark("C", 1, "k=t")), track(A1, B1, C1, mark("E", 1), mark("E", 1, "k=t"))):
        given = [trapped.gives_code_to(text, 3) for text in ("make", " exit 3", None, "exit $(make)")]
        assert (trapped.trapped, given) == (True, [False, True, False, False])
    first = track(A1, B1, C1, mark("E", 1))
    assert track(A1, B1, C1, mark("E", 1), mark("E", 1, "k=t")).ended == first.ended
    assert (first.gives_code_to("make", 3), first.gives_code_to("trap 'exit 4' HUP; make", 3)) == (True, False)
    assert not track(A1, B1, mark("C", 1, "k=t"), mark("D;0", 1), mark("B", 2), mark("C", 2)).trapped


def test_a_command_has_its_times_and_its_text():
    _, finished = followed(A1, B1, mark("C", 1, "t=5.5", "cmdline_url=ls"), mark("D", 1, "0", "t=7"))
    assert [(each.began, each.ended, each.text) for each in finished] == [(5.5, 7.0, "ls")]
    _, finished = followed(A1, B1, mark("C", 1, "t=5"), D1, mark("B", 2), mark("C", 2), mark("D", 2, "0"))
    assert [(each.began, each.ended, each.text) for each in finished] == [(5.0, None, None), (None, None, None)]


def test_a_track_of_another_version_is_taken_up_as_far_as_it_is_known():
    track = ShellTrack(state=ShellState.RUNNING, number=4, began=1.5, text="ls")
    assert ShellTrack.from_dict(track.as_dict() | {"later": 1}) == track
    assert ShellTrack.from_dict({"state": "prompt", "number": 4}) == ShellTrack(state=ShellState.PROMPT, number=4)


def test_byte_by_byte_gives_the_same_marks():
    assert found(*(STREAM[i : i + 1] for i in range(len(STREAM)))) == found(STREAM)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cutting_gives_the_same_marks(cuts: list[int]):
    edges = [0, *sorted(cuts), len(STREAM)]
    assert found(*(STREAM[a:b] for a, b in pairwise(edges))) == found(STREAM)


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_a_new_scanner_takes_up_where_another_stopped(cuts: list[int]):
    marks, offset = [], 0
    for cut in [*sorted(cuts), len(STREAM)]:
        scanner = MarkScanner(NONCE, offset)
        marks += scanner.feed(STREAM[offset : max(cut, offset)])
        offset = scanner.offset
    assert marks == found(STREAM)


@for_each(
    "forged",
    [
        mark("D", 1, "0", aid="other"),
        b"\x1b]133;D;0\a",
        b"\x1b]133;D;aid=n0nce;n=1\a",
        b"\x1b]133;D;0;aid=n0nce;n=x\a",
        b"\x1b]133;D;0;aid=n0nce;n=-1\a",
        b"\x1b]133;D;0;aid=n0nce\nn=1\a",
        b"\x1b]133;Z;0;aid=n0nce;n=1\a",
        b"\x1b]133;D;0;aid=n0nce;n=" + b"9" * 400 + b"\a",
        b"133;D;0;aid=n0nce;n=1\a",
    ],
)
def test_what_is_not_ours_is_no_mark(forged: bytes):
    assert found(forged) == []


def test_an_endless_mark_is_given_up():
    scanner = MarkScanner(NONCE)
    scanner.feed(b"\x1b]133;D;" + b"0" * (2 * LONGEST_MARK))
    assert scanner.offset == 8 + 2 * LONGEST_MARK
    assert [m.kind for m in scanner.feed(A1)] == ["A"]


@given(st.binary(max_size=300))
def test_no_bytes_raise(data: bytes):
    found(data, A1)


def followed(*marks: bytes) -> tuple[ShellTrack, list[Finished]]:
    """What the marks say, and the commands that they finish."""
    shell, commands = ShellTrack(), []
    for each in found(*marks):
        shell, finished = shell.apply(each)
        commands += [finished] if finished else []
    return shell, commands


def track(*marks: bytes) -> ShellTrack:
    return followed(*marks)[0]


@for_each(
    ("marks", "state"),
    [
        ([A1], ShellState.STARTING),
        ([A1, B1], ShellState.PROMPT),
        ([A1, B1, mark("P", 1, "k=s")], ShellState.CONTINUATION),
        ([A1, B1, C1], ShellState.RUNNING),
        ([A1, B1, C1, C1], ShellState.RUNNING),
        ([A1, B1, C1, A1, B1], ShellState.RUNNING),  # an exported PS1 in a nested shell
        ([A1, B1, C1, mark("A", 2)], ShellState.STARTING),  # the end of the command was not recorded
        ([A1, B1, C1, mark("A", 2), mark("B", 2)], ShellState.PROMPT),
        ([A1, B1, C1, mark("B", 2)], ShellState.PROMPT),  # nor that the next prompt began
        ([A1, B1, mark("B", 2)], ShellState.PROMPT),
        ([A1, B1, C1, mark("P", 2, "k=g")], ShellState.PROMPT),  # nothing of it, but the shell listens there
        ([A1, B1, C1, D1, mark("P", 2, "k=g")], ShellState.PROMPT),
        ([A1, B1, C1, mark("P", 1, "k=g")], ShellState.RUNNING),
        ([A1, B1, C1, mark("P", 1, "k=s")], ShellState.RUNNING),
        ([A1, B1, C1, mark("D", 7, "0")], ShellState.RUNNING),  # another prompt's
        ([A1, B1, C1, D1], ShellState.STARTING),
        ([A1, B1, C1, D1, mark("A", 2), mark("B", 2)], ShellState.PROMPT),
        ([A1, B1, C1, D1, mark("A", 2), mark("B", 2), C1], ShellState.PROMPT),  # a replay of our log
        ([A1, B1, C1, D1, mark("A", 2), mark("B", 2), mark("C", 2), C1, D1], ShellState.RUNNING),
        ([A1, B1, D1], ShellState.STARTING),  # an empty line, a comment
    ],
)
def test_state_follows_the_marks(marks: list[bytes], state: ShellState):
    assert track(*marks).state is state


def test_a_finished_command_knows_where_its_output_lies():
    (done,) = followed(STREAM)[1]
    assert STREAM[done.output_start : done.output_end] == b"out\x1b[0m\r\n"
    assert STREAM[done.echo_start : done.echo_end] == b"ls\r\n"
    assert (done.status, done.cwd) == (3, "/a b")


@given(st.lists(st.tuples(st.sampled_from("ABCDEP"), st.integers(1, 3)), max_size=30))
def test_no_size_is_negative_whatever_marks_come(kinds: list[tuple[str, int]]):
    stream = b"".join(mark(kind, number, *["0"] * (kind == "D")) + b"x" for kind, number in kinds)
    for finished in followed(stream)[1]:
        start = finished.echo_end if finished.output_start is None else finished.output_start
        assert finished.echo_start <= finished.echo_end <= start <= finished.output_end


def test_the_same_command_may_end_again():
    again = mark("D", 1, "7", "cwd=/later")
    track, finished = followed(A1, B1, C1, mark("E", 1), D1, b"more", mark("E", 1), b"tidied up", again, mark("A", 2))
    assert [(each.number, each.status, each.output_start is None) for each in finished] == [(1, 3, False), (1, 7, True)]
    assert (track.status, track.cwd, track.state) == (7, "/later", ShellState.STARTING)
    stream = A1 + B1 + C1 + mark("E", 1) + D1 + b"more" + mark("E", 1)
    assert finished[-1].output_end == len(stream) - len(mark("E", 1))
    assert followed(D1)[1] == []


def test_nothing_ran_has_no_output():
    (done,) = followed(A1, B1, b"# x\r\n", D1)[1]
    assert done.output_start is None


def test_a_prompt_drawn_again_begins_the_input_again():
    redrawn = A1 + B1 + b"ls\r" + A1 + B1
    assert track(redrawn).prompt_end == len(redrawn)


def test_a_track_survives_being_written_down():
    shell = track(STREAM)
    assert ShellTrack.from_dict(shell.as_dict()) == shell


def test_a_late_end_lies_where_the_prompt_was_drawn_anew():
    late = b"\x1b]133;D;3;aid=n0nce;n=1;k=l\a"
    before = A1 + B1 + b"ls\r\n" + C1 + b"out\r\n"
    waiting = track(before, A1 + b"$ " + B1)
    assert (waiting.state, waiting.prompted) == (ShellState.RUNNING, len(before))
    after, (finished,) = followed(before, A1, b"$ ", B1, late)
    assert (finished.output_end, finished.status, finished.late) == (len(before), 3, True)
    assert after.prompted is None


def test_a_prompt_that_a_command_prints_does_not_end_its_output():
    before = A1 + B1 + b"ls\r\n" + C1 + b"out" + A1 + b"$ " + B1 + b"more\r\n"
    _, (finished,) = followed(before, D1)
    assert (finished.output_end, finished.late) == (len(before), False)


def of(nonce: str, kind: str, number: int, *fields: str) -> Mark:
    (found,) = MarkScanner([nonce, NONCE]).feed(mark(kind, number, *fields, aid=nonce))
    return found


def test_marks_of_several_shells_are_told_apart():
    scanner = MarkScanner(NONCE)
    cut = mark("A", 1, aid="inner")
    assert scanner.feed(A1 + cut[:9]) == [of(NONCE, "A", 1)]
    scanner.expect("inner")  # also of one that has begun
    rest = scanner.feed(cut[9:] + B1 + mark("P", 1, "k=p", "sh=bash,5.2,77", aid="inner") + mark("A", 1, aid="other"))
    assert [(each.nonce, each.kind, each.who) for each in rest] == [
        ("inner", "A", ""),
        (NONCE, "B", ""),
        ("inner", "P", "bash,5.2,77"),
    ]


def test_a_shell_that_says_who_it_is_changes_nothing():
    track = ShellTrack(state=ShellState.PROMPT, number=1)
    assert track.apply(of(NONCE, "P", 1, "k=p", "sh=bash")) == (track, None)


def test_numbers_of_several_shells_are_never_used_twice():
    numbers, last, given = Numbers(), {"outer": 0, "inner": 0, "third": 0}, []
    steps = [("outer", 1), ("outer", 2), ("inner", 3), ("inner", 4), ("inner", 4), ("outer", 2), ("outer", 3)]
    steps += [("third", 1), ("outer", 4), ("outer", 9), ("third", 2)]
    for nonce, counted in steps:
        numbers, counted_on = numbers.of(of(nonce, "A", counted), last[nonce])
        last[nonce] = counted_on.number
        given.append(counted_on.number)
    assert given == [1, 2, 3, 4, 4, 2, 5, 6, 7, 12, 13]
    assert numbers.highest == 13


# ---- proofs ------------------------------------------------------------------------------------------


def test_a_proof_ends_a_command_whatever_was_printed_before():
    proof = new_proof()
    promise = promise_of(proof)
    track = ShellTrack(state=ShellState.PROMPT, number=9).with_promise(Mark("C", 10, 20, 4, job="j1"), promise)
    assert (track.state, track.number, track.output_start) == (ShellState.RUNNING, 4, 20)
    for forged in (Mark("A", 30, 31, 5), Mark("B", 31, 32, 5), Mark("C", 32, 33, 5), Mark("E", 33, 34, 4)):
        assert track.is_noise(forged)
    assert not track.is_noise(Mark("E", 40, 41, 4, proof=proof[:32]))
    assert ShellTrack.from_dict(json.loads(json.dumps(track.as_dict()))) == track
    after, finished = track.prove(Mark("D", 50, 60, 4, status=7, job="j1"), "j1")
    assert (finished.number, finished.status, finished.output_start, finished.proven) == (4, 7, 20, True)
    assert (after.state, after.promise) == (ShellState.STARTING, None)
    assert after.is_noise(Mark("D", 70, 80, 4, status=0, job="j1"))
    assert not after.is_noise(Mark("A", 70, 80, 5))


def test_a_shell_that_is_asked_tells_its_prompt_whatever_was_printed_before():
    track = ShellTrack(state=ShellState.RUNNING, number=9).at_prompt(Mark("P", 10, 20, 4, why="g"))
    assert (track.state, track.number, track.listening) == (ShellState.PROMPT, 4, True)


def test_an_end_after_somebody_elses_prompt_counts_once_more():
    track = ShellTrack(state=ShellState.PROMPT, number=5, status=0)
    after, finished = track.apply(Mark("D", 50, 60, 4, status=7))
    assert (after.state, after.number) == (ShellState.STARTING, 4)
    assert finished is not None
    assert finished.status == 7
