from __future__ import annotations

import pytest

from tests.kit.double import EXAMPLES, PROCESS, READ, RUN
from tmuxmcp.contract import results as r
from tmuxmcp.contract.results import Command
from tmuxmcp.contract.value import replace
from tmuxmcp.faces.text import footer, render


def test_run_is_its_output_and_one_line():
    assert render(RUN) == "hi\n[exit_code=0 duration_ms=12 cwd=/x session_id=sess_ab]"


def test_output_without_a_newline_gets_one_and_no_output_no_empty_line():
    assert render(replace(RUN, output="hi")) == "hi\n" + footer(RUN)
    assert render(replace(RUN, output="")) == footer(RUN)


def test_run_that_goes_on_says_so_and_where_to_read_on():
    result = replace(
        RUN,
        exit_code=None,
        completed=False,
        outcome="timeout",
        mode="running",
        effective_timeout_ms=50_000,
        note="It goes on.",
    )
    assert footer(result) == (
        "[completed=false outcome=timeout mode=running duration_ms=12 cwd=/x session_id=sess_ab next_offset=103 "
        'effective_timeout_ms=50000 note="It goes on."]'
    )


def test_cut_output_names_the_offsets_that_fetch_it():
    result = replace(RUN, truncated=True, omitted_bytes=90, sanitized=True, cwd=None)
    assert footer(result) == (
        "[exit_code=0 duration_ms=12 session_id=sess_ab truncated=true omitted_bytes=90 start_offset=100 "
        "end_offset=103 sanitized=true]"
    )


def test_unknown_exit_code_is_null():
    assert footer(replace(RUN, exit_code=None)).startswith("[exit_code=null ")


@pytest.mark.parametrize("cwd", ["/a b", "/x] [exit_code=1", "/two\nlines", "/\u2028", "/\x1b[31m", '/"', ""])
def test_footer_stays_one_unmistakable_line(cwd):
    import json

    last = footer(replace(RUN, cwd=cwd))
    assert len(last.splitlines()) == 1
    assert last.isprintable()
    assert f"cwd={json.dumps(cwd)} session_id=" in last


def test_read_says_little_when_there_is_little_to_say():
    assert render(READ) == "Name: \n[outcome=ready mode=line_input session_id=sess_ab next_offset=103]"


def test_read_says_what_a_model_must_know():
    result = replace(
        READ,
        evidence="quiet",
        matched="x y",
        exited=True,
        exit_code=3,
        waited_ms=7,
        has_new_content=False,
        truncated=True,
        omitted_bytes=5,
        encoding="base64",
        highlights=[r.Highlight(row=1, col=0, text="two")],
    )
    assert footer(result) == (
        '[outcome=ready mode=line_input evidence=quiet matched="x y" exited=true exit_code=3 has_new_content=false '
        'highlights=["two"] waited_ms=7 session_id=sess_ab encoding=base64 truncated=true omitted_bytes=5 '
        "next_offset=103]"
    )


def test_screen_has_size_and_cursor():
    shown = replace(READ, view="screen", title="my editor", screen_id="0123456789ab")
    assert 'rows=24 cols=80 cursor=3,7 title="my editor" screen_id=0123456789ab' in footer(shown)


def test_send_shows_what_was_read():
    assert render(EXAMPLES["send"]) == (
        "Name: \n[sent_bytes=4 outcome=ready mode=line_input session_id=sess_ab next_offset=103]"
    )
    quiet = r.SendResult(session_id="sess_ab", sent_bytes=4, note="Not waited.", result=None)
    assert render(quiet) == '[sent_bytes=4 session_id=sess_ab note="Not waited."]'


def test_sessions_are_one_line_each():
    assert render(EXAMPLES["list_sessions"]) == (
        'sess_ab mode=shell_prompt program=/bin/bash ready=true pid=12 cwd="/x y"\n[count=1]'
    )
    assert render(r.ListSessionsResult(count=0, sessions=[])) == "[count=0]"


def test_facts_are_one_line_each_without_what_is_unknown():
    lines = render(EXAMPLES["get_session"]).splitlines()
    assert "session_id: sess_ab" in lines
    assert 'title: "a\\nb"' in lines
    assert 'foreground: {"pid":12,"command":"bash"}' in lines
    assert "attach_command: tmux -S /s attach -r -t '=sess_ab'" in lines  # to be copied
    assert not any(line.startswith("usage") for line in lines)


def test_health_lists_what_failed():
    lines = render(EXAMPLES["health"]).splitlines()
    assert "ok tmux: works" in lines
    assert 'FAILED disk: "is full"' in lines


def test_small_results_are_one_line():
    assert render(EXAMPLES["search"]) == (
        "3 @40:\n  before\n> error: x\n  after\n"
        "[total=2 session_id=sess_ab truncated=true "
        'note="The first 1 of 2 are shown: narrow the pattern or raise limit."]'
    )
    assert render(EXAMPLES["resize"]) == "[session_id=sess_ab rows=30 cols=100 scrollback_lines=5000]"
    assert render(EXAMPLES["signal"]) == "[session_id=sess_ab delivered=true pids=[12]]"


def test_a_process_is_both_streams_and_one_line():
    last = "[rc=0 duration_ms=3 cpu_ms=1 max_rss_kb=9000]"
    assert render(PROCESS) == f"hi\n[stderr]\noops\n{last}"
    assert render(replace(PROCESS, stderr="")) == f"hi\n{last}"
    assert render(replace(PROCESS, stdout="", stderr="x")) == f"[stderr]\nx\n{last}"


def test_a_process_that_was_ended_says_how():
    ended = {"rc": None, "signal": "KILL", "timed_out": True, "truncated": True, "effective_timeout_ms": 50_000}
    assert footer(replace(PROCESS, **ended)) == (
        "[rc=null signal=KILL timed_out=true duration_ms=3 cpu_ms=1 max_rss_kb=9000 truncated=true stdout_bytes=3 "
        "stderr_bytes=5 effective_timeout_ms=50000]"
    )


def test_what_a_terminal_would_act_on_does_not_reach_a_model():
    shown = render(replace(PROCESS, stdout="a\x1b[2Jb\u202ec\n", stderr="\x07"))
    assert shown.startswith("a[2Jb<U+202E>c\n[rc=0 ")


def test_a_command_is_one_line_whatever_it_is():
    assert render(EXAMPLES["list_commands"]).splitlines() == [
        '1 exit_code=0 started_at=2026-11-20T10:00:00.000Z duration_ms=3 cwd="/x y" start_offset=100 end_offset=103 '
        "by=agent: \"echo 'a\\nb'\"",
        "4 exit_code=null start_offset=250 by=other",
        "[session_id=sess_ab count=2]",
    ]


def test_read_tells_of_a_command_that_ended():
    command = Command(
        number=5,
        text="make all # " + "x" * 500,
        exit_code=2,
        started_at=None,
        duration_ms=None,
        cwd="/x",
        start_offset=7,
        end_offset=9,
    )
    told = footer(replace(READ, command=command))
    assert ' command=5 command_exit_code=2 command_text="make all # xxx' in told
    assert len(told) < 250
    assert "command_text=null" in footer(replace(READ, command=replace(command, text=None)))
