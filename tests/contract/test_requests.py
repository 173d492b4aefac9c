from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from tests.kit.cases import for_each
from tests.kit.double import EXAMPLES, REQUIRED, RUN, Double
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.request import Seldom
from tmuxmcp.contract.requests import CreateSession, Read, Run
from tmuxmcp.contract.settings import DEFAULT_SETTINGS, BrokerSettings


def test_every_operation_has_an_example_here():
    assert set(EXAMPLES) == set(OPERATIONS)
    for name, row in OPERATIONS.items():
        assert isinstance(EXAMPLES[name], row.result)


@for_each("row", OPERATIONS.values())
def test_descriptions_are_sentences(row):
    assert row.name.isidentifier()
    assert row.description.endswith(".")
    assert row.title


@pytest.mark.parametrize("name", OPERATIONS)
async def test_only_given_arguments_are_passed_on(name):
    double, call = Double(), Call()
    given = REQUIRED.get(name, {})
    assert await double.perform(OPERATIONS[name], given, call) == EXAMPLES[name]
    assert double.calls == [(name, given, call)]


async def test_text_is_passed_on_as_it_is():
    double = Double()
    for text in ("null", "[1]", '{"a": 1}', " 1 ", "\x00", "'\"\\"):
        await double.perform(OPERATIONS["send"], {"text": text}, Call())
        assert double.calls[-1][1] == {"text": text}
    assert RUN.output == "hi\n"


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("run", {}, "command"),
        ("run", {"command": 1}, "command"),
        ("run", {"command": "true", "timeout_ms": "5"}, "timeout_ms"),
        ("run", {"command": "true", "timeout_ms": 1.5}, "timeout_ms"),
        ("run", {"command": "true", "timeout_ms": True}, "timeout_ms"),
        ("run", {"command": "true", "timeout_ms": -1}, "timeout_ms"),
        ("run", {"command": "true", "session_id": None}, "session_id"),
        ("run", {"command": "true", "max_bytes": 16 * 1024 * 1024 + 1}, "max_bytes"),
        ("run", {"command": "true", "cmd": "x"}, "cmd"),
        ("send", {"keys": 1}, "keys"),
        ("send", {"keys": ["Up", 1]}, "keys.1"),
        ("send", {"enter": "yes"}, "enter"),
        ("read", {"view": "all"}, "view"),
        ("read", {"since": -1}, "since"),
        ("search", {"pattern": "x", "context": 51}, "context"),
        ("search", {"pattern": "x", "limit": 0}, "limit"),
        ("resize", {"rows": 0, "cols": 80}, "rows"),
        ("resize", {"rows": 24, "cols": 501}, "cols"),
        ("signal", {"signal": "SIGNOT"}, "signal"),
        ("create_session", {"env": {"A": 1}}, "env.A"),
        ("health", {"verbose": True}, "verbose"),
        ("health", {"self": 1}, "self"),
    ],
)
async def test_wrong_arguments_are_named_and_do_nothing(name, arguments, problem):
    double = Double()
    with pytest.raises(InvalidArgument) as caught:
        await double.perform(OPERATIONS[name], arguments, Call())
    assert [p["argument"] for p in caught.value.details["problems"]] == [problem]
    assert problem in caught.value.message
    assert caught.value.hint.startswith(f"{name} takes: ")
    assert double.calls == []


def test_many_wrong_arguments_make_a_short_message():
    with pytest.raises(InvalidArgument) as caught:
        OPERATIONS["health"].parse({f"unknown_{number}": 1 for number in range(1000)})
    assert len(caught.value.details["problems"]) == 20


def test_no_name_of_an_argument_is_a_defect():
    for name in ("__dataclass_self__", "self", "cls", "", "\0", "operation", "a b"):
        with pytest.raises(InvalidArgument):
            OPERATIONS["health"].parse({name: 1})


def test_a_schema_has_the_defaults_of_the_settings():
    settings = BrokerSettings(Path("/"), rows=50, scrollback_lines=100, sandbox="auto", max_bytes=99, max_wait_ms=2000)
    create, run = (OPERATIONS[name].schema(settings)["properties"] for name in ("create_session", "run"))
    assert [create[name]["default"] for name in ("rows", "cols", "scrollback_lines", "sandbox")] == [
        50,
        80,
        100,
        "auto",
    ]
    assert (run["max_bytes"]["default"], run["timeout_ms"]["default"]) == (99, 2000)
    assert OPERATIONS["run"].schema(DEFAULT_SETTINGS)["properties"]["max_bytes"]["default"] == 8192


def test_what_is_left_out_is_what_the_settings_say():
    settings = BrokerSettings(Path("/"), rows=50, sandbox="auto", prompt_pattern="> $")
    made = CreateSession(cols=90).filled(settings)
    assert (made.rows, made.cols, made.scrollback_lines) == (50, 90, 5000)
    assert made.sandbox == "none"  # the caller's own wish, of which the stricter one counts
    assert Read(max_bytes=7).filled(settings).max_bytes == 7
    assert Read().filled(settings).max_bytes == 8192
    assert Read().filled(settings).prompt_pattern == ""  # what a caller describes weighs more than a setting


