"""The multi-turn loop: sample a turn, execute its tool calls, insert their truncated replies,
repeat."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from services.contracts.errors import InvalidRequest
from services.contracts.multi_turn import (
    CountedCalls,
    MultiTurn,
    OnToolError,
    RolloutSampling,
    TruncateSide,
)
from services.contracts.trajectories import (
    KEPT_REPLY_CHARACTERS,
    CallOutcome,
    FinishReason,
    MalformedCall,
    ToolCallRecord,
    Trajectory,
    Turn,
)
from services.core.ids import new_id
from services.inference.token_engine.base import EngineFailed, TokenEngine, TurnSampling
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.parsers import ParsedCall, parser_of
from services.rollouts.prompts import Prompt
from services.rollouts.recording import CallRun, Recording, RolloutEnd
from services.rollouts.tools.base import Toolbox

_log = logging.getLogger(__name__)


def validate_multi_turn(settings: MultiTurn, sampling: RolloutSampling) -> None:
    """Raise InvalidRequest for conflicting settings or an unknown parser; ``param`` names the
    field, as in ``multi_turn.async_engine``."""
    parser_of(settings.tool_parser_format)
    if not settings.multi_turn_enable:
        return
    if not settings.async_engine:
        raise InvalidRequest(
            "async_engine must be true where multi_turn_enable is", param="multi_turn.async_engine"
        )
    total = settings.max_total_response_length
    if total is not None and total < sampling.max_tokens:
        raise InvalidRequest(
            f"max_total_response_length must be at least the sampling's max_tokens,"
            f" {sampling.max_tokens}; it is {total}",
            param="multi_turn.max_total_response_length",
        )


class Rollouts:
    """Plays conversations, many concurrently.

    ``stop_token_ids`` end a turn in addition to those of the chat template. ``context_length``
    bounds prompt plus response in tokens; None leaves that check to the engine. Raises what
    `validate_multi_turn` raises.
    """

    def __init__(
        self,
        engine: TokenEngine,
        chat: ChatTokens,
        toolbox: Toolbox,
        settings: MultiTurn,
        sampling: RolloutSampling,
        *,
        stop_token_ids: Sequence[int] = (),
        context_length: int | None = None,
    ) -> None:
        validate_multi_turn(settings, sampling)
        self._engine = engine
        self._chat = chat
        self._toolbox = toolbox
        self._parser = parser_of(settings.tool_parser_format)
        self._settings = settings
        self._sampling = sampling
        self._schemas = toolbox.schemas if settings.multi_turn_enable else ()
        self._stop_token_ids = tuple(dict.fromkeys((*chat.stop_token_ids, *stop_token_ids)))
        self._context_length = context_length

    async def play(
        self,
        prompt: Prompt,
        *,
        sample_index: int = 0,
        seed: int | None = None,
        trajectory_id: str | None = None,
    ) -> Trajectory:
        """Play one rollout to its end. Failures are recorded in the trajectory: only
        ``CancelledError`` is raised.

        The same ``seed`` may be used for many rollouts: each turn of each sample derives its own.
        """
        recording = Recording(
            trajectory_id or new_id("traj"), prompt, self._schemas, sample_index, seed
        )
        try:
            ending = self._begin(recording, prompt)
            while ending is None:
                ending = await self._turn(recording)
        except EngineFailed as error:
            ending = RolloutEnd(FinishReason.ENGINE_FAILED, error.message)
        except Exception as error:
            _log.exception("the rollout of prompt %d failed", prompt.index)
            cause = _first(error)
            ending = RolloutEnd(FinishReason.INTERNAL_ERROR, f"{type(cause).__name__}: {cause}")
        return recording.trajectory(ending)

    def _begin(self, recording: Recording, prompt: Prompt) -> RolloutEnd | None:
        try:
            tokens = self._chat.prompt(prompt.messages, self._schemas)
        except InvalidRequest as error:
            return RolloutEnd(FinishReason.PROMPT_REFUSED, error.message)
        recording.prompt_token_ids = tokens
        recording.budget = self._settings.max_total_response_length or self._sampling.max_tokens
        if self._context_length is not None:
            recording.budget = min(recording.budget, self._context_length - len(tokens))
        if recording.budget <= 0:
            problem = f"its {len(tokens)} tokens fill the context of {self._context_length}"
            return RolloutEnd(FinishReason.PROMPT_REFUSED, problem)
        return None

    async def _turn(self, recording: Recording) -> RolloutEnd | None:
        """One turn of the model and its calls; None while the conversation continues."""
        turn = await self._sample(recording)
        if turn.finish_reason == "abort":
            return RolloutEnd(FinishReason.ENGINE_FAILED, "the engine aborted the turn")
        calls = self._calls_of(turn)
        if not calls:
            ended = turn.finish_reason == "stop"
            return RolloutEnd(FinishReason.ANSWERED if ended else FinishReason.LENGTH)
        kept = calls[: allowed_calls(self._settings, recording.turns)]
        if recording.tokens_left <= 0:
            turn.calls += map(dropped, calls)
            return RolloutEnd(FinishReason.LENGTH)
        if not kept:
            turn.calls += map(dropped, calls)
            return RolloutEnd(FinishReason.CALLS_SPENT)
        ending = await self._reply(recording, turn, kept)
        turn.calls += map(dropped, calls[len(kept) :])
        return ending

    async def _sample(self, recording: Recording) -> Turn:
        sampling = self._sampling
        started = recording.clock()
        sampled = await self._engine.generate(
            recording.prompt_token_ids + recording.tokens.ids,
            TurnSampling(
                max_tokens=recording.tokens_left,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                min_p=sampling.min_p,
                stop=tuple(sampling.stop or ()),
                stop_token_ids=self._stop_token_ids,
                seed=recording.turn_seed(),
                session=recording.trajectory_id,
            ),
        )
        return recording.add_turn(self._chat.text(sampled.token_ids), sampled, started)

    def _calls_of(self, turn: Turn) -> tuple[ParsedCall, ...]:
        if not self._settings.multi_turn_enable:
            return ()
        parsed = self._parser.parse(turn.text, self._schemas)
        turn.malformed += (
            MalformedCall(text=bad.text, reason=bad.reason) for bad in parsed.malformed
        )
        return parsed.calls

    async def _reply(
        self, recording: Recording, turn: Turn, calls: Sequence[ParsedCall]
    ) -> RolloutEnd | None:
        """Execute calls concurrently and insert their replies for the model to read."""
        begun = recording.clock()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._call(call, recording.clock)) for call in calls]
        runs = [task.result() for task in tasks]
        recording.add_tool_time(recording.clock() - begun)
        turn.calls += (run.record for run in runs)
        if self._settings.on_tool_error is OnToolError.STOP:
            failed = next((run.record for run in runs if run.record.outcome.is_error), None)
            if failed is not None:
                return RolloutEnd(FinishReason.TOOL_ERROR, f"{failed.name}: {failed.error}")
        sampled = recording.tokens.ids[turn.token_start :]
        inserted = self._chat.replies(
            sampled, [run.shown for run in runs], [run.record.name for run in runs]
        )
        if len(inserted) >= recording.tokens_left:
            return RolloutEnd(FinishReason.REPLY_TOO_LONG)
        recording.insert_replies(inserted, runs)
        return None

    async def _call(self, call: ParsedCall, clock: Callable[[], float]) -> CallRun:
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
        limit, side = settings.max_tool_response_length, settings.tool_response_truncate_side
        return CallRun(record, truncated(reply.text, limit, side))


def _first(error: Exception) -> Exception:
    """The first error inside exception groups of concurrent tasks."""
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


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
