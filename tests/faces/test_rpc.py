from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.double import EXAMPLES, Double
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.settings import DEFAULT_SETTINGS
from tmuxmcp.contract.value import asdict
from tmuxmcp.faces import rpc
from tmuxmcp.faces.rpc import Rpc

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
CALLS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | JSON, "method": st.sampled_from(["health", "run", "none"]) | JSON},
    optional={"id": JSON, "params": JSON | st.just({"command": "true"})},
)


def answer(asked: bytes, double: Double | None = None) -> object:
    async def ask() -> object:
        reply = await Rpc(double or Double(), lambda name: nullcontext()).answer(asked, Call())
        return None if reply.body is None else json.loads(reply.body)

    return anyio.run(ask)


def check(reply: dict[str, object]) -> None:
    assert reply["jsonrpc"] == "2.0"
    assert set(reply) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    if "error" in reply:
        assert set(reply["error"]) == {"code", "message", "data"}
        assert reply["error"]["data"]["code"].isupper()


@settings(max_examples=60, deadline=None)
@given(JSON | CALLS | st.lists(CALLS | JSON, max_size=3))
def test_whatever_is_asked_the_answer_is_well_formed(asked: object):
    got = answer(json.dumps(asked).encode())
    if isinstance(got, list):
        assert len(got) <= len(asked)
        for each in got:
            check(each)
    elif got is not None:
        check(got)
    else:
        assert all("id" not in each for each in (asked if isinstance(asked, list) else [asked]))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=30))
def test_whatever_bytes_come_the_answer_is_well_formed(data: bytes):
    got = answer(data)
    assert got is not None
    check(got)


@pytest.mark.parametrize("number", ["1e400", "-1e999", '"\\ud800"', '{"a": 1}', "true"])
@pytest.mark.parametrize("several", [False, True])
def test_an_id_that_json_does_not_have_is_not_repeated(number: str, several: bool):
    call = f'{{"jsonrpc": "2.0", "id": {number}, "method": "health", "params": {{"a": 1e400}}}}'
    got = answer((f"[{call}]" if several else call).encode())
    check(error := got[0] if several else got)
    assert (error["id"], error["error"]["code"]) == (None, rpc.INVALID_REQUEST)


@pytest.mark.parametrize("value", ["1e400", '"\\ud800"', '[{"\\ud800": -1e400}]'])
def test_a_value_that_json_does_not_have_is_refused_as_the_callers_mistake(value: str):
    method = '"run"' if value != '"\\ud800"' else value
    call = f'{{"jsonrpc": "2.0", "id": 5, "method": {method}, "params": {{"command": "true", "timeout_ms": {value}}}}}'
    got = answer(call.encode())
    check(got)
    assert (got["id"], got["error"]["code"]) in ((5, rpc.INVALID_PARAMS), (5, rpc.METHOD_NOT_FOUND))


def least(schema: dict[str, Any]) -> Any:
    """A value that a schema allows."""
    if "enum" in schema:
        return schema["enum"][0]
    return {"string": "x", "integer": 1, "boolean": True, "array": ["x"], "object": {}}[schema["type"]]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_a_method(name: str):
    schema = OPERATIONS[name].schema(DEFAULT_SETTINGS)
    params = {each: least(schema["properties"][each]) for each in schema.get("required", ())}
    got = answer(json.dumps({"jsonrpc": "2.0", "id": 1, "method": name, "params": params}).encode())
    assert got["result"] == asdict(EXAMPLES[name])


def test_a_defect_is_an_incident():
    call = {"jsonrpc": "2.0", "id": 1, "method": "run", "params": {"command": "crash"}}
    error = answer(json.dumps(call).encode())["error"]
    assert (error["code"], error["data"]["code"]) == (-32603, "INTERNAL")
    assert "secret detail" not in json.dumps(error)


def test_a_batch_ends_where_its_answers_are_too_long(monkeypatch: pytest.MonkeyPatch):
    """What follows is not done, and said to be not done; what is not answered goes on until then."""
    monkeypatch.setattr(rpc, "MAX_BATCH_BYTES", 10)
    health = {"jsonrpc": "2.0", "method": "health"}
    double = Double()
    got = answer(json.dumps([health | {"id": 1}, health, health | {"id": 2}, health, 5]).encode(), double)
    assert [each["id"] for each in got] == [1, 2, None]
    assert [each.get("error", {}).get("data", {}).get("code") for each in got] == [None, *["RESOURCE_LIMIT"] * 2]
    assert len(double.calls) == 2


@pytest.mark.parametrize(
    ("method", "hint"), [("shell.run", " Did you mean run_process?"), ("nonsense", "describes all.")]
)
def test_a_method_of_another_server_is_told_what_it_is_here(method: str, hint: str):
    error = answer(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode())["error"]
    assert error["code"] == -32601
    assert error["data"]["hint"].endswith(hint)
