"""A tool with predetermined latencies."""

import asyncio
from collections.abc import Sequence

from benchmarks.rollouts.conversations import SCHEMA, TOOL, Conversation
from services.contracts.base import JsonObject
from services.contracts.rollouts.trajectories import CallOutcome
from services.rollouts.tools.base import ToolReply

REPLY = "The program ended after 0.02 s and printed:\n1234567\n"


class DrawnLatency:
    """Answers a conversation's call after its predetermined latency."""

    schemas = (SCHEMA,)

    def __init__(self, conversations: Sequence[Conversation]) -> None:
        self._latencies = {each.prompt.index: each.latencies for each in conversations}

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        assert name == TOOL
        conversation, position = (arguments or {})["place"]
        seconds = self._latencies[conversation][position]
        await asyncio.sleep(seconds)
        return ToolReply(CallOutcome.ANSWERED, REPLY, None, 1, seconds)

    async def probe(self, name: str) -> str | None:
        """Report the tool as available."""
        return None if name == TOOL else f"there is no tool {name}"
