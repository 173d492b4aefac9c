"""Fixtures of 2026-07-28, where a call that needs something is answered with what it needs and is made again.

Where the suite asks for a confirmation with a state, the product's own questions (`faces/mcp.py`) stand in.
"""

from __future__ import annotations

import json
from typing import Any

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
)

from tests.conformance.forms import asked, object_of, prompt, said, tool, words
from tmuxmcp.contract.call import Question
from tmuxmcp.faces.mcp import NeedsInput, OpenQuestions

Context = ServerRequestContext[Any, Any]

asking = OpenQuestions()


def ask(message: str, **properties: str) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=object_of(**properties)))


def sample(text: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=words(text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=50))


def wanting(state: str | None = None, **requests: Any) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


def filled(params: Any, key: str, field: str) -> str | None:
    """What the person filled in; None when nothing came, or something else."""
    answer = (params.input_responses or {}).get(key)
    accepted = isinstance(answer, ElicitResult) and answer.action == "accept"
    value = (answer.content or {}).get(field) if accepted else None
    return value if isinstance(value, str) else None


async def confirmed(ctx: Context, params: Any) -> Any:
    """What a tool of the product does that a person has to allow."""
    try:
        agreed = await asking.of(ctx, params)(Question("Please confirm", params.name))
    except NeedsInput as needed:
        return needed.result
    return said("state-ok" if agreed else "declined")


@tool()
async def test_input_required_result_request_state(ctx: Context, params: Any) -> Any:
    return await confirmed(ctx, params)


@tool()
async def test_input_required_result_tampered_state(ctx: Context, params: Any) -> Any:
    return await confirmed(ctx, params)


@tool()
async def test_input_required_result_elicitation(ctx: Context, params: Any) -> Any:
    name = filled(params, "user_name", "name")
    return said(f"Hello, {name}!") if name else wanting(user_name=ask("What is your name?", name="string"))


@tool()
async def test_streaming_elicitation(ctx: Context, params: Any) -> Any:
    return said("ok") if filled(params, "name", "name") else wanting(name=ask("Your name?", name="string"))


@tool()
async def test_input_required_result_sampling(ctx: Context, params: Any) -> Any:
    answer = (params.input_responses or {}).get("capital_question")
    if isinstance(answer, CreateMessageResult):
        return said(f"Model said: {answer.content}")
    return wanting(capital_question=sample("What is the capital of France?"))


@tool()
async def test_input_required_result_list_roots(ctx: Context, params: Any) -> Any:
    answer = (params.input_responses or {}).get("client_roots")
    if isinstance(answer, ListRootsResult):
        return said(f"{len(answer.roots)} roots")
    return wanting(client_roots=ListRootsRequest())


@tool()
async def test_input_required_result_multiple_inputs(ctx: Context, params: Any) -> Any:
    wanted = {
        "user_name": ask("What is your name?", name="string"),
        "greeting": sample("Generate a greeting"),
        "client_roots": ListRootsRequest(),
    }
    if wanted.keys() <= (params.input_responses or {}).keys():
        return said("All inputs received.")
    return wanting("multi", **wanted)


@tool()
async def test_input_required_result_multi_round(ctx: Context, params: Any) -> Any:
    state = json.loads(params.request_state or '{"round": 0}')
    if state["round"] == 1 and (name := filled(params, "step1", "name")):
        step = ask("Step 2: favourite colour?", color="string")
        return wanting(json.dumps({"round": 2, "name": name}), step2=step)
    if state["round"] == 2 and (colour := filled(params, "step2", "color")):
        return said(f"{state['name']} likes {colour}.")
    return wanting('{"round": 1}', step1=ask("Step 1: name?", name="string"))


@tool()
async def test_input_required_result_capabilities(ctx: Context, params: Any) -> Any:
    can = ctx.session.client_capabilities
    wanted: dict[str, Any] = {}
    if can is None or can.sampling is not None:
        wanted["sample"] = sample("Say hello")
    if can is None or can.elicitation is not None:
        wanted["ask"] = ask("What is your name?", name="string")
    return wanting("capabilities", **wanted)


@prompt()
async def test_input_required_result_prompt(ctx: Context, params: Any) -> Any:
    context = filled(params, "user_context", "context")
    if context:
        return asked(f"Use the following context: {context}")
    return wanting(user_context=ask("What context?", context="string"))


@tool()
async def test_missing_capability(ctx: Context, params: Any) -> Any:
    can = ctx.session.client_capabilities
    if can is None or can.sampling is None:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling required", data)
    return said("ok")
