"""Fixtures that every revision asks for, and those of the eras in which a server may ask the client by itself."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server import ServerRequestContext
from mcp.types import SamplingMessage

from tests.conformance.forms import asked, embedded, object_of, picture, prompt, said, sound, tool, words
from tmuxmcp.contract.errors import IoError
from tmuxmcp.faces.mcp import as_error

Context = ServerRequestContext[Any, Any]

PAUSE_S = 0.05
"""What the suite asks for between two notifications."""

# ---- content -----------------------------------------------------------------------------------


@tool()
async def test_simple_text(ctx: Context, params: Any) -> Any:
    return said("This is a simple text response for testing.")


@tool()
async def test_image_content(ctx: Context, params: Any) -> Any:
    return said(picture())


@tool()
async def test_audio_content(ctx: Context, params: Any) -> Any:
    return said(sound())


@tool()
async def test_embedded_resource(ctx: Context, params: Any) -> Any:
    return said(embedded("test://embedded-resource", "This is an embedded resource content."))


@tool()
async def test_multiple_content_types(ctx: Context, params: Any) -> Any:
    data = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return said("Multiple content types test:", picture(), data)


@tool()
async def test_error_handling(ctx: Context, params: Any) -> Any:
    return as_error(IoError("This tool intentionally returns an error for testing", hint="None."), "call")


@prompt()
async def test_simple_prompt(ctx: Context, params: Any) -> Any:
    return asked("This is a simple prompt for testing.")


@prompt("arg1", "arg2")
async def test_prompt_with_arguments(ctx: Context, params: Any) -> Any:
    return asked("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'".format(**params.arguments))


@prompt("resourceUri")
async def test_prompt_with_embedded_resource(ctx: Context, params: Any) -> Any:
    resource = embedded(params.arguments["resourceUri"], "Embedded resource content for testing.")
    return asked(resource, "Please process the embedded resource above.")


@prompt()
async def test_prompt_with_image(ctx: Context, params: Any) -> Any:
    return asked(picture(), "Please analyze the image above.")


@tool(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}}}},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(ctx: Context, params: Any) -> Any:
    return said("ok")


# ---- notifications -----------------------------------------------------------------------------


@tool()
async def test_tool_with_logging(ctx: Context, params: Any) -> Any:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", line, related_request_id=ctx.request_id)
        await anyio.sleep(PAUSE_S)
    return said("ok")


@tool()
async def test_logging_tool(ctx: Context, params: Any) -> Any:
    await ctx.session.send_log_message("info", "log line", related_request_id=ctx.request_id)
    return said("ok")


@tool()
async def test_tool_with_progress(ctx: Context, params: Any) -> Any:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(PAUSE_S)
    return said("ok")


# ---- asking the client -------------------------------------------------------------------------


@tool(prompt="string")
async def test_sampling(ctx: Context, params: Any) -> Any:
    message = SamplingMessage(role="user", content=words(params.arguments["prompt"]))
    given = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return said(f"LLM response: {given.content.text}")  # type: ignore[union-attr]


async def elicited(ctx: Context, message: str, schema: dict[str, Any]) -> Any:
    given = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return said(f"Elicitation completed: action={given.action}, content={given.content}")


@tool(message="string")
async def test_elicitation(ctx: Context, params: Any) -> Any:
    return await elicited(ctx, params.arguments["message"], object_of(username="string", email="string"))


@tool()
async def test_elicitation_sep1034_defaults(ctx: Context, params: Any) -> Any:
    schema = object_of(name="string", age="integer", score="number", status="string", verified="boolean")
    schema["properties"]["status"]["enum"] = ["active", "inactive", "pending"]
    defaults = {"name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": True}
    for name, value in defaults.items():
        schema["properties"][name]["default"] = value
    return await elicited(ctx, "Please provide user information", schema)


@tool()
async def test_elicitation_sep1330_enums(ctx: Context, params: Any) -> Any:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
    properties = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await elicited(ctx, "Please select options", {"type": "object", "properties": properties})
