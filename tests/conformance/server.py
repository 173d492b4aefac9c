"""`tmuxmcp serve` with the fixtures that the conformance suite calls by name, and nothing else changed.

The suite asks for tools such as `test_image_content`, which a product has no use for. They are put beside our own, into
the server that `faces/mcp.py` builds: its sessions, transports, limits and answers are the product's.
`python -m tests.conformance.server serve --http 127.0.0.1:0 --no-token`
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from mcp import MCPDeprecationWarning, MCPError
from mcp.server.lowlevel import Server
from mcp.types import (
    INVALID_PARAMS,
    BlobResourceContents,
    CallToolRequestParams,
    EmptyResult,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    SetLevelRequestParams,
    TextResourceContents,
)

from tests.conformance import earlier, rounds
from tests.conformance.forms import PNG, PROMPTS, RESOURCES, TEMPLATE, TOOLS, Context, Row, described, encoded
from tmuxmcp.__main__ import main
from tmuxmcp.faces.mcp import McpFace

FIXTURES = (earlier, rounds)
"""Imported for the rows that they put into the tables."""


Handler = Callable[[Context, Any], Awaitable[Any]]


own_server = McpFace.server


def with_fixtures(face: McpFace) -> Server[dict[str, Any]]:
    """The product's server, and the fixtures before its own tools, resources and prompts."""
    server = own_server(face)
    wrappers: dict[str, tuple[type[Any], Callable[[Handler], Handler]]] = {
        "tools/list": (PaginatedRequestParams, partial(listing, "tools", [row.form for row in TOOLS.values()])),
        "prompts/list": (PaginatedRequestParams, partial(listing, "prompts", [row.form for row in PROMPTS.values()])),
        "resources/list": (PaginatedRequestParams, partial(listing, "resources", described())),
        "resources/templates/list": (PaginatedRequestParams, partial(listing, "resource_templates", [TEMPLATE])),
        "tools/call": (CallToolRequestParams, partial(named, TOOLS)),
        "prompts/get": (GetPromptRequestParams, partial(named, PROMPTS)),
        "resources/read": (ReadResourceRequestParams, reading),
    }
    for method, (kind, wrap) in wrappers.items():
        entry = server.get_request_handler(method)
        assert entry
        server.add_request_handler(method, kind, wrap(entry.handler))
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
    return server


def listing(field: str, more: list[Any], own: Handler) -> Handler:
    """The product's list with the fixtures before it."""

    async def listed(ctx: Context, params: Any) -> Any:
        result = await own(ctx, params)
        return result.model_copy(update={field: [*more, *getattr(result, field)]})

    return listed


def named(table: Mapping[str, Row], own: Handler) -> Handler:
    """A fixture where the name is one's, else the product."""

    async def called(ctx: Context, params: Any) -> Any:
        row = table.get(params.name)
        return await (row.answer if row else own)(ctx, params)

    return called


def reading(own: Handler) -> Handler:
    """The fixture's text where the URI is one's, else the product's resource."""

    async def read(ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        uri = str(params.uri)
        if uri == "test://static-binary":
            return ReadResourceResult(
                contents=[BlobResourceContents(uri=uri, mime_type="image/png", blob=encoded(PNG))]
            )
        text = RESOURCES.get(uri)
        if uri.startswith("test://template/"):
            text = f'{{"id": "{uri.split("/")[3]}", "templateTest": true}}'
        if text is not None:
            return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="text/plain", text=text)])
        if uri.startswith("test://"):
            raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})
        result: ReadResourceResult = await own(ctx, params)
        return result

    return read


async def set_level(ctx: Context, params: SetLevelRequestParams) -> EmptyResult:
    """Every level is told anyway."""
    return EmptyResult()


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    McpFace.server = with_fixtures  # type: ignore[method-assign]  # of every server that is made from now on
    sys.exit(main())
