"""The floor: a server of the same SDK with one tool that does nothing, over the SDK's own stdio."""

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool


async def list_tools(ctx, params):  # type: ignore[no-untyped-def]
    return ListToolsResult(tools=[Tool(name="noop", input_schema={"type": "object"})])


async def call_tool(ctx, params):  # type: ignore[no-untyped-def]
    return CallToolResult(content=[TextContent(type="text", text="")])


async def main() -> None:
    server = Server("noop", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
