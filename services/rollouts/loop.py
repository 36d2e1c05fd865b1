"""The multi-turn loop: sample a turn, execute its tool calls, insert their truncated replies,
repeat.

A rollout that the infrastructure failed is played again, and left out if that does not help
(docs/failures.md)."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.rollouts.multi_turn import (
    CountedCalls,
    MultiTurn,
    OnToolError,
    TruncateSide,
)
from services.contracts.rollouts.sources import source_of
from services.contracts.rollouts.trajectories import (
    KEPT_REPLY_CHARACTERS,
    CallOutcome,
    FinishReason,
    ToolCallRecord,
    Trajectory,
    Turn,
)
from services.core.ids import new_id
from services.inference.causes import cause_of
from services.inference.token_engine.base import EngineFailed
from services.rollouts.activity import Activity, Phase
from services.rollouts.models.base import Conversation, ConversationModel
from services.rollouts.parsers import ParsedCall
from services.rollouts.prompts import Prompt
from services.rollouts.recording import CallRun, Recording, RolloutEnd
from services.rollouts.tools.base import Episode, EpisodeFailed, Toolbox

_log = logging.getLogger(__name__)

MAX_PLAYS = 3
"""How often a rollout is played, if a tool is unavailable each time."""
ENGINE = "engine"
TEMPER = "temper"


class Rollouts:
    """Plays conversations of a model with tools, many concurrently; ``activity`` tracks their
    phases."""

    def __init__(
        self,
        model: ConversationModel,
        toolbox: Toolbox,
        settings: MultiTurn,
        activity: Activity | None = None,
    ) -> None:
        self._model = model
        self._toolbox = toolbox
        self._settings = settings
        self._activity = activity or Activity()

    async def play(
        self,
        prompt: Prompt,
        *,
        sample_index: int = 0,
        seed: int | None = None,
        seed_index: int | None = None,
        trajectory_id: str | None = None,
    ) -> Trajectory:
        """Play one rollout to completion. Failures are recorded in the trajectory: only
        ``CancelledError`` is raised.

        The same ``seed`` may be used for many rollouts: each turn of each sample derives its own,
        from ``seed_index`` or else the index of the prompt. A rollout whose tool is unavailable is
        played again from its prompt, with the same seeds, up to `MAX_PLAYS` times.
        """
        name = trajectory_id or new_id("traj")
        failures: Counter[str] = Counter()
        for plays in range(1, MAX_PLAYS + 1):
            tools = self._offered(prompt)
            recording = Recording(name, prompt, tools, sample_index, seed, seed_index)
            ending = await self._play_once(recording)
            failures += _failures(recording, ending)
            lost = ending.left_out
            again = ending.reason is FinishReason.TOOL_UNAVAILABLE and lost and lost.cause.may_pass
            if not again or plays == MAX_PLAYS:
                break
        played = {"infrastructure_failures": dict(failures), "plays": plays}
        return recording.trajectory(ending).model_copy(update=played)

    def _offered(self, prompt: Prompt) -> Sequence[JsonObject]:
        if not self._settings.multi_turn_enable:
            return ()
        return self._toolbox.offered(source_of(prompt.extra))

    async def _play_once(self, recording: Recording) -> RolloutEnd:
        try:
            if not self._settings.multi_turn_enable:
                return await self._play(recording, None)
            async with AsyncExitStack() as stack:
                with self._activity.during(Phase.TOOLS):
                    episode = await stack.enter_async_context(
                        self._toolbox.episode(recording.episode_start())
                    )
                recording.enter(episode)
                return await self._play(recording, episode)
        except EpisodeFailed as error:
            message = f"{error.lost.source}: {error.lost.message}"
            return RolloutEnd(FinishReason.TOOL_UNAVAILABLE, message, left_out=error.lost)
        except EngineFailed as error:
            return _engine_failed(error)
        except Exception as error:
            _log.exception("the rollout of prompt %d failed", recording.prompt.index)
            cause = _first(error)
            message = f"{type(cause).__name__}: {cause}"
            lost = LeftOut(source=TEMPER, cause=InfrastructureCause.INTERNAL_ERROR, message=message)
            return RolloutEnd(FinishReason.INTERNAL_ERROR, message, left_out=lost)

    async def _play(self, recording: Recording, episode: Episode | None) -> RolloutEnd:
        begun = self._model.begin(recording, recording.prompt, recording.tools)
        if isinstance(begun, RolloutEnd):
            return begun
        while True:
            ending = await self._turn(begun, recording, episode)
            if ending is not None:
                return ending

    async def _turn(
        self, conversation: Conversation, recording: Recording, episode: Episode | None
    ) -> RolloutEnd | None:
        """One turn of the model and its calls; None while the conversation continues."""
        with self._activity.during(Phase.GENERATE):
            said = await conversation.turn()
        turn, calls = said.turn, said.calls
        if not calls or episode is None:
            ended = turn.finish_reason == "stop"
            return RolloutEnd(FinishReason.ANSWERED if ended else FinishReason.LENGTH)
        kept = calls[: allowed_calls(self._settings, recording.turns)]
        if recording.tokens_left <= 0:
            turn.calls += map(dropped, calls)
            return RolloutEnd(FinishReason.LENGTH)
        if not kept:
            turn.calls += map(dropped, calls)
            return RolloutEnd(FinishReason.CALLS_SPENT)
        ending = await self._reply(conversation, recording, episode, turn, kept)
        turn.calls += map(dropped, calls[len(kept) :])
        return ending

    async def _reply(
        self,
        conversation: Conversation,
        recording: Recording,
        episode: Episode,
        turn: Turn,
        calls: Sequence[ParsedCall],
    ) -> RolloutEnd | None:
        """Execute calls concurrently and insert their replies for the model to read."""
        begun = recording.clock()
        with self._activity.during(Phase.TOOLS):
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._call(episode, call, recording.clock)) for call in calls
                ]
        runs = [task.result() for task in tasks]
        recording.add_tool_time(recording.clock() - begun)
        turn.calls += (run.record for run in runs)
        for record in (run.record for run in runs):
            if record.cause is not None:
                message = f"{record.name}: {record.error}"
                lost = LeftOut(source=record.name, cause=record.cause, message=message)
                return RolloutEnd(FinishReason.TOOL_UNAVAILABLE, message, left_out=lost)
        if any(each.done for each in episode.environments):
            return RolloutEnd(FinishReason.ENVIRONMENT_DONE)
        if self._settings.on_tool_error is OnToolError.STOP:
            failed = next((run.record for run in runs if run.record.outcome.is_error), None)
            if failed is not None:
                return RolloutEnd(FinishReason.TOOL_ERROR, f"{failed.name}: {failed.error}")
        return None if conversation.reply(runs) else RolloutEnd(FinishReason.REPLY_TOO_LONG)

    async def _call(
        self, episode: Episode, call: ParsedCall, clock: Callable[[], float]
    ) -> CallRun:
        started = clock()
        reply = await episode.call(call.name, call.arguments)
        answered = reply.outcome is CallOutcome.ANSWERED
        record = ToolCallRecord(
            name=call.name,
            arguments=call.arguments,
            outcome=reply.outcome,
            reply=reply.text[:KEPT_REPLY_CHARACTERS] if answered else None,
            reply_characters=len(reply.text) if answered else 0,
            error=reply.error,
            cause=reply.cause,
            failures=reply.failures,
            attempts=reply.attempts,
            started=started,
            seconds=clock() - started,
            run=reply.run,
        )
        settings = self._settings
        limit, side = settings.max_tool_response_length, settings.tool_response_truncate_side
        return CallRun(record, truncated(reply.text, limit, side))


def _engine_failed(error: EngineFailed) -> RolloutEnd:
    """The engine gave no turn; a request that it rejected is the sample's own failure."""
    lost = None
    cause = cause_of(error) or (InfrastructureCause.SERVICE_ERROR if error.status is None else None)
    if cause is not None:
        lost = LeftOut(source=ENGINE, cause=cause, message=error.message)
    return RolloutEnd(FinishReason.ENGINE_FAILED, error.message, error.status, lost)


def _failures(recording: Recording, ending: RolloutEnd) -> Counter[str]:
    """Failures of the infrastructure in one play, by source."""
    failures: Counter[str] = Counter()
    for call in (call for turn in recording.turns for call in turn.calls):
        failures[call.name] += call.failures
    # Calls count their own; a session that could not be opened leaves a rollout without turns.
    is_counted = ending.reason is FinishReason.TOOL_UNAVAILABLE and bool(recording.turns)
    if ending.left_out is not None and not is_counted:
        failures[ending.left_out.source] += 1
    return +failures


def _first(error: Exception) -> Exception:
    """The first error inside exception groups of concurrent tasks."""
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


def allowed_calls(settings: MultiTurn, turns: Sequence[Turn]) -> int:
    """How many more calls may be executed after ``turns``."""
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
