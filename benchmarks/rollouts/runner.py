"""Ways to run many conversations: our loop, a lockstep loop, and completions alone."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from benchmarks.rollouts.conversations import Conversation
from benchmarks.rollouts.engines import Pace, ScriptedEngine
from benchmarks.rollouts.tools import REPLY, DrawnLatency
from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.datasets.append_log import AppendLog
from services.inference.token_engine.base import TurnSampling
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.loop import Rollouts
from services.rollouts.models.tokens import TokenModel
from services.rollouts.parsers import parser_of

SETTINGS = MultiTurn(multi_turn_enable=True, max_total_response_length=16_384)
SAMPLING = RolloutSampling(max_tokens=16_384)

Item = TypeVar("Item")


@dataclass(frozen=True)
class Stage:
    """Where conversations run: the model's chat tokens and folder, the concurrency, and a file for
    the loop's records."""

    chat: ChatTokens
    tokenizer: Path
    in_flight: int
    records: Path


@dataclass(frozen=True)
class Timing:
    """The cost of a run; ``cpu_seconds`` are this process's, ``engine_cpu_seconds`` the engine's,
    and ``model_seconds`` each conversation's time spent waiting for the model."""

    seconds: float
    cpu_seconds: float
    engine_cpu_seconds: float
    tokens: int
    model_seconds: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Return sampled tokens per second."""
        return self.tokens / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Return sampled tokens per second of CPU time of all processes."""
        return self.tokens / (self.cpu_seconds + self.engine_cpu_seconds)


async def play(conversations: Sequence[Conversation], stage: Stage, pace: Pace) -> Timing:
    """Run our loop, with each trajectory appended to a file as in jobs."""
    engine = ScriptedEngine(conversations, stage.tokenizer, pace)
    model = TokenModel(engine, stage.chat, SETTINGS, SAMPLING)
    rollouts = Rollouts(model, DrawnLatency(conversations), SETTINGS)
    with AppendLog[Trajectory](stage.records, end=0) as log:

        async def one(conversation: Conversation) -> None:
            trajectory = await rollouts.play(
                conversation.prompt, trajectory_id=conversation.session
            )
            assert trajectory.finish_reason is FinishReason.ANSWERED, trajectory.error
            assert len(trajectory.turns) == len(conversation.turns)
            log.append(trajectory)

        timing = await timed(for_each(conversations, one, stage.in_flight), pace)
    return replace(timing, model_seconds=dict(engine.model_seconds))


async def play_in_lock_step(
    conversations: Sequence[Conversation], stage: Stage, pace: Pace
) -> Timing:
    """Have all conversations of a batch sample a turn, then wait for the slowest tool."""
    engine = ScriptedEngine(conversations, stage.tokenizer, pace)
    toolbox, parser = DrawnLatency(conversations), parser_of(SETTINGS.tool_parser_format)

    async def write(session: str, tokens: list[int]) -> list[int]:
        sampling = TurnSampling(max_tokens=SAMPLING.max_tokens, session=session)
        return list((await engine.generate(tokens, sampling)).token_ids)

    async def batch(conversations: Sequence[Conversation]) -> None:
        open_ = {
            each.session: stage.chat.prompt(each.prompt.messages, toolbox.schemas)
            for each in conversations
        }
        while open_:
            turns = await asyncio.gather(*(write(*item) for item in open_.items()))
            calling = [
                (session, turn, call)
                for session, turn in zip(open_, turns, strict=True)
                for call in parser.parse(stage.chat.text(turn)).calls
            ]
            replies = await asyncio.gather(
                *(toolbox.call(call.name, call.arguments) for _, _, call in calling)
            )
            open_ = {
                session: open_[session] + turn + stage.chat.replies(turn, [reply.text])
                for (session, turn, _), reply in zip(calling, replies, strict=True)
            }

    async def batches() -> None:
        for start in range(0, len(conversations), stage.in_flight):
            await batch(conversations[start : start + stage.in_flight])

    return await timed(batches(), pace)


async def complete(conversations: Sequence[Conversation], stage: Stage, pace: Pace) -> Timing:
    """Send the completion requests of the same conversations, and nothing else."""
    engine = ScriptedEngine(conversations, stage.tokenizer, pace)
    requests = [_requests(each, stage.chat, engine) for each in conversations]

    async def one(chain: list[tuple[list[int], int]]) -> None:
        for tokens, count in chain:
            await pace.sample(tokens, TurnSampling(max_tokens=count))

    return await timed(for_each(requests, one, stage.in_flight), pace)


def _requests(
    conversation: Conversation, chat: ChatTokens, engine: ScriptedEngine
) -> list[tuple[list[int], int]]:
    tokens = chat.prompt(conversation.prompt.messages, DrawnLatency.schemas)
    requests = []
    for turn in engine.turns(conversation.session):
        requests.append((tokens, len(turn)))
        tokens = [*tokens, *turn, *chat.replies(turn, [REPLY])]
    return requests


async def for_each(
    items: Iterable[Item], work: Callable[[Item], Awaitable[None]], in_flight: int
) -> None:
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(worker())


async def timed(work: Awaitable[None], pace: Pace) -> Timing:
    tokens, engine_cpu = pace.sampled, pace.cpu_seconds()
    begun, cpu = time.perf_counter(), time.process_time()
    await work
    return Timing(
        seconds=time.perf_counter() - begun,
        cpu_seconds=time.process_time() - cpu,
        engine_cpu_seconds=pace.cpu_seconds() - engine_cpu,
        tokens=pace.sampled - tokens,
    )
