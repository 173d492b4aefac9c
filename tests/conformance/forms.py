"""The tables of fixtures that the conformance suite calls by name, and the forms that they answer with."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp.server import ServerRequestContext
from mcp.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Prompt,
    PromptArgument,
    PromptMessage,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
)

Context = ServerRequestContext[Any, Any]
Function = Callable[[Context, Any], Awaitable[Any]]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
"""One pixel, and one sample."""

RESOURCES = {
    "test://static-text": "This is the content of the static text resource.",
    "test://watched-resource": "watched",
}
TEMPLATE = ResourceTemplate(name="template", uri_template="test://template/{id}/data", mime_type="text/plain")


@dataclass(frozen=True)
class Row:
    """A tool or a prompt of the suite: how it is listed, and what answers it."""

    form: Any
    answer: Function


TOOLS: dict[str, Row] = {}
PROMPTS: dict[str, Row] = {}


def tool(schema: dict[str, Any] | None = None, **properties: str) -> Callable[[Function], Function]:
    """Put a function into the table of tools under its own name.

    Args:
        schema: its whole input schema, where names and types of properties do not tell it.
    """

    def put(function: Function) -> Function:
        name = function.__name__
        TOOLS[name] = Row(Tool(name=name, description=name, input_schema=schema or object_of(**properties)), function)
        return function

    return put


def prompt(*arguments: str) -> Callable[[Function], Function]:
    """Put a function into the table of prompts under its own name."""

    def put(function: Function) -> Function:
        name = function.__name__
        wanted = [PromptArgument(name=argument, required=True) for argument in arguments]
        PROMPTS[name] = Row(Prompt(name=name, description=name, arguments=wanted), function)
        return function

    return put


def described() -> list[Resource]:
    """The resources as they are listed."""
    return [Resource(name=uri.removeprefix("test://"), uri=uri) for uri in (*RESOURCES, "test://static-binary")]


def object_of(**properties: str) -> dict[str, Any]:
    """A schema of required properties by their types."""
    types = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": types, "required": list(types)}


def encoded(data: bytes) -> str:
    """Bytes as MCP carries them."""
    return base64.b64encode(data).decode()


def words(text: str) -> TextContent:
    """Text of a result or message."""
    return TextContent(type="text", text=text)


def said(*content: Any) -> CallToolResult:
    """A tool's result; strings stand for text."""
    return CallToolResult(content=[words(each) if isinstance(each, str) else each for each in content])


def asked(*content: Any) -> GetPromptResult:
    """A prompt's messages; strings stand for text."""
    blocks = [words(each) if isinstance(each, str) else each for each in content]
    return GetPromptResult(messages=[PromptMessage(role="user", content=block) for block in blocks])


def picture() -> ImageContent:
    """A picture."""
    return ImageContent(type="image", data=encoded(PNG), mime_type="image/png")


def sound() -> AudioContent:
    """A sound."""
    return AudioContent(type="audio", data=encoded(WAV), mime_type="audio/wav")


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    """A resource within a result."""
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))
