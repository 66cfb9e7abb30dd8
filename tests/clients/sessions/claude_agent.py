"""A session over the Claude Agent SDK, which starts the Claude Code that it carries."""

import asyncio
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query


async def main(task):
    options = ClaudeAgentOptions(
        model="claude-opus-5-5", allowed_tools=["Read"], max_turns=400, setting_sources=[]
    )
    async for message in query(prompt=task, options=options):
        if isinstance(message, ResultMessage):
            print(message.result)


asyncio.run(main(sys.argv[1]))
