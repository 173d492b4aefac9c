"""How calls and answers travel between machines."""

from __future__ import annotations

import json

import pytest

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import Internal, InvalidArgument, SessionBusy, TmuxMcpError, all_errors
from tmuxmcp.contract.results import ResizeResult
from tmuxmcp.contract.settings import Limits
from tmuxmcp.nodes import transport


def over(value):
    """As it is at the other end."""
    return json.loads(json.dumps(value))


def test_requests_arrive_as_they_were():
    for request in (
        q.Run("printf 'a\udc80b'", "build", timeout_ms=0),
        q.CreateSession("bash", ["-l"], env={"A": "b"}, limits=Limits(memory_mb=5), record="on_failure"),
        q.Send(keys=["Up", {"text": "x"}], steps=[{"text": "y"}]),
        q.Wait(["a", "b"], "pattern", ["c"]),
        q.Read("raw", since=0),
        q.Health(),
    ):
        assert transport.request_received(over(transport.request_sent(request))) == request


def test_a_request_that_this_version_does_not_know_is_refused():
    with pytest.raises(InvalidArgument, match="version"):
        transport.request_received({"operation": "fly", "arguments": {}})
    with pytest.raises(InvalidArgument, match="wings"):
        transport.request_received({"operation": "run", "arguments": {"command": "true", "wings": 2}})


def test_a_call_arrives_with_its_caller():
    call = Call("agent-1", frozenset({"read"}), client="token", answers="abc", person=True)
    assert transport.call_received(over(transport.call_sent(call))) == call
    assert transport.call_received(transport.call_sent(call) | {"scopes": ["read", "root"]}).scopes == {"read"}


def test_results_and_errors_arrive_as_they_were():
    resize = q.Resize(30, 90)
    result = ResizeResult(session_id="a", rows=30, cols=90, scrollback_lines=1)
    assert transport.answer_received(resize, over(transport.answer_sent(result))) == result
    newer = over(transport.answer_sent(result))
    newer["result"]["colour"] = "red"
    assert transport.answer_received(resize, newer) == result
    for cls in all_errors():
        error = cls("No.", hint="Try.", session_id="a")
        with pytest.raises(TmuxMcpError) as told:
            transport.answer_received(resize, over(transport.answer_sent(error)))
        assert type(told.value) is cls
        assert told.value.as_dict() == error.as_dict()
    assert isinstance(TmuxMcpError.received(SessionBusy("x").as_dict() | {"code": "NEW"}), Internal)