def test_arguments_are_those_that_say_something():
    assert CreateSession("bash", ("-l",), rows=24).arguments() == {"program": "bash", "args": ("-l",), "rows": 24}
    assert Run("true").arguments() == {"command": "true"}


@for_each("row", OPERATIONS.values())
def test_what_only_looks_changes_nothing(row):
    assert not row.read_only or (row.destructive, row.types, row.acts in ("nothing", "file")) == (False, False, True)
    assert (row.session == "none") == ("session_id" not in row.arguments)
    assert (row.scope == "read") == (row.read_only and row.acts == "nothing")


def test_requests_do_not_change():
    with pytest.raises(FrozenInstanceError):
        Run("true").command = "false"


def test_problems_are_told_without_words_of_python():
    for name, arguments in (("send", {"keys": 1}), ("run", {"command": "x", "y": 1})):
        with pytest.raises(InvalidArgument) as caught:
            OPERATIONS[name].parse(arguments)
        problem = caught.value.details["problems"][0]["problem"]
        assert problem in ("Input should be a valid list", "Extra inputs are not permitted")


@pytest.mark.parametrize(
    ("name", "wrong", "meant"),
    [
        ("run", "timeout", "timeout_ms"),
        ("run", "cmd", "command"),
        ("run", "comand", "command"),
        ("run", "timeoutMs", "timeout_ms"),
        ("get_session", "id", "session_id"),
        ("send", "pattren", "pattern"),
        ("create_session", "wait-ready", "wait_ready"),
    ],
)
def test_a_misspelt_argument_is_told_what_it_should_be(name, wrong, meant):
    with pytest.raises(InvalidArgument) as caught:
        OPERATIONS[name].parse({wrong: 1})
    assert f" Did you mean {meant} by {wrong}?" in caught.value.hint


@pytest.mark.parametrize(("name", "wrong"), [("read", "lines"), ("health", "x"), ("run", "")])
def test_what_is_like_no_argument_is_taken_for_none(name, wrong):
    with pytest.raises(InvalidArgument) as caught:
        OPERATIONS[name].parse({wrong: 1})
    assert "mean" not in caught.value.hint


def test_rare_arguments_are_understood_and_listed_only_when_all_is():
    send = OPERATIONS["send"]
    whole, short = (send.schema(DEFAULT_SETTINGS, whole=whole)["properties"] for whole in (True, False))
    assert list(whole) == list(send.arguments)
    assert whole.keys() - short.keys() == set(send.marks(Seldom))
    assert send.parse({"text": "x", "idle_ms": 5}).idle_ms == 5


@for_each("given", ["TERM", "SIGTERM", "sigterm", "term", "15", 15])
@for_each("name", ["signal", "destroy_session"])
def test_a_signal_is_understood_however_it_is_written(name, given):
    assert OPERATIONS[name].parse({"signal": given, "session_id": "x"}).signal == "TERM"


@for_each("given", ["SIG", "SIGSEGV", "11", 0, -15, 15.0, True, None, "TERM KILL", ["TERM"]])
def test_other_signals_are_refused(given):
    with pytest.raises(InvalidArgument):
        OPERATIONS["signal"].parse({"signal": given})


@pytest.mark.parametrize(("given", "meant"), [(True, "always"), (False, "never"), ("auto", "auto")])
def test_bracketed_paste_may_be_true_or_false(given, meant):
    assert OPERATIONS["send"].parse({"text": "x", "bracketed_paste": given}).bracketed_paste == meant


@pytest.mark.parametrize(
    ("name", "arguments", "wrong"),
    [
        ("run", {"command": "echo \ud800"}, "command"),
        ("send", {"keys": ["Up", {"text": "\udfff\udc00"}]}, "keys"),
        ("create_session", {"env": {"A\ud83d": "x"}}, "env"),
        ("run_process", {"argv": ["x", "\ude00"]}, "argv"),
        ("create_session", {"limits": {"duration_s": float("nan")}}, "limits"),
        ("create_session", {"limits": {"memory_mb": float("inf")}}, "limits"),
        ("run", {"command": "x", "timeout_ms": float("-inf")}, "timeout_ms"),
    ],
)
def test_half_of_a_surrogate_pair_nan_and_infinity_are_refused(name, arguments, wrong):
    with pytest.raises(InvalidArgument) as caught:
        OPERATIONS[name].parse(arguments)
    assert [each["argument"] for each in caught.value.details["problems"]] == [wrong]


def test_bytes_that_are_not_utf8_may_stand_escaped():
    assert OPERATIONS["run"].parse({"command": "ls \udcff"}).command == "ls \udcff"
