"""Running the tool calls of one turn, and cutting their replies to length."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.contracts.multi_turn import CountedCalls, MultiTurn, TruncateSide
from services.contracts.trajectories import KEPT_REPLY_CHARACTERS, CallOutcome, ToolCallRecord, Turn
from services.rollouts.parsers import ParsedCall
from services.rollouts.tools.base import Toolbox

Clock = Callable[[], float]
"""Seconds since the rollout began."""


@dataclass(frozen=True)
class CallRun:
    """An executed call; ``shown`` is the tool turn that the model will read."""

    record: ToolCallRecord
    shown: str


class CallRunner:
    """Executes calls with a job's tools and truncates their replies."""

    def __init__(self, toolbox: Toolbox, settings: MultiTurn) -> None:
        self._toolbox = toolbox
        self._settings = settings

    async def run(self, calls: Sequence[ParsedCall], clock: Clock) -> list[CallRun]:
        """Execute ``calls`` concurrently; results are in the order of the calls."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run(call, clock)) for call in calls]
        return [task.result() for task in tasks]

    async def _run(self, call: ParsedCall, clock: Clock) -> CallRun:
        started = clock()
        reply = await self._toolbox.call(call.name, call.arguments)
        answered = reply.outcome is CallOutcome.ANSWERED
        record = ToolCallRecord(
            name=call.name,
            arguments=call.arguments,
            outcome=reply.outcome,
            reply=reply.text[:KEPT_REPLY_CHARACTERS] if answered else None,
            reply_characters=len(reply.text) if answered else 0,
            error=reply.error,
            attempts=reply.attempts,
            started=started,
            seconds=clock() - started,
        )
        settings = self._settings
        return CallRun(
            record,
            truncated(
                reply.text, settings.max_tool_response_length, settings.tool_response_truncate_side
            ),
        )


def allowed_calls(settings: MultiTurn, turns: Sequence[Turn]) -> int:
    """How many calls may still be executed after ``turns``."""
    if settings.max_tool_calls is None:
        return settings.max_parallel_calls
    ran = [turn.calls_run for turn in turns]
    if settings.count_tool_calls is CountedCalls.TURNS:
        left = settings.max_tool_calls - sum(map(bool, ran))
        return settings.max_parallel_calls if left > 0 else 0
    return max(0, min(settings.max_parallel_calls, settings.max_tool_calls - sum(ran)))


def dropped(call: ParsedCall) -> ToolCallRecord:
    """The record of a call that is not executed."""
    return ToolCallRecord(name=call.name, arguments=call.arguments, outcome=CallOutcome.DROPPED)


def truncated(text: str, limit: int, side: TruncateSide) -> str:
    """At most ``limit`` characters of a reply, with a marker where text was removed.

    The marker is not counted; in the middle, an odd ``limit`` keeps one character less.
    """
    if len(text) <= limit:
        return text
    match side:
        case TruncateSide.LEFT:
            return text[:limit] + "...(truncated)"
        case TruncateSide.RIGHT:
            return "(truncated)..." + text[len(text) - limit :]
        case TruncateSide.MIDDLE:
            half = limit // 2
            return text[:half] + "...(truncated)..." + text[len(text) - half :]
