"""One run of a response: turns of the model and calls of the server's tools, until it ends."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass

from services.api.responses.store import End, Progress, server_error
from services.api.responses.tools.declared import OpenTools, ServerTools
from services.api.serving.forward import Inference
from services.api.serving.turns import turn
from services.contracts.base import JsonObject
from services.contracts.errors import BadGateway, GatewayTimeout, TemperError, Unavailable
from services.dialects.deltas import Delta
from services.dialects.exchange import Event
from services.dialects.responses_writer import ResponseWriter, ServerCall

MAX_TURN_FAILURES = 3
"""Engines that may die in one turn of a background response."""
LONGEST_WAIT = 30.0
"""Seconds between two tries of a turn."""

Keep = Callable[[Progress], Awaitable[bool]]


class Lost(Exception):
    """The response was cancelled or deleted, or another gateway continues it."""


@dataclass(frozen=True)
class Limits:
    """Of one run: seconds, turns, completion tokens, and calls of the server's tools."""

    seconds: float
    turns: int
    tokens: int
    tool_calls: int | None = None


@dataclass(frozen=True)
class Asked:
    """What a response asks of the model. ``options`` are fields of a chat completion beside
    messages and tools; ``max_output_tokens`` bounds all turns together."""

    principal: str
    options: JsonObject
    messages: list[JsonObject]
    functions: list[JsonObject]
    streamed: bool
    max_output_tokens: int | None


class Run:
    """Plays a response. ``end`` is set before the last event, and ``error`` if it failed.

    ``keep`` stores what is finished; it returns whether the run may go on. A ``patient`` run waits
    for engines and repeats a turn whose engine died.
    """

    def __init__(
        self,
        inference: Inference,
        asked: Asked,
        tools: ServerTools,
        writer: ResponseWriter,
        limits: Limits,
        keep: Keep,
        *,
        patient: bool,
    ) -> None:
        self.end: End | None = None
        self.error: TemperError | None = None
        self._inference = inference
        self._asked = asked
        self._tools = tools
        self._writer = writer
        self._limits = limits
        self._keep = keep
        self._patient = patient
        self._messages = list(asked.messages)
        self._deadline = asyncio.get_running_loop().time() + limits.seconds
        self._tool_calls = 0

    @property
    def progress(self) -> Progress:
        """What is finished so far."""
        return Progress(list(self._writer.output), self._writer.usage)

    def body(self) -> JsonObject:
        """The response, once it has ended."""
        assert self.end is not None  # noqa: S101 - the caller has read all events
        return self._writer.body(self.end.status, self.end.error, self.end.reason)

    async def events(self) -> AsyncGenerator[Event, None]:
        """All events; raises `Lost`."""
        for event in self._writer.begin():
            yield event
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout_at(self._deadline):
                    tools = await self._tools.open(stack)
                async with aclosing(self._played(tools)) as played:
                    async for event in played:
                        yield event
        except TimeoutError:
            message = f"took longer than the {self._limits.seconds:g} s that the operator allows"
            self.error = GatewayTimeout(message)
        except TemperError as error:
            self.error = error
        if self.error is not None:
            self.end = End("failed", server_error(self.error.message, self.error.code))
        self.end = end = self.end or End("completed")
        for event in self._writer.end(end.status, error=end.error, reason=end.reason):
            yield event

    async def _played(self, tools: OpenTools) -> AsyncGenerator[Event, None]:
        for event in tools.listing(self._writer):
            yield event
        for _ in range(self._limits.turns):
            async with aclosing(self._turn(tools)) as events:
                async for event in events:
                    yield event
            for event in self._writer.end_turn():
                yield event
            # Nothing is stored between a turn and its first reply: a run that continues repeats the
            # turn, and the last turn is stored together with the end.
            self.end = self._ended_by_turn()
            if self.end is not None:
                return
            async with aclosing(self._called(tools)) as events:
                async for event in events:
                    yield event
            if self.end is not None:
                return
        self.end = End("incomplete", reason="max_turns")

    def _ended_by_turn(self) -> End | None:
        writer = self._writer
        if writer.finish == "length":
            return End("incomplete", reason="max_output_tokens")
        if not writer.server_calls:
            return End("completed")
        if writer.usage.completion_tokens >= self._tokens():
            return End("incomplete", reason="max_output_tokens")
        return None

    async def _turn(self, tools: OpenTools) -> AsyncGenerator[Event, None]:
        """The events of one turn, which is repeated if its engine dies."""
        failures = 0
        while True:
            self._writer.begin_turn()
            try:
                async with aclosing(self._once(tools)) as events:
                    async for event in events:
                        yield event
                return
            except (BadGateway, Unavailable, GatewayTimeout) as error:
                failures += isinstance(error, BadGateway)
                if not self._patient or failures > MAX_TURN_FAILURES:
                    raise
                wait = 0.5 if isinstance(error, BadGateway) else error.retry_after
                async with asyncio.timeout_at(self._deadline):
                    await asyncio.sleep(min(wait, LONGEST_WAIT))
            self._writer.begin_turn()
            for event in self._writer.begin():
                yield event

    async def _once(self, tools: OpenTools) -> AsyncGenerator[Event, None]:
        schemas = [*self._asked.functions, *tools.schemas]
        body: JsonObject = {**self._asked.options, "messages": self._messages}
        body |= {"tools": schemas} if schemas else {}
        body |= {"stream": True} if self._asked.streamed else {}
        if self._asked.max_output_tokens is not None:
            left = self._asked.max_output_tokens - self._writer.usage.completion_tokens
            body["max_tokens"] = max(1, left)
        async with aclosing(turn(self._inference, body, self._asked.principal)) as deltas:
            while (delta := await self._next(deltas)) is not None:
                for event in self._writer.feed(delta):
                    yield event

    async def _next(self, deltas: AsyncGenerator[Delta, None]) -> Delta | None:
        async with asyncio.timeout_at(self._deadline):
            return await anext(deltas, None)

    async def _called(self, tools: OpenTools) -> AsyncGenerator[Event, None]:
        """Run the turn's calls of the server's tools. Where the caller has calls of its own to
        answer, the response ends after them."""
        calls = list(self._writer.server_calls)
        self._messages.append(self._spoken(calls))
        for call in calls:
            if self._tool_calls == self._limits.tool_calls:
                self.end = End("incomplete", reason="max_tool_calls")
                return
            self._tool_calls += 1
            for event in tools.begin(call, self._writer):
                yield event
            async with asyncio.timeout_at(self._deadline):
                reply = await tools.call(call)
            for event in tools.end(reply, self._writer):
                yield event
            await self._check_kept()
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": reply.text})
        if self._writer.calls:
            self.end = End("completed")

    def _spoken(self, calls: list[ServerCall]) -> JsonObject:
        """The turn as a message of the conversation."""
        return {
            "role": "assistant",
            "content": self._writer.text,
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments or "{}"},
                }
                for call in calls
            ],
        }

    def _tokens(self) -> int:
        asked = self._asked.max_output_tokens
        return self._limits.tokens if asked is None else min(asked, self._limits.tokens)

    async def _check_kept(self) -> None:
        if not await self._keep(self.progress):
            raise Lost
