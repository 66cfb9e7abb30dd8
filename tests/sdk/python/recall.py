"""Reads originals through `longhaul mcp` with the official Python SDK, over stdio and over HTTP.

Arguments: the program, the ID of an original, the URL of the MCP server over HTTP. Prints JSON.
"""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def talk(session: ClientSession, original: str) -> dict:
    await session.initialize()
    tools = await session.list_tools()

    async def call(name: str, **arguments: str) -> str:
        result = await session.call_tool(name, arguments)
        return result.content[0].text

    return {
        "tools": [tool.name for tool in tools.tools],
        "recall": await call("recall", id=original),
        "grep": await call("recall", id=original, grep="of 000", lines="1-2"),
        "search": await call("search_history", id=original, pattern="of 003"),
        "outline": await call("conversation_outline", id=original),
        "wrong": await call("recall", id="wrong"),
    }


async def main() -> None:
    program, original, url = sys.argv[1:]
    server = StdioServerParameters(command=program, args=["mcp"], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        over_stdio = await talk(session, original)
    async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
        over_http = await talk(session, original)
    print(json.dumps({"stdio": over_stdio, "http": over_http}))


asyncio.run(main())
