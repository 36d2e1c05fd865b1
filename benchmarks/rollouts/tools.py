"""A tool with predetermined latencies."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from benchmarks.rollouts.conversations import SCHEMA, TOOL, Conversation
from services.contracts.base import JsonObject
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.contracts.rollouts.trajectories import CallOutcome
from services.rollouts.tools.base import EpisodeStart, ToolReply

REPLY = "The program ended after 0.02 s and printed:\n1234567\n"


class DrawnLatency:
    """Answers a conversation's call after its predetermined latency."""

    schemas = (SCHEMA,)
    opening: str | None = None
    environments: Sequence[EnvironmentRecord] = ()

    def __init__(self, conversations: Sequence[Conversation]) -> None:
        self._latencies = {each.prompt.index: each.latencies for each in conversations}

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        assert name == TOOL
        conversation, position = (arguments or {})["place"]
        seconds = self._latencies[conversation][position]
        await asyncio.sleep(seconds)
        return ToolReply(CallOutcome.ANSWERED, REPLY, None, 1, seconds)

    def offered(self, _source: str | None) -> tuple[JsonObject, ...]:
        """The one tool, whatever the row."""
        return self.schemas

    @asynccontextmanager
    async def episode(self, _start: EpisodeStart) -> AsyncIterator["DrawnLatency"]:
        """The tool itself: it has no sessions."""
        yield self

    async def discover(self, position: int) -> str | None:
        """Refuse: there is no server."""
        return f"no server tells the tools of declaration {position}"

    async def probe(self, name: str) -> str | None:
        """Report the tool as available."""
        return None if name == TOOL else f"there is no tool {name}"
